//! The guests' contract: what a guest asks of the store that keeps its pages.
//!
//! ```text
//!     guest ── put(key, page) ──▶ Stored, or Refused    a copy is kept, or no version of the page is
//!           ── get(key) ────────▶ a page, or nothing    as one put stored it, the last one, whole
//!           ── invalidate_* ────▶                       no get finds what was put before
//! ```
//!
//! [`Guest`] keeps it, and so may any other store: a guest needs to know no more than the contract.
//! The checks that hold a store to it, one function for each clause, are
//! `framewright_sim::contract`.
//!
//! # The contract
//! - **S1** A put copies: when it has returned the caller may use its page again.
//! - **S2** After a refused put the store has no version of the page: neither the refused one nor
//!   an earlier one.
//! - **S3** After put A, put B no get returns A; and a miss stays a miss until the next put that is
//!   stored.
//! - **S4** In an exclusive pool a get takes the page away: the caller has it, the store no longer.
//!   In any other pool the page stays, and a guest that changes its copy invalidates the page
//!   first.
//! - **S5** A page that was [put](Store::put) as one with another copy elsewhere may vanish between
//!   two calls, but never during one: what a get returns is whole, and from one put.
//! - **S6** A page that was [put dirty](Store::put_dirty) does not vanish: a get finds it until it is
//!   invalidated, or until it has been written to its device.
//! - **S7** When an invalidation has returned, no get returns what was put before it, not even a get that
//!   was under way, and no put that was under way leaves anything. A pool that was invalidated
//!   takes no more pages.
//! - **S8** Callers serialise calls with one key, as a kernel's page lock does. If they do not, each call
//!   has an effect as if it happened alone, and S5 holds.
//!
//! # Sources
//! Linux's cleancache and frontswap, and what their backends are held to: Documentation/vm/cleancache.rst
//! and frontswap.rst of Linux 5.16.

use super::{Guest, Key, PoolId, PutRefused};
use crate::platform::ReservePlatform;

/// A store of guests' pages. See the [contract](self).
///
/// A file cache asks a store before it reads the disk, a swapper before it reads the device. Both
/// are written to this trait, not to the reserve.
pub trait Store {
    /// Stores a page that may be dropped at any time: it is clean, or on its device already.
    ///
    /// # Errors
    /// Why it was refused. No version of the page is in the store then (S2).
    fn put(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused>;

    /// Stores a page that is on no device yet (S6).
    ///
    /// # Errors
    /// As [`put`](Self::put); also where the pool, or the store, takes no such pages.
    fn put_dirty(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused>;

    /// Copies the page of `key` into `page`, if it is there; what `page` holds after a miss is
    /// not defined.
    fn get(&mut self, key: Key, page: &mut [u64; 512]) -> bool;

    /// Forgets the page of `key` (S7).
    fn invalidate_page(&mut self, key: Key);

    /// Forgets all pages of an object (S7).
    fn invalidate_object(&mut self, pool: PoolId, object: u64);

    /// Forgets all pages of a pool, which takes no more from then on (S7). Returns whether the pool
    /// was there.
    fn invalidate_pool(&mut self, pool: PoolId) -> bool;
}

impl<P: ReservePlatform> Store for Guest<'_, '_, P> {
    #[inline]
    fn put(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        Guest::put(self, key, page)
    }

    #[inline]
    fn put_dirty(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        Guest::put_dirty(self, key, page)
    }

    #[inline]
    fn get(&mut self, key: Key, page: &mut [u64; 512]) -> bool {
        Guest::get(self, key, page)
    }

    #[inline]
    fn invalidate_page(&mut self, key: Key) {
        Guest::invalidate_page(self, key);
    }

    #[inline]
    fn invalidate_object(&mut self, pool: PoolId, object: u64) {
        Guest::invalidate_object(self, pool, object);
    }

    #[inline]
    fn invalidate_pool(&mut self, pool: PoolId) -> bool {
        Guest::invalidate_pool(self, pool)
    }
}

impl<S: Store + ?Sized> Store for &mut S {
    #[inline]
    fn put(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        (**self).put(key, page)
    }

    #[inline]
    fn put_dirty(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        (**self).put_dirty(key, page)
    }

    #[inline]
    fn get(&mut self, key: Key, page: &mut [u64; 512]) -> bool {
        (**self).get(key, page)
    }

    #[inline]
    fn invalidate_page(&mut self, key: Key) {
        (**self).invalidate_page(key);
    }

    #[inline]
    fn invalidate_object(&mut self, pool: PoolId, object: u64) {
        (**self).invalidate_object(pool, object);
    }

    #[inline]
    fn invalidate_pool(&mut self, pool: PoolId) -> bool {
        (**self).invalidate_pool(pool)
    }
}
