use crate::units::{Context, Order};

/// Who gives memory back when a request asks for it: reclaim and compaction, as far as a request
/// waits for them. `F` is the calling CPU's source of frames, into which is freed what is given
/// back.
///
/// Called by a request whose effort allows it and whose context allows reclaim, under no lock, in
/// no busy seat. What it does obeys `context`: nobody who may not start I/O, or enter a file system,
/// has others do so. It must not make requests of its own that ask for relief.
pub trait Relief<F> {
    /// Tries to make a free block of `order` out of frames that are free, by moving what lies
    /// between them \[direct compaction\]. Whether it is worth looking again.
    fn compact(&self, frames: &mut F, order: Order, context: Context) -> bool;

    /// Tries to free `wanted` frames by having their users give them back \[direct reclaim\].
    /// Returns how many came; 0 if there was nothing to be had.
    fn reclaim(&self, frames: &mut F, wanted: u64, context: Context) -> u64;
}

/// Nobody gives anything back: what is free is all there is.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRelief;

impl<F> Relief<F> for NoRelief {
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
