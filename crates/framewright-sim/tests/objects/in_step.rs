//! Engine and model in step, compared after every operation.

use framewright_sim::object::{self, DrivenCase, ObjectCase};

fn check(case: &ObjectCase, seed: u64, ops: usize) -> object::RunSummary {
    match object::check(case, seed, ops) {
        Ok(summary) => summary,
        Err(message) => panic!("{message}"),
    }
}

#[test]
fn small_memory_agrees_with_the_model_after_every_operation() {
    for mut case in ObjectCase::all() {
        if case.zone.frames <= 256 {
            case.stride = 37;
            let (mut served, mut refused) = (0, 0);
            for seed in 1..=4 {
                let summary = check(&case, seed, 600);
                served += summary.served;
                refused += summary.refused;
            }
            let both = served > 200 && refused > 50;
            assert!(both, "{}: {served} served, {refused} refused", case.name);
        }
    }
}

#[test]
fn every_byte_of_every_object_is_its_users() {
    for name in ["sixteen", "cache", "few-slabs"] {
        check(&ObjectCase::named(name).unwrap(), 9, 400);
    }
}

#[test]
fn larger_memory_agrees_with_the_model() {
    for case in ObjectCase::all() {
        if case.zone.frames > 256 {
            let summary = check(&case.sparse(), 1, 6000);
            assert!(summary.served > 1000, "{}: {summary:?}", case.name);
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    let case = ObjectCase::named("small").unwrap();
    assert_eq!(check(&case, 7, 300), check(&case, 7, 300));
    assert_ne!(check(&case, 7, 300), check(&case, 8, 300));
}
