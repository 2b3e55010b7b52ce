//! Runs that look for a difference: by a seed, over all sequences of a length, or with each call of the platform
//! failing in turn.

use super::{Cadence, DrivenCase};
use crate::MachineCall;
use crate::difference::{Finding, RunSummary};
use crate::shrink::{shrink, simplify};

/// Runs the first `ops` operations of `case` with `seed` on engine and model. A sequence that
/// differs is shortened and explained, with the command that repeats it.
///
/// # Errors
/// The explanation.
pub fn check<S: DrivenCase>(case: &S, seed: u64, ops: usize) -> Result<RunSummary, String> {
    let found = case.run(&case.platform(), case.ops(seed).take(ops));
    found.map_err(|finding| {
        let all: Vec<S::Op> = case.ops(seed).take((finding.at + 1).min(ops)).collect();
        let name = case.name();
        let explained = explain(case, &all, &finding);
        // An option stands apart, behind an empty line.
        let (apart, option) = match S::OPTION {
            Some(option) => ("\n", format!(" {option}")),
            None => ("", String::new()),
        };
        format!(
            "{name} seed {seed}, {explained}{apart}  repeat: cargo run --release -p framewright-sim \
             --example model --{option} --case {name} --seed {seed} --ops {ops}"
        )
    })
}

/// Shortens a sequence that differs, and writes it down with its difference.
pub(crate) fn explain<S: DrivenCase>(case: &S, ops: &[S::Op], finding: &Finding) -> String {
    let thorough = case.checked(Cadence::EACH);
    let again = |ops: &[S::Op]| thorough.run(&thorough.platform(), ops.iter().copied());
    let fails = |ops: &[S::Op]| again(ops).is_err();
    let dropped = shrink(ops, fails);
    let mut short = simplify(&dropped, |&op| thorough.simpler(op), fails);
    if short != dropped {
        // Items that have become simpler may no longer need the others.
        short = shrink(&short, fails);
    }
    let last = again(&short).map_or_else(|short| short.difference, |_| finding.difference.clone());
    let list: String = short.iter().map(|op| format!("    {op:?},\n")).collect();
    format!("operation {}: {last}\n  after\n{list}", finding.at)
}

/// Runs every sequence of `length` operations out of `alphabet` on engine and model, each on a new
/// platform; returns how many there were.
///
/// Time: `alphabet.len().pow(length)` runs.
///
/// # Errors
/// The first sequence after which they differ.
pub fn every_sequence<S: DrivenCase>(
    case: &S,
    alphabet: &[S::Op],
    length: u32,
) -> Result<u64, (Vec<S::Op>, Finding)> {
    let sequences = (alphabet.len() as u64).pow(length);
    for number in 0..sequences {
        let mut rest = number;
        let sequence = (0..length).map(|_| {
            let op = alphabet[(rest % alphabet.len() as u64) as usize];
            rest /= alphabet.len() as u64;
            op
        });
        let sequence: Vec<S::Op> = sequence.collect();
        if let Err(finding) = case.run(&case.platform(), sequence.iter().copied()) {
            return Err((sequence, finding));
        }
    }
    Ok(sequences)
}

/// What [`each_failure`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failures {
    /// How many calls there are in the sequence, those at its end included.
    pub calls: u64,
    /// How many of them were made to fail, each in a run of its own.
    pub runs: u64,
    /// How many of those failed during an operation. Fewer than `runs` if some calls are made by
    /// the freeing of everything at the end, when calls no longer fail.
    pub met: u64,
}

/// Runs the first `ops` operations of `case` with `seed` as often as they make such calls, at most
/// `runs_max` times, with another call failing each time; and once before without a failure.
///
/// # Errors
/// The first difference, or that there is no such call at all, so that nothing was checked.
pub fn each_failure<S: DrivenCase>(
    case: &S,
    call: MachineCall,
    seed: u64,
    ops: usize,
    runs_max: u64,
) -> Result<Failures, String> {
    let name = case.name();
    let platform = case.platform();
    let explained = |finding: Finding| format!("operation {}: {}", finding.at, finding.difference);
    case.run(&platform, case.ops(seed).take(ops))
        .map_err(|finding| format!("{name}, nothing fails, {}", explained(finding)))?;
    let calls = S::machine(&platform).calls(call);
    if calls == 0 {
        return Err(format!("{name}: no {call:?} at all"));
    }
    let runs = calls.min(runs_max);
    let mut met = 0;
    for nth in 0..runs {
        let platform = case.platform();
        S::machine(&platform).fail(call, nth, 1);
        let summary = case
            .run(&platform, case.ops(seed).take(ops))
            .map_err(|finding| format!("{name}, {call:?} {nth}, {}", explained(finding)))?;
        met += summary.faults;
    }
    Ok(Failures { calls, runs, met })
}
