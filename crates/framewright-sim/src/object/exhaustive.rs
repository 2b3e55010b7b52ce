use super::{Case, Finding, Op, run};

/// Runs every sequence of `length` operations out of `alphabet` on engine and model, each from a
/// new machine; returns how many there were.
///
/// Time: `alphabet.len().pow(length)` runs.
///
/// # Errors
/// The first sequence after which they differ.
pub fn every_sequence(
    case: &Case,
    alphabet: &[Op],
    length: u32,
) -> Result<u64, (Vec<Op>, Finding)> {
    let sequences = (alphabet.len() as u64).pow(length);
    for number in 0..sequences {
        let mut rest = number;
        let sequence = (0..length).map(|_| {
            let op = alphabet[(rest % alphabet.len() as u64) as usize];
            rest /= alphabet.len() as u64;
            op
        });
        let sequence: Vec<Op> = sequence.collect();
        if let Err(finding) = run(case, &case.ram(), sequence.iter().copied()) {
            return Err((sequence, finding));
        }
    }
    Ok(sequences)
}
