//! Reasons for which figures say less than they seem to. They stand above the first table, so that a reader meets
//! them before any figure.

use crate::measure::BLOCK_ORDER;
use crate::replay::{SAMPLE_MS, TraceMemory};
use crate::trace::{OpKind, Trace};
use serde::Serialize;
use std::fmt;

/// Fewer samples than these say little.
const FEW_SAMPLES: u64 = 10;

/// A reason for which figures say less than they seem to. A reader learns of it before any figure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hollow {
    /// The case.
    pub case: String,
    /// What it is, in a word for programs.
    pub kind: &'static str,
    /// What it means for the reader, and what helps.
    pub says: String,
}

impl fmt::Display for Hollow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.says)
    }
}

/// What stands above a report's first table: empty where nothing is hollow.
#[must_use]
pub fn hollow_text<'a>(all: impl IntoIterator<Item = &'a Hollow>) -> String {
    let lines: Vec<String> = all.into_iter().map(|one| format!("  {one}\n")).collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("Read this first: hollow answers\n{}\n", lines.concat()),
    }
}

/// What a trace by itself lets no replay know, by kind. `listed` is what `/proc` called free when it began, and what lay on
/// CPUs' lists beside that, as far as it says; a trace from text without it has its free memory invented.
#[must_use]
pub fn hollow_trace(
    trace: &Trace,
    is_text: bool,
    listed: Option<(u64, u64)>,
) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let moves_frames = |kind| matches!(kind, OpKind::Alloc | OpKind::Free | OpKind::FreePart);
    if !trace.ops.iter().any(|op| moves_frames(op.kind())) {
        found.push((
            "no_events",
            "there is no allocation and no free in the trace, so every policy leaves memory as it was".to_owned(),
        ));
    }
    let free = free_at_start(trace);
    match listed {
        None if is_text => found.push((
            "no_state",
            format!(
                "free memory is invented: text does not say what was free, so every frame that no event names counts \
                 as free, {} MiB at the start; the machine's /proc/pagetypeinfo of that moment with --state mends it",
                free / FRAMES_PER_MIB
            ),
        )),
        Some((listed, cached)) if !is_text && !may_begin_with(free, listed, cached) => found.push((
            "inconsistent_start",
            format!(
                "the trace begins with {free} free frames, /proc listed {listed} and {cached} more on CPUs' lists: the \
                 snapshot and the start of tracing do not belong together, and the first seconds are not to be relied on"
            ),
        )),
        _ => {}
    }
    found
}

/// What pageblocks of another size than a replay's mean for it; `order` is that of the recording machine.
#[must_use]
pub fn hollow_blocks(order: Option<u64>) -> Option<(&'static str, String)> {
    let other = order.filter(|&order| order != u64::from(BLOCK_ORDER))?;
    let says = format!(
        "the recording machine's pageblocks have order {other}, those of a replay {BLOCK_ORDER}: what is said of \
         fallbacks, of contaminated and of mixed blocks is not that machine's"
    );
    Some(("pageblock_order", says))
}

/// What contiguous areas of that many frames on the recording machine mean for a replay, which has none.
#[must_use]
pub fn hollow_areas(frames: u64, page_kib: u64) -> Option<(&'static str, String)> {
    let says = format!(
        "the recording machine had {} MiB in contiguous areas (CMA), which serve movable requests alone: a replay takes \
         them for movable pageblocks, which others get, too, where nothing else is left, so that it fails too few of those",
        frames.saturating_mul(page_kib) / 1024
    );
    (frames > 0).then_some(("contiguous_areas", says))
}

/// What pages of another size than a replay's mean for it; `kib` is that of the recording machine, where it is known.
#[must_use]
pub fn hollow_pages(kib: Option<u64>) -> Option<(&'static str, String)> {
    let other = kib.filter(|&kib| kib != PAGE_KIB)?;
    let says = format!(
        "the recording machine's pages have {other} KiB, those of a replay {PAGE_KIB}: orders and counts of frames are that \
         machine's, and every MiB stands for {} of it",
        other / PAGE_KIB
    );
    Some(("page_size", says))
}

/// What events that are missing mean for a replay, by kind; `anomalies` are what a recording's reading counted.
#[must_use]
pub fn hollow_events(anomalies: &[(String, u64)]) -> Vec<(&'static str, String)> {
    let count = |wanted: &str| {
        let found = anomalies.iter().find(|(kind, _)| kind == wanted);
        found.map_or(0, |&(_, count)| count)
    };
    let mut found = Vec::new();
    if count("cut_stream") > 0 {
        found.push((
            "cut_stream",
            "the stream has no end: its recorder was killed, or what it was written to was cut off; it is read up to \
             there"
                .to_owned(),
        ));
    }
    let all = [
        (count("lost_events"), "events were lost"),
        (
            count("lost_unknown"),
            "times an unknown number of events was lost",
        ),
        (
            count("overwritten_events"),
            "events were overwritten before they were read",
        ),
    ];
    let told = all.iter().filter(|(count, _)| *count > 0);
    let told: Vec<String> = told
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !told.is_empty() {
        let says = format!(
            "{}: what happened to memory there is not in the trace; larger buffers keep more",
            told.join(", ")
        );
        found.push(("lost_events", says));
    }
    found
}

/// What a replay's means are over.
#[must_use]
pub fn hollow_samples(samples: u64, memory: &TraceMemory<'_>) -> Option<(&'static str, String)> {
    (samples < FEW_SAMPLES).then(|| {
        let seconds = memory.ms as f64 / 1000.0;
        // A recording that stood still, or whose clock jumped.
        let how = match memory.ms / SAMPLE_MS < FEW_SAMPLES {
            true => format!("is short, {seconds:.1} s"),
            false => format!("has hardly an event in most of its {seconds:.1} s"),
        };
        let says = format!(
            "the trace {how}: means are over {samples} samples only, one each {SAMPLE_MS} ms; --csv with --every \
             shows what happens between them"
        );
        ("short_trace", says)
    })
}

/// Whether a trace may begin with `free` frames, where so many were listed and lay on CPUs' lists: of those, a trace knows
/// what it sees allocated.
fn may_begin_with(free: u64, listed: u64, cached: u64) -> bool {
    let slack = listed / 20 + SLACK_FRAMES;
    free.saturating_add(slack) >= listed
        && free <= listed.saturating_add(cached).saturating_add(slack)
}

/// Frames that may lie in per-CPU lists of a small machine, where nothing says how many.
const SLACK_FRAMES: u64 = 4096;

const FRAMES_PER_MIB: u64 = 256;

/// A replay's page.
const PAGE_KIB: u64 = 4;

fn free_at_start(trace: &Trace) -> u64 {
    trace
        .present_frames()
        .saturating_sub(trace.init.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceOp;
    use framewright::{Mobility, Order};

    fn kinds(trace: &Trace, is_text: bool, listed: Option<(u64, u64)>) -> Vec<&'static str> {
        let found = hollow_trace(trace, is_text, listed);
        found.into_iter().map(|(kind, _)| kind).collect()
    }

    #[test]
    fn a_trace_that_cannot_answer_says_so() {
        let mut trace = Trace {
            nframes: 100_000,
            ops: vec![TraceOp::tick(5)],
            ..Trace::default()
        };
        assert_eq!(kinds(&trace, false, None), ["no_events"]);
        let request = TraceOp::alloc(false, Order::ZERO, Mobility::Movable, 0, 0, 0);
        trace.ops.push(request);
        assert_eq!(kinds(&trace, false, None), [""; 0]);
        assert_eq!(kinds(&trace, true, None), ["no_state"]);
        // What is listed was taken from the list for text.
        assert_eq!(kinds(&trace, true, Some((5, 0))), [""; 0]);
        assert_eq!(kinds(&trace, false, Some((99_000, 0))), [""; 0]);
        // Since Linux 6.7 an eighth of a zone may lie on the CPUs' lists.
        assert_eq!(kinds(&trace, false, Some((50_000, 50_000))), [""; 0]);
        for listed in [
            (50_000, 0),
            (50_000, 40_000),
            (200_000, 0),
            (200_000, 90_000),
        ] {
            assert_eq!(kinds(&trace, false, Some(listed)), ["inconsistent_start"]);
        }
    }

    #[test]
    fn pageblocks_of_another_order_are_told() {
        for none in [None, Some(9)] {
            assert_eq!(hollow_blocks(none), None);
        }
        let (kind, says) = hollow_blocks(Some(4)).unwrap();
        assert!(kind == "pageblock_order" && says.contains("have order 4, those of a replay 9"));
    }

    #[test]
    fn contiguous_areas_and_pages_of_another_size_are_told() {
        assert_eq!(hollow_areas(0, 4), None);
        for (frames, page_kib) in [(16_384, 4), (4096, 16)] {
            let (kind, says) = hollow_areas(frames, page_kib).unwrap();
            assert_eq!(kind, "contiguous_areas");
            assert!(says.contains(" had 64 MiB in contiguous areas"), "{says}");
        }
        for none in [None, Some(4)] {
            assert_eq!(hollow_pages(none), None);
        }
        let (kind, says) = hollow_pages(Some(16)).unwrap();
        assert_eq!(kind, "page_size");
        assert!(
            says.contains("pages have 16 KiB, those of a replay 4")
                && says.ends_with("every MiB stands for 4 of it"),
            "{says}"
        );
    }

    #[test]
    fn events_that_are_missing_are_told() {
        let told = |all: &[(&str, u64)]| {
            let all: Vec<_> = all.iter().map(|&(kind, n)| (kind.to_owned(), n)).collect();
            hollow_events(&all)
        };
        assert_eq!(told(&[("cut_stream", 0), ("lost_events", 0)]), []);
        let [(kind, says)] = &told(&[("cut_stream", 1), ("time_backwards", 2)])[..] else {
            panic!("one reason");
        };
        assert!(*kind == "cut_stream" && says.starts_with("the stream has no end: "));
        let all = told(&[
            ("overwritten_events", 10),
            ("lost_events", 7),
            ("lost_unknown", 2),
        ]);
        let [(kind, says)] = &all[..] else {
            panic!("one reason");
        };
        let begins = "7 events were lost, 2 times an unknown number of events was lost, \
                      10 events were overwritten before they were read: ";
        assert!(*kind == "lost_events" && says.starts_with(begins), "{says}");
    }

    #[test]
    fn a_clock_that_jumped_is_not_called_short() {
        let tick = |ms| TraceOp::tick(ms);
        for (ms, says) in [
            (1_400, "is short, 1.4 s"),
            (4_000_000, "has hardly an event in most of its 4000.0 s"),
        ] {
            let trace = Trace {
                nframes: 512,
                ops: vec![tick(0), tick(ms)],
                ..Trace::default()
            };
            let memory = TraceMemory::new(&trace).unwrap();
            let (_, said) = hollow_samples(2, &memory).unwrap();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn what_is_hollow_stands_above_the_first_table() {
        let one = Hollow {
            case: "t/imposed/b0".into(),
            kind: "no_events",
            says: "nothing".into(),
        };
        assert_eq!(
            hollow_text([&one]),
            "Read this first: hollow answers\n  t/imposed/b0: nothing\n\n"
        );
        assert_eq!(hollow_text([]), "");
    }
}
