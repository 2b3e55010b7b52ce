//! One CPU's pages: records out of bytes, in the order in which the CPU wrote them.

use super::format::PageLayout;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

/// What a page says of events that the kernel lost in front of it: how many, where it had room for the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LostEvents(pub(super) Option<u64>);

/// What a page as the kernel hands it out has, without what is not used of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeptBytes {
    pub(crate) time_ns: u64,
    /// From the page's beginning; no more than the page has.
    pub(crate) len_bytes: usize,
    /// Whether it has any record, or says that events were lost.
    pub(crate) is_used: bool,
}

/// Flags in the word that says how long a page's records are. The kernel's own first flag is a negative `int`
/// (`RB_MISSED_EVENTS`, `1 << 31`) that it adds to a `long`: where that has 64 bits, the upper 32 are ones then.
const LOST: u32 = 1 << 31;
const LOST_STORED: u32 = 1 << 30;
/// The rest of the word is the length.
const LENGTH: u32 = !(LOST | LOST_STORED);

/// The types of records that are no event; below them stands a record's length in words of four bytes, or 0 where the next
/// word has it in bytes.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// The bits of a time that a time stamp has; those above are the last time's.
const STAMP_BITS: u32 = 59;

/// The head of a page.
struct PageHead {
    time_ns: u64,
    /// The records, without what stands around them.
    data_bytes: usize,
    lost: Option<LostEvents>,
    len_bytes: usize,
}

impl PageHead {
    fn read(layout: PageLayout, bytes: &[u8]) -> Result<Self, String> {
        let head_bytes = layout.data.offset;
        let (Some(time), Some(word)) = (word(bytes, 0, 8), layout.commit.get(bytes)) else {
            return Err(format!(
                "{} bytes are left, expected a page's head of {head_bytes}",
                bytes.len()
            ));
        };
        let (flags, upper) = (word as u32, (word >> 32) as u32);
        if upper != 0 && (upper != u32::MAX || flags & LOST == 0) {
            return Err(format!(
                "the word {word:#x} for its length, expected 32 bits, or ones above them where events were lost"
            ));
        }
        let data_bytes = (flags & LENGTH) as usize;
        if data_bytes > layout.data.len_bytes {
            return Err(format!(
                "its records have {data_bytes} bytes, expected at most {}",
                layout.data.len_bytes
            ));
        }
        let end = head_bytes + data_bytes;
        let number_bytes = layout.commit.len_bytes;
        let has_number = flags & LOST != 0 && flags & LOST_STORED != 0;
        let len_bytes = end + if has_number { number_bytes } else { 0 };
        let number = if has_number {
            // A page that is cut there has its records all the same.
            self::word(bytes, end, number_bytes)
        } else {
            None
        };
        Ok(Self {
            time_ns: time,
            data_bytes,
            lost: (flags & LOST != 0).then_some(LostEvents(number)),
            len_bytes,
        })
    }
}

/// What of a page is to be kept, as [`CpuPages`] reads it.
///
/// # Errors
/// If it is no page.
pub(crate) fn kept_bytes(formats: &super::PageFormats, page: &[u8]) -> Result<KeptBytes, String> {
    let head = PageHead::read(formats.page, page)?;
    match head.len_bytes > page.len() {
        true => Err(format!(
            "a page of {} bytes, expected {}",
            page.len(),
            head.len_bytes
        )),
        false => Ok(KeptBytes {
            time_ns: head.time_ns,
            len_bytes: head.len_bytes,
            is_used: head.data_bytes > 0 || head.lost.is_some(),
        }),
    }
}

fn word(bytes: &[u8], at: usize, len_bytes: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(len_bytes)?)?;
    let mut wide = [0; 8];
    wide.get_mut(..len_bytes)?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(wide))
}

/// A CPU's pages that are there.
#[derive(Debug)]
pub(super) struct CpuPages {
    layout: PageLayout,
    sections: VecDeque<PageSection>,
    /// Where the next page begins in the first section, and the records of this one that are left.
    next_page: usize,
    records: Range<usize>,
    time_ns: u64,
    /// Pages that were begun.
    pages: u64,
    page_start: usize,
    lost: Option<LostEvents>,
    pub(super) held_bytes: usize,
}

#[derive(Debug)]
struct PageSection {
    bytes: Vec<u8>,
    /// The stream was cut off in it: what is missing is no fault.
    is_cut: bool,
}

impl PageSection {
    /// What it takes: a queue has room for up to twice as many sections as it holds.
    fn held_bytes(&self) -> usize {
        self.bytes.capacity() + 2 * size_of::<Self>()
    }
}

/// Where a record stands among its CPU's pages: the page, counted from 1, and the byte in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::trace) struct RecordPlace {
    page: u64,
    byte: usize,
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {}, byte {}", self.page, self.byte)
    }
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CpuRecord {
    pub(super) time_ns: u64,
    pub(super) place: RecordPlace,
    /// Where it lies in the first section.
    pub(super) at: Range<usize>,
}

impl CpuPages {
    pub(super) fn new(layout: PageLayout) -> Self {
        Self {
            layout,
            sections: VecDeque::new(),
            next_page: 0,
            records: 0..0,
            time_ns: 0,
            pages: 0,
            page_start: 0,
            lost: None,
            held_bytes: 0,
        }
    }

    /// Adds a section behind those that are there.
    pub(super) fn push(&mut self, bytes: Vec<u8>, is_cut: bool) {
        let section = PageSection { bytes, is_cut };
        self.held_bytes += section.held_bytes();
        self.sections.push_back(section);
    }

    /// Takes what pages have said of lost events up to the last record.
    pub(super) fn take_lost(&mut self) -> Option<LostEvents> {
        self.lost.take()
    }

    pub(super) fn bytes(&self, record: &CpuRecord) -> &[u8] {
        let section = self.sections.front();
        section.map_or(&[], |section| &section.bytes[record.at.clone()])
    }

    /// Where it is: at a record that is not passed yet, or at a page's beginning.
    fn place(&self) -> RecordPlace {
        RecordPlace {
            page: self.pages,
            byte: self.records.start.saturating_sub(self.page_start),
        }
    }

    /// The next record, if one is there. The one before is gone then.
    ///
    /// # Errors
    /// If the bytes are no record; nothing comes after that.
    pub(super) fn next(&mut self) -> Result<Option<CpuRecord>, String> {
        loop {
            let Some(section) = self.sections.front() else {
                return Ok(None);
            };
            let found = match self.records.is_empty() {
                false => self.record(),
                true if self.next_page < section.bytes.len() => self.page().map(|()| None),
                true => {
                    self.drop_section();
                    continue;
                }
            };
            match found {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(fault) => {
                    let is_cut = self.sections.front().is_some_and(|section| section.is_cut);
                    let place = self.place();
                    while !self.sections.is_empty() {
                        self.drop_section();
                    }
                    return match is_cut {
                        true => Ok(None),
                        false => Err(format!("{place}: {fault}")),
                    };
                }
            }
        }
    }

    fn drop_section(&mut self) {
        if let Some(section) = self.sections.pop_front() {
            self.held_bytes -= section.held_bytes();
        }
        self.next_page = 0;
        self.records = 0..0;
    }

    /// Begins the next page.
    fn page(&mut self) -> Result<(), String> {
        let Some(section) = self.sections.front() else {
            return Ok(());
        };
        self.pages += 1;
        self.page_start = self.next_page;
        self.records = self.next_page..self.next_page;
        let bytes = &section.bytes[self.next_page..];
        let head = PageHead::read(self.layout, bytes)?;
        if head.len_bytes > bytes.len() && !section.is_cut {
            return Err(format!(
                "the page has {} bytes, expected {}",
                bytes.len(),
                head.len_bytes
            ));
        }
        let start = self.next_page + self.layout.data.offset;
        let end = (start + head.data_bytes).min(section.bytes.len());
        self.next_page = (self.next_page + head.len_bytes).min(section.bytes.len());
        self.records = start..end;
        self.time_ns = head.time_ns;
        self.lost = match (self.lost, head.lost) {
            (Some(LostEvents(Some(before))), Some(LostEvents(Some(more)))) => {
                Some(LostEvents(Some(before.saturating_add(more))))
            }
            (None, lost) | (lost, None) => lost,
            // Of two numbers one is not known: what is known of both is no number.
            (Some(_), Some(_)) => Some(LostEvents(None)),
        };
        Ok(())
    }

    /// Passes one record of the page; an event's is returned.
    fn record(&mut self) -> Result<Option<CpuRecord>, String> {
        let Some(section) = self.sections.front() else {
            return Ok(None);
        };
        let bytes = &section.bytes[..self.records.end];
        let at = self.records.start;
        let ends = || {
            format!(
                "a record reaches past the {} bytes that are left, expected its end there",
                bytes.len() - at
            )
        };
        let head = word(bytes, at, 4).ok_or_else(ends)? as u32;
        let (kind, delta) = (head & 31, u64::from(head >> 5));
        let second = word(bytes, at + 4, 4);
        let mut event = None;
        let end = match kind {
            // Nothing is behind it.
            PADDING if delta == 0 => bytes.len(),
            PADDING => {
                // A record that was taken back. The kernel passes its time over.
                at + 4 + even(second.ok_or_else(ends)?)?
            }
            TIME_EXTEND => {
                let more = second.ok_or_else(ends)? << 27 | delta;
                self.time_ns = self.time_ns.wrapping_add(more);
                at + 8
            }
            TIME_STAMP => {
                let stamp = second.ok_or_else(ends)? << 27 | delta;
                let last = self.time_ns;
                let stamp = last >> STAMP_BITS << STAMP_BITS | stamp;
                self.time_ns = match stamp < last && last >> STAMP_BITS != 0 {
                    true => stamp.wrapping_add(1 << STAMP_BITS),
                    false => stamp,
                };
                at + 8
            }
            0 => {
                let len_bytes = even(second.ok_or_else(ends)?)?;
                self.time_ns = self.time_ns.wrapping_add(delta);
                event = Some(at + 8);
                at + 4 + len_bytes
            }
            words => {
                self.time_ns = self.time_ns.wrapping_add(delta);
                event = Some(at + 4);
                at + 4 + 4 * words as usize
            }
        };
        if end > bytes.len() {
            return Err(ends());
        }
        let place = self.place();
        self.records.start = end;
        Ok(event.map(|start| CpuRecord {
            time_ns: self.time_ns,
            place,
            at: start..end,
        }))
    }
}

/// The length that a record says in bytes: whole words, itself included.
fn even(len_bytes: u64) -> Result<usize, String> {
    match len_bytes {
        4..=0x10_0000 if len_bytes.is_multiple_of(4) => Ok(len_bytes as usize),
        _ => Err(format!(
            "a record of {len_bytes} bytes, expected whole words of 4, one or more"
        )),
    }
}
