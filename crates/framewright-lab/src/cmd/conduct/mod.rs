//! How each command behaves, whatever it is for: how it ends, what it shows while it works, what a signal leaves, and
//! how much of this machine it may take. No file of this room knows a subcommand.

mod error;
mod limits;
mod progress;
mod signals;

pub use error::CommandError;
pub use limits::ReplayLimits;
pub(super) use limits::distinct;
pub(super) use progress::with_progress;
pub(super) use signals::clean_up_on_signals;
