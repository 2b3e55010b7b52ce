//! `framewright lab kvmalloc`.

use super::CommandError;
use super::lab::failed;
use super::progress::with_progress;
use crate::experiment::kvmalloc::metrics as m;
use crate::experiment::kvmalloc::{self, Options};
use crate::experiment::{Findings, Mapper, Progress, SEED};
use crate::measure::Metric;
use crate::report::{
    Figure, Machine, Note, RunInfo, Tabled, figure_grid, figure_lines, write_whole,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The longest repetition, in seconds.
const SECONDS_MAX: f64 = 3600.0;

/// kvmalloc in a journal: large buffers at a high rate, in memory that is in pieces (D. Chinner, 2023)
///
/// Variants: before compacts and reclaims before it maps pages, proposed maps them at once, both
/// under one lock for all address space; framewright maps at once without a lock that all share.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Threads that log; several numbers, as 1,2,4, for a curve
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "2", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Vec<u16>,

    /// Bytes of a buffer, as 64KiB, 1MiB or 70000
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = size)]
    object: u64,

    /// Of a hundred blocks of the buffer's order, those with a frame that can neither be moved nor
    /// reclaimed
    #[arg(long, value_name = "PERCENT", default_value_t = kvmalloc::FRAGMENTED, value_parser = clap::value_parser!(u32).range(0..=100))]
    fragmented: u32,

    /// How long each repetition of each variant logs
    #[arg(long, value_name = "S", default_value = "2", value_parser = seconds)]
    seconds: f64,

    /// Repetitions
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// Memory of the experiment
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = size)]
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

    /// Write the figures as JSON Lines; `-` for standard output, instead of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Args {
    /// Where figures are to be written.
    pub(super) const fn json(&self) -> &Option<PathBuf> {
        &self.json
    }
}

/// Bytes, with a binary unit or without.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "B" => Some(1),
        "K" | "KiB" => Some(1 << 10),
        "M" | "MiB" => Some(1 << 20),
        "G" | "GiB" => Some(1 << 30),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().zip(unit);
    match bytes.and_then(|(number, unit)| number.checked_mul(unit)) {
        None => Err("expected a size as 64KiB, 1MiB or 70000".into()),
        Some(0) => Err("a size of 0 bytes is none, expected 1 byte or more".into()),
        Some(bytes) => Ok(bytes),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= SECONDS_MAX => Ok(seconds),
        _ => Err(format!("expected seconds above 0, {SECONDS_MAX} at most")),
    }
}

/// Runs the command.
///
/// # Errors
/// If the machine does not give what is needed, the buffers do not fit, or an output cannot be
/// written.
pub fn run(args: &Args) -> Result<(), CommandError> {
    let options = |threads| Options {
        mapper: args.mapper,
        threads,
        object_bytes: args.object,
        fragmented: args.fragmented,
        seconds: args.seconds,
        seed: args.seed,
        repeat: args.repeat,
        read_in: args.read_in,
        memory_bytes: args.memory,
    };
    let mut threads = args.threads.clone();
    threads.sort_unstable();
    threads.dedup();
    let all: Vec<Options> = threads.iter().copied().map(options).collect();
    let figures = measured(&all)?.figures;
    if let Some(path) = &args.json {
        let lines =
            figure_lines(&info(&options(1), &threads), &figures).map_err(CommandError::input)?;
        write_whole(path, &lines).map_err(CommandError::input)?;
    }
    if args.json.as_ref().is_none_or(|p| p.as_os_str() != "-") {
        let shows = if all.len() > 1 { in_curve } else { in_full };
        let text = table(&figures, &all, shows).text();
        write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)?;
    }
    Ok(())
}

/// What ran: the same with several numbers of threads.
pub(super) fn info(options: &Options, threads: &[u16]) -> RunInfo {
    let threads: Vec<String> = threads.iter().map(u16::to_string).collect();
    let read_in = options.read_in;
    RunInfo {
        experiment: "kvmalloc",
        version: env!("CARGO_PKG_VERSION"),
        commit: env!("FRAMEWRIGHT_COMMIT"),
        seed: options.seed,
        options: BTreeMap::from([
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
        ]),
        machine: Machine::this(),
    }
}

/// The experiment for each of several options, with progress.
pub(super) fn measured(all: &[Options]) -> Result<Findings, CommandError> {
    let steps = all.iter().map(|options| kvmalloc::steps(*options)).sum();
    with_progress("kvmalloc", steps, |done| {
        let mut findings = Findings::default();
        for options in all {
            findings.add(kvmalloc::run(*options, Progress::new(done)).map_err(failed)?);
        }
        Ok(findings)
    })
}

/// What the table of one number of threads shows: everything.
pub(super) const fn in_full(_metric: Metric) -> bool {
    true
}

/// What a curve shows of each number of threads.
fn in_curve(metric: Metric) -> bool {
    let shown = [
        m::COMMITS_PER_S,
        m::COMMITS_VS_BEFORE,
        m::COMMITS_PER_CPU_S,
        m::KVMALLOC_CPU_NS,
        m::KVMALLOC_VS_COPY,
    ];
    shown.contains(&metric)
}

/// What the main job shows.
pub(super) fn in_short(metric: Metric) -> bool {
    let shown = [
        m::COMMITS_PER_S,
        m::COMMITS_VS_BEFORE,
        m::COMMITS_PER_CPU_VS_BEFORE,
        m::KVMALLOC_CPU_NS,
        m::KVMALLOC_CPU_VS_BEFORE,
        m::COPY_CPU_NS,
        m::KVMALLOC_SHARE,
        m::COPY_SHARE,
        m::SPILLED_SHARE,
        m::COMPACT_STALL,
        m::ALLOCSTALL,
    ];
    shown.contains(&metric)
}

/// The table and what a reader must know.
pub(super) fn table(figures: &[Figure], all: &[Options], shows: fn(Metric) -> bool) -> Tabled {
    let grid = figure_grid(figures, shows);
    let Some(options) = all.first() else {
        return Tabled {
            caption: "kvmalloc".into(),
            grid,
            notes: Vec::new(),
        };
    };
    let runs = format!(
        "The middle of {} repetition(s) of {} s, variants by turns, each in fresh memory; counts of all of them. A \
         commit is a batch of\n{} buffers: read in, kvmalloc, copy, checksum, free the oldest batch.",
        options.repeat,
        options.seconds,
        kvmalloc::batch_items(options.object_bytes),
    );
    let published = "published: shares of all CPU time of a machine under a file system's load, half of which is not the \
                     journal's;\nof ours, all but the background is the journal's threads'. Compare the ratios between columns.";
    Tabled {
        caption: format!(
            "kvmalloc, mapper {}: buffers of {} bytes; {} of 100 blocks of their order have a frame that cannot go",
            options.mapper.name(),
            options.object_bytes,
            options.fragmented,
        ),
        grid,
        notes: vec![Note::Text(runs), Note::Text(published.into())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes_with_a_binary_unit_or_without() {
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("1M"), Ok(1 << 20));
        assert_eq!(size("70000"), Ok(70_000));
        for bad in ["", "KiB", "64KB", "6 4", "-1", "1.5MiB", "99999999999GiB"] {
            let error = size(bad).unwrap_err();
            assert!(error.contains("expected a size as 64KiB"), "{bad}: {error}");
        }
        assert!(size("0").unwrap_err().contains("0 bytes"));
        assert!(size("0KiB").is_err());
    }

    #[test]
    fn seconds_are_more_than_none() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "inf", "3601", "long"] {
            assert!(seconds(bad).unwrap_err().contains("above 0"), "{bad}");
        }
    }
}
