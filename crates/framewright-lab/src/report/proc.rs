use crate::measure::{BLOCK_FRAMES, BLOCK_ORDER, MAX_ORDER};
use crate::replay::Outcome;
use framewright::Mobility;
use std::fmt::Write;

/// A policy's final state in the layout of `/proc/pagetypeinfo`, as the policy's own lists have
/// it: frames in per-CPU lists are not among them, as on Linux.
///
/// The zone is called `Replay`: a trace's frames are renumbered and belong to no zone of Linux's.
#[must_use]
pub fn pagetypeinfo(outcome: &Outcome) -> String {
    let mut text = format!("Page block order: {BLOCK_ORDER}\n");
    let _ = writeln!(text, "Pages per block:  {BLOCK_FRAMES}\n");
    let _ = write!(text, "{:<43}", "Free pages count per migrate type at order");
    for order in 0..=MAX_ORDER {
        let _ = write!(text, " {order:>6}");
    }
    text.push_str(" \n");
    for mobility in Mobility::ALL {
        let _ = write!(
            text,
            "Node    0, zone {:>8}, type {:>12}",
            "Replay",
            mobility.name()
        );
        for count in outcome.free_blocks[mobility.index()] {
            let _ = write!(text, " {count:>6}");
        }
        text.push_str(" \n");
    }
    let _ = write!(text, "\n{:<23}", "Number of blocks type");
    for mobility in Mobility::ALL {
        let _ = write!(text, " {:>12}", mobility.name());
    }
    let _ = write!(text, " \nNode 0, zone {:>8} ", "Replay");
    for count in outcome.labels {
        let _ = write!(text, " {count:>12}");
    }
    text.push_str(" \n");
    text
}

/// A policy's final state in the layout of `/proc/buddyinfo`, as its own lists have it.
#[must_use]
pub fn buddyinfo(outcome: &Outcome) -> String {
    let mut text = format!("Node 0, zone {:>8} ", "Replay");
    for order in 0..=MAX_ORDER {
        let count: u64 = outcome.free_blocks.iter().map(|orders| orders[order]).sum();
        let _ = write!(text, " {count:>6}");
    }
    text.push_str(" \n");
    text
}
