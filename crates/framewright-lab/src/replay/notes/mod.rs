//! What a replay notes besides its samples: pictures, failures, tries, and what each asker made of memory.
//!
//! These files belong together because they only note. A replay, with reclaim or without, tells them what happened and
//! when; what they make of it changes no allocation.

mod camera;
mod failures;
mod tries;
mod who;

pub(crate) use camera::Camera;
pub use failures::{FailureCause, FailureLog, FirstFailure, default_watermark};
pub use tries::Tries;
pub(crate) use who::WhoFollower;
pub use who::{AskedKind, Asker, WhoCounts, WhoTally, caller_of, plain_function};
