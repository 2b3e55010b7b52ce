//! Which label each pageblock carries before the first operation, as far as its content tells: one rule for all policies,
//! read from the trace alone.

use crate::measure::BLOCK_FRAMES;
use crate::trace::Trace;
use framewright::Mobility;

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
