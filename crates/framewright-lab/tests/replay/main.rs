//! `framewright replay` from outside: golden replays, exit codes, outputs.

mod answer;
mod command;
mod compare;
mod golden;
mod hollow;
#[cfg(unix)]
mod mistakes;
mod reclaim;
mod recorded;
mod support;
mod sweep;
mod threads;
mod watermarks;
mod who;
mod who_model;
