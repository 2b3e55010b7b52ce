//! The comparison between operations. What the model does not know, such as how a request was served inside, is taken
//! from the engine.

use super::{Difference, FramePair, differ};
use framewright::policy::Label;
use framewright::stats::FrameStats;

impl FramePair<'_, '_> {
    pub(super) fn compare_stats(&self) -> Result<(), Difference> {
        let stats = self.zone.stats();
        let mut expected = self.expected;
        expected.nr_free_pages = self.model.free_frames();
        // The model does not know how a request was served inside.
        let got = FrameStats {
            steals: expected.steals,
            relabels: expected.relabels,
            remote_frees: expected.remote_frees,
            drains: expected.drains,
            bad_frees: expected.bad_frees,
            ..stats
        };
        if got == expected {
            Ok(())
        } else {
            differ!("counters: the engine has {got:?}, the model {expected:?}")
        }
    }

    pub(super) fn verify_all(&self) -> Result<(), Difference> {
        if let Err(broken) = self.zone.verify() {
            return differ!("{broken}");
        }
        let counted = self.zone.recount();
        let got = (
            counted.present,
            counted.free + counted.cached,
            counted.allocated,
        );
        let must = (
            self.model.present_frames(),
            self.model.free_frames(),
            self.model.allocated_frames(),
        );
        if got == must {
            Ok(())
        } else {
            differ!("present, free, allocated: the engine counts {got:?}, the model {must:?}")
        }
    }

    /// Compares each pageblock's counts and label; only after a drain, when no frame is cached.
    pub(super) fn compare_pageblocks(&self) -> Result<(), Difference> {
        for block in 0..self.model.pageblocks() {
            let facts = self.zone.pageblock(block);
            let got = (facts.free, facts.absent, facts.by_mobility);
            let must = self.model.counts(block);
            if got != must {
                return differ!("pageblock {block}: the engine has {got:?}, the model {must:?}");
            }
            let label = match facts.label {
                Label::Of(_) => None,
                kept => Some(kept),
            };
            if label != self.model.kept_label(block) {
                return differ!("pageblock {block} has the label {:?}", facts.label);
            }
        }
        let mut got = [0; 21];
        for of_label in self.zone.free_blocks() {
            got.iter_mut().zip(of_label).for_each(|(sum, n)| *sum += n);
        }
        let must = self.model.free_blocks();
        if got == must {
            Ok(())
        } else {
            differ!("free blocks by order: the engine has {got:?}, the model {must:?}")
        }
    }
}
