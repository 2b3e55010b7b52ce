//! The summary of a recording. It says in words what the files cannot: why it ended, what the kernel lost, and how
//! far the reduction agrees with the last snapshot.

use super::{BufferFill, RecordingEnded};
use crate::printable;
use crate::trace::TextCounts;
use crate::trace::reduce::{Agreement, Anomalies, EventCounts};
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What a recording is, and how far it is true: the text of its `*.summary.txt`.
#[derive(Debug, Clone)]
pub struct RecordReport {
    /// The kernel's release.
    pub kernel: String,
    /// The command that was recorded, if one was.
    pub command: Vec<OsString>,
    /// Why it ended.
    pub ended: RecordingEnded,
    /// How long tracing was on.
    pub elapsed: Duration,
    /// The last part of that, of which the buffers have all events, if others were overwritten.
    pub kept: Option<Duration>,
    /// The buffers of all CPUs together, in MiB.
    pub buffer_mib: u64,
    /// What they held in the end.
    pub fill: BufferFill,
    /// Events that this kernel does not trace.
    pub missing: Vec<&'static str>,
    /// The lines of the kernel's text, by kind.
    pub text: TextCounts,
    /// The events, by kind.
    pub counts: EventCounts,
    /// What they could not mean as they stand, by kind.
    pub anomalies: Anomalies,
    /// The reduction's frames beside the last snapshot's.
    pub agreement: Option<Agreement>,
    /// Frames of the universe.
    pub nframes: u64,
    /// Objects that were there at the start.
    pub ninit: u64,
    /// Operations.
    pub nops: u64,
    /// Where the trace was written.
    pub trace: PathBuf,
    /// It is not where it was to be, because that place took nothing in the end.
    pub is_elsewhere: bool,
}

impl fmt::Display for RecordReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "kernel {}", self.kernel.trim_end())?;
        if !self.command.is_empty() {
            let words: Vec<String> = self
                .command
                .iter()
                .map(|word| printable::text(&word.to_string_lossy()))
                .collect();
            writeln!(f, "command {}", words.join(" "))?;
        }
        let seconds = self.elapsed.as_secs_f64();
        f.write_str(&ended_line(self.ended, seconds))?;
        if let RecordingEnded::Failure { time_ns, .. } = self.ended
            && !self.fill.has(time_ns)
        {
            writeln!(
                f,
                "that request is not in the recording: newer events have overwritten it; a larger --ring keeps it"
            )?;
        }
        if let Some(kept) = self.kept {
            writeln!(
                f,
                "the recording has the last {:.3} s: {} older events were overwritten; what memory was like at its beginning is worked out from the events",
                kept.as_secs_f64(),
                self.fill.overwritten
            )?;
        }
        writeln!(
            f,
            "buffers {} MiB, {} events, lost {}",
            self.buffer_mib, self.fill.events, self.fill.lost
        )?;
        if !self.missing.is_empty() {
            writeln!(f, "not traced by this kernel: {}", self.missing.join(" "))?;
        }
        writeln!(
            f,
            "universe_frames {} ({} MiB) initial_objects {} operations {}",
            self.nframes,
            self.nframes >> 8,
            self.ninit,
            self.nops
        )?;
        writeln!(f, "{}", self.counts)?;
        writeln!(f, "anomalies: {}", self.anomalies)?;
        let text: Vec<String> = self
            .text
            .anomalies()
            .into_iter()
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        if !text.is_empty() {
            writeln!(f, "anomalies of the text: {}", text.join(" "))?;
        }
        if let Some(agreement) = &self.agreement {
            writeln!(
                f,
                "frames at the end beside the second snapshot: both_free {} only_model_free {} only_snapshot_free {} both_allocated {} (placed {}): {:.1} % agree",
                agreement.both_free,
                agreement.only_model_free,
                agreement.only_snapshot_free,
                agreement.both_allocated,
                agreement.placed,
                agreement.fraction() * 100.0
            )?;
        }
        Ok(())
    }
}

/// Why a recording ended, and how long it was.
pub(super) fn ended_line(ended: RecordingEnded, seconds: f64) -> String {
    let why = match ended {
        RecordingEnded::Command(status) => format!("until the command ended: {status}"),
        RecordingEnded::Time => "as asked".into(),
        RecordingEnded::Interrupted => "until interrupted".into(),
        RecordingEnded::Full => "until the buffers were full".into(),
        RecordingEnded::ReaderGone => "until the reader of the stream was gone".into(),
        RecordingEnded::DiskFull => "until the disk was full".into(),
        RecordingEnded::Failure { order, .. } => format!("until a request of {order} failed"),
    };
    format!("recorded {seconds:.3} s {why}\n")
}
