//! What came out, before everything else: a card for each verdict that comes to one number, and below the cards the
//! sentences that have none, folded where they are many.

use super::plot::{PlotError, PlotSize};
use super::plotted;
use crate::report::{Section, VerdictCard};
use maud::{Markup, html};

/// As many sentences below the cards stand by themselves; more can be folded.
const OPEN_MAX: usize = 6;

/// All that came out.
pub(super) fn summary(sections: &[Section]) -> Result<Markup, PlotError> {
    let told = sections.iter().filter(|section| !section.cards.is_empty());
    // Cards of one section need not say of which.
    let is_named = told.count() > 1;
    let cards: Result<Vec<Markup>, PlotError> = sections
        .iter()
        .flat_map(|section| {
            (0..)
                .zip(&section.cards)
                .map(move |(nth, one)| (section, nth, one))
        })
        .map(|(section, nth, one)| card(section, nth, one, is_named))
        .collect();
    let cards = cards?;
    let has_cards = !cards.is_empty();
    let rest: Vec<(&Section, Vec<&str>)> = sections
        .iter()
        .map(|one| (one, without_card(one)))
        .collect();
    let sentences: usize = rest.iter().map(|(_, lines)| lines.len()).sum();
    Ok(html! {
        @if has_cards || sentences > 0 {
            section aria-labelledby="summary" {
                h2 id="summary" { "What came out" }
                @if has_cards { div class="cards" { @for card in cards { (card) } } }
                @if has_cards && sentences > OPEN_MAX {
                    // What to change is among them.
                    details open {
                        summary { (sentences) " more sentences" }
                        (listed(&rest))
                    }
                } @else if sentences > 0 {
                    (listed(&rest))
                }
            }
        }
    })
}

fn card(
    section: &Section,
    nth: usize,
    card: &VerdictCard,
    is_named: bool,
) -> Result<Markup, PlotError> {
    let id = format!("{}-card-{nth}", section.id);
    let plot = card
        .plot
        .as_ref()
        .map(|item| plotted(&id, item, PlotSize::Card));
    let plot = plot.transpose()?.flatten();
    Ok(html! {
        article class="card" {
            @if is_named { h3 { a href={ "#" (section.id) } { (section.title) } } }
            p class="headline" { strong { (card.figure.value) } " " span { (card.figure.what) } }
            p { (card.verdict) }
            @if let Some(plot) = plot { (plot) }
        }
    })
}

/// The sentences of a section that no card has.
fn without_card(section: &Section) -> Vec<&str> {
    let is_told = |line: &&str| section.cards.iter().any(|card| card.verdict == *line);
    let lines = section.summary.iter().map(String::as_str);
    lines.filter(|line| !is_told(line)).collect()
}

fn listed(rest: &[(&Section, Vec<&str>)]) -> Markup {
    html! {
        dl class="summary" {
            @for (section, lines) in rest.iter().filter(|(_, lines)| !lines.is_empty()) {
                dt { a href={ "#" (section.id) } { (section.title) } }
                @for line in lines { dd { (line) } }
            }
        }
    }
}
