//! A run that is emptied and taken must account for its contents: what moved, stayed or was dropped is compared with
//! what the clients saw.

use super::{ReclaimPair, with_clients};
use crate::difference::{Difference, differ};
use crate::reclaim::world::OperationCalls;
use framewright::RunError;
use framewright::policy::ContigConfig;
use framewright::reclaim::Clients;
use framewright::stats::ContigStats;
use framewright::{Frame, Run};

impl ReclaimPair<'_, '_, '_, '_> {
    pub(super) fn take_run(
        &mut self,
        cpu: u16,
        (at, frames): (usize, usize),
        config: &ContigConfig,
    ) -> Result<(), Difference> {
        let before = self.before();
        self.world.begin(OperationCalls {
            evacuates: true,
            ..OperationCalls::default()
        });
        let (world, reclaim) = (self.world, self.reclaim);
        let first = world.model().frames.frame(at);
        let run = Run::new(first, frames as u64).expect("small numbers");
        let can = self.can_take_run(at, frames);
        let seat = self.seats.run_on(world.machine, cpu).frames();
        let mut effort = ContigStats::default();
        let got = with_clients(world, |clients| {
            let clients = Clients {
                shrink: &[],
                migrate: clients.migrate,
            };
            reclaim.take_run(seat, run, &clients, config, &mut effort)
        });
        world.end()?;
        self.count(got.is_ok());
        let mut model = world.model();
        let counted = [
            effort.pages_migrated,
            effort.pages_stayed,
            effort.pages_discarded,
        ];
        let must = [model.calls.moved, model.calls.stayed, model.calls.dropped];
        if counted != must || effort.pages_reclaimed != 0 {
            return differ!("{effort:?}: moved, stayed and dropped were {must:?}");
        }
        match got {
            Ok(()) => {
                if !model.frames.can_alloc_run(at, frames) {
                    return differ!("{run:?} was taken, and is not free");
                }
                model.own_run(at, frames);
            }
            Err(
                error @ (RunError::Pinned(frame)
                | RunError::Busy(frame)
                | RunError::Unmovable(frame)
                | RunError::NoMemory(frame)),
            ) => {
                let end = Frame(run.end().0);
                if frame >= end {
                    return differ!("{frame} is in the way of {run:?}");
                }
                if can && !model.calls.meddled {
                    return differ!("nothing is in the way of {run:?}, but {error}");
                }
                if matches!(error, RunError::Pinned(_)) {
                    model.check_pinned(frame)?;
                }
            }
            Err(_) => {
                if can {
                    return differ!("{got:?}, but the run is good");
                }
            }
        }
        let batches = model.calls.batches;
        let tries = u64::from(config.tries);
        let passes = u64::from(config.passes);
        let most = tries * tries * passes * (frames as u64 / u64::from(config.batch) + 2);
        if batches > most {
            return differ!("R3: {batches} calls for {run:?}, at most {most}");
        }
        drop(model);
        self.check_counts(&before, None)
    }
}
