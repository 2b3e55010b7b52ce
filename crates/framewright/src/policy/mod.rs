//! Decisions as pure functions: facts in, verdict out.
//!
//! No locks, clocks, randomness or statics (A4): what a laboratory measures is this code, not a
//! copy of it. Where two candidates cost the same, the address decides, and which end of memory
//! wins is part of the verdict.
//!
//! # How a fallback is decided
//! A pageblock is described by `BlockFacts`. `Policy::class` puts it into one of some hundred
//! classes; the frame allocator keeps a complete index of pageblocks by class and by the orders of
//! the free blocks inside. `Policy::list` chooses one of a few rankings for a request.
//! `Policy::cost` says what it costs a request of that list to be served from a free block of some
//! order in a pageblock of some class, and `Policy::surcharge` what the order adds, given the order
//! asked for and the `Pressure` on the zone. The cost does not change, so the allocator ranks the
//! classes once, and then the cheapest that exists is the lowest bit set. The surcharge is added to
//! the few candidates that remain, one for each order. `Policy::end` chooses within a
//! class, and `Policy::is_relabelled` decides on the pageblock's label.
//!
//! A policy is nothing but these functions: a variant of [`Fallback`], and its arm in each of them.
//! `Policy::pressure` and `Policy::is_sparing` are the same for all. CONTRIBUTING.md says what a
//! further policy brings with it.
//!
//! # Sources
//! Candidates as a cost to be minimised instead of a table of fallbacks, and the historical rules:
//! see each policy.

mod class;
mod compaction;
mod concentrated;
mod config;
mod contiguous;
mod evacuation;
mod labelled;
mod pressure;
mod range;
mod spill;
mod watermark;

pub use class::{BlockFacts, Label};
pub(crate) use class::{Class, Classes, SHARE_SETTLED, ZoneFacts};
pub(crate) use compaction::{Deferral, compaction_cost, is_settled, takes_contents};
pub use config::{Config, Fallback};
pub use contiguous::ContigConfig;
pub use pressure::ReclaimConfig;
pub(crate) use pressure::{
    Remedy, Targets, boost_after, boosted, gap, held_back, next_priority, quota, remedy, share,
};
pub use range::RangeConfig;
pub use spill::Effort;
pub(crate) use spill::{SpillFacts, SpillStep, Tried, next_step};
pub use watermark::Watermarks;

use crate::units::{Mobility, Order};

/// Which candidate a request takes when several pageblocks cost the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// The one with the lowest address.
    Lowest,
    /// The one with the highest address.
    Highest,
}

/// How a zone is doing, in the words of the policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pressure {
    /// Free blocks of order 3 and more are scarce.
    pub(crate) scarce: bool,
    /// Free blocks of order 2 are scarce.
    pub(crate) order_2_scarce: bool,
    /// Large free blocks abound.
    pub(crate) plenty: bool,
    /// Most free frames are lent: only movable requests may have them.
    pub(crate) lent: bool,
}

impl Pressure {
    /// Its number, of four bits.
    #[inline(always)]
    pub(crate) const fn number(self) -> u8 {
        self.scarce as u8
            | (self.order_2_scarce as u8) << 1
            | (self.plenty as u8) << 2
            | (self.lent as u8) << 3
    }
}

/// How many rankings of candidates a policy has at most.
pub(crate) const LISTS: usize = 3;

/// The functions of one fallback policy for pageblocks of one order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    fallback: Fallback,
    classes: Classes,
}

impl Policy {
    /// The functions of `fallback` for pageblocks of `pageblock_order`.
    #[must_use]
    pub(crate) const fn new(fallback: Fallback, pageblock_order: Order) -> Self {
        Self {
            fallback,
            classes: Classes::new(pageblock_order),
        }
    }

    /// The class numbers of this policy.
    #[must_use]
    pub(crate) const fn classes(&self) -> Classes {
        self.classes
    }

    /// Whether its classes are by label and not by composition.
    #[must_use]
    pub(crate) const fn is_labelled(&self) -> bool {
        self.fallback.is_labelled()
    }

    /// The class of a pageblock.
    #[inline]
    #[must_use]
    pub(crate) fn class(&self, facts: &BlockFacts) -> Class {
        match facts.label {
            Label::Contiguous => Class::Contiguous {
                level: self.classes.level(facts.free),
            },
            Label::HighOrder => Class::HighOrder,
            Label::Of(label) => match self.fallback {
                Fallback::Concentrated => concentrated::class(self.classes, facts),
                Fallback::LargestFirst | Fallback::SmallestWhenCostly => Class::Labelled {
                    label,
                    level: self.classes.level(facts.free),
                },
            },
        }
    }

    /// How the zone is doing. The limits are those of `Concentrated`, whatever the policy.
    #[inline]
    #[must_use]
    pub(crate) const fn pressure(&self, zone: &ZoneFacts) -> Pressure {
        concentrated::pressure(zone)
    }

    /// Which ranking of candidates a request of `mobility` follows, below [`LISTS`].
    #[inline]
    #[must_use]
    pub(crate) const fn list(&self, mobility: Mobility, pressure: Pressure) -> usize {
        match self.fallback {
            Fallback::Concentrated => concentrated::list(mobility, pressure),
            Fallback::LargestFirst | Fallback::SmallestWhenCostly => mobility.index(),
        }
    }

    /// What it costs a request of `list` to be served from a free block of `found` in a pageblock
    /// of `class`; the lower, the better, in 16 bits. `None` if it may not be served from there.
    ///
    /// Contiguous blocks serve movable requests only. The high-order reserve serves no request
    /// here: it is asked when everything else has failed.
    #[inline]
    #[must_use]
    pub(crate) fn cost(&self, list: usize, found: Order, class: Class) -> Option<i32> {
        match self.fallback {
            Fallback::Concentrated => concentrated::cost(self.classes, list, found, class),
            Fallback::LargestFirst => labelled::cost(self.classes, list, found, class, false),
            Fallback::SmallestWhenCostly => labelled::cost(self.classes, list, found, class, true),
        }
    }

    /// The surcharge on the cost of all free blocks of `found` for a request of `order`.
    #[inline]
    #[must_use]
    pub(crate) const fn surcharge(
        &self,
        pressure: Pressure,
        mobility: Mobility,
        order: Order,
        found: Order,
    ) -> i32 {
        match self.fallback {
            Fallback::Concentrated => concentrated::surcharge(pressure, mobility, order, found),
            Fallback::LargestFirst | Fallback::SmallestWhenCostly => 0,
        }
    }

    /// From which end of memory a request takes, among pageblocks of one class.
    #[inline]
    #[must_use]
    pub(crate) fn end(&self, mobility: Mobility) -> End {
        match self.fallback {
            Fallback::Concentrated if mobility.is_movable() => End::Highest,
            Fallback::Concentrated | Fallback::LargestFirst | Fallback::SmallestWhenCostly => {
                End::Lowest
            }
        }
    }

    /// Whether a request leaves pageblocks in which other CPUs work to them and goes on to the next
    /// candidate. That pays where large free blocks abound. Where they do not, or for an unmovable
    /// request, the second best candidate costs more than waiting.
    #[inline]
    #[must_use]
    pub(crate) const fn is_sparing(&self, mobility: Mobility, pressure: Pressure) -> bool {
        mobility.is_movable() && pressure.plenty
    }

    /// Whether a fallback changes the pageblock's label to the requester's mobility. `facts` are as
    /// before the request takes from the free block of `found`.
    #[must_use]
    pub(crate) fn is_relabelled(
        &self,
        facts: &BlockFacts,
        mobility: Mobility,
        found: Order,
    ) -> bool {
        if !matches!(facts.label, Label::Of(_)) {
            return false;
        }
        match self.fallback {
            Fallback::Concentrated => labelled::is_mostly_alike(facts, mobility),
            Fallback::LargestFirst | Fallback::SmallestWhenCostly => {
                labelled::is_relabelled(self.classes, facts, mobility, found)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Mobility::{Movable, Reclaimable, Unmovable};

    fn order(order: u8) -> Order {
        Order::new(order).unwrap()
    }

    fn policy(fallback: Fallback) -> Policy {
        Policy::new(fallback, order(9))
    }

    #[test]
    fn what_moves_comes_from_the_other_end_of_memory_if_it_is_concentrated() {
        let end = |fallback, mobility| policy(fallback).end(mobility);
        assert_eq!(end(Fallback::Concentrated, Movable), End::Highest);
        assert_eq!(end(Fallback::Concentrated, Unmovable), End::Lowest);
        assert_eq!(end(Fallback::Concentrated, Reclaimable), End::Lowest);
        for fallback in Fallback::labelled() {
            for mobility in Mobility::ALL {
                assert_eq!(end(fallback, mobility), End::Lowest);
            }
        }
    }

    #[test]
    fn movable_requests_spare_other_cpus_while_large_blocks_abound() {
        let policy = policy(Fallback::Concentrated);
        let plenty = Pressure {
            plenty: true,
            ..Pressure::default()
        };
        assert!(policy.is_sparing(Movable, plenty));
        assert!(!policy.is_sparing(Movable, Pressure::default()));
        assert!(!policy.is_sparing(Unmovable, plenty));
        assert!(!policy.is_sparing(Reclaimable, plenty));
    }

    #[test]
    fn all_lists_of_one_mobility_have_the_same_classes() {
        let of_number = |bits: u8| Pressure {
            scarce: bits & 1 != 0,
            order_2_scarce: bits & 2 != 0,
            plenty: bits & 4 != 0,
            lent: bits & 8 != 0,
        };
        for (fallback, mobility) in Fallback::ALL
            .into_iter()
            .flat_map(|fallback| Mobility::ALL.map(|of| (fallback, of)))
        {
            let policy = policy(fallback);
            let classes: std::vec::Vec<Class> = (0..policy.classes().count() as u16)
                .filter_map(|number| policy.classes().class(number, policy.is_labelled()))
                .collect();
            let first = policy.list(mobility, Pressure::default());
            for bits in 0..16 {
                let list = policy.list(mobility, of_number(bits));
                for found in (0..=9).map(order) {
                    for &class in &classes {
                        let are_in =
                            [first, list].map(|list| policy.cost(list, found, class).is_some());
                        assert_eq!(
                            are_in[0], are_in[1],
                            "{fallback:?}, {mobility:?}, {found:?}: {class:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn pressure_changes_the_price_of_orders_under_concentrated_only() {
        let zone = ZoneFacts {
            frames: 100_000,
            free: 1000,
            ..ZoneFacts::default()
        };
        let pressure = policy(Fallback::Concentrated).pressure(&zone);
        assert!(pressure.scarce && !pressure.plenty);
        let surcharge =
            |fallback| policy(fallback).surcharge(pressure, Unmovable, order(0), order(4));
        assert!(surcharge(Fallback::Concentrated) > 1);
        for fallback in Fallback::labelled() {
            assert_eq!(surcharge(fallback), 0);
        }
    }

    #[test]
    fn a_fallback_relabels_what_is_mostly_alike_but_never_a_label_of_another_kind() {
        let facts = |label, free, movable| BlockFacts {
            label,
            free,
            by_mobility: [512 - free - movable, movable, 0],
            absent: 0,
        };
        for fallback in Fallback::ALL {
            let policy = policy(fallback);
            let is_relabelled = |facts| policy.is_relabelled(&facts, Unmovable, order(0));
            let label = Label::Of(Movable);
            assert!(is_relabelled(facts(label, 300, 200)), "{fallback:?}");
            assert!(!is_relabelled(facts(label, 10, 500)), "{fallback:?}");
            for label in [Label::Contiguous, Label::HighOrder] {
                assert!(!is_relabelled(facts(label, 300, 200)), "{fallback:?}");
            }
            // Only the labelled ones leave the label to a movable request that takes little.
            let label = Label::Of(Unmovable);
            assert_eq!(
                policy.is_relabelled(&facts(label, 300, 200), Movable, order(0)),
                fallback == Fallback::Concentrated
            );
        }
    }
}
