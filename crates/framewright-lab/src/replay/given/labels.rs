//! Which label each pageblock carries before the first operation, as far as its content tells: one rule for all policies,
//! read from the trace alone.

use crate::measure::BLOCK_FRAMES;
use crate::trace::Trace;
use framewright::Mobility;

/// The frames of a pageblock before the first operation.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BlockContent {
    /// Those in use, by mobility.
    pub(super) used: [u64; 3],
    /// Those that do not exist.
    pub(super) absent: u64,
}

impl BlockContent {
    /// Each pageblock's, from the first frame on.
    pub(super) fn all(trace: &Trace) -> Vec<Self> {
        let blocks = trace.nframes.div_ceil(BLOCK_FRAMES);
        let mut contents = vec![Self::default(); blocks as usize];
        for object in &trace.init {
            if let Some(content) = contents.get_mut((object.frame.0 / BLOCK_FRAMES) as usize) {
                content.used[object.class.mobility().index()] += 1;
            }
        }
        for run in &trace.absent {
            let (mut at, end) = (run.start().0, run.end().0.min(trace.nframes));
            while at < end {
                let until = end.min((at / BLOCK_FRAMES + 1) * BLOCK_FRAMES);
                contents[(at / BLOCK_FRAMES) as usize].absent += until - at;
                at = until;
            }
        }
        if let Some(last) = contents.last_mut() {
            last.absent += blocks * BLOCK_FRAMES - trace.nframes;
        }
        contents
    }

    /// Those that exist and are free.
    pub(super) fn free(&self) -> u64 {
        BLOCK_FRAMES.saturating_sub(self.used.iter().sum::<u64>() + self.absent)
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
    let label = |content: BlockContent| {
        let [unmovable, movable, reclaimable] = content.used;
        if unmovable + reclaimable <= movable {
            Mobility::Movable
        } else if unmovable >= reclaimable {
            Mobility::Unmovable
        } else {
            Mobility::Reclaimable
        }
    };
    BlockContent::all(trace).into_iter().map(label).collect()
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
