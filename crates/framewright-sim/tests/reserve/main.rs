//! The reserve in step with its model.

use framewright_sim::reserve::{
    DrivenCase, ReserveCase, ReserveLie, ReserveOp, check, every_sequence,
};

#[test]
fn every_case_keeps_in_step_with_its_model() {
    for case in ReserveCase::all() {
        for seed in 0..3 {
            let ops = if case.frames > 100 { 1_000 } else { 6_000 };
            let case = if case.frames > 100 {
                case.sparse()
            } else {
                case
            };
            let summary = check(&case, seed, ops).unwrap_or_else(|message| panic!("{message}"));
            assert!(
                summary.served > ops as u64 / 10,
                "{}: {summary:?}",
                case.name
            );
        }
    }
}

const fn put(pool: u8, dirty: bool) -> ReserveOp {
    ReserveOp::Put {
        cpu: 0,
        pool,
        object: 0,
        index: 0,
        dirty,
        value: false,
    }
}

const fn alloc(frames: u16, put_back: bool) -> ReserveOp {
    ReserveOp::Alloc {
        frames,
        align_log: 0,
        put_back,
        meddles: 0,
    }
}

fn run_all(alphabet: &[ReserveOp], length: u32) {
    let mut case = ReserveCase::named("four").unwrap();
    // Every prefix of a sequence is the beginning of another one.
    case.cadence.verify_every = u32::MAX;
    let length = length - u32::from(cfg!(debug_assertions));
    match every_sequence(&case, alphabet, length) {
        Ok(sequences) => assert_eq!(sequences, (alphabet.len() as u64).pow(length)),
        Err((sequence, finding)) => panic!("{}\n  after {sequence:#?}", finding.difference),
    }
}

#[test]
fn every_sequence_of_five_ops_on_four_frames() {
    run_all(
        &[
            put(0, false),
            put(3, true),
            put(4, true),
            ReserveOp::Get {
                cpu: 1,
                pool: 4,
                object: 0,
                index: 0,
            },
            ReserveOp::InvalidateObject {
                cpu: 1,
                pool: 3,
                object: 0,
            },
            alloc(4, true),
            ReserveOp::Release { pick: 0 },
            ReserveOp::Clean {
                cpu: 0,
                pages: 1,
                fail_each: 0,
            },
        ],
        5,
    );
}

#[test]
fn every_sequence_of_five_ops_with_reservations() {
    run_all(
        &[
            put(2, true),
            put(3, true),
            put(1, false),
            ReserveOp::Reserve {
                frames: 3,
                align_log: 0,
            },
            ReserveOp::Take { pick: 0 },
            ReserveOp::Release { pick: 0 },
            ReserveOp::InvalidatePool { cpu: 0, pool: 3 },
            alloc(2, true),
        ],
        5,
    );
}

#[test]
fn each_planted_fault_is_found() {
    for lie in [
        ReserveLie::KeepObject,
        ReserveLie::KeepRefused,
        ReserveLie::DropDirty,
        ReserveLie::StoreAnother,
        ReserveLie::KeepGot,
        ReserveLie::OwnTwice,
        ReserveLie::WriteTwice,
        ReserveLie::KeepFrame,
    ] {
        let mut case = ReserveCase::named("sixteen").unwrap();
        case.lie = lie;
        // Told once in a run, where it may go unseen: a page that is kept may be evicted before any
        // get.
        let found = (0..100).any(|seed| {
            let platform = case.platform();
            case.run(&platform, case.ops(seed).take(600)).is_err()
        });
        assert!(found, "{lie:?}");
    }
}
