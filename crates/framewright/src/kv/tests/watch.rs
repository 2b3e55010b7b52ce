//! A source of frames and a relief. Both record what they are asked for and within which context,
//! and each can be made to fail.

use super::*;
use crate::frame::{AllocError, FrameSource, FreeError};
use crate::units::{Mobility, Order};
use std::cell::Cell;
use std::string::String;

/// One call, and the context it was made in if it is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Heard {
    Try(Order),
    Block(Order),
    Run(Context),
    Compact(Order, Context),
    Reclaim(u64, Context),
}

/// What all of them note, in order, and which call fails.
#[derive(Default)]
pub(super) struct CallLog {
    heard: RefCell<Vec<Heard>>,
    calls: Cell<u64>,
    fails: Cell<Option<u64>>,
    /// The next look for a block, or the next block that is given back, panics.
    pub(super) panics: Cell<bool>,
    /// How often the source was asked how large a block it could ever have.
    pub(super) questions: Cell<u64>,
}

impl CallLog {
    /// Whether the call fails.
    fn note(&self, heard: Heard) -> bool {
        self.heard.borrow_mut().push(heard);
        self.calls.set(self.calls.get() + 1);
        self.fails.get() == Some(self.calls.get() - 1)
    }

    pub(super) fn take(&self) -> Vec<Heard> {
        self.calls.set(0);
        self.fails.set(None);
        self.heard.take()
    }

    /// The call after `after` others fails.
    pub(super) fn fail(&self, after: u64) {
        self.take();
        self.fails.set(Some(after));
    }

    pub(super) fn relief(&self) -> (usize, usize) {
        let heard = self.heard.borrow();
        let count = |is: fn(&Heard) -> bool| heard.iter().filter(|heard| is(heard)).count();
        (
            count(|heard| matches!(heard, Heard::Compact(..))),
            count(|heard| matches!(heard, Heard::Reclaim(..))),
        )
    }

    /// The calls in another context than `expected`.
    pub(super) fn strangers(&self, expected: Context) -> String {
        let heard = self.heard.borrow();
        let others = heard.iter().filter(|heard| match heard {
            Heard::Try(_) | Heard::Block(_) => false,
            Heard::Run(context) | Heard::Compact(_, context) | Heard::Reclaim(_, context) => {
                *context != expected
            }
        });
        others.map(|heard| std::format!("{heard:?} ")).collect()
    }
}

pub(super) type WatchedInner = Seat<'static, 'static, &'static KvToy>;

/// A CPU's seat in the zone, watched.
pub(super) struct WatchedFrames {
    pub(super) seat: WatchedInner,
    pub(super) log: &'static CallLog,
}

impl FrameSource for WatchedFrames {
    fn origin(&self) -> u64 {
        self.seat.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.seat.frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        if self.log.note(Heard::Run(context)) {
            return Err(AllocError::Exhausted);
        }
        self.seat.alloc_run(frames, context)
    }

    fn free_run(&mut self, frames: Run) {
        self.seat.free_run(frames);
    }

    fn is_short(&mut self) -> bool {
        self.seat.is_short()
    }

    fn try_block(&mut self, order: Order, mobility: Mobility) -> Option<Frame> {
        assert!(!self.log.panics.take(), "injected");
        if self.log.note(Heard::Try(order)) {
            return None;
        }
        self.seat.try_block(order, mobility)
    }

    fn alloc_block(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        if self.log.note(Heard::Block(order)) {
            return Err(AllocError::Exhausted);
        }
        self.seat.alloc_block(order, mobility, context)
    }

    fn free_block(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        assert!(!self.log.panics.take(), "injected");
        self.seat.free_block(frame, order)
    }

    fn max_order(&self) -> Order {
        self.seat.max_order()
    }

    fn could_have(&self, order: Order) -> bool {
        self.log.questions.set(self.log.questions.get() + 1);
        self.seat.could_have(order)
    }
}

/// Holds frames that it gives back when asked: a cache. Those of `between` lie between free ones,
/// and go when memory is compacted.
pub(super) struct WatchedCache {
    pub(super) log: &'static CallLog,
    pub(super) cached: RefCell<Vec<Frame>>,
    pub(super) between: RefCell<Vec<Frame>>,
    /// The most that goes at a time.
    pub(super) most: Cell<u64>,
}

impl WatchedCache {
    pub(super) fn new(log: &'static CallLog) -> &'static Self {
        leak(Self {
            log,
            cached: RefCell::default(),
            between: RefCell::default(),
            most: Cell::new(u64::MAX),
        })
    }
}

fn one(frame: Frame) -> Run {
    Run::new(frame, 1).unwrap()
}

impl Relief<WatchedFrames> for WatchedCache {
    fn compact(&self, frames: &mut WatchedFrames, order: Order, context: Context) -> bool {
        if self.log.note(Heard::Compact(order, context)) {
            return false;
        }
        let moved = self.between.take();
        moved.iter().for_each(|frame| frames.free_run(one(*frame)));
        frames.seat.zone().drain();
        !moved.is_empty()
    }

    fn reclaim(&self, frames: &mut WatchedFrames, wanted: u64, context: Context) -> u64 {
        if self.log.note(Heard::Reclaim(wanted, context)) {
            return 0;
        }
        let mut cached = self.cached.borrow_mut();
        let wanted = wanted.min(self.most.get());
        let from = cached.len().saturating_sub(wanted as usize);
        let dropped = cached.split_off(from);
        dropped
            .iter()
            .for_each(|frame| frames.free_run(one(*frame)));
        dropped.len() as u64
    }
}

pub(super) type WatchedSeat =
    KvSeat<'static, 'static, 'static, &'static KvToy, WatchedFrames, &'static WatchedCache>;

/// A machine with all frames taken, except those that the test gives back.
pub(super) struct FullSource {
    pub(super) machine: ToyMachine,
    pub(super) seat: WatchedSeat,
    pub(super) log: &'static CallLog,
    pub(super) cache: &'static WatchedCache,
}

impl FullSource {
    /// `frames` frames, all of them taken.
    pub(super) fn new(frames: u64, pages: u64) -> Self {
        let log: &'static CallLog = leak(CallLog::default());
        let cache = WatchedCache::new(log);
        let machine = ToyMachine::new(frames, 1, pages);
        let seat = machine.zone.seat(CpuId(0)).unwrap();
        let watched = WatchedFrames { seat, log };
        let ranges = machine.space.seat(CpuId(0), watched).unwrap();
        let mut seat = machine.kv.seat(ranges).unwrap().with_relief(cache);
        let inner = &mut seat.ranges().frames().seat;
        let mut taken = 0;
        while inner
            .alloc_block(Order::ZERO, Mobility::Unmovable, Context::ANY)
            .is_ok()
        {
            taken += 1;
        }
        assert_eq!(taken, frames);
        Self {
            machine,
            seat,
            log,
            cache,
        }
    }

    /// Gives frames back.
    pub(super) fn free(&mut self, frames: impl Iterator<Item = u64>) {
        for frame in frames {
            let inner = &mut self.seat.ranges().frames().seat;
            inner.free_run(one(Frame(frame)));
        }
    }

    /// The cache has these.
    pub(super) fn cached(&self, frames: impl Iterator<Item = u64>) {
        self.cache.cached.borrow_mut().extend(frames.map(Frame));
    }

    /// Free frames, wherever they are, with nothing kept in the space.
    pub(super) fn free_frames(&mut self) -> u64 {
        self.seat.ranges().drain();
        self.machine.zone.stats().nr_free_pages
    }
}
