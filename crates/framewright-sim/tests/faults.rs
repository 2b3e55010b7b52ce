//! The n-th call of anything made to fail: the state is as before, and life goes on.

use framewright::frame::Zone;
use framewright::platform::SingleThread;
use framewright::{CpuId, Mobility, Order, SetupError};
use framewright_sim::drive::{DrivenCase, Failures, each_failure};
use framewright_sim::{FrameCase, Machine, MachineCall, MetadataError};

#[test]
fn a_barrier_that_fails_leaves_the_zone_as_it_was() {
    for name in ["eight", "odd", "holes"] {
        let mut case = FrameCase::named(name).unwrap();
        // The next operation must find everything as it was, without a `verify` in between.
        case.cadence.verify_every = 50;
        let Failures { runs, met, .. } = each_failure(&case, MachineCall::Barrier, 3, 400, 20)
            .unwrap_or_else(|message| panic!("{message}"));
        assert_eq!(runs, 20, "{name}");
        assert!(met >= 15, "{name}: only {met} of 20 barriers were met");
    }
}

#[test]
fn each_number_of_words_below_the_needed_one_is_refused() {
    let case = FrameCase::named("odd").unwrap();
    let needed = case.layout.words_needed().unwrap();
    let mut memory = vec![!0; needed];
    for found in (0..needed).step_by(7).chain([needed - 1]) {
        let zone = Zone::new(
            &case.layout,
            &case.config,
            &mut memory[..found],
            SingleThread::new(),
        );
        let words = found;
        let refused = SetupError::Metadata { words, needed };
        assert_eq!(zone.err(), Some(refused));
    }
    assert!(Zone::new(&case.layout, &case.config, &mut memory, SingleThread::new()).is_ok());
}

#[test]
fn a_zone_that_gets_no_metadata_leaves_the_others_alone() {
    let case = FrameCase::named("usual").unwrap();
    let words = case.layout.words_needed().unwrap();
    for nth in 0..4 {
        let machine = Machine::new(2);
        machine.fail(MachineCall::Metadata, nth, 1);
        machine.arm(true);
        let memories: Vec<_> = (0..4).map(|_| machine.metadata(words)).collect();
        assert_eq!(memories[nth as usize], Err(MetadataError { words }));
        let mut served = 0;
        for mut memory in memories.into_iter().flatten() {
            let zone = Zone::new(&case.layout, &case.config, &mut memory, &machine).unwrap();
            let whole = framewright::Run::new(case.layout.start, case.layout.frames).unwrap();
            zone.add(whole).unwrap();
            let mut seat = zone.seat(CpuId(1)).unwrap();
            served += u32::from(seat.alloc(Order::ZERO, Mobility::Movable).is_ok());
            drop(seat);
            zone.verify().unwrap();
        }
        assert_eq!(served, 3);
    }
}
