//! The plan of `kvmalloc`, and its options on the command line.

use super::metrics::TABLE;
use super::{FRAGMENTED, KvmallocOptions, MEMORY_BYTES, report, run, steps};
use crate::experiment::{
    Detail, Experiment, Failure, Findings, JsonArgs, Mapper, Outputs, Progress, SEED, Size,
};
use crate::measure::MetricTable;
use crate::report::{Figure, Item, Tabled};
use crate::size::read_bytes;
use std::collections::BTreeMap;

/// The longest repetition, in seconds.
const SECONDS_MAX: f64 = 3600.0;

/// What is run, with each of several numbers of threads.
#[derive(Debug, Clone)]
pub struct Kvmalloc {
    /// Ascending, each once.
    pub(crate) threads: Vec<u16>,
    /// With the first of them.
    pub(crate) options: KvmallocOptions,
}

/// kvmalloc in a journal: large buffers at a high rate, in memory that is in pieces (D. Chinner, 2023)
///
/// Variants: before compacts and reclaims before it maps pages, proposed maps them at once, both
/// under one lock for all address space; framewright maps at once without a lock that all share.
#[derive(Debug, clap::Args)]
pub struct KvmallocArgs {
    /// Threads that log; several numbers, as 1,2,4, for a curve
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Vec<u16>,

    /// Bytes of a buffer, as 64KiB, 1MiB or 70000
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = read_bytes)]
    object: u64,

    /// Of a hundred blocks of the buffer's order, those with a frame that can neither be moved nor
    /// reclaimed
    #[arg(long, value_name = "PERCENT", default_value_t = FRAGMENTED, value_parser = clap::value_parser!(u32).range(0..=100))]
    fragmented: u32,

    /// How long each repetition of each variant logs
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: f64,

    /// Repetitions
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// Memory of the experiment
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = read_bytes)]
    memory: u64,

    /// Pages read into the cache for each buffer; with 0 nothing but the buffers turns over [default: as
    /// many as it has]
    #[arg(long, value_name = "PAGES")]
    read_in: Option<u32>,

    /// What stands behind mapped pages: with null a table of the experiment's own, which costs what a
    /// kernel's costs to write to
    #[arg(long, value_enum, default_value_t = Mapper::Host)]
    mapper: Mapper,

    /// Of layout and items
    #[arg(long, value_name = "N", default_value_t = SEED, hide_default_value = true)]
    seed: u64,

    #[command(flatten)]
    json: JsonArgs,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => Ok(seconds),
        _ => Err(format!("expected seconds above 0, {SECONDS_MAX} at most")),
    }
}

impl Kvmalloc {
    fn each(&self) -> impl Iterator<Item = KvmallocOptions> {
        self.threads.iter().map(|&threads| KvmallocOptions {
            threads,
            ..self.options
        })
    }
}

impl Experiment for Kvmalloc {
    const NAME: &'static str = "kvmalloc";
    const TITLE: &'static str = "What does a large buffer cost where memory is in pieces?";
    const INTRODUCTION: &'static str = report::INTRODUCTION;
    const METHOD: &'static str = report::METHOD;
    const METRICS: MetricTable = TABLE;

    type Args = KvmallocArgs;

    fn outputs(args: &KvmallocArgs) -> Outputs<'_> {
        Outputs {
            json: args.json.json.as_deref(),
            ..Outputs::default()
        }
    }

    fn asked(args: &KvmallocArgs) -> Result<Self, String> {
        let mut threads = args.threads.clone();
        threads.sort_unstable();
        threads.dedup();
        Ok(Self {
            options: KvmallocOptions {
                mapper: args.mapper,
                threads: threads[0],
                object_bytes: args.object,
                fragmented: args.fragmented,
                seconds: args.seconds,
                seed: args.seed,
                repeat: args.repeat,
                read_in: args.read_in,
                memory_bytes: args.memory,
            },
            threads,
        })
    }

    fn sized(size: Size) -> Vec<Self> {
        let is_full = size == Size::Full;
        let plan = |mapper| Self {
            threads: vec![2],
            options: KvmallocOptions {
                mapper,
                threads: 2,
                object_bytes: 64 << 10,
                fragmented: FRAGMENTED,
                seconds: if is_full { 2.0 } else { 0.3 },
                seed: SEED,
                repeat: if is_full { 3 } else { 1 },
                read_in: None,
                memory_bytes: MEMORY_BYTES,
            },
        };
        [Mapper::Null, Mapper::Host].map(plan).into()
    }

    fn steps(&self) -> u64 {
        self.each().map(steps).sum()
    }

    fn run(&self, progress: Progress<'_>) -> Result<Findings, Failure> {
        let mut findings = Findings::default();
        for options in self.each() {
            findings.add(run(options, progress)?);
        }
        Ok(findings)
    }

    fn seed(&self) -> u64 {
        self.options.seed
    }

    fn described(&self) -> BTreeMap<&'static str, String> {
        let options = &self.options;
        let threads: Vec<String> = self.threads.iter().map(u16::to_string).collect();
        let read_in = options.read_in;
        BTreeMap::from([
            ("mapper", options.mapper.name().to_owned()),
            ("threads", threads.join(",")),
            ("object", options.object_bytes.to_string()),
            ("fragmented", options.fragmented.to_string()),
            ("seconds", options.seconds.to_string()),
            ("repeat", options.repeat.to_string()),
            ("memory", options.memory_bytes.to_string()),
            (
                "read_in",
                read_in.map_or("default".into(), |pages| pages.to_string()),
            ),
        ])
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_more_than_none() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "inf", "3601", "long"] {
            assert!(seconds(bad).unwrap_err().contains("above 0"), "{bad}");
        }
    }
}
