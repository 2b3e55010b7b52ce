//! The n-th call of anything is made to fail: nothing is lost, the state is as before, and life
//! goes on.

use framewright_sim::MachineCall;
use framewright_sim::drive::{Failures, each_failure};
use framewright_sim::range::{DrivenCase, RangeCase};

/// Runs 300 operations of the case as often as it makes such calls, at most `runs` times, with
/// another one failing each time; each must be met.
fn each_fails_once(name: &str, call: MachineCall, runs: u64) {
    let mut case = RangeCase::named(name).unwrap();
    // What the next operation does must not need a `verify` in between.
    case.cadence.verify_every = 50;
    let Failures { calls, runs, met } =
        each_failure(&case, call, 3, 300, runs).unwrap_or_else(|message| panic!("{message}"));
    // Some are made by the drains at the end.
    assert!(met * 2 > runs, "{name}: {met} of {calls} {call:?}");
}

#[test]
fn a_frame_allocation_that_fails_leaves_everything_as_it_was() {
    for name in ["eight", "kept", "few-frames", "arena"] {
        each_fails_once(name, MachineCall::Frames, 200);
    }
}

#[test]
fn a_map_that_fails_leaves_everything_as_it_was() {
    for name in ["eight", "kept", "blocks", "arena", "few-frames"] {
        each_fails_once(name, MachineCall::Map, 200);
    }
}

#[test]
fn what_failed_to_be_unmapped_stays_lazy_and_is_unmapped_later() {
    for name in ["eight", "one-span", "seven", "kept", "blocks", "arena"] {
        each_fails_once(name, MachineCall::Unmap, 200);
    }
}

#[test]
fn a_flush_that_takes_long_changes_nothing() {
    for name in ["eight", "seven", "kept"] {
        each_fails_once(name, MachineCall::Flush, 50);
    }
}
