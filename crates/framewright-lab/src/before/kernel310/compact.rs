//! Compaction: the two scanners, what they remember between attempts, and the back-off after failures. It moves
//! pages and makes blocks, and does not decide when: `slowpath` and `kswapd` do.

use super::Kernel310;
use super::lists::{CMA, MOVABLE, Tag310, Zone310, next_free, next_lru};
use super::watermark::{Privileges, Suitable};
use crate::before::buddy::MAX_ORDER;
use crate::pressure::Tenants;
use framewright::reclaim::{Move, MoveState};
use framewright::{Frame, Order};

/// Pages isolated at a time (`COMPACT_CLUSTER_MAX`).
const CLUSTER: usize = 32;

/// Times that an attempt tries to move a page that its client is using.
const PASSES: u32 = 10;

/// After this many failures in a row the back-off grows no more: one attempt in 2^6.
const DEFER_SHIFT_MAX: u8 = 6;

/// One attempt to make a block by moving pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt310 {
    pub(super) order: u8,
    /// The request's list.
    pub(super) list: usize,
    /// Whether pages of all pageblocks are moved, and not only of movable ones.
    pub(super) sync: bool,
    pub(super) background: bool,
    /// The CPU on whose lists freed frames land.
    pub(super) cpu: usize,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome310 {
    /// Not begun: too little is free, or it would not help.
    Skipped,
    /// There is a block, or nothing more to move to.
    Partial,
    /// The scanners met.
    Complete,
}

/// What is remembered between attempts.
#[derive(Debug)]
pub(super) struct Scanners310 {
    migrate: u32,
    free: u32,
    /// The zone's end.
    end: u32,
    /// By pageblock: nothing was found there.
    skip: Vec<bool>,
    /// The next time the background goes to sleep the hints are dropped.
    flush: bool,
    considered: u32,
    shift: u8,
    /// Only orders from this one on are passed over.
    order_failed: u8,
}

impl Scanners310 {
    pub(super) fn new(zone: &Zone310) -> Self {
        Self {
            migrate: 0,
            free: zone.count(),
            end: zone.count(),
            skip: vec![false; zone.labels().len()],
            flush: false,
            considered: 0,
            shift: 0,
            order_failed: 0,
        }
    }

    fn rewind(&mut self) {
        (self.migrate, self.free) = (0, self.end);
    }

    fn drop_hints(&mut self) {
        self.rewind();
        self.flush = false;
        self.skip.fill(false);
    }

    /// Drops the hints if a request's scan went through the whole zone.
    pub(super) fn flush_if_due(&mut self) {
        if self.flush {
            self.drop_hints();
        }
    }

    /// Whether this attempt is one of those that the back-off passes over. Counts it.
    pub(super) fn is_deferred(&mut self, order: u8) -> bool {
        if order < self.order_failed {
            return false;
        }
        let limit = 1 << self.shift;
        self.considered = (self.considered + 1).min(limit);
        self.considered < limit
    }

    /// An attempt failed: twice as many are passed over.
    pub(super) fn defer(&mut self, order: u8) {
        self.considered = 0;
        self.shift = (self.shift + 1).min(DEFER_SHIFT_MAX);
        self.order_failed = self.order_failed.min(order);
    }

    /// A block came of it.
    pub(super) fn succeeded(&mut self, order: u8) {
        self.flush = false;
        self.considered = 0;
        self.shift = 0;
        self.raise_failed(order);
    }

    /// Blocks of `order` are there: what was said of their failing is over.
    pub(super) fn raise_failed(&mut self, order: u8) {
        if order >= self.order_failed {
            self.order_failed = order + 1;
        }
    }

    /// Whether the back-off has just ended, at its longest.
    fn restarts(&self, order: u8) -> bool {
        order >= self.order_failed
            && self.shift == DEFER_SHIFT_MAX
            && self.considered >= 1 << DEFER_SHIFT_MAX
    }
}

/// Where an attempt is.
#[derive(Debug)]
struct ScannedTo {
    migrate: u32,
    free: u32,
    /// Something was isolated: from here on the cached position stays.
    keeps_migrate: bool,
    keeps_free: bool,
}

/// What is between the scanners and the clients; kept between attempts so that none allocates.
#[derive(Debug, Default)]
pub(super) struct Hands {
    /// Pages to move, the first found last.
    sources: Vec<u32>,
    /// Free frames, the last found last.
    targets: Vec<u32>,
    moves: Vec<Move>,
}

impl Kernel310 {
    /// Moves pages from the bottom to free frames at the top until a request of the order would be
    /// served, or the scanners meet.
    pub(super) fn compact(&mut self, tenants: &dyn Tenants, attempt: Attempt310) -> Outcome310 {
        match self.suitable(attempt.order) {
            Suitable::Skipped => return Outcome310::Skipped,
            Suitable::Partial => return Outcome310::Partial,
            Suitable::Continue => {}
        }
        if self.scanners.restarts(attempt.order) && !attempt.background {
            self.scanners.drop_hints();
        }
        let mut at = ScannedTo {
            migrate: self.scanners.migrate,
            free: self.scanners.free,
            keeps_migrate: false,
            keeps_free: false,
        };
        let mut hands = core::mem::take(&mut self.hands);
        let outcome = loop {
            if let Some(outcome) = self.finished(attempt, &at) {
                break outcome;
            }
            self.find_sources(attempt, &mut at, &mut hands.sources);
            let all_had_targets = self.move_all(tenants, attempt, &mut at, &mut hands);
            hands.sources.clear();
            if !all_had_targets && at.free > at.migrate {
                break Outcome310::Partial;
            }
        };
        for frame in hands.targets.drain(..) {
            self.free_cached(attempt.cpu, frame);
        }
        self.hands = hands;
        outcome
    }

    fn finished(&mut self, attempt: Attempt310, at: &ScannedTo) -> Option<Outcome310> {
        if at.free <= at.migrate {
            self.scanners.rewind();
            // A request's scan has the hints dropped; the background's does not.
            self.scanners.flush |= !attempt.background;
            return Some(Outcome310::Complete);
        }
        let mark = self.marks.low + (1 << attempt.order);
        if !self.is_above(attempt.order, mark, Privileges::NONE) {
            return None;
        }
        let orders = !0u16 << attempt.order;
        let has = |list: usize| self.zone.orders_of(list) & orders != 0;
        let any = attempt.order >= self.zone.pageblock_order() && self.zone.has_free(attempt.order);
        (has(attempt.list) || any).then_some(Outcome310::Partial)
    }

    /// Whether pages of the pageblock move easily.
    fn is_easy(&self, frame: u32) -> bool {
        matches!(self.zone.label(frame), MOVABLE | CMA)
    }

    /// Isolates pages to move, from the rest of one pageblock, a cluster at most.
    fn find_sources(&mut self, attempt: Attempt310, at: &mut ScannedTo, sources: &mut Vec<u32>) {
        let from = at.migrate;
        let end = (from | (self.zone.pageblock_frames() - 1)) + 1;
        if end > at.free || self.zone.tag(from) == Tag310::ABSENT {
            at.migrate = end;
            return;
        }
        let pageblock = self.zone.pageblock(from);
        let mut next = from;
        let mut is_unsuitable = false;
        if self.scanners.skip[pageblock] {
            self.stats.compact_migrate_scanned += 1;
            next = end;
        } else if !attempt.sync && !self.is_easy(from) {
            // Seen at the first page in it that is not free.
            let tags = &self.zone.tags()[from as usize..end as usize];
            let free = tags.iter().take_while(|tag| tag.is_free()).count();
            self.stats.compact_migrate_scanned += (free as u64 + 1).min(u64::from(end - from));
            at.keeps_migrate = true;
            is_unsuitable = true;
            next = end;
        } else {
            while next < end && sources.len() < CLUSTER {
                next = next_lru(self.zone.tags(), next, end);
                if next < end {
                    sources.push(next);
                    next += 1;
                }
            }
            self.stats.compact_migrate_scanned += u64::from(next - from);
            self.stats.compact_isolated += sources.len() as u64;
            at.keeps_migrate |= !sources.is_empty();
        }
        at.migrate = next;
        if next == end && sources.is_empty() && !is_unsuitable {
            let scanners = &mut self.scanners;
            scanners.skip[pageblock] = true;
            if !at.keeps_migrate {
                scanners.migrate = scanners.migrate.max(from);
            }
        }
        // Linux moves the last page found first.
        sources.reverse();
    }

    /// Isolates free frames, from the top pageblock down, until there are as many as pages to move.
    fn find_targets(&mut self, at: &mut ScannedTo, wanted: usize, targets: &mut Vec<u32>) {
        let frames = self.zone.pageblock_frames();
        let mut block = at.free & !(frames - 1);
        let lowest = (at.migrate | (frames - 1)) + 1;
        let mut highest = lowest.min(block);
        while block >= lowest && targets.len() < wanted {
            if block < self.zone.count() && self.is_target(block) {
                let before = targets.len();
                self.isolate_free(block, targets);
                if targets.len() > before {
                    at.keeps_free = true;
                    highest = highest.max(block);
                } else {
                    let scanners = &mut self.scanners;
                    scanners.skip[(block / frames) as usize] = true;
                    if !at.keeps_free {
                        scanners.free = scanners.free.min(block);
                    }
                }
            }
            block -= frames;
        }
        // A scanner that has crossed the other one stays there, so that `finished` sees it.
        at.free = if block < lowest { block } else { highest };
    }

    /// Whether the free frames of a pageblock are to be moved to.
    fn is_target(&self, block: u32) -> bool {
        let tag = self.zone.tag(block);
        let is_whole = tag.is_free() && tag.order() >= self.zone.pageblock_order();
        tag != Tag310::ABSENT
            && !is_whole
            && self.is_easy(block)
            && !self.scanners.skip[self.zone.pageblock(block)]
    }

    /// Takes a pageblock's free blocks off their lists, as far as the watermark allows.
    fn isolate_free(&mut self, block: u32, targets: &mut Vec<u32>) {
        let zone_end = self.zone.count();
        let end = (block + self.zone.pageblock_frames()).min(zone_end);
        let mut next = block;
        let before = targets.len();
        // A split block is looked at once.
        let mut passed = 0;
        loop {
            next = next_free(self.zone.tags(), next, end);
            if next == end {
                break;
            }
            let order = self.zone.tag(next).order();
            let mark = self.marks.low + (1 << order);
            if !self.is_above(0, mark, Privileges::NONE) {
                next += 1;
                continue;
            }
            self.isolate_block(next, order);
            targets.extend(next..next + (1 << order));
            next += 1 << order;
            passed += (1 << order) - 1;
        }
        self.stats.compact_free_scanned += u64::from(end - block - passed);
        self.stats.compact_isolated += (targets.len() - before) as u64;
    }

    fn isolate_block(&mut self, frame: u32, order: u8) {
        let label = self.zone.label(frame);
        self.zone.take(frame, order, label);
        for each in frame..frame + (1 << order) {
            self.zone.set_tag(each, Tag310::ISOLATED);
        }
    }

    /// Moves the isolated pages; whether there was a target for each.
    fn move_all(
        &mut self,
        tenants: &dyn Tenants,
        attempt: Attempt310,
        at: &mut ScannedTo,
        hands: &mut Hands,
    ) -> bool {
        let isolated = hands.sources.len();
        for _ in 0..PASSES {
            if hands.sources.is_empty() {
                return true;
            }
            hands.moves.clear();
            for &from in &hands.sources {
                if hands.targets.is_empty() {
                    self.find_targets(at, isolated, &mut hands.targets);
                }
                let Some(to) = hands.targets.pop() else {
                    break;
                };
                hands.moves.push(Move {
                    from: Frame(u64::from(from)),
                    to: Frame(u64::from(to)),
                    order: Order::ZERO,
                    state: MoveState::Unknown,
                });
            }
            let all_had_targets = hands.moves.len() == hands.sources.len();
            tenants.migrate(&mut hands.moves);
            hands.sources.clear();
            for moved in &hands.moves {
                let (from, to) = (moved.from.0 as u32, moved.to.0 as u32);
                match moved.state {
                    MoveState::Moved => {
                        self.stats.pgmigrate_success += 1;
                        self.zone.set_tag(to, Tag310::LRU);
                        self.free_cached(attempt.cpu, from);
                        continue;
                    }
                    MoveState::Busy => hands.sources.push(from),
                    MoveState::Unknown | MoveState::Pinned => self.stats.pgmigrate_fail += 1,
                }
                // No page moved in: the target goes where all freed frames go.
                self.free_cached(attempt.cpu, to);
            }
            if !all_had_targets {
                return false;
            }
        }
        true
    }
}

const _: () = assert!(MAX_ORDER < 16, "a list's orders are bits of 16");
