//! Typed units: a frame is not a page, an order is not a length, and rounding is checked.

mod cpu;
mod frame;
mod mobility;
mod order;
mod run;

pub use cpu::CpuId;
pub use frame::Frame;
pub use mobility::Mobility;
pub use order::Order;
pub use run::Run;
