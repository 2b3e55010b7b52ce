//! Lazy pages that are counted while no seat is busy with them.
//!
//! The counts of lazy pages change only in a busy seat, together with the pages that they count. So
//! with all CPUs stopped they agree (V6), but for two kinds of pages, for which a call leaves its
//! seat in between. Each kind has a word in the seat, which says how many they are:
//!
//! - *promised*: reported, so that there is room for them below the bound, and not lazy yet. A
//!   caller that may not wait promises what it would leave if it could map only a part; a free that
//!   finds no room promises its area, and purges other CPUs' pages meanwhile.
//! - *above* the bound: lazy, of an area for which no CPU could make room. Its free purges it before
//!   it returns.
//!
//! Inside its seat a call may have *reported* pages that are not lazy yet. That is over when it leaves the seat.
//!
//! If the wait for another CPU unwinds out of such a free, the words say so until the seat's next
//! free or purge ends them.

use super::super::RangeSeat;
use super::super::error::Poisoned;
use super::super::seat::Held;
use super::super::space::Space;
use crate::frame::FrameSource;
use crate::platform::{OrElse, Patience, RangePlatform};

impl<P> Held<'_, '_, P> {
    /// Reports `pages` lazy pages of a call that leaves the seat before they are lazy. Returns false
    /// if there is no room for them below the bound; then nothing has changed.
    pub(in super::super) fn promise(&self, pages: u64) -> bool {
        self.end_unwound();
        let space = self.space;
        let _counting = self.words.counting();
        let fits = space.add_lazy(pages) <= space.lazy_max;
        if fits {
            self.words.promised.set(pages);
        } else {
            space.sub_lazy(pages);
        }
        fits
    }

    /// Ends what a call has left that unwound. The seat's own call has promised nothing yet.
    pub(in super::super) fn end_unwound(&self) {
        let (space, words) = (self.space, self.words);
        let promised = words.promised.get();
        if promised != 0 {
            let _counting = words.counting();
            space.sub_lazy(promised);
            words.promised.set(0);
        }
        if words.above.get() != 0 && space.told_lazy() <= space.lazy_max {
            words.above.set(0);
        }
    }
}

impl<P: RangePlatform, F: FrameSource> RangeSeat<'_, '_, P, F> {
    /// Ends a [promise](Held::promise) of that many pages; none of them is lazy. A poisoned space
    /// stays as it is.
    pub(in super::super) fn unreserve(&self, promised: u64) {
        if promised != 0 && self.enter().is_ok() {
            self.held().end_unwound();
            self.exit();
        }
    }

    /// Leaves the busy seat, in which a word says what is passing, purges other CPUs' lazy pages, and
    /// enters it again.
    pub(in super::super) fn purge_others_meanwhile(&mut self) -> Result<(), Poisoned> {
        self.exit();
        let unwound = OrElse::new(self, |seat: &mut Self| {
            // Waits for no other CPU, because a wait has just unwound.
            if seat.try_enter() {
                seat.held().end_unwound();
            }
            seat.exit();
        });
        let purged = unwound.seat.purge_others(&mut Patience::Endless);
        let entered = purged.and_then(|_| unwound.seat.enter());
        unwound.end();
        entered
    }
}

impl<'m, P> Space<'m, P> {
    /// Pages that the seats have promised.
    pub(in super::super) fn promised(&self) -> u64 {
        self.all_seats().map(|seat| seat.promised.get()).sum()
    }

    /// Pages above the bound.
    pub(in super::super) fn above(&self) -> u64 {
        self.all_seats().map(|seat| seat.above.get()).sum()
    }
}
