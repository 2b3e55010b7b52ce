//! A zone's counters in the form of /proc/vmstat.

use super::{FrameStats, ReclaimStats};
use core::fmt;

/// A zone's counters together, as `/proc/vmstat` lists them: a name and a number on each line.
///
/// Of the frames' counters, those that Linux lists too. What Linux counts by zone
/// (`pgalloc_normal`) is a sum without the zone's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Vmstat {
    /// What the page-frame allocator counted.
    pub frames: FrameStats,
    /// What reclaim and compaction counted.
    pub reclaim: ReclaimStats,
}

impl fmt::Display for Vmstat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let frames = &self.frames;
        writeln!(f, "nr_free_pages {}", frames.nr_free_pages)?;
        writeln!(f, "pgalloc {}", frames.pgalloc.iter().sum::<u64>())?;
        writeln!(f, "pgfree {}", frames.pgfree)?;
        self.reclaim.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn the_listing_is_that_of_frames_and_of_reclaim() {
        let vmstat = Vmstat {
            frames: FrameStats {
                nr_free_pages: 5,
                pgalloc: [1, 2, 4],
                pgfree: 6,
                ..FrameStats::default()
            },
            reclaim: ReclaimStats {
                pgmigrate_fail: 9,
                ..ReclaimStats::default()
            },
        };
        let text = vmstat.to_string();
        assert!(text.starts_with("nr_free_pages 5\npgalloc 7\npgfree 6\nallocstall 0\n"));
        assert!(text.ends_with("pgmigrate_fail 9\n"));
        for line in text.lines() {
            let (name, number) = line.split_once(' ').unwrap();
            assert!(!name.is_empty() && number.parse::<u64>().is_ok(), "{line}");
        }
    }
}
