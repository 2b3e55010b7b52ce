//! `framewright lab gcma`.

use super::CommandError;
use super::gcma_tables::{in_full, tables};
use super::kvmalloc::size;
use super::lab::failed;
use super::progress::with_progress;
use crate::experiment::gcma::{self, Background, Device, Options, Policy, Variant};
use crate::experiment::{Findings, Progress, SEED};
use crate::report::{FigureAssertion, Machine, RunInfo, Tabled, figure_lines, write_whole};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Contiguous memory that somebody else has meanwhile: what it costs to take it back (S. Park, 2015)
///
/// Requests of 1 to 32,000 frames, each released at once, beside a build of source files. Variants: cma lends
/// the area to movable memory, gcma to guests by the document's own algorithm, gcma.zram with compressed memory
/// as swap device, framewright by reservations and generations; original is cma without a request.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Memory in all
    #[arg(long, value_name = "SIZE", default_value = "800MiB", value_parser = size)]
    ram: u64,

    /// Of that, what owners take contiguous memory from
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    reserve: u64,

    /// Requests of each size beside a build; above 1000, requests in all, with sizes that are drawn
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,

    /// What runs beside the requests
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Background::Build)]
    background: Background,

    /// Nobody is at work; before each request the area is filled with guests' pages
    #[arg(long)]
    idle: bool,

    /// Bytes of source files that are made [default: 5/8 of the RAM; on a card 1/8]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "tree")]
    tree_size: Option<u64>,

    /// Source files to build [default: some thousand that are made, and gone afterwards]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,

    /// Builds of each variant, by turns; the table has their means
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Milliseconds between a release and the next request beside a build [default: as many requests as the
    /// document had beside one build, spread evenly over its work]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pause: Option<u64>,

    /// What the build's files and the swap lie on [default: card beside a build, host otherwise and with more
    /// than 1000 requests]
    #[arg(long, value_enum, value_name = "NAME")]
    device: Option<Device>,

    /// How framewright's swapped-out pages stay safe when an owner takes their frames
    #[arg(long, value_enum, value_name = "NAME", default_value_t = POLICY)]
    policy: Policy,

    /// Pages that the build's readers hold pinned at a time, drawn at random
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pins: u32,

    /// Threads of the build [default: one for each CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: Option<u16>,

    /// Of everything that is drawn
    #[arg(long, value_name = "N", default_value_t = SEED, hide_default_value = true)]
    seed: u64,

    /// Variants [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    variants: Vec<Variant>,

    /// Write the figures as JSON Lines; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Demand a relation between figures, as `framewright.latency_us_max<=gcma.latency_us_max`; may be
    /// repeated. Exit code 1 if one does not hold for every number of frames
    #[arg(long = "assert", value_name = "EXPR")]
    assertions: Vec<FigureAssertion>,
}

/// framewright's policy where none is named: the better one, as measured (docs/design/0018).
const POLICY: Policy = Policy::PutBack;

/// As the document had it; or, quick, in little memory with requests up to 8192 frames.
pub(crate) fn sized(is_full: bool) -> Options {
    let (ram, reserve) = if is_full { (800, 256) } else { (128, 64) };
    Options {
        ram_bytes: ram << 20,
        reserve_bytes: reserve << 20,
        requests: if is_full { 32 } else { 8 },
        background: Background::Build,
        idle: false,
        workers: cpus(),
        tree: None,
        // A few seconds for each build; with what comes of it, more than what is left beside the area.
        tree_bytes: (!is_full).then_some(24 << 20),
        runs: 1,
        pause: None,
        device: if is_full { Device::Card } else { Device::Host },
        policy: POLICY,
        pins: 0,
        seed: SEED,
        variants: Variant::ALL.to_vec(),
    }
}

/// Threads of a build where nothing is said: one for each CPU.
fn cpus() -> u16 {
    std::thread::available_parallelism().map_or(1, |n| n.get().min(64) as u16)
}

impl Args {
    /// Where figures are to be written.
    pub(super) const fn json(&self) -> &Option<PathBuf> {
        &self.json
    }

    /// A card where there is something to be seen of it, in a time that can be waited for.
    const fn usual_device(&self) -> Device {
        let is_build = matches!(self.background, Background::Build) && !self.idle;
        if is_build && self.requests <= gcma::DRAWN_ABOVE {
            Device::Card
        } else {
            Device::Host
        }
    }

    fn options(&self) -> Options {
        let is_named = |v: &Variant| self.variants.is_empty() || self.variants.contains(v);
        Options {
            ram_bytes: self.ram,
            reserve_bytes: self.reserve,
            requests: self.requests,
            background: self.background,
            idle: self.idle,
            workers: self.workers.unwrap_or_else(cpus),
            tree: self.tree.clone(),
            tree_bytes: self.tree_size,
            runs: self.runs,
            pause: self.pause.map(Duration::from_millis),
            device: self.device.unwrap_or_else(|| self.usual_device()),
            policy: self.policy,
            pins: self.pins,
            seed: self.seed,
            variants: Variant::ALL.into_iter().filter(is_named).collect(),
        }
    }
}

/// What ran.
pub(super) fn info(options: &Options) -> RunInfo {
    let variants: Vec<&str> = options.variants.iter().map(|v| v.name()).collect();
    RunInfo {
        experiment: "gcma",
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("FRAMEWRIGHT_COMMIT"),
        seed: options.seed,
        options: BTreeMap::from([
            ("ram", options.ram_bytes.to_string()),
            ("reserve", options.reserve_bytes.to_string()),
            ("requests", options.requests.to_string()),
            ("background", options.background.name().to_owned()),
            ("idle", options.idle.to_string()),
            ("workers", options.workers.to_string()),
            (
                "tree",
                if options.tree.is_some() {
                    "given"
                } else {
                    "made"
                }
                .to_owned(),
            ),
            (
                "tree_bytes",
                match options.tree {
                    Some(_) => "given".to_owned(),
                    None => options.made_bytes().to_string(),
                },
            ),
            ("runs", options.runs.to_string()),
            (
                "pause_ms",
                options
                    .pause
                    .map_or_else(|| "spread".to_owned(), |p| p.as_millis().to_string()),
            ),
            ("device", options.device.name().to_owned()),
            ("policy", options.policy.name().to_owned()),
            ("pins", options.pins.to_string()),
            ("variants", variants.join(",")),
        ]),
        machine: Machine::this(),
    }
}

/// Runs the command.
///
/// # Errors
/// If memory does not have the shape asked for or cannot be had, an output cannot be written, or an
/// assertion does not hold.
pub fn run(args: &Args) -> Result<(), CommandError> {
    let options = args.options();
    let figures = measured(&options)?.figures;
    let mut unheld = Vec::new();
    for assertion in &args.assertions {
        for case in gcma::cases(&figures) {
            let held = assertion.check(case, &figures);
            let held = held.map_err(CommandError::input)?;
            if !held.held {
                unheld.push(held.figures);
            }
        }
    }
    if let Some(path) = &args.json {
        let lines = figure_lines(&info(&options), &figures).map_err(CommandError::input)?;
        write_whole(path, &lines).map_err(CommandError::input)?;
    }
    if args.json.as_ref().is_none_or(|p| p.as_os_str() != "-") {
        let text: Vec<String> = tables(&figures, &options, in_full)
            .iter()
            .map(Tabled::text)
            .collect();
        let text = text.join("\n");
        write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)?;
    }
    if unheld.is_empty() {
        Ok(())
    } else {
        Err(CommandError::Assertion(unheld.join("\n")))
    }
}

/// The experiment, with progress.
pub(super) fn measured(options: &Options) -> Result<Findings, CommandError> {
    with_progress("gcma", gcma::steps(options), |done| {
        gcma::run(options, Progress::new(done))
    })
    .map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_how_many_bytes_of_source_files_were_made() {
        let mut options = sized(false);
        let said = |options: &Options| info(options).options["tree_bytes"].clone();
        assert_eq!(said(&options), (24u64 << 20).to_string());
        options.tree_bytes = None;
        assert_eq!(said(&options), (80u64 << 20).to_string());
        options.tree = Some(PathBuf::from("src"));
        assert_eq!(said(&options), "given");
    }
}
