//! Areas: what they are to users, their words in the table, and those kept constructed.

mod info;
mod kept;
mod listing;
mod table;

pub use info::{AreaInfo, AreaKind, AreaState};
pub(super) use kept::{KEPT_MAX, Kept, KeptRecord};
pub(crate) use table::AreaHeader;
pub(super) use table::{AreaTable, AreaWord, GAP, PAGE_BITS, PAGE_MASK, PAGES_MAX};
