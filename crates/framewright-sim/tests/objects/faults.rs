//! The n-th call of anything is made to fail: nothing is lost, the state is as before, and life
//! goes on.

use framewright_sim::MachineCall;
use framewright_sim::drive::{Failures, each_failure};
use framewright_sim::object::{DrivenCase, ObjectCase};

/// Runs 200 operations of the case as often as it makes such calls, at most `runs` times, with
/// another one failing each time; each must be met.
fn each_fails_once(name: &str, call: MachineCall, runs: u64) {
    let mut case = ObjectCase::named(name).unwrap();
    case.stride = 251;
    // What the next operation does must not need a `verify` in between.
    case.cadence.verify_every = 100;
    let Failures { calls, runs, met } =
        each_failure(&case, call, 3, 200, runs).unwrap_or_else(|message| panic!("{message}"));
    // Some are made by the drains at the end.
    assert!(met * 2 > runs, "{name}: {met} of {calls} {call:?}");
}

/// Each of them with `--release`, some hundred without.
const RUNS: u64 = if cfg!(debug_assertions) { 120 } else { 10_000 };

#[test]
fn a_frame_allocation_that_fails_leaves_everything_as_it_was() {
    for name in ["sixteen", "cache", "skewed"] {
        each_fails_once(name, MachineCall::Frames, RUNS);
    }
}

#[test]
fn a_block_that_is_not_there_leaves_everything_as_it_was() {
    for name in ["sixteen", "small", "cache", "few-slabs"] {
        each_fails_once(name, MachineCall::Block, RUNS);
    }
}

#[test]
fn a_map_that_fails_leaves_everything_as_it_was() {
    for name in ["sixteen", "mapped", "cache"] {
        each_fails_once(name, MachineCall::Map, RUNS);
    }
}

#[test]
fn what_failed_to_be_unmapped_stays_lazy_and_is_unmapped_later() {
    for name in ["sixteen", "mapped"] {
        each_fails_once(name, MachineCall::Unmap, RUNS);
    }
}

#[test]
fn relief_that_gives_nothing_leaves_everything_as_it_was() {
    for name in ["sixteen", "cache"] {
        each_fails_once(name, MachineCall::Relief, RUNS);
    }
}
