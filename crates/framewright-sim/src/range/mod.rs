//! Virtual ranges against their model, over a simulated page table with TLBs.

mod bytes;
mod calls;
mod case;
mod driver;
mod hammer;
mod model;
mod op;

pub use crate::difference::{Difference, Finding, Summary};
pub use crate::drive::{Subject, check, every_sequence};
pub use bytes::run_bytes;
pub use case::{Case, Mixture};
pub use driver::run;
pub use hammer::{Hammer, Work};
pub use model::{Area, RangeModel};
pub use op::Op;
