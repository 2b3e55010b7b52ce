//! Labels of pageblocks by the free blocks that the machine listed under each, exact as far as free blocks tell them apart.

use super::labels::BlockContent;
use crate::measure::{BLOCK_FRAMES, BLOCK_ORDER};
use crate::replay::admission::ZoneLists;
use crate::trace::{OpKind, Trace};
use framewright::Mobility;
use std::ops::Range;

/// Labels whose lists the fit looks at: what is not under them is movable.
const KINDS: [Mobility; 2] = [Mobility::Unmovable, Mobility::Reclaimable];
/// Allocations of a pageblock that say something of its label, in the first [`EARLY_MS`] of a recording.
const EARLY: u32 = 16;
const EARLY_MS: u64 = 2000;
/// What it costs to call a pageblock otherwise than one such allocation was, and otherwise than all of its content is, in
/// frames that then lie on the wrong list.
const OF_EARLY: i64 = 8;
const OF_CONTENT: i64 = 16;

/// Pageblocks that the fit looks at in all, for each zone: what bounds its time, to a second or so. A zone of 10,000 has a few
/// hundred changes.
const LOOKS_MAX: usize = 1 << 25;

/// Free blocks of a pageblock or of a list, by order up to a pageblock's.
type FreeBlocks = [i64; BLOCK_ORDER as usize + 1];

/// Labels under which the free lists have the blocks that the machine listed, zone by zone, where it is known which free frames lay
/// on no list.
///
/// What is free in a pageblock lies on the lists of its label, so that the lists tell which pageblocks had which label, as far as
/// their free blocks differ. Between those that do not, content and what the machine took out of a pageblock first decide, where
/// the recording has its choice of frames (`chosen`): Linux gives what a pageblock's label says, unless it has no other.
#[derive(Debug)]
pub(super) struct FittedLabels {
    blocks: Vec<BlockStart>,
}

impl FittedLabels {
    pub(super) fn new(trace: &Trace, chosen: Option<&[u32]>) -> Self {
        Self {
            blocks: BlockStart::all(trace, chosen),
        }
    }

    /// Gives the pageblocks of a zone another label, one after another, each time the one whose change brings the lists nearest
    /// to the machine's, until none does.
    pub(super) fn fit(&self, inside: Range<usize>, lists: &ZoneLists, labels: &mut [Mobility]) {
        if let Some(blocks) = self.blocks.get(inside) {
            fit(blocks, lists, labels);
        }
    }
}

/// What is known of a pageblock at the start.
#[derive(Debug, Clone)]
struct BlockStart {
    free: FreeBlocks,
    /// What it costs to give it each label.
    costs: [i64; 3],
}

impl BlockStart {
    fn all(trace: &Trace, chosen: Option<&[u32]>) -> Vec<Self> {
        let contents = BlockContent::all(trace);
        let early = early_allocs(trace, chosen.unwrap_or_default(), contents.len());
        let mut is_free = vec![true; contents.len() * BLOCK_FRAMES as usize];
        for object in &trace.init {
            if let Some(free) = is_free.get_mut(object.frame.0 as usize) {
                *free = false;
            }
        }
        // The lists have none of these.
        let existing = trace.nframes as usize;
        for run in trace.absent.iter().chain(&trace.unlisted) {
            let end = (run.end().0 as usize).min(existing);
            is_free[(run.start().0 as usize).min(end)..end].fill(false);
        }
        is_free[existing..].fill(false);
        let frames = is_free.chunks_exact(BLOCK_FRAMES as usize);
        let blocks = contents.iter().zip(early).zip(frames);
        let block = |((content, early), frames): ((&BlockContent, [u32; 3]), &[bool])| Self {
            free: free_blocks(frames),
            costs: costs(content, early),
        };
        blocks.map(block).collect()
    }
}

/// Of each pageblock, what of each mobility was allocated there first.
fn early_allocs(trace: &Trace, chosen: &[u32], blocks: usize) -> Vec<[u32; 3]> {
    let mut early = vec![[0; 3]; blocks];
    let (mut chosen, mut ms) = (chosen.iter(), 0);
    for op in &trace.ops {
        match op.kind() {
            OpKind::Tick => ms += u64::from(op.value),
            OpKind::Alloc => {
                let Some(&frame) = chosen.next() else { break };
                if let Some(early) = early.get_mut(frame as usize / BLOCK_FRAMES as usize)
                    && early.iter().sum::<u32>() < EARLY
                {
                    early[op.mobility().index()] += 1;
                }
            }
            _ => {}
        }
        if ms > EARLY_MS {
            break;
        }
    }
    early
}

/// What each label costs beside the best one, by content and by what was allocated first. A slab's frames may be unmovable.
fn costs(content: &BlockContent, early: [u32; 3]) -> [i64; 3] {
    let [unmovable, movable, slab] = content.used.map(|frames| frames as i64);
    let all = (unmovable + movable + slab).max(1);
    let of_content = [2 * unmovable + slab, 2 * movable, slab + slab];
    let score = |label: usize| {
        OF_EARLY * i64::from(early[label]) + OF_CONTENT * of_content[label] / (2 * all)
    };
    let scores = [0, 1, 2].map(score);
    let best = scores.into_iter().max().unwrap_or(0);
    scores.map(|score| best - score)
}

/// The blocks that a buddy system makes of the free frames of a pageblock.
fn free_blocks(is_free: &[bool]) -> FreeBlocks {
    let mut blocks = FreeBlocks::default();
    let mut at = 0;
    while at < is_free.len() {
        if !is_free[at] {
            at += 1;
            continue;
        }
        let is_block = |order: &usize| {
            let end = at + (1 << order);
            at % (1 << order) == 0
                && is_free
                    .get(at..end)
                    .is_some_and(|all| !all.contains(&false))
        };
        let order = (0..blocks.len()).take_while(is_block).last().unwrap_or(0);
        blocks[order] += 1;
        at += 1 << order;
    }
    blocks
}

/// Frames that lie on lists where they should not, or are missing there.
fn misplaced(off: &FreeBlocks) -> i64 {
    let frames = |(order, &blocks): (u32, &i64)| blocks.abs() << order;
    (0..).zip(off).map(frames).sum()
}

fn fit(blocks: &[BlockStart], lists: &ZoneLists, labels: &mut [Mobility]) {
    // Under each label: what is there beyond what was listed.
    let mut off = [FreeBlocks::default(); 3];
    for kind in KINDS {
        let listed = &lists.free_blocks[kind.index()];
        for (order, &listed) in listed.iter().enumerate() {
            let place = order.min(BLOCK_ORDER as usize);
            off[kind.index()][place] -= (listed.min(1 << 40) as i64) << (order - place);
        }
    }
    for (block, label) in blocks.iter().zip(labels.iter_mut()) {
        *label = Mobility::ALL
            .into_iter()
            .min_by_key(|to| (block.costs[to.index()], *to != *label))
            .unwrap_or(*label);
        for (off, free) in off[label.index()].iter_mut().zip(block.free) {
            *off += free;
        }
    }
    let with = |off: &FreeBlocks, free: &FreeBlocks, sign: i64| {
        let mut off = *off;
        for (off, free) in off.iter_mut().zip(free) {
            *off += sign * free;
        }
        off
    };
    let of = |kind: Mobility, off: &FreeBlocks| if kind.is_movable() { 0 } else { misplaced(off) };
    // Each change makes the sum of what is misplaced and of costs smaller.
    for _ in 0..LOOKS_MAX / blocks.len().max(1) {
        let mut best = (0, 0, Mobility::Movable);
        for (at, block) in blocks.iter().enumerate() {
            let from = labels[at];
            if block.free == FreeBlocks::default() {
                continue;
            }
            let left = of(from, &with(&off[from.index()], &block.free, -1))
                - of(from, &off[from.index()])
                - block.costs[from.index()];
            for to in Mobility::ALL {
                if to == from {
                    continue;
                }
                let came = of(to, &with(&off[to.index()], &block.free, 1))
                    - of(to, &off[to.index()])
                    + block.costs[to.index()];
                if left + came < best.0 {
                    best = (left + came, at, to);
                }
            }
        }
        let (gain, at, to) = best;
        if gain >= 0 {
            break;
        }
        let from = std::mem::replace(&mut labels[at], to);
        off[from.index()] = with(&off[from.index()], &blocks[at].free, -1);
        off[to.index()] = with(&off[to.index()], &blocks[at].free, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::MAX_ORDER;
    use crate::replay::given::by_zone::tests::trace;
    use crate::replay::labels_by_content;
    use crate::trace::TraceOp;
    use Mobility::{Movable, Reclaimable, Unmovable};
    use framewright::{Frame, Order, Run};

    /// Where the machine listed these blocks as free, by order and number.
    fn labels(
        trace: &Trace,
        unmovable: &[(usize, u64)],
        reclaimable: &[(usize, u64)],
        chosen: Option<&[u32]>,
    ) -> Vec<Mobility> {
        let mut lists = ZoneLists::default();
        for (label, listed) in [(Unmovable, unmovable), (Reclaimable, reclaimable)] {
            for &(order, blocks) in listed {
                assert!(order <= MAX_ORDER);
                lists.free_blocks[label.index()][order] = blocks;
            }
        }
        let mut labels = labels_by_content(trace);
        let all = 0..labels.len();
        FittedLabels::new(trace, chosen).fit(all, &lists, &mut labels);
        labels
    }

    #[test]
    fn the_labels_are_those_whose_free_blocks_the_machine_listed() {
        // Free: blocks of orders 4 to 6; 9; 2, 4 and 5; 2, 4, 6 and 7; 1, 2, 3, 5 and 8; 1.
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
        let of_0 = [(4, 1), (5, 1), (6, 1)];
        let of_4 = [(1, 1), (2, 1), (3, 1), (5, 1), (8, 1)];
        let both = [(1, 1), (2, 1), (3, 1), (4, 1), (5, 2), (6, 1), (8, 1)];
        let of_3 = [(2, 1), (4, 1), (6, 1), (7, 1)];
        assert_eq!(labels(&trace, &both, &of_3, None), by_content, "as listed");
        // What has blocks that were not listed has another label, a whole one too where one was.
        let with = |changes: &[(usize, Mobility)]| {
            let mut labels = by_content;
            for &(at, label) in changes {
                labels[at] = label;
            }
            labels
        };
        assert_eq!(labels(&trace, &of_0, &of_3, None), with(&[(4, Movable)]));
        assert_eq!(labels(&trace, &of_4, &of_3, None), with(&[(0, Movable)]));
        assert_eq!(labels(&trace, &both, &[], None), with(&[(3, Movable)]));
        let whole: Vec<_> = of_3.into_iter().chain([(9, 1)]).collect();
        assert_eq!(
            labels(&trace, &both, &whole, None),
            with(&[(1, Reclaimable)])
        );
        assert_eq!(
            labels(&trace, &[], &[], None)[..5],
            with(&[(0, Movable), (3, Movable), (4, Movable)])[..5]
        );
        // A block of two pageblocks is two of one.
        assert_eq!(labels(&trace, &both, &[(10, 1)], None)[1], Reclaimable);
    }

    #[test]
    fn what_was_taken_first_says_more_than_the_content() {
        // Two pageblocks with the same free blocks and content.
        let mut trace = trace(&[[200, 100, 0], [200, 100, 0]]);
        let free = [(2, 1), (4, 1), (6, 1), (7, 1)];
        let alloc = |mobility| TraceOp::alloc(false, Order::ZERO, mobility, 0, 255, 0);
        trace.ops = [alloc(Movable); 4].to_vec();
        let of = |at: u32| [at, at + 1, at + 2, at + 3];
        for (chosen, expected) in [
            (of(400), [Movable, Unmovable]),
            (of(912), [Unmovable, Movable]),
        ] {
            assert_eq!(labels(&trace, &free, &[], Some(&chosen)), expected);
        }
        // Too late to say something of the start.
        trace.ops.insert(0, TraceOp::tick(EARLY_MS as u32 + 1));
        let late = labels(&trace, &free, &[], Some(&of(912)));
        assert_eq!(late, labels(&trace, &free, &[], None));
    }

    #[test]
    fn frames_on_cpus_lists_are_not_listed() {
        let mut trace = trace(&[[256, 0, 0], [0, 300, 0]]);
        let listed = [(7, 1)];
        // The first has one block that is too large, and the second that one among others.
        assert_eq!(labels(&trace, &listed, &[], None), [Movable, Unmovable]);
        // The upper half of that block lies with a CPU.
        trace.unlisted = vec![Run::new(Frame(384), 128).unwrap()];
        let blocks = BlockStart::all(&trace, None);
        assert_eq!(blocks[0].free, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
        assert_eq!(labels(&trace, &listed, &[], None), [Unmovable, Movable]);
    }
}
