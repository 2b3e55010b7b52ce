//! What a metric is: a row of a table.
//!
//! The replay has one table (`metrics!`), and so has each experiment; the two on virtual ranges share one.
//! A row says a metric's name, its unit, which value is the better one, how a value is shown, and its
//! definition. Everything that says something of a metric reads it there: tables, JSON Lines, assertions, and
//! `docs/metrics.md`, which `report::metrics_page` fills in.
//!
//! A row is a *family* where it stands for several metrics: one an order, a quantile, a lock. Capitals in its
//! name say which ([`Axis`]), and [`Metric::of`] picks a member. Metrics are ordered as their rows are, members
//! of a family as the axis has them, and outputs list them in that order.

/// Which of two values of a metric is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Better {
    /// The lower.
    Lower,
    /// The higher.
    Higher,
    /// Neither: it describes.
    Neither,
}

/// What values are, and how a reader wants to see them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// A count, without a fraction.
    Count,
    /// A count of bytes, in MiB.
    Mib,
    /// A mean: one digit behind the point up to 10,000.
    Mean,
    /// A time or a rate: one digit behind the point up to 1,000.
    Time,
    /// The same, with two digits below 10.
    ShortTime,
    /// This many digits behind the point.
    Fixed(usize),
    /// What is left of something: two digits, four where that is less than a tenth.
    Left,
    /// A share, in percent with this many digits.
    Percent(usize),
}

impl Form {
    /// Whether values have no fraction.
    #[must_use]
    pub const fn is_count(self) -> bool {
        matches!(self, Self::Count | Self::Mib)
    }

    fn shown(self, value: f64) -> String {
        match self {
            Self::Mib => format!("{} MiB", grouped((value / (1 << 20) as f64).round())),
            Self::ShortTime if value < 10.0 => format!("{value:.2}"),
            Self::Time | Self::ShortTime if value < 1000.0 => format!("{value:.1}"),
            Self::Mean if value.abs() < 10_000.0 => format!("{value:.1}"),
            Self::Count | Self::Mean | Self::Time | Self::ShortTime => grouped(value.round()),
            Self::Left if value < 0.1 => format!("{value:.4}"),
            Self::Left => format!("{value:.2}"),
            Self::Fixed(digits) => format!("{value:.digits$}"),
            Self::Percent(digits) => format!("{:.digits$} %", value * 100.0),
        }
    }
}

/// A whole number with a space between groups of three digits.
pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// What the members of a family differ in.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Axis {
    /// What stands in the family's name for it.
    pub word: &'static str,
    /// What stands there in a member's name.
    pub names: &'static [&'static str],
    /// The first one that the family has.
    pub first: u8,
}

/// A row of a table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricRow {
    /// The name in figures, series and assertions.
    pub name: &'static str,
    /// The unit of its values; `1` for a share or a ratio.
    pub unit: &'static str,
    /// Which value is the better one.
    pub better: Better,
    /// How values are shown.
    pub form: Form,
    /// What it is a family over: nothing, one axis, or two.
    pub axes: &'static [Axis],
    /// The part of the document that it stands in.
    pub part: &'static str,
    /// What it is, for `docs/metrics.md`.
    pub definition: &'static str,
}

/// A metric of some table, or a whole family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Metric {
    place: u16,
    at: [u8; 2],
    row: &'static MetricRow,
}

/// In the place of a member: all of them.
const FAMILY: u8 = u8::MAX;

impl Metric {
    /// The metric, or the family, of that row.
    #[must_use]
    pub const fn new(place: u16, row: &'static MetricRow) -> Self {
        let at = if row.axes.is_empty() { 0 } else { FAMILY };
        Self {
            place,
            at: [at; 2],
            row,
        }
    }

    /// The member of a family over one axis.
    #[must_use]
    pub const fn of(self, member: usize) -> Self {
        self.of_two(member, 0)
    }

    /// The member of a family over two axes.
    #[must_use]
    pub const fn of_two(self, first: usize, second: usize) -> Self {
        Self {
            at: [first as u8, second as u8],
            ..self
        }
    }

    /// The member of that name, of a family over one axis.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let axis = self.row.axes.first();
        let at = axis.and_then(|axis| axis.names.iter().position(|known| *known == name));
        self.of(at.unwrap_or_else(|| panic!("{} has no member {name}", self.row.name)))
    }

    /// The metrics of a family in their order; of a metric, itself.
    #[must_use]
    pub fn members(self) -> Vec<Self> {
        let along = |axis: &Axis| usize::from(axis.first)..axis.names.len();
        match self.row.axes {
            [] => vec![self],
            _ if self.at[0] != FAMILY => vec![self],
            [axis] => along(axis).map(|at| self.of(at)).collect(),
            [outer, inner, ..] => along(outer)
                .flat_map(|at| along(inner).map(move |then| self.of_two(at, then)))
                .collect(),
        }
    }

    /// Whether it is this metric, or one of this family.
    #[must_use]
    pub fn is(self, other: Self) -> bool {
        self.row == other.row && (self.at == other.at || other.at[0] == FAMILY)
    }

    /// What is said of it.
    #[must_use]
    pub const fn row(self) -> &'static MetricRow {
        self.row
    }

    /// The name in figures, series and assertions.
    #[must_use]
    pub fn name(self) -> String {
        let mut name = self.row.name.to_owned();
        for (axis, at) in self.row.axes.iter().zip(self.at) {
            if let Some(member) = axis.names.get(usize::from(at)) {
                name = name.replacen(axis.word, member, 1);
            }
        }
        name
    }

    /// The unit of its values; `1` for a share or a ratio.
    #[must_use]
    pub const fn unit(self) -> &'static str {
        self.row.unit
    }

    /// Which value is the better one.
    #[must_use]
    pub const fn better(self) -> Better {
        self.row.better
    }

    /// Whether its values are counts, without a fraction.
    #[must_use]
    pub const fn is_count(self) -> bool {
        self.row.form.is_count()
    }

    /// A value as JSON has it.
    #[must_use]
    pub fn number(self, value: f64) -> serde_json::Number {
        if self.is_count() {
            (value as u64).into()
        } else {
            // Values are finite.
            serde_json::Number::from_f64(value).unwrap_or_else(|| 0.into())
        }
    }

    /// A value as a reader wants it.
    #[must_use]
    pub fn shown(self, value: f64) -> String {
        self.row.form.shown(value)
    }
}

/// A table of metrics: its name in `docs/metrics.md`, and its rows.
pub type MetricTable = (&'static str, &'static [MetricRow]);

/// All metrics of a table, members of families one by one.
pub fn all_metrics(table: MetricTable) -> impl Iterator<Item = Metric> {
    let rows = (0..).zip(table.1);
    rows.flat_map(|(place, row)| Metric::new(place, row).members())
}

/// The metric of that name, if the table has one.
#[must_use]
pub fn metric_named(table: MetricTable, name: &str) -> Option<Metric> {
    all_metrics(table).find(|metric| metric.name() == name)
}

/// Writes a table of metrics: `TABLE`, and a constant a row.
macro_rules! metrics {
    ($table:literal; $($part:literal {
        $($name:ident $([$($axis:expr),+])? = $text:literal, $unit:literal, $better:ident, $form:expr,
            $definition:literal;)*
    })*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Place { $($($name,)*)* }

        /// The table.
        pub const TABLE: $crate::measure::MetricTable = ($table, &ROWS);

        static ROWS: [$crate::measure::MetricRow; [$($($text,)*)*].len()] = {
            #[allow(unused_imports)]
            use $crate::measure::Form::{self, *};
            [$($($crate::measure::MetricRow {
                name: $text,
                unit: $unit,
                better: $crate::measure::Better::$better,
                form: $form,
                axes: &[$($($axis),+)?],
                part: $part,
                definition: $definition,
            },)*)*]
        };

        $($(
            #[doc = $definition]
            pub const $name: $crate::measure::Metric = {
                let place = Place::$name as usize;
                $crate::measure::Metric::new(place as u16, &ROWS[place])
            };
        )*)*
    };
}
pub(crate) use metrics;

/// Orders from 0 to the largest that a metric knows.
pub const ORDERS: Axis = Axis {
    word: "K",
    names: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"],
    first: 0,
};

/// Which of many latencies.
pub const QUANTILES: Axis = Axis {
    word: "QUANTILE",
    names: &["p50", "p99", "p999", "max"],
    first: 0,
};

#[cfg(test)]
#[allow(unreachable_pub)]
mod tests {
    use super::*;

    metrics! {
        "test";
        "part" {
            PLAIN = "plain", "frames", Neither, Mean, "a metric";
            BY_ORDER[ORDERS] = "by_orderK", "requests", Lower, Count, "a family";
            BY_BOTH[QUANTILES, Axis { first: 9, ..ORDERS }] = "QUANTILE_orderK", "1", Lower, Fixed(3), "two axes";
        }
    }

    #[test]
    fn a_member_has_the_name_of_its_place() {
        assert_eq!(PLAIN.name(), "plain");
        assert_eq!(BY_ORDER.of(10).name(), "by_order10");
        assert_eq!(BY_ORDER.named("7"), BY_ORDER.of(7));
        assert_eq!(BY_BOTH.of_two(2, 9).name(), "p999_order9");
        let all: Vec<String> = all_metrics(TABLE).map(Metric::name).collect();
        assert_eq!(all.len(), 1 + 11 + 4 * 2);
        assert_eq!(all[12..14], ["p50_order9", "p50_order10"]);
        assert_eq!(metric_named(TABLE, "by_order3"), Some(BY_ORDER.of(3)));
        assert_eq!(metric_named(TABLE, "by_order11"), None);
        assert_eq!(metric_named(TABLE, "by_orderK"), None);
        assert!(BY_ORDER.of(3).is(BY_ORDER) && !BY_ORDER.of(3).is(BY_ORDER.of(2)));
        assert!(PLAIN.is(PLAIN) && PLAIN < BY_ORDER.of(0) && BY_ORDER.of(2) < BY_ORDER.of(10));
    }

    #[test]
    fn figures_are_shown_as_a_reader_wants_them() {
        let shown = |form: Form, value| form.shown(value);
        assert_eq!(shown(Form::Count, 1_234_567.0), "1 234 567");
        assert_eq!(shown(Form::Count, 0.0), "0");
        assert_eq!(shown(Form::Fixed(3), 0.28449), "0.284");
        assert_eq!(shown(Form::Mean, 481.54), "481.5");
        assert_eq!(shown(Form::Mean, 163_495.4), "163 495");
        assert_eq!(shown(Form::Mean, -12_345.0), "-12 345");
        assert_eq!(shown(Form::Time, 34.26), "34.3");
        assert_eq!(shown(Form::Time, 55_866.3), "55 866");
        assert_eq!(shown(Form::ShortTime, 3.426), "3.43");
        assert_eq!(shown(Form::ShortTime, 34.26), "34.3");
        assert_eq!(shown(Form::Left, 0.0123), "0.0123");
        assert_eq!(shown(Form::Left, 0.94), "0.94");
        assert_eq!(shown(Form::Percent(1), 0.9751), "97.5 %");
        assert_eq!(shown(Form::Percent(2), 0.0041), "0.41 %");
        assert_eq!(shown(Form::Mib, 4_194_304.0), "4 MiB");
    }
}
