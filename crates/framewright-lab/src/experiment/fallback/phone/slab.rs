//! Kernel objects that a shrinker can free: the oldest first, and many slabs keep an object in use.

use super::store::{NONE, PhoneStore};
use framewright::reclaim::{Ask, Shrunk};

/// Of this many slabs looked at, one can be freed as a whole: the others hold an object in use. A
/// shrinker frees objects, not slabs.
const LOOKS_PER_FREE: u32 = 4;

/// How hot they are: cheaper to make again than a page is to read.
pub(super) const HEAT: u8 = 96;

/// The slabs on one list.
#[derive(Debug)]
pub(super) struct Slabs {
    pub(super) list: u32,
    /// Looks so far.
    looks: u32,
}

impl Slabs {
    pub(super) fn new(store: &mut PhoneStore) -> Self {
        Self {
            list: store.new_list(),
            looks: 0,
        }
    }

    /// What could be given back.
    pub(super) fn holding(&self, store: &PhoneStore) -> u64 {
        u64::from(store.list(self.list).frames)
    }

    /// Looks at the oldest slabs; what is free of objects goes to `free`, by frame and order.
    pub(super) fn shrink(
        &mut self,
        store: &mut PhoneStore,
        ask: &Ask,
        mut free: impl FnMut(u32, u8),
    ) -> Shrunk {
        let mut shrunk = Shrunk::default();
        let mut left = store.list(self.list).blocks;
        while shrunk.scanned < ask.scan && shrunk.freed < ask.wanted && left > 0 {
            left -= 1;
            let slab = store.list(self.list).tail;
            if slab == NONE {
                break;
            }
            let order = store.order(slab);
            shrunk.scanned += 1 << order;
            self.looks = (self.looks + 1) % LOOKS_PER_FREE;
            if self.looks == 0 {
                store.remove(slab);
                free(slab, order);
                shrunk.freed += 1 << order;
            } else {
                store.move_to(slab, self.list);
            }
        }
        debug_assert!(shrunk.freed <= shrunk.scanned);
        shrunk
    }
}
