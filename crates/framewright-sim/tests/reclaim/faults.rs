//! The n-th call of any client is made to fail: nothing is lost, and life goes on.

use framewright_sim::MachineCall;
use framewright_sim::drive::{Failures, each_failure};
use framewright_sim::reclaim::{DrivenCase, ReclaimCase};

/// Each of them with `--release`, some without.
const RUNS: u64 = if cfg!(debug_assertions) { 12 } else { 1000 };

/// Runs 1200 operations of the case as often as it makes such calls, at most [`RUNS`] times, with
/// another one failing each time; most must be met.
fn each_fails_once(name: &str, call: MachineCall) {
    let mut case = ReclaimCase::named(name).unwrap();
    // What the next operation does must not need a `verify` in between.
    case.cadence.verify_every = 100;
    let Failures { calls, runs, met } =
        each_failure(&case, call, 3, 1200, RUNS).unwrap_or_else(|message| panic!("{message}"));
    assert!(
        calls > 10 && met * 2 > runs,
        "{name}: {met} of {runs}, {calls}"
    );
}

#[test]
fn a_cache_that_gives_nothing_once_leaves_everything_as_it_was() {
    for name in ["tiny", "small", "frames", "cached"] {
        each_fails_once(name, MachineCall::Shrink);
    }
}

#[test]
fn contents_that_do_not_move_once_leave_everything_as_it_was() {
    for name in ["small", "cached", "odd"] {
        each_fails_once(name, MachineCall::Migrate);
    }
}
