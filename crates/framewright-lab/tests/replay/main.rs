//! `framewright replay` from outside: golden replays, exit codes, outputs.

mod command;
mod golden;
mod recorded;
mod support;
mod threads;
