//! The bitmap of slots: what a pageblock, a span and a vmap block have in common.
//!
//! ```text
//!                    owner: plain loads and stores           others: atomic
//!     Slots   1 1 0 1 | 0 0 1 1   1 = free       Twin   0 0 1 0 | 0 0 0 0   1 = freed, not collected
//!                 ▲                                         │
//!                 └──────────────── collect ────────────────┘
//! ```
//!
//! Three things over words of metadata that somebody else owns:
//! - [`Slots`]: the bitmap itself, for whoever owns it at the moment. Aligned power-of-two runs
//!   within words and across them, runs of any length, counts per order as a buddy system has.
//! - [`Twin`]: the second bitmap, into which everybody else frees.
//! - [`Tree`]: a set of integers as bitmaps of bitmaps, for indices over many such bitmaps.
//!
//! # Invariants
//! - **S1** A slot is free in [`Slots`], free in [`Twin`], or taken: never free in both.
//! - **S2** A *maximal* free run of order o is free and aligned, and the aligned run of order
//!   o + 1 around it is not free: exactly the blocks of a buddy system.
//! - **S3** In a [`Tree`] at rest, a summary bit is set if and only if its word is not zero.
//!
//! # Sources
//! One bitmap a large page: LLFree (Wrenger et al., USENIX ATC 2023). Frees from elsewhere through
//! a second structure: mimalloc (Leijen et al., 2019) and snmalloc (Lietar et al., 2019).

mod bitmap;
mod fold;
mod summary;
mod tree;
mod twin;

#[cfg(all(test, not(any(loom, shuttle))))]
mod model_tests;

pub use bitmap::Slots;
pub use summary::{count_orders_2_and_3, orders_in, run_mask, runs_in};
pub use tree::Tree;
pub use twin::{Overlap, Twin};

/// The order of one full word: 64 slots.
pub const WORD_ORDER: u8 = 6;
/// The slots of one word.
pub const WORD_SLOTS: usize = 1 << WORD_ORDER;
