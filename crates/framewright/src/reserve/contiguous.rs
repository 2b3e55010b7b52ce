//! What an owner asks of an area of contiguous frames, of either kind.

use super::{Reservation, Reserve};
use crate::frame::FrameSource;
use crate::platform::ReservePlatform;
use crate::units::{Run, RunError};

/// An area of frames from which owners take contiguous runs: the same calls whether it is
/// [guaranteed](Self::is_guaranteed) or not.
///
/// It is one CPU's access to the area: for the kinds that move memory, a seat is part of it. Several
/// may be in use at the same time; owners wait for each other inside.
pub trait Contiguous {
    /// Whether idle frames are lent to guests whose pages can be dropped: an owner always gets its reservation then
    /// (C3). Else they are lent to movable memory, and an owner gets a run by moving what lies in it (Linux's CMA). That
    /// takes as long as it takes, and fails where something cannot be moved.
    fn is_guaranteed(&self) -> bool;

    /// A run of `frames` frames, the first at a multiple of `align` frames, from the frames that no
    /// reservation needs. It is the caller's until it is [released](Self::release).
    ///
    /// The kind of the area decides which run it is and what it costs. The contents of the frames
    /// are undefined.
    ///
    /// # Errors
    /// Why there is none. No frame changes hands then; guests' pages may have been dropped, and
    /// movable contents may lie elsewhere.
    fn alloc_contig(&mut self, frames: u64, align: u64) -> Result<Run, RunError>;

    /// Gives frames back: a whole reservation, or any part of what
    /// [`alloc_contig`](Self::alloc_contig) gave.
    ///
    /// # Errors
    /// If not all of it is owned, or it is part of a reservation. Nothing has changed then.
    fn release(&mut self, run: Run) -> Result<(), RunError>;

    /// Sets a run aside, so that no other reservation and no [`alloc_contig`](Self::alloc_contig)
    /// gets any of it. The first sixteen bytes of the name are kept for listings.
    ///
    /// # Errors
    /// Why not. Nothing has changed then.
    fn reserve(&mut self, name: &str, frames: u64, align: u64) -> Result<Reservation, RunError>;

    /// Takes a reservation. In a [guaranteed](Self::is_guaranteed) area that fails only if it is
    /// taken already. In a migrating one no other request can break it up, but
    /// the take fails, like any request, if something in it cannot be moved.
    ///
    /// # Errors
    /// Why not, as for [`alloc_contig`](Self::alloc_contig).
    fn take(&mut self, reservation: Reservation) -> Result<Run, RunError>;

    /// [Takes](Self::take) a reservation, unless others are in the way for longer than `rounds`
    /// calls of the [platform](crate::platform::FramePlatform::relax). In a migrating area the bound holds
    /// until contents begin to move: moving takes as long as the clients take, and it fails where
    /// something stays. An area without a bound does as `take`.
    ///
    /// # Errors
    /// As `take`; [`RunError::WouldWait`] if the bound was too short. No frame changes hands
    /// then.
    fn try_take(&mut self, reservation: Reservation, rounds: u32) -> Result<Run, RunError> {
        let _ = rounds;
        self.take(reservation)
    }

    /// Gives a reservation up: guests and other owners may use its frames again.
    ///
    /// # Errors
    /// If there is no such reservation, or it is taken; [`RunError::WouldWait`] if another owner is
    /// about to take it, and may fail to. Nothing has changed then.
    fn unreserve(&mut self, reservation: Reservation) -> Result<(), RunError>;
}

/// An owner's access to a [`Reserve`], which gets runs by discarding.
struct Guaranteed<'r, 'm, P> {
    reserve: &'r Reserve<'m, P>,
    supply: Option<&'r mut dyn FrameSource>,
}

impl<'m, P: ReservePlatform> Reserve<'m, P> {
    /// An owner's access to the reserve. With a `supply`, pages that are on no device yet may be [put
    /// back](Self::alloc_contig_with) into frames of that.
    pub fn owner<'a>(&'a self, supply: Option<&'a mut dyn FrameSource>) -> impl Contiguous {
        let reserve = self;
        Guaranteed { reserve, supply }
    }
}

impl<P: ReservePlatform> Contiguous for Guaranteed<'_, '_, P> {
    fn is_guaranteed(&self) -> bool {
        true
    }

    fn alloc_contig(&mut self, frames: u64, align: u64) -> Result<Run, RunError> {
        match &mut self.supply {
            Some(supply) => self.reserve.alloc_contig_with(frames, align, *supply),
            None => self.reserve.alloc_contig(frames, align),
        }
    }

    fn release(&mut self, run: Run) -> Result<(), RunError> {
        self.reserve.release(run)
    }

    fn reserve(&mut self, name: &str, frames: u64, align: u64) -> Result<Reservation, RunError> {
        self.reserve.reserve(name, frames, align)
    }

    fn take(&mut self, reservation: Reservation) -> Result<Run, RunError> {
        self.reserve.take(reservation)
    }

    fn try_take(&mut self, reservation: Reservation, rounds: u32) -> Result<Run, RunError> {
        self.reserve.try_take(reservation, rounds)
    }

    fn unreserve(&mut self, reservation: Reservation) -> Result<(), RunError> {
        self.reserve.unreserve(reservation)
    }
}
