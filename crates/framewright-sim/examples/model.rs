//! Runs engine and model in step for as many operations as asked:
//! `cargo run --release -p framewright-sim --example model -- --ops 100000000 --seed 1`.
//!
//! Each case gets its share, in segments with a new zone each. `--case NAME` runs that one alone,
//! in one segment, so that the command that a failure prints repeats it.

use framewright_sim::{Case, frame};
use std::process::ExitCode;
use std::time::Instant;

/// Long enough for a zone to be filled and emptied many times, short enough to be shrunk.
const SEGMENT: usize = 1_000_000;

struct Options {
    ops: usize,
    seed: u64,
    case: Option<Case>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        ops: 1_000_000,
        seed: 1,
        case: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or(format!("{name} needs a value"))?;
        let number = || {
            let number: Result<u64, _> = value.replace('_', "").parse();
            number.map_err(|_| format!("{name} {value} is not a number"))
        };
        match name.as_str() {
            "--ops" => options.ops = number()? as usize,
            "--seed" => options.seed = number()?,
            "--case" => {
                let names: Vec<&str> = Case::all().iter().map(|case| case.name).collect();
                let unknown = format!("{value} is not one of {}", names.join(", "));
                options.case = Some(Case::named(&value).ok_or(unknown)?);
            }
            _ => return Err(format!("{name} is not one of --ops, --seed, --case")),
        }
    }
    Ok(options)
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
    let cases = options.case.map_or_else(Case::all, |case| vec![case]);
    let share = options.ops.div_ceil(cases.len());
    let start = Instant::now();
    let mut total = 0;
    for case in &cases {
        let case_start = Instant::now();
        let (mut served, mut refused) = (0, 0);
        for (seed, ops) in segments(share, options.seed) {
            match frame::check(&case.sparse(), seed, ops) {
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
            "{:>10}: {share} operations, {served} requests served, {refused} refused, no \
             difference; {rate:.2} M/s",
            case.name
        );
        total += share;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{total} operations without a difference in {seconds:.1} s");
    ExitCode::SUCCESS
}
