//! Reclaim and compaction, as far as a request waits for them.

use crate::units::{Context, Order};

/// Gives memory back when a request asks for it: reclaim and compaction, as far as a request waits
/// for them. `F` is the calling CPU's source of frames, into which the frames are freed.
///
/// Called by a request whose effort allows it and whose context allows reclaim, under no lock, in
/// no busy seat. It obeys `context`: a request that may not start I/O, or enter a file system, must
/// not have others do so. It must not make requests of its own that ask for relief.
pub trait Relief<F> {
    /// Tries to make a free block of `order` from free frames, by moving what lies between them
    /// \[direct compaction\]. Returns whether it is worth looking again.
    fn compact(&self, frames: &mut F, order: Order, context: Context) -> bool;

    /// Tries to free `wanted` frames by having their users give them back \[direct reclaim\].
    /// Returns how many came; 0 if their users gave none.
    fn reclaim(&self, frames: &mut F, wanted: u64, context: Context) -> u64;
}

/// Gives no memory back: only free frames serve requests.
impl<F> Relief<F> for () {
    fn compact(&self, _frames: &mut F, _order: Order, _context: Context) -> bool {
        false
    }

    fn reclaim(&self, _frames: &mut F, _wanted: u64, _context: Context) -> u64 {
        0
    }
}

impl<F, T: Relief<F> + ?Sized> Relief<F> for &T {
    fn compact(&self, frames: &mut F, order: Order, context: Context) -> bool {
        (**self).compact(frames, order, context)
    }

    fn reclaim(&self, frames: &mut F, wanted: u64, context: Context) -> u64 {
        (**self).reclaim(frames, wanted, context)
    }
}
