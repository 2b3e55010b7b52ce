//! What an operation of the engine costs in instructions, beside each rival: by callgrind, split by parts of the engine.
//!
//! # What is counted
//! The benchmarks `frames` and `kv` of `framewright-linux` call a function of no effect at both ends of each phase that they
//! time. callgrind begins a new part there, so a part has all instructions of one timed phase and no others: neither set-up
//! nor shuffling nor checks. Each pattern runs twice, with few operations, and the second time counts, as in the benchmark,
//! where each round but the first one finds what the one before it left. Subjects are those that have times in the
//! benchmark's result file.
//!
//! What is left of the pattern in such a part, its loop, its array and two readings of the clock, is subtracted alike for all:
//! the subject `empty` hands out numbers and does nothing, and what it takes for an operation is taken off every other's.
//!
//! Of the engine a part also has how often a seat of frames left its caches for the pageblocks, a *trip*.
//!
//! Only patterns of one thread are counted. callgrind lets one thread run at a time, so it would count neither a wait nor a
//! line of memory that goes from CPU to CPU.
//!
//! ```text
//!   mod ── the command: builds, runs, writes docs/results/rivals.jsonl
//!    ├── profile ── callgrind's text
//!    ├── groups ── which part of the engine an instruction belongs to
//!    └── table ── the tables of docs/rivals.md
//! ```

mod groups;
mod profile;
mod table;

use crate::kernels::boot;
use crate::machine;
use crate::pages;
use crate::results::{ResultFile, ResultRow, RowSource, RunRecord};
use crate::vmalloc_test::target;
use groups::CodeGroups;
pub(crate) use groups::group_of;
use profile::{CallgrindPart, EventCount};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
pub(crate) use table::{TABLES, table};

/// The command, and the result file.
pub(crate) const NAME: &str = "rivals";

/// The subject that is no allocator.
const EMPTY: &str = "empty";

/// The longest that a subject may take in callgrind, in seconds: the longest takes a minute on an idle machine.
const LONGEST: &str = "7200";

/// A benchmark with rivals.
struct RivalBench {
    /// In `crates/framewright-linux/benches`.
    name: &'static str,
    /// Fewer operations, in as much memory: where little is free the engine does other work.
    size: &'static [&'static str],
    /// The file with its times.
    results: &'static str,
    /// Which of its subjects are the engine.
    ours: &'static [&'static str],
}

static BENCHES: [RivalBench; 2] = [
    RivalBench {
        name: "frames",
        size: &["--ops", "8192"],
        results: "frames",
        ours: &["framewright"],
    },
    RivalBench {
        name: "kv",
        size: &["--quick"],
        results: "objects",
        ours: &["seat", "Heap"],
    },
];

/// The command's options.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct AskedRivals {
    /// How the patterns begin that are counted.
    only: Option<String>,
    is_written: bool,
}

impl AskedRivals {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--only" => {
                    let value = words.next().ok_or("--only: a value is missing")?;
                    asked.only = Some(value);
                }
                "--write" => asked.is_written = true,
                _ => return Err(format!("{NAME}: there is no option `{word}`")),
            }
        }
        match asked.is_written && asked.only.is_some() {
            true => Err("--write writes all patterns: it goes without --only".to_owned()),
            false => Ok(asked),
        }
    }
}

/// A pattern of a benchmark, and what its phases are, by turns.
#[derive(PartialEq, Eq, Debug)]
struct CountedCase {
    name: String,
    /// `alloc`, `free` or `pair`.
    phases: Vec<String>,
}

/// What a benchmark says that it has: the patterns of one thread, and its subjects.
fn listed(said: &str) -> (Vec<CountedCase>, Vec<String>) {
    let (mut cases, mut subjects) = (Vec::new(), Vec::new());
    for line in said.lines() {
        if let Some(subject) = line.strip_prefix("subject ") {
            subjects.push(subject.to_owned());
        } else if let Some(case) = line.strip_prefix("case ") {
            let mut words = case.split(", ");
            let name = words.next().unwrap_or_default().to_owned();
            let phases = words.map(|metric| metric.trim_end_matches("_ns").to_owned());
            let phases = phases.collect();
            if name.ends_with("/1") {
                cases.push(CountedCase { name, phases });
            }
        }
    }
    (cases, subjects)
}

/// What each phase of a pattern counted, by its name: operations and costs.
type PhaseCounts = BTreeMap<String, (u64, CallgrindPart)>;

/// A phase of the last round.
#[derive(PartialEq, Eq, Debug)]
struct SaidPhase {
    /// Its place among all phases of the run.
    nth: usize,
    case: String,
    /// Its place among those of its pattern in that round.
    of_case: usize,
    ops: u64,
}

/// The phases of the last round, in what a benchmark says.
fn said_phases(said: &str) -> Vec<SaidPhase> {
    let mut found: Vec<SaidPhase> = Vec::new();
    let (mut nth, mut of_case, mut case) = (0, 0, "");
    for line in said.lines() {
        if line.starts_with("round ") {
            found.clear();
        } else if let Some(name) = line.strip_prefix("case ") {
            (of_case, case) = (0, name);
        } else if let Some(ops) = line.strip_prefix("phase ").and_then(|ops| ops.parse().ok()) {
            let case = case.to_owned();
            found.push(SaidPhase {
                nth,
                case,
                of_case,
                ops,
            });
            (nth, of_case) = (nth + 1, of_case + 1);
        }
    }
    found
}

/// One subject in all patterns that it runs, by their names. All are in one run: to make a rival anew takes longer than most
/// patterns.
fn count(
    bench: &RivalBench,
    program: &Path,
    cases: &[CountedCase],
    (subject, only): (&str, &str),
) -> Result<BTreeMap<String, PhaseCounts>, String> {
    let error = |why: String| format!("{}, {subject}: {why}", bench.name);
    let folder = target().join(NAME).join(bench.name).join(subject);
    // Parts of an earlier run would be taken for this one's.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|why| error(why.to_string()))?;
    let out = folder.join("part");
    let mut command = Command::new("timeout");
    command.args([LONGEST, "valgrind", "--tool=callgrind", "-q"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    command.args([
        "--dump-instr=yes",
        "--compress-strings=no",
        "--compress-pos=no",
    ]);
    command.args(["--collect-bus=yes", "--collect-systime=yes"]);
    command.arg("--dump-before=*phase_edge*").arg(program);
    command.args(["--bench", "--rounds", "2", "--threads", "1", "--phases"]);
    command.args(["--subject", subject, "--case", only]);
    command.args(bench.size);
    let said = command.stdin(Stdio::null()).output();
    let said = said.map_err(|why| error(why.to_string()))?;
    let text = String::from_utf8_lossy(&said.stderr);
    if !said.status.success() {
        return Err(error(format!("{}\n{text}", said.status)));
    }
    let mut counts: BTreeMap<String, PhaseCounts> = BTreeMap::new();
    for phase in said_phases(&text) {
        let mut cases = cases.iter();
        let Some(case) = cases.find(|case| case.name == phase.case) else {
            continue;
        };
        // The first part is what comes before the first phase, and between two phases lies another one.
        let path = folder.join(format!("part.{}", 2 * phase.nth + 2));
        let part = fs::read_to_string(&path);
        let part = part.map_err(|why| error(format!("{}: {why}", path.display())))?;
        let part = CallgrindPart::parse(&part).map_err(error)?;
        let name = case.phases[phase.of_case % case.phases.len()].clone();
        let of_case = counts.entry(phase.case).or_default();
        let (all_ops, all) = of_case.entry(name).or_default();
        *all_ops += phase.ops;
        all.add(&part);
    }
    let _ = fs::remove_dir_all(folder);
    Ok(counts)
}

/// The programs of the benchmarks.
fn build() -> Result<BTreeMap<String, PathBuf>, String> {
    let mut cargo = boot::cargo();
    cargo.args(["bench", "-p", "framewright-linux", "--no-run", "--quiet"]);
    cargo.arg("--message-format=json-render-diagnostics");
    // By itself the crate asks the kernel where its own code for programs lies, and valgrind does not let it there.
    cargo.args(["--features", "rustix/use-libc-auxv"]);
    for bench in &BENCHES {
        cargo.args(["--bench", bench.name]);
    }
    let said = cargo.stderr(Stdio::inherit()).output();
    let said = said.map_err(|error| format!("cargo: {error}"))?;
    if !said.status.success() {
        return Err(format!("the benchmarks were not built: {}", said.status));
    }
    Ok(programs(&String::from_utf8_lossy(&said.stdout)))
}

/// The programs in what cargo says, by their names.
fn programs(said: &str) -> BTreeMap<String, PathBuf> {
    let lines = said.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let program = line.get("executable")?.as_str()?;
        let name = line.get("target")?.get("name")?.as_str()?;
        Some((name.to_owned(), PathBuf::from(program)))
    });
    lines.collect()
}

/// What a program calls itself, its first line; none where it is not installed.
fn version(program: &str) -> Option<String> {
    let said = Command::new(program).arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    said.lines().next().map(str::to_owned)
}

fn list(program: &Path) -> Result<(Vec<CountedCase>, Vec<String>), String> {
    let said = Command::new(program).arg("--list").output();
    let said = said.map_err(|error| format!("{}: {error}", program.display()))?;
    Ok(listed(&String::from_utf8_lossy(&said.stdout)))
}

/// For an operation, to a hundredth.
fn each(value: u64, ops: u64) -> f64 {
    (value as f64 / ops as f64 * 100.0).round() / 100.0
}

fn row(case: &str, variant: &str, metric: &str, unit: &str, value: f64) -> ResultRow {
    let value = (value * 100.0).round() / 100.0;
    ResultRow::one([case, variant, metric], unit, RowSource::Simulated, value)
}

/// The figures of one subject in one pattern, less those of the pattern itself.
fn rows_of(
    case: &str,
    subject: &str,
    counts: &PhaseCounts,
    empty: &PhaseCounts,
    groups: Option<&CodeGroups>,
) -> Vec<ResultRow> {
    let mut rows = Vec::new();
    for (phase, (ops, part)) in counts {
        let sum = part.sum();
        let pattern = empty.get(phase).filter(|_| subject != EMPTY);
        let (empty_ops, pattern) = match pattern {
            Some((ops, part)) => (*ops, part.sum()),
            None => (1, EventCount::default()),
        };
        for ((kind, unit, value), (.., empty)) in sum.kinds().into_iter().zip(pattern.kinds()) {
            let net = each(value, *ops) - each(empty, empty_ops);
            rows.push(row(case, subject, &format!("{phase}_{kind}"), unit, net));
        }
        let Some(groups) = groups else { continue };
        let trips = each(part.trips, *ops);
        rows.push(row(
            case,
            subject,
            &format!("{phase}_trips"),
            "calls",
            trips,
        ));
        for (group, sum) in groups.split(part) {
            let value = each(sum.instructions, *ops);
            if value >= 0.05 {
                let metric = table::group_metric(phase, group);
                rows.push(row(case, subject, &metric, "instructions", value));
            }
        }
    }
    rows
}

/// All patterns of a benchmark that begin with `only`.
fn rows_in(bench: &RivalBench, program: &Path, only: &str) -> Result<Vec<ResultRow>, String> {
    let (mut cases, mut subjects) = list(program)?;
    cases.retain(|case| case.name.starts_with(only));
    // A count stands beside times: a subject that has none is not compared.
    let times = ResultFile::read(bench.results)?;
    subjects.retain(|name| name == EMPTY || times.rows.iter().any(|row| row.variant == *name));
    if cases.is_empty() {
        return Ok(Vec::new());
    }
    println!("{}: {}", bench.name, subjects.join(", "));
    // Side by side: a count is the same beside anything.
    let counted = thread::scope(|scope| {
        let count = |subject: &str| count(bench, program, &cases, (subject, only));
        let each = subjects.iter();
        let each = each.map(|subject| (subject.as_str(), scope.spawn(move || count(subject))));
        let all: Vec<_> = each.collect();
        let end = all.into_iter();
        let end = end.map(|(subject, thread)| (subject, thread.join().expect("no panic")));
        end.collect::<Vec<_>>()
    });
    let mut counts = BTreeMap::new();
    for (subject, of) in counted {
        counts.insert(subject, of?);
    }
    let parts = bench.ours.iter().filter_map(|ours| counts.get(ours));
    let parts = parts.flat_map(BTreeMap::values).flat_map(BTreeMap::values);
    let parts: Vec<_> = parts.map(|(_, part)| part).collect();
    let groups = CodeGroups::of(program, &parts)?;
    let nothing = PhaseCounts::new();
    let mut rows = Vec::new();
    for CountedCase { name, .. } in &cases {
        let of = |subject: &str| counts.get(subject).and_then(|of| of.get(name));
        let empty = of(EMPTY).unwrap_or(&nothing);
        for subject in &subjects {
            // Some cannot run every pattern.
            if let Some(counts) = of(subject) {
                let is_ours = bench.ours.contains(&subject.as_str());
                let groups = is_ours.then_some(&groups);
                rows.extend(rows_of(name, subject, counts, empty, groups));
            }
        }
    }
    Ok(rows)
}

pub(crate) fn run(asked: &AskedRivals) -> Result<(), String> {
    let Some(valgrind) = version("valgrind") else {
        println!("skipped: there is no valgrind (Debian: apt-get install valgrind)");
        return Ok(());
    };
    if version("addr2line").is_none() {
        println!("skipped: there is no addr2line (Debian: apt-get install binutils)");
        return Ok(());
    }
    let rustc = version("rustc").unwrap_or_else(|| "rustc".to_owned());
    let (commit, date) = (machine::commit(), machine::date());
    let programs = build()?;
    let only = asked.only.as_deref().unwrap_or_default();
    let of = |bench: &'static RivalBench| {
        let program = programs.get(bench.name);
        let program = program.ok_or_else(|| format!("cargo names no program {}", bench.name))?;
        rows_in(bench, program, only)
    };
    let counted = thread::scope(|scope| {
        let each = BENCHES.each_ref();
        let each = each.map(|bench| scope.spawn(move || of(bench)));
        each.map(|thread| thread.join().expect("no panic"))
    });
    let mut rows = Vec::new();
    for of in counted {
        rows.extend(of?);
    }
    let rustc: Vec<&str> = rustc.split(' ').take(2).collect();
    let file = ResultFile {
        run: RunRecord {
            commands: vec![format!("cargo xtask {NAME} --write")],
            commit,
            date,
            with: format!("{valgrind} and {}", rustc.join(" ")),
            runs: 1,
            is_trial: false,
            linux: None,
            beside: None,
        },
        rows,
    };
    print!("{}", table::counts(&file));
    print!("{}", table::groups_of_all(&file));
    if asked.is_written {
        file.write(NAME)?;
        pages::run(false)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let asked = |words: &str| AskedRivals::parse(words.split_whitespace().map(str::to_owned));
        assert_eq!(asked(""), Ok(AskedRivals::default()));
        assert!(asked("--write").is_ok_and(|asked| asked.is_written));
        let one = asked("--only bulk/3/1").unwrap();
        assert_eq!(one.only.as_deref(), Some("bulk/3/1"));
        let refused = |words| asked(words).unwrap_err();
        assert!(refused("--only").contains("a value is missing"));
        assert!(refused("--write --only bulk").contains("goes without"));
        assert!(refused("--olny bulk").contains("`--olny`"));
    }

    #[test]
    fn patterns_of_one_thread_and_subjects_are_listed() {
        let said = "case bulk/3/1, alloc_ns, free_ns\ncase bulk/3/2, alloc_ns, free_ns\n\
                    case kmalloc pair/64/1, pair_ns\nsubject buddy\nsubject empty\n";
        let case = |name: &str, phases: &[&str]| CountedCase {
            name: name.to_owned(),
            phases: phases.iter().map(|phase| (*phase).to_owned()).collect(),
        };
        let (cases, subjects) = listed(said);
        let expected = [
            case("bulk/3/1", &["alloc", "free"]),
            case("kmalloc pair/64/1", &["pair"]),
        ];
        assert_eq!(cases, expected);
        assert_eq!(subjects, ["buddy", EMPTY]);
    }

    #[test]
    fn the_last_round_s_phases_are_counted() {
        let said = "round 1 of 2\ncase bulk/3/1\nphase 64\n==9== phase 7\nphase 128\ncase pair/0/1\nphase 5\n\
                    round 2 of 2\ncase bulk/3/1\nphase 64\nphase 128\ncase pair/0/1\nphase 5\n";
        let phase = |nth, case: &str, of_case, ops| SaidPhase {
            nth,
            case: case.to_owned(),
            of_case,
            ops,
        };
        let expected = [
            phase(3, "bulk/3/1", 0, 64),
            phase(4, "bulk/3/1", 1, 128),
            phase(5, "pair/0/1", 0, 5),
        ];
        assert_eq!(said_phases(said), expected);
    }

    #[test]
    fn programs_are_those_that_cargo_names() {
        let said = "{\"target\":{\"name\":\"kv\"},\"executable\":\"/t/kv-1\"}\n\
                    {\"target\":{\"name\":\"spin\"},\"executable\":null}\n\
                    {\"reason\":\"build-finished\"}\n";
        let expected = BTreeMap::from([("kv".to_owned(), PathBuf::from("/t/kv-1"))]);
        assert_eq!(programs(said), expected);
    }

    #[test]
    fn the_pattern_is_taken_off_each_subject() {
        let part = CallgrindPart::parse(profile::tests::PART).unwrap();
        let counts = |ops| PhaseCounts::from([("pair".to_owned(), (ops, part.clone()))]);
        let rows = |subject| rows_of("p/1", subject, &counts(2), &counts(10), None);
        let value = |rows: &[ResultRow], metric: &str| {
            let row = rows.iter().find(|row| row.metric == metric);
            row.map(|row| row.median)
        };
        let ours = rows("seat");
        assert_eq!(value(&ours, "pair_instructions"), Some(12.0));
        assert_eq!(value(&ours, "pair_locked"), Some(0.8));
        assert_eq!(value(&ours, "pair_system_calls"), Some(0.4));
        assert_eq!(value(&rows(EMPTY), "pair_instructions"), Some(15.0));
    }
}
