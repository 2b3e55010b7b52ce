//! The baseline's parts by themselves, in small memories.

mod compaction;
mod objects;

use super::tenants::{FRAME_WORDS, JournalContents, JournalTenants};
use super::{Journal, JournalMarks, Rule, Setup, Wake};
use framewright::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use framewright::{Addr, Frame, Page, PageAccess, PageRange, Run};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Frames with contents, and a log of what was mapped.
pub(super) struct Paper {
    words: Vec<[AtomicU64; FRAME_WORDS]>,
    log: Mutex<Vec<String>>,
}

impl Paper {
    fn new(frames: u32) -> Self {
        let frame = |_| std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            words: (0..frames).map(frame).collect(),
            log: Mutex::new(Vec::new()),
        }
    }

    /// What was mapped, unmapped and flushed since the last call.
    fn log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.lock().unwrap())
    }
}

impl JournalContents for &Paper {
    fn copy(&self, from: Frame, to: Frame) {
        for nth in 0..FRAME_WORDS {
            self.set_word(to, nth, self.word(from, nth));
        }
    }

    fn word(&self, frame: Frame, nth: usize) -> u64 {
        self.words[frame.0 as usize][nth].load(Relaxed)
    }

    fn set_word(&self, frame: Frame, nth: usize, word: u64) {
        self.words[frame.0 as usize][nth].store(word, Relaxed);
    }
}

impl FramePlatform for Paper {}

impl RangePlatform for &Paper {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let (first, count) = (frames.start().0, frames.frames());
        let entry = format!("map {} {first}+{count}", at.0);
        self.log.lock().unwrap().push(entry);
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        let entry = format!("unmap {}+{}", range.start().0, range.pages());
        self.log.lock().unwrap().push(entry);
        Ok(())
    }

    fn flush_all(&self) {
        self.log.lock().unwrap().push("flush".into());
    }

    fn zero(&self, _frames: Run) {}
}

/// No marks: every frame may be taken.
pub(super) const NO_MARKS: JournalMarks = JournalMarks {
    min: 0,
    low: 0,
    high: 0,
};

/// Where the direct map and the window lie.
pub(super) const DIRECT: Addr = Addr(1 << 40);
const WINDOW: Page = Page(1 << 16);

/// An allocator on paper over its tenants, one CPU, none of its frames free.
pub(super) fn journal<'p>(
    paper: &'p Paper,
    tenants: &Arc<JournalTenants>,
    rule: Rule,
    marks: JournalMarks,
) -> Journal<&'p Paper> {
    Journal::new(Setup {
        frames: paper.words.len() as u32,
        cpus: 1,
        machine_cpus: 1,
        rule,
        marks,
        window: PageRange::new(WINDOW, 1 << 16).unwrap(),
        mapper: paper,
        tenants: Arc::clone(tenants),
        wake: Arc::new(Wake::default()),
        direct: DIRECT,
        cpu_ns: None,
    })
}

/// Makes the frames of a range free.
pub(super) fn add(journal: &Journal<&Paper>, frames: std::ops::Range<u64>) {
    frames.for_each(|frame| journal.add(Frame(frame)));
}
