//! A zone: its ranges and runs, memory set apart, stops of all CPUs, and what it says of itself.

mod apart;
mod broken;
mod counters;
mod edges;
mod presence;
mod ranges;
mod runs;
mod stops;

use super::*;
