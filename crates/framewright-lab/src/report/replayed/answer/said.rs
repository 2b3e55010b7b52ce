//! The sentences of an answer: each is made from the figures, or from what they tell, and claims no more.

use super::figures::{AnswerFigures, MachineStalls};
use super::judged::{Helped, JudgedRules, JudgedSettings, RulesVerdict};
use super::kernel::AnswerZones;
use super::tried::{Counted, ORDERS, TriedCounts, TriedPolicy, first, range};
use crate::measure::grouped;
use crate::replay::{FailureCause, ReplayPolicy};
use crate::report::WhoHolds;
use crate::size::shown_frames;
use crate::trace::{RequestWaits, WaitSum};

/// How a sentence begins that claims nothing (**AW2**).
pub(super) const CANNOT_SAY: &str = "This recording cannot say";

/// Which rules would have helped.
pub(super) fn rules(figures: &AnswerFigures, verdict: &RulesVerdict<'_>) -> String {
    let base = figures.base;
    match verdict {
        RulesVerdict::OfInvented => format!(
            "{CANNOT_SAY} which rules would have helped, because text does not say what was free: give the machine's \
             /proc/pagetypeinfo of that moment with --state."
        ),
        RulesVerdict::OfTheMachineAlone => {
            let lacks = match figures.zones {
                AnswerZones::Recorded => {
                    "The replay admits requests by the watermarks of the machine's zones, as the machine did; what it \
                     refused these for is something else that a replay does not have."
                }
                AnswerZones::Computed => {
                    "The zones of this replay, with their watermarks, are worked out from how much memory there was; the \
                     machine's own may have differed."
                }
                AnswerZones::None => {
                    "The machine refused them for what a replay does not have, watermarks and zones above all."
                }
            };
            format!(
                "{CANNOT_SAY} which rules would have helped, because a replay of the machine's own rules ({base}) serves {} of \
                 these {}. {lacks}",
                count(figures.refused_served),
                count(figures.refused.total()),
            )
        }
        RulesVerdict::OfTheModelAlone => format!(
            "{CANNOT_SAY} which rules are better, because the machine served all that it was asked for: the {} requests that \
             fail in a replay of its own rules ({base}) are the model's error.",
            count(figures.failed.total()),
        ),
        RulesVerdict::NoneNeeded => {
            let propose = match figures.proposed {
                Some(frames) => format!("; --squeeze {} makes some fail", shown_frames(frames)),
                None => String::new(),
            };
            format!(
                "No other rules are needed: those of {base} serve every request{propose}."
            )
        }
        RulesVerdict::UsedUp => {
            "None of these rules would have helped: most requests failed because memory was used up, and rules make no \
             memory."
                .into()
        }
        RulesVerdict::NotInPieces => {
            "None of these rules would have helped: no request failed because what was free lay in pieces, and rules mend \
             nothing else."
                .into()
        }
        RulesVerdict::Judged(judged) => judged_rules(judged),
    }
}

/// What was found of each.
fn judged_rules(judged: &JudgedRules<'_>) -> String {
    let (order, base) = (judged.order, judged.base.policy);
    let counts = judged.counted();
    let because = match counts {
        Counted::All => "",
        Counted::InPieces => " because memory lay in pieces",
    };
    let counted = |tried: &TriedPolicy| shown_counts(tried.counts.of(counts), order);
    let fails = format!("order {order} fails {}{because}", counted(judged.base));
    if let Some((tried, helped)) = judged.best() {
        let others: Vec<&str> = judged.also(tried.policy).map(ReplayPolicy::name).collect();
        let too = match others.is_empty() {
            true => String::new(),
            false => format!("; fewer fail under {} too", others.join(", ")),
        };
        let sure = sure(helped, judged.error);
        return format!(
            "The rules of {} would have helped: {fails} under those of {base}, and {} under these ({sure}){too}.",
            tried.policy,
            counted(tried),
        );
    }
    match judged.closest() {
        Some((tried, Helped::WithinError)) => format!(
            "None of these rules would surely have helped: {fails} under those of {base} and {} under those of {}, which is \
             within the model's error of {}.",
            counted(tried),
            tried.policy,
            count(judged.error.unwrap_or(0.0).round() as u64),
        ),
        Some((tried, Helped::TooFew)) => format!(
            "None of these rules would surely have helped: {fails} under those of {base} and {} under those of {}, which is \
             too few to tell{}.",
            counted(tried),
            tried.policy,
            match judged.error {
                Some(_) => "",
                None => ", because how far the model is off there is not known",
            },
        ),
        Some((tried, _)) => format!(
            "None of these rules would surely have helped: {fails} under those of {base}, and {} under those of {}, but the \
             two ranges overlap.",
            counted(tried),
            tried.policy,
        ),
        None => format!(
            "None of these rules would have helped: {fails} under those of {base}, and no fewer under any other."
        ),
    }
}

/// What was found of settings, as a part of a sentence (**AW5**).
pub(super) fn settings(judged: &JudgedSettings<'_>) -> String {
    let order = judged.order;
    let counted = |counts: &TriedCounts| shown_counts(&counts.failures, order);
    let zones = match judged.has_zones {
        true => "",
        false => ", in zones that are worked out from how much memory there was",
    };
    let model = match judged.is_remodelled {
        true => " and with a model of kswapd",
        false => "",
    };
    let now = format!("{} as it was set{model}", counted(judged.base));
    if let Some((tried, helped)) = judged.best() {
        let (trial, counts) = (tried.trial, &tried.counts);
        let may = match trial.is_less {
            false => "would",
            true => "may",
        };
        let most = match trial.is_less {
            false => "",
            true => {
                "; a replay keeps what the kernel reclaimed under the old value, so that this is the most it can do"
            }
        };
        // One of less work only may have helped, and so is never named beside another.
        let also = judged
            .each
            .iter()
            .filter(|(other, helped)| helped.has() && other.trial != trial && !other.trial.is_less);
        let also: Vec<String> = also.map(|(other, _)| other.trial.to_string()).collect();
        let also = match also.is_empty() {
            true => String::new(),
            false => format!("; fewer fail with {} too", also.join(", ")),
        };
        return format!(
            "{trial} {may} have helped: order {order} fails {now}, and {} with that{zones} ({}){also}{most}; {}",
            counted(counts),
            sure(helped, judged.error),
            price(judged, counts),
        );
    }
    let is_no = |(_, helped): &(_, Helped)| *helped == Helped::No;
    let surely = match judged.each.iter().all(is_no) {
        true => "",
        false => "surely ",
    };
    let each = judged.each.iter();
    let each: Vec<String> = each
        .map(|(tried, helped)| {
            let all = match helped {
                Helped::Elsewhere => moved(judged.base, &tried.counts),
                _ => String::new(),
            };
            format!("{} with {}{all}", counted(&tried.counts), tried.trial)
        })
        .collect();
    let more = judged.each.iter().filter(|(tried, _)| !tried.trial.is_less);
    let more: Vec<&str> = more.map(|(tried, _)| tried.trial.setting.name()).collect();
    let open = match more.is_empty() {
        true => String::new(),
        false => format!(
            "; that does not rule out {}, because what a kernel reclaims and compacts for it is in no replay",
            more.join(" and ")
        ),
    };
    let is_moved = |(_, helped): &(_, Helped)| *helped == Helped::Elsewhere;
    let claim = match judged.each.iter().any(is_moved) {
        true => format!("would surely have helped: order {order} fails"),
        false => format!("{surely}lets fewer requests of order {order} fail:"),
    };
    format!(
        "none of the recorded kernel's settings that were tried {claim} {now}, {}{zones}{open}",
        each.join(", ")
    )
}

/// The replay by which a setting has not helped: the first one in which more requests of all orders fail.
fn moved(base: &TriedCounts, counts: &TriedCounts) -> String {
    let mut totals = base.totals().zip(counts.totals()).enumerate();
    let Some((nth, (now, then))) = totals.find(|(_, (now, then))| then > now) else {
        return String::new();
    };
    let place = match nth {
        0 => "",
        _ => " in a nearby replay",
    };
    format!(
        " but of all orders {} fail and not {}{place}",
        count(then),
        count(now)
    )
}

/// What a setting costs, at what was asked for.
fn price(judged: &JudgedSettings<'_>, counts: &TriedCounts) -> String {
    let (order, base) = (judged.order, judged.base);
    let of = |all: &[u64]| count(all.first().copied().unwrap_or(0));
    format!(
        "its price: of {} requests, {} would have waited ({} as it was set), {} would have been served from pageblocks of other \
         mobilities ({}), and {} of other orders would have failed ({}); what reclaim costs is not counted",
        count(judged.requests),
        of(&counts.stalled),
        of(&base.stalled),
        of(&counts.fallbacks),
        of(&base.fallbacks),
        count(counts.of_others(order)),
        count(base.of_others(order)),
    )
}

/// How sure it is that something has helped.
fn sure(helped: Helped, error: Option<f64>) -> String {
    match (helped, error) {
        (Helped::Surely, Some(error)) => {
            format!(
                "more than the model's error of {}",
                count(error.round() as u64)
            )
        }
        _ => "how far the model is off there is not known".to_owned(),
    }
}

/// `122 times (118 to 130 over 3 nearby replays)`.
fn shown_counts(tried: &[[u64; ORDERS]], order: usize) -> String {
    let times = times(first(tried, order));
    let (least, most) = range(tried, order);
    match tried.len() {
        0 | 1 => times,
        n => format!(
            "{times} ({} to {} over {n} nearby replays)",
            count(least),
            count(most)
        ),
    }
}

/// What the machine suffered, or would suffer in less memory.
pub(super) fn suffered(figures: &AnswerFigures) -> String {
    let is_machine = figures.is_as_recorded;
    let (failed, asked) = figures.suffered();
    let total: u64 = failed.all.iter().sum();
    let all: u64 = asked.all.iter().sum();
    let place = match (is_machine, figures.squeeze) {
        (true, _) => "on this machine".to_owned(),
        (false, 0) => format!("under the rules of {}", figures.base),
        (false, frames) => format!(
            "with {} frames ({}) less, under the rules of {}",
            count(frames),
            shown_mib(frames),
            figures.base
        ),
    };
    let mut says = if total == 0 {
        format!("None of {} requests failed {place}", count(all))
    } else {
        let orders: Vec<String> = (0..ORDERS)
            .filter(|&order| failed.all[order] > 0)
            .map(|order| format!("{} of order {order}", count(failed.all[order])))
            .collect();
        let reported: u64 = failed.reported.iter().sum();
        let unseen: u64 = failed.unseen.iter().sum();
        let prints = "could have printed `page allocation failure`";
        let told = match (reported, unseen) {
            (0, 0) => format!("none of them {prints}, because all carry __GFP_NOWARN"),
            (0, unseen) => format!(
                "none of them is known to be one that {prints} ({} have no flags)",
                count(unseen)
            ),
            (reported, 0) => format!("{} of them {prints}", count(reported)),
            (reported, unseen) => {
                format!(
                    "{} of them {prints}, beside {} without flags",
                    count(reported),
                    count(unseen)
                )
            }
        };
        format!(
            "{} of {} requests failed {place} ({}), and {told}",
            count(total),
            count(all),
            orders.join(", ")
        )
    };
    if asked.huge_pages() > 0 && total > 0 {
        says += &format!(
            "; {} of {} requests for a huge page failed",
            match failed.huge_pages() {
                0 => "none".to_owned(),
                n => count(n),
            },
            count(asked.huge_pages())
        );
    }
    if let (true, Some(reclaim), Some(compaction)) =
        (is_machine, figures.waits.reclaim, figures.waits.compaction)
    {
        return says + &waited(&reclaim, &compaction) + ".";
    }
    match (
        figures.replayed_stalls,
        figures.stalls.filter(|_| is_machine),
    ) {
        (Some(stalls), _) if !is_machine => {
            says += &format!("; requests reclaimed {} first", times(stalls))
        }
        (_, Some(stalls)) if stalls == MachineStalls::default() => {
            says += "; none had to reclaim or compact first";
        }
        (_, Some(stalls)) => {
            says += &format!(
                "; requests reclaimed {} and compacted {} first",
                times(stalls.reclaimed),
                times(stalls.compacted)
            );
        }
        _ => {}
    }
    says + "."
}

/// What requests waited for, as the kernel's events show it.
fn waited(reclaim: &[WaitSum; ORDERS], compaction: &[WaitSum; ORDERS]) -> String {
    let of = |sums: &[WaitSum; ORDERS], what: &str| {
        let sum = RequestWaits::sum(sums);
        (sum.times > 0).then(|| {
            let orders = (0..ORDERS).filter(|&order| sums[order].requests > 0);
            let orders: Vec<String> = orders
                .map(|order| format!("{} of order {order}", count(sums[order].requests)))
                .collect();
            format!(
                "{} {what} for {:.3} s in all ({})",
                count(sum.requests),
                sum.ns as f64 / 1e9,
                orders.join(", ")
            )
        })
    };
    let waits = [of(reclaim, "reclaimed"), of(compaction, "compacted")];
    let waits: Vec<String> = waits.into_iter().flatten().collect();
    match waits.is_empty() {
        true => "; none had to reclaim or compact first".into(),
        false => format!("; of all requests {} first", waits.join(" and ")),
    }
}

/// When it tipped over, and from what.
pub(super) fn tipped(figures: &AnswerFigures) -> String {
    if figures.is_invented {
        return format!("{CANNOT_SAY} what they failed for, because its free memory is invented.");
    }
    let log = figures.subject();
    let Some(first) = log.first else {
        return String::new();
    };
    let free = match first.largest {
        None => "nothing was free".to_owned(),
        Some(largest) => format!(
            "{} were free, in blocks up to order {largest}",
            shown_mib(first.free_frames)
        ),
    };
    let of = |cause| count(log.of_cause(cause));
    let (s, order) = (first.ms as f64 / 1000.0, first.order);
    let when = match figures.is_only_the_machine_s() {
        true => format!(
            "The first of them failed at {s:.1} s, of order {order}, when by a replay of the machine's rules {free}"
        ),
        false => format!(
            "Under the rules of {} memory tipped over at {s:.1} s with a request of order {order}, when {free}",
            figures.base
        ),
    };
    format!(
        "{when}: of the {}, {} failed for want of any memory, {} at a watermark, and {} because what was free lay in \
         pieces.",
        count(log.total()),
        of(FailureCause::Exhausted),
        of(FailureCause::Watermark),
        of(FailureCause::Fragmented),
    )
}

/// The holders of what is in the way, by the recording and by a dump of `page_owner`, as a part of a sentence.
pub(super) fn holders(figures: &AnswerFigures) -> Option<String> {
    let recorded = figures.holds.as_ref().map(holds);
    let owner = figures.owner.as_ref().map(|(who, frames, of)| {
        format!(
            "by page_owner {who} is the caller that holds the most of what is in the way in mixed pageblocks: {} of {} frames",
            count(*frames),
            count(*of)
        )
    });
    let both: Vec<String> = recorded.into_iter().chain(owner).collect();
    (!both.is_empty()).then(|| both.join("; "))
}

/// The holder of what is in the way, as a part of a sentence.
fn holds(holds: &WhoHolds) -> String {
    match holds {
        WhoHolds::NoNames => "the recording does not say who holds the frames in the way, because it has no names".to_owned(),
        WhoHolds::Nothing => {
            "nothing that was asked for while it was recorded is in the way in a mixed pageblock at the end".to_owned()
        }
        WhoHolds::Most {
            who,
            frames,
            of,
            before,
        } => format!(
            "at the end {} frames that cannot move share pageblocks with movable ones: {} of them were held before the \
             recording, and of those whose asker has a name {who} holds the most: {} {}",
            count(*of),
            count(*before),
            count(*frames),
            if *frames == 1 { "frame" } else { "frames" },
        ),
    }
}

pub(super) fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

/// What a replay leaves out of this answer.
pub(super) fn left_out(figures: &AnswerFigures) -> Option<String> {
    let counts = &figures.failed.counts;
    let failed: u64 = counts.all.iter().sum();
    let at_once = counts.no_reclaim.iter().sum::<u64>() + counts.unseen.iter().sum::<u64>();
    let waiting = failed.saturating_sub(at_once);
    if figures.replayed_stalls.is_some() || figures.has_served_all() || waiting == 0 {
        return None;
    }
    Some(format!(
        "A replay neither reclaims nor compacts: {} of the {} requests that fail in it may do so, and would have waited \
         first.",
        count(waiting),
        count(failed)
    ))
}

pub(super) fn count(n: u64) -> String {
    grouped(n as f64)
}

fn times(n: u64) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{} times", count(n)),
    }
}

fn shown_mib(frames: u64) -> String {
    format!("{:.1} MiB", frames as f64 / 256.0)
}
