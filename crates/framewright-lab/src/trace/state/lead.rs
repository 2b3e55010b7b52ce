//! The line by which a file of `/proc` says how far before its trace it was read, written and read in one place.

use std::time::Duration;

/// What the second line of a file of `/proc` begins with that was read before its trace begins.
pub(super) const LEAD_MARK: &str = "# read ";

/// How the line ends.
const LEAD_END: &str = " s before the trace begins";

/// The line with which a file of `/proc` says how long before its trace's beginning it was read. A flight recorder learns
/// only at the end where that is.
#[must_use]
pub fn lead_line(lead: Duration) -> String {
    format!("{LEAD_MARK}{:.3}{LEAD_END}\n", lead.as_secs_f64())
}

/// How long before its trace's beginning a file was read, behind its first line, in seconds; `None` where it does not
/// say, because it was read at the beginning.
#[must_use]
pub fn lead_of(text: &str) -> Option<f64> {
    let second = text.lines().nth(1)?;
    let seconds = second.strip_prefix(LEAD_MARK)?.strip_suffix(LEAD_END)?;
    seconds
        .parse()
        .ok()
        .filter(|seconds: &f64| seconds.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceDigest;
    use crate::trace::state::read_vmstat;

    #[test]
    fn a_lead_is_written_and_read_back_and_no_line_of_the_file() {
        let mark = TraceDigest::of(b"abc").line();
        let text = |lead: &str| format!("{mark}{lead}compact_stall 3\n");
        let led = text(&lead_line(Duration::from_millis(3_214)));
        assert!(
            led.contains("\n# read 3.214 s before the trace begins\n"),
            "{led}"
        );
        assert_eq!(lead_of(&led), Some(3.214));
        assert_eq!(read_vmstat("v", &led).unwrap()["compact_stall"], 3);
        assert_eq!(lead_of(&text("")), None);
        assert_eq!(
            lead_of(&text("# read soon s before the trace begins\n")),
            None
        );
        assert!(read_vmstat("v", &text("# other\n")).is_err());
    }
}
