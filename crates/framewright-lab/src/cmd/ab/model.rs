//! What replays of A's recordings say of each B.

use crate::ab::{
    AbArm, AbPrediction, AbRunner, AbRuns, HostSetting, ModelFigures, RunFigures, predict_arm,
};
use crate::cmd::conduct::{CommandError, ReplayLimits, with_progress};
use crate::cmd::input::{LoadedTrace, load_told_apart};
use crate::cmd::replay::{WatermarksArg, memory_of};
use crate::replay::{
    ModelledSetting, ReplayJob, ReplayOptions, ReplayOutcome, ReplayPolicy, Start, TraceMemory,
    replay_all,
};

/// Squeezes lie this part of what is free at the start apart: nearly the same memory, which tells chance from effect.
const NEARBY_PART: u64 = 256;
/// Replays of a recording under an arm.
const NEARBY: u64 = 3;

/// Replays every recording under every arm's settings, and says what that means for the machine.
///
/// # Errors
/// If a recording is missing or cannot be replayed.
pub(super) fn predicted(
    runner: &AbRunner<'_>,
    limits: &ReplayLimits,
) -> Result<AbPrediction, CommandError> {
    let plan = runner.plan();
    let recorded = AbRuns::read(&runner.recorded_path(), runner.digest());
    let recorded = recorded.map_err(CommandError::input)?;
    if recorded.is_empty() {
        return Err(CommandError::Input(
            "no run under A is recorded, expected some: framewright ab record makes them".into(),
        ));
    }
    let [a, others @ ..] = plan.arms.as_slice() else {
        return Err(CommandError::Input("the plan has no arm".into()));
    };
    let mut models: Vec<Vec<ModelFigures>> = vec![Vec::new(); others.len()];
    let mut from = Vec::new();
    for run in &recorded {
        let path = runner.recording(run.round);
        let loaded = load_told_apart(&path, None, limits.memory(), true)?;
        from.extend(loaded.digest.map(|digest| digest.to_string()));
        let at = |e: &dyn std::fmt::Display| CommandError::Input(format!("{}: {e}", loaded.path));
        let plain = memory_of(
            &loaded,
            ReplayOptions::new(Start::Imposed),
            WatermarksArg::On,
            limits.memory(),
        )?;
        let step = plain.free_frames_at_start() / NEARBY_PART;
        let known: Vec<&AbArm> = others
            .iter()
            .filter(|arm| lacks(a, arm).is_none())
            .collect();
        for nth in 0..NEARBY {
            let options = ReplayOptions {
                squeeze: nth * step,
                ..ReplayOptions::new(Start::Imposed)
            };
            let arms: Vec<&AbArm> = std::iter::once(a).chain(known.iter().copied()).collect();
            let memories: Vec<TraceMemory<'_>> = arms
                .iter()
                .map(|arm| {
                    let memory = memory_of(&loaded, options, WatermarksArg::On, limits.memory())?;
                    Ok(memory_under(memory, a, arm))
                })
                .collect::<Result<_, CommandError>>()?;
            let jobs: Vec<ReplayJob<'_>> = arms
                .iter()
                .zip(&memories)
                .map(|(arm, memory)| ReplayJob {
                    policy: policy_of(arm, &loaded),
                    memory,
                    options,
                })
                .collect();
            let at_once = limits.memory().len_bytes()
                / TraceMemory::replay_bytes(&loaded.trace, false, 0).max(1);
            let at_once = usize::try_from(at_once).unwrap_or(usize::MAX).max(1);
            let ops = loaded.trace.ops.len() as u64 * jobs.len() as u64;
            let outcomes = with_progress(&loaded.name, ops, |done| {
                replay_all(&jobs, limits.threads().min(at_once), done)
            })
            .map_err(|e| at(&e))?;
            let figures: Vec<RunFigures> = outcomes.iter().map(figures_of).collect();
            for (arm, b) in known.iter().zip(&figures[1..]) {
                let place = others.iter().position(|other| other.name == arm.name);
                let model = ModelFigures {
                    a: figures[0].clone(),
                    b: b.clone(),
                };
                models[place.unwrap_or(0)].push(model);
            }
        }
        let row = serde_json::to_vec(run).map_err(CommandError::input)?;
        from.push(crate::trace::TraceDigest::of(&row).to_string());
    }
    let measured: Vec<RunFigures> = recorded.iter().map(|run| run.figures.clone()).collect();
    let arms = others.iter().zip(&models).map(|(arm, models)| {
        let lacks = lacks(a, arm);
        predict_arm(
            &arm.name,
            models,
            &measured,
            lacks.as_deref(),
            plan.repeat,
            plan.seed,
        )
    });
    Ok(AbPrediction::new(runner.digest(), from, arms.collect()))
}

/// The settings that differ and that no replay knows.
fn lacks(a: &AbArm, arm: &AbArm) -> Option<String> {
    let changed = a.settings.changed_in(&arm.settings);
    let unknown = changed.0.keys().filter(|setting| {
        matches!(
            setting,
            HostSetting::ExtfragThreshold | HostSetting::CompactionProactiveness
        )
    });
    let names: Vec<&str> = unknown.map(|setting| setting.name()).collect();
    (!names.is_empty()).then(|| format!("no replay knows {}", names.join(" and ")))
}

/// The rules of the recorded kernel under an arm's settings.
fn policy_of(arm: &AbArm, loaded: &LoadedTrace) -> ReplayPolicy {
    let rules = loaded.rules();
    match arm.settings.0.get(&HostSetting::DefragMode) {
        Some(&mode) => ModelledSetting::DefragMode.rules(mode, rules, loaded.unset_rules()),
        None => rules,
    }
}

/// The recorded machine under an arm's settings. Its background is a model's under all of them: the recorded one is A's.
fn memory_under<'t>(mut memory: TraceMemory<'t>, a: &AbArm, arm: &AbArm) -> TraceMemory<'t> {
    memory.background = None;
    let of = |arm: &AbArm, setting| arm.settings.0.get(&setting).copied();
    let kib = of(arm, HostSetting::MinFreeKbytes);
    if let Some(kib) = kib.filter(|_| kib != of(a, HostSetting::MinFreeKbytes)) {
        memory = ModelledSetting::MinFree.on(memory, kib);
    }
    if let Some(factor) = of(arm, HostSetting::WatermarkBoostFactor) {
        memory = ModelledSetting::BoostFactor.on(memory, factor);
    }
    memory
}

/// A replay's figures under the names that the machine's have.
fn figures_of(outcome: &ReplayOutcome) -> RunFigures {
    // What the machine refused, too, and this refuses as well.
    let failed = |orders: std::ops::RangeInclusive<usize>| -> f64 {
        let of = |k: usize| {
            let retries = outcome.retries[k];
            outcome.failures[k] + (retries.tried - retries.served)
        };
        orders.map(of).sum::<u64>() as f64
    };
    let stalled = |from: usize| outcome.stalled[from..].iter().sum::<u64>() as f64;
    [
        ("external_fallbacks", outcome.mixing_fallbacks() as f64),
        ("mixed_blocks_added", outcome.end.mixed_blocks as f64),
        (
            "contaminated_blocks_added",
            outcome.end.contaminated_blocks as f64,
        ),
        ("allocstall", stalled(0)),
        ("compact_stall", stalled(1)),
        ("failures_order0", failed(0..=0)),
        ("failures_order1_3", failed(1..=3)),
        ("failures_order4_8", failed(4..=8)),
        ("failures_order9_10", failed(9..=10)),
        ("thp_fault_fallback", failed(9..=9)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
