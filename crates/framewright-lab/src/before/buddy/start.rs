//! What happens before the first request: memory appears, labels and allocated blocks are imposed.

use super::MAX_ORDER;
use super::frames::BuddyFrames;
use super::links::ListEnd;

impl BuddyFrames {
    /// Frees `from..to` at the start: the largest aligned blocks, ascending on the lists.
    pub(super) fn add_present(&mut self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            let mut order = MAX_ORDER;
            while at & ((1 << order) - 1) != 0 || at + (1 << order) > to {
                order -= 1;
            }
            let frame = at as u32;
            let mt = self.label(frame);
            self.push_free(frame, order, mt, ListEnd::Tail);
            self.count_free(frame, order, true);
            self.count_present(1 << order);
            at += 1 << order;
        }
    }

    /// The free block that holds all of `frame .. frame + 2^order`.
    fn free_block_around(&self, frame: u32, order: u8) -> Option<u32> {
        (order..=MAX_ORDER)
            .map(|o| frame & !((1u32 << o) - 1))
            .find(|&head| {
                let tag = self.tag(head);
                tag.is_free() && tag.order() >= order && frame - head < 1 << tag.order()
            })
    }

    /// Takes exactly this block out of the free block that holds it; false if there is none. The
    /// rest goes to the tails of the lists of its labels.
    pub(super) fn carve(&mut self, frame: u32, order: u8) -> bool {
        let Some(mut head) = self.free_block_around(frame, order) else {
            return false;
        };
        let mut high = self.remove_free(head).order();
        while high > order {
            high -= 1;
            let upper = head + (1 << high);
            let rest = if frame < upper { upper } else { head };
            if frame >= upper {
                head = upper;
            }
            self.push_free(rest, high, self.label(rest), ListEnd::Tail);
        }
        self.count_free(frame, order, false);
        true
    }

    /// Labels a pageblock and moves its free blocks to the list. Returns whether a free block
    /// larger than a pageblock had to be split for it.
    pub(super) fn impose_label(&mut self, pageblock: usize, mt: usize) -> bool {
        if self.label_at(pageblock).is_none_or(|label| label == mt) {
            return false;
        }
        let start = (pageblock as u32) << self.pageblock_order();
        let split = self
            .free_block_around(start, self.pageblock_order())
            .filter(|&head| self.tag(head).order() > self.pageblock_order());
        if let Some(head) = split {
            let order = self.remove_free(head).order();
            for i in 0..1 << (order - self.pageblock_order()) {
                let at = head + (i << self.pageblock_order());
                self.push_free(at, self.pageblock_order(), self.label(at), ListEnd::Tail);
            }
        }
        self.set_label(pageblock, mt);
        self.move_pageblock(pageblock, mt, ListEnd::Tail);
        split.is_some()
    }

    /// Merges free blocks of whole pageblocks with their buddies.
    pub(super) fn merge_whole_pageblocks(&mut self) {
        for pageblock in 0..self.pageblocks() {
            let frame = (pageblock as u32) << self.pageblock_order();
            if self.is_free_block(frame, self.pageblock_order()) {
                let mt = self.label(frame);
                self.remove_free(frame);
                self.merge_and_push(frame, self.pageblock_order(), mt);
            }
        }
    }
}
