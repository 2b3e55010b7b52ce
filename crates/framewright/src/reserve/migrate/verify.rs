//! The slow check of the invariants, for an area at rest.

use super::{FrameBits, MigrateArea};
use crate::frame::ApartContent;
use crate::platform::FramePlatform;
use crate::policy::Label;
use crate::stats::Broken;
use crate::sync::Ordering::Relaxed;
use crate::units::Mobility;

impl<P: FramePlatform> MigrateArea<'_, '_, '_, P> {
    /// Checks every invariant that can be seen while no other CPU is at work. O(frames).
    ///
    /// # Errors
    /// The first that does not hold, with the frame's number in the area.
    pub fn verify(&self) -> Result<(), Broken> {
        let zone = self.reclaim.zone();
        let frames = self.run.frames() as usize;
        let has = |bits, at: usize| {
            let word = self.bitmap(bits)[at / 64].load(Relaxed);
            word >> (at % 64) & 1 != 0
        };
        for at in 0..frames {
            let broken = |invariant| {
                let at = at as u64;
                Err(Broken { invariant, at })
            };
            let owned = has(FrameBits::Owned, at);
            if owned && !self.is_unmovable(self.first + at) {
                return broken("M1");
            }
            if owned != has(FrameBits::Claimed, at) {
                return broken("M3");
            }
            let run = self.run_of_ids(&(at..at + 1));
            let needs = |frame| {
                let all = self.reservations.all();
                { all }.filter(|entry| entry.run().contains(frame)).count()
            };
            if needs(run.start()) != usize::from(has(FrameBits::Reserved, at)) {
                return broken("M2");
            }
        }
        for entry in self.reservations.all() {
            let ids = self.ids_of(entry.run());
            let at = ids.as_ref().map_or(0, |ids| ids.start);
            let broken = Err(Broken {
                invariant: "M2",
                at: at as u64,
            });
            let Some(ids) = ids else { return broken };
            // A reservation is taken as a whole, or not at all.
            let owned = ids.clone().filter(|&at| has(FrameBits::Owned, at)).count();
            if owned != if entry.is_taken() { ids.len() } else { 0 } {
                return broken;
            }
        }
        let ids = zone.pageblock_of(self.first)..zone.pageblock_of(self.first + frames - 1) + 1;
        for id in ids {
            let is_contiguous = zone.pageblock(id).label == Label::Contiguous;
            if zone.pins_if_open(id).is_none() || !is_contiguous {
                let at = zone.offsets_of(&(id..id)).start - self.first;
                return Err(Broken {
                    invariant: "M3",
                    at: at as u64,
                });
            }
        }
        Ok(())
    }

    pub(super) fn is_unmovable(&self, offset: usize) -> bool {
        let zone = self.reclaim.zone();
        let mobility = match zone.content(offset) {
            ApartContent::Block(_, mobility) => Some(mobility),
            _ => zone.block_around(offset).map(|(_, _, mobility)| mobility),
        };
        mobility == Some(Mobility::Unmovable)
    }
}
