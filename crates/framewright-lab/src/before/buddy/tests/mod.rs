//! Shared constellations: a zone in which exactly the named blocks are free.

mod caches;
mod model;
mod rules;

use super::{BuddyMarks, LinuxBuddy, LinuxBuddyConfig, LinuxPolicy};
use crate::replay::{ReplaySubject, ZoneAllocator};
use framewright::{CpuId, Frame, Mobility, Order};
use std::ops::Range;

pub(super) const CPU: CpuId = CpuId(0);
pub(super) use Mobility::{Movable, Reclaimable, Unmovable};

pub(super) fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// A zone without per-CPU lists, of one pageblock of 512 frames a label.
///
/// `used` says which frames are allocated, and as what; all others are free.
pub(super) fn zone(
    policy: LinuxPolicy,
    labels: &[Mobility],
    used: &[(Range<u64>, Mobility)],
) -> LinuxBuddy {
    zone_with(
        &LinuxBuddyConfig {
            per_cpu_lists: false,
            ..LinuxBuddyConfig::new(policy, labels.len() as u64 * 512)
        },
        labels,
        used,
    )
}

pub(super) fn zone_with(
    config: &LinuxBuddyConfig<'_>,
    labels: &[Mobility],
    used: &[(Range<u64>, Mobility)],
) -> LinuxBuddy {
    let mut zone = LinuxBuddy::new(config).unwrap();
    for (pageblock, &label) in (0..).zip(labels) {
        zone.set_label(pageblock, label);
    }
    for (frames, mobility) in used {
        for frame in frames.clone() {
            assert!(zone.alloc_at(Frame(frame), Order::ZERO, *mobility));
        }
    }
    zone.verify().unwrap();
    zone
}

/// What a request got: its frame, or none.
pub(super) fn take(zone: &mut LinuxBuddy, order_: u8, mobility: Mobility) -> Option<u64> {
    let frame = zone.alloc(CPU, order(order_), mobility);
    zone.verify().unwrap();
    frame.map(|frame| frame.0)
}

/// Frees, and recounts.
pub(super) fn free(zone: &mut LinuxBuddy, frame: u64, order_: u8) {
    zone.free(CPU, Frame(frame), order(order_)).unwrap();
    zone.verify().unwrap();
}

/// The free blocks of one list, as `(order, count)` where there are any.
pub(super) fn free_of(zone: &LinuxBuddy, mobility: Mobility) -> Vec<(usize, u64)> {
    zone.free_blocks()[mobility.index()]
        .into_iter()
        .enumerate()
        .filter(|&(_, count)| count > 0)
        .collect()
}

pub(super) fn label_of(zone: &LinuxBuddy, pageblock: usize) -> Mobility {
    Mobility::from_index(zone.frames.label_at(pageblock).unwrap()).unwrap()
}

/// All fallbacks so far as `(wanted, taken from, how many)`.
pub(super) fn fallbacks_of(zone: &LinuxBuddy) -> Vec<(Mobility, Mobility, u64)> {
    let counts = zone.fallbacks();
    let mut all = Vec::new();
    for wanted in Mobility::ALL {
        for taken in Mobility::ALL {
            let count = counts[wanted.index()][taken.index()];
            if count > 0 {
                all.push((wanted, taken, count));
            }
        }
    }
    all
}
