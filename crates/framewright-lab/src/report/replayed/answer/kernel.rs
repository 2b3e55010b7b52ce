//! The recorded kernel: which settings it has, with the values that they have there, what to try of them, and the words to boot
//! with and the options to build with that bear on failures.

use crate::before::buddy::LinuxPolicy;
use crate::measure::MAX_ORDER;
use crate::replay::{FailureCause, FailureLog, ModelledSetting, ReplayPolicy};
use crate::trace::state::{MachineSettings, min_free_kib_max};
use std::fmt;

/// What a recording says of its kernel besides the events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedKernel {
    /// The first two numbers of its release.
    pub version: Option<(u32, u32)>,
    /// How it was set.
    pub settings: Option<MachineSettings>,
    /// The order of its pageblocks.
    pub block_order: Option<u64>,
    /// How much memory its machine has.
    pub memory_kib: Option<u64>,
    /// The size of a page there, as far as the recording says.
    pub page_kib: Option<u64>,
}

/// The zones whose watermarks admit requests in a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerZones {
    /// Those of the recording machine, as it described them.
    Recorded,
    /// Those that a kernel would make of as much memory.
    Computed,
    /// None: requests are served as long as there is a block.
    None,
}

/// A setting of the page allocator that a reader may change.
pub(super) struct KernelSetting {
    pub(super) name: &'static str,
    /// The first release that has it.
    since: (u32, u32),
    /// Where to.
    way: &'static str,
    /// The value to try in place of another, up to the most that this kernel takes or that makes sense on its machine;
    /// `None` where there is none left in that direction.
    next: fn(u64, &RecordedKernel) -> Option<u64>,
}

pub(super) const MIN_FREE: KernelSetting = KernelSetting {
    name: "vm.min_free_kbytes",
    since: (2, 6),
    way: "higher",
    next: |kib, kernel| {
        let most = min_free_kib_max(kernel.memory_kib.unwrap_or(u64::MAX));
        (kib < most).then(|| kib.saturating_mul(2).min(most))
    },
};
pub(super) const SCALE: KernelSetting = KernelSetting {
    name: "vm.watermark_scale_factor",
    since: (4, 6),
    way: "higher",
    next: |factor, kernel| {
        // A tenth of memory, and from Linux 5.17 on three tenths: a release that is not known takes no more than the
        // older ones, unless it already has more.
        let most = match kernel.version {
            Some(version) if version >= (5, 17) => 3000,
            None if factor > 1000 => 3000,
            _ => 1000,
        };
        (factor < most).then(|| (kernel.effective_scale(factor) * 2).min(most))
    },
};
pub(super) const BOOST: KernelSetting = KernelSetting {
    name: "vm.watermark_boost_factor",
    since: (5, 0),
    way: "higher",
    next: |factor, _| match factor {
        // The kernel's own.
        0 => Some(15_000),
        // Ten times high: more is never reclaimed at once.
        1..100_000 => Some((factor * 2).min(100_000)),
        _ => None,
    },
};
pub(super) const PROACTIVENESS: KernelSetting = KernelSetting {
    name: "vm.compaction_proactiveness",
    since: (5, 9),
    way: "higher",
    next: |percent, _| match percent {
        // The kernel's own.
        0 => Some(20),
        1..100 => Some((percent * 2).min(100)),
        _ => None,
    },
};
pub(super) const EXTFRAG: KernelSetting = KernelSetting {
    name: "vm.extfrag_threshold",
    since: (2, 6),
    way: "lower",
    next: |index, _| (index > 0).then_some(index / 2),
};
pub(super) const DEFRAG: KernelSetting = KernelSetting {
    name: "vm.defrag_mode",
    since: (6, 15),
    way: "on",
    next: |mode, _| (mode == 0).then_some(1),
};

/// A replay's page.
const PAGE_KIB: u64 = 4;

/// Another value of a setting that a replay has a model of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingTrial {
    /// The setting.
    pub setting: ModelledSetting,
    /// What it was on the machine, where the recording says so.
    pub from: Option<u64>,
    /// What is tried.
    pub to: u64,
    /// Whether the kernel works less for free blocks then.
    pub is_less: bool,
}

impl SettingTrial {
    /// As a column of figures is called, and as `sysctl` takes it.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}={}", self.setting.name(), self.to)
    }
}

impl fmt::Display for SettingTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.from {
            Some(from) => write!(f, "{} from {from} to {}", self.setting.name(), self.to),
            None => f.write_str(&self.name()),
        }
    }
}

/// `vm.watermark_boost_factor` and `vm.watermark_scale_factor` as a kernel boots.
const BOOST_AT_BOOT: u64 = 15_000;
const SCALE_AT_BOOT: u64 = 10;

impl RecordedKernel {
    /// What to try of the settings that this kernel has for certain and that a replay under the rules `base` has a model of: at
    /// most two, or with `is_all` five.
    #[must_use]
    pub fn trials(&self, base: ReplayPolicy, is_all: bool) -> Vec<SettingTrial> {
        use LinuxPolicy::{Linux612, Linux612NoFragment, Linux618Defrag};
        use ModelledSetting::{BoostFactor, DefragMode, MinFree, ScaleFactor};
        // Older rules raise no watermark in a replay.
        let has_boosts = matches!(
            base,
            ReplayPolicy::Linux(Linux612 | Linux612NoFragment | Linux618Defrag)
        );
        let number = |setting: &KernelSetting| self.settings.as_ref()?.number(setting.name);
        let trial = |setting, from: Option<u64>, to, is_less| SettingTrial {
            setting,
            from,
            to,
            is_less,
        };
        let mut trials = Vec::new();
        if self.has(&DEFRAG) == Some(true) {
            let from = number(&DEFRAG);
            let is_on = from.unwrap_or(0) != 0;
            trials.push(trial(DefragMode, from, u64::from(!is_on), is_on));
        }
        if has_boosts && self.has(&BOOST) == Some(true) {
            let from = number(&BOOST);
            match from.unwrap_or(BOOST_AT_BOOT) {
                0 => trials.push(trial(BoostFactor, from, BOOST_AT_BOOT, false)),
                now => {
                    trials.push(trial(BoostFactor, from, 0, true));
                    let more = (BOOST.next)(now, self).filter(|_| is_all);
                    trials.extend(more.map(|to| trial(BoostFactor, from, to, false)));
                }
            }
        }
        // A replay makes frames of these, of its own size.
        let has_pages = self.page_kib.is_none_or(|kib| kib == PAGE_KIB);
        if let Some(now) = number(&MIN_FREE).filter(|_| is_all && has_pages) {
            let more = (MIN_FREE.next)(now, self);
            trials.extend(more.map(|to| trial(MinFree, Some(now), to, false)));
        }
        if is_all && self.has(&SCALE) == Some(true) {
            let from = number(&SCALE);
            let more = (SCALE.next)(from.unwrap_or(SCALE_AT_BOOT), self);
            trials.extend(more.map(|to| trial(ScaleFactor, from, to, false)));
        }
        trials
    }

    /// The least `vm.watermark_scale_factor` with which watermarks lie as far apart as they do with this one: below that a
    /// quarter of min is more, and another factor would change nothing.
    fn effective_scale(&self, factor: u64) -> u64 {
        let min = self
            .settings
            .as_ref()
            .and_then(|settings| settings.number(MIN_FREE.name));
        let quarter = min.zip(self.memory_kib.filter(|&kib| kib > 0));
        let quarter = quarter.map_or(0, |(min, kib)| min.saturating_mul(2500).div_ceil(kib));
        // No kernel lets min be as much of its memory as would make this more.
        factor.max(quarter.min(1000))
    }

    /// Whether it has the setting, as far as is known. What its release has and the recording lacks could not be read there,
    /// or that kernel was built without it.
    pub(super) fn has(&self, setting: &KernelSetting) -> Option<bool> {
        let now = self.settings.as_ref();
        let is_set = now.map(|settings| settings.number(setting.name).is_some());
        let is_released = self.version.map(|version| version >= setting.since);
        match (is_set, is_released) {
            (Some(true), _) => Some(true),
            (Some(false), Some(true)) => None,
            (Some(false), _) => Some(false),
            (None, is_released) => is_released,
        }
    }

    /// What to try of the setting; `None` where the kernel lacks it, or nothing is left to try.
    pub(super) fn tried(&self, setting: &KernelSetting) -> Option<String> {
        let KernelSetting {
            name, way, next, ..
        } = setting;
        let now = self.settings.as_ref();
        match (now.and_then(|now| now.number(name)), self.has(setting)) {
            (Some(now), _) => next(now, self).map(|to| format!("{name} from {now} to {to}")),
            (None, Some(false)) => None,
            (None, None) => Some(format!("{name} {way} (if this kernel has it)")),
            (None, Some(true)) => Some(format!("{name} {way}")),
        }
    }

    /// `vm.extfrag_threshold`, where it bears on these failures: since 4.9 kernels ask it of orders above 3 alone.
    pub(super) fn extfrag(&self, log: &FailureLog) -> Option<String> {
        let is_old = self.version.is_some_and(|version| version < (4, 9));
        let of = |order: usize| log.causes[order][FailureCause::Fragmented as usize];
        let who = match (
            is_old,
            (COSTLY_ORDER + 1..=MAX_ORDER).any(|order| of(order) > 0),
        ) {
            (true, _) => "requests that may compact",
            (false, true) => "requests above order 3 that may compact",
            (false, false) => return None,
        };
        Some(format!("{} for {who}", self.tried(&EXTFRAG)?))
    }

    /// The words to boot with and the options to build with that bear on these failures.
    pub(super) fn options(&self, log: &FailureLog) -> Vec<String> {
        let mut options = Vec::new();
        let settings = self.settings.as_ref();
        let huge = settings.and_then(|settings| settings.word("transparent_hugepage.enabled"));
        if huge == Some("always") && log.counts.huge_pages() * 2 > log.total() {
            options.push(
                "transparent_hugepage=madvise at boot, in place of always, leaves huge pages to programs that ask for them"
                    .to_owned(),
            );
        }
        let reported = &log.counts.reported;
        let order = (COSTLY_ORDER + 1..=MAX_ORDER).rfind(|&order| reported[order] > 0);
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

/// The largest order that a request is given room for by compaction as a rule (`PAGE_ALLOC_COSTLY_ORDER`).
const COSTLY_ORDER: usize = 3;

/// Pageblocks of x86-64: one that is larger holds many requests' memory that cannot move.
const HUGE_ORDER: u64 = 9;
