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
//! kinds together, and movable where that has none. Where compaction moved an object and its target is freed later,
//! both frames count as allocated at the beginning: the target's allocation has no event.
//!
//! # Invariants
//! - **RW1** Events pushed through [`Rewind`] and then reduced from its snapshot find no frame allocated that is free
//!   there, and none freed that is: `percpu_at_start` and `frees_of_unknown` have only what the events themselves
//!   leave out.

use super::ORDER_MAX;
use super::tasks::Tasks;
use crate::trace::{EventKind, ReadFrameState, Snapshot, TraceEvent};
use framewright::{Frame, Order};

/// Takes the events one by one, in their order.
///
/// Time a push: O(frames of the event). Memory: a byte and a bit a frame of the machine, beside the older snapshot.
#[derive(Debug)]
pub struct Rewind<'s> {
    older: &'s Snapshot,
    frames: Snapshot,
    /// A bit a frame: an event has named it.
    named: Vec<u64>,
    tasks: Tasks,
}

impl<'s> Rewind<'s> {
    /// Starts from what memory looks like after the last event. `older` is a snapshot from before the first.
    #[must_use]
    pub fn new(last: &Snapshot, older: &'s Snapshot) -> Self {
        Self {
            older,
            frames: last.clone(),
            named: vec![0; last.frames().len().div_ceil(64)],
            tasks: Tasks::default(),
        }
    }

    /// Takes the next event in the order of the trace.
    pub fn push(&mut self, event: &TraceEvent) {
        match event.kind {
            EventKind::Alloc {
                frame: Some(frame),
                order,
                ..
            } => self.name(frame, order, |_| ReadFrameState::Free),
            EventKind::Free { frame, order } if self.tasks.gives_back_isolated(event.pid) => {
                self.name(frame, order, |_| ReadFrameState::Free);
            }
            EventKind::Free { frame, order } => {
                let older = self.older;
                self.name(frame, order, |frame| match older.state(frame) {
                    ReadFrameState::Free | ReadFrameState::Absent => ReadFrameState::Movable,
                    class => class,
                });
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
    #[must_use]
    pub fn finish(self) -> Snapshot {
        self.frames
    }

    /// Sets the state of each frame of the block that no event has named yet. Frames that are not there stay so.
    fn name(&mut self, frame: Frame, order: Order, state: impl Fn(u64) -> ReadFrameState) {
        if order.get() > ORDER_MAX {
            return;
        }
        let frames = self.frames.frames_mut();
        let Ok(first) = usize::try_from(frame.0) else {
            return;
        };
        let end = first.saturating_add(order.frames() as usize);
        for at in first..end.min(frames.len()) {
            let (word, bit) = (&mut self.named[at / 64], 1 << (at % 64));
            if *word & bit == 0 && frames[at] != ReadFrameState::Absent {
                *word |= bit;
                frames[at] = state(at as u64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::reduce::reduce;
    use ReadFrameState::{Absent, Free, Movable, Slab, Unmovable};
    use framewright::Mobility;

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
}
