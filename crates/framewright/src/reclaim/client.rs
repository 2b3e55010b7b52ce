//! Clients: what reclaim asks of the holders of memory.

use crate::units::{Context, Frame, Order};
use core::fmt;

/// A holder of frames that it could give back: a cache.
///
/// `F` is the calling CPU's source of frames; the client frees into it. The source gives out frames
/// regardless of watermarks, and never asks for reclaim (R4): a client that needs a frame in order
/// to free others may take it there.
pub trait Shrink<F: ?Sized> {
    /// How many frames it could give back, now or after another look. Must be cheap, and may be a little
    /// old.
    fn holding(&self) -> u64;

    /// How hot they are, from 0 (no user will miss them) to 255 (in use all the time): the hotter, the
    /// smaller the part that is asked for. Must be cheap, too. 0 unless overridden.
    fn heat(&self) -> u8 {
        0
    }

    /// Looks at up to `ask.scan` frames, coldest first, and frees up to `ask.wanted` of them into
    /// `frames`; if they are part of a larger block, the last block goes as a whole. Obeys
    /// `ask.context`. Called under no lock of the engine; may free nothing.
    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk;
}

/// What reclaim asks of a [`Shrink`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Frames wanted: the client need not free more.
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

/// A holder of frames whose contents can be moved: movable memory.
pub trait Migrate {
    /// Tries to move contents, several at a time, so that a client does once for all of them what
    /// it can (a flush of translations). A client that does not know a source leaves its move
    /// [`Unknown`](MoveState::Unknown), and the next client is asked.
    ///
    /// [`Moved`](MoveState::Moved) says that the contents are in the target, every user finds them
    /// there, no write to them was lost, and the source is no longer in use: it belongs to the
    /// caller, which frees it. Every other state says that nothing has changed. Called under no
    /// lock of the engine, in no busy seat.
    ///
    /// It may exchange targets of the same order among the moves of the call: the engine uses the
    /// [`to`](Move::to) that a move has afterwards. Where the cost of a mapping depends on which
    /// frame follows which, that makes the difference between one mapping and one for each page.
    ///
    /// It may reorder the moves: an answer counts for the source beside which it stands. A source
    /// that it takes out stays.
    ///
    /// If it unwinds, what it has set until then is its answer: a block is moved exactly if its state
    /// says so. So a client that may unwind sets the state as it changes hands.
    ///
    /// It may wait for its own I/O, if contents cannot move before they are written: then every
    /// request that waits for the room waits with it.
    fn migrate(&self, moves: &mut [Move]);

    /// Drops contents that can be read again from elsewhere: clean pages of files. The client is
    /// asked before contents [move](Self::migrate) out of a contiguous run, because dropping takes
    /// no copy and no room. It sets [`is_dropped`](Discard::is_dropped) where no user finds the
    /// contents from then on and none uses the frames: they then belong to the caller, which frees
    /// them. It leaves alone contents that it does not know, and those that are dirty, pinned, in
    /// use or not worth dropping. Here, too, it may reorder.
    ///
    /// Must not wait for I/O. Called under no lock of the engine, in no busy seat. If it unwinds, what it
    /// has set until then is its answer. Drops nothing unless overridden.
    fn discard(&self, blocks: &mut [Discard]) {
        _ = blocks;
    }
}

/// A block whose contents may be dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Discard {
    /// Where they are.
    pub frame: Frame,
    /// The order of the block.
    pub order: Order,
    /// Whether they have been dropped; false when the client is asked.
    pub is_dropped: bool,
}

/// A block whose contents are to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Where they are.
    pub from: Frame,
    /// Where they are to be. The caller's until they have [moved](MoveState::Moved). May be another
    /// move's target after [`migrate`](Migrate::migrate).
    pub to: Frame,
    /// The order of both blocks.
    pub order: Order,
    /// Whether it moved.
    pub state: MoveState,
}

/// What became of a [`Move`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MoveState {
    /// No client has claimed the source.
    #[default]
    Unknown,
    /// Done.
    Moved,
    /// It stays, and will, because it is pinned.
    Pinned,
    /// It stays this time, and may move at another try: it was in use, or something failed.
    Busy,
}

/// The clients of one call; `F` is the calling CPU's source of frames.
pub struct Clients<'c, F: ?Sized> {
    /// Clients that can give frames back.
    pub shrink: &'c [&'c dyn Shrink<F>],
    /// Clients whose contents can be moved. At most one of them knows each frame.
    pub migrate: &'c [&'c dyn Migrate],
}

impl<F: ?Sized> Clients<'_, F> {
    /// No clients.
    pub const NONE: Self = Self {
        shrink: &[],
        migrate: &[],
    };

    /// How much all of them hold together, saturating: each may say any number.
    #[must_use]
    pub fn holding(&self) -> u64 {
        let each = self.shrink.iter().map(|s| s.holding());
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
