//! What an allocation and a free cost, beside `buddy_system_allocator` and the buddy allocator of `buddy-slab-allocator`,
//! each behind a lock, in one run.
//!
//! ```sh
//! cargo bench -p framewright-linux --bench frames            # about a minute
//! cargo bench -p framewright-linux --bench frames -- --quick # some seconds, 256 MiB
//! ```
//!
//! `--json FILE` appends the figures there, one a line.
//!
//! For profiles: `--ours` leaves the rivals out; `--only NAME`, `--order N` and `--threads N` choose
//! the patterns with names that start so, and those of that order and number of threads. `--rounds
//! N` sets how often all is repeated, `--ops N` how many operations a pattern has at least.
//!
//! For counts of instructions, as `cargo xtask rivals` takes them: `--list` says all patterns and subjects and ends,
//! `--case NAME` chooses those whose names in the file begin so, `--subject NAME` one subject, and with `--phases` each pattern
//! says its name and each timed phase its operations. The subject `empty` hands out numbers and does nothing: its
//! instructions are the pattern's own.
//!
//! 4 GiB of frames of 4 KiB, none of which is touched: what is measured is metadata. Every figure
//! is nanoseconds for each operation of one thread, the mean over the threads, which start
//! together on CPUs of their own. Rounds go through all three by turns; printed are the best round and
//! the median one. A target is met if the best round meets it: on a machine with other work the
//! best round says most about the code. No target fails the run.

mod machine;
mod pattern;
mod rows;
mod subject;
mod threads;

use framewright::Order;
use hdrhistogram::Histogram;
use pattern::{FrameLoad, FrameTiming, FreeOrder, Low, bulk, low_on_memory, pair};
use std::fmt::Write;
use subject::{FrameEngine, FrameSubject, NoFrames, RivalBuddy, RivalBuddySlab};

/// Those that are measured, as the file behind `--json` names them.
const VARIANTS: [&str; 3] = ["framewright", "buddy", "buddy-slab"];

/// The subject that is no allocator.
const EMPTY: &str = "empty";

/// How much of each other's time threads may miss before a round says nothing about contention.
const OVERLAP_MIN: f64 = 0.8;

#[derive(Clone, Copy)]
enum FrameKind {
    Bulk(FreeOrder),
    ByCall,
    Pair,
    /// This many frees, then this many allocations.
    Low(usize),
}

/// One line of the table.
struct FrameLine {
    name: &'static str,
    kind: FrameKind,
    order: u8,
    threads: usize,
    /// Nanoseconds for an allocation (or what the pattern has in its place) and a free.
    target: (Option<f64>, Option<f64>),
}

impl FrameLine {
    /// As the file behind `--json` names it.
    fn at(&self) -> String {
        let name = self.name.replace(',', "");
        format!("{name}/{}/{}", self.order, self.threads)
    }

    /// Whether allocations and frees have a figure each.
    const fn has_free(&self) -> bool {
        !matches!(self.kind, FrameKind::Pair | FrameKind::Low(_))
    }
}

const fn case(
    name: &'static str,
    kind: FrameKind,
    order: u8,
    threads: usize,
    target: (Option<f64>, Option<f64>),
) -> FrameLine {
    FrameLine {
        name,
        kind,
        order,
        threads,
        target,
    }
}

const SAME: FrameKind = FrameKind::Bulk(FreeOrder::Same);
const OWN: FrameKind = FrameKind::Bulk(FreeOrder::RandomOwn);
const ALL: FrameKind = FrameKind::Bulk(FreeOrder::RandomOfAll);
const NONE: (Option<f64>, Option<f64>) = (None, None);

const CASES: [FrameLine; 29] = [
    case("bulk", SAME, 0, 1, (Some(16.0), Some(16.0))),
    case("bulk", SAME, 3, 1, NONE),
    case("bulk", SAME, 4, 1, NONE),
    case("bulk", SAME, 9, 1, (Some(40.0), Some(20.0))),
    case("bulk", SAME, 0, 2, (Some(20.0), Some(20.0))),
    case("bulk", SAME, 3, 2, NONE),
    case("bulk", SAME, 4, 2, NONE),
    case("bulk", SAME, 9, 2, (Some(60.0), Some(30.0))),
    case("bulk, 64 a call", FrameKind::ByCall, 0, 1, NONE),
    case("bulk, 64 a call", FrameKind::ByCall, 0, 2, NONE),
    case("random frees", OWN, 0, 1, NONE),
    case("random frees", OWN, 9, 1, NONE),
    case("random frees", OWN, 0, 2, (None, Some(40.0))),
    case("random frees", OWN, 9, 2, NONE),
    case("random, of others", ALL, 0, 2, (None, Some(40.0))),
    case("random, of others", ALL, 3, 2, NONE),
    case("random, of others", ALL, 9, 2, NONE),
    case("hot pair", FrameKind::Pair, 0, 1, (Some(6.0), None)),
    case("hot pair", FrameKind::Pair, 3, 1, NONE),
    case("hot pair", FrameKind::Pair, 4, 1, NONE),
    case("hot pair", FrameKind::Pair, 9, 1, NONE),
    case("hot pair", FrameKind::Pair, 0, 2, (Some(8.0), None)),
    case("hot pair", FrameKind::Pair, 3, 2, NONE),
    case("hot pair", FrameKind::Pair, 4, 2, NONE),
    case("hot pair", FrameKind::Pair, 9, 2, NONE),
    case("1 % free", FrameKind::Low(1), 0, 1, (Some(50.0), None)),
    case("1 % free", FrameKind::Low(1), 0, 2, (Some(50.0), None)),
    case(
        "1 % free, by 64",
        FrameKind::Low(64),
        0,
        1,
        (Some(50.0), None),
    ),
    case(
        "1 % free, by 64",
        FrameKind::Low(64),
        0,
        2,
        (Some(50.0), None),
    ),
];

/// What was measured of one case and one subject.
struct FrameColumn {
    rounds: Vec<FrameTiming>,
    single: Histogram<u64>,
}

impl FrameColumn {
    fn new() -> Self {
        Self {
            rounds: Vec::new(),
            single: Histogram::new(3).expect("3 digits"),
        }
    }

    /// Every round in which the threads met, ascending, or all rounds if they met in none; and whether they did.
    fn rounds_met(&self, part: impl Fn(&FrameTiming) -> f64) -> (Vec<f64>, bool) {
        let met = |timing: &&FrameTiming| timing.overlap >= OVERLAP_MIN;
        let is_met = self.rounds.iter().any(|timing| met(&timing));
        let rounds = self.rounds.iter().filter(|timing| !is_met || met(timing));
        let mut ns: Vec<f64> = rounds.map(part).collect();
        ns.sort_by(f64::total_cmp);
        (ns, is_met)
    }

    /// The best round and the median one, of those in which the threads met; and whether any did.
    fn best_and_median(&self, part: impl Fn(&FrameTiming) -> f64) -> (f64, f64, bool) {
        let (ns, is_met) = self.rounds_met(part);
        (ns[0], ns[ns.len() / 2], is_met)
    }

    /// For the file behind `--json`.
    fn add_rows(&self, case: &FrameLine, variant: &str) {
        let at = case.at();
        let (alloc, _) = self.rounds_met(|timing| timing.alloc_ns);
        rows::add(&at, variant, "alloc_ns", "ns", &alloc);
        if case.has_free() {
            let (free, _) = self.rounds_met(|timing| timing.free_ns);
            rows::add(&at, variant, "free_ns", "ns", &free);
        }
    }
}

fn measure<S: FrameSubject>(
    subject: &S,
    case: &FrameLine,
    load: FrameLoad,
    column: &mut FrameColumn,
) {
    let load = FrameLoad {
        threads: case.threads,
        ..load
    };
    let order = Order::new(case.order).expect("a case's order");
    let timing = match case.kind {
        FrameKind::Bulk(free_order) => bulk(subject, load, order, free_order, false),
        FrameKind::ByCall => bulk(subject, load, order, FreeOrder::Same, true),
        FrameKind::Pair => pair(subject, load, order),
        FrameKind::Low(at_once) => {
            let Low { mean, single } = low_on_memory(subject, load, at_once);
            column.single.add(single).expect("the same kind");
            mean
        }
    };
    column.rounds.push(timing);
    if load.check {
        subject.assert_all_free();
    }
}

fn main() {
    let is = |wanted: &str| std::env::args().any(|arg| arg == wanted);
    let value = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
    let (only, order, threads) = (value("--only"), value("--order"), value("--threads"));
    let (at, subject) = (value("--case"), value("--subject"));
    if is("--list") {
        let cases = CASES.iter().map(|case| {
            let free = if case.has_free() { ", free_ns" } else { "" };
            format!("{}, alloc_ns{free}", case.at())
        });
        return threads::say_all(cases, &VARIANTS, EMPTY);
    }
    if is("--phases") {
        threads::say_phases();
    }
    let is_chosen = |case: &FrameLine| {
        only.as_ref().is_none_or(|only| case.name.starts_with(only))
            && at.as_ref().is_none_or(|at| case.at().starts_with(at))
            && order
                .as_ref()
                .is_none_or(|order| *order == case.order.to_string())
            && threads
                .as_ref()
                .is_none_or(|threads| *threads == case.threads.to_string())
    };
    let quick = is("--quick");
    let (frames, rounds) = if quick { (1 << 16, 2) } else { (1 << 20, 7) };
    let rounds = value("--rounds")
        .and_then(|n| n.parse().ok())
        .unwrap_or(rounds);
    // The slowest pattern of a rival takes a microsecond for each operation.
    let ops = value("--ops").and_then(|n| n.parse().ok());
    let ops = ops.unwrap_or(if quick { 1 << 12 } else { 1 << 17 });
    let ours_only = is("--ours");
    let is_wanted = |variant: &str| match &subject {
        Some(subject) => subject == variant,
        None => variant == VARIANTS[0] || !ours_only && variant != EMPTY,
    };
    println!("{}", machine::description());
    println!(
        "{} MiB of 4 KiB frames, {rounds} rounds, ns for each operation",
        frames >> 8
    );
    let engine = is_wanted(VARIANTS[0]).then(|| FrameEngine::new(frames, 2));
    let buddy = is_wanted(VARIANTS[1]).then(|| RivalBuddy::new(frames));
    let buddy_slab = is_wanted(VARIANTS[2]).then(|| RivalBuddySlab::new(frames));
    let mut columns: Vec<[FrameColumn; 3]> = CASES
        .iter()
        .map(|_| VARIANTS.map(|_| FrameColumn::new()))
        .collect();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for (case, [ours, theirs, others]) in CASES.iter().zip(&mut columns) {
            if !is_chosen(case) {
                continue;
            }
            threads::say_case(&case.at());
            let load = FrameLoad {
                frames,
                threads: 1,
                ops,
                check: round == 0,
            };
            match &engine {
                Some(FrameEngine::Asymmetric(host)) => measure(host, case, load, ours),
                Some(FrameEngine::Symmetric(host)) => measure(host, case, load, ours),
                None => {}
            }
            if let Some(buddy) = &buddy {
                measure(buddy, case, load, theirs);
            }
            if let Some(buddy_slab) = &buddy_slab {
                measure(buddy_slab, case, load, others);
            }
            if is_wanted(EMPTY) {
                let load = FrameLoad {
                    check: false,
                    ..load
                };
                measure(&NoFrames, case, load, &mut FrameColumn::new());
            }
        }
    }
    if let Some(FrameEngine::Symmetric(_)) = &engine {
        println!("without membarrier: each operation of ours has a full barrier");
    }
    print!("{}", table(&columns));
    for (case, columns) in CASES.iter().zip(&columns) {
        for (variant, column) in VARIANTS.iter().zip(columns) {
            column.add_rows(case, variant);
        }
    }
}

fn table(columns: &[[FrameColumn; 3]]) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "\n{:<18}{:>5}{:>8} | {:^23} | {:^23} | {:^23} | {:^23}",
        "", "", "", "framewright, best", "median", "buddy, best (median)", "buddy-slab, the same"
    );
    let _ = writeln!(
        text,
        "{:<18}{:>5}{:>8} | {:>11} {:>11} | {:>11} {:>11} | {:>11} {:>11} | {:>11} {:>11} | target",
        "pattern",
        "order",
        "threads",
        "alloc",
        "free",
        "alloc",
        "free",
        "alloc",
        "free",
        "alloc",
        "free"
    );
    for (case, columns) in CASES.iter().zip(columns) {
        if !columns[0].rounds.is_empty() {
            line(&mut text, case, columns);
        }
    }
    text.push_str("hot pair: the sum of both; 1 % free: the mean of both\n");
    text.push_str("~ the threads never ran together for long enough\n\n");
    for (case, columns) in CASES.iter().zip(columns) {
        for (name, column) in VARIANTS.iter().zip(columns) {
            let single = &column.single;
            if !single.is_empty() {
                let _ = writeln!(
                    text,
                    "{}, {} threads, {name}: single operations with the clock's time: mean {:.0}, \
                     p99 {}, p99.9 {}, max {} ns",
                    case.name,
                    case.threads,
                    single.mean(),
                    single.value_at_quantile(0.99),
                    single.value_at_quantile(0.999),
                    single.max()
                );
            }
        }
    }
    text
}

fn line(text: &mut String, case: &FrameLine, [ours, rivals @ ..]: &[FrameColumn; 3]) {
    let alloc = ours.best_and_median(|timing| timing.alloc_ns);
    let free = ours.best_and_median(|timing| timing.free_ns);
    let has_free = case.has_free();
    let free_text = |ns: f64| {
        if has_free {
            format!("{ns:.1}")
        } else {
            String::new()
        }
    };
    let mark = |met: bool| if met { "" } else { "~" };
    let _ = write!(
        text,
        "{:<18}{:>5}{:>8} | {:>11} {:>11} | {:>11} {:>11} | ",
        case.name,
        case.order,
        case.threads,
        format!("{}{:.1}", mark(alloc.2), alloc.0),
        free_text(free.0),
        format!("{:.1}", alloc.1),
        free_text(free.1)
    );
    for theirs in rivals {
        if theirs.rounds.is_empty() {
            let _ = write!(text, "{:>11} {:>11} | ", "", "");
            continue;
        }
        let alloc = theirs.best_and_median(|timing| timing.alloc_ns);
        let free = theirs.best_and_median(|timing| timing.free_ns);
        let both =
            |(best, median, met): (f64, f64, bool)| format!("{}{best:.0} ({median:.0})", mark(met));
        let free = if has_free { both(free) } else { String::new() };
        let _ = write!(text, "{:>11} {free:>11} | ", both(alloc));
    }
    let verdict = |target: Option<f64>, found: f64| match target {
        Some(target) if found <= target => format!("{target:.0} met"),
        Some(target) => format!("{target:.0} MISSED"),
        None => "-".to_owned(),
    };
    let (alloc, free) = (
        verdict(case.target.0, alloc.0),
        verdict(case.target.1, free.0),
    );
    let _ = match case.target {
        (None, None) => writeln!(text),
        (_, None) => writeln!(text, "{alloc}"),
        _ => writeln!(text, "{alloc} / {free}"),
    };
}
