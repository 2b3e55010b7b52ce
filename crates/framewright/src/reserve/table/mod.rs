//! What is known of each frame: its state word, its descriptor and its bits, and the gate of its section of 512 frames.
//!
//! | what | a CPU that writes it |
//! |---|---|
//! | state word | a guest inside the gate, by compare-and-exchange; the CPU that has the page Filling, Loading or Writing; an owner that has shut the gate |
//! | descriptor | the CPU that has its page Filling; its links: the holder of the shard's lock (rank 3) |
//! | bits reserved, owned | an owner, under the owners' lock (rank 1) |
//! | other bits | any CPU, by one atomic operation; visited inexactly |
//! | gate | an owner shuts it (rank 2); a guest is inside by its seat's word |
//!
//! Keeps C1 and C8. `index`: where a key's page is. `eviction`: which page goes next. `pool`: pools, and the
//! generations of pools and objects.

mod eviction;
mod index;
mod pool;
mod record;

pub(super) use eviction::{EvictionQueue, EvictionShard, ShardRecord};
pub(super) use index::{Bucket, IndexBucket, LockedBucket, PageEntry, PageIndex, Ticket};

pub(super) use pool::{Born, Debt, KINDS, POOLS_MAX, PoolRecord, Pools};
pub use pool::{PoolConfig, PoolId};
pub(super) use record::{
    Descriptor, GuestCounters, GuestRecord, Lane, OwnersRecord, SECTION, SECTION_LANES,
    SectionRecord, add,
};

use crate::platform::{FramePlatform, Patience};
use crate::raw::soon_written;
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    model_fence,
};
use core::ops::Range;

/// What a frame is. That an owner has it stands in a bitmap, and the state word says `Free` then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum FrameState {
    /// It holds no page.
    Free = 0,
    /// A put is copying into it.
    Filling = 1,
    /// It holds a page that may be dropped.
    Cached = 2,
    /// A get is copying out of it, and will take the page away.
    Loading = 3,
    /// It holds a page that is not on its device.
    Dirty = 4,
    /// It holds a page that is not on its device, and a CPU is writing it.
    Writing = 5,
}

const STATE_BITS: u32 = 3;
const POOL_BITS: u32 = 9;
/// Where the generation begins: it has 52 bits. A page without a frame that is put and got away
/// again and again moves it on by three in 0.2 us, so it comes round after nine years
/// (docs/generations.md).
const GENERATION: u32 = STATE_BITS + POOL_BITS;
const _: () =
    assert!(POOLS_MAX <= 1 << POOL_BITS && (FrameState::Writing as u64) < 1 << STATE_BITS);

/// A state word: generation, pool, state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StateWord(pub(super) u64);

impl StateWord {
    pub(super) const fn state(self) -> FrameState {
        match self.0 & ((1 << STATE_BITS) - 1) {
            0 => FrameState::Free,
            1 => FrameState::Filling,
            2 => FrameState::Cached,
            3 => FrameState::Loading,
            4 => FrameState::Dirty,
            _ => FrameState::Writing,
        }
    }

    pub(super) const fn pool(self) -> usize {
        (self.0 >> STATE_BITS) as usize & ((1 << POOL_BITS) - 1)
    }

    pub(super) const fn generation(self) -> u64 {
        self.0 >> GENERATION
    }

    /// The same generation and pool in another state.
    pub(super) const fn with_state(self, state: FrameState) -> Self {
        Self(self.0 >> STATE_BITS << STATE_BITS | state as u64)
    }

    /// The next generation, in that state, of that pool.
    pub(super) const fn next(self, state: FrameState, pool: usize) -> Self {
        Self((self.generation() + 1) << GENERATION | (pool as u64) << STATE_BITS | state as u64)
    }

    /// The same state, `generations` later.
    pub(super) const fn aged(self, generations: u64) -> Self {
        Self(self.0.wrapping_add(generations << GENERATION))
    }

    /// Whether it holds a page that a get may find, or may have found.
    pub(super) const fn has_page(self) -> bool {
        !matches!(self.state(), FrameState::Free | FrameState::Filling)
    }

    /// Whether the page is not on its device.
    pub(super) const fn is_dirty(self) -> bool {
        matches!(self.state(), FrameState::Dirty | FrameState::Writing)
    }
}

/// In a gate: an owner has shut it. The bits below count owners that are inside to put a page back. A
/// guest says so in its seat's record (`inside`).
const SHUT: u64 = 1 << 63;

/// The frames of a reserve, by number; after them descriptors without a frame, and descriptors for
/// ordinary frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameTable<'m> {
    states: &'m [AtomicU64],
    descs: &'m [Descriptor],
    sections: &'m [SectionRecord],
    seats: &'m [GuestRecord],
    /// How many frames there are. Above, rounded up to sections, come pages without a frame.
    frames: usize,
    /// Descriptors from here on are for ordinary frames.
    ordinary: usize,
}

impl<'m> FrameTable<'m> {
    pub(super) const fn new(
        states: &'m [AtomicU64],
        descs: &'m [Descriptor],
        sections: &'m [SectionRecord],
        seats: &'m [GuestRecord],
        frames: usize,
        ordinary: usize,
    ) -> Self {
        Self {
            states,
            descs,
            sections,
            seats,
            frames,
            ordinary,
        }
    }

    /// How many frames there are.
    pub(super) const fn frames(&self) -> usize {
        self.frames
    }

    /// Sections of frames. The sections of descriptors without one come after them.
    pub(super) const fn frame_sections(&self) -> usize {
        self.frames.div_ceil(SECTION)
    }

    /// All sections.
    pub(super) const fn sections(&self) -> usize {
        self.sections.len()
    }

    /// Whether the descriptor has a frame.
    pub(super) const fn has_frame(&self, id: usize) -> bool {
        id < self.frames
    }

    /// Whether the descriptor is for a page in an ordinary frame.
    #[inline]
    pub(super) const fn is_ordinary(&self, id: usize) -> bool {
        id >= self.ordinary
    }

    /// The descriptors for pages in ordinary frames.
    pub(super) fn ordinary(&self) -> Range<usize> {
        self.ordinary..self.states.len()
    }

    #[inline]
    pub(super) fn state(&self, id: usize) -> StateWord {
        // Acquire pairs with the Release of the CPU that published it: the descriptor and the
        // contents.
        StateWord(self.states[id].load(Acquire))
    }

    /// The state word once more, after a copy: if it has not changed, the copy is of that
    /// generation.
    #[inline]
    pub(super) fn state_after_reading(&self, id: usize) -> StateWord {
        // Acquire: the reads before it are not delayed past it. A reader that saw a byte of the
        // next generation sees its state word, too (the fence in `before_writing`).
        crate::sync::fence(Acquire);
        StateWord(self.states[id].load(Relaxed))
    }

    /// Fetches the state word and the descriptor ahead of their use.
    #[inline]
    pub(super) fn fetch(&self, id: usize) {
        soon_written(&self.states[id]);
        let desc = self.desc(id);
        soon_written(&desc.object);
        // The descriptor may lie on two lines.
        soon_written(&desc.value);
    }

    #[inline]
    pub(super) fn change(&self, id: usize, from: StateWord, to: StateWord) -> bool {
        self.states[id]
            .compare_exchange(from.0, to.0, AcqRel, Relaxed)
            .is_ok()
    }

    /// Only for a CPU that has the descriptor in a state of transit, inside its gate.
    #[inline]
    pub(super) fn publish(&self, id: usize, to: StateWord) {
        // Release: descriptor and contents before it.
        self.states[id].store(to.0, Release);
    }

    /// Only for an owner, with the gate shut.
    #[inline]
    pub(super) fn set_shut(&self, id: usize, to: StateWord) {
        // Relaxed: a fence follows before anything is written (`before_writing`).
        self.states[id].store(to.0, Relaxed);
    }

    /// To be called between the change of a state word and the first write to the contents.
    #[inline]
    pub(super) fn before_writing(&self) {
        // Release: a reader that sees a write sees the state word before it.
        crate::sync::fence(Release);
    }

    #[inline]
    pub(super) fn desc(&self, id: usize) -> &'m Descriptor {
        &self.descs[id]
    }

    /// The bits of the 64 frames from `64 * nth` on.
    #[inline]
    pub(super) fn lane(&self, nth: usize) -> &'m Lane {
        &self.sections[nth / SECTION_LANES].lanes[nth % SECTION_LANES]
    }

    /// A frame's bit in one of the bitmaps.
    #[inline]
    pub(super) fn has_bit(&self, id: usize, bitmap: impl Fn(&Lane) -> &AtomicU64) -> bool {
        bitmap(self.lane(id / 64)).load(Relaxed) >> (id % 64) & 1 != 0
    }

    /// Whether the frame is in a reservation.
    #[inline]
    pub(super) fn is_reserved(&self, id: usize) -> bool {
        self.has_bit(id, |lane| &lane.reserved)
    }

    pub(super) fn set_dirty(&self, id: usize, is_movable: bool) {
        let (lane, bit) = (self.lane(id / 64), 1u64 << (id % 64));
        // Relaxed: looked at with the gate shut, or as a hint.
        if is_movable {
            lane.movable.fetch_or(bit, Relaxed);
        }
        lane.dirty.fetch_or(bit, Relaxed);
    }

    pub(super) fn set_clean(&self, id: usize) {
        let (lane, bit) = (self.lane(id / 64), 1u64 << (id % 64));
        lane.dirty.fetch_and(!bit, Relaxed);
        if lane.movable.load(Relaxed) & bit != 0 {
            lane.movable.fetch_and(!bit, Relaxed);
        }
    }

    /// Clears a frame's bit in the bitmap of free frames. Returns whether it was set.
    #[inline]
    pub(super) fn clear_free(&self, id: usize) -> bool {
        let bit = 1u64 << (id % 64);
        let word = &self.lane(id / 64).free;
        // Acquire pairs with the Release in `set_free`: the state word is Free.
        word.fetch_and(!bit, Acquire) & bit != 0
    }

    #[inline]
    pub(super) fn set_free(&self, id: usize) {
        // SeqCst: see `EvictionShard::expect_no_free`.
        self.lane(id / 64).free.fetch_or(1 << (id % 64), SeqCst);
    }

    /// Marks a page that was got: the hand passes it by once.
    #[inline]
    pub(super) fn visit(&self, id: usize) {
        let (word, bit) = self.visited_word(id);
        let marks = word.load(Relaxed);
        // A look first: a page that is got again and again is marked already. The mark is not
        // exact: an atomic exchange would wait until the copied page has left the processor. If
        // another CPU marks one of the 64 at the same moment, a page may have a mark too few or too
        // many.
        if marks & bit == 0 {
            word.store(marks | bit, Relaxed);
        }
    }

    /// Takes the mark away. Returns whether there was one.
    #[inline]
    pub(super) fn pass_by(&self, id: usize) -> bool {
        let (word, bit) = self.visited_word(id);
        word.load(Relaxed) & bit != 0 && word.fetch_and(!bit, Relaxed) & bit != 0
    }

    fn visited_word(&self, id: usize) -> (&'m AtomicU64, u64) {
        (&self.lane(id / 64).visited, 1 << (id % 64))
    }

    /// Enters the gate of a descriptor's section, if no owner has shut it.
    #[inline]
    pub(super) fn try_enter(&self, id: usize) -> Option<Inside<'m>> {
        let gate = &self.sections[id / SECTION].gate;
        // Acquire pairs with the Release in `ShutGate::drop`.
        if gate.fetch_add(1, Acquire) & SHUT == 0 {
            return Some(Inside { gate });
        }
        gate.fetch_sub(1, Relaxed);
        None
    }

    /// The same, but waits while an owner has the gate shut. Not for a caller inside another gate.
    pub(super) fn enter(&self, id: usize, platform: &impl FramePlatform) -> Inside<'m> {
        let mut attempt = 0;
        loop {
            if let Some(inside) = self.try_enter(id) {
                return inside;
            }
            platform.relax(attempt);
            attempt = attempt.saturating_add(1);
        }
    }

    /// Enters the gate of a descriptor's section, if no owner has shut it. `seat` is the caller's,
    /// and inside no other gate.
    ///
    /// Entering is one full barrier on a line of the caller's own. Leaving is a plain store: it
    /// does not wait until a page that was copied inside has left the processor's buffers, which
    /// would take as long again.
    #[inline]
    pub(super) fn try_enter_from(
        &self,
        id: usize,
        seat: &'m GuestRecord,
    ) -> Option<InsideFrom<'m>> {
        let section = id / SECTION;
        let gate = &self.sections[section].gate;
        let mine = &seat.inside;
        debug_assert_eq!(mine.load(Relaxed), 0, "a seat is inside one gate at a time");
        // A look first, so that a guest that waits here does not make the owner wait for it.
        if gate.load(Relaxed) & SHUT != 0 {
            return None;
        }
        // SeqCst, here and in `shut`: either this finds the gate shut, or the owner finds us inside.
        mine.swap(section as u64 + 1, SeqCst);
        model_fence();
        // Acquire, too, pairs with the Release in `ShutGate::drop`.
        if gate.load(SeqCst) & SHUT == 0 {
            return Some(InsideFrom { mine });
        }
        mine.store(0, Relaxed);
        None
    }

    /// The same, but waits while an owner has the gate shut.
    pub(super) fn enter_from(
        &self,
        id: usize,
        seat: &'m GuestRecord,
        platform: &impl FramePlatform,
    ) -> InsideFrom<'m> {
        let mut attempt = 0;
        loop {
            if let Some(inside) = self.try_enter_from(id, seat) {
                return inside;
            }
            platform.relax(attempt);
            attempt = attempt.saturating_add(1);
        }
    }

    /// A section whose gate is shut, or has a CPU inside. Only for use while no CPU is at work.
    pub(super) fn first_in_use(&self) -> Option<usize> {
        let is_inside = |section: usize| {
            let here = |seat: &GuestRecord| seat.inside.load(Relaxed) == section as u64 + 1;
            self.seats.iter().any(here)
        };
        let mut sections = 0..self.sections.len();
        sections
            .find(|&section| self.sections[section].gate.load(Relaxed) != 0 || is_inside(section))
    }

    /// Shuts a section's gate and waits until every guest has left. For one owner at a time.
    pub(super) fn shut(&self, section: usize, platform: &impl FramePlatform) -> ShutGate<'m> {
        loop {
            if let Some(shut) = self.try_shut(section, platform, &mut Patience::Endless) {
                return shut;
            }
        }
    }

    /// The same, if those inside leave while `patience` lasts. Else opens it again.
    pub(super) fn try_shut(
        &self,
        section: usize,
        platform: &impl FramePlatform,
        patience: &mut Patience,
    ) -> Option<ShutGate<'m>> {
        let gate = &self.sections[section].gate;
        let shut = ShutGate { gate };
        // SeqCst: as in `try_enter_from`.
        let mut inside = gate.fetch_or(SHUT, SeqCst);
        model_fence();
        let mut attempt = 0;
        while inside & !SHUT != 0 {
            if !patience.wait(platform, attempt) {
                return None;
            }
            attempt = attempt.saturating_add(1);
            // Acquire pairs with the Release in `Inside::drop`.
            inside = gate.load(Acquire);
        }
        for seat in self.seats {
            let mut attempt = 0;
            // Acquire, too, pairs with the Release in `InsideFrom::drop`.
            while seat.inside.load(SeqCst) == section as u64 + 1 {
                if !patience.wait(platform, attempt) {
                    return None;
                }
                attempt = attempt.saturating_add(1);
            }
        }
        Some(shut)
    }
}

/// The caller is inside a gate: no owner changes the section meanwhile.
#[derive(Debug)]
pub(super) struct Inside<'m> {
    gate: &'m AtomicU64,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // Release: the owner that waits sees what was done inside.
        self.gate.fetch_sub(1, Release);
    }
}

/// A guest is inside a gate: no owner changes the section meanwhile.
#[derive(Debug)]
pub(super) struct InsideFrom<'m> {
    mine: &'m AtomicU64,
}

impl Drop for InsideFrom<'_> {
    fn drop(&mut self) {
        // Release: the owner that waits sees what was done inside.
        self.mine.store(0, Release);
    }
}

/// A shut gate: only its owner changes a state in the section.
#[derive(Debug)]
pub(super) struct ShutGate<'m> {
    gate: &'m AtomicU64,
}

impl Drop for ShutGate<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `try_enter`.
        self.gate.fetch_and(!SHUT, Release);
    }
}
