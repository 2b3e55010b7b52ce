//! Counts of both ways that a page can go, into the store and to the device: what was saved is the difference.

use super::Frontswap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters of a frontswap since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FrontswapStats {
    /// Pages stored.
    pub stores: u64,
    /// Pages kept, with a slot that was still valid: no write.
    pub kept: u64,
    /// Pages that the store took, dirty or not.
    pub store_puts: u64,
    /// Pages that the store refused.
    pub store_refused: u64,
    /// Pages that came from the store.
    pub store_loads: u64,
    /// Pages that came from the device.
    pub device_loads: u64,
    /// Pages written to the device, at the store or later.
    pub device_writes: u64,
    /// Those of them that were written later, by a cleaner.
    pub cleaned: u64,
    /// Dirty pages that were got back before they were written: no write.
    pub got_back: u64,
    /// Dirty pages that were stored anew or invalidated before they were written: no write.
    pub gone_unwritten: u64,
    /// Times that the device failed.
    pub device_errors: u64,
}

#[derive(Debug, Default)]
pub(super) struct SwapCounts {
    pub(super) stores: AtomicU64,
    pub(super) kept: AtomicU64,
    pub(super) store_puts: AtomicU64,
    pub(super) store_refused: AtomicU64,
    pub(super) store_loads: AtomicU64,
    pub(super) device_loads: AtomicU64,
    pub(super) device_writes: AtomicU64,
    pub(super) cleaned: AtomicU64,
    pub(super) got_back: AtomicU64,
    pub(super) gone_unwritten: AtomicU64,
    pub(super) device_errors: AtomicU64,
}

pub(super) fn count(word: &AtomicU64) {
    word.fetch_add(1, Relaxed);
}

impl Frontswap<'_> {
    /// All counters.
    #[must_use]
    pub fn stats(&self) -> FrontswapStats {
        let counts = &self.counts;
        let load = |word: &AtomicU64| word.load(Relaxed);
        FrontswapStats {
            stores: load(&counts.stores),
            kept: load(&counts.kept),
            store_puts: load(&counts.store_puts),
            store_refused: load(&counts.store_refused),
            store_loads: load(&counts.store_loads),
            device_loads: load(&counts.device_loads),
            device_writes: load(&counts.device_writes),
            cleaned: load(&counts.cleaned),
            got_back: load(&counts.got_back),
            gone_unwritten: load(&counts.gone_unwritten),
            device_errors: load(&counts.device_errors),
        }
    }
}
