//! The table of a replay as text: which metrics it shows. An experiment's `report.rs` says that for its own.

use crate::measure::replay as m;
use crate::measure::{MAX_ORDER, Metric};
use crate::replay::ReplayPolicy;
use crate::report::{
    Accent, Calibration, Grid, GridRow, Heading, LINUX, ReportCase, ReportColumn, shown_variant,
};

/// When the table shows a metric; JSON has everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ShownMetrics {
    Always,
    /// Where something happened: a table of zeroes hides the rest.
    NotZero,
    /// For each order of which some request failed, also where that is 0.
    WithFailures,
}
use ShownMetrics::{Always, NotZero, WithFailures};

/// What the table shows, in this order.
const ROWS: &[(Metric, ShownMetrics)] = &[
    (m::FREE_FRAMES, Always),
    (m::FREE_2M_BLOCKS, Always),
    (m::UNUSABLE_INDEX.of(3), Always),
    (m::UNUSABLE_INDEX.of(9), Always),
    (m::CONTAMINATED_BLOCKS, Always),
    (m::CONTAMINATED_BLOCKS_FLOOR, Always),
    (m::MIXED_BLOCKS, Always),
    (m::MOVABLE_FRAMES_IN_MIXED, Always),
    (m::FAILURES.of(0), NotZero),
    (m::FAILURES.of(1), NotZero),
    (m::FAILURES.of(2), Always),
    (m::FAILURES.of(3), Always),
    (m::FAILURES.of(4), Always),
    (m::FAILURES.of(5), NotZero),
    (m::FAILURES.of(6), NotZero),
    (m::FAILURES.of(7), NotZero),
    (m::FAILURES.of(8), NotZero),
    (m::FAILURES.of(9), NotZero),
    (m::FAILURES.of(10), NotZero),
    (m::FAILURES_REPORTED, WithFailures),
    (m::FAILURES_NO_RECLAIM, WithFailures),
    (m::FAILURES_OPTIONAL, WithFailures),
    (m::FALSE_FAILURES, Always),
    (m::STALLED, NotZero),
    (m::RETRIES_SERVED, NotZero),
    (m::RECALL_OF_ALL.of(0), NotZero),
    (m::PRECISION_OF_ALL.of(0), NotZero),
    (m::PROBES_SERVED, NotZero),
    (m::FALLBACKS, NotZero),
    (m::STALL, NotZero),
    (m::COMPACT_STALL_BY_ORDER, NotZero),
    (m::PGSCAN_KSWAPD, NotZero),
    (m::PGSCAN_DIRECT, NotZero),
    (m::PGSTEAL_KSWAPD, NotZero),
    (m::PGSTEAL_DIRECT, NotZero),
    (m::KSWAPD_WAKE, NotZero),
    (m::KSWAPD_LOW_WMARK_HIT_QUICKLY, NotZero),
    (m::KSWAPD_HIGH_WMARK_HIT_QUICKLY, NotZero),
    (m::COMPACT_STALL, NotZero),
    (m::COMPACT_SUCCESS, NotZero),
    (m::COMPACT_FAIL, NotZero),
    (m::COMPACT_DAEMON_WAKE, NotZero),
    (m::COMPACT_MIGRATE_SCANNED, NotZero),
    (m::COMPACT_FREE_SCANNED, NotZero),
    (m::COMPACT_ISOLATED, NotZero),
    (m::PGMIGRATE_SUCCESS, NotZero),
    (m::PGMIGRATE_FAIL, NotZero),
    (m::RECLAIMED_OBJECTS, NotZero),
    (m::FREES_OF_RECLAIMED, NotZero),
    (m::HUGE_PROBES_SERVED, NotZero),
    (m::HUGE_PROBES_MIGRATED, NotZero),
    (m::HUGE_PROBES_SCANNED, NotZero),
    (m::UNPLACED_FRAMES, NotZero),
    (m::FREES_OF_FAILED, NotZero),
    (m::MOVED_FRAMES, NotZero),
    (m::REPLAY_NS_PER_OP, NotZero),
];

fn rows(case: &ReportCase) -> Vec<Metric> {
    let occurs = |metric: &Metric| {
        let values = case.columns.iter().map(|column| column.values.get(metric));
        values.flatten().any(|&value| value != 0.0)
    };
    let of = |&(metric, shown): &(Metric, ShownMetrics)| {
        let members = metric.members().into_iter().enumerate();
        let is_shown = move |(order, metric): &(usize, Metric)| match shown {
            Always => true,
            NotZero => occurs(metric),
            WithFailures => occurs(&m::FAILURES.of(*order)),
        };
        members.filter(is_shown).map(|(_, metric)| metric)
    };
    ROWS.iter().flat_map(of).collect()
}

/// What `~` behind a figure says, broken for a terminal.
macro_rules! within_error {
    () => {
        "A figure marked ~ differs from that of the recorded kernel's rules, or where no column has these\n\
         from that of the first policy, by no more than the model's error."
    };
}
pub(crate) use within_error;

/// The case as a table with a column a variant.
///
/// `~` stands behind a figure that differs from that of the recorded kernel's rules, or where no column has these from that
/// of the first policy, by no more than the model's error. The last column holds the error: `none` where nothing happened
/// that it could be of.
#[must_use]
pub fn case_grid(case: &ReportCase) -> Grid {
    let base = base(case);
    // Without an error nothing is marked.
    let marked_against = base.filter(|_| case.calibration.is_some());
    let answered = (case.answer.as_ref()).and_then(|answer| case.column(answer.base.name()));
    // A narrow table keeps what stands first, and the answer speaks of this column.
    let mut columns: Vec<&ReportColumn> = case.columns.iter().collect();
    columns.sort_by_key(|column| match answered {
        _ if column.variant == LINUX => 0,
        Some(answered) if std::ptr::eq(answered, *column) => 1,
        _ => 2,
    });
    let is_compared = |column: &ReportColumn| {
        let mut with = [marked_against, answered].into_iter().flatten();
        with.any(|with| std::ptr::eq(with, column))
    };
    let mut headings: Vec<Heading> = columns
        .iter()
        .map(|column| Heading {
            title: broken(shown_variant(&column.variant)),
            accent: match column.variant.as_str() {
                LINUX => Some(Accent::Machine),
                policy => accent(policy),
            },
            is_published: false,
            is_base: is_compared(column),
        })
        .collect();
    if case.calibration.is_some() {
        headings.push(Heading {
            title: "model\nerror".into(),
            accent: None,
            is_published: false,
            is_base: false,
        });
    }
    let row = |metric: Metric| {
        let of = |column: &&ReportColumn| figure(metric, column, base, case.calibration.as_ref());
        let mut cells: Vec<String> = columns.iter().map(of).collect();
        if let Some(calibration) = &case.calibration {
            let error = calibration.deviations.get(&metric);
            cells.push(match error {
                None => String::new(),
                Some(deviation) if deviation.is_empty() => "none".into(),
                Some(deviation) => metric.shown(deviation.error),
            });
        }
        GridRow {
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
    let alias = ReplayPolicy::ALIASES
        .iter()
        .find(|(_, name)| *name == policy);
    alias.and_then(|(alias, _)| Accent::of(alias))
}

/// The column that the others are marked against: that of the recording kernel's rules, or where it is not shown the first
/// policy's.
fn base(case: &ReportCase) -> Option<&ReportColumn> {
    let model = case.calibration.as_ref();
    let model = model.and_then(|calibration| case.column(calibration.model));
    model.or_else(|| case.columns.iter().find(|column| column.variant != LINUX))
}

fn figure(
    metric: Metric,
    column: &ReportColumn,
    base: Option<&ReportColumn>,
    calibration: Option<&Calibration>,
) -> String {
    let Some(&value) = column.values.get(&metric) else {
        return "-".into();
    };
    // Retries and probes beside the number of tries.
    let tried = [
        (m::PROBES_SERVED, m::PROBES),
        (m::HUGE_PROBES_SERVED, m::HUGE_PROBES),
    ];
    let retried = (0..=MAX_ORDER).map(|k| (m::RETRIES_SERVED.of(k), m::RETRIED.of(k)));
    let pairs = [
        (m::FAILURES_REPORTED, m::REQUESTS_REPORTED),
        (m::FAILURES_NO_RECLAIM, m::REQUESTS_NO_RECLAIM),
        (m::FAILURES_OPTIONAL, m::REQUESTS_OPTIONAL),
    ];
    let by_flags = pairs
        .into_iter()
        .flat_map(|(failed, asked)| (0..=MAX_ORDER).map(move |k| (failed.of(k), asked.of(k))));
    let mut tried = retried.chain(tried).chain(by_flags);
    let tries = tried.find(|(served, _)| *served == metric);
    let tries = tries.and_then(|(_, tried)| column.values.get(&tried));
    if let Some(&tries) = tries {
        return format!("{} of {}", metric.shown(value), metric.shown(tries));
    }
    let within_error = || {
        let other = *base?.values.get(&metric)?;
        let apart = calibration?.tells_apart(metric, value, other)?;
        (other != value && column.variant != LINUX && !apart).then_some("~")
    };
    let mark = within_error().unwrap_or_default();
    format!("{}{mark}", metric.shown(value))
}

/// `linux-6.12-nofragment` over three lines, so that eight columns fit a terminal.
fn broken(name: &str) -> String {
    name.replace('-', "-\n").replace(' ', "\n")
}
