//! The frames behind a reserve. Two words of each are enough to see a page that was torn or a guest that wrote an
//! owner's frame.

use crate::difference::differ;
use crate::{Difference, Machine};
use framewright::frame::{AllocError, FrameSource};
use framewright::platform::{FramePlatform, ReservePlatform};
use framewright::{Context, Frame, Run};
use std::cell::RefCell;
use std::ops::Range;

/// The word that an owner's frames are filled with.
const POISON: [u64; 2] = [0xdead_beef_dead_beef; 2];

/// The frames of a reserve and the ordinary ones behind it, with the two ends of each, and a
/// [`Machine`].
#[derive(Debug)]
pub struct Ground {
    machine: Machine,
    state: RefCell<GroundState>,
}

#[derive(Debug)]
struct GroundState {
    ends: Vec<[u64; 2]>,
    /// Frames that no guest may write: those of owners, and ordinary ones that are not lent.
    closed: Vec<bool>,
    ordinary: Range<u64>,
    /// How many ordinary frames the supply has.
    stock: usize,
    wrong: Option<String>,
}

impl Ground {
    /// This many frames from 0 on, and this many ordinary ones behind them.
    #[must_use]
    pub fn new(cpus: u16, frames: u64, ordinary: u64) -> Self {
        let all = (frames + ordinary) as usize;
        let closed = (0..all).map(|frame| frame as u64 >= frames);
        Self {
            machine: Machine::new(cpus),
            state: RefCell::new(GroundState {
                ends: vec![[0; 2]; all],
                closed: closed.collect(),
                ordinary: frames..frames + ordinary,
                stock: usize::MAX,
                wrong: None,
            }),
        }
    }

    /// The machine.
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }

    /// A page with `stamp` at both ends, which is no repeated word.
    pub(super) fn page(stamp: u64) -> [u64; 512] {
        let mut page = [1; 512];
        (page[0], page[511]) = (stamp << 1, stamp << 1 | 1);
        page
    }

    /// The stamp of a page that was made by [`page`](Self::page), or as a repeated word.
    pub(super) fn stamp(page: &[u64; 512]) -> Option<u64> {
        (page[0] | 1 == page[511] || page[0] == page[511]).then_some(page[0] >> 1)
    }

    /// The stamp of the page in a frame.
    pub(super) fn stamp_in(&self, frame: Frame) -> Option<u64> {
        let mut page = [1; 512];
        self.load(frame, &mut page);
        Self::stamp(&page)
    }

    /// Records that an owner has the run, and fills it; or that it has it no longer.
    pub(super) fn own(&self, run: Run, owned: bool) {
        let mut state = self.state.borrow_mut();
        for frame in run.start().0..run.end().0 {
            state.closed[frame as usize] = owned;
            if owned {
                state.ends[frame as usize] = POISON;
            }
        }
    }

    /// Checks that no guest wrote in a run that an owner has.
    pub(super) fn expect_filled(&self, run: Run) -> Result<(), Difference> {
        let state = self.state.borrow();
        match (run.start().0..run.end().0).all(|frame| state.ends[frame as usize] == POISON) {
            true => Ok(()),
            false => differ!("{run:?} is an owner's, but was written"),
        }
    }

    /// How many ordinary frames the supply has from now on.
    pub(super) fn stock(&self, frames: usize) {
        self.state.borrow_mut().stock = frames;
    }

    /// Ordinary frames that are lent.
    pub(super) fn lent(&self) -> u64 {
        let state = self.state.borrow();
        let open = |frame: &u64| !state.closed[*frame as usize];
        state.ordinary.clone().filter(open).count() as u64
    }

    /// The forbidden operation that was done, if any.
    pub(super) fn wrong(&self) -> Option<String> {
        self.state.borrow_mut().wrong.take()
    }
}

impl FramePlatform for Ground {
    fn relax(&self, attempt: u32) {
        // With one thread the awaited event never comes, except where a bound ends the wait.
        assert!(attempt < 2_000, "waits for itself");
    }
}

impl ReservePlatform for Ground {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        let mut state = self.state.borrow_mut();
        if state.closed[frame.0 as usize] {
            state.wrong = Some(format!(
                "a guest's page is written to {frame}, which is not its"
            ));
        }
        state.ends[frame.0 as usize] = [page[0], page[511]];
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        let mut state = self.state.borrow_mut();
        if state.ordinary.contains(&frame.0) && state.closed[frame.0 as usize] {
            state.wrong = Some(format!("{frame} is read, which was given back"));
        }
        [page[0], page[511]] = state.ends[frame.0 as usize];
    }
}

impl FrameSource for &Ground {
    fn origin(&self) -> u64 {
        core::ptr::from_ref(*self).addr() as u64
    }

    fn frames_in_all(&self) -> u64 {
        let ordinary = self.state.borrow().ordinary.clone();
        ordinary.end - ordinary.start
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        let mut state = self.state.borrow_mut();
        let mut free = state.ordinary.clone();
        let free = free.find(|frame| state.closed[*frame as usize]);
        let free = free.filter(|_| state.stock > 0);
        let frame = free.ok_or(AllocError::Exhausted)?;
        state.stock -= 1;
        state.closed[frame as usize] = false;
        Ok(Run::new(Frame(frame), 1).expect("a frame of the ground"))
    }

    fn free_run(&mut self, run: Run) {
        let frame = run.start();
        let mut state = self.state.borrow_mut();
        if !state.ordinary.contains(&frame.0) || state.closed[frame.0 as usize] {
            state.wrong = Some(format!("{frame} is given back and was not lent"));
            return;
        }
        state.closed[frame.0 as usize] = true;
        state.ends[frame.0 as usize] = POISON;
    }
}
