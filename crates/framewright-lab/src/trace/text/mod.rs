//! Text traces: lines in, events out, everything counted. A stream's pages are read here, too: they hold the same events
//! before the kernel has printed them, and mean the same.
//!
//! ```text
//! Input ─▶ Lines ─▶ ftrace │ perf_script ─▶ Bodies ─▶ Event
//!          one buffer  the columns in front   the words behind the name
//! PageEvents ─▶ PageRecords ─────────────────────▲
//! ```
//!
//! # Invariants
//! - **T1** Every line is counted once: as an event of its kind, or as what else it is. So is every record of a page.
//! - **T2** No line allocates, unless it brings a name that was not there before or is refused.
//! - **T3** What is in memory does not grow with the input, but for names and call chains, each once and up to a bound.

mod ahead;
mod body;
mod counts;
mod fields;
mod ftrace;
mod gfp;
mod lines;
mod names;
mod perf_script;
mod record;

pub use counts::TextCounts;
pub(crate) use gfp::names as gfp_names;
pub use names::{TextNames, WhoAsked};

use super::pages::{MergedRecord, PageFormats, PageSource, TakesRecords};
use super::{CallChains, EventKind, Input, TraceError, TraceEvent};
use body::Bodies;
use fields::shown;
use ftrace::{Head, Special};
use lines::TextLine;
pub(in crate::trace) use lines::TextLines;
use record::PageRecords;

/// The two ways in which a text trace is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As ftrace's `trace` and `trace_pipe` print it, or `trace-cmd report`.
    Ftrace,
    /// As `perf script` prints it.
    PerfScript,
}

/// Reads events from text, one at a time; or from the pages of a stream that holds them as the kernel does.
///
/// Which dialect it is shows in the first line that is neither blank nor a comment.
#[derive(Debug)]
pub struct TextReader {
    source: EventSource,
    parser: Parser,
}

/// Where events come from.
#[derive(Debug)]
enum EventSource {
    Lines(Box<TextLines>),
    Pages(Box<dyn PageSource>),
}

/// What a line means.
enum Meaning {
    Event(TraceEvent),
    Nothing,
}

/// Everything but the lines, so that a line can be borrowed while it is read.
#[derive(Debug)]
struct Parser {
    dialect: Option<Dialect>,
    bodies: Bodies,
    counts: TextCounts,
    /// The time of the last event that had one.
    last_time_ns: u64,
    names: TextNames,
    asked: WhoAsked,
    /// The CPU whose last event the chain that is being read belongs to, and the chain so far.
    chain: Option<u16>,
    functions: Vec<u32>,
    /// By CPU, whether its last event was a request.
    requests: Vec<bool>,
    records: PageRecords,
}

impl TextReader {
    /// Reads events from `input`.
    #[must_use]
    pub fn new(input: Input) -> Self {
        Self::from_source(EventSource::Lines(Box::new(TextLines::new(input))))
    }

    /// Reads events from the pages of a stream.
    pub(in crate::trace) fn of_pages(pages: Box<dyn PageSource>) -> Self {
        Self::from_source(EventSource::Pages(pages))
    }

    fn from_source(source: EventSource) -> Self {
        Self {
            source,
            parser: Parser {
                dialect: None,
                bodies: Bodies::new(),
                counts: TextCounts::default(),
                last_time_ns: 0,
                names: TextNames::default(),
                asked: WhoAsked::default(),
                chain: None,
                functions: Vec::new(),
                requests: Vec::new(),
                records: PageRecords::default(),
            },
        }
    }

    /// Goes on with a further piece of the same text: names and what earlier lines have taught stay. A piece ends at the
    /// end of a line.
    pub(crate) fn go_on(&mut self, input: Input) {
        if let EventSource::Lines(lines) = &mut self.source {
            lines.go_on(input);
        }
    }

    /// The next event, or `None` at the end. Waits only while no whole line is there, so that a
    /// live pipe's events come as they are written.
    ///
    /// A last line without its end that is no whole event is counted as cut, not refused: that is
    /// how a live trace ends when its reader is stopped.
    ///
    /// # Errors
    /// - A line that is no event, comment or part of one: the error names it and what was
    ///   expected. The line is counted as refused and passed over; reading on is possible.
    /// - The input cannot be read, is cut off in its packing, or holds no text at all; there is
    ///   nothing after that.
    pub fn next_event(&mut self) -> Result<Option<TraceEvent>, TraceError> {
        loop {
            let lines = match &mut self.source {
                EventSource::Lines(lines) => lines,
                EventSource::Pages(pages) => return pages.next_event(&mut self.parser),
            };
            let Some(line) = lines.next_line()? else {
                self.parser.end_chain();
                return self.end();
            };
            match self.parser.line(line) {
                Ok(Meaning::Event(event)) => return Ok(Some(event)),
                Ok(Meaning::Nothing) => {}
                Err(fault) => {
                    return Err(TraceError::at_line(lines.name(), lines.number(), fault));
                }
            }
        }
    }

    /// Whether the text shows within so many lines that it is a trace: by its first line that is neither blank nor a comment,
    /// or by ftrace's own heading. What is read is passed over.
    pub(in crate::trace) fn shows_dialect(mut self, lines_max: u64) -> bool {
        let EventSource::Lines(lines) = &mut self.source else {
            return false;
        };
        while self.parser.dialect.is_none() && self.parser.counts.lines < lines_max {
            let Ok(Some(line)) = lines.next_line() else {
                return false;
            };
            // An event that lacks something has shown what it is all the same.
            if self.parser.line(line).is_err() {
                break;
            }
        }
        self.parser.dialect.is_some()
    }

    /// The asker: the name of the last event's task, and a call chain that has ended since this was asked. After the
    /// end it has the last chain.
    pub fn take_asked(&mut self) -> WhoAsked {
        std::mem::take(&mut self.parser.asked)
    }

    /// The names and call chains so far.
    #[must_use]
    pub fn names(&self) -> &TextNames {
        &self.parser.names
    }

    /// Says what a task is called, until an event says another name.
    pub fn name_task(&mut self, task: u32, name: &[u8]) {
        self.parser.names.name_task(task, name);
    }

    /// Says what a task is called in a list from before the events, until an event or a line says another name.
    pub fn name_listed_task(&mut self, task: u32, name: &[u8]) {
        self.parser.names.name_listed_task(task, name);
    }

    /// Keeps from here on what each task was called before the first event that names it
    /// ([`TextNames::before_events`]).
    pub fn keep_names_before_events(&mut self) {
        self.parser.names.keep_before();
    }

    /// What was read so far.
    #[must_use]
    pub fn counts(&self) -> &TextCounts {
        &self.parser.counts
    }

    /// The dialect, once a line has shown it.
    #[must_use]
    pub fn dialect(&self) -> Option<Dialect> {
        self.parser.dialect
    }

    /// The number of the line last read, counted from 1; of pages, how many records were read.
    #[must_use]
    pub fn line_number(&self) -> u64 {
        match &self.source {
            EventSource::Lines(lines) => lines.number(),
            EventSource::Pages(_) => self.parser.counts.lines,
        }
    }

    /// What stands in front of [`Self::line_number`] where an error names the place of an event.
    pub(crate) fn before_number(&self) -> String {
        match &self.source {
            EventSource::Lines(lines) => format!("{}:", lines.name()),
            EventSource::Pages(pages) => format!("{}: record ", pages.name()),
        }
    }

    /// What error messages call the input.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.source {
            EventSource::Lines(lines) => lines.name(),
            EventSource::Pages(pages) => pages.name(),
        }
    }

    fn end(&self) -> Result<Option<TraceEvent>, TraceError> {
        if self.parser.counts.lines == 0 {
            let message = "the input is empty, expected ftrace text, perf script text or PFT";
            return Err(TraceError::new(self.name(), message));
        }
        Ok(None)
    }
}

impl TakesRecords for Parser {
    fn record(
        &mut self,
        formats: &PageFormats,
        merged: MergedRecord<'_>,
    ) -> Result<TraceEvent, String> {
        self.counts.lines += 1;
        let (cpu, time_ns, record) = match merged {
            MergedRecord::Lost { cpu, events } => {
                return Ok(self.lost(self.last_time_ns, cpu, events));
            }
            MergedRecord::Event {
                cpu,
                time_ns,
                record,
                ..
            } => (cpu, time_ns, record),
        };
        let read = formats.of(record).and_then(|format| {
            let (bodies, counts) = (&mut self.bodies, &mut self.counts);
            let kind = self.records.parse(format, record, bodies, counts)?;
            Ok((format, kind))
        });
        let (format, kind) = read.inspect_err(|_| self.counts.refused_lines += 1)?;
        let (pid, is_interrupt) = formats.task_of(record);
        self.last_time_ns = time_ns;
        // What ftrace prints of a CPU without work; no other name is in a record.
        let name: &[u8] = if pid == 0 { b"<idle>" } else { b"" };
        self.asked.comm = self.names.comm_of(pid, name);
        self.asked.is_interrupt = is_interrupt;
        if let Some(named) = record::named_task(format, record, pid) {
            self.names.event_names(&named);
        }
        Ok(TraceEvent {
            time_ns,
            cpu,
            pid,
            kind,
        })
    }

    fn name_unnamed_task(&mut self, task: u32, name: &[u8]) {
        self.names.name_unnamed_task(task, name);
    }
}

impl Parser {
    fn line(&mut self, line: TextLine<'_>) -> Result<Meaning, String> {
        self.counts.lines += 1;
        if line.bytes.iter().all(|&b| b == b' ' || b == b'\t') {
            if line.is_ended || self.dialect.is_none() {
                self.counts.blank += 1;
            } else {
                self.counts.cut_last_line += 1;
            }
            return Ok(Meaning::Nothing);
        }
        let result = match self.dialect {
            Some(Dialect::Ftrace) => self.ftrace(line.bytes),
            Some(Dialect::PerfScript) => self.perf_script(line.bytes),
            None => self.first(line.bytes),
        };
        if result.is_err() {
            if !line.is_ended && self.dialect.is_some() {
                self.counts.cut_last_line += 1;
                return Ok(Meaning::Nothing);
            }
            self.counts.refused_lines += 1;
        }
        result
    }

    fn ftrace(&mut self, line: &[u8]) -> Result<Meaning, String> {
        match ftrace::head(line) {
            Ok(head) => {
                self.end_chain();
                let event = self.event(&head)?;
                if let Some(named) = names::named_task(head.name, head.body, head.pid) {
                    self.names.event_names(&named);
                }
                if head.name.starts_with(b"<") && self.is_request(head.cpu) {
                    self.chain = Some(head.cpu);
                }
                self.note_request(&head, event.kind);
                Ok(Meaning::Event(event))
            }
            Err(stop) => match ftrace::special(line) {
                Some(special) => {
                    match special {
                        Special::Continuation => self.call(names::ftrace_function(line)),
                        _ => self.end_chain(),
                    }
                    Ok(self.special(special))
                }
                None => Err(stop.fault(line)),
            },
        }
    }

    fn perf_script(&mut self, line: &[u8]) -> Result<Meaning, String> {
        if let Some(head) = perf_script::head(line) {
            self.end_chain();
            return match perf_script::lost(&head) {
                Some(events) => Ok(Meaning::Event(self.lost(head.time_ns, head.cpu, events))),
                None => {
                    let event = self.event(&head)?;
                    if let EventKind::Alloc { .. } = event.kind {
                        self.chain = Some(head.cpu);
                    }
                    Ok(Meaning::Event(event))
                }
            };
        }
        if perf_script::is_continuation(line) {
            self.counts.continuations += 1;
            self.call(names::perf_function(line));
        } else if line.starts_with(b"#") {
            self.counts.comments += 1;
        } else {
            return Err(perf_script::fault(line));
        }
        Ok(Meaning::Nothing)
    }

    /// A line before the dialect is known.
    fn first(&mut self, line: &[u8]) -> Result<Meaning, String> {
        if line.starts_with(b"# tracer:") {
            self.dialect = Some(Dialect::Ftrace);
        }
        match ftrace::special(line) {
            Some(special @ Special::Lost { .. }) => {
                self.dialect = Some(Dialect::Ftrace);
                return Ok(self.special(special));
            }
            Some(special) => return Ok(self.special(special)),
            None => {}
        }
        if ftrace::head(line).is_ok() {
            self.dialect = Some(Dialect::Ftrace);
            return self.ftrace(line);
        }
        if perf_script::head(line).is_some() {
            self.dialect = Some(Dialect::PerfScript);
            return self.perf_script(line);
        }
        Err(format!(
            "{} is no line of a trace, expected ftrace text (TASK-PID [CPU] FLAGS TIME: EVENT: \
             FIELDS), perf script text (COMM PID [CPU] TIME: SYSTEM:EVENT: FIELDS) or PFT",
            shown(line)
        ))
    }

    fn event(&mut self, head: &Head<'_>) -> Result<TraceEvent, String> {
        let kind = self.bodies.parse(head.name, head.body, &mut self.counts)?;
        self.counts.times_without_unit += u64::from(!head.has_unit);
        self.last_time_ns = head.time_ns;
        self.asked.comm = self.names.comm_of(head.pid, head.comm);
        self.asked.is_interrupt = head.is_interrupt;
        Ok(TraceEvent {
            time_ns: head.time_ns,
            cpu: head.cpu,
            pid: head.pid,
            kind,
        })
    }

    fn is_request(&self, cpu: u16) -> bool {
        self.requests.get(usize::from(cpu)) == Some(&true)
    }

    fn note_request(&mut self, head: &Head<'_>, kind: EventKind) {
        let is_request = matches!(kind, EventKind::Alloc { .. });
        let cpu = usize::from(head.cpu);
        if self.requests.len() <= cpu {
            self.requests.resize(cpu + 1, false);
        }
        self.requests[cpu] = is_request;
    }

    /// Takes a function of the chain that is being read, if one is.
    fn call(&mut self, function: Option<&[u8]>) {
        if self.chain.is_none() || self.functions.len() == CallChains::DEPTH_MAX {
            return;
        }
        let function = function.and_then(|function| self.names.function(function));
        self.functions.extend(function);
    }

    /// Ends the chain that is being read, if one is.
    fn end_chain(&mut self) {
        let Some(cpu) = self.chain.take() else {
            return;
        };
        if !self.functions.is_empty() {
            let chain = self.names.chain(&self.functions);
            self.asked.chain = chain.map(|chain| (cpu, chain));
            self.functions.clear();
        }
    }

    fn special(&mut self, special: Special) -> Meaning {
        match special {
            Special::Comment => self.counts.comments += 1,
            Special::Continuation => self.counts.continuations += 1,
            Special::Overwritten(events) => {
                self.counts.comments += 1;
                let so_far = &mut self.counts.overwritten_events;
                *so_far = so_far.saturating_add(events);
            }
            // The marker has no time of its own: it stands behind the event above.
            Special::Lost { cpu, events } => {
                return Meaning::Event(self.lost(self.last_time_ns, cpu, events));
            }
        }
        Meaning::Nothing
    }

    fn lost(&mut self, time_ns: u64, cpu: u16, events: Option<u64>) -> TraceEvent {
        self.counts.lost_lines += 1;
        match events {
            Some(n) => self.counts.lost_events = self.counts.lost_events.saturating_add(n),
            None => self.counts.lost_unknown += 1,
        }
        TraceEvent {
            time_ns,
            cpu,
            pid: 0,
            kind: EventKind::Lost(events.unwrap_or(0)),
        }
    }
}
