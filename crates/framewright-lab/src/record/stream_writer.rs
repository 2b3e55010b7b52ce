//! A stream that is written: sections and events go in, bytes come out as they are taken.

use super::outlet::TakesStream;
use super::{LOOK, RecordError};
use crate::trace::section_line;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// zstd's level for the kernel's pages: half the time of level 3, and within a twentieth of what that makes of them.
pub(super) const LEVEL_OF_PAGES: i32 = -1;

/// zstd's level for text, of which it leaves a tenth.
pub(super) const LEVEL_OF_TEXT: i32 = 3;

/// This many bytes wait for the outlet at most before no event is read.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// A section of page flags has this many bytes at most.
const PIECE_BYTES: usize = 64 << 10;

/// What is written is whole up to so long ago, should the recorder be killed.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Why a stream takes nothing more.
#[derive(Debug)]
pub(super) enum StreamStop {
    /// Its reader has closed it.
    ReaderGone,
    /// Its disk is full.
    DiskFull,
    /// A signal came while it took nothing.
    Interrupted,
    /// The system says why.
    Failed(io::Error),
}

impl From<io::Error> for StreamStop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            // The last is a file as large as its file system has them: 4 GiB on a board's card.
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge => Self::DiskFull,
            _ => Self::Failed(error),
        }
    }
}

/// The stream's bytes that wait to be taken, packed or not.
enum StreamBody {
    Plain(Vec<u8>),
    Packed(Box<zstd::Encoder<'static, Vec<u8>>>),
}

impl StreamBody {
    fn waiting(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Packed(encoder) => encoder.get_mut(),
        }
    }

    fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(waiting) => {
                waiting.extend_from_slice(bytes);
                Ok(())
            }
            Self::Packed(encoder) => encoder.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Packed(encoder) => encoder.flush(),
        }
    }
}

pub(super) struct StreamWriter<T> {
    body: StreamBody,
    to: T,
    /// Bytes that were taken.
    pub(super) taken_bytes: u64,
    /// Events that went in: lines.
    pub(super) events: u64,
    /// Whether a line has no end yet.
    in_line: bool,
    flushed: Instant,
}

impl<T: TakesStream> StreamWriter<T> {
    /// Begins a stream with its first line; it is packed where it has a level of packing.
    pub(super) fn new(to: T, level: Option<i32>, magic: &[u8]) -> io::Result<Self> {
        let mut body = match level {
            None => StreamBody::Plain(Vec::new()),
            Some(level) => {
                let mut encoder = zstd::Encoder::new(Vec::new(), level)?;
                encoder.include_checksum(true)?;
                StreamBody::Packed(Box::new(encoder))
            }
        };
        body.push(magic)?;
        Ok(Self {
            body,
            to,
            taken_bytes: 0,
            events: 0,
            in_line: false,
            flushed: Instant::now(),
        })
    }

    /// Adds a section.
    pub(super) fn section(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        if std::mem::take(&mut self.in_line) {
            self.body.push(b"\n")?;
        }
        self.body.push(&section_line(name, bytes.len()))?;
        self.body.push(bytes)
    }

    /// Adds sections of one name with all that `from` has, and waits until they are taken.
    pub(super) fn sections(
        &mut self,
        name: &str,
        mut from: impl Read,
        interrupted: &AtomicBool,
    ) -> Result<(), StreamStop> {
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            match from.read(&mut piece) {
                Ok(0) => return self.wait(interrupted),
                Ok(got) => self.section(name, &piece[..got])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(StreamStop::Failed(error)),
            }
            if self.body.waiting().len() > WAITING_BYTES_MAX {
                self.wait(interrupted)?;
            }
        }
    }

    /// Adds events' text, cut anywhere.
    pub(super) fn events(&mut self, text: &[u8]) -> io::Result<()> {
        self.events += memchr::memchr_iter(b'\n', text).count() as u64;
        self.in_line = text.last().map_or(self.in_line, |&byte| byte != b'\n');
        self.body.push(text)
    }

    /// Offers what waits; whether all of it is taken.
    pub(super) fn give(&mut self) -> io::Result<bool> {
        let waiting = self.body.waiting();
        let mut given = 0;
        let result = loop {
            if given == waiting.len() {
                break Ok(true);
            }
            match self.to.take(&waiting[given..]) {
                Ok(0) => break Ok(false),
                Ok(taken) => given += taken,
                Err(error) => break Err(error),
            }
        };
        waiting.drain(..given);
        self.taken_bytes += given as u64;
        result
    }

    /// Waits until all that has been added is taken, or a signal comes.
    pub(super) fn wait(&mut self, interrupted: &AtomicBool) -> Result<(), StreamStop> {
        self.body.flush()?;
        while !self.give()? {
            if interrupted.load(Ordering::Relaxed) {
                return Err(StreamStop::Interrupted);
            }
            thread::sleep(LOOK.min(Duration::from_millis(10)));
        }
        Ok(())
    }

    /// Ends the stream, once all of it is taken.
    pub(super) fn finish(mut self, interrupted: &AtomicBool) -> Result<(T, u64), StreamStop> {
        if let StreamBody::Packed(encoder) = &mut self.body {
            encoder.do_finish()?;
        }
        while !self.give()? {
            if interrupted.load(Ordering::Relaxed) {
                return Err(StreamStop::Interrupted);
            }
            thread::sleep(LOOK.min(Duration::from_millis(10)));
        }
        Ok((self.to, self.taken_bytes))
    }

    pub(super) fn outlet(&mut self) -> &mut T {
        &mut self.to
    }

    /// Its outlet, with what waits given up.
    pub(super) fn into_outlet(self) -> T {
        self.to
    }
}

/// How far a pump has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pumped {
    /// There is nothing to do for the moment.
    Idle,
    /// There may be more.
    More,
}

/// Where events come from.
pub(super) trait TakesEvents {
    /// Moves some of what is there into the stream, without waiting: `Idle` where there is no more for the moment.
    ///
    /// # Errors
    /// What the system says.
    fn move_some<T: TakesStream>(&mut self, writer: &mut StreamWriter<T>) -> io::Result<Pumped>;

    /// Is told that tracing is off: from here on `Idle` says that nothing more can be read.
    fn end(&mut self);
}

/// Events as the kernel prints them.
pub(super) struct KernelText<R> {
    text: R,
    buffer: Box<[u8]>,
}

impl<R: Read> KernelText<R> {
    pub(super) fn new(text: R) -> Self {
        Self {
            text,
            buffer: vec![0; PIECE_BYTES].into_boxed_slice(),
        }
    }
}

impl<R: Read> TakesEvents for KernelText<R> {
    /// A read takes a page of the kernel's text at most.
    fn move_some<T: TakesStream>(&mut self, writer: &mut StreamWriter<T>) -> io::Result<Pumped> {
        match self.text.read(&mut self.buffer) {
            Ok(0) => Ok(Pumped::Idle),
            Ok(got) => writer.events(&self.buffer[..got]).map(|()| Pumped::More),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Pumped::Idle),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Pumped::More),
            Err(error) => Err(error),
        }
    }

    /// Its text is one for all CPUs, and empty once it is read.
    fn end(&mut self) {}
}

/// Moves events from the kernel into a stream, never more than a little at once.
pub(super) struct StreamPump<E, T> {
    pub(super) events: E,
    pub(super) writer: StreamWriter<T>,
    /// Where the disk has no more room than this, the recording ends: the end must be written, too.
    pub(super) kept_free: u64,
}

impl<E: TakesEvents, T: TakesStream> StreamPump<E, T> {
    /// Reads at once.
    const READS: u32 = 256;

    pub(super) fn new(events: E, writer: StreamWriter<T>, kept_free: u64) -> Self {
        Self {
            events,
            writer,
            kept_free,
        }
    }

    /// Moves what is there. It neither waits for the kernel nor for the stream's reader, so that signals are seen; what
    /// finds no room stays in the buffers, where newer events overwrite it in the end, which the kernel counts.
    pub(super) fn pump(&mut self) -> Result<Pumped, StreamStop> {
        for _ in 0..Self::READS {
            if !self.writer.give()? && self.writer.body.waiting().len() > WAITING_BYTES_MAX {
                return Ok(Pumped::Idle);
            }
            match self.events.move_some(&mut self.writer) {
                Ok(Pumped::More) => {}
                Ok(Pumped::Idle) => return self.look().map(|()| Pumped::Idle),
                Err(error) => {
                    // What was read up to there is the recording; that it could not be read on is what is said.
                    let _ = self.writer.body.flush().and_then(|()| self.writer.give());
                    return Err(error.into());
                }
            }
        }
        self.look().map(|()| Pumped::More)
    }

    fn look(&mut self) -> Result<(), StreamStop> {
        if self.writer.flushed.elapsed() >= FLUSH_EVERY {
            self.writer.flushed = Instant::now();
            self.writer.body.flush()?;
            self.writer.give()?;
        }
        match self.writer.to.room_bytes() {
            Some(room) if room < self.kept_free => Err(StreamStop::DiskFull),
            _ => Ok(()),
        }
    }

    /// Moves the rest of the events, of a kernel that traces no more.
    pub(super) fn drain(&mut self, interrupted: &AtomicBool) -> Result<(), StreamStop> {
        // The disk's last room is for this.
        self.kept_free = 0;
        // What was begun before knows nothing of the events since.
        self.events.end();
        loop {
            match self.pump() {
                Ok(Pumped::More) => {}
                Ok(Pumped::Idle) if self.writer.body.waiting().len() <= WAITING_BYTES_MAX => {
                    return Ok(());
                }
                Ok(Pumped::Idle) => thread::sleep(LOOK.min(Duration::from_millis(10))),
                Err(stop) => return Err(stop),
            }
            if interrupted.load(Ordering::Relaxed) {
                return Err(StreamStop::Interrupted);
            }
        }
    }
}

impl StreamStop {
    /// What it is where it may not be.
    pub(super) fn error(self, path: &std::path::Path) -> RecordError {
        let file =
            |what: &str| RecordError::File(format!("{}: {what}", crate::printable::path(path)));
        match self {
            Self::ReaderGone => file("its reader is gone before the recording has begun"),
            Self::DiskFull => file("the disk is full before the recording has begun"),
            Self::Interrupted => RecordError::Interrupted,
            Self::Failed(error) => RecordError::file(path, &error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Input, Recording, STREAM_MAGIC, StreamParts};
    use std::collections::VecDeque;
    use std::io::Cursor;

    /// A kernel whose text comes in these pieces, with a pause wherever one is empty.
    struct FakeEvents(VecDeque<Vec<u8>>);

    impl Read for FakeEvents {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            match self.0.pop_front() {
                Some(piece) if !piece.is_empty() => {
                    out[..piece.len()].copy_from_slice(&piece);
                    Ok(piece.len())
                }
                _ => Err(io::ErrorKind::WouldBlock.into()),
            }
        }
    }

    /// A reader that takes this many bytes at a look, and then says something else.
    #[derive(Default)]
    struct FakeOutlet {
        taken: Vec<u8>,
        at_once: usize,
        left: Option<usize>,
        ends: Option<io::ErrorKind>,
        room: Option<u64>,
        is_asked: bool,
    }

    impl TakesStream for FakeOutlet {
        fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Every second time it has no room.
            self.is_asked = !self.is_asked;
            let left = self.left.map_or(usize::MAX, |left| left - self.taken.len());
            let take = bytes.len().min(self.at_once).min(left);
            match self.ends {
                Some(kind) if left == 0 => return Err(kind.into()),
                _ if !self.is_asked => return Ok(0),
                _ => {}
            }
            self.taken.extend_from_slice(&bytes[..take]);
            Ok(take)
        }

        fn room_bytes(&self) -> Option<u64> {
            self.room
        }
    }

    fn line(nth: u32) -> Vec<u8> {
        format!(
            "            bash-7     [001] .....  17.{nth:06}: mm_page_free: pfn={nth} order=0\n"
        )
        .into_bytes()
    }

    fn pump(
        events: Vec<Vec<u8>>,
        outlet: FakeOutlet,
        is_packed: bool,
    ) -> StreamPump<KernelText<FakeEvents>, FakeOutlet> {
        let level = is_packed.then_some(LEVEL_OF_TEXT);
        let writer = StreamWriter::new(outlet, level, STREAM_MAGIC).unwrap();
        let events = KernelText::new(FakeEvents(events.into()));
        StreamPump::new(events, writer, 1000)
    }

    /// The times of a stream's events in microseconds, and what it says behind them.
    fn read_back(bytes: Vec<u8>) -> (Vec<u64>, StreamParts) {
        let input = Input::from_reader("t", Cursor::new(bytes)).unwrap();
        let Recording::Stream(stream) = Recording::from_input(input).unwrap() else {
            panic!("no stream")
        };
        let (mut reader, rest) = stream.into_events().unwrap();
        let mut times = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            times.push(event.time_ns / 1000 - 17_000_000);
        }
        (times, rest.finish().unwrap())
    }

    #[test]
    fn what_the_kernel_prints_comes_out_as_a_recording_through_a_slow_reader() {
        for is_packed in [false, true] {
            // Pieces end within lines, and the kernel pauses.
            let text: Vec<u8> = (0..5000).flat_map(line).collect();
            let mut pieces: Vec<Vec<u8>> = text.chunks(1000).map(<[u8]>::to_vec).collect();
            pieces.insert(3, Vec::new());
            let outlet = FakeOutlet {
                at_once: 700,
                ..FakeOutlet::default()
            };
            let mut pump = pump(pieces, outlet, is_packed);
            let no = AtomicBool::new(false);
            let flags = vec![0; 3 * PIECE_BYTES + 8];
            let write = pump.writer.sections("before.kpageflags", &flags[..], &no);
            write.unwrap();
            assert_eq!(pump.pump().unwrap(), Pumped::Idle, "the kernel pauses");
            assert_eq!(pump.pump().unwrap(), Pumped::More);
            pump.drain(&no).unwrap();
            assert_eq!(pump.writer.events, 5000);
            // The last line has its end although the kernel's text had none.
            pump.writer.events(b"# half").unwrap();
            pump.writer.section("end", b"as asked\n").unwrap();
            let (outlet, len_bytes) = pump.writer.finish(&no).unwrap();
            assert_eq!(outlet.taken.len() as u64, len_bytes);
            let (times, after) = read_back(outlet.taken);
            assert_eq!(times, (0..5000).collect::<Vec<u64>>());
            assert!(after.is_whole());
        }
    }

    #[test]
    fn a_reader_that_takes_nothing_is_not_waited_for_and_memory_does_not_grow() {
        let pieces = (0..200).map(|_| vec![b'\n'; PIECE_BYTES]).collect();
        let mut pump = pump(pieces, FakeOutlet::default(), false);
        for _ in 0..10 {
            assert_eq!(pump.pump().unwrap(), Pumped::Idle);
            let waiting = pump.writer.body.waiting().len();
            assert!(
                waiting <= WAITING_BYTES_MAX + PIECE_BYTES + 100,
                "{waiting}"
            );
        }
        // A signal is seen while it takes nothing.
        let yes = AtomicBool::new(true);
        let stop = pump.drain(&yes).unwrap_err();
        assert!(matches!(stop, StreamStop::Interrupted), "{stop:?}");
        let stop = pump.writer.finish(&yes).map(drop).unwrap_err();
        assert!(matches!(stop, StreamStop::Interrupted), "{stop:?}");
    }

    #[test]
    fn a_reader_that_is_gone_and_a_disk_that_is_full_are_told_apart() {
        for (kind, expected) in [
            (io::ErrorKind::BrokenPipe, "ReaderGone"),
            (io::ErrorKind::StorageFull, "DiskFull"),
            (io::ErrorKind::QuotaExceeded, "DiskFull"),
            (io::ErrorKind::FileTooLarge, "DiskFull"),
            (io::ErrorKind::PermissionDenied, "Failed"),
        ] {
            let outlet = FakeOutlet {
                at_once: 1000,
                left: Some(5000),
                ends: Some(kind),
                ..FakeOutlet::default()
            };
            let mut pump = pump((0..200).map(line).collect(), outlet, false);
            let stop = (0..1000).find_map(|_| pump.pump().err()).unwrap();
            assert!(format!("{stop:?}").starts_with(expected), "{stop:?}");
            // What was taken is a recording up to there.
            let (times, after) = read_back(pump.writer.into_outlet().taken);
            assert!(times.len() > 40 && !after.is_whole());
        }
    }

    #[test]
    fn a_disk_that_has_room_for_the_end_alone_ends_the_stream_and_the_end_is_written() {
        let outlet = FakeOutlet {
            at_once: 1 << 20,
            room: Some(999),
            ..FakeOutlet::default()
        };
        let mut pump = pump((0..50).map(line).collect(), outlet, true);
        let stop = pump.pump().unwrap_err();
        assert!(matches!(stop, StreamStop::DiskFull), "{stop:?}");
        let no = AtomicBool::new(false);
        pump.drain(&no).unwrap();
        pump.writer.section("end", b"the disk was full\n").unwrap();
        let (times, after) = read_back(pump.writer.finish(&no).unwrap().0.taken);
        assert_eq!((times.len(), after.is_whole()), (50, true));
    }
}
