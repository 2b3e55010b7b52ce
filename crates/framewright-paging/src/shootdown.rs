//! Flush and barrier on all CPUs, by generations.
//!
//! ```text
//!   CPU that asks                           CPU that answers (in the interrupt, or in a wait)
//!   wanted += 1  ─────────────────────────▶ reads wanted
//!   interrupts those whose done is less     flushes, or executes a barrier
//!   waits, and answers others   ◀────────── done = what it read
//! ```
//!
//! A round is a generation, not a message: a CPU that answers once has answered all that asked before.
//!
//! # Invariants
//! - **SD1** When [`ask`](Shootdown::ask) returns, every CPU that was online when it was called has answered
//!   after the call, and sees what the asking CPU wrote before it.
//! - **SD2** A CPU that waits in `ask` answers meanwhile. So two that ask each other with interrupts off
//!   both go on. What the engine waits for ends by [`answer`](Shootdown::answer) in `FramePlatform::relax`.
//! - **SD3** A CPU that comes online answers all earlier rounds before it uses a translation.
//!
//! # Locks
//! None.

#[cfg(not(loom))]
use core::sync::atomic::{AtomicU64, fence};
use framewright::CpuId;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, fence};

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// What a CPU that is not online has answered: every round there will be.
const OFFLINE: u64 = u64::MAX;

/// What each CPU does in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShootdownRound {
    /// Drops all translations that it keeps.
    Flush,
    /// Executes a full memory barrier.
    Barrier,
}

/// How a CPU acts on itself, and reaches others.
pub trait Ipi {
    /// The CPU that calls. It is the same until interrupts are on again.
    fn current(&self) -> CpuId;

    /// Interrupts a CPU, which then calls [`Shootdown::answer`]. It may be one that has just gone
    /// offline.
    fn interrupt(&self, cpu: CpuId);

    /// Drops all translations that this CPU keeps.
    fn flush_here(&self);

    /// Called while the CPU waits for others, with the number of the attempt. `PAUSE`, or a model's
    /// yield.
    fn pause(&self, attempt: u32);
}

/// The answers of a CPU, in a cache line of its own: it is polled by the CPU that asks.
#[derive(Debug)]
#[repr(align(64))]
struct Answers {
    flush: AtomicU64,
    barrier: AtomicU64,
}

/// The words by which `CPUS` CPUs ask each other for a flush or a barrier.
#[derive(Debug)]
pub struct Shootdown<const CPUS: usize> {
    wanted: Answers,
    done: [Answers; CPUS],
}

impl Answers {
    const fn of(&self, round: ShootdownRound) -> &AtomicU64 {
        match round {
            ShootdownRound::Flush => &self.flush,
            ShootdownRound::Barrier => &self.barrier,
        }
    }
}

const ROUNDS: [ShootdownRound; 2] = [ShootdownRound::Flush, ShootdownRound::Barrier];

#[cfg(not(loom))]
impl Answers {
    const fn new(generation: u64) -> Self {
        Self {
            flush: AtomicU64::new(generation),
            barrier: AtomicU64::new(generation),
        }
    }
}

#[cfg(not(loom))]
impl<const CPUS: usize> Shootdown<CPUS> {
    /// All CPUs offline.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            wanted: Answers::new(0),
            done: [const { Answers::new(OFFLINE) }; CPUS],
        }
    }
}

#[cfg(loom)]
impl<const CPUS: usize> Shootdown<CPUS> {
    /// All CPUs offline.
    #[must_use]
    pub fn new() -> Self {
        let answers = |generation| Answers {
            flush: AtomicU64::new(generation),
            barrier: AtomicU64::new(generation),
        };
        Self {
            wanted: answers(0),
            done: core::array::from_fn(|_| answers(OFFLINE)),
        }
    }
}

impl<const CPUS: usize> Default for Shootdown<CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const CPUS: usize> Shootdown<CPUS> {
    /// The calling CPU comes online: from now on others wait for its answers. It takes interrupts, or calls
    /// [`answer`](Self::answer), from before this call on, and uses no page of the window before it returns.
    pub fn online(&self, ipi: &impl Ipi) {
        let own = &self.done[ipi.current().index()];
        for round in ROUNDS {
            // Both are exchanges, which have one order, and the fences keep it from what `answer` and `ask` do
            // next: either the asking CPU sees this one online and waits, or this one sees its round (SD3).
            own.of(round).swap(0, SeqCst);
        }
        fence(SeqCst);
        self.answer(ipi);
        // A CPU may keep translations from before it was online, when no round had been asked for.
        ipi.flush_here();
    }

    /// The calling CPU goes offline: it uses no page of the window from before this call on.
    pub fn offline(&self, ipi: &impl Ipi) {
        let own = &self.done[ipi.current().index()];
        for round in ROUNDS {
            own.of(round).swap(OFFLINE, SeqCst);
        }
    }

    /// Whether others wait for that CPU's answers.
    #[must_use]
    pub fn is_online(&self, cpu: CpuId) -> bool {
        let done = self.done.get(cpu.index());
        done.is_some_and(|done| done.of(ShootdownRound::Flush).load(Relaxed) != OFFLINE)
    }

    /// Answers what other CPUs ask of this one. Called in the interrupt, and in every wait with interrupts
    /// off. Costs four loads if there is nothing to answer.
    #[inline]
    pub fn answer(&self, ipi: &impl Ipi) {
        let own = &self.done[ipi.current().index()];
        for round in ROUNDS {
            // Acquire: what the asking CPU wrote before is seen by what this CPU reads after its flush.
            let wanted = self.wanted.of(round).load(Acquire);
            if own.of(round).load(Relaxed) < wanted {
                act(round, ipi);
                // An interrupt may have answered a later round in between. Release: what this CPU did with old
                // translations is over for the CPU that reads the answer.
                own.of(round).fetch_max(wanted, Release);
            }
        }
    }

    /// Has every online CPU act, this one included, and waits until all have (SD1). Interrupts may be off.
    pub fn ask(&self, round: ShootdownRound, ipi: &impl Ipi) {
        let me = ipi.current();
        // Release, and one order with `online`'s exchange.
        let generation = self.wanted.of(round).fetch_add(1, AcqRel) + 1;
        fence(SeqCst);
        for (number, done) in self.done.iter().enumerate() {
            if number != me.index() && done.of(round).load(Relaxed) < generation {
                ipi.interrupt(CpuId(number as u16));
            }
        }
        self.answer(ipi);
        if !self.is_online(me) {
            act(round, ipi);
        }
        for done in &self.done {
            let mut attempt = 0;
            // Acquire pairs with the Release of the answer.
            while done.of(round).load(Acquire) < generation {
                self.answer(ipi);
                ipi.pause(attempt);
                attempt = attempt.saturating_add(1);
            }
        }
    }
}

#[inline]
fn act(round: ShootdownRound, ipi: &impl Ipi) {
    match round {
        ShootdownRound::Flush => ipi.flush_here(),
        ShootdownRound::Barrier => fence(SeqCst),
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
