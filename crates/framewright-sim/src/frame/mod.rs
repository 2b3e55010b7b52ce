//! The page-frame allocator against its model.

mod case;
mod driver;
mod model;
mod op;

pub use crate::difference::{Difference, Finding, Summary};
pub use crate::drive::{Subject, check, every_sequence};
pub use case::{Case, Mixture};
pub use driver::run;
pub use model::{FrameModel, State};
pub use op::Op;
