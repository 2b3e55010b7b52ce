//! `framewright top`: this machine's page allocator, live.

use super::conduct::CommandError;
use std::time::Duration;

/// Watch this machine's page allocator: which order fails next, and why
///
/// Shows on a terminal, each second, which order fails next and what for (exhausted, below watermark or fragmented), free
/// memory by order, watermarks, pageblocks by content, fallbacks, stalls, and each request that fails with its order, flags
/// and command. Keys: q ends it, p pauses, a digit asks about an order, h explains the columns.
///
/// Needs root and tracefs. It traces into small buffers of its own and removes them in any case; whatever else is traced goes
/// on. --no-events reads /proc alone, for which nothing is needed.
///
/// Where standard output is no terminal it prints one view after one interval.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// The interval, as 1s, 500ms or 1min
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = read_interval)]
    pub every: Duration,

    /// The order to ask about first
    #[arg(long, value_name = "ORDER", default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=crate::measure::MAX_ORDER as i64))]
    pub order: u8,

    /// Print one view as text after one interval, and end
    #[arg(long, conflicts_with = "count")]
    pub once: bool,

    /// Print a JSON object an interval, until it is interrupted or --count says
    #[arg(long)]
    pub json: bool,

    /// So many intervals
    #[arg(long, value_name = "N", requires = "json", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Memory for the buffers of all CPUs together, as 8MiB, or a number of MiB
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = read_buffer, conflicts_with = "no_events")]
    pub buffer: u64,

    /// Read /proc alone: no failures, fallbacks or requests by order
    #[arg(long)]
    pub no_events: bool,
}

/// The most that buffers may take: a view needs no history.
const BUFFER_MIB_MAX: u64 = 1024;

fn read_buffer(text: &str) -> Result<u64, String> {
    match crate::size::read_mib(text)? {
        mib if mib <= BUFFER_MIB_MAX => Ok(mib),
        mib => Err(format!(
            "{mib} MiB is more than a view needs, expected 1GiB at most"
        )),
    }
}

/// A time from a tenth of a second to an hour.
fn read_interval(text: &str) -> Result<Duration, String> {
    let expected = || "expected a time from 100ms to 1h, as 1s, 500ms or 2min".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "ms" => 0.001,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(expected()),
    };
    let number: f64 = digits.parse().map_err(|_| expected())?;
    let seconds = number * unit;
    match (0.1..=3600.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(expected()),
    }
}

#[cfg(target_os = "linux")]
pub(super) fn run(args: &TopArgs) -> Result<(), CommandError> {
    use crate::top::{TopForm, TopOptions, top};
    use std::io::{self, IsTerminal, Write};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    let interrupted = Arc::new(AtomicBool::new(false));
    super::record::take_signals(&interrupted)?;
    let form = match args.json {
        true => TopForm::Json(if args.once { Some(1) } else { args.count }),
        false if args.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() => {
            let width = crate::report::terminal_width();
            TopForm::Text(u16::try_from(width).unwrap_or(u16::MAX))
        }
        false => TopForm::Screen,
    };
    let options = TopOptions {
        form,
        every: args.every,
        order: usize::from(args.order),
        buffer_mib: args.buffer,
        no_events: args.no_events,
    };
    let say = |line: &str| drop(writeln!(io::stderr(), "{line}"));
    top(&options, &interrupted, say).map_err(CommandError::input)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn run(_: &TopArgs) -> Result<(), CommandError> {
    Err(CommandError::Input(
        "cannot watch the page allocator: this is not Linux".into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_a_time_with_a_unit_and_neither_too_short_nor_too_long() {
        for (text, ms) in [
            ("1s", 1000),
            ("1", 1000),
            ("500ms", 500),
            ("0.1", 100),
            ("2min", 120_000),
            ("1m", 60_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(read_interval(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in [
            "", "s", "0", "99ms", "2h", "-1s", "1 s", "nan", "inf", "1d", "1ſ",
        ] {
            let error = read_interval(text).unwrap_err();
            assert!(
                error.starts_with("expected a time from 100ms to 1h"),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn buffers_are_small() {
        assert_eq!(read_buffer("8MiB"), Ok(8));
        assert_eq!(read_buffer("1GiB"), Ok(1024));
        assert!(
            read_buffer("1025")
                .unwrap_err()
                .contains("more than a view needs")
        );
        assert!(read_buffer("0").is_err());
    }
}
