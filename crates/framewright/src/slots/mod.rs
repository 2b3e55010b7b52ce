//! Bitmaps in words that the caller brings: slots, of which one owner at a time hands out aligned runs, and sets
//! of integers, which all CPUs change.
//!
//! - The functions over words are for the owner of a bitmap. They find orders and runs in one word, and count
//!   runs by order as a buddy system does. Every access is `Relaxed`: one CPU at a time owns the bitmap, and it
//!   hands the ownership over with an ordering of its own.
//! - A range of bits, as words and the bits in each, is the same for every bitmap of the engine.
//! - [`Tree`] is a set of integers as bitmaps of bitmaps, without a lock.
//!
//! # Invariants
//! - **SL1** A *maximal* free run of order o is free and aligned, and the aligned run of order
//!   o + 1 around it is not free: exactly the blocks of a buddy system.
//! - **SL2** In a [`Tree`] at rest, a summary bit is set if and only if its word is not zero.
//!
//! # Sources
//! One bitmap a large page: LLFree (Wrenger et al., USENIX ATC 2023).

mod bitmap;
mod range;
mod tree;

#[cfg(all(test, loom))]
#[path = "tests/models.rs"]
mod models;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub(crate) use bitmap::{
    count_orders_2_and_3, count_runs, free_slots, orders_in, run_mask, runs_in, words_needed,
};
pub(crate) use range::{first_of, ones_at, words_of};
pub(crate) use tree::Tree;

/// The order of one full word: 64 slots.
pub(crate) const WORD_ORDER: u8 = 6;
/// The slots of one word.
const WORD_SLOTS: usize = 1 << WORD_ORDER;
