//! The one sentence in front: which order fails next, and for what.

use super::outlook::ORDERS;
use super::state::{PastReading, RECENT_NS, TopState};
use crate::replay::FailureCause;

/// A time beyond which a trend says nothing.
const FORESIGHT_SECONDS: f64 = 600.0;

/// How it stands with the order that the verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TopStanding {
    /// Requests of it fail.
    Fails,
    /// One that may not wait would.
    WouldFail,
    /// Some can still be served.
    Served,
}

impl TopStanding {
    /// Its name in JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Fails => "fails",
            Self::WouldFail => "would_fail",
            Self::Served => "served",
        }
    }
}

/// Which order fails next, and for what.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TopVerdict {
    pub(crate) order: usize,
    pub(crate) standing: TopStanding,
    pub(crate) cause: FailureCause,
    /// Requests of it that could still be served.
    pub(crate) left: u64,
    /// After how many seconds none can, at the rate of the last minute, where that is less than ten minutes.
    pub(crate) seconds_left: Option<f64>,
    pub(crate) text: String,
}

/// What memory is when a request fails for that: a word for a column, and for JSON.
pub(crate) const fn word(cause: FailureCause) -> &'static str {
    match cause {
        FailureCause::Exhausted => "exhausted",
        FailureCause::Watermark => "below watermark",
        FailureCause::Fragmented => "fragmented",
    }
}

impl TopVerdict {
    pub(crate) fn of(state: &TopState) -> Self {
        failing(state).unwrap_or_else(|| foreseen(state))
    }
}

/// The order that fails: one whose failures the kernel prints before others, then the one that fails most.
fn failing(state: &TopState) -> Option<TopVerdict> {
    let now_ns = state.reading.now_ns;
    let is_recent = |past: &&PastReading| now_ns.saturating_sub(past.now_ns) <= RECENT_NS;
    // The newest reading is of now. Where no other one is recent, the last interval counts.
    let mut before = state.past.iter().rev().skip(1).peekable();
    let last = *before.peek()?;
    let first = before.take_while(is_recent).last().unwrap_or(last);
    let since = |now: &[u64; ORDERS], then: &[u64; ORDERS]| -> [u64; ORDERS] {
        std::array::from_fn(|order| now[order].saturating_sub(then[order]))
    };
    let failed = since(&state.counts.failures, &first.counts.failures);
    let reported = since(&state.counts.reported, &first.counts.reported);
    let order = (0..ORDERS).max_by_key(|&order| (reported[order], failed[order]))?;
    if failed[order] == 0 {
        return None;
    }
    let last = state.failures.iter().rev().find(|of| of.order == order);
    let outlook = state.outlook.orders[order];
    let cause = last.and_then(|of| of.cause).unwrap_or(outlook.cause);
    let seconds = now_ns.saturating_sub(first.now_ns) as f64 / 1e9;
    let printed = match reported[order] {
        0 => "the kernel prints none of them".to_owned(),
        n if n == failed[order] => "the kernel prints them".to_owned(),
        n => format!("the kernel prints {n} of them"),
    };
    let text = format!(
        "Order {order} fails: {} in the last {seconds:.0} s ({printed}), because memory is {}: {}.",
        failed[order],
        word(cause),
        free(state),
    );
    Some(TopVerdict {
        order,
        standing: TopStanding::Fails,
        cause,
        left: outlook.left,
        seconds_left: None,
        text,
    })
}

/// The order that fails next: the lowest of which nothing is left, or the one that ends first. Orders that this machine
/// has not asked for are left out, where that is known.
fn foreseen(state: &TopState) -> TopVerdict {
    let counts = &state.counts;
    let is_asked = |order: usize| {
        order == 0
            || order == state.chosen
            || counts.requests[order] > 0
            || counts.failures[order] > 0
    };
    let orders = (0..ORDERS).filter(|&order| !state.has_events || is_asked(order));
    let orders: Vec<usize> = orders.collect();
    let outlook = &state.outlook.orders;
    if let Some(&order) = orders.iter().find(|&&order| outlook[order].left == 0) {
        let cause = outlook[order].cause;
        let text = format!(
            "Order {order} fails next: one that may not wait would fail now, because memory is {}: {}.",
            word(cause),
            free(state),
        );
        return TopVerdict {
            order,
            standing: TopStanding::WouldFail,
            cause,
            left: 0,
            seconds_left: None,
            text,
        };
    }
    let ends = |order: usize| {
        state
            .seconds_left(order)
            .filter(|&seconds| seconds < FORESIGHT_SECONDS)
    };
    let soonest = orders
        .iter()
        .filter_map(|&order| ends(order).map(|seconds| (order, seconds)))
        .min_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    // Of a smaller order there is never less.
    let order = soonest.map_or(orders.last().copied().unwrap_or(0), |(order, _)| order);
    let (left, cause) = (outlook[order].left, outlook[order].cause);
    let until = match soonest {
        Some((_, seconds)) => format!(
            ", which lasts {} at the rate of the last minute if nothing is reclaimed",
            about(seconds)
        ),
        None => String::new(),
    };
    let asked = match state.has_events {
        true => "of those asked for, ",
        false => "",
    };
    let text = format!(
        "No order fails; {asked}order {order} would be the next, once memory is {}: {left} more can be served now{until}.",
        word(cause),
    );
    TopVerdict {
        order,
        standing: TopStanding::Served,
        cause,
        left,
        seconds_left: soonest.map(|(_, seconds)| seconds),
        text,
    }
}

fn free(state: &TopState) -> String {
    let outlook = &state.outlook;
    match outlook.largest {
        None => "nothing is free for it".to_owned(),
        Some(largest) => format!(
            "{:.1} MiB are free for it, in blocks up to order {largest}",
            outlook.usable_frames as f64 / 256.0
        ),
    }
}

fn about(seconds: f64) -> String {
    match seconds {
        ..90.0 => format!("{seconds:.0} s"),
        _ => format!("{:.0} min", seconds / 60.0),
    }
}
