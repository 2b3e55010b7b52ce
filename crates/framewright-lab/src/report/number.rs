use crate::measure::Metric;

/// A figure as a reader wants it: counts whole and grouped, shares with three decimals, means
/// with as many as matter.
pub(super) fn shown(metric: Metric, value: f64) -> String {
    if metric.is_count() {
        grouped(value)
    } else if metric.unit() == "1" {
        format!("{value:.3}")
    } else if value.abs() < 10_000.0 {
        format!("{value:.1}")
    } else {
        grouped(value.round())
    }
}

/// A whole number with a space between groups of three digits.
pub(super) fn grouped(value: f64) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_as_a_reader_wants_them() {
        assert_eq!(shown(Metric::Failures(3), 1234567.0), "1 234 567");
        assert_eq!(shown(Metric::Failures(3), 0.0), "0");
        assert_eq!(shown(Metric::UnusableIndex(3), 0.28449), "0.284");
        assert_eq!(shown(Metric::MixedBlocks, 481.54), "481.5");
        assert_eq!(shown(Metric::FreeFrames, 163_495.4), "163 495");
        assert_eq!(shown(Metric::FreeFrames, -12_345.0), "-12 345");
    }
}
