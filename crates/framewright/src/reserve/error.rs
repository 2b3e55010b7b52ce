//! What the reserve refuses its guests, and why.

/// Why a page was not stored. No version of it is in the reserve then (C5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum PutRefused {
    /// The pool is not there, or takes no such pages: dirty ones only if it was opened for them.
    NoPool,
    /// No frame is free and no page could be evicted: owners have the frames, or the shares forbid
    /// it.
    Full,
    /// The key was put again meanwhile, or it, its object or its pool was invalidated.
    Overtaken,
    /// The index has no room for the key beside pages that may not be dropped.
    IndexFull,
    /// The pool has as many dirty pages as it may: clean some first.
    DirtyFull,
}

impl PutRefused {
    /// How many reasons there are.
    pub const COUNT: usize = 5;
}
