//! `framewright replay` from outside: golden replays, exit codes, outputs.

mod command;
mod golden;
mod reclaim;
mod recorded;
mod support;
mod threads;
