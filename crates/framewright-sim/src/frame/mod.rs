//! The page-frame allocator against its model.

mod case;
mod driver;
mod exhaustive;
mod model;
mod op;

pub use crate::difference::{Difference, Finding, Summary};
pub use case::{Case, Mixture};
pub use driver::{check, run};
pub use exhaustive::every_sequence;
pub use model::{FrameModel, State};
pub use op::Op;
