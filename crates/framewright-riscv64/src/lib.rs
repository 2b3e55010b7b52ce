//! What a kernel on 64-bit RISC-V brings to the engine: page tables with the fences they need, a shootdown of
//! translations, and the instructions that have no name in Rust. A CPU is a *hart* here.
//!
//! | module | what | tested on the host |
//! |---|---|---|
//! | [`entry`] | an entry of a page table (Sv39, Sv48), and the access it grants | yes |
//! | [`tables`] | page tables of 3 or 4 levels: map and fence, unmap, translate; whether a fault was for nothing | yes |
//! | `instructions` | per-CPU base, clocks, interrupts, fences | in a kernel |
//! | `firmware` | calls of the firmware (SBI): timer, interrupts of other harts, their start | in a kernel |
//! | [`shootdown`] | flush and barrier on all CPUs, by generations | yes, and by loom |
//! | [`cells`] | a value that is set once, a value for each CPU | yes |
//! | [`seats`] | each CPU's seats in the engine: for its requests, for handlers | yes |
//! | [`direct`] | physical memory at a fixed distance | yes |
//!
//! The last four are those of `framewright-paging`, which every architecture shares; so is the walk of `tables`.
//! The crate holds no state and knows no machine. A kernel says where physical memory lies
//! ([`PhysMap`](tables::PhysMap)), where page tables come from ([`TableSource`](tables::TableSource)),
//! how a hart fences ([`TableFence`](tables::TableFence)) and how it interrupts another one
//! ([`Ipi`](shootdown::Ipi)). `kernel/` in the repository is such a kernel.
#![no_std]
#![deny(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod entry;
#[cfg(target_arch = "riscv64")]
pub mod firmware;
#[cfg(target_arch = "riscv64")]
pub mod instructions;
pub mod tables;

pub use framewright_paging::{cells, direct, seats, shootdown};

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
