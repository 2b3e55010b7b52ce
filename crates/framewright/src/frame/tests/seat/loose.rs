//! A block of which a request keeps the first frames, and a wait that unwinds meanwhile.

use super::*;
use crate::platform::FramePlatform;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A platform whose waits unwind.
struct UnwindingWaits;

impl FramePlatform for &UnwindingWaits {
    const ASYMMETRIC: bool = true;

    fn relax(&self, _attempt: u32) {
        panic!("the wait unwinds");
    }

    fn barrier_all(&self) {}
}

#[test]
fn f1_a_block_of_which_a_request_keeps_a_part_is_not_lost_if_its_wait_unwinds() {
    let layout = ZoneLayout::new(Frame(0), 4096).with_cpus(2);
    for (block, kept) in [(3, 5), (6, 33), (9, 1), (10, 700)] {
        for is_in_the_way in [false, true] {
            for gives_itself in [false, true] {
                let mut memory = memory(&layout);
                let zone = Zone::new(&layout, &Config::default(), &mut memory, &UnwindingWaits);
                let zone = zone.unwrap();
                zone.add(whole(&layout)).unwrap();
                let mut seat = zone.seat(CpuId(0)).unwrap();
                let first = seat.alloc(order(block), Unmovable).unwrap();
                // Another CPU stops this one, or splits what lies beside the block.
                let stopped = (!is_in_the_way).then(|| zone.stop());
                let counters = zone.unseated_counters();
                let held = is_in_the_way.then(|| zone.try_lock(counters, 0).unwrap());
                let of = (order(block), Unmovable);
                let unwound = catch_unwind(AssertUnwindSafe(|| seat.keep_first(first, of, kept)));
                drop(stopped);
                if let Some(held) = held {
                    held.unlock();
                }
                if let Ok(run) = unwound {
                    assert_ne!(first.0 >> 9, 0, "it lies in the pageblock that was held");
                    seat.free_frames(run).unwrap();
                } else if gives_itself {
                    seat.give_loose();
                }
                zone.drain();
                zone.verify().unwrap();
                assert_eq!(zone.recount().free, 4096, "{block}: {kept}");
                // Without a wait it keeps what it was asked to keep.
                let first = seat.alloc(order(block), Unmovable).unwrap();
                assert_eq!(seat.keep_first(first, of, kept), run(first.0, kept));
                zone.drain();
                zone.verify().unwrap();
                assert_eq!(zone.recount().free, 4096 - kept);
                seat.free_frames(run(first.0, kept)).unwrap();
            }
        }
    }
}

impl<P: FramePlatform> Zone<'_, P> {
    /// Runs `work` while another CPU works in the pageblock of `frame`.
    pub(crate) fn while_locked<R>(&self, frame: Frame, work: impl FnOnce() -> R) -> R {
        let id = self.offset_unchecked(frame) >> self.pageblock_order().get();
        let held = self.try_lock(self.unseated_counters(), id).unwrap();
        let result = work();
        held.unlock();
        result
    }
}
