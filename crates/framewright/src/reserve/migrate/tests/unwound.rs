//! Waits that unwind out of an owner's call: what it gives up, it gives up all the same (M3).

use super::*;
use crate::platform::scene::Scene;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

#[test]
fn m3_a_release_that_unwinds_has_ended() {
    for is_reserved in [false, true] {
        let layout = ZoneLayout::new(Frame(0), FRAMES)
            .with_orders(order(6), order(8))
            .with_cpus(2);
        let mut memory = vec![!0; layout.words_needed().unwrap()];
        let scene = Scene::default();
        let zone = Zone::new(&layout, &uncached(), &mut memory, scene.clone()).unwrap();
        zone.add(run(0, FRAMES)).unwrap();
        let mut words = vec![!0; Reclaim::words_needed(&zone)];
        let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut words).unwrap();
        let lent = run(FIRST, AREA);
        let mut words = vec![!0; MigrateArea::<Scene>::words_needed(lent)];
        let area = MigrateArea::new(&reclaim, lent, &ContigConfig::default(), &mut words).unwrap();
        let mut seat = zone.seat(CpuId(0)).unwrap();
        // Some allocations side by side.
        let run = if is_reserved {
            let reserved = area.reserve("some", 100, 1).unwrap();
            area.take(&mut seat, reserved, &Clients::NONE).unwrap()
        } else {
            area.alloc_contig(&mut seat, 100, 1, &Clients::NONE)
                .unwrap()
        };
        scene.arm();
        thread::scope(|threads| {
            threads.spawn(|| zone.drain());
            scene.wait_until_stopped();
            let released = catch_unwind(AssertUnwindSafe(|| area.release(&mut seat, run)));
            assert!(released.is_err(), "{released:?}");
        });
        assert_eq!(area.claimed_frames(), 0);
        assert_eq!(area.stats().release_pages_success, 100);
        area.verify().unwrap();
        zone.verify().unwrap();
        let all = area.alloc_contig(&mut seat, AREA, 1, &Clients::NONE);
        assert_eq!(all.is_ok(), !is_reserved, "{all:?}");
    }
}
