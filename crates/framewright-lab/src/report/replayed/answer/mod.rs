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
//! - **AW5** A setting has helped only by what **AW1** asks of rules, against the kernel as it was set, with the same model of a
//!   background, and only where no more requests of all orders fail. The model's error counts only where the calibration has that
//!   background, too. One that makes the kernel work more is never ruled out, because a replay leaves out what that work brings; one
//!   that makes it work less only may have helped, because a replay keeps what the work has brought. One that no replay has a
//!   model of is named as not tried.
//!
//! `figures.rs` has what goes in, `tried.rs` what was tried, `judged.rs` what that tells, `said.rs` the sentences. What the answer says to
//! change stands in `change.rs`, what a page shows of it first in `headline.rs`.

mod change;
mod figures;
mod headline;
mod judged;
mod kernel;
mod said;
mod tried;

pub use figures::{AnswerFigures, MachineStalls};
pub use headline::{AnswerPart, Headline};
pub use kernel::{AnswerZones, RecordedKernel, SettingTrial};
pub use tried::{SettingsAsked, TriedCounts, TriedPolicy, TriedSetting, TriedSettings};

use crate::replay::ReplayPolicy;
use change::change;
use headline::headlines;
use judged::{JudgedSettings, verdict};
use said::CANNOT_SAY;

/// The most sentences of an answer.
const SENTENCES_MAX: usize = 5;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// One to five sentences.
    pub sentences: Vec<String>,
    /// Those that come to a number.
    pub headlines: Vec<Headline>,
    /// The rules that it compares the others with.
    pub base: ReplayPolicy,
    /// The order that it judges settings by.
    pub settings_order: Option<usize>,
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

/// The answer to: what did this machine suffer, from what, and what would have helped?
#[must_use]
pub fn answer(figures: &AnswerFigures) -> Answer {
    if let Some(why) = &figures.nothing {
        return Answer {
            sentences: vec![format!("{CANNOT_SAY}, because {why}.")],
            headlines: Vec::new(),
            base: figures.base,
            settings_order: None,
        };
    }
    let mut sentences = vec![said::suffered(figures)];
    if figures.subject().total() > 0 {
        sentences.push(said::tipped(figures));
    }
    if let Some(holds) = said::holders(figures) {
        // A sixth sentence would have no place.
        match sentences.get_mut(1) {
            Some(tipped) => *tipped = format!("{}; {holds}.", tipped.trim_end_matches('.')),
            None => sentences.push(said::capitalised(&holds) + "."),
        }
    }
    let verdict = verdict(figures);
    let headlines = headlines(figures, &verdict, sentences.len());
    sentences.push(said::rules(figures, &verdict));
    if !figures.is_invented {
        let settings = JudgedSettings::of(figures, &verdict);
        sentences.extend(change(figures, verdict.best(), settings.as_ref()));
    }
    sentences.extend(said::left_out(figures));
    sentences.truncate(SENTENCES_MAX);
    Answer {
        sentences,
        headlines,
        base: figures.base,
        settings_order: figures.settings_order(),
    }
}

#[cfg(test)]
mod tests;
