//! Engine and model in step, compared after every operation.

use framewright_sim::range::{self, DrivenCase, RangeCase};

fn check(case: &RangeCase, seed: u64, ops: usize) -> range::RunSummary {
    match range::check(case, seed, ops) {
        Ok(summary) => summary,
        Err(message) => panic!("{message}"),
    }
}

#[test]
fn small_windows_agree_with_the_model_after_every_operation() {
    for case in RangeCase::all() {
        if case.layout.pages <= 512 {
            let (mut served, mut refused) = (0, 0);
            for seed in 1..=6 {
                let summary = check(&case, seed, 1000);
                served += summary.served;
                refused += summary.refused;
            }
            let both = served > 500 && refused > 50;
            assert!(both, "{}: {served} served, {refused} refused", case.name);
        }
    }
}

#[test]
fn larger_windows_agree_with_the_model() {
    for case in RangeCase::all() {
        if case.layout.pages > 512 {
            let summary = check(&case.sparse(), 1, 20_000);
            assert!(summary.served > 5000, "{}: {summary:?}", case.name);
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let case = RangeCase::named("seven").unwrap();
    assert_eq!(check(&case, 7, 500), check(&case, 7, 500));
    assert_ne!(check(&case, 7, 500), check(&case, 8, 500));
}
