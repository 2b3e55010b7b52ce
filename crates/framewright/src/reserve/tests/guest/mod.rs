//! Guests: what they are promised, whose page goes, and their calls beside an owner's.

mod choice;
mod contract;
mod generations;
mod threads;
pub(super) mod under_way;

use super::*;
