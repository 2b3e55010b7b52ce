//! Every sequence of a few operations on four pageblocks of eight frames: small enough that no luck
//! is needed.

use framewright::Mobility::{self, Movable, Unmovable};
use framewright_sim::reclaim::{DrivenCase, ReclaimCase, ReclaimOp, USER, every_sequence, mood};

const fn alloc(order: u8, mobility: Mobility, owner: u8) -> ReclaimOp {
    ReclaimOp::Alloc {
        cpu: 0,
        order,
        mobility,
        owner,
        nowait: false,
    }
}

const fn raw(order: u8, owner: u8) -> ReclaimOp {
    ReclaimOp::Raw {
        cpu: 1,
        order,
        mobility: Movable,
        owner,
    }
}

fn run_all(alphabet: &[ReclaimOp], length: u32) {
    let mut case = ReclaimCase::named("tiny").unwrap();
    // Every prefix of a sequence is the beginning of another one.
    case.cadence.verify_every = u32::MAX;
    let length = length - u32::from(cfg!(debug_assertions));
    match every_sequence(&case, alphabet, length) {
        Ok(sequences) => assert_eq!(sequences, (alphabet.len() as u64).pow(length)),
        Err((sequence, finding)) => panic!("{}\n  after {sequence:#?}", finding.difference),
    }
}

#[test]
fn every_sequence_of_six_ops_on_memory_in_pieces() {
    run_all(
        &[
            raw(1, 0),
            raw(0, 1),
            ReclaimOp::Free { cpu: 0, pick: 0 },
            alloc(3, Unmovable, USER),
            ReclaimOp::Compact {
                cpu: 0,
                order: 3,
                mobility: Movable,
                direct: true,
            },
            ReclaimOp::Evacuate {
                cpu: 0,
                block: 0,
                blocks: 1,
            },
            ReclaimOp::Pin {
                pick: 1,
                pinned: true,
            },
        ],
        6,
    );
}

#[test]
fn every_sequence_of_six_ops_on_memory_that_is_nearly_full() {
    run_all(
        &[
            raw(3, 0),
            raw(2, 1),
            ReclaimOp::Hold {
                pick: 0,
                held: true,
            },
            alloc(2, Movable, 1),
            alloc(0, Unmovable, USER),
            ReclaimOp::Rest { cpu: 1, budget: 4 },
            ReclaimOp::Mood {
                client: 1,
                mood: mood::ALLOCATES | mood::FREES,
                calls: 3,
            },
        ],
        6,
    );
}
