//! What a reserve and its guests have counted.

use core::fmt;

/// Why puts are refused, in the order of `reserve::PutRefused`.
pub(crate) const REFUSALS: [&str; 5] = ["no_pool", "full", "overtaken", "index_full", "dirty_full"];

/// What guests of one kind did to a reserve, under the names of the proposal's debugfs where it has
/// one. The proposal puts `cc_` before them for the cleancache and `fs_` for frontswap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GuestStats {
    /// Pools opened.
    pub inits: u64,
    /// Pages that guests stored.
    pub stored_pages: u64,
    /// Pages that guests got.
    pub loaded_pages: u64,
    /// Gets that did not find their page.
    pub load_failed_pages: u64,
    /// Pages dropped to make room for other pages.
    pub evicted_pages: u64,
    /// Pages that left because an owner took their frame.
    pub reclaimed_pages: u64,
    /// Calls that invalidated a page.
    pub invalidated_pages: u64,
    /// Calls that invalidated an object (`cc_invalidated_inodes`).
    pub invalidated_objects: u64,
    /// Pools closed (`cc_invalidated_fses`, `fs_invalidated_areas`).
    pub invalidated_pools: u64,
    /// Calls that were to close a pool that did not exist (`cc_invalidate_failed_fses`).
    pub invalidate_failed_pools: u64,
    /// Puts refused, by reason: no pool, full, overtaken, index full, too many dirty pages.
    pub refused: [u64; REFUSALS.len()],
    /// Pages held now.
    pub held_pages: u64,
}

impl GuestStats {
    /// Gets that found their page, and all gets.
    #[must_use]
    pub const fn hits_of_gets(&self) -> (u64, u64) {
        (
            self.loaded_pages,
            self.loaded_pages + self.load_failed_pages,
        )
    }

    /// Adds another kind's counters, or another reserve's.
    pub fn add(&mut self, other: &Self) {
        let Self {
            inits,
            stored_pages,
            loaded_pages,
            load_failed_pages,
            evicted_pages,
            reclaimed_pages,
            invalidated_pages,
            invalidated_objects,
            invalidated_pools,
            invalidate_failed_pools,
            refused,
            held_pages,
        } = other;
        self.inits += inits;
        self.stored_pages += stored_pages;
        self.loaded_pages += loaded_pages;
        self.load_failed_pages += load_failed_pages;
        self.evicted_pages += evicted_pages;
        self.reclaimed_pages += reclaimed_pages;
        self.invalidated_pages += invalidated_pages;
        self.invalidated_objects += invalidated_objects;
        self.invalidated_pools += invalidated_pools;
        self.invalidate_failed_pools += invalidate_failed_pools;
        for (sum, other) in self.refused.iter_mut().zip(refused) {
            *sum += other;
        }
        self.held_pages += held_pages;
    }
}

/// What a reserve has counted. Shown with `{}` it is a listing: a name and a number on each line, first
/// the seventeen of the proposal's debugfs under their names and in their order, then what it lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReserveStats {
    /// Of pools that hold clean pages of files.
    pub cleancache: GuestStats,
    /// Of pools that hold swapped-out pages.
    pub frontswap: GuestStats,
    /// Runs that owners took.
    pub takes: u64,
    /// Requests of owners that failed.
    pub takes_failed: u64,
    /// Free frames in runs taken.
    pub taken_free: u64,
    /// Frames taken with a page that had not been got since the hand passed.
    pub taken_cold: u64,
    /// Frames taken with a page that had.
    pub taken_hot: u64,
    /// Frames that owners gave back.
    pub released_frames: u64,
    /// Pages copied into ordinary frames for owners.
    pub put_back_pages: u64,
}

impl ReserveStats {
    /// The sum over both kinds of guests.
    #[must_use]
    pub fn guests(&self) -> GuestStats {
        let mut sum = self.cleancache;
        sum.add(&self.frontswap);
        sum
    }
}

impl fmt::Display for ReserveStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fs, cc) = (&self.frontswap, &self.cleancache);
        for (name, value) in [
            ("fs_inits", fs.inits),
            ("fs_stored_pages", fs.stored_pages),
            ("fs_loaded_pages", fs.loaded_pages),
            ("fs_evicted_pages", fs.evicted_pages),
            ("fs_reclaimed_pages", fs.reclaimed_pages),
            ("fs_invalidated_pages", fs.invalidated_pages),
            ("fs_invalidated_areas", fs.invalidated_pools),
            ("cc_inits", cc.inits),
            ("cc_stored_pages", cc.stored_pages),
            ("cc_loaded_pages", cc.loaded_pages),
            ("cc_load_failed_pages", cc.load_failed_pages),
            ("cc_evicted_pages", cc.evicted_pages),
            ("cc_reclaimed_pages", cc.reclaimed_pages),
            ("cc_invalidated_pages", cc.invalidated_pages),
            ("cc_invalidated_inodes", cc.invalidated_objects),
            ("cc_invalidated_fses", cc.invalidated_pools),
            ("cc_invalidate_failed_fses", cc.invalidate_failed_pools),
            // The counters from here on are ours.
            ("fs_load_failed_pages", fs.load_failed_pages),
            ("fs_invalidated_objects", fs.invalidated_objects),
            ("fs_invalidate_failed_areas", fs.invalidate_failed_pools),
        ] {
            writeln!(f, "{name} {value}")?;
        }
        for (kind, guests) in [("fs", fs), ("cc", cc)] {
            for (reason, count) in REFUSALS.iter().zip(guests.refused) {
                writeln!(f, "{kind}_refused_{reason} {count}")?;
            }
            writeln!(f, "{kind}_held_pages {}", guests.held_pages)?;
        }
        for (name, value) in [
            ("takes", self.takes),
            ("takes_failed", self.takes_failed),
            ("taken_free", self.taken_free),
            ("taken_cold", self.taken_cold),
            ("taken_hot", self.taken_hot),
            ("released_frames", self.released_frames),
            ("put_back_pages", self.put_back_pages),
        ] {
            writeln!(f, "{name} {value}")?;
        }
        Ok(())
    }
}

/// The states of a reserve's frames, and the pages without a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Occupancy {
    /// Frames without a page and without an owner.
    pub free: u64,
    /// Frames into which a put is copying.
    pub filling: u64,
    /// Frames with a page that can be dropped, including pages that are invalid by their object's
    /// or pool's generation.
    pub cached: u64,
    /// Frames that a get is copying out of, to take the page away.
    pub loading: u64,
    /// Frames with a page that is on no device yet.
    pub dirty: u64,
    /// Of the pages that are on no device yet, those being written.
    pub writing: u64,
    /// Frames that owners have.
    pub owned: u64,
    /// Of all these, frames that belong to reservations.
    pub reserved: u64,
    /// Pages of one repeated word, which have no frame.
    pub without_frame: u64,
    /// Pages that are in ordinary frames.
    pub put_back: u64,
}

impl Occupancy {
    /// The frames in all states together.
    #[must_use]
    pub const fn frames(&self) -> u64 {
        let lent = self.filling + self.cached + self.loading + self.dirty + self.writing;
        self.free + lent + self.owned
    }
}

impl fmt::Display for Occupancy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in [
            ("frames_free", self.free),
            ("frames_filling", self.filling),
            ("frames_cached", self.cached),
            ("frames_loading", self.loading),
            ("frames_dirty", self.dirty),
            ("frames_writing", self.writing),
            ("frames_owned", self.owned),
            ("frames_reserved", self.reserved),
            ("pages_without_frame", self.without_frame),
            ("pages_put_back", self.put_back),
        ] {
            writeln!(f, "{name} {value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn the_listing_begins_with_the_names_of_the_proposal() {
        let stats = ReserveStats {
            cleancache: GuestStats {
                invalidated_objects: 4,
                refused: [0, 7, 0, 0, 0],
                ..GuestStats::default()
            },
            frontswap: GuestStats {
                inits: 1,
                invalidated_pools: 3,
                ..GuestStats::default()
            },
            taken_hot: 9,
            ..ReserveStats::default()
        };
        let text = stats.to_string();
        let lines: Vec<_> = text
            .lines()
            .map(|line| line.split_once(' ').unwrap())
            .collect();
        assert_eq!(lines[0], ("fs_inits", "1"));
        assert_eq!(lines[6], ("fs_invalidated_areas", "3"));
        assert_eq!(lines[7], ("cc_inits", "0"));
        assert_eq!(lines[14], ("cc_invalidated_inodes", "4"));
        assert_eq!(lines[16].0, "cc_invalidate_failed_fses");
        for line in [("cc_refused_full", "7"), ("taken_hot", "9")] {
            assert!(lines.contains(&line), "{line:?} in {text}");
        }
        let mut names: Vec<_> = lines.iter().map(|line| line.0).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), lines.len(), "a name stands there once");
    }

    #[test]
    fn both_kinds_together_are_the_sum_of_every_counter() {
        let one = GuestStats {
            inits: 1,
            stored_pages: 2,
            loaded_pages: 3,
            load_failed_pages: 4,
            evicted_pages: 5,
            reclaimed_pages: 6,
            invalidated_pages: 7,
            invalidated_objects: 8,
            invalidated_pools: 9,
            invalidate_failed_pools: 10,
            refused: [11; REFUSALS.len()],
            held_pages: 12,
        };
        let both = ReserveStats {
            cleancache: one,
            frontswap: one,
            ..ReserveStats::default()
        };
        let sum = both.guests();
        let double = |n| 2 * n;
        assert_eq!(sum.hits_of_gets(), (6, 14));
        assert_eq!(sum.refused, one.refused.map(double));
        let of = |guests: &GuestStats| {
            [
                guests.inits,
                guests.stored_pages,
                guests.evicted_pages,
                guests.reclaimed_pages,
                guests.invalidated_pages,
                guests.invalidated_objects,
                guests.invalidated_pools,
                guests.invalidate_failed_pools,
                guests.held_pages,
            ]
        };
        assert_eq!(of(&sum), of(&one).map(double));
    }
}
