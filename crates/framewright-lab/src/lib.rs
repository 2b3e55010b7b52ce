//! The laboratory: the only crate that knows files, formats, floats and wall clocks.
#![forbid(unsafe_code)]
// What only the published experiments use.
#![cfg_attr(
    not(all(target_os = "linux", feature = "experiments")),
    allow(dead_code, unused)
)]

#[cfg(target_os = "linux")]
pub mod ab;
pub mod before;
pub mod cmd;
#[cfg(all(target_os = "linux", feature = "experiments"))]
pub mod experiment;
mod files;
pub mod fuzzing;
pub mod measure;
pub mod pressure;
pub mod printable;
#[cfg(target_os = "linux")]
pub mod record;
pub mod replay;
pub mod report;
pub mod size;
mod steps;
#[cfg(target_os = "linux")]
pub mod top;
pub mod trace;

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
