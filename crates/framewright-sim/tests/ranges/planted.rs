//! Checks that cannot fail prove nothing: on a platform that breaks its promises each kind of
//! broken promise is found.

use framewright_sim::PagingLie;
use framewright_sim::range::{self, DrivenCase, RangeCase};

/// What is found when the platform lies, in the cases of that name, under some seed.
fn found(names: &[&str], lie: PagingLie) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let case = RangeCase::named(name).unwrap();
        for seed in 1..4 {
            let paging = case.paging();
            paging.lie(lie);
            let run = range::run(&case, &paging, case.ops(seed).take(1000));
            found.extend(run.err().map(|finding| finding.difference.0));
        }
    }
    found
}

fn is_found(names: &[&str], lie: PagingLie, by: &[&str]) {
    let found = found(names, lie);
    assert_eq!(found.len(), 3 * names.len(), "{lie:?} goes unseen");
    for words in by {
        let is_among = found.iter().any(|found| found.contains(words));
        assert!(is_among, "{lie:?} is never found by '{words}': {found:#?}");
    }
}

#[test]
fn v5_a_flush_that_does_nothing_is_found() {
    is_found(
        &["seven", "kept", "arena"],
        PagingLie::FlushNothing,
        &["V5"],
    );
    // Without the eager TLBs too, where only an access loads a translation.
    is_found(&["access"], PagingLie::FlushNothing, &["V5"]);
}

#[test]
fn v5_pages_that_stay_mapped_are_found() {
    for lie in [PagingLie::UnmapNothing, PagingLie::UnmapAllButOne] {
        is_found(&["seven", "kept", "arena"], lie, &["mapped"]);
    }
}

#[test]
fn v14_pages_that_are_mapped_for_another_access_are_found() {
    is_found(
        &["kept", "arena", "blocks", "at-once"],
        PagingLie::MapForAll,
        &["V14"],
    );
}

#[test]
fn contents_that_were_not_zeroed_are_found() {
    is_found(&["kept", "arena"], PagingLie::ZeroAllButOne, &["has Some"]);
}

#[test]
fn frames_in_the_wrong_order_are_found() {
    is_found(&["blocks", "arena"], PagingLie::MapReversed, &["not 0x"]);
}

#[test]
fn v7_frames_that_do_not_come_back_are_found() {
    is_found(&["few-frames", "kept"], PagingLie::LoseFrames, &["frames"]);
}
