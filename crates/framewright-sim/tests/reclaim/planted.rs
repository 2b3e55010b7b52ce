//! Checks that cannot fail prove nothing: clients that break their promises, and an engine that
//! hears something else than they say, are found.

use framewright_sim::reclaim::{DrivenCase, ReclaimCase, ReclaimLie};

/// What is found under each of some seeds.
fn found(name: &str, lie: ReclaimLie) -> Vec<String> {
    let case = ReclaimCase {
        lie,
        ..ReclaimCase::named(name).unwrap()
    };
    let found = (1..4).map(
        |seed| match case.run(&case.platform(), case.ops(seed).take(100_000)) {
            Ok(summary) => panic!("{lie:?} goes unseen under seed {seed}: {summary:?}"),
            Err(finding) => finding.difference.0,
        },
    );
    found.collect()
}

fn each_says(lie: ReclaimLie, words: &[&str]) {
    for name in ["small", "cached"] {
        for said in found(name, lie) {
            let is_it = words.iter().any(|word| said.contains(word));
            assert!(is_it, "{lie:?} in {name}: {said}");
        }
    }
}

#[test]
fn r2_bytes_that_are_lost_are_found() {
    each_says(ReclaimLie::MoveWithoutContents, &["R2: the contents"]);
    each_says(ReclaimLie::SayMovedAndStay, &["R2", "not live", "an owner"]);
}

#[test]
fn r2_an_engine_that_hears_something_else_is_found() {
    each_says(
        ReclaimLie::HearBusy,
        &["pgmigrate", "is to move", "to be dropped", "target"],
    );
    each_says(
        ReclaimLie::HearMoved,
        &[
            "pgmigrate",
            "is to move",
            "to be dropped",
            "target",
            "handed out",
            "moved, stayed and dropped",
        ],
    );
}

#[test]
fn r6_a_pin_that_is_broken_is_found() {
    each_says(ReclaimLie::MovePinned, &["R6", "pinned"]);
}

#[test]
fn r1_a_pageblock_that_stays_isolated_and_a_frame_that_is_lost_are_found() {
    each_says(ReclaimLie::LeaveIsolated, &["R1", "isolat", "was there"]);
    each_says(ReclaimLie::LoseFrame, &["pgfree", "pgalloc"]);
}

#[test]
fn caches_that_say_more_than_they_gave_are_found() {
    each_says(
        ReclaimLie::Overstate,
        &["R3", "R7", "asked to look", "clients say"],
    );
}
