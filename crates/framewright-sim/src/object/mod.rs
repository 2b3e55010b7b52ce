//! Objects against their model, over frames with bytes and a page table with TLBs.

mod cache;
mod case;
mod driver;
mod model;
mod op;
mod ram;
mod watched;

pub use crate::difference::{Difference, Finding, RunSummary};
pub use crate::drive::{DrivenCase, check, every_sequence};
pub use cache::SimCache;
pub use case::{ObjectCase, ObjectMixture};
pub use driver::run;
pub use model::{Made, ModelObject, ObjectModel};
pub use op::{ObjectCall, ObjectOp};
pub use ram::SimRam;
pub use watched::RecordedSeat;
