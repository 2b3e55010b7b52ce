//! The model with its owners: each frame's contents are stamps, so contents that were moved can be told from contents
//! that were lost.

use super::op::mood;
use super::{CLIENTS, ReclaimCase, ReclaimLie, USER};
use crate::difference::{Difference, differ};
use crate::frame::{FrameModel, ModelFrame as FrameState};
use crate::{Machine, MachineCall};
use framewright::frame::{AllocError, Seat, Zone};
use framewright::policy::Label;
use framewright::reclaim::{Move, MoveState};
use framewright::{Context, CpuId, Frame, Mobility, Order, RunError};
use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};

pub(super) type OwnFrames<'z, 'm> = Seat<'z, 'm, &'z Machine>;

/// A live block, as its owner knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnedBlock {
    pub(super) order: Order,
    pub(super) mobility: Mobility,
    pub(super) owner: u8,
    pub(super) stamp: u64,
    pub(super) held: bool,
    /// Where it was when it was pinned.
    pub(super) pinned: Option<usize>,
}

/// The observations during the running operation.
#[derive(Clone, Debug, Default)]
pub(super) struct OperationCalls {
    /// What the request may wait for.
    pub(super) context: Option<Context>,
    /// The largest block that may be made.
    pub(super) made: Option<Order>,
    /// Pageblocks are to be emptied for good: targets may lie anywhere else.
    pub(super) evacuates: bool,
    pub(super) is_background: bool,
    pub(super) shrinks: u64,
    pub(super) batches: u64,
    pub(super) scanned: u64,
    pub(super) freed: u64,
    /// Whether the client was last asked for everything that it held.
    pub(super) was_full: [bool; CLIENTS],
    /// Frames of sources offered, of those that moved, and of those that stayed.
    pub(super) offered: u64,
    pub(super) moved: u64,
    pub(super) stayed: u64,
    /// Frames with contents that clients dropped.
    pub(super) dropped: u64,
    /// Clients had side effects, so facts from before no longer hold.
    pub(super) meddled: bool,
}

/// Everything that the model knows.
pub(super) struct ReclaimModel {
    pub(super) frames: FrameModel,
    /// The contents of each frame.
    pub(super) ram: Vec<u64>,
    pub(super) objects: BTreeMap<usize, OwnedBlock>,
    stamps: u64,
    /// How each client behaves, and for how many calls.
    pub(super) moods: [(u8, u8); CLIENTS],
    pub(super) calls: OperationCalls,
    /// The moves that clients see at the moment, in their current order.
    batch: Vec<Move>,
    /// Of these, the sources that were freed meanwhile.
    gone: BTreeSet<usize>,
    is_called: bool,
    is_migrating: bool,
    broken: Option<Difference>,
    /// Frames allocated, by mobility, and freed by requests; and failures by kind.
    pub(super) allocated: [u64; 3],
    pub(super) freed: u64,
    pub(super) exhausted: u64,
    pub(super) fragmented: u64,
}

/// The simulated world: a zone, the model, and a CPU that clients use on the side.
pub(super) struct World<'z, 'm> {
    pub(super) machine: &'z Machine,
    pub(super) zone: &'z Zone<'m, &'z Machine>,
    spare: RefCell<OwnFrames<'z, 'm>>,
    spare_cpu: CpuId,
    model: RefCell<ReclaimModel>,
    pub(super) case: ReclaimCase,
}

fn word(stamp: u64, nth: usize) -> u64 {
    stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ nth as u64
}

/// The contents of free frames.
pub(super) const POISON: u64 = !0;

impl ReclaimModel {
    fn new(case: &ReclaimCase) -> Self {
        let frames = FrameModel::new(&case.layout);
        Self {
            ram: vec![POISON; frames.span()],
            frames,
            objects: BTreeMap::new(),
            stamps: 0,
            moods: [(0, 0); CLIENTS],
            calls: OperationCalls::default(),
            batch: Vec::new(),
            gone: BTreeSet::new(),
            is_called: false,
            is_migrating: false,
            broken: None,
            allocated: [0; 3],
            freed: 0,
            exhausted: 0,
            fragmented: 0,
        }
    }

    /// Remembers the first broken rule.
    pub(super) fn say(&mut self, result: Result<(), Difference>) {
        if let (Err(difference), None) = (result, &self.broken) {
            self.broken = Some(difference);
        }
    }

    /// Gives the block to its owner, which writes to it.
    pub(super) fn put(&mut self, at: usize, order: Order, mobility: Mobility, owner: u8) {
        self.stamps += 1;
        let stamp = self.stamps;
        for nth in 0..order.frames() as usize {
            self.ram[at + nth] = word(stamp, nth);
        }
        let object = OwnedBlock {
            order,
            mobility,
            owner,
            stamp,
            held: false,
            pinned: None,
        };
        self.objects.insert(at, object);
    }

    /// Checks that the contents of the block are there.
    pub(super) fn check_contents(&self, at: usize, object: &OwnedBlock) -> Result<(), Difference> {
        let frames = object.order.frames() as usize;
        match (0..frames).find(|&nth| self.ram[at + nth] != word(object.stamp, nth)) {
            Some(nth) => differ!("R2: the contents of the block at {at} are lost, frame {nth}"),
            None => Ok(()),
        }
    }

    /// Checks the block that a request got, and records it.
    fn take(
        &mut self,
        frame: Frame,
        order: Order,
        mobility: Mobility,
        owner: u8,
    ) -> Result<usize, Difference> {
        let at = self.frames.offset(frame);
        if !self.frames.could_hand_out(at, order, mobility) {
            return differ!(
                "{order} for {mobility}: {frame} was handed out, which is {:?}",
                self.frames.state(at)
            );
        }
        if self.is_migrating && self.is_in_apart(at, order) {
            return differ!("AP1: {frame} was handed out of a pageblock that is apart");
        }
        self.frames.alloc(at, order, mobility);
        self.allocated[mobility.index()] += order.frames();
        self.put(at, order, mobility, owner);
        Ok(at)
    }

    /// Whether the block touches a pageblock whose contents are just moving.
    fn is_in_apart(&self, at: usize, order: Order) -> bool {
        let last = at + order.frames() as usize - 1;
        let of = self.frames.block_of(at)..=self.frames.block_of(last);
        let apart = |source: &Move| {
            let first = self.frames.offset(source.from);
            let last = first + source.order.frames() as usize - 1;
            (self.frames.block_of(first)..=self.frames.block_of(last)).any(|id| of.contains(&id))
        };
        self.batch.iter().any(apart)
    }

    /// Checks and records what the engine must have done with the moves that clients saw last.
    fn settle(&mut self) {
        let gone = std::mem::take(&mut self.gone);
        for of in std::mem::take(&mut self.batch) {
            let (from, to) = (self.frames.offset(of.from), self.frames.offset(of.to));
            let frames = of.order.frames() as usize;
            let freed = if of.state == MoveState::Moved {
                self.calls.moved += of.order.frames();
                self.ram[from..from + frames].fill(POISON);
                self.frames.free(from, of.order)
            } else {
                self.calls.stayed += of.order.frames();
                if !self.objects.contains_key(&from) && !gone.contains(&from) {
                    self.say(differ!(
                        "R2: no client has the source of {of:?}, which stays"
                    ));
                }
                self.frames.free(to, of.order)
            };
            if let Err(error) = freed {
                self.say(differ!("R2: {error:?} after {of:?}"));
            }
        }
    }

    /// Checks what engine and clients see next: sources that may move, targets that were free.
    fn begin_batch(&mut self, moves: &[Move], is_uncached: bool) -> Result<(), Difference> {
        self.settle();
        self.calls.batches += 1;
        let mut seen = BTreeSet::new();
        for of in moves {
            let (from, to) = (self.frames.offset(of.from), self.frames.offset(of.to));
            let source = FrameState::First(of.order, Mobility::Movable);
            if self.frames.state(from) != source || !seen.insert(from) {
                let state = self.frames.state(from);
                return differ!("{of:?} is to move, which is {state:?}");
            }
            let made = self.calls.made.unwrap_or(Order::MAX);
            // Lent frames are no use to the request that wants the block, and are room for
            // anything.
            let to_block = self.frames.kept_label(self.frames.block_of(to));
            let is_lent = to_block == Some(Label::Contiguous);
            if of.order > made || of.order == made && !is_lent {
                return differ!("{of:?} is to move for a block of {made}");
            }
            let last = self.frames.block_of(from + of.order.frames() as usize - 1);
            let blocks = self.frames.block_of(from)..=last;
            if blocks.clone().any(|block| self.frames.pins(block) > 0) {
                return differ!("R6: {of:?} is to move, out of a pageblock with a pin");
            }
            if blocks.clone().all(|block| self.frames.is_isolated(block)) {
                return differ!("AP1: {of:?} is to move, out of pageblocks that are isolated");
            }
            if !self.frames.could_hand_out(to, of.order, Mobility::Movable) {
                let state = self.frames.state(to);
                return differ!("{of:?}: the target is {state:?}");
            }
            let in_whole = to >> made.get() << made.get();
            // The index knows no larger blocks than pageblocks.
            let is_known = self.frames.block_of(made.frames() as usize - 1) == 0;
            if is_uncached
                && is_known
                && !is_lent
                && !self.calls.evacuates
                && self
                    .frames
                    .could_hand_out(in_whole, made, Mobility::Movable)
            {
                return differ!("{of:?} breaks a free block of {made}, which is the wanted order");
            }
        }
        self.batch = moves.to_vec();
        for of in moves {
            let to = self.frames.offset(of.to);
            if self.is_in_apart(to, of.order) {
                return differ!("{of:?}: the target lies where all is to move away");
            }
            if !self.frames.could_hand_out(to, of.order, Mobility::Movable) {
                return differ!("{of:?}: two moves have that target");
            }
            self.frames.alloc(to, of.order, Mobility::Movable);
            self.calls.offered += of.order.frames();
        }
        Ok(())
    }

    /// Records the moves as a client left them.
    fn note(&mut self, moves: &[Move]) {
        for of in moves {
            match self.batch.iter_mut().find(|known| known.from == of.from) {
                Some(known) => *known = *of,
                None => self.say(differ!("{of:?} was seen first by a later client")),
            }
        }
    }

    /// Has the client copy the contents, and record their new place.
    fn carry(&mut self, of: &Move, lie: ReclaimLie) {
        let (from, to) = (self.frames.offset(of.from), self.frames.offset(of.to));
        let frames = of.order.frames() as usize;
        if lie != ReclaimLie::MoveWithoutContents {
            self.ram.copy_within(from..from + frames, to);
        }
        if lie != ReclaimLie::SayMovedAndStay
            && let Some(object) = self.objects.remove(&from)
        {
            self.objects.insert(to, object);
        }
    }

    /// The frames that a client could give back.
    pub(super) fn holding(&self, client: usize) -> u64 {
        let mine = |object: &&OwnedBlock| usize::from(object.owner) == client;
        let free = |object: &&OwnedBlock| !object.held && object.pinned.is_none();
        let frames = |object: &OwnedBlock| object.order.frames();
        self.objects
            .values()
            .filter(mine)
            .filter(free)
            .map(frames)
            .sum()
    }

    /// What a client could give back, coldest first: the oldest.
    fn coldest(&self, client: usize) -> Vec<(usize, OwnedBlock)> {
        let mut of: Vec<(usize, OwnedBlock)> = self
            .objects
            .iter()
            .filter(|(_, object)| {
                usize::from(object.owner) == client && !object.held && object.pinned.is_none()
            })
            .map(|(&at, &object)| (at, object))
            .collect();
        of.sort_by_key(|(_, object)| object.stamp);
        of
    }

    /// R6: checks that a block that the client called pinned is.
    pub(super) fn check_pinned(&self, frame: Frame) -> Result<(), Difference> {
        let at = self.frames.offset(frame);
        let object = self.objects.get(&at);
        let is_pinned = object.is_some_and(|object| object.pinned.is_some());
        let last = at + object.map_or(1, |object| object.order.frames() as usize) - 1;
        let mut blocks = self.frames.block_of(at)..=self.frames.block_of(last);
        if is_pinned || blocks.any(|block| self.frames.pins(block) > 0) {
            return Ok(());
        }
        differ!("{frame} is said to be pinned, which is {object:?}")
    }

    /// Checks all laws of contents and owners.
    pub(super) fn check_all_contents(&self) -> Result<(), Difference> {
        for (&at, object) in &self.objects {
            let FrameState::First(order, mobility) = self.frames.state(at) else {
                return differ!("the client's block at {at} is not live");
            };
            if (order, mobility) != (object.order, object.mobility) {
                return differ!("the block at {at} is {order} for {mobility}, not {object:?}");
            }
            if object.pinned.is_some_and(|pinned| pinned != at) {
                return differ!("R6: a block was pinned, and moved to {at}: {object:?}");
            }
            self.check_contents(at, object)?;
        }
        if self.objects.len() != self.frames.live() {
            let (owned, live) = (self.objects.len(), self.frames.live());
            return differ!("{owned} blocks have an owner, {live} are live");
        }
        Ok(())
    }
}

impl<'z, 'm> World<'z, 'm> {
    pub(super) fn new(
        case: &ReclaimCase,
        machine: &'z Machine,
        zone: &'z Zone<'m, &'z Machine>,
        spare: OwnFrames<'z, 'm>,
    ) -> Self {
        Self {
            machine,
            zone,
            spare: RefCell::new(spare),
            spare_cpu: CpuId(case.layout.cpus - 1),
            model: RefCell::new(ReclaimModel::new(case)),
            case: *case,
        }
    }

    pub(super) fn model(&self) -> RefMut<'_, ReclaimModel> {
        self.model.borrow_mut()
    }

    /// Begins an operation, without any observation yet.
    pub(super) fn begin(&self, calls: OperationCalls) {
        self.model().calls = calls;
    }

    /// Ends an operation: settles the moves that clients saw last. Returns the first broken rule.
    pub(super) fn end(&self) -> Result<(), Difference> {
        let mut model = self.model();
        model.settle();
        model.broken.take().map_or(Ok(()), Err)
    }

    /// Checks a block from a frames' own seat. `exact` if nothing is apart meanwhile.
    pub(super) fn alloc_from(
        &self,
        seat: &mut OwnFrames<'z, 'm>,
        (order, mobility): (Order, Mobility),
        owner: u8,
        exact: bool,
    ) -> Result<Option<usize>, Difference> {
        // Only a request that tries hard is answered exactly, whatever the order (F8).
        let got = if exact {
            seat.alloc_hard(order, mobility)
        } else {
            seat.alloc(order, mobility)
        };
        let mut model = self.model();
        match got {
            Ok(frame) => model.take(frame, order, mobility, owner).map(Some),
            Err(error) => {
                let must = model.frames.must_alloc(order, mobility);
                if exact && must != Err(error) {
                    return differ!(
                        "F8: {order} for {mobility}: the engine says {error:?}, the model {must:?}"
                    );
                }
                model.count_failure(error);
                Ok(None)
            }
        }
    }

    /// Checks and records the final result of a request.
    pub(super) fn take(
        &self,
        frame: Frame,
        (order, mobility): (Order, Mobility),
        owner: u8,
    ) -> Result<usize, Difference> {
        self.model().take(frame, order, mobility, owner)
    }

    /// The owner gives the block back.
    pub(super) fn free_to(
        &self,
        seat: &mut OwnFrames<'z, 'm>,
        at: usize,
    ) -> Result<(), Difference> {
        let (frame, object) = {
            let mut model = self.model();
            let Some(object) = model.objects.remove(&at) else {
                return Ok(());
            };
            model.check_contents(at, &object)?;
            (model.frames.frame(at), object)
        };
        let got = seat.free(frame, object.order);
        let mut model = self.model();
        let must = model.frames.free(at, object.order);
        if got != must {
            return differ!("free: the engine says {got:?}, the model {must:?}");
        }
        model.freed += object.order.frames();
        let frames = object.order.frames() as usize;
        model.ram[at..at + frames].fill(POISON);
        Ok(())
    }

    /// A client is called; no other one is at the moment.
    pub(super) fn enter(&self, client: usize, migrates: bool) -> u8 {
        let mut model = self.model();
        if model.is_called {
            model.say(differ!("R4: a client is called while another one works"));
        }
        model.is_called = true;
        model.is_migrating = migrates;
        if !migrates {
            model.settle();
        }
        let (now, calls) = &mut model.moods[client];
        let is = *now;
        *calls = calls.saturating_sub(1);
        if *calls == 0 {
            *now = 0;
        }
        drop(model);
        if is & mood::PROBES != 0 {
            self.zone.drain();
            if let Err(broken) = self.zone.verify() {
                self.model().say(differ!("while a client works: {broken}"));
            }
        }
        is
    }

    pub(super) fn leave(&self) {
        let mut model = self.model();
        model.is_called = false;
        model.is_migrating = false;
    }

    /// Does work on another CPU.
    pub(super) fn aside(
        &self,
        work: impl FnOnce(&mut OwnFrames<'z, 'm>) -> Result<(), Difference>,
    ) {
        let before = self.machine.current();
        self.machine.run_on(self.spare_cpu);
        let done = work(&mut self.spare.borrow_mut());
        self.machine.run_on(before);
        let mut model = self.model();
        model.calls.meddled = true;
        model.say(done);
    }

    /// Checks all moves of a batch, before any client sees them.
    pub(super) fn see_first(&self, moves: &[Move]) {
        let is_uncached = self.case.is_uncached();
        let mut model = self.model();
        let seen = model.begin_batch(moves, is_uncached);
        model.say(seen);
    }

    /// What a client does about moves.
    pub(super) fn migrate(&self, client: usize, moves: &mut [Move]) {
        let is = self.enter(client, true);
        let fails = self.machine.is_hit(MachineCall::Migrate);
        if is & mood::EXCHANGES != 0 && moves.len() > 1 {
            let last = moves.len() - 1;
            if moves[0].order == moves[last].order {
                let to = moves[0].to;
                moves[0].to = moves[last].to;
                moves[last].to = to;
            }
        }
        self.meddle(client, is, moves);
        let mut model = self.model();
        for of in &mut *moves {
            let from = model.frames.offset(of.from);
            let Some(object) = model.objects.get(&from).copied() else {
                continue;
            };
            if usize::from(object.owner) != client || is & mood::FORGETS != 0 {
                continue;
            }
            let moves_it = self.case.lie == ReclaimLie::MovePinned;
            of.state = if object.pinned.is_some() && !moves_it {
                MoveState::Pinned
            } else if object.held || fails || is & mood::REFUSES != 0 {
                MoveState::Busy
            } else {
                MoveState::Moved
            };
            if of.state == MoveState::Moved {
                model.carry(of, self.case.lie);
            }
        }
        model.note(moves);
        drop(model);
        match self.case.lie {
            // As if the engine heard another answer than was given.
            ReclaimLie::HearBusy => moves
                .iter_mut()
                .filter(|of| of.state == MoveState::Moved)
                .for_each(|of| of.state = MoveState::Busy),
            ReclaimLie::HearMoved => moves
                .iter_mut()
                .filter(|of| of.state == MoveState::Busy)
                .for_each(|of| of.state = MoveState::Moved),
            _ => {}
        }
        if is & mood::EXCHANGES != 0 {
            moves.reverse();
        }
        self.leave();
    }

    fn meddle(&self, client: usize, is: u8, moves: &[Move]) {
        let Some(first) = moves.first() else { return };
        let from = self.model().frames.offset(first.from);
        let is_mine = |model: &ReclaimModel| {
            let object = model.objects.get(&from);
            object.is_some_and(|object| usize::from(object.owner) == client)
        };
        if is & mood::FREES != 0 && is_mine(&self.model()) {
            self.model().gone.insert(from);
            self.aside(|seat| self.free_to(seat, from));
        }
        if is & mood::ALLOCATES != 0 {
            self.aside(|seat| {
                let what = (Order::ZERO, Mobility::Movable);
                self.alloc_from(seat, what, USER, false).map(|_| ())
            });
        }
        if is & mood::PINS != 0 {
            let got = self.zone.pin(first.from);
            if got != Err(RunError::Apart(first.from)) {
                self.model()
                    .say(differ!("R6: {first:?} is on its way, and pinned: {got:?}"));
            }
        }
    }

    /// A client gives frames back. Returns what it looked at and gave back.
    pub(super) fn shrink(
        &self,
        client: usize,
        seat: &mut OwnFrames<'z, 'm>,
        (wanted, scan): (u64, u64),
        context: Context,
    ) -> (u64, u64) {
        let is = self.enter(client, false);
        let holding = {
            let mut model = self.model();
            let holding = model.holding(client);
            model.calls.shrinks += 1;
            model.calls.was_full[client] = scan == holding;
            if scan == 0 || scan > holding || wanted == 0 {
                model.say(differ!(
                    "asked to look at {scan} of {holding} for {wanted} frames"
                ));
            }
            if model.calls.context != Some(context) {
                let must = model.calls.context;
                model.say(differ!(
                    "a client is called with {context:?}, the request has {must:?}"
                ));
            }
            holding
        };
        let (mut scanned, mut freed) = (0, 0);
        if self.machine.is_hit(MachineCall::Shrink) || is & mood::REFUSES != 0 {
            scanned = scan.min(holding);
        } else {
            let own = self.alloc_within(is, seat);
            if is & mood::FREES != 0 {
                let coldest = self.model().coldest(client).first().copied();
                if let Some((at, _)) = coldest {
                    self.aside(|seat| self.free_to(seat, at));
                }
            }
            let coldest = self.model().coldest(client);
            for (at, object) in coldest {
                let frames = object.order.frames();
                if freed >= wanted || scanned + frames > scan {
                    break;
                }
                scanned += frames;
                freed += frames;
                if self.case.lie == ReclaimLie::Overstate {
                    continue;
                }
                let done = self.free_to(seat, at);
                self.model().say(done);
            }
            if let Some(own) = own {
                let done = self.free_to(seat, own);
                self.model().say(done);
            }
        }
        let mut model = self.model();
        model.calls.scanned += scanned;
        model.calls.freed += freed;
        drop(model);
        self.leave();
        (scanned, freed)
    }

    /// A client takes a frame before it gives others back; the taken one goes back, too.
    fn alloc_within(&self, is: u8, seat: &mut OwnFrames<'z, 'm>) -> Option<usize> {
        let mut own = None;
        for (bit, gives_back) in [(mood::ALLOCATES, true), (mood::HOARDS, false)] {
            if is & bit == 0 {
                continue;
            }
            let what = (Order::ZERO, Mobility::Unmovable);
            let got = self.alloc_from(seat, what, USER, true);
            let mut model = self.model();
            model.calls.meddled = true;
            match got {
                Ok(at) if gives_back => own = at,
                Ok(_) => {}
                Err(difference) => model.say(Err(difference)),
            }
        }
        own
    }
}

impl ReclaimModel {
    pub(super) fn count_failure(&mut self, error: AllocError) {
        match error {
            AllocError::Exhausted => self.exhausted += 1,
            AllocError::Fragmented | AllocError::WouldWait => self.fragmented += 1,
            AllocError::TooLarge { .. } | AllocError::Impossible => {}
        }
    }
}
