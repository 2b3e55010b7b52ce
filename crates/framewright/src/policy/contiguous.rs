//! How a contiguous run is taken from frames that are lent: Linux's way, and the engine's.

use crate::units::SetupError;

/// How a contiguous run is taken from frames that are lent to movable contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContigConfig {
    /// Whether, of the places that have no owner and that no reservation needs, the lowest is tried first, then the
    /// next one behind it, wherever the obstacle was: as Linux's `cma_alloc`. Else the one with the fewest frames
    /// in use comes first, as counted in the emptiest pageblocks or, for runs longer than those, anywhere; the
    /// lowest of equals. Then the next one that avoids the frames that were in the way.
    pub first_fit: bool,
    /// The most places tried for one request, at least 1.
    pub places_max: u32,
    /// Blocks that are dropped or moved together, 1 to 64.
    pub batch: u8,
    /// How often the blocks of a batch are offered before the place is given up, 1 to 64. Each time
    /// the clean ones are dropped first.
    pub tries: u8,
    /// How often they are offered to be moved within one try, 1 to 64.
    pub passes: u8,
    /// Whether blocks that a client calls pinned are offered again, like busy ones. Linux cannot
    /// tell one from the other.
    pub retries_pinned: bool,
    /// Whether to look for frames that can never be moved before moving any.
    pub looks_first: bool,
    /// Whether clients are asked to drop clean contents before these are moved.
    pub discards: bool,
    /// Whether contents move to lent frames only when no others are free: else they are in the way
    /// of the next run.
    pub lent_last: bool,
    /// Whether one owner at a time empties a run of the area, and others wait meanwhile. Else
    /// owners of different pageblocks work side by side.
    pub one_at_a_time: bool,
}

impl ContigConfig {
    /// Linux's, 3.17 to 6.12: first fit, 32 pages together (`SWAP_CLUSTER_MAX`), five tries, in each of
    /// which `migrate_pages` goes over its list ten times, until the area is exhausted, one owner at a
    /// time (`cma_mutex`).
    pub const LINUX: Self = Self {
        first_fit: true,
        places_max: u32::MAX,
        batch: 32,
        tries: 5,
        passes: 10,
        retries_pinned: true,
        looks_first: false,
        discards: true,
        lent_last: false,
        one_at_a_time: true,
    };

    /// Checks every limit.
    ///
    /// # Errors
    /// The first limit that is not kept.
    pub const fn check(&self) -> Result<(), SetupError> {
        let limits = [
            ("places_max", self.places_max as u64, 1, u32::MAX as u64),
            ("batch", self.batch as u64, 1, 64),
            ("tries", self.tries as u64, 1, 64),
            ("passes", self.passes as u64, 1, 64),
        ];
        SetupError::limits(&limits)
    }
}

impl Default for ContigConfig {
    /// The engine's: the cheapest place, 64 blocks together, and as many more passes over busy
    /// blocks as Linux makes; a pinned block is a reason to go elsewhere at once.
    fn default() -> Self {
        Self {
            first_fit: false,
            batch: 64,
            passes: 1,
            retries_pinned: false,
            looks_first: true,
            lent_last: true,
            one_at_a_time: false,
            ..Self::LINUX
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn each_limit_of_a_contiguous_config_is_named_with_the_number_that_broke_it() {
        assert_eq!(ContigConfig::default().check(), Ok(()));
        assert_eq!(ContigConfig::LINUX.check(), Ok(()));
        let broken = [
            ContigConfig {
                places_max: 0,
                ..ContigConfig::LINUX
            },
            ContigConfig {
                batch: 65,
                ..ContigConfig::LINUX
            },
            ContigConfig {
                tries: 0,
                ..ContigConfig::LINUX
            },
            ContigConfig {
                passes: 200,
                ..ContigConfig::LINUX
            },
        ];
        assert_eq!(
            broken.map(|config| config.check().unwrap_err().to_string()),
            [
                "places_max 0 is below the minimum 1",
                "batch 65 is above the maximum 64",
                "tries 0 is below the minimum 1",
                "passes 200 is above the maximum 64",
            ]
        );
    }
}
