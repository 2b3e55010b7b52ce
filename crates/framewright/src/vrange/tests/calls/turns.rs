//! Turns to make room: a handler may come in the midst of one, on the same CPU, which cannot end it meanwhile.

extern crate std;

use super::*;
use crate::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use crate::policy::RangeConfig;
use crate::units::{CpuId, Page, PageAccess, PageRange, Run};
use std::boxed::Box;
use std::cell::{Cell, RefCell};
use std::vec;

const BOUND: u64 = 64;

/// Calls of the platform's. The first flush is interrupted by a handler.
#[derive(Default)]
struct InterruptedFlush {
    handler: RefCell<Option<Box<dyn FnOnce()>>>,
    flushes: Cell<u64>,
    relaxed: Cell<u32>,
    highest: Cell<u32>,
}

impl FramePlatform for &InterruptedFlush {
    const ASYMMETRIC: bool = true;

    fn relax(&self, attempt: u32) {
        self.relaxed.set(self.relaxed.get() + 1);
        self.highest.set(self.highest.get().max(attempt));
        assert!(self.relaxed.get() < 10_000, "it waits for ever");
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for &InterruptedFlush {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {
        self.flushes.set(self.flushes.get() + 1);
        let handler = self.handler.borrow_mut().take();
        if let Some(handler) = handler {
            handler();
        }
    }

    fn zero(&self, _frames: Run) {}
}

type TurnSeat = RangeSeat<'static, 'static, &'static InterruptedFlush, ()>;

fn seats() -> (&'static InterruptedFlush, [TurnSeat; 2]) {
    let platform: &InterruptedFlush = Box::leak(Box::default());
    let layout = SpaceLayout::new(Page(1 << 20), 4096)
        .with_cpus(2)
        .with_span_pages(64);
    let config = RangeConfig {
        lazy_pages_max: BOUND,
        ..RangeConfig::for_cpus(2).kept()
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let space = Space::new(&layout, &config, memory, platform).unwrap();
    let space: &Space<'_, _> = Box::leak(Box::new(space));
    (
        platform,
        [0, 1].map(|cpu| space.seat(CpuId(cpu), ()).unwrap()),
    )
}

/// Allocates and frees areas until the platform flushes.
fn free_until_a_flush(seat: &mut TurnSeat, platform: &InterruptedFlush) {
    let before = platform.flushes.get();
    for _ in 0..4 * BOUND {
        let area = seat.alloc_area(&AreaRequest::new(3)).unwrap();
        seat.free_area(area).unwrap();
        if platform.flushes.get() != before {
            return;
        }
    }
    panic!("no free flushed");
}

#[test]
fn a_handler_in_the_midst_of_its_own_cpus_turn_waits_not_for_long_and_flushes_itself() {
    let (platform, [mut own, mut handlers]) = seats();
    let space = own.space();
    let handler = move || {
        assert!(space.is_flushing(), "the turn is its own CPU's");
        let relaxed = platform.relaxed.get();
        free_until_a_flush(&mut handlers, platform);
        assert!(platform.relaxed.get() > relaxed, "it has waited a while");
        assert!(space.is_flushing(), "the other's turn is not its to end");
    };
    *platform.handler.borrow_mut() = Some(Box::new(handler));
    free_until_a_flush(&mut own, platform);
    assert!(platform.handler.borrow().is_none() && !space.is_flushing());
    assert!(platform.flushes.get() >= 2);
    // A platform may sleep at higher attempts, and nothing wakes it when the turn ends.
    assert!(platform.highest.get() <= 16, "{}", platform.highest.get());
    assert!(space.told_lazy() <= BOUND);
    space.verify().unwrap();
}

#[test]
fn a_turn_ends_where_its_flush_unwinds() {
    let (platform, [mut own, _]) = seats();
    let space = own.space();
    *platform.handler.borrow_mut() = Some(Box::new(|| panic!("the flush unwinds")));
    let free = || free_until_a_flush(&mut own, platform);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(free)).is_err());
    assert!(space.is_poisoned() && !space.is_flushing());
}
