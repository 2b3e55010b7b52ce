//! The answer that stands before every table: at most five sentences, made from figures by one pure function.
//!
//! ```text
//!   what the machine suffered ─▶ when, and from what, and what is in the way ─▶ which rules would have helped ─▶ what to change ─▶ what it leaves out
//! ```
//!
//! It claims no more than the figures allow.
//!
//! # Invariants
//! - **AW1** Rules have helped only where every nearby replay says so, and where the difference is larger than the
//!   model's error. Where that error is not known, the answer says so, and a handful is no difference.
//! - **AW2** Where the figures do not tell, it says "This recording cannot say, because ...": of invented memory, of what
//!   the machine refused and a replay of its own rules serves, of what fails in a replay alone.
//! - **AW3** No rule makes memory: none has helped where most requests failed because memory was used up, and failures
//!   count for rules only as far as what was free lay in pieces.
//!
//! What it says to change stands in `change.rs`, what a page shows of it first in `headline.rs`.

mod change;
mod headline;

pub use change::{AnswerZones, RecordedKernel};

use crate::measure::{MAX_ORDER, grouped};
use crate::replay::{FailureCause, FailureLog, ReplayPolicy};
use crate::report::{CardFigure, Deviation, WhoHolds};
use crate::size::shown_frames;
use crate::trace::{RequestCounts, RequestWaits, WaitSum};
use change::change;

/// Orders that are told apart.
const ORDERS: usize = MAX_ORDER + 1;
/// How a sentence begins that claims nothing (**AW2**).
const CANNOT_SAY: &str = "This recording cannot say";
/// The most sentences of an answer.
const SENTENCES_MAX: usize = 5;
/// Up to so many failures fewer are chance where the model's error is not known.
const HANDFUL: u64 = 10;

/// What requests waited for on the recording machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineStalls {
    /// Times that a request reclaimed before it was served or failed.
    pub reclaimed: u64,
    /// Times that a request compacted.
    pub compacted: u64,
}

/// What a policy failed to serve, by order, at each squeeze that was tried; the first is the one that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriedPolicy {
    /// The policy.
    pub policy: ReplayPolicy,
    /// Its failures.
    pub failures: Vec<[u64; ORDERS]>,
    /// Those of them that failed because what was free lay in pieces.
    pub in_pieces: Vec<[u64; ORDERS]>,
}

impl TriedPolicy {
    fn at_asked(&self, order: usize) -> u64 {
        first(&self.failures, order)
    }

    fn of(&self, counted: Counted) -> &[[u64; ORDERS]] {
        match counted {
            Counted::All => &self.failures,
            Counted::InPieces => &self.in_pieces,
        }
    }
}

fn first(tried: &[[u64; ORDERS]], order: usize) -> u64 {
    tried.first().map_or(0, |counts| counts[order])
}

fn range(tried: &[[u64; ORDERS]], order: usize) -> (u64, u64) {
    let of = || tried.iter().map(|counts| counts[order]);
    (of().min().unwrap_or(0), of().max().unwrap_or(0))
}

/// Which failures a sentence counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// All of them.
    All,
    /// Those for which what was free lay in pieces.
    InPieces,
}

/// All that an answer is made from.
#[derive(Debug, Clone)]
pub struct AnswerFigures {
    /// The recorded kernel.
    pub kernel: RecordedKernel,
    /// Why nothing at all can be said.
    pub nothing: Option<String>,
    /// Whether free memory at the start is invented.
    pub is_invented: bool,
    /// By the watermarks of which zones requests were admitted.
    pub zones: AnswerZones,
    /// Frames held back.
    pub squeeze: u64,
    /// Whether memory is laid out as recorded and nothing is held back: only then is the machine's own story told.
    pub is_as_recorded: bool,
    /// Requests that the machine served, and those that it did not.
    pub served: RequestCounts,
    /// The latter, with memory as the recording kernel's own rules have it at that moment.
    pub refused: FailureLog,
    /// How many of those a replay of its own rules serves.
    pub refused_served: u64,
    /// Stalls of the recording machine, where files beside the trace count them.
    pub stalls: Option<MachineStalls>,
    /// What requests waited for there, where the recording shows it.
    pub waits: RequestWaits,
    /// The rules that stand for the recording kernel.
    pub base: ReplayPolicy,
    /// What fails under them.
    pub failed: FailureLog,
    /// Stalls under them, in a replay that reclaims.
    pub replayed_stalls: Option<u64>,
    /// Each policy, `base` among them, in the order of the table.
    pub tried: Vec<TriedPolicy>,
    /// The model's error for failures by order, where the recording comes with what the machine did.
    pub errors: Option<Vec<Option<Deviation>>>,
    /// A squeeze at which something fails, where nothing does.
    pub proposed: Option<u64>,
    /// The holder of what is in the way, where that was looked for.
    pub holds: Option<WhoHolds>,
}

/// What a sentence is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerPart {
    /// What the machine suffered.
    Suffered,
    /// When it tipped over.
    Tipped,
    /// Which rules would have helped.
    Helped,
}

/// A sentence of an answer in one number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headline {
    /// What it is about.
    pub part: AnswerPart,
    /// The sentence's place in the answer.
    pub sentence: usize,
    /// The order that it is about, where it is about one.
    pub order: Option<usize>,
    /// The number.
    pub figure: CardFigure,
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One to five sentences.
    pub sentences: Vec<String>,
    /// Those that come to a number.
    pub headlines: Vec<Headline>,
    /// The rules that it compares the others with.
    pub base: ReplayPolicy,
}

impl Answer {
    /// As text, above the first table of a case.
    #[must_use]
    pub fn text(&self, case: &str) -> String {
        let lines: Vec<String> = self
            .sentences
            .iter()
            .map(|one| format!("  {one}\n"))
            .collect();
        format!("The answer for {case}\n{}\n", lines.concat())
    }
}

/// Whether rules would have helped, and how sure that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Helped {
    /// Fewer fail at each squeeze that was tried, by more than the model's error.
    Surely,
    /// The same, and by more than a handful, but of an error that is not known.
    AsFarAsKnown,
    /// Fewer fail at each squeeze that was tried, but by too few to tell.
    TooFew,
    /// Fewer fail at the squeeze that was asked for, but not by more than the model's error.
    WithinError,
    /// Fewer fail there, and not at each squeeze that was tried.
    Varies,
    /// No fewer fail.
    No,
}

impl Helped {
    const fn has(self) -> bool {
        matches!(self, Self::Surely | Self::AsFarAsKnown)
    }
}

/// The answer to: what did this machine suffer, from what, and what would have helped?
#[must_use]
pub fn answer(figures: &AnswerFigures) -> Answer {
    if let Some(why) = &figures.nothing {
        return Answer {
            sentences: vec![format!("{CANNOT_SAY}, because {why}.")],
            headlines: Vec::new(),
            base: figures.base,
        };
    }
    let mut sentences = vec![suffered(figures)];
    if figures.subject().total() > 0 {
        sentences.push(tipped(figures));
    }
    if let Some(holds) = figures.holds.as_ref().map(holds) {
        // A sixth sentence would have no place.
        match sentences.get_mut(1) {
            Some(tipped) => *tipped = format!("{}; {holds}.", tipped.trim_end_matches('.')),
            None => sentences.push(capitalised(&holds) + "."),
        }
    }
    let verdict = figures.verdict();
    let headlines = figures.headlines(&verdict.found, sentences.len());
    sentences.push(verdict.says);
    if !figures.is_invented {
        sentences.extend(change(
            figures.subject(),
            figures.base,
            verdict.found.best(),
            &figures.kernel,
            figures.zones,
        ));
    }
    sentences.extend(left_out(figures));
    sentences.truncate(SENTENCES_MAX);
    Answer {
        sentences,
        headlines,
        base: figures.base,
    }
}

struct RulesVerdict {
    says: String,
    found: RulesFound,
}

/// What the figures tell of rules.
enum RulesFound {
    /// Nothing (**AW2**).
    Unknown,
    /// None have surely helped, or none are needed.
    Nothing,
    /// These are the best that helped.
    Best(ReplayPolicy),
}

impl RulesFound {
    const fn best(&self) -> Option<ReplayPolicy> {
        match self {
            Self::Best(policy) => Some(*policy),
            Self::Unknown | Self::Nothing => None,
        }
    }
}

impl AnswerFigures {
    /// What failed on the machine, or under its rules in less memory, and all that was asked for there.
    fn suffered(&self) -> (RequestCounts, RequestCounts) {
        let refused = self.refused.counts;
        match self.is_as_recorded {
            true => (refused, self.served.and(&refused)),
            false => (self.failed.counts, self.served),
        }
    }

    /// The failures that the answer is about: the machine's own, or those of its rules in less memory.
    fn subject(&self) -> &FailureLog {
        match self.is_only_the_machine_s() || self.has_served_all() {
            true => &self.refused,
            false => &self.failed,
        }
    }

    /// Whether the machine served everything: what fails in a replay of its own rules is the model's error then.
    fn has_served_all(&self) -> bool {
        self.is_as_recorded && self.refused.total() == 0
    }

    /// Whether it is about failures that the machine itself had, and a replay of its rules mostly has not.
    fn is_only_the_machine_s(&self) -> bool {
        let refused = self.refused.total();
        self.is_as_recorded && refused > 0 && self.refused_served * 2 > refused
    }

    /// The order that rules are judged by: of those that could have been reported, else of all, the one that fails
    /// most often. Order 0 stands for lack of memory, which no rule mends, and only counts where nothing else fails.
    fn judged_order(&self) -> Option<usize> {
        // Rules mend only what lies in pieces (AW3), so they are judged where that happened, if it did anywhere.
        let has_pieces = self.failed.of_cause(FailureCause::Fragmented) > 0;
        let pieces = |order: usize| self.failed.causes[order][FailureCause::Fragmented as usize];
        let most = |counts: &[u64; ORDERS]| {
            (1..ORDERS)
                .filter(|&order| counts[order] > 0 && (!has_pieces || pieces(order) > 0))
                .max_by_key(|&order| (counts[order], std::cmp::Reverse(order)))
        };
        let counts = &self.failed.counts;
        // What has no flags was inferred, and so was its moment.
        let mut seen = counts.all;
        for (seen, unseen) in seen.iter_mut().zip(counts.unseen) {
            *seen -= unseen;
        }
        let any = most(&counts.reported)
            .or_else(|| most(&seen))
            .or_else(|| most(&counts.all));
        any.or_else(|| (counts.all[0] > 0).then_some(0))
    }

    fn error(&self, order: usize) -> Option<f64> {
        let deviation = self.errors.as_ref()?.get(order).copied().flatten()?;
        (!deviation.is_empty()).then_some(deviation.error)
    }

    fn helped(&self, base: &TriedPolicy, other: &TriedPolicy, order: usize) -> Helped {
        // What fails less often in pieces and more often at a watermark has not helped.
        let fewer = [Counted::All, Counted::InPieces].map(|counted| {
            let of = |tried: &TriedPolicy| first(tried.of(counted), order);
            of(base).saturating_sub(of(other))
        });
        let fewer = fewer[0].min(fewer[1]);
        if fewer == 0 {
            return Helped::No;
        }
        let overlap = |counted| {
            let (least, _) = range(base.of(counted), order);
            range(other.of(counted), order).1 >= least
        };
        if overlap(Counted::All) || overlap(Counted::InPieces) {
            return Helped::Varies;
        }
        match self.error(order) {
            Some(error) if fewer as f64 <= error => Helped::WithinError,
            None if fewer <= HANDFUL => Helped::TooFew,
            // One request is chance whatever the error.
            Some(_) if fewer == 1 => Helped::TooFew,
            Some(_) => Helped::Surely,
            None => Helped::AsFarAsKnown,
        }
    }

    fn verdict(&self) -> RulesVerdict {
        let none = |says: String| RulesVerdict {
            says,
            found: RulesFound::Nothing,
        };
        let unknown = |what: String| RulesVerdict {
            says: format!("{CANNOT_SAY} {what}"),
            found: RulesFound::Unknown,
        };
        if self.is_invented {
            return unknown(
                "which rules would have helped, because text does not say what was free: give the machine's \
                 /proc/pagetypeinfo of that moment with --state."
                    .into(),
            );
        }
        if self.is_only_the_machine_s() {
            let lacks = match self.zones {
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
            return unknown(format!(
                "which rules would have helped, because a replay of the machine's own rules ({}) serves {} of these {}. \
                 {lacks}",
                self.base,
                count(self.refused_served),
                count(self.refused.total()),
            ));
        }
        if self.has_served_all() && self.failed.total() > 0 {
            return unknown(format!(
                "which rules are better, because the machine served all that it was asked for: the {} requests that fail \
                 in a replay of its own rules ({}) are the model's error.",
                count(self.failed.total()),
                self.base,
            ));
        }
        let base = self.tried.iter().find(|tried| tried.policy == self.base);
        let (Some(order), Some(base)) = (self.judged_order(), base) else {
            let propose = match self.proposed {
                Some(frames) => format!("; --squeeze {} makes some fail", shown_frames(frames)),
                None => String::new(),
            };
            return none(format!(
                "No other rules are needed: those of {} serve every request{propose}.",
                self.base
            ));
        };
        if self.failed.of_cause(FailureCause::Exhausted) * 2 > self.failed.total() {
            return none(
                "None of these rules would have helped: most requests failed because memory was used up, and rules \
                 make no memory."
                    .into(),
            );
        }
        if self.failed.of_cause(FailureCause::Fragmented) == 0 {
            return none(
                "None of these rules would have helped: no request failed because what was free lay in pieces, and rules \
                 mend nothing else."
                    .into(),
            );
        }
        let others = self.tried.iter().filter(|tried| tried.policy != self.base);
        let judged: Vec<(&TriedPolicy, Helped)> = others
            .map(|tried| (tried, self.helped(base, tried, order)))
            .collect();
        // Failures in pieces are named as such only beside others.
        let is_all = first(&base.in_pieces, order) == base.at_asked(order);
        let (counts, because) = match is_all {
            true => (Counted::All, ""),
            false => (Counted::InPieces, " because memory lay in pieces"),
        };
        let counted = |tried: &TriedPolicy| shown_counts(tried.of(counts), order);
        let fails = format!("order {order} fails {}{because}", counted(base));
        let best = judged
            .iter()
            .filter(|(_, helped)| helped.has())
            // The first of the best, in the order of the table.
            .min_by_key(|(tried, _)| tried.at_asked(order));
        if let Some((tried, helped)) = best {
            let others = judged
                .iter()
                .filter(|(other, helped)| helped.has() && other.policy != tried.policy);
            let others: Vec<&str> = others.map(|(other, _)| other.policy.name()).collect();
            let too = match others.is_empty() {
                true => String::new(),
                false => format!("; fewer fail under {} too", others.join(", ")),
            };
            let sure = match (helped, self.error(order)) {
                (Helped::Surely, Some(error)) => {
                    format!(
                        "more than the model's error of {}",
                        count(error.round() as u64)
                    )
                }
                _ => "how far the model is off there is not known".to_owned(),
            };
            return RulesVerdict {
                says: format!(
                    "The rules of {} would have helped: {fails} under those of {}, and {} under these ({sure}){too}.",
                    tried.policy,
                    self.base,
                    counted(tried),
                ),
                found: RulesFound::Best(tried.policy),
            };
        }
        let closest = judged
            .iter()
            .filter(|(_, helped)| *helped != Helped::No)
            .min_by_key(|(tried, _)| tried.at_asked(order));
        none(match closest {
            Some((tried, Helped::WithinError)) => format!(
                "None of these rules would surely have helped: {fails} under those of {} and {} under those of {}, which \
                 is within the model's error of {}.",
                self.base,
                counted(tried),
                tried.policy,
                count(self.error(order).unwrap_or(0.0).round() as u64),
            ),
            Some((tried, Helped::TooFew)) => format!(
                "None of these rules would surely have helped: {fails} under those of {} and {} under those of {}, which is \
                 too few to tell{}.",
                self.base,
                counted(tried),
                tried.policy,
                match self.error(order) {
                    Some(_) => "",
                    None => ", because how far the model is off there is not known",
                },
            ),
            Some((tried, _)) => format!(
                "None of these rules would surely have helped: {fails} under those of {}, and {} under those of {}, but the two \
                 ranges overlap.",
                self.base,
                counted(tried),
                tried.policy,
            ),
            None => format!(
                "None of these rules would have helped: {fails} under those of {}, and no fewer under any other.",
                self.base
            ),
        })
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
fn suffered(figures: &AnswerFigures) -> String {
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
fn tipped(figures: &AnswerFigures) -> String {
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

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().into_iter().flat_map(char::to_uppercase);
    first.chain(chars).collect()
}

/// What a replay leaves out of this answer.
fn left_out(figures: &AnswerFigures) -> Option<String> {
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

fn count(n: u64) -> String {
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

#[cfg(test)]
mod tests;
