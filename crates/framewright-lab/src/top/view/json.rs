//! An interval as one JSON object.

use crate::top::outlook::ORDERS;
use crate::top::state::{SeenRate, TopState, VmCounter};
use crate::top::verdict::{TopVerdict, word};
use framewright::Mobility;
use serde_json::{Map, Value, json};

/// The object, in one line.
pub(crate) fn json_line(state: &TopState, kernel: &str) -> String {
    let verdict = TopVerdict::of(state);
    let (own, own_all) = state.own_percent();
    let object = json!({
        "kernel": kernel,
        "seconds": rounded(state.seconds()),
        "interval_seconds": rounded(state.interval()),
        "verdict": {
            "text": verdict.text,
            "order": verdict.order,
            "standing": verdict.standing.name(),
            "cause": word(verdict.cause),
            "left": verdict.left,
            "seconds_left": verdict.seconds_left.map(rounded),
        },
        "free_frames": state.outlook.free_frames,
        "usable_frames": state.outlook.usable_frames,
        "orders": (0..ORDERS).map(|order| of_order(state, order)).collect::<Vec<_>>(),
        "zones": zones(state),
        "pageblocks": pageblocks(state),
        "fallbacks": fallbacks(state),
        "compactions": state.has_events.then(|| rate(state.rate(|counts| counts.compactions))),
        "compaction_stalls": state.vm_rate(VmCounter::CompactionStalls).map(rate),
        "compaction_successes": state.vm_rate(VmCounter::CompactionSuccesses).map(rate),
        "compaction_failures": state.vm_rate(VmCounter::CompactionFailures).map(rate),
        "reclaim_stalls": state.vm_rate(VmCounter::ReclaimStalls).map(rate),
        "background_wakes": state.has_events.then(|| rate(state.rate(|counts| counts.background_wakes))),
        "frames_handed_out": state.vm_rate(VmCounter::Frames).map(rate),
        "failures": failures(state),
        "events": events(state),
        "events_lost": state.has_events.then_some(state.reading.lost),
        "missing": state.all_missing().collect::<Vec<_>>(),
        "own_cpu_percent": rounded(own),
        "own_cpu_percent_all": rounded(own_all),
    });
    object.to_string() + "\n"
}

/// Three digits behind the point.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

fn rate(rate: SeenRate) -> Value {
    json!({ "per_second": rounded(rate.a_second), "total": rate.total })
}

fn of_order(state: &TopState, order: usize) -> Value {
    let outlook = state.outlook.orders[order];
    let counted = |of: [u64; ORDERS]| state.has_events.then(|| of[order]);
    json!({
        "order": order,
        "free_blocks": outlook.free_blocks,
        "unusable_index": outlook.unusable,
        "left": outlook.left,
        "cause": word(outlook.cause),
        "requests": state.requests(order).map(rate),
        "failures": counted(state.counts.failures),
        "reported": counted(state.counts.reported),
    })
}

fn zones(state: &TopState) -> Vec<Value> {
    let zones = state.reading.infos.iter().map(|info| {
        let [min, low, high] = info.watermarks;
        json!({
            "node": info.node,
            "zone": info.zone,
            "free_frames": info.free,
            "min": min,
            "low": low,
            "high": high,
            "boost": info.boost,
        })
    });
    zones.collect()
}

fn pageblocks(state: &TopState) -> Option<Value> {
    let layout = state.layout.as_ref()?;
    let age = state.reading.now_ns.saturating_sub(layout.at_ns) as f64 / 1e9;
    let labels: Map<String, Value> = layout
        .labels
        .iter()
        .map(|(name, blocks)| (name.clone(), json!(blocks)))
        .collect();
    let contents = layout.contents.map(|blocks| {
        json!({
            "free": blocks.free,
            "movable": blocks.movable,
            "unmovable": blocks.unmovable,
            "mixed": blocks.mixed,
        })
    });
    Some(json!({ "age_seconds": rounded(age), "labels": labels, "contents": contents }))
}

/// The pairs that there were, each under the mobility asked for and the label of the pageblock.
fn fallbacks(state: &TopState) -> Option<Value> {
    if !state.has_events {
        return None;
    }
    let mut object = rate(state.rate(crate::top::state::TopCounts::all_fallbacks));
    let mut pairs = Vec::new();
    for wanted in Mobility::ALL {
        for taken in Mobility::ALL {
            let total = state.counts.fallbacks[wanted.index()][taken.index()];
            if total > 0 {
                pairs.push(
                    json!({ "wanted": wanted.name(), "taken": taken.name(), "total": total }),
                );
            }
        }
    }
    object["pairs"] = Value::Array(pairs);
    Some(object)
}

/// Those of the interval, as far as they are kept.
fn failures(state: &TopState) -> Option<Vec<Value>> {
    let from = state.interval_start_ns();
    let of_interval = state.failures.iter().filter(|of| of.time_ns >= from);
    let lines = of_interval.map(|of| {
        json!({
            "seconds": rounded(state.seconds_of(of.time_ns)),
            "order": of.order,
            "flags": of.flags,
            "command": of.command,
            "task": of.task,
            "reported": of.traits.is_reported,
            "may_reclaim": of.traits.may_reclaim,
            "cause": of.cause.map(word),
        })
    });
    state.has_events.then(|| lines.collect())
}

fn events(state: &TopState) -> Option<Vec<Value>> {
    let from = state.interval_start_ns();
    let of_interval = state.events.iter().filter(|of| of.time_ns >= from);
    let lines = of_interval.map(|of| {
        json!({
            "seconds": rounded(state.seconds_of(of.time_ns)),
            "what": of.what,
            "command": of.command,
            "times": of.times,
        })
    });
    state.has_events.then(|| lines.collect())
}
