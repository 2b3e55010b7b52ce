//! What memory looked like before the first of some events, from what it looks like after the last.
//!
//! A flight recorder's buffers hold the newest events, and the moment in which they begin is known only when they
//! are read: no snapshot was taken then. But each event says what its frames were before it. So a frame's first event
//! tells its state at the beginning, and a frame without an event was what it is now.
//!
//! | first event of a frame | at the beginning it was |
//! |---|---|
//! | an allocation | free |
//! | a free | allocated; its class is a guess |
//! | a free in a compaction, outside of `migrate_pages()` | free: isolated, not used |
//! | none | what it is in the last snapshot |
//!
//! The class of a frame that is freed first is the one that an older snapshot has there, because the kernel keeps
//! kinds together, and movable where that has none.
//!
//! # Moves
//! Compaction takes the frames that it moves to without an event. Such a frame looks as if it had been allocated from
//! the beginning on, like the one that it was moved from, so that each move would leave less free than there was. So
//! each one is given a frame that counts as free at the beginning, the surest first (`MoveTarget`) and of these the
//! highest, where compaction looks for free frames. Where the older snapshot is old, which frames these are is a guess;
//! how many is not.
//!
//! # Invariants
//! - **RW1** Events pushed through [`Rewind`] and then reduced from its snapshot find no frame allocated that is free
//!   there, and none freed that is: `percpu_at_start` and `frees_of_unknown` have only what the events themselves
//!   leave out.
//! - **RW2** Each block that compaction emptied stands for one that was free at the beginning, as long as there is a
//!   movable one without an event.

use super::tasks::Tasks;
use super::{ORDER_MAX, ORDERS};
use crate::trace::{EventKind, ReadFrameState, Snapshot, TraceEvent};
use framewright::{Frame, Mobility, Order};
use std::ops::Range;

/// Takes the events one by one, in their order.
///
/// Time a push: O(frames of the event). Memory: two bytes a frame of the machine, beside the snapshots.
#[derive(Debug)]
pub struct Rewind<'s> {
    older: &'s Snapshot,
    frames: Snapshot,
    last: &'s Snapshot,
    /// What the events have said of each frame: [`NAMED`], [`HELD`], [`FIXED`], [`FREED`], [`MOVED`].
    marks: Vec<u8>,
    tasks: Tasks,
    /// Moves by order whose targets are not known yet.
    moves: [u64; ORDERS],
}

/// An event has named the frame.
const NAMED: u8 = 1;
/// By the events it is allocated.
const HELD: u8 = 2;
/// What was allocated there last cannot be moved.
const FIXED: u8 = 4;
/// A free came first, after a move, and the older snapshot calls it free.
const FREED: u8 = 8;
/// The same, and that free was itself a move: something was moved there and on.
const MOVED: u8 = 16;

/// Which blocks a move may have gone to, the surest first.
#[derive(Debug, Clone, Copy)]
enum MoveTarget {
    /// It is movable now, and by the events free: whatever was there at the beginning, it is accounted for.
    FreeByEvents,
    /// It was freed first, after a move, and the older snapshot calls it free.
    FreedFirst,
    /// It is movable now, no event names it, and the older snapshot calls it free.
    FreeOnce,
    /// It was moved from first, after another move, and the older snapshot calls it free.
    MovedFirst,
    /// It is movable now, and no event names it.
    Unnamed,
}

impl<'s> Rewind<'s> {
    /// Starts from what memory looks like after the last event. `older` is a snapshot from before the first.
    #[must_use]
    pub fn new(last: &'s Snapshot, older: &'s Snapshot) -> Self {
        Self {
            older,
            frames: last.clone(),
            last,
            marks: vec![0; last.frames().len()],
            tasks: Tasks::default(),
            moves: [0; ORDERS],
        }
    }

    /// Takes the next event in the order of the trace.
    pub fn push(&mut self, event: &TraceEvent) {
        match event.kind {
            EventKind::Alloc {
                frame: Some(frame),
                order,
                mobility,
                ..
            } if order.get() <= ORDER_MAX => {
                self.name(frame, order, |_| ReadFrameState::Free);
                let is_movable = mobility == Mobility::Movable;
                let mark = NAMED | HELD | if is_movable { 0 } else { FIXED };
                let block = self.block(frame, order);
                for marks in &mut self.marks[block] {
                    *marks = *marks & (FREED | MOVED) | mark;
                }
                if is_movable {
                    self.tasks.allocated(event.pid, frame.0 as u32, order);
                }
            }
            EventKind::Free { frame, order } if order.get() <= ORDER_MAX => {
                self.free(event.pid, frame, order);
            }
            EventKind::MigrateStart => self.tasks.migrate_start(event.pid),
            EventKind::MigrateEnd { .. } => drop(self.tasks.migrate_end(event.pid)),
            EventKind::CompactionBegin => self.tasks.compaction_begin(event.pid),
            EventKind::CompactionEnd => drop(self.tasks.compaction_end(event.pid)),
            EventKind::Lost(_) => self.tasks.forget(),
            _ => {}
        }
    }

    /// What memory looked like before the first event.
    ///
    /// Time: O(frames of the machine) for each order of which something was moved.
    #[must_use]
    pub fn finish(mut self) -> Snapshot {
        for order in (0..=ORDER_MAX).rev().filter_map(Order::new) {
            self.place_moves(order, MoveTarget::FreeByEvents);
            self.place_moves(order, MoveTarget::FreedFirst);
            self.place_moves(order, MoveTarget::FreeOnce);
            self.place_moves(order, MoveTarget::MovedFirst);
            self.place_moves(order, MoveTarget::Unnamed);
        }
        self.frames
    }

    fn free(&mut self, pid: u32, frame: Frame, order: Order) {
        let block = self.block(frame, order);
        if block.len() as u64 != order.frames() {
            return;
        }
        if self.tasks.gives_back_isolated(pid) {
            self.name(frame, order, |_| ReadFrameState::Free);
            self.drop_from(block);
            return;
        }
        let older = self.older;
        let left = &mut self.moves[order.index()];
        let is_free = |at: usize| self.marks[at] & (NAMED | HELD) == NAMED;
        let may_be_free = |at| older.state(at as u64) == ReadFrameState::Free;
        let is_target = *left > 0 && block.clone().all(is_free);
        let may_be_target =
            *left > 0 && (block.clone()).all(|at| self.marks[at] == 0 && may_be_free(at));
        *left -= u64::from(is_target);
        self.name(frame, order, |at| match older.state(at as u64) {
            ReadFrameState::Free | ReadFrameState::Absent => ReadFrameState::Movable,
            class => class,
        });
        // As the reducer tells a move: a softirq frees in the task's name, too, what cannot be moved.
        let is_movable = |at: usize| {
            let state = self.frames.frames()[at];
            let may_be = matches!(state, ReadFrameState::Movable | ReadFrameState::Free);
            may_be && self.marks[at] & FIXED == 0
        };
        let is_move = self.tasks.is_migrating(pid)
            && block.clone().all(is_movable)
            && self.tasks.is_move(pid, frame.0 as u32, order);
        self.moves[order.index()] += u64::from(is_move);
        if may_be_target {
            for marks in &mut self.marks[block.clone()] {
                *marks |= if is_move { MOVED } else { FREED };
            }
        }
        self.drop_from(block);
    }

    /// From here on the block's frames are free by the events.
    fn drop_from(&mut self, block: Range<usize>) {
        for mark in &mut self.marks[block] {
            *mark &= !(HELD | FIXED);
        }
    }

    /// Gives a block of that kind to each move of that order that has no target yet, from the highest down: it was free
    /// at the beginning.
    fn place_moves(&mut self, order: Order, kind: MoveTarget) {
        let left = &mut self.moves[order.index()];
        let size = order.frames() as usize;
        let frames = self.frames.frames_mut();
        for block in (0..frames.len() / size).rev() {
            if *left == 0 {
                return;
            }
            let block = block * size..(block + 1) * size;
            let may_be = |at: usize| {
                let (marks, is) = (self.marks[at], self.last.frames()[at]);
                match kind {
                    MoveTarget::FreedFirst => marks & FREED != 0,
                    MoveTarget::MovedFirst => marks & MOVED != 0,
                    _ if is != ReadFrameState::Movable => false,
                    MoveTarget::FreeByEvents => marks & (NAMED | HELD) == NAMED,
                    MoveTarget::FreeOnce => {
                        marks == 0 && self.older.state(at as u64) == ReadFrameState::Free
                    }
                    MoveTarget::Unnamed => marks == 0,
                }
            };
            if block.clone().all(may_be) {
                for marks in &mut self.marks[block.clone()] {
                    *marks = match kind {
                        MoveTarget::FreedFirst | MoveTarget::MovedFirst => {
                            *marks & !(FREED | MOVED)
                        }
                        _ => *marks | NAMED | HELD,
                    };
                }
                if !matches!(kind, MoveTarget::FreeByEvents) {
                    frames[block].fill(ReadFrameState::Free);
                }
                *left -= 1;
            }
        }
    }

    /// The frames of the block that the machine has numbers for.
    fn block(&self, frame: Frame, order: Order) -> Range<usize> {
        let len = self.frames.frames().len();
        let first = usize::try_from(frame.0).map_or(len, |first| first.min(len));
        first..first.saturating_add(order.frames() as usize).min(len)
    }

    /// Sets the state of each frame of the block that no event has named yet. Frames that are not there stay so.
    fn name(&mut self, frame: Frame, order: Order, state: impl Fn(usize) -> ReadFrameState) {
        let block = self.block(frame, order);
        let frames = self.frames.frames_mut();
        for at in block {
            if self.marks[at] == 0 && frames[at] != ReadFrameState::Absent {
                self.marks[at] = NAMED;
                frames[at] = state(at);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::reduce::reduce;
    use ReadFrameState::{Absent, Free, Movable, Slab, Unmovable};

    fn event(time_ns: u64, pid: u32, kind: EventKind) -> TraceEvent {
        TraceEvent {
            time_ns,
            cpu: 0,
            pid,
            kind,
        }
    }

    fn alloc(frame: u64, order: u8) -> EventKind {
        EventKind::Alloc {
            frame: Some(Frame(frame)),
            order: Order::new(order).unwrap(),
            mobility: Mobility::Movable,
            gfp: 0,
        }
    }

    fn free(frame: u64, order: u8) -> EventKind {
        EventKind::Free {
            frame: Frame(frame),
            order: Order::new(order).unwrap(),
        }
    }

    #[test]
    fn a_frame_was_what_its_first_event_needs_and_one_without_is_what_it_is() {
        let last = Snapshot::new(vec![
            Movable, Movable, Free, Free, Slab, Absent, Free, Movable,
        ]);
        let older = Snapshot::new(vec![
            Free, Free, Slab, Free, Slab, Absent, Unmovable, Movable,
        ]);
        let mut rewind = Rewind::new(&last, &older);
        for kind in [
            alloc(0, 1),
            free(0, 0),
            alloc(0, 0),
            free(2, 0),
            free(3, 0),
            // Frame 5 is not there, and stays so.
            alloc(5, 0),
            alloc(9, 0),
            alloc(u64::MAX, 0),
        ] {
            rewind.push(&event(0, 1, kind));
        }
        // A free in a compaction gives back what was isolated.
        rewind.push(&event(0, 2, EventKind::CompactionBegin));
        rewind.push(&event(0, 2, free(6, 0)));
        rewind.push(&event(0, 2, EventKind::CompactionEnd));
        assert_eq!(
            rewind.finish().frames(),
            [Free, Free, Slab, Movable, Slab, Absent, Free, Movable]
        );
    }

    /// A machine of 256 frames that allocates and frees at random; its last events, and what it looked like where they
    /// begin.
    #[test]
    fn rw1_from_the_rewound_state_every_event_fits() {
        for seed in 0..50 {
            let mut random = framewright_sim::Random::new(seed);
            let mut held = vec![Free; 256];
            let mut history = Vec::new();
            let mut states = vec![held.clone()];
            for time in 0..400 {
                let order = random.below(4) as u8;
                let size = 1 << order;
                let first = random.below(256 / size) * size;
                let block = first as usize..(first + size) as usize;
                let kind = if held[block.clone()].iter().all(|&is| is == Free) {
                    held[block].fill(Movable);
                    alloc(first, order)
                } else if held[block.clone()].iter().all(|&is| is == Movable) {
                    held[block].fill(Free);
                    free(first, order)
                } else {
                    EventKind::Other
                };
                history.push(event(time * 1_000, 1, kind));
                states.push(held.clone());
            }
            let begin = random.below(400) as usize;
            let last = Snapshot::new(held);
            let older = Snapshot::new(states[0].clone());
            let mut rewind = Rewind::new(&last, &older);
            for event in &history[begin..] {
                rewind.push(event);
            }
            let first = rewind.finish();
            assert_eq!(first.frames(), states[begin], "seed {seed}");
            let reduced = reduce(history.drain(begin..), Some(first), Some(&last)).unwrap();
            let anomalies = &reduced.anomalies;
            let kinds = [
                anomalies.percpu_at_start,
                anomalies.frees_of_unknown,
                anomalies.missed_frees,
                anomalies.initial_inferred,
            ];
            assert_eq!(kinds, [0; 4], "seed {seed}");
            assert_eq!(reduced.agreement.unwrap().fraction(), 1.0);
        }
    }

    /// The same machine with frames alone, of which compaction moves some where no event says.
    #[test]
    fn rw2_what_compaction_moves_leaves_as_much_free_at_the_beginning_as_there_was() {
        for seed in 0..50 {
            let mut random = framewright_sim::Random::new(seed);
            let mut held = vec![Free; 256];
            let mut history = Vec::new();
            let mut states = Vec::new();
            for time in 0..600 {
                states.push((history.len(), held.clone()));
                let at = random.below(256) as usize;
                let target = random.below(256) as usize;
                let mut kinds = Vec::new();
                if held[at] == Free {
                    held[at] = Movable;
                    kinds.push(alloc(at as u64, 0));
                } else if held[target] == Free && random.below(2) == 0 {
                    held[at] = Free;
                    held[target] = Movable;
                    let succeeded = 1;
                    kinds.extend([
                        EventKind::CompactionBegin,
                        EventKind::MigrateStart,
                        free(at as u64, 0),
                        EventKind::MigrateEnd {
                            succeeded,
                            failed: 0,
                        },
                        EventKind::CompactionEnd,
                    ]);
                } else {
                    held[at] = Free;
                    kinds.push(free(at as u64, 0));
                }
                history.extend(kinds.into_iter().map(|kind| event(time * 1_000, 1, kind)));
            }
            let (begin, was) = &states[450 + random.below(150) as usize];
            let free_of =
                |frames: &[ReadFrameState]| frames.iter().filter(|&&is| is == Free).count();
            let last = Snapshot::new(held);
            for older in [was, &states[0].1, &states[300].1] {
                let older = Snapshot::new(older.clone());
                let mut rewind = Rewind::new(&last, &older);
                for event in &history[*begin..] {
                    rewind.push(event);
                }
                let first = rewind.finish();
                let is_recent = older.frames() == was;
                assert_eq!(
                    free_of(first.frames()),
                    free_of(was),
                    "seed {seed} {is_recent}"
                );
                if is_recent {
                    assert_eq!(first.frames(), was, "seed {seed}");
                }
                let reduced = reduce(history[*begin..].iter().copied(), Some(first), Some(&last));
                let anomalies = reduced.unwrap().anomalies;
                assert!(
                    anomalies.moves > 0 || history.len() - begin < 40,
                    "seed {seed}"
                );
                assert_eq!(anomalies.percpu_at_start, 0, "seed {seed}");
            }
        }
    }
}
