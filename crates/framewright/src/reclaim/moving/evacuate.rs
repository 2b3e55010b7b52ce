//! Empties whole pageblocks and leaves them isolated.

use super::emptying::Emptying;
use crate::frame::{NotApart, Seat, TargetRoom};
use crate::platform::FramePlatform;
use crate::reclaim::state::MoveTally;
use crate::reclaim::{Migrate, Obstacle, Reclaim};
use crate::units::{Run, RunError};

impl<'m, P: FramePlatform> Reclaim<'_, 'm, P> {
    /// Empties the whole pageblocks of `run` and leaves them isolated and free, until
    /// [`unisolate`](crate::frame::Zone::unisolate). Their contents move to wherever the policy has
    /// room. Frames that do not exist are no obstacle.
    ///
    /// Stops all CPUs twice, and twice more for a block that reaches into pageblocks beside the
    /// run: those must not be pinned either. Time: O(frames of the run), and for each frame moved
    /// the time of its client.
    ///
    /// # Errors
    /// What is in the way, or what is wrong with the run. Nothing is isolated then; contents that have
    /// moved stay moved.
    ///
    /// # Panics
    /// If `seat` is in another zone.
    pub fn evacuate(
        &self,
        seat: &mut Seat<'_, 'm, P>,
        run: Run,
        movers: &[&dyn Migrate],
    ) -> Result<u64, RunError> {
        let zone = self.zone();
        assert!(
            core::ptr::addr_eq(seat.zone(), zone),
            "a seat in the zone of the run"
        );
        let ids = zone.pageblocks_of(run)?;
        let area = zone.offsets_of(&ids);
        let first_of = |id: usize| zone.frame_at(zone.offsets_of(&(id..id)).start);
        let apart = zone.set_apart(ids).map_err(|refused| match refused {
            NotApart::Isolated(id) => RunError::Isolation(first_of(id)),
            NotApart::Pinned(id) => Obstacle::Pinned.at(first_of(id)),
            NotApart::Reserved(id) => Obstacle::Unmovable.at(first_of(id)),
        })?;
        let mut emptying = Emptying {
            seat,
            movers,
            room: TargetRoom::Anywhere,
            holes: true,
            tally: MoveTally::default(),
            counts: self.state,
        };
        let result = emptying.empty(&apart, area);
        let tally = emptying.tally;
        match result {
            Ok(()) => {
                apart.keep_isolated();
                Ok(tally.moved)
            }
            Err(in_the_way) => Err(in_the_way.why.at(zone.frame_at(in_the_way.offset))),
        }
    }
}
