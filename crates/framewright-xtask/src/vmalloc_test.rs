//! Linux's own test of its allocator of address space, over that allocator and over the libraries for C: one table.
//!
//! `framewright-checks test-vmalloc` makes the programs. Each test runs in a process of its own, in each round over every
//! subject, so that what else the machine does falls on all alike.

use crate::kernels::boot;
use crate::machine::{self, FOREIGN_MAX, ForeignLoad, ForeignWatch};
use crate::number_in;
use crate::pages::{self, number};
use crate::results::{self, ResultFile, ResultRow, RowSource, RunRecord, Surroundings};
use std::env;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// The result file, and the table.
pub(crate) const NAME: &str = "test-vmalloc";
const PAGE: &str = "docs/linux-test.md";

/// What the page says before the first table.
const NO_TABLE: &str = "No table was written yet: it takes a quiet machine.";

/// What the test runs over.
struct Subject {
    variant: &'static str,
    program: &'static str,
    is_kept: bool,
    /// Where each mapping is a system call, this many times fewer loops.
    fewer_loops: u64,
}

const LINUX: &str = "linux-6.12";
/// The same page tables as Linux: rows of these are compared with Linux's.
const COMPARED: [&str; 2] = ["framewright", "framewright-kept"];

const SUBJECTS: [Subject; 5] = [
    subject(LINUX, "linux", false, 1),
    subject(COMPARED[0], "kernel", false, 1),
    subject(COMPARED[1], "kernel", true, 1),
    subject("process", "process", false, 20),
    subject("process-kept", "process", true, 20),
];

const fn subject(
    variant: &'static str,
    program: &'static str,
    is_kept: bool,
    fewer_loops: u64,
) -> Subject {
    Subject {
        variant,
        program,
        is_kept,
        fewer_loops,
    }
}

/// A test, by its bit in the test's mask.
struct VmallocTest {
    bit: u32,
    name: &'static str,
    what: &'static str,
    /// How often a worker executes all of it in a row.
    repeats: u64,
}

impl VmallocTest {
    /// Its rows' case for so many workers.
    fn case(&self, workers: u64) -> String {
        let repeated = if self.repeats == 1 { "" } else { "_repeated" };
        format!("{}{repeated}/{workers}", self.name)
    }
}

const fn test(bit: u32, name: &'static str, what: &'static str) -> VmallocTest {
    VmallocTest {
        bit,
        name,
        what,
        repeats: 1,
    }
}

const TESTS: [VmallocTest; 12] = [
    test(0, "fix_size_alloc", "a page"),
    test(
        1,
        "full_fit_alloc",
        "a page among 16,384 areas, with set-up",
    ),
    test(
        2,
        "long_busy_list_alloc",
        "100 pages and one among 15,000 areas, with set-up",
    ),
    test(3, "random_size_alloc", "1 to 100 pages"),
    test(4, "fix_align_alloc", "5 pages, zeroed, aligned to 32 KiB"),
    test(
        5,
        "random_size_align_alloc",
        "1 to 10 pages, zeroed, aligned up to 4 MiB",
    ),
    test(
        MUST_FAIL,
        "align_shift_alloc",
        "one page at every alignment, which must fail: all of it",
    ),
    VmallocTest {
        repeats: 1000,
        ..test(
            MUST_FAIL,
            "align_shift_alloc",
            "the same 1,000 times in a row: each",
        )
    },
    test(PERCPU, "pcpu_alloc", "an object of each CPU, up to 1 KiB"),
    test(8, "kvfree_rcu_1_arg_vmalloc", "a page that is freed later"),
    test(9, "kvfree_rcu_2_arg_vmalloc", "the same"),
    test(10, "vm_map_ram", "a frame, mapped and unmapped"),
];

/// Alignments go up until no address has one.
const MUST_FAIL: u32 = 6;
/// The test of memory of each CPU, which the library for kernels alone has, and its objects.
const PERCPU: u32 = 7;
const PERCPU_OBJECTS: u64 = 35_000;

/// Whether the test runs over a subject.
fn has(subject: &Subject, test: &VmallocTest) -> bool {
    test.bit != PERCPU || COMPARED.contains(&subject.variant)
}

/// Before a row of figures that stay, the machine is watched for so long.
const PAUSE: Duration = Duration::from_millis(500);
/// So often may it do something else then, or beside a row: some ten minutes or more.
const DISTURBED_MAX: u64 = 1500;

/// A worker for each CPU of the subjects, at most.
const WORKERS: [u64; 2] = [1, 2];

pub(crate) struct AskedVmallocTest {
    loops: u64,
    rounds: u64,
    is_as_built: bool,
    is_written: bool,
}

impl AskedVmallocTest {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            loops: 100_000,
            rounds: 7,
            is_as_built: false,
            is_written: false,
        };
        let mut is_default = true;
        while let Some(word) = words.next() {
            let mut count = || {
                is_default = false;
                number_in(&word, &words.next().unwrap_or_default(), 1..=10_000_000)
            };
            match word.as_str() {
                "--loops" => asked.loops = count()?,
                "--rounds" => asked.rounds = count()?,
                "--as-built" => asked.is_as_built = true,
                "--write" => asked.is_written = true,
                _ => return Err(format!("test-vmalloc: there is no option `{word}`")),
            }
        }
        if asked.is_written && !is_default {
            return Err(
                "--write writes figures of the usual size: it goes without --loops and --rounds"
                    .to_owned(),
            );
        }
        Ok(asked)
    }
}

/// What one process said of its second run.
#[derive(PartialEq, Debug, Default)]
struct WorkersSaid {
    /// Of the slower worker.
    microseconds: f64,
    failed: u64,
    /// Requests that got nothing, whether or not the test looks.
    refused: u64,
}

impl WorkersSaid {
    fn parse(text: &str, test: &VmallocTest) -> Result<Self, String> {
        let name = test.name;
        let (_, counted) = text.split_once("run 1\n").ok_or("it has no second run")?;
        let mut said = Self::default();
        let (mut workers, mut has_end) = (0, false);
        for line in counted.lines() {
            if let Some(refused) = line.strip_prefix("refused ") {
                said.refused = refused.parse().map_err(|_| line.to_owned())?;
                has_end = true;
            }
            // The averages are whole microseconds, and these are nanoseconds.
            if test.repeats > 1
                && let Some((_, all)) = line.split_once("=")
                && let Some(all) = all.strip_suffix(" cycles")
            {
                let all: f64 = all.parse().map_err(|_| line.to_owned())?;
                said.microseconds = said.microseconds.max(all / 1000.0 / test.repeats as f64);
            }
            let Some(rest) = line.strip_prefix(&format!("Summary: {name}_test ")) else {
                continue;
            };
            let words: Vec<&str> = rest.split_whitespace().collect();
            let behind = |word: &str| -> Result<f64, String> {
                let place = words.iter().position(|other| *other == word);
                let value = place.and_then(|place| words.get(place + 1)?.parse().ok());
                value.ok_or_else(|| format!("{line}: no number behind {word}"))
            };
            if test.repeats == 1 {
                said.microseconds = said.microseconds.max(behind("avg:")?);
            }
            // A count of one test in one run.
            said.failed += u64::from(behind("failed:")? > 0.0);
            workers += 1;
        }
        match (workers, has_end) {
            (0, _) => Err(format!("it says nothing of {name}")),
            (_, false) => Err("it did not end".to_owned()),
            _ => Ok(said),
        }
    }
}

pub(crate) fn run(asked: &AskedVmallocTest) -> Result<(), String> {
    let Some(version) = programs(asked.is_as_built)? else {
        return Ok(());
    };
    let (commit, date) = (machine::commit(), machine::date());
    let load_before = machine::load_average();
    let start = Instant::now();
    let (mut worst, mut disturbed) = (ForeignLoad::default(), 0);
    let mut rounds = Vec::new();
    for nth in 0..asked.rounds {
        rounds.push(round(asked, nth, &mut worst, &mut disturbed)?);
        let seconds = start.elapsed().as_secs();
        println!("round {} of {}: {seconds} s", nth + 1, asked.rounds);
    }
    let file = ResultFile {
        run: RunRecord {
            commands: vec![format!("cargo xtask {NAME} --write")],
            commit,
            date,
            with: format!("Linux {version}"),
            runs: asked.rounds,
            is_trial: false,
            linux: None,
            beside: Some(Surroundings::since(start, load_before, worst)),
        },
        rows: results::gather(&rounds),
    };
    println!("{}", table(&file));
    check(&file)?;
    if asked.is_written {
        file.write(NAME)?;
        let page = boot::root().join(PAGE);
        let text = std::fs::read_to_string(&page).map_err(|error| format!("{PAGE}: {error}"))?;
        boot::write(&page, &with_place(&text))?;
        pages::run(false)?;
    }
    Ok(())
}

/// The page with a place for the table.
fn with_place(page: &str) -> String {
    page.replace(NO_TABLE, &format!("<!-- table: {NAME} -->\n{}", pages::END))
}

pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| boot::root().join("target"), PathBuf::from)
}

/// Makes the programs, and says of which Linux. None, and it is said, where its source is not there.
fn programs(is_as_built: bool) -> Result<Option<String>, String> {
    let version_file = target().join(NAME).join("version");
    let read = || {
        std::fs::read_to_string(&version_file)
            .map(|text| Some(text.trim().to_owned()))
            .map_err(|error| format!("{}: {error}", version_file.display()))
    };
    if is_as_built {
        return read();
    }
    let mut cargo = boot::cargo_run("framewright-checks");
    cargo.args(["--", NAME]);
    let said = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    let text = String::from_utf8_lossy(&said.stdout);
    if !said.status.success() {
        return Err(format!(
            "the programs were not made: {}\n{text}{}",
            said.status,
            String::from_utf8_lossy(&said.stderr)
        ));
    }
    print!("{text}");
    if text.starts_with("skipped") {
        return Ok(None);
    }
    read()
}

/// Every test over every subject, once. Figures that stay are taken where the machine does little else; it waits for that,
/// but not for ever.
fn round(
    asked: &AskedVmallocTest,
    nth: u64,
    worst: &mut ForeignLoad,
    disturbed: &mut u64,
) -> Result<Vec<ResultRow>, String> {
    let mut rows = Vec::new();
    for (test, workers) in TESTS
        .iter()
        .flat_map(|test| WORKERS.map(|workers| (test, workers)))
    {
        loop {
            if asked.is_written {
                let watch = ForeignWatch::begin();
                thread::sleep(PAUSE);
                if watch.end().foreign > FOREIGN_MAX {
                    disturbance(disturbed)?;
                    continue;
                }
            }
            let watch = ForeignWatch::begin();
            let taken = row(asked, test, workers, nth)?;
            let load = watch.end();
            if asked.is_written && load.foreign > FOREIGN_MAX {
                disturbance(disturbed)?;
                continue;
            }
            if load.foreign > worst.foreign {
                *worst = load;
            }
            rows.extend(taken);
            break;
        }
    }
    Ok(rows)
}

/// Counts a moment at which others had the CPUs. An error if there were too many.
fn disturbance(disturbed: &mut u64) -> Result<(), String> {
    *disturbed += 1;
    match *disturbed > DISTURBED_MAX {
        true => Err("the machine does too much else: nothing is written".to_owned()),
        false => Ok(()),
    }
}

/// A test by this many workers over every subject.
fn row(
    asked: &AskedVmallocTest,
    test: &VmallocTest,
    workers: u64,
    nth: u64,
) -> Result<Vec<ResultRow>, String> {
    let mut rows = Vec::new();
    for subject in SUBJECTS.iter().filter(|subject| has(subject, test)) {
        let loops = (asked.loops / subject.fewer_loops).max(1);
        let said = one(test, workers, subject, loops, nth)?;
        let per = match test.bit {
            MUST_FAIL => 1,
            PERCPU => PERCPU_OBJECTS,
            _ => loops,
        };
        let figures = [
            ("loop_ns", "ns", said.microseconds * 1000.0 / per as f64),
            ("failed", "count", said.failed as f64),
            ("refused", "count", said.refused as f64),
        ];
        let case = test.case(workers);
        rows.extend(figures.map(|(metric, unit, value)| {
            let names = [&case, subject.variant, metric];
            ResultRow::one(names, unit, RowSource::Measured, value)
        }));
    }
    Ok(rows)
}

fn one(
    test: &VmallocTest,
    workers: u64,
    subject: &Subject,
    loops: u64,
    seed: u64,
) -> Result<WorkersSaid, String> {
    let program = target().join(NAME).join(subject.program);
    let error = |why: String| {
        format!(
            "{}, {} workers, {}: {why}",
            test.name, workers, subject.variant
        )
    };
    let mut command = Command::new("timeout");
    command.arg("300").arg(program).args([
        format!("run_test_mask={}", 1 << test.bit),
        format!("nr_threads={workers}"),
        format!("test_loop_count={loops}"),
        format!("test_repeat_count={}", test.repeats),
        format!("keeps={}", u8::from(subject.is_kept)),
        format!("seed={}", seed + 1),
    ]);
    let said = command.output().map_err(|why| error(why.to_string()))?;
    let text = String::from_utf8_lossy(&said.stdout);
    if !said.status.success() {
        return Err(error(format!(
            "{}\n{text}{}",
            said.status,
            String::from_utf8_lossy(&said.stderr)
        )));
    }
    WorkersSaid::parse(&text, test).map_err(error)
}

/// Every test passes, and the one that must fail fails. In a process the operating system's limit of mappings may refuse
/// an area, and the table says so.
fn check(file: &ResultFile) -> Result<(), String> {
    let failed = file.rows.iter().filter(|row| row.metric == "failed");
    let wrong = failed.filter(|row| {
        let (name, workers) = row.case.split_once('/').unwrap_or((&row.case, ""));
        let name = name.trim_end_matches("_repeated");
        let must = TESTS
            .iter()
            .any(|test| test.name == name && test.bit == MUST_FAIL);
        let expected: f64 = if must {
            workers.parse().unwrap_or(0.0)
        } else {
            0.0
        };
        let refused = file.find(&row.case, &row.variant, "refused");
        let is_limit =
            row.variant.starts_with("process") && refused.is_some_and(|row| row.max > 0.0);
        (row.min != expected || row.max != expected) && (must || !is_limit)
    });
    let wrong: Vec<String> = wrong
        .map(|row| {
            format!(
                "{}, {}: failed {} to {}",
                row.case, row.variant, row.min, row.max
            )
        })
        .collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "tests did not end as they must:\n{}",
            wrong.join("\n")
        )),
    }
}

/// The table of the page.
pub(crate) fn table(file: &ResultFile) -> String {
    let mut out = "| test | workers | Linux 6.12 | strict | kept | in a process, strict | in a process, kept |\n\
                   |---|---|---|---|---|---|---|\n"
        .to_owned();
    let mut slower = Vec::new();
    for test in &TESTS {
        for workers in WORKERS {
            let case = test.case(workers);
            let linux = file.find(&case, LINUX, "loop_ns").map(|row| row.median);
            // Writing into a string cannot fail.
            let _ = write!(out, "| `{}`: {} | {workers} |", test.name, test.what);
            for subject in &SUBJECTS {
                let Some(row) = file.find(&case, subject.variant, "loop_ns") else {
                    out += if has(subject, test) {
                        " - |"
                    } else {
                        " cannot run |"
                    };
                    continue;
                };
                let mut shown = number(row.median);
                if COMPARED.contains(&subject.variant)
                    && let Some(linux) = linux
                    && row.median > linux
                {
                    shown = format!("**{shown}**");
                    let mode = if subject.is_kept { "kept" } else { "strict" };
                    slower.push(format!(
                        "`{}` ({workers}, {mode}: {:.2})",
                        case.split('/').next().unwrap_or(test.name),
                        row.median / linux
                    ));
                }
                let _ = write!(out, " {shown} ({} to {})", number(row.min), number(row.max));
                let count = |metric| {
                    file.find(&case, subject.variant, metric)
                        .map_or(0.0, |row| row.max)
                };
                if test.bit != MUST_FAIL && count("failed") > 0.0 {
                    let _ = write!(out, ", FAILED by {}", count("failed"));
                }
                if test.bit != MUST_FAIL && count("refused") > 0.0 {
                    let _ = write!(out, ", {} areas refused", number(count("refused")));
                }
                out += " |";
            }
            out.push('\n');
        }
    }
    let slower = if slower.is_empty() {
        "nothing".to_owned()
    } else {
        slower.join(", ")
    };
    let _ = writeln!(
        out,
        "\nSlower than Linux, by the ratio of medians: {slower}."
    );
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<AskedVmallocTest, String> {
        AskedVmallocTest::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let usual = asked("").ok().unwrap();
        assert_eq!(
            (usual.loops, usual.rounds, usual.is_written),
            (100_000, 7, false)
        );
        assert_eq!(
            asked("--loops 50 --rounds 2")
                .ok()
                .map(|a| (a.loops, a.rounds)),
            Some((50, 2))
        );
        let refused = |words| asked(words).err().unwrap_or_default();
        assert!(refused("--loops 0").contains("expected 1 to"));
        assert!(refused("--rounds").contains("expected 1 to"));
        assert!(refused("--write --rounds 1").contains("goes without"));
        assert!(refused("--lops 1").contains("`--lops`"));
    }

    fn file(linux: f64, ours: f64, failed: f64) -> ResultFile {
        let row = |case: &str, variant: &str, metric: &str, value: f64| {
            ResultRow::one([case, variant, metric], "ns", RowSource::Measured, value)
        };
        ResultFile {
            run: crate::results::tests::run_record(0.0),
            rows: vec![
                row("fix_size_alloc/1", LINUX, "loop_ns", linux),
                row("fix_size_alloc/1", COMPARED[0], "loop_ns", ours),
                row("fix_size_alloc/1", COMPARED[0], "failed", failed),
                row("align_shift_alloc/2", COMPARED[0], "failed", 2.0),
                row("full_fit_alloc/1", "process", "loop_ns", 9.0),
                row("full_fit_alloc/1", "process", "failed", 1.0),
                row("full_fit_alloc/1", "process", "refused", 7.0),
            ],
        }
    }

    #[test]
    fn the_page_has_one_place_for_the_table() {
        let page = std::fs::read_to_string(boot::root().join(PAGE)).unwrap();
        let page = with_place(&page);
        assert_eq!(
            page.matches(&format!("\n<!-- table: {NAME} -->\n")).count(),
            1
        );
        // It is filled, and stays as it is from then on.
        assert_eq!(with_place(&page), page);
    }

    #[test]
    fn a_row_that_loses_is_bold_and_named() {
        let lost = table(&file(100.0, 150.0, 0.0));
        assert!(
            lost.contains("| 1 | 100 (100 to 100) | **150** (150 to 150) | - |"),
            "{lost}"
        );
        assert!(
            lost.contains("`fix_size_alloc` (1, strict: 1.50)"),
            "{lost}"
        );
        assert!(
            lost.contains("9 (9 to 9), FAILED by 1, 7 areas refused"),
            "{lost}"
        );
        let won = table(&file(150.0, 100.0, 0.0));
        assert!(won.contains("by the ratio of medians: nothing."), "{won}");
    }

    #[test]
    fn a_test_that_ends_as_it_must_not_is_an_error() {
        assert_eq!(check(&file(1.0, 1.0, 0.0)), Ok(()));
        let wrong = check(&file(1.0, 1.0, 1.0)).unwrap_err();
        assert!(
            wrong.contains("fix_size_alloc/1, framewright: failed 1 to 1"),
            "{wrong}"
        );
        let mut passed = file(1.0, 1.0, 0.0);
        passed.rows[3].max = 3.0;
        let wrong = check(&passed).unwrap_err();
        assert!(wrong.contains("align_shift_alloc/2"), "{wrong}");
    }

    #[test]
    fn the_second_run_counts_and_the_slower_worker() {
        let line = |time: u32, failed: u32| {
            format!(
                "Summary: fix_size_alloc_test passed: 1 failed: {failed} repeat: 1 loops: 9 avg: {time} usec\n\
                 All test took worker0=12 cycles\n"
            )
        };
        let text = format!(
            "run 0\n{}refused 3\nrun 1\n{}{}refused 4\n",
            line(99, 1),
            line(5, 0),
            line(7, 1)
        );
        let expected = WorkersSaid {
            microseconds: 7.0,
            failed: 1,
            refused: 4,
        };
        assert_eq!(WorkersSaid::parse(&text, &TESTS[0]), Ok(expected));
        assert!(WorkersSaid::parse(&text, &TESTS[1]).is_err());
        assert!(WorkersSaid::parse("run 0\nrefused 1\n", &TESTS[0]).is_err());
        let repeated = VmallocTest {
            repeats: 4,
            ..test(0, "fix_size_alloc", "")
        };
        let all = text.replace("worker0=12 cycles", "worker0=8800 cycles");
        let said = WorkersSaid::parse(&all, &repeated).unwrap();
        assert_eq!((said.microseconds, said.failed), (2.2, 1));
        let cut = text.replace("refused 4\n", "");
        assert_eq!(
            WorkersSaid::parse(&cut, &TESTS[0]).unwrap_err(),
            "it did not end"
        );
    }
}
