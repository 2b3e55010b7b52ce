//! Clients as the engine sees them. All that they do is decided and recorded in the world, under the mood that a run
//! has set.

use super::world::{OwnFrames, World};
use super::{CLIENTS, mood};
use framewright::reclaim::{Ask, Clients, Discard, Migrate, Move, MoveState, Shrink, Shrunk};

/// A simulated client: it holds the objects of that owner.
pub(super) struct SimClient<'w, 'z, 'm> {
    pub(super) world: &'w World<'z, 'm>,
    pub(super) nth: usize,
}

/// A client that is asked first, knows no frame, and sees all moves.
pub(super) struct Watch<'w, 'z, 'm>(pub(super) &'w World<'z, 'm>);

impl<'z, 'm> Shrink<OwnFrames<'z, 'm>> for SimClient<'_, 'z, 'm> {
    fn holding(&self) -> u64 {
        self.world.model().holding(self.nth)
    }

    fn heat(&self) -> u8 {
        // The second is hotter.
        [0, 200][self.nth % 2]
    }

    fn shrink(&self, frames: &mut OwnFrames<'z, 'm>, ask: &Ask) -> Shrunk {
        let of = (ask.wanted, ask.scan);
        let (scanned, freed) = self.world.shrink(self.nth, frames, of, ask.context);
        Shrunk { scanned, freed }
    }
}

impl Migrate for SimClient<'_, '_, '_> {
    fn migrate(&self, moves: &mut [Move]) {
        self.world.migrate(self.nth, moves);
    }

    fn discard(&self, blocks: &mut [Discard]) {
        self.world.discard(self.nth, blocks);
    }
}

impl Migrate for Watch<'_, '_, '_> {
    fn migrate(&self, moves: &mut [Move]) {
        debug_assert!(moves.iter().all(|of| of.state == MoveState::Unknown));
        self.0.see_first(moves);
    }
}

/// Hands all clients in.
pub(super) fn with_clients<'z, 'm, R>(
    world: &World<'z, 'm>,
    work: impl FnOnce(&Clients<'_, OwnFrames<'z, 'm>>) -> R,
) -> R {
    let clients: [SimClient<'_, 'z, 'm>; CLIENTS] =
        std::array::from_fn(|nth| SimClient { world, nth });
    let watch = Watch(world);
    let [first, second] = &clients;
    work(&Clients {
        shrink: &[first, second],
        migrate: &[&watch, first, second],
    })
}

/// Moods that are drawn: one bit at a time mostly.
pub(super) const MOODS: [u8; 10] = [
    mood::REFUSES,
    mood::FORGETS,
    mood::ALLOCATES,
    mood::FREES,
    mood::PROBES,
    mood::EXCHANGES,
    mood::PINS,
    mood::HOARDS,
    mood::PROBES | mood::FREES | mood::EXCHANGES,
    mood::ALLOCATES | mood::PINS | mood::FREES,
];
