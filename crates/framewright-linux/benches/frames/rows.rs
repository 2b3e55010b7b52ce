//! The figures of a benchmark as JSON Lines, one a line, for `cargo xtask measure`.

use std::fs::OpenOptions;
use std::io::Write;

/// Appends a figure to the file behind `--json`, if that was asked for: the median of the values and their range.
///
/// The names are the program's own, without quotes. `case` says what was done, as `bulk/0/2`.
pub(crate) fn add(case: &str, variant: &str, metric: &str, unit: &str, values: &[f64]) {
    let Some(path) = std::env::args().skip_while(|arg| arg != "--json").nth(1) else {
        return;
    };
    let mut sorted: Vec<f64> = values.iter().copied().filter(|ns| ns.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let (Some(min), Some(max)) = (sorted.first(), sorted.last()) else {
        return;
    };
    let (median, count) = (sorted[sorted.len() / 2], sorted.len());
    let row = format!(
        "{{\"case\":\"{case}\",\"variant\":\"{variant}\",\"metric\":\"{metric}\",\"unit\":\"{unit}\",\
         \"source\":\"measured\",\"median\":{median},\"min\":{min},\"max\":{max},\"n\":{count}}}\n"
    );
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(row.as_bytes()));
    written.unwrap_or_else(|error| panic!("{path}: {error}"));
}
