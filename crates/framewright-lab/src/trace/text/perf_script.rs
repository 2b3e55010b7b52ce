//! The lines of `perf script`.
//!
//! ```text
//!             true 13087/13087 [001]  1477.870693971:          1 kmem:mm_page_alloc: page=.. pfn=..
//! └ comm ────────┘ └ pid/tid ┘ └cpu┘ └ time, us or ns ┘ └ period ┘ └ event ────────┘ └ body
//!         ffffffff8161ea8b __alloc_frozen_pages_noprof+0x26b ([kernel.kallsyms])
//! ```
//!
//! Every column in front of the event but the time may be missing, as `perf script -F` decides.

use super::fields::{FieldWords, decimal, shown};
use super::ftrace::{Head, time};

/// What is wrong with `line`, and what was expected.
#[cold]
pub(super) fn fault(line: &[u8]) -> String {
    format!(
        "no TIME: SYSTEM:EVENT: in {}, expected COMM PID [CPU] TIME: SYSTEM:EVENT: FIELDS",
        shown(line)
    )
}

/// A line's head, or `None` if it is no event.
///
/// A command's name may hold any byte; the time is the first word of its form that an event
/// follows.
pub(super) fn head(line: &[u8]) -> Option<Head<'_>> {
    let mut words = FieldWords::new(line);
    let none: (usize, &[u8]) = (0, &[]);
    let (mut before, mut last) = (none, none);
    while let Some((at, word)) = words.next() {
        if let Some((time_ns, true)) = time(word)
            && let Some((name, body)) = event(line, words.at())
        {
            let (cpu, (task_at, task)) = match cpu(last.1) {
                Some(cpu) => (cpu, before),
                None => (0, last),
            };
            let is_number = task.first().is_some_and(u8::is_ascii_digit)
                && task.iter().all(|b| b.is_ascii_digit() || *b == b'/');
            let comm_end = if is_number {
                task_at
            } else {
                task_at + task.len()
            };
            return Some(Head {
                comm: line[..comm_end].trim_ascii(),
                pid: pid(task),
                cpu,
                time_ns,
                has_unit: true,
                is_interrupt: false,
                name,
                body,
            });
        }
        (before, last) = (last, (at, word));
    }
    None
}

/// The event that follows the time: its name without the system, and its words.
fn event(line: &[u8], after_time: usize) -> Option<(&[u8], &[u8])> {
    let mut words = FieldWords::new(&line[after_time..]);
    let (mut at, mut word) = words.next()?;
    // The period, which stands in front of the event where it is asked for.
    if decimal(word).is_ok() {
        (at, word) = words.next()?;
    }
    if let Some(record) = word.strip_prefix(b"PERF_RECORD_") {
        let start = after_time + at + b"PERF_RECORD_".len();
        return Some((record, &line[start + record.len()..]));
    }
    let name = word.strip_suffix(b":")?;
    if name.is_empty() {
        return None;
    }
    let body = &line[after_time + at + word.len()..];
    // A tracepoint's name has its system in front; the rest are counters such as `cycles:u`.
    Some(match name.iter().position(|&b| b == b':') {
        Some(colon) if is_system(&name[..colon]) => (&name[colon + 1..], body),
        // Without its system it is a line of ftrace: columns in front mean something else there.
        None if name.starts_with(b"mm_") => return None,
        _ => (name, body),
    })
}

/// Whether the page allocator's events, or those beside them, belong to this system.
fn is_system(name: &[u8]) -> bool {
    matches!(name, b"kmem" | b"compaction" | b"migrate" | b"vmscan")
}

fn cpu(word: &[u8]) -> Option<u16> {
    let digits = word.strip_prefix(b"[")?.strip_suffix(b"]")?;
    u16::try_from(decimal(digits).ok()?).ok()
}

/// The thread's number from `TID` or `PID/TID`; 0 where the column is missing, and for the
/// nameless -1.
fn pid(word: &[u8]) -> u32 {
    let thread = word.rsplit(|&b| b == b'/').next().unwrap_or_default();
    decimal(thread)
        .ok()
        .and_then(|pid| u32::try_from(pid).ok())
        .unwrap_or(0)
}

/// The number of events that a line of the name `LOST` or `LOST_SAMPLES` says were lost.
pub(super) fn lost(head: &Head<'_>) -> Option<Option<u64>> {
    if !matches!(head.name, b"LOST" | b"LOST_SAMPLES") {
        return None;
    }
    Some(FieldWords::new(head.body).find_map(|(_, word)| decimal(word).ok()))
}

/// Whether a line belongs to the event above it: an address in a call chain.
pub(super) fn is_continuation(line: &[u8]) -> bool {
    matches!(line.first(), Some(b' ' | b'\t'))
        && FieldWords::new(line)
            .next()
            .is_some_and(|(_, word)| word.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_chain_is_told_from_a_command_of_hexadecimal_letters() {
        let chain = b"\tffffffff8161ea8b __alloc_frozen_pages_noprof+0x26b ([kernel.kallsyms])";
        assert!(head(chain).is_none() && is_continuation(chain));
        let event = b"            cafe 12 [001]  1.5: kmem:mm_page_free: pfn=1 order=0";
        let head = head(event).unwrap();
        assert_eq!(
            (head.comm, head.pid, head.cpu, head.name),
            (&b"cafe"[..], 12, 1, &b"mm_page_free"[..])
        );
        let comm = |line: &'static [u8]| super::head(line).unwrap().comm;
        assert_eq!(
            comm(b"  a b 12/12 1.5: kmem:mm_page_free: pfn=1 order=0"),
            b"a b"
        );
        assert_eq!(comm(b"make 1.5: kmem:mm_page_free: pfn=1 order=0"), b"make");
        assert_eq!(comm(b"7 [001] 1.5: kmem:mm_page_free: pfn=1 order=0"), b"");
    }
}
