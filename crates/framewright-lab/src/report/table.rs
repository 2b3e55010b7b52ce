use super::{Accent, Calibration, Case, Column, Grid, Heading, LINUX, Row, number::shown};
use crate::measure::Metric;
use crate::replay::Policy;

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
pub fn case_grid(case: &Case) -> Grid {
    let mut headings: Vec<Heading> = case
        .columns
        .iter()
        .map(|column| Heading {
            title: broken_at_hyphens(&column.variant),
            accent: accent(&column.variant),
            is_published: false,
        })
        .collect();
    if case.calibration.is_some() {
        headings.push(Heading {
            title: "model\nerror".into(),
            accent: None,
            is_published: false,
        });
    }
    let base = base(case);
    let row = |metric: Metric| {
        let of = |column| figure(metric, column, base, case.calibration.as_ref());
        let mut cells: Vec<String> = case.columns.iter().map(of).collect();
        if let Some(calibration) = &case.calibration {
            let error = calibration.deviations.get(&metric);
            cells.push(error.map_or(String::new(), |d| shown(metric, d.error)));
        }
        Row {
            labels: vec![metric.name()],
            unit: metric.unit().to_owned(),
            cells,
        }
    };
    Grid {
        labels: 1,
        headings,
        rows: rows(case).into_iter().map(row).collect(),
    }
}

/// Which of the three columns of every experiment a policy is.
#[must_use]
pub fn accent(policy: &str) -> Option<Accent> {
    let alias = Policy::ALIASES.iter().find(|(_, name)| *name == policy);
    alias.and_then(|(alias, _)| Accent::of(alias))
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

/// `linux-6.12-nofragment` over three lines, so that eight columns fit a terminal.
fn broken_at_hyphens(name: &str) -> String {
    name.replace('-', "-\n")
}
