//! What a request that must not wait and has found nothing can know without waiting: whether one that may wait might find some.
//!
//! It adds up what CPUs count, one after another, while these work. So it believes a sum only if the counters of all that could
//! have made it wrong say the same before and after. The arena's lock orders the rest. A CPU counts what it gives to the arena
//! only after it has given it, so what was counted before a search was there for it. What a CPU gives later, the request sees
//! after its search: counted, or still where it was. A CPU counts a span or block that it takes while it holds the arena's
//! lock. So a request whose search misses the pages because they were taken before sees the count.
//!
//! Two counts come before the pages. Without recycling a block counts as given back once all of it is dirty. Until it is in the
//! arena, some of its pages are lazy or wait, or they are on their way, and the request sees that. And a drain counts a block
//! before it dissolves it. It has claimed all seats then, so the request's search comes before both or after both.

use super::super::Space;
use super::super::space::{SpaceSeatRecord, not_negative};
use super::need::PageNeed;
use crate::platform::FramePlatform;
use crate::seats::{SeatSet, Standstill};
use crate::sync::CounterWord;

/// The kind of all requests for the memo of stops. The memo remembers that a drain brought nothing.
pub(super) const DRAIN: usize = 0;

/// How often pages of a seat's went to the arena.
pub(super) fn given_to_arena(seat: &SpaceSeatRecord) -> u64 {
    let of = &seat.counters;
    [
        &of.gives,
        &of.span_returns,
        &of.block_returns,
        &of.dissolves,
    ]
    .map(CounterWord::read)
    .into_iter()
    .fold(0, u64::wrapping_add)
}

impl<P: FramePlatform> Space<'_, P> {
    /// Whether the arena has all free pages: after the last stop brought nothing, no CPU has freed an area or
    /// taken a span. Counters only grow, so if this holds now, it held at every moment since that stop.
    pub(super) fn is_exhausted(&self) -> bool {
        let memo = self.stop_words().memo;
        memo.is_in_vain(DRAIN, self.happened())
    }

    /// Whether the arena had all free pages when a search of it, after `begin`, found nothing. Not if all CPUs
    /// stood still meanwhile: their pages came to the arena then, perhaps after the search.
    pub(super) fn is_exhausted_since(&self, begin: Standstill) -> bool {
        self.is_exhausted() && self.last_standstill() == begin
    }

    /// The last moment at which all CPUs stood still and were drained. A request asks before it searches.
    pub(super) fn last_standstill(&self) -> Standstill {
        self.stop_words().memo.last()
    }

    /// Whether a request that may wait might have what it needs, although one that must not has found none: so it says
    /// [`WouldWait`](super::super::RangeError::WouldWait). It might not if there are [too few pages](Self::has_too_few); or if
    /// all that are free were in the arena while the request searched that. `changes` and `begin` are of before; but
    /// `changes` has what this CPU itself gave to the arena before the search.
    pub(super) fn may_have_after_a_wait(
        &self,
        need: &PageNeed,
        changes: u64,
        begin: Standstill,
    ) -> bool {
        // No drain has looked at deferred areas that came since.
        if self.has_any_deferred() {
            return true;
        }
        if self.is_exhausted_since(begin) || self.has_too_few(need) {
            return false;
        }
        // The changes last: what this does not see elsewhere, it sees there.
        let is_all_in_arena = !self.has_spare() && !self.has_spans();
        !is_all_in_arena || self.changes() != changes
    }

    /// Whether all pages that are free, lazy or kept are too few for a request, however they lie.
    pub(super) fn has_too_few(&self, need: &PageNeed) -> bool {
        let changes = self.changes();
        let live = self.all_seats().map(|seat| seat.live.get());
        let live = not_negative(live.fold(0, u64::wrapping_add));
        let others = self.pages().saturating_sub(live);
        // Deferred areas count as live. And if one CPU frees while another allocates, a sum of both may have the new area
        // and the old one.
        others < u64::from(need.pages + need.before)
            && !self.has_any_deferred()
            && self.changes() == changes
    }

    fn has_any_deferred(&self) -> bool {
        self.has_deferred() || self.all_seats().any(|seat| seat.defers())
    }

    /// What [happened](SeatSet::happened), and how often pages came to the arena. If it is the same later, none of these
    /// counters has changed, because each only grows.
    pub(super) fn changes(&self) -> u64 {
        let given = self.all_seats().map(given_to_arena);
        self.happened()
            .wrapping_add(given.fold(0, u64::wrapping_add))
    }

    /// Whether some span or vmap block is a CPU's, or on its way to the arena.
    fn has_spans(&self) -> bool {
        let counters = self.all_seats().map(|seat| &seat.counters);
        let held = counters.map(|of| {
            let taken = of.span_takes.read().wrapping_add(of.block_takes.read());
            let given = of.span_returns.read().wrapping_add(of.block_returns.read());
            taken.wrapping_sub(given).wrapping_sub(of.dissolves.read())
        });
        held.fold(0, u64::wrapping_add) != 0
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    extern crate std;

    use super::super::super::{RangeSeat, SpaceLayout};
    use super::super::AreaRequest;
    use super::*;
    use crate::platform::{MapError, RangePlatform, TableSource};
    use crate::policy::RangeConfig;
    use crate::units::{Context, CpuId, Frame, Page, PageAccess, PageRange, Run};
    use std::vec;

    const PAGES: u64 = 512;

    /// Maps nothing, and refuses this frame.
    struct QuietPages;
    const REFUSED: Frame = Frame(7);

    impl FramePlatform for QuietPages {
        const ASYMMETRIC: bool = true;
        const ALONE: bool = true;

        fn relax(&self, attempt: u32) {
            assert!(attempt < 1000, "one thread waits for itself");
        }

        fn barrier_all(&self) {}
    }

    impl RangePlatform for QuietPages {
        fn map(
            &self,
            _at: Page,
            frames: Run,
            _access: PageAccess,
            _tables: &mut impl TableSource,
        ) -> Result<(), MapError> {
            match frames.start() == REFUSED {
                true => Err(MapError::NoMemory),
                false => Ok(()),
            }
        }

        fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
            Ok(())
        }

        fn flush_all(&self) {}

        fn zero(&self, _frames: Run) {}
    }

    type QuietSeat<'s, 'm> = RangeSeat<'s, 'm, QuietPages, ()>;

    /// Runs `test` with the seats of two CPUs, of which the second one acts between the steps of the first one's request.
    fn between_steps(
        recycle: bool,
        test: impl FnOnce(&Space<'_, QuietPages>, &mut QuietSeat<'_, '_>),
    ) {
        let layout = SpaceLayout::new(Page(1 << 20), PAGES)
            .with_cpus(2)
            .with_span_pages(64);
        let config = RangeConfig {
            recycle,
            ..RangeConfig::for_cpus(2).kept()
        };
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let space = Space::new(&layout, &config, &mut memory, QuietPages).unwrap();
        let mut other = space.seat(CpuId(1), ()).unwrap();
        test(&space, &mut other);
        space.verify().unwrap();
    }

    fn need(space: &Space<'_, QuietPages>, pages: u64) -> PageNeed {
        PageNeed::of(&AreaRequest::new(pages), space.start(), PAGES).unwrap()
    }
    #[test]
    fn v8_what_came_to_the_arena_after_a_search_might_have_served_the_request() {
        between_steps(false, |space, other| {
            let lazy = other.alloc_area(&AreaRequest::new(40)).unwrap();
            other.free_area(lazy).unwrap();
            assert!(space.has_spare());
            let (changes, begin) = (space.changes(), space.last_standstill());
            // Here the request searches the arena.
            other.purge();
            assert!(!space.has_spare() && !space.has_spans());
            let need = need(space, 490);
            assert!(space.may_have_after_a_wait(&need, changes, begin));
            assert!(!space.may_have_after_a_wait(&need, space.changes(), begin));
        });
    }

    #[test]
    fn v8_a_span_that_came_to_the_arena_after_a_search_might_have_served_the_request() {
        between_steps(false, |space, other| {
            let low = other.alloc_area(&AreaRequest::new(100)).unwrap();
            let small = other.alloc_area(&AreaRequest::new(3)).unwrap();
            let high = other.alloc_area(&AreaRequest::new(100)).unwrap();
            for area in [low, small] {
                other.free_area(area).unwrap();
            }
            other.purge();
            let (changes, begin) = (space.changes(), space.last_standstill());
            assert!(!space.has_spare() && space.has_spans());
            // Here the request searches the arena. The other CPU gives its span back for one of its own, which fails.
            let of_other = AreaRequest::new(250).within(Context::NOWAIT);
            assert!(other.alloc_area(&of_other).is_err());
            assert!(!space.has_spare() && !space.has_spans());
            let need = need(space, 180);
            assert!(space.may_have_after_a_wait(&need, changes, begin));
            assert!(!space.may_have_after_a_wait(&need, space.changes(), begin));
            other.free_area(high).unwrap();
        });
    }

    #[test]
    fn a_block_whose_only_slot_was_not_mapped_serves_a_request_that_must_not_wait() {
        between_steps(true, |space, other| {
            assert!(other.map_ram(&[REFUSED], Context::ANY).is_err());
            other.purge();
            let all = AreaRequest::new(PAGES - 1).within(Context::NOWAIT);
            let at = other.alloc_area(&all);
            assert_eq!(at, Ok(space.start()));
            other.free_area(space.start()).unwrap();
        });
    }
}
