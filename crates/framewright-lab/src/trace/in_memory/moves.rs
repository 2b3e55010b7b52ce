//! What compaction moved on the recording machine, as a trace keeps it: beside the operations, and only of objects that are
//! alive there.

use super::Liveness;
use framewright::Order;
use std::iter::{Enumerate, Peekable};
use std::slice::Iter;

/// A block of an object whose contents compaction moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceMove {
    /// Before this operation of the trace it happened.
    pub at: u32,
    /// The object.
    pub object: u32,
    /// The block's first frame in the object.
    pub offset: u32,
    /// The block's order.
    pub order: Order,
    /// The first frame that it left.
    pub from: u32,
    /// The first frame that it came to, where that is known.
    pub to: Option<u32>,
}

/// Holds moves against what is alive, while the operations are walked.
#[derive(Debug)]
pub(in crate::trace) struct MoveCheck<'a> {
    moves: Peekable<Enumerate<Iter<'a, TraceMove>>>,
    nframes: u64,
    /// The operation of the move before.
    last: u32,
}

impl<'a> MoveCheck<'a> {
    pub(in crate::trace) fn new(moves: &'a [TraceMove], nframes: u64) -> Self {
        Self {
            moves: moves.iter().enumerate().peekable(),
            nframes,
            last: 0,
        }
    }

    /// Checks those before the operation `at`, of which `live` is what is alive then.
    pub(in crate::trace) fn before(&mut self, at: usize, live: &Liveness) -> Result<(), String> {
        while let Some((nth, moved)) = self.moves.next_if(|(_, moved)| moved.at as usize <= at) {
            self.one(nth, moved, live)?;
        }
        Ok(())
    }

    fn one(&mut self, nth: usize, moved: &TraceMove, live: &Liveness) -> Result<(), String> {
        let TraceMove {
            at,
            object,
            offset,
            order,
            from,
            to,
        } = *moved;
        if at < self.last {
            return Err(format!(
                "move {nth} is before the one in front of it, expected them in order"
            ));
        }
        self.last = at;
        if !live.has_block(object, offset, order) {
            return Err(format!(
                "move {nth} is of {order} at offset {offset} of object {object}, expected a block that is allocated then"
            ));
        }
        let frames = order.frames();
        let is_block = |first: u32| {
            let first = u64::from(first);
            first.is_multiple_of(frames) && first + frames <= self.nframes
        };
        if !is_block(from) || !to.is_none_or(is_block) {
            return Err(format!(
                "move {nth} leaves or reaches frames that are no block of {order} of the machine, expected blocks below {}",
                self.nframes
            ));
        }
        Ok(())
    }

    /// After the last of `nops` operations.
    pub(in crate::trace) fn finish(mut self, nops: usize, live: &Liveness) -> Result<(), String> {
        self.before(nops, live)?;
        match self.moves.next() {
            None => Ok(()),
            Some((nth, _)) => Err(format!(
                "move {nth} is behind the last of {nops} operations"
            )),
        }
    }
}
