//! The recount of a zone from its tags alone. It is apart from the code that keeps the counts, and shares none of
//! it, so that an error there cannot hide here.

use super::{LinuxBuddy, MAX_ORDER};
use super::{frames::BuddyTag, marks};
use framewright::Mobility;

impl LinuxBuddy {
    /// Recounts everything and checks the invariants B1 to B5 the slow way.
    ///
    /// # Errors
    /// The first invariant that does not hold, with where and what.
    pub fn verify(&self) -> Result<(), String> {
        self.verify_blocks()?;
        self.verify_lists()?;
        self.verify_cached()?;
        self.verify_pageblocks()
    }

    /// Every block once: its first frame and its tag.
    fn blocks(&self) -> impl Iterator<Item = (u32, BuddyTag)> {
        (0..self.frames.count())
            .map(|frame| (frame, self.frames.tag(frame)))
            .filter(|&(_, tag)| tag != BuddyTag::INSIDE)
    }

    fn verify_blocks(&self) -> Result<(), String> {
        let (mut end, mut frames) = (0, 0);
        for (frame, tag) in self.blocks() {
            let len = 1u32 << tag.order();
            if tag.order() > MAX_ORDER || frame % len != 0 {
                return Err(format!(
                    "B1: {frame} starts a block of order {}",
                    tag.order()
                ));
            }
            if frame < end || frame + len > self.frames.count() {
                return Err(format!(
                    "B1: the block at {frame} overlaps or leaves the zone"
                ));
            }
            end = frame + len;
            frames += u64::from(len);
            let buddy = frame ^ len;
            if !self.unsettled
                && tag.is_free()
                && tag.order() < MAX_ORDER
                && buddy < self.frames.count()
                && self.frames.tag(buddy).is_free()
                && self.frames.tag(buddy).order() == tag.order()
            {
                return Err(format!("B3: {frame} and its buddy {buddy} are both free"));
            }
        }
        if frames != self.frames.present() {
            let present = self.frames.present();
            return Err(format!("B1: blocks hold {frames} frames of {present}"));
        }
        Ok(())
    }

    fn verify_lists(&self) -> Result<(), String> {
        let mut labelled = [0; 3];
        for &label in self.frames.label_list() {
            labelled[usize::from(label)] += 1;
        }
        if labelled != self.frames.labels() {
            let counted = self.frames.labels();
            return Err(format!(
                "B4: pageblocks by label are {labelled:?}, counted {counted:?}"
            ));
        }
        let mut listed = 0;
        for (mt, counted) in self.frames.free_blocks().iter().enumerate() {
            for (order, &count) in (0..=MAX_ORDER).zip(counted) {
                let mut len = 0;
                for frame in self.frames.free_list_frames(order, mt) {
                    let tag = self.frames.tag(frame);
                    if !tag.is_free() || tag.order() != order || tag.mt() != mt {
                        return Err(format!("B2: {frame} is on the list {order}/{mt}: {tag:?}"));
                    }
                    if self.policy.is_strict() && !self.carries_label(frame, order, mt) {
                        return Err(format!("B4: {frame} is not on its pageblock's list"));
                    }
                    len += 1;
                }
                if len != count {
                    return Err(format!(
                        "B2: the list {order}/{mt} has {len} blocks of {count}"
                    ));
                }
                listed += len;
            }
        }
        let frames = |(_, tag): (u32, BuddyTag)| u64::from(tag.is_free()) << tag.order();
        let (free_frames, counted) = (self.blocks().map(frames).sum::<u64>(), self.frames.free());
        if free_frames != counted {
            return Err(format!(
                "B2: {free_frames} frames are free, counted {counted}"
            ));
        }
        let free = self.blocks().filter(|(_, tag)| tag.is_free()).count() as u64;
        if free == listed {
            Ok(())
        } else {
            Err(format!("B2: {free} blocks are free, {listed} on lists"))
        }
    }

    fn carries_label(&self, frame: u32, order: u8, mt: usize) -> bool {
        let last = frame + (1 << order) - 1;
        (self.frames.pageblock(frame)..=self.frames.pageblock(last))
            .all(|pageblock| self.frames.label_at(pageblock) == Some(mt))
    }

    fn verify_cached(&self) -> Result<(), String> {
        let mut listed = 0;
        for (slot, percpu) in self.percpu.iter().enumerate() {
            let mut frames = 0;
            for list in slot * marks::LISTS..(slot + 1) * marks::LISTS {
                for frame in self.frames.cached_list_frames(list) {
                    let tag = self.frames.tag(frame);
                    if !tag.is_cached() {
                        return Err(format!("B2: {frame} is cached by cpu {slot}: {tag:?}"));
                    }
                    frames += 1 << tag.order();
                    listed += 1;
                }
            }
            if frames != percpu.count {
                let count = percpu.count;
                return Err(format!(
                    "B2: cpu {slot} caches {frames} frames, not {count}"
                ));
            }
        }
        let cached = self.blocks().filter(|(_, tag)| tag.is_cached()).count();
        if cached == listed {
            Ok(())
        } else {
            Err(format!("B2: {cached} blocks are cached, {listed} on lists"))
        }
    }

    fn verify_pageblocks(&self) -> Result<(), String> {
        let mut recount = vec![(0, 0); self.frames.pageblocks()];
        for (frame, tag) in self.blocks() {
            let movable = tag.is_allocated() && tag.mt() == Mobility::Movable.index();
            for at in frame..frame + (1 << tag.order()) {
                let counts = &mut recount[self.frames.pageblock(at)];
                counts.0 += u32::from(tag.is_free());
                counts.1 += u32::from(movable);
            }
        }
        for (pageblock, &counts) in recount.iter().enumerate() {
            let kept = self.frames.pageblock_counts(pageblock);
            if kept != counts {
                return Err(format!(
                    "B5: pageblock {pageblock} counts {kept:?} free and movable, has {counts:?}"
                ));
            }
        }
        Ok(())
    }
}
