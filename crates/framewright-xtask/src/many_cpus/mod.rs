//! `cargo xtask many-cpus`: the engine on a simulated machine of up to 256 CPUs, with prices that were measured on two.
//!
//! The program is `crates/framewright-sim/examples/many_cpus`, in a build whose atomics tell what they read and write. This
//! hands it prices and the work of loads, from result files. [`tables`] says what it comes to, and [`check`] puts it beside what
//! benchmarks measured on two threads.

mod check;
mod tables;

use crate::kernels::boot;
use crate::machine;
use crate::pages::{self, ResultFiles};
use crate::results::{self, ResultFile, ResultRow, RowSource, RunRecord};
use check::check_table;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;
use tables::{lost_table, prices_table, throughput_table};

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

/// A look of a CPU that waits, at first and later, in picoseconds: of the order of a `pause`, and ten times that.
const POLL_PS: [f64; 2] = [50_000.0, 500_000.0];

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
        "pair, order 4, warm",
        &[(
            "rivals",
            ["hot pair/4/1", "framewright", "alloc_instructions"],
        )],
    ),
    (
        "pair, order 9",
        &[(
            "rivals",
            ["hot pair/9/1", "framewright", "alloc_instructions"],
        )],
    ),
    (
        "kmalloc 64, pair",
        &[("rivals", ["kmalloc pair/64/1", "seat", "pair_instructions"])],
    ),
    (
        "kmalloc 4096, pair",
        &[(
            "rivals",
            ["kmalloc pair/4096/1", "seat", "pair_instructions"],
        )],
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

/// A price in picoseconds.
struct TakenPrice {
    name: &'static str,
    ps: f64,
    /// Of the same rounds, where it was measured.
    median_ps: Option<f64>,
}

/// The prices: what each is taken from is [`price_source`].
fn prices(files: &mut ResultFiles) -> Result<Vec<TakenPrice>, String> {
    let instructions = sum(files, WORK[0].1)?;
    let mut taken = |name, file_name: &str, divisor: f64, is_least: bool| {
        let row = found(files, PRICES, [file_name, "machine", "price"])?;
        let ps = |ns: f64| (ns * 1000.0 / divisor).round();
        Ok::<_, String>(TakenPrice {
            name,
            ps: ps(if is_least { row.min } else { row.median }),
            median_ps: Some(ps(row.median)),
        })
    };
    let chosen = |name, ps| TakenPrice {
        name,
        ps,
        median_ps: None,
    };
    Ok(vec![
        // Other programs only make these two longer.
        taken("instruction", "pair", instructions, true)?,
        taken("line", "line", 1.0, true)?,
        // These are taken where the other CPU ran throughout.
        taken("interrupt", "interrupt", 1.0, false)?,
        taken("answer", "answer", 1.0, false)?,
        chosen("poll", POLL_PS[0]),
        chosen("later-poll", POLL_PS[1]),
    ])
}

/// How a price was taken.
fn price_source(name: &str) -> &'static str {
    match name {
        "instruction" => {
            "the least: the time of a pair of order 0 on one thread, over its counted instructions"
        }
        "line" => "the least: two threads write one word by turns, four transfers for both turns",
        "interrupt" => {
            "the median: membarrier(2) while another thread runs, to its caller; on more CPUs the price of a line more for each answer"
        }
        "answer" => "the median: what that other thread loses for each of these calls",
        "poll" => "chosen: how often a CPU that waits looks, at first",
        _ => {
            "chosen: the same after a hundred looks, so that a long wait is not simulated look by look"
        }
    }
}

/// What the simulation reads.
fn input(prices: &[TakenPrice], files: &mut ResultFiles, only: &str) -> Result<String, String> {
    let mut text = String::new();
    for TakenPrice { name, ps, .. } in prices {
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
    let mut cargo = boot::cargo_run("framewright-sim");
    cargo.args(["--example", "many_cpus"]);
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
    let rows_of = |price: &TakenPrice| {
        let row = |metric, ps| {
            let named = [PRICES, price.name, metric];
            ResultRow::one(named, "ps", RowSource::Simulated, ps)
        };
        let median = price.median_ps.map(|ps| row("median", ps));
        [Some(row("price", price.ps)), median].into_iter().flatten()
    };
    let mut rows: Vec<ResultRow> = prices.iter().flat_map(rows_of).collect();
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
    use check::CHECKS;
    use tables::value;

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
