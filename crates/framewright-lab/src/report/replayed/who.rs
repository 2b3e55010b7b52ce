//! The askers, as a reader sees them: a table by command, one by caller where the recording has call chains, and one by what
//! was asked for.
//!
//! # Invariants
//! - **WN1** No two names are shown alike, and none like the lack of one.

use crate::measure::{Metric, grouped, who as m};
use crate::printable;
use crate::replay::{AskedKind, Asker, WhoCounts, WhoTally, plain_function};
use crate::report::{Grid, GridRow, Heading, Tabled, shown_variant};
use crate::trace::Askers;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Characters of a name in a table at most: a longer one leaves no room for figures.
const SHOWN_MAX: usize = 36;
/// How many of them are its end.
const SHOWN_END: usize = 12;
/// Rows that a table has of those with a name; the others are added up in one.
pub(super) const ROWS_MAX: usize = 10;

/// Bytes of collapsed stacks at most.
pub const COLLAPSED_MAX: usize = 256 << 20;

pub(super) const NO_NAME: &str = "(no name)";
pub(super) const NO_CHAIN: &str = "(no call chain)";
const UNSEEN: &str = "(no event)";
const BEFORE: &str = "(before the recording)";
pub(super) const MORE: &str = " more)";

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
    /// What its rows are: `command`, `caller` or `request`.
    pub by: &'static str,
    /// The largest, the largest holder of frames that are in the way first; then those without a name.
    pub rows: Vec<WhoRow>,
    /// How many of the rows have a name of their own.
    pub named: usize,
}

/// By what stacks are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackWeight {
    /// Non-movable frames held in mixed blocks at the end.
    Held,
    /// Times that a block was made mixed.
    Mixed,
    /// Requests.
    Requests,
}

/// The askers and the holders of what is in the way, in one layout of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhoReport {
    /// Whose layout: `linux`, or a policy.
    pub layout: &'static str,
    /// Whether failures are the recording machine's, or the replay's.
    pub is_machine: bool,
    /// Whether fallbacks were counted by asker.
    has_fallbacks: bool,
    /// By command, by caller, or both; then by request.
    pub tables: Vec<WhoTable>,
    tally: WhoTally,
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
        let command = |task: u16, _| command(askers, task);
        let caller = |_, caller: u32| match askers.chains.functions.get(caller as usize) {
            None => NO_CHAIN.to_owned(),
            Some(name) => function(name),
        };
        let mut tables = Vec::new();
        if askers.has_names() {
            tables.push(table("command", tally, is_machine, by_name(tally, command)));
        }
        if askers.has_chains() {
            tables.push(table("caller", tally, is_machine, by_name(tally, caller)));
        }
        if !tables.is_empty() {
            let kinds = tally.kinds.iter();
            let kinds = kinds.map(|(kind, counts)| (request(*kind), *counts));
            tables.push(table("request", tally, is_machine, kinds.collect()));
        }
        Self {
            layout,
            is_machine,
            has_fallbacks: tally.has_fallbacks,
            tables,
            tally: tally.clone(),
        }
    }

    /// A line for each command and call chain, the outermost function first, with its weight behind, as `flamegraph.pl` and
    /// `inferno-flamegraph` read them. `root` stands in front, where there is one; what weighs nothing has no line. `None` if
    /// it has more than [`COLLAPSED_MAX`] bytes: each line of a few bytes in a recording may become some ten thousand.
    #[must_use]
    pub fn collapsed(
        &self,
        askers: &Askers,
        root: Option<&str>,
        by: StackWeight,
    ) -> Option<String> {
        let mut weights: BTreeMap<String, u64> = BTreeMap::new();
        let mut held = 0;
        for (asker, counts) in &self.tally.askers {
            let weight = match by {
                StackWeight::Held => counts.fixed_frames,
                StackWeight::Mixed => counts.blocks_mixed,
                StackWeight::Requests => counts.requests,
            };
            if weight == 0 {
                continue;
            }
            let names = root
                .map(str::to_owned)
                .into_iter()
                .chain(stack(askers, *asker));
            let names: Vec<String> = names.map(|name| name.replace(';', "\\x3b")).collect();
            let names = names.join(";");
            let len_bytes = names.len();
            let known = weights.entry(names).or_insert_with(|| {
                held += len_bytes;
                0
            });
            *known += weight;
            if held > COLLAPSED_MAX {
                return None;
            }
        }
        let line = |(names, weight): (String, u64)| format!("{names} {weight}\n");
        Some(weights.into_iter().map(line).collect())
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
    pub(in crate::report) fn values(&self, counts: &WhoCounts) -> Vec<(Metric, u64)> {
        let mut values = vec![
            (m::REQUESTS, counts.requests),
            (m::FAILURES_REPORTED, failures(counts, self.is_machine)),
            (m::BLOCKS_MADE_MIXED, counts.blocks_mixed),
            (m::FIXED_FRAMES_IN_MIXED, counts.fixed_frames),
            (m::MOVABLE_FRAMES_IN_MIXED, counts.movable_frames),
        ];
        if self.has_fallbacks {
            values.push((m::FALLBACKS, counts.fallbacks));
        }
        values
    }

    /// The tables, for text and page.
    #[must_use]
    pub fn tabled(&self, case: &str) -> Vec<Tabled> {
        // What is in the way first: a narrow terminal has no room for the last.
        const SHOWN: [(&str, Metric); 6] = [
            ("fixed\nheld", m::FIXED_FRAMES_IN_MIXED),
            ("movable\nheld", m::MOVABLE_FRAMES_IN_MIXED),
            ("blocks\nmixed", m::BLOCKS_MADE_MIXED),
            ("fall-\nbacks", m::FALLBACKS),
            ("failures", m::FAILURES_REPORTED),
            ("requests", m::REQUESTS),
        ];
        let heading = |title: &str| Heading {
            title: title.to_owned(),
            accent: None,
            is_published: false,
            is_base: false,
        };
        let cells = |counts: &WhoCounts| {
            let values = BTreeMap::from_iter(self.values(counts));
            let cell =
                |(_, metric): &(&str, Metric)| values.get(metric).map(|&n| grouped(n as f64));
            SHOWN.iter().filter_map(cell).collect()
        };
        let is_known = |metric| metric != m::FALLBACKS || self.has_fallbacks;
        let shown = SHOWN.into_iter().filter(|&(_, metric)| is_known(metric));
        let headings: Vec<Heading> = shown.map(|(title, _)| heading(title)).collect();
        let row = |(row, who): (&WhoRow, String)| GridRow {
            labels: vec![who],
            unit: String::new(),
            cells: cells(&row.counts),
        };
        let short = |table: &WhoTable| shortened(table.rows.iter().map(|row| row.who.as_str()));
        let of = |table: &WhoTable| Tabled {
            caption: format!(
                "{case}: who, by {}, in the layout of {}",
                table.by,
                shown_variant(self.layout)
            ),
            grid: Grid {
                labels: 1,
                headings: headings.clone(),
                rows: table.rows.iter().zip(short(table)).map(row).collect(),
            },
            notes: Vec::new(),
        };
        self.tables.iter().map(of).collect()
    }
}

fn command(askers: &Askers, task: u16) -> String {
    match askers.comms.get(usize::from(task)) {
        None | Some(b"") => NO_NAME.to_owned(),
        Some(name) => shown_name(name),
    }
}

/// The names of a stack, the outermost first.
fn stack(askers: &Askers, asker: Asker) -> Vec<String> {
    let (task, chain) = match asker {
        Asker::Before => return vec![BEFORE.to_owned()],
        Asker::Unseen => return vec![UNSEEN.to_owned()],
        Asker::Named { task, chain, .. } => (task, chain),
    };
    let mut names = vec![command(askers, task)];
    let functions: Vec<&[u8]> = askers.chains.names(chain as usize).collect();
    names.extend(functions.iter().rev().map(|name| function(name)));
    if functions.is_empty() && askers.has_chains() {
        names.push(NO_CHAIN.to_owned());
    }
    names
}

fn function(name: &[u8]) -> String {
    match name {
        b"" => NO_NAME.to_owned(),
        name => shown_name(plain_function(name)),
    }
}

/// A name as a row has it: printable, no two names alike, and none like what stands for those without one.
pub(super) fn shown_name(name: &[u8]) -> String {
    // What is not printable is shown with a backslash in front, so one of its own is shown twice.
    let parts = name.split(|&byte| byte == b'\\').map(printable::bytes);
    let shown = parts.collect::<Vec<_>>().join("\\\\");
    let is_like_ours = [NO_NAME, NO_CHAIN, UNSEEN, BEFORE].contains(&&*shown)
        || (shown.starts_with('(') && shown.ends_with(MORE));
    // Blanks at an end are not seen in a table.
    let has_ends = !shown.starts_with(char::is_whitespace) && !shown.ends_with(char::is_whitespace);
    match is_like_ours || !has_ends || shown.starts_with('"') {
        true => format!("\"{shown}\""),
        false => shown,
    }
}

/// The names of a table's rows, cut in the middle where they are long and still differ then.
pub(super) fn shortened<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let short = |who: &&str| -> String {
        let len = who.chars().count();
        let begin = who.chars().take(SHOWN_MAX - SHOWN_END - 1);
        let end = who.chars().skip(len.saturating_sub(SHOWN_END));
        match len > SHOWN_MAX {
            true => begin.chain(['…']).chain(end).collect(),
            false => (*who).to_owned(),
        }
    };
    let names: Vec<&str> = names.collect();
    let all: Vec<String> = names.iter().map(short).collect();
    let is_alone = |name: &String| all.iter().filter(|other| *other == name).count() == 1;
    let shown = |(short, whole): (&String, &&str)| match is_alone(short) {
        true => short.clone(),
        false => (*whole).to_owned(),
    };
    all.iter().zip(&names).map(shown).collect()
}

fn failures(counts: &WhoCounts, is_machine: bool) -> u64 {
    match is_machine {
        true => counts.refused,
        false => counts.failed,
    }
}

/// A kind of requests as a row has it.
fn request(kind: AskedKind) -> String {
    let order = kind.order;
    let Some([may_reclaim, is_reported]) = kind.flags else {
        return format!("{order}, no flags");
    };
    let waits = if may_reclaim { "may" } else { "may not" };
    let told = if is_reported { "reported" } else { "silent" };
    format!("{order}, {waits} reclaim, {told}")
}

/// What those with a name come to, by a name that is made of task and caller.
fn by_name(tally: &WhoTally, name: impl Fn(u16, u32) -> String) -> BTreeMap<String, WhoCounts> {
    let mut named: BTreeMap<String, WhoCounts> = BTreeMap::new();
    for (asker, counts) in &tally.askers {
        if let Asker::Named { task, caller, .. } = *asker {
            named.entry(name(task, caller)).or_default().add(counts);
        }
    }
    named
}

fn table(
    by: &'static str,
    tally: &WhoTally,
    is_machine: bool,
    mut named: BTreeMap<String, WhoCounts>,
) -> WhoTable {
    let mut others: Vec<WhoRow> = Vec::new();
    for (asker, counts) in &tally.askers {
        match *asker {
            Asker::Named { .. } => {}
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
        rows.push(row(&format!("({}{MORE}", rest.len()), counts));
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

    fn named(task: u16, caller: u32) -> Asker {
        Asker::Named {
            task,
            caller,
            chain: Askers::NO_CHAIN,
        }
    }

    #[test]
    fn a_kind_of_requests_is_named_by_order_and_flags_and_rows_are_by_what_is_held() {
        let kind = |order, flags| AskedKind {
            order: framewright::Order::new(order).unwrap(),
            flags,
        };
        let mut askers = Askers::default();
        askers.comms.push(b"cc1");
        let mut tally = WhoTally::of(vec![(Asker::Before, counts(0, 9))]);
        tally.kinds = vec![
            (kind(0, None), counts(7, 0)),
            (kind(3, Some([false, true])), counts(1, 2)),
            (kind(10, Some([true, false])), counts(1, 1)),
        ];
        let report = WhoReport::new(&askers, &tally, "linux", true);
        let table = report.tables.last().unwrap();
        let rows: Vec<(&str, u64)> = (table.rows.iter())
            .map(|row| (&*row.who, row.counts.fixed_frames))
            .collect();
        let expected = [
            ("order 3, may not reclaim, reported", 2),
            ("order 10, may reclaim, silent", 1),
            ("order 0, no flags", 0),
            (BEFORE, 9),
        ];
        assert_eq!((table.by, rows), ("request", expected.to_vec()));
        assert!(
            shortened(table.rows.iter().map(|row| row.who.as_str()))
                .iter()
                .all(|name| !name.contains('…'))
        );
    }

    #[test]
    fn the_largest_ten_have_rows_and_the_others_are_added_up() {
        let mut askers = Askers::default();
        let mut tally = WhoTally::default();
        tally.askers.push((Asker::Before, counts(0, 1000)));
        tally.askers.push((Asker::Unseen, counts(5, 7)));
        for task in 0..13_u16 {
            askers.comms.push(format!("task\x1b{task:02}").as_bytes());
            let asker = named(task, Asker::NO_CALLER);
            tally.askers.push((asker, counts(1, u64::from(task))));
        }
        let report = WhoReport::new(&askers, &tally, "linux", true);
        let by: Vec<&str> = report.tables.iter().map(|table| table.by).collect();
        assert_eq!(by, ["command", "request"], "there are no call chains");
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
            text.starts_with("t: who, by command, in the layout of the recorded kernel\n"),
            "{text}"
        );
        assert!(text.contains("(before the recording)"), "{text}");
    }

    #[test]
    fn wn1_no_name_is_taken_for_another_or_for_none() {
        let names: [&[u8]; 10] = [
            b"",
            b"(no name)",
            b"\"(no name)\"",
            b"(before the recording)",
            b"(3 more)",
            b"(sd-pam)",
            b"a\x1b",
            b"a\\u{1b}",
            b"\xffb",
            b" a",
        ];
        let mut askers = Askers::default();
        let mut tally = WhoTally::of(vec![(Asker::Before, counts(0, 100))]);
        for (task, name) in (0..).zip(names) {
            askers.comms.push(name);
            let asker = named(task, Asker::NO_CALLER);
            tally.askers.push((asker, counts(1, 20 - u64::from(task))));
        }
        let report = WhoReport::new(&askers, &tally, "linux", true);
        let rows = report.tables[0].rows.iter();
        let rows: Vec<(&str, u64)> = rows
            .map(|row| (&*row.who, row.counts.fixed_frames))
            .collect();
        let expected = [
            ("\"(no name)\"", 19),
            ("\"\"(no name)\"\"", 18),
            ("\"(before the recording)\"", 17),
            ("\"(3 more)\"", 16),
            ("(sd-pam)", 15),
            ("a\\u{1b}", 14),
            ("a\\\\u{1b}", 13),
            ("\\xffb", 12),
            ("\" a\"", 11),
            (NO_NAME, 20),
            (BEFORE, 100),
        ];
        assert_eq!(rows, expected);
        let WhoHolds::Most { who, before, .. } = report.holds() else {
            panic!("{:?}", report.holds())
        };
        assert_eq!((&*who, before), ("\"(no name)\"", 100));
        // A function without a name is none of those without a chain.
        for name in [&b""[..], b"(no call chain)", b"f"] {
            askers.chains.functions.push(name);
        }
        askers.chains.push(&[0]);
        let callers = [0, 1, 2, Asker::NO_CALLER];
        let tally = WhoTally::of(callers.map(|at| (named(0, at), counts(1, 0))).to_vec());
        let report = WhoReport::new(&askers, &tally, "linux", true);
        let rows = report.tables[1].rows.iter().map(|row| &*row.who);
        let expected = ["\"(no call chain)\"", "f", NO_NAME, NO_CHAIN];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn stacks_are_collapsed_from_the_outermost_function_on_and_weighed_as_asked() {
        let mut askers = Askers::default();
        askers.comms.push(b"c;c\n");
        for function in [&b"alloc_pages_noprof"[..], b"__alloc_skb", b"tcp sendmsg"] {
            askers.chains.functions.push(function);
        }
        askers.chains.push(&[0, 1, 2]);
        let asker = |chain| Asker::Named {
            task: 0,
            caller: 1,
            chain,
        };
        let tally = WhoTally::of(vec![
            (Asker::Before, counts(0, 100)),
            (asker(0), counts(3, 7)),
            (asker(Askers::NO_CHAIN), counts(2, 0)),
        ]);
        let report = WhoReport::new(&askers, &tally, "linux", true);
        let of = |root, by| report.collapsed(&askers, root, by).unwrap();
        let held = "(before the recording) 100\nc\\x3bc\\n;tcp sendmsg;__alloc_skb;alloc_pages 7\n";
        assert_eq!(of(None, StackWeight::Held), held);
        let asked =
            "r;c\\x3bc\\n;(no call chain) 2\nr;c\\x3bc\\n;tcp sendmsg;__alloc_skb;alloc_pages 3\n";
        assert_eq!(of(Some("r"), StackWeight::Requests), asked);
        assert_eq!(of(None, StackWeight::Mixed), "");
    }

    #[test]
    fn a_long_name_is_cut_in_the_middle_and_leaves_room_for_the_figures() {
        let mut askers = Askers::default();
        let mut tally = WhoTally::default();
        let names = [
            "x".repeat(250),
            "core::iter::traits::iterator::fold".into(),
            "beginning-that-is-long-enough-for-all-and-end".into(),
        ];
        for (task, name) in (0..).zip(&names) {
            askers.comms.push(name.as_bytes());
            tally
                .askers
                .push((named(task, Asker::NO_CALLER), counts(1, 5)));
        }
        let report = WhoReport::new(&askers, &tally, "linux", true);
        let short: Vec<String> =
            shortened(report.tables[0].rows.iter().map(|row| row.who.as_str()));
        assert_eq!(short[0], "beginning-that-is-long-…-all-and-end");
        assert_eq!(short[1], "core::iter::traits::iterator::fold");
        assert_eq!(short[2].chars().count(), SHOWN_MAX);
        assert_eq!(report.tables[0].rows[2].who.len(), 250, "the name is whole");
    }

    #[test]
    fn callers_of_one_name_are_one_row_and_holders_of_nothing_are_none() {
        let mut askers = Askers::default();
        for name in ["f_noprof", "f.isra.0", "g"] {
            askers.chains.functions.push(name.as_bytes());
        }
        askers.chains.push(&[0]);
        let tally = WhoTally::of(vec![
            (named(0, 0), counts(1, 0)),
            (named(0, 1), counts(1, 0)),
            (named(0, 2), counts(9, 0)),
            (named(0, Asker::NO_CALLER), counts(2, 3)),
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
