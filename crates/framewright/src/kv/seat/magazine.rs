//! Taking and freeing slots. The owner of a slab does it with plain operations; other CPUs free into the
//! slab's second bitmap.

use super::super::KvFreeError;
use super::super::slab::{BITMAP_WORDS, SizeClass, Slab, SlabHeader, SlabState};
use super::super::table::{KvTable, SlabFrame};
use super::{KvHeld, KvSeatRecord};
use crate::seats::{Inboxes, Parcel};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, SeqCst},
    set_bits,
};
use crate::units::Addr;

/// A slot that starts at an address.
#[derive(Clone, Copy)]
struct ObjectSlot<'m> {
    slab: Slab<'m>,
    header: SlabHeader,
    word: usize,
    bit: u64,
}

/// A slot that was just freed.
#[derive(Clone, Copy)]
pub(in super::super) struct FreedSlot {
    pub(in super::super) class: SizeClass,
    /// Its slab had no free slot, and is in no list yet.
    pub(in super::super) was_full: bool,
}

impl ObjectSlot<'_> {
    /// Whether it is free, or a free from another CPU is on its way.
    #[inline(always)]
    fn is_free(&self) -> bool {
        let own = self.slab.free(self.word).load(Relaxed);
        let remote = self.slab.remote(self.word).load(Relaxed);
        (own | remote) & self.bit != 0
    }
}

impl<'m> KvHeld<'m> {
    /// Takes a slot from the class's magazine.
    #[inline(always)]
    pub(in super::super) fn take(&self, class: SizeClass) -> Option<Addr> {
        self.take_in(self.words, class)
    }

    /// The same for a caller that has read where the seat's words are.
    #[inline(always)]
    pub(in super::super) fn take_in(
        &self,
        words: &'m KvSeatRecord,
        class: SizeClass,
    ) -> Option<Addr> {
        let (magazine, first) = words.magazine(class);
        let word = self.records.word(magazine)?;
        let bits = word.load(Relaxed);
        if bits == 0 {
            return None;
        }
        word.store(bits & (bits - 1), Relaxed);
        words.counters.slab_allocs.add(1);
        let slot = u64::from(bits.trailing_zeros());
        Some(Addr(first.wrapping_add(slot * class.bytes())))
    }

    /// Takes a slot of the class from a slab of the seat's. It tries the magazine's slab first, then one
    /// with free slots, then the slots that other CPUs freed, and at last a slab whose slots are all free.
    pub(in super::super) fn take_any(&self, class: SizeClass) -> Option<Addr> {
        let near = |held: &Self| held.take(class).or_else(|| held.take_near(class));
        near(self)
            .or_else(|| self.collect_inbox().then(|| near(self)).flatten())
            .or_else(|| self.take_empty(class))
    }

    /// Takes a slot where the magazine is empty: from its slab, or from one with free slots.
    #[inline(never)]
    pub(in super::super) fn take_near(&self, class: SizeClass) -> Option<Addr> {
        if !self.next_word(class) && !self.next_partial(class) {
            return None;
        }
        self.take(class)
    }

    fn take_empty(&self, class: SizeClass) -> Option<Addr> {
        let number = self.words.first(SlabState::Empty, class);
        if number == 0 {
            return None;
        }
        self.serve_from(class, number);
        self.take(class)
    }

    /// Frees the object at an address in the frame at `place`. Does so only if the frame is part of a slab of
    /// the seat's, and the free need only set a bit and list a slab that was full. The caller does the latter, and
    /// counts.
    #[inline(always)]
    pub(in super::super) fn free_fast(
        &self,
        table: KvTable<'m>,
        addr: Addr,
        place: usize,
    ) -> Option<FreedSlot> {
        let part = table.slab_of(place, self.owner)?;
        let slot = self.slot(addr, part).ok()?;
        let (header, free) = (slot.header, slot.slab.free(slot.word));
        let is_short = header.is_in_no_list()
            || header.state() == SlabState::Partial
                && free.load(Relaxed) | slot.bit != header.all_in(slot.word);
        if !is_short {
            return None;
        }
        let bits = free.load(Relaxed);
        let others = slot.slab.remote(slot.word).load(Relaxed);
        if (bits | others) & slot.bit != 0 {
            return None;
        }
        free.store(bits | slot.bit, Relaxed);
        Some(FreedSlot {
            class: part.class(),
            was_full: header.is_full(),
        })
    }

    /// Frees the object at an address that lies in a slab of this or another CPU. Returns the slot's length.
    ///
    /// # Errors
    /// If no object starts there, or it is free already. Nothing has changed then.
    pub(in super::super) fn free(
        &self,
        addr: Addr,
        part: SlabFrame,
        alone: bool,
    ) -> Result<u64, KvFreeError> {
        let slot = self.slot(addr, part)?;
        if slot.is_free() {
            return Err(KvFreeError::AlreadyFree(addr));
        }
        if part.owner() == self.cpu {
            let free = slot.slab.free(slot.word);
            free.store(free.load(Relaxed) | slot.bit, Relaxed);
            if slot.header.state() != SlabState::Current {
                self.list_by_slots(part.record());
            }
        } else {
            // At least Release: it pairs with the Acquire in `collect`.
            let before = set_bits(slot.slab.remote(slot.word), slot.bit, alone);
            if before & slot.bit != 0 {
                return Err(KvFreeError::AlreadyFree(addr));
            }
            self.notify(part.owner(), part.record());
            self.words.counters.remote_frees.add(1);
        }
        self.words.counters.slab_frees.add(1);
        Ok(part.class().bytes())
    }

    /// The length of the live object at an address that lies in a slab.
    ///
    /// # Errors
    /// If no object starts there, or it is free.
    pub(in super::super) fn length(&self, addr: Addr, part: SlabFrame) -> Result<u64, KvFreeError> {
        if self.slot(addr, part)?.is_free() {
            return Err(KvFreeError::AlreadyFree(addr));
        }
        Ok(part.class().bytes())
    }

    /// The slot that starts at an address.
    #[inline(always)]
    fn slot(&self, addr: Addr, part: SlabFrame) -> Result<ObjectSlot<'m>, KvFreeError> {
        // A frame begins at a multiple of the page length.
        let offset = part.bytes_before() | addr.in_page();
        let (number, is_first) = part.class().slot_at(offset);
        // There is a record in any case: the check costs less than a panic's.
        let slab = self.records.find(part.record());
        let slab = slab.ok_or(KvFreeError::NotAllocated(addr))?;
        let header = slab.header();
        if number as u32 >= header.slots() {
            // The address lies in the rest behind the last slot.
            return Err(KvFreeError::NotAllocated(addr));
        }
        if !is_first {
            let start = number * part.class().bytes();
            return Err(KvFreeError::NotTheFirst {
                addr,
                start: Addr(addr.0 - (offset - start)),
            });
        }
        Ok(ObjectSlot {
            slab,
            header,
            word: (number / 64) as usize,
            bit: 1 << (number % 64),
        })
    }
}

impl<'m> Inboxes<'m> for KvHeld<'m> {
    #[inline(always)]
    fn here(&self) -> u16 {
        self.cpu
    }

    #[inline(always)]
    fn inbox(&self, cpu: u16) -> &'m AtomicU64 {
        &self.seats[usize::from(cpu)].inbox
    }

    #[inline(always)]
    fn parcel(&self, number: u32) -> Parcel<'m> {
        self.records.get(number).parcel()
    }

    fn owner(&self, number: u32) -> Option<u16> {
        let header = self.records.get(number).header();
        (header.state() != SlabState::None).then(|| header.owner())
    }

    fn has_remote(&self, number: u32) -> bool {
        self.records.get(number).has_remote()
    }

    /// Makes the slots that other CPUs freed in a slab free slots of its owner.
    fn collect(&self, number: u32) {
        let slab = self.records.get(number);
        let header = slab.header();
        for word in 0..BITMAP_WORDS {
            if slab.remote(word).load(SeqCst) == 0 {
                continue;
            }
            // Acquire pairs with the Release of the CPU that freed.
            let freed = slab.remote(word).swap(0, Acquire);
            let free = slab.free(word).load(Relaxed);
            let live = header.all_in(word) & !free;
            if freed & !live != 0 {
                // The owner and another CPU freed the same object at the same time.
                let times = (freed & !live).count_ones();
                self.words.counters.double_frees.add(u64::from(times));
            }
            slab.free(word).store(free | freed & live, Relaxed);
        }
        if header.state() != SlabState::Current {
            self.list_by_slots(number);
        }
    }
}
