//! What must hold of every page: it is well formed, loads nothing, escapes every name, and can be read in both
//! colour schemes.

use super::*;
use crate::measure::{Film, MapCell, Picture, Sample};
use crate::report::{
    CardFigure, Distribution, GridRow, Hollow, Latency, MachineRecord, OverTime, PlotLine, Scale,
    VerdictCard,
};
use framewright_sim::Random;
use scraper::{ElementRef, Html, Selector};
use std::collections::{BTreeMap, BTreeSet};

/// Names that would break a page that does not escape them.
const NASTY: &str = "</script><b a=\"1\">&amp;'</b>";

fn all<'a>(page: &'a Html, selector: &str) -> Vec<ElementRef<'a>> {
    let selector = Selector::parse(selector).unwrap();
    page.select(&selector).collect()
}

fn text(element: ElementRef<'_>) -> String {
    element.text().collect::<String>().trim().to_owned()
}

#[test]
fn what_is_not_well_formed_is_seen() {
    for bad in [
        "<!DOCTYPE html><p></b>",
        "<!DOCTYPE html><svg><path></svg>",
        "<p>no type</p>",
    ] {
        assert!(!Html::parse_document(bad).errors.is_empty(), "{bad}");
    }
}

/// What must hold of every page.
pub(crate) fn check(page: &str) -> Html {
    let parsed = Html::parse_document(page);
    assert_eq!(parsed.errors, Vec::<String>::new(), "not well formed");
    nothing_is_loaded(page, &parsed);
    everything_has_a_name(&parsed);
    assert_eq!(all(&parsed, "html[lang]").len(), 1);
    assert_eq!(all(&parsed, "h1").len(), 1);
    assert_eq!(all(&parsed, "main").len(), 1);
    // Without a script every map has its pictures, and its control is not there.
    for map in all(&parsed, "figure.map") {
        let select = |selector: &str| map.select(&Selector::parse(selector).unwrap()).count();
        assert!(
            select(".printed:not([hidden]) svg path") > 0,
            "no printed picture"
        );
        assert_eq!(select(".scrub[hidden]"), 1);
        assert_eq!(select("label input[type=range]"), 1);
    }
    parsed
}

fn nothing_is_loaded(page: &str, parsed: &Html) {
    for word in [
        "http:",
        "https:",
        "url(",
        "@import",
        "srcset",
        "<link",
        "<iframe",
        "javascript:",
    ] {
        // A pattern of the page itself is not loaded.
        let page = page.replace("url(#", "");
        assert!(!page.contains(word), "the page has {word}");
    }
    for element in all(parsed, "*") {
        for (name, value) in element.value().attrs() {
            assert!(
                !matches!(name, "src" | "data" | "action" | "poster"),
                "{name}={value}"
            );
            assert!(!name.starts_with("on"), "{name}={value}");
            if name.ends_with("href") {
                assert!(value.starts_with('#'), "{name}={value}");
            }
        }
    }
}

fn everything_has_a_name(parsed: &Html) {
    let mut ids = BTreeSet::new();
    for element in all(parsed, "[id]") {
        let id = element.attr("id").unwrap().to_owned();
        assert!(ids.insert(id.clone()), "twice: {id}");
    }
    for element in all(parsed, "[aria-labelledby]") {
        for id in element.attr("aria-labelledby").unwrap().split(' ') {
            assert!(ids.contains(id), "there is no {id}");
        }
    }
    for link in all(parsed, "a") {
        let id = link.attr("href").unwrap().trim_start_matches('#');
        assert!(ids.contains(id), "there is no {id}");
    }
    for table in all(parsed, "table") {
        let caption = Selector::parse("caption").unwrap();
        assert!(!text(table.select(&caption).next().expect("no caption")).is_empty());
    }
    for heading in all(parsed, "th") {
        assert!(heading.attr("scope").is_some(), "{}", heading.html());
    }
    for picture in all(parsed, "svg") {
        let is_hidden = picture.attr("aria-hidden") == Some("true");
        let label = picture
            .attr("aria-label")
            .or(picture.attr("aria-labelledby"));
        assert!(is_hidden || picture.attr("role") == Some("img") && label.is_some());
    }
    for figure in all(parsed, "figure") {
        let caption = Selector::parse("figcaption").unwrap();
        assert!(!text(figure.select(&caption).next().expect("no caption")).is_empty());
    }
}

/// Each row of the grid stands in one row of a table of the page, its figures in their order.
pub(crate) fn has_rows(parsed: &Html, grid: &Grid) {
    let cells = Selector::parse("td").unwrap();
    let names = Selector::parse("th[scope=row]").unwrap();
    let rows: Vec<(String, Vec<String>)> = all(parsed, "tr")
        .into_iter()
        .filter_map(|row| {
            let name = text(row.select(&names).next()?);
            Some((name, row.select(&cells).map(text).collect()))
        })
        .collect();
    for GridRow { labels, cells, .. } in &grid.rows {
        let name = labels.last().unwrap();
        let is_it =
            |row: &&(String, Vec<String>)| row.0.starts_with(name.as_str()) && row.1 == *cells;
        assert!(
            rows.iter().any(|row| is_it(&row)),
            "no row {name} {cells:?}"
        );
    }
}

fn grid() -> Grid {
    let heading = |title: &str, accent, is_published| Heading {
        title: title.into(),
        accent,
        is_published,
        is_base: false,
    };
    let row = |case: &str, name: &str, cells: [&str; 3]| GridRow {
        labels: vec![case.into(), name.into()],
        unit: "ns".into(),
        cells: cells.map(String::from).to_vec(),
    };
    Grid {
        labels: 2,
        headings: vec![
            heading("published\nbefore", Some(Accent::Before), true),
            heading("before", Some(Accent::Before), false),
            heading("linux", Some(Accent::Machine), false),
        ],
        rows: vec![
            row("a", "x", ["1", "-", "3"]),
            row("", "y", ["4", "5 000", "6~"]),
            row(NASTY, NASTY, [NASTY, "<", "&"]),
        ],
    }
}

fn film(states: impl Fn(u64) -> Vec<usize>, pictures: u64) -> Film {
    let picture = |ms| Picture {
        sample: Sample {
            ms,
            ..Sample::default()
        },
        cells: states(ms).into_iter().map(|n| MapCell::ALL[n]).collect(),
    };
    Film {
        blocks_per_cell: 1,
        pictures: (0..pictures).map(picture).collect(),
    }
}

fn page(films: Vec<(String, Film)>) -> HtmlPage {
    let line = |name: &str, accent| PlotLine {
        name: name.into(),
        accent,
        is_published: name == "proposed",
        points: vec![(0.0, 1.0), (2.0, 300.0), (3.0, 2.0)],
        mark: None,
    };
    let of = |variant| Distribution {
        case: "c".into(),
        variant,
        call: "alloc",
        shares: vec![(0.0, 5.0), (0.5, 10.0), (0.99, 2000.0)],
    };
    let nothing = |title: &str| OverTime {
        title: title.into(),
        across: "s",
        scale: Scale::Linear,
        value: "MiB",
        lines: Vec::new(),
        note: String::new(),
    };
    let section = Section {
        id: "one".into(),
        title: format!("A question {NASTY}"),
        introduction: "Two\nlines.\n\nAnother paragraph.".into(),
        items: vec![
            Item::Table(Tabled {
                caption: format!("A table {NASTY}"),
                grid: grid(),
                notes: vec![
                    Note::Text("a note".into()),
                    Note::Listing("  x  <y>\n  z".into()),
                ],
            }),
            Item::OverTime(OverTime {
                lines: vec![line(NASTY, None), line("before", Some(Accent::Before))],
                ..nothing(NASTY)
            }),
            Item::OverTime(nothing("nothing")),
            Item::OverTime(OverTime {
                scale: Scale::Logarithmic,
                lines: vec![line("proposed", Some(Accent::Proposed))],
                ..nothing("powers of ten")
            }),
            Item::OverTime(OverTime {
                scale: Scale::Logarithmic,
                ..nothing("no powers")
            }),
            Item::Latency(Latency {
                title: NASTY.into(),
                of: vec![of("before"), of("framewright")],
                note: NASTY.into(),
            }),
            Item::Latency(Latency {
                title: "none".into(),
                of: Vec::new(),
                note: String::new(),
            }),
            Item::Map(BlockMaps {
                title: NASTY.into(),
                films,
            }),
            Item::Text("The end.".into()),
        ],
        method: "By hand.",
        summary: vec![NASTY.into(), "Another verdict.".into()],
        cards: vec![
            VerdictCard {
                verdict: NASTY.into(),
                figure: CardFigure::new(NASTY, NASTY),
                plot: Some(Item::OverTime(OverTime {
                    lines: vec![line("linux", Some(Accent::Machine))],
                    ..nothing(NASTY)
                })),
            },
            VerdictCard {
                verdict: "Another verdict.".into(),
                figure: CardFigure::new("1", "of 2"),
                plot: None,
            },
        ],
    };
    HtmlPage {
        title: NASTY.into(),
        lead: NASTY.into(),
        info: RunInfo {
            experiment: "test",
            version: "0",
            commit: "none",
            seed: 0,
            options: BTreeMap::from([("jobs", "2".into())]),
            machine: MachineRecord {
                arch: "none",
                os: NASTY.into(),
                cpu: "none".into(),
                cpus: 2,
                memory_kib: 1 << 21,
            },
            hollow: vec![Hollow {
                case: NASTY.into(),
                kind: "no_events",
                says: NASTY.into(),
            }],
        },
        sections: vec![section],
    }
}

fn films() -> Vec<(String, Film)> {
    let states = |ms: u64| (0..200).map(|n| 1 + (n * (ms as usize + 3)) % 7).collect();
    vec![
        (NASTY.to_owned(), film(states, 5)),
        ("b".into(), film(states, 5)),
    ]
}

#[test]
fn a_page_is_well_formed_and_loads_nothing() {
    let page = page(films());
    let text = page.render().unwrap();
    let parsed = check(&text);
    has_rows(&parsed, &grid());
    assert_eq!(super::tests::text(all(&parsed, "h1")[0]), NASTY);
    assert_eq!(
        text,
        page.render().unwrap(),
        "the same rows, the same bytes"
    );
    // What is hollow comes before every figure and every link to one.
    let hollow = all(&parsed, "header + main > section:first-child.hollow li");
    assert_eq!(super::tests::text(hollow[0]), format!("{NASTY}: {NASTY}"));
    // Three moments of each film.
    assert_eq!(all(&parsed, ".printed figure").len(), 6);
    let data = all(&parsed, "figure.map script")[0];
    let data: serde_json::Value = serde_json::from_str(&super::tests::text(data)).unwrap();
    assert_eq!(data[0]["name"], NASTY);
    assert_eq!(data[0]["ms"].as_array().unwrap().len(), 5);
}

#[test]
fn cases_of_several_rows_are_named_once() {
    let parsed = check(&page(films()).render().unwrap());
    let groups = all(&parsed, "th[scope=rowgroup]");
    let told: Vec<(String, Option<&str>)> = groups
        .iter()
        .map(|group| (text(*group), group.attr("colspan")))
        .collect();
    // Over all columns, so that one column names the rows.
    assert_eq!(told, [("a".into(), Some("4")), (NASTY.into(), Some("4"))]);
    assert_eq!(all(&parsed, "tr > th[scope=row]:first-child").len(), 3);
    assert_eq!(
        all(&parsed, "thead th.machine").len(),
        1,
        "the reader's own kernel"
    );
    let titles: Vec<String> = all(&parsed, "thead th[class]")
        .into_iter()
        .map(text)
        .collect();
    assert_eq!(titles, ["published before", "before", "linux"]);
}

#[test]
fn a_film_of_one_moment_or_none_is_a_picture_or_nothing() {
    let one = film(|_| vec![1; 70], 1);
    let parsed = check(&page(vec![("a".into(), one)]).render().unwrap());
    assert_eq!(all(&parsed, ".printed figure").len(), 1);
    let none = page(vec![("a".into(), film(|_| Vec::new(), 0))])
        .render()
        .unwrap();
    assert!(Html::parse_document(&none).errors.is_empty());
}

#[test]
fn a_page_of_many_films_in_which_everything_changes_is_bounded() {
    let noise = |ms: u64| {
        let mut random = Random::new(ms);
        (0..4096).map(|_| 1 + random.index(7)).collect()
    };
    for films in [1, 8, 24] {
        let films = (0..films)
            .map(|n| (format!("p{n}"), film(noise, 120)))
            .collect();
        let text = page(films).render().unwrap();
        check(&text);
        assert!(text.len() < 2 << 20, "{} bytes", text.len());
    }
}

/// The relative luminance of `#rgb` or `#rrggbb` (WCAG 2).
fn luminance(colour: &str) -> f64 {
    let digits: Vec<f64> = colour
        .trim_start_matches('#')
        .chars()
        .map(|c| f64::from(c.to_digit(16).unwrap()))
        .collect();
    let channel = |n: usize| {
        let value = match digits.len() {
            3 => digits[n] * 17.0,
            _ => digits[2 * n] * 16.0 + digits[2 * n + 1],
        } / 255.0;
        if value <= 0.03928 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * channel(0) + 0.7152 * channel(1) + 0.0722 * channel(2)
}

/// The style's colours in one scheme.
struct Scheme(&'static str);

impl Scheme {
    fn both() -> [Self; 2] {
        let mut schemes = STYLE.split(":root").skip(1);
        let [light, dark] = [(); 2].map(|()| schemes.next().unwrap());
        assert!(light.contains("prefers-color-scheme: dark"));
        [Self(light), Self(dark)]
    }

    fn luminance(&self, name: &str) -> f64 {
        let at = self.0.find(&format!("--{name}: ")).unwrap() + name.len() + 4;
        luminance(&self.0[at..at + self.0[at..].find(';').unwrap()])
    }

    fn contrast(&self, a: &str, b: &str) -> f64 {
        let (a, b) = (self.luminance(a), self.luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }
}

#[test]
fn text_and_lines_stand_out_in_both_schemes() {
    for scheme in Scheme::both() {
        let stands = |what: &str, ground: &str, least: f64| {
            let contrast = scheme.contrast(what, ground);
            assert!(contrast >= least, "{what} on {ground}: {contrast}");
        };
        for paper in ["paper", "band"] {
            for ink in ["ink", "soft", "link"] {
                stands(ink, paper, 4.5);
            }
        }
        // Headings of a table have this colour.
        stands("machine", "paper", 4.5);
        for line in ["before", "proposed", "framewright", "other"] {
            stands(line, "paper", 3.0);
        }
    }
}

/// By three to one in their grounds, or by another pattern that is three to one against its own ground.
#[test]
fn every_two_states_of_the_map_are_told_apart_in_both_schemes() {
    let states = 0..MapCell::ALL.len();
    for scheme in Scheme::both() {
        let is_marked = |n: usize| {
            !map::MARKS[n].is_empty() && scheme.contrast(&format!("m{n}"), &format!("c{n}")) >= 3.0
        };
        let mut pairs = 0;
        for (a, b) in states.clone().flat_map(|a| (0..a).map(move |b| (a, b))) {
            let apart = scheme.contrast(&format!("c{a}"), &format!("c{b}"));
            let by_pattern = map::MARKS[a] != map::MARKS[b] && (is_marked(a) || is_marked(b));
            assert!(apart >= 3.0 || by_pattern, "{a} and {b}: {apart}");
            pairs += 1;
        }
        assert_eq!(pairs, 28);
        // Where there is no memory there is paper: what stands out from one stands out from the other.
        assert_eq!(scheme.luminance("c0"), scheme.luminance("paper"));
    }
    // Kinds differ by pattern, or one of them by ground alone.
    let page = check(&page(films()).render().unwrap());
    let patterns = all(&page, "pattern");
    assert_eq!(patterns.len(), MapCell::ALL.len());
    for (n, pattern) in patterns.into_iter().enumerate() {
        assert_eq!(pattern.attr("id"), Some(&*format!("cell-{n}")));
        assert!(STYLE.contains(&format!("path.c{n} {{ stroke: url(#cell-{n}); }}")));
        assert!(STYLE.contains(&format!("rect.c{n} {{ fill: url(#cell-{n}); }}")));
        let mark = Selector::parse("path").unwrap();
        let drawn = pattern.select(&mark).next().and_then(|mark| mark.attr("d"));
        assert_eq!(drawn.unwrap_or_default(), map::MARKS[n]);
    }
}

#[test]
fn verdicts_are_cards_before_every_table() {
    let mut page = page(films());
    let text = page.render().unwrap();
    let first = |what: &str| text.find(what).unwrap();
    assert!(first("class=\"card\"") < first("<table"));
    let parsed = check(&text);
    let told: Vec<String> = all(&parsed, ".card .headline")
        .into_iter()
        .map(super::tests::text)
        .collect();
    assert_eq!(told, [format!("{NASTY} {NASTY}"), "1 of 2".to_owned()]);
    assert_eq!(all(&parsed, ".card figure.plot svg[role=img]").len(), 1);
    // Cards have all that came out, and are all of one section.
    assert_eq!(all(&parsed, "dl.summary, .card h3").len(), 0);
    // A sentence without a card stands below; many of them can be folded.
    page.sections[0].summary.push("A third one.".into());
    let parsed = check(&page.render().unwrap());
    let below = |parsed: &Html, selector: &str| -> Vec<String> {
        all(parsed, selector)
            .into_iter()
            .map(super::tests::text)
            .collect()
    };
    assert_eq!(below(&parsed, "section > dl.summary dd"), ["A third one."]);
    page.sections[0]
        .summary
        .extend((4..10).map(|n| format!("Sentence {n}.")));
    let parsed = check(&page.render().unwrap());
    assert_eq!(
        below(&parsed, "section > details[open] > dl.summary dd").len(),
        7
    );
    assert!(below(&parsed, "details > summary")[0].starts_with("7 more sentences"));
    // Where there are no cards, there is nothing that they are more than.
    let cards = std::mem::take(&mut page.sections[0].cards);
    let parsed = check(&page.render().unwrap());
    assert_eq!(below(&parsed, "section > dl.summary dd").len(), 9);
    page.sections[0].cards = cards;
    // Of several sections each card names its own.
    let mut second = page.sections[0].clone();
    second.id = "two".into();
    page.sections.push(second);
    let parsed = check(&page.render().unwrap());
    assert_eq!(all(&parsed, ".card h3 a").len(), 4);
}
