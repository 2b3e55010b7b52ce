//! The column of what the recording kernel did about memory.

use super::varint;
use crate::trace::{KernelWork, Trace, TracedWork, WorkEvent, WorkKind};
use framewright::Order;

/// The same request as before.
const AGAIN: u8 = 1 << 3;

/// Reads the column of a trace of this many operations.
pub(super) fn parse(mut bytes: &[u8], nops: u32) -> Result<KernelWork, String> {
    let Some((&bits, rest)) = bytes.split_first() else {
        return Ok(KernelWork::default());
    };
    bytes = rest;
    let traced = TracedWork::from_bits(bits).filter(|_| bits != 0);
    let traced = traced.ok_or_else(|| {
        format!("the column `work` says {bits} of what was traced, expected 1 to 7")
    })?;
    let mut events = Vec::new();
    let mut at = 0;
    while !bytes.is_empty() {
        let nth = events.len();
        let ends = || format!("the column `work` ends too early or is damaged at entry {nth}");
        let passed = varint::take(&mut bytes).ok_or_else(ends)?;
        at = u64::checked_add(at, passed)
            .filter(|&at| at <= u64::from(nops))
            .ok_or_else(|| {
                format!("entry {nth} of the column `work` is behind the last of {nops} operations")
            })?;
        let kind = take_kind(&mut bytes).ok_or_else(ends)?;
        if !traced.has(kind) {
            return Err(format!(
                "entry {nth} of the column `work` is of a kind that was not traced, expected none"
            ));
        }
        events.push(WorkEvent {
            at: at as u32,
            kind,
        });
    }
    Ok(KernelWork { traced, events })
}

fn take_kind(bytes: &mut &[u8]) -> Option<WorkKind> {
    let (&code, rest) = bytes.split_first()?;
    *bytes = rest;
    let (is_again, order) = (code & AGAIN != 0, Order::new(code >> 4)?);
    // The numbers are those of `code_of`, which the end holds them against.
    let kind = match code & 7 {
        0 => WorkKind::Woke {
            node: take_node(bytes)?,
            order,
        },
        1 => WorkKind::Slept {
            node: take_node(bytes)?,
        },
        2 => WorkKind::Reclaimed {
            order,
            ns: varint::take(bytes)?,
            frames: varint::take(bytes)?,
            is_again,
        },
        3 => WorkKind::Compacted {
            order,
            ns: varint::take(bytes)?,
            is_again,
        },
        4 => WorkKind::BackgroundCompacted {
            ns: varint::take(bytes)?,
        },
        _ => return None,
    };
    // What is read is written again as it was: no bit without a meaning is set.
    (code_of(kind) == Some(code)).then_some(kind)
}

fn take_node(bytes: &mut &[u8]) -> Option<u16> {
    u16::try_from(varint::take(bytes)?).ok()
}

/// The byte that an entry begins with; `None` for an order that it has no room for.
fn code_of(kind: WorkKind) -> Option<u8> {
    let (code, order, is_again) = match kind {
        WorkKind::Woke { order, .. } => (0, order, false),
        WorkKind::Slept { .. } => (1, Order::ZERO, false),
        WorkKind::Reclaimed {
            order, is_again, ..
        } => (2, order, is_again),
        WorkKind::Compacted {
            order, is_again, ..
        } => (3, order, is_again),
        WorkKind::BackgroundCompacted { .. } => (4, Order::ZERO, false),
    };
    let again = if is_again { AGAIN } else { 0 };
    (order.get() < 16).then_some(code | again | order.get() << 4)
}

/// The column.
pub(super) fn column(trace: &Trace) -> Result<Vec<u8>, String> {
    let KernelWork { traced, events } = &trace.work;
    let mut bytes = Vec::new();
    if *traced != TracedWork::default() {
        bytes.push(traced.bits());
    }
    let mut before = 0;
    for (nth, event) in events.iter().enumerate() {
        let passed = event.at.checked_sub(before);
        let passed = passed.filter(|_| event.at as usize <= trace.ops.len());
        let passed = passed.ok_or_else(|| {
            format!("entry {nth} of the kernel's work is out of order or behind the last operation")
        })?;
        before = event.at;
        let code = code_of(event.kind).filter(|_| traced.has(event.kind));
        let code = code.ok_or_else(|| {
            format!("entry {nth} of the kernel's work is of an order above 15, or of a kind that was not traced")
        })?;
        varint::put(&mut bytes, u64::from(passed));
        bytes.push(code);
        match event.kind {
            WorkKind::Woke { node, .. } | WorkKind::Slept { node } => {
                varint::put(&mut bytes, u64::from(node));
            }
            WorkKind::Reclaimed { ns, frames, .. } => {
                varint::put(&mut bytes, ns);
                varint::put(&mut bytes, frames);
            }
            WorkKind::Compacted { ns, .. } | WorkKind::BackgroundCompacted { ns } => {
                varint::put(&mut bytes, ns);
            }
        }
    }
    Ok(bytes)
}
