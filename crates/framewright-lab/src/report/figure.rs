use super::number::grouped;
use super::{Accent, Grid, Heading, Row, RunInfo, Source, json};
#[cfg(target_os = "linux")]
use crate::measure::{GcmaMetric, PressureMetric};
use crate::measure::{KvMetric, RangeMetric};
use serde_json::Number;
use std::collections::BTreeSet;

/// What figures are of.
pub trait FigureMetric: Copy + Ord {
    /// The name in figures.
    fn name(self) -> String;

    /// The unit of its values.
    fn unit(self) -> &'static str;

    /// Whether its values are counts, without a fraction.
    fn is_count(self) -> bool;

    /// A value as a reader wants it.
    fn shown(self, value: f64) -> String;
}

impl FigureMetric for RangeMetric {
    fn name(self) -> String {
        self.name()
    }

    fn unit(self) -> &'static str {
        self.unit()
    }

    fn is_count(self) -> bool {
        self.is_count()
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::VaSpanBytes => format!("{} MiB", grouped((value / (1 << 20) as f64).round())),
            Self::MetadataShare => format!("{:.2} %", value * 100.0),
            Self::Occupancy | Self::OccupancyWorst => format!("{:.1} %", value * 100.0),
            Self::TimeVsBefore if value < 0.1 => format!("{value:.4}"),
            _ => plain(self, value),
        }
    }
}

impl FigureMetric for KvMetric {
    fn name(self) -> String {
        self.name()
    }

    fn unit(self) -> &'static str {
        self.unit()
    }

    fn is_count(self) -> bool {
        self.is_count()
    }

    fn shown(self, value: f64) -> String {
        match self {
            share if share.is_share() => format!("{:.2} %", value * 100.0),
            Self::LockPerCall(_) | Self::KvmallocCpuVsBefore | Self::KvmallocVsCopy => {
                format!("{value:.3}")
            }
            _ => plain(self, value),
        }
    }
}

#[cfg(target_os = "linux")]
impl FigureMetric for PressureMetric {
    fn name(self) -> String {
        self.name()
    }

    fn unit(self) -> &'static str {
        self.unit()
    }

    fn is_count(self) -> bool {
        true
    }

    fn shown(self, value: f64) -> String {
        grouped(value)
    }
}

#[cfg(target_os = "linux")]
impl FigureMetric for GcmaMetric {
    fn name(self) -> String {
        self.name()
    }

    fn unit(self) -> &'static str {
        self.unit()
    }

    fn is_count(self) -> bool {
        self.is_count()
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::LatencyUs(_) | Self::WaitUs if value < 10.0 => format!("{value:.2}"),
            Self::UserS | Self::SystemS | Self::ElapsedS => format!("{value:.3}"),
            Self::ElapsedVsOriginal => format!("{value:.3}"),
            Self::DeviceBytesWritten => {
                format!("{} MiB", grouped((value / (1 << 20) as f64).round()))
            }
            Self::HitRatio => format!("{:.1} %", value * 100.0),
            _ => plain(self, value),
        }
    }
}

/// A ratio with two digits, a small time with one, all else whole.
fn plain(metric: impl FigureMetric, value: f64) -> String {
    match metric.unit() {
        "1" => format!("{value:.2}"),
        _ if !metric.is_count() && value < 1000.0 => format!("{value:.1}"),
        _ => grouped(value.round()),
    }
}

/// One figure of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure<M = RangeMetric> {
    /// The case: `full_fit`, `vm_map_ram/16`.
    pub case: String,
    /// `before`, `proposed` or `framewright`.
    pub variant: &'static str,
    /// What is measured.
    pub metric: M,
    /// The value, finite.
    pub value: f64,
    /// Where it comes from.
    pub source: Source,
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
pub fn figure_lines<M: FigureMetric>(
    info: &RunInfo,
    figures: &[Figure<M>],
) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::new();
    json::line(&mut out, info)?;
    for figure in figures {
        let value = if figure.metric.is_count() {
            Number::from(figure.value as u64)
        } else {
            Number::from_f64(figure.value).unwrap_or_else(|| 0.into())
        };
        let record = json::Record {
            experiment: info.experiment,
            case: &figure.case,
            variant: figure.variant,
            metric: figure.metric.name(),
            value,
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
pub fn figure_grid<M: FigureMetric>(figures: &[Figure<M>], shows: impl Fn(M) -> bool) -> Grid {
    figure_grid_of(&COLUMNS, figures, shows)
}

/// The same with other columns.
#[must_use]
pub fn figure_grid_of<M: FigureMetric>(
    columns: &[FigureColumn],
    figures: &[Figure<M>],
    shows: impl Fn(M) -> bool,
) -> Grid {
    let headings = columns
        .iter()
        .map(|&(variant, is_published, title)| Heading {
            title: title.to_owned(),
            accent: Accent::of(variant),
            is_published,
        });
    let mut cases: Vec<&str> = Vec::new();
    for figure in figures {
        if !cases.contains(&figure.case.as_str()) {
            cases.push(&figure.case);
        }
    }
    let all = figures.iter().map(|figure| figure.metric);
    let metrics: BTreeSet<M> = all.filter(|&metric| shows(metric)).collect();
    let mut rows = Vec::new();
    for case in cases {
        let mut title = case;
        for &metric in &metrics {
            let of = |variant: &str, published: bool| {
                figures.iter().find(|figure| {
                    figure.case == case
                        && figure.metric == metric
                        && figure.variant == variant
                        && (figure.source == Source::Published) == published
                })
            };
            let values = columns
                .iter()
                .map(|&(variant, published, _)| of(variant, published));
            let values: Vec<_> = values.collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            let shown = |figure: Option<&Figure<M>>| {
                figure.map_or_else(|| "-".into(), |f| metric.shown(f.value))
            };
            rows.push(Row {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(case: &str, variant: &'static str, value: f64, source: Source) -> Figure {
        Figure {
            case: case.to_owned(),
            variant,
            metric: RangeMetric::AreaAllocs,
            value,
            source,
        }
    }

    #[test]
    fn a_documents_figures_stand_beside_ours() {
        let figures = [
            figure("exhaust", "before", 1000.0, Source::Published),
            figure("exhaust", "proposed", 993.0, Source::Published),
            figure("exhaust", "before", 1001.0, Source::Simulated),
            figure("exhaust", "framewright", 17.0, Source::Simulated),
        ];
        let text = figure_grid(&figures, |_| true).text();
        let row = text.lines().last().unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        let expected = [
            "exhaust",
            "area_allocs",
            "1",
            "000",
            "993",
            "1",
            "001",
            "-",
            "17",
        ];
        assert_eq!(cells, expected);
        assert_eq!(figure_grid(&figures, |_| false).text().lines().count(), 3);
    }

    #[test]
    fn times_shares_and_counts_are_shown_as_a_reader_wants_them() {
        assert_eq!(RangeMetric::OpNsMin.shown(34.26), "34.3");
        assert_eq!(RangeMetric::OpNsMin.shown(55_866.3), "55 866");
        assert_eq!(RangeMetric::TimeVsBefore.shown(0.0123), "0.0123");
        assert_eq!(RangeMetric::TimeVsBefore.shown(0.94), "0.94");
        assert_eq!(RangeMetric::Occupancy.shown(0.9751), "97.5 %");
        assert_eq!(RangeMetric::MetadataShare.shown(0.0041), "0.41 %");
        assert_eq!(RangeMetric::VaSpanBytes.shown(4_194_304.0), "4 MiB");
    }
}
