//! What `/proc/pagetypeinfo` adds to a trace: labels and free memory that content alone cannot tell. It changes the
//! trace before any replay, so that all policies start from the same.

use super::labels::BlockContent;
use super::labels_by_content;
use crate::measure::MAX_ORDER;
use crate::trace::Trace;
use framewright::{Frame, Mobility, Order, Run};
use std::cmp::Reverse;

/// Free frames by label, indexed by [`Mobility`], as a machine's `/proc/pagetypeinfo` lists them.
///
/// It says how much is free and under which label, not where.
pub type ListedFree = [u64; 3];

/// The labels by content, corrected where the machine had more free frames under a non-movable
/// label than they give it: movable pageblocks take that label, those with most frames of the kind
/// first, the lowest among equals, until the label's share of the free frames is reached.
///
/// Content alone cannot tell a pageblock that unmovable allocations have left half empty from one
/// that they never had.
#[must_use]
pub fn labels_by_state(trace: &Trace, listed: ListedFree) -> Vec<Mobility> {
    let mut labels = labels_by_content(trace);
    let contents = BlockContent::all(trace);
    let free: Vec<u64> = contents.iter().map(BlockContent::free).collect();
    let all_free: u64 = free.iter().sum();
    let all_listed: u128 = listed.iter().map(|&frames| u128::from(frames)).sum();
    for label in [Mobility::Unmovable, Mobility::Reclaimable] {
        // What is listed is any number of 64 bits; the share of it is one of `all_free`.
        let share = u128::from(listed[label.index()]) * u128::from(all_free) / all_listed.max(1);
        let wanted = share as u64;
        let labelled = |b: &usize| labels[*b] == label;
        let mut have: u64 = (0..labels.len()).filter(labelled).map(|b| free[b]).sum();
        let of_kind = |b: usize| contents[b].used[label.index()];
        let mut candidates: Vec<usize> = (0..labels.len())
            .filter(|&b| labels[b].is_movable() && of_kind(b) > 0 && free[b] > 0)
            .collect();
        candidates.sort_by_key(|&b| Reverse(of_kind(b)));
        for block in candidates {
            if have >= wanted {
                break;
            }
            have += free[block];
            labels[block] = label;
        }
    }
    labels
}

/// Gives a trace without a snapshot as much free memory as the machine had.
///
/// Such a trace knows only the frames that its events name; `chosen` has the frame of each
/// allocation. A frame that nothing names was either free all the time or in use all the time, and
/// the machine's list says how many there were of the first kind: that many stay, in the largest
/// aligned runs there are, the lowest first; the others are made absent. Where the machine had more
/// free frames than the trace has frames for, memory grows at its end by whole blocks of 4 MiB.
pub fn fit_free_memory(trace: &mut Trace, chosen: &[u32], listed: ListedFree) {
    let mut named = vec![false; trace.nframes as usize];
    let mut name = |frame: u64, frames: u64| {
        let end = (frame + frames).min(named.len() as u64) as usize;
        if let Some(frames) = named.get_mut(frame as usize..end) {
            frames.fill(true);
        }
    };
    for object in &trace.init {
        name(object.frame.0, 1);
    }
    for run in &trace.absent {
        name(run.start().0, run.frames());
    }
    let allocs = trace
        .ops
        .iter()
        .filter(|op| op.kind() == crate::trace::OpKind::Alloc);
    for (op, &frame) in allocs.zip(chosen) {
        name(u64::from(frame), op.order().frames());
    }
    let absent: u64 = trace.absent.iter().map(|run| run.frames()).sum();
    let named_free = named.iter().filter(|&&named| named).count() as u64
        - (trace.init.len() as u64).saturating_add(absent);
    let unnamed = named.iter().filter(|&&named| !named).count() as u64;
    let mut to_keep = listed
        .iter()
        .fold(0u64, |sum, &frames| sum.saturating_add(frames))
        .saturating_sub(named_free);
    if to_keep > unnamed {
        let chunk = 1 << MAX_ORDER;
        // More than 64 bits number is more than any replay takes, and refused there.
        let grown = trace.nframes.saturating_add(to_keep - unnamed);
        trace.nframes = grown.checked_next_multiple_of(chunk).unwrap_or(u64::MAX);
        return;
    }
    for order in (0..=MAX_ORDER as u8).rev().filter_map(Order::new) {
        let len = order.frames() as usize;
        for block in named.chunks_exact_mut(len) {
            if to_keep >= len as u64 && !block.contains(&true) {
                block.fill(true);
                to_keep -= len as u64;
            }
        }
    }
    // What is not named by now was in use.
    let mut at = 0;
    while at < named.len() {
        let end = named[at..]
            .iter()
            .position(|&n| n != named[at])
            .map_or(named.len(), |n| at + n);
        if !named[at] {
            trace
                .absent
                .extend(Run::new(Frame(at as u64), (end - at) as u64));
        }
        at = end;
    }
    trace.absent.sort_by_key(|run| run.start());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{InitClass, InitObject, TraceOp};

    fn object(frame: u64, class: InitClass) -> InitObject {
        InitObject {
            frame: Frame(frame),
            class,
        }
    }

    #[test]
    fn a_label_spreads_over_blocks_of_its_kind_until_its_share_of_free_frames_is_reached() {
        let mut trace = Trace {
            nframes: 4 * 512,
            ..Trace::default()
        };
        // Block 0: nothing. Block 1: one unmovable, two movable. Block 2: two and three.
        trace.init.extend([
            object(512, InitClass::Unmovable),
            object(1024, InitClass::Unmovable),
        ]);
        trace.init.push(object(1025, InitClass::Unmovable));
        trace
            .init
            .extend((0..2).map(|f| object(513 + f, InitClass::Movable)));
        trace
            .init
            .extend((0..3).map(|f| object(1026 + f, InitClass::Movable)));
        use Mobility::{Movable, Unmovable};
        assert_eq!(labels_by_state(&trace, [0, 9, 0]), [Movable; 4]);
        assert_eq!(
            labels_by_state(&trace, [1, 9, 0]),
            [Movable, Movable, Unmovable, Movable]
        );
        // More than blocks with unmovable content can give.
        assert_eq!(
            labels_by_state(&trace, [9, 1, 0]),
            [Movable, Unmovable, Unmovable, Movable]
        );
        assert_eq!(labels_by_state(&trace, [0; 3]), [Movable; 4]);
    }

    fn fitted(free: u64) -> Trace {
        let order = |n| Order::new(n).unwrap();
        let mut trace = Trace {
            nframes: 1024,
            init: vec![object(0, InitClass::Movable)],
            ops: vec![TraceOp::alloc(false, order(3), Mobility::Movable, 0, 0, 0)],
            ..Trace::default()
        };
        fit_free_memory(&mut trace, &[8], [free, 0, 0]);
        trace
    }

    #[test]
    fn as_many_frames_stay_free_as_the_machine_had() {
        let free = |trace: &Trace| trace.present_frames() - trace.init.len() as u64;
        for frames in [8, 9, 520, 777, 1023] {
            assert_eq!(free(&fitted(frames)), frames);
        }
        // Frames 8..16 are named, so they stay whatever the list says.
        assert_eq!(free(&fitted(3)), 8);
        let trace = fitted(8 + 512);
        let runs = [(1, 7), (16, 496)].map(|(at, n)| Run::new(Frame(at), n).unwrap());
        assert_eq!(trace.absent, runs, "the aligned run of 512 is what stays");
        assert_eq!(fitted(1024).nframes, 2048);
        assert!(fitted(1024).absent.is_empty());
    }
}
