//! One figure of a result file, as the text has it: `FILE, CASE, VARIANT, METRIC`.
//!
//! Behind these may stand `min`, `max` or `range` instead of the median, or `~BASE`: that marks a figure of a replay
//! which differs from the variant `BASE` by no more than the model's error, or `%` for a share.
//! ` / ` between two figures is their ratio. `command FILE` is what was typed. `standing better` (`equal`, `worse`, `all`) counts what [`super::recordings`] compares.

use super::recordings;
use crate::results::{ResultFile, ResultRow, RowSource};
use std::collections::BTreeMap;

/// Behind a time that was taken while others had the CPUs too.
pub(crate) const MARK: &str = "†";

/// Behind what a trial in a small size came to.
pub(crate) const TRIAL: &str = "‡";

/// The result files that were read so far.
#[derive(Default)]
pub(crate) struct ResultFiles {
    files: BTreeMap<String, Result<ResultFile, String>>,
}

impl ResultFiles {
    pub(crate) fn file(&mut self, name: &str) -> Result<&ResultFile, String> {
        let file = self
            .files
            .entry(name.to_owned())
            .or_insert_with(|| ResultFile::read(name));
        file.as_ref().map_err(Clone::clone)
    }

    #[cfg(test)]
    pub(crate) fn with(name: &str, file: ResultFile) -> Self {
        Self {
            files: BTreeMap::from([(name.to_owned(), Ok(file))]),
        }
    }

    /// The text of a figure, or of a ratio.
    pub(crate) fn shown(&mut self, query: &str) -> Result<String, String> {
        if let Some(which) = query.strip_prefix("standing ") {
            let file = self.file("recordings")?;
            let standing = recordings::standing(file);
            let count = match which {
                "better" => standing.better,
                "equal" => standing.equal,
                "worse" => standing.worse,
                "all" => standing.better + standing.equal + standing.worse,
                _ => return Err(format!("{query}: expected better, equal, worse or all")),
            };
            return Ok(count.to_string() + if file.run.is_trial { TRIAL } else { "" });
        }
        if let Some(name) = query.strip_prefix("command ") {
            return Ok(self.file(name)?.run.commands.join("`, `"));
        }
        let Some((above, below)) = query.split_once(" / ") else {
            return self.figure(query).map(|(text, _)| text);
        };
        let (above, below) = (self.figure(above)?, self.figure(below)?);
        let has = |mark: &&str| above.0.ends_with(mark) || below.0.ends_with(mark);
        let mark = [TRIAL, MARK].into_iter().find(has).unwrap_or_default();
        if below.1 == 0.0 {
            return Ok("-".to_owned());
        }
        Ok(number(above.1 / below.1) + mark)
    }

    /// The text and the value of one figure.
    pub(crate) fn figure(&mut self, query: &str) -> Result<(String, f64), String> {
        let words: Vec<&str> = query.split(',').map(str::trim).collect();
        let [name, case, variant, metric, rest @ ..] = &words[..] else {
            return Err(format!(
                "{query}: expected FILE, CASE, VARIANT, METRIC and perhaps what of it"
            ));
        };
        let file = self.file(name)?;
        let row = file.find(case, variant, metric);
        let row =
            row.ok_or_else(|| format!("{query}: docs/results/{name}.jsonl has no such figure"))?;
        let unit = row.unit.as_str();
        let (mut text, value) = match rest {
            [] => (with_unit(row.median, unit), row.median),
            ["min"] => (with_unit(row.min, unit), row.min),
            ["max"] => (with_unit(row.max, unit), row.max),
            ["%"] => (
                format!("{} %", number(rounded(row.median * 100.0))),
                row.median,
            ),
            ["range"] if row.min == row.max => (with_unit(row.median, unit), row.median),
            ["range"] => {
                let (min, max) = (with_unit(row.min, unit), with_unit(row.max, unit));
                (format!("{min} to {max}"), row.median)
            }
            [base] if base.starts_with('~') => {
                let is_near = is_within_error(file, row, &base[1..])?;
                let mark = if is_near { "~" } else { "" };
                (with_unit(row.median, unit) + mark, row.median)
            }
            _ => return Err(format!("{query}: `{}` is not known", rest.join(", "))),
        };
        if row.source != RowSource::Published && file.run.is_trial {
            text += TRIAL;
        } else if row.source == RowSource::Measured && file.is_marked() && value != 0.0 {
            text += MARK;
        }
        Ok((text, value))
    }
}

/// Whether the figure differs from the base's by no more than a replay of the recording kernel is off.
fn is_within_error(file: &ResultFile, row: &ResultRow, base: &str) -> Result<bool, String> {
    let of = |variant: &str, metric: &str| {
        let found = file.find(&row.case, variant, metric);
        found.map(|row| row.median)
    };
    let base_value = of(base, &row.metric);
    let base_value = base_value.ok_or_else(|| format!("{base} has no {}", row.metric))?;
    let error = of("calibration", &format!("error_{}", row.metric));
    Ok(row.variant != base
        && error.is_some_and(|error| error > 0.0 && (row.median - base_value).abs() <= error))
}

/// A value as its unit wants it. Times have no unit in the text: it stands in the table's head or beside the figure.
fn with_unit(value: f64, unit: &str) -> String {
    const MIB: f64 = (1 << 20) as f64;
    match unit {
        "bytes" if value >= MIB => format!("{} MiB", number((value / MIB).round())),
        _ => number(value),
    }
}

/// To a hundredth: a share has no more.
fn rounded(percent: f64) -> f64 {
    (percent * 100.0).round() / 100.0
}

/// Three or more digits, and a comma between groups of three.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value.fract() == 0.0 || size >= 1000.0 {
        return grouped(value);
    }
    match size {
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        0.01.. => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::from(if value < 0.0 { "-" } else { "" });
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::results::tests::run_record;

    pub(crate) fn files(foreign: f64) -> ResultFiles {
        let row = |case: &str, variant: &str, metric: &str, median: f64, source| ResultRow {
            case: case.to_owned(),
            variant: variant.to_owned(),
            metric: metric.to_owned(),
            unit: "ns".to_owned(),
            source,
            median,
            min: median - 1.0,
            max: median + 1.0,
            n: 3,
        };
        let rows = vec![
            row("c/1", "before", "time", 5000.0, RowSource::Measured),
            row("c/1", "framewright", "time", 12.25, RowSource::Measured),
            row("c/1", "framewright", "count", 12.0, RowSource::Simulated),
            row("c/1", "before", "count", 10.0, RowSource::Simulated),
            row(
                "c/1",
                "calibration",
                "error_count",
                2.0,
                RowSource::Simulated,
            ),
        ];
        let run = run_record(foreign);
        ResultFiles::with("x", ResultFile { run, rows })
    }

    #[test]
    fn a_figure_is_found_and_shown() {
        let mut quiet = files(0.0);
        let mut shown = |query: &str| quiet.shown(query).unwrap();
        assert_eq!(shown("x, c/1, before, time"), "5,000");
        assert_eq!(shown("x, c/1, framewright, time"), "12.2");
        assert_eq!(shown("x, c/1, framewright, time, range"), "11.2 to 13.2");
        assert_eq!(shown("x, c/1, framewright, time, max"), "13.2");
        assert_eq!(shown("x, c/1, framewright, count, ~before"), "12~");
        assert_eq!(shown("x, c/1, before, count, ~before"), "10");
        assert_eq!(shown("x, c/1, before, count, %"), "1,000 %");
        assert_eq!(
            shown("x, c/1, before, time / x, c/1, framewright, time"),
            "408.2"
        );
    }

    #[test]
    fn a_time_beside_other_work_is_marked_and_a_count_is_not() {
        let mut busy = files(0.6);
        assert_eq!(busy.shown("x, c/1, before, time").unwrap(), "5,000†");
        assert_eq!(busy.shown("x, c/1, before, count").unwrap(), "10");
        let ratio = busy.shown("x, c/1, before, time / x, c/1, framewright, time");
        assert_eq!(ratio.unwrap(), "408.2†");
    }

    #[test]
    fn what_is_not_there_is_said() {
        let mut files = files(0.0);
        let mut refused = |query: &str| files.shown(query).unwrap_err();
        assert!(refused("x, c/1, before, nothing").contains("no such figure"));
        assert!(refused("x, c/1, before").contains("expected FILE"));
        assert!(refused("x, c/1, before, time, twice").contains("`twice`"));
        assert!(refused("no-file, a, b, c").contains("docs/results/no-file.jsonl"));
    }

    #[test]
    fn numbers_have_three_digits_or_more() {
        let values = [
            0.0,
            0.0082,
            0.107,
            1.886,
            17.81,
            320.5,
            1234.5,
            4_734_040_109.0,
        ];
        let texts = [
            "0",
            "0.0082",
            "0.107",
            "1.89",
            "17.8",
            "320.5",
            "1,234",
            "4,734,040,109",
        ];
        assert_eq!(values.map(number), texts);
    }
}
