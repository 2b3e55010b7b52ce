//! Three sentences of an answer, each in one number: what a page shows of it first.

use super::figures::AnswerFigures;
use super::judged::RulesVerdict;
use super::said::count;
use crate::replay::FailureCause;
use crate::report::CardFigure;

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

/// The headlines of an answer in which the `verdict` stands at `helped`.
pub(super) fn headlines(
    figures: &AnswerFigures,
    verdict: &RulesVerdict<'_>,
    helped: usize,
) -> Vec<Headline> {
    let one = |part, sentence, order, figure| Headline {
        part,
        sentence,
        order,
        figure,
    };
    let (failed, asked) = figures.suffered();
    let most = (0..failed.all.len())
        .rev()
        .max_by_key(|&order| failed.all[order]);
    let total: u64 = failed.all.iter().sum();
    let suffered = CardFigure::new(
        count(total),
        format!("of {} requests failed", count(asked.all.iter().sum())),
    );
    let most = most.filter(|_| total > 0);
    let mut all = vec![one(AnswerPart::Suffered, 0, most, suffered)];
    if let (Some(first), false) = (figures.subject().first, figures.is_invented) {
        let figure = CardFigure::new(
            format!("{:.1} s", first.ms as f64 / 1000.0),
            format!(
                "until an order-{} request failed, {}",
                first.order,
                cause(first.cause)
            ),
        );
        all.push(one(AnswerPart::Tipped, 1, Some(first.order), figure));
    }
    let order = figures.judged_order();
    all.push(one(
        AnswerPart::Helped,
        helped,
        order,
        helped_figure(figures, verdict),
    ));
    all
}

fn helped_figure(figures: &AnswerFigures, verdict: &RulesVerdict<'_>) -> CardFigure {
    let of = |policy| figures.tried.iter().find(|tried| tried.policy == policy);
    let best = verdict.best().and_then(of);
    match (of(figures.base), best, figures.judged_order()) {
        _ if verdict.is_unknown() => CardFigure::new(
            "?",
            "this recording cannot say which rules would have helped",
        ),
        (Some(base), Some(best), Some(order)) => CardFigure::new(
            format!(
                "{} → {}",
                count(base.counts.at_asked(order)),
                count(best.counts.at_asked(order))
            ),
            format!(
                "failures of order {order}, from {} to {}",
                base.policy, best.policy
            ),
        ),
        (_, _, None) => CardFigure::new("0", format!("requests fail under {}", figures.base)),
        _ => {
            let others = figures
                .tried
                .iter()
                .filter(|tried| tried.policy != figures.base);
            match others.count() {
                0 => CardFigure::new("?", "no other rules were tried"),
                others => CardFigure::new(
                    format!("0 of {others}"),
                    "other rules would surely have helped",
                ),
            }
        }
    }
}

const fn cause(cause: FailureCause) -> &'static str {
    match cause {
        FailureCause::Exhausted => "for want of memory",
        FailureCause::Watermark => "at a watermark",
        FailureCause::Fragmented => "because free memory lay in pieces",
    }
}
