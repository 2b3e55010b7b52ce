//! From a replayed case to the figures of its answer: what is the recording kernel's, and what nearby replays say.

use crate::cmd::conduct::{CommandError, with_progress};
use crate::cmd::input::LoadedTrace;
use crate::measure::{MAX_ORDER, replay as m};
use crate::replay::{
    FailureCause, ReplayJob, ReplayOptions, ReplayOutcome, ReplayPolicy, Start, TRIED_OPS_MAX,
    TraceMemory, replay_all,
};
use crate::report::{
    Answer, AnswerFigures, AnswerZones, Calibration, TriedPolicy, WhoHolds, WhoReport, answer,
};
use crate::trace::{OpKind, RequestCounts, RequestWaits};

/// Nearby squeezes lie this part of the memory that is free at the start apart.
const NEARBY_PART: u64 = 256;

/// A case, as far as its answer wants to know.
pub(super) struct AnsweredCase<'a> {
    pub(super) loaded: &'a LoadedTrace,
    pub(super) memory: &'a TraceMemory<'a>,
    pub(super) policies: &'a [ReplayPolicy],
    pub(super) options: ReplayOptions,
    pub(super) threads: usize,
    pub(super) outcomes: &'a [ReplayOutcome],
    /// What the rules make of it that the others are compared with.
    pub(super) base: (ReplayPolicy, &'a ReplayOutcome),
    pub(super) calibration: Option<&'a Calibration>,
    /// What is hollow in it, by kind.
    pub(super) hollow: &'a [(&'static str, String)],
    pub(super) proposed: Option<u64>,
    /// The askers, where they were counted.
    pub(super) who: Option<&'a WhoReport>,
}

/// The rules that everything is compared with: the recording kernel's, or where there is no kernel with them that
/// reclaims, the first of history's.
pub(super) fn base_of(
    rules: ReplayPolicy,
    policies: &[ReplayPolicy],
    reclaims: bool,
) -> ReplayPolicy {
    let history = || {
        policies
            .iter()
            .find(|policy| ReplayPolicy::HISTORICAL.contains(policy))
    };
    match reclaims {
        false => rules,
        true => *history().or(policies.first()).unwrap_or(&rules),
    }
}

impl AnsweredCase<'_> {
    /// The answer. Where something fails under the recording kernel's rules, every policy is replayed four times more: with
    /// nearly the same memory, which may give another figure, and in other orders of the same operations.
    pub(super) fn answer(&self) -> Result<Answer, CommandError> {
        let (base, outcome) = self.base;
        let mut tried: Vec<TriedPolicy> = self.policies.iter().zip(self.outcomes).map(of).collect();
        if !self.policies.contains(&base) {
            tried.push(of((&base, outcome)));
        }
        let is_short = self.memory.trace.ops.len() <= TRIED_OPS_MAX;
        if outcome.failed.total() > 0 && is_short && self.options.reclaim.is_none() {
            self.try_nearby(&mut tried)?;
        }
        let kind = |wanted: &str| self.hollow.iter().find(|(kind, _)| *kind == wanted);
        let of_errors = |calibration: &Calibration| {
            let of = |order| calibration.deviations.get(&m::FAILURES.of(order)).copied();
            (0..=MAX_ORDER).map(of).collect()
        };
        Ok(answer(&AnswerFigures {
            kernel: self.loaded.recorded_kernel(),
            nothing: kind("no_events").map(|(_, says)| says.clone()),
            is_invented: kind("no_state").is_some(),
            zones: match (&self.memory.zones, &self.loaded.zones) {
                (None, _) => AnswerZones::None,
                (Some(_), None) => AnswerZones::Computed,
                (Some(_), Some(_)) => AnswerZones::Recorded,
            },
            squeeze: self.options.squeeze,
            is_as_recorded: self.options.start == Start::Imposed && self.options.squeeze == 0,
            served: RequestCounts::of_trace(self.memory.trace, OpKind::Alloc),
            refused: outcome.refused.clone(),
            refused_served: outcome.retries.iter().map(|tries| tries.served).sum(),
            stalls: self.loaded.stalls,
            waits: RequestWaits::of(&self.memory.trace.work),
            base,
            failed: outcome.failed.clone(),
            replayed_stalls: outcome
                .stalls
                .as_ref()
                .map(|stalls| stalls.stats.allocstall.iter().sum()),
            tried,
            errors: self.calibration.map(of_errors),
            proposed: self.proposed,
            holds: self.holds(),
        }))
    }

    /// The largest holder of what is in the way. Where the recording has names and no replay counted by them, nothing is said.
    fn holds(&self) -> Option<WhoHolds> {
        match self.who {
            Some(who) => Some(who.holds()),
            None if self.memory.trace.askers.is_known() => None,
            None => Some(WhoHolds::NoNames),
        }
    }

    fn try_nearby(&self, tried: &mut [TriedPolicy]) -> Result<(), CommandError> {
        let free = self.memory.free_frames_at_start();
        let step = (free / NEARBY_PART).max(1);
        let squeeze = self.options.squeeze;
        let below = squeeze.checked_sub(step).unwrap_or(squeeze + 2 * step);
        let nearby = [below, squeeze + step].map(|frames| frames.min(free));
        let policies: Vec<ReplayPolicy> = tried.iter().map(|tried| tried.policy).collect();
        // With as much memory, but in other orders.
        let orders = [1, 2].map(|interleaving| (squeeze, interleaving));
        let job = |(squeeze, interleaving)| {
            move |&policy: &ReplayPolicy| ReplayJob {
                policy,
                memory: self.memory,
                options: ReplayOptions {
                    squeeze,
                    interleaving,
                    ..ReplayOptions::new(self.options.start)
                },
            }
        };
        let jobs: Vec<ReplayJob<'_>> = (nearby.into_iter())
            .map(|squeeze| (squeeze, 0))
            .chain(orders)
            .flat_map(|near| policies.iter().map(job(near)).collect::<Vec<_>>())
            .collect();
        let steps = self.memory.trace.ops.len() as u64 * jobs.len() as u64;
        let name = format!("{} nearby", self.loaded.name);
        let outcomes = with_progress(&name, steps, |done| replay_all(&jobs, self.threads, done));
        let outcomes = outcomes
            .map_err(|error| CommandError::Input(format!("{}: {error}", self.loaded.path)))?;
        for (nth, outcome) in outcomes.iter().enumerate() {
            let tried = &mut tried[nth % policies.len()];
            tried.failures.push(outcome.failures);
            tried.in_pieces.push(in_pieces(outcome));
        }
        Ok(())
    }
}

fn of((&policy, outcome): (&ReplayPolicy, &ReplayOutcome)) -> TriedPolicy {
    TriedPolicy {
        policy,
        failures: vec![outcome.failures],
        in_pieces: vec![in_pieces(outcome)],
    }
}

fn in_pieces(outcome: &ReplayOutcome) -> [u64; MAX_ORDER + 1] {
    let of = |causes: [u64; 3]| causes[FailureCause::Fragmented as usize];
    outcome.failed.causes.map(of)
}
