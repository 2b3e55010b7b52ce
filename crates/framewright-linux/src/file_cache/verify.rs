//! The slow, obvious recount.

use super::slots::{PageKey, SlotState};
use super::{FileCache, PAGE};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;

/// What [`verify`](FileCache::verify) found wrong, with the frame's number in the RAM or the page's in its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BrokenFiles {
    /// The invariant, or the statement that is false.
    pub rule: &'static str,
    /// Where.
    pub at: u64,
}

impl fmt::Display for BrokenFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {})", self.rule, self.at)
    }
}

impl std::error::Error for BrokenFiles {}

impl FileCache<'_> {
    /// Checks the [invariants](super) that can be seen while the cache is not in use. Time:
    /// O(frames of the RAM).
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn verify(&self) -> Result<(), BrokenFiles> {
        let check = |holds: bool, rule, at| {
            if holds {
                Ok(())
            } else {
                Err(BrokenFiles { rule, at })
            }
        };
        let mut stock = BTreeSet::new();
        let mut at = *self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        while at != super::NONE {
            check(stock.insert(at), "the stock is a list", at.into())?;
            at = self.table.slot(at).next();
        }
        let queue = self.queue.verify(&self.table.slots);
        let queue = queue.map_err(|at| BrokenFiles {
            rule: "the eviction queue is a list with a hand in it",
            at: at.into(),
        })?;
        let mut dirty = BTreeSet::new();
        let mut pages = BTreeSet::new();
        for id in 0..self.ram.frames().frames() as u32 {
            let slot = self.table.slot(id);
            let at = u64::from(id);
            let state = slot.state();
            let is_known = stock.contains(&id) == (state == SlotState::Held);
            check(is_known, "a held, empty frame is in the stock", at)?;
            let is_queued = queue.contains(&id) == (state == SlotState::Ready);
            check(is_queued, "a Ready frame is in the eviction queue", at)?;
            check(slot.is_idle(), "no thread uses the cache", at)?;
            check(!slot.is_writing(), "FC2: nothing is being written", at)?;
            let is_pinned = slot.pins() > 0;
            let may =
                matches!(state, SlotState::Ready) || is_pinned == (state == SlotState::Orphan);
            check(may, "FC6: pinned is a page or an orphan", at)?;
            match state {
                SlotState::Free | SlotState::Held | SlotState::Orphan => continue,
                SlotState::Ready => {}
                SlotState::Filling | SlotState::Leaving | SlotState::Moving => {
                    check(false, "FC1: nothing is in transit", at)?;
                }
            }
            let key = slot.key();
            let is_found = self.table.lock(key).find() == Some(id);
            check(is_found, "FC1: a page is found where it is", at)?;
            check(
                pages.insert((key.file, key.page)),
                "FC1: a page has one frame",
                at,
            )?;
            if slot.is_dirty() {
                dirty.insert((key.file, key.page));
            }
        }
        let counted = self.counters.dirty.load(Relaxed);
        check(
            counted == dirty.len() as u64,
            "dirty pages are counted",
            counted,
        )?;
        for inode in self.files.every() {
            let listed = inode.dirty().pages.clone();
            for &page in &listed {
                dirty.remove(&(inode.id, page));
            }
            let len = inode.len();
            let file = inode.id;
            let of_file = pages.range((file, 0)..=(file, u64::MAX));
            for &(_, page) in of_file {
                check(page * PAGE < len, "no page is past the end", page)?;
            }
            if !len.is_multiple_of(PAGE) {
                self.verify_tail(file, len)?;
            }
        }
        let unlisted = dirty.first().map_or(0, |(_, page)| *page);
        check(
            dirty.is_empty(),
            "FC2: a dirty page is in its file's set",
            unlisted,
        )
    }

    fn verify_tail(&self, file: u64, len: u64) -> Result<(), BrokenFiles> {
        let page = len / PAGE;
        let locked = self.table.lock(PageKey { file, page });
        let Some(id) = locked.find() else {
            return Ok(());
        };
        let mut tail = vec![0; (PAGE - len % PAGE) as usize];
        let words = self.ram.words(self.table.frame(id));
        let words = words.expect("the cache's frames are in its RAM");
        crate::words::load(words, (len % PAGE) as usize, &mut tail);
        if tail.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        Err(BrokenFiles {
            rule: "FC5: behind the end is zero",
            at: page,
        })
    }
}
