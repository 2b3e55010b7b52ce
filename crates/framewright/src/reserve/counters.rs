//! Which word counts what: the reserve's own words, and those of a guest's seat, by kind.

use super::PutRefused;
use super::pool::KINDS;
use super::table::INSIDE;
use crate::stats::REFUSALS;

// The reserve's own words, written under the owners' lock.
pub(super) const OWNERS_LOCK: usize = 0;
/// Where the search for a single frame goes on.
pub(super) const CURSOR: usize = 1;
/// What owners did.
pub(super) const TAKES: usize = 2;
pub(super) const TAKEN_FREE: usize = 3;
pub(super) const TAKEN_COLD: usize = 4;
pub(super) const TAKES_FAILED: usize = 5;
pub(super) const RELEASED: usize = 6;
pub(super) const TAKEN_HOT: usize = 7;
/// The lock of the CPU that writes dirty pages.
pub(super) const CLEANER: usize = 8;
/// Where the cleaner goes on.
pub(super) const CLEAN_CURSOR: usize = 9;
/// Pages copied into ordinary frames; added to under no lock.
pub(super) const PUT_BACK: usize = 10;
/// Runs that owners keep now while they clear them.
pub(super) const CLEARING: usize = 11;
/// The origin of the ordinary frames; 0 before the first.
pub(super) const SUPPLY: usize = 12;
/// Pools opened, by kind.
pub(super) const OPENED: usize = 16;
/// Words of the reserve's own: whole cache lines.
pub(super) const OWN_WORDS: usize = 24;
const _: () = assert!(OPENED + KINDS as usize <= OWN_WORDS);

/// The words of a guest's seat, on cache lines of its own: only that seat writes them.
pub(super) mod count {
    use super::{KINDS, PutRefused};
    pub(in crate::reserve) const TAKEN: usize = 0;
    const _: () = assert!(TAKEN != super::INSIDE && super::INSIDE < KIND);

    // What is counted for each kind, from the kind's first word on.
    pub(in crate::reserve) const STORED: usize = 0;
    pub(in crate::reserve) const LOADED: usize = 1;
    pub(in crate::reserve) const MISSED: usize = 2;
    pub(in crate::reserve) const EVICTED: usize = 3;
    pub(in crate::reserve) const INVALIDATED_PAGES: usize = 4;
    pub(in crate::reserve) const INVALIDATED_OBJECTS: usize = 5;
    pub(in crate::reserve) const INVALIDATED_POOLS: usize = 6;
    pub(in crate::reserve) const INVALIDATE_FAILED: usize = 7;
    pub(in crate::reserve) const REFUSED: usize = 8;
    /// Words of a kind: whole cache lines.
    const OF_KIND: usize = (REFUSED + PutRefused::COUNT).next_multiple_of(8);
    /// The first kind's first word.
    const KIND: usize = 8;

    /// Pages held, by pool: those that came by this seat less those that went; wraps.
    pub(in crate::reserve) const HELD: usize = KIND + KINDS as usize * OF_KIND;

    /// The word of a counter of a kind, by the number of one of its pools.
    #[inline]
    pub(in crate::reserve) const fn of(pool: usize, counter: usize) -> usize {
        KIND + pool % KINDS as usize * OF_KIND + counter
    }
}

const _: () = assert!(PutRefused::COUNT == REFUSALS.len());
