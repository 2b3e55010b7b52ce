//! What was tried: what failed under each policy, and under other settings of the recorded kernel, at each nearby squeeze.

use super::kernel::SettingTrial;
use crate::measure::MAX_ORDER;
use crate::replay::ReplayPolicy;

/// Orders that are told apart.
pub(super) const ORDERS: usize = MAX_ORDER + 1;

/// What replays under one choice came to, a count for each squeeze and each order of operations that was tried; the first
/// is what was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TriedCounts {
    /// What failed, by order.
    pub failures: Vec<[u64; ORDERS]>,
    /// What of that failed because what was free lay in pieces.
    pub in_pieces: Vec<[u64; ORDERS]>,
    /// Requests that were served and would have waited.
    pub stalled: Vec<u64>,
    /// Requests that were served from a pageblock of another mobility.
    pub fallbacks: Vec<u64>,
}

impl TriedCounts {
    pub(super) fn at_asked(&self, order: usize) -> u64 {
        first(&self.failures, order)
    }

    /// What failed of all orders, at each squeeze.
    pub(super) fn totals(&self) -> impl Iterator<Item = u64> {
        self.failures.iter().map(|orders| orders.iter().sum())
    }

    /// What failed of all orders but one, at what was asked for.
    pub(super) fn of_others(&self, order: usize) -> u64 {
        let all = self.totals().next().unwrap_or(0);
        all - self.at_asked(order)
    }

    pub(super) fn of(&self, counted: Counted) -> &[[u64; ORDERS]] {
        match counted {
            Counted::All => &self.failures,
            Counted::InPieces => &self.in_pieces,
        }
    }
}

/// A policy, and what fails under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedPolicy {
    /// The policy.
    pub policy: ReplayPolicy,
    /// What replays under it came to.
    pub counts: TriedCounts,
}

/// A setting of the recorded kernel, and what fails under another value of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedSetting {
    /// The setting and the value.
    pub trial: SettingTrial,
    /// What replays under it came to.
    pub counts: TriedCounts,
}

/// Settings that were tried, all under the rules of the recorded kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedSettings {
    /// What replays of that kernel as it was set came to. Its background is the model that the others have, too.
    pub base: TriedCounts,
    /// Each that was tried, in the order of the table.
    pub tried: Vec<TriedSetting>,
    /// Whether the other replays of that kernel, those of policies and of the calibration, follow the machine's own background.
    pub is_remodelled: bool,
    /// Whether `base` is what the calibration judges: the same background and the same zones.
    pub is_calibrated: bool,
}

/// Which settings this command was asked to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingsAsked {
    /// Whatever it was asked, it tries none: it reclaims, times itself, or there are too many operations.
    Never,
    /// None.
    None,
    /// A few.
    Few,
    /// All.
    All,
}

/// What was asked for, of an order.
pub(super) fn first(tried: &[[u64; ORDERS]], order: usize) -> u64 {
    tried.first().map_or(0, |counts| counts[order])
}

/// The least and the most of an order.
pub(super) fn range(tried: &[[u64; ORDERS]], order: usize) -> (u64, u64) {
    let of = || tried.iter().map(|counts| counts[order]);
    (of().min().unwrap_or(0), of().max().unwrap_or(0))
}

/// Which failures a sentence counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counted {
    /// All of them.
    All,
    /// Those for which what was free lay in pieces.
    InPieces,
}
