//! The records that the reduction keeps until its end: objects, the pieces of them, moves and marks, all under
//! provisional numbers.

use super::frames::CHUNK_ORDER;
use framewright::{Mobility, Order};
use std::ops::Range;

/// Milliseconds between two rows of the reference; the first is at the first millisecond.
pub(super) const REFERENCE_MS: u64 = 1000;

/// How an object came into the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ObjectOrigin {
    /// By an event.
    Traced,
    /// It was there at the start.
    Initial,
    /// It must have been allocated, unseen.
    Synthetic,
}

/// An object, under a number that is final only when all synthetic ones are known.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReducedObject {
    pub(super) slot: u32,
    pub(super) order: Order,
    pub(super) mobility: Mobility,
    pub(super) origin: ObjectOrigin,
}

/// A block of an object: all of it, or an aligned part.
#[derive(Debug, Clone, Copy)]
pub(super) struct ObjectPiece {
    pub(super) object: u32,
    pub(super) offset: u32,
    pub(super) order: Order,
}

impl ObjectPiece {
    pub(super) fn whole(object: u32, order: Order) -> Self {
        Self {
            object,
            offset: 0,
            order,
        }
    }
}

/// A piece whose contents went elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moved {
    /// Before this operation.
    pub(super) at: u32,
    pub(super) piece: ObjectPiece,
    /// The first of the slots that it left.
    pub(super) from: u32,
    /// Where to, once a later free has told.
    pub(super) to: Option<u32>,
}

/// Where a row of the reference is due.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    /// Before this operation.
    pub(super) at: u32,
    pub(super) ms: u64,
    pub(super) extfrag: u64,
}

/// The slots of a block.
pub(super) fn block(slot: u32, order: Order) -> Range<u32> {
    slot..slot + order.frames() as u32
}

/// Cuts a range into the fewest naturally aligned blocks, from the front.
pub(super) fn aligned_blocks(range: Range<u32>) -> impl Iterator<Item = (u32, Order)> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let left = range.end.checked_sub(at).filter(|&left| left != 0)?;
        let order = at.trailing_zeros().min(left.ilog2()).min(CHUNK_ORDER);
        let order = Order::new(order as u8)?;
        let first = at;
        at += order.frames() as u32;
        Some((first, order))
    })
}
