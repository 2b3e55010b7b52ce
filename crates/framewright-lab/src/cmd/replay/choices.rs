//! The choices that a replay's options offer by name, and what each means to the replay.

use crate::cmd::input::LoadedTrace;
use crate::replay::{BackgroundRuns, Start};
use crate::report::StackWeight;
use clap::ValueEnum;

/// [`Start`] on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StartArg {
    /// Where the recording had them
    Imposed,
    /// Where each policy puts them
    Fresh,
}

impl From<StartArg> for Start {
    fn from(arg: StartArg) -> Self {
        match arg {
            StartArg::Imposed => Self::Imposed,
            StartArg::Fresh => Self::Fresh,
        }
    }
}

/// What stacks are weighed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StacksBy {
    /// Frames that cannot move and are held in mixed pageblocks at the end: these are in the way
    Held,
    /// Times that a pageblock was made mixed
    Mixed,
    /// Requests
    Requests,
}

impl StacksBy {
    pub(super) const fn weight(self) -> StackWeight {
        match self {
            Self::Held => StackWeight::Held,
            Self::Mixed => StackWeight::Mixed,
            Self::Requests => StackWeight::Requests,
        }
    }
}

/// Whether requests are admitted by watermarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WatermarksArg {
    /// On where the recording has its zones and shows when the background reclaimed, which ends what raises their marks
    Auto,
    /// By the recording's zones; where it has none, by one with the marks that Linux computes for its memory
    On,
    /// A policy serves a request as long as it finds a block
    Off,
}

impl WatermarksArg {
    pub(in crate::cmd) const fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::On => "on",
            Self::Off => "off",
        }
    }

    /// Whether requests of `loaded` are admitted by watermarks.
    pub(in crate::cmd) fn admits(self, loaded: &LoadedTrace) -> bool {
        match self {
            Self::Auto => loaded.zones.is_some() && BackgroundRuns::of(&loaded.trace).is_some(),
            Self::On => true,
            Self::Off => false,
        }
    }

    /// The same for recordings whose figures stand beside each other: on where it is for each of them.
    pub(in crate::cmd) fn of_all(self, loaded: &[LoadedTrace]) -> Self {
        match loaded.iter().all(|loaded| self.admits(loaded)) {
            true => Self::On,
            false => Self::Off,
        }
    }
}

/// Which settings of the recorded kernel are tried on its recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SettingsArg {
    /// None
    None,
    /// vm.defrag_mode, and vm.watermark_boost_factor at 0, or where that is its value at the one of a kernel that boots
    Few,
    /// These, a vm.watermark_boost_factor twice as high, twice the vm.min_free_kbytes, and a vm.watermark_scale_factor with which
    /// the marks lie twice as far apart
    All,
}

impl SettingsArg {
    pub(in crate::cmd) const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Few => "few",
            Self::All => "all",
        }
    }
}

/// What a replay does of what compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompactionArg {
    /// Where the recording says which frames compaction emptied, a replay empties them at that time
    Recorded,
    /// Nothing moves
    Off,
}

impl CompactionArg {
    pub(in crate::cmd) const fn name(self) -> &'static str {
        match self {
            Self::Recorded => "recorded",
            Self::Off => "off",
        }
    }
}

/// What is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrintFormat {
    /// A table with a column a policy
    Table,
    /// The final state of each policy as /proc/pagetypeinfo has it
    Pagetypeinfo,
    /// The final state of each policy as /proc/buddyinfo has it
    Buddyinfo,
}
