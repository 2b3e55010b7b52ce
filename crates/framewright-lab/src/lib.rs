//! The laboratory: the only crate that knows files, formats, floats and wall clocks.
#![forbid(unsafe_code)]

pub mod before;
pub mod cmd;
#[cfg(target_os = "linux")]
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
pub mod trace;
