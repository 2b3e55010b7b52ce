//! The page cache: pages of files on two lists, with a second chance.

use super::store::{BlockKind, NONE, PhoneStore, StoreEntry};
use framewright::reclaim::{Ask, Shrunk};

/// Which frame holds a page of a file, and how recently it was used.
///
/// As Linux does it: a page comes to the head of the inactive list; a second use marks it, a third one
/// makes it active; the tail of the inactive list is freed, or has a second chance if it was used since.
/// When the active list is the longer one, its tail becomes inactive.
#[derive(Debug)]
pub(super) struct PhoneCache {
    /// The frame of each page, or [`NONE`].
    frames: Vec<u32>,
    inactive: u32,
    active: u32,
}

impl PhoneCache {
    /// An empty cache for files of this many pages.
    pub(super) fn new(store: &mut PhoneStore, pages: u64) -> Self {
        Self {
            frames: vec![NONE; pages as usize],
            inactive: store.new_list(),
            active: store.new_list(),
        }
    }

    /// A page is used; whether it is there.
    pub(super) fn touch(&self, store: &mut PhoneStore, page: u32) -> bool {
        let frame = self.frames[page as usize];
        if frame == NONE {
            return false;
        }
        if !store.is_referenced(frame) {
            store.set_referenced(frame, true);
        } else if store.list_of(frame) == self.inactive {
            store.set_referenced(frame, false);
            store.move_to(frame, self.active);
        }
        true
    }

    /// A page has been read into a frame.
    pub(super) fn insert(&mut self, store: &mut PhoneStore, page: u32, frame: u32, pinned: bool) {
        let entry = StoreEntry {
            kind: BlockKind::File,
            order: 0,
            list: self.inactive,
            owner: page,
            pinned,
        };
        store.insert(frame, entry);
        self.frames[page as usize] = frame;
    }

    /// The contents of a frame of the cache are in another one.
    pub(super) fn relocated(&mut self, page: u32, to: u32) {
        self.frames[page as usize] = to;
    }

    /// What could be given back.
    pub(super) fn holding(store: &PhoneStore) -> u64 {
        store.frames_of(BlockKind::File)
    }

    /// Looks at the coldest pages, and passes to `free` those that no process has used since the last
    /// look.
    pub(super) fn shrink(
        &mut self,
        store: &mut PhoneStore,
        ask: &Ask,
        mut free: impl FnMut(u32),
    ) -> Shrunk {
        let mut shrunk = Shrunk::default();
        while shrunk.scanned < ask.scan && shrunk.freed < ask.wanted {
            self.balance(store);
            let frame = store.list(self.inactive).tail;
            if frame == NONE {
                break;
            }
            shrunk.scanned += 1;
            if store.is_pinned(frame) {
                store.move_to(frame, self.inactive);
            } else if store.is_referenced(frame) {
                store.set_referenced(frame, false);
                store.move_to(frame, self.active);
            } else {
                self.frames[store.owner(frame) as usize] = NONE;
                store.remove(frame);
                free(frame);
                shrunk.freed += 1;
            }
        }
        shrunk
    }

    /// While more is active than inactive, the active list's tail becomes inactive; what was used since
    /// it came there keeps its mark, and so a chance to come back.
    fn balance(&self, store: &mut PhoneStore) {
        while store.list(self.active).blocks > store.list(self.inactive).blocks {
            let frame = store.list(self.active).tail;
            store.set_referenced(frame, false);
            store.move_to(frame, self.inactive);
        }
    }
}

/// How hot the cache is: in use, and read again from the device.
pub(super) const HEAT: u8 = 128;
