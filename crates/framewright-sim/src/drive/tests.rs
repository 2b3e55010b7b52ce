//! The loops on a tank of ten litres, the smallest thing that can be wrong.

use super::{Cadence, DrivenCase, Failures, InStep, check, each_failure, every_sequence, in_step};
use crate::difference::{Difference, Finding, RunSummary, differ};
use crate::{Machine, MachineCall, Random};
use std::cell::Cell;

const LITRES_MAX: u32 = 10;

#[derive(Clone, Copy, PartialEq, Debug)]
enum TankOp {
    Fill(u32),
    Empty,
}

/// What is wrong with the tank.
#[derive(Clone, Copy, PartialEq, Debug)]
enum TankFault {
    Nothing,
    /// It loses one litre of more than six.
    Leak,
    /// A fill that fails has filled already.
    Half,
    /// Seven litres at once are too much for it.
    Burst,
    /// It keeps a litre when it is emptied the last time.
    Rest,
}

#[derive(Clone, Copy, Debug)]
struct TankCase {
    fault: TankFault,
    cadence: Cadence,
}

/// A machine, and how often each comparison was made.
struct Yard {
    machine: Machine,
    compared: Cell<u32>,
    verified: Cell<u32>,
}

impl DrivenCase for TankCase {
    type Op = TankOp;
    type Platform = Yard;

    const OPTION: Option<&'static str> = Some("--tanks");

    fn all() -> Vec<Self> {
        let all = [
            TankFault::Nothing,
            TankFault::Leak,
            TankFault::Half,
            TankFault::Burst,
            TankFault::Rest,
        ];
        let case = |fault| Self {
            fault,
            cadence: Cadence::EACH,
        };
        all.map(case).to_vec()
    }

    fn name(&self) -> &'static str {
        match self.fault {
            TankFault::Nothing => "good",
            TankFault::Leak => "leak",
            TankFault::Half => "half",
            TankFault::Burst => "burst",
            TankFault::Rest => "rest",
        }
    }

    fn cadence(&mut self) -> &mut Cadence {
        &mut self.cadence
    }

    fn sparse(self) -> Self {
        self.checked(Cadence::sparse(u64::from(LITRES_MAX)))
    }

    fn op(&self, random: &mut Random, _nth: u64) -> TankOp {
        match random.chance(30) {
            true => TankOp::Empty,
            false => TankOp::Fill(random.below(9) as u32),
        }
    }

    fn simpler(&self, op: TankOp) -> Vec<TankOp> {
        match op {
            TankOp::Fill(litres @ 1..) => vec![TankOp::Fill(litres / 2), TankOp::Fill(litres - 1)],
            _ => vec![],
        }
    }

    fn platform(&self) -> Yard {
        Yard {
            machine: Machine::new(1),
            compared: Cell::new(0),
            verified: Cell::new(0),
        }
    }

    fn machine(platform: &Yard) -> &Machine {
        &platform.machine
    }

    fn run(
        &self,
        yard: &Yard,
        ops: impl IntoIterator<Item = TankOp>,
    ) -> Result<RunSummary, Finding> {
        let mut tank = Tank {
            fault: self.fault,
            yard,
            litres: 0,
            model_litres: 0,
            summary: RunSummary::default(),
        };
        in_step(&mut tank, self.cadence, ops)
    }
}

struct Tank<'y> {
    fault: TankFault,
    yard: &'y Yard,
    /// The engine.
    litres: u32,
    /// The model.
    model_litres: u32,
    summary: RunSummary,
}

impl Tank<'_> {
    fn fill(&mut self, litres: u32) -> bool {
        let after = self.litres + litres;
        assert!(self.fault != TankFault::Burst || litres != 7, "burst");
        if after > LITRES_MAX {
            return false;
        }
        if self.fault == TankFault::Half {
            self.litres = after;
        }
        if self.yard.machine.metadata(1).is_err() {
            return false;
        }
        self.litres = after - u32::from(self.fault == TankFault::Leak && after > 6);
        true
    }
}

impl InStep for Tank<'_> {
    type Op = TankOp;

    fn machine(&self) -> &Machine {
        &self.yard.machine
    }

    fn summary(&mut self) -> &mut RunSummary {
        &mut self.summary
    }

    fn step(&mut self, op: TankOp) -> Result<(), Difference> {
        match op {
            TankOp::Fill(litres) => {
                let failed = self.yard.machine.failed();
                let (is_served, after) = (self.fill(litres), self.model_litres + litres);
                let was_hit = self.yard.machine.failed() != failed;
                if is_served != (after <= LITRES_MAX) && !was_hit {
                    return differ!("{litres} litres, served: {is_served}");
                }
                if is_served {
                    self.model_litres = after;
                    self.summary.served += 1;
                } else {
                    self.summary.refused += 1;
                }
            }
            TankOp::Empty => (self.litres, self.model_litres) = (0, 0),
        }
        Ok(())
    }

    fn compare_counters(&mut self) -> Result<(), Difference> {
        self.yard.compared.set(self.yard.compared.get() + 1);
        Ok(())
    }

    fn verify(&mut self) -> Result<(), Difference> {
        self.yard.verified.set(self.yard.verified.get() + 1);
        if self.litres == self.model_litres {
            return Ok(());
        }
        differ!("{} litres, not {}", self.litres, self.model_litres)
    }

    fn free_everything(&mut self) -> Result<(), Difference> {
        self.step(TankOp::Empty)?;
        self.litres = u32::from(self.fault == TankFault::Rest);
        self.verify()
    }
}

fn case(name: &str) -> TankCase {
    TankCase::named(name).unwrap()
}

#[test]
fn a_run_is_compared_as_often_as_its_cadence_says_and_at_its_end() {
    let case = case("good").checked(Cadence {
        compare_every: 10,
        verify_every: 30,
    });
    let yard = case.platform();
    let summary = case.run(&yard, case.ops(1).take(100)).unwrap();
    assert_eq!((summary.ops, summary.faults), (100, 0));
    assert!(summary.served > 20 && summary.refused > 20, "{summary:?}");
    // Each tenth; each thirtieth, before everything is freed, and after.
    assert_eq!((yard.compared.get(), yard.verified.get()), (10, 3 + 2));
}

#[test]
fn what_differs_is_short_and_simple_with_the_command_that_repeats_it() {
    let said = check(&case("leak").sparse(), 2, 500).unwrap_err();
    let (found, rest) = said.split_once(": ").unwrap();
    assert!(found.starts_with("leak seed 2, operation "), "{said}");
    assert_eq!(
        rest,
        "6 litres, not 7\n  after\n    Fill(7),\n\n  repeat: cargo run --release -p \
         framewright-sim --example model -- --tanks --case leak --seed 2 --ops 500"
    );
}

#[test]
fn a_panic_and_what_is_left_at_the_end_are_differences() {
    let run = |name, ops: &[TankOp]| {
        let case = case(name);
        let found = case.run(&case.platform(), ops.iter().copied());
        found.map_err(|finding| (finding.at, finding.difference.0))
    };
    let fills = [TankOp::Fill(3), TankOp::Fill(7)];
    assert!(run("good", &fills).is_ok());
    let burst = "the engine panicked: burst".to_string();
    assert_eq!(run("burst", &fills), Err((1, burst)));
    assert_eq!(run("rest", &fills), Err((2, "1 litres, not 0".to_string())));
}

#[test]
fn every_sequence_is_run_and_the_first_that_differs_is_told() {
    let alphabet = [TankOp::Empty, TankOp::Fill(3), TankOp::Fill(4)];
    assert_eq!(every_sequence(&case("good"), &alphabet, 4).unwrap(), 81);
    assert_eq!(every_sequence(&case("leak"), &alphabet, 1).unwrap(), 3);
    let (sequence, finding) = every_sequence(&case("leak"), &alphabet, 2).unwrap_err();
    assert_eq!(
        (sequence, finding.at),
        (vec![TankOp::Fill(4), TankOp::Fill(3)], 2)
    );
}

#[test]
fn each_call_fails_once_and_what_half_succeeded_is_found() {
    let sweep = |name, call, runs_max| each_failure(&case(name), call, 3, 60, runs_max);
    let all = sweep("good", MachineCall::Metadata, u64::MAX).unwrap();
    assert!(all.calls > 10 && all.runs == all.calls && all.met == all.calls);
    let some = Failures {
        runs: 5,
        met: 5,
        ..all
    };
    assert_eq!(sweep("good", MachineCall::Metadata, 5), Ok(some));
    let said = sweep("half", MachineCall::Metadata, 5).unwrap_err();
    assert!(said.starts_with("half, Metadata 0, operation "), "{said}");
    let none = Err("good: no Barrier at all".to_string());
    assert_eq!(sweep("good", MachineCall::Barrier, 5), none);
    let said = sweep("leak", MachineCall::Metadata, 5).unwrap_err();
    assert!(
        said.starts_with("leak, nothing fails, operation "),
        "{said}"
    );
}
