//! The arena: the free pages that no CPU has, as a tree of gaps under one lock.

mod fit;
mod guard;
mod node;
mod path;
mod record;
mod tree;

pub(crate) use fit::Fit;
pub(super) use fit::WantedGap;
pub(super) use guard::{Arena, ArenaGuard};
pub(super) use record::ArenaRecord;
