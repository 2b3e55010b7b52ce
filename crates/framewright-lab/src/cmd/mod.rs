//! The command line: one file a subcommand.
//!
//! Exit codes: 0 as asked; 1 an assertion does not hold; 2 bad input or usage, with a message on
//! standard error and no output file touched.

#[cfg(target_os = "linux")]
pub mod fallback;
#[cfg(target_os = "linux")]
pub mod gcma;
#[cfg(target_os = "linux")]
mod gcma_tables;
mod input;
#[cfg(target_os = "linux")]
pub mod kvmalloc;
#[cfg(target_os = "linux")]
pub mod lab;
mod main_job;
mod progress;
pub mod record;
pub mod replay;

use clap::{Parser, Subcommand};
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// The experiment laboratory of Framewright, a memory manager as a library.
///
/// Without a command: replays the sample trace that the program carries under all policies, repeats
/// the published experiments in a quick form, says what came out, and writes it as one HTML page.
#[derive(Debug, Parser)]
#[command(name = "framewright", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    outputs: main_job::Outputs,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::Args),
    Record(record::Args),
    #[cfg(target_os = "linux")]
    Lab(lab::Args),
}

/// How a command can end other than well.
#[derive(Debug)]
pub enum CommandError {
    /// An assertion does not hold; the message holds the figures. Exit code 1.
    Assertion(String),
    /// Bad input or usage: `path:line: what is wrong, what was expected`. Exit code 2.
    Input(String),
}

impl CommandError {
    /// Bad input, with whatever says what is wrong.
    pub fn input(cause: impl fmt::Display) -> Self {
        Self::Input(cause.to_string())
    }
}

/// Reads the command line, runs the command and says how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Record(args)) => record::run(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Lab(args)) => lab::run(&args),
        None => main_job::run(main_job::Size::Quick, &cli.outputs),
    };
    let (code, message) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(CommandError::Assertion(message)) => (1, message),
        Err(CommandError::Input(message)) => (2, message),
    };
    // Where nobody listens, the exit code still says it; `eprintln` would panic.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(code)
}
