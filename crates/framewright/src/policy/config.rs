//! The policies of one zone as a plain value.

use crate::units::{Order, SetupError};

/// Which pageblock a request falls back to: the name of a fallback policy. `Policy`
/// has the functions of each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fallback {
    /// The largest free block of another label, the rule of Linux up to 4.12.
    LargestFirst,
    /// The same, except that where the largest is of order 3 or less, the smallest sufficient one
    /// is taken: the proposal of January 2016.
    SmallestWhenCostly,
    /// By composition instead of label: keeps unmovable contents together.
    #[default]
    Concentrated,
}

impl Fallback {
    /// All of them, the default last.
    pub const ALL: [Self; 3] = [
        Self::LargestFirst,
        Self::SmallestWhenCostly,
        Self::Concentrated,
    ];

    /// The name, as command lines and reports know it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LargestFirst => "largest-first",
            Self::SmallestWhenCostly => "smallest-when-costly",
            Self::Concentrated => "concentrated",
        }
    }

    /// Whether classes are by label and not by composition.
    #[must_use]
    pub const fn is_labelled(self) -> bool {
        match self {
            Self::LargestFirst | Self::SmallestWhenCostly => true,
            Self::Concentrated => false,
        }
    }

    /// Those whose classes are by label.
    #[cfg(test)]
    pub(crate) fn labelled() -> impl Iterator<Item = Self> {
        Self::ALL
            .into_iter()
            .filter(|fallback| fallback.is_labelled())
    }
}

/// The policies of one zone, as a plain value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Which pageblock a request falls back to.
    pub fallback: Fallback,
    /// The largest part of the free frames that all CPU caches together may hold, in permille;
    /// 0 for no caches, 100 at most.
    pub cache_permille: u16,
    /// The most blocks of order 0 that a CPU caches for each mobility, 64 at most. Each order above
    /// it, up to 4, has half as many as the one below: 4 blocks of order 4. With 64, up to 8 words
    /// of 64 frames wait behind each cache of order 0, as long as they are at most half of what the
    /// CPU may hold.
    pub cache_blocks_max: u16,
    /// The largest order for which a request that would fail first stops all CPUs, to look into
    /// their caches: it fails only if there is no block. Larger ones fail without a stop, unless
    /// they were told to try hard \[`PAGE_ALLOC_COSTLY_ORDER`\]. Where there is one CPU, no other
    /// would wait, so no order is too large.
    pub stop_order_max: Order,
}

impl Default for Config {
    /// Concentrated fallback, and caches of at most 0.5 % of the free frames: a cache as large as
    /// Linux's costs a tenth of the free pageblocks.
    fn default() -> Self {
        Self {
            fallback: Fallback::Concentrated,
            cache_permille: 5,
            cache_blocks_max: 64,
            stop_order_max: COSTLY,
        }
    }
}

/// The largest order that is not costly.
const COSTLY: Order = Order::new(3).unwrap();

impl Config {
    /// Checks every limit.
    ///
    /// # Errors
    /// The first limit that is not kept.
    pub const fn check(&self) -> Result<(), SetupError> {
        SetupError::limits(&[
            ("cache_permille", self.cache_permille as u64, 0, 100),
            ("cache_blocks_max", self.cache_blocks_max as u64, 0, 64),
        ])
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn each_limit_is_named_with_the_number_that_broke_it() {
        assert_eq!(Config::default().check(), Ok(()));
        let blocks = Config {
            cache_blocks_max: 65,
            ..Config::default()
        };
        let message = blocks.check().unwrap_err().to_string();
        assert_eq!(message, "cache_blocks_max 65 is above the maximum 64");
        let permille = Config {
            cache_permille: 101,
            ..Config::default()
        };
        let message = permille.check().unwrap_err().to_string();
        assert_eq!(message, "cache_permille 101 is above the maximum 100");
    }

    #[test]
    fn the_largest_values_that_keep_the_limits_are_accepted() {
        let config = Config {
            cache_permille: 100,
            cache_blocks_max: 64,
            ..Config::default()
        };
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn each_fallback_has_the_name_that_command_lines_know() {
        let names = Fallback::ALL.map(Fallback::name);
        assert_eq!(
            names,
            ["largest-first", "smallest-when-costly", "concentrated"]
        );
    }
}
