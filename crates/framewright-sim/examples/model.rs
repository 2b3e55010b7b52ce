//! Runs engine and model in step for as many operations as asked:
//! `cargo run --release -p framewright-sim --example model -- --ops 100000000 --seed 1`.
//!
//! Page frames, or virtual ranges with `--ranges`, objects with `--objects`, reclaim with `--reclaim`, the
//! reserve with `--reserve`.
//! Each case gets its share, in segments with a new zone or space each. `--case NAME` runs that one alone, so that the command that a failure prints
//! repeats it.

use framewright_sim::drive::{DrivenCase, check};
use framewright_sim::{RunSummary, frame, object, range, reclaim, reserve};
use std::process::ExitCode;
use std::time::Instant;

/// Long enough for a zone to be filled and emptied many times, short enough to be shrunk.
const SEGMENT: usize = 1_000_000;

/// A case of any kind, by its name and its run.
struct NamedCase {
    name: &'static str,
    check: CaseRun,
}

/// Runs this many operations of a seed.
type CaseRun = Box<dyn Fn(u64, usize) -> Result<RunSummary, String>>;

/// The cases of one kind, and the option that chooses it.
type CaseKind = (Option<&'static str>, fn() -> Vec<NamedCase>);

/// The first is run where no option says otherwise.
const KINDS: [CaseKind; 5] = [
    kind::<frame::FrameCase>(),
    kind::<range::RangeCase>(),
    kind::<object::ObjectCase>(),
    kind::<reclaim::ReclaimCase>(),
    kind::<reserve::ReserveCase>(),
];

const fn kind<S: DrivenCase + 'static>() -> CaseKind {
    (S::OPTION, cases::<S>)
}

fn cases<S: DrivenCase + 'static>() -> Vec<NamedCase> {
    let case = |case: S| NamedCase {
        name: case.name(),
        check: Box::new(move |seed, ops| check(&case.sparse(), seed, ops)),
    };
    S::all().into_iter().map(case).collect()
}

struct RunOptions {
    ops: usize,
    seed: u64,
    cases: Vec<NamedCase>,
}

fn options() -> Result<RunOptions, String> {
    let (mut ops, mut seed, mut cases, mut only) = (1_000_000, 1, KINDS[0].1, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let chosen = KINDS
            .iter()
            .find(|(option, _)| *option == Some(name.as_str()));
        if let Some((_, chosen)) = chosen {
            cases = *chosen;
            continue;
        }
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number = || {
            let number: Result<u64, _> = value.replace('_', "").parse();
            number.map_err(|_| format!("{name} {value} is not a number"))
        };
        match name.as_str() {
            "--ops" => ops = number()? as usize,
            "--seed" => seed = number()?,
            "--case" => only = Some(value),
            _ => {
                return Err(format!(
                    "{name} is not one of --ranges, --objects, --reclaim, --reserve, --ops, --seed, --case"
                ));
            }
        }
    }
    let mut cases = cases();
    if let Some(only) = only {
        let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
        let unknown = format!("{only} is not one of {}", names.join(", "));
        cases.retain(|case| case.name == only);
        if cases.is_empty() {
            return Err(unknown);
        }
    }
    Ok(RunOptions { ops, seed, cases })
}

/// The segments of one case: seeds and lengths.
fn segments(ops: usize, seed: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..ops.div_ceil(SEGMENT)).map(move |nth| {
        let left = ops - nth * SEGMENT;
        (seed + nth as u64, left.min(SEGMENT))
    })
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("model: {message}");
            return ExitCode::from(2);
        }
    };
    // A panic of the engine is reported as a difference, with the way there.
    std::panic::set_hook(Box::new(|_| ()));
    let cases = options.cases;
    let share = options.ops.div_ceil(cases.len());
    let start = Instant::now();
    let mut total = 0;
    for case in &cases {
        let case_start = Instant::now();
        let (mut served, mut refused) = (0, 0);
        for (seed, ops) in segments(share, options.seed) {
            match (case.check)(seed, ops) {
                Ok(summary) => {
                    served += summary.served;
                    refused += summary.refused;
                }
                Err(message) => {
                    eprintln!("{message}");
                    return ExitCode::FAILURE;
                }
            }
        }
        let rate = share as f64 / case_start.elapsed().as_secs_f64() / 1e6;
        println!(
            "{:>12}: {share} operations, {served} requests served, {refused} refused, no \
             difference; {rate:.2} M/s",
            case.name
        );
        total += share;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{total} operations without a difference in {seconds:.1} s");
    ExitCode::SUCCESS
}
