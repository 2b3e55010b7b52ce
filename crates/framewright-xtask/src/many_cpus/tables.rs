//! What each load keeps, what its time goes into, and the prices, as tables.

use super::{PRICES, price_source};
use crate::pages::number;
use crate::results::ResultFile;
use crate::rivals::group_of;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How many CPUs, as the file names them.
const CPUS: [&str; 5] = ["1", "2", "16", "64", "256"];

/// The share of one CPU's throughput that a fast path is to keep.
pub(super) const FAST_MIN: f64 = 90.0;

/// Why time is lost, and how a reader is told.
const LOSSES: [(&str, &str); 5] = [
    ("line", "lines"),
    ("wait", "waits"),
    ("barrier", "barriers sent"),
    ("flush", "flushes sent"),
    ("answer", "interrupts answered"),
];

/// How many CPUs the table of losses has.
const LOST_CPUS: [&str; 3] = ["2", "16", "256"];

/// A figure that rests on fewer of the events that lose its time is marked.
const EVENTS_MIN: f64 = 30.0;

/// The loads of a file, in its order.
fn loads(file: &ResultFile) -> Vec<&str> {
    let mut loads: Vec<&str> = Vec::new();
    for row in &file.rows {
        if row.case != PRICES && !loads.contains(&row.case.as_str()) {
            loads.push(&row.case);
        }
    }
    loads
}

pub(super) fn value(file: &ResultFile, load: &str, cpus: &str, metric: &str) -> Option<f64> {
    file.find(load, cpus, metric).map(|row| row.median)
}

/// To a tenth.
pub(super) fn percent(value: f64) -> String {
    format!("{value:.1}")
}

/// Whether a tenth of a load's time or more rests on few events: on lines or waits, or on interrupts, of which each that is sent
/// is answered by all others.
fn rests_on_few(file: &ResultFile, load: &str, cpus: &str) -> bool {
    let of = |metric: &str| value(file, load, cpus, metric).unwrap_or(0.0);
    let rests = |losses: &[&str], senders: &[&str]| {
        let lost: f64 = losses.iter().map(|loss| of(loss)).sum();
        let events: f64 = senders
            .iter()
            .map(|loss| of(&format!("{loss} events")))
            .sum();
        lost > 0.0 && lost >= of("operation") / 10.0 && events < EVENTS_MIN
    };
    let senders = ["barrier", "flush"];
    rests(&["line"], &["line"])
        || rests(&["wait"], &["wait"])
        || rests(&["barrier", "flush", "answer"], &senders)
}

/// Each load on each number of CPUs.
pub(super) fn throughput_table(file: &ResultFile) -> String {
    let mut out =
        "| load | ns for an operation, 1 CPU | 2 CPUs | 16 | 64 | 256 | the slowest of 256 |\n\
                   |---|---|---|---|---|---|---|\n"
            .to_owned();
    for load in loads(file) {
        let time = value(file, load, "1", "operation").map_or("-".to_owned(), number);
        let _ = write!(out, "| {load} | {time} |");
        for cpus in &CPUS[1..] {
            let kept = value(file, load, cpus, "throughput");
            let few = match rests_on_few(file, load, cpus) {
                true => " (few)",
                false => "",
            };
            let _ = match kept {
                Some(kept) if kept < FAST_MIN => write!(out, " **{}**{few} |", percent(kept)),
                _ => write!(out, " {}{few} |", kept.map_or("-".to_owned(), percent)),
            };
        }
        let slowest = value(file, load, "256", "slowest").map_or("-".to_owned(), percent);
        let _ = writeln!(out, " {slowest} |");
    }
    out
}

/// What the time of a load goes into beside the work that one CPU has.
struct NamedLoss {
    title: &'static str,
    ns: f64,
    /// How often it happened in the window.
    events: f64,
    /// The parts of the engine that asked for most of it.
    named: String,
}

/// What a load loses on that many CPUs for an operation, in nanoseconds: by why, the most first.
fn losses(file: &ResultFile, load: &str, cpus: &str) -> Vec<NamedLoss> {
    let work = |cpus| value(file, load, cpus, "work").unwrap_or(0.0);
    let mut found = vec![NamedLoss {
        title: "more work",
        ns: work(cpus) - work("1"),
        events: 0.0,
        named: String::new(),
    }];
    for (loss, title) in LOSSES {
        let ns = |cpus| value(file, load, cpus, loss).unwrap_or(0.0);
        let more = ns(cpus) - ns("1");
        let prefix = format!("{loss} in ");
        let rows = file.rows.iter();
        let rows = rows.filter(|row| row.case == load && row.variant == cpus);
        let of_files = rows.filter_map(|row| {
            let path = row.metric.strip_prefix(&prefix)?;
            Some((path, row.median))
        });
        // Interrupts are the machine's; of the others it matters which words they are about.
        let named = match loss {
            "line" | "wait" => names_of(of_files, more),
            _ => String::new(),
        };
        found.push(NamedLoss {
            title,
            ns: more,
            events: value(file, load, cpus, &format!("{loss} events")).unwrap_or(0.0),
            named,
        });
    }
    found.retain(|loss| loss.ns > 0.0);
    found.sort_by(|one, other| other.ns.total_cmp(&one.ns));
    found
}

/// The three groups with the most, and of the first one the file with the most.
fn names_of<'f>(of_files: impl Iterator<Item = (&'f str, f64)>, all: f64) -> String {
    let mut groups: BTreeMap<&str, (f64, (&str, f64))> = BTreeMap::new();
    for (path, ns) in of_files {
        let group = match path.ends_with(".rs") {
            true => group_of(path),
            false => path,
        };
        let (sum, most) = groups.entry(group).or_default();
        *sum += ns;
        if ns > most.1 {
            *most = (path, ns);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by(|one, other| other.1.0.total_cmp(&one.1.0));
    let named = groups.iter().filter(|(_, (ns, _))| *ns >= all / 10.0);
    let named = named.take(3).enumerate();
    let named = named.map(|(nth, (group, (ns, (path, most))))| {
        let within = match nth == 0 && path.ends_with(".rs") {
            true if most == ns => format!(" in `{path}`"),
            true => format!(" of which {} in `{path}`", number(*most)),
            false => String::new(),
        };
        format!("{group} {}{within}", number(*ns))
    });
    named.collect::<Vec<String>>().join(", ")
}

/// Where each load falls first, and what its time goes into on few and on many CPUs.
pub(super) fn lost_table(file: &ResultFile) -> String {
    let mut out =
        "| load | falls below 90 % at | CPUs | ns for an operation | of these lost | rests on |\n\
                   |---|---|---|---|---|---|\n"
            .to_owned();
    for load in loads(file) {
        let falls = CPUS
            .iter()
            .find(|cpus| value(file, load, cpus, "throughput").is_some_and(|kept| kept < FAST_MIN));
        let Some(falls) = falls else {
            let _ = writeln!(out, "| {load} | never | | | | |");
            continue;
        };
        let mut head = format!("| {load} | {falls} CPUs |");
        for cpus in LOST_CPUS {
            let Some(time) = value(file, load, cpus, "operation") else {
                continue;
            };
            let losses = losses(file, load, cpus);
            let told = losses.iter().take(4).map(|loss| {
                let named = match loss.named.as_str() {
                    "" => String::new(),
                    named => format!(" ({named})"),
                };
                format!("{} {}{named}", loss.title, number(loss.ns))
            });
            let told: Vec<String> = told.collect();
            let mut rests = vec![format!(
                "{} operations",
                number(value(file, load, cpus, "operations").unwrap_or(0.0))
            )];
            let counted = losses.iter().filter(|loss| loss.events > 0.0);
            rests.extend(counted.map(|loss| format!("{} {}", number(loss.events), loss.title)));
            if rests_on_few(file, load, cpus) {
                rests.push("few".to_owned());
            }
            let _ = writeln!(
                out,
                "{head} {cpus} | {} | {} | {} |",
                number(time),
                told.join("; "),
                rests.join(", ")
            );
            head = "| | |".to_owned();
        }
    }
    out
}

pub(super) fn prices_table(file: &ResultFile) -> String {
    let mut out = "| price | ps | median of the rounds | source |\n|---|---|---|---|\n".to_owned();
    let of_prices = file.rows.iter().filter(|row| row.case == PRICES);
    for row in of_prices.filter(|row| row.metric == "price") {
        let (name, ps) = (&row.variant, number(row.median));
        let median = value(file, PRICES, name, "median").map_or(String::new(), number);
        let _ = writeln!(out, "| {name} | {ps} | {median} | {} |", price_source(name));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run_record;
    use crate::results::{ResultRow, RowSource};

    fn file() -> ResultFile {
        let row = |cpus: &str, metric: &str, value| {
            ResultRow::one(["load", cpus, metric], "ns", RowSource::Simulated, value)
        };
        let rows = vec![
            ResultRow::one(
                [PRICES, "line", "price"],
                "ps",
                RowSource::Simulated,
                16_000.0,
            ),
            row("1", "operation", 10.0),
            row("1", "throughput", 100.0),
            row("1", "work", 10.0),
            row("2", "operation", 10.5),
            row("2", "throughput", 95.2),
            row("2", "work", 10.0),
            row("16", "operation", 20.0),
            row("16", "throughput", 50.0),
            row("16", "work", 11.0),
            row("16", "operations", 512.0),
            row("16", "line", 7.0),
            row("16", "line events", 29.0),
            row("16", "line in frame/pageblock/index.rs", 4.0),
            row("16", "line in frame/pageblock/index/look.rs", 2.0),
            row("16", "line in frame/pageblock/tag.rs", 1.0),
            row("16", "answer", 2.0),
        ];
        ResultFile {
            run: run_record(0.0),
            rows,
        }
    }

    #[test]
    fn a_load_is_told_where_it_falls_first_and_why() {
        let told = lost_table(&file());
        let expected = "| load | 16 CPUs | 2 | 10.5 |  | 0 operations |\n\
            | | | 16 | 20 | lines 7 (index 6 of which 4 in `frame/pageblock/index.rs`, tags 1); interrupts answered 2; more work 1 | \
            512 operations, 29 lines, few |\n";
        assert!(told.ends_with(expected), "{told}");
        let kept = throughput_table(&file());
        assert!(
            kept.ends_with("| load | 10 | 95.2 | **50.0** (few) | - | - | - |\n"),
            "{kept}"
        );
        assert!(prices_table(&file()).contains("| line | 16,000 |  | the least: two"));
    }
}
