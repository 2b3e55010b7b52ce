//! The packing of an entry. It is one word, so that a caller and a cleaner decide by one atomic operation whose contents
//! of a page count; the folder's other files make these operations.

/// Where a page's contents are: a kind, whether the store may have a copy, a version, and a slot.
///
/// The version moves on with every new content. It is part of the store's [key](SwapEntry::index), so a
/// cleaner that was handed an older version notices. It has 21 bits; a page with a version that
/// [begins anew](SwapEntry::has_gone_round) waits until no cleaner is at work, so none has a version
/// that the page had before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SwapEntry(pub(super) u64);

/// The kind of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SwapEntryKind {
    /// No contents: the page is zero, or the caller that loaded it has it.
    None,
    /// In the store, and nowhere else.
    Dirty,
    /// The same, and being written.
    Writing,
    /// In a slot.
    Device,
}

const IN_STORE: u64 = 1 << 2;
const VERSION_SHIFT: u32 = 3;
const VERSION: u64 = (1 << SLOT_SHIFT) - (1 << VERSION_SHIFT);
const SLOT_SHIFT: u32 = 24;
/// In the place of a slot: the contents are lost.
const LOST: u64 = (1 << (64 - SLOT_SHIFT)) - 1;
/// The most slots that an entry can tell apart: 4 PiB.
pub(super) const SLOTS_MAX: u64 = LOST;
/// Where the version stands in the store's index of a page: above the page's number.
const INDEX_SHIFT: u32 = 40;

impl SwapEntry {
    pub(super) const fn kind(self) -> SwapEntryKind {
        match self.0 & 3 {
            0 => SwapEntryKind::None,
            1 => SwapEntryKind::Dirty,
            2 => SwapEntryKind::Writing,
            _ => SwapEntryKind::Device,
        }
    }

    pub(super) const fn with_kind(self, kind: SwapEntryKind) -> Self {
        Self(self.0 & !3 | kind as u64)
    }

    /// The next version, of that kind: in no slot, and no clean copy in the store.
    pub(super) const fn next(self, kind: SwapEntryKind) -> Self {
        let version = (self.0 & VERSION).wrapping_add(1 << VERSION_SHIFT) & VERSION;
        Self(version | kind as u64)
    }

    pub(super) const fn with_slot(self, slot: u64) -> Self {
        Self(self.0 & ((1 << SLOT_SHIFT) - 1) | slot << SLOT_SHIFT)
    }

    /// The same, for contents that should be in a slot, and are in none.
    pub(super) const fn lost(self) -> Self {
        self.with_kind(SwapEntryKind::Device)
            .in_store(false)
            .with_slot(LOST)
    }

    /// Whether the contents are lost.
    pub(super) const fn is_lost(self) -> bool {
        matches!(self.kind(), SwapEntryKind::Device) && self.slot() == LOST
    }

    /// Whether this is the first version after the last one.
    pub(super) const fn has_gone_round(self) -> bool {
        self.0 & VERSION == 0
    }

    pub(super) const fn slot(self) -> u64 {
        self.0 >> SLOT_SHIFT
    }

    /// The index by which the store knows these contents of `page`: each version has another one.
    pub(super) const fn index(self, page: u64) -> u64 {
        (self.0 & VERSION) << (INDEX_SHIFT - VERSION_SHIFT) | page
    }

    /// The page that belongs to an index.
    pub(super) const fn page_of(index: u64) -> u64 {
        index & ((1 << INDEX_SHIFT) - 1)
    }

    /// Whether the store may have the page.
    pub(super) const fn is_in_store(self) -> bool {
        self.0 & IN_STORE != 0
            || matches!(self.kind(), SwapEntryKind::Dirty | SwapEntryKind::Writing)
    }

    pub(super) const fn in_store(self, is: bool) -> Self {
        Self(self.0 & !IN_STORE | if is { IN_STORE } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_an_entry_do_not_touch_one_another() {
        let last = SLOTS_MAX - 1;
        let mut entry = SwapEntry(0);
        for _ in 0..1 << 22 {
            entry = entry.next(SwapEntryKind::Dirty);
        }
        // The version has gone round twice.
        assert_eq!(entry, SwapEntry(0).with_kind(SwapEntryKind::Dirty));
        assert!(entry.has_gone_round() && !entry.next(SwapEntryKind::Dirty).has_gone_round());
        let lost = entry.next(SwapEntryKind::Dirty).lost();
        assert!(lost.is_lost() && !lost.is_in_store() && !lost.next(SwapEntryKind::None).is_lost());
        assert!(!entry.next(SwapEntryKind::Device).with_slot(last).is_lost());
        let entry = entry
            .next(SwapEntryKind::Device)
            .with_slot(last)
            .in_store(true);
        assert_eq!((entry.kind(), entry.slot()), (SwapEntryKind::Device, last));
        assert!(entry.is_in_store() && !entry.in_store(false).is_in_store());
        assert_eq!(entry.next(SwapEntryKind::None).slot(), 0);
        let indices = [
            entry.index(last),
            entry.next(SwapEntryKind::Dirty).index(last),
        ];
        assert_eq!(indices.map(SwapEntry::page_of), [last; 2]);
        assert_ne!(indices[0], indices[1]);
        assert_eq!(
            entry.index(5),
            entry.with_kind(SwapEntryKind::Dirty).index(5)
        );
        assert!(entry.with_kind(SwapEntryKind::Writing).is_in_store());
        assert_ne!(
            entry.next(SwapEntryKind::Dirty).next(SwapEntryKind::Dirty),
            entry.next(SwapEntryKind::Dirty)
        );
    }
}
