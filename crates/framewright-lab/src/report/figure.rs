//! The figures of experiments: one of them, their JSON Lines, and their tables.

use super::form::json;
use super::{Accent, FigureSource, Grid, GridRow, Heading, RunInfo};
use crate::measure::Metric;
use std::collections::BTreeSet;

/// One figure of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// The case: `full_fit`, `vm_map_ram/16`.
    pub case: String,
    /// `before`, `proposed` or `framewright`.
    pub variant: &'static str,
    /// What is measured.
    pub metric: Metric,
    /// The value, finite.
    pub value: f64,
    /// Where it comes from.
    pub source: FigureSource,
}

/// A table's column: the variant, whether the document's figures or ours, and the title.
pub type FigureColumn = (&'static str, bool, &'static str);

/// The columns of most experiments.
const COLUMNS: [FigureColumn; 5] = [
    ("before", true, "published\nbefore"),
    ("proposed", true, "published\nproposed"),
    ("before", false, "before"),
    ("proposed", false, "proposed"),
    ("framewright", false, "framewright"),
];

/// The run and its figures as JSON Lines, in the order given.
///
/// # Errors
/// What serialisation reports; values are finite numbers, so none is expected.
pub fn figure_lines(info: &RunInfo, figures: &[Figure]) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::new();
    json::line(&mut out, info)?;
    for figure in figures {
        let record = json::Record {
            experiment: info.experiment,
            case: &figure.case,
            variant: figure.variant,
            metric: figure.metric.name(),
            value: figure.metric.number(figure.value),
            unit: figure.metric.unit(),
            source: figure.source,
        };
        json::line(&mut out, &record)?;
    }
    Ok(out)
}

/// The figures as a table: a block of rows a case, a column a variant, the documents' beside ours.
/// Only metrics that `shows` says; rows without a figure are left out.
#[must_use]
pub fn figure_grid(figures: &[Figure], shows: impl Fn(Metric) -> bool) -> Grid {
    figure_grid_of(&COLUMNS, figures, shows)
}

/// The same with other columns.
#[must_use]
pub fn figure_grid_of(
    columns: &[FigureColumn],
    figures: &[Figure],
    shows: impl Fn(Metric) -> bool,
) -> Grid {
    let headings = columns
        .iter()
        .map(|&(variant, is_published, title)| Heading {
            title: title.to_owned(),
            accent: Accent::of(variant),
            is_published,
            is_base: false,
        });
    let cases = figure_cases(figures);
    let all = figures.iter().map(|figure| figure.metric);
    let metrics: BTreeSet<Metric> = all.filter(|&metric| shows(metric)).collect();
    let mut rows = Vec::new();
    for case in cases {
        let mut title = case;
        for &metric in &metrics {
            let of = |variant: &str, published: bool| {
                figures.iter().find(|figure| {
                    figure.case == case
                        && figure.metric == metric
                        && figure.variant == variant
                        && (figure.source == FigureSource::Published) == published
                })
            };
            let values = columns
                .iter()
                .map(|&(variant, published, _)| of(variant, published));
            let values: Vec<_> = values.collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            let shown = |figure: Option<&Figure>| {
                figure.map_or_else(|| "-".into(), |f| metric.shown(f.value))
            };
            rows.push(GridRow {
                labels: vec![title.to_owned(), metric.name()],
                unit: metric.unit().to_owned(),
                cells: values.into_iter().map(shown).collect(),
            });
            title = "";
        }
    }
    Grid {
        labels: 2,
        headings: headings.collect(),
        rows,
    }
}

/// A figure's value: the document's or ours.
#[must_use]
pub fn figure_value(
    figures: &[Figure],
    case: &str,
    variant: &str,
    metric: Metric,
    is_published: bool,
) -> Option<f64> {
    let found = figures.iter().find(|figure| {
        figure.case == case
            && figure.variant == variant
            && figure.metric == metric
            && (figure.source == FigureSource::Published) == is_published
    });
    found.map(|figure| figure.value)
}

/// The cases, in their order.
#[must_use]
pub fn figure_cases(figures: &[Figure]) -> Vec<&str> {
    cases_of(figures.iter())
}

/// The cases that were measured, in their order.
#[must_use]
pub fn measured_cases(figures: &[Figure]) -> Vec<&str> {
    cases_of(
        figures
            .iter()
            .filter(|f| f.source != FigureSource::Published),
    )
}

fn cases_of<'f>(figures: impl Iterator<Item = &'f Figure>) -> Vec<&'f str> {
    let mut cases: Vec<&str> = Vec::new();
    for figure in figures {
        if !cases.contains(&figure.case.as_str()) {
            cases.push(&figure.case);
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::replay::SAMPLES;

    fn figure(case: &str, variant: &'static str, value: f64, source: FigureSource) -> Figure {
        Figure {
            case: case.to_owned(),
            variant,
            metric: SAMPLES,
            value,
            source,
        }
    }

    #[test]
    fn a_documents_figures_stand_beside_ours() {
        let figures = [
            figure("exhaust", "before", 1000.0, FigureSource::Published),
            figure("exhaust", "proposed", 993.0, FigureSource::Published),
            figure("exhaust", "before", 1001.0, FigureSource::Simulated),
            figure("exhaust", "framewright", 17.0, FigureSource::Simulated),
        ];
        let text = figure_grid(&figures, |_| true).text();
        let row = text.lines().last().unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        let expected = [
            "exhaust", "samples", "1", "000", "993", "1", "001", "-", "17",
        ];
        assert_eq!(cells, expected);
        assert_eq!(figure_grid(&figures, |_| false).text().lines().count(), 3);
    }
}
