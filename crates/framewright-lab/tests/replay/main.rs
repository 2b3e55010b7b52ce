//! `framewright replay` from outside: golden replays, exit codes, outputs.

mod command;
mod golden;
mod hollow;
#[cfg(unix)]
mod mistakes;
mod reclaim;
mod recorded;
mod support;
mod threads;
