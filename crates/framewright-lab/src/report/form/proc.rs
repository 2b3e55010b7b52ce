//! A policy's final state in the kernel's own layouts, so that tools for a machine's `/proc` read a replay's end as
//! well.

use crate::measure::{BLOCK_FRAMES, BLOCK_ORDER, MAX_ORDER};
use crate::replay::ReplayOutcome;
use framewright::Mobility;
use std::fmt::Write;

/// A trace's frames are renumbered and belong to no zone of Linux's.
const ZONE: &str = "Replay";

/// A policy's final state in the layout of `/proc/pagetypeinfo`, as the policy's own lists have
/// it: frames in per-CPU lists are not among them, as on Linux.
#[must_use]
pub fn pagetypeinfo(outcome: &ReplayOutcome) -> String {
    let mut text = format!("Page block order: {BLOCK_ORDER}\n");
    let _ = writeln!(text, "Pages per block:  {BLOCK_FRAMES}\n");
    let _ = write!(
        text,
        "{:<43} ",
        "Free pages count per migrate type at order"
    );
    for order in 0..=MAX_ORDER {
        let _ = write!(text, "{order:>6} ");
    }
    text.push('\n');
    for mobility in Mobility::ALL {
        let _ = write!(
            text,
            "Node    0, zone {ZONE:>8}, type {:>12} ",
            mobility.name()
        );
        for count in outcome.free_blocks[mobility.index()] {
            let _ = write!(text, "{count:>6} ");
        }
        text.push('\n');
    }
    let _ = write!(text, "\n{:<23}", "Number of blocks type");
    for mobility in Mobility::ALL {
        let _ = write!(text, "{:>12} ", mobility.name());
    }
    let _ = write!(text, "\nNode 0, zone {ZONE:>8} ");
    for count in outcome.labels {
        let _ = write!(text, "{count:>12} ");
    }
    text.push('\n');
    text
}

/// A policy's final state in the layout of `/proc/buddyinfo`, as its own lists have it.
#[must_use]
pub fn buddyinfo(outcome: &ReplayOutcome) -> String {
    let mut text = format!("Node 0, zone {ZONE:>8} ");
    for order in 0..=MAX_ORDER {
        let count: u64 = outcome.free_blocks.iter().map(|orders| orders[order]).sum();
        let _ = write!(text, "{count:>6} ");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{ReplayOptions, ReplayPolicy, Start, TraceMemory, replay};
    use crate::trace::Trace;
    use std::sync::atomic::AtomicU64;

    /// Up to the zone's name and the migratetypes that a replay has none of, the text is Linux's
    /// own, column by column.
    #[test]
    fn the_layouts_are_linux_s_own() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/state/sample/");
        let linux = |name: &str| std::fs::read_to_string(format!("{folder}{name}")).unwrap();
        let trace = Trace {
            nframes: 1 << 20,
            ..Trace::default()
        };
        let memory = TraceMemory::new(&trace).unwrap();
        let policy = ReplayPolicy::ASSUMED_KERNEL;
        let done = AtomicU64::new(0);
        let options = ReplayOptions::new(Start::Fresh);
        let outcome = policy.with(&memory, |s| replay(s, &memory, options, &done));
        let outcome = outcome.unwrap().unwrap();
        // Where words end.
        let shape = |line: &str| -> Vec<usize> {
            let ends = line.char_indices().zip(line.chars().skip(1));
            ends.filter(|((_, c), next)| *c != ' ' && *next == ' ')
                .map(|((at, _), _)| at)
                .collect()
        };
        let (ours, theirs) = (pagetypeinfo(&outcome), linux("before.pagetypeinfo"));
        let (ours, theirs): (Vec<_>, Vec<_>) = (ours.lines().collect(), theirs.lines().collect());
        assert_eq!(ours[..4], theirs[..4]);
        assert_eq!(shape(ours[4]), shape(theirs[4]));
        let blocks = |lines: &[&str]| {
            lines
                .iter()
                .position(|line| line.starts_with("Number of blocks type"))
                .unwrap()
        };
        let (at, their_at) = (blocks(&ours), blocks(&theirs));
        assert!(theirs[their_at].starts_with(ours[at]));
        assert!(shape(theirs[their_at + 1]).starts_with(&shape(ours[at + 1])));
        let (ours, theirs) = (buddyinfo(&outcome), linux("before.buddyinfo"));
        assert_eq!(shape(&ours), shape(theirs.lines().next().unwrap()));
        assert!(ours.trim_end().ends_with(" 1024"), "{ours}");
    }
}
