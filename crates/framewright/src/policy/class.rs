//! What a policy may know of pageblocks, and the classes by which an index groups them.
//!
//! ```text
//!     number 0 Empty; from 1 on, by group and level: Clean, Mixed by share, Pure by share;
//!     then Contiguous by level, and HighOrder. With labels, the groups are the labels instead.
//! ```
//!
//! A class keeps of a pageblock's facts what its price depends on: which contents it holds, in four
//! steps of non-movable frames, and how much is free, in half octaves. It is so coarse that a
//! pageblock seldom changes its class, and that the classes of usual pageblocks fit three words of
//! flags. A number means a class only together with the kind of policy.

use crate::units::{Mobility, Order};

/// What a pageblock is set aside for [pageblock migratetype].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Label {
    /// For requests of one mobility; others come in by fallback.
    Of(Mobility),
    /// Part of a contiguous area: lent to movable requests only (`MIGRATE_CMA`).
    Contiguous,
    /// Kept for unmovable requests above order 0, when all else has failed (`MIGRATE_HIGHATOMIC`).
    HighOrder,
}

impl Label {
    /// How many labels there are.
    pub const COUNT: usize = 5;

    /// The label's number: the mobilities' numbers, then 3 and 4.
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Of(mobility) => mobility.index(),
            Self::Contiguous => 3,
            Self::HighOrder => 4,
        }
    }

    /// The label of that number, if there is one.
    #[must_use]
    pub const fn from_index(index: usize) -> Option<Self> {
        match index {
            3 => Some(Self::Contiguous),
            4 => Some(Self::HighOrder),
            _ => match Mobility::from_index(index) {
                Some(mobility) => Some(Self::Of(mobility)),
                None => None,
            },
        }
    }
}

/// What a policy may know of one pageblock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockFacts {
    /// Its label.
    pub label: Label,
    /// Free frames.
    pub free: u32,
    /// Allocated frames, by mobility; those in CPU caches count as allocated.
    pub by_mobility: [u32; 3],
    /// Frames of the pageblock that do not exist, or not yet.
    pub absent: u32,
}

impl BlockFacts {
    /// Allocated frames with contents that cannot be copied elsewhere.
    #[inline]
    #[must_use]
    pub const fn nonmovable(&self) -> u32 {
        self.by_mobility[Mobility::Unmovable.index()]
            + self.by_mobility[Mobility::Reclaimable.index()]
    }

    /// Allocated frames with contents that can be copied elsewhere.
    #[inline]
    #[must_use]
    pub const fn movable(&self) -> u32 {
        self.by_mobility[Mobility::Movable.index()]
    }
}

/// What a policy may know of a zone as a whole: sums over its pageblocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ZoneFacts {
    /// Frames that exist.
    pub frames: u64,
    /// Free frames.
    pub free: u64,
    /// Free frames in free blocks of order 3 or more.
    pub free_large: u64,
    /// Maximal free blocks of order 2.
    pub blocks_of_order_2: u64,
    /// Free frames in contiguous areas: for movable requests only.
    pub free_lent: u64,
}

/// The class of a pageblock: the unit by which an index groups them.
///
/// A `level` is a logarithmic count of free frames in half octaves, see [`Classes::level`]; a
/// `share` counts non-movable frames: 0 for below a 64th of the pageblock, 1 for below an eighth,
/// 2 for below three eighths, 3 for more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// No frame in it is allocated, and every frame exists.
    Empty,
    /// Movable frames only.
    Clean {
        /// Free frames.
        level: u8,
    },
    /// Non-movable and movable frames.
    Mixed {
        /// Non-movable frames.
        share: u8,
        /// Free frames.
        level: u8,
    },
    /// Non-movable frames only.
    Pure {
        /// Non-movable frames.
        share: u8,
        /// Free frames.
        level: u8,
    },
    /// By label alone.
    Labelled {
        /// The label.
        label: Mobility,
        /// Free frames.
        level: u8,
    },
    /// In a contiguous area.
    Contiguous {
        /// Free frames.
        level: u8,
    },
    /// In the high-order reserve.
    HighOrder,
}

/// How many values a share has.
const SHARES: u8 = 4;

/// The smallest share of a pageblock in which unmovable contents have settled: an eighth.
pub(crate) const SHARE_SETTLED: u8 = 2;

/// The numbering of classes for pageblocks of one order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Classes {
    pageblock_order: u8,
    levels: u8,
}

impl Classes {
    /// The numbering for pageblocks of `pageblock_order`.
    #[must_use]
    pub(crate) const fn new(pageblock_order: Order) -> Self {
        let order = pageblock_order.get();
        // Half octaves of 1..=2^order: 0, 1, 2, then two for each further octave.
        let levels = if order < 2 { 2 } else { 2 * order };
        Self {
            pageblock_order: order,
            levels,
        }
    }

    /// The order of the pageblocks.
    #[must_use]
    pub(crate) const fn pageblock_order(self) -> Order {
        match Order::new(self.pageblock_order) {
            Some(order) => order,
            None => Order::MAX,
        }
    }

    /// How many levels there are.
    #[must_use]
    pub(crate) const fn levels(self) -> u8 {
        self.levels
    }

    /// The level of that many free frames: 1, 2 and 3 frames are levels 0, 1 and 2, then each
    /// octave has two; no free frame is level 0 too.
    #[inline]
    #[must_use]
    pub(crate) const fn level(self, free: u32) -> u8 {
        if free < 4 {
            free.saturating_sub(1) as u8
        } else {
            let octave = 31 - free.leading_zeros();
            (2 * octave + (free >> (octave - 1) & 1) - 1) as u8
        }
    }

    /// Whether two counts of free frames are of one [`level`](Self::level).
    #[inline(always)]
    #[must_use]
    pub(crate) const fn is_same_level(self, free: u32, other: u32) -> bool {
        if free < 4 || other < 4 {
            return self.level(free) == self.level(other);
        }
        // The octave is the place of the highest bit, its half the bit below.
        (free ^ other).leading_zeros() >= free.leading_zeros() + 2
    }

    /// The share of that many non-movable frames.
    #[inline]
    #[must_use]
    pub(crate) const fn share(self, nonmovable: u32) -> u8 {
        // In 64ths of a pageblock, rounded down; the limits are 1, 8 and 24 of 64.
        match (nonmovable << 6) >> self.pageblock_order {
            0 => 0,
            1..8 => 1,
            8..24 => 2,
            _ => 3,
        }
    }

    /// How many class numbers there are.
    #[must_use]
    pub(crate) const fn count(self) -> usize {
        self.contiguous() as usize + self.levels as usize + 1
    }

    const fn contiguous(self) -> u16 {
        1 + self.levels as u16 + 2 * SHARES as u16 * self.levels as u16
    }

    /// The number of `class`, below [`count`](Self::count).
    #[inline]
    #[must_use]
    pub(crate) const fn number(self, class: Class) -> u16 {
        match class {
            Class::Empty => 0,
            Class::Clean { level } => self.in_group(0, level),
            Class::Mixed { share, level } => self.in_group(1 + share, level),
            Class::Pure { share, level } => self.in_group(1 + SHARES + share, level),
            // A policy's classes are either all labelled or all by composition.
            Class::Labelled { label, level } => self.in_group(label.index() as u8, level),
            Class::Contiguous { level } => self.contiguous() + level as u16,
            Class::HighOrder => self.contiguous() + self.levels as u16,
        }
    }

    #[inline]
    const fn in_group(self, group: u8, level: u8) -> u16 {
        1 + self.levels as u16 * group as u16 + level as u16
    }

    /// The class of that number, where `labelled` says which of the two kinds the policy has.
    ///
    /// `None` for a number that no class has.
    #[must_use]
    pub(crate) const fn class(self, number: u16, labelled: bool) -> Option<Class> {
        let levels = self.levels as u16;
        if number >= self.contiguous() {
            let level = number - self.contiguous();
            return if level < levels {
                Some(Class::Contiguous { level: level as u8 })
            } else if level == levels {
                Some(Class::HighOrder)
            } else {
                None
            };
        }
        if number == 0 {
            return Some(Class::Empty);
        }
        let group = ((number - 1) / levels) as u8;
        let level = ((number - 1) % levels) as u8;
        if labelled {
            return match Mobility::from_index(group as usize) {
                Some(label) => Some(Class::Labelled { label, level }),
                None => None,
            };
        }
        if group == 0 {
            return Some(Class::Clean { level });
        }
        let share = (group - 1) % SHARES;
        Some(match (group - 1) / SHARES {
            0 => Class::Mixed { share, level },
            _ => Class::Pure { share, level },
        })
    }
}

const _: () = {
    // 512 frames have 18 levels, so 1 + 18 + 2 * 4 * 18 + 18 + 1 = 182 classes: three words of flags.
    assert!(Classes::new(Order::new(9).unwrap()).count() == 182);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_number_names_the_class_that_has_it() {
        for order in 1..=10 {
            let classes = Classes::new(Order::new(order).unwrap());
            for number in 0..classes.count() as u16 {
                for labelled in [false, true] {
                    if let Some(class) = classes.class(number, labelled) {
                        assert_eq!(classes.number(class), number, "{class:?}");
                    }
                }
            }
            assert_eq!(classes.class(classes.count() as u16, false), None);
        }
    }

    #[test]
    fn levels_rise_with_the_free_frames_and_end_at_the_last_one() {
        for order in 1..=10 {
            let classes = Classes::new(Order::new(order).unwrap());
            let mut last = 0;
            for free in 1..=1u32 << order {
                let level = classes.level(free);
                assert!(
                    level == last || level == last + 1,
                    "{free} of order {order}"
                );
                last = level;
            }
            for (free, other) in (0..=1 << order).flat_map(|a| [a, a + 1, a + 7].map(|b| (a, b))) {
                let same = classes.level(free) == classes.level(other);
                assert_eq!(
                    classes.is_same_level(free, other),
                    same,
                    "{free} and {other}"
                );
                assert_eq!(
                    classes.is_same_level(other, free),
                    same,
                    "{other} and {free}"
                );
            }
            assert!(last < classes.levels());
        }
        assert_eq!(Classes::new(Order::new(9).unwrap()).level(512), 17);
    }

    #[test]
    fn shares_divide_a_pageblock_of_512_at_8_64_and_192() {
        let classes = Classes::new(Order::new(9).unwrap());
        let at = [0, 7, 8, 63, 64, 191, 192, 512];
        assert_eq!(at.map(|n| classes.share(n)), [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn labels_are_numbered_without_gaps() {
        for index in 0..Label::COUNT {
            assert_eq!(Label::from_index(index).unwrap().index(), index);
        }
        assert_eq!(Label::from_index(Label::COUNT), None);
    }

    #[test]
    fn no_two_classes_of_a_policy_have_one_number() {
        let classes = Classes::new(Order::new(9).unwrap());
        for labelled in [false, true] {
            let last = Class::Contiguous { level: 0 };
            let before = classes.number(last) - 1;
            let of_shares = Class::Pure {
                share: 3,
                level: 17,
            };
            if !labelled {
                assert_eq!(classes.class(before, labelled), Some(of_shares));
            }
            assert_eq!(classes.class(before + 1, labelled), Some(last));
        }
        assert_eq!(classes.number(Class::HighOrder), 181);
    }
}
