//! The recount of a zone from its tags alone, which shares nothing with the code that keeps the counts.

use super::Kernel310;
use super::lists::{ASKED, CMA, Tag310};
use crate::before::buddy::MAX_ORDER;
use crate::pressure::LISTS;

impl Kernel310 {
    /// Recounts everything and checks the invariants LK1 to LK5 the slow way.
    ///
    /// # Errors
    /// The first invariant that does not hold, with where and what.
    pub fn verify(&self) -> Result<(), String> {
        self.verify_blocks()?;
        self.verify_lists()?;
        self.verify_cached()
    }

    /// Every block once: its first frame, its length in frames, its tag.
    fn blocks(&self) -> impl Iterator<Item = (u32, u32, Tag310)> {
        (0..self.zone.count())
            .map(|frame| (frame, self.zone.tag(frame)))
            .filter(|&(_, tag)| tag.is_free() || tag.is_cached() || tag.is_allocated())
            .map(|(frame, tag)| {
                let order = if tag.is_cached() { 0 } else { tag.order() };
                (frame, 1 << order, tag)
            })
    }

    fn verify_blocks(&self) -> Result<(), String> {
        if self.zone.tags().contains(&Tag310::ISOLATED) {
            return Err("LK5: a frame is isolated".into());
        }
        let (mut end, mut frames) = (0, 0);
        for (frame, len, tag) in self.blocks() {
            if len > 1 << MAX_ORDER || frame % len != 0 {
                return Err(format!("LK1: {frame} starts a block of {len} frames"));
            }
            if frame < end || frame + len > self.zone.count() {
                return Err(format!(
                    "LK1: the block at {frame} overlaps or leaves the zone"
                ));
            }
            if (frame + 1..frame + len).any(|inside| self.zone.tag(inside) != Tag310::INSIDE) {
                return Err(format!(
                    "LK1: something else begins in the block at {frame}"
                ));
            }
            end = frame + len;
            frames += u64::from(len);
            let buddy = frame ^ len;
            if tag.is_free()
                && tag.order() < MAX_ORDER
                && buddy < self.zone.count()
                && self.zone.tag(buddy).is_free()
                && self.zone.tag(buddy).order() == tag.order()
            {
                return Err(format!("LK3: {frame} and its buddy {buddy} are both free"));
            }
        }
        let present = self.zone.present();
        if frames != present {
            return Err(format!("LK1: blocks hold {frames} frames of {present}"));
        }
        Ok(())
    }

    fn verify_lists(&self) -> Result<(), String> {
        let (mut listed, mut free, mut free_cma) = (0, 0, 0);
        for list in 0..LISTS {
            for order in 0..=MAX_ORDER {
                let mut len = 0;
                for frame in self.zone.free_list_frames(order, list) {
                    let tag = self.zone.tag(frame);
                    if !tag.is_free() || tag.order() != order || tag.list() != list {
                        return Err(format!(
                            "LK2: {frame} is on the list {list}/{order}: {tag:?}"
                        ));
                    }
                    if (self.zone.label(frame) == CMA) != (list == CMA) {
                        return Err(format!("LK4: {frame} is on the list {list}"));
                    }
                    len += 1;
                }
                let counted = self.zone.free_count()[list][usize::from(order)];
                let is_marked = self.zone.orders_of(list) >> order & 1 == 1;
                if len != counted || is_marked != (len > 0) {
                    return Err(format!(
                        "LK2: the list {list}/{order} has {len} blocks of {counted}"
                    ));
                }
                listed += len;
                free += u64::from(len) << order;
                free_cma += if list == CMA {
                    u64::from(len) << order
                } else {
                    0
                };
            }
        }
        let blocks = self.blocks().filter(|(.., tag)| tag.is_free()).count();
        if listed as usize != blocks {
            return Err(format!("LK2: {blocks} blocks are free, {listed} on lists"));
        }
        if (free, free_cma) != (self.zone.free(), self.zone.free_cma()) {
            return Err(format!(
                "LK2: {free} frames are free, of them {free_cma} contiguous"
            ));
        }
        Ok(())
    }

    fn verify_cached(&self) -> Result<(), String> {
        let mut listed = 0;
        for (cpu, &count) in self.cached.iter().enumerate() {
            let mut frames = 0;
            for list in cpu * ASKED..(cpu + 1) * ASKED {
                for frame in self.zone.cached_list_frames(list) {
                    let tag = self.zone.tag(frame);
                    if !tag.is_cached() {
                        return Err(format!("LK2: {frame} is cached by cpu {cpu}: {tag:?}"));
                    }
                    frames += 1;
                }
            }
            if frames != count {
                return Err(format!(
                    "LK2: cpu {cpu} caches {frames} frames, not {count}"
                ));
            }
            listed += frames as usize;
        }
        let cached = self.blocks().filter(|(.., tag)| tag.is_cached()).count();
        if cached == listed {
            Ok(())
        } else {
            Err(format!(
                "LK2: {cached} frames are cached, {listed} on lists"
            ))
        }
    }
}
