//! The map of the pageblocks: a few moments as pictures, and all of them as data for the script.

use crate::measure::{Film, MapCell, Picture};
use crate::report::BlockMaps;
use maud::{Markup, PreEscaped, html};
use serde::Serialize;
use std::fmt::Write;

/// Cells in a row of a picture.
const COLUMNS: usize = 64;

/// What is drawn on the ground of each state, in a square of one by one. The shape says what a cell holds, the ground how
/// full it is: eight plain colours cannot all stand out from one another.
pub(super) const MARKS: [&str; MapCell::ALL.len()] = ["", FRAME, "", "", BAR, BAR, DOT, DOT];
const FRAME: &str = "M0 0h.9v.9h-.9zM.2 .2v.5h.5v-.5z";
const BAR: &str = "M0 .9V.7L.7 0H.9V.2L.2 .9z";
const DOT: &str = "M.25 .25h.4v.4h-.4z";

/// Bytes of all films' data on a page, and of their printed pictures.
const FILMS_BYTES_MAX: usize = 700 << 10;
const PRINTED_BYTES_MAX: usize = 500 << 10;

/// Moments that are printed, where there is room.
const MOMENTS: usize = 3;

/// What a film may take of the page.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilmBudget {
    film_bytes: usize,
    printed_bytes: usize,
}

impl FilmBudget {
    /// Of each of this many films.
    pub(super) fn of(films: usize) -> Self {
        Self {
            film_bytes: FILMS_BYTES_MAX / films.max(1),
            printed_bytes: PRINTED_BYTES_MAX / films.max(1),
        }
    }
}

/// A film as the script reads it.
#[derive(Serialize)]
struct FilmData<'a> {
    name: &'a str,
    ms: Vec<u64>,
    /// Free MiB of each moment.
    free: Vec<u64>,
    /// The cells of the first moment, then of each one what changed: a letter for a state or a point
    /// for what stayed, behind it how many there are of it if there are several.
    cells: Vec<String>,
}

/// How each state is drawn, in pictures and in the legend alike: a square with a gap beside and below it.
pub(super) fn patterns() -> Markup {
    html! {
        svg class="patterns" width="0" height="0" aria-hidden="true" {
            @for (index, mark) in MARKS.into_iter().enumerate() {
                pattern id={ "cell-" (index) } width="1" height="1" patternUnits="userSpaceOnUse" {
                    rect width=".9" height=".9" style={ "fill:var(--c" (index) ")" } {}
                    @if !mark.is_empty() { path d=(mark) style={ "fill:var(--m" (index) ")" } {} }
                }
            }
        }
    }
}

/// A map with its pictures, its data and its control.
pub(super) fn figure(id: &str, map: &BlockMaps, budget: FilmBudget) -> Markup {
    let films = &map.films;
    let data: Vec<FilmData<'_>> = films
        .iter()
        .map(|(name, film)| data(name, film, budget.film_bytes))
        .collect();
    // A closing tag within the data would end the script.
    let json = serde_json::to_string(&data)
        .unwrap_or_default()
        .replace('<', "\\u003c");
    let blocks = films.first().map_or(1, |(_, film)| film.blocks_per_cell);
    let moments = moments(films, budget);
    html! {
        figure class="map" id=(id) {
            figcaption { (map.title) }
            ul class="legend" {
                @for (index, cell) in MapCell::ALL.into_iter().enumerate() {
                    li {
                        svg class="swatch cell" viewBox="0 0 .9 .9" aria-hidden="true" {
                            rect class={ "c" (index) } width="1" height="1" {}
                        }
                        (cell)
                    }
                }
            }
            p class="note" {
                "A square is " (mib(blocks)) " MiB of memory, a row " (mib(blocks * COLUMNS as u64))
                " MiB, addresses ascending from the left and downwards. Mixed: frames that can be moved \
                 beside frames that cannot, so that nothing makes a huge page or a large buffer of it \
                 but luck. The pattern says what a square holds, its ground whether a frame of it is free. "
                @if blocks > 1 { "A square of several blocks shows the one that costs most to empty. " }
            }
            div class="printed" {
                @for moment in 0..moments {
                    div class="row" {
                        @for (name, film) in films {
                            @let pictures = film.thinned(moments.max(2));
                            @let picture = if moments == 1 { pictures.last() } else { pictures.get(moment) };
                            @if let Some(picture) = picture { (printed(name, picture)) }
                        }
                    }
                }
            }
            div class="scrub" hidden {
                label {
                    "Time in the trace "
                    input type="range" min="0" max="0" value="0" step="1";
                }
                button type="button" { "Play" }
                output { "" }
            }
            div class="row live" hidden {}
            script type="application/json" { (PreEscaped(json)) }
        }
    }
}

const fn mib(blocks: u64) -> u64 {
    blocks * 2
}

/// How many moments there is room to print.
fn moments(films: &[(String, Film)], budget: FilmBudget) -> usize {
    let bytes = |most: usize| {
        let of = |film: &Film| -> usize { film.thinned(most).iter().map(|p| paths(p).len()).sum() };
        films.iter().map(|(_, film)| of(film)).max().unwrap_or(0)
    };
    let most = films
        .iter()
        .map(|(_, film)| film.pictures.len())
        .max()
        .unwrap_or(0);
    if most < 2 {
        return most;
    }
    let fits = |&moments: &usize| bytes(moments) <= budget.printed_bytes;
    (2..=MOMENTS.min(most)).rev().find(fits).unwrap_or(1)
}

/// A moment as a picture of its own.
fn printed(name: &str, picture: &Picture) -> Markup {
    let rows = picture.cells.len().div_ceil(COLUMNS);
    let said = said(name, picture);
    html! {
        figure {
            svg viewBox=(format!("0 0 {COLUMNS} {rows}")) role="img" aria-label=(said) {
                (PreEscaped(paths(picture)))
            }
            figcaption { (said) }
        }
    }
}

/// A moment in words.
fn said(name: &str, picture: &Picture) -> String {
    let sample = &picture.sample;
    format!(
        "{name}, {:.2} s: {} MiB free, {} blocks contaminated, {} of them mixed",
        sample.ms as f64 / 1000.0,
        sample.free_frames() / 256,
        sample.contaminated_blocks,
        sample.mixed_blocks,
    )
}

/// A path for each state, of runs of cells within a row.
fn paths(picture: &Picture) -> String {
    let mut by_state = vec![String::new(); MapCell::ALL.len()];
    for (row, cells) in picture.cells.chunks(COLUMNS).enumerate() {
        let mut column = 0;
        for run in cells.chunk_by(PartialEq::eq) {
            let _ = write!(by_state[run[0].index()], "M{column} {row}.5h{}", run.len());
            column += run.len();
        }
    }
    let mut text = String::new();
    for (index, path) in by_state
        .iter()
        .enumerate()
        .filter(|(_, path)| !path.is_empty())
    {
        let _ = write!(text, "<path class=\"c{index}\" d=\"{path}\"></path>");
    }
    text
}

/// The film in at most this many bytes: pictures between the first and the last are left out until it
/// fits; two are always kept.
fn data<'a>(name: &'a str, film: &Film, bytes_max: usize) -> FilmData<'a> {
    let mut most = film.pictures.len();
    loop {
        let pictures = film.thinned(most);
        let cells = encoded(&pictures);
        if most <= 2 || cells.iter().map(String::len).sum::<usize>() <= bytes_max {
            return FilmData {
                name,
                ms: pictures.iter().map(|p| p.sample.ms).collect(),
                free: pictures
                    .iter()
                    .map(|p| p.sample.free_frames() / 256)
                    .collect(),
                cells,
            };
        }
        most /= 2;
    }
}

fn encoded(pictures: &[&Picture]) -> Vec<String> {
    const LETTERS: [char; MapCell::ALL.len()] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    let mut before: &[MapCell] = &[];
    let mut all = Vec::new();
    for picture in pictures {
        let letters: Vec<char> = picture
            .cells
            .iter()
            .enumerate()
            .map(|(nth, cell)| {
                if before.get(nth) == Some(cell) {
                    '.'
                } else {
                    LETTERS[cell.index()]
                }
            })
            .collect();
        let mut text = String::new();
        for run in letters.chunk_by(PartialEq::eq) {
            text.push(run[0]);
            if run.len() > 1 {
                let _ = write!(text, "{}", run.len());
            }
        }
        all.push(text);
        before = &picture.cells;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Sample;

    fn picture(ms: u64, states: &[usize]) -> Picture {
        Picture {
            sample: Sample {
                ms,
                ..Sample::default()
            },
            cells: states.iter().map(|&n| MapCell::ALL[n]).collect(),
        }
    }

    fn film(pictures: Vec<Picture>) -> Film {
        Film {
            blocks_per_cell: 1,
            pictures,
        }
    }

    #[test]
    fn a_film_is_its_first_moment_and_what_changed() {
        let film = film(vec![
            picture(0, &[1, 1, 1, 2]),
            picture(5, &[1, 1, 6, 2]),
            picture(9, &[1, 1, 6, 2]),
        ]);
        let data = data("a", &film, 1000);
        assert_eq!(data.cells, ["b3c", ".2g.", ".4"]);
        assert_eq!(data.ms, [0, 5, 9]);
    }

    #[test]
    fn what_is_too_large_loses_moments_and_keeps_its_ends() {
        let states = |odd: usize| -> Vec<usize> { (0..4096).map(|n| 1 + (n + odd) % 7).collect() };
        let film = film(
            (0..120)
                .map(|ms| picture(ms, &states(ms as usize)))
                .collect(),
        );
        let data = data("a", &film, 64 << 10);
        let bytes: usize = data.cells.iter().map(String::len).sum();
        assert!(bytes <= 64 << 10, "{bytes}");
        assert_eq!((data.ms[0], data.ms.last()), (0, Some(&119)));
        assert!(data.ms.len() > 10, "{} moments", data.ms.len());
        assert_eq!(super::data("a", &film, 0).ms, [0, 119]);
    }

    /// On a phone of 360 pixels, where a row of cells has 328.
    #[test]
    fn every_mark_is_at_least_a_pixel_wide() {
        let numbers = |path: &str| -> Vec<f64> {
            let words = path.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
            words.filter_map(|word| word.parse().ok()).collect()
        };
        let (frame, bar, dot) = (numbers(FRAME), numbers(BAR), numbers(DOT));
        // A side of the frame, and of what it leaves; the bar between x + y = .7 and 1.1; the dot.
        let widths = [
            frame[5],
            frame[7],
            (bar[5] + bar[6] - bar[2]) / 2f64.sqrt(),
            dot[2],
        ];
        for width in widths {
            assert!(width * 328.0 / COLUMNS as f64 >= 1.0, "{width}");
        }
    }

    #[test]
    fn a_path_names_each_cell_once() {
        let states: Vec<usize> = (0..130).map(|n| n / 30).collect();
        let paths = paths(&picture(0, &states));
        let lengths: usize = paths
            .split('h')
            .skip(1)
            .map(|rest| {
                let end = rest
                    .find(|c: char| !c.is_ascii_digit())
                    .unwrap_or(rest.len());
                rest[..end].parse::<usize>().unwrap_or(0)
            })
            .sum();
        assert_eq!(lengths, 130);
    }
}
