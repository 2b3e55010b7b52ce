//! Settings of the recorded kernel, tried on its recording: whether that tells anything, and the replays under each.

use super::SettingsArg;
use super::nearby::{NearbyReplay, counts_of, failed_of, is_as_recorded};
use crate::cmd::conduct::{CommandError, with_progress};
use crate::cmd::input::LoadedTrace;
use crate::replay::{
    FailureCause, ReplayJob, ReplayOptions, ReplayOutcome, ReplayPolicy, TRIED_OPS_MAX,
    TraceMemory, replay_all, replay_all_until,
};
use crate::report::{
    SettingTrial, SettingsReport, TriedCounts, TriedSetting, TriedSettings, calibrate_requests,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A case, as far as settings are tried on it.
pub(super) struct SettingsCase<'a> {
    pub(super) loaded: &'a LoadedTrace,
    pub(super) memory: &'a TraceMemory<'a>,
    pub(super) options: ReplayOptions,
    pub(super) threads: usize,
    /// With it, no replay begins once another thread has set it, and nothing is shown meanwhile.
    pub(super) stop: Option<&'a AtomicBool>,
    /// The rules of the recorded kernel, and what they make of the case.
    pub(super) base: (ReplayPolicy, &'a ReplayOutcome),
    pub(super) which: SettingsArg,
    /// Whether each is replayed at nearby squeezes, too.
    pub(super) is_nearby: bool,
}

/// What replays under other settings came to.
pub(super) struct SettingReplays {
    is_as_recorded: bool,
    is_remodelled: bool,
    is_calibrated: bool,
    as_set: Vec<ReplayOutcome>,
    each: Vec<(SettingTrial, Vec<ReplayOutcome>)>,
}

/// Whether settings are ever tried on it.
pub(super) fn may_try(memory: &TraceMemory<'_>, options: ReplayOptions) -> bool {
    options.reclaim.is_none() && !options.time && memory.trace.ops.len() <= TRIED_OPS_MAX
}

/// What to try on a recording.
pub(super) fn trials_of(
    loaded: &LoadedTrace,
    rules: ReplayPolicy,
    which: SettingsArg,
) -> Vec<SettingTrial> {
    match which {
        SettingsArg::None => Vec::new(),
        SettingsArg::Few => loaded.recorded_kernel().trials(rules, false),
        SettingsArg::All => loaded.recorded_kernel().trials(rules, true),
    }
}

impl SettingsCase<'_> {
    /// Whether settings can tell anything: requests are admitted by watermarks, which is where settings bear, and something
    /// fails that is not lack of memory, nor a fault of the model alone.
    fn is_worth_it(&self) -> bool {
        let (_, outcome) = self.base;
        let failed = failed_of(outcome, self.options);
        let refused = outcome.refused.total();
        let served: u64 = outcome.retries.iter().map(|tries| tries.served).sum();
        let is_as_recorded = is_as_recorded(self.options);
        let is_the_model_s = is_as_recorded && (refused == 0 || served * 2 > refused);
        // Text that does not say what was free says nothing of what would fail.
        let is_invented = self.loaded.is_text && self.loaded.listed.is_none();
        self.memory.zones.is_some()
            && !is_invented
            && may_try(self.memory, self.options)
            && failed.total() > 0
            && failed.of_cause(FailureCause::Exhausted) * 2 <= failed.total()
            && !is_the_model_s
    }

    /// Replays the kernel as it was set, and with each setting that there is to try; `None` where that would tell nothing.
    pub(super) fn replayed(&self) -> Result<Option<SettingReplays>, CommandError> {
        let (rules, _) = self.base;
        let trials = trials_of(self.loaded, rules, self.which);
        if trials.is_empty() || !self.is_worth_it() {
            return Ok(None);
        }
        // What the machine's background did it did as it was set: all have a model of one.
        let as_set = TraceMemory {
            background: None,
            ..self.memory.clone()
        };
        // The calibration is a replay of the memory as it is given.
        let is_remodelled = self.memory.background.is_some();
        let is_calibrated = !is_remodelled;
        let under = |trial: &SettingTrial| trial.setting.on(as_set.clone(), trial.to);
        let memories: Vec<TraceMemory<'_>> = trials.iter().map(under).collect();
        let unset = self.loaded.unset_rules();
        let mut choices = vec![(rules, &as_set)];
        choices.extend(trials.iter().zip(&memories).map(|(trial, memory)| {
            let rules = trial.setting.rules(trial.to, rules, unset);
            (rules, memory)
        }));
        let mut at = vec![NearbyReplay {
            squeeze: self.options.squeeze,
            interleaving: 0,
        }];
        if self.is_nearby {
            at.extend(NearbyReplay::all(self.memory, self.options.squeeze));
        }
        let of_choice = |&(policy, memory): &(ReplayPolicy, _)| {
            let job = |near: &NearbyReplay| ReplayJob {
                policy,
                memory,
                options: near.options(self.options),
            };
            at.iter().map(job).collect::<Vec<_>>()
        };
        let jobs: Vec<ReplayJob<'_>> = choices.iter().flat_map(of_choice).collect();
        let steps = self.memory.trace.ops.len() as u64 * jobs.len() as u64;
        let name = format!("{} settings", self.loaded.name);
        let outcomes = match self.stop {
            Some(stop) => replay_all_until(&jobs, self.threads, &AtomicU64::new(0), stop),
            None => with_progress(&name, steps, |done| replay_all(&jobs, self.threads, done)),
        };
        let outcomes = outcomes
            .map_err(|error| CommandError::Input(format!("{}: {error}", self.loaded.path)))?;
        let mut outcomes = outcomes.into_iter();
        let mut next = || outcomes.by_ref().take(at.len()).collect::<Vec<_>>();
        let as_set = next();
        Ok(Some(SettingReplays {
            is_as_recorded: is_as_recorded(self.options),
            is_remodelled,
            is_calibrated,
            as_set,
            each: trials.into_iter().map(|trial| (trial, next())).collect(),
        }))
    }
}

impl SettingReplays {
    /// As the answer judges them.
    pub(super) fn tried(&self) -> TriedSettings {
        let counts = |outcomes: &[ReplayOutcome]| -> TriedCounts {
            counts_of(outcomes, self.is_as_recorded)
        };
        TriedSettings {
            is_remodelled: self.is_remodelled,
            is_calibrated: self.is_calibrated,
            base: counts(&self.as_set),
            tried: (self.each.iter())
                .map(|(trial, outcomes)| TriedSetting {
                    trial: *trial,
                    counts: counts(outcomes),
                })
                .collect(),
        }
    }

    /// As rows: of each what was asked for. A row always has the order that the answer judges settings by.
    pub(super) fn report(&self, judged: Option<usize>) -> Option<SettingsReport> {
        let as_set = self.as_set.first()?;
        let mut report = SettingsReport::new(as_set, self.is_as_recorded, judged);
        // As the policies have them.
        let by_request = |outcome: &ReplayOutcome| match self.is_as_recorded {
            true => calibrate_requests(outcome),
            false => BTreeMap::new(),
        };
        report.extend_last(by_request(as_set));
        for (trial, outcomes) in &self.each {
            let outcome = outcomes.first()?;
            report.add(trial.name(), outcome);
            report.extend_last(by_request(outcome));
        }
        Some(report)
    }
}
