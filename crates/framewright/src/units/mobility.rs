//! What can be done with a frame's contents later.

use core::fmt;

/// What can be done with a frame's contents later \[migratetype\].
///
/// The discriminants are Linux's (`MIGRATE_UNMOVABLE` 0, `MIGRATE_MOVABLE` 1,
/// `MIGRATE_RECLAIMABLE` 2), so that recorded traces need no translation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Mobility {
    /// Stays where it is until its owner frees it.
    Unmovable = 0,
    /// Its contents can be copied elsewhere.
    Movable = 1,
    /// Cannot move, but its owner can be asked to free it.
    Reclaimable = 2,
}

impl Mobility {
    /// All three, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Unmovable, Self::Movable, Self::Reclaimable];

    /// The mobility of that number, if there is one.
    #[must_use]
    pub const fn from_index(index: usize) -> Option<Self> {
        match index {
            0 => Some(Self::Unmovable),
            1 => Some(Self::Movable),
            2 => Some(Self::Reclaimable),
            _ => None,
        }
    }

    /// The number as an index.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the contents can be copied elsewhere.
    #[must_use]
    pub const fn is_movable(self) -> bool {
        matches!(self, Self::Movable)
    }

    /// The name as Linux's `/proc/pagetypeinfo` prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unmovable => "Unmovable",
            Self::Movable => "Movable",
            Self::Reclaimable => "Reclaimable",
        }
    }
}

impl fmt::Display for Mobility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
