//! A page: one HTML file that needs no network and no script.
//!
//! ```text
//!   Section ──▶ cards (cards), tables (here), plots (plot), maps (map) ──▶ one file: style, pictures and data in it
//! ```
//!
//! A reader without scripts sees everything but the moments between those of the printed maps; with
//! them a map can be moved through time. Colours are the page's own variables, light and dark; what
//! a colour says is said by a line's dashes, a square's pattern or by words too.
//!
//! The same sections give the same bytes: nothing here asks for the time or the machine.

mod cards;
mod map;
mod plot;
#[cfg(test)]
pub(crate) mod tests;

use plot::PlotSize;

pub use plot::PlotError;

use super::{Accent, BlockMaps, Grid, Heading, Item, Note, RunInfo, Section, Tabled};
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("scrub.js");

/// The generator that the file names.
pub const GENERATOR: &str = "framewright laboratory";

/// A page.
#[derive(Debug, Clone)]
pub struct HtmlPage {
    /// Its title.
    pub title: String,
    /// What it is, in a few sentences.
    pub lead: String,
    /// What ran, where, and with what.
    pub info: RunInfo,
    /// What came out.
    pub sections: Vec<Section>,
}

impl HtmlPage {
    /// The whole file.
    ///
    /// # Errors
    /// If a plot cannot be drawn.
    pub fn render(&self) -> Result<String, PlotError> {
        let films: usize = self.maps().map(|map| map.films.len()).sum();
        let budget = map::FilmBudget::of(films);
        let sections: Result<Vec<Markup>, PlotError> = self
            .sections
            .iter()
            .map(|one| section(one, budget))
            .collect();
        let summary = cards::summary(&self.sections)?;
        let has_maps = films > 0;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="generator" content=(GENERATOR);
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    header {
                        h1 { (self.title) }
                        p { (self.lead) }
                        (self.run_line())
                    }
                    main {
                        (self.hollow())
                        (summary)
                        (self.contents())
                        @for section in sections? { (section) }
                    }
                    @if has_maps { (map::patterns()) script { (PreEscaped(SCRIPT)) } }
                }
            }
        };
        let mut text = page.into_string();
        text.push('\n');
        Ok(text)
    }

    fn maps(&self) -> impl Iterator<Item = &BlockMaps> {
        let items = self.sections.iter().flat_map(|section| &section.items);
        items.filter_map(|item| match item {
            Item::Map(map) => Some(map),
            _ => None,
        })
    }

    fn run_line(&self) -> Markup {
        let (info, machine) = (&self.info, &self.info.machine);
        let options: Vec<String> = info
            .options
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        html! {
            dl class="run" {
                dt { "Program" }
                dd { "framewright " (info.version) ", commit " (info.commit) }
                dt { "Run" }
                dd { (info.experiment) @if !options.is_empty() { ": " (options.join(", ")) } }
                dt { "Machine" }
                dd {
                    (machine.cpu) ", " (machine.cpus) " CPUs, "
                    (format!("{:.1}", machine.memory_kib as f64 / f64::from(1 << 20))) " GiB, "
                    (machine.os) ", " (machine.arch)
                }
            }
        }
    }

    /// What a reader must know before any figure.
    fn hollow(&self) -> Markup {
        html! {
            @if !self.info.hollow.is_empty() {
                section class="hollow" aria-labelledby="hollow" {
                    h2 id="hollow" { "Read this first: hollow answers" }
                    ul { @for one in &self.info.hollow { li { (one) } } }
                }
            }
        }
    }

    fn contents(&self) -> Markup {
        html! {
            @if self.sections.len() > 1 {
                nav aria-label="Contents" {
                    ol {
                        @for section in &self.sections {
                            li { a href={ "#" (section.id) } { (section.title) } }
                        }
                    }
                }
            }
        }
    }
}

fn section(section: &Section, budget: map::FilmBudget) -> Result<Markup, PlotError> {
    let parts: Result<Vec<SectionPart>, PlotError> = section
        .items
        .iter()
        .enumerate()
        .map(|(nth, item)| part(&format!("{}-{nth}", section.id), item, budget))
        .collect();
    let parts = parts?;
    Ok(html! {
        section aria-labelledby=(section.id) {
            h2 id=(section.id) { (section.title) }
            (paragraphs(&section.introduction))
            // Plots that follow one another stand side by side where there is room.
            @for group in parts.chunk_by(|a, b| a.is_plot && b.is_plot) {
                @if group[0].is_plot {
                    div class="plots" { @for part in group { (part.markup) } }
                } @else {
                    @for part in group { (part.markup) }
                }
            }
            @if !section.method.is_empty() {
                details {
                    summary { "How each figure was measured" }
                    (paragraphs(section.method))
                }
            }
        }
    })
}

/// A part of a section, as it will stand there.
struct SectionPart {
    is_plot: bool,
    markup: Markup,
}

fn part(id: &str, item: &Item, budget: map::FilmBudget) -> Result<SectionPart, PlotError> {
    let markup = match item {
        Item::Table(tabled) => Some(table(tabled)),
        Item::Text(lines) => Some(paragraphs(lines)),
        Item::OverTime(_) | Item::Latency(_) => plotted(id, item, PlotSize::Full)?,
        Item::Map(map) => Some(map::figure(id, map, budget)),
    };
    Ok(SectionPart {
        is_plot: item.is_plot(),
        markup: markup.unwrap_or_default(),
    })
}

/// A plot with its title, legend and note; a card has no room for the note. None of what is no plot.
fn plotted(id: &str, item: &Item, size: PlotSize) -> Result<Option<Markup>, PlotError> {
    let (title, note, svg, legend) = match item {
        Item::OverTime(plot) => {
            let lines = plot
                .lines
                .iter()
                .map(|line| (line.name.as_str(), line.accent, line.is_published));
            (
                &plot.title,
                &plot.note,
                plot::over_time(id, plot, size)?,
                legend(lines),
            )
        }
        Item::Latency(latency) => {
            let lines = latency
                .of
                .iter()
                .map(|one| (one.variant, Accent::of(one.variant), false));
            (
                &latency.title,
                &latency.note,
                plot::latency(id, latency, size)?,
                legend(lines),
            )
        }
        _ => return Ok(None),
    };
    let note = match size {
        PlotSize::Full => note.as_str(),
        PlotSize::Card => "",
    };
    Ok(Some(figure(title, note, &svg, &legend)))
}

/// Text broken for a terminal, as paragraphs: an empty line ends one.
fn paragraphs(text: &str) -> Markup {
    html! {
        @for paragraph in text.split("\n\n").map(str::trim).filter(|p| !p.is_empty()) {
            p { (paragraph) }
        }
    }
}

fn table(tabled: &Tabled) -> Markup {
    let grid = &tabled.grid;
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(tabled.caption) {
            table {
                caption { (tabled.caption) }
                thead { tr {
                    th scope="col" { "figure" }
                    @for column in &grid.headings {
                        th scope="col" class=(class(column)) { (column.one_line()) }
                    }
                } }
                @for (first, rows) in groups(grid) {
                    tbody {
                        // The case in a row of its own leaves one column of names, which can stay while the rest scrolls.
                        @if grid.labels > 1 {
                            tr { th scope="rowgroup" colspan=(grid.headings.len() + 1) { span { (first) } } }
                        }
                        @for row in rows {
                            tr {
                                th scope="row" {
                                    (breakable(row.labels.last().map_or("", String::as_str)))
                                    @if !row.unit.is_empty() && row.unit != "1" {
                                        " " small { (row.unit) }
                                    }
                                }
                                @for (column, cell) in grid.headings.iter().zip(&row.cells) {
                                    td class=(class(column)) { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @for note in &tabled.notes {
            @match note {
                Note::Text(lines) => (paragraphs(lines)),
                // A listing scrolls where it is wider than the page, and a reader without a mouse has to reach it.
                Note::Listing(lines) => pre tabindex="0" { (lines) },
            }
        }
    }
}

/// A metric's name, which a narrow page may break behind each part.
fn breakable(name: &str) -> Markup {
    html! {
        @for part in name.split_inclusive('_') { (part) @if part.ends_with('_') { wbr; } }
    }
}

/// The rows by their first label, of which an empty one stands for the one above.
fn groups(grid: &Grid) -> Vec<(&str, &[super::GridRow])> {
    if grid.labels < 2 {
        return vec![("", &grid.rows)];
    }
    let first = |row: &super::GridRow| row.labels.first().is_some_and(|label| !label.is_empty());
    let mut starts: Vec<usize> = (0..grid.rows.len())
        .filter(|&n| n == 0 || first(&grid.rows[n]))
        .collect();
    starts.push(grid.rows.len());
    let group = |ends: &[usize]| {
        let rows = &grid.rows[ends[0]..ends[1]];
        (rows[0].labels[0].as_str(), rows)
    };
    starts.windows(2).map(group).collect()
}

fn class(column: &Heading) -> String {
    let accent = column.accent.map_or("other", Accent::name);
    let published = if column.is_published {
        " published"
    } else {
        ""
    };
    format!("{accent}{published}")
}

/// What a plot's lines are and how each is drawn, those without an accent together.
fn legend<'a>(
    lines: impl Iterator<Item = (&'a str, Option<Accent>, bool)>,
) -> Vec<(String, String)> {
    let mut named: Vec<(String, String)> = Vec::new();
    let mut others: Vec<&str> = Vec::new();
    for (name, accent, is_published) in lines {
        match accent {
            Some(accent) => {
                let thin = if is_published { " thin" } else { "" };
                named.push((name.to_owned(), format!("line-{}{thin}", accent.name())));
            }
            None => others.push(name),
        }
    }
    if !others.is_empty() {
        named.push((others.join(", "), "line-other".to_owned()));
    }
    named
}

/// A plot with its title, what its lines are, and its note.
fn figure(title: &str, note: &str, svg: &str, legend: &[(String, String)]) -> Markup {
    html! {
        figure class="plot" {
            figcaption { (title) }
            ul class="legend" {
                @for (name, class) in legend {
                    li {
                        svg class="swatch" viewBox="0 0 28 8" aria-hidden="true" {
                            path class=(class) d="M0 4h28" {}
                        }
                        (name)
                    }
                }
            }
            (PreEscaped(svg))
            @if !note.is_empty() { p class="note" { (note) } }
        }
    }
}
