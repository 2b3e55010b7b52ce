//! For models: a reserve as it is after so much work that nobody waits for it.

use super::Reserve;
use super::table::{BLOCK, FREE, State};
use crate::platform::{Contents, Relax};
use crate::sync::Ordering::SeqCst;

impl<P: Relax + Contents> Reserve<'_, P> {
    /// As if each descriptor that is free now had counted `generations` more, by pages that came and went: the most
    /// of what the bits of a generation hold, and it comes round. Their entries in the index are what earlier pages
    /// left.
    ///
    /// For models, so that they see what a year brings. Takes the owners' lock.
    #[doc(hidden)]
    pub fn age_frames(&self, generations: u64) {
        let _owners = self.lock_owners();
        for nth in 0..self.ids().div_ceil(64) {
            let lane = self.table.lane(nth);
            let _shut = self.table.shut(nth * 64 / BLOCK, &self.platform);
            let mut bits = lane[FREE].load(SeqCst);
            while bits != 0 {
                let id = nth * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let word = self.table.state(id);
                if word.state() == State::Free {
                    self.table.set_shut(id, word.aged(generations));
                }
            }
        }
        self.table.before_writing();
    }

    /// As if each object had been invalidated so often, and each pool closed and opened again: no page that is there is
    /// served any more, also not one that is on no device yet.
    ///
    /// For models. Takes the owners' lock.
    #[doc(hidden)]
    pub fn age_pools(&self, times: u64) {
        let _owners = self.lock_owners();
        self.pools.age(times);
    }
}
