//! Reclaim and compaction with simulated clients: in step with the model, exhaustively, and with
//! clients that fail.

mod every_sequence;
mod faults;
mod in_step;
mod planted;
