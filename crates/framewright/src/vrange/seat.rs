use super::{AreaRequest, FrameSource, RangeError, RangeFreeError, Space};
use crate::platform::{Barrier, Map, Relax};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    light_fence,
};
use crate::units::{CpuId, Page};
use core::cell::Cell;
use core::marker::PhantomData;

// The words of a seat. The owner's, and those that others write, are on different cache lines.
const BUSY: usize = 0;
const CLAIMED: usize = 8;
const TAKEN: usize = 9;

/// Words of one seat: 16 cache lines, so that no two seats share one.
pub(super) const SEAT_WORDS: usize = 128;

/// The metadata of one seat.
#[derive(Clone, Copy, Debug)]
pub(super) struct SeatWords<'m> {
    words: &'m [AtomicU64; SEAT_WORDS],
}

impl<'m> SeatWords<'m> {
    pub(super) fn new(seats: &'m [AtomicU64], number: usize) -> Self {
        let start = number * SEAT_WORDS;
        let words = (&seats[start..start + SEAT_WORDS])
            .try_into()
            .expect("a seat has its words");
        Self { words }
    }

    #[inline(always)]
    pub(super) fn busy(self) -> &'m AtomicU64 {
        &self.words[BUSY]
    }

    #[inline(always)]
    pub(super) fn claimed(self) -> &'m AtomicU64 {
        &self.words[CLAIMED]
    }
}

/// A CPU's place in a space: everything that a CPU does, it does here.
///
/// Only one thread at a time can have a CPU's seat, and it cannot be used by two at once.
#[derive(Debug)]
pub struct RangeSeat<'s, 'm, P, F> {
    pub(super) space: &'s Space<'m, P>,
    pub(super) words: SeatWords<'m>,
    pub(super) frames: F,
    cpu: CpuId,
    not_sync: PhantomData<Cell<()>>,
}

impl<P, F> Drop for RangeSeat<'_, '_, P, F> {
    fn drop(&mut self) {
        // Release: the next one to take the seat sees what it has.
        self.words.words[TAKEN].store(0, Release);
    }
}

impl<'s, 'm, P: Relax + Barrier + Map, F: FrameSource> RangeSeat<'s, 'm, P, F> {
    pub(super) fn take(
        space: &'s Space<'m, P>,
        words: SeatWords<'m>,
        cpu: CpuId,
        frames: F,
    ) -> Option<Self> {
        // Acquire pairs with the Release in `drop`.
        let taken = words.words[TAKEN].swap(1, Acquire);
        // Not `then_some`: a seat that was made is given back when it is dropped.
        (taken == 0).then(|| Self {
            space,
            words,
            frames,
            cpu,
            not_sync: PhantomData,
        })
    }

    /// The space.
    #[must_use]
    pub const fn space(&self) -> &'s Space<'m, P> {
        self.space
    }

    /// The CPU whose seat it is.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.cpu
    }

    /// The source of its frames.
    #[must_use]
    pub const fn frames(&mut self) -> &mut F {
        &mut self.frames
    }

    /// From here to [`exit`](Self::exit) nobody else touches the seat, and nobody who stops all
    /// CPUs goes on. In between one must not wait for somebody who does.
    #[inline(always)]
    pub(super) fn enter(&self) {
        self.words.busy().store(1, Relaxed);
        light_fence(P::ASYMMETRIC);
        // Acquire pairs with the Release of whoever claimed the seat: what they did is seen.
        if self.words.claimed().load(Acquire) != 0 {
            self.wait_until_unclaimed();
        }
    }

    #[inline(always)]
    pub(super) fn exit(&self) {
        // Release pairs with the Acquire of whoever claims the seat.
        self.words.busy().store(0, Release);
    }

    #[cold]
    fn wait_until_unclaimed(&self) {
        let mut attempt = 0;
        loop {
            self.exit();
            while self.words.claimed().load(Acquire) != 0 {
                self.space.platform.relax(attempt);
                attempt = attempt.saturating_add(1);
            }
            self.words.busy().store(1, Relaxed);
            light_fence(P::ASYMMETRIC);
            if self.words.claimed().load(Acquire) == 0 {
                return;
            }
        }
    }

    /// Allocates address space \[`get_vm_area`\]: as many pages as asked for, and a guard page
    /// behind them. Nothing is mapped; the caller maps what it wants into the area's pages (never
    /// into the guard page).
    ///
    /// Chooses what this CPU has at hand; in the arena the lowest address. Mostly some
    /// nanoseconds; waits for nobody, unless it would fail and the context allows it: then all
    /// CPUs are stopped, everything lazy is purged, and all spans are dissolved first.
    ///
    /// # Errors
    /// The request is one that nobody can serve, or there is no gap (V8). Nothing has changed
    /// then.
    pub fn alloc_area(&mut self, request: &AreaRequest) -> Result<Page, RangeError> {
        if request.pages == 0 {
            return Err(RangeError::Empty);
        }
        if !request.align_bytes.is_power_of_two() {
            return Err(RangeError::Align {
                bytes: request.align_bytes,
            });
        }
        self.enter();
        self.exit();
        Err(RangeError::NoSpace {
            pages: request.pages,
            align_bytes: request.align_bytes,
        })
    }

    /// Frees an area made by [`alloc_area`](Self::alloc_area), by any CPU \[`remove_vm_area`\].
    /// Returns its length in pages, without the guard page.
    ///
    /// Its pages become lazy: what is mapped there stays mapped until a purge unmaps it.
    /// Mostly some nanoseconds. A free that finds too much lazy purges some.
    ///
    /// # Errors
    /// What is wrong with the page. Nothing has changed then.
    pub fn free_area(&mut self, page: Page) -> Result<u64, RangeFreeError> {
        Err(RangeFreeError::NotAllocated(page))
    }

    /// Purges what this CPU made lazy, and flushes once \[`vm_unmap_aliases`\].
    ///
    /// What the platform fails to unmap stays lazy.
    pub fn purge(&mut self) {}

    /// Purges everything, of all CPUs, and dissolves all spans: what is free is the arena's then.
    /// Stops all CPUs. O(spans).
    pub fn drain(&mut self) {}
}
