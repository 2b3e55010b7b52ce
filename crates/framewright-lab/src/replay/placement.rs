//! The recording kernel's own choice of frames, under the same observer as the policies: the figures that a model
//! of that kernel is held against.

use super::notes::{Camera, WhoFollower};
use super::run::SAMPLE_MS;
use super::{ReplayError, TraceMemory, TraceObjects, WhoTally};
use crate::measure::{Film, Means, Observer};
use crate::trace::OpKind;
use framewright::{Frame, Order};

/// No object is known to be there.
const UNOWNED: u32 = u32::MAX;

/// What memory looked like where the recording kernel itself put each allocation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Placement {
    /// Means over the samples, one a trace second, as for a policy.
    pub means: Means,
    /// Frames that were handed out again while an object of the trace was still there: the kernel
    /// had moved it meanwhile. Where to is not recorded, so from then on the object is nowhere,
    /// and memory looks emptier than it was.
    pub moved_frames: u64,
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
    let (mut next_id, mut now_ms, mut next_sample_ms) = (trace.init.len(), 0, 0);
    for (index, op) in trace.ops.iter().enumerate() {
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
                        placement.moved_frames += 1;
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
                let frame = Frame(frame.0 + u64::from(op.offset));
                for f in range(frame, op.order()) {
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
    use crate::trace::{InitClass, InitObject, Trace, TraceOp};
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
        assert_eq!((placement.moved_frames, placement.means.samples()), (1, 2));
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
