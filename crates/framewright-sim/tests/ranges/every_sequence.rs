//! Every sequence of six operations on a window of eight pages: small enough that no luck is
//! needed. With `--release` the alphabets have ten operations instead of six: a million sequences.

use framewright::vrange::AreaKind::{self, Plain, Ram, Vmalloc};
use framewright::{Context, Page};
use framewright_sim::RunSummary;
use framewright_sim::range::{self, DrivenCase, RangeCase, RangeOp, every_sequence};
use std::collections::BTreeSet;

const fn alloc(kind: AreaKind, pages: u64) -> RangeOp {
    aligned(kind, pages, Page::BYTES)
}

const fn aligned(kind: AreaKind, pages: u64, align_bytes: u64) -> RangeOp {
    RangeOp::Alloc {
        cpu: 0,
        kind,
        pages,
        align_bytes,
        guard_before: false,
        huge: false,
        zero: matches!(kind, Vmalloc),
        context: Context::ANY,
    }
}

const fn free(cpu: u16, pick: u32) -> RangeOp {
    RangeOp::Free { cpu, pick }
}

fn eight(span_pages: u32) -> RangeCase {
    let mut case = RangeCase::named("eight").unwrap();
    case.layout = case.layout.with_span_pages(span_pages);
    // Every prefix of a sequence is the beginning of another one, so that a state that is wrong is
    // verified at some sequence's end.
    case.cadence.verify_every = u32::MAX;
    case
}

fn run_all(case: &RangeCase, alphabet: &[RangeOp; 10]) {
    let alphabet = if cfg!(debug_assertions) {
        &alphabet[..6]
    } else {
        alphabet
    };
    match every_sequence(case, alphabet, 6) {
        Ok(sequences) => assert_eq!(sequences, (alphabet.len() as u64).pow(6)),
        Err((sequence, finding)) => panic!("{}\n  after {sequence:#?}", finding.difference),
    }
}

#[test]
fn every_sequence_of_six_ops_on_eight_pages() {
    // Areas of all kinds, two CPUs, spans of half the window.
    let alphabet = [
        alloc(Plain, 1),
        alloc(Vmalloc, 2),
        alloc(Ram, 1),
        free(1, 0),
        free(0, 1),
        RangeOp::Purge { cpu: 0 },
        alloc(Ram, 4),
        aligned(Plain, 3, 4 * Page::BYTES),
        RangeOp::FreeTwice { cpu: 0, pick: 0 },
        RangeOp::Drain { cpu: 1 },
    ];
    run_all(&eight(4), &alphabet);
}

#[test]
fn every_sequence_of_six_ops_in_one_span() {
    let alphabet = [
        alloc(Plain, 1),
        alloc(Plain, 3),
        alloc(Ram, 2),
        free(1, 0),
        free(0, 0),
        RangeOp::Drain { cpu: 0 },
        aligned(Vmalloc, 1, 2 * Page::BYTES),
        alloc(Plain, 7),
        free(0, 1),
        RangeOp::Purge { cpu: 1 },
    ];
    run_all(&eight(8), &alphabet);
}

#[test]
fn every_sequence_of_six_ops_with_kept_areas_and_nothing_lazy() {
    let alphabet = [
        alloc(Vmalloc, 1),
        alloc(Vmalloc, 2),
        free(0, 0),
        free(1, 0),
        alloc(Plain, 2),
        RangeOp::Drain { cpu: 0 },
        alloc(Ram, 1),
        free(0, 1),
        RangeOp::FreeTwice { cpu: 1, pick: 0 },
        RangeOp::Reseat { cpu: 0 },
    ];
    let mut case = eight(4);
    case.config.kept_pages_max = 8;
    case.config.lazy_pages_max = 0;
    case.pool_frames = 4;
    run_all(&case, &alphabet);
}

#[test]
fn the_sequences_reach_what_they_are_for() {
    // The alphabet would be worthless if its operations were all refused.
    let mut states = BTreeSet::new();
    let ops = [alloc(Plain, 1), alloc(Vmalloc, 2), free(0, 0)];
    for number in 0..729u32 {
        let case = eight(4);
        let sequence = (0..6).map(|nth| ops[(number / 3u32.pow(nth) % 3) as usize]);
        let RunSummary {
            served, refused, ..
        } = range::run(&case, &case.paging(), sequence).unwrap();
        states.insert((served, refused));
    }
    assert!(states.len() > 8, "{states:?}");
}
