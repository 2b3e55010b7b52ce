//! The plan of `kvmalloc`, and its options on the command line.

use super::metrics::TABLE;
use super::{FRAGMENTED, Kvmalloc, KvmallocOptions, MEMORY_BYTES, ObjectSize, report, run, steps};
use crate::experiment::ranges::or_all;
use crate::experiment::{
    Detail, Experiment, Failure, Findings, JsonArgs, Mapper, Outputs, Progress, SEED, Size,
};
use crate::measure::MetricTable;
use crate::report::{Figure, Item, Tabled, VerdictCard};
use crate::size::read_bytes;
use std::collections::BTreeMap;

/// The longest repetition, in seconds.
const SECONDS_MAX: f64 = 3600.0;

/// The lengths of the document's buffers.
const OBJECT: ObjectSize = ObjectSize::Bytes(64 << 10);

/// kvmalloc in a journal: large buffers at a high rate, in memory that is in pieces (D. Chinner, 2023)
///
/// Variants: before compacts and reclaims before it maps pages, proposed maps them at once, both
/// under one lock for all address space; framewright maps at once without a lock that all share. In all
/// three a freed area is unmapped before its free returns; framewright-kept leaves it mapped for
/// the next request
#[derive(Debug, clap::Args)]
pub struct KvmallocArgs {
    /// Threads that log; several numbers, as 1,2,4, for a curve
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Vec<u16>,

    /// Bytes of a buffer, as 64KiB, 1MiB or 70000, or `mixed` for 1 to 32 pages; several are cases of their own
    #[arg(
        long,
        value_name = "SIZE",
        value_delimiter = ',',
        default_value = "64KiB"
    )]
    object: Vec<ObjectSize>,

    /// Of a hundred blocks of the buffer's order, those with a frame that can neither be moved nor
    /// reclaimed; several, as 0,50,90,99, are cases of their own
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_values_t = [FRAGMENTED], value_parser = clap::value_parser!(u32).range(0..=100))]
    fragmented: Vec<u32>,

    /// No thread reclaims ahead of a batch: calls find too little free
    #[arg(long)]
    short: bool,

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
    /// The cases: name and options. What is as by default is not in the name.
    fn each(&self) -> Vec<(String, KvmallocOptions)> {
        let mut cases = Vec::new();
        for &object in &self.objects {
            for &fragmented in &self.fragmented {
                for &threads in &self.threads {
                    let options = KvmallocOptions {
                        threads,
                        object,
                        fragmented,
                        ..self.options
                    };
                    cases.push((name(options), options));
                }
            }
        }
        cases
    }

    /// Whether there is one case.
    pub(super) fn is_one(&self) -> bool {
        self.each().len() == 1
    }
}

/// A case's name.
fn name(options: KvmallocOptions) -> String {
    let mut name = format!("threads/{}", options.threads);
    if options.object != OBJECT {
        name += &format!("/object/{}", options.object);
    }
    if options.fragmented != FRAGMENTED {
        name += &format!("/fragmented/{}", options.fragmented);
    }
    if options.is_short {
        name += "/short";
    }
    name
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
        let mut fragmented = args.fragmented.clone();
        fragmented.sort_unstable();
        fragmented.dedup();
        let objects = or_all(args.object.clone(), &[]);
        Ok(Self {
            options: KvmallocOptions {
                mapper: args.mapper,
                threads: threads[0],
                object: objects[0],
                fragmented: fragmented[0],
                seconds: args.seconds,
                seed: args.seed,
                repeat: args.repeat,
                read_in: args.read_in,
                memory_bytes: args.memory,
                is_short: args.short,
            },
            threads,
            fragmented,
            objects,
        })
    }

    fn sized(size: Size) -> Vec<Self> {
        let is_full = size == Size::Full;
        let plan = |mapper| Self {
            threads: vec![2],
            fragmented: if is_full {
                vec![0, 50, 90, FRAGMENTED]
            } else {
                vec![FRAGMENTED]
            },
            objects: if is_full {
                vec![OBJECT, ObjectSize::Mixed]
            } else {
                vec![OBJECT]
            },
            options: KvmallocOptions {
                mapper,
                threads: 2,
                object: OBJECT,
                fragmented: FRAGMENTED,
                seconds: if is_full { 2.0 } else { 0.3 },
                seed: SEED,
                repeat: if is_full { 3 } else { 1 },
                read_in: None,
                memory_bytes: MEMORY_BYTES,
                is_short: false,
            },
        };
        [Mapper::Null, Mapper::Host].map(plan).into()
    }

    fn steps(&self) -> u64 {
        self.each().iter().map(|&(_, options)| steps(options)).sum()
    }

    fn run(&self, progress: Progress<'_>) -> Result<Findings, Failure> {
        let mut findings = Findings::default();
        for (case, options) in self.each() {
            findings.add(run(&case, options, progress)?);
        }
        Ok(findings)
    }

    fn seed(&self) -> u64 {
        self.options.seed
    }

    fn described(&self) -> BTreeMap<&'static str, String> {
        let options = &self.options;
        let threads: Vec<String> = self.threads.iter().map(u16::to_string).collect();
        let fragmented: Vec<String> = self.fragmented.iter().map(u32::to_string).collect();
        let objects: Vec<String> = self.objects.iter().map(ObjectSize::to_string).collect();
        let read_in = options.read_in;
        BTreeMap::from([
            ("mapper", options.mapper.name().to_owned()),
            ("threads", threads.join(",")),
            ("object", objects.join(",")),
            ("fragmented", fragmented.join(",")),
            ("short", options.is_short.to_string()),
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
        report::verdict(self, figures)
    }

    fn card(&self, findings: &Findings) -> Option<VerdictCard> {
        report::card(self, findings)
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
