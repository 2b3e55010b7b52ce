//! Which form a trace has, by its first bytes and never by its name: a pipe has no name.

use super::{Input, STREAM_MAGIC, StreamReader, TextReader, Trace, TraceError, pft};
use std::path::Path;

/// A trace whose form has been recognised by its first bytes.
#[derive(Debug)]
pub enum Recording {
    /// Objects and operations, ready to replay.
    Columns(Box<Trace>),
    /// Events by frame number, still to be read and reduced to a [`Trace`].
    Text(Box<TextReader>),
    /// Such events, with what the machine said before and after them.
    Stream(Box<StreamReader>),
}

/// Lines of a text that are looked at for the first one that shows what it is: comments and blank lines stand before that.
const LOOKED_LINES: u64 = 1 << 16;

const PERF_DATA: &[u8] = b"PERFILE2";
const TRACE_DAT: &[u8] = b"\x17\x08\x44tracing";

/// Whether this is a recording, or the frames that one has beside it: whatever a replay reads, text with the rest, and what
/// `perf` and `trace-cmd` record.
pub(crate) fn is_recording(mut input: Input) -> bool {
    let stream = &STREAM_MAGIC[..STREAM_MAGIC.len() - 2];
    let first = input.peek(stream.len()).unwrap_or_default();
    let is_columns = pft::MAGICS.iter().any(|magic| first.starts_with(magic));
    let is_other = [PERF_DATA, TRACE_DAT, &pft::FRAMES_MAGIC]
        .iter()
        .any(|magic| first.starts_with(magic));
    if first == stream || is_columns || is_other || pft::is_newer(first) {
        return true;
    }
    TextReader::new(input).shows_dialect(LOOKED_LINES)
}

impl Recording {
    /// Opens `path`, or standard input for `-`: PFT1 to PFT5, a stream, ftrace text or `perf script` text; plain,
    /// gzip or zstd. Columns are read as a whole, text as it is asked for.
    ///
    /// # Errors
    /// If the file cannot be read or holds none of these. What text it is shows only in its first
    /// line, so that the error for a text that is no trace comes with the first event.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::from_input(Input::open(path)?)
    }

    /// As [`Recording::open`], for an input that is open.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn from_input(mut input: Input) -> Result<Self, TraceError> {
        // The longest of the signatures, without its version.
        let stream = &STREAM_MAGIC[..STREAM_MAGIC.len() - 2];
        let first = input.peek(stream.len())?;
        if first == stream {
            return Ok(Self::Stream(Box::new(StreamReader::open(input)?)));
        }
        if pft::MAGICS.iter().any(|magic| first.starts_with(magic)) {
            return Ok(Self::Columns(Box::new(pft::read_pft(input)?)));
        }
        let other = match first {
            _ if first.starts_with(&pft::FRAMES_MAGIC) => Some(
                "this is what a recording has beside it (NAME.pfn.zst), expected the recording itself, NAME.pft.zst",
            ),
            _ if first.starts_with(PERF_DATA) => {
                Some("this is perf.data, expected its text: `perf script -i FILE > TEXT`")
            }
            _ if first.starts_with(TRACE_DAT) => {
                Some("this is trace.dat, expected its text: `trace-cmd report -i FILE > TEXT`")
            }
            _ if pft::is_newer(first) => Some(
                "this is a trace in columns of a newer form, expected PFT1 to PFT5: a newer version of this program reads it",
            ),
            _ => None,
        };
        match other {
            Some(message) => Err(input.error(message)),
            None => Ok(Self::Text(Box::new(TextReader::new(input)))),
        }
    }
}
