//! What each document complains about, rebuilt faithfully, so that "better than" has a baseline.

pub mod buddy;
pub mod busy_list;
pub mod journal;
#[cfg(target_os = "linux")]
pub mod kernel310;
