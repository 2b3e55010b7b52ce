//! A seat: its caches and stock, what it chooses, and calls that do not wait or that a wait ends.

mod at_once;
mod barren;
mod caches;
mod choice;
mod loose;
mod notes;
mod spill;
mod stock;

use super::*;
