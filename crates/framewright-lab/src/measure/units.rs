//! The units in which memory is counted: the block, the region and the largest order. Samples, pictures and the
//! observer share them, and none of these needs another one for it.

/// Frames in a 2 MiB block, the unit in which contamination is counted: 2^9.
pub const BLOCK_FRAMES: u64 = 1 << BLOCK_ORDER;
/// The order of a 2 MiB block.
pub const BLOCK_ORDER: u8 = 9;
/// 2 MiB blocks in a region, the unit of 128 MiB in which contamination is counted once more.
pub const REGION_BLOCKS: usize = 64;
/// The largest order that a metric knows, Linux's own maximum.
pub const MAX_ORDER: usize = 10;
