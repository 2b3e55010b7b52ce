//! The plan of `gcma`, and its options on the command line.

use super::metrics::TABLE;
use super::{
    BesideRequests, DRAWN_ABOVE, Device, GcmaOptions, GcmaVariant, INTERVAL, Lengths, SwapSafety,
    report, run, steps,
};
use crate::experiment::{
    Detail, Experiment, Failure, Findings, JsonArgs, Outputs, Progress, SEED, Size,
};
use crate::measure::MetricTable;
use crate::report::{Figure, FigureAssertion, Item, Tabled, VerdictCard};
use crate::size::read_bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What is run.
#[derive(Debug, Clone)]
pub struct GcmaExperiment(pub(crate) GcmaOptions);

/// Contiguous memory that other users have meanwhile: what it costs to take it back (S. Park, 2015)
///
/// Requests of 1 to 32,000 frames, each released at once, beside a build of source files. Variants: cma lends
/// the area to movable memory, gcma to guests by the document's own algorithm, gcma.zram with compressed memory
/// as swap device, framewright by reservations and generations; original is cma without a request.
#[derive(Debug, clap::Args)]
pub struct GcmaArgs {
    /// Memory in all
    #[arg(long, value_name = "SIZE", default_value = "800MiB", value_parser = read_bytes)]
    ram: u64,

    /// Of that, what owners take contiguous memory from
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = read_bytes)]
    reserve: u64,

    /// Requests of each size at least, beside as many builds as that takes; above 1000, requests in all, with sizes
    /// that are drawn
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    requests: u32,

    /// What runs beside the requests
    #[arg(long, value_enum, value_name = "NAME", default_value_t = BesideRequests::Build)]
    background: BesideRequests,

    /// Nothing runs beside the requests; before each of them the area is filled with guests' pages
    #[arg(long)]
    idle: bool,

    /// Bytes of source files that are made [default: 5/8 of the RAM, so that the build touches more than the RAM has]
    #[arg(long, value_name = "SIZE", value_parser = read_bytes, conflicts_with = "tree")]
    tree_size: Option<u64>,

    /// Source files to build [default: some thousand that are made, and gone afterwards]
    #[arg(long, value_name = "DIR")]
    tree: Option<PathBuf>,

    /// Builds of each variant, by turns; the table has their means
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,

    /// Milliseconds from one request beside a build to the next [default: 2000, as the document had 256 beside
    /// 515 s; with more than 1000 requests 10]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    interval: Option<u64>,

    /// Whether all variants know before a request how long it will be, and each length has a place of its own, or
    /// none does
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Lengths::Unknown)]
    lengths: Lengths,

    /// How often a compiler goes over what it compiles: how much CPU time the build takes
    #[arg(long, value_name = "N", default_value_t = PASSES, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    passes: u32,

    /// What the build's files and the swap lie on [default: card beside a build, host otherwise and with more
    /// than 1000 requests]
    #[arg(long, value_enum, value_name = "NAME")]
    device: Option<Device>,

    /// How framewright's swapped-out pages stay safe when an owner takes their frames
    #[arg(long, value_enum, value_name = "NAME", default_value_t = POLICY)]
    policy: SwapSafety,

    /// Pages that the build's readers hold pinned at a time, drawn at random
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=65_536))]
    pins: u32,

    /// Threads of the build: 16 as the document's `make -j 16`
    #[arg(long, value_name = "N", default_value_t = WORKERS, value_parser = clap::value_parser!(u16).range(1..=64))]
    workers: u16,

    /// Of everything that is drawn
    #[arg(long, value_name = "N", default_value_t = SEED, hide_default_value = true)]
    seed: u64,

    /// Variants [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    variants: Vec<GcmaVariant>,

    #[command(flatten)]
    json: JsonArgs,

    /// Demand a relation between figures, as `framewright.latency_us_max<=gcma.latency_us_max`; may be
    /// repeated. Exit code 1 if one does not hold for every number of frames
    #[arg(long = "assert", value_name = "EXPR")]
    assertions: Vec<FigureAssertion>,
}

/// framewright's policy where none is named: the better one, as measured (docs/design/0018).
const POLICY: SwapSafety = SwapSafety::PutBack;

/// As the document had it; or, quick, in little memory of which as large a part is the area, with requests up to 8192
/// frames.
pub(super) fn sized(is_full: bool) -> GcmaOptions {
    let (ram, reserve) = if is_full { (800, 256) } else { (192, 64) };
    GcmaOptions {
        ram_bytes: ram << 20,
        reserve_bytes: reserve << 20,
        requests: if is_full { 4 } else { 2 },
        background: BesideRequests::Build,
        idle: false,
        workers: if is_full { WORKERS } else { 4 },
        tree: None,
        // A few seconds for each build. It touches less than the RAM has: what was read before it keeps memory full.
        tree_bytes: (!is_full).then_some(8 << 20),
        runs: 1,
        // At the document's rate no request would come before it is done.
        interval: if is_full {
            INTERVAL
        } else {
            Duration::from_millis(100)
        },
        lengths: Lengths::Unknown,
        passes: if is_full { PASSES } else { 2 },
        device: if is_full { Device::Card } else { Device::Host },
        policy: POLICY,
        pins: 0,
        seed: SEED,
        variants: GcmaVariant::ALL.to_vec(),
    }
}

/// Threads of a build, as the document has them.
const WORKERS: u16 = 16;

/// Passes of a compiler, with which a build takes 0.5 to 0.8 s of CPU time for each MiB of source (docs/design/0018).
const PASSES: u32 = 32;

impl GcmaArgs {
    /// A card where there is something to be seen of it, in a time that can be waited for.
    const fn usual_device(&self) -> Device {
        let is_build = matches!(self.background, BesideRequests::Build) && !self.idle;
        if is_build && self.requests <= DRAWN_ABOVE {
            Device::Card
        } else {
            Device::Host
        }
    }

    /// The document's; of more than 1000 requests a build would take hours.
    const fn usual_interval(&self) -> Duration {
        if self.requests <= DRAWN_ABOVE {
            INTERVAL
        } else {
            Duration::from_millis(10)
        }
    }

    fn options(&self) -> GcmaOptions {
        let is_named = |v: &GcmaVariant| self.variants.is_empty() || self.variants.contains(v);
        GcmaOptions {
            ram_bytes: self.ram,
            reserve_bytes: self.reserve,
            requests: self.requests,
            background: self.background,
            idle: self.idle,
            workers: self.workers,
            tree: self.tree.clone(),
            tree_bytes: self.tree_size,
            runs: self.runs,
            interval: self
                .interval
                .map_or_else(|| self.usual_interval(), Duration::from_millis),
            lengths: self.lengths,
            passes: self.passes,
            device: self.device.unwrap_or_else(|| self.usual_device()),
            policy: self.policy,
            pins: self.pins,
            seed: self.seed,
            variants: GcmaVariant::ALL.into_iter().filter(is_named).collect(),
        }
    }
}

impl Experiment for GcmaExperiment {
    const NAME: &'static str = "gcma";
    const TITLE: &'static str = "What does it cost to take back memory that was lent?";
    const INTRODUCTION: &'static str = report::INTRODUCTION;
    const METHOD: &'static str = report::METHOD;
    const METRICS: MetricTable = TABLE;

    type Args = GcmaArgs;

    fn inputs(args: &GcmaArgs) -> Vec<&Path> {
        args.tree.iter().map(PathBuf::as_path).collect()
    }

    fn outputs(args: &GcmaArgs) -> Outputs<'_> {
        Outputs {
            json: args.json.json.as_deref(),
            assertions: &args.assertions,
            ..Outputs::default()
        }
    }

    fn asked(args: &GcmaArgs) -> Result<Self, String> {
        Ok(Self(args.options()))
    }

    fn sized(size: Size) -> Vec<Self> {
        vec![Self(sized(size == Size::Full))]
    }

    fn steps(&self) -> u64 {
        steps(&self.0)
    }

    fn run(&self, progress: Progress<'_>) -> Result<Findings, Failure> {
        run(&self.0, progress)
    }

    fn seed(&self) -> u64 {
        self.0.seed
    }

    fn described(&self) -> BTreeMap<&'static str, String> {
        let options = &self.0;
        let variants: Vec<&str> = options.variants.iter().map(|v| v.name()).collect();
        BTreeMap::from([
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
            ("interval_ms", options.interval.as_millis().to_string()),
            ("lengths", options.lengths.name().to_owned()),
            ("passes", options.passes.to_string()),
            ("device", options.device.name().to_owned()),
            ("policy", options.policy.name().to_owned()),
            ("pins", options.pins.to_string()),
            ("variants", variants.join(",")),
        ])
    }

    fn tables(&self, figures: &[Figure], detail: Detail) -> Vec<Tabled> {
        report::tables(figures, &self.0, detail)
    }

    fn plots(&self, findings: &Findings) -> Vec<Item> {
        report::plots(findings)
    }

    fn verdict(&self, figures: &[Figure]) -> Vec<String> {
        report::verdict(figures, self.0.runs)
    }

    fn card(&self, findings: &Findings) -> Option<VerdictCard> {
        report::card(findings, self.0.runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_how_many_bytes_of_source_files_were_made() {
        let mut options = sized(false);
        let said = |options: &GcmaOptions| {
            GcmaExperiment(options.clone()).described()["tree_bytes"].clone()
        };
        assert_eq!(said(&options), (8u64 << 20).to_string());
        options.tree_bytes = None;
        assert_eq!(said(&options), (120u64 << 20).to_string());
        options.tree = Some(PathBuf::from("src"));
        assert_eq!(said(&options), "given");
    }
}
