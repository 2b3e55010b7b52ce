//! Virtual ranges on a simulated machine: in step with the model, exhaustively, with calls that
//! fail, and with a platform that lies.

mod bytes;
mod every_sequence;
mod faults;
mod in_step;
mod planted;
mod threads;
