//! All CPUs' records in one order.

use super::cpu::{CpuPages, CpuRecord, LostEvents, RecordPlace};
use super::{PageFormats, SECTION_BYTES_MAX};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::sync::Arc;

/// Pages that wait have so many bytes at most: a recorder says every few MiB up to when it has read all CPUs.
pub(super) const HELD_BYTES_MAX: usize = 32 << 20;

/// What each CPU takes besides its pages: a tree's nodes are half empty at worst.
const CPU_BYTES: usize = 2 * size_of::<MergedCpu>();

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

/// Merges the pages of all CPUs by time (RP1), and holds no more of them than it must (RP2).
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
        if bytes.is_empty() {
            return;
        }
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

    /// What it takes of memory: the pages that wait, and what it keeps of each CPU.
    pub(in crate::trace) fn held_bytes(&self) -> usize {
        self.held_bytes + self.cpus.len() * CPU_BYTES
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

#[cfg(test)]
mod tests {
    use super::*;

    const COMMON: &str = "format:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";
    const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

    fn formats() -> Arc<PageFormats> {
        let events = format!("name: one\nID: 7\n{COMMON}\nprint fmt: \"\"\n");
        let read = PageFormats::read([b"byte_order little\n", PAGE.as_bytes(), events.as_bytes()]);
        Arc::new(read.unwrap())
    }

    /// A record with a number, so much later than the one before.
    fn record(delta: u32, number: u8) -> Vec<u8> {
        let fields = [7, 0, 0, 0, number, 0, 0, 0];
        [&(2 | delta << 5).to_le_bytes()[..], &fields].concat()
    }

    fn page_with(time_ns: u64, flags: u64, records: &[Vec<u8>], behind: &[u8]) -> Vec<u8> {
        let records = records.concat();
        let length = flags + records.len() as u64;
        [
            &time_ns.to_le_bytes()[..],
            &length.to_le_bytes(),
            &records,
            behind,
        ]
        .concat()
    }

    /// The flag that a 64-bit kernel adds where events were lost, and the one where their number stands behind the records.
    const LOST: u64 = (i32::MIN as i64) as u64;
    const LOST_STORED: u64 = LOST + (1 << 30);

    fn page(time_ns: u64, records: &[Vec<u8>]) -> Vec<u8> {
        page_with(time_ns, 0, records, b"")
    }

    /// CPUs, times and numbers of all events that come; lost events have the number of them and no time.
    fn taken(merger: &mut PageMerger) -> Vec<(u16, u64, u64)> {
        let mut taken = Vec::new();
        while let Some(next) = merger.next().unwrap() {
            taken.push(match next {
                MergedRecord::Lost { cpu, events } => (cpu, 0, events.unwrap_or(u64::MAX)),
                MergedRecord::Event {
                    cpu,
                    time_ns,
                    record,
                    ..
                } => (cpu, time_ns, u64::from(record[4])),
            });
        }
        taken
    }

    #[test]
    fn rp1_records_of_all_cpus_come_by_time_and_of_one_time_by_cpu() {
        let mut merger = PageMerger::new(formats());
        merger.push(
            3,
            page(1000, &[record(0, 1), record(500, 2), record(0, 3)]),
            false,
        );
        assert!(
            taken(&mut merger).is_empty(),
            "an earlier one may come of another CPU"
        );
        merger.push(1, page(900, &[record(100, 4), record(500, 5)]), false);
        merger.push(3, page(1600, &[record(0, 6)]), false);
        merger.set_until(1500);
        assert_eq!(taken(&mut merger), [(1, 1000, 4), (3, 1000, 1)]);
        merger.set_until(1400);
        assert!(taken(&mut merger).is_empty());
        merger.set_until(1501);
        let same = [(1, 1500, 5), (3, 1500, 2), (3, 1500, 3)];
        assert_eq!(taken(&mut merger), same);
        merger.end();
        assert_eq!(taken(&mut merger), [(3, 1600, 6)]);
    }

    #[test]
    fn rp1_lost_events_come_before_the_next_event_of_their_cpu() {
        let mut merger = PageMerger::new(formats());
        let known = page_with(100, LOST_STORED, &[record(5, 1)], &12_u64.to_le_bytes());
        // Two pages without a record of their own: what they say is added up.
        let empty = page_with(200, LOST_STORED, &[], &3_u64.to_le_bytes());
        // Where the word has 32 bits, nothing is above them.
        let more = page_with(210, 3 << 30, &[record(0, 2)], &4_u64.to_le_bytes());
        let unknown = page_with(300, LOST, &[record(0, 3)], b"");
        merger.push(0, [known, empty, more, unknown].concat(), false);
        merger.push(1, page(104, &[record(0, 9), record(196, 10)]), false);
        merger.push(
            1,
            page_with(400, LOST_STORED, &[], &1_u64.to_le_bytes()),
            false,
        );
        merger.end();
        let all = [
            (1, 104, 9),
            (0, 0, 12),
            (0, 105, 1),
            (0, 0, 7),
            (0, 210, 2),
            (0, 0, u64::MAX),
            (0, 300, 3),
            (1, 300, 10),
            // Behind all events.
            (1, 0, 1),
        ];
        assert_eq!(taken(&mut merger), all);
    }

    #[test]
    fn times_are_what_the_kernel_reckons_and_what_is_no_event_is_passed_over() {
        let word = |kind: u32, delta: u32, second: u32| {
            [(kind | delta << 5).to_le_bytes(), second.to_le_bytes()].concat()
        };
        // 2^30 and 3, by an extension; a stamp, whose upper bits are the page's; a record that was taken back, whose time the
        // kernel passes over; a record whose length stands in a word of its own; and what is left of a page.
        let extension = word(30, 3, 8);
        let stamp = word(31, 1, 1 << 4);
        let taken_back = [word(29, 50, 8), vec![0xff; 4]].concat();
        let long = [
            &(5_u32 << 5).to_le_bytes()[..],
            &12_u32.to_le_bytes(),
            &[7, 0, 0, 0, 8, 0, 0, 0],
        ]
        .concat();
        let rest = [29_u32.to_le_bytes().to_vec(), vec![0xff; 7]].concat();
        let upper = 3 << 59;
        let records = [
            extension,
            record(1, 1),
            stamp,
            record(2, 2),
            taken_back,
            long,
            rest,
        ];
        let mut merger = PageMerger::new(formats());
        merger.push(0, page(upper, &records), false);
        merger.end();
        let stamped = upper + (1 << 31) + 1;
        assert_eq!(
            taken(&mut merger),
            [
                (0, upper + (1 << 30) + 4, 1),
                (0, stamped + 2, 2),
                (0, stamped + 7, 8)
            ]
        );
    }

    #[test]
    fn rp2_pages_that_wait_are_bounded_and_come_out_oldest_first_beyond_that() {
        let mut merger = PageMerger::new(formats());
        let records: Vec<Vec<u8>> = (0..300).map(|_| record(1, 1)).collect();
        let section = page(0, &records).repeat(SECTION_BYTES_MAX / 4096);
        for nth in 0..HELD_BYTES_MAX / section.len() {
            merger.push(nth as u16, section.clone(), false);
            assert!(merger.next().unwrap().is_none());
        }
        merger.push(999, section.clone(), false);
        merger.push(999, section, false);
        assert!(!taken(&mut merger).is_empty());
        assert!(merger.held_bytes <= HELD_BYTES_MAX);
        let held: usize = merger.cpus.values().map(|cpu| cpu.pages.held_bytes).sum();
        assert_eq!(merger.held_bytes, held);
    }

    /// A section that holds next to nothing costs something all the same.
    #[test]
    fn rp2_sections_of_a_byte_and_of_none_are_bounded_like_full_ones() {
        let mut merger = PageMerger::new(formats());
        merger.push(3, page(100, &[record(0, 1)]), false);
        let held_bytes = merger.held_bytes;
        for cpu in 0..1000 {
            merger.push(cpu, Vec::new(), false);
        }
        assert_eq!((merger.held_bytes, merger.cpus.len()), (held_bytes, 1));
        let most = HELD_BYTES_MAX / size_of::<Vec<u8>>();
        let come = (0..most).any(|_| {
            merger.push(3, vec![0], false);
            merger.next().unwrap().is_some()
        });
        assert!(come, "{} bytes are said to be held", merger.held_bytes);
        // What a section could hold counts as what it holds.
        let mut merger = PageMerger::new(formats());
        let mut roomy = Vec::with_capacity(1 << 16);
        roomy.extend_from_slice(&page(100, &[record(0, 1)]));
        merger.push(0, roomy, false);
        assert!(merger.held_bytes >= 1 << 16, "{}", merger.held_bytes);
        merger.end();
        assert_eq!(taken(&mut merger).len(), 1);
        assert_eq!(merger.next(), Ok(None));
        assert_eq!(merger.held_bytes, 0);
    }

    #[test]
    fn rp3_what_is_no_page_is_a_fault_at_its_place_and_a_page_that_is_cut_off_is_none() {
        let good = page(5, &[record(0, 1)]);
        let cases: [(Vec<u8>, &str); 9] = [
            (
                good[..10].to_vec(),
                "page 2, byte 0: 10 bytes are left, expected a page's head of 16",
            ),
            (
                good[..20].to_vec(),
                "page 2, byte 0: the page has 20 bytes, expected 28",
            ),
            (
                page_with(5, 3 << 30, &[record(0, 1)], &[0; 3]),
                "page 2, byte 0: the page has 31 bytes, expected 36",
            ),
            (
                page_with(5, 4081, &[], &[0; 4081]),
                "page 2, byte 0: its records have 4081 bytes, expected at most 4080",
            ),
            (
                page_with(5, 1 << 40, &[], b""),
                "page 2, byte 0: the word 0x10000000000 for its length, expected 32 bits, or ones above them where events were lost",
            ),
            (
                page_with(5, u64::from(u32::MAX) << 32, &[], b""),
                "page 2, byte 0: the word 0xffffffff00000000 for its length, expected 32 bits, or ones above them where events were lost",
            ),
            (
                page(5, &[record(0, 1), vec![3, 0, 0, 0, 7]]),
                "page 2, byte 28: a record reaches past the 5 bytes that are left, expected its end there",
            ),
            (
                page(5, &[vec![0, 0, 0, 0, 3, 0, 0, 0]]),
                "page 2, byte 16: a record of 3 bytes, expected whole words of 4, one or more",
            ),
            (
                page(5, &[vec![30, 0, 0, 0]]),
                "page 2, byte 16: a record reaches past the 4 bytes that are left, expected its end there",
            ),
        ];
        for (bad, fault) in cases {
            let bytes = [good.clone(), bad].concat();
            let mut merger = PageMerger::new(formats());
            merger.push(4, bytes.clone(), false);
            merger.end();
            let mut events = 0;
            let found = loop {
                match merger.next() {
                    Ok(Some(_)) => events += 1,
                    Ok(None) => panic!("no fault: {fault}"),
                    Err(found) => break found,
                }
            };
            assert!(events >= 1);
            assert_eq!(found, format!("CPU 4, {fault}"));
            assert_eq!(merger.next(), Ok(None), "nothing comes after it");
            // The same at the end of a stream that was cut off there is its end.
            let mut merger = PageMerger::new(formats());
            merger.push(4, bytes, true);
            merger.end();
            assert!(!taken(&mut merger).is_empty());
        }
    }

    #[test]
    fn what_tracefs_says_of_pages_is_held_against_what_is_understood() {
        let events = format!("name: one\nID: 7\n{COMMON}\nprint fmt: \"\"\n");
        let read = |machine: &str, page: &str, events: &str| {
            let read = PageFormats::read([machine.as_bytes(), page.as_bytes(), events.as_bytes()]);
            read.map(|_| "read".to_owned())
                .unwrap_or_else(|fault| fault)
        };
        let little = "byte_order little\n";
        assert_eq!(read(little, PAGE, &events), "read");
        // Of a machine of 32 bits.
        let narrow = PAGE.replace("offset:8;\tsize:8", "offset:8;\tsize:4");
        assert_eq!(
            read(little, &narrow.replace("offset:16", "offset:12"), &events),
            "read"
        );
        let big = read("byte_order big\n", PAGE, &events);
        assert!(
            big.starts_with("formats.machine: byte_order big, expected little"),
            "{big}"
        );
        let none = read("", PAGE, &events);
        assert!(none.contains("there is no byte_order"), "{none}");
        let long = " ".repeat(1 << 20);
        for (section, texts) in [
            ("formats.page", ["byte_order little\n", &*long, &*events]),
            ("formats.events", ["byte_order little\n", PAGE, &*long]),
        ] {
            let found = read(
                texts[0],
                &format!("{}\n", texts[1]),
                &format!("{}\n", texts[2]),
            );
            let says = format!("{section}: 1048577 bytes, expected at most 1048576");
            assert_eq!(found, says);
        }
        let faults = [
            (
                PAGE.replace("size:4080", "size:9999999"),
                events.clone(),
                "is no field, expected",
            ),
            (
                PAGE.replace("size:4080", "size:10"),
                events.clone(),
                "pages of 26 bytes, expected 64 to 524288",
            ),
            (
                PAGE.replace("commit", "length"),
                events.clone(),
                "formats.page: there is no field commit",
            ),
            (
                PAGE.replace("offset:16", "offset:17"),
                events.clone(),
                "expected a timestamp of 8 bytes at 0",
            ),
            (
                PAGE.into(),
                String::new(),
                "formats.events: there is no event",
            ),
            (
                PAGE.into(),
                events.replace("ID: 7", "ID: 65536"),
                "one: there is no line `ID: NUMBER`",
            ),
            (PAGE.into(), events.repeat(2), "one: the ID 7 stands twice"),
            (
                PAGE.into(),
                events.replace("common_pid", "pid"),
                "one: there is no common_pid of 4 bytes",
            ),
            (
                PAGE.into(),
                events.replace("size:4", "size:x"),
                "common_pid; offset:4; size:x; signed:1;` is no field",
            ),
            (
                PAGE.into(),
                events.replace("name: one", "name: mm_page_free"),
                "mm_page_free: there is no field pfn, expected one",
            ),
        ];
        for (page, events, fault) in faults {
            let found = read(little, &page, &events).replace('\t', " ");
            assert!(found.contains(fault), "{found}, expected {fault}");
        }
        let formats = formats();
        let of = |record: &[u8]| formats.of(record).map(|event| event.name.clone());
        assert_eq!(of(&[7, 0, 0, 0, 1, 0, 0, 0]), Ok("one".into()));
        let unknown = of(&[8, 0, 0, 0, 1, 0, 0, 0]).unwrap_err();
        assert_eq!(
            unknown,
            "an event of the ID 8, expected one of the 1 that the stream has formats of"
        );
        let short = of(&[7, 0, 0, 0]).unwrap_err();
        assert_eq!(short, "one: a record of 4 bytes, expected 8 or more");
    }
}
