//! Typed units: a frame is not a page, an order is not a length, and rounding is checked.

mod addr;
mod context;
mod cpu;
mod error;
mod frame;
mod mobility;
mod order;
mod page;
mod run;

pub use addr::Addr;
pub use context::Context;
pub use cpu::CpuId;
pub use error::{RunError, SetupError};
pub(crate) use frame::FRAMES_MAX;
pub use frame::Frame;
pub use mobility::Mobility;
pub use order::Order;
pub use page::{Page, PageAccess, PageRange};
pub use run::Run;
