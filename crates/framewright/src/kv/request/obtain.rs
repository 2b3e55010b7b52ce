//! How an object is obtained, step by step: what `kmalloc` and `kvmalloc` have in common.
//!
//! The [policy](crate::policy::next_step) chooses the next step; this file carries out each of
//! them. Every step is taken outside a busy seat, and within the request's context (K8).

use super::super::lengths::{addr_of, order_of};
use super::super::seat::Missed;
use super::super::slab::{BYTES_MAX, SizeClass};
use super::super::{KvError, KvSeat};
use super::KvRequest;
use crate::frame::FrameSource;
use crate::platform::parts::zero_object;
use crate::platform::{ObjectPlatform, Relief};
use crate::policy::{SpillFacts, SpillStep, Tried, next_step};
use crate::units::{Addr, Order, Page};
use crate::vrange::{AreaRequest, RangeError};

/// What memory will do for a request; at least one kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryNeed {
    /// A slot of that class, or else a block,
    pub(in super::super) class: Option<SizeClass>,
    /// of that order.
    pub(in super::super) order: Option<Order>,
    /// Or that many mapped pages.
    pub(in super::super) pages: Option<u64>,
    /// Whether mapped pages are a spill, and not what the caller asked for.
    pub(super) may_spill: bool,
}

impl<P, F, R> KvSeat<'_, '_, '_, P, F, R>
where
    P: ObjectPlatform,
    R: Relief<F>,
    F: FrameSource,
{
    /// What memory will do for a request, if there are enough frames. [`possible`](Self::possible)
    /// later removes a block that the existing frames could never give; it runs after the first
    /// look, because most requests do not need it.
    #[inline]
    pub(super) fn need(
        &mut self,
        request: &KvRequest,
        may_be_mapped: bool,
    ) -> Result<MemoryNeed, KvError> {
        request.check()?;
        let &KvRequest {
            bytes, align_bytes, ..
        } = request;
        let frames = bytes.div_ceil(Page::BYTES);
        if self.has_fewer(frames) {
            return Err(KvError::TooLong { bytes });
        }
        let source = self.ranges.frames();
        let has_block = |order: &Order| *order <= source.max_order();
        // A block is aligned to its length relative to the start of the direct map.
        let is_aligned = self.kv.direct & (align_bytes - 1) == 0;
        let order = order_of(bytes, align_bytes).filter(has_block);
        let order = order.filter(|_| is_aligned);
        let class = order.and_then(|_| SizeClass::of(bytes, align_bytes));
        if may_be_mapped {
            // With its guard page.
            let pages = Some(frames).filter(|pages| *pages < self.ranges.space().pages());
            if order.is_none() && pages.is_none() {
                return Err(KvError::TooLong { bytes });
            }
            return Ok(MemoryNeed {
                class,
                order,
                pages,
                may_spill: true,
            });
        }
        match order {
            Some(_) => Ok(MemoryNeed {
                class,
                order,
                pages: None,
                may_spill: false,
            }),
            None if order_of(bytes, 1).filter(has_block).is_some() => {
                Err(KvError::AlignContiguous { bytes: align_bytes })
            }
            None => Err(KvError::TooLong { bytes }),
        }
    }

    /// Whether this many frames do not exist, or objects cannot lie in them.
    #[inline(always)]
    fn has_fewer(&mut self, frames: u64) -> bool {
        frames
            > self
                .kv
                .shape
                .frames
                .min(self.ranges.frames().frames_in_all())
    }

    /// The part of `need` that the existing frames could ever give.
    pub(super) fn possible(
        &mut self,
        request: &KvRequest,
        need: &MemoryNeed,
    ) -> Result<MemoryNeed, KvError> {
        let &KvRequest {
            bytes, align_bytes, ..
        } = request;
        let source = self.ranges.frames();
        let has_block = |order: &Order| source.could_have(*order);
        let order = need.order.filter(has_block);
        if order.is_some() || need.pages.is_some() {
            let class = need.class.filter(|_| order.is_some());
            return Ok(MemoryNeed {
                class,
                order,
                ..*need
            });
        }
        if !need.may_spill && order_of(bytes, 1).filter(has_block).is_some() {
            return Err(KvError::AlignContiguous { bytes: align_bytes });
        }
        Err(KvError::TooLong { bytes })
    }

    /// An object for a request that no slot at hand serves. A long one mostly finds a block at once, before
    /// everything is worked out that would do.
    #[inline(always)]
    pub(super) fn obtain_for(
        &mut self,
        request: &KvRequest,
        may_be_mapped: bool,
    ) -> Result<Addr, KvError> {
        let Some(order) = self.order_of_long(request) else {
            let need = self.need(request, may_be_mapped)?;
            return self.obtain(request, &need);
        };
        if let Some(addr) = self.run(order) {
            return Ok(self.zeroed(addr, request));
        }
        let need = self.need(request, may_be_mapped)?;
        self.obtain_slow(request, &need)
    }

    /// The order of the block that serves a request first, if such frames exist.
    #[inline(always)]
    fn order_of_long(&mut self, request: &KvRequest) -> Option<Order> {
        let order = self.order_of_block(request)?;
        let is_possible = order <= self.ranges.frames().max_order();
        let is_right = is_possible && request.check().is_ok();
        (is_right && !self.has_fewer(order.frames())).then_some(order)
    }

    /// The order of the block that serves a request first; `None` for a request that a slot serves, and for
    /// one whose length or alignment is wrong.
    #[inline(always)]
    pub(super) fn order_of_block(&self, request: &KvRequest) -> Option<Order> {
        let &KvRequest {
            bytes, align_bytes, ..
        } = request;
        // A block is aligned to its length relative to the start of the direct map.
        let is_aligned = align_bytes.is_power_of_two() && self.kv.direct & (align_bytes - 1) == 0;
        if bytes == 0 || bytes.max(align_bytes) <= BYTES_MAX || !is_aligned {
            return None;
        }
        order_of(bytes, align_bytes)
    }

    /// An object in memory that will do, filled with zeroes if that was asked for.
    #[inline]
    pub(super) fn obtain(
        &mut self,
        request: &KvRequest,
        need: &MemoryNeed,
    ) -> Result<Addr, KvError> {
        match self.look(request, need) {
            Some(addr) => Ok(addr),
            None => self.obtain_slow(request, need),
        }
    }

    /// A contiguous object that is there at once.
    #[inline]
    pub(super) fn look(&mut self, request: &KvRequest, need: &MemoryNeed) -> Option<Addr> {
        let addr = self.at_once(need.class, need.order?)?;
        Some(self.zeroed(addr, request))
    }

    /// Goes on after the first look found no memory.
    #[cold]
    #[inline(never)]
    fn obtain_slow(&mut self, request: &KvRequest, need: &MemoryNeed) -> Result<Addr, KvError> {
        let &KvRequest {
            bytes,
            effort,
            context,
            ..
        } = request;
        let need = &self.possible(request, need)?;
        let last = match need.order {
            Some(_) => Tried::Look,
            None => Tried::Nothing,
        };
        let mut facts = SpillFacts {
            effort,
            context,
            may_be_block: need.order.is_some(),
            can_fragment: need.order.is_some_and(|order| order > Order::ZERO),
            may_be_mapped: need.pages.is_some(),
            compactions: 0,
            reclaims: 0,
            last,
        };
        let mut error = KvError::NotNow { bytes };
        let mut brought = 0;
        loop {
            facts.last = match next_step(&facts) {
                SpillStep::Look => match self.look(request, need) {
                    Some(addr) => return Ok(addr),
                    None => Tried::Look,
                },
                SpillStep::Collect => match self.collect(request, need) {
                    Ok(addr) => return Ok(addr),
                    Err(failed) => {
                        error = failed;
                        Tried::Collect
                    }
                },
                SpillStep::Map => match self.map_or_drain(request, need) {
                    Ok(addr) => return Ok(addr),
                    Err(failed) => {
                        error = KvError::Ranges(failed);
                        let for_memory = failed.is_for_memory();
                        facts.may_be_mapped = for_memory;
                        Tried::Map { for_memory }
                    }
                },
                SpillStep::Compact => {
                    facts.compactions = facts.compactions.saturating_add(1);
                    Tried::Compact(self.compact(request, need))
                }
                SpillStep::Reclaim => {
                    facts.reclaims = facts.reclaims.saturating_add(1);
                    let block = need.order.filter(|_| !facts.may_be_mapped);
                    Tried::Reclaim(self.reclaim(request, block, &mut brought))
                }
                SpillStep::Fail => {
                    self.held.words.counters.failures.add(1);
                    return Err(error);
                }
            };
        }
    }

    /// A contiguous object, after collecting all that CPUs keep unused: first from the space, if that keeps
    /// anything, then from slabs and zones at one moment (K9).
    ///
    /// If a stop would gain nothing, no slab keeps anything. Then the zones alone decide, unless a CPU frees or
    /// makes a slab before they have answered: so the request asks about the slabs again afterwards (K10).
    fn collect(&mut self, request: &KvRequest, need: &MemoryNeed) -> Result<Addr, KvError> {
        let bytes = request.bytes;
        let (class, order) = (need.class, need.order.ok_or(KvError::NotNow { bytes })?);
        if self.ranges.space().has_spare() {
            self.ranges.drain();
            if let Some(addr) = self.look(request, need) {
                return Ok(addr);
            }
        }
        let begin = self.kv.stop_words().memo.last();
        let found = match self.at_rest(class, Some(order), begin) {
            Err(Missed::Vain) => match self.block(class, order) {
                Err(failed) => self
                    .at_rest(class, Some(order), begin)
                    .map_err(|missed| missed.or(failed)),
                found => found,
            },
            found => found.map_err(|missed| missed.or(KvError::NotNow { bytes })),
        };
        Ok(self.zeroed(found?, request))
    }

    /// Mapped pages. If frames are missing and the request may wait, first collects what CPUs keep
    /// in slabs (K9), as [`collect`](Self::collect) does. Maps again after each standstill of all CPUs, because
    /// frames that lay in slabs may have come to the zones after it had asked the zones.
    fn map_or_drain(&mut self, request: &KvRequest, need: &MemoryNeed) -> Result<Addr, RangeError> {
        let memo = self.kv.stop_words().memo;
        for _ in 0..2 {
            let begin = memo.last();
            let found = self.map(request, need);
            let lacks_frames = found.is_err_and(RangeError::is_for_memory);
            if !lacks_frames || !request.context.may_block {
                return found;
            }
            match self.at_rest(need.class, need.order, begin) {
                Ok(addr) => return Ok(self.zeroed(addr, request)),
                Err(Missed::Vain) if memo.last() == begin => return found,
                Err(Missed::Vain) => {}
                Err(Missed::Nothing(_)) => break,
            }
        }
        self.map(request, need)
    }

    pub(super) fn map(
        &mut self,
        request: &KvRequest,
        need: &MemoryNeed,
    ) -> Result<Addr, RangeError> {
        let area = AreaRequest {
            align_bytes: request.align_bytes,
            guard_before: false,
            huge: false,
            zero: request.zero,
            context: request.context,
            tag: request.tag,
            ..AreaRequest::new(request.bytes.div_ceil(Page::BYTES))
        };
        let page = self.ranges.vmalloc(&area)?;
        self.held.words.counters.mapped_allocs.add(1);
        self.held
            .words
            .counters
            .spills
            .add(u64::from(need.may_spill));
        Ok(addr_of(page))
    }

    fn compact(&mut self, request: &KvRequest, need: &MemoryNeed) -> bool {
        let Some(order) = need.order else {
            return false;
        };
        self.held.words.counters.compact_stall.add(1);
        let frames = self.ranges.frames();
        self.relief.compact(frames, order, request.context)
    }

    /// Has as many frames reclaimed as mapped pages need, or as the block needs. `brought` is how many came
    /// for this request. Once that is more than there are, others take them all, or the relief counts
    /// frames that it did not bring: then none come (K7).
    fn reclaim(&mut self, request: &KvRequest, block: Option<Order>, brought: &mut u64) -> u64 {
        if *brought > self.ranges.frames().frames_in_all() {
            return 0;
        }
        self.held.words.counters.alloc_stall.add(1);
        let pages = request.bytes.div_ceil(Page::BYTES);
        let wanted = block.map_or(pages, Order::frames);
        let frames = self.ranges.frames();
        let freed = self.relief.reclaim(frames, wanted, request.context);
        *brought = brought.saturating_add(freed);
        freed
    }

    /// The object, with zeroes in all the bytes that it has if the request says so.
    #[inline(always)]
    fn zeroed(&mut self, addr: Addr, request: &KvRequest) -> Addr {
        if request.zero
            && let Ok(bytes) = self.kvsize(addr)
        {
            self.calling_out_for(addr, |platform| zero_object(platform, addr, bytes));
        }
        addr
    }
}
