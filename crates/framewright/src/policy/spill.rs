use crate::units::Context;

/// How much a request for an object does for its memory to be contiguous, and for it to be had at
/// all.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Effort {
    /// Contiguous if that is there now, in this CPU's caches or by one look at the zone; else
    /// mapped pages. Never has anybody reclaim or compact, for either.
    #[default]
    FailFast,
    /// Before it spills, it has memory compacted once, if its context allows that; for mapped
    /// pages, reclaimed once.
    MayCompact,
    /// As fail-fast for contiguous memory; but for mapped pages it has memory reclaimed as long as
    /// anybody gives any. Its caller must be allowed to wait and to reclaim.
    MustSucceed,
}

impl Effort {
    /// Whether a request that found no contiguous block has memory compacted before it spills.
    #[must_use]
    pub const fn compacts(self, context: Context) -> bool {
        matches!(self, Self::MayCompact) && context.may_block && context.may_reclaim
    }

    /// Whether a request that found no frames has memory reclaimed, the `tries`th time, from 0.
    #[must_use]
    pub const fn reclaims(self, context: Context, tries: u32) -> bool {
        let may = context.may_block && context.may_reclaim;
        match self {
            Self::FailFast => false,
            Self::MayCompact => may && tries == 0,
            Self::MustSucceed => may,
        }
    }
}
