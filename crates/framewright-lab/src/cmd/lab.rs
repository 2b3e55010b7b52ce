//! `framewright lab`: the published experiments, repeated.

use super::conduct::{CommandError, ReplayLimits};
use super::main_job::{self, JobOutputs};
use super::{replay, runner};
use crate::experiment::fallback::{self, PhoneKernel};
use crate::experiment::{Experiment, Size, all_experiments};
use clap::Subcommand;
use std::path::Path;

/// Repeat a published experiment, and show its own figures beside what this machine does
#[derive(Debug, clap::Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

/// Everything that `framewright` alone does: the sample trace and all experiments, and one HTML page
#[derive(Debug, clap::Args)]
pub struct AllExperiments {
    /// At the documents' own sizes, which takes many minutes, instead of less than two
    #[arg(long)]
    full: bool,

    #[command(flatten)]
    outputs: JobOutputs,
}

macro_rules! commands {
    ($($name:ident: $experiment:ty,)*) => {
        #[derive(Debug, Subcommand)]
        enum LabCommand {
            $($name(<$experiment as Experiment>::Args),)*
            All(AllExperiments),
        }

        impl LabCommand {
            fn run(&self) -> Result<(), CommandError> {
                match self {
                    $(Self::$name(args) => runner::command::<$experiment>(args),)*
                    Self::All(args) => {
                        let size = if args.full { Size::Full } else { Size::Quick };
                        main_job::run(size, &args.outputs)
                    }
                }
            }
        }
    };
}
all_experiments!(commands);

/// Runs the command.
///
/// # Errors
/// If the machine does not give what is needed, a request fails that must not, an output cannot
/// be written, or an assertion does not hold.
pub fn run(args: &LabArgs) -> Result<(), CommandError> {
    match &args.command {
        LabCommand::Fallback(args) => match &args.trace {
            Some(trace) => replay::run(&replay_of(args, trace)),
            None => runner::command::<fallback::FallbackExperiment>(args),
        },
        command => command.run(),
    }
}

/// Huge pages requested after a trace, as after the recorded ones.
const HUGE_PROBES: u64 = 350;

/// What `framewright replay` is asked for a trace in the phone's place.
fn replay_of(args: &fallback::FallbackArgs, trace: &Path) -> replay::ReplayArgs {
    let named = |policy: PhoneKernel| match policy {
        PhoneKernel::Before => replay::RECLAIMING[0],
        PhoneKernel::Proposed => replay::RECLAIMING[1],
        PhoneKernel::Framewright => replay::RECLAIMING[2],
    };
    replay::ReplayArgs {
        traces: vec![trace.to_owned()],
        policy: args.policies().into_iter().map(named).collect(),
        start: replay::StartArg::Imposed,
        squeeze: args.squeeze,
        state: None,
        page_owner: None,
        settings: replay::SettingsArg::None,
        watermarks: replay::WatermarksArg::Off,
        compaction: replay::CompactionArg::Recorded,
        probe: None,
        reclaim: true,
        probe_huge: HUGE_PROBES,
        json: args.json.json.clone(),
        csv: args.csv.clone(),
        perfetto: None,
        every: args.every as f64,
        html: None,
        stacks: None,
        stacks_by: replay::StacksBy::Held,
        flame: None,
        format: replay::PrintFormat::Table,
        assertions: Vec::new(),
        time: false,
        limits: ReplayLimits {
            memory_limit: None,
            jobs: args.jobs,
        },
    }
}
