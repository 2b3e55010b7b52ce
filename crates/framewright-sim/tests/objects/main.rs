//! Objects on a simulated machine: in step with the model, exhaustively, and with calls that fail.

mod every_sequence;
mod faults;
mod in_step;
mod planted;
