//! Linux's zone allocator as it was in several years: free lists by order and migratetype, per-CPU
//! lists in front of them, and the fallback rule of each year behind them.
//!
//! ```text
//!              refill (a batch)              own list, smallest order first
//!   alloc ───▶ per-CPU list ◀──── free lists [order 0..=10][mobility] ◀─── fallback: another
//!                  ▲    │              ▲                                   mobility's list, by
//!    free ─────────┘    └──────────────┘ merged with free buddies          the rule of the year
//!             bulk free above the mark, or drain
//! ```
//!
//! # Rules
//! [`LinuxPolicy`] names the years and says what each does. All of them share the lists, the
//! merging of buddies, insertion at a list's head (at its tail where the buddy one order up is
//! free, so that the whole block is likely to come together soon), and the table of
//! mobilities tried: unmovable takes from reclaimable, then movable; movable from reclaimable,
//! then unmovable; reclaimable from unmovable, then movable. Within an order, that table decides;
//! the orders are the outer loop.
//!
//! # Invariants
//! - **B1** Every frame that exists is in exactly one block, and that block is free, cached by one
//!   CPU, or allocated; only a block's first frame carries a tag.
//! - **B2** A free block is on exactly one list, the one its tag names; the counters are the
//!   lists' lengths.
//! - **B3** Of two buddies at most one is a free block of their order: merging is complete.
//! - **B4** With strict lists (6.10 and later) a free block is on the list of its pageblock's label, and the
//!   pageblocks of a larger free block carry one label.
//! - **B5** Each pageblock's counts of free and of movable frames are what a recount finds.
//!
//! # In a machine
//! With [`BuddyMarks`] the zone is one of a machine whose rules of admission stand around it (`replay::admission`):
//! those decide whether a request may be served, and ask through [`ZoneAllocator`]. Two things are the zone's own then.
//! The per-CPU marks of 6.7 and later move between a least and a most: up while a CPU takes or frees much and the zone
//! is above its high watermark, down while reclaim works, and by an eighth a second; the lists begin with as many frames
//! as the machine had there. And a try to claim part of a pageblock for another mobility *boosts* the
//! zone's watermarks (5.0 and later) by a pageblock, up to one and a half times high.
//!
//! # What is not here
//! Admission by watermarks and what it triggers (reclaim, compaction, the atomic reserve of 4.4 and the
//! `MIGRATE_RESERVE` blocks before it), CMA, several zones, cold frees. Without [`BuddyMarks`] the per-CPU marks stand
//! at their computed minimum, and a request that finds nothing empties all per-CPU lists and tries once more, as
//! the slow path does before it gives up.
//!
//! # Sources
//! `linux-4.4`: the kernel's rule from 4.0 to 4.11, in 3.10 the same but for unmovable requests,
//! which then moved no other pages of the block. `proposal`: ChengYi He, "avoid external
//! fragmentation related to migration fallback", linux-kernel, 30 January 2016. `linux-4.13`:
//! commits 02aa0cdd (4.12) and 7a8f58f39188 (4.13). `linux-6.12`: commit c2f6ea38 (6.15), in
//! 6.12's stable series since 6.12.117, on the strict lists of 6.10.

mod boost;
mod config;
mod fallback;
mod frames;
pub(super) mod links;
mod marks;
mod percpu;
mod policy;
mod start;
#[cfg(test)]
mod tests;
mod verify;

use crate::replay::{CachedBlock, FreeRefused, ReplaySubject, ZoneAllocator, ZoneLists, ZonePass};
pub use config::{BuddyMarks, LinuxBuddyConfig, LinuxBuddyError, MAX_ORDER};
use frames::BuddyFrames;
use framewright::{CpuId, Frame, Mobility, Order};
use marks::BuddyPerCpu;
pub use policy::LinuxPolicy;

/// One zone of Linux's page allocator under the rules of one [`LinuxPolicy`].
#[derive(Debug)]
pub struct LinuxBuddy {
    policy: LinuxPolicy,
    frames: BuddyFrames,
    /// Empty if there are no per-CPU lists.
    percpu: Vec<BuddyPerCpu>,
    marks: marks::PerCpuMarks,
    boost: boost::WatermarkBoost,
    /// The high watermark without boost; no zone without [`BuddyMarks`] is below it.
    high: u64,
    /// Whether the background reclaims: then the per-CPU lists are kept short.
    is_reclaiming: bool,
    /// Milliseconds since the per-CPU marks came down last.
    waited_ms: u64,
    fallbacks: [[u64; 3]; 3],
    /// Imposed labels left free pageblocks apart that merging would have joined (B3 is then due).
    unsettled: bool,
}

impl LinuxBuddy {
    /// A zone in which every frame that exists is free and every pageblock movable, as at boot.
    ///
    /// Memory: 9 bytes a frame and 5 a pageblock. Time: O(frames).
    ///
    /// # Errors
    /// If the configuration is outside the limits that [`LinuxBuddyConfig`] states.
    pub fn new(config: &LinuxBuddyConfig<'_>) -> Result<Self, LinuxBuddyError> {
        if config.frames > links::MAX_FRAMES {
            return Err(LinuxBuddyError::TooManyFrames(config.frames));
        }
        if !(1..=MAX_ORDER).contains(&config.pageblock_order) {
            return Err(LinuxBuddyError::PageblockOrder(config.pageblock_order));
        }
        if config.cpus == 0 {
            return Err(LinuxBuddyError::NoCpu);
        }
        let cpus = if config.per_cpu_lists { config.cpus } else { 0 };
        let frames = BuddyFrames::new(config, usize::from(cpus) * marks::LISTS);
        let marks = match config.marks {
            Some(of) if config.policy.is_strict() => marks::PerCpuMarks::of_machine(&of),
            Some(of) => marks::PerCpuMarks::new(config.policy, of.managed, config.cpus),
            None => marks::PerCpuMarks::new(config.policy, frames.present(), config.cpus),
        };
        let boosts = config.marks.filter(|_| config.policy.is_strict());
        let (most, first) = boosts.map_or((0, 0), |marks| (marks.boost_max, marks.boost_first));
        Ok(Self {
            policy: config.policy,
            percpu: (0..usize::from(cpus))
                .map(|cpu| {
                    config
                        .percpu_first
                        .get(cpu)
                        .copied()
                        .unwrap_or(marks.high_min)
                })
                .map(BuddyPerCpu::new)
                .collect(),
            marks,
            boost: boost::WatermarkBoost::new(most, 1 << config.pageblock_order, first),
            high: config.marks.map_or(0, |marks| marks.high),
            is_reclaiming: false,
            waited_ms: 0,
            frames,
            fallbacks: [[0; 3]; 3],
            unsettled: false,
        })
    }

    /// The list that serves `mobility`: without grouping there is only one, and Linux then calls
    /// everything unmovable.
    fn list_of(&self, mobility: Mobility) -> usize {
        if self.policy.groups() {
            mobility.index()
        } else {
            Mobility::Unmovable.index()
        }
    }

    /// One attempt, without the slow path.
    #[inline]
    fn take(&mut self, cpu: CpuId, order: u8, mt: usize) -> Option<u32> {
        if self.policy.avoids_fragments(false) {
            // The first pass fragments nothing; with one zone the second follows at once.
            if let Some(frame) = self.take_with(cpu, order, mt, true) {
                return Some(frame);
            }
        }
        self.take_with(cpu, order, mt, false)
    }

    #[inline]
    fn take_with(&mut self, cpu: CpuId, order: u8, mt: usize, whole_only: bool) -> Option<u32> {
        if !self.percpu.is_empty() && self.policy.caches(order) {
            self.take_cached(cpu, order, mt, whole_only)
        } else {
            let mut stealing = false;
            self.rmqueue(order, mt, whole_only, &mut stealing)
        }
    }

    #[cold]
    fn take_after_drain(&mut self, cpu: CpuId, order: u8, mt: usize) -> Option<u32> {
        if self.percpu.iter().all(BuddyPerCpu::is_empty) {
            return None;
        }
        self.drain();
        self.take(cpu, order, mt)
    }

    /// Hands out the block that `take` finds for an order and a list.
    #[inline]
    fn hand_out(
        &mut self,
        order: Order,
        mobility: Mobility,
        take: impl FnOnce(&mut Self, u8, usize) -> Option<u32>,
    ) -> Option<Frame> {
        let order = order.get();
        if order > MAX_ORDER {
            return None;
        }
        if self.unsettled {
            self.settle();
        }
        let mt = self.list_of(mobility);
        let frame = take(self, order, mt)?;
        self.frames.mark_allocated(frame, order, mobility.index());
        Some(Frame(u64::from(frame)))
    }

    /// Joins what imposed labels kept apart, as the frees that led there would have.
    #[cold]
    fn settle(&mut self) {
        self.frames.merge_whole_pageblocks();
        self.unsettled = false;
    }
}

impl ReplaySubject for LinuxBuddy {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    /// Sets a pageblock's label and moves its free blocks to that list. A free block larger than
    /// a pageblock is split for it, and joined again before the first request.
    fn set_label(&mut self, pageblock: u64, label: Mobility) {
        let list = self.list_of(label);
        if let Ok(pageblock) = usize::try_from(pageblock) {
            self.unsettled |= self.frames.impose_label(pageblock, list);
        }
    }

    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool {
        let Some((frame, order)) = self.frames.block_at(frame, order) else {
            return false;
        };
        if !self.frames.carve(frame, order) {
            // The frames may be free and not in one block: cached, or kept apart by labels.
            self.drain();
            self.settle();
            if !self.frames.carve(frame, order) {
                return false;
            }
        }
        self.frames.mark_allocated(frame, order, mobility.index());
        true
    }

    #[inline]
    fn alloc(&mut self, cpu: CpuId, order: Order, mobility: Mobility) -> Option<Frame> {
        self.hand_out(order, mobility, |zone, order, mt| {
            let frame = zone.take(cpu, order, mt);
            frame.or_else(|| zone.take_after_drain(cpu, order, mt))
        })
    }

    #[inline]
    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) -> Result<(), FreeRefused> {
        let (frame, order) = self.frames.block_at(frame, order).ok_or(FreeRefused)?;
        self.frames.unmark_allocated(frame, order)?;
        if !self.percpu.is_empty() && self.policy.caches(order) {
            self.free_cached(cpu, frame, order);
        } else {
            self.frames.free_block(frame, order);
        }
        Ok(())
    }

    /// A place in some CPU's list stays there, and what is left goes to the free lists: compaction empties the lists of its CPU
    /// as it goes.
    fn move_block(&mut self, from: Frame, to: Frame, order: Order) -> Result<bool, FreeRefused> {
        let from = self.frames.block_at(from, order).ok_or(FreeRefused)?;
        let Some((to, order)) = self.frames.block_at(to, order) else {
            return Ok(false);
        };
        if self.unsettled {
            self.settle();
        }
        self.frames.unmark_allocated(from.0, order)?;
        let is_free = self.frames.carve(to, order);
        let now = if is_free { to } else { from.0 };
        self.frames
            .mark_allocated(now, order, Mobility::Movable.index());
        if is_free {
            self.frames.free_block(from.0, order);
        }
        Ok(is_free)
    }

    fn receives_moved(&self, pageblock: u64, _fixed_frames: u16) -> bool {
        let label = self.frames.label_at(pageblock as usize);
        label == Some(self.list_of(Mobility::Movable))
    }

    fn drain(&mut self) {
        for cpu in 0..self.percpu.len() {
            self.drain_cpu(cpu);
        }
    }

    fn free_blocks(&self) -> [[u64; 11]; 3] {
        self.frames.free_blocks()
    }

    fn labels(&self) -> [u64; 3] {
        self.frames.labels()
    }

    fn fallbacks(&self) -> [[u64; 3]; 3] {
        self.fallbacks
    }

    fn pass_time(&mut self, ms: u64) {
        self.waited_ms += ms;
        // Once a second, whatever has passed: the marks come down by a part of what they are.
        if self.waited_ms >= 1000 {
            self.waited_ms = 0;
            self.lower_percpu_marks();
        }
    }
}

impl ZoneAllocator for LinuxBuddy {
    fn fill_percpu(&mut self, frames: &[u64], listed: &ZoneLists) {
        self.fill_lists(frames, listed);
    }

    fn cache_at(&mut self, block: CachedBlock) {
        self.push_free_block(block);
    }

    #[inline]
    fn listed_free(&self) -> u64 {
        self.frames.free()
    }

    #[inline]
    fn boost(&self) -> u64 {
        self.boost.frames()
    }

    fn lower_boost(&mut self, frames: u64) {
        self.boost.lower(frames);
    }

    #[inline]
    fn has_listed(&self, order: Order) -> bool {
        (order.get()..=MAX_ORDER).any(|order| self.frames.has_free(order))
    }

    #[inline]
    fn serve(
        &mut self,
        cpu: CpuId,
        order: Order,
        mobility: Mobility,
        pass: ZonePass,
    ) -> Option<Frame> {
        // The lists are empty already where others were: a drain is part of the request, not of the zone.
        self.hand_out(order, mobility, |zone, order, mt| {
            zone.take_with(cpu, order, mt, pass == ZonePass::WholeOnly)
        })
    }

    fn avoids_fragments(&self, has_zone_below: bool) -> bool {
        self.policy.avoids_fragments(has_zone_below)
    }

    fn fragments_last(&self) -> bool {
        self.policy.fragments_last()
    }

    fn set_reclaiming(&mut self, is_reclaiming: bool) {
        self.is_reclaiming = is_reclaiming;
    }
}
