//! The plan of `va-fit`, and its options on the command line.

use super::measuring::peer::PeerProgram;
use super::report;
use super::variants::LINUX;
use super::{FitCase, VaFit, run};
use crate::experiment::range_metrics::TABLE;
use crate::experiment::ranges::{RangeArgs, SpaceOptions, or_all};
use crate::experiment::{
    Detail, Experiment, Failure, Findings, Mapper, Outputs, Progress, SEED, Size,
};
use crate::measure::MetricTable;
use crate::report::{Figure, Item, Tabled, VerdictCard};
use std::collections::BTreeMap;

/// vmalloc's address space: what it costs to find a gap (U. Rezki, 2018)
///
/// Variants: before walks a list of busy areas, proposed a list of free ones; tree is the engine's tree
/// of gaps under one lock, framewright has spans that belong to a CPU. Each free unmaps before it returns,
/// but in framewright-kept
#[derive(Debug, clap::Args)]
pub struct FitArgs {
    /// Cases, as vm_map_ram, vm_map_ram/4 or full_fit [default: all]
    #[arg(long = "case", value_name = "NAME", value_delimiter = ',', value_parser = cases)]
    cases: Vec<Cases>,

    /// Threads, each with a CPU slot of its own; with more than one, throughput is compared with
    /// one thread's. On the host some cases have room for three
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,

    #[command(flatten)]
    common: RangeArgs,
}

/// What one name on the command line stands for.
#[derive(Debug, Clone)]
struct Cases(Vec<FitCase>);

fn cases(name: &str) -> Result<Cases, String> {
    FitCase::named(name).map(Cases)
}

impl Experiment for VaFit {
    const NAME: &'static str = "va-fit";
    const TITLE: &'static str = "How long does it take to find address space?";
    const INTRODUCTION: &'static str = report::INTRODUCTION;
    const METHOD: &'static str = report::METHOD;
    const METRICS: MetricTable = TABLE;

    type Args = FitArgs;

    fn outputs(args: &FitArgs) -> Outputs<'_> {
        Outputs {
            json: args.common.json.json.as_deref(),
            ..Outputs::default()
        }
    }

    fn asked(args: &FitArgs) -> Result<Self, String> {
        let cases = args.cases.iter().flat_map(|cases| cases.0.clone());
        Ok(Self {
            cases: or_all(cases.collect(), &FitCase::ALL),
            options: args.common.options(args.threads, 5),
        })
    }

    fn sized(size: Size) -> Vec<Self> {
        // In the quick form some 20 ms a case and variant.
        let plan = |(mapper, loops)| Self {
            cases: FitCase::ALL.to_vec(),
            options: SpaceOptions {
                mapper,
                threads: 1,
                loops: (size == Size::Quick).then_some(loops),
                repeat: if size == Size::Full { 5 } else { 3 },
                seed: SEED,
            },
        };
        [(Mapper::Null, 20_000), (Mapper::Host, 500)]
            .map(plan)
            .into()
    }

    fn steps(&self) -> u64 {
        self.cases.len() as u64
    }

    fn run(&self, progress: Progress<'_>) -> Result<Findings, Failure> {
        run(&self.cases, self.options, progress)
    }

    fn seed(&self) -> u64 {
        self.options.seed
    }

    fn described(&self) -> BTreeMap<&'static str, String> {
        let names: Vec<&str> = self.cases.iter().map(|case| case.name()).collect();
        let mut described = self.options.described(&names);
        let linux = PeerProgram::found().map_or("skipped".into(), |peer| peer.version);
        described.insert(LINUX, linux);
        described
    }

    fn tables(&self, figures: &[Figure], detail: Detail) -> Vec<Tabled> {
        vec![report::table(self, figures, detail)]
    }

    fn plots(&self, findings: &Findings) -> Vec<Item> {
        report::plots(self, findings)
    }

    fn verdict(&self, figures: &[Figure]) -> Vec<String> {
        report::verdict(figures, self.options.mapper)
    }

    fn card(&self, findings: &Findings) -> Option<VerdictCard> {
        report::card(self, findings)
    }
}
