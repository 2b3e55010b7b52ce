//! What the libraries for C share: [`framewright-capi`](../framewright_capi/index.html) for programs and
//! [`framewright-capi-kernel`](../framewright_capi_kernel/index.html) for kernels.
//!
//! - [`codes`]: what a refusal is in C, a number and a text that does not change.
//! - [`arguments`]: sizes in bytes, alignments, orders, flags; the engine sees pages only.
//! - [`pointers`]: reads and writes of the caller's memory, and all `unsafe`.
#![no_std]
#![deny(unsafe_code)]

pub mod arguments;
pub mod codes;
pub mod pointers;

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
