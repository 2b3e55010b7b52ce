//! Paged anonymous memory on real frames, devices and reserves: what is read is what was written.

mod checkpoints;
mod crash;
mod errors;
mod machine;
mod shadow;
mod unwound;
mod waiting;
