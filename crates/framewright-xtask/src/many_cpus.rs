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

/// How many CPUs the table of losses has.
const LOST_CPUS: [&str; 3] = ["2", "16", "256"];

/// A figure that rests on fewer of the events that lose its time is marked.
const EVENTS_MIN: f64 = 30.0;

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
        ["pair, order 4, warm", "frames", "framewright", "hot pair/4"],
        &["alloc_ns"],
    ),
    (
        ["pair, order 9", "frames", "framewright", "hot pair/9"],
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
        ["kmalloc 64, pair", "objects", "seat", "kmalloc pair/64"],
        &["pair_ns"],
    ),
    (
        ["kmalloc 4096, pair", "objects", "seat", "kmalloc pair/4096"],
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
fn lost_table(file: &ResultFile) -> String {
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

fn prices_table(file: &ResultFile) -> String {
    let mut out = "| price | ps | median of the rounds | source |\n|---|---|---|---|\n".to_owned();
    let of_prices = file.rows.iter().filter(|row| row.case == PRICES);
    for row in of_prices.filter(|row| row.metric == "price") {
        let (name, ps) = (&row.variant, number(row.median));
        let median = value(file, PRICES, name, "median").map_or(String::new(), number);
        let _ = writeln!(out, "| {name} | {ps} | {median} | {} |", price_source(name));
    }
    out
}

/// The place of each, from the highest on; equal ones share the mean of their places.
fn ranks(values: &[f64]) -> Vec<f64> {
    let place = |value: &f64| {
        let above = values.iter().filter(|other| *other > value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        above as f64 + (equal as f64 + 1.0) / 2.0
    };
    values.iter().map(place).collect()
}

/// How far two rows of ranks go together: 1 is the same order, -1 the opposite one, 0 none. No number where one has no order.
fn correlation(one: &[f64], other: &[f64]) -> Option<f64> {
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let (first, second) = (mean(one), mean(other));
    let spread = |of: &[f64], mean: f64| of.iter().map(|rank| (rank - mean).powi(2)).sum::<f64>();
    let both = (spread(one, first) * spread(other, second)).sqrt();
    let pairs = one.iter().zip(other);
    let common: f64 = pairs.map(|(a, b)| (a - first) * (b - second)).sum();
    (both > 0.0).then(|| common / both)
}

/// A load on one and on two CPUs: times of an operation.
struct CheckedTimes {
    load: &'static str,
    measured: [f64; 2],
    /// How often each was measured.
    counts: [u32; 2],
    simulated: [f64; 2],
}

impl CheckedTimes {
    /// In percent of one CPU's throughput, as the table has it.
    fn kept([one, two]: [f64; 2]) -> f64 {
        (1000.0 * one / two).round() / 10.0
    }
}

fn checked_times(files: &mut ResultFiles) -> Result<Vec<CheckedTimes>, String> {
    let mut all = Vec::new();
    for ([load, file, variant, case], metrics) in CHECKS {
        let mut times = CheckedTimes {
            load,
            measured: [0.0; 2],
            counts: [u32::MAX; 2],
            simulated: [0.0; 2],
        };
        for (at, cpus) in ["1", "2"].into_iter().enumerate() {
            let case = format!("{case}/{cpus}");
            for metric in *metrics {
                let row = found(files, file, [&case, variant, metric])?;
                times.measured[at] += row.median;
                times.counts[at] = times.counts[at].min(row.n as u32);
            }
            times.simulated[at] = found(files, NAME, [load, cpus, "operation"])?.median;
        }
        all.push(times);
    }
    Ok(all)
}

/// What benchmarks on two threads say beside the simulation.
fn check_table(files: &mut ResultFiles) -> Result<String, String> {
    Ok(check_text(&checked_times(files)?))
}

fn check_text(all: &[CheckedTimes]) -> String {
    let measured: Vec<f64> = all
        .iter()
        .map(|of| CheckedTimes::kept(of.measured))
        .collect();
    let simulated: Vec<f64> = all
        .iter()
        .map(|of| CheckedTimes::kept(of.simulated))
        .collect();
    let (places, simulated_places) = (ranks(&measured), ranks(&simulated));
    let mut out = "| load | measured, 1 thread, ns (n) | 2 threads (n) | lost, ns | simulated, 1 CPU, ns | lost, ns | kept, measured, % (rank) | kept, simulated, % (rank) | error, points |\n\
                   |---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for (nth, of) in all.iter().enumerate() {
        let lost = |[one, two]: [f64; 2]| format!("{:+.1}", two - one);
        let [one, two] = of.measured.map(number);
        let [one_count, two_count] = of.counts;
        let (kept, told) = (measured[nth], simulated[nth]);
        let _ = writeln!(
            out,
            "| {} | {one} ({one_count}) | {two} ({two_count}) | {} | {} | {} | {} ({}) | {} ({}) | {:+.1} |",
            of.load,
            lost(of.measured),
            number(of.simulated[0]),
            lost(of.simulated),
            percent(kept),
            places[nth],
            percent(told),
            simulated_places[nth],
            told - kept
        );
    }
    let keeps = |kept: &f64| *kept >= FAST_MIN;
    let both = measured.iter().zip(&simulated);
    let both = both
        .filter(|(one, other)| keeps(one) && keeps(other))
        .count();
    let (of_measured, of_simulated) = (
        measured.iter().filter(|kept| keeps(kept)).count(),
        simulated.iter().filter(|kept| keeps(kept)).count(),
    );
    let correlation = correlation(&places, &simulated_places);
    let correlation = correlation.map_or("none".to_owned(), |of| format!("{of:.2}"));
    let _ = writeln!(
        out,
        "\nLoads that keep 90 %: {of_simulated} simulated, {of_measured} measured, {both} of them in both. Rank correlation of all \
         {}: {correlation}.",
        all.len()
    );
    out
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

    #[test]
    fn ranks_and_their_correlation_are_those_of_the_kept_shares() {
        assert_eq!(ranks(&[100.0, 50.0, 100.0, 7.0]), [1.5, 3.0, 1.5, 4.0]);
        let of = |one: &[f64], other: &[f64]| correlation(&ranks(one), &ranks(other));
        assert_eq!(of(&[1.0, 2.0, 3.0], &[10.0, 20.0, 90.0]), Some(1.0));
        assert_eq!(of(&[1.0, 2.0, 3.0], &[9.0, 2.0, 1.0]), Some(-1.0));
        assert_eq!(of(&[1.0, 1.0], &[1.0, 2.0]), None);
        let times = |load, measured, simulated| CheckedTimes {
            load,
            measured,
            counts: [7, 5],
            simulated,
        };
        let told = check_text(&[
            times("one", [10.0, 20.0], [5.0, 5.0]),
            times("two", [10.0, 10.0], [5.0, 50.0]),
        ]);
        let expected = "| one | 10 (7) | 20 (5) | +10.0 | 5 | +0.0 | 50.0 (2) | 100.0 (1) | +50.0 |\n\
            | two | 10 (7) | 10 (5) | +0.0 | 5 | +45.0 | 100.0 (1) | 10.0 (2) | -90.0 |\n\
            \nLoads that keep 90 %: 1 simulated, 1 measured, 0 of them in both. Rank correlation of all 2: -1.00.\n";
        assert!(told.ends_with(expected), "{told}");
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
