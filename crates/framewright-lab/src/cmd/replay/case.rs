//! One trace under all policies: which replays it takes, and what is said beside their figures.

use super::answered::{AnsweredCase, base_of};
use super::course::MachineCourse;
use super::nearby::is_as_recorded;
use super::settings::{SettingsCase, may_try, trials_of};
use super::{SettingsArg, WatermarksArg};
use crate::cmd::CommandError;
use crate::cmd::conduct::with_progress;
use crate::cmd::input::LoadedTrace;
use crate::measure::{MAX_ORDER, replay as m};
use crate::replay::admission::{MachineZone, MarksSource};
use crate::replay::{
    BackgroundRuns, CachedBlock, MachineZones, ModelledSetting, ProposedSqueeze, ReplayJob,
    ReplayOptions, ReplayOutcome, ReplayPolicy, SAMPLE_MS, Start, TraceMemory, labels_by_state,
    labels_by_zone, placement, propose_squeezes, replay_all, replay_all_until,
};
use crate::report::{
    Calibration, Deviation, Hollow, LINUX, OwnersReport, RECORDED_KERNEL, ReportCase, ReportColumn,
    SettingsAsked, WhoReport, calibrate, calibrate_requests, hollow_samples, linux_column,
    placement_column, request_calibration_lines,
};
use crate::size::shown_frames;
use crate::trace::MemoryLimit;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What a reader of a replay with reclaim must know.
const RECLAIM_NOTES: [&str; 3] = [
    "linux-4.4 and proposal have the watermarks, reclaim and compaction of Linux 3.10 around their \
     fallback, with pageblocks of 512 frames; the engine's policies have the engine's own",
    "what a request may wait for, and which objects are copies of files, stands in the recording's \
     flags; the oldest are given back first, and nothing is dirty",
    "whether and when the programs would have read again what reclaim took is not known: its later \
     frees are passed over, and the memory is not asked for again",
];

/// What a reader of the huge-page probes must know.
const HUGE_NOTE: &str = "the huge pages are requested one after another when the trace is over, held, \
                         and served from what is free or by compaction: nothing is reclaimed for \
                         them, and the background has no time";

/// One trace replayed under all policies.
pub(in crate::cmd) struct Replayed {
    /// The figures.
    pub(in crate::cmd) case: ReportCase,
    /// The outcomes, in the order of the policies.
    pub(in crate::cmd) outcomes: Vec<ReplayOutcome>,
    /// What the recording machine itself did, for a page or a series.
    pub(in crate::cmd) machine: MachineCourse,
}

/// What the replays of a case may take of this machine, and what ends them early.
#[derive(Debug, Clone, Copy)]
pub(in crate::cmd) struct ReplayMeans<'a> {
    /// Replays at once.
    pub(in crate::cmd) threads: usize,
    /// Memory of each.
    pub(in crate::cmd) limit: MemoryLimit,
    /// With it, no replay begins once another thread has set it; nothing is shown meanwhile, and no squeeze is looked for at
    /// which something fails.
    pub(in crate::cmd) stop: Option<&'a AtomicBool>,
}

/// The machine that a loaded trace happened on, as it is replayed.
pub(in crate::cmd) fn memory_of(
    loaded: &LoadedTrace,
    options: ReplayOptions,
    watermarks: WatermarksArg,
    limit: MemoryLimit,
) -> Result<TraceMemory<'_>, CommandError> {
    let at =
        |cause: &dyn std::fmt::Display| CommandError::Input(format!("{}: {cause}", loaded.path));
    TraceMemory::check_size(
        &loaded.trace,
        options.reclaim.is_some(),
        options.interleaving,
        limit,
    )
    .map_err(|e| at(&e))?;
    let mut memory = TraceMemory::new(&loaded.trace).map_err(|e| at(&e))?;
    let free = memory.free_frames_at_start();
    // With reclaim the balloon takes what others give back, and the figures say what it did not get.
    if options.squeeze > free && options.reclaim.is_none() {
        return Err(at(&format!(
            "--squeeze {} is more than there is to take away, expected at most the {} frames \
             that are free at the start",
            options.squeeze,
            shown_frames(free)
        )));
    }
    if let Some(listed) = loaded.listed {
        memory.labels = labels_by_state(&loaded.trace, listed);
    }
    if let Some(min) = loaded.min_watermark {
        memory.min_watermark = min;
    }
    if options.reclaim.is_none() && watermarks.admits(loaded) {
        memory.zones = Some(match &loaded.zones {
            // What lay on CPUs' lists at another moment says nothing of the beginning.
            Some(infos) => {
                match MachineZones::recorded(&loaded.trace, infos, loaded.types.as_ref()) {
                    zones if loaded.lead.is_none() => zones,
                    zones => zones.with_empty_lists(),
                }
            }
            None => MachineZones::computed(&loaded.trace),
        });
        // Text does not say what was free where.
        if loaded.lead.is_none()
            && loaded.listed.is_none()
            && let Some(zones) = &memory.zones
        {
            memory.cached = CachedBlock::all(&loaded.trace, loaded.chosen.as_deref());
            memory.labels = labels_by_zone(&loaded.trace, zones, loaded.chosen.as_deref());
        }
        memory.background = BackgroundRuns::of(&loaded.trace);
        // As the machine was set, whatever is tried on it.
        let settings = loaded.settings.as_ref();
        let boost = ModelledSetting::BoostFactor;
        if let Some(factor) = settings.and_then(|settings| settings.number(boost.name())) {
            memory = boost.on(memory, factor);
        }
    }
    Ok(match options.squeeze {
        0 => memory,
        _ => memory.with_less(),
    })
}

/// What a case has besides the figures of the policies.
#[derive(Debug, Clone, Copy)]
pub(in crate::cmd) struct CaseWants<'a> {
    /// The sentences that stand before the table.
    pub(in crate::cmd) answers: bool,
    /// Settings of the recorded kernel that are tried.
    pub(in crate::cmd) settings: SettingsArg,
    /// The holders in a dump of `page_owner`.
    pub(in crate::cmd) owners: Option<&'a OwnersReport>,
}

/// Replays one loaded trace, and calibrates where the trace comes with what Linux itself did.
pub(in crate::cmd) fn replay_case(
    loaded: &LoadedTrace,
    policies: &[ReplayPolicy],
    options: ReplayOptions,
    watermarks: WatermarksArg,
    means: ReplayMeans<'_>,
    wants: CaseWants<'_>,
) -> Result<Replayed, CommandError> {
    let answers = wants.answers;
    let at =
        |cause: &dyn std::fmt::Display| CommandError::Input(format!("{}: {cause}", loaded.path));
    let ReplayMeans {
        threads,
        limit,
        stop,
    } = means;
    let reclaims = options.reclaim.is_some();
    let memory = memory_of(loaded, options, watermarks, limit)?;
    // As many at once as the limit has room for, the other orders of an answer among them; one fits, as was just checked.
    let at_once = limit.len_bytes() / TraceMemory::replay_bytes(&loaded.trace, reclaims, 1).max(1);
    let threads = threads.min(usize::try_from(at_once).unwrap_or(usize::MAX).max(1));
    let as_recorded = is_as_recorded(options);
    let rules = loaded.rules();
    let base = base_of(rules, policies, reclaims);
    let is_known = loaded.trace.askers.is_known();
    // A page has the machine's own layout beside the policies', also where they have less memory.
    let is_shown = options.pictures > 0;
    let chosen = loaded.chosen.as_ref().filter(|_| as_recorded || is_shown);
    let is_wanted = loaded.reference.is_none() || (is_known && !reclaims) || is_shown;
    let chosen = chosen.filter(|_| is_wanted);
    let placed = chosen.map(|chosen| placement(&memory, chosen, options.pictures));
    let placed = placed.transpose().map_err(|e| at(&e))?;
    // A replay that reclaims is another layout than the machine's, whatever lies beside the trace.
    let own = placed.as_ref().filter(|_| as_recorded);
    let of_kernel = own.filter(|_| !reclaims);
    let of_kernel = of_kernel.and_then(|placed| placed.who.as_ref());
    // A replay that is timed does no more than the others beside it.
    let wants_who = is_known && of_kernel.is_none() && !options.time;
    let mut jobs: Vec<ReplayJob<'_>> = policies
        .iter()
        .map(|&policy| ReplayJob {
            policy,
            memory: &memory,
            options: ReplayOptions {
                who: wants_who && policy == base,
                ..options
            },
        })
        .collect();
    let calibrates = loaded.reference.is_some() && options.reclaim.is_none();
    if calibrates {
        // Always from the recorded layout and without squeeze: only that is what Linux did. By the others' rules of
        // admission: what it says is how far their columns are off.
        jobs.push(ReplayJob {
            policy: rules,
            memory: &memory,
            options: ReplayOptions {
                every_ms: Some(SAMPLE_MS),
                who: wants_who && as_recorded,
                compaction: options.compaction,
                ..ReplayOptions::new(Start::Imposed)
            },
        });
    }
    // The calibration is a replay of the recording kernel's rules as recorded, too.
    let is_there = policies.contains(&base) || (calibrates && as_recorded);
    let tries = memory.zones.is_some()
        && may_try(&memory, options)
        && !trials_of(loaded, base, wants.settings).is_empty();
    let wants_base = (answers || tries) && !is_there;
    if wants_base {
        jobs.push(ReplayJob {
            policy: base,
            memory: &memory,
            options: ReplayOptions {
                every_ms: None,
                pictures: 0,
                who: wants_who,
                ..options
            },
        });
    }
    let ops = loaded.trace.ops.len() as u64;
    let outcomes = match stop {
        Some(stop) => replay_all_until(&jobs, threads, &AtomicU64::new(0), stop),
        None => with_progress(&loaded.name, ops * jobs.len() as u64, |done| {
            replay_all(&jobs, threads, done)
        }),
    };
    let mut outcomes = outcomes.map_err(|e| at(&e))?;
    let mut columns = Vec::new();
    let mut calibration = None;
    let mut notes = loaded.notes.clone();
    // With reclaim the rules are others whatever was recorded.
    notes.extend(loaded.assumed_rules().filter(|_| !reclaims));
    let own_base = wants_base.then(|| outcomes.pop()).flatten();
    let model = calibrates.then(|| outcomes.pop()).flatten();
    if let Some(reference) = &loaded.reference {
        let of = |model| calibrate(&loaded.trace, reference, model);
        calibration = model.as_ref().and_then(of);
        if as_recorded {
            columns.push(linux_column(&loaded.trace, reference));
        }
    }
    if let (None, Some(placement)) = (&loaded.reference, own) {
        columns.push(placement_column(&loaded.trace, placement));
        notes.push(format!(
            "{RECORDED_KERNEL}: memory as that kernel laid it out; {} frames moved to where the recording does not say and are \
             missing there, so memory looks emptier than it was",
            placement.lost_frames
        ));
    }
    if let Some(machine) = &memory.zones {
        notes.push(shown_zones(machine, memory.background.is_some()));
    }
    if as_recorded && !reclaims {
        let of_base = outcomes
            .iter()
            .find(|outcome| outcome.policy == base.name());
        let of_base = of_base.or(own_base.as_ref()).or(model.as_ref());
        notes.extend(of_base.into_iter().flat_map(request_calibration_lines));
    }
    let samples = outcomes
        .first()
        .map_or(0, |outcome| outcome.means.samples());
    let mut found = loaded.hollow();
    found.extend(hollow_samples(samples, &memory));
    found.extend(empty_errors(calibration.as_ref(), &outcomes));
    if let Some(stalls) = outcomes.iter().find_map(|outcome| outcome.stalls.as_ref()) {
        notes.extend(RECLAIM_NOTES.map(str::to_owned));
        if stalls.huge.tries.tried > 0 {
            notes.push(HUGE_NOTE.to_owned());
        }
    }
    let mut proposed = None;
    let has_failed = |outcome: &ReplayOutcome| outcome.failures.iter().any(|&count| count > 0);
    if stop.is_none()
        && !reclaims
        && !loaded.trace.ops.is_empty()
        && !outcomes.iter().any(has_failed)
    {
        let policy = policies.first().copied().unwrap_or(rules);
        let found = propose_squeezes(&memory, policy, options, threads).map_err(|e| at(&e))?;
        notes.push(nothing_fails(policy, &found));
        proposed = found.first().map(|one| one.frames);
    }
    let of_base = outcomes
        .iter()
        .find(|outcome| outcome.policy == base.name())
        .or(own_base.as_ref())
        .or(model.as_ref().filter(|_| as_recorded));
    let of_base_who = of_base.and_then(|outcome| Some((outcome.who.as_ref()?, outcome.policy)));
    let tally = of_kernel.map(|tally| (tally, LINUX)).or(of_base_who);
    let who = tally
        .map(|(tally, layout)| WhoReport::new(&loaded.trace.askers, tally, layout, as_recorded));
    if loaded.is_text && who.is_some() {
        notes.push(
            "text does not say what was held before it began, so a pageblock counts as mixed in the tables of askers only by \
             what the events show"
                .into(),
        );
    }
    let settings = match of_base.filter(|_| tries) {
        None => None,
        Some(of_base) => SettingsCase {
            loaded,
            memory: &memory,
            options,
            threads,
            stop,
            base: (base, of_base),
            which: wants.settings,
            is_nearby: answers,
        }
        .replayed()?,
    };
    let answer = match of_base.filter(|_| answers) {
        None => None,
        Some(of_base) => {
            let case = AnsweredCase {
                loaded,
                memory: &memory,
                policies,
                options,
                threads,
                outcomes: &outcomes,
                base: (base, of_base),
                calibration: calibration.as_ref(),
                hollow: &found,
                proposed,
                owners: wants.owners,
                settings: settings.as_ref(),
                settings_asked: match wants.settings {
                    _ if !may_try(&memory, options) => SettingsAsked::Never,
                    SettingsArg::None => SettingsAsked::None,
                    SettingsArg::Few => SettingsAsked::Few,
                    SettingsArg::All => SettingsAsked::All,
                },
                who: who.as_ref(),
            };
            Some(case.answer()?)
        }
    };
    columns.extend(outcomes.iter().map(|outcome| {
        let mut column = ReportColumn::of(outcome);
        if as_recorded && !reclaims {
            column.values.extend(calibrate_requests(outcome));
        }
        column
    }));
    let name = format!(
        "{}/{}/b{}",
        loaded.name,
        options.start.name(),
        options.squeeze
    );
    let hollow = |(kind, says)| Hollow {
        case: name.clone(),
        kind,
        says,
    };
    let case = ReportCase {
        hollow: found.into_iter().map(hollow).collect(),
        name,
        ops,
        columns,
        anomalies: loaded.anomalies.clone(),
        calibration,
        notes,
        who,
        owners: wants.owners.cloned(),
        settings: settings.and_then(|one| {
            let judged = answer.as_ref().and_then(|answer| answer.settings_order);
            one.report(judged)
        }),
        answer,
    };
    let film = placed.and_then(|placed| placed.film);
    let machine = match (options.pictures, options.every_ms) {
        (0, None) => MachineCourse::default(),
        _ => MachineCourse::of(loaded, film),
    };
    Ok(Replayed {
        case,
        outcomes,
        machine,
    })
}

/// Behind whose marks requests were admitted.
fn shown_zones(machine: &MachineZones, follows: bool) -> String {
    let zone = |zone: &MachineZone| {
        let [min, low, high] = zone.marks;
        format!("{} {} ({min}, {low}, {high})", zone.name, zone.frames)
    };
    let zones: Vec<String> = machine.zones.iter().map(zone).collect();
    let source = match machine.source {
        MarksSource::Recorded => "as the recording has them",
        MarksSource::Summed => {
            "with the sums of the recording's, because what was free does not tell where its zones lie"
        }
        MarksSource::Computed => "computed as Linux does, because the recording has none",
    };
    let rounds = match follows {
        true => "begins and ends to reclaim when the machine's did",
        false => "is a model, whose rounds end as frames come back",
    };
    format!(
        "requests are admitted by watermarks, {source}: zones of so many frames (min, low, high) {}; who may wait is served \
         below them where the machine served it, and counted as stalled; the background, which lowers raised marks, {rounds}",
        zones.join(", ")
    )
}

/// What to ask instead where nothing fails.
fn nothing_fails(policy: ReplayPolicy, proposed: &[ProposedSqueeze]) -> String {
    let each = proposed.iter().map(|one| match one.fails {
        Some((order, count)) => format!(
            "--squeeze {} (under {policy} {count} requests of order {order} fail)",
            shown_frames(one.frames)
        ),
        None => format!(
            "--squeeze {} (one frame more than is left at the moment when the least is free: some request fails then under \
             every policy)",
            shown_frames(one.frames)
        ),
    });
    let each: Vec<String> = each.collect();
    match each.is_empty() {
        true => "no request fails, and none would with less memory".into(),
        false => format!(
            "no request fails; with less memory some do: {}",
            each.join(", ")
        ),
    }
}

/// Failures of which the model's error says nothing because there were none, although some policy has them here.
fn empty_errors(
    calibration: Option<&Calibration>,
    outcomes: &[ReplayOutcome],
) -> Option<(&'static str, String)> {
    let is_empty = |order: &usize| {
        let has_some = outcomes.iter().any(|outcome| outcome.failures[*order] > 0);
        let metric = m::FAILURES.of(*order);
        has_some
            && calibration
                .is_some_and(|c| c.deviations.get(&metric).is_some_and(Deviation::is_empty))
    };
    let orders: Vec<String> = (0..=MAX_ORDER)
        .filter(is_empty)
        .map(|k| k.to_string())
        .collect();
    (!orders.is_empty()).then(|| {
        let says = format!(
            "the model's error is 0 for failures of order {} because the recording has none of them: how far a replay \
             with less memory is off there is not known",
            orders.join(", ")
        );
        ("zero_error", says)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_proposed_is_told_as_what_it_is() {
        let all = ProposedSqueeze {
            frames: 3_316_515,
            fails: None,
        };
        // At other moments more is free than that, as the mean beside it says.
        assert_eq!(
            nothing_fails("linux-6.12".parse().unwrap(), &[all]),
            "no request fails; with less memory some do: --squeeze 3316515 (12.7 GiB) (one frame more than is left at the \
             moment when the least is free: some request fails then under every policy)"
        );
    }
}
