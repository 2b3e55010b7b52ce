//! From a replayed case to the figures of its answer: what is the recording kernel's, and what nearby replays say.

use super::nearby::{NearbyReplay, add, counts_of, failed_of, is_as_recorded};
use super::settings::SettingReplays;
use crate::cmd::conduct::{CommandError, with_progress};
use crate::cmd::input::LoadedTrace;
use crate::measure::{MAX_ORDER, replay as m};
use crate::replay::{
    ReplayJob, ReplayOptions, ReplayOutcome, ReplayPolicy, TRIED_OPS_MAX, TraceMemory, replay_all,
};
use crate::report::{
    Answer, AnswerFigures, AnswerZones, Calibration, OwnersReport, SettingsAsked, TriedPolicy,
    WhoHolds, WhoReport, answer,
};
use crate::trace::{OpKind, RequestCounts, RequestWaits};

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
    /// The holders in a dump of `page_owner`, where one was given.
    pub(super) owners: Option<&'a OwnersReport>,
    /// What other settings of the recorded kernel came to, where some were tried.
    pub(super) settings: Option<&'a SettingReplays>,
    /// Which were asked for.
    pub(super) settings_asked: SettingsAsked,
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
        let is_as_recorded = is_as_recorded(self.options);
        let of = |(&policy, outcome): (&ReplayPolicy, &ReplayOutcome)| TriedPolicy {
            policy,
            counts: counts_of(std::slice::from_ref(outcome), is_as_recorded),
        };
        let mut tried: Vec<TriedPolicy> = self.policies.iter().zip(self.outcomes).map(of).collect();
        if !self.policies.contains(&base) {
            tried.push(of((&base, outcome)));
        }
        let is_short = self.memory.trace.ops.len() <= TRIED_OPS_MAX;
        if failed_of(outcome, self.options).total() > 0
            && is_short
            && self.options.reclaim.is_none()
        {
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
            is_as_recorded,
            served: RequestCounts::of_trace(self.memory.trace, OpKind::Alloc),
            refused: outcome.refused.clone(),
            refused_served: outcome.retries.iter().map(|tries| tries.served).sum(),
            stalls: self.loaded.stalls,
            waits: RequestWaits::of(&self.memory.trace.work),
            base,
            failed: failed_of(outcome, self.options),
            replayed_stalls: outcome
                .stalls
                .as_ref()
                .map(|stalls| stalls.stats.allocstall.iter().sum()),
            tried,
            settings: self.settings.map(SettingReplays::tried),
            settings_asked: self.settings_asked,
            errors: self.calibration.map(of_errors),
            proposed: self.proposed,
            holds: self.holds(),
            owner: self
                .owners
                .and_then(OwnersReport::most)
                .map(|(who, frames, of)| (who.to_owned(), frames, of)),
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
        let policies: Vec<ReplayPolicy> = tried.iter().map(|tried| tried.policy).collect();
        let of_near = |near: NearbyReplay| {
            let job = |&policy: &ReplayPolicy| ReplayJob {
                policy,
                memory: self.memory,
                options: near.options(self.options),
            };
            policies.iter().map(job).collect::<Vec<_>>()
        };
        let nearby = NearbyReplay::all(self.memory, self.options.squeeze);
        let jobs: Vec<ReplayJob<'_>> = nearby.into_iter().flat_map(of_near).collect();
        let steps = self.memory.trace.ops.len() as u64 * jobs.len() as u64;
        let name = format!("{} nearby", self.loaded.name);
        let outcomes = with_progress(&name, steps, |done| replay_all(&jobs, self.threads, done));
        let outcomes = outcomes
            .map_err(|error| CommandError::Input(format!("{}: {error}", self.loaded.path)))?;
        let is_as_recorded = is_as_recorded(self.options);
        for (nth, outcome) in outcomes.iter().enumerate() {
            add(
                &mut tried[nth % policies.len()].counts,
                outcome,
                is_as_recorded,
            );
        }
        Ok(())
    }
}
