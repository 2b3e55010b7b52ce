//! Engine and model in step, compared after every operation.

use framewright_sim::reclaim::{self, DrivenCase, ReclaimCase};

fn check(case: &ReclaimCase, seed: u64, ops: usize) -> reclaim::RunSummary {
    match reclaim::check(case, seed, ops) {
        Ok(summary) => summary,
        Err(message) => panic!("{message}"),
    }
}

#[test]
fn small_memory_agrees_with_the_model_after_every_operation() {
    for case in ReclaimCase::all() {
        if case.layout.frames <= 256 {
            let (mut served, mut refused) = (0, 0);
            for seed in 1..=4 {
                let summary = check(&case, seed, 1500);
                served += summary.served;
                refused += summary.refused;
            }
            let both = served > 1000 && refused > 10;
            assert!(both, "{}: {served} served, {refused} refused", case.name);
        }
    }
}

#[test]
fn larger_memory_agrees_with_the_model() {
    for case in ReclaimCase::all() {
        if case.layout.frames > 256 {
            let summary = check(&case.sparse(), 1, 6000);
            assert!(summary.served > 2000, "{}: {summary:?}", case.name);
        }
    }
}

#[test]
fn f8_costly_requests_that_must_not_wait_miss_what_others_have_cached() {
    let case = ReclaimCase::named("hoarded").unwrap().sparse();
    let missed = |seed| check(&case, seed, 4000).missed;
    let all: Vec<u64> = (1..=8).map(missed).collect();
    assert!(all.iter().any(|&missed| missed > 0), "{all:?}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let case = ReclaimCase::named("small").unwrap();
    assert_eq!(check(&case, 7, 300), check(&case, 7, 300));
    assert_ne!(check(&case, 7, 300), check(&case, 8, 300));
}
