//! Atomics, fences and one lock: `core`'s in a normal build, loom's under `cfg(loom)`, shuttle's
//! under `cfg(shuttle)`, so that the code that is model-checked is the code that ships. Under
//! `cfg(lines)` they are `core`'s, and record which of them are read and written.
//!
//! # The asymmetric fence
//! Two sides that each write one thing and then read the other's need a full barrier on both
//! sides. Where one side is frequent and the other rare, and the platform can make *every* CPU
//! execute a barrier (`platform::FramePlatform`), the frequent side needs only [`light_fence`]: the
//! compiler keeps the order, and the rare side's barrier makes the CPU keep it.

mod counter;
mod lock;

#[cfg(all(test, loom))]
#[path = "tests/models.rs"]
pub(crate) mod models;

pub(crate) use counter::CounterWord;
pub(crate) use lock::{Lock, LockGuard};

#[cfg(not(any(lines, loom, shuttle)))]
pub(crate) use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(lines)]
pub(crate) use framewright_lines::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// The frequent side's fence. A CPU that calls the platform's barrier in between sees a store
/// before it before a load after it.
///
/// With `asymmetric` it costs no instruction; without, it is a full barrier (about 10 ns). Pass
/// the platform's `ASYMMETRIC` constant. In a model it is always a full barrier, because models
/// know no barrier that acts on other threads.
#[inline(always)]
pub(crate) fn light_fence(asymmetric: bool) {
    if cfg!(any(loom, shuttle)) || !asymmetric {
        fence(Ordering::SeqCst);
    } else {
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
    }
}

/// Sets `bits` in `word` and returns the old value; `SeqCst`, or with `alone` a load and a store,
/// which cost a tenth.
#[inline(always)]
pub(crate) fn set_bits(word: &AtomicU64, bits: u64, alone: bool) -> u64 {
    if alone {
        let before = word.load(Ordering::Relaxed);
        word.store(before | bits, Ordering::Relaxed);
        before
    } else {
        word.fetch_or(bits, Ordering::SeqCst)
    }
}

/// Clears `bits` in `word` and returns the old value; as [`set_bits`].
#[inline(always)]
pub(crate) fn clear_bits(word: &AtomicU64, bits: u64, alone: bool) -> u64 {
    if alone {
        let before = word.load(Ordering::Relaxed);
        word.store(before & !bits, Ordering::Relaxed);
        before
    } else {
        word.fetch_and(!bits, Ordering::SeqCst)
    }
}

/// Stands between a `SeqCst` write and a `SeqCst` read of another word. The language already
/// orders the two; loom treats `SeqCst` accesses as `AcqRel` and needs the fence to see it.
#[inline(always)]
pub(crate) fn model_fence() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

/// A `SeqCst` load, in one order with all other `SeqCst` accesses. Loom treats those as `AcqRel`.
/// There it is an exchange that changes nothing: it sees the last change of the word, the next
/// change sees it, and it orders nothing else. A fence would order more, and hide what it orders by
/// accident.
#[inline(always)]
pub(crate) fn load_in_order(word: &AtomicU64) -> u64 {
    if cfg!(loom) {
        return word.fetch_or(0, Ordering::AcqRel);
    }
    word.load(Ordering::SeqCst)
}
