//! The lines of ftrace's `trace` and `trace_pipe`, and of `trace-cmd report`.
//!
//! ```text
//!            bash-21807   (  13442) [001] ...2.  1781.547572: mm_page_free: page=.. pfn=0x15969d order=0
//! └── TASK, 16 ──┘└ PID ┘ └ group ┘ CPU   flags  TIME         event         body
//! ```
//!
//! The group is there with the option `record-tgid`. The flags have 4 characters in kernels up to
//! 5.12, 5 since, more on real-time kernels, and are not there with the option `noirq-info`. The
//! task may hold any byte, blanks, dashes and brackets included; what follows it may not, and that
//! decides where it ends.

use super::fields::{decimal, shown, time_ns};
use crate::steps;

/// What stands in front of an event's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head<'a> {
    /// The task's name, without blanks around it.
    pub(super) comm: &'a [u8],
    pub(super) pid: u32,
    pub(super) cpu: u16,
    pub(super) time_ns: u64,
    /// Whether the time has seconds and a fraction; a bare number has no unit.
    pub(super) has_unit: bool,
    /// Whether the flags say that an interrupt had stopped the task.
    pub(super) is_interrupt: bool,
    pub(super) name: &'a [u8],
    pub(super) body: &'a [u8],
}

/// How far a line could be read, in the order of its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ReadUpTo {
    Task,
    Cpu,
    Time,
    Event,
}

impl ReadUpTo {
    /// What is wrong with `line`, and what was expected.
    #[cold]
    pub(super) fn fault(self, line: &[u8]) -> String {
        let wrong = match self {
            Self::Task => "no TASK-PID",
            Self::Cpu => "no CPU in brackets after TASK-PID",
            Self::Time => "no TIME with a colon after the CPU",
            Self::Event => "no event name with a colon after the TIME",
        };
        format!(
            "{wrong} in {}, expected TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS",
            shown(line)
        )
    }
}

/// A line that stands for itself, without a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    /// A header, or a line that only structures the text.
    Comment,
    /// How many events were written and are no longer there.
    Overwritten(u64),
    /// A line of a stack.
    Continuation,
    /// Lost events; `None` where the number is not said.
    Lost { cpu: u16, events: Option<u64> },
}

/// The column that the kernel pads a task's name to.
const TASK_COLUMNS: usize = 16;

/// Where a task's name has ended at last. Kernels keep 16 bytes of it and tools pad it to some more;
/// without a bound, a line of nothing but dashes would be read as often as it has some.
const TASK_BYTES_MAX: usize = 1024;

/// Flags of a hard or soft interrupt, and of one that may not be masked. In no column do they stand for anything else.
const INTERRUPT: &[u8] = b"hHsZz";

/// A line's head, or how far it could be read.
pub(super) fn head(line: &[u8]) -> Result<Head<'_>, ReadUpTo> {
    // Where the kernel itself puts it, whatever the name in front says.
    if line.get(TASK_COLUMNS) == Some(&b'-')
        && let Ok(head) = after_task(line, TASK_COLUMNS + 1)
    {
        return Ok(head);
    }
    // A tool may have cut the blanks in front, or left the name without padding.
    let mut furthest = ReadUpTo::Task;
    for dash in memchr::memchr_iter(b'-', &line[..line.len().min(TASK_BYTES_MAX)]) {
        steps::add(1);
        match after_task(line, dash + 1) {
            Ok(head) => return Ok(head),
            Err(stop) => furthest = furthest.max(stop),
        }
    }
    Err(furthest)
}

fn skip_blanks(line: &[u8], mut at: usize) -> usize {
    while line.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

fn skip_digits(line: &[u8], mut at: usize) -> usize {
    while line.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    at
}

fn skip_word(line: &[u8], mut at: usize) -> usize {
    while line.get(at).is_some_and(|&b| b != b' ') {
        at += 1;
    }
    at
}

/// The head of `line` if its task ends in front of `at`, where the PID starts.
fn after_task(line: &[u8], at: usize) -> Result<Head<'_>, ReadUpTo> {
    let start_of_pid = at;
    let end = skip_digits(line, at);
    let pid = decimal(&line[at..end])
        .ok()
        .and_then(|pid| u32::try_from(pid).ok())
        .ok_or(ReadUpTo::Task)?;
    let mut at = skip_blanks(line, end);
    if at == end {
        return Err(ReadUpTo::Task);
    }
    if line.get(at) == Some(&b'(') {
        let group = &line[at + 1..];
        let close = group
            .iter()
            .position(|b| !matches!(b, b'0'..=b'9' | b'-' | b' '));
        match close {
            Some(close) if group[close] == b')' => at = skip_blanks(line, at + 1 + close + 1),
            _ => return Err(ReadUpTo::Cpu),
        }
    }
    if line.get(at) != Some(&b'[') {
        return Err(ReadUpTo::Cpu);
    }
    let end = skip_digits(line, at + 1);
    let cpu = decimal(&line[at + 1..end])
        .ok()
        .and_then(|cpu| u16::try_from(cpu).ok())
        .ok_or(ReadUpTo::Cpu)?;
    if line.get(end) != Some(&b']') || line.get(end + 1) != Some(&b' ') {
        return Err(ReadUpTo::Cpu);
    }
    let start = skip_blanks(line, end + 1);
    let end = skip_word(line, start);
    let (time, is_interrupt, end) = match time(&line[start..end]) {
        Some(time) => (time, false, end),
        // Flags, then.
        None => {
            let flags = &line[start..end];
            let start = skip_blanks(line, end);
            let end = skip_word(line, start);
            // 4 and 5 are what kernels print; real-time ones have added up to two more.
            if !(1..=8).contains(&flags.len()) {
                return Err(ReadUpTo::Time);
            }
            let is_interrupt = flags.iter().any(|flag| INTERRUPT.contains(flag));
            let time = time(&line[start..end]).ok_or(ReadUpTo::Time)?;
            (time, is_interrupt, end)
        }
    };
    let (name, body) = event(&line[skip_blanks(line, end)..]).ok_or(ReadUpTo::Event)?;
    Ok(Head {
        comm: line[..start_of_pid - 1].trim_ascii(),
        pid,
        cpu,
        time_ns: time.0,
        has_unit: time.1,
        is_interrupt,
        name,
        body,
    })
}

/// The time in a word that ends with a colon, and whether it has a unit.
pub(super) fn time(word: &[u8]) -> Option<(u64, bool)> {
    let text = word.strip_suffix(b":")?;
    Some((time_ns(text)?, text.contains(&b'.')))
}

/// Splits `name: body`. The function tracer's lines and stack markers have no colon and are
/// events of the names `<-` and the marker.
fn event(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => at += 1,
            b':' if at > 0 && matches!(text.get(at + 1), None | Some(b' ')) => {
                return Some((&text[..at], text.get(at + 2..).unwrap_or_default()));
            }
            _ => break,
        }
    }
    other_event(text)
}

/// What is written without the name of an event in front.
#[cold]
fn other_event(text: &[u8]) -> Option<(&[u8], &[u8])> {
    if text.starts_with(b"<") && text.ends_with(b">") {
        return Some((text, &[]));
    }
    if let Some(arrow) = memchr::memmem::find(text, b" <-") {
        return Some((b"<-", &text[arrow + 3..]));
    }
    // `trace_printk` writes the name or the address of its caller, with an offset, and with a
    // module in brackets behind a blank.
    let colon = text.iter().position(|&b| b == b':')?;
    let name = &text[..colon];
    let well_formed = !name.is_empty()
        && matches!(text.get(colon + 1), None | Some(b' '))
        && (name.iter().all(u8::is_ascii_graphic)
            || memchr::memmem::find(name, b" [").is_some() && name.ends_with(b"]"));
    well_formed.then(|| (name, text.get(colon + 2..).unwrap_or_default()))
}

/// A line that is no event by its form, or `None`.
pub(super) fn special(line: &[u8]) -> Option<Special> {
    let first = *line.first()?;
    match first {
        b'#' => Some(overwritten(line).map_or(Special::Comment, Special::Overwritten)),
        b' ' | b'=' => line[skip_blanks(line, 0)..]
            .starts_with(b"=> ")
            .then_some(Special::Continuation),
        b'C' => lost(line).or_else(|| {
            (line.starts_with(b"CPU ") && line.ends_with(b" is empty")).then_some(Special::Comment)
        }),
        // What trace-cmd writes first.
        b'c' => line.starts_with(b"cpus=").then_some(Special::Comment),
        b'v' => line.starts_with(b"version = ").then_some(Special::Comment),
        _ => None,
    }
}

/// `CPU:0 [LOST 123 EVENTS]`, `CPU:0 [LOST EVENTS]`, and trace-cmd's `[123 EVENTS DROPPED]`.
fn lost(line: &[u8]) -> Option<Special> {
    let rest = line.strip_prefix(b"CPU:")?;
    let end = skip_digits(rest, 0);
    let cpu = u16::try_from(decimal(&rest[..end]).ok()?).ok()?;
    let text = rest[end..].strip_prefix(b" [")?.strip_suffix(b"]")?;
    let events = match text {
        b"LOST EVENTS" | b"EVENTS DROPPED" => None,
        _ => {
            let number = text
                .strip_prefix(b"LOST ")
                .and_then(|t| t.strip_suffix(b" EVENTS"))
                .or_else(|| text.strip_suffix(b" EVENTS DROPPED"))?;
            Some(decimal(number).ok()?)
        }
    };
    Some(Special::Lost { cpu, events })
}

/// From `# entries-in-buffer/entries-written: 90/100`, the difference where there is one.
#[cold]
fn overwritten(line: &[u8]) -> Option<u64> {
    let at = memchr::memmem::find(line, b"entries-in-buffer/entries-written:")?;
    let numbers = line[at..].split(|&b| b == b':').nth(1)?;
    let numbers = &numbers[skip_blanks(numbers, 0)..];
    let slash = skip_digits(numbers, 0);
    if numbers.get(slash) != Some(&b'/') {
        return None;
    }
    let end = skip_digits(numbers, slash + 1);
    let held = decimal(&numbers[..slash]).ok()?;
    let written = decimal(&numbers[slash + 1..end]).ok()?;
    written.checked_sub(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p5_a_line_of_dashes_is_tried_at_so_many_of_them_whatever_its_length() {
        // Each of them could be the one in front of the PID, and be followed by a whole line.
        for pieces in [1_000, 25_000] {
            let line = "-1 [0] 1: ".repeat(pieces);
            let steps = steps::of(|| assert_eq!(head(line.as_bytes()), Err(ReadUpTo::Event)));
            assert_eq!(steps, TASK_BYTES_MAX.div_ceil(10) as u64, "{pieces} pieces");
        }
    }
}
