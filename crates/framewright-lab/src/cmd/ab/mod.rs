//! `framewright ab`: what settings do on this machine, predicted before it runs; a stage a subcommand.

mod model;
mod shown;

use super::conduct::{CommandError, ReplayLimits};
use super::places::claim_output;
use crate::ab::{
    AbChoices, AbLoad, AbPlan, AbPrediction, AbRunner, AbRuns, ArmScore, HeldSettings,
    SettingsRoot, score_arm, serve_hog,
};
use crate::files::{FileClaims, OutputSet};
use crate::printable;
use crate::size::read_mib;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A/B against this machine's kernel: runs under A, a prediction of B, runs under both by turns, and how right it was
///
/// A plan names a load, settings of the page allocator, and how much memory is left beside a process that locks the rest.
/// Each stage goes on where it was stopped; settings are put back in any case, after a kill by the next run. Needs root,
/// tracefs and a machine with memory to spare: the load may slow down whatever else runs there.
#[derive(Debug, clap::Args)]
pub(super) struct AbArgs {
    #[command(subcommand)]
    stage: AbStage,
}

#[derive(Debug, clap::Subcommand)]
enum AbStage {
    Plan(PlanArgs),
    /// Make the runs under A that are recorded
    Record(FolderArgs),
    /// Predict each B from the recordings of A
    Predict(PredictArgs),
    /// Make the runs under A and B by turns; a prediction must stand before
    Run(FolderArgs),
    Compare(CompareScores),
    /// Make every stage that is not done
    All(PredictArgs),
    /// Put settings back that a killed run has left
    Restore(FolderArgs),
    /// The process that locks memory: numbers of MiB on standard input
    #[command(hide = true)]
    Hog,
}

/// Write a plan into a new folder
#[derive(Debug, clap::Args)]
struct PlanArgs {
    /// The folder of the run
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// files, database, files-sockets, compile or huge
    #[arg(long, value_name = "LOAD")]
    load: String,

    /// Settings of A that are not the machine's, as vm.watermark_boost_factor=0
    #[arg(long, value_name = "SETTINGS", default_value = "")]
    a: String,

    /// What B has that A has not, as vm.defrag_mode=1,vm.extfrag_threshold=100; once for each B
    #[arg(long, value_name = "SETTINGS", required = true)]
    b: Vec<String>,

    /// What is available when a load begins; at least 2GiB
    #[arg(long, value_name = "SIZE", default_value = "3GiB", value_parser = read_mib)]
    free: u64,

    /// How long a load works
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    seconds: u64,

    /// Runs of each arm, by turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeat: u64,

    /// Runs under A that are recorded for the prediction
    #[arg(long, value_name = "N", default_value_t = 3)]
    record: u64,

    /// What loads and the order of runs are drawn from
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Memory for the recorder's buffers; it is not part of --free
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = read_mib)]
    buffer: u64,

    #[command(flatten)]
    host: HostArgs,
}

/// Where the kernel has its settings.
#[derive(Debug, clap::Args)]
struct HostArgs {
    /// A folder in place of /proc/sys
    #[arg(long, value_name = "FOLDER", hide = true)]
    sysctl_root: Option<PathBuf>,
}

impl HostArgs {
    fn root(&self) -> SettingsRoot {
        let other = self.sysctl_root.clone();
        other.map_or_else(SettingsRoot::default, SettingsRoot::new)
    }
}

// A plain comment, because the help of a stage is the stage's own.
// What a stage needs that works in the folder of a plan.
#[derive(Debug, clap::Args)]
struct FolderArgs {
    /// The folder with the plan
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    #[command(flatten)]
    host: HostArgs,
}

// Plain as above: what a stage needs that also replays.
#[derive(Debug, clap::Args)]
struct PredictArgs {
    #[command(flatten)]
    of: FolderArgs,

    #[command(flatten)]
    limits: ReplayLimits,
}

/// Score the predictions of one or more folders: the effect, and whether the change lay in the range
#[derive(Debug, clap::Args)]
struct CompareScores {
    /// The folders
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,

    /// Rows of figures, scores and the sums, as JSON Lines
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs a stage.
///
/// # Errors
/// What is missing or wrong, or that it was interrupted; settings are as before.
pub(super) fn run(args: &AbArgs) -> Result<(), CommandError> {
    match &args.stage {
        AbStage::Plan(args) => plan(args),
        AbStage::Record(args) => with_runner(args, |runner| runner.record(say)),
        AbStage::Predict(args) => predict(args),
        AbStage::Run(args) => with_runner(args, |runner| runner.run(say)),
        AbStage::Compare(args) => compare(args),
        AbStage::All(args) => {
            with_runner(&args.of, |runner| runner.record(say))?;
            let (_, digest) = AbPlan::read(&args.of.folder).map_err(CommandError::input)?;
            if AbPrediction::read(&args.of.folder, &digest).is_err() {
                predict(args)?;
            }
            with_runner(&args.of, |runner| runner.run(say))?;
            compare(&CompareScores {
                folders: vec![args.of.folder.clone()],
                json: None,
            })
        }
        AbStage::Restore(args) => {
            let any = HeldSettings::restore_only(&args.host.root(), &args.folder, say);
            if !any.map_err(CommandError::input)? {
                say("no run has left settings changed");
            }
            Ok(())
        }
        AbStage::Hog => serve_hog().map_err(CommandError::input),
    }
}

/// The reader of standard error may be gone, and settings are put back all the same.
fn say(line: &str) {
    drop(writeln!(io::stderr(), "{line}"));
}

fn plan(args: &PlanArgs) -> Result<(), CommandError> {
    let choices = AbChoices {
        load: args.load.clone(),
        a: args.a.clone(),
        b: args.b.clone(),
        free_mib: args.free,
        seconds: args.seconds,
        repeat: args.repeat,
        record: args.record,
        seed: args.seed,
        buffer_mib: args.buffer,
    };
    let plan = AbPlan::new(&choices, &args.host.root()).map_err(CommandError::input)?;
    let path = AbPlan::path(&args.folder);
    let shown = printable::path(&path);
    if path.exists() {
        return Err(CommandError::Input(format!(
            "{shown}: there is a plan, expected a new folder"
        )));
    }
    let load = AbLoad::named(&plan.load).map_err(CommandError::input)?;
    let scripts = args.folder.join("loads");
    if let Some(lacks) = load.lacks(&scripts).map_err(CommandError::input)? {
        return Err(CommandError::Input(format!(
            "the load {} {lacks}",
            load.name
        )));
    }
    let mut outputs = OutputSet::new();
    let text = plan.text().map_err(CommandError::input)?;
    outputs
        .write(&path, text.into_bytes())
        .map_err(CommandError::input)?;
    outputs.keep().map_err(CommandError::input)?;
    say(&format!(
        "{shown}: {} recorded runs under A ({}), then {} by turns of {} s each; framewright ab all {} makes them",
        plan.record,
        plan.arms[0].settings,
        plan.repeat * plan.arms.len() as u64,
        plan.seconds,
        printable::path(&args.folder)
    ));
    Ok(())
}

/// With what signals set: the stage ends at the next look and puts settings back.
fn with_runner(
    args: &FolderArgs,
    work: impl FnOnce(&AbRunner<'_>) -> Result<(), crate::ab::AbError>,
) -> Result<(), CommandError> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGQUIT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, Arc::clone(&interrupted))
            .map_err(|e| CommandError::Input(format!("signal {signal} cannot be taken: {e}")))?;
    }
    let runner = AbRunner::new(&args.folder, args.host.root(), &interrupted);
    work(&runner.map_err(CommandError::input)?).map_err(CommandError::input)
}

fn predict(args: &PredictArgs) -> Result<(), CommandError> {
    let folder = &args.of.folder;
    let never = AtomicBool::new(false);
    let runner = AbRunner::new(folder, args.of.host.root(), &never).map_err(CommandError::input)?;
    let prediction = model::predicted(&runner, &args.limits)?;
    let digest = prediction.write(folder).map_err(CommandError::input)?;
    let text = shown::prediction(&runner.plan().load, &prediction, &digest);
    crate::report::write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)
}

/// The scores of a folder, and the digest of what was predicted.
fn scores(folder: &Path) -> Result<shown::ScoredFolder, CommandError> {
    let never = AtomicBool::new(false);
    let runner = AbRunner::new(folder, SettingsRoot::default(), &never);
    let runner = runner.map_err(CommandError::input)?;
    let (prediction, digest) =
        AbPrediction::read(folder, runner.digest()).map_err(CommandError::input)?;
    let path = runner.runs_path();
    let runs = AbRuns::read(&path, runner.digest()).map_err(CommandError::input)?;
    for (nth, run) in runs.iter().enumerate() {
        let why = match (&run.prediction, run.began >= prediction.made) {
            (Some(of), true) if *of == digest => continue,
            (Some(of), true) => format!("another prediction (sha256 {of}) stood when it was made"),
            (None, _) => "no prediction stood when it was made".to_owned(),
            (_, false) => "it began before the prediction was made".to_owned(),
        };
        return Err(CommandError::Input(format!(
            "{}: line {}: {why}, expected runs behind the prediction {digest}",
            printable::path(&path),
            nth + 1
        )));
    }
    // The same load for another time is another pair.
    let plan = runner.plan();
    let load = format!("{} for {} s", plan.load, plan.seconds);
    let score = |arm| score_arm(&load, arm, &runs);
    let scores: Vec<ArmScore> = prediction.arms.iter().map(score).collect();
    Ok(shown::ScoredFolder {
        plan: runner.plan().clone(),
        prediction,
        digest,
        runs,
        scores,
    })
}

fn compare(args: &CompareScores) -> Result<(), CommandError> {
    let scored = args.folders.iter().map(|folder| scores(folder));
    let scored = scored.collect::<Result<Vec<_>, _>>()?;
    let mut outputs = OutputSet::new();
    let mut write = |path: &Path, text: String| {
        outputs
            .write(path, text.into_bytes())
            .map_err(CommandError::input)
    };
    if let Some(path) = &args.json {
        let claimed = args.folders.iter().any(|folder| {
            let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
            let beside = path.parent().map(fs::canonicalize);
            matches!(beside, Some(Ok(beside)) if beside == folder)
        });
        if claimed {
            return Err(CommandError::Input(format!(
                "--json {}: lies among the files of a run, expected another folder",
                printable::path(path)
            )));
        }
        claim_output(&mut FileClaims::new(), "--json", path)?;
        write(path, shown::lines(&scored)?)?;
    }
    write("-".as_ref(), shown::table(&scored))?;
    outputs.keep().map_err(CommandError::input)
}
