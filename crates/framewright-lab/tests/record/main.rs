//! `framewright record` and `framewright top`, for real where there are root and tracefs, and skipped aloud elsewhere.
#![cfg(target_os = "linux")]

mod board;
mod endings;
mod streams;
mod support;
mod top;
