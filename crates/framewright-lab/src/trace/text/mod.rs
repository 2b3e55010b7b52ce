//! Text traces: lines in, events out, everything counted.
//!
//! ```text
//! Input ─▶ Lines ─▶ ftrace │ perf_script ─▶ Bodies ─▶ Event
//!          one buffer  the columns in front   the words behind the name
//! ```
//!
//! # Invariants
//! - **T1** Every line is counted once: as an event of its kind, or as what else it is.
//! - **T2** No line allocates, unless it brings a name that was not there before or is refused.
//! - **T3** What is in memory does not grow with the input.

mod body;
mod counts;
mod fields;
mod ftrace;
mod gfp;
mod lines;
mod perf_script;

pub use counts::TextCounts;

use super::{EventKind, Input, TraceError, TraceEvent};
use body::Bodies;
use fields::shown;
use ftrace::{Head, Special};
use lines::{TextLine, TextLines};

/// The two ways in which a text trace is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// As ftrace's `trace` and `trace_pipe` print it, or `trace-cmd report`.
    Ftrace,
    /// As `perf script` prints it.
    PerfScript,
}

/// Reads events from text, one at a time.
///
/// Which dialect it is shows in the first line that is neither blank nor a comment.
#[derive(Debug)]
pub struct TextReader {
    lines: TextLines,
    parser: Parser,
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
}

impl TextReader {
    /// Reads events from `input`.
    #[must_use]
    pub fn new(input: Input) -> Self {
        Self {
            lines: TextLines::new(input),
            parser: Parser {
                dialect: None,
                bodies: Bodies::new(),
                counts: TextCounts::default(),
                last_time_ns: 0,
            },
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
            let Some(line) = self.lines.next_line()? else {
                return self.end();
            };
            match self.parser.line(line) {
                Ok(Meaning::Event(event)) => return Ok(Some(event)),
                Ok(Meaning::Nothing) => {}
                Err(fault) => {
                    let (name, number) = (self.lines.name(), self.lines.number());
                    return Err(TraceError::at_line(name, number, fault));
                }
            }
        }
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

    /// The number of the line last read, counted from 1.
    #[must_use]
    pub fn line_number(&self) -> u64 {
        self.lines.number()
    }

    /// What error messages call the input.
    #[must_use]
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    fn end(&self) -> Result<Option<TraceEvent>, TraceError> {
        if self.parser.counts.lines == 0 {
            let message = "the input is empty, expected ftrace text, perf script text or PFT1";
            return Err(TraceError::new(self.name(), message));
        }
        Ok(None)
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
            Ok(head) => self.event(&head).map(Meaning::Event),
            Err(stop) => match ftrace::special(line) {
                Some(special) => Ok(self.special(special)),
                None => Err(stop.fault(line)),
            },
        }
    }

    fn perf_script(&mut self, line: &[u8]) -> Result<Meaning, String> {
        if let Some(head) = perf_script::head(line) {
            return match perf_script::lost(&head) {
                Some(events) => Ok(Meaning::Event(self.lost(head.time_ns, head.cpu, events))),
                None => self.event(&head).map(Meaning::Event),
            };
        }
        if perf_script::is_continuation(line) {
            self.counts.continuations += 1;
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
             FIELDS), perf script text (COMM PID [CPU] TIME: SYSTEM:EVENT: FIELDS) or PFT1",
            shown(line)
        ))
    }

    fn event(&mut self, head: &Head<'_>) -> Result<TraceEvent, String> {
        let kind = self.bodies.parse(head.name, head.body, &mut self.counts)?;
        self.counts.times_without_unit += u64::from(!head.has_unit);
        self.last_time_ns = head.time_ns;
        Ok(TraceEvent {
            time_ns: head.time_ns,
            cpu: head.cpu,
            pid: head.pid,
            kind,
        })
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
