use super::CommandError;
#[cfg(target_os = "linux")]
use super::fallback;
use super::input::{Loaded, sample};
#[cfg(target_os = "linux")]
use super::kvmalloc;
#[cfg(target_os = "linux")]
use super::lab::{blocks_text, fits_text, in_short, measured_blocks, measured_fits};
use super::replay::{Replayed, case_text, replay_case};
#[cfg(target_os = "linux")]
use crate::experiment::fallback::{Params, Policy as Kernels, Span};
#[cfg(target_os = "linux")]
use crate::experiment::{self, kvmalloc as objects, va_fit::Case, vmap_blocks::Scenario};
#[cfg(target_os = "linux")]
use crate::measure::PressureMetric;
use crate::replay::{Options, Policy, Start};
use crate::report::write_whole;

/// Frames held back in the third case: a fifth of those that are free when the sample begins.
const SQUEEZE: u64 = 40_000;

const INTRODUCTION: &str = "\
What would this memory have looked like under another policy?
The first 1.4 seconds of a recording of a memory-tight machine (6 GiB; forks, compiles, file
readers, bursts of sockets), replayed under each policy: from Linux's own layout (imposed), from
one that the policy made itself (fresh), and with 160 MB less memory (b40000).
";

const READING: &str = "\
Order-2 and order-3 requests fail on a device that has memory when requests for one kind of page
keep breaking up the pages of another: contaminated blocks are the 2 MiB blocks that hold a frame
which cannot be moved, so no compaction can ever make a huge page or a large buffer of them, and
unusable_index_order3 is the share of the free memory that an order-3 request cannot use.
`~` marks a figure whose difference from the first policy's is not larger than the error that the
replay of the recording kernel's own rules makes against what that kernel really did.

A replay cannot see what the machine would have done about a failure: it does not reclaim, does not
compact, and the programs go on as recorded. Compare policies with each other, not a policy with a
running system; and this sample is too short to show how far contamination spreads in hours. For
your own machine: framewright record -o FILE -- COMMAND, then framewright replay FILE.
";

#[cfg(target_os = "linux")]
const RANGES: &str = "
How long does it take to find address space, and how much of it is used up?
Two experiments of the documents, at the address-space level alone, in a quick form: `published` is
what the documents say, `before` the behaviour they complain about, `proposed` what they propose.
`framewright lab vmap-blocks` and `framewright lab va-fit` measure longer, on real mappings and with
several threads.
";

/// Operations of a case of `va-fit`, and repetitions: some 20 ms a case and variant.
#[cfg(target_os = "linux")]
const QUICK: experiment::Options = experiment::Options {
    mapper: experiment::Mapper::Null,
    threads: 1,
    loops: Some(20_000),
    repeat: 3,
    seed: experiment::SEED,
};

#[cfg(target_os = "linux")]
const OBJECTS: &str = "
What does a large buffer cost where memory is in pieces?
A journal on two threads asks for 64 KiB at a high rate. `before` compacts and reclaims before it maps
pages, `proposed` maps them at once, both under one lock for all address space; framewright maps at
once, and has no lock that all share on that way. First with pages in a table of the experiment's
own, which costs what a kernel pays; then with mmap, which costs some twenty times that.
`framewright lab kvmalloc --threads 1,2,4,8,16 --fragmented 50` measures longer, and a curve.
";

/// A repetition of `kvmalloc` of a third of a second.
#[cfg(target_os = "linux")]
const QUICK_OBJECTS: objects::Options = objects::Options {
    mapper: experiment::Mapper::Null,
    threads: 2,
    object_bytes: 64 << 10,
    fragmented: objects::FRAGMENTED,
    seconds: 0.3,
    seed: experiment::SEED,
    repeat: 1,
    read_in: None,
    memory_bytes: objects::MEMORY_BYTES,
};

#[cfg(target_os = "linux")]
const PRESSURE: &str = "
What does a fallback cost a phone, request by request?
A synthetic phone lives on the document's kernel as it was, with the document's patch, and on this
engine: requests of order 2 and 3 that had to reclaim or compact, and pageblocks that mix what can
be moved with what cannot. In a quick form: an hour or so, of which the document had two and a half
days; `framewright lab fallback` takes minutes.
";

/// Some 70 minutes, of which the phone is awake for 50: a few seconds a kernel.
#[cfg(target_os = "linux")]
const QUICK_PHONE: Span = Span {
    days_milli: 50,
    every_s: None,
};

/// The main job: the sample trace under all policies, from three starts, and the other experiments
/// in a quick form.
pub(super) fn run() -> Result<(), CommandError> {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let text = text(&sample()?, threads)?;
    write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)?;
    #[cfg(target_os = "linux")]
    {
        let text = match experiment::available() {
            Ok(()) => ranges_text(&Scenario::ALL, &Case::ALL, QUICK)?,
            Err(lacking) => format!("{RANGES}\nNot shown on this machine: {lacking}\n"),
        };
        write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)?;
        if experiment::available().is_ok() {
            let text = objects_text(QUICK_OBJECTS)?;
            write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)?;
        }
        let text = pressure_text(QUICK_PHONE, threads)?;
        write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)?;
    }
    Ok(())
}

/// `fallback` with one seed.
#[cfg(target_os = "linux")]
fn pressure_text(span: Span, threads: usize) -> Result<String, CommandError> {
    let seeds = [1];
    let lives = fallback::lived(&Params::default(), &Kernels::ALL, &seeds, span, threads)?;
    let shows = PressureMetric::is_in_short_table;
    let text = fallback::text(&lives.figures, &seeds, span, shows);
    Ok(format!("{PRESSURE}\n{text}"))
}

/// `kvmalloc` with both mappers.
#[cfg(target_os = "linux")]
fn objects_text(quick: objects::Options) -> Result<String, CommandError> {
    let mut text = OBJECTS.to_owned();
    for mapper in [experiment::Mapper::Null, experiment::Mapper::Host] {
        let all = [objects::Options { mapper, ..quick }];
        let figures = kvmalloc::measured(&all)?;
        text.push('\n');
        text += &kvmalloc::text(&figures, &all, kvmalloc::in_short);
    }
    Ok(text)
}

/// Both experiments; the first one with the document's own number of iterations, which its counts
/// depend on.
#[cfg(target_os = "linux")]
fn ranges_text(
    scenarios: &[Scenario],
    cases: &[Case],
    quick: experiment::Options,
) -> Result<String, CommandError> {
    let whole = experiment::Options {
        loops: None,
        ..quick
    };
    let blocks = blocks_text(&measured_blocks(scenarios, whole)?, whole);
    let fits = fits_text(&measured_fits(cases, quick)?, quick, in_short);
    Ok(format!("{RANGES}\n{blocks}\n{fits}"))
}

fn text(loaded: &Loaded, threads: usize) -> Result<String, CommandError> {
    let mut text = String::from(INTRODUCTION);
    for (start, squeeze) in [
        (Start::Imposed, 0),
        (Start::Fresh, 0),
        (Start::Fresh, SQUEEZE),
    ] {
        let options = Options {
            squeeze,
            ..Options::new(start)
        };
        let Replayed { case, .. } = replay_case(loaded, Policy::COMPARED, options, threads)?;
        text.push('\n');
        text.push_str(&case_text(&case));
    }
    text.push('\n');
    text.push_str(READING);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cmd::input::load;
    use crate::trace::OpKind;

    #[test]
    fn the_introduction_says_what_the_sample_is() {
        let trace = sample().unwrap().trace;
        let free = trace.nframes - trace.init.len() as u64;
        assert!(
            SQUEEZE < free / 4 && SQUEEZE > free / 6,
            "a fifth of {free}"
        );
        let ticks = trace.ops.iter().filter(|op| op.kind() == OpKind::Tick);
        let ms: u64 = ticks.map(|op| u64::from(op.value)).sum();
        assert_eq!(ms / 100, 14, "1.4 seconds");
        assert_eq!(
            trace.nframes >> 18,
            5,
            "6 GiB, rounded: {} frames",
            trace.nframes
        );
    }

    /// On a small trace: the sample takes seconds even when optimised.
    #[test]
    fn the_main_job_shows_every_policy_from_three_starts() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../traces/fork-storm.ftrace.gz"
        );
        let loaded = load(path.as_ref(), None).unwrap();
        let text = text(&loaded, 2).unwrap();
        for case in ["imposed/b0", "fresh/b0", "fresh/b40000"] {
            assert!(
                text.contains(&format!("\nfork-storm/{case}: 15175 operations")),
                "{case}"
            );
        }
        assert_eq!(
            text.matches("concentrated against the best of 5 others")
                .count(),
            3
        );
        assert_eq!(text.matches("model error: ").count(), 3);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_main_job_shows_kvmalloc_with_both_mappers() {
        let quick = objects::Options {
            seconds: 0.02,
            memory_bytes: 32 << 20,
            object_bytes: 16 << 10,
            ..QUICK_OBJECTS
        };
        let text = objects_text(quick).unwrap();
        for row in [
            "mapper null",
            "mapper host",
            "commits_per_s",
            "kvmalloc_share",
            "allocstall",
        ] {
            assert!(text.contains(row), "{row} is missing:\n{text}");
        }
        assert!(!text.contains("kvmalloc_ns_p50"), "the quick form is short");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_main_job_shows_the_phone_on_every_kernel() {
        let span = Span {
            days_milli: 1,
            ..QUICK_PHONE
        };
        let text = pressure_text(span, 2).unwrap();
        for row in ["blocks_movable", "mixed_pageblocks", "allocstall_order_2"] {
            let line = text.lines().find(|line| line.contains(row)).unwrap();
            assert!(
                !line.trim_end().ends_with('-'),
                "{row} of framewright: {line}"
            );
        }
        assert!(text.contains("published: counts of 2.5 days"), "{text}");
        assert!(
            !text.contains("compact_isolated"),
            "the quick form is short"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_main_job_shows_both_experiments_on_virtual_ranges() {
        let quick = experiment::Options {
            loops: Some(100),
            repeat: 1,
            ..QUICK
        };
        let cases = [Case::FixSize, Case::LongBusyList, Case::AlignedHoles];
        let text = ranges_text(&[Scenario::Exhaust], &cases, quick).unwrap();
        for row in [
            "exhaust",
            "va_span_bytes",
            "fix_size",
            "long_busy_list",
            "served",
        ] {
            assert!(text.contains(row), "{row} is missing:\n{text}");
        }
        assert!(!text.contains("alloc_ns_p50"), "the quick form is short");
    }
}
