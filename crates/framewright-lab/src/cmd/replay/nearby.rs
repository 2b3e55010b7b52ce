//! Replays beside the one that was asked for, which tell chance from effect, and what is counted of each.

use crate::measure::MAX_ORDER;
use crate::replay::{FailureCause, FailureLog, ReplayOptions, ReplayOutcome, Start, TraceMemory};
use crate::report::TriedCounts;

/// Nearby squeezes lie this part of the memory that is free at the start apart.
const NEARBY_PART: u64 = 256;

/// Whether memory is laid out as recorded and nothing is held back.
pub(super) fn is_as_recorded(options: ReplayOptions) -> bool {
    options.start == Start::Imposed && options.squeeze == 0
}

/// A replay with nearly the same memory, or in another order of the same operations.
#[derive(Debug, Clone, Copy)]
pub(super) struct NearbyReplay {
    pub(super) squeeze: u64,
    pub(super) interleaving: u32,
}

impl NearbyReplay {
    /// Four of them.
    pub(super) fn all(memory: &TraceMemory<'_>, squeeze: u64) -> [Self; 4] {
        let free = memory.free_frames_at_start();
        let step = (free / NEARBY_PART).max(1);
        let below = squeeze.checked_sub(step).unwrap_or(squeeze + 2 * step);
        let near = |squeeze: u64, interleaving| Self {
            squeeze: squeeze.min(free),
            interleaving,
        };
        [
            near(below, 0),
            near(squeeze + step, 0),
            // With as much memory, but in other orders.
            near(squeeze, 1),
            near(squeeze, 2),
        ]
    }

    /// How it is made, beside the one of `asked`.
    pub(super) fn options(self, asked: ReplayOptions) -> ReplayOptions {
        ReplayOptions {
            squeeze: self.squeeze,
            interleaving: self.interleaving,
            compaction: asked.compaction,
            ..ReplayOptions::new(asked.start)
        }
    }
}

/// What fails in a replay. As recorded that is the machine's own story, so what the machine refused and the replay refuses,
/// too, is among it; in less memory it is what the machine served.
pub(super) fn failed_of(outcome: &ReplayOutcome, options: ReplayOptions) -> FailureLog {
    match is_as_recorded(options) {
        true => outcome.failed.and(&outcome.met),
        false => outcome.failed.clone(),
    }
}

/// The counts of replays under one choice.
pub(super) fn counts_of(outcomes: &[ReplayOutcome], is_as_recorded: bool) -> TriedCounts {
    let mut counts = TriedCounts::default();
    for outcome in outcomes {
        add(&mut counts, outcome, is_as_recorded);
    }
    counts
}

/// Adds those of one replay.
pub(super) fn add(counts: &mut TriedCounts, outcome: &ReplayOutcome, is_as_recorded: bool) {
    let met = is_as_recorded.then_some(&outcome.met);
    let (mut failures, mut in_pieces) = ([0; MAX_ORDER + 1], [0; MAX_ORDER + 1]);
    for log in [&outcome.failed].into_iter().chain(met) {
        for order in 0..=MAX_ORDER {
            failures[order] += log.counts.all[order];
            in_pieces[order] += log.causes[order][FailureCause::Fragmented as usize];
        }
    }
    counts.failures.push(failures);
    counts.in_pieces.push(in_pieces);
    counts.stalled.push(outcome.stalled.iter().sum());
    counts.fallbacks.push(outcome.mixing_fallbacks());
}
