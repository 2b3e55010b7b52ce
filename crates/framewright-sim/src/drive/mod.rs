//! Engine and model in step: the loops that every kind of them shares.
//!
//! ```text
//!     Subject ──seed──▶ ops ──▶ run ──▶ Pair ──step──▶ engine ──┐
//!        │                                │                     ├─ compared as often as Cadence says
//!        ├── platform: what fails         └─────────▶ model ────┘
//!        ├── check: a seed; what differs is made short, with the command that repeats it
//!        ├── every_sequence: every sequence of so many operations
//!        └── each_failure: the n-th call of the platform's fails, for every n
//! ```
//!
//! Page frames, virtual ranges and objects are three kinds. A further one is two implementations:
//! - [`Subject`] for what is chosen before a run, plain data: layouts, policies, the mixture of
//!   operations. Its `run` sets engine and model up on a platform, and hands both to [`in_step`].
//! - [`Pair`] for the two of them while they run. An operation that the engine and the model answer
//!   differently is a [`Difference`]; so is a panic. Its CPUs' seats are [`Seats`].
//!
//! An operation must mean something in every state (`pick` is a live thing modulo the number of live
//! ones, and nothing where there are none): only so is any part of a sequence a sequence, which is
//! what makes it short. What the mixtures draw alike is in [`draw`].

pub mod draw;
mod seats;
mod sweep;
#[cfg(test)]
mod tests;

pub use seats::Seats;
pub(crate) use sweep::explain;
pub use sweep::{Failures, check, each_failure, every_sequence};

use crate::difference::{Difference, Finding, Summary, guarded};
use crate::{Machine, Random};
use std::fmt::Debug;

/// How often engine and model are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cadence {
    /// After how many operations the counters are compared; 1 for each.
    pub compare_every: u32,
    /// After how many operations everything is verified.
    pub verify_every: u32,
}

impl Cadence {
    /// All after each operation.
    pub const EACH: Self = Self {
        compare_every: 1,
        verify_every: 1,
    };

    /// So seldom that it does not dominate the time: counters each 32 operations, everything each
    /// as many as there are pieces, frames or pages, to verify.
    #[must_use]
    pub const fn sparse(pieces: u64) -> Self {
        Self {
            compare_every: 32,
            verify_every: if pieces < 64 { 64 } else { pieces as u32 },
        }
    }
}

/// What is run, as plain data: layouts, policies and the mixture of operations. A seed makes it a
/// sequence, so that a name and a `u64` repeat a run.
pub trait Subject: Copy {
    /// One operation, as plain data.
    type Op: Copy + PartialEq + Debug;

    /// What the engine runs on: the [`Machine`], and what else it is handed.
    type Platform;

    /// The option with which the example `model` runs this kind; none for the usual one.
    const OPTION: Option<&'static str>;

    /// The cases that every check runs.
    fn all() -> Vec<Self>;

    /// The name, for the command that repeats a run; each of [`all`](Self::all) has its own.
    fn name(&self) -> &'static str;

    /// How often engine and model are compared.
    fn cadence(&mut self) -> &mut Cadence;

    /// The same, checked so seldom that it does not dominate the time: mostly
    /// [`Cadence::sparse`].
    #[must_use]
    fn sparse(self) -> Self;

    /// The `nth` operation of a sequence, counted from 1, by the numbers of `random` and nothing
    /// else.
    fn op(&self, random: &mut Random, nth: u64) -> Self::Op;

    /// Operations that may do instead of `op` in a sequence that is made short, the simplest first:
    /// fewer frames, the first CPU. Each must be simpler in some order that ends; none is.
    fn simpler(&self, op: Self::Op) -> Vec<Self::Op> {
        let _ = op;
        Vec::new()
    }

    /// A new platform, on which nothing fails.
    fn platform(&self) -> Self::Platform;

    /// The machine of a platform, whose n-th call can be made to fail.
    fn machine(platform: &Self::Platform) -> &Machine;

    /// Runs a sequence on engine and model: sets both up, and leaves the rest to [`in_step`].
    ///
    /// # Errors
    /// The first difference.
    ///
    /// # Panics
    /// If a layout or a policy of the case is not one that the engine can have.
    fn run(
        &self,
        platform: &Self::Platform,
        ops: impl IntoIterator<Item = Self::Op>,
    ) -> Result<Summary, Finding>;

    /// The case of that name.
    #[must_use]
    fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|case| case.name() == name)
    }

    /// The same, checked as often as `cadence` says.
    #[must_use]
    fn checked(mut self, cadence: Cadence) -> Self {
        *self.cadence() = cadence;
        self
    }

    /// The sequence of that seed; it never ends.
    fn ops(self, seed: u64) -> impl Iterator<Item = Self::Op> {
        let (mut random, mut nth) = (Random::new(seed), 0);
        std::iter::from_fn(move || {
            nth += 1;
            Some(self.op(&mut random, nth))
        })
    }
}

/// Engine and model, in step.
pub trait Pair {
    /// One operation.
    type Op;

    /// The machine, whose faults happen during operations only.
    fn machine(&self) -> &Machine;

    /// What has been done so far; [`in_step`] counts the operations and, unless
    /// [`step_or_fault`](Self::step_or_fault) is written anew, the faults. The rest is the pair's.
    fn summary(&mut self) -> &mut Summary;

    /// Before the first operation: what cannot be done before engine and model stand side by side.
    ///
    /// # Errors
    /// In what they differ.
    fn begin(&mut self) -> Result<(), Difference> {
        Ok(())
    }

    /// One operation on both; what the engine says and does must be what the model can.
    ///
    /// # Errors
    /// In what they differ.
    fn step(&mut self, op: Self::Op) -> Result<(), Difference>;

    /// Compares the engine's counters with the expected ones; cheap.
    ///
    /// # Errors
    /// In what they differ.
    fn compare_counters(&mut self) -> Result<(), Difference>;

    /// Compares everything that can be, the engine's own `verify` included.
    ///
    /// # Errors
    /// In what they differ.
    fn verify(&mut self) -> Result<(), Difference>;

    /// The law of every allocator: frees everything, after which all must be as at first.
    ///
    /// # Errors
    /// In what it is not.
    fn free_everything(&mut self) -> Result<(), Difference>;

    /// After each operation: whether the platform was used as it may be.
    ///
    /// # Errors
    /// How it was misused.
    fn check_platform(&self) -> Result<(), Difference> {
        Ok(())
    }

    /// Right after an operation in which a call of the platform's failed: everything must be as if
    /// the call had never been.
    ///
    /// # Errors
    /// In what they differ.
    fn compare_after_fault(&mut self) -> Result<(), Difference> {
        self.compare_counters()?;
        self.verify()
    }

    /// One operation, in which a call of the platform's may be made to fail. It is to be written
    /// anew only where a failure is a panic that unwinds the operation.
    ///
    /// # Errors
    /// In what they differ.
    fn step_or_fault(&mut self, op: Self::Op) -> Result<(), Difference> {
        let had_fault = self.machine().has_fault();
        self.step(op)?;
        if had_fault && !self.machine().has_fault() {
            self.summary().faults += 1;
            self.machine().arm(false);
            self.compare_after_fault()?;
        }
        self.check_platform()
    }
}

/// Runs a sequence on engine and model, compared as often as `cadence` says, and at the end with
/// everything freed. A panic is a difference too.
///
/// # Errors
/// The first difference.
pub fn in_step<P: Pair>(
    pair: &mut P,
    cadence: Cadence,
    ops: impl IntoIterator<Item = P::Op>,
) -> Result<Summary, Finding> {
    let mut at = 0;
    let result = guarded(|| {
        pair.begin()?;
        for op in ops {
            pair.machine().arm(true);
            let step = pair.step_or_fault(op);
            pair.machine().arm(false);
            step?;
            at += 1;
            if (at as u32).is_multiple_of(cadence.compare_every) {
                pair.compare_counters()?;
            }
            if (at as u32).is_multiple_of(cadence.verify_every) {
                pair.verify()?;
            }
        }
        pair.verify()?;
        pair.free_everything()
    });
    pair.summary().ops = at as u64;
    match result {
        Ok(()) => Ok(*pair.summary()),
        Err(difference) => Err(Finding { at, difference }),
    }
}
