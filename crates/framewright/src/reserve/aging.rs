//! For models: a reserve as it is after more work than a test can wait for.

use super::Reserve;
use super::table::{FrameState, SECTION};
use crate::platform::ReservePlatform;
use crate::sync::Ordering::SeqCst;

impl<P: ReservePlatform> Reserve<'_, P> {
    /// Counts `generations` more for each descriptor that is free now, as if that many pages had
    /// come and gone: the most that the bits of a generation hold, and it comes round. The index
    /// keeps the entries that earlier pages left.
    ///
    /// For models, so that they see what a year brings. Takes the owners' lock.
    #[doc(hidden)]
    pub fn age_frames(&self, generations: u64) {
        let _owners = self.lock_owners();
        for nth in 0..self.ids().div_ceil(64) {
            let lane = self.table.lane(nth);
            let _shut = self.table.shut(nth * 64 / SECTION, &self.platform);
            let mut bits = lane.free.load(SeqCst);
            while bits != 0 {
                let id = nth * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let word = self.table.state(id);
                if word.state() == FrameState::Free {
                    self.table.set_shut(id, word.aged(generations));
                }
            }
        }
        self.table.before_writing();
    }

    /// Invalidates each object so often, and closes and opens each pool as often. After it no page
    /// that is there is served, not even one that is on no device yet.
    ///
    /// For models. Takes the owners' lock.
    #[doc(hidden)]
    pub fn age_pools(&self, times: u64) {
        let _owners = self.lock_owners();
        self.pools.age(times);
    }
}
