//! The one client of the objects' runs. It exists so that relief has something to give, and counts how often it was
//! asked (K7).

use super::{RecordedSeat, SimRam};
use crate::MachineCall;
use framewright::frame::FrameSource;
use framewright::platform::Relief;
use framewright::{Context, Frame, Mobility, Order, Run};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// A client with frames that it gives back when asked: a cache of clean pages, which can also be
/// moved out of the way.
#[derive(Debug)]
pub struct SimCache<'s> {
    ram: &'s SimRam,
    frames: RefCell<Vec<Frame>>,
    compactions: Cell<u64>,
    reclaims: Cell<u64>,
    /// It says that it gave a frame even if it gave none.
    boasts: bool,
}

/// More reclaims than any request has that ends.
const ASKED_MAX: u64 = 100_000;

fn one(frame: Frame) -> Run {
    Run::new(frame, 1).expect("a frame of the zone")
}

impl<'s> SimCache<'s> {
    /// An empty cache over that RAM. If it `boasts`, it says that it gave a frame even if it gave none.
    #[must_use]
    pub const fn new(ram: &'s SimRam, boasts: bool) -> Self {
        Self {
            ram,
            frames: RefCell::new(Vec::new()),
            compactions: Cell::new(0),
            reclaims: Cell::new(0),
            boasts,
        }
    }

    /// How many frames it has.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.frames.borrow().len() as u64
    }

    /// How often it was asked to compact, and to reclaim, since the last call of this.
    pub fn asked(&self) -> (u64, u64) {
        (self.compactions.take(), self.reclaims.take())
    }

    /// Takes up to `frames` frames, as reading files does.
    pub fn fill(&self, from: &mut RecordedSeat<'_, '_>, frames: u64) {
        for _ in 0..frames {
            match from.try_block(Order::ZERO, Mobility::Movable) {
                Some(frame) => self.frames.borrow_mut().push(frame),
                None => return,
            }
        }
    }

    /// Drops up to `frames` frames. Returns how many.
    pub fn drop_some(&self, into: &mut RecordedSeat<'_, '_>, frames: u64) -> u64 {
        let frames = frames.min(self.frames());
        for _ in 0..frames {
            let mut all = self.frames.borrow_mut();
            // Neither the oldest nor the youngest, so that frames that come back are scattered.
            let nth = all.len() * 5 / 8;
            into.free_run(one(all.swap_remove(nth)));
        }
        frames
    }

    /// An aligned block, all of whose used frames are in the cache: of those, the first one's by the cache's order.
    fn movable(&self, order: Order) -> Option<Vec<Frame>> {
        let frames = self.frames.borrow();
        let mut sorted = frames.clone();
        sorted.sort_unstable();
        let mut seen = BTreeSet::new();
        frames.iter().find_map(|frame| {
            let start = frame.0 >> order.get() << order.get();
            if !seen.insert(start) {
                return None;
            }
            let block = (start..start + order.frames()).map(Frame);
            let taken: Vec<Frame> = block.filter(|frame| self.ram.is_taken(*frame)).collect();
            let is_cached = |frame: &Frame| sorted.binary_search(frame).is_ok();
            taken.iter().all(is_cached).then_some(taken)
        })
    }
}

impl Relief<RecordedSeat<'_, '_>> for SimCache<'_> {
    fn compact(&self, frames: &mut RecordedSeat<'_, '_>, order: Order, context: Context) -> bool {
        self.compactions.set(self.compactions.get() + 1);
        self.ram.paging().note_context("compact", context);
        self.ram.paging().note_wait("compaction");
        if self.ram.machine().is_hit(MachineCall::Relief) {
            return false;
        }
        let Some(moved) = self.movable(order) else {
            return false;
        };
        // No test reads their contents, so it drops them instead of moving them.
        self.frames
            .borrow_mut()
            .retain(|frame| moved.binary_search(frame).is_err());
        for frame in moved {
            frames.free_run(one(frame));
        }
        frames.seat.zone().drain();
        true
    }

    fn reclaim(&self, frames: &mut RecordedSeat<'_, '_>, wanted: u64, context: Context) -> u64 {
        self.reclaims.set(self.reclaims.get() + 1);
        self.ram.paging().note_context("reclaim", context);
        self.ram.paging().note_wait("reclaim");
        if self.ram.machine().is_hit(MachineCall::Relief) {
            return 0;
        }
        // As reclaim does: as many as were asked for, or a batch.
        let freed = self.drop_some(frames, wanted.min(24));
        // A request that never ended would not come to where the driver looks at its efforts.
        assert!(
            self.reclaims.get() < ASKED_MAX,
            "K7: one request asked {ASKED_MAX} times"
        );
        freed.max(u64::from(self.boasts))
    }
}
