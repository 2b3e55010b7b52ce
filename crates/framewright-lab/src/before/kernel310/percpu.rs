//! The per-CPU lists of single frames in front of the zone. They hide free frames from compaction and from larger
//! orders, which is why the slow path drains them.

use super::Kernel310;
use super::lists::{ASKED, CMA, MOVABLE, Tag310};
use crate::before::buddy::links::ListEnd;

/// Frames that move between a CPU's lists and the free lists at once, and above which a batch goes
/// back, as a kernel of that time computes them for any zone above 512 MiB: a quarter of 512 KiB,
/// made odd, and six times that.
pub(super) const BATCH: u32 = 31;
pub(super) const HIGH: u32 = 6 * BATCH;

impl Kernel310 {
    /// A single frame from the CPU's list, refilled if it is empty.
    #[inline]
    pub(super) fn take_cached(&mut self, cpu: usize, list: usize) -> Option<u32> {
        let cached = cpu * ASKED + list;
        let popped = match self.zone.pop_cached(cached, ListEnd::Head) {
            Some(popped) => popped,
            None => {
                self.refill(cpu, list);
                self.zone.pop_cached(cached, ListEnd::Head)?
            }
        };
        self.cached[cpu] -= 1;
        Some(popped.0)
    }

    /// Brings a batch to an empty list, in the order in which the free lists gave it.
    fn refill(&mut self, cpu: usize, list: usize) {
        for _ in 0..BATCH {
            let Some(frame) = self.rmqueue(0, list) else {
                break;
            };
            let back_to = if self.zone.label(frame) == CMA {
                CMA
            } else {
                list
            };
            self.zone
                .push_cached(cpu * ASKED + list, frame, back_to, ListEnd::Tail);
            self.cached[cpu] += 1;
        }
    }

    /// Frees a single frame to the CPU's list of its pageblock's type (the reserve's and the
    /// contiguous area's are kept with the movable ones), and a batch of the oldest where that is
    /// too much.
    #[inline]
    pub(super) fn free_cached(&mut self, cpu: usize, frame: u32) {
        let back_to = self.zone.label(frame);
        let list = if back_to < ASKED { back_to } else { MOVABLE };
        self.zone
            .push_cached(cpu * ASKED + list, frame, back_to, ListEnd::Head);
        self.cached[cpu] += 1;
        if self.cached[cpu] >= HIGH {
            self.free_batch(cpu, BATCH);
        }
    }

    /// Frees from the tails of the three lists in turns, more from a list the more empty ones came
    /// before it, each frame to the list that was its own when it was cached.
    fn free_batch(&mut self, cpu: usize, frames: u32) {
        self.pages_scanned = 0;
        self.cached[cpu] -= frames;
        let (mut left, mut list, mut turn) = (frames, 0, 0);
        while left > 0 {
            loop {
                turn += 1;
                list = (list + 1) % ASKED;
                if !self.zone.is_cached_list_empty(cpu * ASKED + list) {
                    break;
                }
            }
            if turn == ASKED as u32 {
                turn = left;
            }
            while left > 0 && turn > 0 {
                let Some((frame, back_to)) =
                    self.zone.pop_cached(cpu * ASKED + list, ListEnd::Tail)
                else {
                    break;
                };
                self.zone.free_block(frame, 0, back_to);
                left -= 1;
                turn -= 1;
            }
        }
    }

    pub(super) fn drain_cpu(&mut self, cpu: usize) {
        if self.cached[cpu] > 0 {
            self.free_batch(cpu, self.cached[cpu]);
        }
    }

    pub(super) fn drain_all(&mut self) {
        for cpu in 0..self.cached.len() {
            self.drain_cpu(cpu);
        }
    }

    /// Puts a block on the CPU's lists or on the free lists. Its holder has given it up.
    #[inline]
    pub(super) fn free_frames_to_lists(&mut self, cpu: usize, frame: u32, order: u8) {
        if order == 0 {
            self.free_cached(cpu, frame);
        } else {
            self.pages_scanned = 0;
            let list = self.zone.label(frame);
            self.zone.free_block(frame, order, list);
        }
    }

    /// A block for the requester, watermarks aside.
    #[inline]
    pub(super) fn take_frames(&mut self, cpu: usize, order: u8, list: usize) -> Option<u32> {
        let frame = if order == 0 {
            self.take_cached(cpu, list)?
        } else {
            self.rmqueue(order, list)?
        };
        self.zone.set_tag(frame, Tag310::allocated(order, list));
        Some(frame)
    }
}
