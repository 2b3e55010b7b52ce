//! What kmalloc and kvmalloc cost, beside `talc` and `buddy_system_allocator` behind a lock, `buddy-slab-allocator` with
//! slabs for each CPU, and the system's malloc, in one run.
//!
//! ```sh
//! cargo bench -p framewright-linux --bench kv            # about a minute
//! cargo bench -p framewright-linux --bench kv -- --quick # some seconds
//! ```
//!
//! `--only NAME` and `--threads N` choose the patterns with names that start so, and those of that
//! number of threads; `--ours` leaves the rivals out; `--rounds N` sets how often all is repeated;
//! `--json FILE` appends the figures there, one a line. `--list`, `--case NAME`, `--subject NAME` and `--phases` count
//! instructions, as in the benchmark `frames`.
//!
//! Every figure is nanoseconds for an allocation and a free together, of one thread, the mean over
//! the threads, which start together on CPUs of their own. Rounds go through all subjects before
//! the next begins; printed are the best round and the median one. A target is met if the best
//! round meets it: on a machine with other work the best round says most about the code. No
//! target fails the run.
//!
//! `seat` is a thread's seat, handed in, as a kernel has it for each CPU; `Heap` the same as a
//! global allocator, which finds the thread's seat itself. `buddy-slab` finds its thread's slabs
//! itself, too: each operation looks up a thread-local number and calls through a `dyn`. So its
//! peer is `Heap`, not `seat`, which pays for neither. The rivals have as much memory. They
//! have no figure where memory is fragmented, because they only serve contiguous memory. The
//! system's malloc takes pages from the kernel, whose memory is not fragmented.

#[path = "../frames/machine.rs"]
mod machine;
mod pattern;
#[path = "../frames/rows.rs"]
mod rows;
mod subject;
#[path = "../frames/threads.rs"]
mod threads;

use framewright::stats::KvStats;
use pattern::{KvLoad, KvPattern, KvTiming, fill, run};
use std::alloc::System;
use std::fmt::Write;
use subject::{Global, KvEngine, KvSubject, NoObjects};

/// How much of each other's time threads may miss before a round says nothing about contention.
const OVERLAP_MIN: f64 = 0.8;

/// How much longer two threads may take than one.
const SLOWER_MAX: f64 = 1.1;

const SUBJECTS: [&str; 6] = ["seat", "Heap", "talc", "buddy", "buddy-slab", "malloc"];

/// How many of these are the engine.
const OURS: usize = 2;

/// The subject that is no allocator.
const EMPTY: &str = "empty";

/// One line of the table.
struct KvLine {
    name: &'static str,
    kind: KvPattern,
    bytes: usize,
    any: bool,
    fragmented: bool,
    threads: usize,
    /// Nanoseconds; of two threads, those of one and a tenth.
    target: Option<f64>,
}

const fn case(name: &'static str, kind: KvPattern, bytes: usize, threads: usize) -> KvLine {
    KvLine {
        name,
        kind,
        bytes,
        any: false,
        fragmented: false,
        threads,
        target: None,
    }
}

impl KvLine {
    /// As the file behind `--json` names it.
    fn at(&self) -> String {
        let name = self.name.replace(',', "");
        format!("{name}/{}/{}", self.bytes, self.threads)
    }

    const fn any(mut self) -> Self {
        self.any = true;
        self
    }

    const fn fragmented(mut self) -> Self {
        self.fragmented = true;
        self.any()
    }

    const fn within(mut self, ns: f64) -> Self {
        self.target = Some(ns);
        self
    }
}

const PAIR: KvPattern = KvPattern::Pair;
const BATCH: KvPattern = KvPattern::Batch(1000);
const LONG: usize = 64 << 10;

const CASES: [KvLine; 16] = [
    case("kmalloc, pair", PAIR, 64, 1).within(20.0),
    case("kmalloc, pair", PAIR, 64, 2).within(0.0),
    case("kmalloc, pair", PAIR, 4096, 1).within(30.0),
    case("kmalloc, pair", PAIR, 4096, 2).within(0.0),
    case("kmalloc, 1000", BATCH, 64, 1),
    case("kmalloc, 1000", BATCH, 64, 2),
    case("kmalloc, 1000", BATCH, 4096, 1),
    case("kmalloc, 1000", BATCH, 4096, 2),
    case("16 to, 1000 live", KvPattern::Mixed(1000), 2048, 1),
    case("16 to, 1000 live", KvPattern::Mixed(1000), 2048, 2),
    case("one frees other's", KvPattern::HandOver, 64, 2),
    case("one frees other's", KvPattern::HandOver, 4096, 2),
    case("kvmalloc, 8 live", KvPattern::Churn(8), LONG, 1).any(),
    case("kvmalloc, 8 live", KvPattern::Churn(8), LONG, 2).any(),
    case("spilled, 8 live", KvPattern::Churn(8), LONG, 1).fragmented(),
    case("spilled, 8 live", KvPattern::Churn(8), LONG, 2).fragmented(),
];

type KvColumn = Vec<KvTiming>;

/// Every round in which the threads met, ascending, or all rounds if they met in none; and whether they did.
fn rounds_met(column: &KvColumn) -> (Vec<f64>, bool) {
    let met = |timing: &&KvTiming| timing.overlap >= OVERLAP_MIN;
    let is_met = column.iter().any(|timing| met(&timing));
    let rounds = column.iter().filter(|timing| !is_met || met(timing));
    let mut ns: Vec<f64> = rounds.map(|timing| timing.ns).collect();
    ns.sort_by(f64::total_cmp);
    (ns, is_met)
}

/// The best round and the median one.
fn best_and_median(column: &KvColumn) -> (f64, f64, bool) {
    let (ns, is_met) = rounds_met(column);
    (ns[0], ns[ns.len() / 2], is_met)
}

/// An engine, and the same as a global allocator.
struct Ours {
    engine: KvEngine,
    heap: Option<Global<framewright_linux::Heap>>,
}

impl Ours {
    fn new(frames: u64, fragmented: bool) -> Self {
        let ours = Self {
            engine: KvEngine::new(frames, 2),
            heap: subject::heap(frames),
        };
        match &ours.engine {
            KvEngine::Asymmetric(host) => fill(host, |_| true, fragmented),
            KvEngine::Symmetric(host) => fill(host, |_| true, fragmented),
        }
        if let Some(heap) = &ours.heap {
            let is_own = |at| heap.0.contains(std::ptr::without_provenance(at));
            fill(heap, is_own, fragmented);
        }
        ours
    }

    fn run(&self, load: KvLoad, columns: &mut [KvColumn; 6], is_wanted: impl Fn(&str) -> bool) {
        if is_wanted(SUBJECTS[0]) {
            columns[0].push(match &self.engine {
                KvEngine::Asymmetric(host) => run(host, load),
                KvEngine::Symmetric(host) => run(host, load),
            });
        }
        if let Some(heap) = self.heap.as_ref().filter(|_| is_wanted(SUBJECTS[1])) {
            columns[1].push(run(heap, load));
        }
    }

    fn stats(&self) -> KvStats {
        match &self.engine {
            KvEngine::Asymmetric(host) => host.kv().stats(),
            KvEngine::Symmetric(host) => host.kv().stats(),
        }
    }

    fn verify(&self) {
        match &self.engine {
            KvEngine::Asymmetric(host) => host.verify(),
            KvEngine::Symmetric(host) => host.verify(),
        }
    }
}

fn main() {
    // `cargo test --benches` runs this too, to see that it works.
    let is = |wanted: &str| std::env::args().any(|arg| arg == wanted);
    let value = |name: &str| std::env::args().skip_while(|arg| arg != name).nth(1);
    let (only, threads) = (value("--only"), value("--threads"));
    let (at, subject) = (value("--case"), value("--subject"));
    if is("--list") {
        let cases = CASES.iter().map(|case| format!("{}, pair_ns", case.at()));
        return threads::say_all(cases, &SUBJECTS, EMPTY);
    }
    if is("--phases") {
        threads::say_phases();
    }
    let ours_only = is("--ours");
    let is_wanted = |name: &str| match &subject {
        Some(subject) => subject == name,
        None => SUBJECTS[..OURS].contains(&name) || !ours_only && name != EMPTY,
    };
    let is_chosen = |case: &KvLine| {
        only.as_ref().is_none_or(|only| case.name.starts_with(only))
            && at.as_ref().is_none_or(|at| case.at().starts_with(at))
            && threads
                .as_ref()
                .is_none_or(|threads| *threads == case.threads.to_string())
    };
    let quick = is("--quick") || !is("--bench");
    let rounds = value("--rounds").and_then(|n| n.parse().ok());
    let rounds: usize = rounds.unwrap_or(if quick { 2 } else { 7 });
    let pairs = if quick { 1 << 12 } else { 1 << 18 };
    let frames = 1 << 15;
    println!("{}", machine::description());
    println!(
        "{} MiB each, {rounds} rounds, ns for an allocation and a free",
        frames >> 8
    );
    let is_ours_wanted = SUBJECTS[..OURS].iter().any(|name| is_wanted(name));
    let ours = is_ours_wanted.then(|| [Ours::new(frames, false), Ours::new(frames / 4, true)]);
    let before = ours.as_ref().map(|[_, scarce]| scarce.stats());
    let bytes = frames as usize * 4096;
    let talc = is_wanted(SUBJECTS[2]).then(|| subject::talc(bytes));
    let buddy = is_wanted(SUBJECTS[3]).then(|| subject::buddy(bytes));
    let buddy_slab = is_wanted(SUBJECTS[4]).then(|| subject::buddy_slab(bytes));
    let mut columns: Vec<[KvColumn; 6]> = CASES.iter().map(|_| Default::default()).collect();
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for (case, columns) in CASES.iter().zip(&mut columns) {
            if !is_chosen(case) {
                continue;
            }
            threads::say_case(&case.at());
            let load = KvLoad {
                kind: case.kind,
                bytes: case.bytes,
                any: case.any,
                threads: case.threads,
                // Some take a microsecond.
                pairs: if case.any { pairs / 8 } else { pairs },
            };
            if let Some(ours) = &ours {
                ours[usize::from(case.fragmented)].run(load, columns, is_wanted);
            }
            if !case.fragmented {
                let [_, _, of_talc, of_buddy, of_buddy_slab, _] = columns;
                of_talc.extend(talc.as_ref().map(|talc| run(talc, load)));
                of_buddy.extend(buddy.as_ref().map(|buddy| run(buddy, load)));
                of_buddy_slab.extend(buddy_slab.as_ref().map(|slab| run(slab, load)));
            }
            if is_wanted(SUBJECTS[5]) {
                columns[5].push(run(&Global(System), load));
            }
            if is_wanted(EMPTY) {
                run(&NoObjects::default(), load);
            }
        }
    }
    if let Some(ours) = &ours {
        ours.iter().for_each(Ours::verify);
        if let KvEngine::Symmetric(_) = &ours[0].engine {
            println!("without membarrier: each operation of ours has a full barrier, and no Heap");
        }
    }
    print!("{}", table(&columns));
    for (case, columns) in CASES.iter().zip(&columns) {
        let at = case.at();
        for (name, column) in SUBJECTS.iter().zip(columns) {
            rows::add(&at, name, "pair_ns", "ns", &rounds_met(column).0);
        }
    }
    if let (Some([_, scarce]), Some(before)) = (&ours, before) {
        let after = scarce.stats();
        println!(
            "where memory is fragmented: {} objects mapped, {} side by side, {} waits",
            after.spills - before.spills,
            after.run_allocs - before.run_allocs,
            after.compact_stall + after.allocstall
        );
    }
}

fn table(columns: &[[KvColumn; 6]]) -> String {
    let mut text = String::new();
    let _ = write!(text, "\n{:<18}{:>6} {:>7} |", "pattern", "bytes", "threads");
    for name in SUBJECTS {
        let _ = write!(text, "{name:>14} |");
    }
    text.push_str(" fastest | target\n");
    // What one thread took in the line before.
    let mut one = None;
    for (case, columns) in CASES.iter().zip(columns) {
        if columns[0].is_empty() {
            one = None;
            continue;
        }
        let _ = write!(
            text,
            "{:<18}{:>6} {:>7} |",
            case.name, case.bytes, case.threads
        );
        let mut fastest: Option<(f64, &str)> = None;
        for (name, column) in SUBJECTS.iter().zip(columns) {
            if column.is_empty() {
                let _ = write!(text, "{:>14} |", "-");
                continue;
            }
            let (best, median, met) = best_and_median(column);
            let mark = if met { "" } else { "~" };
            let _ = write!(text, "{:>14} |", format!("{mark}{best:.1} ({median:.1})"));
            if fastest.is_none_or(|(ns, _)| best < ns) {
                fastest = Some((best, name));
            }
        }
        let _ = write!(text, " {:<7} |", fastest.map_or("", |(_, name)| name));
        let found = best_and_median(&columns[0]).0;
        let target = match case.target {
            Some(_) if case.threads > 1 => one.map(|ns: f64| ns * SLOWER_MAX),
            target => target,
        };
        let _ = match target {
            Some(ns) if found <= ns => writeln!(text, " {ns:.1} met"),
            Some(ns) => writeln!(text, " {ns:.1} MISSED"),
            None => writeln!(text, " -"),
        };
        one = (case.threads == 1).then_some(found);
    }
    text.push_str(
        "best round (median); the target is the seat's, for two threads one's and a tenth\n",
    );
    text.push_str("~ the threads never ran together for long enough\n");
    text
}
