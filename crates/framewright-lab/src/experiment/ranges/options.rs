//! What the experiments on virtual ranges are run with.

use crate::experiment::{JsonArgs, Mapper, SEED};
use std::collections::BTreeMap;

/// What such an experiment is run with.
#[derive(Debug, Clone, Copy)]
pub struct SpaceOptions {
    /// What stands behind the pages.
    pub mapper: Mapper,
    /// Threads, each on a CPU of its own as far as there are that many.
    pub threads: u16,
    /// Operations a repetition; `None` for what each case takes by itself.
    pub loops: Option<u64>,
    /// Repetitions.
    pub repeat: u32,
    /// Of the random numbers.
    pub seed: u64,
}

impl SpaceOptions {
    /// As a record has them.
    pub(in crate::experiment) fn described(
        &self,
        cases: &[&str],
    ) -> BTreeMap<&'static str, String> {
        let loops = self.loops.map_or("default".into(), |n| n.to_string());
        BTreeMap::from([
            ("case", cases.join(",")),
            ("mapper", self.mapper.name().to_owned()),
            ("threads", self.threads.to_string()),
            ("loops", loops),
            ("repeat", self.repeat.to_string()),
        ])
    }
}

/// Their options on the command line.
#[derive(Debug, clap::Args)]
pub(in crate::experiment) struct RangeArgs {
    /// What stands behind the pages
    #[arg(long, value_enum, default_value_t = Mapper::Host)]
    pub(in crate::experiment) mapper: Mapper,

    /// Iterations, or operations a repetition [default: the document's, or 100,000 with the null
    /// mapper and 2,000 with the host's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    loops: Option<u64>,

    /// Repetitions [default: 5; 1 of vmap-blocks on the host, which takes seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: Option<u32>,

    /// Of the random numbers [default: 4, whose sequence frees as many vmap blocks as the document's]
    #[arg(long, value_name = "N", default_value_t = SEED, hide_default_value = true)]
    seed: u64,

    #[command(flatten)]
    pub(in crate::experiment) json: JsonArgs,
}

impl RangeArgs {
    pub(in crate::experiment) fn options(&self, threads: u16, repeat: u32) -> SpaceOptions {
        SpaceOptions {
            mapper: self.mapper,
            threads,
            loops: self.loops,
            repeat: self.repeat.unwrap_or(repeat),
            seed: self.seed,
        }
    }
}

/// What was named, once each, or everything.
pub(in crate::experiment) fn or_all<T: Copy + PartialEq>(named: Vec<T>, all: &[T]) -> Vec<T> {
    if named.is_empty() {
        return all.to_vec();
    }
    let mut once = Vec::new();
    for one in named {
        if !once.contains(&one) {
            once.push(one);
        }
    }
    once
}
