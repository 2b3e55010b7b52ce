//! Virtual ranges against their model, over a simulated page table with TLBs.

mod bytes;
mod calls;
mod case;
mod driver;
mod hammer;
mod model;
mod op;

pub use crate::difference::{Difference, Finding, RunSummary};
pub use crate::drive::{DrivenCase, check, every_sequence};
pub use bytes::run_bytes;
pub use case::{RangeCase, RangeMixture};
pub use driver::run;
pub use hammer::{Hammer, HammerWork};
pub use model::{ModelArea, ModelExtent, RangeModel};
pub use op::RangeOp;
