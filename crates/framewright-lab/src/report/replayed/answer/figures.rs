//! All that an answer is made from, and what follows from it without a word: which failures it is about, and by which
//! order rules are judged.

use super::kernel::{AnswerZones, RecordedKernel};
use super::tried::{ORDERS, SettingsAsked, TriedPolicy, TriedSettings};
use crate::replay::{FailureCause, FailureLog, ReplayPolicy};
use crate::report::{Deviation, WhoHolds};
use crate::trace::{RequestCounts, RequestWaits};

/// What requests waited for on the recording machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineStalls {
    /// Times that a request reclaimed before it was served or failed.
    pub reclaimed: u64,
    /// Times that a request compacted.
    pub compacted: u64,
}

/// All that an answer is made from.
#[derive(Debug, Clone)]
pub struct AnswerFigures {
    /// The recorded kernel.
    pub kernel: RecordedKernel,
    /// Why nothing at all can be said.
    pub nothing: Option<String>,
    /// Whether free memory at the start is invented.
    pub is_invented: bool,
    /// By the watermarks of which zones requests were admitted.
    pub zones: AnswerZones,
    /// Frames held back.
    pub squeeze: u64,
    /// Whether memory is laid out as recorded and nothing is held back: only then is the machine's own story told.
    pub is_as_recorded: bool,
    /// Requests that the machine served, and those that it did not.
    pub served: RequestCounts,
    /// The latter, with memory as the recording kernel's own rules have it at that moment.
    pub refused: FailureLog,
    /// How many of those a replay of its own rules serves.
    pub refused_served: u64,
    /// Stalls of the recording machine, where files beside the trace count them.
    pub stalls: Option<MachineStalls>,
    /// What requests waited for there, where the recording shows it.
    pub waits: RequestWaits,
    /// The rules that stand for the recording kernel.
    pub base: ReplayPolicy,
    /// What fails under them; as recorded, of what the machine refused, too.
    pub failed: FailureLog,
    /// Stalls under them, in a replay that reclaims.
    pub replayed_stalls: Option<u64>,
    /// Each policy, `base` among them, in the order of the table.
    pub tried: Vec<TriedPolicy>,
    /// Other settings of that kernel, where some were tried.
    pub settings: Option<TriedSettings>,
    /// Which were asked for.
    pub settings_asked: SettingsAsked,
    /// The model's error for failures by order, where the recording comes with what the machine did.
    pub errors: Option<Vec<Option<Deviation>>>,
    /// A squeeze at which something fails, where nothing does.
    pub proposed: Option<u64>,
    /// The holder of what is in the way, where that was looked for.
    pub holds: Option<WhoHolds>,
    /// By a dump of `page_owner`: the caller that holds the most of it, its frames, and those of all.
    pub owner: Option<(String, u64, u64)>,
}

impl AnswerFigures {
    /// What failed on the machine, or under its rules in less memory, and all that was asked for there.
    pub(super) fn suffered(&self) -> (RequestCounts, RequestCounts) {
        let refused = self.refused.counts;
        match self.is_as_recorded {
            true => (refused, self.served.and(&refused)),
            false => (self.failed.counts, self.served),
        }
    }

    /// The failures that the answer is about: the machine's own, or those of its rules in less memory.
    pub(super) fn subject(&self) -> &FailureLog {
        match self.is_only_the_machine_s() || self.has_served_all() {
            true => &self.refused,
            false => &self.failed,
        }
    }

    /// Whether the machine served everything: what fails in a replay of its own rules is the model's error then.
    pub(super) fn has_served_all(&self) -> bool {
        self.is_as_recorded && self.refused.total() == 0
    }

    /// Whether it is about failures that the machine itself had, and a replay of its rules mostly has not.
    pub(super) fn is_only_the_machine_s(&self) -> bool {
        let refused = self.refused.total();
        self.is_as_recorded && refused > 0 && self.refused_served * 2 > refused
    }

    /// The order that rules are judged by: of those that could have been reported, else of all, the one that fails
    /// most often. Order 0 stands for lack of memory, which no rule mends, and only counts where nothing else fails.
    pub(super) fn judged_order(&self) -> Option<usize> {
        // Rules mend only what lies in pieces (AW3), so they are judged where that happened, if it did anywhere.
        self.most_failing(self.failed.of_cause(FailureCause::Fragmented) > 0)
    }

    /// The order that settings are judged by: the same, in pieces or not, because some settings move watermarks.
    pub(super) fn settings_order(&self) -> Option<usize> {
        self.most_failing(false)
    }

    fn most_failing(&self, is_in_pieces: bool) -> Option<usize> {
        let pieces = |order: usize| self.failed.causes[order][FailureCause::Fragmented as usize];
        let most = |counts: &[u64; ORDERS]| {
            (1..ORDERS)
                .filter(|&order| counts[order] > 0 && (!is_in_pieces || pieces(order) > 0))
                .max_by_key(|&order| (counts[order], std::cmp::Reverse(order)))
        };
        let counts = &self.failed.counts;
        // What has no flags was inferred, and so was its moment.
        let mut seen = counts.all;
        for (seen, unseen) in seen.iter_mut().zip(counts.unseen) {
            *seen -= unseen;
        }
        let any = most(&counts.reported)
            .or_else(|| most(&seen))
            .or_else(|| most(&counts.all));
        any.or_else(|| (counts.all[0] > 0).then_some(0))
    }

    pub(super) fn error(&self, order: usize) -> Option<f64> {
        let deviation = self.errors.as_ref()?.get(order).copied().flatten()?;
        (!deviation.is_empty()).then_some(deviation.error)
    }
}
