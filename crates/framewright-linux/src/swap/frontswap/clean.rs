//! Cleaning: dirty pages go to the device later.

use super::entry::{SwapEntry, SwapEntryKind};
use super::stats::count;
use super::{AtomicU64, Frontswap, SwapError, SwapPolicy};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A page that is being written: dirty again if that unwinds, unless it was stored anew meanwhile.
struct WritingPage<'f> {
    word: &'f AtomicU64,
    writing: SwapEntry,
    dirty: SwapEntry,
}

impl Drop for WritingPage<'_> {
    fn drop(&mut self) {
        let (writing, dirty) = (self.writing.0, self.dirty.0);
        let _ = self.word.compare_exchange(writing, dirty, AcqRel, Relaxed);
    }
}

impl Frontswap<'_> {
    /// Has up to `pages` dirty pages written. Returns how many are on the device now that were not.
    /// One thread cleans at a time; a call from another one does nothing. Takes a seat of the
    /// store's meanwhile.
    pub fn clean(&self, pages: u64) -> u64 {
        self.sweep(pages).0
    }

    /// The same; also returns the first error.
    pub(super) fn sweep(&self, pages: u64) -> (u64, Option<SwapError>) {
        let (mut written, mut failed) = (0, None);
        let Some(front) = self.front else {
            return (written, failed);
        };
        self.forget_left();
        // While it is held, no page gets a version again that it had before.
        let _cleaning = self.cleaning.read().unwrap_or_else(PoisonError::into_inner);
        front.tenancy.clean(pages, &mut |key, contents| {
            let is_ours = key.pool == front.pool && key.object == front.object;
            let cleaned = is_ours.then(|| self.clean_one(key.index, contents));
            match cleaned {
                Some(Ok(true)) => {
                    written += 1;
                    return true;
                }
                Some(Err(error)) => {
                    failed.get_or_insert(error);
                }
                Some(Ok(false)) | None => {}
            }
            false
        });
        (written, failed)
    }

    /// Whether more than half of the pages that may be dirty are.
    pub(crate) fn wants_cleaning(&self) -> bool {
        match self.front.map(|front| front.policy) {
            Some(SwapPolicy::WriteBack { dirty_max }) => self.dirty_pages() > dirty_max / 2,
            Some(SwapPolicy::WriteThrough | SwapPolicy::PutBack { .. }) | None => false,
        }
    }

    /// Writes the page that the store has under `index`. Returns whether the page is on the device
    /// now, and was not.
    fn clean_one(&self, index: u64, contents: &[u64; 512]) -> Result<bool, SwapError> {
        let page = SwapEntry::page_of(index);
        let word = self.entry(page)?;
        let dirty = SwapEntry(word.load(Acquire));
        let writing = dirty.with_kind(SwapEntryKind::Writing);
        // Since the store copied them for us, the page may have been got back and stored anew: then
        // the entry is about other contents. (It cannot be the same version once more, because
        // `cleaning` is held.)
        let is_dirty = dirty.kind() == SwapEntryKind::Dirty && dirty.index(page) == index;
        if !is_dirty
            || word
                .compare_exchange(dirty.0, writing.0, AcqRel, Relaxed)
                .is_err()
        {
            return Ok(false);
        }
        // Never into the page's own slot: it may have been stored anew meanwhile, and then only
        // that slot has it.
        let unwound = WritingPage {
            word,
            writing,
            dirty,
        };
        let slot = self.write_to(self.slots.alloc(), page, contents);
        std::mem::forget(unwound);
        let after = match &slot {
            Ok(slot) => writing
                .with_kind(SwapEntryKind::Device)
                .with_slot(*slot)
                .in_store(true),
            Err(_) => dirty,
        };
        // The page may have been got back, stored anew or invalidated meanwhile: then this is an
        // old version (FS2).
        let is_current = word.compare_exchange(writing.0, after.0, AcqRel, Relaxed);
        let slot = slot?;
        count(&self.counts.device_writes);
        if is_current.is_err() {
            self.free_slot(slot);
            return Ok(false);
        }
        self.dirty.fetch_sub(1, Relaxed);
        count(&self.counts.cleaned);
        Ok(true)
    }
}
