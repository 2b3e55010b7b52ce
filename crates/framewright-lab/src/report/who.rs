//! The askers, as a reader sees them: a table by command, and one by caller where the recording has call chains.

use super::{Grid, GridRow, Heading, Tabled};
use crate::measure::{Metric, grouped, who as m};
use crate::printable;
use crate::replay::{Asker, WhoCounts, WhoTally, plain_function};
use crate::trace::Askers;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Rows that a table has of those with a name; the others are added up in one.
const ROWS_MAX: usize = 10;

const NO_NAME: &str = "(no name)";
const NO_CHAIN: &str = "(no call chain)";
const UNSEEN: &str = "(no event)";
const BEFORE: &str = "(before the recording)";

/// A row: an asker, and what it came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhoRow {
    /// A printable name.
    pub who: String,
    /// What it asked for and holds.
    pub counts: WhoCounts,
}

/// A table of askers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhoTable {
    /// What its rows are: `command` or `caller`.
    pub by: &'static str,
    /// The largest, the largest holder of frames that are in the way first; then those without a name.
    pub rows: Vec<WhoRow>,
    /// How many of the rows have a name of their own.
    pub named: usize,
}

/// The askers and the holders of what is in the way, in one layout of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhoReport {
    /// Whose layout: `linux`, or a policy.
    pub layout: &'static str,
    /// Whether failures are the recording machine's, or the replay's.
    pub is_machine: bool,
    /// By command, by caller, or both.
    pub tables: Vec<WhoTable>,
}

/// The holder of the most of what is in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhoHolds {
    /// The recording does not name the askers.
    NoNames,
    /// What was asked for while it was recorded is not in the way.
    Nothing,
    /// That one.
    Most {
        /// Its name, printable.
        who: String,
        /// Non-movable frames that it holds in mixed blocks.
        frames: u64,
        /// Those of all holders.
        of: u64,
        /// Those that were held before the recording.
        before: u64,
    },
}

impl WhoReport {
    /// The tables of a tally.
    #[must_use]
    pub fn new(askers: &Askers, tally: &WhoTally, layout: &'static str, is_machine: bool) -> Self {
        let command = |task: u16, _| match askers.comms.get(usize::from(task)) {
            None | Some(b"") => NO_NAME.to_owned(),
            Some(name) => printable::bytes(name),
        };
        let caller = |_, caller: u32| match askers.chains.functions.get(caller as usize) {
            None => NO_CHAIN.to_owned(),
            Some(name) => printable::bytes(plain_function(name)),
        };
        let mut tables = Vec::new();
        if askers.has_names() {
            tables.push(table("command", tally, is_machine, command));
        }
        if askers.has_chains() {
            tables.push(table("caller", tally, is_machine, caller));
        }
        Self {
            layout,
            is_machine,
            tables,
        }
    }

    /// The holder of most of what is in the way.
    #[must_use]
    pub fn holds(&self) -> WhoHolds {
        let Some(table) = self.tables.first() else {
            return WhoHolds::NoNames;
        };
        let fixed = |row: &WhoRow| row.counts.fixed_frames;
        match table.rows[..table.named].first() {
            Some(row) if fixed(row) > 0 => WhoHolds::Most {
                who: row.who.clone(),
                frames: fixed(row),
                of: table.rows.iter().map(fixed).sum(),
                before: table
                    .rows
                    .iter()
                    .filter(|row| row.who == BEFORE)
                    .map(fixed)
                    .sum(),
            },
            _ => WhoHolds::Nothing,
        }
    }

    /// The values of a row, by metric.
    pub(super) fn values(&self, counts: &WhoCounts) -> [(Metric, u64); 5] {
        [
            (m::REQUESTS, counts.requests),
            (m::FAILURES_REPORTED, failures(counts, self.is_machine)),
            (m::BLOCKS_MADE_MIXED, counts.blocks_mixed),
            (m::FIXED_FRAMES_IN_MIXED, counts.fixed_frames),
            (m::MOVABLE_FRAMES_IN_MIXED, counts.movable_frames),
        ]
    }

    /// The tables, for text and page.
    #[must_use]
    pub fn tabled(&self, case: &str) -> Vec<Tabled> {
        // What is in the way first: a narrow terminal has no room for the last.
        const SHOWN: [(&str, Metric); 5] = [
            ("fixed\nheld", m::FIXED_FRAMES_IN_MIXED),
            ("movable\nheld", m::MOVABLE_FRAMES_IN_MIXED),
            ("blocks\nmixed", m::BLOCKS_MADE_MIXED),
            ("failures", m::FAILURES_REPORTED),
            ("requests", m::REQUESTS),
        ];
        let heading = |title: &str| Heading {
            title: title.to_owned(),
            accent: None,
            is_published: false,
        };
        let cells = |counts: &WhoCounts| {
            let values = BTreeMap::from(self.values(counts));
            let cell = |(_, metric): &(&str, Metric)| grouped(values[metric] as f64);
            SHOWN.iter().map(cell).collect()
        };
        let row = |row: &WhoRow| GridRow {
            labels: vec![row.who.clone()],
            unit: String::new(),
            cells: cells(&row.counts),
        };
        let of = |table: &WhoTable| Tabled {
            caption: format!(
                "{case}: who, by {}, in the layout of {}",
                table.by, self.layout
            ),
            grid: Grid {
                labels: 1,
                headings: SHOWN.map(|(title, _)| heading(title)).to_vec(),
                rows: table.rows.iter().map(row).collect(),
            },
            notes: Vec::new(),
        };
        self.tables.iter().map(of).collect()
    }
}

fn failures(counts: &WhoCounts, is_machine: bool) -> u64 {
    match is_machine {
        true => counts.refused,
        false => counts.failed,
    }
}

fn table(
    by: &'static str,
    tally: &WhoTally,
    is_machine: bool,
    name: impl Fn(u16, u32) -> String,
) -> WhoTable {
    let mut named: BTreeMap<String, WhoCounts> = BTreeMap::new();
    let mut others: Vec<WhoRow> = Vec::new();
    for (asker, counts) in &tally.0 {
        match *asker {
            Asker::Named { task, caller } => {
                named.entry(name(task, caller)).or_default().add(counts);
            }
            Asker::Unseen => others.push(row(UNSEEN, *counts)),
            Asker::Before => others.push(row(BEFORE, *counts)),
        }
    }
    for without in [NO_CHAIN, NO_NAME] {
        let counts = named.remove(without);
        others.extend(counts.map(|counts| row(without, counts)));
    }
    others.reverse();
    let mut rows: Vec<WhoRow> = named
        .into_iter()
        .map(|(who, counts)| WhoRow { who, counts })
        .collect();
    let size = |counts: &WhoCounts| {
        let (fixed, mixed) = (counts.fixed_frames, counts.blocks_mixed);
        Reverse((fixed, mixed, failures(counts, is_machine), counts.requests))
    };
    // Stable: those alike stay in the order of their names.
    rows.sort_by_key(|row| size(&row.counts));
    let rest = rows.split_off(rows.len().min(ROWS_MAX));
    let named = rows.len();
    if !rest.is_empty() {
        let mut counts = WhoCounts::default();
        rest.iter().for_each(|row| counts.add(&row.counts));
        rows.push(row(&format!("({} more)", rest.len()), counts));
    }
    rows.extend(others);
    WhoTable { by, rows, named }
}

fn row(who: &str, counts: WhoCounts) -> WhoRow {
    WhoRow {
        who: who.to_owned(),
        counts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(requests: u64, fixed_frames: u64) -> WhoCounts {
        WhoCounts {
            requests,
            fixed_frames,
            ..WhoCounts::default()
        }
    }

    #[test]
    fn the_largest_ten_have_rows_and_the_others_are_added_up() {
        let mut askers = Askers::default();
        let mut tally = WhoTally::default();
        tally.0.push((Asker::Before, counts(0, 1000)));
        tally.0.push((Asker::Unseen, counts(5, 7)));
        for task in 0..13_u16 {
            askers.comms.push(format!("task\x1b{task:02}").as_bytes());
            let asker = Asker::Named {
                task,
                caller: Asker::NO_CALLER,
            };
            tally.0.push((asker, counts(1, u64::from(task))));
        }
        let report = WhoReport::new(&askers, &tally, "linux", true);
        assert_eq!(report.tables.len(), 1, "there are no call chains");
        let rows = &report.tables[0].rows;
        let who: Vec<&str> = rows.iter().map(|row| row.who.as_str()).collect();
        assert_eq!(who[..2], ["task\\u{1b}12", "task\\u{1b}11"], "printable");
        assert_eq!(who[10..], ["(3 more)", UNSEEN, BEFORE]);
        assert_eq!(rows[10].counts, counts(3, 2 + 1));
        let most = WhoHolds::Most {
            who: "task\\u{1b}12".into(),
            frames: 12,
            of: 1000 + 7 + (0..13).sum::<u64>(),
            before: 1000,
        };
        assert_eq!(report.holds(), most);
        let text = report.tabled("t")[0].text();
        assert!(
            text.starts_with("t: who, by command, in the layout of linux\n"),
            "{text}"
        );
        assert!(text.contains("(before the recording)"), "{text}");
    }

    #[test]
    fn callers_of_one_name_are_one_row_and_holders_of_nothing_are_none() {
        let mut askers = Askers::default();
        for name in ["f_noprof", "f.isra.0", "g"] {
            askers.chains.functions.push(name.as_bytes());
        }
        askers.chains.push(&[0]);
        let named = |caller| Asker::Named { task: 0, caller };
        let tally = WhoTally(vec![
            (named(0), counts(1, 0)),
            (named(1), counts(1, 0)),
            (named(2), counts(9, 0)),
            (named(Asker::NO_CALLER), counts(2, 3)),
        ]);
        let report = WhoReport::new(&askers, &tally, "framewright", false);
        let rows = report.tables[0].rows.iter();
        let rows: Vec<(&str, u64)> = rows.map(|row| (&*row.who, row.counts.requests)).collect();
        assert_eq!(rows, [("g", 9), ("f", 2), (NO_CHAIN, 2)]);
        assert_eq!(
            (report.tables[0].by, report.holds()),
            ("caller", WhoHolds::Nothing)
        );
    }
}
