//! What a kernel on x86-64 brings to the engine: page tables, a shootdown of translations, and the
//! instructions that have no name in Rust.
//!
//! | module | what | tested on the host |
//! |---|---|---|
//! | [`entry`] | an entry of a page table, and the access it grants | yes |
//! | [`tables`] | 4-level page tables: map, unmap, translate, over any memory | yes |
//! | [`instructions`] | per-CPU base, clock, interrupts, ports | in a kernel |
//! | [`shootdown`] | flush and barrier on all CPUs, by generations | yes, and by loom |
//! | [`cells`] | a value that is set once, a value for each CPU | yes |
//! | [`seats`] | each CPU's seats in the engine: for its requests, for handlers | yes |
//! | [`direct`] | physical memory at a fixed distance | yes |
//!
//! The last four are those of `framewright-paging`, which every architecture shares; so is the walk of `tables`.
//! The crate holds no state and knows no machine. A kernel says where physical memory lies
//! ([`PhysMap`](tables::PhysMap)), where page tables come from ([`TableSource`](tables::TableSource))
//! and how a CPU interrupts another one ([`Ipi`](shootdown::Ipi)). `kernel/` in the repository is
//! such a kernel.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod entry;
#[cfg(target_arch = "x86_64")]
pub mod instructions;
pub mod tables;

pub use framewright_paging::{cells, direct, seats, shootdown};

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
