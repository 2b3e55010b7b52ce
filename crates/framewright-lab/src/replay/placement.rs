//! The recording kernel's own choice of frames, under the same observer as the policies: the figures that a model
//! of that kernel is held against.

use super::notes::{Camera, WhoFollower};
use super::run::SAMPLE_MS;
use super::{ReplayError, TraceMemory, TraceObjects, WhoTally};
use crate::measure::{Film, Means, Observer};
use crate::trace::OpKind;
use framewright::{Frame, Order};
use std::collections::HashMap;

/// No object is known to be there.
const UNOWNED: u32 = u32::MAX;

/// What memory looked like where the recording kernel itself put each allocation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// Means over the samples, one a trace second, as for a policy.
    pub means: Means,
    /// Frames that were handed out again while an object of the trace was still there, and frames of which the recording says
    /// that they moved, and not where to: from then on these are nowhere, and memory looks emptier than it was.
    pub lost_frames: u64,
    /// What each asker has there, where the recording names the askers.
    pub who: Option<WhoTally>,
    /// Pictures of the pageblocks, where some were asked for.
    pub film: Option<Film>,
}

/// Follows the frames that the recording kernel chose (`*.pfn`) under the observer.
///
/// `chosen` has a frame for each allocation of the trace, in order; allocations beyond its end are
/// passed over. At most this many `pictures` are taken, as of a policy.
///
/// # Errors
/// If the initial objects overlap, or a chosen block is not aligned or not within memory.
pub fn placement(
    memory: &TraceMemory<'_>,
    chosen: &[u32],
    pictures: u32,
) -> Result<Placement, ReplayError> {
    let trace = memory.trace;
    let mut observer = Observer::new(trace.nframes, &trace.absent);
    let mut objects = TraceObjects::new(trace.init.len() + memory.allocs);
    let mut holder = vec![UNOWNED; trace.nframes as usize];
    let mut who = WhoFollower::new(trace);
    let fault = |op| {
        move |fault| ReplayError::Fault {
            policy: "linux",
            op,
            fault,
        }
    };
    for (id, object) in trace.init.iter().enumerate() {
        let mobility = object.class.mobility();
        observer
            .take(object.frame, Order::ZERO, mobility)
            .map_err(fault(None))?;
        objects.place(id, object.frame, mobility);
        if let Some(who) = &mut who {
            who.begin(object.frame, mobility);
        }
        holder[object.frame.0 as usize] = id as u32;
    }
    let mut placement = Placement::default();
    let mut camera = Camera::new(pictures, memory);
    if let Some(camera) = &mut camera {
        camera.look(0, &mut observer);
    }
    let mut chosen = chosen.iter();
    let mut moves = trace.moves.iter().peekable();
    // Where frames of objects came to that moved, by object and offset.
    let mut places: HashMap<(u32, u32), u64> = HashMap::new();
    let (mut next_id, mut now_ms, mut next_sample_ms) = (trace.init.len(), 0, 0);
    for index in 0..=trace.ops.len() {
        while let Some(moved) = moves.next_if(|moved| moved.at as usize <= index) {
            let Some((_, mobility)) = objects.get(moved.object) else {
                continue;
            };
            let first = u64::from(moved.from);
            for (nth, from) in (first..first + moved.order.frames()).enumerate() {
                if holder.get(from as usize) != Some(&moved.object) {
                    continue;
                }
                let left = observer.give(Frame(from), Order::ZERO, mobility);
                left.map_err(fault(Some(index)))?;
                holder[from as usize] = UNOWNED;
                let to = moved.to.map(|to| u64::from(to) + nth as u64);
                // Nothing lies there, and there is such a frame.
                let free = to.filter(|&to| !observer.is_taken(Frame(to)));
                let Some(to) = free else {
                    placement.lost_frames += 1;
                    if let Some(who) = &mut who {
                        who.free(Frame(from), Order::ZERO);
                    }
                    continue;
                };
                let came = observer.take(Frame(to), Order::ZERO, mobility);
                came.map_err(fault(Some(index)))?;
                holder[to as usize] = moved.object;
                places.insert((moved.object, moved.offset + nth as u32), to);
                if let Some(who) = &mut who {
                    who.relocate(Frame(from), Frame(to), Order::ZERO);
                }
            }
        }
        let Some(op) = trace.ops.get(index) else {
            break;
        };
        match op.kind() {
            OpKind::Alloc => {
                let asker = who.as_mut().map(|who| who.ask(op));
                let id = next_id;
                next_id += 1;
                let Some(&frame) = chosen.next() else {
                    continue;
                };
                let frame = Frame(u64::from(frame));
                for f in range(frame, op.order()) {
                    let Some(held) = holder.get_mut(f as usize) else {
                        break;
                    };
                    if let Some((_, mobility)) = objects.get(*held) {
                        let moved = observer.give(Frame(f), Order::ZERO, mobility);
                        moved.map_err(fault(Some(index)))?;
                        placement.lost_frames += 1;
                    }
                    *held = id as u32;
                }
                let taken = observer.take(frame, op.order(), op.mobility());
                taken.map_err(fault(Some(index)))?;
                objects.place(id, frame, op.mobility());
                if let (Some(who), Some(asker)) = (&mut who, asker) {
                    who.serve(asker, op, frame, &observer);
                }
            }
            OpKind::Free | OpKind::FreePart => {
                let Some((frame, mobility)) = objects.get(op.value) else {
                    continue;
                };
                let start = frame.0 + u64::from(op.offset);
                for (f, offset) in (start..start + op.order().frames()).zip(op.offset..) {
                    let f = places.remove(&(op.value, offset)).unwrap_or(f);
                    if holder.get(f as usize) == Some(&op.value) {
                        let freed = observer.give(Frame(f), Order::ZERO, mobility);
                        freed.map_err(fault(Some(index)))?;
                        holder[f as usize] = UNOWNED;
                        if let Some(who) = &mut who {
                            who.free(Frame(f), Order::ZERO);
                        }
                    }
                }
            }
            OpKind::Tick => {
                now_ms += u64::from(op.value);
                if let Some(camera) = &mut camera {
                    camera.look(now_ms, &mut observer);
                }
                if now_ms >= next_sample_ms {
                    next_sample_ms = now_ms + SAMPLE_MS;
                    placement.means.add(&observer.sample(now_ms));
                }
            }
            OpKind::Failed => {
                if let Some(who) = &mut who {
                    who.ask(op);
                }
            }
        }
    }
    placement.who = who.map(|who| who.finish(&observer));
    placement.film = camera.map(|camera| camera.developed(now_ms, &mut observer));
    Ok(placement)
}

fn range(frame: Frame, order: Order) -> std::ops::Range<u64> {
    frame.0..frame.0 + order.frames()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{AllocatorFault, Holds};
    use crate::trace::{InitClass, InitObject, Trace, TraceMove, TraceOp};
    use framewright::Mobility;

    fn trace() -> Trace {
        let order = |n| Order::new(n).unwrap();
        let alloc = |n, mobility| TraceOp::alloc(false, order(n), mobility, 0, 0, 0);
        Trace {
            nframes: 1024,
            init: vec![InitObject {
                frame: Frame(3),
                class: InitClass::Movable,
            }],
            ops: vec![
                alloc(2, Mobility::Unmovable), // object 1 at 0..4: object 0 has moved away
                alloc(0, Mobility::Movable),   // object 2 at 600
                TraceOp::tick(1),
                TraceOp::free(0, order(0), 0), // nothing of it is known to be anywhere
                TraceOp::free_part(1, 2, order(1), 0),
                TraceOp::tick(1000),
            ],
            ..Trace::default()
        }
    }

    #[test]
    fn what_lies_where_another_is_put_has_moved_away() {
        let trace = trace();
        let memory = TraceMemory::new(&trace).unwrap();
        let placement = placement(&memory, &[0, 600], 3).unwrap();
        assert_eq!((placement.lost_frames, placement.means.samples()), (1, 2));
        // 5 frames in use, then 3.
        assert!((placement.means.free_frames() - (1019.0 + 1021.0) / 2.0).abs() < 1e-9);
        assert!((placement.means.contaminated_blocks() - 1.0).abs() < 1e-12);
        assert!(placement.means.mixed_blocks().abs() < 1e-12);
        // Before the first allocation, and at the end.
        let film = placement.film.unwrap();
        let free = film.pictures.iter().map(|at| at.sample.free_frames());
        assert_eq!(free.collect::<Vec<_>>(), [1023, 1021]);
        let holds = |nth: usize| film.pictures[nth].cells.iter().map(|cell| cell.holds);
        assert!(holds(0).eq([Holds::Movable, Holds::Free]));
        assert!(holds(1).eq([Holds::Fixed, Holds::Movable]));
    }

    #[test]
    fn what_compaction_moved_is_where_it_came_to_and_nowhere_if_that_is_not_known() {
        let order = |n| Order::new(n).unwrap();
        let moved = |object, offset, to| TraceMove {
            at: 3,
            object,
            offset,
            order: Order::ZERO,
            from: object + offset,
            to,
        };
        let mut trace = trace();
        trace.init = vec![InitObject {
            frame: Frame(0),
            class: InitClass::Movable,
        }];
        trace.ops = vec![
            TraceOp::alloc(false, order(0), Mobility::Movable, 0, 0, 0), // object 1
            TraceOp::alloc(false, order(1), Mobility::Movable, 0, 0, 0), // object 2, of two frames
            TraceOp::tick(0),
            TraceOp::tick(1000),
            TraceOp::free(0, order(0), 0),
            TraceOp::free(2, order(1), 0),
            TraceOp::tick(1000),
        ];
        trace.moves = vec![
            moved(0, 0, Some(1023)),
            moved(1, 0, None),
            moved(2, 1, Some(600)),
        ];
        let memory = TraceMemory::new(&trace).unwrap();
        let placement = placement(&memory, &[1, 2], 4).unwrap();
        assert_eq!(placement.lost_frames, 1);
        let film = placement.film.unwrap();
        let holds = |nth: usize| film.pictures[nth].cells.iter().map(|cell| cell.holds);
        let free = film.pictures.iter().map(|at| at.sample.free_frames());
        // Of four frames in the first 2 MiB three moved: one is nowhere, and two are in the second.
        assert_eq!(free.collect::<Vec<_>>(), [1023, 1021, 1024]);
        assert!(holds(1).eq([Holds::Movable, Holds::Movable]));
        assert!(holds(2).eq([Holds::Free, Holds::Free]));
    }

    #[test]
    fn a_frame_outside_memory_is_a_fault() {
        let trace = trace();
        let memory = TraceMemory::new(&trace).unwrap();
        let error = placement(&memory, &[0, 1024], 0).unwrap_err();
        let fault = AllocatorFault::OutOfPlace(Frame(1024), Order::ZERO);
        assert_eq!(
            error,
            ReplayError::Fault {
                policy: "linux",
                op: Some(1),
                fault
            }
        );
        assert!(placement(&memory, &[1], 0).is_err(), "not aligned");
        assert!(
            placement(&memory, &[0], 0).is_ok(),
            "a short list ends early"
        );
    }
}
