//! The plan of `fallback`, and its options on the command line.

use super::metrics::TABLE;
use super::report::{self, PUBLISHED_DAYS_MILLI};
use super::{
    FallbackExperiment, LifeJob, LifeSpan, Params, PhoneKernel, figures, live_all, series,
};
use crate::experiment::{Detail, Experiment, Failure, Findings, JsonArgs, Outputs, Progress, Size};
use crate::measure::MetricTable;
use crate::report::{Figure, FigureAssertion, Item, Tabled, VerdictCard};
use crate::size::read_frames_len;
use crate::trace::text_of;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The most days.
const DAYS_MAX: f64 = 100.0;

/// Order-2 and order-3 stalls of a phone after days: what a fallback does to memory (ChengYi He, 2016)
///
/// A synthetic phone of 2.7 GB lives on Linux 3.10.49 as it was (before), with the document's patch
/// (proposed), and on this engine (framewright). What it asks for is the same for all of them.
#[derive(Debug, clap::Args)]
pub struct FallbackArgs {
    /// How long, of which the device is awake for the parameter file's share
    #[arg(long, value_name = "DAYS", default_value = "2.5", value_parser = days_milli)]
    days: u64,

    /// Seeds of the demand, as 1,2,7
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1")]
    seed: Vec<u64>,

    /// The seeds from 1 to K instead
    #[arg(long, value_name = "K", conflicts_with = "seed", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,

    /// Policies [default: all]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<PhoneKernel>,

    /// The phone, in the form of the program's own phone.toml (crates/framewright-lab/src/experiment/fallback)
    #[arg(long, value_name = "FILE")]
    params: Option<PathBuf>,

    /// Lives at a time [default: as many as there are CPUs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: Option<u16>,

    #[command(flatten)]
    pub(crate) json: JsonArgs,

    /// Write a series over virtual time
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Seconds awake between two points of the series
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub(crate) every: u64,

    /// The same machine over this recorded trace, in the phone's place, with 350 huge pages requested at
    /// its end: `framewright replay --reclaim`, which has assertions and more options
    #[arg(long, value_name = "TRACE", conflicts_with_all = ["days", "seed", "seeds", "params", "assertions"])]
    pub(crate) trace: Option<PathBuf>,

    /// Memory to hold back from the trace's, from the start to the end: 160MiB, or frames
    #[arg(long, value_name = "SIZE", requires = "trace", default_value = "0", value_parser = read_frames_len)]
    pub(crate) squeeze: u64,

    /// Demand a relation between figures, as `framewright.allocstall<=proposed.allocstall`; may be
    /// repeated. Exit code 1 if one does not hold for every seed
    #[arg(long = "assert", value_name = "EXPR")]
    assertions: Vec<FigureAssertion>,
}

fn days_milli(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(days) if (0.001..=DAYS_MAX).contains(&days) => Ok((days * 1000.0).round() as u64),
        _ => Err(format!("expected days from 0.001 to {DAYS_MAX}")),
    }
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

impl FallbackArgs {
    fn seeds(&self) -> Vec<u64> {
        let mut seeds = Vec::new();
        let all = self.seeds.map(|last| (1..=last).collect());
        for seed in all.unwrap_or_else(|| self.seed.clone()) {
            if !seeds.contains(&seed) {
                seeds.push(seed);
            }
        }
        seeds
    }

    pub(crate) fn policies(&self) -> Vec<PhoneKernel> {
        let is_named =
            |policy: &PhoneKernel| self.policy.is_empty() || self.policy.contains(policy);
        PhoneKernel::ALL.into_iter().filter(is_named).collect()
    }

    fn params(&self) -> Result<Params, String> {
        let Some(path) = &self.params else {
            return Ok(Params::default());
        };
        let (name, text) = text_of(path).map_err(|e| e.to_string())?;
        Params::read(&name, &text).map_err(|e| e.to_string())
    }
}

impl Experiment for FallbackExperiment {
    const NAME: &'static str = "fallback";
    const TITLE: &'static str = "What does a fallback cost a phone, request by request?";
    const INTRODUCTION: &'static str = report::INTRODUCTION;
    const METHOD: &'static str = report::METHOD;
    const METRICS: MetricTable = TABLE;

    type Args = FallbackArgs;

    fn inputs(args: &FallbackArgs) -> Vec<&Path> {
        args.params.iter().map(PathBuf::as_path).collect()
    }

    fn outputs(args: &FallbackArgs) -> Outputs<'_> {
        Outputs {
            json: args.json.json.as_deref(),
            csv: args.csv.as_deref(),
            assertions: &args.assertions,
        }
    }

    fn asked(args: &FallbackArgs) -> Result<Self, String> {
        let has_series = args.csv.is_some();
        Ok(Self {
            params: args.params()?,
            is_given: args.params.is_some(),
            policies: args.policies(),
            seeds: args.seeds(),
            span: LifeSpan {
                days_milli: args.days,
                every_s: has_series.then_some(args.every),
            },
            threads: args.jobs.map_or_else(cpus, usize::from),
            has_series,
        })
    }

    fn sized(size: Size) -> Vec<Self> {
        // In the quick form some 70 minutes, of which the phone is awake for 50.
        let (days_milli, every_s) = match size {
            Size::Full => (PUBLISHED_DAYS_MILLI, 900),
            Size::Quick => (50, 20),
        };
        vec![Self {
            params: Params::default(),
            is_given: false,
            policies: PhoneKernel::ALL.to_vec(),
            seeds: vec![1],
            span: LifeSpan {
                days_milli,
                every_s: Some(every_s),
            },
            threads: cpus(),
            has_series: false,
        }]
    }

    /// The models need nothing of the machine.
    fn available() -> Result<(), Failure> {
        Ok(())
    }

    fn steps(&self) -> u64 {
        self.span.steps(&self.params) * (self.seeds.len() * self.policies.len()) as u64
    }

    /// Each policy with each seed.
    fn run(&self, progress: Progress<'_>) -> Result<Findings, Failure> {
        let of = |&seed| {
            self.policies
                .iter()
                .map(move |&policy| LifeJob { policy, seed })
        };
        let jobs: Vec<LifeJob> = self.seeds.iter().flat_map(of).collect();
        let outcomes = live_all(&self.params, &jobs, self.span, self.threads, progress)?;
        Ok(Findings {
            figures: figures(&jobs, &outcomes),
            courses: report::courses(&jobs, &outcomes),
            series: if self.has_series {
                series(&jobs, &outcomes)
            } else {
                String::new()
            },
            ..Findings::default()
        })
    }

    fn seed(&self) -> u64 {
        self.seeds.first().copied().unwrap_or(0)
    }

    fn described(&self) -> BTreeMap<&'static str, String> {
        let policies: Vec<&str> = self.policies.iter().map(|policy| policy.name()).collect();
        let seeds: Vec<String> = self.seeds.iter().map(u64::to_string).collect();
        let params = if self.is_given { "given" } else { "default" };
        BTreeMap::from([
            ("days", (self.span.days_milli as f64 / 1000.0).to_string()),
            ("seeds", seeds.join(",")),
            ("policy", policies.join(",")),
            ("params", params.to_owned()),
        ])
    }

    fn tables(&self, figures: &[Figure], detail: Detail) -> Vec<Tabled> {
        vec![report::table(self, figures, detail)]
    }

    fn plots(&self, findings: &Findings) -> Vec<Item> {
        findings
            .courses
            .iter()
            .cloned()
            .map(Item::OverTime)
            .collect()
    }

    fn verdict(&self, figures: &[Figure]) -> Vec<String> {
        report::verdict(figures, self.span)
    }

    fn card(&self, findings: &Findings) -> Option<VerdictCard> {
        report::card(findings, self.span)
    }
}
