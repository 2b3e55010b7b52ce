//! Settings of the page allocator that a replay has a model of, and the machine as it would be replayed under them.
//!
//! A replay does what the recording did and no more. So a setting that makes the kernel *work more* for free blocks costs less in
//! a replay than on a machine, and brings less: what requests and the background would have reclaimed and compacted besides is in
//! no recording, neither as work nor as free memory. Of the price a replay counts requests that wait and blocks that are mixed. A
//! setting that makes the kernel work less brings more than on a machine: what it reclaimed under the old value is in the
//! recording and stays there.

use super::TraceMemory;
use crate::before::buddy::LinuxPolicy;
use crate::replay::ReplayPolicy;

/// A frame's KiB.
const FRAME_KIB: u64 = 4;

/// A setting that a replay has a model of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelledSetting {
    /// Whether whole pageblocks are kept free by reclaim and compaction before one is mixed.
    DefragMode,
    /// How far watermarks rise after a pageblock was mixed, in ten-thousandths of high.
    BoostFactor,
    /// What the min watermarks come to together.
    MinFree,
    /// How far low lies above min and high above low, in ten-thousandths of a zone, where that is more than a quarter of min. A
    /// value below the machine's changes nothing here.
    ScaleFactor,
}

impl ModelledSetting {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::DefragMode,
        Self::BoostFactor,
        Self::MinFree,
        Self::ScaleFactor,
    ];

    /// The name as sysctl has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DefragMode => "vm.defrag_mode",
            Self::BoostFactor => "vm.watermark_boost_factor",
            Self::MinFree => "vm.min_free_kbytes",
            Self::ScaleFactor => "vm.watermark_scale_factor",
        }
    }

    /// The machine under that value. Whether a pageblock is mixed first is a matter of rules ([`Self::rules`]).
    #[must_use]
    pub fn on(self, memory: TraceMemory<'_>, value: u64) -> TraceMemory<'_> {
        let zones = memory.zones.as_ref();
        let zones = match self {
            Self::DefragMode => return memory,
            Self::BoostFactor => zones.map(|zones| zones.with_boost_factor(value)),
            Self::MinFree => zones.map(|zones| zones.with_min(value / FRAME_KIB)),
            Self::ScaleFactor => zones.map(|zones| zones.with_scale_factor(value)),
        };
        TraceMemory { zones, ..memory }
    }

    /// The rules under that value, of a kernel with the rules `set` as it is set and `unset` as it boots.
    #[must_use]
    pub fn rules(self, value: u64, set: ReplayPolicy, unset: ReplayPolicy) -> ReplayPolicy {
        match (self, value) {
            (Self::DefragMode, 1) => ReplayPolicy::Linux(LinuxPolicy::Linux618Defrag),
            (Self::DefragMode, _) => unset,
            _ => set,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::MachineZones;
    use crate::trace::Trace;

    #[test]
    fn a_setting_changes_marks_or_rules_and_nothing_else() {
        let trace = Trace {
            nframes: 1 << 18,
            ..Trace::default()
        };
        let memory = TraceMemory {
            zones: Some(MachineZones::computed(&trace)),
            ..TraceMemory::new(&trace).unwrap()
        };
        let zone = |setting: ModelledSetting, value| {
            let zones = setting.on(memory.clone(), value).zones.unwrap();
            let [zone] = zones.zones.as_slice() else {
                panic!("{zones:?}")
            };
            (zone.marks[0], zone.boost_factor)
        };
        // A machine whose watermark_scale_factor keeps its marks further apart keeps that.
        let mut wide = memory.clone();
        for zone in &mut wide.zones.as_mut().unwrap().zones {
            zone.marks = [1000, 6000, 11_000];
        }
        let wide = ModelledSetting::MinFree.on(wide, 4 * 2000).zones.unwrap();
        assert_eq!(wide.zones[0].marks, [2000, 7000, 12_000]);
        // Of 2^18 frames 52,428 are a fifth; min stays.
        let far = ModelledSetting::ScaleFactor.on(memory.clone(), 2000);
        let [min, low, high] = far.zones.unwrap().zones[0].marks;
        assert_eq!((low - min, high - low), (52_428, 52_428));
        assert_eq!(min, memory.zones.as_ref().unwrap().zones[0].marks[0]);
        let (min, factor) = zone(ModelledSetting::DefragMode, 1);
        assert_eq!(zone(ModelledSetting::BoostFactor, 0), (min, 0));
        assert_eq!(zone(ModelledSetting::MinFree, 4 * 1234), (1234, factor));
        let [set, unset]: [ReplayPolicy; 2] =
            ["linux-6.18-defrag", "linux-6.12"].map(|name| name.parse().unwrap());
        let rules = |setting: ModelledSetting, value| setting.rules(value, set, unset);
        assert_eq!(rules(ModelledSetting::DefragMode, 0), unset);
        assert_eq!(rules(ModelledSetting::BoostFactor, 0), set);
        let on = ModelledSetting::DefragMode.rules(1, unset, unset);
        assert_eq!(on, set);
        // Without zones there are no marks to change.
        let bare = TraceMemory::new(&trace).unwrap();
        for setting in [ModelledSetting::MinFree, ModelledSetting::ScaleFactor] {
            assert!(setting.on(bare.clone(), 8).zones.is_none());
        }
    }
}
