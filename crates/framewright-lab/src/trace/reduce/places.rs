//! What each frame of a universe is, in chunks, with the sums that a row of the reference needs.
//!
//! A row is asked for once a second, and what happens in a second may be one event: so the sums are
//! kept, and only chunks that have changed since the last row are counted again.

use super::ReferenceRow;
use super::frames::{CHUNK, CHUNK_ORDER};
use crate::steps;
use framewright::Mobility;
use std::ops::Range;

/// What a frame is, as the recording kernel had it. The two bits of the number are what a chunk keeps of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FramePlace {
    Absent = 0b00,
    Free = 0b01,
    /// Held, and not movable.
    Fixed = 0b10,
    Movable = 0b11,
}

impl FramePlace {
    /// Of a frame that an object of that mobility holds.
    pub(super) const fn held(mobility: Mobility) -> Self {
        match mobility {
            Mobility::Movable => Self::Movable,
            Mobility::Unmovable | Mobility::Reclaimable => Self::Fixed,
        }
    }

    /// All ones for each bit of the number that is set.
    fn bits(self) -> [u64; 2] {
        let all_of = |is_set: bool| if is_set { u64::MAX } else { 0 };
        [all_of(self as u8 & 1 != 0), all_of(self as u8 & 2 != 0)]
    }
}

const FRAMES: usize = CHUNK as usize;

/// Words of a bit a frame.
const WORDS: usize = FRAMES / 64;

/// Frames of a block of 2 MiB.
const BLOCK: usize = 512;

/// The frames of a chunk, the two bits of each in a word of each row: a row of the reference counts 64 frames at once.
type PlaceBits = [[u64; 2]; WORDS];

/// What a row adds up, of one chunk: at most 1,024 of each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ChunkSums {
    free: u16,
    usable_o3: u16,
    usable_o9: u16,
    free_4m: u16,
    unmovable_any: u16,
    mixed: u16,
    movable_in_mixed: u16,
}

impl ChunkSums {
    const COUNT: usize = 7;

    fn all(self) -> [u16; Self::COUNT] {
        [
            self.free,
            self.usable_o3,
            self.usable_o9,
            self.free_4m,
            self.unmovable_any,
            self.mixed,
            self.movable_in_mixed,
        ]
    }

    fn of(places: &PlaceBits) -> Self {
        let mut sums = Self::default();
        for block in places.chunks_exact(BLOCK / 64) {
            let (mut free, mut movable, mut fixed) = (0, 0, 0);
            for &[low, high] in block {
                let free_frames = low & !high;
                free += free_frames.count_ones();
                movable += (low & high).count_ones();
                fixed += (high & !low).count_ones();
                sums.usable_o3 += 8 * whole_bytes(free_frames) as u16;
            }
            sums.free += free as u16;
            if free as usize == BLOCK {
                sums.usable_o9 += BLOCK as u16;
            }
            if fixed > 0 {
                sums.unmovable_any += 1;
                if movable > 0 {
                    sums.mixed += 1;
                    sums.movable_in_mixed += movable as u16;
                }
            }
        }
        sums.free_4m = u16::from(sums.free as usize == FRAMES);
        sums
    }
}

/// How many bytes of the word are all ones.
const fn whole_bytes(word: u64) -> u32 {
    let word = word & word >> 4;
    let word = word & word >> 2;
    let word = word & word >> 1;
    (word & 0x0101_0101_0101_0101).count_ones()
}

/// The frames of a chunk.
#[derive(Debug)]
enum PlaceChunk {
    /// All are the same: 16 bytes, however many chunks a universe has.
    Whole(FramePlace),
    Mixed(Box<PlaceBits>),
}

/// Every frame of a universe.
///
/// # Invariants
/// - **PL1** `total` is the sum of `sums`; those are what [`ChunkSums::of`] says of each chunk that is not
///   among `changed`.
/// - **PL2** A chunk is in `changed` once if its `is_changed` is set, and not if it is not.
#[derive(Debug)]
pub(super) struct FramePlaces {
    nframes: u64,
    chunks: Vec<PlaceChunk>,
    sums: Vec<ChunkSums>,
    is_changed: Vec<bool>,
    changed: Vec<u32>,
    total: [u64; ChunkSums::COUNT],
}

impl FramePlaces {
    /// `nframes` free frames. Memory: 31 bytes a chunk, and 2 bits a frame of those that are not
    /// all the same.
    pub(super) fn new(nframes: u64) -> Self {
        let chunks = nframes.div_ceil(1 << CHUNK_ORDER) as usize;
        let free = ChunkSums::of(&[FramePlace::Free.bits(); WORDS]);
        let mut places = Self {
            nframes: (chunks as u64) << CHUNK_ORDER,
            chunks: (0..chunks)
                .map(|_| PlaceChunk::Whole(FramePlace::Free))
                .collect(),
            sums: vec![free; chunks],
            is_changed: vec![false; chunks],
            changed: Vec::new(),
            total: free.all().map(|n| u64::from(n) * chunks as u64),
        };
        places.fill(nframes..places.nframes, FramePlace::Absent);
        places.nframes = nframes;
        places
    }

    pub(super) fn get(&self, frame: u64) -> FramePlace {
        match &self.chunks[(frame >> CHUNK_ORDER) as usize] {
            PlaceChunk::Whole(place) => *place,
            PlaceChunk::Mixed(places) => {
                let [low, high] = places[(frame as usize & (FRAMES - 1)) / 64];
                match (high >> (frame % 64) & 1, low >> (frame % 64) & 1) {
                    (0, 0) => FramePlace::Absent,
                    (0, _) => FramePlace::Free,
                    (_, 0) => FramePlace::Fixed,
                    _ => FramePlace::Movable,
                }
            }
        }
    }

    pub(super) fn set(&mut self, frame: u64, place: FramePlace) {
        self.fill(frame..frame + 1, place);
    }

    /// Panics if a frame is outside the universe.
    pub(super) fn fill(&mut self, frames: Range<u64>, place: FramePlace) {
        assert!(
            frames.end <= self.nframes,
            "frame {:#x} of a universe of {}",
            frames.end,
            self.nframes
        );
        let mut at = frames.start;
        while at < frames.end {
            let index = (at >> CHUNK_ORDER) as usize;
            let from = at as usize & (FRAMES - 1);
            let length = (frames.end - at).min((FRAMES - from) as u64) as usize;
            let chunk = &mut self.chunks[index];
            if length == FRAMES {
                *chunk = PlaceChunk::Whole(place);
            } else {
                if let PlaceChunk::Whole(whole) = *chunk {
                    *chunk = PlaceChunk::Mixed(Box::new([whole.bits(); WORDS]));
                }
                if let PlaceChunk::Mixed(places) = chunk {
                    fill(places, from..from + length, place);
                }
            }
            if !std::mem::replace(&mut self.is_changed[index], true) {
                self.changed.push(index as u32);
            }
            at += length as u64;
        }
    }

    /// What a row says of memory now. Time: O(frames of the chunks that changed since the last one).
    pub(super) fn row(&mut self) -> ReferenceRow {
        while let Some(index) = self.changed.pop() {
            steps::add(1);
            let index = index as usize;
            self.is_changed[index] = false;
            let now = match &self.chunks[index] {
                PlaceChunk::Whole(place) => ChunkSums::of(&[place.bits(); WORDS]),
                PlaceChunk::Mixed(places) => ChunkSums::of(places),
            };
            let before = std::mem::replace(&mut self.sums[index], now);
            for ((total, before), now) in self.total.iter_mut().zip(before.all()).zip(now.all()) {
                *total = *total - u64::from(before) + u64::from(now);
            }
        }
        let [
            free,
            o3,
            o9,
            free_4m,
            unmovable_any,
            mixed,
            movable_in_mixed,
        ] = self.total;
        let unusable = |usable: u64| match free {
            0 => 0.0,
            free => (free - usable) as f64 / free as f64,
        };
        ReferenceRow {
            free_frames: free,
            free_2m: o9 / BLOCK as u64,
            free_4m,
            unusable_o3: unusable(o3),
            unusable_o9: unusable(o9),
            blocks_mixed: mixed,
            blocks_unmov_any: unmovable_any,
            movable_frames_in_mixed: movable_in_mixed,
            ..ReferenceRow::default()
        }
    }
}

/// Makes these frames of a chunk the same.
fn fill(places: &mut PlaceBits, frames: Range<usize>, place: FramePlace) {
    let mut at = frames.start;
    while at < frames.end {
        let length = (frames.end - at).min(64 - at % 64);
        let mask = u64::MAX >> (64 - length) << (at % 64);
        for (word, bits) in places[at / 64].iter_mut().zip(place.bits()) {
            *word = *word & !mask | bits & mask;
        }
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_sim::Random;

    /// The sums, counted frame by frame over `frames`.
    fn recounted(frames: &[FramePlace]) -> [u64; ChunkSums::COUNT] {
        // Frames from which a request of that length can be served: aligned runs that are free.
        let usable = |length: usize| {
            let runs = frames.chunks_exact(length);
            let free = runs.filter(|run| run.iter().all(|&place| place == FramePlace::Free));
            (free.count() * length) as u64
        };
        let free = usable(1);
        let (mut fixed_any, mut mixed, mut movable_in_mixed) = (0, 0, 0);
        for block in frames.chunks(BLOCK) {
            let count = |which| block.iter().filter(|&&place| place == which).count() as u64;
            let movable = count(FramePlace::Movable);
            if count(FramePlace::Fixed) > 0 {
                fixed_any += 1;
                mixed += u64::from(movable > 0);
                movable_in_mixed += movable;
            }
        }
        let free_4m = usable(FRAMES) / FRAMES as u64;
        [
            free,
            usable(8),
            usable(BLOCK),
            free_4m,
            fixed_any,
            mixed,
            movable_in_mixed,
        ]
    }

    #[test]
    fn rows_from_what_changed_are_those_from_all_frames() {
        // Not whole chunks: the rest of the last one does not exist.
        let mut places = FramePlaces::new(5 * 1024 + 300);
        let mut frames = vec![FramePlace::Free; 5 * 1024 + 300];
        let mut random = Random::new(7);
        for step in 0..600_u64 {
            let order = random.below(16);
            let first = (random.below(5 << 10) >> order) << order;
            let end = (first + (1 << order)).min(places.nframes);
            let place = match random.below(8) {
                0..=2 => FramePlace::Free,
                3 => FramePlace::Absent,
                4 => FramePlace::held(Mobility::Unmovable),
                _ => FramePlace::held(Mobility::Movable),
            };
            places.fill(first..end, place);
            frames[first as usize..end as usize].fill(place);
            if step % 3 == 0 {
                places.row();
                assert_eq!(places.total, recounted(&frames), "step {step}");
                let kept = (0..places.nframes).map(|frame| places.get(frame));
                assert!(kept.eq(frames.iter().copied()), "step {step}");
            }
        }
    }

    #[test]
    fn a_row_counts_what_changed_and_nothing_else() {
        let mut places = FramePlaces::new(1 << 22);
        places.row();
        for second in 0..4096 {
            places.set(second << 10, FramePlace::Movable);
            assert_eq!(places.changed.len(), 1, "one event, one chunk");
            let row = places.row();
            assert_eq!(row.free_4m, 4095 - second);
            assert!(places.changed.is_empty());
        }
    }
}
