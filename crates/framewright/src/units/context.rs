//! What the caller of a request may do while it waits.

/// What the caller of a request may do while it waits \[the gfp flags' `__GFP_DIRECT_RECLAIM`,
/// `__GFP_IO`, `__GFP_FS`\]. One value, which every inner step of a request obeys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Context {
    /// It may wait: for other CPUs, for a clean-up that takes long, for memory of other users. If not, it stops
    /// no CPU either.
    pub may_block: bool,
    /// It may have others give memory back before it is served.
    pub may_reclaim: bool,
    /// It may start I/O.
    pub may_io: bool,
    /// It may enter a file system.
    pub may_fs: bool,
}

impl Context {
    /// Anything \[`GFP_KERNEL`\].
    pub const ANY: Self = Self {
        may_block: true,
        may_reclaim: true,
        may_io: true,
        may_fs: true,
    };
    /// Anything but entering a file system \[`GFP_NOFS`\].
    pub const NOFS: Self = Self {
        may_fs: false,
        ..Self::ANY
    };
    /// Anything but I/O \[`GFP_NOIO`\].
    pub const NOIO: Self = Self {
        may_io: false,
        ..Self::NOFS
    };
    /// No waiting \[`GFP_NOWAIT`\]: what is there at once, or an error.
    ///
    /// Such a request stops no CPU, claims no seat, unmaps and flushes nothing and asks no client. So it does not
    /// get what other CPUs have cached, and its error says that this may be so:
    /// [`AllocError::WouldWait`](crate::frame::AllocError::WouldWait). Like every call it spins while another CPU
    /// has this one stopped, and for a lock that is held for a search at most.
    pub const NOWAIT: Self = Self {
        may_block: false,
        may_reclaim: false,
        may_io: false,
        may_fs: false,
    };

    /// What both this one and `other` allow.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self {
            may_block: self.may_block && other.may_block,
            may_reclaim: self.may_reclaim && other.may_reclaim,
            may_io: self.may_io && other.may_io,
            may_fs: self.may_fs && other.may_fs,
        }
    }
}

impl Default for Context {
    fn default() -> Self {
        Self::ANY
    }
}
