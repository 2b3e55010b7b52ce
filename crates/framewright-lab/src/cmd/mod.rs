//! The command line: one file a subcommand.
//!
//! Exit codes: 0 as asked; 1 an assertion does not hold; 2 bad input or usage, with a message on
//! standard error and no output file touched.

mod error;
mod input;
#[cfg(target_os = "linux")]
pub mod lab;
mod main_job;
mod progress;
pub mod record;
pub mod replay;
#[cfg(target_os = "linux")]
mod runner;

pub use error::CommandError;

use crate::report::Size;
use clap::{Parser, Subcommand};
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
    outputs: main_job::JobOutputs,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::ReplayArgs),
    Record(record::RecordArgs),
    #[cfg(target_os = "linux")]
    Lab(lab::LabArgs),
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
        None => main_job::run(Size::Quick, &cli.outputs),
    };
    let (code, message) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(CommandError::Assertion(message)) => (1, message),
        Err(CommandError::Input(message)) => (2, message),
    };
    // If standard error is closed, the exit code still tells the caller; `eprintln` would panic.
    let _ = writeln!(io::stderr(), "{message}");
    ExitCode::from(code)
}
