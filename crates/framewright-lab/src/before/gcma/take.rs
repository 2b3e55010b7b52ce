//! What owners do: the three passes.

use super::area::{ISOLATED, LRU, RECLAIMING};
use super::dmem::{BUCKETS, DmemClient, DmemEntry};
use super::{Conduct, Gcma, lock};
use framewright::Run;
use framewright::platform::ReservePlatform;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

impl<P: ReservePlatform> Gcma<P> {
    /// Takes the first run of `frames` frames, the first at a multiple of `align` frames, that no owner has,
    /// and drops the pages in it. `None` if there is no such run.
    ///
    /// Time: some tenths of a microsecond a page. Waits, without a bound, until no page in the run is
    /// being stored or loaded.
    ///
    /// # Panics
    /// If `frames` is 0 or `align` no power of two.
    #[must_use]
    pub fn take(&self, frames: u64, align: u64) -> Option<Run> {
        assert!(
            frames > 0 && align.is_power_of_two(),
            "a run has frames and is aligned"
        );
        let shift = (self.run.start().0 % align) as usize;
        let wanted = usize::try_from(frames).ok()?;
        let start = lock(&self.owners).take(wanted, usize::try_from(align).ok()?, shift)?;
        let taken = self.take_range(start..start + wanted);
        debug_assert!(taken, "no owner has it");
        Some(self.run_of(start..start + wanted))
    }

    /// Takes this run, which the caller has chosen, and drops the pages in it; whether no owner had a frame of it.
    ///
    /// Time and waiting as [`take`](Self::take).
    #[must_use]
    pub fn take_at(&self, run: Run) -> bool {
        if run.start() < self.run.start() || run.end() > self.run.end() {
            return false;
        }
        let start = (run.start().0 - self.run.start().0) as usize;
        let ids = start..start + run.frames() as usize;
        let is_free = lock(&self.owners).take_at(ids.clone());
        if is_free {
            let taken = self.take_range(ids);
            debug_assert!(taken, "no owner has it");
        }
        is_free
    }

    /// Gives a run back that [`take`](Self::take) or [`take_at`](Self::take_at) gave, or a part of one; whether all of it was
    /// an owner's.
    #[must_use]
    pub fn give_back(&self, run: Run) -> bool {
        let inside = run.start() >= self.run.start() && run.end() <= self.run.end();
        if !inside || run.is_empty() {
            return false;
        }
        let start = (run.start().0 - self.run.start().0) as usize;
        let ids = start..start + run.frames() as usize;
        let mut owners = lock(&self.owners);
        let is_owned = owners.has(ids.clone());
        if is_owned {
            self.free_range(ids.clone());
            owners.give_back(ids);
        }
        is_owned
    }

    fn run_of(&self, ids: Range<usize>) -> Run {
        let start = self.frame(ids.start);
        Run::new(start, ids.len() as u64).expect("inside the area")
    }

    /// What the document calls `gcma_alloc_contig`: a range that the caller has chosen. Whether it was
    /// free to take: with [`Conduct::AsPublished`] always (6).
    pub(super) fn take_range(&self, range: Range<usize>) -> bool {
        if self.conduct == Conduct::Mended
            && range.clone().any(|frame| self.flags[frame].has(ISOLATED))
        {
            return false;
        }
        let mut left = range.clone();
        let mut entries = Vec::new();
        let mut first_retry = None;
        let (mut attempt, mut taken_free) = (0, 0);
        loop {
            for frame in left.clone() {
                taken_free += u64::from(self.isolate(frame, &mut entries));
            }
            for (client, entry) in entries.drain(..) {
                self.drop_from_tree(entry);
                self.counts[client as usize].reclaimed.fetch_add(1, Relaxed);
            }
            let interrupted = left.clone().find(|&frame| !self.flags[frame].has(ISOLATED));
            let Some(frame) = interrupted else { break };
            first_retry.get_or_insert_with(Instant::now);
            // The published code keeps the length, and walks on behind the request (3).
            let end = match self.conduct {
                Conduct::AsPublished => (frame + range.len()).min(self.flags.len()),
                Conduct::Mended => range.end,
            };
            left = frame..end;
            self.platform.relax(attempt);
            attempt = attempt.saturating_add(1);
        }
        let mut counters = lock(&self.takes);
        counters.takes += 1;
        counters.taken_free += taken_free;
        counters.retries += u64::from(attempt);
        let waited = first_retry.map_or(0, |since| since.elapsed().as_nanos() as u64);
        counters.wait_ns += waited;
        true
    }

    /// What the document calls `gcma_free_contig`.
    pub(super) fn free_range(&self, range: Range<usize>) {
        let mut area = lock(&self.area);
        for frame in range {
            if self.conduct == Conduct::Mended {
                self.flags[frame].replace(0);
            }
            area.clear(frame);
        }
    }

    /// Whose page was last in a frame.
    fn client_of(&self, frame: usize) -> DmemClient {
        let home = self.homes[frame].load(Relaxed) as usize;
        self.pools[home / BUCKETS].client()
    }

    /// The first pass for one frame; whether it was free.
    fn isolate(&self, frame: usize, entries: &mut Vec<(DmemClient, Arc<DmemEntry>)>) -> bool {
        let flags = &self.flags[frame];
        {
            let mut area = lock(&self.area);
            if !area.is_used(frame) {
                area.set(frame);
                flags.replace(ISOLATED);
                return true;
            }
            if flags.has(ISOLATED) {
                return false;
            }
        }
        let client = self.client_of(frame);
        let mut lru = lock(&self.lrus[client as usize]);
        let mut area = lock(&self.area);
        if !area.is_used(frame) {
            // Freed between the two looks.
            area.set(frame);
            flags.replace(ISOLATED);
            return true;
        }
        if flags.has(ISOLATED) {
            return false;
        }
        flags.set(RECLAIMING);
        drop(area);
        // Where it is not on the list, it is being stored or freed, or another client's list has it since the
        // look: the next walk finds it.
        if flags.has(LRU)
            && self.client_of(frame) == client
            && let Some(entry) = lru.entry(frame)
        {
            lru.unlink(frame);
            flags.clear(LRU);
            entries.push((client, entry));
        }
        false
    }
}
