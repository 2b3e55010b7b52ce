//! A trace in memory: the one form that all readers make and all replays take.
//!
//! ```text
//!   Trace ─┬─ TraceOp: the operations, of 16 bytes each
//!          ├─ Askers: the task and the caller of each
//!          ├─ KernelWork: what the kernel did beside them
//!          └─ TraceMove: what compaction moved
//!   asked of it: RequestTraits, a request's flags │ Liveness, the objects that are alive
//! ```
//!
//! Nothing in this folder knows a format. These files belong together because each is a part of a [`Trace`], or a question
//! that readers and replays both ask of one.

mod askers;
mod liveness;
mod moves;
mod ops;
mod request;
mod work;

pub use askers::{Askers, CallChains, NameTable};
pub use liveness::{BadFree, Liveness};
pub(super) use moves::MoveCheck;
pub use moves::TraceMove;
pub use ops::{InitClass, InitObject, OpKind, Trace, TraceOp};
pub use request::{RequestCounts, RequestTraits};
pub use work::{KernelWork, RequestWaits, TracedWork, WaitSum, WorkEvent, WorkKind};
