//! The end of a reduction: synthetic allocations go to their places, and frames and objects get their final
//! numbers. Before it both have provisional ones, as the universe of frames is known only when the last event was
//! seen.

use super::frames::{CHUNK, CHUNK_ORDER};
use super::object::{Mark, Moved, ObjectOrigin};
use super::reducer::Reducer;
use super::reference;
use super::{ReduceError, Reduction};
use crate::trace::{Askers, InitObject, KernelWork, OpKind, Snapshot, Trace, TraceMove, TraceOp};
use framewright::{Frame, Run};

/// Not numbered yet; object numbers stay below.
const UNNUMBERED: u32 = u32::MAX;

impl Reducer {
    /// Numbers frames and objects for good, puts the synthetic allocations where they belong,
    /// and compares with `last`, what memory looked like after the trace.
    ///
    /// Time: O(operations + frames of the universe), and the same again for each second of the
    /// trace for the reference.
    ///
    /// # Errors
    /// [`ReduceError`] where 32 bits are too few.
    pub fn finish(mut self, last: Option<&Snapshot>) -> Result<Reduction, ReduceError> {
        self.anomalies.moves_unmatched = self.open_moves();
        if let Some(last) = last {
            self.anomalies.free_unseen = self.table.learn_from(last);
        }
        let chunks = self.table.universe();
        let nframes = (chunks.len() as u64) << CHUNK_ORDER;
        if nframes > u64::from(u32::MAX) {
            return Err(ReduceError::TooManyFrames);
        }
        let frame_of_slot = self.frames_of_slots(&chunks);
        let (init, absent) = self.initial_state(&chunks);
        let unlisted = self.unlisted(&chunks);
        let allocs = self
            .objects
            .iter()
            .filter(|object| object.origin != ObjectOrigin::Initial);
        if init.len() + allocs.count() > UNNUMBERED as usize {
            return Err(ReduceError::TooLong);
        }
        // By place; two at one place in the order they were found.
        self.synthetic.sort_by_key(|&(at, object, _)| (at, object));
        let numbers = self.number_objects(&init, &frame_of_slot);
        let moves = self.moves(&numbers, &frame_of_slot);
        let marks = self.final_marks();
        let chosen = self.chosen(&frame_of_slot);
        let mut trace = Trace {
            nframes,
            absent,
            init,
            gfp: std::mem::take(&mut self.gfp),
            askers: self.askers(),
            work: self.final_work(),
            moves,
            unlisted,
            ops: merge(std::mem::take(&mut self.ops), &self.synthetic, &numbers),
        };
        let (reference, agreement) = reference::follow(&mut trace, &chosen, &marks, &chunks, last);
        Ok(Reduction {
            trace,
            chosen,
            chunks,
            counts: self.counts,
            anomalies: self.anomalies,
            reference,
            agreement,
        })
    }

    /// For each chunk in the order of making, the first frame of the universe it stands for.
    fn frames_of_slots(&self, chunks: &[u64]) -> Vec<u32> {
        let place = |number| chunks.binary_search(&number).unwrap_or_default() as u32;
        let numbers = self.table.chunk_numbers();
        numbers.map(|number| place(number) << CHUNK_ORDER).collect()
    }

    fn initial_state(&self, chunks: &[u64]) -> (Vec<InitObject>, Vec<Run>) {
        let (mut init, mut absent) = (Vec::new(), Vec::<Run>::new());
        let mut frame = 0;
        for &number in chunks {
            for start in self.table.start_of_chunk(number) {
                match start {
                    Ok(Some(class)) => init.push(InitObject {
                        frame: Frame(frame),
                        class,
                    }),
                    Ok(None) => {}
                    Err(()) => {
                        let run = match absent.last() {
                            Some(run) if run.end() == Frame(frame) => absent.pop(),
                            _ => None,
                        };
                        let start = run.map_or(Frame(frame), Run::start);
                        absent.extend(Run::new(start, frame + 1 - start.0));
                    }
                }
                frame += 1;
            }
        }
        (init, absent)
    }

    /// Runs of frames that were free and on no free list at the start.
    fn unlisted(&mut self, chunks: &[u64]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for frame in self.table.unlisted() {
            let Ok(place) = chunks.binary_search(&(frame >> CHUNK_ORDER)) else {
                continue;
            };
            let frame = (place as u64) << CHUNK_ORDER | frame & u64::from(CHUNK - 1);
            let before = runs.pop_if(|run| run.end().0 == frame);
            let start = before.map_or(frame, |run| run.start().0);
            runs.extend(Run::new(Frame(start), frame + 1 - start));
        }
        runs
    }

    /// The final number of each object: initial ones by frame, then the others as their
    /// allocations follow one another.
    fn number_objects(&self, init: &[InitObject], frame_of_slot: &[u32]) -> Vec<u32> {
        let mut numbers = vec![UNNUMBERED; self.objects.len()];
        for (number, object) in numbers.iter_mut().zip(&self.objects) {
            if object.origin == ObjectOrigin::Initial {
                let frame = Frame(u64::from(frame_of(object.slot, frame_of_slot)));
                if let Ok(index) = init.binary_search_by_key(&frame, |object| object.frame) {
                    *number = index as u32;
                }
            }
        }
        for (next, object) in (init.len() as u32..).zip(self.objects_in_order()) {
            numbers[object as usize] = next;
        }
        numbers
    }

    /// The objects that have an allocation, in the order of the final operations.
    fn objects_in_order(&self) -> impl Iterator<Item = u32> {
        let mut synthetic = self.synthetic.iter().peekable();
        let mut ops = (0..)
            .zip(&self.ops)
            .filter(|(_, op)| op.kind() == OpKind::Alloc)
            .peekable();
        std::iter::from_fn(move || {
            let next_op = ops.peek().map_or(u32::MAX, |&(at, _)| at);
            match synthetic.next_if(|&&(at, _, _)| at <= next_op) {
                Some(&(_, object, _)) => Some(object),
                None => ops.next().map(|(_, op)| op.value),
            }
        })
    }

    fn chosen(&self, frame_of_slot: &[u32]) -> Vec<u32> {
        let slot = |object: u32| self.objects[object as usize].slot;
        self.objects_in_order()
            .map(|object| frame_of(slot(object), frame_of_slot))
            .collect()
    }

    /// The askers: the names of the small numbers, and the chain of each request in the order of the final operations.
    fn askers(&self) -> Askers {
        let names = self.names.comms();
        let mut askers = Askers::default();
        if !names.is_empty() {
            let of = |&comm: &u32| names.get(comm as usize).unwrap_or_default();
            self.comm_of
                .iter()
                .map(of)
                .for_each(|name| askers.comms.push(name));
        }
        if self.names.chains().is_empty() {
            return askers;
        }
        askers.chains = self.names.chains().clone();
        let mut synthetic = self.synthetic.iter().peekable();
        for (at, op) in (0..).zip(&self.ops) {
            while synthetic.next_if(|&&(before, _, _)| before <= at).is_some() {
                askers.chain_of.push(Askers::NO_CHAIN);
            }
            if matches!(op.kind(), OpKind::Alloc | OpKind::Failed) {
                let chain = self.chain_at.get(at as usize).copied();
                askers.chain_of.push(chain.unwrap_or(Askers::NO_CHAIN));
            }
        }
        askers.chain_of.extend(synthetic.map(|_| Askers::NO_CHAIN));
        askers
    }

    /// The moves, by the final operation they happened before. A move comes before the
    /// synthetic allocations at its place: those can be of the frames it emptied.
    fn moves(&self, numbers: &[u32], frame_of_slot: &[u32]) -> Vec<TraceMove> {
        let mut place = self.final_place();
        let moved = |moved: &Moved| TraceMove {
            at: place(moved.at),
            object: numbers[moved.piece.object as usize],
            offset: moved.piece.offset,
            order: moved.piece.order,
            from: frame_of(moved.from, frame_of_slot),
            to: moved.to.map(|slot| frame_of(slot, frame_of_slot)),
        };
        self.moved.iter().map(moved).collect()
    }

    /// The kernel's work, by final operations.
    fn final_work(&mut self) -> KernelWork {
        let mut work = std::mem::take(&mut self.work.work);
        let mut place = self.final_place();
        for event in &mut work.events {
            event.at = place(event.at);
        }
        drop(place);
        work
    }

    /// The marks, by final operations.
    fn final_marks(&self) -> Vec<Mark> {
        let mut place = self.final_place();
        let shifted = |mark: &Mark| Mark {
            at: place(mark.at),
            ..*mark
        };
        self.marks.iter().map(shifted).collect()
    }

    /// Where an operation comes to stand among the synthetic ones; it is asked about ascending ones.
    fn final_place(&self) -> impl FnMut(u32) -> u32 {
        let mut synthetic = self.synthetic.iter().peekable();
        let mut before = 0;
        move |of| {
            while synthetic.next_if(|&&(at, _, _)| at < of).is_some() {
                before += 1;
            }
            of + before
        }
    }
}

fn frame_of(slot: u32, frame_of_slot: &[u32]) -> u32 {
    frame_of_slot[(slot >> CHUNK_ORDER) as usize] | slot & (CHUNK - 1)
}

/// Puts each synthetic allocation before its operation and numbers the objects for good.
/// From the back, in place: the operations are the largest thing in memory.
fn merge(
    mut ops: Vec<TraceOp>,
    synthetic: &[(u32, u32, TraceOp)],
    numbers: &[u32],
) -> Vec<TraceOp> {
    let mut from = ops.len();
    let mut to = from + synthetic.len();
    ops.resize(to, TraceOp::tick(0));
    let mut left = synthetic;
    while to > 0 {
        to -= 1;
        let mut op = match left.split_last() {
            Some((&(at, _, op), rest)) if at as usize >= from => {
                left = rest;
                op
            }
            _ => {
                from -= 1;
                ops[from]
            }
        };
        match op.kind() {
            OpKind::Alloc => op.value = 0,
            OpKind::Free | OpKind::FreePart => op.value = numbers[op.value as usize],
            OpKind::Tick | OpKind::Failed => {}
        }
        ops[to] = op;
    }
    ops
}
