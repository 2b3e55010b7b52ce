//! The cases by name, and what each is for: one list, from which the command's options, the tables and the runs are
//! made.

use std::fmt;

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FitCase {
    /// Areas of 4 pages at the left edge of gaps of 8.
    LeFit,
    /// Areas of 4 pages that fill their gaps.
    BFit,
    /// Areas of a page in the middle of a gap.
    NeFit,
    /// Areas of a page.
    FixSize,
    /// Areas of a page among 16,384 that are busy.
    FullFit,
    /// Areas of 100 pages and of one, behind 15,000 busy ones with freed stacks below.
    LongBusyList,
    /// The same without the stacks.
    LongBusyListClean,
    /// Areas of 1 to 100 pages.
    RandomSize,
    /// Areas of 5 pages at 32 KiB.
    FixAlign,
    /// Areas of 1 to 10 pages at 1 byte to 4 MiB.
    RandomSizeAlign,
    /// Areas of a page at 2^0 to 2^63 bytes.
    AlignShift,
    /// 10,000 areas of 1 to 100 pages, one at random replaced.
    SteadyRandom,
    /// 64 areas of 1 to 16 pages, one at random replaced.
    Churn,
    /// Mappings of this many pages for a short time.
    VmMapRam(u8),
    /// One thread allocates, another one frees.
    RemoteFree,
    /// 124 free aligned 4 MiB gaps among small ones, and as many requests.
    AlignedHoles,
    /// One live page in each vmap block.
    PinnedBlocks,
    /// A window of 128 MiB under churn until a request fails.
    Occupancy,
    /// 1,000,000 live areas against 1,000.
    LongBusyList1m,
    /// 30,000 lazy areas pending.
    Backlog,
}

impl FitCase {
    /// All cases, in the order in which they are run and shown: the document's first.
    pub const ALL: [Self; 23] = [
        Self::Backlog,
        Self::LeFit,
        Self::BFit,
        Self::NeFit,
        Self::LongBusyList,
        Self::LongBusyListClean,
        Self::FixSize,
        Self::FullFit,
        Self::RandomSize,
        Self::FixAlign,
        Self::RandomSizeAlign,
        Self::AlignShift,
        Self::SteadyRandom,
        Self::Churn,
        Self::VmMapRam(1),
        Self::VmMapRam(4),
        Self::VmMapRam(16),
        Self::VmMapRam(64),
        Self::RemoteFree,
        Self::AlignedHoles,
        Self::PinnedBlocks,
        Self::Occupancy,
        Self::LongBusyList1m,
    ];

    /// The name in figures.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeFit => "le_fit",
            Self::BFit => "b_fit",
            Self::NeFit => "ne_fit",
            Self::FixSize => "fix_size",
            Self::FullFit => "full_fit",
            Self::LongBusyList => "long_busy_list",
            Self::LongBusyListClean => "long_busy_list_clean",
            Self::RandomSize => "random_size",
            Self::FixAlign => "fix_align",
            Self::RandomSizeAlign => "random_size_align",
            Self::AlignShift => "align_shift",
            Self::SteadyRandom => "steady_random",
            Self::Churn => "churn",
            Self::VmMapRam(1) => "vm_map_ram/1",
            Self::VmMapRam(4) => "vm_map_ram/4",
            Self::VmMapRam(16) => "vm_map_ram/16",
            Self::VmMapRam(_) => "vm_map_ram/64",
            Self::RemoteFree => "remote_free",
            Self::AlignedHoles => "aligned_holes",
            Self::PinnedBlocks => "pinned_blocks",
            Self::Occupancy => "occupancy",
            Self::LongBusyList1m => "long_busy_list_1m",
            Self::Backlog => "backlog",
        }
    }

    /// The cases of that name: one, or all of `vm_map_ram`.
    ///
    /// # Errors
    /// The names there are.
    pub fn named(name: &str) -> Result<Vec<Self>, String> {
        let found: Vec<Self> = Self::ALL
            .into_iter()
            .filter(|case| case.name() == name || case.name().split('/').next() == Some(name))
            .collect();
        if found.is_empty() {
            let names: Vec<&str> = Self::ALL.iter().map(|case| case.name()).collect();
            let names = names.join(", ");
            return Err(format!(
                "there is no case '{name}', expected one of {names}"
            ));
        }
        Ok(found)
    }

    /// Whether it asks how far something goes instead of how long an operation takes. Such a case
    /// is run on one thread at the address-space level, whatever was asked for.
    #[must_use]
    pub const fn is_limit(self) -> bool {
        matches!(
            self,
            Self::AlignedHoles
                | Self::PinnedBlocks
                | Self::Occupancy
                | Self::LongBusyList1m
                | Self::Backlog
        )
    }
}

impl fmt::Display for FitCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
