//! The engine's house: a reserve whose frames are copied in two halves, so that a clause can let another thread in
//! between them.

use super::{CopyEvent, EventOutcome, House, PoolPages, page};
use framewright::platform::{FramePlatform, ReservePlatform};
use framewright::reserve::{Guest, PoolConfig, PoolId, Reserve, ReserveLayout, Store};
use framewright::{CpuId, Frame, Run};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

/// What the working thread and the one that is let in tell each other.
#[derive(Default)]
struct Talk {
    armed: Option<CopyEvent>,
    asked: Option<CopyEvent>,
    is_running: bool,
    is_waiting: bool,
    outcome: Option<EventOutcome>,
    is_over: bool,
}

/// Frames that are copied in two halves; another thread may be let in between them.
struct HalfCopies {
    frames: Vec<[AtomicU64; 512]>,
    talk: Mutex<Talk>,
    changed: Condvar,
    other: OnceLock<ThreadId>,
}

impl HalfCopies {
    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, mut condition: impl FnMut(&mut Talk) -> bool) -> MutexGuard<'_, Talk> {
        let talk = self.changed.wait_while(self.talk(), |talk| condition(talk));
        talk.unwrap_or_else(PoisonError::into_inner)
    }

    /// Called in the middle of a copy.
    fn let_in(&self) {
        let mut talk = self.talk();
        let Some(event) = talk.armed.take() else {
            return;
        };
        talk.asked = Some(event);
        (talk.is_running, talk.is_waiting) = (true, false);
        drop(talk);
        self.changed.notify_all();
        // The other thread ends, or waits for this copy.
        drop(self.wait_while(|talk| talk.is_running && !talk.is_waiting));
    }

    fn frame(&self, frame: Frame) -> &[AtomicU64; 512] {
        &self.frames[frame.0 as usize]
    }
}

impl FramePlatform for &HalfCopies {
    fn relax(&self, _attempt: u32) {
        if self.other.get() == Some(&thread::current().id()) {
            self.talk().is_waiting = true;
            self.changed.notify_all();
        }
        thread::yield_now();
    }
}

impl ReservePlatform for &HalfCopies {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        let words = self.frame(frame);
        for (n, (to, from)) in words.iter().zip(page).enumerate() {
            if n == 256 {
                self.let_in();
            }
            to.store(*from, Relaxed);
        }
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        let words = self.frame(frame);
        for (n, (to, from)) in page.iter_mut().zip(words).enumerate() {
            if n == 256 {
                self.let_in();
            }
            *to = from.load(Relaxed);
        }
    }
}

type HouseReserve<'h, 'm> = Reserve<'m, &'h HalfCopies>;

/// The engine's reserve as a house.
struct ReserveHouse<'r, 'h, 'm> {
    reserve: &'r HouseReserve<'h, 'm>,
    guest: Guest<'r, 'm, &'h HalfCopies>,
    halves: &'h HalfCopies,
}

impl House for ReserveHouse<'_, '_, '_> {
    fn frames(&self) -> u64 {
        self.reserve.run().frames()
    }

    fn open_pool(&mut self, pages: PoolPages) -> Option<PoolId> {
        self.reserve.open_pool(&match pages {
            PoolPages::Exclusive => PoolConfig::CLEAN,
            PoolPages::Staying => PoolConfig {
                exclusive: false,
                ..PoolConfig::CLEAN
            },
            PoolPages::Dirty => PoolConfig::SWAP,
        })
    }

    fn store(&mut self) -> &mut dyn Store {
        &mut self.guest
    }

    fn take(&mut self, frames: u64) -> Option<Run> {
        self.reserve.alloc_contig(frames, 1).ok()
    }

    fn release(&mut self, run: Run) {
        self.reserve.release(run).expect("the owner's run");
    }

    fn is_filled(&self, run: Run, word: u64) -> bool {
        let mut frames = (run.start().0..run.end().0).map(|frame| self.halves.frame(Frame(frame)));
        frames.all(|frame| frame.iter().all(|is| is.load(Relaxed) == word))
    }

    fn during_next_copy(&mut self, event: CopyEvent) -> bool {
        self.halves.talk().armed = Some(event);
        true
    }

    fn outcome(&mut self) -> Option<EventOutcome> {
        let mut talk = self.halves.wait_while(|talk| talk.is_running);
        talk.armed = None;
        talk.outcome.take()
    }
}

/// The thread that is let in.
fn other(reserve: &HouseReserve<'_, '_>, halves: &HalfCopies) {
    halves.other.get_or_init(|| thread::current().id());
    let mut guest = reserve.guest(CpuId(1)).expect("the second seat");
    loop {
        let mut talk = halves.wait_while(|talk| talk.asked.is_none() && !talk.is_over);
        let Some(event) = talk.asked.take() else {
            return;
        };
        drop(talk);
        let outcome = match event {
            CopyEvent::InvalidatePage(key) => {
                guest.invalidate_page(key);
                EventOutcome::Done
            }
            CopyEvent::InvalidateObject(pool, object) => {
                guest.invalidate_object(pool, object);
                EventOutcome::Done
            }
            CopyEvent::InvalidatePool(pool) => {
                guest.invalidate_pool(pool);
                EventOutcome::Done
            }
            CopyEvent::Put(key, stamp) => {
                EventOutcome::Stored(guest.put(key, &page(stamp)).is_ok())
            }
            CopyEvent::Take(frames, word) => {
                let run = reserve.alloc_contig(frames, 1).ok();
                for frame in run.iter().flat_map(|run| run.start().0..run.end().0) {
                    let words = halves.frame(Frame(frame)).iter();
                    words.for_each(|to| to.store(word, Relaxed));
                }
                EventOutcome::Taken(run)
            }
        };
        let mut talk = halves.talk();
        (talk.outcome, talk.is_running) = (Some(outcome), false);
        drop(talk);
        halves.changed.notify_all();
    }
}

/// Ends the other thread, even if the work panics.
struct Over<'h>(&'h HalfCopies);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.talk().is_over = true;
        self.0.changed.notify_all();
    }
}

/// Runs `work` in the engine's reserve of this many frames, with a thread that can be let in during a
/// copy.
///
/// # Panics
/// If a reserve cannot have this many frames.
pub fn in_reserve(frames: u64, work: &mut dyn FnMut(&mut dyn House)) {
    let halves = HalfCopies {
        frames: (0..frames)
            .map(|_| std::array::from_fn(|_| AtomicU64::new(0)))
            .collect(),
        talk: Mutex::default(),
        changed: Condvar::new(),
        other: OnceLock::new(),
    };
    let run = Run::new(Frame(0), frames).expect("a run");
    let layout = ReserveLayout::new(run).with_cpus(2);
    let mut words = vec![0; layout.words_needed().expect("so many frames")];
    let reserve = Reserve::new(&layout, &mut words, &halves).expect("a reserve");
    thread::scope(|scope| {
        let (reserve, halves) = (&reserve, &halves);
        scope.spawn(|| other(reserve, halves));
        let _over = Over(halves);
        work(&mut ReserveHouse {
            reserve,
            guest: reserve.guest(CpuId(0)).expect("the first seat"),
            halves,
        });
    });
}
