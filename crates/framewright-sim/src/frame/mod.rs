//! The page-frame allocator against its model.

mod case;
mod driver;
mod model;
mod op;

pub use crate::difference::{Difference, Finding, RunSummary};
pub use crate::drive::{DrivenCase, check, every_sequence};
pub use case::{FrameCase, FrameMixture};
pub use driver::run;
pub use model::{FrameModel, ModelFrame};
pub use op::FrameOp;
