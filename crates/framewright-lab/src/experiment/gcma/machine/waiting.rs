//! How long owners wait: for pages that are read or written just now, and for guests' copies.

use framewright::Frame;
use framewright::frame::FrameSource;
use framewright::platform::{FramePlatform, ReservePlatform};
use framewright::reclaim::{Ask, Discard, Migrate, Move, MoveState, Shrink, Shrunk};
use framewright_linux::Stored;
use framewright_linux::file_cache::FileCache;
use framewright_linux::paged::Paged;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Nanoseconds that owners have waited.
#[derive(Debug, Clone, Default)]
pub(in crate::experiment::gcma) struct Waited(Arc<AtomicU64>);

impl Waited {
    pub(super) fn ns(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Runs `work`, which is nothing but waiting. What waits within it is not counted once more.
    fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let begun = Instant::now();
        let was_owner = OWNER.replace(false);
        let result = work();
        OWNER.set(was_owner);
        self.0.fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
        result
    }
}

/// A client of the area that may be reading or writing a page when an owner wants its frame.
pub(super) trait AwaitFrame {
    /// Waits until the client has finished with `frame`. Returns whether there was anything to wait for.
    fn await_frame(&self, frame: Frame) -> bool;

    /// Whether the client may have a page in a moment for a frame that it calls unknown now.
    const HAS_UNKNOWN: bool;
}

impl AwaitFrame for FileCache<'_> {
    const HAS_UNKNOWN: bool = false;

    fn await_frame(&self, frame: Frame) -> bool {
        self.await_frame(frame)
    }
}

impl AwaitFrame for Paged<'_> {
    /// A page on its way in has a frame already, but the region does not know the frame until the page is there.
    const HAS_UNKNOWN: bool = true;

    fn await_frame(&self, frame: Frame) -> bool {
        self.await_frame(frame)
    }
}

/// A client, as Linux's CMA meets it: `migrate_pages` waits for a page that is locked because it is read, and for one
/// that is being written (`MIGRATE_SYNC`), and then tries again. What is dirty moves without being written, as
/// with ext4 (`buffer_migrate_page`).
pub(super) struct Synchronous<'a, C: ?Sized> {
    client: &'a C,
    waited: &'a Waited,
}

impl<'a, C: ?Sized> Synchronous<'a, C> {
    pub(super) const fn new(client: &'a C, waited: &'a Waited) -> Self {
        Self { client, waited }
    }
}

impl<C: AwaitFrame + Migrate> Migrate for Synchronous<'_, C> {
    fn migrate(&self, moves: &mut [Move]) {
        self.client.migrate(moves);
        for one in moves.iter() {
            let may_wait = match one.state {
                MoveState::Busy => true,
                MoveState::Unknown => C::HAS_UNKNOWN,
                MoveState::Moved | MoveState::Pinned => false,
            };
            if may_wait {
                // It is offered again in the next pass.
                self.waited.during(|| self.client.await_frame(one.from));
            }
        }
    }

    fn discard(&self, blocks: &mut [Discard]) {
        self.client.discard(blocks);
    }
}

impl<F: FrameSource, C: Shrink<F> + ?Sized> Shrink<F> for Synchronous<'_, C> {
    fn holding(&self) -> u64 {
        self.client.holding()
    }

    fn heat(&self) -> u8 {
        self.client.heat()
    }

    /// Room for what moves or is put back: until it is there the request waits.
    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
        self.waited.during(|| self.client.shrink(frames, ask))
    }
}

thread_local! {
    /// Whether this thread is in an owner's call.
    static OWNER: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, an owner's call.
pub(super) fn as_owner<R>(work: impl FnOnce() -> R) -> R {
    OWNER.set(true);
    let result = work();
    OWNER.set(false);
    result
}

/// The platform of a reserve, which counts for how long owners wait.
#[derive(Debug, Clone)]
pub(super) struct Clocked {
    stored: Stored,
    waited: Waited,
}

impl Clocked {
    pub(super) fn new(stored: Stored) -> Self {
        Self {
            stored,
            waited: Waited::default(),
        }
    }

    pub(super) const fn waited(&self) -> &Waited {
        &self.waited
    }
}

impl FramePlatform for Clocked {
    fn relax(&self, attempt: u32) {
        if OWNER.get() {
            self.waited.during(|| self.stored.relax(attempt));
        } else {
            self.stored.relax(attempt);
        }
    }
}

impl ReservePlatform for Clocked {
    #[inline]
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        self.stored.store(frame, page);
    }

    #[inline]
    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        self.stored.load(frame, page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::frame::ZoneLayout;
    use framewright::{Context, Order};
    use framewright_linux::{Host, Options};
    use std::sync::Mutex;
    use std::time::Duration;

    /// Pages of which the first is being written until a caller has waited for it.
    #[derive(Default)]
    struct SlowPages {
        awaited: Mutex<Vec<Frame>>,
    }

    impl AwaitFrame for SlowPages {
        const HAS_UNKNOWN: bool = true;

        fn await_frame(&self, frame: Frame) -> bool {
            self.awaited.lock().unwrap().push(frame);
            true
        }
    }

    impl Migrate for SlowPages {
        fn migrate(&self, moves: &mut [Move]) {
            let written = self.awaited.lock().unwrap().contains(&Frame(0));
            let states = [
                if written {
                    MoveState::Moved
                } else {
                    MoveState::Busy
                },
                MoveState::Pinned,
                MoveState::Unknown,
            ];
            for (one, state) in moves.iter_mut().zip(states) {
                one.state = state;
            }
        }
    }

    /// A client of reclaim that takes its time, and waits meanwhile as owners wait.
    struct SlowClient<'w>(&'w Waited);

    impl<F: FrameSource> Shrink<F> for SlowClient<'_> {
        fn holding(&self) -> u64 {
            1
        }

        fn shrink(&self, _frames: &mut F, _ask: &Ask) -> Shrunk {
            let wait = || std::thread::sleep(Duration::from_millis(2));
            if OWNER.get() {
                self.0.during(wait);
            } else {
                wait();
            }
            Shrunk::default()
        }
    }

    #[test]
    fn reclaim_that_makes_room_is_waiting_and_what_waits_within_it_counts_once() {
        let host = Host::new(&Options::new(ZoneLayout::new(Frame(0), 1024))).unwrap();
        let waited = Waited::default();
        let slow = SlowClient(&waited);
        let client: &dyn Shrink<_> = &slow;
        let client = Synchronous::new(client, &waited);
        let ask = Ask {
            wanted: 1,
            scan: 1,
            order: Order::ZERO,
            context: Context::ANY,
        };
        let begun = Instant::now();
        as_owner(|| {
            client.shrink(&mut host.seat().unwrap(), &ask);
            assert!(OWNER.get(), "the call goes on");
        });
        let took = begun.elapsed().as_nanos() as u64;
        assert!((2_000_000..=took).contains(&waited.ns()), "{}", waited.ns());
    }

    #[test]
    fn what_is_written_is_waited_for_and_moves_in_the_next_pass_and_a_pin_is_not() {
        let (pages, waited) = (SlowPages::default(), Waited::default());
        let client = Synchronous::new(&pages, &waited);
        let mut moves: [Move; 3] = std::array::from_fn(|nth| Move {
            from: Frame(nth as u64),
            to: Frame(100 + nth as u64),
            order: Order::ZERO,
            state: MoveState::Unknown,
        });
        client.migrate(&mut moves);
        assert_eq!(moves[0].state, MoveState::Busy);
        assert_eq!(*pages.awaited.lock().unwrap(), [Frame(0), Frame(2)]);
        client.migrate(&mut moves);
        assert_eq!(moves[0].state, MoveState::Moved);
        assert!(!pages.awaited.lock().unwrap().contains(&Frame(1)));
    }
}
