//! What to change, of what the recorded kernel has: settings with the values that they have there, words to boot with, and
//! options to build with.
//!
//! # Invariants
//! - **AW4** No setting is named that the recorded kernel lacks, as far as the recording says which it has.

use crate::before::buddy::LinuxPolicy;
use crate::measure::MAX_ORDER;
use crate::replay::{FailureCause, FailureLog, ReplayPolicy};
use crate::trace::state::MachineSettings;

/// What a recording says of its kernel besides the events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedKernel {
    /// The first two numbers of its release.
    pub version: Option<(u32, u32)>,
    /// How it was set.
    pub settings: Option<MachineSettings>,
    /// The order of its pageblocks.
    pub block_order: Option<u64>,
}

/// A setting of the page allocator that a reader may change.
struct KernelSetting {
    name: &'static str,
    /// The first release that has it.
    since: (u32, u32),
    /// Where to.
    way: &'static str,
    /// The value to try in place of another; `None` where there is none left in that direction.
    next: fn(u64) -> Option<u64>,
}

const MIN_FREE: KernelSetting = KernelSetting {
    name: "vm.min_free_kbytes",
    since: (2, 6),
    way: "higher",
    next: |kib| kib.checked_mul(2),
};
const SCALE: KernelSetting = KernelSetting {
    name: "vm.watermark_scale_factor",
    since: (4, 6),
    way: "higher",
    // The kernel takes 1000 at most, a tenth of memory.
    next: |factor| (factor < 1000).then(|| (factor * 2).min(1000)),
};
const BOOST: KernelSetting = KernelSetting {
    name: "vm.watermark_boost_factor",
    since: (5, 0),
    way: "higher",
    next: |factor| match factor {
        // The kernel's own.
        0 => Some(15_000),
        // Ten times high: more is never reclaimed at once.
        1..100_000 => Some((factor * 2).min(100_000)),
        _ => None,
    },
};
const PROACTIVENESS: KernelSetting = KernelSetting {
    name: "vm.compaction_proactiveness",
    since: (5, 9),
    way: "higher",
    next: |percent| match percent {
        // The kernel's own.
        0 => Some(20),
        1..100 => Some((percent * 2).min(100)),
        _ => None,
    },
};
const EXTFRAG: KernelSetting = KernelSetting {
    name: "vm.extfrag_threshold",
    since: (2, 6),
    way: "lower",
    next: |index| (index > 0).then_some(index / 2),
};
const DEFRAG: KernelSetting = KernelSetting {
    name: "vm.defrag_mode",
    since: (6, 15),
    way: "on",
    next: |mode| (mode == 0).then_some(1),
};

impl RecordedKernel {
    /// Whether it has the setting, as far as is known.
    fn has(&self, setting: &KernelSetting) -> Option<bool> {
        match (&self.settings, self.version) {
            (Some(settings), _) => Some(settings.number(setting.name).is_some()),
            (None, Some(version)) => Some(version >= setting.since),
            (None, None) => None,
        }
    }

    /// What to try of the setting; `None` where the kernel lacks it, or nothing is left to try.
    fn tried(&self, setting: &KernelSetting) -> Option<String> {
        if self.has(setting) == Some(false) {
            return None;
        }
        let KernelSetting {
            name, way, next, ..
        } = setting;
        let now = self.settings.as_ref();
        match now.and_then(|settings| settings.number(name)) {
            Some(now) => next(now).map(|to| format!("{name} from {now} to {to}")),
            None => Some(format!("{name} {way}")),
        }
    }

    fn all_tried(&self, settings: &[KernelSetting]) -> Vec<String> {
        settings.iter().filter_map(|one| self.tried(one)).collect()
    }

    /// The words to boot with and the options to build with that bear on these failures.
    fn options(&self, log: &FailureLog) -> Vec<String> {
        let mut options = Vec::new();
        let settings = self.settings.as_ref();
        let huge = settings.and_then(|settings| settings.word("transparent_hugepage.enabled"));
        if huge == Some("always") && log.counts.huge_pages() * 2 > log.total() {
            options.push(
                "transparent_hugepage=madvise at boot, in place of always, leaves huge pages to programs that ask for them"
                    .to_owned(),
            );
        }
        // Larger ones than a request is given room for by compaction as a rule (PAGE_ALLOC_COSTLY_ORDER).
        let reported = &log.counts.reported;
        let order = (4..=MAX_ORDER).rfind(|&order| reported[order] > 0);
        if let Some(order) = order {
            let now = settings.and_then(|settings| settings.boot("cma"));
            let now = now.map_or_else(String::new, |now| format!(", {now} now"));
            options.push(format!(
                "a driver that needs blocks of order {order} for sure wants a contiguous area (cma= at boot{now})"
            ));
        }
        let name = match self.version {
            Some((6, 16)) => Some("CONFIG_PAGE_BLOCK_ORDER"),
            Some(version) if version > (6, 16) => Some("CONFIG_PAGE_BLOCK_MAX_ORDER"),
            _ => None,
        };
        let large = self.block_order.filter(|&order| order > HUGE_ORDER);
        if let (Some(name), Some(order)) = (name, large) {
            options.push(format!(
                "a kernel built with {name} below the {order} of this one mixes less memory at a time"
            ));
        }
        options
    }
}

/// Pageblocks of x86-64: one that is larger holds many requests' memory that cannot move.
const HUGE_ORDER: u64 = 9;

/// What to change so that fewer of the failures of `log` happen, in a sentence; `None` where there are none. They are those
/// of `base`, and `best` are the best rules that helped. With `has_zones` a replay has the watermarks of zones.
pub(super) fn change(
    log: &FailureLog,
    base: ReplayPolicy,
    best: Option<ReplayPolicy>,
    kernel: &RecordedKernel,
    has_zones: bool,
) -> Option<String> {
    if log.total() == 0 {
        return None;
    }
    let cause = FailureCause::ALL
        .into_iter()
        .max_by_key(|&cause| log.of_cause(cause))?;
    let first = match log.counts.reported.iter().sum::<u64>() {
        0 => {
            "For the log nothing has to change, since callers that pass __GFP_NOWARN count on failures; for speed, "
        }
        _ => "To change: ",
    };
    let mut parts = vec![match (cause, best) {
        (FailureCause::Exhausted, _) => {
            "give the machine more memory, or let it use less".to_owned()
        }
        (FailureCause::Watermark, _) => format!(
            "try {}, so that reclaim begins earlier; {} cannot say how much that helps",
            kernel.all_tried(&[MIN_FREE, SCALE]).join(" or "),
            match has_zones {
                true => "this replay tries no other watermarks and",
                false => "this replay has no zones and",
            }
        ),
        (FailureCause::Fragmented, Some(policy)) => rules_to_have(policy, base, kernel),
        (FailureCause::Fragmented, None) => {
            let mut tried = kernel.all_tried(&[PROACTIVENESS, BOOST]);
            let lower = kernel.tried(&EXTFRAG);
            tried.extend(lower.map(|one| format!("{one} for requests that may compact")));
            match tried.is_empty() {
                true => "no setting that this kernel has is left to try".to_owned(),
                false => format!("try what no replay can: {}", tried.join(", ")),
            }
        }
    }];
    if cause == FailureCause::Fragmented {
        parts.extend(kernel.options(log));
    }
    Some(format!("{first}{}.", parts.join("; ")))
}

/// How to come by a policy's rules.
fn rules_to_have(policy: ReplayPolicy, base: ReplayPolicy, kernel: &RecordedKernel) -> String {
    use LinuxPolicy::{Linux612, Linux612NoFragment, Linux618Defrag, NoGrouping, Proposal};
    use ReplayPolicy::{Engine, Linux};
    match (policy, base) {
        (Engine(_), _) => {
            format!("{policy} is a policy of this engine and in no kernel: it wants a patch")
        }
        (Linux(NoGrouping), _) => {
            format!("{policy} is a pole to learn from, and no kernel has it")
        }
        (Linux(Linux612), Linux(Linux618Defrag)) => {
            "vm.defrag_mode from 1 to 0 brings these rules back".into()
        }
        (Linux(Linux612NoFragment), Linux(Linux618Defrag)) => {
            "these rules are a part of vm.defrag_mode=1, and no setting brings that part alone"
                .into()
        }
        (Linux(Linux612NoFragment | Linux618Defrag), _) => {
            let nearest = match (kernel.has(&DEFRAG), &kernel.settings) {
                (Some(false), _) => {
                    return "no setting of this kernel comes near these rules: a newer one has one (Linux 6.15 and later)"
                        .into();
                }
                (Some(true), Some(now)) => match now.number(DEFRAG.name) {
                    Some(0) => "vm.defrag_mode from 0 to 1",
                    _ => "vm.defrag_mode, which is on,",
                },
                (Some(true), None) => "vm.defrag_mode=1",
                (None, _) => "vm.defrag_mode=1 (Linux 6.15 and later)",
            };
            // What has the one has the other.
            format!(
                "{nearest} is the setting nearest to these rules, and {} belongs to them",
                BOOST.name
            )
        }
        (Linux(Proposal), _) => {
            "these rules were proposed in 2016 and never merged: they want a patch".into()
        }
        (Linux(older), Linux(base)) if older < base => {
            format!(
                "no setting brings the rules of {policy} back: they want a patch, or that kernel"
            )
        }
        _ => format!("these are the rules of a newer kernel, {policy}"),
    }
}

#[cfg(test)]
#[path = "change_tests.rs"]
mod tests;
