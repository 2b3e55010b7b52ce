//! Every sequence of a few operations on four pageblocks of eight frames: small enough that no luck
//! is needed.

use framewright::Mobility::{self, Movable, Unmovable};
use framewright_sim::reclaim::{Case, Op, Subject, USER, every_sequence, mood};

const fn alloc(order: u8, mobility: Mobility, owner: u8) -> Op {
    Op::Alloc {
        cpu: 0,
        order,
        mobility,
        owner,
        nowait: false,
    }
}

const fn raw(order: u8, owner: u8) -> Op {
    Op::Raw {
        cpu: 1,
        order,
        mobility: Movable,
        owner,
    }
}

fn run_all(alphabet: &[Op], length: u32) {
    let mut case = Case::named("tiny").unwrap();
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
            Op::Free { cpu: 0, pick: 0 },
            alloc(3, Unmovable, USER),
            Op::Compact {
                cpu: 0,
                order: 3,
                mobility: Movable,
                direct: true,
            },
            Op::Evacuate {
                cpu: 0,
                block: 0,
                blocks: 1,
            },
            Op::Pin {
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
            Op::Hold {
                pick: 0,
                held: true,
            },
            alloc(2, Movable, 1),
            alloc(0, Unmovable, USER),
            Op::Rest { cpu: 1, budget: 4 },
            Op::Mood {
                client: 1,
                mood: mood::ALLOCATES | mood::FREES,
                calls: 3,
            },
        ],
        6,
    );
}
