//! Squeezes at which something fails, for a recording in which nothing does.

use super::{
    ReplayError, ReplayJob, ReplayOptions, ReplayOutcome, ReplayPolicy, TraceMemory, replay_all,
};
use crate::trace::OpKind;
use std::sync::atomic::AtomicU64;

/// Operations up to which proposals are tried: some seconds for each policy.
pub const TRIED_OPS_MAX: usize = 4_000_000;

/// Shares of the frames that are always free, in sixty-fourths, that are tried.
const SIXTY_FOURTHS: [u64; 4] = [40, 56, 60, 63];

/// A squeeze, and what fails with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProposedSqueeze {
    /// Frames.
    pub frames: u64,
    /// The largest order of which requests fail, and how many; `None` where it was not tried but must be: the
    /// programs hold more than there is.
    pub fails: Option<(usize, u64)>,
}

impl ProposedSqueeze {
    fn of(frames: u64, outcome: &ReplayOutcome) -> Option<Self> {
        let order = outcome.failures.iter().rposition(|&count| count > 0)?;
        Some(Self {
            frames,
            fails: Some((order, outcome.failures[order])),
        })
    }
}

/// The fewest frames that are free at any moment, whatever the policy: what exists less what the programs hold.
#[must_use]
pub fn least_free(memory: &TraceMemory<'_>) -> u64 {
    let mut free = memory.free_frames_at_start() as i64;
    let mut least = free;
    for op in &memory.trace.ops {
        match op.kind() {
            OpKind::Alloc => free -= op.order().frames() as i64,
            OpKind::Free | OpKind::FreePart => free += op.order().frames() as i64,
            OpKind::Tick | OpKind::Failed => {}
        }
        least = least.min(free);
    }
    u64::try_from(least).unwrap_or(0)
}

/// Up to two squeezes at which requests fail, ascending: the smallest of some that were tried under `policy`, where
/// memory is in pieces, and one more frame than is ever left, where no policy helps.
///
/// # Errors
/// As [`replay_all`].
pub fn propose_squeezes(
    memory: &TraceMemory<'_>,
    policy: ReplayPolicy,
    options: ReplayOptions,
    threads: usize,
) -> Result<Vec<ProposedSqueeze>, ReplayError> {
    let least = least_free(memory);
    let memory = &memory.clone().with_less();
    let mut found = Vec::new();
    if memory.trace.ops.len() <= TRIED_OPS_MAX {
        let tried = SIXTY_FOURTHS.map(|part| least * part / 64);
        let job = |squeeze| ReplayJob {
            policy,
            memory,
            options: ReplayOptions {
                squeeze,
                every_ms: None,
                pictures: 0,
                time: false,
                ..options
            },
        };
        let jobs: Vec<ReplayJob<'_>> = tried.iter().map(|&frames| job(frames)).collect();
        let outcomes = replay_all(&jobs, threads, &AtomicU64::new(0))?;
        let fails = |(&frames, outcome)| ProposedSqueeze::of(frames, outcome);
        found.extend(tried.iter().zip(&outcomes).find_map(fails));
    }
    let all = least + 1;
    if all <= memory.free_frames_at_start() {
        found.push(ProposedSqueeze {
            frames: all,
            fails: None,
        });
    }
    Ok(found)
}
