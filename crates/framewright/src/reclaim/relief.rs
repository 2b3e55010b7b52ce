//! A zone's reclaim as the relief that an object allocator asks for.

use super::Clients;
use super::direct::{Behalf, Round};
use super::state::Reclaim;
use crate::frame::Seat;
use crate::platform::{FramePlatform, Relief, surely};
use crate::policy::next_priority;
use crate::seats::SeatSet;
use crate::units::{Context, Mobility, Order};

/// A zone's reclaim with the holders of its memory, for an allocator that makes its own requests
/// and asks for [`Relief`], such as the objects.
#[derive(Debug)]
struct ReclaimRelief<'c, 'z, 'm, P> {
    reclaim: Reclaim<'z, 'm, P>,
    clients: Clients<'c, Seat<'z, 'm, P>>,
}

impl<P> Clone for ReclaimRelief<'_, '_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for ReclaimRelief<'_, '_, '_, P> {}

impl<'z, 'm, P: FramePlatform> Reclaim<'z, 'm, P> {
    /// The same with `clients`, as relief.
    #[must_use]
    pub const fn relief<'c>(
        &self,
        clients: Clients<'c, Seat<'z, 'm, P>>,
    ) -> impl Relief<Seat<'z, 'm, P>> + Copy + use<'c, 'z, 'm, P> {
        ReclaimRelief {
            reclaim: *self,
            clients,
        }
    }
}

impl<'z, 'm, P: FramePlatform> Relief<Seat<'z, 'm, P>> for ReclaimRelief<'_, 'z, 'm, P> {
    /// One attempt at a block for unmovable contents, which objects are. The block is free
    /// afterwards, in this CPU's cache if it is small.
    fn compact(&self, frames: &mut Seat<'z, 'm, P>, order: Order, context: Context) -> bool {
        let may = context.may_block && context.may_reclaim;
        if !may || order > self.reclaim.zone().max_order() {
            return false;
        }
        let block =
            self.reclaim
                .stall_to_compact(frames, order, Mobility::Unmovable, &self.clients);
        let mut is_free = false;
        if let Some(block) = block {
            surely(|| is_free = frames.free(block, order).is_ok());
        }
        is_free
    }

    /// Rounds of direct reclaim until `wanted` frames came, or no more do: at most as many as one
    /// request may have. 0 if nothing in the zone was freed meanwhile, whatever the clients say (R8).
    fn reclaim(&self, frames: &mut Seat<'z, 'm, P>, wanted: u64, context: Context) -> u64 {
        if !(context.may_block && context.may_reclaim) {
            return 0;
        }
        let (config, zone) = (self.reclaim.config(), self.reclaim.zone());
        self.reclaim.count_stall(Order::ZERO);
        let happened = zone.happened();
        let (mut rounds, mut freed) = (0, 0u64);
        let mut next = Some(config.priority_first);
        while let Some(priority) = next
            && freed < wanted
        {
            let round = Round {
                behalf: Behalf::Direct,
                priority,
                wanted: wanted - freed,
                scan_max: u64::MAX,
                order: Order::ZERO,
                context,
            };
            let shrunk = self.reclaim.ask_all(frames, &self.clients, &round);
            rounds += 1;
            freed = freed.saturating_add(shrunk.freed);
            next = next_priority(config, priority, rounds, shrunk.freed);
        }
        if zone.happened() == happened {
            return 0;
        }
        freed
    }
}
