//! The fuzzer's body over random bytes: what a fuzzer would try first.

use framewright_sim::Random;
use framewright_sim::range::run_bytes;

fn bytes(random: &mut Random) -> Vec<u8> {
    let len = random.below(600);
    (0..len).map(|_| random.bits() as u8).collect()
}

#[test]
fn any_bytes_are_a_sequence_on_which_engine_and_model_agree() {
    let mut random = Random::new(1);
    let (mut served, mut refused, mut faults) = (0, 0, 0);
    for _ in 0..1500 {
        match run_bytes(&bytes(&mut random)) {
            Ok(summary) => {
                served += summary.served;
                refused += summary.refused;
                faults += summary.faults;
            }
            Err(message) => panic!("{message}"),
        }
    }
    assert!(
        served > 5000 && refused > 1000 && faults > 20,
        "{served} {refused} {faults}"
    );
}

#[test]
fn few_bytes_are_a_short_sequence() {
    for len in 0..9 {
        assert!(run_bytes(&[7; 9][..len]).is_ok());
    }
}
