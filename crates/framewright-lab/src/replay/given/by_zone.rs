//! Labels of pageblocks that agree with what the machine listed as free under each label, zone by zone.

use super::fitted::FittedLabels;
use super::labels::BlockContent;
use super::labels_by_content;
use crate::measure::BLOCK_FRAMES;
use crate::replay::MachineZones;
use crate::replay::admission::ZoneLists;
use crate::trace::Trace;
use framewright::Mobility;
use std::cmp::Reverse;

/// By how much more a pageblock holds of that mobility than of the others.
fn margin(content: &BlockContent, label: Mobility) -> i64 {
    let [own, all] = [content.used[label.index()], content.used.iter().sum()];
    2 * own as i64 - all as i64
}

/// The labels by content, corrected in each zone whose lists are known: a label that does not move has at least as many free
/// frames as the machine listed under it, and at most as many more as lay on CPUs' lists.
///
/// Content alone cannot tell a pageblock that unmovable allocations have left half empty from one that they never had. Those
/// whose content decides least change first. How many pageblocks carried each label says nothing here, though the
/// machine counts them: a trace leaves out memory that was in use all the time, and with it many that do not move.
///
/// Where it is known which frames lay on CPUs' lists, the labels are those under which the free lists come out as listed.
#[must_use]
pub fn labels_by_zone(
    trace: &Trace,
    machine: &MachineZones,
    chosen: Option<&[u32]>,
) -> Vec<Mobility> {
    let mut labels = labels_by_content(trace);
    let contents = BlockContent::all(trace);
    let fitted = (!trace.unlisted.is_empty()).then(|| FittedLabels::new(trace, chosen));
    for zone in &machine.zones {
        let first = (zone.first / BLOCK_FRAMES) as usize;
        let end = (zone.first + zone.frames).div_ceil(BLOCK_FRAMES) as usize;
        let inside = first..end.min(labels.len());
        if let (Some(lists), false) = (&zone.lists, inside.is_empty()) {
            let labels = &mut labels[inside.clone()];
            if let Some(fitted) = &fitted {
                fitted.fit(inside, lists, labels);
                continue;
            }
            let cached = zone.cached.iter().copied().fold(0, u64::saturating_add);
            label_zone(&contents[inside], lists, cached, labels);
        }
    }
    labels
}

fn label_zone(contents: &[BlockContent], lists: &ZoneLists, cached: u64, labels: &mut [Mobility]) {
    let kinds = [Mobility::Unmovable, Mobility::Reclaimable];
    let free_of = |labels: &[Mobility], label: Mobility| -> u64 {
        let of_label = labels.iter().zip(contents).filter(|(of, _)| **of == label);
        of_label.map(|(_, content)| content.free()).sum()
    };
    // What has too much gives first: the other kind may want these.
    for label in kinds {
        let most = lists.free(label).saturating_add(cached);
        let mut have = free_of(labels, label);
        let mut blocks: Vec<usize> = (0..labels.len())
            .filter(|&block| labels[block] == label && contents[block].free() > 0)
            .collect();
        blocks.sort_by_key(|&block| margin(&contents[block], label));
        for block in blocks {
            if have <= most {
                break;
            }
            have -= contents[block].free();
            labels[block] = Mobility::Movable;
        }
    }
    for label in kinds {
        let least = lists.free(label);
        let mut have = free_of(labels, label);
        let is_kind =
            |content: &BlockContent| content.free() > 0 && content.used[label.index()] > 0;
        let mut blocks: Vec<usize> = (0..labels.len())
            .filter(|&block| labels[block].is_movable() && is_kind(&contents[block]))
            .collect();
        blocks.sort_by_key(|&block| Reverse(margin(&contents[block], label)));
        for block in blocks {
            if have >= least {
                break;
            }
            have += contents[block].free();
            labels[block] = label;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::trace::{InitClass, InitObject};
    use Mobility::{Movable, Reclaimable, Unmovable};
    use framewright::Frame;

    /// A zone of pageblocks with that many unmovable, movable and reclaimable frames.
    pub(in crate::replay::given) fn trace(blocks: &[[u64; 3]]) -> Trace {
        let classes = [InitClass::Unmovable, InitClass::Movable, InitClass::Slab];
        let objects = |(block, frames): (u64, &[u64; 3])| {
            let kinds = classes.into_iter().zip(*frames);
            let kinds = kinds.flat_map(|(class, n)| (0..n).map(move |_| class));
            let object = move |(at, class)| InitObject {
                frame: Frame(block * BLOCK_FRAMES + at),
                class,
            };
            (0..).zip(kinds).map(object).collect::<Vec<_>>()
        };
        Trace {
            nframes: blocks.len() as u64 * BLOCK_FRAMES,
            init: (0..).zip(blocks).flat_map(objects).collect(),
            ..Trace::default()
        }
    }

    /// Where the machine listed that many unmovable and reclaimable frames as free, and had some more on CPUs' lists.
    fn labels(trace: &Trace, listed: [u64; 2], cached: u64) -> Vec<Mobility> {
        let mut lists = ZoneLists::default();
        lists.free_blocks[Unmovable.index()][0] = listed[0];
        lists.free_blocks[Reclaimable.index()][0] = listed[1];
        let mut machine = MachineZones::computed(trace);
        machine.zones[0].lists = Some(lists);
        machine.zones[0].cached = vec![cached];
        labels_by_zone(trace, &machine, None)
    }

    #[test]
    fn a_label_has_at_least_what_was_listed_and_at_most_what_lay_on_cpus_lists_besides() {
        // Free: 112, 512, 52, 212, 302, 2.
        let trace = trace(&[
            [300, 100, 0],
            [0; 3],
            [60, 400, 0],
            [0, 100, 200],
            [200, 10, 0],
            [10, 500, 0],
        ]);
        let by_content = [Unmovable, Movable, Movable, Reclaimable, Unmovable, Movable];
        assert_eq!(labels_by_content(&trace), by_content);
        let machine = MachineZones::computed(&trace);
        assert_eq!(
            labels_by_zone(&trace, &machine, None),
            by_content,
            "nothing is known"
        );
        for (listed, cached) in [([414, 212], 0), ([300, 0], 250), ([0, 0], 1000)] {
            assert_eq!(labels(&trace, listed, cached), by_content, "within");
        }
        let mut expected = by_content;
        // The one with the most of its kind beside the others comes first, and an empty one never.
        expected[2] = Unmovable;
        assert_eq!(labels(&trace, [415, 212], 0), expected);
        expected[5] = Unmovable;
        assert_eq!(labels(&trace, [467, 212], 0), expected);
        assert_eq!(labels(&trace, [900, 212], 0), expected);
        // The one whose content decides least goes first.
        let mut expected = by_content;
        expected[4] = Movable;
        assert_eq!(labels(&trace, [0, 0], 413), expected);
        expected[0] = Movable;
        assert_eq!(labels(&trace, [0, 0], 111)[..3], expected[..3]);
        assert_eq!(labels(&trace, [0, 0], 0), [Movable; 6]);
    }

    #[test]
    fn what_one_label_has_too_much_of_another_may_want() {
        // Free: 312 and 262.
        let trace = trace(&[[90, 0, 110], [100, 0, 150]]);
        assert_eq!(labels_by_content(&trace), [Reclaimable, Reclaimable]);
        assert_eq!(labels(&trace, [312, 262], 0), [Unmovable, Reclaimable]);
    }
}
