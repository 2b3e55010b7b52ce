//! The kernel's pages on their way into a stream: copied whole, and neither printed nor understood.
//!
//! Each CPU has a buffer of its own, and a reader of the stream wants all CPUs' events in one order. So the CPU that was
//! read least far comes next, and every few MiB, and whenever all CPUs are read, the stream says up to which time it has
//! all events (`until`). A reader holds back no more than that.

use super::outlet::TakesStream;
use super::stream_writer::{Pumped, StreamWriter, TakesEvents};
use crate::trace::{PAGES, PageFormats, SECTION_BYTES_MAX, UNTIL, kept_bytes};
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Pages of one CPU that are read at once.
const PAGES_AT_ONCE: usize = 16;

/// How much is written before the stream says again up to when it has all events.
const UNTIL_EVERY_BYTES: usize = 4 << 20;

/// A CPU takes the time of an event before it has written it, and may be stopped in between. What comes later than this is
/// out of order; the reduction counts it.
const LATE: Duration = Duration::from_millis(20);

/// How often the names of tasks are looked up, where only the kernel knows them.
const NAMES_EVERY: Duration = Duration::from_secs(1);

/// One CPU's buffer.
#[derive(Debug)]
struct CpuBuffer<R> {
    cpu: u16,
    pages: R,
    /// All its events up to this time are read.
    read_to_ns: u64,
}

/// All CPUs' buffers.
#[derive(Debug)]
pub(super) struct KernelPages<R> {
    buffers: Vec<CpuBuffer<R>>,
    formats: PageFormats,
    now: fn() -> u64,
    /// Since when all CPUs are being read, until they are.
    since_ns: Option<u64>,
    unsaid_bytes: usize,
    said_until_ns: u64,
    page: Box<[u8]>,
    section: Vec<u8>,
    /// The kernel's own list of tasks' names, where no other is to be had, and when it was read.
    names: Option<(PathBuf, Option<Instant>)>,
}

impl<R: Read> KernelPages<R> {
    /// `now` is the clock of the events, in nanoseconds.
    pub(super) fn new(
        buffers: impl IntoIterator<Item = (u16, R)>,
        formats: PageFormats,
        names: Option<PathBuf>,
        now: fn() -> u64,
    ) -> Self {
        let buffers = buffers.into_iter().map(|(cpu, pages)| CpuBuffer {
            cpu,
            pages,
            read_to_ns: 0,
        });
        Self {
            buffers: buffers.collect(),
            page: vec![0; formats.page_bytes()].into_boxed_slice(),
            formats,
            now,
            since_ns: None,
            unsaid_bytes: 0,
            said_until_ns: 0,
            section: Vec::new(),
            names: names.map(|path| (path, None)),
        }
    }

    /// Reads what the CPU has, up to some pages.
    fn read(&mut self, nth: usize, since_ns: u64) -> io::Result<()> {
        let buffer = &mut self.buffers[nth];
        self.section.clear();
        // The last page may be a whole one.
        let room = SECTION_BYTES_MAX.min(PAGES_AT_ONCE * self.page.len());
        while self.section.len() + self.page.len() <= room {
            let got = match buffer.pages.read(&mut self.page) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Ok(got) if got > 0 => got,
                // None for the moment.
                _ => {
                    buffer.read_to_ns = buffer.read_to_ns.max(since_ns);
                    return Ok(());
                }
            };
            let kept = kept_bytes(&self.formats, &self.page[..got]).map_err(|fault| {
                io::Error::other(format!("a page of CPU {}'s buffer: {fault}", buffer.cpu))
            })?;
            buffer.read_to_ns = buffer.read_to_ns.max(kept.time_ns);
            if kept.is_used {
                self.section.extend_from_slice(&self.page[..kept.len_bytes]);
            }
        }
        Ok(())
    }

    /// Says up to when all events are there.
    fn say_until<T: TakesStream>(&mut self, writer: &mut StreamWriter<T>) -> io::Result<()> {
        self.unsaid_bytes = 0;
        let read_to = self.buffers.iter().map(|buffer| buffer.read_to_ns).min();
        let until_ns = read_to.unwrap_or(0).saturating_sub(LATE.as_nanos() as u64);
        if until_ns <= self.said_until_ns {
            return Ok(());
        }
        self.said_until_ns = until_ns;
        writer.section(UNTIL, format!("{until_ns}\n").as_bytes())
    }

    /// Writes what tasks are called, in front of events of theirs.
    fn write_names<T: TakesStream>(&mut self, writer: &mut StreamWriter<T>) -> io::Result<()> {
        let Some((path, read)) = &mut self.names else {
            return Ok(());
        };
        if read.is_some_and(|read| read.elapsed() < NAMES_EVERY) {
            return Ok(());
        }
        *read = Some(Instant::now());
        let mut names = std::fs::read(path).unwrap_or_default();
        names.truncate(SECTION_BYTES_MAX);
        writer.section("tasks", &names)
    }
}

impl<R: Read> TakesEvents for KernelPages<R> {
    fn move_some<T: TakesStream>(&mut self, writer: &mut StreamWriter<T>) -> io::Result<Pumped> {
        let since_ns = *self.since_ns.get_or_insert_with(self.now);
        let buffers = self.buffers.iter().enumerate();
        let furthest_behind = buffers.min_by_key(|(_, buffer)| buffer.read_to_ns);
        let next = furthest_behind.filter(|(_, buffer)| buffer.read_to_ns < since_ns);
        let Some(nth) = next.map(|(nth, _)| nth) else {
            self.since_ns = None;
            self.say_until(writer)?;
            return Ok(Pumped::Idle);
        };
        self.read(nth, since_ns)?;
        if !self.section.is_empty() {
            self.write_names(writer)?;
            let name = format!("{PAGES}{}", self.buffers[nth].cpu);
            writer.section(&name, &self.section)?;
            self.unsaid_bytes += self.section.len();
            if self.unsaid_bytes > UNTIL_EVERY_BYTES {
                self.say_until(writer)?;
            }
        }
        Ok(Pumped::More)
    }
}
