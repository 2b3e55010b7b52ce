//! What memory looked like over time: a bounded number of pictures of all pageblocks.

use super::Sample;
use std::fmt;

/// What a cell of a map holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holds {
    /// No memory.
    Absent,
    /// Nothing.
    Free,
    /// Frames in use that can be moved.
    Movable,
    /// Frames in use that cannot: unmovable and reclaimable ones.
    Fixed,
    /// Both.
    Mixed,
}

/// A cell of a map: what it holds, and whether a frame of it is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapCell {
    /// What it holds.
    pub holds: Holds,
    /// Whether no frame of it is free.
    pub is_full: bool,
}

impl MapCell {
    /// All states a cell can be in, each at the place of its letter.
    pub const ALL: [Self; 8] = [
        Self::new(Holds::Absent, true),
        Self::new(Holds::Free, false),
        Self::new(Holds::Movable, false),
        Self::new(Holds::Movable, true),
        Self::new(Holds::Fixed, false),
        Self::new(Holds::Fixed, true),
        Self::new(Holds::Mixed, false),
        Self::new(Holds::Mixed, true),
    ];

    const fn new(holds: Holds, is_full: bool) -> Self {
        Self { holds, is_full }
    }

    /// Its place in [`Self::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        Self::ALL.iter().position(|&cell| cell == self).unwrap_or(0)
    }

    /// The cell of several blocks: of all that they hold the one that costs most to empty, and full
    /// if each of them is.
    #[must_use]
    pub fn of_blocks(blocks: impl IntoIterator<Item = Self>) -> Self {
        let join = |a: Self, b: Self| match (a.holds, b.holds) {
            (Holds::Absent, _) => b,
            (_, Holds::Absent) => a,
            _ => Self::new(a.holds.max(b.holds), a.is_full && b.is_full),
        };
        blocks.into_iter().fold(Self::ALL[0], join)
    }
}

impl fmt::Display for MapCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.holds, self.is_full) {
            (Holds::Absent, _) => "no memory",
            (Holds::Free, _) => "free",
            (Holds::Movable, false) => "movable, with room",
            (Holds::Movable, true) => "movable, full",
            (Holds::Fixed, false) => "not movable, with room",
            (Holds::Fixed, true) => "not movable, full",
            (Holds::Mixed, false) => "mixed, with room",
            (Holds::Mixed, true) => "mixed, full",
        })
    }
}

/// What memory looked like at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The figures of that moment.
    pub sample: Sample,
    /// The cells, ascending by frame.
    pub cells: Vec<MapCell>,
}

/// Pictures over time, all of the same cells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Film {
    /// 2 MiB blocks in a cell.
    pub blocks_per_cell: u64,
    /// The pictures, ascending in time.
    pub pictures: Vec<Picture>,
}

/// The most cells of a picture: each of a block up to 8 GiB.
const CELLS_MAX: u64 = 4096;

impl Film {
    /// None yet, of that many 2 MiB blocks.
    #[must_use]
    pub fn new(blocks: u64) -> Self {
        Self {
            blocks_per_cell: blocks.div_ceil(CELLS_MAX).next_power_of_two(),
            pictures: Vec::new(),
        }
    }

    /// At most `most` of its pictures, the first and the last among them, evenly in between.
    #[must_use]
    pub fn thinned(&self, most: usize) -> Vec<&Picture> {
        let all = &self.pictures;
        let (Some(last), most) = (all.len().checked_sub(1), most.max(2)) else {
            return Vec::new();
        };
        if all.len() <= most {
            return all.iter().collect();
        }
        (0..most).map(|nth| &all[nth * last / (most - 1)]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Observer;
    use framewright::{Frame, Mobility, Order, Run};

    fn order(n: u8) -> Order {
        Order::new(n).unwrap()
    }

    #[test]
    fn a_cell_says_what_its_block_holds_and_whether_a_frame_is_free() {
        let absent = [
            Run::new(Frame(512), 512).unwrap(),
            Run::new(Frame(1024), 511).unwrap(),
        ];
        let mut observer = Observer::new(8 * 512, &absent);
        let mut take =
            |frame, k, mobility| observer.take(Frame(frame), order(k), mobility).unwrap();
        take(1535, 0, Mobility::Reclaimable); // all that its block has
        take(1536, 0, Mobility::Movable);
        take(2048, 9, Mobility::Movable);
        take(2560, 0, Mobility::Unmovable);
        take(2561, 0, Mobility::Movable);
        take(3072, 8, Mobility::Unmovable);
        take(3328, 8, Mobility::Movable);
        let shown: Vec<String> = observer.cells(1).iter().map(ToString::to_string).collect();
        let expected = [
            "free",
            "no memory",
            "not movable, full",
            "movable, with room",
            "movable, full",
            "mixed, with room",
            "mixed, full",
            "free",
        ];
        assert_eq!(shown, expected);
        let by_four: Vec<String> = observer.cells(4).iter().map(ToString::to_string).collect();
        assert_eq!(by_four, ["not movable, with room", "mixed, with room"]);
        for (index, cell) in MapCell::ALL.into_iter().enumerate() {
            assert_eq!(cell.index(), index);
        }
    }

    #[test]
    fn a_film_of_any_memory_has_a_bounded_number_of_cells() {
        assert_eq!(Film::new(1).blocks_per_cell, 1);
        assert_eq!(Film::new(4096).blocks_per_cell, 1);
        assert_eq!(Film::new(4097).blocks_per_cell, 2);
        let blocks = (1 << 40) / (2 << 20);
        assert!(blocks / Film::new(blocks).blocks_per_cell <= 4096);
    }

    #[test]
    fn a_thinned_film_keeps_its_ends() {
        let mut film = Film::new(1);
        assert_eq!(film.thinned(3), Vec::<&Picture>::new());
        for ms in 0..100 {
            let sample = Sample {
                ms,
                ..Sample::default()
            };
            let cells = Vec::new();
            film.pictures.push(Picture { sample, cells });
        }
        let ms = |most| -> Vec<u64> { film.thinned(most).iter().map(|p| p.sample.ms).collect() };
        assert_eq!(ms(3), [0, 49, 99]);
        assert_eq!(ms(0), [0, 99]);
        assert_eq!(ms(1000).len(), 100);
    }
}
