//! Paged anonymous memory on real frames, devices and reserves: what is read is what was written.

mod around;
mod checkpoints;
mod crash;
mod errors;
mod machine;
mod shadow;
#[path = "../told/mod.rs"]
mod told;
mod unwound;
mod waiting;
