//! The recording kernel's own figures, once a second, from the frames that it chose. They are what a replay of its
//! policy is held against.
//!
//! Compaction takes the frames that it moves objects to without an event. Where such an object is freed later, the free tells
//! where it was. One that lives to the end stands, in the snapshot that is taken then, in a frame that is free by all
//! events. So the frames are followed twice: the second time each such object goes to one of these frames, when it moved.

use super::frames::{CHUNK, CHUNK_ORDER};
use super::object::{Mark, REFERENCE_MS};
use super::places::{FramePlace, FramePlaces};
use super::row::ReferenceRow;
use crate::trace::{OpKind, ReadFrameState, Snapshot, Trace, TraceMove};
use framewright::{Mobility, Order};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// The reduction's frames at the end beside those of a snapshot taken then, in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Free in both.
    pub both_free: u64,
    /// Free in the reduction only: per-CPU lists, bulk allocations still alive, and targets of moves that no frame was
    /// found for.
    pub only_model_free: u64,
    /// Free in the snapshot only: missed frees.
    pub only_snapshot_free: u64,
    /// Allocated in both.
    pub both_allocated: u64,
    /// Of these, the ones that objects were put into because the snapshot has them allocated.
    pub placed: u64,
}

impl Agreement {
    /// The part of the frames on which both agree, 0 to 1; 1 where there are none.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        let same = self.both_free + self.both_allocated;
        let all = same + self.only_model_free + self.only_snapshot_free;
        if all == 0 {
            1.0
        } else {
            same as f64 / all as f64
        }
    }
}

/// Where the frames of moved objects are, by object and offset, and which move brought them there; no frame where it
/// is not known.
type Whereabouts = HashMap<(u32, u32), (Option<u32>, u32)>;

/// What the recording kernel had made of memory, once a second, from a trace and the frames
/// chosen for its allocations alone.
///
/// An object that compaction moved counts where it came to, where the trace says so, and otherwise as gone. `extfrag_so_far`
/// is 0, as it is not known.
///
/// Time: O(frames of the operations), and for a row O(frames of the chunks that changed).
///
/// # Panics
/// If `chosen` does not belong to `trace`: a frame outside it.
#[must_use]
pub fn follow_chosen(trace: &Trace, chosen: &[u32]) -> Vec<ReferenceRow> {
    let (mut marks, mut ms, mut next) = (Vec::new(), 0, 1);
    for (at, op) in (0..).zip(&trace.ops) {
        if op.kind() == OpKind::Tick {
            ms += u64::from(op.value);
            if ms >= next {
                next = ms + REFERENCE_MS;
                let extfrag = 0;
                marks.push(Mark { at, ms, extfrag });
            }
        }
    }
    Followed::through(trace, chosen, &trace.moves, &marks, false).rows
}

/// Follows the recording kernel's own frames through the trace: a row at each mark, and the
/// comparison with `last` at the end. Where no free told where a move went, the trace says so afterwards as far as `last`
/// tells.
pub(super) fn follow(
    trace: &mut Trace,
    chosen: &[u32],
    marks: &[Mark],
    chunks: &[u64],
    last: Option<&Snapshot>,
) -> (Vec<ReferenceRow>, Option<Agreement>) {
    let is_lost = |moved: &TraceMove| moved.to.is_none();
    let wants_freed = last.is_some() && trace.moves.iter().any(is_lost);
    let first = Followed::through(trace, chosen, &trace.moves, marks, wants_freed);
    let Some(last) = last else {
        return (first.rows, None);
    };
    let placed = first.place_lost(&trace.moves, chunks, last);
    if placed.is_empty() {
        return (first.rows, Some(compare(&first.places, chunks, last)));
    }
    let mut frames = 0;
    for (nth, to) in placed {
        let moved = &mut trace.moves[nth as usize];
        moved.to = Some(to);
        frames += moved.order.frames();
    }
    let second = Followed::through(trace, chosen, &trace.moves, marks, false);
    let agreement = Agreement {
        placed: frames,
        ..compare(&second.places, chunks, last)
    };
    (second.rows, Some(agreement))
}

/// What came of following the frames.
struct Followed {
    rows: Vec<ReferenceRow>,
    places: FramePlaces,
    moved: Whereabouts,
    /// Before which operation each frame last became free, by chunk; where none did, all were free from the beginning.
    freed: Option<HashMap<u64, Box<[u32; CHUNK as usize]>>>,
}

impl Followed {
    fn through(
        trace: &Trace,
        chosen: &[u32],
        moves: &[TraceMove],
        marks: &[Mark],
        wants_freed: bool,
    ) -> Self {
        let mut followed = Self {
            rows: Vec::new(),
            places: FramePlaces::new(trace.nframes),
            moved: Whereabouts::new(),
            freed: wants_freed.then(HashMap::new),
        };
        for run in &trace.absent {
            let frames = run.start().0..run.end().0;
            followed.places.fill(frames, FramePlace::Absent);
        }
        // First frame and mobility of each object.
        let mut objects: Vec<(u32, Mobility)> = Vec::with_capacity(trace.init.len() + chosen.len());
        for object in &trace.init {
            let (frame, mobility) = (object.frame.0, object.class.mobility());
            followed.places.set(frame, FramePlace::held(mobility));
            objects.push((frame as u32, mobility));
        }
        let mut moves = (0..).zip(moves).peekable();
        let (mut marks, mut chosen) = (marks.iter().peekable(), chosen.iter());
        for at in 0..=trace.ops.len() {
            while let Some((nth, moved)) = moves.next_if(|(_, moved)| moved.at as usize == at) {
                followed.move_block(nth, moved, objects[moved.object as usize]);
            }
            while let Some(mark) = marks.next_if(|mark| mark.at as usize == at) {
                followed.rows.push(ReferenceRow {
                    event: at as u64,
                    ms: mark.ms,
                    extfrag_so_far: mark.extfrag,
                    ..followed.places.row()
                });
            }
            let Some(op) = trace.ops.get(at) else { break };
            match op.kind() {
                OpKind::Alloc => {
                    let first = *chosen.next().unwrap_or(&0);
                    let frames = u64::from(first)..u64::from(first) + op.order().frames();
                    let held = FramePlace::held(op.mobility());
                    followed.places.fill(frames, held);
                    objects.push((first, op.mobility()));
                }
                OpKind::Free | OpKind::FreePart => {
                    let first = objects[op.value as usize].0;
                    let start = u64::from(first) + u64::from(op.offset);
                    if followed.moved.is_empty() {
                        followed.free(start..start + op.order().frames(), at as u32);
                        continue;
                    }
                    let length = op.order().frames() as u32;
                    for offset in op.offset..op.offset + length {
                        let place = followed.moved.remove(&(op.value, offset));
                        let place = place.map_or(Some(first + offset), |(place, _)| place);
                        if let Some(frame) = place.map(u64::from) {
                            followed.free(frame..frame + 1, at as u32);
                        }
                    }
                }
                OpKind::Tick | OpKind::Failed => {}
            }
        }
        followed
    }

    fn move_block(&mut self, nth: u32, moved: &TraceMove, (first, mobility): (u32, Mobility)) {
        for k in 0..moved.order.frames() as u32 {
            let offset = moved.offset + k;
            let to = moved.to.map(|to| to + k);
            let from = self.moved.insert((moved.object, offset), (to, nth));
            let from = from.map_or(Some(first + offset), |(from, _)| from);
            if let Some(from) = from.map(u64::from) {
                self.free(from..from + 1, moved.at);
            }
            if let Some(to) = to {
                self.places.set(u64::from(to), FramePlace::held(mobility));
            }
        }
    }

    fn free(&mut self, frames: Range<u64>, at: u32) {
        if let Some(freed) = &mut self.freed {
            for frame in frames.clone() {
                let chunk = freed.entry(frame >> CHUNK_ORDER);
                let chunk = chunk.or_insert_with(|| Box::new([0; CHUNK as usize]));
                chunk[(frame & u64::from(CHUNK - 1)) as usize] = at;
            }
        }
        self.places.fill(frames, FramePlace::Free);
    }

    /// A place for each move of which no later free told where to, and whose object lives on: by its number, the first
    /// frame. Only frames that are free here and that `last` has movable contents in come into question, and only those that
    /// were free by the time of the move. Large blocks go first, as long as there are whole places for them, and the
    /// highest place is taken first, because compaction fills a zone from its end.
    fn place_lost(&self, moves: &[TraceMove], chunks: &[u64], last: &Snapshot) -> Vec<(u32, u32)> {
        let unknown = self.moved.values().filter(|(to, _)| to.is_none());
        let mut lost: Vec<u32> = unknown.map(|&(_, nth)| nth).collect();
        lost.sort_unstable();
        // All of the piece that moved, not what is left of it.
        let lost = lost.chunk_by(|a, b| a == b).filter_map(|frames| {
            let order = moves[frames[0] as usize].order;
            (frames.len() as u64 == order.frames()).then_some((order, frames[0]))
        });
        let mut lost: Vec<(Order, u32)> = lost.collect();
        lost.sort_unstable_by_key(|&(order, nth)| (Reverse(order), nth));
        let mut vacant = self.vacant(chunks, last);
        let mut placed = Vec::new();
        for lost in lost.chunk_by(|a, b| a.0 == b.0) {
            let len = lost[0].0.frames() as usize;
            // By when they were free.
            let mut runs: Vec<(u32, u32)> = (vacant.windows(len))
                .filter(|run| {
                    let (first, last) = (run[0].0, run[len - 1].0);
                    (first as usize).is_multiple_of(len) && (last - first) as usize == len - 1
                })
                .map(|run| (run.iter().map(|&(_, at)| at).max().unwrap_or(0), run[0].0))
                .collect();
            runs.sort_unstable();
            let mut runs = runs.into_iter().peekable();
            let (mut by_then, mut taken) = (BTreeSet::new(), BTreeSet::new());
            for &(_, nth) in lost {
                let at = moves[nth as usize].at;
                while let Some((_, first)) = runs.next_if(|&(free, _)| free <= at) {
                    by_then.insert(first);
                }
                if let Some(first) = by_then.pop_last() {
                    taken.insert(first);
                    placed.push((nth, first));
                }
            }
            vacant.retain(|&(frame, _)| {
                let first = frame - frame % len as u32;
                !taken.contains(&first)
            });
        }
        placed
    }

    /// The frames that are free here and that `last` has movable contents in, ascending, and before which operation each last
    /// became free.
    fn vacant(&self, chunks: &[u64], last: &Snapshot) -> Vec<(u32, u32)> {
        let Some(freed) = &self.freed else {
            return Vec::new();
        };
        let mut vacant = Vec::new();
        for (chunk, first) in chunks.iter().zip((0..).step_by(1 << CHUNK_ORDER)) {
            let freed = freed.get(&(first >> CHUNK_ORDER));
            for k in 0..1 << CHUNK_ORDER {
                let is_vacant = self.places.get(first + k) == FramePlace::Free
                    && last.state((chunk << CHUNK_ORDER) + k) == ReadFrameState::Movable;
                if is_vacant {
                    let at = freed.map_or(0, |freed| freed[k as usize]);
                    vacant.push(((first + k) as u32, at));
                }
            }
        }
        vacant
    }
}

fn compare(places: &FramePlaces, chunks: &[u64], last: &Snapshot) -> Agreement {
    let mut agreement = Agreement::default();
    for (chunk, first) in chunks.iter().zip((0..).step_by(1 << CHUNK_ORDER)) {
        for k in 0..1 << CHUNK_ORDER {
            let is_free = match last.state((chunk << CHUNK_ORDER) + k) {
                ReadFrameState::Absent => continue,
                state => state == ReadFrameState::Free,
            };
            let count = match (places.get(first + k), is_free) {
                (FramePlace::Absent, _) => continue,
                (FramePlace::Free, true) => &mut agreement.both_free,
                (FramePlace::Free, false) => &mut agreement.only_model_free,
                (FramePlace::Fixed | FramePlace::Movable, true) => {
                    &mut agreement.only_snapshot_free
                }
                (FramePlace::Fixed | FramePlace::Movable, false) => &mut agreement.both_allocated,
            };
            *count += 1;
        }
    }
    agreement
}
