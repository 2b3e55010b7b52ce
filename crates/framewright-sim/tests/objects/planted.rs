//! Checks that cannot fail prove nothing: on a platform that breaks its promises each kind of
//! broken promise is found.

use framewright_sim::PagingLie;
use framewright_sim::object::{self, DrivenCase, ObjectCase};

/// What is found when the platform lies, under each of some seeds.
fn found(name: &str, lie: PagingLie) -> Vec<String> {
    let case = ObjectCase::named(name).unwrap();
    let found = (3..6).map(|seed| {
        let ram = case.ram();
        ram.paging().lie(lie);
        let run = object::run(&case, &ram, case.ops(seed).take(400));
        match run {
            Ok(summary) => panic!("{lie:?} goes unseen under seed {seed}: {summary:?}"),
            Err(finding) => finding.difference.0,
        }
    });
    found.collect()
}

#[test]
fn v5_translations_that_stay_are_found() {
    for lie in [
        PagingLie::FlushNothing,
        PagingLie::UnmapNothing,
        PagingLie::UnmapAllButOne,
    ] {
        for said in found("mapped", lie) {
            assert!(said.contains("V5") || said.contains("mapped"), "{said}");
        }
    }
}

#[test]
fn contents_that_are_not_zeroed_are_found() {
    for said in found("mapped", PagingLie::ZeroAllButOne) {
        assert!(said.contains("not zero"), "{said}");
    }
}

#[test]
fn frames_that_are_lost_are_found() {
    for said in found("sixteen", PagingLie::LoseFrames) {
        assert!(said.contains("frames") || said.contains("K1"), "{said}");
    }
}
