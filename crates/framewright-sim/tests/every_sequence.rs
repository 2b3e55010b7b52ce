//! Every sequence of six operations on eight frames: small enough that no luck is needed. With
//! `--release` the alphabets have ten operations instead of six: two million sequences.

use framewright::policy::Label;
use framewright::{Mobility, Order};
use framewright_sim::frame::{DrivenCase, every_sequence};
use framewright_sim::{FrameCase, FrameOp};
use std::collections::BTreeSet;

const fn alloc(order: u8, mobility: Mobility) -> FrameOp {
    let cpu = 0;
    FrameOp::Alloc {
        cpu,
        order,
        mobility,
    }
}

fn eight(pageblock: u8) -> FrameCase {
    let mut case = FrameCase::named("eight").unwrap();
    let order = |order| Order::new(order).unwrap();
    case.layout = case.layout.with_orders(order(pageblock), order(3));
    case
}

fn run_all(pageblock: u8, alphabet: &[FrameOp; 10]) {
    let alphabet = if cfg!(debug_assertions) {
        &alphabet[..6]
    } else {
        alphabet
    };
    let mut case = eight(pageblock);
    // Every prefix of a sequence is the beginning of another one, so that a state that is wrong is
    // verified at some sequence's end.
    case.cadence.verify_every = u32::MAX;
    match every_sequence(&case, alphabet, 6) {
        Ok(sequences) => assert_eq!(sequences, (alphabet.len() as u64).pow(6)),
        Err((sequence, finding)) => panic!("{}\n  after {sequence:#?}", finding.difference),
    }
}

#[test]
fn every_sequence_of_six_ops_on_eight_frames() {
    // One pageblock: splitting and merging, parts, misuse.
    let alphabet = [
        alloc(0, Mobility::Unmovable),
        alloc(1, Mobility::Movable),
        alloc(2, Mobility::Reclaimable),
        FrameOp::Free { cpu: 1, pick: 0 },
        FrameOp::FreePart {
            cpu: 0,
            pick: 1,
            order: 0,
            part: 1,
        },
        FrameOp::FreeAny {
            cpu: 0,
            at: 4,
            order: 2,
        },
        alloc(3, Mobility::Movable),
        alloc(0, Mobility::Movable),
        FrameOp::FreeTwice { cpu: 0, pick: 1 },
        FrameOp::AllocAt {
            at: 6,
            order: 1,
            mobility: Mobility::Unmovable,
        },
    ];
    run_all(3, &alphabet);
}

#[test]
fn every_sequence_of_six_ops_on_four_pageblocks_of_two_frames() {
    // Blocks above the pageblocks, labels, isolation, holes.
    let contiguous = FrameOp::SetLabel {
        block: 1,
        blocks: 1,
        label: Label::Contiguous,
    };
    let alphabet = [
        alloc(1, Mobility::Unmovable),
        alloc(2, Mobility::Movable),
        FrameOp::Free { cpu: 1, pick: 0 },
        FrameOp::Remove { at: 6, frames: 1 },
        FrameOp::Isolate {
            block: 2,
            blocks: 1,
        },
        contiguous,
        alloc(3, Mobility::Reclaimable),
        FrameOp::FreePart {
            cpu: 0,
            pick: 0,
            order: 0,
            part: 2,
        },
        FrameOp::Add { at: 6, frames: 1 },
        FrameOp::AllocContiguous {
            frames: 3,
            align: 0,
            mobility: Mobility::Movable,
        },
    ];
    run_all(1, &alphabet);
}

#[test]
fn the_sequences_reach_what_they_are_for() {
    // The alphabet would be worthless if its operations were all refused.
    let mut states = BTreeSet::new();
    let ops = [
        alloc(0, Mobility::Unmovable),
        alloc(1, Mobility::Movable),
        FrameOp::Free { cpu: 0, pick: 0 },
    ];
    for number in 0..729u32 {
        let sequence = (0..6).map(|nth| ops[(number / 3u32.pow(nth) % 3) as usize]);
        let summary =
            framewright_sim::frame::run(&eight(3), &framewright_sim::Machine::new(2), sequence)
                .unwrap();
        states.insert((summary.served, summary.refused));
    }
    assert!(states.len() > 8, "{states:?}");
}
