//! A pageblock: what is freed into it, from which CPU, and in which parts. `index.rs` belongs to the file of that name.

mod give;
mod remote;
mod split;

use super::*;
