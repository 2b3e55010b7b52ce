//! The command line: one file or folder a subcommand, and beside them what several use: how each behaves (`conduct`),
//! from a path to a trace (`input.rs`), and the runner of experiments (`runner.rs`).
//!
//! Exit codes: 0 as asked; 1 an assertion does not hold; 2 bad input or usage, with a message on
//! standard error and no output file touched. [`library`] has the work of two of them for programs that call it.

#[cfg(target_os = "linux")]
mod ab;
mod compare;
mod conduct;
mod explain;
mod input;
#[cfg(all(target_os = "linux", feature = "experiments"))]
pub mod lab;
pub mod library;
mod main_job;
mod manual;
mod places;
pub mod record;
pub mod replay;
#[cfg(all(target_os = "linux", feature = "experiments"))]
mod runner;
mod sweep;
pub mod top;

pub use conduct::{CommandError, ReplayLimits};

use crate::report::{Size, fit_terminal, write_whole};
use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;

/// Version and commit.
const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("FRAMEWRIGHT_COMMIT"),
    ")"
);

/// What the command can do, for a new user.
const OVERVIEW: &str = "\
framewright: what a kernel's page allocator was asked for, replayed under other rules

  framewright demo                       a recording and five experiments, in two minutes
  framewright record -o FILE -- COMMAND  record this machine's page allocator (root)
  framewright top                        which order fails next, and why, live (root)
  framewright replay FILE                memory under each policy, beside what Linux did
  framewright replay FILE --squeeze 1GiB --html PAGE   with less memory, as a page
  framewright lab NAME, explain METRIC   repeat a published experiment; what a figure is
  framewright compare A B, sweep FILES   what a change made; all combinations; ab: A/B
  framewright COMMAND --help             all options; completions, man: files
";

/// Replays what a kernel's page allocator was asked for under other rules, records it, and repeats published experiments
#[derive(Debug, Parser)]
#[command(name = "framewright", version = VERSION, max_term_width = 100, propagate_version = true)]
struct Cli {
    /// Show all columns of a table, however wide it is; otherwise as many as fit the terminal, or 80 characters
    #[arg(long, global = true)]
    wide: bool,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The demonstration: the sample recording under all policies, the published experiments in a quick form, one HTML page
    ///
    /// Says what came out, a line for each document. Takes less than two minutes.
    Demo(main_job::JobOutputs),
    Replay(replay::ReplayArgs),
    Compare(compare::CompareArgs),
    Sweep(sweep::SweepArgs),
    Explain(explain::ExplainArgs),
    Record(record::RecordArgs),
    Top(top::TopArgs),
    #[cfg(target_os = "linux")]
    Ab(ab::AbArgs),
    #[cfg(all(target_os = "linux", feature = "experiments"))]
    Lab(lab::LabArgs),
    Completions(manual::CompletionArgs),
    Man(manual::ManArgs),
}

impl Command {
    const fn ends_by_itself(&self) -> bool {
        match self {
            Self::Record(_) | Self::Top(_) => true,
            #[cfg(target_os = "linux")]
            Self::Ab(_) => true,
            _ => false,
        }
    }
}

/// Reads the command line, runs the command and says how it ended.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    fit_terminal(cli.wide);
    // A recording ends well on a signal by itself, and so do runs that put settings back.
    if !cli.command.as_ref().is_some_and(Command::ends_by_itself) {
        conduct::clean_up_on_signals();
    }
    let result = match cli.command {
        Some(Command::Demo(outputs)) => main_job::run(Size::Quick, &outputs),
        Some(Command::Replay(args)) => replay::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Sweep(args)) => sweep::run(&args),
        Some(Command::Explain(args)) => explain::run(&args),
        Some(Command::Record(args)) => record::run(&args),
        Some(Command::Top(args)) => top::run(&args),
        #[cfg(target_os = "linux")]
        Some(Command::Ab(args)) => ab::run(&args),
        #[cfg(all(target_os = "linux", feature = "experiments"))]
        Some(Command::Lab(args)) => lab::run(&args),
        Some(Command::Completions(args)) => manual::completions(&args, Cli::command()),
        Some(Command::Man(args)) => manual::manual(&args, Cli::command()),
        None => write_whole("-".as_ref(), OVERVIEW.as_bytes()).map_err(CommandError::input),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_one() {
        Cli::command().debug_assert();
        assert!(OVERVIEW.lines().count() <= 10);
        assert!(OVERVIEW.lines().all(|line| line.chars().count() <= 90));
        for name in [
            "demo",
            "record",
            "replay",
            "top",
            "compare",
            "sweep",
            "explain",
            "ab: A/B",
            "lab",
            "completions",
            "man",
        ] {
            assert!(OVERVIEW.contains(name), "{name}");
        }
    }
}
