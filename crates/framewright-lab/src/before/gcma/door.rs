//! The same doors as the engine's reserve has: for guests, and for owners.

use super::Gcma;
use framewright::Run;
use framewright::RunError;
use framewright::platform::ReservePlatform;
use framewright::reserve::{Contiguous, Key, PoolId, PutRefused, Reservation, Store};

impl<P: ReservePlatform> Store for &Gcma<P> {
    fn put(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        Gcma::put(self, key, page)
    }

    /// Refused: every page is on its device before it comes here.
    fn put_dirty(&mut self, key: Key, _page: &[u64; 512]) -> Result<(), PutRefused> {
        self.forget(key);
        Err(PutRefused::NoPool)
    }

    fn get(&mut self, key: Key, page: &mut [u64; 512]) -> bool {
        Gcma::get(self, key, page)
    }

    fn invalidate_page(&mut self, key: Key) {
        Gcma::invalidate_page(self, key);
    }

    fn invalidate_object(&mut self, pool: PoolId, object: u64) {
        Gcma::invalidate_object(self, pool, object);
    }

    fn invalidate_pool(&mut self, pool: PoolId) -> bool {
        Gcma::invalidate_pool(self, pool)
    }
}

/// Any number of threads at a time: all share the same locks.
#[cfg(all(target_os = "linux", feature = "experiments"))]
impl<P: ReservePlatform + Sync> framewright_linux::tenancy::Tenancy for Gcma<P> {
    fn with(&self, work: &mut dyn FnMut(&mut dyn Store)) {
        let mut store = self;
        work(&mut store);
    }
}

/// There are no reservations: an owner gets what is left when it asks.
impl<P: ReservePlatform> Contiguous for &Gcma<P> {
    fn is_guaranteed(&self) -> bool {
        true
    }

    fn alloc_contig(&mut self, frames: u64, align: u64) -> Result<Run, RunError> {
        if frames == 0 || !align.is_power_of_two() {
            return Err(RunError::Malformed);
        }
        Gcma::take(self, frames, align).ok_or(RunError::NoRoom)
    }

    fn release(&mut self, run: Run) -> Result<(), RunError> {
        match self.give_back(run) {
            true => Ok(()),
            false => Err(RunError::NotOwned(run)),
        }
    }

    fn reserve(&mut self, _name: &str, _frames: u64, _align: u64) -> Result<Reservation, RunError> {
        Err(RunError::TooMany(0))
    }

    fn take(&mut self, _reservation: Reservation) -> Result<Run, RunError> {
        Err(RunError::Unknown)
    }

    fn unreserve(&mut self, _reservation: Reservation) -> Result<(), RunError> {
        Err(RunError::Unknown)
    }
}
