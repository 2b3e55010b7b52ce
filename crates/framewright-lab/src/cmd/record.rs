//! `framewright record`: what this machine's page allocator does, for `framewright replay`.

use super::conduct::CommandError;
use crate::trace::EndingFailure;
use std::ffi::OsString;
use std::path::PathBuf;

/// Record this machine's page allocator, for replay
///
/// Needs root and a Linux kernel with tracefs. Traces into buffers of its own until COMMAND ends,
/// the time is up, the buffers are full, or Ctrl-C; then writes the trace and, beside it, the
/// frames Linux chose (NAME.pfn.zst), what Linux made of memory each second
/// (NAME.linux_ref.csv), how far all that is true (NAME.summary.txt) and /proc before and after
/// (state/NAME/). Removes the buffers in any case, and writes all files or none.
///
/// With --ring it runs for days as a flight recorder: it keeps the newest events, and writes those when it is
/// stopped, as by --until-failure 3, the first request of order 3 that fails.
///
/// With --stream it writes all that it records at once, packed unless FILE has another ending than .zst, and holds no more of
/// it than its buffers. What it has written when it is killed can be replayed.
///
/// The whole machine is recorded, COMMAND and everything beside it, the recorder included: it
/// looks at its buffers four times a second.
#[derive(Debug, clap::Args)]
pub struct RecordArgs {
    /// The trace to write, packed if the name ends in .zst, as run.pft.zst
    #[arg(short, long, value_name = "FILE", required_unless_present = "stream")]
    pub output: Option<PathBuf>,

    /// Write while recording, into one file, as run.stream.zst, or with - to standard output; it does not grow in memory
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "ring"])]
    pub stream: Option<PathBuf>,

    /// Stop after this long; a command goes on to its end
    #[arg(long, value_name = "SECONDS", value_parser = super::replay::seconds)]
    pub seconds: Option<f64>,

    /// Memory for the buffers of all CPUs together, as 512MiB, or a number of MiB; a million events take 45 MiB
    /// [default: an eighth of what is available, at most 1GiB, of a stream 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = crate::size::read_mib)]
    pub buffer: Option<u64>,

    /// Record for days: keep the newest events in buffers of this size, as 64MiB, and overwrite older ones
    #[arg(long, value_name = "SIZE", value_parser = crate::size::read_mib, conflicts_with = "buffer")]
    pub ring: Option<u64>,

    /// Stop after a request of this order fails, or with "reported", one whose failure the kernel prints
    #[arg(long, value_name = "ORDER")]
    pub until_failure: Option<EndingFailure>,

    /// Replace files that are there
    #[arg(long)]
    pub force: bool,

    /// What to record; without it, whatever the machine does
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Lets the signals that end a process set `interrupted` instead.
#[cfg(target_os = "linux")]
pub(super) fn take_signals(
    interrupted: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> Result<(), CommandError> {
    for signal in [
        signal_hook::consts::SIGINT,
        signal_hook::consts::SIGQUIT,
        signal_hook::consts::SIGTERM,
        signal_hook::consts::SIGHUP,
    ] {
        signal_hook::flag::register(signal, std::sync::Arc::clone(interrupted))
            .map_err(|e| CommandError::Input(format!("signal {signal} cannot be taken: {e}")))?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
pub(super) fn run(args: &RecordArgs) -> Result<(), CommandError> {
    use crate::record::{BufferKeeps, RecordOptions, record, record_stream};
    use std::io::{self, Write};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    let interrupted = Arc::new(AtomicBool::new(false));
    take_signals(&interrupted)?;
    let options = RecordOptions {
        output: args
            .stream
            .clone()
            .or(args.output.clone())
            .unwrap_or_default(),
        command: args.command.clone(),
        duration: args.seconds.map(Duration::from_secs_f64),
        buffer_mib: args.ring.or(args.buffer),
        keeps: match args.ring {
            Some(_) => BufferKeeps::Newest,
            None => BufferKeeps::Oldest,
        },
        until_failure: args.until_failure,
        replace: args.force,
        freed_mib: 0,
    };
    // The reader of standard error may be gone, and the recording must end well all the same.
    let say = |line: &str| drop(writeln!(io::stderr(), "{line}"));
    if args.stream.is_some() {
        let report = record_stream(&options, &interrupted, say).map_err(CommandError::input)?;
        say(&format!("{report}{} bytes written", report.len_bytes));
        return Ok(());
    }
    let report = record(&options, &interrupted, say).map_err(CommandError::input)?;
    let again = crate::printable::path(&report.trace);
    say(&format!(
        "{report}replay it with: framewright replay {again}"
    ));
    if report.is_elsewhere {
        let wanted = crate::printable::path(&options.output);
        let says = format!("the recording is not in {wanted}, but in {again}");
        return Err(CommandError::Assertion(says));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(super) fn run(_: &RecordArgs) -> Result<(), CommandError> {
    Err(CommandError::Input(
        "cannot record: this is not Linux; record on a Linux machine and replay here".into(),
    ))
}
