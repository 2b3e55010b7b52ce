//! The counters as a user sees them, and those that no shard of the table has.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters of a [`FileCache`](super::FileCache) since it was made, in pages, read one by one:
/// while threads work they may be some operations apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileStats {
    /// Uses that found their page.
    pub hits: u64,
    /// Uses that did not: it came from the cleancache or the file.
    pub misses: u64,
    /// Hits that were the first use of a page that was read ahead.
    pub ahead_hits: u64,
    /// Pages read in before any reader asked for them.
    pub ahead_pages: u64,
    /// Pages that came from the cleancache.
    pub from_cleancache: u64,
    /// Pages that came from the file.
    pub from_disk: u64,
    /// Pages that were given up, and offered to the cleancache.
    pub evicted: u64,
    /// Pages that the cleancache took.
    pub put: u64,
    /// Pages written to files.
    pub written: u64,
    /// Pages that could not be written when that was tried.
    pub write_errors: u64,
    /// Pages with contents that moved to another frame.
    pub moved: u64,
    /// Pages in the cache now.
    pub pages: u64,
    /// Dirty ones among them, including those being written.
    pub dirty: u64,
}

impl FileStats {
    /// Uses that did not wait for a file, in thousandths of all: hits, and pages from the
    /// cleancache.
    #[must_use]
    pub fn hit_permille(&self) -> u64 {
        let asked = self.hits + self.misses;
        let demanded = self.from_disk.saturating_sub(self.ahead_pages);
        asked.saturating_sub(demanded) * 1000 / asked.max(1)
    }
}

/// The counters that are not the table's.
#[derive(Debug, Default)]
pub(super) struct CacheCounters {
    pub(super) misses: AtomicU64,
    pub(super) ahead_pages: AtomicU64,
    pub(super) from_cleancache: AtomicU64,
    pub(super) from_disk: AtomicU64,
    pub(super) evicted: AtomicU64,
    pub(super) put: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) write_errors: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) dirty: AtomicU64,
}

/// Adds to a counter, which orders nothing.
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_that_waits_for_a_file_is_no_hit_and_one_that_is_read_ahead_is() {
        let stats = FileStats {
            hits: 700,
            misses: 300,
            from_disk: 400,
            ahead_pages: 200,
            from_cleancache: 150,
            ..FileStats::default()
        };
        assert_eq!(stats.hit_permille(), 800);
        assert_eq!(FileStats::default().hit_permille(), 0);
    }
}
