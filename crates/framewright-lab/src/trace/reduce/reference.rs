//! The recording kernel's own figures, once a second, from the frames that it chose. They are what a replay of its
//! policy is held against.

use super::frames::CHUNK_ORDER;
use super::object::{Mark, REFERENCE_MS};
use super::places::{FramePlace, FramePlaces};
use super::row::ReferenceRow;
use crate::trace::{OpKind, ReadFrameState, Snapshot, Trace};
use framewright::{Mobility, Order};
use std::collections::HashMap;

/// The reduction's frames at the end beside those of a snapshot taken then, in frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Free in both.
    pub both_free: u64,
    /// Free in the reduction only: per-CPU lists, targets of moves that were not matched, and
    /// bulk allocations still alive.
    pub only_model_free: u64,
    /// Free in the snapshot only: missed frees.
    pub only_snapshot_free: u64,
    /// Allocated in both.
    pub both_allocated: u64,
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

/// A piece of an object that went from one frame to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    /// Before this operation of the trace.
    pub(super) at: u32,
    pub(super) object: u32,
    pub(super) offset: u32,
    pub(super) order: Order,
    pub(super) to: Option<u32>,
}

/// Where the frames of migrated objects are: by object and offset; `None` where not known.
type Whereabouts = HashMap<(u32, u32), Option<u32>>;

/// What the recording kernel had made of memory, once a second, from a trace and the frames
/// chosen for its allocations alone.
///
/// Migrations are in neither, so an object that compaction moved still counts where it was: the
/// rows drift from the truth by as much as was moved. `extfrag_so_far` is 0, as it is not known.
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
    follow(trace, chosen, &[], &marks, &[], None).0
}

/// Follows the recording kernel's own frames through the trace: a row at each mark, and the
/// comparison with `last` at the end.
pub(super) fn follow(
    trace: &Trace,
    chosen: &[u32],
    migrations: &[Migration],
    marks: &[Mark],
    chunks: &[u64],
    last: Option<&Snapshot>,
) -> (Vec<ReferenceRow>, Option<Agreement>) {
    let mut places = FramePlaces::new(trace.nframes);
    for run in &trace.absent {
        places.fill(run.start().0..run.end().0, FramePlace::Absent);
    }
    // First frame and mobility of each object.
    let mut objects: Vec<(u32, Mobility)> = Vec::with_capacity(trace.init.len() + chosen.len());
    for object in &trace.init {
        places.set(object.frame.0, FramePlace::Held(object.class.mobility()));
        objects.push((object.frame.0 as u32, object.class.mobility()));
    }
    let mut moved = Whereabouts::new();
    let (mut migrations, mut marks, mut chosen) = (
        migrations.iter().peekable(),
        marks.iter().peekable(),
        chosen.iter(),
    );
    let mut rows = Vec::new();
    for at in 0..=trace.ops.len() {
        while let Some(migration) = migrations.next_if(|migration| migration.at as usize == at) {
            let (first, mobility) = objects[migration.object as usize];
            for k in 0..migration.order.frames() as u32 {
                let offset = migration.offset + k;
                let to = migration.to.map(|to| to + k);
                let from = moved.insert((migration.object, offset), to);
                if let Some(from) = from.unwrap_or(Some(first + offset)) {
                    places.set(u64::from(from), FramePlace::Free);
                }
                if let Some(to) = to {
                    places.set(u64::from(to), FramePlace::Held(mobility));
                }
            }
        }
        while let Some(mark) = marks.next_if(|mark| mark.at as usize == at) {
            rows.push(ReferenceRow {
                event: at as u64,
                ms: mark.ms,
                extfrag_so_far: mark.extfrag,
                ..places.row()
            });
        }
        let Some(op) = trace.ops.get(at) else { break };
        match op.kind() {
            OpKind::Alloc => {
                let first = *chosen.next().unwrap_or(&0);
                let frames = u64::from(first)..u64::from(first) + op.order().frames();
                places.fill(frames, FramePlace::Held(op.mobility()));
                objects.push((first, op.mobility()));
            }
            OpKind::Free | OpKind::FreePart => {
                let first = objects[op.value as usize].0;
                let start = u64::from(first) + u64::from(op.offset);
                if moved.is_empty() {
                    places.fill(start..start + op.order().frames(), FramePlace::Free);
                    continue;
                }
                let length = op.order().frames() as u32;
                for offset in op.offset..op.offset + length {
                    let place = moved.remove(&(op.value, offset));
                    if let Some(frame) = place.unwrap_or(Some(first + offset)) {
                        places.set(u64::from(frame), FramePlace::Free);
                    }
                }
            }
            OpKind::Tick | OpKind::Failed => {}
        }
    }
    let agreement = last.map(|last| compare(&places, chunks, last));
    (rows, agreement)
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
                (FramePlace::Held(_), true) => &mut agreement.only_snapshot_free,
                (FramePlace::Held(_), false) => &mut agreement.both_allocated,
            };
            *count += 1;
        }
    }
    agreement
}
