//! What a view says, in rows and lines: the same in plain text and on a screen.

use crate::top::outlook::ORDERS;
use crate::top::state::{SeenEvent, SeenFailure, SeenRate, TopState, VmCounter};
use crate::top::verdict::word;
use crate::trace::state::ZoneInfo;

/// What a view of a width has columns for; the first ones stay where it is narrow.
pub(crate) const ORDER_COLUMNS: [(&str, u16); 9] = [
    ("order", 6),
    ("free", 7),
    ("left", 7),
    ("failed", 7),
    ("unusable", 8),
    ("asked/s", 8),
    ("then", 15),
    ("reported", 8),
    ("asked", 9),
];

/// The column that says what an order fails for.
const CAUSE_COLUMN: usize = 6;

/// How many columns of orders fit.
pub(crate) fn order_columns(width: u16) -> usize {
    let mut used = 0;
    let fits = ORDER_COLUMNS.iter().take_while(|(_, column)| {
        used += column + 1;
        used <= width + 1
    });
    fits.count().max(1)
}

/// A number in at most six characters.
pub(crate) fn short(n: u64) -> String {
    let scaled = |unit: f64, letter: char| {
        let value = n as f64 / unit;
        match value < 100.0 {
            true => format!("{value:.1}{letter}"),
            false => format!("{value:.0}{letter}"),
        }
    };
    match n {
        0..=99_999 => n.to_string(),
        100_000..=999_999 => format!("{}k", n / 1000),
        1_000_000..=999_999_999 => scaled(1e6, 'M'),
        1_000_000_000..=999_999_999_999 => scaled(1e9, 'G'),
        1_000_000_000_000..=999_999_999_999_999 => scaled(1e12, 'T'),
        _ => ">999T".to_owned(),
    }
}

/// A rate, with a digit behind the point where it is small.
pub(crate) fn short_rate(a_second: f64) -> String {
    match a_second {
        ..=0.0 => "0".to_owned(),
        ..0.05 => "<0.1".to_owned(),
        ..9.95 => format!("{a_second:.1}"),
        _ => short(a_second.round() as u64),
    }
}

/// Frames in MiB or GiB.
pub(crate) fn short_size(frames: u64) -> String {
    let mib = frames as f64 / 256.0;
    match mib {
        ..99.95 => format!("{mib:.1}M"),
        ..9_999.5 => format!("{mib:.0}M"),
        _ => format!("{:.1}G", mib / 1024.0),
    }
}

/// The first line.
pub(crate) fn title(state: &TopState, kernel: &str, is_paused: bool) -> String {
    let (now, all) = state.own_percent();
    let seconds = state.seconds().max(0.0) as u64;
    let paused = if is_paused { " [paused]" } else { "" };
    format!(
        "framewright top{paused}  {}:{:02}:{:02}  Linux {kernel}  own CPU {now:.1} %, {all:.1} % in all",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
    )
}

/// How it stands with the order that the user asks about.
pub(crate) fn chosen(state: &TopState) -> String {
    let order = state.chosen;
    let outlook = state.outlook.orders[order];
    let failed = match state.has_events {
        true => format!(
            "; failed {}, reported {}",
            state.counts.failures[order], state.counts.reported[order]
        ),
        false => String::new(),
    };
    format!(
        "Order {order}: {} left, then {}; unusable {:.3}{failed}",
        outlook.left,
        word(outlook.cause),
        outlook.unusable,
    )
}

/// The table of orders: what stands in each column, and whether it is an order that fails or would.
pub(crate) fn order_rows(state: &TopState) -> Vec<([String; ORDER_COLUMNS.len()], bool)> {
    let known = |number: String| match state.has_events {
        true => number,
        false => "-".to_owned(),
    };
    (0..ORDERS)
        .map(|order| {
            let outlook = state.outlook.orders[order];
            let requests = state.requests(order);
            let mark = if order == state.chosen { ">" } else { " " };
            let is_bad = outlook.left == 0 || state.counts.failures[order] > 0;
            let bad = if is_bad { "!" } else { " " };
            let of = |rate: fn(SeenRate) -> String| requests.map_or("-".to_owned(), rate);
            let row = [
                format!("{mark}{order}{bad}"),
                short(outlook.free_blocks),
                short(outlook.left),
                known(short(state.counts.failures[order])),
                format!("{:.3}", outlook.unusable),
                of(|rate| short_rate(rate.a_second)),
                word(outlook.cause).to_owned(),
                known(short(state.counts.reported[order])),
                of(|rate| short(rate.total)),
            ];
            (row, is_bad)
        })
        .collect()
}

/// Whether a column holds words, which begin at its left.
pub(crate) const fn is_words(column: usize) -> bool {
    column == CAUSE_COLUMN
}

/// What a zone's free memory is below of.
fn standing(info: &ZoneInfo) -> &'static str {
    let [min, low, high] = info.watermarks.map(|mark| mark.saturating_add(info.boost));
    match info.free {
        free if free <= min => "below min",
        free if free <= low => "below low",
        free if free <= high => "below high",
        _ => "above high",
    }
}

/// Watermarks, a zone a row, the zones without memory left out.
pub(crate) fn zone_rows(state: &TopState) -> Vec<[String; 6]> {
    let infos = &state.reading.infos;
    let first = infos.first().map(|info| info.node);
    let has_nodes = infos.iter().any(|info| Some(info.node) != first);
    let with_memory = infos.iter().filter(|info| info.managed > 0);
    with_memory
        .map(|info| {
            let marks = info.watermarks.map(|mark| mark.saturating_add(info.boost));
            let node = match has_nodes {
                true => format!("{}:", info.node),
                false => String::new(),
            };
            [
                format!("{node}{}", crate::printable::text(&info.zone)),
                short_size(info.free),
                short_size(marks[0]),
                short_size(marks[1]),
                short_size(marks[2]),
                standing(info).to_owned(),
            ]
        })
        .collect()
}

/// The names of those columns.
pub(crate) const ZONE_COLUMNS: [(&str, u16); 6] = [
    ("zone", 8),
    ("free", 6),
    ("min", 6),
    ("low", 6),
    ("high", 6),
    ("", 10),
];

/// The pageblocks by content, and how old that is.
pub(crate) fn pageblock_lines(state: &TopState) -> Vec<String> {
    let Some(layout) = &state.layout else {
        return vec!["pageblocks: being read".to_owned()];
    };
    let age = state.reading.now_ns.saturating_sub(layout.at_ns) / 1_000_000_000;
    let mut lines = Vec::new();
    if let Some(blocks) = layout.contents {
        let [free, movable, unmovable, mixed] =
            [blocks.free, blocks.movable, blocks.unmovable, blocks.mixed].map(short);
        lines.push(format!("pageblocks free {free} movable {movable}"));
        lines.push(format!(" unmovable {unmovable} mixed {mixed}, {age} s old"));
    }
    lines
}

/// The labels of the pageblocks that there are.
pub(crate) fn label_line(state: &TopState) -> Option<String> {
    let labels = &state.layout.as_ref()?.labels;
    let there = labels.iter().filter(|(_, blocks)| *blocks > 0);
    let there = there
        .map(|(name, blocks)| format!("{} {blocks}", crate::printable::text(name)))
        .collect::<Vec<_>>()
        .join(", ");
    (!there.is_empty()).then(|| format!("pageblocks by label: {there}"))
}

/// What the kernel does about memory: a name, the rate of the last interval, the sum since the start.
pub(crate) fn rate_rows(state: &TopState) -> Vec<[String; 3]> {
    let row = |name: &str, rate: Option<SeenRate>| match rate {
        Some(rate) => [
            name.to_owned(),
            format!("{}/s", short_rate(rate.a_second)),
            short(rate.total),
        ],
        None => [name.to_owned(), "-".to_owned(), "-".to_owned()],
    };
    let seen = |rate: SeenRate| state.has_events.then_some(rate);
    vec![
        row(
            "fallbacks",
            seen(state.rate(crate::top::state::TopCounts::all_fallbacks)),
        ),
        row("compactions", seen(state.rate(|counts| counts.compactions))),
        row("compact stalls", state.vm_rate(VmCounter::CompactionStalls)),
        row(
            "  of them failed",
            state.vm_rate(VmCounter::CompactionFailures),
        ),
        row("reclaim stalls", state.vm_rate(VmCounter::ReclaimStalls)),
        row(
            "kswapd woken",
            seen(state.rate(|counts| counts.background_wakes)),
        ),
    ]
}

/// A failure as a line.
fn failure_line(state: &TopState, failure: &SeenFailure) -> String {
    let reported = match failure.traits.is_reported {
        true => "reported",
        false => "not reported",
    };
    let cause = failure
        .cause
        .map(|cause| format!(", {}", word(cause)))
        .unwrap_or_default();
    format!(
        "{:>8.1} s ! order {} failed for {}, {reported}{cause}: {}",
        state.seconds_of(failure.time_ns),
        failure.order,
        failure.command,
        failure.flags,
    )
}

fn event_line(state: &TopState, event: &SeenEvent) -> String {
    let times = match event.times {
        1 => String::new(),
        n => format!(", {n} times"),
    };
    format!(
        "{:>8.1} s   {}{times} ({})",
        state.seconds_of(event.time_ns),
        event.what,
        event.command,
    )
}

/// The last failures and events, the newest first, each with whether it is a failure. At least half of the lines are for
/// failures, if there are as many.
pub(crate) fn last_lines(state: &TopState, lines: usize) -> Vec<(String, bool)> {
    let for_failures = state.failures.len().min(
        lines
            .div_ceil(2)
            .max(lines.saturating_sub(state.events.len())),
    );
    let failures = state.failures.iter().rev().take(for_failures);
    let failures = failures.map(|of| (of.time_ns, failure_line(state, of), true));
    let events = state
        .events
        .iter()
        .rev()
        .take(lines - for_failures.min(lines));
    let events = events.map(|of| (of.time_ns, event_line(state, of), false));
    let mut all: Vec<(u64, String, bool)> = failures.chain(events).collect();
    all.sort_by_key(|(time_ns, ..)| std::cmp::Reverse(*time_ns));
    all.into_iter()
        .map(|(_, line, is_failure)| (line, is_failure))
        .collect()
}

/// What is not shown, and what was lost.
pub(crate) fn gaps(state: &TopState) -> Vec<String> {
    let mut gaps = Vec::new();
    if state.reading.lost > 0 {
        gaps.push(format!(
            "{} events lost: counts by order are too low; a larger --buffer keeps more",
            state.reading.lost
        ));
    }
    let missing: Vec<&str> = state.all_missing().collect();
    if !missing.is_empty() {
        gaps.push(format!("not shown: {}", missing.join("; ")));
    }
    gaps
}
