//! The kernel that is recorded: all that the recorder changes of it, and all that it reads of it.
//!
//! ```text
//!   tracefs ─┬─▶ Instance: events, buffers, their text
//!            └─▶ FailureWatch: an Instance for failures alone
//!   /proc ───┬─▶ StateLog: the files that say how memory stood, and how the kernel is set
//!            ├─▶ snapshot: the flags of all frames
//!            └─▶ running_tasks: which task has which name
//! ```
//!
//! These files belong together because a kernel of another version, or one built without something, is met in them: the
//! rest of the recorder knows no file of tracefs and no name of an event.

mod failure;
mod instance;
mod proc;
mod settings;
mod state;
mod tasks;
mod tracefs;

pub(crate) use failure::{FailureWatch, check_order};
pub use instance::{BufferFill, BufferKeeps, Instance};
pub(crate) use proc::{open_page_flags, proc_text, snapshot};
pub(crate) use state::{
    AT_REST_FRAMES, LOOKS_MAX, ProcFiles, STATE, StateLog, state, until_at_rest,
};
pub(crate) use tasks::{running_tasks, task_name};
pub use tracefs::Tracefs;
