//! `framewright explain`: what a metric is, and how to read it.

use super::conduct::CommandError;
use crate::measure::metric::all_metrics;
use crate::measure::{Better, Metric, MetricTable};
use crate::printable;
use crate::report::{metric_tables, within_error, write_whole};

/// Say what a metric is: its definition, its unit, which value is better, and how to read it
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// A metric's name as tables and JSON have it, as failures_order3
    #[arg(value_name = "METRIC")]
    metric: String,
}

/// Names that an error lists.
const NEAR_MAX: usize = 5;
/// Changes of a character up to which a name is near.
const CHANGES_MAX: usize = 6;

/// Prints what is known of a metric, in each table that has one of that name.
///
/// # Errors
/// If none has; the message lists near names.
pub(super) fn run(args: &ExplainArgs) -> Result<(), CommandError> {
    let text = explained(&args.metric)?;
    write_whole("-".as_ref(), text.as_bytes()).map_err(CommandError::input)
}

fn explained(name: &str) -> Result<String, CommandError> {
    let found: Vec<(&str, Metric)> = all()
        .filter(|(_, metric)| metric.name() == name || metric.row().name == name)
        .collect();
    if found.is_empty() {
        return Err(CommandError::Input(unknown(name)));
    }
    let mut text = String::new();
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for (table, metric) in found {
        let row = metric.row();
        // A family's name stands for each of its members, and a row is told once.
        if rows.contains(&(table, row.name)) {
            continue;
        }
        rows.push((table, row.name));
        let better = match row.better {
            Better::Lower => "lower is better",
            Better::Higher => "higher is better",
            Better::Neither => "it describes; neither direction is better",
        };
        let unit = match row.unit {
            "1" => "a share or a ratio, without a unit",
            unit => unit,
        };
        text += &format!(
            "{name} ({table}, {})\n  what it is:  {}\n  unit:        {unit}\n  better:      {better}\n  to read it:  {}\n",
            row.part,
            row.definition,
            how_to_read(table, metric),
        );
    }
    Ok(text + "docs/metrics.md in the repository has the terms and all metrics.\n")
}

fn all() -> impl Iterator<Item = (&'static str, Metric)> {
    let of = |table: MetricTable| all_metrics(table).map(move |metric| (table.0, metric));
    metric_tables().into_iter().flat_map(of)
}

/// What a reader does with a figure of it.
fn how_to_read(table: &str, metric: Metric) -> String {
    let compared = match (table, metric.row().better) {
        (_, Better::Neither) => {
            "it explains other figures; policies are not judged by it".to_owned()
        }
        ("replay", _) => format!(
            "compare policies in one row. {} Such a figure says nothing.",
            within_error!().replace('\n', " ")
        ),
        _ => "compare variants in one row, and only of one run: another machine has other figures"
            .to_owned(),
    };
    let kind = match metric.is_count() {
        true => "a count over the whole run",
        false => "a mean, or a share",
    };
    format!("{kind}; {compared}")
}

/// The error for a name that no metric has.
fn unknown(name: &str) -> String {
    // How far each is as a beginning, and as a whole.
    let mut near: Vec<(usize, usize, String)> = Vec::new();
    for (_, metric) in all() {
        for known in [metric.name(), metric.row().name.to_owned()] {
            let whole = changes(name, &known);
            let least = match known.contains(name) && name.len() > 2 {
                true => 0,
                // A name may be the beginning of one, with a slip in it.
                false => {
                    let begun: String = known.chars().take(name.chars().count()).collect();
                    whole.min(1 + changes(name, &begun))
                }
            };
            if least <= CHANGES_MAX && !near.iter().any(|(_, _, there)| *there == known) {
                near.push((least, whole, known));
            }
        }
    }
    near.sort();
    near.truncate(NEAR_MAX);
    let near: Vec<String> = near.into_iter().map(|(.., name)| name).collect();
    let expected = match near.is_empty() {
        true => "one of those in docs/metrics.md".to_owned(),
        false => format!("a name such as {}", near.join(", ")),
    };
    format!(
        "there is no metric '{}', expected {expected}",
        printable::text(name)
    )
}

/// How many characters have to be put in, left out or exchanged to make one name of the other.
fn changes(a: &str, b: &str) -> usize {
    // A name of any length is compared as far as the longest metric's would be.
    let a: Vec<char> = a.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (nth, mine) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = nth + 1;
        for (at, theirs) in b.chars().enumerate() {
            let exchanged = diagonal + usize::from(*mine != theirs);
            diagonal = row[at + 1];
            row[at + 1] = exchanged.min(row[at] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str) -> String {
        match explained(name) {
            Err(CommandError::Input(says)) => says,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_metric_of_every_table_is_explained() {
        for (table, metric) in all() {
            let text = explained(&metric.name()).unwrap();
            let row = metric.row();
            assert!(
                text.contains(&format!("{} ({table}, ", metric.name())),
                "{text}"
            );
            assert!(
                text.contains(row.definition) && text.contains("better:"),
                "{text}"
            );
            explained(row.name).unwrap();
        }
        let text = explained("failures_order3").unwrap();
        assert!(
            text.contains("unit:        requests") && text.contains("lower is better"),
            "{text}"
        );
        let marked = "from that of the first policy, by no more than the model's error. Such a figure says nothing.\n";
        assert!(text.contains(marked), "{text}");
    }

    #[test]
    fn an_unknown_name_is_refused_with_near_ones() {
        assert!(error("failure_order3").contains("such as failures_order3"));
        assert!(error("failurs3").contains("failures"));
        assert!(error("unusable").contains("unusable_index_order1"));
        let says = error(&"z".repeat(100_000));
        assert!(says.ends_with("expected one of those in docs/metrics.md"));
        assert!(error("\u{1b}[2J").contains("\\u{1b}"));
        assert_eq!(changes("kitten", "sitting"), 3);
        assert_eq!(changes("", "abc"), 3);
    }
}
