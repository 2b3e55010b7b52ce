//! What an operation of the engine costs in instructions, beside each rival: by callgrind, split by parts of the engine.
//!
//! # What is counted
//! The benchmarks `frames` and `kv` of `framewright-linux` call a function of no effect at both ends of each phase that they
//! time. callgrind begins a new part there, so a part has all instructions of one timed phase and no others: neither set-up
//! nor shuffling nor checks. Each pattern runs twice, with few operations, and the second time counts, as in the benchmark,
//! where each round but the first one finds what the one before it left.
//!
//! What is left of the pattern in such a part, its loop, its array and two readings of the clock, is subtracted alike for all:
//! the subject `empty` hands out numbers and does nothing, and what it takes for an operation is taken off every other's.
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
use profile::{CallgrindPart, EventCount};
use serde_json::Value;
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
pub(crate) use table::{TABLES, table};

/// The command, and the result file.
pub(crate) const NAME: &str = "rivals";

/// The subject that is no allocator.
const EMPTY: &str = "empty";

/// The longest that a pattern may take in callgrind, in seconds: the longest takes a tenth on an idle machine.
const LONGEST: &str = "900";

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

const BENCHES: [RivalBench; 2] = [
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

/// What each phase counted, by its name: operations and costs.
type PhaseCounts = BTreeMap<String, (u64, CallgrindPart)>;

/// The operations of all phases, in their order.
fn phase_ops(said: &str) -> Vec<u64> {
    let ops = said.lines().filter_map(|line| line.strip_prefix("phase "));
    ops.filter_map(|ops| ops.parse().ok()).collect()
}

/// One subject in one pattern; none where the subject cannot run it.
fn count(
    bench: &RivalBench,
    program: &Path,
    case: &CountedCase,
    subject: &str,
    folder: &Path,
) -> Result<Option<PhaseCounts>, String> {
    let error = |why: String| format!("{}, {subject}: {why}", case.name);
    // Parts of an earlier run would be taken for this one's.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|why| error(why.to_string()))?;
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
    command.args(["--bench", "--rounds", "2", "--phases"]);
    command.args(["--case", &case.name, "--subject", subject]);
    command.args(bench.size);
    let said = command.stdin(Stdio::null()).output();
    let said = said.map_err(|why| error(why.to_string()))?;
    let text = String::from_utf8_lossy(&said.stderr);
    if !said.status.success() {
        return Err(error(format!("{}\n{text}", said.status)));
    }
    let ops = phase_ops(&text);
    if ops.is_empty() {
        return Ok(None);
    }
    let mut counts = PhaseCounts::new();
    for (nth, ops) in ops.iter().enumerate().skip(ops.len() / 2) {
        // The first part is what comes before the first phase, and between two phases lies another one.
        let path = folder.join(format!("part.{}", 2 * nth + 2));
        let part = fs::read_to_string(&path);
        let part = part.map_err(|why| error(format!("{}: {why}", path.display())))?;
        let part = CallgrindPart::parse(&part).map_err(error)?;
        let name = case.phases[nth % case.phases.len()].clone();
        let (all_ops, all) = counts.entry(name).or_default();
        *all_ops += ops;
        all.add(&part);
    }
    Ok(Some(counts))
}

/// The programs of the benchmarks.
fn build() -> Result<BTreeMap<String, PathBuf>, String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(boot::root());
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
        let pattern = pattern.map(|(ops, part)| (*ops, part.sum()));
        let kinds: [(&str, &str, fn(&EventCount) -> u64); 3] = [
            ("instructions", "instructions", |sum| sum.instructions),
            ("locked", "instructions", |sum| sum.locked),
            ("system_calls", "calls", |sum| sum.system_calls),
        ];
        for (kind, unit, of) in kinds {
            let own = pattern.map_or(0.0, |(ops, sum)| each(of(&sum), ops));
            let net = each(of(&sum), *ops) - own;
            rows.push(row(case, subject, &format!("{phase}_{kind}"), unit, net));
        }
        let Some(groups) = groups else { continue };
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

/// All patterns of a benchmark.
fn rows_in(
    bench: &RivalBench,
    program: &Path,
    only: Option<&str>,
) -> Result<Vec<ResultRow>, String> {
    let folder = target().join(NAME);
    let (cases, subjects) = list(program)?;
    let mut rows = Vec::new();
    for case in cases {
        if only.is_some_and(|only| !case.name.starts_with(only)) {
            continue;
        }
        println!("{}", case.name);
        let Some(empty) = count(bench, program, &case, EMPTY, &folder)? else {
            return Err(format!("{}: it has no phases", case.name));
        };
        for subject in &subjects {
            // What is no allocator is no line of the table, but its figures stand in the file.
            let counts = match subject == EMPTY {
                true => Some(empty.clone()),
                false => count(bench, program, &case, subject, &folder)?,
            };
            let Some(counts) = counts else {
                println!("{}: {subject} does not run it", case.name);
                continue;
            };
            let is_ours = bench.ours.contains(&subject.as_str());
            let groups = match is_ours {
                true => {
                    let parts: Vec<_> = counts.values().map(|(_, part)| part).collect();
                    Some(CodeGroups::of(program, &parts)?)
                }
                false => None,
            };
            let (name, groups) = (&case.name, groups.as_ref());
            rows.extend(rows_of(name, subject, &counts, &empty, groups));
        }
    }
    let _ = fs::remove_dir_all(folder);
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
    let mut rows = Vec::new();
    for bench in &BENCHES {
        let program = programs.get(bench.name);
        let program = program.ok_or_else(|| format!("cargo names no program {}", bench.name))?;
        rows.extend(rows_in(bench, program, asked.only.as_deref())?);
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
        let said = "round 1 of 2\nphase 64\n==9== phase 7\nphase 128\n";
        assert_eq!(phase_ops(said), [64, 128]);
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
