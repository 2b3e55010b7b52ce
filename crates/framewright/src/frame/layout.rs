//! The layout of a zone: what the user chooses, and where each part of the metadata then lies.
//!
//! `Map` checks the layout once, before there is a zone; nothing of it changes later. The zone cuts
//! its memory in the order of `Map::parts`, from the start of a cache line on. What different CPUs
//! write (seats, descriptors) is a number of whole lines for each of them.

use super::pageblock::{IndexShape, PageblockRecord, SEATS_MAX};
use super::seat::SeatRecord;
use super::zone::ZoneRecord;
use crate::policy::Classes;
use crate::raw::{Carver, Halves, RawRecord};
use crate::slots;
use crate::units::{FRAMES_MAX, Frame, Order, SetupError};

/// The place and the shape of a zone. It determines the size of the metadata.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneLayout {
    /// The lowest frame that may ever exist in the zone; any number.
    pub start: Frame,
    /// How many frames from there on may exist, holes included.
    pub frames: u64,
    /// The order of the pageblocks, 1 to 10: 9 for pageblocks of 512 frames.
    pub pageblock_order: Order,
    /// The largest order served, at least the pageblocks'.
    pub max_order: Order,
    /// How many CPUs may have a seat, 1 to 1023.
    pub cpus: u16,
}

impl ZoneLayout {
    /// A zone with pageblocks of 512 frames that serves orders 0 to 10, for one CPU.
    #[must_use]
    pub const fn new(start: Frame, frames: u64) -> Self {
        Self {
            start,
            frames,
            pageblock_order: Order::new(9).unwrap(),
            max_order: Order::new(10).unwrap(),
            cpus: 1,
        }
    }

    /// The same for `cpus` CPUs.
    #[must_use]
    pub const fn with_cpus(mut self, cpus: u16) -> Self {
        self.cpus = cpus;
        self
    }

    /// The same with pageblocks of `pageblock_order` and blocks up to `max_order`.
    #[must_use]
    pub const fn with_orders(mut self, pageblock_order: Order, max_order: Order) -> Self {
        self.pageblock_order = pageblock_order;
        self.max_order = max_order;
        self
    }

    /// How many words of metadata the zone needs.
    ///
    /// From 256 MiB on, and with pageblocks of 512 frames of 4 KiB, they are less than a
    /// thousandth of the memory: a pageblock takes 1.0 KiB of tags, two bitmaps and a descriptor
    /// of 64 bytes each and some 300 bytes of index, in all 0.07 % of its 2 MiB; a CPU takes
    /// 3.1 KiB and the policy's tables some 60 KiB, whatever the zone's size.
    ///
    /// # Errors
    /// If no zone can have the layout.
    pub fn words_needed(&self) -> Result<usize, SetupError> {
        Ok(Map::new(self)?.words)
    }

    /// How many pageblocks the zone has, the first and the last perhaps in part.
    pub(crate) fn pageblocks(&self) -> Result<usize, SetupError> {
        Ok(Map::new(self)?.blocks)
    }
}

const LINE_WORDS: usize = 8;

/// Where each part lies in the words handed in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map {
    /// The range in which frames may exist, half-open.
    pub(super) start: Frame,
    pub(super) end: Frame,
    /// The first frame of the first pageblock.
    pub(super) origin: u64,
    pub(super) blocks: usize,
    pub(super) pageblock_order: u8,
    pub(super) max_order: u8,
    pub(super) cpus: u16,
    pub(super) words_per_block: usize,
    pub(super) index: IndexShape,
    pub(super) words: usize,
}

impl Map {
    pub(super) fn new(layout: &ZoneLayout) -> Result<Self, SetupError> {
        let order = layout.pageblock_order;
        let [block, max] = [order, layout.max_order].map(|order| u64::from(order.get()));
        let cpus = u64::from(layout.cpus);
        SetupError::limit("pageblock_order", block, 1, 10)?;
        SetupError::limit("max_order", max, block, Order::MAX.get().into())?;
        SetupError::limit("number of CPUs", cpus, 1, SEATS_MAX as u64 - 1)?;
        SetupError::limit("number of frames", layout.frames, 1, u64::MAX)?;
        let past = SetupError::End {
            what: "a zone's frames",
            start: layout.start.0,
        };
        let end = layout.start.checked_add(layout.frames).ok_or(past)?;
        let top = end.align_up(order).ok_or(past)?;
        let origin = layout.start.align_down(order);
        let span = top.0 - origin.0;
        SetupError::limit("number of frames", span, 1, FRAMES_MAX)?;
        let blocks = (span >> order.get()) as usize;
        let words_per_block = slots::words_needed(order.frames() as usize);
        let index = IndexShape::new(order.index() + 1, Classes::new(order).count(), blocks);
        let mut map = Self {
            start: layout.start,
            end,
            origin: origin.0,
            blocks,
            pageblock_order: order.get(),
            max_order: layout.max_order.get(),
            cpus: layout.cpus,
            words_per_block,
            index,
            words: 0,
        };
        let seats = (usize::from(layout.cpus) + 1) * SeatRecord::WORDS;
        let descriptors = blocks * PageblockRecord::WORDS;
        let parts = map.parts().iter().sum::<usize>();
        map.words = Carver::words_needed(ZoneRecord::WORDS + seats + descriptors + parts);
        Ok(map)
    }

    /// The lengths of the parts behind the records (the zone's own, the seats', one of them for work outside the
    /// CPUs' seats, and the descriptors), in the order in which they lie: free bitmaps, remote bitmaps, index, tags.
    /// The index is rounded up to whole cache lines, so that the tags of each 64 frames are exactly two lines: a CPU
    /// with those frames shares no line with a CPU that has the next ones.
    pub(super) fn parts(&self) -> [usize; 4] {
        let bitmaps = self.blocks * self.words_per_block;
        [
            bitmaps,
            bitmaps,
            self.index.words().next_multiple_of(LINE_WORDS),
            Halves::words_needed(self.blocks << self.pageblock_order),
        ]
    }

    pub(super) const fn block_frames(&self) -> u64 {
        1 << self.pageblock_order
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn metadata_is_at_most_a_thousandth_from_256_mib_on() {
        for (mib, cpus) in [(256, 2), (1024, 16), (4096, 2), (1 << 20, 128)] {
            let frames = mib << 8;
            if frames > FRAMES_MAX {
                continue;
            }
            let layout = ZoneLayout::new(Frame(0), frames).with_cpus(cpus);
            let bytes = layout.words_needed().unwrap() as u64 * 8;
            let limit = frames * 4096 / 1000;
            assert!(bytes <= limit, "{mib} MiB: {bytes} of {limit} bytes");
        }
    }

    #[test]
    fn a_layout_that_no_zone_can_have_is_refused_with_its_number() {
        let good = ZoneLayout::new(Frame(5), 1000);
        let order = |order| Order::new(order).unwrap();
        let too_many =
            std::format!("number of frames 8589935104 is above the maximum {FRAMES_MAX}");
        let refused = [
            (
                ZoneLayout { frames: 0, ..good },
                "number of frames 0 is below the minimum 1",
            ),
            (
                ZoneLayout {
                    start: Frame(u64::MAX - 10),
                    frames: 10,
                    ..good
                },
                "a zone's frames from 0xfffffffffffffff5 end past the number range",
            ),
            (
                ZoneLayout {
                    frames: 1 << 33,
                    ..good
                },
                &too_many,
            ),
            (
                good.with_orders(order(11), order(11)),
                "pageblock_order 11 is above the maximum 10",
            ),
            (
                good.with_orders(order(0), order(3)),
                "pageblock_order 0 is below the minimum 1",
            ),
            (
                good.with_orders(order(9), order(8)),
                "max_order 8 is below the minimum 9",
            ),
            (good.with_cpus(0), "number of CPUs 0 is below the minimum 1"),
            (
                good.with_cpus(1024),
                "number of CPUs 1024 is above the maximum 1023",
            ),
        ];
        for (layout, message) in refused {
            assert_eq!(layout.words_needed().unwrap_err().to_string(), message);
        }
        assert!(good.words_needed().is_ok());
    }
}
