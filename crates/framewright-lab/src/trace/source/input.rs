//! One input: a file or standard input, plain or compressed, read in bounded pieces.
//!
//! What it is shows in the first bytes, never in the name, so that a pipe is as good as a file:
//!
//! ```text
//! file or stdin ─▶ Source (counts, keeps 64 KiB) ─▶ nothing │ gzip │ zstd ─▶ Input
//! ```
//!
//! gzip comes from `zlib-rs`, in Rust. zstd comes from the C library, which `zstd-sys` carries and
//! builds with `cc`: Rust on Linux links with the same `cc`, so a machine that builds this crate
//! has it, and nothing is downloaded but crates. The decoders in Rust refuse windows above
//! 100 MiB, and recorded traces use up to 2^27 bytes.

use super::{MemoryLimit, RunningDigest};
use crate::printable;
use crate::trace::TraceError;
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::path::Path;

/// The largest window of a zstd stream that is decoded, as a power of two: 2^27 bytes are
/// 128 MiB, what `zstd --long=27` writes and the most that a reader must be ready for.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// How much of the compressed side is kept at a time.
const SOURCE_BYTES: usize = 64 << 10;

/// The longest text beside a trace that is read: a day's reference has 86,400 rows of some 80
/// bytes, and a machine of eight nodes a `/proc/pagetypeinfo` of 64 KiB.
const TEXT_BYTES_MAX: u64 = 64 << 20;

/// A text that is read as a whole, and what messages call it.
pub(crate) fn text_of(path: &Path) -> Result<(String, String), TraceError> {
    let mut input = Input::open(path)?;
    let text = input.read_text(TEXT_BYTES_MAX)?;
    Ok((input.name().to_owned(), text))
}

/// How an input is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As it is.
    Plain,
    /// gzip, one or several members.
    Gzip,
    /// zstd, one or several frames.
    Zstd,
}

impl Encoding {
    /// The encoding that starts with these bytes; an error names one that is known but not read.
    fn of(first: &[u8]) -> Result<Self, &'static str> {
        match first {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Ok(Self::Zstd),
            // A skippable frame, which parallel compressors write in front.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', ..] => Err("xz"),
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => Err("bzip2"),
            [0x04, 0x22, 0x4d, 0x18, ..] => Err("lz4"),
            [b'P', b'K', 3, 4, ..] => Err("zip"),
            _ => Ok(Self::Plain),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// The packed side: a buffered reader that knows how far it has come.
struct PackedSource {
    inner: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes taken from `inner`, whether consumed or still in the buffer.
    taken: u64,
}

impl PackedSource {
    fn new(inner: Box<dyn Read + Send>) -> Self {
        Self {
            inner,
            buffer: vec![0; SOURCE_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            taken: 0,
        }
    }

    /// The first bytes, as many as `wanted` unless the input is shorter; only before any read.
    fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        debug_assert!(self.start == 0 && wanted <= SOURCE_BYTES);
        while self.end < wanted {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(n) => {
                    self.end += n;
                    self.taken += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(&self.buffer[..self.end])
    }
}

impl Read for PackedSource {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let have = self.fill_buf()?;
        let n = have.len().min(out.len());
        out[..n].copy_from_slice(&have[..n]);
        self.consume(n);
        Ok(n)
    }
}

impl BufRead for PackedSource {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
            loop {
                match self.inner.read(&mut self.buffer) {
                    Ok(n) => {
                        self.end = n;
                        self.taken += n as u64;
                        break;
                    }
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    fn consume(&mut self, n: usize) {
        self.start = (self.start + n).min(self.end);
    }
}

enum InputBody {
    Plain(PackedSource),
    Gzip(Box<MultiGzDecoder<PackedSource>>),
    Zstd(zstd::stream::read::Decoder<'static, PackedSource>),
}

impl InputBody {
    fn source(&self) -> &PackedSource {
        match self {
            Self::Plain(source) => source,
            Self::Gzip(decoder) => decoder.get_ref(),
            Self::Zstd(decoder) => decoder.get_ref(),
        }
    }
}

/// A file or standard input, unpacked as it is read.
pub struct Input {
    name: String,
    encoding: Encoding,
    body: InputBody,
    /// Unpacked bytes that were looked at and not yet read.
    ahead: Vec<u8>,
    ahead_start: usize,
    /// Unpacked bytes handed out.
    given: u64,
    limit: MemoryLimit,
    digest: Option<RunningDigest>,
    /// Whether a packed stream that is cut off ends where it is cut, and whether one was.
    may_be_cut: bool,
    is_cut: bool,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Input")
            .field("name", &self.name)
            .field("encoding", &self.encoding)
            .field("given", &self.given)
            .finish_non_exhaustive()
    }
}

impl Input {
    /// Opens the file at `path`, or standard input for `-`.
    ///
    /// Waits for the first bytes, which tell the encoding. Holds 64 KiB of the packed side and,
    /// for zstd, a window of at most 128 MiB; never the whole file.
    ///
    /// # Errors
    /// If the file cannot be opened or read, or is packed in a way that is not read here.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        if path.as_os_str() == "-" {
            return Self::from_reader("stdin", io::stdin());
        }
        let name = path.to_string_lossy();
        match File::open(path) {
            Ok(file) => Self::from_reader(&name, file),
            Err(e) => Err(TraceError::new(&name, format!("cannot open the file: {e}"))),
        }
    }

    /// Reads from `inner`; `name` stands in error messages.
    ///
    /// # Errors
    /// If the first bytes cannot be read, or show a packing that is not read here.
    pub fn from_reader(name: &str, inner: impl Read + Send + 'static) -> Result<Self, TraceError> {
        let mut source = PackedSource::new(Box::new(inner));
        // Six bytes tell every format that `Encoding::of` knows.
        let first = source
            .peek(6)
            .map_err(|e| TraceError::new(name, format!("cannot read: {e}")))?;
        let encoding = Encoding::of(first).map_err(|other| {
            TraceError::new(
                name,
                format!("the input is packed with {other}, expected plain, gzip or zstd"),
            )
        })?;
        let body = match encoding {
            Encoding::Plain => InputBody::Plain(source),
            Encoding::Gzip => InputBody::Gzip(Box::new(MultiGzDecoder::new(source))),
            Encoding::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(source)
                    .and_then(|mut d| d.window_log_max(ZSTD_WINDOW_LOG_MAX).map(|()| d))
                    .map_err(|e| TraceError::new(name, format!("cannot decode zstd: {e}")))?;
                InputBody::Zstd(decoder)
            }
        };
        Ok(Self {
            name: printable::text(name),
            encoding,
            body,
            ahead: Vec::new(),
            ahead_start: 0,
            given: 0,
            limit: MemoryLimit::default(),
            digest: None,
            may_be_cut: false,
            is_cut: false,
        })
    }

    /// What error messages call it: the path, printable (P7), or `stdin`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same input, with another limit on what its reader may hold.
    #[must_use]
    pub fn with_memory_limit(self, limit: MemoryLimit) -> Self {
        Self { limit, ..self }
    }

    /// The same input, which adds what is read of it to a digest.
    #[must_use]
    pub(crate) fn with_digest(self, digest: RunningDigest) -> Self {
        Self {
            digest: Some(digest),
            ..self
        }
    }

    /// The same input, which ends where its packing is cut off, and says so ([`Self::is_cut`]).
    #[must_use]
    pub(crate) fn ending_where_cut(self) -> Self {
        Self {
            may_be_cut: true,
            ..self
        }
    }

    /// Whether the packing was cut off where the input ended.
    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What a reader of this input may hold.
    #[must_use]
    pub fn memory_limit(&self) -> MemoryLimit {
        self.limit
    }

    /// How it is packed.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// The next unpacked bytes without reading past them: `wanted`, or fewer at the end.
    ///
    /// # Errors
    /// As [`Input::read`].
    pub fn peek(&mut self, wanted: usize) -> Result<&[u8], TraceError> {
        let mut piece = [0; 64];
        while self.ahead.len() - self.ahead_start < wanted {
            let missing = wanted - (self.ahead.len() - self.ahead_start);
            let room = missing.min(piece.len());
            let n = self.read_body(&mut piece[..room])?;
            if n == 0 {
                break;
            }
            self.ahead.extend_from_slice(&piece[..n]);
        }
        let have = &self.ahead[self.ahead_start..];
        Ok(&have[..have.len().min(wanted)])
    }

    /// Fills some of `out` with unpacked bytes and says how many; 0 only at the end, or for an
    /// empty `out`. Returns what is there, so that a live pipe is read as it comes.
    ///
    /// # Errors
    /// If reading fails, or the packed stream is cut off or damaged; the message names the byte.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, TraceError> {
        let n = self.read_undigested(out)?;
        if let Some(digest) = &self.digest {
            digest.add(&out[..n]);
        }
        Ok(n)
    }

    fn read_undigested(&mut self, out: &mut [u8]) -> Result<usize, TraceError> {
        let have = &self.ahead[self.ahead_start..];
        if !have.is_empty() {
            let n = have.len().min(out.len());
            out[..n].copy_from_slice(&have[..n]);
            self.ahead_start += n;
            self.given += n as u64;
            return Ok(n);
        }
        let n = self.read_body(out)?;
        self.given += n as u64;
        Ok(n)
    }

    /// Appends the next `len_bytes` unpacked bytes to `out`, or fewer at the end, and says how
    /// many. Memory grows with what is read, not with what is asked for.
    ///
    /// # Errors
    /// As [`Input::read`].
    pub fn read_up_to(&mut self, len_bytes: u64, out: &mut Vec<u8>) -> Result<u64, TraceError> {
        // Small enough that a wrong length costs nothing, large enough to be cheap.
        const PIECE: usize = 1 << 20;
        let start = out.len();
        let mut filled = start;
        let result = loop {
            let left = len_bytes - (filled - start) as u64;
            if left == 0 {
                break Ok(());
            }
            if filled == out.len() {
                let room = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
                out.resize(filled + room, 0);
            }
            match self.read(&mut out[filled..]) {
                Ok(0) => break Ok(()),
                Ok(n) => filled += n,
                Err(e) => break Err(e),
            }
        };
        out.truncate(filled);
        result.map(|()| (filled - start) as u64)
    }

    /// All of a text of at most `len_bytes_max` bytes.
    ///
    /// # Errors
    /// As [`Input::read`], and if the text is longer or is not UTF-8.
    pub fn read_text(&mut self, len_bytes_max: u64) -> Result<String, TraceError> {
        let mut bytes = Vec::new();
        self.read_up_to(len_bytes_max, &mut bytes)?;
        if !self.peek(1)?.is_empty() {
            return Err(self.error(format!(
                "the text is longer than {len_bytes_max} bytes, expected no more"
            )));
        }
        String::from_utf8(bytes).map_err(|e| {
            let at = e.utf8_error().valid_up_to();
            self.error(format!("byte {at} is not UTF-8, expected text"))
        })
    }

    /// An error about this input.
    #[must_use]
    pub fn error(&self, message: impl Into<String>) -> TraceError {
        TraceError::new(&self.name, message)
    }

    fn read_body(&mut self, out: &mut [u8]) -> Result<usize, TraceError> {
        let result = match &mut self.body {
            InputBody::Plain(source) => source.read(out),
            InputBody::Gzip(decoder) => decoder.read(out),
            InputBody::Zstd(decoder) => decoder.read(out),
        };
        match result {
            Err(e) if self.may_be_cut && e.kind() == io::ErrorKind::UnexpectedEof => {
                self.is_cut = true;
                Ok(0)
            }
            result => result.map_err(|e| self.explain(&e)),
        }
    }

    /// A decoder's error, with the place in the packed input.
    fn explain(&self, error: &io::Error) -> TraceError {
        let source = self.body.source();
        let packed = self.encoding.name();
        if error.raw_os_error().is_some() || self.encoding == Encoding::Plain {
            let at = source.taken;
            return self.error(format!("cannot read at byte {at}: {error}"));
        }
        if error.kind() == io::ErrorKind::UnexpectedEof {
            let at = source.taken;
            return self.error(format!(
                "the {packed} stream ends early at byte {at} (the file is cut off)"
            ));
        }
        // Where the decoder stood: what it had been given less what it had not yet taken.
        let at = source.taken - (source.end - source.start) as u64;
        self.error(format!(
            "the {packed} stream is damaged at or before byte {at}: {error}"
        ))
    }
}
