//! All CPUs' records in one order.

use super::cpu::{CpuPages, CpuRecord, LostEvents, RecordPlace};
use super::{PageFormats, SECTION_BYTES_MAX};
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::sync::Arc;

/// Pages that wait have so many bytes at most: a recorder says every few MiB up to when it has read all CPUs.
pub(super) const HELD_BYTES_MAX: usize = 32 << 20;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::trace) enum MergedRecord<'a> {
    /// The kernel lost events of this CPU here.
    Lost {
        /// The CPU.
        cpu: u16,
        /// How many, where that is known.
        events: Option<u64>,
    },
    /// An event.
    Event {
        /// The CPU.
        cpu: u16,
        /// Its time, on the trace's clock.
        time_ns: u64,
        /// Where it stands.
        place: RecordPlace,
        /// Its fields.
        record: &'a [u8],
    },
}

/// The CPU of a record, and where it stands there.
#[derive(Debug, Clone, Copy)]
pub(in crate::trace) struct MergedPlace(u16, Option<RecordPlace>);

impl fmt::Display for MergedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(cpu, Some(place)) => write!(f, "CPU {cpu}, {place}"),
            Self(cpu, None) => write!(f, "CPU {cpu}"),
        }
    }
}

impl MergedRecord<'_> {
    /// Where it stands.
    pub(in crate::trace) fn place(&self) -> MergedPlace {
        match self {
            Self::Lost { cpu, .. } => MergedPlace(*cpu, None),
            Self::Event { cpu, place, .. } => MergedPlace(*cpu, Some(*place)),
        }
    }
}

/// A CPU's pages, and the record that comes next of them.
#[derive(Debug)]
struct MergedCpu {
    pages: CpuPages,
    /// The record; or what is wrong, which comes in its place.
    next: Option<Result<CpuRecord, String>>,
}

/// Merges the pages of all CPUs by time (PG1), and holds no more of them than it must (PG2).
#[derive(Debug)]
pub(in crate::trace) struct PageMerger {
    formats: Arc<PageFormats>,
    cpus: BTreeMap<u16, MergedCpu>,
    /// The CPUs that have a record, by its time.
    order: BinaryHeap<Reverse<(u64, u16)>>,
    held_bytes: usize,
    /// All events up to this time are there.
    until_ns: u64,
    is_ended: bool,
    /// The record that was given last.
    record: Vec<u8>,
}

impl PageMerger {
    pub(in crate::trace) fn new(formats: Arc<PageFormats>) -> Self {
        Self {
            formats,
            cpus: BTreeMap::new(),
            order: BinaryHeap::new(),
            held_bytes: 0,
            until_ns: 0,
            is_ended: false,
            record: Vec::new(),
        }
    }

    /// Adds a section of a CPU's pages; `is_cut` if the stream was cut off in it.
    pub(in crate::trace) fn push(&mut self, cpu: u16, bytes: Vec<u8>, is_cut: bool) {
        debug_assert!(bytes.len() <= SECTION_BYTES_MAX);
        let merged = match self.cpus.entry(cpu) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(new) => new.insert(MergedCpu {
                pages: CpuPages::new(self.formats.page),
                next: None,
            }),
        };
        self.held_bytes -= merged.pages.held_bytes;
        merged.pages.push(bytes, is_cut);
        if merged.next.is_none()
            && let Some(time_ns) = merged.advance(0)
        {
            self.order.push(Reverse((time_ns, cpu)));
        }
        self.held_bytes += merged.pages.held_bytes;
    }

    /// All events up to this time are there.
    pub(in crate::trace) fn set_until(&mut self, until_ns: u64) {
        self.until_ns = self.until_ns.max(until_ns);
    }

    /// All events are there.
    pub(in crate::trace) fn end(&mut self) {
        self.is_ended = true;
    }

    /// The next record, if it is known which one that is.
    ///
    /// # Errors
    /// If a page is none: where, what is wrong, what was expected. The CPU has no further record then.
    pub(in crate::trace) fn next(&mut self) -> Result<Option<MergedRecord<'_>>, String> {
        let Some(mut top) = self.order.peek_mut() else {
            return match self.is_ended {
                true => Ok(self.last_lost()),
                false => Ok(None),
            };
        };
        let Reverse((time_ns, cpu)) = *top;
        let is_known = time_ns < self.until_ns || self.is_ended;
        if !is_known && self.held_bytes <= HELD_BYTES_MAX {
            return Ok(None);
        }
        let Some(merged) = self.cpus.get_mut(&cpu) else {
            return Ok(None);
        };
        if let Some(Ok(_)) = merged.next
            && let Some(LostEvents(events)) = merged.pages.take_lost()
        {
            return Ok(Some(MergedRecord::Lost { cpu, events }));
        }
        let taken = merged.next.take();
        self.record.clear();
        if let Some(Ok(record)) = &taken {
            self.record.extend_from_slice(merged.pages.bytes(record));
        }
        let held_bytes = merged.pages.held_bytes;
        match merged.advance(time_ns) {
            Some(next_ns) => *top = Reverse((next_ns, cpu)),
            None => drop(PeekMut::pop(top)),
        }
        self.held_bytes -= held_bytes - merged.pages.held_bytes;
        match taken {
            Some(Err(fault)) => Err(format!("CPU {cpu}, {fault}")),
            Some(Ok(record)) => Ok(Some(MergedRecord::Event {
                cpu,
                time_ns,
                place: record.place,
                record: &self.record,
            })),
            None => Ok(None),
        }
    }

    /// What pages behind the last records of their CPUs say of lost events.
    fn last_lost(&mut self) -> Option<MergedRecord<'static>> {
        self.cpus.iter_mut().find_map(|(&cpu, merged)| {
            let LostEvents(events) = merged.pages.take_lost()?;
            Some(MergedRecord::Lost { cpu, events })
        })
    }
}

impl MergedCpu {
    /// Goes to the next record; its time. A fault comes right behind the record before, whose time that is.
    fn advance(&mut self, last_ns: u64) -> Option<u64> {
        let next = self.pages.next().transpose()?;
        let time_ns = next.as_ref().map_or(last_ns, |record| record.time_ns);
        self.next = Some(next);
        Some(time_ns)
    }
}
