//! A stream: a recording in one piece, as it is made while the machine is recorded.
//!
//! ```text
//!   #framewright stream 1        the first line
//!   #section NAME BYTES          a line, and this many bytes behind it: a file of the machine
//!   ...
//!   TASK-PID [CPU] ...           events, as ftrace prints them
//!   ...
//!   #section NAME BYTES          what the machine said afterwards
//! ```
//!
//! What is in front of the first event belongs to the beginning. Pieces of one name are put together. A task's name has
//! at most 15 bytes, so that no event's line is taken for a section's: the shortest name of one is `tasks`.
//!
//! ```text
//!   #framewright stream 2        the first line where events are as the kernel holds them
//!   #section formats.events BYTES  ...
//!   #section pages.CPU BYTES     pages of a CPU's buffer (`pages`)
//!   #section until BYTES         a time up to which all CPUs' events stand above
//! ```
//!
//! # Invariants
//! - **SR1** What was written before a stream was cut off is read: whole events, whole sections, page flags of all frames.
//! - **SR2** Memory: the sections and their names, of at most [`SECTIONS_BYTES_MAX`], and a byte a frame; never above the limit.
//!   Of pages those that wait (RP2).

use super::pages::{
    FORMATS, PAGES, PageFormats, PageMerger, PageSource, SECTION_BYTES_MAX, TakesRecords, UNTIL,
};
use super::state::SnapshotParts;
use super::{Input, MemoryLimit, Snapshot, TextReader, TraceError, TraceEvent};
use crate::printable;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// The first line of a stream.
pub const STREAM_MAGIC: &[u8] = b"#framewright stream 1\n";

/// The first line of a stream that has the kernel's pages in place of text.
pub const STREAM_MAGIC_PAGES: &[u8] = b"#framewright stream 2\n";

/// What a section's line begins with.
const SECTION: &[u8] = b"#section ";

/// The longest line of a section.
const SECTION_LINE_BYTES_MAX: usize = 128;

/// What all sections but the frames' may hold together.
const SECTIONS_BYTES_MAX: usize = 64 << 20;

/// The sections that hold page flags, in the order in which a stream has them.
const FLAGS: [&str; 2] = ["before.kpageflags", "after.kpageflags"];

/// The line in front of a section's bytes.
#[must_use]
pub fn section_line(name: &str, len_bytes: usize) -> Vec<u8> {
    format!("#section {name} {len_bytes}\n").into_bytes()
}

/// What a stream says besides its events.
#[derive(Debug, Default)]
pub struct StreamParts {
    /// Files of the machine by name, as `before.zoneinfo`; `tasks`, a number and a name in each line; `end`, a summary.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Frames before the first event.
    pub first: Option<Snapshot>,
    /// Frames after the last one.
    pub last: Option<Snapshot>,
    /// Whether it was cut off in its packing or within a section.
    pub is_cut: bool,
}

impl StreamParts {
    /// A file's text, if the stream has it.
    ///
    /// # Errors
    /// If it is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<&str>, String> {
        let text = self.files.get(name).map(|bytes| std::str::from_utf8(bytes));
        text.transpose().map_err(|e| {
            format!(
                "{name}: byte {} is not UTF-8, expected text",
                e.valid_up_to()
            )
        })
    }

    /// What tasks were called when it began.
    pub fn tasks(&self) -> impl Iterator<Item = (u32, &[u8])> {
        tasks_in(self.files.get("tasks").map_or(&[][..], Vec::as_slice))
    }

    /// Whether its recorder has ended it.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.is_cut && self.files.contains_key("end")
    }
}

/// A stream that is read: first what it says of the beginning, then its events, then the rest.
#[derive(Debug)]
pub struct StreamReader {
    lines: SectionFilter,
    formats: Option<PageFormats>,
}

impl StreamReader {
    /// Reads up to the first event.
    ///
    /// # Errors
    /// If the input cannot be read, is damaged or is no stream.
    pub fn open(input: Input) -> Result<Self, TraceError> {
        let mut lines = SectionFilter::new(input.ending_where_cut());
        let mut magic = vec![0; STREAM_MAGIC.len()];
        let mut filled = 0;
        while filled < magic.len() {
            match lines.input.read(&mut magic[filled..])? {
                0 => break,
                got => filled += got,
            }
        }
        lines.has_pages = magic == STREAM_MAGIC_PAGES;
        if magic != STREAM_MAGIC && !lines.has_pages {
            let expected = "a stream of another version, expected `#framewright stream 1` or `2`: a newer version of this program reads it";
            return Err(lines.input.error(expected));
        }
        lines.pass_sections()?;
        let formats = lines.take_formats()?;
        Ok(Self { lines, formats })
    }

    /// What it has said so far: after [`Self::open`], of the beginning.
    ///
    /// # Errors
    /// If a section means nothing.
    pub fn take_parts(&mut self) -> Result<StreamParts, TraceError> {
        let mut parts = std::mem::take(&mut self.lines.parts);
        // A line of events follows.
        if !self.lines.have().is_empty() {
            parts.open_flags = None;
        }
        let parts = parts.finish();
        parts.map_err(|fault| self.lines.input.error(fault))
    }

    /// Its events, and what is known of the rest once they are at their end.
    ///
    /// # Errors
    /// If the first bytes of the events cannot be read.
    pub fn into_events(self) -> Result<(TextReader, StreamRest), TraceError> {
        let name = self.lines.input.name().to_owned();
        let limit = self.lines.input.memory_limit();
        let has_pages = self.lines.has_pages;
        let rest = StreamRest(Arc::new(Mutex::new(self.lines)));
        if has_pages {
            let pages = PageEvents::new(name, self.formats, Arc::clone(&rest.0));
            return Ok((TextReader::of_pages(Box::new(pages)), rest));
        }
        let events = Input::from_reader(&name, FilteredEvents(Arc::clone(&rest.0)));
        // What an event's text may cost is bounded by the reduction.
        let events = TextReader::new(events?.with_memory_limit(limit));
        Ok((events, rest))
    }
}

/// What follows a stream's events.
#[derive(Debug)]
pub struct StreamRest(Arc<Mutex<SectionFilter>>);

impl StreamRest {
    /// What it has said behind the beginning. Once the events are at their end, that is all.
    ///
    /// # Errors
    /// If the stream could not be read, or a section means nothing.
    pub fn finish(self) -> Result<StreamParts, TraceError> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut parts = std::mem::take(&mut lines.parts);
        parts.is_cut |= lines.input.is_cut();
        let parts = parts.finish();
        parts.map_err(|fault| lines.input.error(fault))
    }
}

/// The events' side of a stream.
struct FilteredEvents(Arc<Mutex<SectionFilter>>);

impl Read for FilteredEvents {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let given = lines.events(out);
        given.map_err(|error| io::Error::other(error.message().to_owned()))
    }
}

/// The same of a stream that has pages.
#[derive(Debug)]
struct PageEvents {
    name: String,
    sections: Arc<Mutex<SectionFilter>>,
    /// Both are there unless the stream was cut off in front of them.
    pages: Option<(Arc<PageFormats>, PageMerger)>,
    /// All sections were read.
    is_read: bool,
    /// Nothing comes after a fault.
    is_faulty: bool,
}

impl PageEvents {
    fn new(
        name: String,
        formats: Option<PageFormats>,
        sections: Arc<Mutex<SectionFilter>>,
    ) -> Self {
        let pages = formats.map(|formats| {
            let formats = Arc::new(formats);
            (Arc::clone(&formats), PageMerger::new(formats))
        });
        Self {
            name,
            sections,
            pages,
            is_read: false,
            is_faulty: false,
        }
    }

    /// Reads the next section.
    fn read(&mut self, to: &mut dyn TakesRecords) -> Result<(), TraceError> {
        let mut sections = self.sections.lock().unwrap_or_else(PoisonError::into_inner);
        let section = sections.event_section()?;
        match (section, &mut self.pages) {
            (None, pages) => {
                self.is_read = true;
                if let Some((_, pages)) = pages {
                    pages.end();
                }
            }
            (Some((EventSection::Tasks, bytes, is_cut)), _) => {
                // Half a name says something else than the whole.
                let end = match is_cut {
                    true => memchr::memrchr(b'\n', &bytes).unwrap_or(0),
                    false => bytes.len(),
                };
                for (task, name) in tasks_in(&bytes[..end]) {
                    to.name_unnamed_task(task, name);
                }
            }
            (Some((EventSection::Pages(cpu), bytes, is_cut)), Some((_, pages))) => {
                let needed_bytes = pages.held_bytes() + bytes.capacity();
                let limit = sections.input.memory_limit().check(needed_bytes as u64);
                limit.map_err(|over| {
                    let fault = format!("what it holds of pages that wait for other CPUs' {over}");
                    sections.input.error(fault)
                })?;
                pages.push(cpu, bytes, is_cut);
            }
            (Some((EventSection::Until, bytes, is_cut)), Some((_, pages))) => {
                let text = std::str::from_utf8(&bytes).unwrap_or_default();
                match text.trim_end().parse() {
                    Ok(until_ns) => pages.set_until(until_ns),
                    // Half a number says nothing.
                    Err(_) if is_cut => {}
                    Err(_) => {
                        let text = printable::bytes(&bytes[..bytes.len().min(40)]);
                        let fault = format!("until: `{text}` is no time, expected nanoseconds");
                        return Err(sections.input.error(fault));
                    }
                }
            }
            (Some(_), None) => {
                let fault = format!(
                    "pages without the sections {}, expected these in front",
                    FORMATS.join(", ")
                );
                return Err(sections.input.error(fault));
            }
        }
        Ok(())
    }
}

impl PageSource for PageEvents {
    fn name(&self) -> &str {
        &self.name
    }

    fn next_event(&mut self, to: &mut dyn TakesRecords) -> Result<Option<TraceEvent>, TraceError> {
        while !self.is_faulty {
            if let Some((formats, pages)) = &mut self.pages {
                match pages.next() {
                    Ok(Some(merged)) => {
                        let place = merged.place();
                        let event = to.record(formats, merged);
                        return event.map(Some).map_err(|fault| {
                            TraceError::new(&self.name, format!("{place}: {fault}"))
                        });
                    }
                    Ok(None) => {}
                    Err(fault) => {
                        self.is_faulty = true;
                        return Err(TraceError::new(&self.name, fault));
                    }
                }
            }
            if self.is_read {
                break;
            }
            let read = self.read(to);
            self.is_faulty = read.is_err();
            read?;
        }
        Ok(None)
    }
}

/// Tasks with their names, a number, a blank and a name in each line.
fn tasks_in(text: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let lines = text.split(|&byte| byte == b'\n');
    lines.filter_map(|line| {
        let space = line.iter().position(|&byte| byte == b' ')?;
        let number = std::str::from_utf8(&line[..space]).ok()?.parse().ok()?;
        Some((number, &line[space + 1..]))
    })
}

/// What a section between a stream's beginning and its end is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventSection {
    /// Pages of a CPU.
    Pages(u16),
    /// The time up to which all events are there.
    Until,
    /// What tasks are called that no event has named.
    Tasks,
}

/// Parts that are not put together yet.
#[derive(Debug, Default)]
struct UnfinishedParts {
    files: BTreeMap<String, Vec<u8>>,
    flags: [Option<SnapshotParts>; 2],
    /// Which page flags the last section had, until something follows: before that they may be half.
    open_flags: Option<usize>,
    held_bytes: usize,
    is_cut: bool,
}

/// What a section costs besides its bytes and its name's.
const FILE_BYTES: usize = 128;

impl UnfinishedParts {
    fn push(&mut self, name: &str, bytes: &[u8], limit: MemoryLimit) -> Result<(), String> {
        let nth = FLAGS.iter().position(|flags| *flags == name);
        self.open_flags = nth;
        let frames: usize = self.flags.iter().flatten().map(SnapshotParts::len).sum();
        let mut held_bytes = self.held_bytes;
        match nth {
            Some(_) => {}
            None if self.files.contains_key(name) => held_bytes += bytes.len(),
            // Files that are empty cost something, too.
            None => held_bytes += bytes.len() + name.len() + FILE_BYTES,
        }
        if held_bytes > SECTIONS_BYTES_MAX {
            return Err(format!(
                "the sections hold more than {SECTIONS_BYTES_MAX} bytes, expected no more"
            ));
        }
        let new_frames = nth.map_or(0, |_| bytes.len() / 8 + 1);
        let over = |over| format!("what it says of the machine {over}");
        let needed_bytes = frames + new_frames + held_bytes;
        limit.check(needed_bytes as u64).map_err(over)?;
        self.held_bytes = held_bytes;
        if let Some(nth) = nth {
            self.flags[nth].get_or_insert_default().push(bytes);
        } else if let Some(file) = self.files.get_mut(name) {
            file.extend_from_slice(bytes);
        } else {
            self.files.insert(name.to_owned(), bytes.to_vec());
        }
        Ok(())
    }

    fn finish(mut self) -> Result<StreamParts, String> {
        let is_cut = self.is_cut;
        // The rest would be taken for frames that the machine does not have.
        if let Some(nth) = self.open_flags {
            self.flags[nth] = None;
        }
        let [first, last] = self
            .flags
            .map(|flags| match flags.map(SnapshotParts::finish) {
                // A stream that was cut there has no more to say.
                Some(Err(_)) if is_cut => Ok(None),
                other => other.transpose(),
            });
        let flags = |nth: usize| move |e: io::Error| format!("{}: {e}", FLAGS[nth]);
        Ok(StreamParts {
            files: self.files,
            first: first.map_err(flags(0))?,
            last: last.map_err(flags(1))?,
            is_cut,
        })
    }
}

/// Lines on one side, sections on the other.
#[derive(Debug)]
struct SectionFilter {
    input: Input,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Whether a line begins at `start`.
    at_line: bool,
    parts: UnfinishedParts,
    /// Whether events are pages.
    has_pages: bool,
    /// The section of events whose bytes follow, and how many, where one does.
    follows: Option<(EventSection, u64)>,
    /// Whether one has followed.
    has_events: bool,
}

impl SectionFilter {
    fn new(input: Input) -> Self {
        Self {
            input,
            buffer: vec![0; 64 << 10].into_boxed_slice(),
            start: 0,
            end: 0,
            at_line: true,
            parts: UnfinishedParts::default(),
            has_pages: false,
            follows: None,
            has_events: false,
        }
    }

    /// Reads on until this many bytes are there, or the end.
    fn fill(&mut self, wanted: usize) -> Result<(), TraceError> {
        if self.end - self.start < wanted && self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while self.end - self.start < wanted {
            match self.input.read(&mut self.buffer[self.end..])? {
                0 => break,
                got => self.end += got,
            }
        }
        Ok(())
    }

    fn have(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Takes all sections that follow here. Then a line or a section of events follows, or the end.
    fn pass_sections(&mut self) -> Result<(), TraceError> {
        while self.at_line {
            self.fill(SECTION.len())?;
            if !self.have().starts_with(SECTION) && !self.has_pages {
                return Ok(());
            }
            self.fill(SECTION_LINE_BYTES_MAX)?;
            let line = self.have();
            let line = &line[..line.len().min(SECTION_LINE_BYTES_MAX)];
            if line.is_empty() {
                return Ok(());
            }
            let Some(length) = memchr::memchr(b'\n', line) else {
                if line.len() < SECTION_LINE_BYTES_MAX {
                    // The stream ends in this line.
                    self.parts.is_cut = true;
                    self.start = self.end;
                    return Ok(());
                }
                return Err(self.input.error(bad_section(line)));
            };
            let words = line[..length].strip_prefix(SECTION);
            let Some((name, len_bytes)) = words.and_then(section) else {
                return Err(self.input.error(bad_section(&line[..length])));
            };
            self.start += length + 1;
            self.follows = self.of_events(&name)?.map(|of| (of, len_bytes));
            if self.follows.is_some() {
                self.has_events = true;
                self.parts.open_flags = None;
                return Ok(());
            }
            self.section(&name, len_bytes)?;
        }
        Ok(())
    }

    /// What of the events a section of that name has, where it is not the machine's.
    fn of_events(&self, name: &str) -> Result<Option<EventSection>, TraceError> {
        if !self.has_pages {
            return Ok(None);
        }
        if let Some(cpu) = name.strip_prefix(PAGES) {
            return match cpu.parse() {
                Ok(cpu) => Ok(Some(EventSection::Pages(cpu))),
                Err(_) => {
                    let fault = format!("{name}: no CPU's number, expected 0 to {}", u16::MAX);
                    Err(self.input.error(fault))
                }
            };
        }
        Ok(match name {
            UNTIL => Some(EventSection::Until),
            "tasks" if self.has_events => Some(EventSection::Tasks),
            _ => None,
        })
    }

    /// Takes the sections that say how pages are to be read, where a stream of pages has come so far.
    fn take_formats(&mut self) -> Result<Option<PageFormats>, TraceError> {
        let files = FORMATS.map(|name| self.parts.files.remove(name));
        if !self.has_pages || (files.iter().all(Option::is_none) && self.follows.is_none()) {
            return Ok(None);
        }
        if let [Some(machine), Some(page), Some(events)] = &files {
            let formats = PageFormats::read([machine, page, events]);
            return formats.map(Some).map_err(|fault| self.input.error(fault));
        }
        if self.follows.is_none() {
            // Cut off between them.
            return Ok(None);
        }
        let missing = FORMATS.iter().zip(&files).find(|(_, file)| file.is_none());
        let missing = missing.map_or("", |(name, _)| name);
        let fault = format!("pages without the section {missing}, expected it in front");
        Err(self.input.error(fault))
    }

    /// The next section of events with its bytes, and whether the stream was cut off in these.
    fn event_section(&mut self) -> Result<Option<(EventSection, Vec<u8>, bool)>, TraceError> {
        if self.follows.is_none() {
            self.pass_sections()?;
        }
        let Some((of, len_bytes)) = self.follows.take() else {
            return Ok(None);
        };
        if len_bytes > SECTION_BYTES_MAX as u64 {
            let fault = format!(
                "a section of events has {len_bytes} bytes, expected at most {SECTION_BYTES_MAX}"
            );
            return Err(self.input.error(fault));
        }
        let mut bytes = Vec::with_capacity(len_bytes as usize);
        while (bytes.len() as u64) < len_bytes {
            self.fill(1)?;
            let left = len_bytes as usize - bytes.len();
            let have = self.have();
            if have.is_empty() {
                self.parts.is_cut = true;
                return Ok(Some((of, bytes, true)));
            }
            let piece = &have[..have.len().min(left)];
            bytes.extend_from_slice(piece);
            self.start += piece.len();
        }
        Ok(Some((of, bytes, false)))
    }

    fn section(&mut self, name: &str, len_bytes: u64) -> Result<(), TraceError> {
        let mut left = len_bytes;
        // A file that is empty is there, too.
        let mut piece = 0;
        loop {
            let (from, to) = (self.start, self.start + piece);
            let limit = self.input.memory_limit();
            let pushed = self.parts.push(name, &self.buffer[from..to], limit);
            pushed.map_err(|fault| self.input.error(fault))?;
            self.start = to;
            left -= piece as u64;
            if left == 0 {
                return Ok(());
            }
            self.fill(1)?;
            let have = self.end - self.start;
            if have == 0 {
                self.parts.is_cut = true;
                // Half a file says something else than the whole.
                self.parts.files.remove(name);
                return Ok(());
            }
            piece = usize::try_from(left).map_or(have, |left| left.min(have));
        }
    }

    /// Gives whole lines of events, or a part of one that is longer than `out`.
    fn events(&mut self, out: &mut [u8]) -> Result<usize, TraceError> {
        let mut given = 0;
        while given < out.len() {
            if self.start == self.end {
                if given > 0 {
                    break;
                }
                self.fill(1)?;
                if self.start == self.end {
                    break;
                }
            }
            if self.at_line && self.buffer[self.start] == SECTION[0] {
                // What was read so far is given first: a live stream's sections may take their time.
                if given > 0 {
                    break;
                }
                self.pass_sections()?;
                if self.start == self.end {
                    break;
                }
            }
            let have = self.have();
            let have = &have[..have.len().min(out.len() - given)];
            let length = memchr::memchr(b'\n', have).map_or(have.len(), |at| at + 1);
            out[given..given + length].copy_from_slice(&have[..length]);
            self.at_line = have[length - 1] == b'\n';
            given += length;
            self.start += length;
        }
        Ok(given)
    }
}

fn section(words: &[u8]) -> Option<(String, u64)> {
    let mut words = std::str::from_utf8(words).ok()?.split(' ');
    let (name, len_bytes) = (words.next()?, words.next()?.parse().ok()?);
    let is_name = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
    (is_name && words.next().is_none()).then(|| (name.to_owned(), len_bytes))
}

fn bad_section(line: &[u8]) -> String {
    format!(
        "`{}` is no section's line, expected `#section NAME BYTES`",
        printable::bytes(line)
    )
}

#[cfg(test)]
mod tests {
    use super::super::pages::MergedRecord;
    use super::*;
    use std::io::Cursor;

    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
    const EVENTS: &str = "name: one\nID: 7\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

    /// Refuses all records, and keeps what it is told of tasks.
    #[derive(Default)]
    struct ToldTasks(Vec<(u32, Vec<u8>)>);

    impl TakesRecords for ToldTasks {
        fn record(&mut self, _: &PageFormats, _: MergedRecord<'_>) -> Result<TraceEvent, String> {
            Err("a record".to_owned())
        }

        fn name_unnamed_task(&mut self, task: u32, name: &[u8]) {
            self.0.push((task, name.to_vec()));
        }
    }

    fn section(name: &str, bytes: &[u8]) -> Vec<u8> {
        [section_line(name, bytes.len()), bytes.to_vec()].concat()
    }

    /// A page of one event.
    fn page() -> Vec<u8> {
        let record = [2_u8, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0];
        let head = [5_u64.to_le_bytes(), (record.len() as u64).to_le_bytes()];
        [&head.concat()[..], &record].concat()
    }

    fn events_of(behind_formats: &[u8], limit: MemoryLimit) -> PageEvents {
        let formats = ["byte_order little\n", PAGE, EVENTS];
        let formats = FORMATS.iter().zip(formats);
        let formats = formats.flat_map(|(name, text)| section(name, text.as_bytes()));
        let mut bytes = STREAM_MAGIC_PAGES.to_vec();
        bytes.extend(formats);
        bytes.extend_from_slice(behind_formats);
        let input = Input::from_reader("t", Cursor::new(bytes)).unwrap();
        let reader = StreamReader::open(input.with_memory_limit(limit)).unwrap();
        let sections = Arc::new(Mutex::new(reader.lines));
        PageEvents::new("t".to_owned(), reader.formats, sections)
    }

    #[test]
    fn a_task_whose_name_is_cut_off_behind_pages_has_none() {
        let begun = section("pages.0", &page());
        let told = b"#section tasks 40\n7 bash\n8 half a na";
        let mut events = events_of(&[&begun[..], told].concat(), MemoryLimit::default());
        let mut tasks = ToldTasks::default();
        assert!(events.next_event(&mut tasks).is_err(), "the one record");
        assert_eq!(events.next_event(&mut tasks), Ok(None));
        assert_eq!(tasks.0, [(7, b"bash".to_vec())]);
    }

    #[test]
    fn an_error_about_an_event_of_pages_names_no_line() {
        let events = events_of(b"", MemoryLimit::default());
        let reader = TextReader::of_pages(Box::new(events));
        assert_eq!(reader.before_number(), "t: record ");
        let text = Input::from_reader("t", Cursor::new(b"# tracer: nop\n".to_vec())).unwrap();
        assert_eq!(TextReader::new(text).before_number(), "t:");
    }

    #[test]
    fn rp2_pages_that_wait_take_no_more_than_may_be_taken() {
        let some = section("pages.0", &page().repeat(20_000));
        let limit = MemoryLimit::bytes(1 << 20);
        let mut events = events_of(&some.repeat(4), limit);
        let error = events.next_event(&mut ToldTasks::default()).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("t: what it holds of pages that wait for other CPUs' takes "),
            "{error}"
        );
    }
}
