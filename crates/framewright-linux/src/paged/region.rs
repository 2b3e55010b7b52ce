//! What pagers and the handler of faults have in common. A thread with a fault only queues its page and sleeps: so
//! the requests are an array of fixed length, and the thread tries again where it is full.

use super::around::ReadAround;
use super::table::{
    AHEAD, BUSY, DIRTY, FAILED, LEAVING, LISTED, PagedState, PagedTable, SHOWN, WANTED, WRITABLE,
};
use crate::anon::pause;
use crate::event::WaitEvent;
use crate::fault::{Touch, Touched};
use crate::gate::{GateShut, SignalGate};
use crate::ram::{FRAME_BYTES, Ram};
use crate::window::{MapRefused, MappingAccess, Window};
use framewright::platform::{MapError, RangePlatform};
use framewright::{Frame, Page, PageRange, Run};
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// How many requests can wait at a time: each thread waits for one page, so this many threads.
const REQUESTS: usize = 256;

/// The parts of a region, which the handler of faults sees, too.
#[derive(Debug)]
pub(super) struct PagedRegion {
    pub(super) window: Window,
    pub(super) table: PagedTable,
    pub(super) gate: SignalGate,
    requests: Requests,
    /// A page is wanted, or the pagers are to end.
    pub(super) asked: WaitEvent,
    /// Pages have come or gone, or could not be brought.
    pub(super) changed: WaitEvent,
    pub(super) pagers: AtomicU32,
    /// The last pager ended without being told to, or was refused, and none has begun since.
    pub(super) has_failed: AtomicBool,
    pub(super) is_stopped: AtomicBool,
    pub(super) around: ReadAround,
    pub(super) counts: PagedCounts,
}

/// See [`PagedStats`](super::PagedStats).
#[derive(Debug, Default)]
pub(super) struct PagedCounts {
    pub(super) faults: AtomicU64,
    pub(super) brought: AtomicU64,
    pub(super) zeroed: AtomicU64,
    pub(super) ahead: AtomicU64,
    pub(super) ahead_used: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) evicted: AtomicU64,
    /// Of those, frames that went to a supply, and not with their run to an owner.
    pub(super) given: AtomicU64,
    pub(super) waits: AtomicU64,
    pub(super) evicted_dirty: AtomicU64,
    pub(super) evict_failed: AtomicU64,
    pub(super) hidden: AtomicU64,
    pub(super) hide_calls: AtomicU64,
    pub(super) used_again: AtomicU64,
    pub(super) written_first: AtomicU64,
    pub(super) moved: AtomicU64,
    pub(super) refused: AtomicU64,
}

pub(super) fn count(word: &AtomicU64, by: u64) {
    word.fetch_add(by, Relaxed);
}

/// Wanted pages, in order. Only a thread that has shut the gate changes them.
#[derive(Debug)]
struct Requests {
    pages: Box<[AtomicU64]>,
    first: AtomicUsize,
    end: AtomicUsize,
}

impl Requests {
    fn push(&self, page: usize, is_write: bool) -> bool {
        let end = self.end.load(Relaxed);
        if end - self.first.load(Relaxed) == self.pages.len() {
            return false;
        }
        let request = (page as u64) << 1 | u64::from(is_write);
        self.pages[end % self.pages.len()].store(request, Relaxed);
        self.end.store(end + 1, Relaxed);
        true
    }

    fn pop(&self) -> Option<(usize, bool)> {
        let first = self.first.load(Relaxed);
        if first == self.end.load(Relaxed) {
            return None;
        }
        let request = self.pages[first % self.pages.len()].load(Relaxed);
        self.first.store(first + 1, Relaxed);
        Some(((request >> 1) as usize, request & 1 != 0))
    }
}

impl PagedRegion {
    pub(super) fn new(window: Window) -> rustix::io::Result<Self> {
        let pages = window.range().pages() as usize;
        Ok(Self {
            table: PagedTable::new(pages, window.ram().frames())?,
            window,
            gate: SignalGate::default(),
            requests: Requests {
                pages: (0..REQUESTS).map(|_| AtomicU64::new(0)).collect(),
                first: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
            },
            asked: WaitEvent::default(),
            changed: WaitEvent::default(),
            pagers: AtomicU32::new(0),
            has_failed: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            around: ReadAround::default(),
            counts: PagedCounts::default(),
        })
    }

    /// How many pages it has.
    pub(super) fn page_count(&self) -> usize {
        self.window.range().pages() as usize
    }

    pub(super) fn ram(&self) -> &Ram {
        self.window.ram()
    }

    /// The page's number as users know it.
    pub(super) fn page(&self, nth: usize) -> Page {
        Page(self.window.range().start().0 + nth as u64)
    }

    pub(super) fn range(&self, pages: &Range<usize>) -> PageRange {
        PageRange::new(self.page(pages.start), pages.len() as u64).expect("they are in the window")
    }

    /// Takes the access to pages away. With the gate shut; the caller changes their states.
    pub(super) fn hide(&self, pages: &Range<usize>) -> Result<(), MapError> {
        count(&self.counts.hide_calls, 1);
        self.window.unmap(self.range(pages))
    }

    /// Shows pages with frames from `first` on. With the gate shut.
    pub(super) fn show(
        &self,
        pages: &Range<usize>,
        first: Frame,
        access: MappingAccess,
    ) -> Result<(), MapRefused> {
        let run = Run::new(first, pages.len() as u64).expect("the frames are in RAM");
        let shown = self
            .window
            .remap(self.page(pages.start), run, access, pages.len() > 1);
        if shown.is_err() {
            count(&self.counts.refused, 1);
        }
        shown
    }

    /// A page's state once a thread uses it: it is no longer one that was read ahead. With the gate shut; the caller sets it.
    pub(super) fn used(&self, state: PagedState) -> PagedState {
        if state.is(AHEAD) {
            self.around.hit();
            count(&self.counts.ahead_used, 1);
        }
        state.without(AHEAD)
    }

    /// Lets users at a page that has a frame. With the gate shut. Returns whether the kernel
    /// agreed: if not, the page is hidden as before, or is now.
    pub(super) fn let_in(&self, nth: usize, state: PagedState, is_write: bool) -> bool {
        let frame = self.table.frame(state).expect("the page has a frame");
        // A page that is dirty anyway need not report its next write.
        let (access, marks) = if is_write || state.is(DIRTY) {
            (MappingAccess::Write, SHOWN | WRITABLE | DIRTY)
        } else {
            (MappingAccess::Read, SHOWN)
        };
        match self.show(&(nth..nth + 1), frame, access) {
            Ok(()) => {
                self.table.set(nth, self.used(state).with(marks));
                true
            }
            Err(MapRefused) => {
                self.table.set(nth, state.without(SHOWN | WRITABLE));
                false
            }
        }
    }

    /// Whether a thread brings pages.
    pub(super) fn is_served(&self) -> bool {
        self.pagers.load(Acquire) != 0 && !self.is_stopped.load(Acquire)
    }

    /// Asks for a page that has no frame, and waits until something has changed. Returns `false` at
    /// once if no thread brings pages.
    pub(super) fn want(
        &self,
        nth: usize,
        state: PagedState,
        is_write: bool,
        shut: GateShut<'_>,
    ) -> bool {
        if !self.is_served() {
            return false;
        }
        if !state.is(BUSY | LEAVING | WANTED) && self.requests.push(nth, is_write) {
            self.table.set(nth, state.with(WANTED));
            self.asked.tell();
        }
        self.wait(shut);
        true
    }

    /// Opens the gate and waits until something has changed.
    pub(super) fn wait(&self, shut: GateShut<'_>) {
        let seen = self.changed.now();
        drop(shut);
        self.changed.wait(seen);
    }

    /// Takes the next page that is wanted, which is busy then.
    pub(super) fn next_wanted(&self) -> Option<(usize, bool)> {
        let _shut = self.gate.shut();
        loop {
            let (nth, is_write) = self.requests.pop()?;
            let state = self.table.state(nth);
            let is_free = !state.has_frame() && !state.is(BUSY);
            let state = state.without(WANTED);
            if is_free {
                // Marked at once: else a waiting thread could ask a second time.
                self.table.set(nth, state.without(FAILED).with(BUSY));
                return Some((nth, is_write));
            }
            self.table.set(nth, state);
        }
    }

    pub(super) fn begin_of_pager(&self) {
        self.pagers.fetch_add(1, AcqRel);
        self.has_failed.store(false, Release);
        self.changed.tell();
    }

    pub(super) fn end_of_pager(&self) {
        self.pagers.fetch_sub(1, Release);
        if !self.is_stopped.load(Acquire) {
            self.has_failed.store(true, Release);
        }
        self.changed.tell();
    }

    /// A thread that was to serve does not.
    pub(super) fn refused_pager(&self) {
        self.has_failed.store(true, Release);
        self.changed.tell();
    }

    pub(super) fn copy_out(&self, frame: Frame, page: &mut [u64; 512]) {
        let words = self.ram().words(frame).expect("the frame is in RAM");
        for (to, from) in page.iter_mut().zip(words) {
            *to = from.load(Relaxed);
        }
    }

    pub(super) fn copy_in(&self, frame: Frame, page: &[u64; 512]) {
        let words = self.ram().words(frame).expect("the frame is in RAM");
        for (to, from) in words.iter().zip(page) {
            to.store(*from, Relaxed);
        }
    }
}

impl Touched for PagedRegion {
    fn bytes(&self) -> Range<usize> {
        let range = self.window.range();
        range.start().0 as usize * FRAME_BYTES..range.end().0 as usize * FRAME_BYTES
    }

    fn touched(&self, address: usize, is_write: Option<bool>) -> Touch {
        let nth = (address - self.bytes().start) / FRAME_BYTES;
        // A failure that this touch did not wait for is no answer to it.
        let mut has_waited = false;
        loop {
            let shut = self.gate.shut();
            let state = self.table.state(nth);
            if state.is(LEAVING) {
                self.wait(shut);
                return Touch::Again;
            }
            if state.has_frame() {
                let is_first_write =
                    state.is(SHOWN) && !state.is(WRITABLE) && is_write != Some(false);
                if state.is(SHOWN) && !is_first_write {
                    // Another thread's touch has just done it.
                    return Touch::Again;
                }
                if is_first_write {
                    count(&self.counts.written_first, 1);
                } else if !state.is(AHEAD) {
                    count(&self.counts.used_again, 1);
                }
                let is_write = is_first_write || is_write == Some(true);
                if !self.let_in(nth, state.without(LISTED), is_write) {
                    drop(shut);
                    // The pagers make room: they look at the limit before they bring anything.
                    self.asked.tell();
                    pause();
                }
                return Touch::Again;
            }
            if state.is(FAILED) && has_waited {
                self.table.set(nth, state.without(FAILED));
                return Touch::Wrong;
            }
            count(&self.counts.faults, u64::from(!has_waited));
            let state = state.without(FAILED);
            if !self.want(nth, state, is_write == Some(true), shut) {
                return Touch::Wrong;
            }
            has_waited = true;
        }
    }
}
