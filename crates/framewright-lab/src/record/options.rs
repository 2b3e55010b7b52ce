//! What is asked of a recording, and how it can end: what the files of the recorder have in common.

use super::{BufferKeeps, RecordError};
use crate::trace::EndingFailure;
use framewright::Order;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the recorder looks whether it is to stop.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// What to record, and where to.
#[derive(Debug, Clone, Default)]
pub struct RecordOptions {
    /// The trace's file. Its siblings take its name without extensions.
    pub output: PathBuf,
    /// The command to record, with its arguments; without one, the machine as it is.
    pub command: Vec<OsString>,
    /// Stops after this long.
    pub duration: Option<Duration>,
    /// The size of the buffers of all CPUs together, in MiB.
    pub buffer_mib: Option<u64>,
    /// Which events full buffers keep. Where it is the oldest, the recording ends when they are full.
    pub keeps: BufferKeeps,
    /// Stops after this failure.
    pub until_failure: Option<EndingFailure>,
    /// Whether files that are there are replaced.
    pub replace: bool,
    /// Memory in MiB that comes free when the command has ended, before the reduction needs any.
    pub freed_mib: u64,
}

/// Why a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingEnded {
    /// The command did.
    Command(ExitStatus),
    /// The time was up.
    Time,
    /// A signal interrupted it.
    Interrupted,
    /// The buffers were full.
    Full,
    /// The reader of the stream closed it.
    ReaderGone,
    /// The disk that the stream goes to had no more room.
    DiskFull,
    /// A request failed.
    Failure {
        /// Its order.
        order: Order,
        /// When, in nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
    },
}

pub(super) fn check(interrupted: &AtomicBool) -> Result<(), RecordError> {
    match interrupted.load(Ordering::Relaxed) {
        true => Err(RecordError::Interrupted),
        false => Ok(()),
    }
}
