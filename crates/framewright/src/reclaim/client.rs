//! Who holds memory: what reclaim asks of them.

use crate::units::{Context, Frame, Order};
use core::fmt;

/// Somebody who holds frames that he could give back: a cache.
///
/// `F` is the calling CPU's source of frames, into which they are freed. What it gives out in turn
/// is not held back by any watermark, and it never asks for reclaim (R4): a client that needs a frame
/// in order to free others may take it there.
pub trait Shrink<F: ?Sized> {
    /// What it holds at the moment. Cheap, and may be a little old.
    fn holding(&self) -> Holding;

    /// Looks at up to `ask.scan` frames, coldest first, and frees up to `ask.wanted` of them into
    /// `frames`; of larger blocks the last one goes as a whole, even if that is more. Obeys
    /// `ask.context`. Under no lock of the engine; may free nothing.
    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk;
}

/// What a [`Shrink`] could give back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Holding {
    /// Frames that it could give back, now or after another look.
    pub frames: u64,
    /// How hot they are, from 0 (nobody will miss them) to 255 (in use all the time): the hotter,
    /// the smaller the part that is asked for.
    pub heat: u8,
}

/// What reclaim asks of a [`Shrink`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Frames wanted: more need not be freed.
    pub wanted: u64,
    /// Frames that may be looked at.
    pub scan: u64,
    /// The order of the request behind it: single frames all over memory do not help a large one.
    pub order: Order,
    /// What the request may wait for.
    pub context: Context,
}

/// What a [`Shrink`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shrunk {
    /// Frames looked at (`pgscan`).
    pub scanned: u64,
    /// Frames freed (`pgsteal`).
    pub freed: u64,
}

/// Somebody whose frames' contents can be moved: movable memory.
pub trait Migrate {
    /// Tries to move contents, several at a time so that what is done once for all of them (a flush
    /// of translations) is done once. Whoever does not know a source leaves its move
    /// [`Unknown`](MoveState::Unknown), and the next client is asked.
    ///
    /// [`Moved`](MoveState::Moved) says: the contents are in the target, every user finds them there, no write to
    /// them was lost, and nobody uses the source any more: it is the caller's, who frees it. Every other
    /// state says that nothing has changed. Under no lock of the engine, in no busy seat.
    ///
    /// It may exchange targets of the same order among moves of the call: what counts is the
    /// [`to`](Move::to) that a move has afterwards. Where what a mapping costs depends on which
    /// frame follows which, that is the difference between one mapping and one for each page.
    ///
    /// It may leave the moves in another sequence: what it says counts for the source beside which it
    /// stands. A source that it takes out stays.
    ///
    /// It may wait for its own I/O, for what cannot move before it is written: then all that waits for
    /// the room waits with it.
    fn migrate(&self, moves: &mut [Move]);

    /// Drops contents, those that can be had again without being kept: clean pages of files. Asked
    /// before contents [move](Self::migrate) out of a contiguous run, because dropping takes no copy and no
    /// room. It sets [`is_dropped`](Discard::is_dropped) where nobody finds the contents any more and
    /// nobody uses the frames: they are the caller's then, who frees them. What it does not know, or what
    /// is dirty, pinned, in use or not worth dropping, it leaves as it is. The sequence is its own here, too.
    ///
    /// Must not wait for I/O. Under no lock of the engine, in no busy seat. Unless overridden nothing is
    /// dropped.
    fn discard(&self, blocks: &mut [Discard]) {
        _ = blocks;
    }
}

/// One block whose contents may be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Discard {
    /// Where they are.
    pub frame: Frame,
    /// The order of the block.
    pub order: Order,
    /// Whether they have been dropped: false when the client is asked.
    pub is_dropped: bool,
}

/// One block whose contents are to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Where they are.
    pub from: Frame,
    /// Where they are to be: the caller's until they have [moved](MoveState::Moved). May be another
    /// move's target after [`migrate`](Migrate::migrate).
    pub to: Frame,
    /// The order of both blocks.
    pub order: Order,
    /// What became of it.
    pub state: MoveState,
}

/// What became of a [`Move`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MoveState {
    /// Nobody has said that the source is his.
    #[default]
    Unknown,
    /// Done.
    Moved,
    /// It stays, and will: somebody has pinned it.
    Pinned,
    /// It stays this time, and may move at another try: somebody was using it, or something failed.
    Busy,
}

/// The clients of one call, and what the calling CPU's source of frames is.
pub struct Clients<'c, F: ?Sized> {
    /// Those who can give frames back.
    pub shrink: &'c [&'c dyn Shrink<F>],
    /// Those whose contents can be moved. Each frame is known to one of them at most.
    pub migrate: &'c [&'c dyn Migrate],
}

impl<F: ?Sized> Clients<'_, F> {
    /// Nobody.
    pub const NONE: Self = Self {
        shrink: &[],
        migrate: &[],
    };

    /// What all of them hold together, at most all that can be counted: each says what it likes.
    #[must_use]
    pub fn holding(&self) -> u64 {
        let each = self.shrink.iter().map(|s| s.holding().frames);
        each.fold(0, u64::saturating_add)
    }
}

impl<F: ?Sized> Clone for Clients<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: ?Sized> Copy for Clients<'_, F> {}

impl<F: ?Sized> fmt::Debug for Clients<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clients")
            .field("shrink", &self.shrink.len())
            .field("migrate", &self.migrate.len())
            .finish()
    }
}
