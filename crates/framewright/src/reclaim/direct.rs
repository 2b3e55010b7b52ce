//! Direct reclaim: the work that a request does itself, while its caller waits.

use super::moving::Compaction;
use super::state::{Counter, Lack, Reclaim};
use super::{Ask, Clients, Shrunk};
use crate::frame::{AllocError, Seat};
use crate::platform::FramePlatform;
use crate::policy::{Remedy, compaction_cost, gap, next_priority, remedy, share};
use crate::sync::Ordering::Relaxed;
use crate::units::{Context, Frame, Mobility, Order};

/// A request for a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRequest {
    pub(crate) order: Order,
    pub(crate) mobility: Mobility,
    pub(crate) context: Context,
    /// The caller of a request that must not wait goes on in another way if it fails: no failure is counted.
    pub(crate) goes_on: bool,
}

/// Whether clients are asked for a request or for the background.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Behalf {
    /// A request waits.
    Direct,
    /// No request waits.
    Background,
}

/// What one round asks of all clients together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    pub(super) behalf: Behalf,
    pub(super) priority: u8,
    /// Frames wanted.
    pub(super) wanted: u64,
    /// Frames that may be looked at.
    pub(super) scan_max: u64,
    pub(super) order: Order,
    pub(super) context: Context,
}

/// What a request has done so far.
struct Efforts {
    priority: u8,
    /// The deepest round brought nothing, or the request has had all its rounds.
    is_over: bool,
    rounds: u16,
    compactions: u8,
    freed: u64,
    /// Of these, the frames that came since the last compaction.
    since: u64,
    /// It has asked for a whole pageblock instead of a smaller block.
    has_asked_for_whole: bool,
    /// It has asked for a block that serves other requests, too.
    has_asked_for_more: bool,
}

impl Efforts {
    /// A request that has done nothing yet.
    const fn new(priority: u8) -> Self {
        Self {
            priority,
            is_over: false,
            rounds: 0,
            compactions: 0,
            freed: 0,
            since: 0,
            has_asked_for_whole: false,
            has_asked_for_more: false,
        }
    }
}

/// What a request does next.
enum Next {
    /// Compact, for a block of that order.
    Compact(Order),
    /// Have that many frames given back.
    Reclaim(u64),
    GiveUp,
}

impl<'z, 'm, P: FramePlatform> Reclaim<'z, 'm, P> {
    /// Serves a request that may reclaim, and for which there is no block, or too little is free.
    ///
    /// Ends after `rounds_max` rounds and `compactions_max` attempts of compaction, not counting
    /// one for a whole pageblock and one for half of one (R3). Fails only when these are used up,
    /// or neither can help further (R7).
    #[cold]
    pub(super) fn obtain(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        request: &BlockRequest,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
    ) -> Result<Frame, AllocError> {
        let &BlockRequest {
            order, mobility, ..
        } = request;
        if order > self.zone().max_order() {
            return frames.alloc(order, mobility);
        }
        frames.give_loose();
        let mut efforts = Efforts::new(self.config().priority_first);
        loop {
            let lacking = self.lacking(request);
            if lacking == 0 {
                // Before the first stall, and after every last try, the blocks in all CPUs' caches
                // count: there must be no stall where there is a block.
                let is_first = efforts.rounds == 0 && efforts.compactions == 0;
                let found = match frames.try_alloc_again(order, mobility) {
                    None if is_first => frames.alloc_at_rest(order, mobility).ok(),
                    found => found,
                };
                if let Some(frame) = found {
                    return Ok(frame);
                }
            }
            match self.next(request, lacking, &efforts, clients) {
                Next::Compact(of) => {
                    let is_whole = of == self.zone().pageblock_order() && of > order;
                    // Each of them only once; a piece may be as large as a whole pageblock (R3).
                    if is_whole && !efforts.has_asked_for_whole {
                        efforts.has_asked_for_whole = true;
                    } else if Some(of) == self.more_than(order) && !efforts.has_asked_for_more {
                        efforts.has_asked_for_more = true;
                    } else {
                        efforts.compactions += 1;
                        efforts.since = 0;
                    }
                    if let Some(block) = self.stall_to_compact(frames, of, mobility, clients) {
                        return Ok(frames
                            .keep_first(block, (of, mobility), order.frames())
                            .start());
                    }
                }
                Next::Reclaim(wanted) => {
                    if efforts.rounds == 0 {
                        self.count_stall(order);
                    }
                    self.reclaim_some(frames, request, clients, wanted, &mut efforts);
                }
                Next::GiveUp => break,
            }
        }
        if self.lacking(request) > 0 && efforts.freed < order.frames() {
            // Below the min watermark only CPUs that will free may allocate; and this request has
            // not even brought the frames it takes.
            frames.count_failure(order, AllocError::Exhausted);
            return Err(AllocError::Exhausted);
        }
        frames.alloc_hard(order, mobility)
    }

    /// How many frames are missing for the request to leave the min watermark free.
    fn lacking(&self, request: &BlockRequest) -> u64 {
        let needed = self.zone().watermarks().min + request.order.frames();
        let free = self.zone().free_frames_for(request.mobility);
        needed.saturating_sub(free)
    }

    fn next(
        &self,
        request: &BlockRequest,
        lacking: u64,
        efforts: &Efforts,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
    ) -> Next {
        let &BlockRequest {
            order, mobility, ..
        } = request;
        let (zone, config) = (self.zone(), self.config());
        let batch = u64::from(config.batch_frames);
        let may_compact = efforts.compactions < config.compactions_max;
        let min = zone.watermarks().min;
        if lacking > 0 {
            // Free frames that this request cannot have, because they are lent to movable contents,
            // are room for those: freeing more of them would not help. A whole pageblock helps, if
            // one can be emptied, and else pieces.
            let whole = zone.pageblock_order();
            let piece = piece_of(whole).max(order);
            let has_room = zone.free_in_pageblocks() >= min + gap(piece);
            if !mobility.is_movable() && has_room {
                if !efforts.has_asked_for_whole && order < whole {
                    return Next::Compact(whole);
                }
                if may_compact {
                    return Next::Compact(piece);
                }
            }
            return Self::reclaim_or_not(efforts, lacking + batch);
        }
        if order == Order::ZERO {
            return Self::reclaim_or_not(efforts, batch);
        }
        if !efforts.has_asked_for_whole && self.would_compact_in_clean(request) {
            return Next::Compact(zone.pageblock_order());
        }
        let needed = min + gap(order);
        let free = zone.free_frames_for(mobility);
        match remedy(order, free, min, clients.holding()) {
            // Compacts again only if there is more to compact than the last time.
            Remedy::Compact if !may_compact => Next::GiveUp,
            Remedy::Compact => {
                let more = self
                    .more_than(order)
                    .filter(|_| !efforts.has_asked_for_more);
                if let Some(more) = more.filter(|more| free >= min + gap(*more)) {
                    return Next::Compact(more);
                }
                if efforts.compactions == 0 || efforts.since >= gap(order) {
                    return Next::Compact(order);
                }
                let wanted = gap(order) - efforts.since;
                Self::reclaim_or_not(efforts, wanted.max(batch))
            }
            Remedy::Reclaim => Self::reclaim_or_not(efforts, (needed - free).max(batch)),
            // Compaction may succeed with less room than is usual.
            Remedy::Nothing if efforts.compactions == 0 => Next::Compact(order),
            Remedy::Nothing => Next::GiveUp,
        }
    }

    /// Whether a small block for unmovable contents would have to be made in a pageblock whose
    /// contents all move. Then it is better to empty the whole of the cheapest pageblock, which
    /// serves later requests too. Time: O(pageblocks), where a request has to wait anyway.
    fn would_compact_in_clean(&self, request: &BlockRequest) -> bool {
        let &BlockRequest {
            order, mobility, ..
        } = request;
        let zone = self.zone();
        let whole = zone.pageblock_order();
        if mobility.is_movable() || order >= whole || !self.config().empties_for_nonmovable {
            return false;
        }
        !(0..zone.pageblocks()).any(|id| {
            let facts = zone.pageblock(id);
            facts.nonmovable() > 0 && compaction_cost(&facts, 0, whole, order, mobility).is_some()
        })
    }

    /// The order of the block to make for a request of `order`, if one that large can be made: half
    /// a pageblock, so that the rest of it serves later requests.
    ///
    /// Requests of an order that has run out rarely come alone. A burst of kernel stacks had a
    /// stall each, with three frames moved and all descriptors looked at, and requests that must
    /// not wait found no block in between. With half a pageblock at a time the burst has a
    /// fifteenth of the stalls and a fifth of the looks, and moves a sixth more frames (`mixC`,
    /// with 100,000 frames less).
    fn more_than(&self, order: Order) -> Option<Order> {
        let half = self.zone().pageblock_order().get().saturating_sub(1);
        Order::new(half).filter(|&half| half > order)
    }

    const fn reclaim_or_not(efforts: &Efforts, wanted: u64) -> Next {
        if efforts.is_over {
            Next::GiveUp
        } else {
            Next::Reclaim(wanted)
        }
    }

    /// Runs rounds, each deeper than the one before, until `wanted` frames came, or no more do. It
    /// does not stop as soon as the request can be served: one effort should last for several
    /// requests.
    fn reclaim_some(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        request: &BlockRequest,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        mut wanted: u64,
        efforts: &mut Efforts,
    ) {
        while wanted > 0 && !efforts.is_over {
            let round = Round {
                behalf: Behalf::Direct,
                priority: efforts.priority,
                wanted,
                scan_max: u64::MAX,
                order: request.order,
                context: request.context,
            };
            let Shrunk { freed, .. } = self.ask_all(frames, clients, &round);
            wanted = wanted.saturating_sub(freed);
            efforts.rounds += 1;
            efforts.freed = efforts.freed.saturating_add(freed);
            efforts.since = efforts.since.saturating_add(freed);
            match next_priority(self.config(), efforts.priority, efforts.rounds, freed) {
                None => efforts.is_over = true,
                Some(deeper) if wanted > 0 => efforts.priority = deeper,
                Some(_) => {}
            }
        }
    }

    /// Has clients give `wanted` frames back for contents of `order` that are to move. Returns how
    /// many came.
    pub(super) fn bring(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        order: Order,
        wanted: u64,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
    ) -> u64 {
        let mut efforts = Efforts::new(self.config().priority_first);
        let request = BlockRequest {
            order,
            mobility: Mobility::Movable,
            context: Context::ANY,
            goes_on: false,
        };
        self.reclaim_some(frames, &request, clients, wanted, &mut efforts);
        efforts.freed
    }

    /// Asks the clients in turn, each for its [share], until there is enough. Each round begins
    /// with another client, so that none is always first.
    pub(super) fn ask_all(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
        round: &Round,
    ) -> Shrunk {
        let mut sum = Shrunk::default();
        let count = clients.shrink.len();
        if count == 0 {
            return sum;
        }
        let turn = &self.record().turn;
        let first = turn.load(Relaxed) as usize % count;
        let (scan_counter, steal_counter) = match round.behalf {
            Behalf::Direct => (Counter::ScanDirect, Counter::StealDirect),
            Behalf::Background => (Counter::ScanBackground, Counter::StealBackground),
        };
        let mut is_asked = false;
        for nth in 0..count {
            let client = clients.shrink[(first + nth) % count];
            let scan = share(client.holding(), client.heat(), round.priority)
                .min(round.scan_max.saturating_sub(sum.scanned));
            if scan == 0 {
                continue;
            }
            // A round in which no client is asked does not count as a turn. Counted before the call: if a client unwinds,
            // another one is asked first the next time, and what those before it did has been counted (R9).
            turn.fetch_add(u64::from(!is_asked), Relaxed);
            is_asked = true;
            let shrunk = client.shrink(
                frames,
                &Ask {
                    wanted: round.wanted.saturating_sub(sum.freed),
                    scan,
                    order: round.order,
                    context: round.context,
                },
            );
            self.count(scan_counter, shrunk.scanned);
            self.count(steal_counter, shrunk.freed);
            if shrunk.freed > 0 {
                self.take_up(Lack::Frames);
            }
            sum.scanned = sum.scanned.saturating_add(shrunk.scanned);
            sum.freed = sum.freed.saturating_add(shrunk.freed);
            if sum.freed >= round.wanted {
                break;
            }
        }
        sum
    }

    /// One attempt of compaction for which a request waits, counted as a stall if it was one. As in
    /// Linux, an attempt that is deferred, or hopeless by the counts, costs nothing and is none.
    pub(super) fn stall_to_compact(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        order: Order,
        mobility: Mobility,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
    ) -> Option<Frame> {
        match self.compact(frames, order, mobility, clients.migrate) {
            Compaction::Captured(block) => Some(block),
            _ => None,
        }
    }

    /// A block for an unmovable request that would otherwise contaminate a pageblock. It comes from
    /// the pageblock that is cheapest to empty, so that later requests find room there, too. `None`
    /// if that cannot be done at once: then the request falls back as before.
    #[cold]
    #[inline(never)]
    pub(super) fn make_room(
        &self,
        frames: &mut Seat<'z, 'm, P>,
        request: &BlockRequest,
        clients: &Clients<'_, Seat<'z, 'm, P>>,
    ) -> Option<Frame> {
        let whole = self.zone().pageblock_order();
        frames.give_loose();
        let block = self.stall_to_compact(frames, whole, request.mobility, clients)?;
        let kept = request.order.frames();
        let run = frames.keep_first(block, (whole, request.mobility), kept);
        Some(run.start())
    }
}

/// The order of the blocks that are emptied when frames of a kind are wanted, and not a block: 32
/// frames, or a whole pageblock if that is less.
pub(super) fn piece_of(whole: Order) -> Order {
    const PIECE: u8 = 5;
    Order::new(PIECE).map_or(whole, |piece| piece.min(whole))
}
