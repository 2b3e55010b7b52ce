//! What to change, of what the recorded kernel has.
//!
//! # Invariants
//! - **AW4** No setting is named that the recorded kernel lacks, as far as the recording says which it has; where that is not
//!   known, it is said. None is tried that it may lack.

use super::figures::AnswerFigures;
use super::judged::JudgedSettings;
use super::kernel::{
    AnswerZones, BOOST, DEFRAG, KernelSetting, MIN_FREE, PROACTIVENESS, RecordedKernel, SCALE,
};
use super::said;
use crate::before::buddy::LinuxPolicy;
use crate::replay::{FailureCause, ReplayPolicy};

const MORE_MEMORY: &str = "give the machine more memory, or let it use less";

/// What is said where each setting is at its end.
const NOTHING_LEFT: &str = "this kernel has no setting left to try";

/// What to change so that fewer of the failures happen that the answer is about, in a sentence; `None` where there are none.
/// `best` are the best rules that helped.
pub(super) fn change(
    figures: &AnswerFigures,
    best: Option<ReplayPolicy>,
    settings: Option<&JudgedSettings<'_>>,
) -> Option<String> {
    let (log, kernel) = (figures.subject(), &figures.kernel);
    if log.total() == 0 {
        return None;
    }
    let cause = FailureCause::ALL
        .into_iter()
        .max_by_key(|&cause| log.of_cause(cause))?;
    let first = match log.counts.reported.iter().sum::<u64>() {
        0 => {
            "For the log nothing has to change, since callers that pass __GFP_NOWARN count on failures; for speed, "
        }
        _ => "To change: ",
    };
    let mut parts = Vec::new();
    if let (FailureCause::Fragmented, Some(policy)) = (cause, best) {
        parts.push(rules_to_have(policy, figures.base, kernel));
    }
    let judged = settings.filter(|_| cause != FailureCause::Exhausted);
    parts.extend(judged.map(said::settings));
    match (cause, best) {
        (FailureCause::Exhausted, _) => parts.push(MORE_MEMORY.to_owned()),
        (FailureCause::Watermark, _) => {
            let tried = untried(kernel, &[MIN_FREE, SCALE], judged);
            parts.extend(match (tried.is_empty(), judged) {
                (true, Some(_)) => None,
                (true, None) => Some(format!("{NOTHING_LEFT}: {MORE_MEMORY}")),
                (false, _) => Some(format!(
                    "try {}, so that reclaim begins earlier; {} cannot say how much that helps",
                    tried.join(" or "),
                    match figures.zones {
                        AnswerZones::None => "this replay has no zones and",
                        _ => "this replay tries no other watermarks and",
                    }
                )),
            });
        }
        (FailureCause::Fragmented, Some(_)) => {}
        (FailureCause::Fragmented, None) => {
            let mut tried = untried(kernel, &[PROACTIVENESS, BOOST], judged);
            tried.extend(kernel.extfrag(log));
            let trials = kernel.trials(figures.base, false).into_iter();
            let is_open = judged.is_none() && figures.zones == AnswerZones::None;
            let with_marks = trials.filter(|trial| is_open && !trial.is_less);
            let with_marks: Vec<String> = with_marks
                .map(|trial| format!("with --watermarks on a replay tries {trial}"))
                .collect();
            parts.extend(match (tried.is_empty(), judged) {
                (true, Some(_)) => None,
                (true, None) => with_marks.is_empty().then(|| NOTHING_LEFT.to_owned()),
                (false, Some(_)) => Some(format!("not tried: {}", tried.join(", "))),
                (false, None) => Some(format!("try what no replay can: {}", tried.join(", "))),
            });
            parts.extend(with_marks);
        }
    }
    if cause == FailureCause::Fragmented {
        parts.extend(kernel.options(log));
    }
    Some(format!("{first}{}.", parts.join("; ")))
}

/// What to try of these settings, without those that were tried with more work for the kernel.
fn untried(
    kernel: &RecordedKernel,
    settings: &[KernelSetting],
    judged: Option<&JudgedSettings<'_>>,
) -> Vec<String> {
    let untried = settings
        .iter()
        .filter(|setting| judged.is_none_or(|judged| !judged.has_more_of(setting.name)));
    untried.filter_map(|one| kernel.tried(one)).collect()
}

/// How to come by a policy's rules.
fn rules_to_have(policy: ReplayPolicy, base: ReplayPolicy, kernel: &RecordedKernel) -> String {
    use LinuxPolicy::{Linux612, Linux612NoFragment, Linux618Defrag, NoGrouping, Proposal};
    use ReplayPolicy::{Engine, Linux};
    match (policy, base) {
        (Engine(_), _) => {
            format!("{policy} is a policy of this engine and in no kernel: it wants a patch")
        }
        (Linux(NoGrouping), _) => {
            format!("{policy} is a pole to learn from, and no kernel has it")
        }
        (Linux(Linux612), Linux(Linux618Defrag)) => {
            "vm.defrag_mode from 1 to 0 brings these rules back".into()
        }
        (Linux(Linux612NoFragment), Linux(Linux618Defrag)) => {
            "these rules are a part of vm.defrag_mode=1, and no setting brings that part alone"
                .into()
        }
        (Linux(Linux612NoFragment | Linux618Defrag), _) => {
            let nearest = match (kernel.has(&DEFRAG), &kernel.settings) {
                (Some(false), _) => {
                    return "no setting of this kernel comes near these rules: a newer one has one (Linux 6.15 and later)"
                        .into();
                }
                (Some(true), Some(now)) => match now.number(DEFRAG.name) {
                    Some(0) => "vm.defrag_mode from 0 to 1",
                    _ => "vm.defrag_mode, which is on,",
                },
                (Some(true), None) => "vm.defrag_mode=1",
                (None, _) => "vm.defrag_mode=1 (Linux 6.15 and later)",
            };
            let boost = kernel.tried(&BOOST);
            let boost = boost.map_or_else(String::new, |one| format!(", and {one} goes with it"));
            format!("{nearest} is the setting nearest to these rules{boost}")
        }
        (Linux(Proposal), _) => {
            "these rules were proposed in 2016 and never merged: they want a patch".into()
        }
        (Linux(older), Linux(base)) if older < base => {
            format!(
                "no setting brings the rules of {policy} back: they want a patch, or that kernel"
            )
        }
        _ => format!("these are the rules of a newer kernel, {policy}"),
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
