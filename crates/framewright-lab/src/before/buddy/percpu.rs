//! The per-CPU lists in front of a zone: when a CPU takes a batch, when it gives one back, and how the mark between
//! both moves from 6.7 on. Every block that moves between a CPU and the free lists moves here.

use super::links::ListEnd;
use super::policy::HUGE_ORDER;
use super::{LinuxBuddy, MAX_ORDER};
use crate::replay::{CachedBlock, ZoneLists};
use framewright::{CpuId, Mobility};

use super::marks::{BATCH_SCALE_MAX, LISTS, PerCpuMarks, list_index, order_of};
impl LinuxBuddy {
    #[inline]
    fn slot(&self, cpu: CpuId) -> usize {
        let index = cpu.index();
        if index < self.percpu.len() {
            index
        } else {
            index % self.percpu.len()
        }
    }

    /// A block from the CPU's list, refilled if it is empty.
    #[inline]
    pub(super) fn take_cached(
        &mut self,
        cpu: CpuId,
        order: u8,
        mt: usize,
        whole_only: bool,
    ) -> Option<u32> {
        let slot = self.slot(cpu);
        self.percpu[slot].free_count >>= 1;
        let list = slot * LISTS + list_index(order, mt);
        let popped = match self.frames.pop_cached(list, ListEnd::Head) {
            Some(popped) => popped,
            None => {
                self.refill(slot, order, mt, whole_only);
                self.frames.pop_cached(list, ListEnd::Head)?
            }
        };
        self.percpu[slot].count -= 1 << order;
        Some(popped.0)
    }

    /// Brings a batch to an empty list, in the order in which the free lists gave it.
    fn refill(&mut self, slot: usize, order: u8, mt: usize, whole_only: bool) {
        let blocks = self.refill_blocks(slot, order);
        let list = slot * LISTS + list_index(order, mt);
        let mut stealing = false;
        for _ in 0..blocks {
            let Some(frame) = self.rmqueue(order, mt, whole_only, &mut stealing) else {
                break;
            };
            self.frames
                .push_cached(list, frame, order, mt, ListEnd::Tail);
            self.percpu[slot].count += 1 << order;
        }
    }

    /// Whether less is free than the high watermark: then lists do not grow.
    #[inline]
    fn is_below_high(&self) -> bool {
        self.frames.free() <= self.high + self.boost.frames()
    }

    /// How many blocks a refill asks for. 6.12 doubles it while nothing is freed in between, as
    /// far as the mark leaves room; and raises the mark where the zone has plenty.
    fn refill_blocks(&mut self, slot: usize, order: u8) -> u32 {
        let marks = self.marks;
        let batch = marks.batch;
        if !self.policy.is_strict() {
            return batch;
        }
        let may_grow = marks.high_min != marks.high_max && !self.is_below_high();
        let percpu = &mut self.percpu[slot];
        percpu.high = percpu.high.clamp(marks.high_min, marks.high_max);
        if percpu.high < batch {
            return 1;
        }
        let mut blocks = batch;
        if order == 0 {
            blocks <<= percpu.alloc_factor;
        }
        if may_grow {
            percpu.high = (percpu.high + blocks).min(marks.high_max);
        }
        if order == 0 {
            let room = percpu.high.saturating_sub(percpu.count + batch).max(batch);
            if blocks <= room && percpu.alloc_factor < BATCH_SCALE_MAX {
                percpu.alloc_factor += 1;
            }
            blocks = blocks.min(room);
        }
        if blocks > 1 {
            blocks = (blocks >> order).max(2);
        }
        blocks
    }

    /// 6.12: the mark as a free finds it, moved by what the CPU and the zone do.
    #[inline]
    fn high_at_free(&mut self, slot: usize) -> u32 {
        let PerCpuMarks {
            batch,
            high_min,
            high_max,
        } = self.marks;
        if high_min == high_max && !self.is_reclaiming {
            return high_min;
        }
        let is_below_high = self.is_below_high();
        let percpu = &mut self.percpu[slot];
        percpu.high = percpu.high.clamp(high_min, high_max);
        let lowered = percpu
            .high
            .saturating_sub(percpu.free_count.max(batch))
            .max(high_min);
        if self.is_reclaiming {
            percpu.high = lowered;
            return (batch << 2).min(lowered);
        }
        if is_below_high {
            percpu.high = lowered;
            return percpu.count.max(high_min);
        }
        let high = percpu.high;
        if percpu.count >= high {
            // Room for as much as was freed in a row.
            let wanted = percpu.free_count + batch;
            percpu.high = high.max(wanted.clamp(high_min, high_max));
        }
        high
    }

    /// 6.12, once a second: the marks come down, and what lies above them goes back.
    pub(super) fn lower_percpu_marks(&mut self) {
        let PerCpuMarks {
            batch,
            high_min,
            high_max,
        } = self.marks;
        if !self.policy.is_strict() || high_min == high_max {
            return;
        }
        for slot in 0..self.percpu.len() {
            let percpu = &mut self.percpu[slot];
            if percpu.high > high_min {
                let eighth_less = percpu.high - (percpu.high >> 3);
                let above = percpu.count.saturating_sub(batch << BATCH_SCALE_MAX);
                percpu.high = above.max(eighth_less).max(high_min);
            }
            let too_many = percpu.count.saturating_sub(percpu.high);
            if too_many > 0 {
                self.free_batch_list_by_list(slot, too_many, 0);
            }
        }
    }

    /// Frees a block to the list of its pageblock's label, and a batch of the list's oldest where
    /// that is too much.
    #[inline]
    pub(super) fn free_cached(&mut self, cpu: CpuId, frame: u32, order: u8) {
        let slot = self.slot(cpu);
        let mt = self.frames.label(frame);
        let list = list_index(order, mt);
        self.frames
            .push_cached(slot * LISTS + list, frame, order, mt, ListEnd::Head);
        let PerCpuMarks {
            batch, high_min, ..
        } = self.marks;
        let percpu = &mut self.percpu[slot];
        percpu.count += 1 << order;
        if !self.policy.is_strict() {
            if percpu.count >= high_min {
                self.free_batch_in_turns(slot, batch);
            }
            return;
        }
        percpu.alloc_factor >>= 1;
        let high_order = order != 0 && order != HUGE_ORDER;
        // Steady frees of orders 1 to 3 go back sooner: as cached blocks they fragment.
        let free_high = high_order
            && percpu.freed_high_order
            && percpu.free_count >= batch + high_min / 2
            && percpu.count >= batch;
        percpu.freed_high_order = high_order;
        if percpu.free_count < batch << BATCH_SCALE_MAX {
            percpu.free_count += 1 << order;
        }
        if free_high {
            let most = batch << BATCH_SCALE_MAX;
            percpu.high = percpu.high.saturating_sub(most).max(high_min);
            let count = percpu.count.min(most);
            self.free_batch_list_by_list(slot, count, list);
            return;
        }
        let high = self.high_at_free(slot);
        let percpu = &self.percpu[slot];
        if percpu.count >= high {
            let most = high.saturating_sub(batch).max(batch);
            let count = percpu.free_count.clamp(batch, most);
            self.free_batch_list_by_list(slot, count, list);
        }
    }

    /// Takes so many frames to each CPU's lists of single frames, and leaves free blocks as they were `listed`, as far as
    /// it can: blocks that were not listed are taken apart from the largest order down, and what is left whole of them
    /// makes up for those that were listed and are not there. Kernels whose marks do not move take none.
    pub(super) fn fill_lists(&mut self, frames: &[u64], listed: &ZoneLists) {
        if !self.policy.is_strict() {
            return;
        }
        if self.unsettled {
            self.settle();
        }
        let frames = &frames[..frames.len().min(self.percpu.len())];
        let all = frames.iter().copied().fold(0, u64::saturating_add);
        let unlisted = Mobility::ALL.map(|label| {
            let of_order = |order| self.frames.listed(order, label.index()) << order;
            let free = (0..=MAX_ORDER).map(of_order).sum::<u64>();
            free.saturating_sub(listed.free(label))
        });
        // Labels differ from the machine's, so that more may be missing on the lists than lay with the CPUs.
        let most = all.max(unlisted.iter().sum()).max(1);
        let part =
            |of: u64, n: u64, all: u64| (u128::from(of) * u128::from(n) / u128::from(all)) as u64;
        for (mt, unlisted) in unlisted.into_iter().enumerate() {
            let quota = part(unlisted, all, most);
            let mut below = 0;
            let mut left: Vec<u64> = Vec::with_capacity(frames.len());
            for &of in frames {
                // In sum as many as of the label, whatever is rounded.
                left.push(part(quota, below + of, all.max(1)) - part(quota, below, all.max(1)));
                below += of;
            }
            let wanted = &listed.free_blocks[mt];
            for order in (0..=MAX_ORDER).rev() {
                while self.frames.listed(order, mt) > wanted[usize::from(order)]
                    && let Some(frame) = self.frames.first_free(order, mt)
                {
                    // What lies side by side was mostly one program's, and freed by one CPU.
                    let most_left = left.iter_mut().enumerate().max_by_key(|(_, left)| **left);
                    let Some((slot, left)) = most_left.filter(|(_, left)| **left > 0) else {
                        break;
                    };
                    self.frames.remove_free(frame);
                    self.frames.count_free(frame, order, false);
                    *left -= self.take_apart(slot, frame, order, mt, *left, wanted);
                }
            }
        }
    }

    /// Takes a free block to the end of its CPU's list, where lists may be so long and hold blocks of the order.
    pub(super) fn push_free_block(&mut self, block: CachedBlock) {
        let Some((frame, order)) = self.frames.block_at(block.frame, block.order) else {
            return;
        };
        if !self.policy.is_strict() || !self.policy.caches(order) || self.percpu.is_empty() {
            return;
        }
        if self.unsettled {
            self.settle();
        }
        if self.frames.carve(frame, order) {
            let slot = self.slot(block.cpu);
            let mt = self.frames.label(frame);
            let list = slot * LISTS + list_index(order, mt);
            self.frames
                .push_cached(list, frame, order, mt, ListEnd::Tail);
            self.percpu[slot].count += 1 << order;
        }
    }

    /// Takes single frames of a block to a CPU's list: at least one, and at most `quota`. Halves stay whole where as many
    /// blocks of their order are still missing on the free lists, or where too much would be taken. Returns how many.
    fn take_apart(
        &mut self,
        slot: usize,
        frame: u32,
        order: u8,
        mt: usize,
        quota: u64,
        listed: &[u64; MAX_ORDER as usize + 1],
    ) -> u64 {
        if order == 0 {
            let list = slot * LISTS + list_index(0, mt);
            self.frames.push_cached(list, frame, 0, mt, ListEnd::Tail);
            self.percpu[slot].count += 1;
            return 1;
        }
        let order = order - 1;
        let upper = frame + (1 << order);
        let is_missing = self.frames.listed(order, mt) < listed[usize::from(order)];
        if is_missing || quota == 1 {
            self.frames.count_free(upper, order, true);
            self.frames.push_free(upper, order, mt, ListEnd::Tail);
            return self.take_apart(slot, frame, order, mt, quota, listed);
        }
        let taken = self.take_apart(slot, frame, order, mt, quota - 1, listed);
        taken + self.take_apart(slot, upper, order, mt, quota - taken, listed)
    }

    /// Returns all frames on a CPU's lists.
    pub(super) fn drain_cpu(&mut self, slot: usize) {
        while self.percpu[slot].count > 0 {
            let count = self.percpu[slot].count;
            if self.policy.is_strict() {
                let most = count.min(self.marks.batch << BATCH_SCALE_MAX);
                self.free_batch_list_by_list(slot, most, 0);
            } else {
                self.free_batch_in_turns(slot, count);
            }
        }
    }

    /// 4.4 and 4.13: frames from the tails of the three lists in turns, more from a list the more
    /// empty ones came before it, to the list that was theirs when they were cached.
    fn free_batch_in_turns(&mut self, slot: usize, frames: u32) {
        let mut left = frames.min(self.percpu[slot].count);
        self.percpu[slot].count -= left;
        let (mut mt, mut turn) = (0, 0);
        while left > 0 {
            loop {
                turn += 1;
                mt = (mt + 1) % 3;
                if !self.frames.is_cached_list_empty(slot * LISTS + mt) {
                    break;
                }
            }
            if turn == 3 {
                turn = left;
            }
            while left > 0 && turn > 0 {
                let Some((frame, tag)) = self.frames.pop_cached(slot * LISTS + mt, ListEnd::Tail)
                else {
                    break;
                };
                self.frames.free_block_to(frame, 0, tag.mt());
                left -= 1;
                turn -= 1;
            }
        }
    }

    /// 6.12: blocks from the tail of the list `first` until it is empty, then of the next one, to
    /// the lists of their pageblocks' present labels.
    fn free_batch_list_by_list(&mut self, slot: usize, frames: u32, first: usize) {
        let mut left = i64::from(frames.min(self.percpu[slot].count));
        let mut list = first;
        while left > 0 {
            let order = order_of(list);
            while left > 0
                && let Some((frame, _)) = self.frames.pop_cached(slot * LISTS + list, ListEnd::Tail)
            {
                self.frames.free_block(frame, order);
                self.percpu[slot].count -= 1 << order;
                left -= 1 << order;
            }
            list = (list + 1) % LISTS;
        }
    }
}
