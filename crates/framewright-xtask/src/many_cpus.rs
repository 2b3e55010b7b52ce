//! `cargo xtask many-cpus`: the engine on a simulated machine of up to 256 CPUs, with prices that were measured on two.
//!
//! The program is `crates/framewright-sim/examples/many_cpus`, in a build whose atomics tell what they read and write. This
//! hands it prices and the work of loads, from result files, and makes tables of what it says.

use crate::kernels::boot;
use crate::machine;
use crate::pages::{self, ResultFiles, number};
use crate::results::{self, ResultFile, ResultRow, RowSource, RunRecord};
use crate::rivals::group_of;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The command, and the result file.
pub(crate) const NAME: &str = "many-cpus";

/// The tables of the page, by name.
pub(crate) const TABLES: [&str; 4] = [
    NAME,
    "many-cpus-prices",
    "many-cpus-lost",
    "many-cpus-check",
];

/// Where the measured prices are.
const PRICES: &str = "prices";

/// How many CPUs, as the file names them.
const CPUS: [&str; 5] = ["1", "2", "16", "64", "256"];

/// A look of a CPU that waits, at first and later, in picoseconds: of the order of a `pause`, and ten times that.
const POLL_PS: [f64; 2] = [50_000.0, 500_000.0];

/// The share of one CPU's throughput that a fast path is to keep.
const FAST_MIN: f64 = 90.0;

/// Why time is lost, and how a reader is told.
const LOSSES: [(&str, &str); 5] = [
    ("line", "lines"),
    ("wait", "waits"),
    ("barrier", "barriers sent"),
    ("flush", "flushes sent"),
    ("answer", "interrupts answered"),
];

/// A figure of a result file: case, variant and metric.
type FigureName = (&'static str, [&'static str; 3]);

/// What an operation of a load executes on one CPU: the sum of these.
const WORK: &[(&str, &[FigureName])] = &[
    (
        "pair, order 0, warm",
        &[(
            "rivals",
            ["hot pair/0/1", "framewright", "alloc_instructions"],
        )],
    ),
    (
        "pair, order 0, from cold",
        &[(
            "rivals",
            ["hot pair/0/1", "framewright", "alloc_instructions"],
        )],
    ),
    (
        "pair, order 3, warm",
        &[(
            "rivals",
            ["hot pair/3/1", "framewright", "alloc_instructions"],
        )],
    ),
    (
        "kmalloc 64, pair",
        &[("rivals", ["kmalloc pair/64/1", "seat", "pair_instructions"])],
    ),
    (
        "vmalloc 1 page, kept",
        &[("kernel", ["fix_size", "kept", "instructions"])],
    ),
    (
        "vmalloc 1 page, strict",
        &[("kernel", ["fix_size", "strict", "instructions"])],
    ),
    (
        "vmalloc 1 to 100 pages, kept",
        &[("kernel", ["random_size", "kept", "instructions"])],
    ),
    (
        "vm_map_ram 4 pages",
        &[("kernel", ["vm_map_ram_4", "kept", "instructions"])],
    ),
    (
        "bulk, order 0",
        &[
            ("rivals", ["bulk/0/1", "framewright", "alloc_instructions"]),
            ("rivals", ["bulk/0/1", "framewright", "free_instructions"]),
        ],
    ),
    (
        "bulk, order 3",
        &[
            ("rivals", ["bulk/3/1", "framewright", "alloc_instructions"]),
            ("rivals", ["bulk/3/1", "framewright", "free_instructions"]),
        ],
    ),
    (
        "bulk, order 9",
        &[
            ("rivals", ["bulk/9/1", "framewright", "alloc_instructions"]),
            ("rivals", ["bulk/9/1", "framewright", "free_instructions"]),
        ],
    ),
    (
        "kmalloc 64, 1000 live",
        &[("rivals", ["kmalloc 1000/64/1", "seat", "pair_instructions"])],
    ),
    (
        "kmalloc 4096, 1000 live",
        &[(
            "rivals",
            ["kmalloc 1000/4096/1", "seat", "pair_instructions"],
        )],
    ),
];

/// A load that a benchmark runs on one and on two threads: its name, the file, the variant, the case without the number of
/// threads, and the times of an operation.
type CheckedLoad = [&'static str; 4];

/// All of them, with their times.
const CHECKS: &[(CheckedLoad, &[&str])] = &[
    (
        ["pair, order 0, warm", "frames", "framewright", "hot pair/0"],
        &["alloc_ns"],
    ),
    (
        ["pair, order 3, warm", "frames", "framewright", "hot pair/3"],
        &["alloc_ns"],
    ),
    (
        ["bulk, order 0", "frames", "framewright", "bulk/0"],
        &["alloc_ns", "free_ns"],
    ),
    (
        ["bulk, order 3", "frames", "framewright", "bulk/3"],
        &["alloc_ns", "free_ns"],
    ),
    (
        ["bulk, order 9", "frames", "framewright", "bulk/9"],
        &["alloc_ns", "free_ns"],
    ),
    (
        ["kmalloc 64, pair", "objects", "seat", "kmalloc pair/64"],
        &["pair_ns"],
    ),
    (
        [
            "kmalloc 64, 1000 live",
            "objects",
            "seat",
            "kmalloc 1000/64",
        ],
        &["pair_ns"],
    ),
    (
        [
            "kmalloc 4096, 1000 live",
            "objects",
            "seat",
            "kmalloc 1000/4096",
        ],
        &["pair_ns"],
    ),
];

/// The command's options.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct AskedManyCpus {
    /// How the loads begin that are simulated.
    only: String,
    is_written: bool,
}

impl AskedManyCpus {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self::default();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--only" => asked.only = words.next().ok_or("--only: a value is missing")?,
                "--write" => asked.is_written = true,
                _ => return Err(format!("{NAME}: there is no option `{word}`")),
            }
        }
        match asked.is_written && !asked.only.is_empty() {
            true => Err("--write writes all loads: it goes without --only".to_owned()),
            false => Ok(asked),
        }
    }
}

/// The sum of figures.
fn sum(files: &mut ResultFiles, figures: &[FigureName]) -> Result<f64, String> {
    let mut sum = 0.0;
    for (file, [case, variant, metric]) in figures {
        sum += found(files, file, [case, variant, metric])?.median;
    }
    Ok(sum)
}

fn found(
    files: &mut ResultFiles,
    file: &str,
    [case, variant, metric]: [&str; 3],
) -> Result<ResultRow, String> {
    let row = files.file(file)?.find(case, variant, metric);
    row.cloned()
        .ok_or_else(|| format!("docs/results/{file}.jsonl has no {case}, {variant}, {metric}"))
}

/// The prices in picoseconds, by name: what each is taken from is [`price_source`].
fn prices(files: &mut ResultFiles) -> Result<Vec<(&'static str, f64)>, String> {
    let mut of = |name: &str| found(files, PRICES, [name, "machine", "price"]);
    // Other programs only make these two longer.
    let (line, pair) = (of("line")?.min, of("pair")?.min);
    // These are taken where the other CPU ran throughout.
    let (interrupt, answer) = (of("interrupt")?.median, of("answer")?.median);
    let instructions = sum(files, WORK[0].1)?;
    let ps = |ns: f64| (ns * 1000.0).round();
    Ok(vec![
        ("instruction", ps(pair / instructions)),
        ("line", ps(line)),
        ("interrupt", ps(interrupt)),
        ("answer", ps(answer)),
        ("poll", POLL_PS[0]),
        ("later-poll", POLL_PS[1]),
    ])
}

/// How a price was taken.
fn price_source(name: &str) -> &'static str {
    match name {
        "instruction" => {
            "the time of a pair of order 0 on one thread, the least of the rounds, over its counted instructions"
        }
        "line" => {
            "two threads write one word by turns, four transfers for both turns; the least of the rounds"
        }
        "interrupt" => {
            "membarrier(2) while another thread runs, to its caller; on more CPUs the price of a line more for each answer"
        }
        "answer" => "what that other thread loses for each of these calls",
        "poll" => "chosen: how often a CPU that waits looks, at first",
        _ => {
            "chosen: the same after a hundred looks, so that a long wait is not simulated look by look"
        }
    }
}

/// What the simulation reads.
fn input(prices: &[(&str, f64)], files: &mut ResultFiles, only: &str) -> Result<String, String> {
    let mut text = String::new();
    for (name, ps) in prices {
        let _ = writeln!(text, "{name} {ps}");
    }
    for (load, figures) in WORK {
        let _ = writeln!(text, "work {} {load}", sum(files, figures)?);
    }
    if !only.is_empty() {
        let _ = writeln!(text, "only {only}");
    }
    Ok(text)
}

/// Builds and runs the simulation.
fn simulate(input: &str) -> Result<Vec<ResultRow>, String> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(boot::root());
    cargo.args([
        "run",
        "--release",
        "--quiet",
        "-p",
        "framewright-sim",
        "--example",
        "many_cpus",
    ]);
    // The folder and the profile of the checks that have flags of their own.
    cargo.env("RUSTFLAGS", "--cfg lines");
    cargo.env("CARGO_TARGET_DIR", boot::root().join("target/models"));
    cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
    cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    let child = cargo.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| format!("cargo: {error}"))?;
    let mut given = child.stdin.take().expect("it is piped");
    // It reads all before it says anything.
    let written = given.write_all(input.as_bytes());
    drop(given);
    let said = child
        .wait_with_output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !said.status.success() {
        return Err(format!("the simulation: {}", said.status));
    }
    written.map_err(|error| format!("the simulation: {error}"))?;
    results::rows_in(&String::from_utf8_lossy(&said.stdout))
}

pub(crate) fn run(asked: &AskedManyCpus) -> Result<(), String> {
    let (commit, date) = (machine::commit(), machine::date());
    let mut files = ResultFiles::default();
    let prices = prices(&mut files)?;
    let row = |(name, ps): &(&str, f64)| {
        ResultRow::one([PRICES, name, "price"], "ps", RowSource::Simulated, *ps)
    };
    let mut rows: Vec<ResultRow> = prices.iter().map(row).collect();
    rows.extend(simulate(&input(&prices, &mut files, &asked.only)?)?);
    let of_prices = files.file(PRICES)?.run.clone();
    let of = of_prices
        .beside
        .as_ref()
        .map_or("an unknown machine", |beside| &beside.machine.cpu);
    let beside = match files.file(PRICES)?.is_marked() {
        true => ", taken beside other work",
        false => "",
    };
    let with = format!("prices of {of} at {}{beside}", of_prices.commit);
    let file = ResultFile {
        run: RunRecord {
            commands: vec![format!("cargo xtask {NAME} --write")],
            commit,
            date,
            with,
            runs: 1,
            is_trial: false,
            linux: None,
            beside: None,
        },
        rows,
    };
    print!("{}\n{}", throughput_table(&file), lost_table(&file));
    if asked.is_written {
        file.write(NAME)?;
        pages::run(false)?;
    }
    Ok(())
}

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

fn value(file: &ResultFile, load: &str, cpus: &str, metric: &str) -> Option<f64> {
    file.find(load, cpus, metric).map(|row| row.median)
}

/// To a tenth.
fn percent(value: f64) -> String {
    format!("{value:.1}")
}

/// Each load on each number of CPUs.
fn throughput_table(file: &ResultFile) -> String {
    let mut out =
        "| load | ns for an operation, 1 CPU | 2 CPUs | 16 | 64 | 256 | the slowest of 256 |\n\
                   |---|---|---|---|---|---|---|\n"
            .to_owned();
    for load in loads(file) {
        let time = value(file, load, "1", "operation").map_or("-".to_owned(), number);
        let _ = write!(out, "| {load} | {time} |");
        for cpus in &CPUS[1..] {
            let kept = value(file, load, cpus, "throughput");
            let _ = match kept {
                Some(kept) if kept < FAST_MIN => write!(out, " **{}** |", percent(kept)),
                _ => write!(out, " {} |", kept.map_or("-".to_owned(), percent)),
            };
        }
        let slowest = value(file, load, "256", "slowest").map_or("-".to_owned(), percent);
        let _ = writeln!(out, " {slowest} |");
    }
    out
}

/// What a load loses on that many CPUs for an operation, in nanoseconds: by why, the most first.
fn losses(file: &ResultFile, load: &str, cpus: &str) -> Vec<(&'static str, f64, String)> {
    let work = |cpus| value(file, load, cpus, "work").unwrap_or(0.0);
    let mut found = vec![("more work", work(cpus) - work("1"), String::new())];
    for (loss, title) in LOSSES {
        let ns = |cpus| value(file, load, cpus, loss).unwrap_or(0.0);
        let more = ns(cpus) - ns("1");
        let mut groups: BTreeMap<String, f64> = BTreeMap::new();
        let prefix = format!("{loss} in ");
        for row in file
            .rows
            .iter()
            .filter(|row| row.case == load && row.variant == cpus)
        {
            if let Some(path) = row.metric.strip_prefix(&prefix) {
                *groups.entry(group_of(path).to_owned()).or_default() += row.median;
            }
        }
        let mut groups: Vec<(String, f64)> = groups.into_iter().collect();
        groups.sort_by(|one, other| other.1.total_cmp(&one.1));
        // Interrupts are the machine's; of the others it matters which words they are about.
        let named = groups.iter().filter(|(_, ns)| *ns >= more / 10.0).take(3);
        let named: Vec<String> = match loss {
            "line" | "wait" => named
                .map(|(group, ns)| format!("{group} {}", number(*ns)))
                .collect(),
            _ => Vec::new(),
        };
        found.push((title, more, named.join(", ")));
    }
    found.retain(|(_, ns, _)| *ns > 0.0);
    found.sort_by(|one, other| other.1.total_cmp(&one.1));
    found
}

/// Where each load falls first, and what its time goes into there.
fn lost_table(file: &ResultFile) -> String {
    let mut out =
        "| load | falls below 90 % at | ns for an operation | of these lost |\n|---|---|---|---|\n"
            .to_owned();
    for load in loads(file) {
        let falls = CPUS
            .iter()
            .find(|cpus| value(file, load, cpus, "throughput").is_some_and(|kept| kept < FAST_MIN));
        let Some(cpus) = falls else {
            let _ = writeln!(out, "| {load} | never | | |");
            continue;
        };
        let time = value(file, load, cpus, "operation").map_or("-".to_owned(), number);
        let told = losses(file, load, cpus)
            .into_iter()
            .take(4)
            .map(|(title, ns, named)| {
                let named = if named.is_empty() {
                    named
                } else {
                    format!(" ({named})")
                };
                format!("{title} {}{named}", number(ns))
            });
        let told: Vec<String> = told.collect();
        let _ = writeln!(
            out,
            "| {load} | {cpus} CPUs | {time} | {} |",
            told.join("; ")
        );
    }
    out
}

fn prices_table(file: &ResultFile) -> String {
    let mut out = "| price | ps | source |\n|---|---|---|\n".to_owned();
    for row in file.rows.iter().filter(|row| row.case == PRICES) {
        let (name, ps) = (&row.variant, number(row.median));
        let _ = writeln!(out, "| {name} | {ps} | {} |", price_source(name));
    }
    out
}

/// What benchmarks on two threads say beside the simulation.
fn check_table(files: &mut ResultFiles) -> Result<String, String> {
    let mut out = "| load | measured, 1 thread, ns | 2 threads, ns | kept, measured | kept, simulated | error, points |\n\
                   |---|---|---|---|---|---|\n"
        .to_owned();
    for ([load, file, variant, case], metrics) in CHECKS {
        let mut times = [0.0; 2];
        for (time, threads) in times.iter_mut().zip(1..) {
            let case = format!("{case}/{threads}");
            for metric in *metrics {
                *time += found(files, file, [&case, variant, metric])?.median;
            }
        }
        let kept = 100.0 * times[0] / times[1];
        let simulated = found(files, NAME, [load, "2", "throughput"])?.median;
        let [one, two] = times.map(number);
        let _ = writeln!(
            out,
            "| {load} | {one} | {two} | {} | {} | {:+.1} |",
            percent(kept),
            percent(simulated),
            simulated - kept
        );
    }
    Ok(out)
}

/// The table of that name, without the words on how its figures were taken.
pub(crate) fn table(name: &str, files: &mut ResultFiles) -> Result<String, String> {
    if name == TABLES[3] {
        return check_table(files);
    }
    let file = files.file(NAME)?;
    Ok(match name {
        NAME => throughput_table(file),
        "many-cpus-prices" => prices_table(file),
        _ => lost_table(file),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run_record;

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
            row("16", "line", 7.0),
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
        let expected = "| load | 16 CPUs | 20 | lines 7 (index 6, tags 1); interrupts answered 2; more work 1 |\n";
        assert!(told.ends_with(expected), "{told}");
        let kept = throughput_table(&file());
        assert!(
            kept.ends_with("| load | 10 | 95.2 | **50.0** | - | - | - |\n"),
            "{kept}"
        );
        assert!(prices_table(&file()).contains("| line | 16,000 | two threads"));
    }

    #[test]
    fn options_are_known_and_all_loads_are_written() {
        let parsed = |words: &str| {
            let words = words.split(' ').filter(|word| !word.is_empty());
            AskedManyCpus::parse(words.map(str::to_owned))
        };
        assert!(parsed("--write").is_ok_and(|asked| asked.is_written));
        assert!(parsed("--only bulk").is_ok_and(|asked| asked.only == "bulk"));
        assert!(parsed("--only").is_err_and(|error| error.contains("missing")));
        assert!(parsed("--fast").is_err_and(|error| error.contains("`--fast`")));
        assert!(parsed("--write --only bulk").is_err());
    }

    #[test]
    fn work_and_checks_are_of_loads_that_the_result_file_has() {
        let mut files = ResultFiles::default();
        let file = files.file(NAME).unwrap().clone();
        let names = WORK.iter().map(|(load, _)| *load);
        for load in names.chain(CHECKS.iter().map(|([load, ..], _)| *load)) {
            assert!(value(&file, load, "256", "throughput").is_some(), "{load}");
        }
        check_table(&mut files).unwrap();
    }
}
