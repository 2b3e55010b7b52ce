use super::Tag;
use crate::units::{Page, PageRange};
use core::fmt;

/// What an area is for: which call made it, and so which call frees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AreaKind {
    /// Address space only \[`get_vm_area`\]: the caller maps.
    Plain,
    /// Frames of the space's source, mapped \[`vmalloc`\].
    Vmalloc,
    /// The caller's frames, mapped \[`vm_map_ram`\].
    Ram,
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

/// In which state an area is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AreaState {
    /// Its user has it.
    Live,
    /// Freed by its user, constructed still, for the next one.
    Kept,
    /// Freed, not yet reusable.
    Lazy,
}

/// An area, as a lookup or a listing finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AreaInfo {
    /// Its first page.
    pub start: Page,
    /// Its length in pages, without the guard page.
    pub pages: u64,
    /// The guard pages behind it: 0 or 1.
    pub guard: u64,
    /// What it is for.
    pub kind: AreaKind,
    /// In which state it was found.
    pub state: AreaState,
    /// Who asked for it; 0 when it is lazy.
    pub tag: Tag,
}

impl AreaInfo {
    /// The pages that its user may touch.
    #[must_use]
    pub fn range(&self) -> PageRange {
        PageRange::new(self.start, self.pages).expect("an area is inside its window")
    }
}
