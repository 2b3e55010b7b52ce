//! What the engine asks of the world: a trait for each kind of engine, and in it all that this kind asks.
//!
//! | for | a platform implements |
//! |---|---|
//! | page frames and their reclaim | waiting and barriers: [`FramePlatform`] |
//! | an address space | also page tables, and zeroing: [`RangePlatform`] |
//! | objects | also a direct map: [`ObjectPlatform`] |
//! | a reserve | waiting, and copies of frames: [`ReservePlatform`] |
//! | accounts of locks | a [clock](FramePlatform::now_ns) |
//!
//! An [engine](crate::engine::Engine) gives each part a clone of its platform. All methods of `FramePlatform`
//! have defaults: a CPU that waits spins, and a barrier is a fence. [`SingleThread`] is
//! for one thread.
//!
//! The engine is generic over the traits, and reads no clock in any other way. The number of a CPU
//! comes from the caller that takes a seat; the engine itself never asks for it. It calls nothing
//! outside itself under a lock, except:
//! - [`relax`](FramePlatform::relax) while it waits for another CPU, and [`wake`](FramePlatform::wake) when it ends a claim;
//! - [`barrier_all`](FramePlatform::barrier_all) under a stop lock, once for each stop;
//! - [`RangePlatform`], and a [source of frames](crate::frame::FrameSource), while it acts for CPUs that it has
//!   stopped;
//! - [`ReservePlatform`] inside a gate of the reserve: the one copy of a guest, or of an owner that puts a page back;
//! - the `write` of [`Guest::clean`](crate::reserve::Guest::clean), under the cleaner's lock, for which no CPU waits;
//! - [`now_ns`](FramePlatform::now_ns) where the user asked for accounts of locks.
//!
//! With the same answers from the platform, the same calls give
//! the same results, bit for bit.

#[cfg(all(test, not(shuttle)))]
#[path = "tests/bare.rs"]
pub(crate) mod bare;
mod contents;
#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "tests/crowd.rs"]
pub(crate) mod crowd;
mod direct;
mod fenced;
mod map;
pub(crate) mod parts;
mod patience;
mod relief;
#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "tests/scene.rs"]
pub(crate) mod scene;
mod single;
mod unwound;
mod wakes;

pub use contents::ReservePlatform;
pub use direct::ObjectPlatform;
pub use map::{MapError, RangePlatform, TableSource};
pub(crate) use patience::Patience;
pub use relief::Relief;
pub use single::SingleThread;
pub(crate) use unwound::{OrElse, surely};
pub(crate) use wakes::{Awaited, Wakes};

/// What page frames ask of their platform: waiting for another CPU, a memory barrier on all CPUs at once,
/// and, for accounts of locks, a clock.
///
/// | A CPU that waits | waits for | until | is woken by |
/// |---|---|---|---|
/// | with a claimed seat | the stopper | the stop is over | [`wake`](Self::wake) |
/// | as a stopper | each CPU inside its seat | it has ended its one operation there | `wake`, if it comes to its seat again; else not |
/// | for the stop lock | its holder | that stop is over | `wake` |
/// | as an owner of contiguous frames | each guest at the gate | it has copied its page | not |
/// | as a guest, or another owner | the owner | the owner's call ends | `wake` |
/// | for another lock | its holder | it has done its few operations | not |
///
/// Each wait is for a CPU that is inside the engine, for its work there, which is bounded; so the wait
/// lasts as long as that CPU is kept from running, and no longer. Suppose that a CPU of high priority waits for one
/// of low priority. Then it also waits for every thread that preempts the second. So a kernel does not preempt
/// inside the engine, and a host gives the CPU away.
pub trait FramePlatform {
    /// Whether [`barrier_all`](Self::barrier_all) acts on all CPUs. If so, the frequent sides use
    /// only a compiler fence; if not, they execute full barriers themselves.
    const ASYMMETRIC: bool = false;

    /// Whether one thread at a time uses the engine, and whatever hands the engine to the next thread is a memory
    /// barrier. If so, plain operations replace the atomic ones that several CPUs would need.
    const ALONE: bool = false;

    /// Called each time the engine finds that it must wait for another CPU, with the number of the
    /// attempt, from 0. Spins a moment, and gives the CPU away when `attempt` grows, because the
    /// other one may not be running. Where priorities are strict, a yield is not enough: it sleeps,
    /// or waits for an event, so that a lower priority runs.
    ///
    /// May be called with interrupts off, if the engine was. Meanwhile another CPU may execute
    /// [`FramePlatform::barrier_all`] or [`RangePlatform::flush_all`], and wait for an answer from this one. So
    /// where these send interrupts, `relax` must answer them (it looks for them itself, or enables
    /// interrupts for a moment), or both CPUs would wait for ever.
    ///
    /// If it unwinds out of a call of the engine, that call has changed nothing, or a later one ends what it began.
    /// There are two exceptions. The first is a call that frees or splits several blocks, or makes an object shorter
    /// in place: it does all its work before the unwinding goes on. The second is a wait in an address space: for one of
    /// its locks, or for a CPU that flushes because too many pages are lazy. It
    /// [poisons](crate::vrange::Space::is_poisoned) that space. If `relax` unwinds while the engine cleans up after a call
    /// that has itself unwound, the program ends.
    ///
    /// By default it spins: right where a CPU is not preempted inside the engine, and neither barrier
    /// nor flush sends an interrupt that it would have to answer.
    fn relax(&self, attempt: u32) {
        ().relax(attempt);
    }

    /// Called when a wait in [`relax`](Self::relax) may be over. Three events end a wait: a claim ends, a CPU
    /// leaves its claimed seat, or a CPU gives up a lock that it may have kept long. For platforms on which `relax`
    /// sleeps. Not every end of a wait comes here: the frequent side leaves its seat by one store, and calls
    /// nothing. So `relax` must also end by itself.
    ///
    /// The engine calls it after a stop, on a CPU that was stopped, and at the end of an owner's call;
    /// never on the frequent side. It may hold a stop lock then. It must not unwind.
    #[inline]
    fn wake(&self) {}

    /// After it returns, every CPU that runs the engine has executed a full memory barrier since
    /// the call, the calling CPU included. Without [`ASYMMETRIC`](Self::ASYMMETRIC) only the
    /// calling CPU has.
    ///
    /// Rare, and may cost microseconds. Cannot fail: a platform that cannot promise it says so in
    /// the constant.
    ///
    /// By default a fence on the calling CPU. A platform that sets `ASYMMETRIC` brings its own.
    ///
    /// Called under a stop lock, by a CPU whose interrupts may be off, while others wait in
    /// [`FramePlatform::relax`], perhaps with interrupts off too. It must not need an answer that a CPU
    /// gives only outside `relax`. If a barrier on other CPUs is an interrupt that they must
    /// acknowledge, and `relax` cannot do that, keep the default.
    fn barrier_all(&self) {
        ().barrier_all();
    }

    /// Nanoseconds since some fixed moment, by a clock that never goes back. Read only where the user asked for
    /// accounts of locks, and under these: so it must not unwind, which ends the program.
    ///
    /// By default the clock stands still.
    fn now_ns(&self) -> u64 {
        0
    }
}

impl<T: FramePlatform + ?Sized> FramePlatform for &T {
    const ASYMMETRIC: bool = T::ASYMMETRIC;
    const ALONE: bool = T::ALONE;

    #[inline]
    fn relax(&self, attempt: u32) {
        (**self).relax(attempt);
    }

    #[inline]
    fn wake(&self) {
        (**self).wake();
    }

    #[inline]
    fn barrier_all(&self) {
        (**self).barrier_all();
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }
}
