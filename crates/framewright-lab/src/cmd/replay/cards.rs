//! The answer's sentences as cards, each with the plot that shows what it says.

use super::Replayed;
use super::course::{FREE_MEMORY, UNUSABLE_O3, UNUSABLE_O9, failures_of};
use crate::report::{AnswerPart, Headline, Item, OverTime, VerdictCard};

/// From this order on the unusable index of huge pages tells more than that of order 3.
const HUGE_FROM: usize = 7;

/// The cards of a case, of whose page these are the items.
pub(super) fn cards(replayed: &Replayed, items: &[Item]) -> Vec<VerdictCard> {
    let case = &replayed.case;
    let Some(answer) = &case.answer else {
        return Vec::new();
    };
    let card = |headline: &Headline| {
        Some(VerdictCard {
            verdict: answer.sentences.get(headline.sentence)?.clone(),
            figure: headline.figure.clone(),
            plot: plot(headline, &case.name, items).map(Item::OverTime),
        })
    };
    answer.headlines.iter().filter_map(card).collect()
}

fn plot(headline: &Headline, case: &str, items: &[Item]) -> Option<OverTime> {
    let title = match (headline.part, headline.order) {
        (AnswerPart::Suffered, Some(order)) => failures_of(order),
        // Where nothing failed, how much was left.
        (AnswerPart::Suffered, None) | (AnswerPart::Tipped, _) => FREE_MEMORY.to_owned(),
        (AnswerPart::Helped, Some(order)) if order >= HUGE_FROM => UNUSABLE_O9.to_owned(),
        (AnswerPart::Helped, _) => UNUSABLE_O3.to_owned(),
    };
    let prefix = format!("{case}: ");
    let found = items.iter().find_map(|item| match item {
        Item::OverTime(plot) if plot.title.strip_prefix(&prefix) == Some(&*title) => Some(plot),
        _ => None,
    });
    Some(OverTime {
        title,
        ..found?.clone()
    })
}
