//! Engine and model in step: the loops that every kind of them shares.
//!
//! ```text
//!     DrivenCase ──seed──▶ ops ──▶ run ──▶ InStep ──step──▶ engine ──┐
//!        │                                   │                       ├─ compared as often as Cadence says
//!        ├── platform: what fails            └───────────▶ model ────┘
//!        ├── check: a seed; what differs is made short, with the command that repeats it
//!        ├── every_sequence: every sequence of this many operations
//!        └── each_failure: the n-th call of the platform's fails, for every n
//! ```
//!
//! Page frames, virtual ranges, objects, reclaim and the reserve are five kinds. A further one is two
//! implementations:
//! - [`DrivenCase`] for the choices before a run, plain data: layouts, policies, the mixture of
//!   operations. Its `run` sets engine and model up on a platform, and hands both to [`in_step`].
//! - [`InStep`] for the two of them while they run. An operation that the engine and the model answer
//!   differently is a [`Difference`]; so is a panic. Its CPUs' seats are [`CpuSeats`].
//!
//! Each driver makes the part of the engine that its model is of, and not an [`Engine`](framewright::engine::Engine). The
//! model says what that part may answer. Behind the front door other parts would answer, too: a request that the zone
//! refuses goes on to reclaim, and frames go to areas and slabs that the model does not know. And the n-th call that
//! fails would be any part's. The tests of the whole are `engine/tests` and `shuttle_unwound`.
//!
//! An operation must have a meaning in every state (`pick` is a live thing modulo the number of
//! live ones, and has no effect if there are none): only so is any part of a sequence a sequence,
//! which allows it to be shortened. [`draw`] has what the mixtures draw in the same way.

pub mod draw;
mod seats;
mod sweep;
#[cfg(test)]
mod tests;

pub use seats::CpuSeats;
pub(crate) use sweep::explain;
pub use sweep::{Failures, check, each_failure, every_sequence};

use crate::difference::{Difference, Finding, RunSummary, guarded};
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
    /// Everything after each operation.
    pub const EACH: Self = Self {
        compare_every: 1,
        verify_every: 1,
    };

    /// So seldom that it does not dominate the time: counters each 32 operations, everything each
    /// time as many operations passed as there are pieces, frames or pages, to verify.
    #[must_use]
    pub const fn sparse(pieces: u64) -> Self {
        Self {
            compare_every: 32,
            verify_every: if pieces < 64 { 64 } else { pieces as u32 },
        }
    }
}

/// What a run is made of, as plain data: layouts, policies and the mixture of operations. A seed
/// turns it into a sequence, so a name and a `u64` repeat a run.
pub trait DrivenCase: Copy {
    /// One operation, as plain data.
    type Op: Copy + PartialEq + Debug;

    /// The platform of the engine: the [`Machine`], and what else the engine is handed.
    type Platform;

    /// The option with which the example `model` runs this kind; `None` for the usual one.
    const OPTION: Option<&'static str>;

    /// The cases that every check runs.
    fn all() -> Vec<Self>;

    /// The name, for the command that repeats a run; each of [`all`](Self::all) has its own.
    fn name(&self) -> &'static str;

    /// How often engine and model are compared.
    fn cadence(&mut self) -> &mut Cadence;

    /// The same, checked so seldom that this does not dominate the time: mostly
    /// [`Cadence::sparse`].
    #[must_use]
    fn sparse(self) -> Self;

    /// The `nth` operation of a sequence, counted from 1, from the numbers of `random` alone.
    fn op(&self, random: &mut Random, nth: u64) -> Self::Op;

    /// Operations that may replace `op` in a sequence that is being shortened, the simplest first:
    /// fewer frames, the first CPU. Each must be simpler in some order that ends; by default there
    /// are none.
    fn simpler(&self, op: Self::Op) -> Vec<Self::Op> {
        let _ = op;
        Vec::new()
    }

    /// A new platform, on which no call fails.
    fn platform(&self) -> Self::Platform;

    /// The machine of a platform. Its n-th call can be made to fail.
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
    ) -> Result<RunSummary, Finding>;

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

    /// The sequence for that seed; it never ends.
    fn ops(self, seed: u64) -> impl Iterator<Item = Self::Op> {
        let (mut random, mut nth) = (Random::new(seed), 0);
        std::iter::from_fn(move || {
            nth += 1;
            Some(self.op(&mut random, nth))
        })
    }
}

/// Engine and model, in step.
pub trait InStep {
    /// One operation.
    type Op;

    /// The machine. Its faults happen only during operations.
    fn machine(&self) -> &Machine;

    /// The counts so far. [`in_step`] counts the operations and, unless
    /// [`step_or_fault`](Self::step_or_fault) is overridden, the faults. The pair counts the rest.
    fn summary(&mut self) -> &mut RunSummary;

    /// Runs before the first operation, for what needs engine and model side by side.
    ///
    /// # Errors
    /// The difference.
    fn begin(&mut self) -> Result<(), Difference> {
        Ok(())
    }

    /// Runs one operation on both; the engine's answer and its actions must be among those that the
    /// model allows.
    ///
    /// # Errors
    /// The difference.
    fn step(&mut self, op: Self::Op) -> Result<(), Difference>;

    /// Compares the engine's counters with the expected ones; cheap.
    ///
    /// # Errors
    /// The difference.
    fn compare_counters(&mut self) -> Result<(), Difference>;

    /// Compares everything that can be, the engine's own `verify` included.
    ///
    /// # Errors
    /// The difference.
    fn verify(&mut self) -> Result<(), Difference>;

    /// The law of every allocator: frees everything, after which all must be as at first.
    ///
    /// # Errors
    /// The deviation.
    fn free_everything(&mut self) -> Result<(), Difference>;

    /// After each operation: whether the platform was used as it may be.
    ///
    /// # Errors
    /// The misuse.
    fn check_platform(&self) -> Result<(), Difference> {
        Ok(())
    }

    /// Runs right after an operation in which a call of the platform failed: everything must be as
    /// if the call had never been.
    ///
    /// # Errors
    /// The difference.
    fn compare_after_fault(&mut self) -> Result<(), Difference> {
        self.compare_counters()?;
        self.verify()
    }

    /// Runs one operation, in which a call of the platform may be made to fail. To be overridden
    /// only where a failure is a panic that unwinds the operation.
    ///
    /// # Errors
    /// The difference.
    fn step_or_fault(&mut self, op: Self::Op) -> Result<(), Difference> {
        let failed = self.machine().failed();
        self.step(op)?;
        let faults = self.machine().failed() - failed;
        if faults != 0 {
            self.summary().faults += faults;
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
pub fn in_step<P: InStep>(
    pair: &mut P,
    cadence: Cadence,
    ops: impl IntoIterator<Item = P::Op>,
) -> Result<RunSummary, Finding> {
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
