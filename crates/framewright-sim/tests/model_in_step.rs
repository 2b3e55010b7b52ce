//! Engine and model in step, compared after every operation.

use framewright_sim::frame::DrivenCase;
use framewright_sim::{FrameCase, frame};

fn check(case: &FrameCase, seed: u64, ops: usize) -> frame::RunSummary {
    match frame::check(case, seed, ops) {
        Ok(summary) => summary,
        Err(message) => panic!("{message}"),
    }
}

#[test]
fn small_zones_agree_with_the_model_after_every_operation() {
    for case in FrameCase::all() {
        if case.layout.frames <= 120 {
            let (mut served, mut refused) = (0, 0);
            for seed in 1..=10 {
                let summary = check(&case, seed, 2000);
                served += summary.served;
                refused += summary.refused;
            }
            let both = served > 1000 && refused > 100;
            assert!(both, "{}: {served} served, {refused} refused", case.name);
        }
    }
}

#[test]
fn larger_zones_agree_with_the_model() {
    for mut case in FrameCase::all() {
        if case.layout.frames > 120 {
            case.cadence.verify_every = case.layout.frames as u32 / 2;
            let summary = check(&case, 1, 30_000);
            assert!(summary.served > 7500, "{}: {summary:?}", case.name);
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let case = FrameCase::named("odd").unwrap();
    assert_eq!(check(&case, 7, 500), check(&case, 7, 500));
    assert_ne!(check(&case, 7, 500), check(&case, 8, 500));
}
