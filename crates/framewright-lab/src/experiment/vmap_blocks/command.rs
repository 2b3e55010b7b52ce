//! The plan of `vmap-blocks`, and its options on the command line.

use super::report;
use super::{Scenario, VmapBlocks, run, steps};
use crate::experiment::range_metrics::TABLE;
use crate::experiment::ranges::{RangeArgs, SpaceOptions, or_all};
use crate::experiment::{
    Detail, Experiment, Failure, Findings, Mapper, Outputs, Progress, SEED, Size,
};
use crate::measure::MetricTable;
use crate::report::{Figure, Item, Tabled, VerdictCard};
use std::collections::BTreeMap;

/// vm_map_ram's blocks: what a sequence of short mappings costs in address space (R. Pen, 2015)
///
/// Cases: exhaust, random, orders; exhaust32 and random32 on a 32-bit machine. Variants: before puts a new block in front of the others,
/// proposed behind them, framewright uses slots of a block again as soon as they were flushed.
#[derive(Debug, clap::Args)]
pub struct BlocksArgs {
    /// Cases [default: all]
    #[arg(long = "case", value_name = "NAME", value_delimiter = ',')]
    cases: Vec<Scenario>,

    /// Threads: the scenarios are those of one CPU
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1))]
    threads: u16,

    #[command(flatten)]
    common: RangeArgs,
}

impl Experiment for VmapBlocks {
    const NAME: &'static str = "vmap-blocks";
    const TITLE: &'static str = "How much address space does a sequence of short mappings use up?";
    const INTRODUCTION: &'static str = report::INTRODUCTION;
    const METHOD: &'static str = report::METHOD;
    const METRICS: MetricTable = TABLE;

    type Args = BlocksArgs;

    fn outputs(args: &BlocksArgs) -> Outputs<'_> {
        Outputs {
            json: args.common.json.json.as_deref(),
            ..Outputs::default()
        }
    }

    fn asked(args: &BlocksArgs) -> Result<Self, String> {
        let repeat = match args.common.mapper {
            Mapper::Null => 5,
            Mapper::Host => 1,
        };
        Ok(Self {
            scenarios: or_all(args.cases.clone(), &Scenario::ALL),
            options: args.common.options(args.threads, repeat),
        })
    }

    /// As many iterations in both: the counts depend on the document's number of them. Six million mappings for `orders` take a
    /// process longer than all the rest of the quick form, so there nothing is mapped for that case.
    fn sized(size: Size) -> Vec<Self> {
        let plan = |mapper, scenarios| Self {
            scenarios,
            options: SpaceOptions {
                mapper,
                threads: 1,
                loops: None,
                repeat: 1,
                seed: SEED,
            },
        };
        let is_long = |case: &Scenario| size == Size::Quick && *case == Scenario::Orders;
        let (long, others) = Scenario::ALL.into_iter().partition(is_long);
        let plans = [plan(Mapper::Host, others), plan(Mapper::Null, long)];
        let has_cases = |plan: &Self| !plan.scenarios.is_empty();
        plans.into_iter().filter(has_cases).collect()
    }

    fn steps(&self) -> u64 {
        steps(&self.scenarios, self.options)
    }

    fn run(&self, progress: Progress<'_>) -> Result<Findings, Failure> {
        run(&self.scenarios, self.options, progress)
    }

    fn seed(&self) -> u64 {
        self.options.seed
    }

    fn described(&self) -> BTreeMap<&'static str, String> {
        let names: Vec<&str> = self.scenarios.iter().map(|case| case.name()).collect();
        self.options.described(&names)
    }

    fn tables(&self, figures: &[Figure], _detail: Detail) -> Vec<Tabled> {
        vec![report::table(self, figures)]
    }

    fn plots(&self, findings: &Findings) -> Vec<Item> {
        report::plots(findings)
    }

    fn verdict(&self, figures: &[Figure]) -> Vec<String> {
        report::verdict(figures)
    }

    fn card(&self, findings: &Findings) -> Option<VerdictCard> {
        report::card(findings)
    }
}
