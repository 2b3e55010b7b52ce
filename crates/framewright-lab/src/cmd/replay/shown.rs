//! A replayed case as a reader sees it: as text, on a page, and as Linux's own files.

use super::cards::cards;
use super::course::{PolicySeries, courses, named};
use super::{PrintFormat, Replayed};
use crate::measure::{Film, replay as m};
use crate::replay::ReplayPolicy;
use crate::report::html::HtmlPage;
use crate::report::{
    self, BlockMaps, Item, LINUX, Note, RECORDED_KERNEL, ReportCase, ReportColumn, RunInfo,
    Section, Tabled, case_grid, verdict, within_error,
};

/// A case as a reader sees it: table, calibration, verdict, anomalies.
fn case_table(case: &ReportCase) -> Tabled {
    let has_stalls = |column: &ReportColumn| column.values.contains_key(&m::STALL.of(0));
    let reclaims = case.columns.iter().any(has_stalls);
    let calibrated = match &case.calibration {
        Some(calibration) => format!(
            "model error: how far {} replayed from the recorded layout is from what Linux did, \
             over {} samples",
            calibration.model, calibration.samples
        ),
        None if reclaims => {
            "not calibrated: the model of the recording kernel does not reclaim".into()
        }
        None => "not calibrated: nothing says what Linux itself did (NAME.linux_ref.csv beside \
                 the trace would), so how far a replay is from the machine is not known"
            .into(),
    };
    let mut notes = vec![Note::Text(calibrated)];
    let rivals = ReplayPolicy::HISTORICAL.map(ReplayPolicy::name);
    notes.extend(verdict(case, ReplayPolicy::OURS.name(), &rivals).map(Note::Listing));
    notes.extend(case.notes.iter().cloned().map(Note::Text));
    let anomaly = |(kind, count): &(String, u64)| Note::Text(format!("anomaly: {kind} {count}"));
    notes.extend(case.anomalies.iter().map(anomaly));
    Tabled {
        caption: format!("{}: {} operations", case.name, case.ops),
        grid: case_grid(case),
        notes,
    }
}

/// The askers, and what a reader must know of them.
fn who_tables(case: &ReportCase) -> Vec<Tabled> {
    let Some(who) = &case.who else {
        return Vec::new();
    };
    let mut tables = who.tabled(&case.name);
    if let Some(last) = tables.last_mut() {
        let failures = match who.is_machine {
            true => "on the recording machine",
            false => "in this replay",
        };
        last.notes.push(Note::Text(format!(
            "what an interrupt asked for stands under the task that it interrupted; failures are those {failures} that \
             could have printed `page allocation failure`; fixed frames in mixed pageblocks at the end are in the way"
        )));
        if who.layout == LINUX {
            last.notes.push(Note::Text(
                "what the kernel moved later is counted where it came to, as far as the recording says".into(),
            ));
        }
    }
    tables
}

/// What was tried of settings, the askers, and the holders in a dump, as far as there are any.
fn further_tables(case: &ReportCase) -> impl Iterator<Item = Tabled> {
    let settings = case.settings.iter().map(|one| one.tabled(&case.name));
    let owners = case.owners.iter().flat_map(|one| one.tabled(&case.name));
    settings.chain(who_tables(case)).chain(owners)
}

/// What a page shows of a case: its table, and memory over time under each policy of `shows`.
pub(in crate::cmd) fn case_items(replayed: &Replayed, shows: impl Fn(&str) -> bool) -> Vec<Item> {
    let Replayed {
        case,
        outcomes,
        machine,
    } = replayed;
    let shown: Vec<_> = outcomes
        .iter()
        .filter(|outcome| shows(outcome.policy))
        .collect();
    let films = shown.iter();
    let films = films.filter_map(|outcome| Some((outcome.policy, outcome.film.as_ref()?)));
    let films: Vec<(&str, &Film)> = films.collect();
    let mut items = vec![Item::Table(case_table(case))];
    items.extend(further_tables(case).map(Item::Table));
    if films.is_empty() {
        return items;
    }
    let series = shown.iter().map(|outcome| PolicySeries {
        policy: outcome.policy,
        points: &outcome.series,
        failures: outcome.failures,
    });
    let series: Vec<_> = series.collect();
    items.extend(courses(&case.name, &films, &series, machine).map(Item::OverTime));
    let own = machine.film.as_ref();
    let own = own.map(|film| (RECORDED_KERNEL.to_owned(), film));
    let films = films.iter().map(|&(policy, film)| (named(policy), film));
    items.push(Item::Map(BlockMaps {
        title: format!("{}: what each block of memory holds", case.name),
        films: own
            .into_iter()
            .chain(films)
            .map(|(name, film)| (name, film.clone()))
            .collect(),
    }));
    items
}

/// How the figures of a replay are taken.
pub(in crate::cmd) const METHOD: &str = concat!(
    "\
A replay asks each policy for what the recording was asked for, in its order. An observer outside notes which frames \
are handed out and freed, the same for every policy, and every figure that policies are compared by comes from it; an \
allocator that hands a frame out twice stops the replay. Means are over samples, one a trace second. \
With --time, replay_ns_per_op is wall time, allocator and observer together.

The model's error is how far the replay of the recording kernel's own rules is from what that kernel did: the mean of \
the absolute differences over the samples. ",
    within_error!(),
    "

docs/metrics.md in the repository has each formula."
);

pub(super) fn page(info: RunInfo, replayed: &[Replayed]) -> HtmlPage {
    let section = |(nth, one): (usize, &Replayed)| {
        let items = case_items(one, |_| true);
        Section {
            id: format!("case-{}", nth + 1),
            title: one.case.name.clone(),
            introduction: String::new(),
            cards: cards(one, &items),
            items,
            method: METHOD,
            summary: one
                .case
                .answer
                .iter()
                .flat_map(|answer| answer.sentences.clone())
                .collect(),
        }
    };
    HtmlPage {
        title: "What memory would have looked like".into(),
        lead: "A recording of what a kernel's page allocator was asked for, replayed under several \
               policies. The programs go on as recorded whatever becomes of memory: compare policies \
               with each other, not a policy with a running system."
            .into(),
        info,
        sections: replayed.iter().enumerate().map(section).collect(),
    }
}

pub(super) fn printed(format: PrintFormat, replayed: &[Replayed]) -> String {
    let mut text = String::new();
    for Replayed { case, outcomes, .. } in replayed {
        match format {
            PrintFormat::Table => {
                text.extend(case.answer.iter().map(|answer| answer.text(&case.name)));
                text += &case_table(case).text();
                for table in further_tables(case) {
                    text += &format!("\n{}", table.text());
                }
            }
            PrintFormat::Pagetypeinfo | PrintFormat::Buddyinfo => {
                for outcome in outcomes {
                    text += &format!("# {} {}\n", case.name, outcome.policy);
                    text += &match format {
                        PrintFormat::Buddyinfo => report::buddyinfo(outcome),
                        _ => report::pagetypeinfo(outcome),
                    };
                }
            }
        }
        text.push('\n');
    }
    text
}
