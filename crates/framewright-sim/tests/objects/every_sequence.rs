//! Every sequence of six operations on memory of sixteen frames: small enough that no luck is
//! needed. With `--release` the alphabets have seven operations instead of four.

use framewright::Context;
use framewright::policy::Effort::{self, FailFast, MayCompact, MustSucceed};
use framewright_sim::object::{DrivenCase, ObjectCall, ObjectCase, ObjectOp, every_sequence};

const K: u64 = 1024;

const fn alloc(call: ObjectCall, bytes: u64, effort: Effort) -> ObjectOp {
    ObjectOp::Alloc {
        cpu: 0,
        call,
        bytes,
        align_bytes: 1,
        zero: false,
        effort,
        context: Context::ANY,
    }
}

const fn free(cpu: u16, pick: u32) -> ObjectOp {
    ObjectOp::Free {
        cpu,
        pick,
        kfree: false,
    }
}

const fn realloc(pick: u32, bytes: u64) -> ObjectOp {
    ObjectOp::Realloc {
        cpu: 1,
        pick,
        bytes,
        align_bytes: 1,
        zero: true,
        effort: MayCompact,
        context: Context::NOIO,
    }
}

fn run_all(alphabet: &[ObjectOp; 7]) {
    let mut case = ObjectCase::named("sixteen").unwrap();
    case.stride = 509;
    // Every prefix of a sequence is the beginning of another one.
    case.cadence.verify_every = u32::MAX;
    let alphabet = if cfg!(debug_assertions) {
        &alphabet[..4]
    } else {
        alphabet
    };
    match every_sequence(&case, alphabet, 6) {
        Ok(sequences) => assert_eq!(sequences, (alphabet.len() as u64).pow(6)),
        Err((sequence, finding)) => panic!("{}\n  after {sequence:#?}", finding.difference),
    }
}

#[test]
fn every_sequence_of_six_ops_on_objects_that_fill_memory() {
    run_all(&[
        alloc(ObjectCall::Kmalloc, 16 * K, FailFast),
        alloc(ObjectCall::Kvmalloc, 20 * K, MayCompact),
        free(1, 0),
        realloc(0, 9 * K),
        ObjectOp::Fill { cpu: 1, frames: 5 },
        alloc(ObjectCall::Kvmalloc, 40 * K, MustSucceed),
        free(0, 1),
    ]);
}

#[test]
fn every_sequence_of_six_ops_on_small_objects() {
    run_all(&[
        alloc(ObjectCall::Kmalloc, 2 * K, MayCompact),
        alloc(ObjectCall::Kvmalloc, 600, FailFast),
        free(1, 0),
        realloc(1, 64),
        alloc(ObjectCall::Kmalloc, 64, MustSucceed),
        ObjectOp::FreeTwice {
            cpu: 1,
            pick: 1,
            kfree: true,
        },
        ObjectOp::Drain { cpu: 1 },
    ]);
}
