//! A platform that lets interrupts in, and knows which frames can be reached.

extern crate std;

use crate::frame::{AllocError, FrameSource};
use crate::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use crate::units::{Context, Frame, Page, PageAccess, PageRange, Run};
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

type WindowHandler = Box<dyn FnMut(u64)>;

/// Pages and the frames behind them, found either way: each frame that goes back is looked for among thousands of pages.
#[derive(Default)]
pub(super) struct FramesByPage {
    frames: BTreeMap<u64, Frame>,
    /// Each page behind the frame that it has.
    pages: BTreeSet<(u64, u64)>,
}

impl FramesByPage {
    /// What the page had before.
    fn insert(&mut self, page: u64, frame: Frame) -> Option<Frame> {
        let before = self.remove(page);
        self.frames.insert(page, frame);
        self.pages.insert((frame.0, page));
        before
    }

    fn remove(&mut self, page: u64) -> Option<Frame> {
        let frame = self.frames.remove(&page)?;
        assert!(self.pages.remove(&(frame.0, page)));
        Some(frame)
    }

    fn clear(&mut self) {
        self.frames.clear();
        self.pages.clear();
    }

    pub(super) fn get(&self, page: u64) -> Option<Frame> {
        self.frames.get(&page).copied()
    }

    fn has_frame(&self, frame: u64) -> bool {
        let pages = self.pages.range((frame, 0)..=(frame, u64::MAX));
        pages.count() != 0
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }
}

/// A page table, its frames, and interrupts in windows. A wait panics, so a seat that is busy in a window is found.
#[derive(Clone, Default)]
pub(super) struct WindowPages(pub(super) Rc<WindowState>);

#[derive(Default)]
pub(super) struct WindowState {
    /// What an access may still reach, by a mapping or by a TLB.
    pub(super) reached: RefCell<FramesByPage>,
    pub(super) stale: RefCell<FramesByPage>,
    pub(super) out: RefCell<BTreeSet<u64>>,
    pub(super) next: Cell<u64>,
    /// At most so many frames are out, and come in a run.
    pub(super) frames_max: Cell<u64>,
    pub(super) run_max: Cell<u64>,
    /// The nth call of `map` from now on fails, and each unmap.
    pub(super) maps: Cell<u32>,
    pub(super) fails_to_unmap: Cell<bool>,
    pub(super) windows: Cell<u64>,
    pub(super) handler: RefCell<Option<WindowHandler>>,
    /// Calls that took a while: every one, if it says so.
    pub(super) slow_calls: Cell<u64>,
    pub(super) is_slow: Cell<bool>,
    /// Whether the number of such calls is another one at each look.
    pub(super) is_fickle: Cell<bool>,
    /// Calls of `unmap` since the last window, and the most.
    pub(super) unmaps: Cell<u64>,
    pub(super) unmaps_max: Cell<u64>,
    /// Pages unmapped since the last window, and the most.
    pub(super) unmapped: Cell<u64>,
    pub(super) unmapped_max: Cell<u64>,
    /// Frames given back since the last window, and the most.
    pub(super) given: Cell<u64>,
    pub(super) given_max: Cell<u64>,
    /// Frames taken since the last window, and the most; and whether some were given back and others taken without a
    /// window between.
    pub(super) taken: Cell<u64>,
    pub(super) taken_max: Cell<u64>,
    pub(super) is_mixed: Cell<bool>,
}

impl FramePlatform for WindowPages {
    const ASYMMETRIC: bool = true;

    fn relax(&self, _attempt: u32) {
        panic!("the wait unwinds");
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for WindowPages {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let left = self.0.maps.get();
        self.0.maps.set(left.saturating_sub(1));
        if left == 1 {
            return Err(MapError::Refused(7));
        }
        for nth in 0..frames.frames() {
            let frame = Frame(frames.start().0 + nth);
            assert!(self.0.out.borrow().contains(&frame.0), "not taken");
            assert_eq!(self.0.stale.borrow().get(at.0 + nth), None, "V5");
            let before = self.0.reached.borrow_mut().insert(at.0 + nth, frame);
            assert_eq!(before, None, "mapped twice");
        }
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        if self.0.fails_to_unmap.get() {
            return Err(MapError::Refused(8));
        }
        self.0.unmaps.set(self.0.unmaps.get() + 1);
        let most = self.0.unmaps_max.get().max(self.0.unmaps.get());
        self.0.unmaps_max.set(most);
        self.0.unmapped.set(self.0.unmapped.get() + range.pages());
        let most = self.0.unmapped_max.get().max(self.0.unmapped.get());
        self.0.unmapped_max.set(most);
        for page in range.start().0..range.end().0 {
            if let Some(frame) = self.0.reached.borrow_mut().remove(page) {
                self.0.stale.borrow_mut().insert(page, frame);
            }
        }
        Ok(())
    }

    fn flush_all(&self) {
        self.0.stale.borrow_mut().clear();
    }

    fn zero(&self, frames: Run) {
        assert!(frames.frames() <= 16);
        assert!(self.0.out.borrow().contains(&frames.start().0));
    }

    fn interrupt_window(&self) {
        self.0.begin_part();
        let handler = self.0.handler.borrow_mut().take();
        if let Some(mut handler) = handler {
            self.0.windows.set(self.0.windows.get() + 1);
            handler(self.0.windows.get());
            *self.0.handler.borrow_mut() = Some(handler);
            self.0.begin_part();
        }
    }
}

impl WindowState {
    /// What a call does from here on it does in another part.
    pub(super) fn begin_part(&self) {
        self.given.set(0);
        self.unmaps.set(0);
        self.unmapped.set(0);
        self.taken.set(0);
    }

    fn count_slow_call(&self) {
        let slow = u64::from(self.is_slow.get());
        self.slow_calls
            .set(self.slow_calls.get().wrapping_add(slow));
    }
}

pub(super) struct WindowFrames(pub(super) Rc<WindowState>);

impl FrameSource for WindowFrames {
    fn origin(&self) -> u64 {
        1
    }

    fn frames_in_all(&self) -> u64 {
        1 << 20
    }

    fn alloc_run(&mut self, frames: u64, _context: Context) -> Result<Run, AllocError> {
        let mut out = self.0.out.borrow_mut();
        let run = self.0.run_max.get().min(frames);
        if out.len() as u64 + run > self.0.frames_max.get() {
            return Err(AllocError::Exhausted);
        }
        let start = self.0.next.get();
        // No neighbours, if they come one by one.
        self.0.next.set(start + run + u64::from(run == 1));
        out.extend(start..start + run);
        self.0.count_slow_call();
        self.0.taken.set(self.0.taken.get() + run);
        let most = self.0.taken_max.get().max(self.0.taken.get());
        self.0.taken_max.set(most);
        self.0
            .is_mixed
            .set(self.0.is_mixed.get() || self.0.given.get() != 0);
        Ok(Run::new(Frame(start), run).unwrap())
    }

    fn slow_calls(&self) -> u64 {
        let calls = self.0.slow_calls.get();
        if self.0.is_fickle.get() {
            self.0.slow_calls.set(calls.wrapping_add(1));
        }
        calls
    }

    fn free_run(&mut self, frames: Run) {
        self.0.count_slow_call();
        self.0.given.set(self.0.given.get() + frames.frames());
        self.0
            .given_max
            .set(self.0.given_max.get().max(self.0.given.get()));
        for frame in frames.start().0..frames.end().0 {
            assert!(self.0.out.borrow_mut().remove(&frame), "V7: {frame} twice");
            for pages in [&self.0.reached, &self.0.stale] {
                assert!(
                    !pages.borrow().has_frame(frame),
                    "V5: {frame} can be reached"
                );
            }
        }
    }
}
