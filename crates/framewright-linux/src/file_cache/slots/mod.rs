//! A slot for each frame: found by its page or by its frame, and in a queue by how soon it leaves. Nothing here knows
//! of a file more than its number.

mod queue;
mod table;

pub(super) use queue::{HandStep, SlotQueue};
pub(super) use table::{CacheTable, HeldPage, NONE, PageKey, SlotState};
