//! The zones' reclaim as the relief that a CPU's objects and areas ask for.

use crate::frame::{Seat, Seats};
use crate::platform::{FramePlatform, Relief};
use crate::reclaim::{Clients, Reclaim};
use crate::units::{Context, Order};

/// The reclaim of all zones, with the holders of each zone's memory; without holders it gives nothing.
#[derive(Debug)]
pub(super) struct ZoneRelief<'e, 'm, P, const ZONES: usize> {
    pub(super) zones: [Reclaim<'e, 'm, P>; ZONES],
    pub(super) clients: Option<[Clients<'e, Seat<'e, 'm, P>>; ZONES]>,
}

impl<P, const ZONES: usize> Clone for ZoneRelief<'_, '_, P, ZONES> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P, const ZONES: usize> Copy for ZoneRelief<'_, '_, P, ZONES> {}

impl<'e, 'm, P: FramePlatform, const ZONES: usize> Relief<Seats<'e, 'm, P, ZONES>>
    for ZoneRelief<'e, 'm, P, ZONES>
{
    fn compact(
        &self,
        frames: &mut Seats<'e, 'm, P, ZONES>,
        order: Order,
        context: Context,
    ) -> bool {
        let Some(clients) = &self.clients else {
            return false;
        };
        (0..ZONES).any(|nth| {
            let relief = self.zones[nth].relief(clients[nth]);
            relief.compact(frames.seat(nth), order, context)
        })
    }

    fn reclaim(&self, frames: &mut Seats<'e, 'm, P, ZONES>, wanted: u64, context: Context) -> u64 {
        let Some(clients) = &self.clients else {
            return 0;
        };
        let mut freed = 0u64;
        for (nth, (zone, clients)) in self.zones.iter().zip(clients).enumerate() {
            if freed < wanted {
                let relief = zone.relief(*clients);
                let more = relief.reclaim(frames.seat(nth), wanted - freed, context);
                freed = freed.saturating_add(more);
            }
        }
        freed
    }
}
