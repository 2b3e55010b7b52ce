//! The engine as the frame allocator of a kernel on OSTD, beside OSTD's own: both kernels are built and booted, and one
//! table has both.

use super::boot::{self, Accelerator, KernelArch, QemuMachine};
use crate::machine;
use crate::pages::{self, number};
use crate::results::{ResultFile, ResultRow, RowSource, RunRecord};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// How the message of a machine begins that lacks what the kernels are built from.
pub(crate) const NO_PARTS: &str = "OSTD's kernels cannot be built here";

const TARGET: &str = "x86_64-unknown-none";

/// The allocators, as the result file calls them.
const OURS: &str = "framewright";
const THEIRS: &str = "ostd";

/// What is booted: the test and its CPUs.
const TESTS: &[(&str, u16)] = &[
    ("speed", 1),
    ("frag", 1),
    ("heavy", 1),
    ("aside", 1),
    ("smp", 2),
];

/// A part of a figure that changes neither way by more, or the run fails.
const MARGIN: f64 = 0.15;
/// Counts are of chance: a few more or less say nothing.
const FEW: f64 = 6.0;

/// A row of the table: the figure, and what was asked for.
struct OstdRow {
    case: &'static str,
    metric: &'static str,
    what: &'static str,
    bar: Option<OstdBar>,
}

#[derive(Clone, Copy)]
enum OstdBar {
    Most(f64),
    Least(f64),
}
use OstdBar::{Least, Most};

const fn row(
    case: &'static str,
    metric: &'static str,
    what: &'static str,
    bar: Option<OstdBar>,
) -> OstdRow {
    OstdRow {
        case,
        metric,
        what,
        bar,
    }
}

const ROWS: &[OstdRow] = &[
    row(
        "1 pages",
        "pair",
        "a page, allocated and freed",
        Some(Most(130.0)),
    ),
    row(
        "1 pages",
        "alloc",
        "a page of 1,000: allocated",
        Some(Most(110.0)),
    ),
    row("1 pages", "free", "and freed", Some(Most(230.0))),
    row("3 pages", "alloc", "3 pages, 1,000 times: allocated", None),
    row("3 pages", "free", "and freed", None),
    row(
        "16 pages",
        "alloc",
        "16 pages, 200 times: allocated",
        Some(Most(320.0)),
    ),
    row("16 pages", "free", "and freed", Some(Most(3000.0))),
    row(
        "17 pages",
        "alloc",
        "17 pages, 200 times: allocated",
        Some(Most(900.0)),
    ),
    row("17 pages", "free", "and freed", None),
    row("512 pages", "alloc", "2 MiB, 20 times: allocated", None),
    row("512 pages", "free", "and freed", Some(Most(100_000.0))),
    row("1024 pages", "alloc", "4 MiB, 20 times: allocated", None),
    row("1024 pages", "free", "and freed", None),
    row("segment of 1", "make", "a segment of a page: made", None),
    row("segment of 1", "drop", "and dropped", None),
    row("segment of 16", "make", "a segment of 16 pages: made", None),
    row("segment of 16", "drop", "and dropped", None),
    row("segment of 512", "make", "a segment of 2 MiB: made", None),
    row("segment of 512", "drop", "and dropped", None),
    row(
        "churn 1",
        "replacement",
        "a request replaced in a churn",
        Some(Most(2400.0)),
    ),
    row("churn 1", "failed", "requests in it that failed", None),
    row(
        "churn 1",
        "large_failed",
        "of 40 requests of 4 MiB in it, those that failed",
        Some(Most(4.0)),
    ),
    row(
        "churn 1",
        "large_of_98",
        "4 MiB to be had when 98 % of it is freed",
        None,
    ),
    row(
        "churn 1",
        "large_of_all",
        "4 MiB to be had when all is freed",
        Some(Least(107.0)),
    ),
    row(
        "churn 2",
        "filled",
        "of half of memory a second churn gets, in thousandths",
        None,
    ),
    row(
        "heavy",
        "replacement",
        "a request replaced in a heavy churn",
        None,
    ),
    row("heavy", "failed", "requests in it that failed", None),
    row(
        "heavy",
        "large_failed",
        "of 40 requests of 4 MiB in it, those that failed",
        None,
    ),
    row(
        "aside heavy",
        "large_failed",
        "the same with 4 MiB set aside",
        Some(Most(0.0)),
    ),
    row(
        "aside heavy",
        "lent_back",
        "of 640 pages lent those 4 MiB, got back",
        None,
    ),
    row(
        "heavy",
        "failing",
        "a request of 64 pages that fails",
        Some(Most(500.0)),
    ),
    row(
        "smp",
        "lost",
        "frames lost when two CPUs churn",
        Some(Most(0.0)),
    ),
];

/// What is asked for on the command line.
pub(crate) struct AskedOstd {
    /// One test alone.
    pub(crate) only: Option<String>,
    pub(crate) is_written: bool,
}

/// `cargo xtask ostd`.
pub(crate) fn run(asked: &AskedOstd) -> Result<(), String> {
    let start = Instant::now();
    let is_asked = |test: &str| match asked.only.as_deref() {
        None => true,
        Some("frag") => ["frag", "heavy", "aside"].contains(&test),
        Some(only) => only == test,
    };
    let qemu = boot::qemu_version(KernelArch::X86_64)?;
    let kernels = [build(OURS)?, build(THEIRS)?];
    let mut rows = Vec::new();
    for (kernel, variant) in kernels.iter().zip([OURS, THEIRS]) {
        for &(test, cpus) in TESTS.iter().filter(|(test, _)| is_asked(test)) {
            // OSTD's own allocator sets nothing aside.
            if (test, variant) != ("aside", THEIRS) {
                rows.extend(boot_one(kernel, variant, test, cpus)?);
            }
        }
    }
    let file = ResultFile {
        run: RunRecord {
            commands: vec!["cargo xtask ostd --write".to_owned()],
            commit: machine::commit(),
            date: machine::date(),
            with: format!("QEMU {qemu}, ostd 0.18.0"),
            runs: 1,
            is_trial: false,
            linux: None,
            beside: None,
        },
        rows,
    };
    println!("{}", table(&file));
    check(&file)?;
    if asked.is_written {
        file.write("ostd")?;
        pages::run(false)?;
    } else {
        compare(&file, &ResultFile::read("ostd")?)?;
    }
    println!("ostd: {} s", start.elapsed().as_secs());
    Ok(())
}

/// Builds the kernel with that allocator; where it is.
fn build(variant: &str) -> Result<PathBuf, String> {
    let folder = boot::root().join("adapters/ostd");
    let target = boot::root().join("target/ostd");
    let cargo = || {
        let mut cargo = boot::cargo();
        // Its own folder says how it is built: flags of the caller's workspace are not its.
        cargo.current_dir(&folder).env("CARGO_TARGET_DIR", &target);
        cargo.env_remove("RUSTFLAGS");
        cargo
    };
    let is_done = |mut cargo: Command, words: &[&str]| {
        let status = cargo.args(words).status();
        status
            .map(|status| status.success())
            .map_err(|error| format!("{NO_PARTS}: cargo: {error}"))
    };
    if !is_done(
        cargo(),
        &["fetch", "--locked", "--quiet", "--target", TARGET],
    )? {
        return Err(format!("{NO_PARTS}: its crates cannot be had"));
    }
    let printed = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", TARGET])
        .output();
    let has_target = printed
        .is_ok_and(|printed| Path::new(String::from_utf8_lossy(&printed.stdout).trim()).is_dir());
    if !has_target {
        return Err(format!("{NO_PARTS}: rustup target add {TARGET}"));
    }
    let mut words = vec!["build", "--release", "--quiet", "--locked"];
    if variant == THEIRS {
        words.extend(["--features", "framewright-ostd-kernel/stock"]);
    }
    if !is_done(cargo(), &words)? {
        return Err(format!(
            "the kernel with the allocator of {variant} was not built"
        ));
    }
    let built = target.join(TARGET).join("release/framewright-ostd-kernel");
    let bootable = target.join(format!("{variant}.elf"));
    as_multiboot(&built, &bootable)?;
    Ok(bootable)
}

/// QEMU refuses a multiboot kernel whose file says 64 bits, and looks no further than the machine's number.
fn as_multiboot(from: &Path, to: &Path) -> Result<(), String> {
    const MACHINE: usize = 18;
    const I386: [u8; 2] = [3, 0];
    let place = |error| format!("{}: {error}", from.display());
    let mut file = fs::read(from).map_err(place)?;
    let machine = file.get_mut(MACHINE..MACHINE + 2);
    machine
        .ok_or_else(|| format!("{}: it is no kernel", from.display()))?
        .copy_from_slice(&I386);
    fs::write(to, file).map_err(|error| format!("{}: {error}", to.display()))
}

/// Boots a kernel with one test; its figures.
fn boot_one(kernel: &Path, variant: &str, test: &str, cpus: u16) -> Result<Vec<ResultRow>, String> {
    let start = Instant::now();
    let machine = QemuMachine {
        arch: KernelArch::X86_64,
        cpus,
        // OSTD does not boot where the firmware's tables lie above all memory; this puts half of it above 4 GiB.
        memory: "512M".to_owned(),
        kind: "q35,max-ram-below-4g=256M".to_owned(),
        append: String::new(),
        is_sparse: false,
        module: None,
        accelerator: match cpus {
            1 => Accelerator::Counting,
            _ => Accelerator::Threads,
        },
    };
    let end = machine.boot(kernel, test)?;
    end.expect_passed(&format!("{test} with the allocator of {variant}"))?;
    let rows = figures(&end.said, variant, test)?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{test}, {variant}: {} figures in {seconds:.1} s",
        rows.len()
    );
    Ok(rows)
}

/// The figures that a boot said.
fn figures(said: &str, variant: &str, test: &str) -> Result<Vec<ResultRow>, String> {
    let lines = said.lines().filter_map(|line| line.strip_prefix("figure "));
    let row = |line: &str| {
        let words: Vec<&str> = line.split(", ").collect();
        let [case, metric, value] = words[..] else {
            return Err(format!("no figure: {line}"));
        };
        let value: f64 = value.parse().map_err(|_| format!("no figure: {line}"))?;
        let is_count = ["failed", "asked", "lost", "filled"].contains(&metric)
            || ["large", "lent"]
                .iter()
                .any(|word| metric.starts_with(word));
        let case = match test {
            "aside" => format!("aside {case}"),
            _ => case.to_owned(),
        };
        let unit = if is_count { "count" } else { "instructions" };
        let names = [&case, variant, metric];
        Ok(ResultRow::one(names, unit, RowSource::Simulated, value))
    };
    let rows: Vec<ResultRow> = lines.map(row).collect::<Result<_, _>>()?;
    if rows.is_empty() {
        return Err(format!(
            "{test} with the allocator of {variant} has no figure:\n{said}"
        ));
    }
    Ok(rows)
}

/// What must be so, whatever the figures are.
fn check(file: &ResultFile) -> Result<(), String> {
    let ours = file.rows.iter().filter(|row| row.variant == OURS);
    let wrong = ours.filter(|row| match (&row.case[..], &row.metric[..]) {
        // As long as a reservation stands, no request of its size fails.
        (case, "large_failed") if case.starts_with("aside") => row.median != 0.0,
        (_, "lent_back") if row.case.starts_with("aside") => row.median == 0.0,
        (_, "lost") => row.median != 0.0,
        // A churn leaves nothing behind that keeps the next one from its memory.
        (_, "filled") => row.median < 1000.0,
        _ => false,
    });
    let wrong: Vec<String> = wrong
        .map(|row| format!("{}, {}: {}", row.case, row.metric, row.median))
        .collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(format!("this must not be:\n{}", wrong.join("\n"))),
    }
}

/// Compares with earlier figures. One that became better asks for a new file, so that it cannot be lost unnoticed.
fn compare(now: &ResultFile, earlier: &ResultFile) -> Result<(), String> {
    let mut wrong = Vec::new();
    for row in &now.rows {
        let (case, variant, metric) = (&row.case, &row.variant, &row.metric);
        let Some(before) = earlier.find(case, variant, metric) else {
            wrong.push(format!("{case}, {variant}, {metric}: no earlier figure"));
            continue;
        };
        let change = (row.median - before.median).abs();
        let is_few = row.unit == "count" && change <= FEW;
        if change > before.median * MARGIN && !is_few {
            let (now, before) = (row.median, before.median);
            wrong.push(format!(
                "{case}, {variant}, {metric}: {now}, {before} before"
            ));
        }
    }
    if wrong.is_empty() {
        println!(
            "{} figures as in docs/results/ostd.jsonl, within 15 %",
            now.rows.len()
        );
        return Ok(());
    }
    wrong.push("`cargo xtask ostd --write` makes a new result file".to_owned());
    Err(wrong.join("\n"))
}

/// The table of the page.
pub(crate) fn table(file: &ResultFile) -> String {
    let mut out = "| what | OSTD's own | Framewright | asked for |\n|---|---|---|---|\n".to_owned();
    let (mut bars, mut missed, mut lost) = (0, Vec::new(), Vec::new());
    for row in ROWS {
        let of = |variant| {
            file.find(row.case, variant, row.metric)
                .map(|row| row.median)
        };
        let (ours, theirs) = (of(OURS), of(THEIRS));
        // A part of the tests has a part of the table.
        if ours.is_none() && theirs.is_none() {
            continue;
        }
        let text = |figure: Option<f64>| figure.map_or("-".to_owned(), number);
        let mut shown = text(ours);
        let is_met = match (row.bar, ours) {
            (Some(Most(bar)), Some(ours)) => ours <= bar,
            (Some(Least(bar)), Some(ours)) => ours >= bar,
            _ => true,
        };
        bars += usize::from(row.bar.is_some());
        if !is_met {
            missed.push(row);
            shown = format!("**{shown}**");
        }
        let is_more_better = row.metric.starts_with("large_of") || row.metric == "filled";
        if let (Some(ours), Some(theirs)) = (ours, theirs)
            && if is_more_better {
                ours < theirs
            } else {
                ours > theirs
            }
        {
            lost.push(row);
        }
        let bar = match row.bar {
            Some(Most(bar)) => format!("at most {}", number(bar)),
            Some(Least(bar)) => format!("at least {}", number(bar)),
            None => "-".to_owned(),
        };
        // Writing into a string cannot fail.
        let _ = writeln!(out, "| {} | {} | {shown} | {bar} |", row.what, text(theirs));
    }
    let name = |row: &&OstdRow| format!("{} (`{}`)", row.case, row.metric);
    let list = |rows: &[&OstdRow]| match rows {
        [] => "none".to_owned(),
        rows => rows.iter().map(name).collect::<Vec<_>>().join(", "),
    };
    let met = bars - missed.len();
    let _ = writeln!(
        out,
        "\n{met} of {bars} bars are met. Missed: {}.",
        list(&missed)
    );
    let _ = writeln!(out, "\nOSTD's own does better: {}.", list(&lost));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(pair: u32, failed: u32) -> ResultFile {
        let said = format!(
            "hello\nfigure 1 pages, pair, {pair}\nfigure heavy, large_failed, {failed}\nverified\n"
        );
        let rows = [(OURS, "aside"), (OURS, "frag"), (THEIRS, "frag")];
        let rows = rows.map(|(variant, test)| figures(&said, variant, test).unwrap());
        ResultFile {
            run: crate::results::tests::run_record(0.0),
            rows: rows.concat(),
        }
    }

    #[test]
    fn a_boot_says_figures_and_the_table_shows_them() {
        let file = file(165, 0);
        assert_eq!(
            file.find("aside 1 pages", OURS, "pair").unwrap().unit,
            "instructions"
        );
        assert_eq!(
            file.find("heavy", THEIRS, "large_failed").unwrap().unit,
            "count"
        );
        let table = table(&file);
        let row = "| a page, allocated and freed | 165 | **165** | at most 130 |";
        assert!(table.contains(row), "{table}");
        assert!(table.contains("1 of 2 bars are met. Missed: 1 pages (`pair`)."));
        assert!(figures("verified\n", OURS, "smp").is_err());
        assert!(figures("figure a, b\n", OURS, "smp").is_err());
    }

    #[test]
    fn a_request_that_fails_beside_its_reservation_is_an_error() {
        assert!(check(&file(1, 0)).is_ok());
        assert!(
            check(&file(1, 1))
                .unwrap_err()
                .contains("aside heavy, large_failed: 1")
        );
    }

    #[test]
    fn instructions_move_by_the_margin_and_counts_by_a_few() {
        let before = file(100, 3);
        assert!(compare(&file(114, 9), &before).is_ok());
        let wrong = compare(&file(116, 10), &before).unwrap_err();
        assert!(
            wrong.contains("1 pages, ostd, pair: 116, 100 before"),
            "{wrong}"
        );
        assert!(
            wrong.contains("heavy, framewright, large_failed: 10, 3 before"),
            "{wrong}"
        );
    }
}
