//! What the figures tell of rules and of settings, before it has words.

use super::figures::AnswerFigures;
use super::kernel::AnswerZones;
use super::tried::{Counted, TriedCounts, TriedPolicy, TriedSetting, first, range};
use crate::replay::{FailureCause, ReplayPolicy};

/// Up to so many failures fewer are chance where the model's error is not known.
const HANDFUL: u64 = 10;

/// What rules are judged by: what fails less often in pieces and more often at a watermark has not been helped (**AW3**).
const BY_RULES: &[Counted] = &[Counted::All, Counted::InPieces];
/// What settings are judged by: some of them move watermarks.
const BY_SETTINGS: &[Counted] = &[Counted::All];

/// Whether rules or a setting would have helped, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Helped {
    /// Fewer fail at each squeeze that was tried, by more than the model's error.
    Surely,
    /// The same, and by more than a handful, but of an error that is not known.
    AsFarAsKnown,
    /// Fewer fail at each squeeze that was tried, but by too few to tell.
    TooFew,
    /// Fewer fail at the squeeze that was asked for, but not by more than the model's error.
    WithinError,
    /// Fewer fail there, and not at each squeeze that was tried.
    Varies,
    /// Fewer of that order fail at each squeeze, but at some of them more of all orders.
    Elsewhere,
    /// No fewer fail.
    No,
}

impl Helped {
    pub(super) const fn has(self) -> bool {
        matches!(self, Self::Surely | Self::AsFarAsKnown)
    }
}

/// What the figures tell of rules.
pub(super) enum RulesVerdict<'a> {
    /// Nothing: free memory is invented (**AW2**).
    OfInvented,
    /// Nothing: a replay of the machine's rules serves what the machine did not (**AW2**).
    OfTheMachineAlone,
    /// Nothing: what fails in a replay is the model's error (**AW2**).
    OfTheModelAlone,
    /// No others are needed: nothing fails.
    NoneNeeded,
    /// None have helped: memory was used up (**AW3**).
    UsedUp,
    /// None have helped: nothing failed in pieces (**AW3**).
    NotInPieces,
    /// Each has helped or has not.
    Judged(JudgedRules<'a>),
}

/// Rules, each with what it did for the failures of an order.
pub(super) struct JudgedRules<'a> {
    /// The order.
    pub(super) order: usize,
    /// The rules that the others are compared with.
    pub(super) base: &'a TriedPolicy,
    /// How far the model is off for it.
    pub(super) error: Option<f64>,
    others: Vec<(&'a TriedPolicy, Helped)>,
}

impl<'a> JudgedRules<'a> {
    /// The best of those that have helped: the first of them, in the order of the table.
    pub(super) fn best(&self) -> Option<(&'a TriedPolicy, Helped)> {
        self.least(Helped::has)
    }

    /// The best of those that may have helped.
    pub(super) fn closest(&self) -> Option<(&'a TriedPolicy, Helped)> {
        self.least(|helped| helped != Helped::No)
    }

    /// Those that have helped besides.
    pub(super) fn also(&self, best: ReplayPolicy) -> impl Iterator<Item = ReplayPolicy> {
        let others = self.others.iter();
        others
            .filter(move |(other, helped)| helped.has() && other.policy != best)
            .map(|(other, _)| other.policy)
    }

    /// Which failures are named: those in pieces as such only beside others.
    pub(super) fn counted(&self) -> Counted {
        let base = &self.base.counts;
        match first(&base.in_pieces, self.order) == base.at_asked(self.order) {
            true => Counted::All,
            false => Counted::InPieces,
        }
    }

    fn least(&self, is_meant: impl Fn(Helped) -> bool) -> Option<(&'a TriedPolicy, Helped)> {
        let meant = self.others.iter().filter(|(_, helped)| is_meant(*helped));
        meant
            .min_by_key(|(tried, _)| tried.counts.at_asked(self.order))
            .copied()
    }
}

impl RulesVerdict<'_> {
    /// Whether the figures do not tell.
    pub(super) const fn is_unknown(&self) -> bool {
        matches!(
            self,
            Self::OfInvented | Self::OfTheMachineAlone | Self::OfTheModelAlone
        )
    }

    /// The best rules that helped.
    pub(super) fn best(&self) -> Option<ReplayPolicy> {
        match self {
            Self::Judged(judged) => judged.best().map(|(tried, _)| tried.policy),
            _ => None,
        }
    }
}

/// What these figures tell of rules.
pub(super) fn verdict(figures: &AnswerFigures) -> RulesVerdict<'_> {
    if figures.is_invented {
        return RulesVerdict::OfInvented;
    }
    if figures.is_only_the_machine_s() {
        return RulesVerdict::OfTheMachineAlone;
    }
    if figures.has_served_all() && figures.failed.total() > 0 {
        return RulesVerdict::OfTheModelAlone;
    }
    let base = figures
        .tried
        .iter()
        .find(|tried| tried.policy == figures.base);
    let (Some(order), Some(base)) = (figures.judged_order(), base) else {
        return RulesVerdict::NoneNeeded;
    };
    if figures.failed.of_cause(FailureCause::Exhausted) * 2 > figures.failed.total() {
        return RulesVerdict::UsedUp;
    }
    if figures.failed.of_cause(FailureCause::Fragmented) == 0 {
        return RulesVerdict::NotInPieces;
    }
    let error = figures.error(order);
    let others = figures
        .tried
        .iter()
        .filter(|tried| tried.policy != figures.base);
    RulesVerdict::Judged(JudgedRules {
        order,
        base,
        error,
        others: others
            .map(|tried| {
                let helped = helped(&base.counts, &tried.counts, order, error, BY_RULES);
                (tried, helped)
            })
            .collect(),
    })
}

/// Whether fewer requests of an order fail than in the replays of `base`, by all of these counts, where the model is off by
/// `error`.
fn helped(
    base: &TriedCounts,
    other: &TriedCounts,
    order: usize,
    error: Option<f64>,
    by: &[Counted],
) -> Helped {
    let fewer = by.iter().map(|&counted| {
        let of = |tried: &TriedCounts| first(tried.of(counted), order);
        of(base).saturating_sub(of(other))
    });
    let fewer = fewer.min().unwrap_or(0);
    if fewer == 0 {
        return Helped::No;
    }
    let overlap = |&counted: &Counted| {
        let (least, _) = range(base.of(counted), order);
        range(other.of(counted), order).1 >= least
    };
    if by.iter().any(overlap) {
        return Helped::Varies;
    }
    match error {
        Some(error) if fewer as f64 <= error => Helped::WithinError,
        None if fewer <= HANDFUL => Helped::TooFew,
        // One request is chance whatever the error.
        Some(_) if fewer == 1 => Helped::TooFew,
        Some(_) => Helped::Surely,
        None => Helped::AsFarAsKnown,
    }
}

/// Settings, each with what it did for the failures of an order.
pub(super) struct JudgedSettings<'a> {
    /// The order.
    pub(super) order: usize,
    /// The kernel as it was set.
    pub(super) base: &'a TriedCounts,
    /// How far the model is off for that order.
    pub(super) error: Option<f64>,
    /// Requests, failed ones among them.
    pub(super) requests: u64,
    /// Whether the replays of policies have the machine's own background, and these have not.
    pub(super) is_remodelled: bool,
    /// Whether the zones of the replays are the machine's own.
    pub(super) has_zones: bool,
    /// Each, in the order of the table.
    pub(super) each: Vec<(&'a TriedSetting, Helped)>,
}

impl<'a> JudgedSettings<'a> {
    /// What these figures tell of settings; `None` where none was tried, or the figures tell nothing.
    pub(super) fn of(figures: &'a AnswerFigures, verdict: &RulesVerdict<'_>) -> Option<Self> {
        use RulesVerdict::{Judged, NotInPieces};
        let settings = figures.settings.as_ref()?;
        let order = figures.settings_order()?;
        if !matches!(verdict, Judged(_) | NotInPieces) || settings.tried.is_empty() {
            return None;
        }
        let base = &settings.base;
        if base.at_asked(order) == 0 {
            return None;
        }
        // A calibration with the machine's own background, or of other zones, says how far another model is off.
        let error = figures.error(order).filter(|_| settings.is_calibrated);
        let judged = |tried: &'a TriedSetting| {
            let mut totals = base.totals().zip(tried.counts.totals());
            let is_moved = totals.any(|(base, other)| other > base);
            let helped = match helped(base, &tried.counts, order, error, BY_SETTINGS) {
                helped if helped.has() && is_moved => Helped::Elsewhere,
                helped => helped,
            };
            (tried, helped)
        };
        let (_, asked) = figures.suffered();
        Some(Self {
            order,
            base,
            error,
            requests: asked.all.iter().sum(),
            is_remodelled: settings.is_remodelled,
            has_zones: figures.zones == AnswerZones::Recorded,
            each: settings.tried.iter().map(judged).collect(),
        })
    }

    /// The best of those that have helped, and of those alike the first in the order of the table.
    pub(super) fn best(&self) -> Option<(&'a TriedSetting, Helped)> {
        let helped = self.each.iter().filter(|(_, helped)| helped.has());
        // One of whose benefit a replay shows too much comes last.
        helped
            .min_by_key(|(tried, _)| (tried.trial.is_less, tried.counts.at_asked(self.order)))
            .copied()
    }

    /// Whether that setting was tried.
    pub(super) fn has_tried(&self, name: &str) -> bool {
        let mut trials = self.each.iter().map(|(tried, _)| tried.trial);
        trials.any(|trial| trial.setting.name() == name)
    }

    /// Whether that setting was tried and has helped.
    pub(super) fn has_helped(&self, name: &str) -> bool {
        let helped = self.each.iter().filter(|(_, helped)| helped.has());
        let mut names = helped.map(|(tried, _)| tried.trial.setting.name());
        names.any(|one| one == name)
    }

    /// Whether that setting was tried with more work for the kernel than it had.
    pub(super) fn has_more_of(&self, name: &str) -> bool {
        let mut trials = self.each.iter().map(|(tried, _)| tried.trial);
        trials.any(|trial| trial.setting.name() == name && !trial.is_less)
    }
}
