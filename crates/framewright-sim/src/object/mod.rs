//! Objects against their model, over frames with bytes and a page table with TLBs.

mod cache;
mod case;
mod driver;
mod model;
mod op;
mod ram;
mod watched;

pub use crate::difference::{Difference, Finding, Summary};
pub use crate::drive::{Subject, check, every_sequence};
pub use cache::Cache;
pub use case::{Case, Mixture};
pub use driver::run;
pub use model::{Made, Object, ObjectModel};
pub use op::{Call, Op};
pub use ram::Ram;
pub use watched::Watched;
