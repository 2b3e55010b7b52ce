//! The state before the first operation: which labels pageblocks carry, and the initial objects in place. Where the
//! recording has no labels they are inferred from content, by one rule for all policies.

use super::{ReplayError, ReplaySubject, TraceMemory, TraceObjects};
use crate::measure::{BLOCK_FRAMES, Observer};
use crate::trace::Trace;
use framewright::{CpuId, Mobility, Order};

/// How the memory that was in use before the trace began comes to be in use in the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Start {
    /// Where the recording had it: the policy inherits another kernel's layout.
    Imposed,
    /// Where the policy puts it: the initial objects are allocated in the order of their ids.
    Fresh,
}

impl Start {
    /// The name on the command line and in a figure's `case`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Imposed => "imposed",
            Self::Fresh => "fresh",
        }
    }
}

/// The label of each pageblock that the content of the initial objects suggests.
///
/// Movable, unless more frames of the block are in non-movable use than in movable use; then
/// whichever of unmovable and reclaimable use is larger, unmovable when equal. A wholly free
/// block is movable. The recording does not hold the kernel's own labels; `docs/metrics.md` says
/// how far this rule agrees with `/proc/pagetypeinfo`.
#[must_use]
pub fn labels_by_content(trace: &Trace) -> Vec<Mobility> {
    let mut frames = vec![[0u16; 3]; trace.nframes.div_ceil(BLOCK_FRAMES) as usize];
    for object in &trace.init {
        if let Some(block) = frames.get_mut((object.frame.0 / BLOCK_FRAMES) as usize) {
            block[object.class.mobility().index()] += 1;
        }
    }
    let label = |[unmovable, movable, reclaimable]: [u16; 3]| {
        if unmovable + reclaimable <= movable {
            Mobility::Movable
        } else if unmovable >= reclaimable {
            Mobility::Unmovable
        } else {
            Mobility::Reclaimable
        }
    };
    frames.into_iter().map(label).collect()
}

/// Puts the initial objects in place and holds `squeeze` frames back; returns how many of them
/// found no frame.
pub(super) fn begin(
    subject: &mut dyn ReplaySubject,
    observer: &mut Observer,
    objects: &mut TraceObjects,
    memory: &TraceMemory<'_>,
    start: Start,
    squeeze: u64,
) -> Result<u64, ReplayError> {
    let policy = subject.name();
    let fault = |fault| ReplayError::Fault {
        policy,
        op: None,
        fault,
    };
    let mut unplaced = 0;
    match start {
        Start::Imposed => {
            for (block, &label) in memory.labels.iter().enumerate() {
                subject.set_label(block as u64, label);
            }
            for (id, object) in memory.trace.init.iter().enumerate() {
                let mobility = object.class.mobility();
                observer
                    .take(object.frame, Order::ZERO, mobility)
                    .map_err(fault)?;
                if !subject.alloc_at(object.frame, Order::ZERO, mobility) {
                    return Err(ReplayError::NotImposed {
                        policy,
                        object: id,
                        frame: object.frame,
                    });
                }
                objects.place(id, object.frame, mobility);
            }
        }
        Start::Fresh => {
            for (id, object) in memory.trace.init.iter().enumerate() {
                let mobility = object.class.mobility();
                match subject.alloc(CpuId(0), Order::ZERO, mobility) {
                    Some(frame) => {
                        observer.take(frame, Order::ZERO, mobility).map_err(fault)?;
                        objects.place(id, frame, mobility);
                    }
                    None => unplaced += 1,
                }
            }
        }
    }
    for taken in 0..squeeze {
        let Some(frame) = subject.alloc(CpuId(0), Order::ZERO, Mobility::Movable) else {
            // Nothing is freed in between, so no later one would find a frame either.
            unplaced += squeeze - taken;
            break;
        };
        observer
            .take(frame, Order::ZERO, Mobility::Movable)
            .map_err(fault)?;
    }
    subject.drain();
    Ok(unplaced)
}

/// How many pageblocks carry each label, indexed by [`Mobility`].
#[must_use]
pub fn count_labels(labels: &[Mobility]) -> [u64; 3] {
    let mut counts = [0; 3];
    for label in labels {
        counts[label.index()] += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{InitClass, InitObject};
    use framewright::Frame;

    #[test]
    fn a_pageblock_is_movable_unless_most_of_its_content_is_not() {
        let mut trace = Trace {
            nframes: 5 * 512,
            ..Trace::default()
        };
        let mut put = |block: u64, frames: [u64; 3]| {
            let mut at = block * 512;
            let classes = [InitClass::Unmovable, InitClass::Movable, InitClass::Slab];
            for (class, n) in classes.into_iter().zip(frames) {
                for _ in 0..n {
                    trace.init.push(InitObject {
                        frame: Frame(at),
                        class,
                    });
                    at += 1;
                }
            }
        };
        put(0, [1, 0, 0]);
        put(1, [2, 4, 2]);
        put(2, [2, 4, 3]);
        put(3, [3, 5, 3]);
        let labels = labels_by_content(&trace);
        use Mobility::{Movable, Reclaimable, Unmovable};
        assert_eq!(
            labels,
            [Unmovable, Movable, Reclaimable, Unmovable, Movable]
        );
        assert_eq!(count_labels(&labels), [2, 2, 1]);
    }
}
