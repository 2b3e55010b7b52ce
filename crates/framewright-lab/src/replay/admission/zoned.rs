//! The walk over zones by the rules of the module's header: which zone serves a request, at which mark, and what a
//! request that none serves may still do. The marks and the rights stand in files of their own; the allocators
//! behind know no watermark but their zone's.

use super::rights::{USUAL_FLAGS, ZoneKind, is_above, zone_kind};
use super::{MachineZone, MachineZones, RecordedStep, RequestRights, ZoneLists};
use crate::measure::{BLOCK_FRAMES, MAX_ORDER};
use crate::replay::{
    CachedBlock, FailureCause, FreeRefused, RecordedRequest, ReplayAnswer, ReplaySubject,
};
use framewright::{CpuId, Frame, Mobility, Order};
use std::ops::Range;

/// How far a zone may go for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZonePass {
    /// Of other mobilities it takes whole pageblocks only.
    WholeOnly,
    /// By its rules, from what the requester's CPU and the lists have.
    AtOnce,
    /// By its rules, after all CPUs' lists are emptied.
    Drained,
}

/// What admission asks of one zone's allocator.
pub trait ZoneAllocator: ReplaySubject {
    /// Frames on its free lists: not those that it keeps for single CPUs.
    fn listed_free(&self) -> u64;

    /// Frames that come on top of its watermarks for a while.
    fn boost(&self) -> u64 {
        0
    }

    /// The background takes so much of that away.
    fn lower_boost(&mut self, _frames: u64) {}

    /// Whether a free block of at least `order` is on a list; true where only trying tells.
    fn has_listed(&self, order: Order) -> bool;

    /// A block, or nothing where the rules find none within what the pass allows. Nothing has changed then but which
    /// frames lie in which CPU's lists.
    fn serve(
        &mut self,
        cpu: CpuId,
        order: Order,
        mobility: Mobility,
        pass: ZonePass,
    ) -> Option<Frame>;

    /// Whether the first pass over the zones takes whole pageblocks only; below the zone that is asked first there may
    /// be one for 32-bit devices.
    fn avoids_fragments(&self, _has_zone_below: bool) -> bool {
        false
    }

    /// Whether no request takes less from other mobilities before it has waited (`vm.defrag_mode`).
    fn fragments_last(&self) -> bool {
        false
    }

    /// Takes so many frames to each CPU's lists, as far as there are, and leaves free blocks as they were `listed`, as far
    /// as it can. An allocator whose lists never grow so long takes none.
    fn fill_percpu(&mut self, _frames: &[u64], _listed: &ZoneLists) {}

    /// Takes a free block to the end of its CPU's list. An allocator whose lists never grow so long leaves it.
    fn cache_at(&mut self, _block: CachedBlock) {}

    /// The background begins or ends to reclaim.
    fn set_reclaiming(&mut self, _is_reclaiming: bool) {}
}

/// A zone with its allocator.
#[derive(Debug)]
struct GuardedZone<S> {
    allocator: S,
    /// As the machine has it.
    of: MachineZone,
    /// Frames that requests which waited are taken to have reclaimed, and that no free has brought yet.
    reclaimed: u64,
}

/// As many frames as a request that waits reclaims at least (`SWAP_CLUSTER_MAX`).
const RECLAIMED_A_REQUEST: u64 = 32;

/// The largest order for which a request tries hard (`PAGE_ALLOC_COSTLY_ORDER`).
const COSTLY: u8 = 3;

/// As many frames as a CPU's lists take at once.
const MOVED_A_REQUEST: u64 = 64;

const MIN: usize = 0;
const LOW: usize = 1;
const HIGH: usize = 2;

/// Zones of a machine behind Linux's rules of admission; see the module's header.
///
/// # Invariants
/// - **AD1** What a request gets leaves its zone above the mark that binds the request, unless it stalled, or may wait and
///   takes of what one that stalled is taken to have reclaimed.
/// - **AD2** A request that may wait and was served when recorded fails only where no zone has a block, or where it is of an
///   order above 3 and gives up.
/// - **AD3** A request that may not wait changes no other CPU's lists. One that waits empties them before it is served below a
///   mark, unless too few have waited since that was last done.
/// - **AD4** Where the recorded background is followed, a boost ends with a recorded round that found it, and with nothing
///   else.
#[derive(Debug)]
pub(in crate::replay) struct Zoned<S> {
    name: &'static str,
    /// Ascending; requests go from the last that they can do with downwards.
    zones: Vec<GuardedZone<S>>,
    /// The place of that zone, by [`ZoneKind`].
    last: [usize; 5],
    /// What the background does, while it is awake.
    round: Option<ReclaimRound>,
    /// Whether its rounds are those of the recording.
    follows: bool,
    /// How many requests that wait empty no lists, because that was done a moment ago.
    rests: u64,
    /// What a request got last that the machine did not serve: it comes back at once, and no reclaim brought it.
    tried: Option<Frame>,
}

/// A round of the background, which works for all zones at once.
#[derive(Debug)]
struct ReclaimRound {
    /// The boost of each zone when it began: what it takes away in the end.
    boosts: Vec<u64>,
    /// Frames that are still to be freed for the boosts; 0 where the round ends when a zone is above high.
    owed: u64,
}

impl<S: ZoneAllocator> Zoned<S> {
    /// The machine's zones, with an allocator for each in their order.
    pub(in crate::replay) fn new(
        name: &'static str,
        machine: &MachineZones,
        allocators: impl IntoIterator<Item = S>,
    ) -> Self {
        use ZoneKind::{Dma, Dma32, HighMem, Movable, Normal};
        let zone = |(of, allocator): (&MachineZone, S)| GuardedZone {
            allocator,
            of: of.clone(),
            reclaimed: 0,
        };
        Self {
            name,
            zones: machine.zones.iter().zip(allocators).map(zone).collect(),
            last: [Dma, Dma32, Normal, HighMem, Movable].map(|kind| machine.last_of(kind)),
            round: None,
            follows: false,
            rests: 0,
            tried: None,
        }
    }

    /// Asks each zone from `last` down, at a mark.
    #[inline]
    fn walk(
        &mut self,
        last: usize,
        request: RecordedRequest,
        level: usize,
        rights: RequestRights,
        pass: ZonePass,
    ) -> Option<Frame> {
        let RecordedRequest {
            cpu,
            order,
            mobility,
            ..
        } = request;
        for at in (0..=last).rev() {
            let zone = &mut self.zones[at];
            if !zone.admits(last, order, level, rights) {
                continue;
            }
            if let Some(frame) = zone.allocator.serve(cpu, order, mobility, pass) {
                return Some(Frame(zone.of.first + frame.0));
            }
        }
        None
    }

    /// What becomes of a request.
    #[inline]
    fn answer(&mut self, request: RecordedRequest) -> ReplayAnswer {
        let flags = request.flags.unwrap_or(USUAL_FLAGS);
        let last = self.last[zone_kind(flags) as usize];
        // At the low marks a request has no rights.
        let none = RequestRights::default();
        let first = &self.zones[last];
        // A frame without an event is the bulk allocator's, and that one avoids no fragments.
        let is_bulk = request.flags.is_none() && request.order == Order::ZERO;
        let has_zone_below = first.of.is_normal() && last > 0;
        if !is_bulk && first.allocator.avoids_fragments(has_zone_below) {
            let served = self.walk(last, request, LOW, none, ZonePass::WholeOnly);
            if let Some(frame) = served {
                return ReplayAnswer::Served(frame);
            }
        }
        if is_bulk || !self.zones[last].allocator.fragments_last() {
            let served = self.walk(last, request, LOW, none, ZonePass::AtOnce);
            if let Some(frame) = served {
                return ReplayAnswer::Served(frame);
            }
        }
        self.slow(last, request, RequestRights::of(flags))
    }

    #[cold]
    fn slow(
        &mut self,
        last: usize,
        request: RecordedRequest,
        rights: RequestRights,
    ) -> ReplayAnswer {
        if rights.wakes && self.round.is_none() && !self.follows {
            self.wake();
        }
        let pass = match self.zones[last].allocator.fragments_last() {
            true => ZonePass::WholeOnly,
            false => ZonePass::AtOnce,
        };
        if let Some(frame) = self.walk(last, request, MIN, rights, pass) {
            return ReplayAnswer::Served(frame);
        }
        if !rights.may_wait {
            return ReplayAnswer::Refused(Some(self.cause(last, request.order, rights)));
        }
        if rights.is_optional && !self.can_compact(last, request.order, rights) {
            return ReplayAnswer::Refused(Some(self.cause(last, request.order, rights)));
        }
        if !request.is_served {
            return self.last_resort(last, request, rights, pass);
        }
        // What reclaim freed came before the request in the recording. Where that is not enough, Linux empties all CPUs'
        // lists and looks again.
        if self.drain_if_due()
            && let Some(frame) = self.walk(last, request, MIN, rights, pass)
        {
            return ReplayAnswer::Stalled(frame);
        }
        // The machine did serve it: from the zone that is least below its mark, by what is really there.
        let mut places: Vec<usize> = (0..=last).collect();
        places.sort_by_key(|&at| {
            let zone = &self.zones[at];
            let room = zone.allocator.listed_free() as i64 - zone.mark(MIN, last, rights) as i64;
            (std::cmp::Reverse(room), std::cmp::Reverse(at))
        });
        let RecordedRequest {
            cpu,
            order,
            mobility,
            ..
        } = request;
        for pass in [ZonePass::AtOnce, ZonePass::Drained] {
            if pass == ZonePass::Drained {
                self.drain();
            }
            for &at in &places {
                let zone = &mut self.zones[at];
                if let Some(frame) = zone.allocator.serve(cpu, order, mobility, pass) {
                    zone.reclaimed += order.frames().max(RECLAIMED_A_REQUEST);
                    return ReplayAnswer::Stalled(Frame(zone.of.first + frame.0));
                }
            }
        }
        ReplayAnswer::Refused(Some(match self.cause(last, order, rights) {
            FailureCause::Exhausted => FailureCause::Exhausted,
            _ => FailureCause::Fragmented,
        }))
    }

    /// Empties all CPUs' lists; false if it does not. After it has moved n frames, it rests for n / [`MOVED_A_REQUEST`] requests
    /// that wait. A replay that stays at its marks would move the same frames for each request.
    fn drain_if_due(&mut self) -> bool {
        if self.rests > 0 {
            self.rests -= 1;
            return false;
        }
        let listed = |zones: &[GuardedZone<S>]| -> u64 {
            zones.iter().map(|zone| zone.allocator.listed_free()).sum()
        };
        let before = listed(&self.zones);
        self.drain();
        self.rests = listed(&self.zones).saturating_sub(before) / MOVED_A_REQUEST;
        true
    }

    /// Whether Linux would compact for an order that is too large to wait long for: some zone is above low with room to move.
    #[cold]
    fn can_compact(&self, last: usize, order: Order, rights: RequestRights) -> bool {
        let has_room = |zone: &GuardedZone<S>| {
            let mark = zone.mark(LOW, last, rights) + 2 * order.frames();
            is_above(zone.free(rights), 0, mark)
        };
        order.get() <= COSTLY || self.zones[..=last].iter().any(has_room)
    }

    /// What a request comes to that the machine did not serve in the end, although it waited.
    fn last_resort(
        &mut self,
        last: usize,
        request: RecordedRequest,
        rights: RequestRights,
        pass: ZonePass,
    ) -> ReplayAnswer {
        for zone in &mut self.zones[..=last] {
            zone.allocator.drain();
        }
        for pass in [pass, ZonePass::Drained] {
            if let Some(frame) = self.walk(last, request, MIN, rights, pass) {
                return ReplayAnswer::Stalled(frame);
            }
        }
        ReplayAnswer::Refused(Some(self.cause(last, request.order, rights)))
    }

    /// What a request failed for: a zone above its mark has no block, or none is above; or all together have too
    /// little.
    fn cause(&self, last: usize, order: Order, rights: RequestRights) -> FailureCause {
        let zones = &self.zones[..=last];
        let listed = |zone: &GuardedZone<S>| zone.allocator.listed_free();
        let is_above = |zone: &GuardedZone<S>| {
            is_above(zone.free(rights), order.get(), zone.mark(MIN, last, rights))
        };
        if zones.iter().map(listed).sum::<u64>() < order.frames() {
            FailureCause::Exhausted
        } else if zones.iter().any(is_above) {
            FailureCause::Fragmented
        } else {
            FailureCause::Watermark
        }
    }

    /// Whether some zone is above high for every request: then the background has nothing to do but for boosts.
    fn is_balanced(&self) -> bool {
        let all = self.zones.len() - 1;
        let is_above_high = |zone: &GuardedZone<S>| {
            let high = zone.mark(HIGH, all, RequestRights::default());
            is_above(zone.allocator.listed_free(), 0, high)
        };
        self.zones.iter().any(is_above_high)
    }

    /// The background begins a round, if there is something to do.
    #[cold]
    fn wake(&mut self) {
        let boosts = self.zones.iter().map(|zone| zone.allocator.boost());
        let boosts: Vec<u64> = boosts.collect();
        let is_balanced = self.is_balanced();
        let owed = boosts.iter().sum();
        if is_balanced && owed == 0 {
            return;
        }
        let owed = if is_balanced { owed } else { 0 };
        self.begin_round(ReclaimRound { boosts, owed });
    }

    fn begin_round(&mut self, round: ReclaimRound) {
        self.round = Some(round);
        for zone in &mut self.zones {
            zone.allocator.set_reclaiming(true);
        }
    }

    /// Takes away the boosts that the round found when it began, if there is one.
    fn end_round(&mut self) {
        let Some(round) = self.round.take() else {
            return;
        };
        for (zone, boost) in self.zones.iter_mut().zip(round.boosts) {
            zone.allocator.lower_boost(boost);
            zone.allocator.set_reclaiming(false);
        }
    }

    /// Frames came back while the background was awake: its own work, as far as a recording tells.
    fn freed(&mut self, frames: u64) {
        let is_balanced = self.is_balanced();
        let Some(round) = &mut self.round else {
            return;
        };
        if !is_balanced {
            // Boosts wait: the round goes on until a zone is above high, its boost included.
            round.owed = 0;
            return;
        }
        round.owed = round.owed.saturating_sub(frames);
        if round.owed == 0 {
            self.end_round();
        }
    }

    fn zone_at(&self, frame: Frame) -> Option<usize> {
        self.zones.iter().rposition(|zone| frame.0 >= zone.of.first)
    }

    fn sum<const N: usize>(&self, of: impl Fn(&S) -> [[u64; N]; 3]) -> [[u64; N]; 3] {
        let mut sum = [[0; N]; 3];
        for zone in &self.zones {
            let more = of(&zone.allocator);
            for (sum, more) in sum.as_flattened_mut().iter_mut().zip(more.as_flattened()) {
                *sum += more;
            }
        }
        sum
    }
}

/// The CPU that took the block first, or the one that had the most beside what is there already, where its lists are full.
fn cpu_with_room(room: &mut [u64], taker: CpuId, order: Order) -> CpuId {
    let frames = order.frames();
    let has_room = room.get(taker.index()).is_some_and(|&left| left >= frames);
    let most = (0..room.len()).max_by_key(|&cpu| room[cpu]).unwrap_or(0);
    let cpu = if has_room { taker.index() } else { most };
    match room.get_mut(cpu) {
        Some(left) if *left >= frames => {
            *left -= frames;
            CpuId(cpu as u16)
        }
        _ => taker,
    }
}

impl<S: ZoneAllocator> GuardedZone<S> {
    /// Frames that count as free for a request: those on its lists and, where it may wait, those that are taken to be
    /// reclaimed.
    #[inline]
    fn free(&self, rights: RequestRights) -> u64 {
        let reclaimed = if rights.may_wait { self.reclaimed } else { 0 };
        self.allocator.listed_free() + reclaimed
    }

    /// The mark that binds a request, with what comes on top of it.
    #[inline]
    fn mark(&self, level: usize, last: usize, rights: RequestRights) -> u64 {
        let mark = self.of.marks[level] + self.allocator.boost();
        let mark = if level == MIN { rights.min(mark) } else { mark };
        mark + self.of.protects_from(last)
    }

    #[inline]
    fn admits(&self, last: usize, order: Order, level: usize, rights: RequestRights) -> bool {
        let free = self.free(rights);
        let is_above = is_above(free, order.get(), self.mark(level, last, rights))
            || level == MIN && self.is_urgent(free, last, order, rights);
        is_above && (order == Order::ZERO || self.allocator.has_listed(order))
    }

    /// Past the marks: those that know none, and urgent requests for one frame, which see no boost.
    #[cold]
    fn is_urgent(&self, free: u64, last: usize, order: Order, rights: RequestRights) -> bool {
        let unboosted = rights.min(self.of.marks[MIN]) + self.of.protects_from(last);
        rights.knows_no_marks
            || rights.is_high && order == Order::ZERO && is_above(free, 0, unboosted)
    }
}

impl<S: ZoneAllocator> ReplaySubject for Zoned<S> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn set_label(&mut self, pageblock: u64, label: Mobility) {
        if let Some(at) = self.zone_at(Frame(pageblock * BLOCK_FRAMES)) {
            let zone = &mut self.zones[at];
            let inside = pageblock - zone.of.first / BLOCK_FRAMES;
            zone.allocator.set_label(inside, label);
        }
    }

    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool {
        self.zone_at(frame).is_some_and(|at| {
            let zone = &mut self.zones[at];
            let inside = Frame(frame.0 - zone.of.first);
            zone.allocator.alloc_at(inside, order, mobility)
        })
    }

    /// As a request that may wait and that the machine served.
    fn alloc(&mut self, cpu: CpuId, order: Order, mobility: Mobility) -> Option<Frame> {
        let request = RecordedRequest {
            cpu,
            order,
            mobility,
            flags: Some(USUAL_FLAGS),
            is_served: true,
        };
        self.request(request).frame()
    }

    #[inline]
    fn request(&mut self, request: RecordedRequest) -> ReplayAnswer {
        let answer = self.answer(request);
        if !request.is_served {
            self.tried = answer.frame();
        }
        answer
    }

    #[inline]
    fn free(&mut self, cpu: CpuId, frame: Frame, order: Order) -> Result<(), FreeRefused> {
        let at = self.zone_at(frame).ok_or(FreeRefused)?;
        let zone = &mut self.zones[at];
        if frame.0 + order.frames() > zone.of.first + zone.of.frames {
            return Err(FreeRefused);
        }
        let inside = Frame(frame.0 - zone.of.first);
        zone.allocator.free(cpu, inside, order)?;
        if self.tried.take() != Some(frame) {
            zone.reclaimed = zone.reclaimed.saturating_sub(order.frames());
        }
        if self.follows {
            return Ok(());
        }
        if self.round.is_some() {
            self.freed(order.frames());
        } else if zone.allocator.boost() > 0 {
            // A claim wakes it; that it does so here and not at the claim makes no difference to a round.
            self.wake();
        }
        Ok(())
    }

    fn pass_time(&mut self, ms: u64) {
        for zone in &mut self.zones {
            zone.allocator.pass_time(ms);
        }
    }

    fn follow_background(&mut self) {
        self.follows = true;
    }

    fn background(&mut self, step: RecordedStep) {
        self.end_round();
        if step == RecordedStep::Begins {
            let boosts = self.zones.iter().map(|zone| zone.allocator.boost());
            let boosts = boosts.collect();
            self.begin_round(ReclaimRound { boosts, owed: 0 });
        }
    }

    fn move_block(&mut self, from: Frame, to: Frame, order: Order) -> Result<bool, FreeRefused> {
        let at = self.zone_at(from).ok_or(FreeRefused)?;
        if self.zone_at(to) != Some(at) {
            return Ok(false);
        }
        let zone = &mut self.zones[at];
        let [from, to] = [from, to].map(|frame| Frame(frame.0 - zone.of.first));
        zone.allocator.move_block(from, to, order)
    }

    fn receives_moved(&self, pageblock: u64, fixed_frames: u16) -> bool {
        self.zone_at(Frame(pageblock * BLOCK_FRAMES))
            .is_some_and(|at| {
                let zone = &self.zones[at];
                let inside = pageblock - zone.of.first / BLOCK_FRAMES;
                zone.allocator.receives_moved(inside, fixed_frames)
            })
    }

    fn zone_of(&self, frame: Frame) -> Range<u64> {
        self.zone_at(frame).map_or(0..0, |at| {
            let MachineZone { first, frames, .. } = self.zones[at].of;
            first..first + frames
        })
    }

    fn fill_caches(&mut self, blocks: &[CachedBlock]) {
        // As many as the machine says that each CPU had.
        let cached = self.zones.iter().map(|zone| zone.of.cached.clone());
        let mut room: Vec<Vec<u64>> = cached.collect();
        for block in blocks {
            if let Some(at) = self.zone_at(block.frame) {
                let zone = &mut self.zones[at];
                let frame = Frame(block.frame.0 - zone.of.first);
                let cpu = cpu_with_room(&mut room[at], block.cpu, block.order);
                zone.allocator.cache_at(CachedBlock {
                    frame,
                    cpu,
                    ..*block
                });
            }
        }
        if !blocks.is_empty() {
            return;
        }
        for zone in &mut self.zones {
            let frames = zone.of.cached_of(zone.allocator.listed_free());
            if let Some(listed) = &zone.of.lists {
                zone.allocator.fill_percpu(&frames, listed);
            }
        }
    }

    fn drain(&mut self) {
        for zone in &mut self.zones {
            zone.allocator.drain();
        }
    }

    fn free_blocks(&self) -> [[u64; MAX_ORDER + 1]; 3] {
        self.sum(|allocator| allocator.free_blocks())
    }

    fn labels(&self) -> [u64; 3] {
        let one = |allocator: &S| allocator.labels().map(|count| [count]);
        self.sum(one).map(|[count]| count)
    }

    fn fallbacks(&self) -> [[u64; 3]; 3] {
        self.sum(|allocator| allocator.fallbacks())
    }
}

#[cfg(test)]
#[path = "zoned_tests.rs"]
mod tests;
