//! The years whose fallback rules the buddy allocator follows. The engine's own are in `framewright::policy`.

use core::fmt;

/// The order of a transparent huge page (`HPAGE_PMD_ORDER`).
pub(super) const HUGE_ORDER: u8 = 9;

/// Whose rules a [`super::LinuxBuddy`] follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinuxPolicy {
    /// 4.0 to 4.11: the largest block of another mobility first. If its order is at least half the
    /// pageblock's, or the request is not movable, all free blocks of the pageblock move to the
    /// requester's list, and the label follows if they are half of it. The rest of the block taken
    /// goes to the requester's list in any case.
    Linux44,
    /// Document 2's patch on 4.4: largest first down to order 4; below that, from the requested
    /// order upward.
    Proposal,
    /// 4.13: largest first; but a movable request that may not take the pageblock takes the
    /// smallest block there is. For the label, allocated frames of the requester's kind count as
    /// the free ones do.
    Linux413,
    /// 6.12 after the rewrite of 2025: own list, then *claim* a pageblock (largest order first,
    /// one candidate an order, nothing below order 4 for movable requests) of which at least half is
    /// free or alike, then *steal* a block, smallest order first, whose rest stays on the list of
    /// its label.
    Linux612,
    /// 6.12 where the kernel avoids fragmenting at first: a pass that takes from other
    /// mobilities only whole pageblocks, then, as there is no other zone, one without that limit.
    Linux612NoFragment,
    /// 6.15 and later with `vm.defrag_mode=1`, on the rules of 6.12: behind watermarks a request takes pieces of other
    /// mobilities' pageblocks only after it has waited, and one that may not wait never does. Without watermarks as the
    /// one before.
    Linux618Defrag,
    /// One list for all mobilities. A pole to learn from, not a policy of any year.
    NoGrouping,
}

impl LinuxPolicy {
    /// All of them, oldest first, the pole last.
    pub const ALL: [Self; 7] = [
        Self::Linux44,
        Self::Proposal,
        Self::Linux413,
        Self::Linux612,
        Self::Linux612NoFragment,
        Self::Linux618Defrag,
        Self::NoGrouping,
    ];

    /// The name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linux44 => "linux-4.4",
            Self::Proposal => "proposal",
            Self::Linux413 => "linux-4.13",
            Self::Linux612 => "linux-6.12",
            Self::Linux612NoFragment => "linux-6.12-nofragment",
            Self::Linux618Defrag => "linux-6.18-defrag",
            Self::NoGrouping => "no-grouping",
        }
    }

    /// The policy of that name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether it was a rule of a kernel, or proposed as one.
    #[must_use]
    pub const fn is_historical(self) -> bool {
        !matches!(self, Self::NoGrouping)
    }

    /// Whether the lists are kept apart by mobility.
    pub(super) const fn groups(self) -> bool {
        !matches!(self, Self::NoGrouping)
    }

    /// Whether the lists are strict (since 6.10): a free block is always on its pageblock's list.
    pub(super) const fn is_strict(self) -> bool {
        matches!(
            self,
            Self::Linux612 | Self::Linux612NoFragment | Self::Linux618Defrag
        )
    }

    /// Whether a request first tries to take nothing but whole pageblocks from other mobilities (since 5.0): where a
    /// zone of 32-bit addresses lies below the one it prefers, or always.
    pub(super) const fn avoids_fragments(self, has_zone_below: bool) -> bool {
        match self {
            Self::Linux612 => has_zone_below,
            Self::Linux612NoFragment | Self::Linux618Defrag => true,
            _ => false,
        }
    }

    /// Whether a request that has not waited takes nothing but whole pageblocks from other mobilities.
    pub(super) const fn fragments_last(self) -> bool {
        matches!(self, Self::Linux618Defrag)
    }

    /// Whether per-CPU lists hold blocks of `order`: single frames until 5.12; since then orders
    /// up to 3 (`PAGE_ALLOC_COSTLY_ORDER`) and transparent huge pages.
    #[inline]
    pub(super) const fn caches(self, order: u8) -> bool {
        order == 0 || self.is_strict() && (order <= 3 || order == HUGE_ORDER)
    }
}

impl fmt::Display for LinuxPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
