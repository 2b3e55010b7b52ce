//! The page-frame allocator against its model.

mod case;
mod driver;
mod exhaustive;
mod model;
mod op;

pub use case::{Case, Mixture};
pub use driver::{Difference, Finding, Summary, check, run};
pub use exhaustive::every_sequence;
pub use model::{FrameModel, State};
pub use op::Op;
