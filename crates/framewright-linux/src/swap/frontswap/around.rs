//! Loads neighbouring pages together: one request for what lies side by side on the device.

use super::entry::{SwapEntry, SwapEntryKind};
use super::stats::count;
use super::{Frontswap, LoadedPage, SwapError};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// The most pages that are loaded together.
pub(crate) const AROUND_MAX: usize = 32;

impl Frontswap<'_> {
    /// Loads as many neighbouring pages from `first` on as `contents` has, at most [`AROUND_MAX`], each as
    /// [`load`](Self::load) does; those that lie in neighbouring slots by one request. Appends to `loaded` what each
    /// of them was.
    ///
    /// # Errors
    /// Of the first page that could not be loaded. Those before it are in `loaded`.
    pub(crate) fn load_run(
        &self,
        first: u64,
        contents: &mut [[u64; 512]],
        loaded: &mut Vec<LoadedPage>,
    ) -> Result<(), SwapError> {
        // A copy of what is on the device, too: if a page before it fails, it can be loaded again.
        let mut is_got = [false; AROUND_MAX];
        for (nth, page) in contents.iter_mut().enumerate() {
            is_got[nth] = self.got_copy(first + nth as u64, page);
        }
        let mut at = 0;
        while at < contents.len() {
            let page = first + at as u64;
            if is_got[at] {
                loaded.push(LoadedPage::Clean);
                at += 1;
                continue;
            }
            let run = self.slots_together(page, &is_got[at..contents.len()]);
            if let Some((slot, pages)) = run
                // If it fails, each by itself says which of them it is.
                && self.device.read_run(slot, &mut contents[at..at + pages]).is_ok()
            {
                for page in page..page + pages as u64 {
                    count(&self.counts.device_loads);
                    self.got(&self.entries[page as usize]);
                    loaded.push(LoadedPage::Clean);
                }
                at += pages;
                continue;
            }
            loaded.push(self.load(page, &mut contents[at])?);
            at += 1;
        }
        Ok(())
    }

    /// Whether the store had a copy of a page that is on the device, which is in `contents` then. Else notes that the
    /// store has none.
    fn got_copy(&self, page: u64, contents: &mut [u64; 512]) -> bool {
        let (Some(word), Some(front)) = (self.entries.get(page as usize), self.front) else {
            return false;
        };
        let entry = SwapEntry(word.load(Acquire));
        if entry.kind() != SwapEntryKind::Device || !entry.is_in_store() {
            return false;
        }
        let mut is_hit = false;
        let key = Self::key(&front, page, entry);
        front.tenancy.with(&mut |store| {
            is_hit = store.get(key, contents);
            store.invalidate_page(key);
        });
        if is_hit {
            count(&self.counts.store_loads);
        }
        let _ = word.compare_exchange(entry.0, entry.in_store(false).0, AcqRel, Relaxed);
        is_hit
    }

    /// The slot of `page`, and how many pages from it on lie in neighbouring slots and nowhere else, if that is more
    /// than one. `is_got` says of each of these pages whether the caller has it.
    fn slots_together(&self, page: u64, is_got: &[bool]) -> Option<(u64, usize)> {
        let slot_of = |page: u64| {
            let entry = SwapEntry(self.entries.get(page as usize)?.load(Acquire));
            let is_there = entry.kind() == SwapEntryKind::Device && !entry.is_in_store();
            (is_there && !entry.is_lost()).then(|| entry.slot())
        };
        let slot = slot_of(page)?;
        let is_next = |nth: &u64| !is_got[*nth as usize] && slot_of(page + nth) == Some(slot + nth);
        let pages = (0..is_got.len() as u64).take_while(is_next).count();
        (pages > 1).then_some((slot, pages))
    }
}
