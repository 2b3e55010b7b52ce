//! What kernels bring to the engine, whatever their CPU: page tables, a shootdown of translations, and
//! statics for each CPU.
//!
//! | module | what |
//! |---|---|
//! | [`entry`] | what an architecture says of the entries of its page tables |
//! | [`tables`] | page tables: map, unmap, translate, over any memory and any entry |
//! | [`shootdown`] | flush and barrier on all CPUs, by generations; loom explores it |
//! | [`cells`] | a value that is set once, a value for each CPU |
//! | [`seats`] | each CPU's seats in the engine: for its requests, for handlers |
//! | [`direct`] | physical memory at a fixed distance |
//!
//! The crate holds no state and knows no machine. `framewright-x86_64` and `framewright-riscv64` bring the entries
//! and the instructions of their CPUs, and show these modules as their own.
#![no_std]
#![deny(unsafe_code)]

#[cfg(any(test, loom))]
extern crate std;

pub mod cells;
pub mod direct;
pub mod entry;
pub mod seats;
pub mod shootdown;
pub mod tables;

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
