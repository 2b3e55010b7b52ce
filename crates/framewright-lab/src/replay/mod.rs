//! Replay: feeds a recorded trace to an allocator and observes what becomes of memory.

mod subject;

pub use subject::{FreeRefused, Subject};
