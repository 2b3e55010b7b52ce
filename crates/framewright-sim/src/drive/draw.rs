//! What the mixtures of all kinds draw in the same way.
//!
//! Which numbers are taken from `random`, and in which order, is part of what a seed means.

use crate::Random;

/// One of `cpus` CPUs.
pub fn cpu(random: &mut Random, cpus: u16) -> u16 {
    random.below(u64::from(cpus)) as u16
}

/// Whether the `nth` operation asks for memory, or else frees: for `phase_ops` operations each it
/// fills, stays, empties and stays again, so that full and empty memory are met often.
pub fn is_request(random: &mut Random, nth: u64, phase_ops: u64) -> bool {
    let phase = nth / phase_ops % 4;
    random.chance([75, 52, 20, 45][phase as usize])
}

/// An unusual length: zero, nearly 2^64, a power of two, or about `all` there is.
pub fn odd_length(random: &mut Random, all: u64) -> u64 {
    match random.below(6) {
        0 => 0,
        1 => u64::MAX - random.below(3),
        2 => 1 << random.below(64),
        _ => (all + 3).saturating_sub(random.below(6)),
    }
}

/// An unusual alignment: any power of two, or a number that is none.
pub fn odd_alignment(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.bits() >> random.below(64),
        1 => 0,
        _ => 1 << random.below(64),
    }
}
