//! The sample trace under all policies, from three starts.

use super::JobPart;
use crate::cmd::conduct::CommandError;
use crate::cmd::input::LoadedTrace;
use crate::cmd::replay::{
    CaseWants, METHOD, MIXED_BLOCKS, PICTURES, ReplayMeans, SettingsArg, WatermarksArg, case_items,
    replay_case,
};
use crate::replay::{ReplayOptions, ReplayPolicy, Start};
use crate::report::{
    CardFigure, Hollow, Item, MachineRecord, ReportCase, RunInfo, Section, VerdictCard, accent,
    hollow_text, json_lines, standing, within_error,
};
use crate::trace::MemoryLimit;
use std::collections::BTreeMap;

/// Frames held back in the third case: a fifth of those that are free when the sample begins.
pub(super) const SQUEEZE: u64 = 40_000;

const TITLE: &str = "What would this memory have looked like under another policy?";

const INTRODUCTION: &str = "\
The first 1.4 seconds of a recording of a memory-tight machine (6 GiB; forks, compiles, file
readers, bursts of sockets), replayed under each policy: from Linux's own layout (imposed), from
one that the policy made itself (fresh), and with 160 MB less memory (b40000).
";

const READING: &str = concat!(
    "\
Order-2 and order-3 requests fail on a device that has memory when requests for one kind of page
keep breaking up the pages of another: contaminated blocks are the 2 MiB blocks that hold a frame
which cannot be moved, so no compaction can ever make a huge page or a large buffer of them, and
unusable_index_order3 is the share of the free memory that an order-3 request cannot use.
",
    within_error!(),
    "

A replay cannot see what the machine would have done about a failure: it does not reclaim, does not
compact, and the programs go on as recorded. Compare policies with each other, not a policy with a
running system; and this sample is too short to show how far contamination spreads in hours. For
your own machine: framewright record -o FILE -- COMMAND, then framewright replay FILE.
"
);

/// The section and its figures.
pub(super) fn part(loaded: &LoadedTrace, threads: usize) -> Result<JobPart, CommandError> {
    let cases = [
        (Start::Imposed, 0),
        (Start::Fresh, 0),
        (Start::Fresh, SQUEEZE),
    ];
    let last = cases.len() - 1;
    let mut items = Vec::new();
    let mut standings = [0; 3];
    let mut replayed_cases: Vec<ReportCase> = Vec::new();
    for (nth, (start, squeeze)) in cases.into_iter().enumerate() {
        let options = ReplayOptions {
            squeeze,
            // Of the case in which memory is short enough for policies to differ.
            pictures: if nth == last { PICTURES } else { 0 },
            ..ReplayOptions::new(start)
        };
        let replayed = replay_case(
            loaded,
            ReplayPolicy::COMPARED,
            options,
            WatermarksArg::Off,
            ReplayMeans {
                threads,
                limit: MemoryLimit::default(),
                stop: None,
            },
            CaseWants {
                answers: false,
                settings: SettingsArg::None,
                owners: None,
            },
        )?;
        let rivals = ReplayPolicy::HISTORICAL.map(ReplayPolicy::name);
        let standing =
            standing(&replayed.case, ReplayPolicy::OURS.name(), &rivals).unwrap_or_default();
        standings
            .iter_mut()
            .zip(standing)
            .for_each(|(sum, n)| *sum += n);
        let recording = loaded.rules().name();
        let is_shown = |policy: &str| accent(policy).is_some() || policy == recording;
        items.extend(case_items(&replayed, is_shown));
        replayed_cases.push(replayed.case);
    }
    let hollow: Vec<Hollow> = replayed_cases
        .iter()
        .flat_map(|case| case.hollow.clone())
        .collect();
    items.insert(0, Item::Text(hollow_text(&hollow)));
    items.push(Item::Text(READING.into()));
    let [better, equal, worse] = standings;
    let name = ReplayPolicy::OURS.name();
    let records =
        json_lines(&info(threads, hollow), &replayed_cases).map_err(CommandError::input)?;
    let told = format!(
        "{name} against the best of {} policies of Linux's history in each figure of three cases: better in \
         {better}, equal in {equal}, worse in {worse}. The sample is 1.4 seconds, too short to judge by; the \
         recordings behind it are minutes (README).",
        ReplayPolicy::HISTORICAL.len(),
    );
    let mixed = items.iter().find(|item| match item {
        Item::OverTime(plot) => plot.title.ends_with(MIXED_BLOCKS),
        _ => false,
    });
    let card = VerdictCard {
        verdict: told.clone(),
        figure: CardFigure::new(
            format!("{better} of {}", better + equal + worse),
            format!(
                "figures in which {name} is better than all of Linux's history, worse in {worse}"
            ),
        ),
        plot: mixed.cloned(),
    };
    let section = Section {
        id: "replay".into(),
        title: TITLE.into(),
        introduction: INTRODUCTION.into(),
        items,
        method: METHOD,
        summary: vec![told],
        cards: vec![card],
    };
    Ok(JobPart { section, records })
}

/// What ran; start and squeeze stand in the cases' names.
fn info(threads: usize, hollow: Vec<Hollow>) -> RunInfo {
    let names: Vec<&str> = ReplayPolicy::COMPARED
        .iter()
        .map(|policy| policy.name())
        .collect();
    RunInfo {
        experiment: "replay",
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("FRAMEWRIGHT_COMMIT"),
        seed: 0,
        options: BTreeMap::from([("policy", names.join(",")), ("jobs", threads.to_string())]),
        machine: MachineRecord::this(),
        hollow,
    }
}
