//! The files that a command reads and writes: which they are, and how its outputs get their names.
//!
//! A command first claims every file by what it is ([`FileClaims`]), then works, and in the end gives all outputs
//! their names at once ([`OutputSet`]). What it needs for a while lies in a [`TempFolder`]. On a signal nothing of
//! either is left ([`remove_all`]).
//!
//! # Invariants
//! - **OF1** No output of a command is one of its inputs or another of its outputs: not under another name, not
//!   through a link, and not where the file does not exist yet. The
//!   standard streams count where they are files.
//! - **OF2** Either all outputs of a command have their names or none has: each is written beside its place first.
//! - **OF3** A file of rows that grows while a command works ends with a whole line, whatever signal ends the command: a
//!   line is added with one write, for which a signal waits. A part of a line that a machine which went down has left is cut
//!   off when the file is opened. One command at a time adds to it, and to the one that has the name.

mod claims;
mod output;
mod rows;
mod stage;
mod stdout;
mod temp;

pub(crate) use claims::FileClaims;
pub(crate) use output::OutputSet;
pub(crate) use rows::RowFile;
pub(crate) use stage::Stage;
pub(crate) use stdout::is_stdout;
pub(crate) use temp::{TempFolder, remove_all};
