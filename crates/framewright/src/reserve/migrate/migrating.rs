//! A [`MigrateArea`] as a [`Contiguous`]: with the seat and the clients that each of its calls needs.

use super::MigrateArea;
use crate::frame::Seat;
use crate::platform::FramePlatform;
use crate::reclaim::Clients;
use crate::reserve::{Contiguous, Reservation};
use crate::units::{Run, RunError};

/// An owner's access to a [`MigrateArea`], with a CPU's seat and the clients whose contents may
/// have to move.
struct Migrating<'a, 'r, 'z, 'm, P> {
    area: &'a MigrateArea<'r, 'z, 'm, P>,
    seat: &'a mut Seat<'z, 'm, P>,
    clients: Clients<'a, Seat<'z, 'm, P>>,
}

impl<'r, 'z, 'm, P: FramePlatform> MigrateArea<'r, 'z, 'm, P> {
    /// An owner's access to the area from the CPU of `seat`, which is in the area's zone. The `clients` include
    /// all that hold movable frames of the zone, and those that can give frames back when there is
    /// no room for moved contents.
    pub fn owner<'a>(
        &'a self,
        seat: &'a mut Seat<'z, 'm, P>,
        clients: Clients<'a, Seat<'z, 'm, P>>,
    ) -> impl Contiguous {
        let area = self;
        Migrating {
            area,
            seat,
            clients,
        }
    }
}

impl<P: FramePlatform> Contiguous for Migrating<'_, '_, '_, '_, P> {
    fn is_guaranteed(&self) -> bool {
        false
    }

    fn alloc_contig(&mut self, frames: u64, align: u64) -> Result<Run, RunError> {
        self.area
            .alloc_contig(self.seat, frames, align, &self.clients)
    }

    fn release(&mut self, run: Run) -> Result<(), RunError> {
        self.area.release(self.seat, run)
    }

    fn reserve(&mut self, name: &str, frames: u64, align: u64) -> Result<Reservation, RunError> {
        self.area.reserve(name, frames, align)
    }

    fn take(&mut self, reservation: Reservation) -> Result<Run, RunError> {
        self.area.take(self.seat, reservation, &self.clients)
    }

    fn try_take(&mut self, reservation: Reservation, rounds: u32) -> Result<Run, RunError> {
        self.area
            .try_take(self.seat, reservation, &self.clients, rounds)
    }

    fn unreserve(&mut self, reservation: Reservation) -> Result<(), RunError> {
        self.area.unreserve(reservation)
    }
}
