//! The kernel refuses a process's mappings at a limit that all of its code shares. So the count is one for the
//! process, beside one for each window, and a window refuses before the kernel does.

use framewright::platform::MapError;
use std::fs::File;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The mappings of all windows of the process: the kernel's limit is the process's.
static WINDOWS: AtomicU64 = AtomicU64::new(0);

/// The kernel's limit if it cannot be read: `DEFAULT_MAX_MAP_COUNT`.
const USUAL_LIMIT: u64 = 65_530;

/// The most mappings that a change of a range adds while the kernel makes it: it cuts the old
/// mappings at both ends.
pub(super) const CUTS: u64 = 2;

/// How many mappings a window may have. It keeps an upper bound of the kernel's count, and refuses
/// a mapping that could bring the process to its limit. At the limit even munmap fails.
///
/// # Invariants
/// - `mine` and [`WINDOWS`] are never less than what the kernel counts: raised before a change,
///   lowered after it.
#[derive(Debug)]
pub(super) struct MappingBudget {
    mine: AtomicU64,
    /// The most that this window may have.
    mine_max: u64,
    /// The most that all windows may have.
    windows_max: u64,
    /// What the kernel allows the process.
    host_max: u64,
}

impl MappingBudget {
    /// A budget for a window that may have `mine_max` mappings. It leaves the rest of the process
    /// what it has, and a sixteenth of the kernel's limit to grow.
    pub(super) fn new(mine_max: Option<u64>) -> Self {
        let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count");
        let limit = limit.ok().and_then(|text| text.trim().parse().ok());
        let limit = limit.unwrap_or(USUAL_LIMIT);
        let windows = WINDOWS.fetch_add(1, Relaxed);
        // Neither figure is too large: the windows' count may be above the kernel's, and not all
        // mappings without access are windows'.
        let (all, foreign) = process_mappings();
        let others = all.saturating_sub(windows).max(foreign);
        let windows_max = limit.saturating_sub(others).saturating_sub(limit / 16);
        Self {
            mine: AtomicU64::new(1),
            mine_max: mine_max.unwrap_or(u64::MAX),
            windows_max,
            host_max: limit,
        }
    }

    /// An upper bound of the mappings that the window has, its reservation included.
    pub(super) fn mine(&self) -> u64 {
        self.mine.load(Relaxed)
    }

    /// Makes room for the mappings that a new one may cut.
    pub(super) fn take(&self) -> Result<(), MapError> {
        let mine = self.mine.fetch_add(CUTS, Relaxed) + CUTS;
        let windows = WINDOWS.fetch_add(CUTS, Relaxed) + CUTS;
        if mine <= self.mine_max && windows <= self.windows_max {
            return Ok(());
        }
        self.end_take(0);
        let max = if mine > self.mine_max {
            self.mine_max
        } else {
            self.host_max
        };
        Err(MapError::Limit { max })
    }

    /// Whether there is room for `changes` more changes at this moment.
    pub(super) fn has_room(&self, changes: u64) -> bool {
        let cuts = changes.saturating_mul(CUTS);
        let has_room = |now: u64, max: u64| now.saturating_add(cuts) <= max;
        has_room(self.mine.load(Relaxed), self.mine_max)
            && has_room(WINDOWS.load(Relaxed), self.windows_max)
    }

    /// The error for a mapping that the kernel had no memory for, if the process has as many as it
    /// may: then other code has used up the mappings that the budget left it.
    ///
    /// Allocates nothing, because that could need a mapping.
    pub(super) fn host_is_full(&self) -> Option<MapError> {
        let mut maps = File::open("/proc/self/maps").ok()?;
        let mut buffer = [0; 4096];
        let mut mappings = 0;
        loop {
            match maps.read(&mut buffer).ok()? {
                0 => break,
                len => mappings += buffer[..len].iter().filter(|byte| **byte == b'\n').count(),
            }
        }
        let max = self.host_max;
        (mappings as u64 + CUTS > max).then_some(MapError::Limit { max })
    }

    /// The same for an unmap: the sixteenth is there for it.
    pub(super) fn take_always(&self) {
        self.mine.fetch_add(CUTS, Relaxed);
        WINDOWS.fetch_add(CUTS, Relaxed);
    }

    /// Of the room taken, `more` mappings remain, or fewer than before if it is negative.
    pub(super) fn end_take(&self, more: i64) {
        let change = more - CUTS as i64;
        self.mine.fetch_add(change as u64, Relaxed);
        WINDOWS.fetch_add(change as u64, Relaxed);
    }
}

impl MappingBudget {
    /// Keeps the mappings, which outlive the window, in the count for ever.
    pub(super) fn keep(&mut self) {
        *self.mine.get_mut() = 0;
    }
}

impl Drop for MappingBudget {
    fn drop(&mut self) {
        WINDOWS.fetch_sub(*self.mine.get_mut(), Relaxed);
    }
}

/// The mappings of the process, as the kernel lists them, and those of them that cannot be a
/// window's; 0 if the kernel does not list them.
pub(super) fn process_mappings() -> (u64, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let is_foreign = |line: &&str| !line.contains(" ---p ") && !line.contains("/memfd:framewright");
    let all = maps.lines().count() as u64;
    (all, maps.lines().filter(is_foreign).count() as u64)
}
