use super::{Calibration, Case, Column, LINUX, number::shown};
use crate::measure::Metric;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, TableComponent, presets};

/// What the table shows; JSON has everything.
fn rows(case: &Case) -> Vec<Metric> {
    let always = |metric: &Metric| {
        matches!(
            metric,
            Metric::FreeFrames
                | Metric::Free2mBlocks
                | Metric::UnusableIndex(3 | 9)
                | Metric::ContaminatedBlocks
                | Metric::ContaminatedBlocksFloor
                | Metric::MixedBlocks
                | Metric::MovableFramesInMixed
                | Metric::Failures(2..=4)
                | Metric::FalseFailures
                | Metric::ReplayNsPerOp
        )
    };
    // Shown only where something happened: a table of zeroes hides the rest.
    let where_not_zero = |metric: &Metric| {
        matches!(
            metric,
            Metric::Failures(_)
                | Metric::RetriesServed(_)
                | Metric::ProbesServed
                | Metric::Fallbacks(..)
                | Metric::UnplacedFrames
                | Metric::FreesOfFailed
                | Metric::Stall(_)
                | Metric::CompactStall(_)
                | Metric::Vmstat(_)
                | Metric::ReclaimedObjects
                | Metric::FreesOfReclaimed
                | Metric::HugeProbesServed
                | Metric::HugeProbesMigrated
                | Metric::HugeProbesScanned
        )
    };
    let occurs = |metric: &Metric| {
        case.columns
            .iter()
            .any(|column| column.values.get(metric).is_some_and(|&v| v != 0.0))
    };
    Metric::all()
        .into_iter()
        .filter(|metric| always(metric) || where_not_zero(metric) && occurs(metric))
        .collect()
}

/// The case as a table with a column a variant.
///
/// `~` behind a figure says that it differs from that of the first policy by no more than the
/// calibration error, which the last column holds.
#[must_use]
pub fn table(case: &Case) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_style(TableComponent::HeaderLines, '-');
    // Never wrapped: a figure cut in two cannot be read, and a pager can scroll.
    table.set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec![Cell::new("")];
    header.extend(
        case.columns
            .iter()
            .map(|c| right(broken_at_hyphens(&c.variant))),
    );
    if case.calibration.is_some() {
        header.push(right("model\nerror".into()));
    }
    table.set_header(header);
    let base = base(case);
    for metric in rows(case) {
        let mut row = vec![Cell::new(metric.name())];
        for column in &case.columns {
            row.push(right(figure(
                metric,
                column,
                base,
                case.calibration.as_ref(),
            )));
        }
        if let Some(calibration) = &case.calibration {
            let error = calibration.deviations.get(&metric);
            row.push(right(
                error.map_or(String::new(), |d| shown(metric, d.error)),
            ));
        }
        table.add_row(row);
    }
    table.to_string()
}

/// The column that the others are marked against: the first policy.
fn base(case: &Case) -> Option<&Column> {
    case.columns.iter().find(|column| column.variant != LINUX)
}

fn figure(
    metric: Metric,
    column: &Column,
    base: Option<&Column>,
    calibration: Option<&Calibration>,
) -> String {
    let Some(&value) = column.values.get(&metric) else {
        return "-".into();
    };
    // Retries and probes beside the number of tries.
    let tries = match metric {
        Metric::RetriesServed(order) => column.values.get(&Metric::Retried(order)),
        Metric::ProbesServed => column.values.get(&Metric::Probes),
        Metric::HugeProbesServed => column.values.get(&Metric::HugeProbes),
        _ => None,
    };
    if let Some(&tries) = tries {
        return format!("{} of {}", shown(metric, value), shown(metric, tries));
    }
    let within_error = || {
        let other = *base?.values.get(&metric)?;
        let apart = calibration?.tells_apart(metric, value, other)?;
        (other != value && column.variant != LINUX && !apart).then_some("~")
    };
    let mark = within_error().unwrap_or_default();
    format!("{}{mark}", shown(metric, value))
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// `linux-6.12-nofragment` over three lines, so that eight columns fit a terminal.
fn broken_at_hyphens(name: &str) -> String {
    name.replace('-', "-\n")
}
