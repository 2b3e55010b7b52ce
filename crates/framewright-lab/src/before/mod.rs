//! What each document complains about, rebuilt faithfully, so that "better than" has a baseline.

pub mod buddy;
pub mod gcma;
pub mod journal;
pub mod kernel310;
pub mod vmalloc;
