//! What a trace is read from: its bytes, how many of them may be taken, and by what its files know one another.
//!
//! ```text
//!   file or stdin ─▶ Input, counted and unpacked ─▶ a reader
//!                      ├─▶ MemoryLimit: may this much be taken?
//!                      └─▶ RunningDigest ─▶ TraceDigest: which trace this is
//! ```
//!
//! Nothing in this folder knows a format. These files belong together because each reader meets them at once: it is given
//! an [`Input`], which carries the limit and works the digest out while bytes pass.

mod digest;
mod input;
mod limit;
mod name;

pub(crate) use digest::RunningDigest;
pub use digest::TraceDigest;
pub(crate) use input::text_of;
pub use input::{Encoding, Input};
pub use limit::{MemoryLimit, TooMuchMemory};
pub use name::trace_stem;
