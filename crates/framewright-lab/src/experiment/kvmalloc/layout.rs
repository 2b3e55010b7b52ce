//! The memory that every variant begins with: which frame is free, a cache's or a program's. It is drawn once from
//! the seed, so that variants differ by what they do and not by what they found.

use crate::before::journal::BLOCK_FRAMES_MAX;
use framewright_sim::Random;

/// One block of the object's order in this many is a program's entirely.
const PROGRAMS_EVERY: usize = 8;

/// Smaller blocks with a frame each that cannot go would be half of memory or all of it.
const ORDER_MIN: u32 = 2;

/// One block in this many has one page of a program's in it.
const STRAYS_EVERY: usize = 4;

/// The holder of each frame when the experiment begins: the same for every variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FrameLayout {
    /// Frames that cannot go: pinned, or the kernel's own.
    pub(super) pinned: Vec<u32>,
    /// Frames of programs, which can move.
    pub(super) movable: Vec<u32>,
    /// Frames of the cache, the one read in longest ago first.
    pub(super) cache: Vec<u32>,
    /// Free frames.
    pub(super) free: Vec<u32>,
}

impl FrameLayout {
    /// Divides `frames` frames: of the blocks of `order`, at least 2, `percent` in a hundred have a
    /// frame that cannot go; an eighth are a program's, a quarter have one of its pages. The cache
    /// has the rest, read in block by block, except the `free` frames that it gave back last.
    pub(super) fn new(frames: u32, order: u32, percent: u32, free: u64, seed: u64) -> Self {
        let order = order.clamp(ORDER_MIN, BLOCK_FRAMES_MAX.ilog2());
        let block_frames = 1 << order;
        let mut random = Random::new(seed);
        let mut blocks: Vec<u32> = (0..frames >> order).map(|nth| nth << order).collect();
        let mut holders = vec![Role::Cache; frames as usize];
        shuffle(&mut blocks, &mut random);
        for block in &blocks[..blocks.len() / PROGRAMS_EVERY] {
            holders[*block as usize..][..block_frames as usize].fill(Role::Movable);
        }
        let any_of = |random: &mut Random, block: u32| {
            (block + random.below(u64::from(block_frames)) as u32) as usize
        };
        shuffle(&mut blocks, &mut random);
        for block in &blocks[..blocks.len() / STRAYS_EVERY] {
            holders[any_of(&mut random, *block)] = Role::Movable;
        }
        // Pinned frames last: a role drawn after them would overwrite some.
        shuffle(&mut blocks, &mut random);
        for block in &blocks[..blocks.len() * percent as usize / 100] {
            holders[any_of(&mut random, *block)] = Role::Pinned;
        }
        shuffle(&mut blocks, &mut random);
        let by_block = blocks.iter().flat_map(|block| *block..block + block_frames);
        let of = |role| {
            let all = by_block.clone();
            all.filter(|frame| holders[*frame as usize] == role)
                .collect::<Vec<u32>>()
        };
        let free = usize::try_from(free).unwrap_or(usize::MAX);
        let mut given_back = of(Role::Cache);
        let cache = given_back.split_off(free.min(given_back.len()));
        Self {
            pinned: of(Role::Pinned),
            movable: of(Role::Movable),
            cache,
            free: given_back,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Pinned,
    Movable,
    Cache,
}

/// Fisher and Yates.
fn shuffle(all: &mut [u32], random: &mut Random) {
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_has_one_holder_and_the_percentage_is_exact() {
        for percent in [0, 50, 90, 99, 100] {
            let layout = FrameLayout::new(8192, 4, percent, 300, 7);
            let mut all: Vec<u32> = [&layout.pinned, &layout.movable, &layout.cache, &layout.free]
                .into_iter()
                .flatten()
                .copied()
                .collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..8192));
            assert_eq!(layout.pinned.len() as u32, 512 * percent / 100);
            assert_eq!(layout.free.len(), 300);
            let mut blocks: Vec<u32> = layout.pinned.iter().map(|frame| frame >> 4).collect();
            blocks.sort_unstable();
            blocks.dedup();
            assert_eq!(blocks.len(), layout.pinned.len(), "one a block");
        }
        let again = FrameLayout::new(8192, 4, 90, 300, 7);
        assert_eq!(again, FrameLayout::new(8192, 4, 90, 300, 7));
        assert_ne!(again, FrameLayout::new(8192, 4, 90, 300, 8));
    }
}
