//! The decision for each event, the table of the module's header in code. It keeps the holders and the list of
//! operations; what an event means for tasks and for the kernel's work stands beside it.

use super::frames::{HolderOfFrame, HolderTable, OBJECTS_MAX};
use super::object::{
    Mark, Moved, ObjectOrigin, ObjectPiece, REFERENCE_MS, ReducedObject, aligned_blocks, block,
};
use super::tasks::Tasks;
use super::work::WorkFollower;
use super::{Anomalies, EventCounts, ORDER_MAX, ORDERS, ReduceError, ReferenceRow};
use crate::trace::{
    Askers, EventKind, InitClass, MemoryLimit, OpKind, ReadFrameState, Snapshot, TextNames,
    TraceEvent, TraceMove, TraceOp, TracedWork, WhoAsked,
};
use framewright::{Frame, Mobility, Order};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// The table of flag words has 254 words of its own; entry 254, a zero, stands for all further
/// ones, and 255, no entry, for the synthetic allocations.
const GFP_OTHER: u8 = 254;
const GFP_SYNTHETIC: u8 = 255;

/// No name of a task; names stay far below.
pub(super) const NO_NAME: u32 = u32::MAX;
/// The last event of a CPU was no request; operations stay below.
const NO_REQUEST: u32 = u32::MAX;

/// What is held for each of these to the end of the reduction: itself, as much room again in a vector
/// that grows, and what it becomes.
const OP_BYTES: u64 = 2 * size_of::<TraceOp>() as u64;
/// Its number, its frame and mobility in the reference, its initial object or chosen frame.
const OBJECT_BYTES: u64 = 2 * size_of::<ReducedObject>() as u64 + 4 + 8 + 16;
const SYNTHETIC_BYTES: u64 = 3 * size_of::<(u32, u32, TraceOp)>() as u64;
/// Its entry among the open ones, its migration, and where its frames are.
const MOVED_BYTES: u64 = 2 * size_of::<Moved>() as u64 + 64 + size_of::<TraceMove>() as u64 + 32;
const MARK_BYTES: u64 = 3 * size_of::<Mark>() as u64 + 2 * size_of::<ReferenceRow>() as u64;
/// A number and what it stands for, in a map that has as much room again.
const NAME_BYTES: u64 = 32;
/// A small number's name, or an operation's chain, in a vector that grows, and what it becomes.
const CHAIN_BYTES: u64 = 12;
/// A chunk's frames in the reference, its sums and numbers.
const UNIVERSE_CHUNK_BYTES: u64 = 256 + 64;

/// A part of a freed block, by what was known of it.
#[derive(Debug, Clone, Copy)]
enum FreedPart {
    Object(ObjectPiece),
    /// Free since the operation.
    Free {
        slot: u32,
        order: Order,
        since: u32,
    },
    /// One frame, allocated at the start.
    Start(u32),
}

/// Takes events one by one; [`finish`](Self::finish) makes the [`Reduction`](super::Reduction).
///
/// Time a push: O(frames of the event), and a logarithm of the moves that are open.
#[derive(Debug)]
pub struct Reducer {
    pub(super) table: HolderTable,
    pub(super) objects: Vec<ReducedObject>,
    /// Operations by provisional object number, which allocations carry too.
    pub(super) ops: Vec<TraceOp>,
    /// Synthetic allocations: before which operation, and of which object, with its op.
    pub(super) synthetic: Vec<(u32, u32, TraceOp)>,
    pub(super) moved: Vec<Moved>,
    pub(super) marks: Vec<Mark>,
    pub(super) gfp: Vec<u32>,
    pub(super) counts: EventCounts,
    pub(super) anomalies: Anomalies,
    /// Per order, the moves whose target is not known yet: by the operation they happened
    /// before and their place in `moved`, the range of `moved` that moved together.
    open_moves: [BTreeMap<(u32, u32), u32>; ORDERS],
    tasks: Tasks,
    pub(super) work: WorkFollower,
    /// The small numbers of tasks under their names.
    pids: HashMap<(u32, u32), u16>,
    /// The name of each small number, and the first number of each name.
    pub(super) comm_of: Vec<u32>,
    first_of_comm: HashMap<u32, u16>,
    /// The name of the event's task.
    comm: u32,
    /// By operation, as far as the last one that has a call chain.
    pub(super) chain_at: Vec<u32>,
    /// By CPU, the operation of its last event, if that was a request.
    last_request: Vec<u32>,
    pub(super) names: TextNames,
    gfp_index: HashMap<u32, u8>,
    clock: Option<TraceClock>,
    limit: MemoryLimit,
    /// Scratch, kept for its memory.
    parts: Vec<FreedPart>,
    pieces: Vec<ObjectPiece>,
}

#[derive(Debug, Clone, Copy)]
struct TraceClock {
    start_ns: u64,
    last_ns: u64,
    ms: u64,
    next_mark_ms: u64,
}

impl Reducer {
    /// A reducer that starts from `first`, if what memory looked like is known.
    #[must_use]
    pub fn new(first: Option<Snapshot>) -> Self {
        Self {
            table: HolderTable::new(first),
            objects: Vec::new(),
            ops: Vec::new(),
            synthetic: Vec::new(),
            moved: Vec::new(),
            marks: Vec::new(),
            gfp: Vec::new(),
            counts: EventCounts::default(),
            anomalies: Anomalies::default(),
            open_moves: Default::default(),
            tasks: Tasks::default(),
            work: WorkFollower::default(),
            pids: HashMap::new(),
            comm_of: Vec::new(),
            first_of_comm: HashMap::new(),
            comm: NO_NAME,
            chain_at: Vec::new(),
            last_request: Vec::new(),
            names: TextNames::default(),
            gfp_index: HashMap::new(),
            clock: None,
            limit: MemoryLimit::default(),
            parts: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// The same reducer, with another limit on what it may hold.
    #[must_use]
    pub fn with_memory_limit(self, limit: MemoryLimit) -> Self {
        Self { limit, ..self }
    }

    /// What the reduction of the events so far takes at most: 64 bytes a frame that they name,
    /// 1 KiB a chunk.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        let names = self.pids.len() + self.gfp_index.len();
        self.table.held_bytes()
            + self.table.chunks() * UNIVERSE_CHUNK_BYTES
            + self.objects.len() as u64 * OBJECT_BYTES
            + self.ops.len() as u64 * OP_BYTES
            + self.synthetic.len() as u64 * SYNTHETIC_BYTES
            + self.moved.len() as u64 * MOVED_BYTES
            + self.marks.len() as u64 * MARK_BYTES
            + self.work.held_bytes()
            + names as u64 * NAME_BYTES
            + (self.comm_of.len() + self.chain_at.len()) as u64 * CHAIN_BYTES
    }

    /// Every event so far, by kind.
    #[must_use]
    pub fn counts(&self) -> &EventCounts {
        &self.counts
    }

    /// Takes the next event in the order of the trace.
    ///
    /// # Errors
    /// [`ReduceError`] where 32 bits or the memory are too few; the reducer is not usable afterwards.
    pub fn push(&mut self, event: &TraceEvent) -> Result<(), ReduceError> {
        self.push_asked(event, WhoAsked::default())
    }

    /// The same, with what is known of the asker; the names follow by [`named`](Self::named).
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_asked(&mut self, event: &TraceEvent, asked: WhoAsked) -> Result<(), ReduceError> {
        self.note_chain(asked);
        self.comm = asked.comm.unwrap_or(NO_NAME);
        let before = self.ops.len();
        let result = self.push_event(event, asked.is_interrupt);
        let added = self.ops[before..].last();
        let is_request = |op: &&TraceOp| matches!(op.kind(), OpKind::Alloc | OpKind::Failed);
        let request = added
            .filter(is_request)
            .map_or(NO_REQUEST, |_| self.ops.len() as u32 - 1);
        // A stack comes with an event of its own, and the text says only of requests which theirs is.
        if event.kind == EventKind::Other {
            return result;
        }
        let cpu = usize::from(event.cpu);
        if self.last_request.len() <= cpu {
            self.last_request.resize(cpu + 1, NO_REQUEST);
        }
        self.last_request[cpu] = request;
        result
    }

    /// Takes the names of the askers; `asked` has a call chain that has ended behind the last event.
    #[must_use]
    pub fn named(mut self, asked: WhoAsked, names: &TextNames) -> Self {
        self.note_chain(asked);
        self.names = names.clone();
        self
    }

    /// Says what of the kernel's work is traced, so that what does not happen is known not to. Only that is kept. Without
    /// this it is what the events show.
    #[must_use]
    pub fn traced(mut self, traced: TracedWork) -> Self {
        self.work.trace_only(traced);
        self
    }

    /// Gives a call chain to the last request on its CPU.
    fn note_chain(&mut self, asked: WhoAsked) {
        let Some((cpu, chain)) = asked.chain else {
            return;
        };
        let request = self.last_request.get(usize::from(cpu));
        let Some(&request) = request.filter(|&&request| request != NO_REQUEST) else {
            return;
        };
        let request = request as usize;
        if self.chain_at.len() <= request {
            self.chain_at.resize(request + 1, Askers::NO_CHAIN);
        }
        self.chain_at[request] = chain;
    }

    fn push_event(&mut self, event: &TraceEvent, is_interrupt: bool) -> Result<(), ReduceError> {
        // Twice a block of the largest order: what one event can add at most.
        let room = 4 << ORDER_MAX;
        let most = OBJECTS_MAX - room;
        if self.ops.len() + self.synthetic.len() > most || self.objects.len() > most {
            return Err(ReduceError::TooLong);
        }
        // One event adds 64 KiB at most, so that it is enough to look before it.
        let limit = self.limit.check(self.held_bytes());
        limit.map_err(ReduceError::TooMuchMemory)?;
        self.advance(event.time_ns);
        match event.kind {
            EventKind::Alloc {
                frame,
                order,
                mobility,
                gfp,
            } => {
                // An interrupt does not wait, and what it takes is not what its task waits for.
                if !is_interrupt {
                    self.work.requested(event.pid, order);
                }
                match frame {
                    Some(frame) => {
                        self.counts.allocs += 1;
                        self.alloc(event, frame, order, mobility, gfp)?;
                    }
                    None => {
                        self.counts.failed_allocs += 1;
                        if self.is_known_order(order) {
                            let op = self.alloc_op(event, true, order, mobility, gfp);
                            self.ops.push(op);
                        }
                    }
                }
            }
            EventKind::Free { frame, order } => {
                self.counts.frees += 1;
                self.free(event, frame, order)?;
            }
            EventKind::FreeBatched => self.counts.frees_batched += 1,
            EventKind::Extfrag { wanted, taken } => {
                self.counts.extfrag[wanted.index()][taken.index()] += 1;
            }
            EventKind::MigrateStart => {
                self.counts.migrate_starts += 1;
                self.tasks.migrate_start(event.pid);
            }
            EventKind::MigrateEnd { .. } => {
                self.counts.migrate_ends += 1;
                let paired = self.tasks.migrate_end(event.pid);
                self.anomalies.ends_unpaired += u64::from(!paired);
            }
            EventKind::CompactionBegin => {
                self.counts.compaction_begins += 1;
                self.tasks.compaction_begin(event.pid);
                self.work.compaction_begins(event.pid, event.time_ns);
            }
            EventKind::CompactionEnd => {
                self.counts.compaction_ends += 1;
                let paired = self.tasks.compaction_end(event.pid);
                let at = self.ops.len() as u32;
                self.work.compaction_ends(at, event.pid, event.time_ns);
                self.anomalies.ends_unpaired += u64::from(!paired);
            }
            EventKind::Lost(events) => {
                self.counts.loss_reports += 1;
                self.anomalies.lost_events = self.anomalies.lost_events.saturating_add(events);
                self.tasks.forget();
                self.work.forget();
            }
            EventKind::DirectReclaim { .. }
            | EventKind::DirectReclaimEnd { .. }
            | EventKind::DirectCompaction { .. }
            | EventKind::BackgroundWakes { .. }
            | EventKind::BackgroundSleeps { .. } => self.work_event(event),
            EventKind::Other => self.counts.others += 1,
        }
        Ok(())
    }

    /// Takes an event of the kernel's work, which is no operation of the trace.
    fn work_event(&mut self, event: &TraceEvent) {
        let (at, pid, now) = (self.ops.len() as u32, event.pid, event.time_ns);
        match event.kind {
            EventKind::DirectReclaim { order } => {
                self.counts.direct_reclaims += 1;
                if self.is_known_order(order) {
                    self.work.reclaim_begins(pid, order, now);
                }
            }
            EventKind::DirectReclaimEnd { reclaimed } => {
                self.counts.direct_reclaim_ends += 1;
                let paired = self.work.reclaim_ends(at, pid, reclaimed, now);
                self.anomalies.ends_unpaired += u64::from(!paired);
            }
            EventKind::DirectCompaction { order } => {
                self.counts.direct_compactions += 1;
                if self.is_known_order(order) {
                    self.work.compacts(pid, order);
                }
            }
            EventKind::BackgroundWakes { node, order } => {
                self.counts.background_wakes += 1;
                if self.is_known_order(order) {
                    self.work.woke(at, node, order);
                }
            }
            EventKind::BackgroundSleeps { node } => {
                self.counts.background_sleeps += 1;
                self.work.slept(at, node);
            }
            _ => {}
        }
    }

    fn is_known_order(&mut self, order: Order) -> bool {
        let is_known = order.get() <= ORDER_MAX;
        self.anomalies.order_too_large += u64::from(!is_known);
        is_known
    }

    /// Lets time pass up to `time_ns`: a tick for each millisecond begun.
    fn advance(&mut self, time_ns: u64) {
        let clock = self.clock.get_or_insert(TraceClock {
            start_ns: time_ns,
            last_ns: time_ns,
            ms: 0,
            next_mark_ms: 1,
        });
        if time_ns < clock.last_ns {
            self.anomalies.time_backwards += 1;
            return;
        }
        clock.last_ns = time_ns;
        let ms = (time_ns - clock.start_ns) / 1_000_000;
        if ms > clock.ms {
            let passed = u32::try_from(ms - clock.ms).unwrap_or(u32::MAX);
            clock.ms = ms;
            if ms >= clock.next_mark_ms {
                clock.next_mark_ms = ms + REFERENCE_MS;
                self.marks.push(Mark {
                    at: self.ops.len() as u32,
                    ms,
                    extfrag: self.counts.extfrag.iter().flatten().sum(),
                });
            }
            self.ops.push(TraceOp::tick(passed));
        }
    }

    /// The slot of the block, or `None` if it is counted and left out.
    fn admit(&mut self, frame: Frame, order: Order) -> Result<Option<u32>, ReduceError> {
        if order.get() > ORDER_MAX {
            self.anomalies.order_too_large += 1;
            return Ok(None);
        }
        if !frame.is_aligned(order) {
            self.anomalies.misaligned += 1;
            return Ok(None);
        }
        if let Some(snapshot) = self.table.snapshot() {
            // An aligned block cannot pass the end of the numbers, a frame in it neither.
            let absent = |frame| snapshot.state(frame) == ReadFrameState::Absent;
            if (frame.0..=frame.0 + (order.frames() - 1)).any(absent) {
                self.anomalies.outside_snapshot += 1;
                return Ok(None);
            }
        }
        let slot = self.table.slot(frame.0);
        slot.map(Some).ok_or(ReduceError::TooManyFrames)
    }

    fn alloc(
        &mut self,
        event: &TraceEvent,
        frame: Frame,
        order: Order,
        mobility: Mobility,
        gfp: u32,
    ) -> Result<(), ReduceError> {
        let Some(slot) = self.admit(frame, order)? else {
            return Ok(());
        };
        for slot in block(slot, order) {
            match self.table.holder(slot) {
                HolderOfFrame::Object(object) => {
                    self.anomalies.missed_frees += 1;
                    self.release(object, synthetic_cpu(event.cpu));
                }
                HolderOfFrame::Start => {
                    self.anomalies.percpu_at_start += 1;
                    self.table.set_unlisted(slot);
                }
                HolderOfFrame::Free(_) | HolderOfFrame::Unheard | HolderOfFrame::Absent => {}
            }
        }
        let object = self.object(slot, order, mobility, ObjectOrigin::Traced);
        if mobility == Mobility::Movable {
            self.tasks.allocated(event.pid, object, order);
        }
        let mut op = self.alloc_op(event, false, order, mobility, gfp);
        op.value = object;
        self.ops.push(op);
        Ok(())
    }

    /// Frees what is left of an object whose free was not seen.
    fn release(&mut self, object: u32, cpu: u8) {
        let ReducedObject { slot, order, .. } = self.objects[object as usize];
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let mine = |table: &HolderTable, slot| table.holder(slot) == HolderOfFrame::Object(object);
        let (mut at, end) = (slot, slot + order.frames() as u32);
        while at < end {
            let run = (at..end)
                .take_while(|&slot| mine(&self.table, slot))
                .count() as u32;
            for (part, order) in aligned_blocks(at..at + run) {
                pieces.push(ObjectPiece {
                    object,
                    offset: part - slot,
                    order,
                });
            }
            at += run.max(1);
        }
        for piece in &pieces {
            self.free_piece(*piece, cpu);
        }
        let now = self.ops.len() as u32;
        for slot in block(slot, order) {
            if mine(&self.table, slot) {
                self.table.free(slot, now);
            }
        }
        self.pieces = pieces;
    }

    fn free(&mut self, event: &TraceEvent, frame: Frame, order: Order) -> Result<(), ReduceError> {
        let Some(slot) = self.admit(frame, order)? else {
            return Ok(());
        };
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        let unknown = self.find_parts(slot, order, &mut parts);
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        if unknown && self.tasks.gives_back_isolated(event.pid) {
            self.anomalies.isolated_unused += 1;
        } else {
            for part in &parts {
                self.resolve(*part, event, &mut pieces);
            }
            let spans = pieces.windows(2).any(|two| two[0].object != two[1].object);
            self.anomalies.frees_spanning += u64::from(spans);
            if self.is_move(event.pid, order, &pieces) {
                self.open_move(slot, order, &pieces);
            } else {
                let cpu = traced_cpu(event.cpu);
                for piece in &pieces {
                    self.free_piece(*piece, cpu);
                }
            }
        }
        let now = self.ops.len() as u32;
        for slot in block(slot, order) {
            self.table.free(slot, now);
        }
        (self.parts, self.pieces) = (parts, pieces);
        Ok(())
    }

    /// Cuts the block into parts by what is known of its frames, each a block of its own.
    /// True if no object has any of it, nor does the snapshot call any of it allocated.
    fn find_parts(&self, slot: u32, order: Order, parts: &mut Vec<FreedPart>) -> bool {
        let (mut at, end) = (slot, slot + order.frames() as u32);
        let mut unknown = true;
        while at < end {
            let holder = self.table.holder(at);
            let same = |&slot: &u32| match (holder, self.table.holder(slot)) {
                (HolderOfFrame::Free(_), HolderOfFrame::Free(_)) => true,
                (this, that) => this == that,
            };
            let run = at..at + (at..end).take_while(same).count() as u32;
            at = run.end;
            match holder {
                HolderOfFrame::Object(object) => {
                    unknown = false;
                    let first = self.objects[object as usize].slot;
                    parts.extend(aligned_blocks(run).map(|(slot, order)| {
                        FreedPart::Object(ObjectPiece {
                            object,
                            offset: slot - first,
                            order,
                        })
                    }));
                }
                HolderOfFrame::Free(_) => {
                    parts.extend(aligned_blocks(run).map(|(slot, order)| {
                        let since = |slot| match self.table.holder(slot) {
                            HolderOfFrame::Free(since) => since,
                            _ => 0,
                        };
                        let since = block(slot, order).map(since).max().unwrap_or(0);
                        FreedPart::Free { slot, order, since }
                    }));
                }
                HolderOfFrame::Start => {
                    unknown = false;
                    parts.extend(run.map(FreedPart::Start));
                }
                HolderOfFrame::Unheard => parts.extend(run.map(FreedPart::Start)),
                HolderOfFrame::Absent => {}
            }
        }
        unknown
    }

    /// Finds or makes the objects that the part must have belonged to.
    fn resolve(&mut self, part: FreedPart, event: &TraceEvent, pieces: &mut Vec<ObjectPiece>) {
        match part {
            FreedPart::Object(piece) => pieces.push(piece),
            FreedPart::Start(slot) => {
                let class = self.table.start(slot).unwrap_or_else(|| {
                    self.anomalies.initial_inferred += 1;
                    self.table.set_start(slot, Some(InitClass::Movable));
                    InitClass::Movable
                });
                let object =
                    self.object(slot, Order::ZERO, class.mobility(), ObjectOrigin::Initial);
                pieces.push(ObjectPiece::whole(object, Order::ZERO));
            }
            FreedPart::Free { slot, order, since } => {
                if let Some(range) = self.close_move(order, since) {
                    self.anomalies.moves_matched += 1;
                    let mut to = slot;
                    for moved in &mut self.moved[range] {
                        moved.to = Some(to);
                        to += moved.piece.order.frames() as u32;
                        pieces.push(moved.piece);
                    }
                    return;
                }
                self.anomalies.frees_of_unknown += 1;
                let object = self.object(slot, order, Mobility::Unmovable, ObjectOrigin::Synthetic);
                let now = self.ops.len() as u32;
                let mut op = TraceOp::alloc(
                    false,
                    order,
                    Mobility::Unmovable,
                    synthetic_cpu(event.cpu),
                    GFP_SYNTHETIC,
                    self.small_pid(event.pid),
                );
                op.value = object;
                let at = since + (now - since) / 2;
                self.synthetic.push((at, object, op));
                pieces.push(ObjectPiece::whole(object, order));
            }
        }
    }

    fn is_move(&mut self, pid: u32, order: Order, pieces: &[ObjectPiece]) -> bool {
        if !self.tasks.is_migrating(pid) {
            return false;
        }
        let movable =
            |piece: &ObjectPiece| self.objects[piece.object as usize].mobility == Mobility::Movable;
        // A softirq frees in the task's name, too: what is not movable was not moved.
        if pieces.is_empty() || !pieces.iter().all(movable) {
            return false;
        }
        self.tasks.is_move(pid, pieces[0].object, order)
    }

    fn open_move(&mut self, slot: u32, order: Order, pieces: &[ObjectPiece]) {
        let (at, first) = (self.ops.len() as u32, self.moved.len() as u32);
        self.anomalies.moves += 1;
        let mut from = slot;
        self.moved.extend(pieces.iter().map(|&piece| {
            let moved = Moved {
                at,
                piece,
                from,
                to: None,
            };
            from += piece.order.frames() as u32;
            moved
        }));
        let end = self.moved.len() as u32;
        self.open_moves[order.index()].insert((at, first), end);
    }

    /// The oldest open move of a block of `order` that happened since that operation.
    fn close_move(&mut self, order: Order, since: u32) -> Option<Range<usize>> {
        let open = &mut self.open_moves[order.index()];
        let (&key, &end) = open.range((since, 0)..).next()?;
        open.remove(&key);
        Some(key.1 as usize..end as usize)
    }

    /// How many moves have no target yet.
    pub(super) fn open_moves(&self) -> u64 {
        self.open_moves.iter().map(|open| open.len() as u64).sum()
    }

    fn free_piece(&mut self, piece: ObjectPiece, cpu: u8) {
        let ObjectPiece {
            object,
            offset,
            order,
        } = piece;
        self.ops
            .push(if order == self.objects[object as usize].order {
                TraceOp::free(object, order, cpu)
            } else {
                TraceOp::free_part(object, offset, order, cpu)
            });
    }

    /// Makes an object that has the block from now on.
    fn object(&mut self, slot: u32, order: Order, mobility: Mobility, origin: ObjectOrigin) -> u32 {
        let object = self.objects.len() as u32;
        self.objects.push(ReducedObject {
            slot,
            order,
            mobility,
            origin,
        });
        for slot in block(slot, order) {
            self.table.give(slot, object);
        }
        object
    }

    fn alloc_op(
        &mut self,
        event: &TraceEvent,
        failed: bool,
        order: Order,
        mobility: Mobility,
        gfp: u32,
    ) -> TraceOp {
        let table = &mut self.gfp;
        let gfp = *self.gfp_index.entry(gfp).or_insert_with(|| {
            let index = table.len().min(usize::from(GFP_OTHER));
            if table.len() <= usize::from(GFP_OTHER) {
                let is_other = index == usize::from(GFP_OTHER);
                table.push(if is_other { 0 } else { gfp });
            }
            index as u8
        });
        let pid = self.small_pid(event.pid);
        TraceOp::alloc(failed, order, mobility, traced_cpu(event.cpu), gfp, pid)
    }

    /// Tasks are numbered in the order in which they are first seen under their name, and anew under another; those past
    /// 65,535 share the number of the first one of their name, or the last number.
    fn small_pid(&mut self, pid: u32) -> u16 {
        let task = (pid, self.comm);
        if let Some(&known) = self.pids.get(&task) {
            return known;
        }
        let next = u16::try_from(self.comm_of.len()).unwrap_or(u16::MAX);
        let number = if next < u16::MAX {
            self.comm_of.push(self.comm);
            self.first_of_comm.entry(self.comm).or_insert(next);
            next
        } else {
            let first = self.first_of_comm.get(&self.comm);
            first.copied().unwrap_or(u16::MAX)
        };
        self.pids.insert(task, number);
        number
    }
}

/// Seven bits are the CPU, the eighth says synthetic: CPUs from 128 on share numbers.
fn traced_cpu(cpu: u16) -> u8 {
    cpu as u8 & !TraceOp::SYNTHETIC
}

fn synthetic_cpu(cpu: u16) -> u8 {
    cpu as u8 | TraceOp::SYNTHETIC
}
