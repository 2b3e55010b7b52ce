//! The clients of a kernel under pressure: they own the trace's objects and answer when the kernel asks for frames
//! back or moves one. No kernel knows an object, and no object knows a kernel.

use super::ObjectContent;
use crate::measure::{AllocatorFault, Observer};
use crate::pressure::{Frees, Gives, Tenants};
use crate::replay::notes::WhoFollower;
use crate::replay::{TraceObjects, WhoTally};
use framewright::reclaim::{Ask, Migrate, Move, MoveState, Shrink, Shrunk};
use framewright::{CpuId, Frame, Mobility, Order};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};

/// The programs and files of a recording. They hold its objects. For a kernel that asks, they move
/// any movable object, and give back those that are copies of what a file has.
///
/// # Invariants
/// - **PR1** A live movable object is found by the first frame of each of its blocks, and has no
///   other.
/// - **PR2** A live object of the page cache is in the queue of the coldest once; what is in the
///   queue and no longer live is passed over.
/// - **PR3** `cached` is the number of frames of the page cache's live objects.
#[derive(Debug)]
pub(super) struct Programs<'a> {
    contents: &'a [ObjectContent],
    state: RefCell<ProgramsState<'a>>,
    /// The CPU that works at the moment, on which reclaim frees frames.
    cpu: Cell<CpuId>,
}

#[derive(Debug)]
struct ProgramsState<'a> {
    observer: Observer,
    /// The askers, where they are counted.
    who: Option<WhoFollower<'a>>,
    objects: TraceObjects,
    notes: Vec<ObjectNote>,
    /// By frame: the movable object one of whose blocks begins there.
    owners: Vec<u32>,
    /// The blocks of objects that were freed in part.
    parts: BTreeMap<u32, Vec<ObjectPart>>,
    cold: VecDeque<u32>,
    cached: u64,
    reclaimed: u64,
    fault: Option<AllocatorFault>,
}

/// A block that is left of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ObjectPart {
    offset: u64,
    frame: Frame,
    order: Order,
}

impl ObjectPart {
    fn contains(&self, offset: u64) -> bool {
        (self.offset..self.offset + self.order.frames()).contains(&offset)
    }
}

const UNOWNED: u32 = u32::MAX;

/// What is known of an object besides its place: its order, and what became of it.
#[derive(Debug, Clone, Copy)]
struct ObjectNote(u8);

impl ObjectNote {
    const NEW: Self = Self(0);
    const SPLIT: u8 = 1 << 6;
    const RECLAIMED: u8 = 1 << 7;

    const fn of(order: Order) -> Self {
        Self(order.get())
    }

    fn order(self) -> Order {
        Order::new(self.0 & 0x1f).unwrap_or(Order::ZERO)
    }

    const fn is(self, what: u8) -> bool {
        self.0 & what != 0
    }
}

/// What the trace's free of an object comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TraceFree {
    /// The block to free, and whether it is a part of a larger allocation.
    Block { frame: Frame, is_part: bool },
    /// Nothing: reclaim was there first.
    Reclaimed,
    /// Nothing: its allocation had failed.
    Failed,
}

impl<'a> Programs<'a> {
    /// Programs that hold no object yet, and will hold `objects` at most. `contents` is by id; an object
    /// past its end is a program's own.
    pub(super) fn new(
        observer: Observer,
        frames: u64,
        objects: usize,
        contents: &'a [ObjectContent],
    ) -> Self {
        Self {
            contents,
            state: RefCell::new(ProgramsState {
                observer,
                who: None,
                objects: TraceObjects::new(objects),
                notes: vec![ObjectNote::NEW; objects],
                owners: vec![UNOWNED; frames as usize],
                parts: BTreeMap::new(),
                cold: VecDeque::new(),
                cached: 0,
                reclaimed: 0,
                fault: None,
            }),
            cpu: Cell::new(CpuId(0)),
        }
    }

    /// The same, and what they ask for and hold is counted by asker.
    pub(super) fn counted(mut self, who: Option<WhoFollower<'a>>) -> Self {
        self.state.get_mut().who = who;
        self
    }

    /// Tells the count by asker of something, if there is one.
    pub(super) fn note<R>(
        &self,
        note: impl FnOnce(&mut WhoFollower<'a>, &Observer) -> R,
    ) -> Option<R> {
        let state = &mut *self.state.borrow_mut();
        state.who.as_mut().map(|who| note(who, &state.observer))
    }

    /// What each asker has come to, where that was counted; nothing is counted from here on.
    pub(super) fn counted_by_asker(&self) -> Option<WhoTally> {
        let state = &mut *self.state.borrow_mut();
        state.who.take().map(|who| who.finish(&state.observer))
    }

    /// Has `cpu` work from now on.
    pub(super) fn set_cpu(&self, cpu: CpuId) {
        self.cpu.set(cpu);
    }

    /// Reads or asks the observer.
    pub(super) fn observe<R>(&self, look: impl FnOnce(&mut Observer) -> R) -> R {
        look(&mut self.state.borrow_mut().observer)
    }

    /// What an allocator did in a client's hands that no allocator may do, if it did.
    pub(super) fn fault(&self) -> Option<AllocatorFault> {
        self.state.borrow().fault
    }

    /// Where object `id` lies, if it is there.
    pub(super) fn place_of(&self, id: u32) -> Option<(Frame, Mobility)> {
        self.state.borrow().objects.get(id)
    }

    /// Objects that reclaim took.
    pub(super) fn reclaimed(&self) -> u64 {
        self.state.borrow().reclaimed
    }

    fn content(&self, id: u32) -> ObjectContent {
        let content = self.contents.get(id as usize);
        content.copied().unwrap_or(ObjectContent::Anonymous)
    }

    /// Object `id` got the block of `order` at `frame`. Initial objects are not the coldest before
    /// [`mix_coldest`](Self::mix_coldest).
    ///
    /// # Errors
    /// If a frame of it was handed out already.
    pub(super) fn place(
        &self,
        id: u32,
        frame: Frame,
        order: Order,
        mobility: Mobility,
    ) -> Result<(), AllocatorFault> {
        let content = if mobility.is_movable() {
            self.content(id)
        } else {
            ObjectContent::Kernel
        };
        let state = &mut *self.state.borrow_mut();
        state.observer.take(frame, order, mobility)?;
        state.objects.place(id as usize, frame, mobility);
        if let Some(note) = state.notes.get_mut(id as usize) {
            *note = ObjectNote::of(order);
        }
        if mobility.is_movable() {
            state.own(frame, id);
        }
        if content == ObjectContent::Cache {
            state.cold.push_back(id);
            state.cached += order.frames();
        }
        Ok(())
    }

    /// Shuffles the order in which reclaim takes the objects that are there so far, by their ids. The
    /// recording does not say how old the initial objects are, and in the order of their places
    /// reclaim would free whole blocks.
    pub(super) fn mix_coldest(&self) {
        let state = &mut *self.state.borrow_mut();
        // The finisher of SplitMix64: all bits of the id in all bits of the key.
        let key = |&id: &u32| {
            let mut z = (u64::from(id) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        state.cold.make_contiguous().sort_by_cached_key(key);
    }

    /// The trace frees object `id`, or the part of `order` at `offset` of it: what is to be freed.
    ///
    /// # Errors
    /// If it is not handed out.
    pub(super) fn free(
        &self,
        id: u32,
        part: Option<u64>,
        order: Order,
    ) -> Result<TraceFree, AllocatorFault> {
        let content = self.content(id);
        let state = &mut *self.state.borrow_mut();
        let note = state
            .notes
            .get(id as usize)
            .copied()
            .unwrap_or(ObjectNote::NEW);
        let Some((at, mobility)) = state.objects.get(id) else {
            return Ok(if note.is(ObjectNote::RECLAIMED) {
                TraceFree::Reclaimed
            } else {
                TraceFree::Failed
            });
        };
        let frame = match part {
            None => {
                state.disown(at, mobility);
                state.objects.forget(id);
                at
            }
            Some(offset) if mobility.is_movable() => state.cut(id, offset, order),
            Some(offset) => Frame(at.0 + offset),
        };
        if content == ObjectContent::Cache && mobility.is_movable() {
            state.cached = state.cached.saturating_sub(order.frames());
        }
        state.observer.give(frame, order, mobility)?;
        if let Some(who) = &mut state.who {
            who.free(frame, order);
        }
        Ok(TraceFree::Block {
            frame,
            is_part: part.is_some(),
        })
    }
}

impl ProgramsState<'_> {
    fn own(&mut self, frame: Frame, id: u32) {
        if let Some(owner) = self.owners.get_mut(frame.0 as usize) {
            *owner = id;
        }
    }

    fn disown(&mut self, frame: Frame, mobility: Mobility) {
        if mobility.is_movable() {
            self.own(frame, UNOWNED);
        }
    }

    /// Cuts the part of `order` at `offset` out of a movable object; where it lies.
    fn cut(&mut self, id: u32, offset: u64, order: Order) -> Frame {
        let note = self.notes[id as usize];
        if !note.is(ObjectNote::SPLIT) {
            self.notes[id as usize].0 |= ObjectNote::SPLIT;
            if let Some((frame, _)) = self.objects.get(id) {
                let whole = ObjectPart {
                    offset: 0,
                    frame,
                    order: note.order(),
                };
                self.parts.insert(id, vec![whole]);
            }
        }
        let Some(parts) = self.parts.get_mut(&id) else {
            return Frame(u64::MAX);
        };
        // A trace frees no part twice, so that it lies in one of the blocks.
        let Some(at) = parts.iter().position(|part| part.contains(offset)) else {
            return Frame(u64::MAX);
        };
        let mut part = parts.swap_remove(at);
        self.owners[part.frame.0 as usize] = UNOWNED;
        while let Some(half) = Order::new(part.order.get().wrapping_sub(1))
            && part.order > order
        {
            let mut rest = ObjectPart {
                offset: part.offset + half.frames(),
                frame: Frame(part.frame.0 + half.frames()),
                order: half,
            };
            part.order = half;
            if rest.contains(offset) {
                std::mem::swap(&mut part, &mut rest);
            }
            self.owners[rest.frame.0 as usize] = id;
            parts.push(rest);
        }
        if parts.is_empty() {
            self.parts.remove(&id);
            self.objects.forget(id);
        }
        part.frame
    }

    /// The object whose block of `order` is at `frame`, and which of its parts that is.
    fn find(&self, frame: Frame, order: Order) -> Option<(u32, Option<usize>)> {
        let id = *self.owners.get(frame.0 as usize)?;
        let note = self.notes.get(id as usize)?;
        if !note.is(ObjectNote::SPLIT) {
            return (note.order() == order).then_some((id, None));
        }
        let mut parts = self.parts.get(&id)?.iter();
        let nth = parts.position(|part| part.frame == frame && part.order == order)?;
        Some((id, Some(nth)))
    }

    /// Moves one block. `Unknown` if no movable object has a block at `from`, `Busy` if that block is
    /// not of `order`.
    fn relocate(
        &mut self,
        from: Frame,
        to: Frame,
        order: Order,
    ) -> Result<MoveState, AllocatorFault> {
        if self
            .owners
            .get(from.0 as usize)
            .is_none_or(|&id| id == UNOWNED)
        {
            return Ok(MoveState::Unknown);
        }
        let Some((id, nth)) = self.find(from, order) else {
            return Ok(MoveState::Busy);
        };
        let movable = Mobility::Movable;
        self.observer.take(to, order, movable)?;
        self.observer.give(from, order, movable)?;
        if let Some(who) = &mut self.who {
            who.relocate(from, to, order);
        }
        self.own(from, UNOWNED);
        self.own(to, id);
        match nth {
            None => self.objects.place(id as usize, to, movable),
            Some(nth) => {
                if let Some(part) = self.parts.get_mut(&id).and_then(|parts| parts.get_mut(nth)) {
                    part.frame = to;
                }
            }
        }
        Ok(MoveState::Moved)
    }

    /// Takes the coldest object of the cache apart, as far as it is no larger than `scan` or the first; its
    /// blocks go to `blocks`.
    fn give_up(&mut self, blocks: &mut Vec<(Frame, Order)>) -> Result<u64, AllocatorFault> {
        while let Some(id) = self.cold.pop_front() {
            let Some((frame, mobility)) = self.objects.get(id) else {
                continue;
            };
            let note = self.notes[id as usize];
            let first = blocks.len();
            if note.is(ObjectNote::SPLIT) {
                let parts = self.parts.remove(&id).unwrap_or_default();
                blocks.extend(parts.iter().map(|part| (part.frame, part.order)));
            } else {
                blocks.push((frame, note.order()));
            }
            let mut frames = 0;
            for &(frame, order) in &blocks[first..] {
                frames += order.frames();
                if let Some(owner) = self.owners.get_mut(frame.0 as usize) {
                    *owner = UNOWNED;
                }
                self.observer.give(frame, order, mobility)?;
                if let Some(who) = &mut self.who {
                    who.free(frame, order);
                }
            }
            self.objects.forget(id);
            self.notes[id as usize].0 |= ObjectNote::RECLAIMED;
            self.cached = self.cached.saturating_sub(frames);
            self.reclaimed += 1;
            return Ok(frames);
        }
        Ok(0)
    }
}

impl<'f> Shrink<dyn Frees + 'f> for Programs<'_> {
    /// The recording does not say how hot the cache is: half-way.
    fn holding(&self) -> u64 {
        self.state.borrow().cached
    }

    fn heat(&self) -> u8 {
        128
    }

    /// The coldest is what was there longest. A folio goes as a whole, so that the last one may be
    /// more than was wanted, as in Linux. Nothing is dirty: the recording does not say what was.
    fn shrink(&self, frames: &mut (dyn Frees + 'f), ask: &Ask) -> Shrunk {
        let mut blocks = Vec::new();
        let mut freed = 0;
        {
            let state = &mut *self.state.borrow_mut();
            while freed < ask.wanted.min(ask.scan) && state.fault.is_none() {
                match state.give_up(&mut blocks) {
                    Ok(0) => break,
                    Ok(frames) => freed += frames,
                    Err(fault) => state.fault = Some(fault),
                }
            }
        }
        for (frame, order) in blocks {
            frames.give(self.cpu.get(), frame, order);
        }
        Shrunk {
            scanned: freed,
            freed,
        }
    }
}

impl Migrate for Programs<'_> {
    fn migrate(&self, moves: &mut [Move]) {
        let state = &mut *self.state.borrow_mut();
        for step in moves {
            if step.state != MoveState::Unknown || state.fault.is_some() {
                continue;
            }
            match state.relocate(step.from, step.to, step.order) {
                Ok(result) => step.state = result,
                Err(fault) => state.fault = Some(fault),
            }
        }
    }
}

/// The programs as a kernel meets them: with files that can be given back, or without.
pub(super) struct HeldPrograms<'p, 'a> {
    programs: &'p Programs<'a>,
    gives: &'p [&'p dyn Gives],
}

impl<'p, 'a> HeldPrograms<'p, 'a> {
    /// A kernel may move what `programs` hold, and may ask those in `gives` to give frames back.
    pub(super) const fn new(programs: &'p Programs<'a>, gives: &'p [&'p dyn Gives]) -> Self {
        Self { programs, gives }
    }
}

impl Migrate for HeldPrograms<'_, '_> {
    fn migrate(&self, moves: &mut [Move]) {
        self.programs.migrate(moves);
    }
}

impl Tenants for HeldPrograms<'_, '_> {
    fn shrinkers(&self) -> &[&dyn Gives] {
        self.gives
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOVABLE: Mobility = Mobility::Movable;

    fn order(n: u8) -> Order {
        Order::new(n).unwrap()
    }

    fn programs(contents: &[ObjectContent]) -> Programs<'_> {
        Programs::new(Observer::new(1024, &[]), 1024, 8, contents)
    }

    fn step(from: u64, to: u64, n: u8) -> Move {
        Move {
            from: Frame(from),
            to: Frame(to),
            order: order(n),
            state: MoveState::Unknown,
        }
    }

    fn block(frame: u64, is_part: bool) -> Result<TraceFree, AllocatorFault> {
        Ok(TraceFree::Block {
            frame: Frame(frame),
            is_part,
        })
    }

    #[test]
    fn an_object_that_moved_is_freed_where_it_is() {
        let programs = programs(&[]);
        programs.place(0, Frame(5), order(0), MOVABLE).unwrap();
        programs.place(1, Frame(8), order(3), MOVABLE).unwrap();
        programs
            .place(2, Frame(6), order(0), Mobility::Unmovable)
            .unwrap();
        let mut moves = [
            step(5, 40, 0),
            step(8, 64, 3),
            step(6, 41, 0),
            step(64, 80, 2),
        ];
        programs.migrate(&mut moves);
        use MoveState::{Busy, Moved, Unknown};
        assert_eq!(moves.map(|step| step.state), [Moved, Moved, Unknown, Busy]);
        assert_eq!(programs.free(0, None, order(0)), block(40, false));
        assert_eq!(programs.free(1, None, order(3)), block(64, false));
        assert_eq!(programs.free(1, None, order(3)), Ok(TraceFree::Failed));
        assert!(programs.observe(|o| !o.is_taken(Frame(8)) && o.is_taken(Frame(6))));
        assert_eq!(programs.fault(), None);
    }

    #[test]
    fn the_parts_of_an_object_move_apart_and_are_freed_where_each_is() {
        let programs = programs(&[]);
        programs.place(3, Frame(16), order(3), MOVABLE).unwrap();
        assert_eq!(programs.free(3, Some(1), order(0)), block(17, true));
        // What is left: 16, 18 and 19, 20 to 23.
        let mut moves = [
            step(16, 100, 0),
            step(18, 102, 1),
            step(20, 104, 2),
            step(17, 9, 0),
        ];
        programs.migrate(&mut moves);
        use MoveState::{Moved, Unknown};
        assert_eq!(moves.map(|step| step.state), [Moved, Moved, Moved, Unknown]);
        assert_eq!(programs.free(3, Some(6), order(1)), block(106, true));
        assert_eq!(programs.free(3, Some(2), order(1)), block(102, true));
        assert_eq!(programs.free(3, Some(0), order(0)), block(100, true));
        assert_eq!(programs.free(3, Some(4), order(1)), block(104, true));
        assert_eq!(programs.observe(|o| o.sample(0)).free_frames(), 1024);
    }

    #[test]
    fn contents_moved_to_a_frame_in_use_are_a_fault_that_stays() {
        let programs = programs(&[]);
        programs.place(0, Frame(5), order(0), MOVABLE).unwrap();
        programs.place(1, Frame(6), order(0), MOVABLE).unwrap();
        programs.migrate(&mut [step(5, 6, 0)]);
        let fault = AllocatorFault::TakenTwice(Frame(6), order(0));
        assert_eq!(programs.fault(), Some(fault));
        assert_eq!(programs.free(0, None, order(0)), block(5, false));
    }

    /// Notes what is given back.
    #[derive(Default)]
    struct NotedFrees(Vec<(u64, u8)>);

    impl Frees for NotedFrees {
        fn give(&mut self, _: CpuId, frame: Frame, order: Order) {
            self.0.push((frame.0, order.get()));
        }
    }

    #[test]
    fn the_cache_gives_its_longest_held_first_a_large_object_as_a_whole_and_only_its_own() {
        let contents = [
            ObjectContent::Cache,
            ObjectContent::Anonymous,
            ObjectContent::Cache,
            ObjectContent::Cache,
        ];
        let programs = programs(&contents);
        for (id, frame, n) in [(0, 5, 0), (1, 6, 0), (2, 64, 4), (3, 7, 0)] {
            programs.place(id, Frame(frame), order(n), MOVABLE).unwrap();
        }
        assert_eq!(Shrink::holding(&programs), 18);
        assert_eq!(programs.free(2, Some(8), order(3)), block(72, true));
        let ask = Ask {
            wanted: 2,
            scan: 32,
            order: order(0),
            context: framewright::Context::ANY,
        };
        let mut given = NotedFrees::default();
        let shrunk = programs.shrink(&mut given as &mut dyn Frees, &ask);
        assert_eq!((shrunk.scanned, shrunk.freed), (9, 9));
        assert_eq!(given.0, [(5, 0), (64, 3)]);
        let shrunk = programs.shrink(&mut given as &mut dyn Frees, &ask);
        assert_eq!((shrunk.freed, Shrink::holding(&programs)), (1, 0));
        assert_eq!(given.0[2..], [(7, 0)]);
        assert_eq!(
            programs.free(2, Some(0), order(3)),
            Ok(TraceFree::Reclaimed)
        );
        assert_eq!(programs.free(1, None, order(0)), block(6, false));
        assert_eq!(programs.reclaimed(), 3);
    }

    #[test]
    fn what_was_there_at_first_is_given_back_in_no_order_of_its_places() {
        let contents = [ObjectContent::Cache; 8];
        let programs = programs(&contents);
        for id in 0..8 {
            let frame = Frame(u64::from(id));
            programs.place(id, frame, order(0), MOVABLE).unwrap();
        }
        programs.mix_coldest();
        let ask = Ask {
            wanted: 8,
            scan: 8,
            order: order(0),
            context: framewright::Context::ANY,
        };
        let mut given = NotedFrees::default();
        programs.shrink(&mut given as &mut dyn Frees, &ask);
        assert!(!given.0.is_sorted());
        given.0.sort_unstable();
        assert_eq!(given.0.len(), 8);
        given.0.dedup();
        assert_eq!(given.0.len(), 8);
    }
}
