//! Areas as users see them: their kinds and states.

use crate::units::{Page, PageRange};
use core::fmt;

/// The call that made an area, which decides the call that frees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AreaKind {
    /// Address space only \[`get_vm_area`\]: the caller maps.
    Plain,
    /// Frames of the space's source, mapped \[`vmalloc`\].
    Vmalloc,
    /// The caller's frames, mapped \[`vm_map_ram`\].
    Ram,
}

impl AreaKind {
    /// The guard pages behind an area of the kind.
    #[must_use]
    pub const fn guard_pages(self) -> u64 {
        match self {
            Self::Plain | Self::Vmalloc => 1,
            Self::Ram => 0,
        }
    }
}

impl fmt::Display for AreaKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "ioremap",
            Self::Vmalloc => "vmalloc",
            Self::Ram => "vm_map_ram",
        })
    }
}

/// The state of an area.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AreaState {
    /// Its user has it.
    Live,
    /// Its user has freed it in a context that may not wait, and the free is still to come.
    Deferred,
    /// Freed by its user, but kept constructed for the next one.
    Kept,
    /// Freed, not yet reusable.
    Lazy,
}

/// An area, as a lookup or a listing finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AreaInfo {
    /// The first page that its user has.
    pub start: Page,
    /// Its length in pages, without the guard pages.
    pub pages: u64,
    /// The guard pages before it: 0 or 1.
    pub guard_before: u64,
    /// The guard pages behind it: 0 or 1.
    pub guard: u64,
    /// The call that made it.
    pub kind: AreaKind,
    /// The state in which it was found.
    pub state: AreaState,
    /// The tag of the request; 0 unless it is live.
    pub tag: u32,
}

impl AreaInfo {
    /// The pages that its user may touch.
    #[must_use]
    pub fn range(&self) -> PageRange {
        PageRange::new(self.start, self.pages).expect("an area is inside its window")
    }
}
