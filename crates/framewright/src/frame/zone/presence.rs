//! Which frames exist, and which tags say so.
//!
//! ```text
//!   a pageblock of which      the descriptor says          tags of the absent ones
//!   no frame ever existed     all of its frames absent     0, as of memory that was never written
//!   no frame exists           all of its frames absent     absent
//!   some frames exist         how many are absent          absent
//! ```
//!
//! So a zone without memory has no tag to write, and memory that comes in whole pageblocks for the first time has none either: it costs a
//! descriptor and a bitmap for each 512 frames. Where 64 GiB come at once, a tag for each frame would be 32 MiB to write,
//! and as many to read before.
//!
//! A tag of 0 begins no block, so what allocates and frees asks nothing else. Only what tells an absent frame from one
//! inside a block asks [`is_absent`](Zone::is_absent).
//!
//! # CPUs that look meanwhile
//! Presence changes with all CPUs stopped, but a look from outside of the seats
//! ([`find_present`](Zone::find_present)) goes on. If it sees that some frames of a pageblock exist, it must not read
//! tags from before the first one came, by which all would. So the tags are written before the descriptor, with a fence
//! between, and the look reads them the other way round.

use super::super::pageblock::Tag;
use super::Zone;
use crate::sync::{
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use crate::units::RunError;
use core::ops::Range;

impl<P> Zone<'_, P> {
    /// Whether no frame of the pageblock exists.
    fn is_void(&self, id: usize) -> bool {
        u64::from(self.facts(id).absent) == self.map.block_frames()
    }

    /// Whether the frame at `offset` does not exist.
    pub(in super::super) fn is_absent(&self, offset: usize) -> bool {
        self.tag(offset) == Tag::ABSENT || self.is_void(offset >> self.map.pageblock_order)
    }

    /// How many frames of the pageblock do not exist. What its tags say is no older than that.
    pub(super) fn absent_before_tags(&self, id: usize) -> usize {
        let absent = self.facts(id).absent as usize;
        fence(Acquire);
        absent
    }

    /// Whether none of the frames exists.
    ///
    /// # Errors
    /// The first that does.
    pub(super) fn none_present(&self, offsets: &Range<usize>) -> Result<(), RunError> {
        let mut result = Ok(());
        self.for_each_part(offsets, |id, slots| {
            if result.is_ok() && !self.is_void(id) {
                let first = id << self.map.pageblock_order;
                let mut all = first + slots.start..first + slots.end;
                let present = all.find(|offset| self.tag(*offset) != Tag::ABSENT);
                result = present.map_or(Ok(()), |at| Err(RunError::Present(self.frame(at))));
            }
        });
        result
    }

    /// Has the tags say that these absent frames of a pageblock exist. For use before its descriptor does.
    pub(super) fn tag_present(&self, id: usize, slots: &Range<usize>) {
        let is_blank = self.is_void(id) && self.tag(id << self.map.pageblock_order) == Tag::NONE;
        if is_blank {
            let frames = self.map.block_frames() as usize;
            self.tag_slots(id, 0..slots.start, Tag::ABSENT);
            self.tag_slots(id, slots.end..frames, Tag::ABSENT);
        } else {
            self.tag_slots(id, slots.clone(), Tag::NONE);
        }
        fence(Release);
    }

    fn tag_slots(&self, id: usize, slots: Range<usize>, tag: Tag) {
        let start = (id << self.map.pageblock_order) + slots.start;
        self.tags.fill(start, slots.len(), tag.0, Relaxed);
    }
}
