//! Waits that unwind while frames are in reclaim's hands: none is lost (R1, R2).

use super::*;
use crate::platform::scene::Scene;
use crate::policy::ContigConfig;
use crate::stats::{ContigStats, ReclaimStats};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

/// A client in whose call another CPU begins to stop all.
struct StoppedClient<'a> {
    holder: &'a Holder,
    scene: &'a Scene,
    drops: bool,
    has_dropped: Cell<bool>,
}

impl StoppedClient<'_> {
    fn stop(&self) {
        self.scene.arm();
        self.scene.wait_until_stopped();
    }
}

impl Migrate for StoppedClient<'_> {
    fn migrate(&self, moves: &mut [Move]) {
        self.holder.migrate(moves);
        self.stop();
    }

    fn discard(&self, blocks: &mut [Discard]) {
        if self.drops {
            for of in blocks {
                let dropped = self.holder.blocks.borrow_mut().remove(&of.frame);
                of.is_dropped = dropped.is_some();
            }
            self.has_dropped.set(true);
            self.stop();
        }
    }
}

type ReclaimWork =
    for<'z, 'm> fn(&Reclaim<'z, 'm, Scene>, &mut Seat<'z, 'm, Scene>, &StoppedClient<'_>) -> bool;

/// Does `work`, in which a client's call lets another CPU stop all. The wait for that unwinds; then all frames are
/// where the client said, and nowhere else.
fn waits_after_its_client(drops: bool, mood: Mood, work: ReclaimWork) -> ReclaimStats {
    let layout = ZoneLayout::new(Frame(0), 64 * 8)
        .with_orders(order(6), order(8))
        .with_cpus(2);
    let mut memory = vec![!0; layout.words_needed().unwrap()];
    let scene = Scene::default();
    let zone = Zone::new(&layout, &uncached(), &mut memory, scene.clone()).unwrap();
    zone.add(run(0, 64 * 8)).unwrap();
    let mut words = vec![!0; Reclaim::words_needed(&zone)];
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut words).unwrap();
    let holder = Holder::default();
    for frame in (0..64 * 8).step_by(16) {
        holder.hold(&zone, (frame, 0), mood);
    }
    let client = StoppedClient {
        holder: &holder,
        scene: &scene,
        drops,
        has_dropped: Cell::new(false),
    };
    let mut seat = zone.seat(CpuId(0)).unwrap();
    thread::scope(|threads| {
        threads.spawn(|| {
            scene.wait_until_armed();
            zone.drain();
        });
        let work = catch_unwind(AssertUnwindSafe(|| work(&reclaim, &mut seat, &client)));
        assert!(work.is_err() && scene.has_unwound(), "{work:?}: it waits");
    });
    assert_eq!(client.has_dropped.get(), drops);
    assert_nothing_is_left(&zone, holder.frames());
    holder.free_all(&mut seat);
    assert_nothing_is_left(&zone, 0);
    let stats = reclaim.stats();
    assert!(stats.compact_migrate_scanned > 0, "R9: what it looked at");
    stats
}

#[test]
fn r2_each_move_leaves_one_block_if_the_wait_for_that_unwinds() {
    for mood in [Mood::Moves, Mood::Busy] {
        waits_after_its_client(false, mood, |reclaim, seat, client| {
            reclaim.evacuate(seat, run(64, 64), &[client]).is_ok()
        });
        let stats = waits_after_its_client(false, mood, |reclaim, seat, client| {
            let found = reclaim.compact(seat, order(6), Movable, &[client]);
            matches!(found, Compaction::Captured(_))
        });
        let tried = (stats.compact_stall, stats.compact_fail);
        assert_eq!(tried, (1, 1), "R9: it has failed");
    }
}

fn take_run<'z, 'm>(
    reclaim: &Reclaim<'z, 'm, Scene>,
    seat: &mut Seat<'z, 'm, Scene>,
    client: &StoppedClient<'_>,
) -> bool {
    let clients = Clients {
        shrink: &[],
        migrate: &[client],
    };
    let (config, effort) = (ContigConfig::default(), &mut ContigStats::default());
    let taken = reclaim.take_run(seat, run(70, 100), &clients, &config, effort);
    taken.is_ok()
}

#[test]
fn r2_a_run_that_is_emptied_loses_no_frame_if_the_wait_for_that_unwinds() {
    for drops in [false, true] {
        waits_after_its_client(drops, Mood::Moves, take_run);
    }
}

/// A client that gives nothing and unwinds, or gives what it is asked for.
struct UnwindingClient<'a> {
    unwinds: bool,
    asked: &'a Cell<u32>,
}

impl<F> Shrink<F> for UnwindingClient<'_> {
    fn holding(&self) -> u64 {
        64
    }

    fn shrink(&self, _frames: &mut F, ask: &Ask) -> Shrunk {
        self.asked.set(self.asked.get() + 1);
        assert!(!self.unwinds, "as the test wants it");
        Shrunk {
            scanned: 2,
            freed: ask.wanted.min(1),
        }
    }
}

#[test]
fn r9_a_client_that_unwinds_is_not_the_first_again_and_what_others_did_is_counted() {
    let layout = ZoneLayout::new(Frame(0), 64 * 8).with_orders(order(6), order(8));
    let mut memory = vec![!0; layout.words_needed().unwrap()];
    let zone = Zone::new(&layout, &uncached(), &mut memory, Scene::default()).unwrap();
    zone.add(run(0, 64 * 8)).unwrap();
    let mut words = vec![!0; Reclaim::words_needed(&zone)];
    let reclaim = Reclaim::new(&zone, &ReclaimConfig::default(), &mut words).unwrap();
    let asked = [(); 3].map(|()| Cell::new(0));
    let [first, second, third] = [0, 1, 2].map(|nth| UnwindingClient {
        unwinds: nth == 1,
        asked: &asked[nth],
    });
    let shrink: [&dyn Shrink<_>; 3] = [&first, &second, &third];
    let clients = Clients {
        shrink: &shrink,
        migrate: &[],
    };
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut unwound = 0;
    for _ in 0..6 {
        let bring = || reclaim.bring(&mut seat, order(0), 3, &clients);
        unwound += u32::from(catch_unwind(AssertUnwindSafe(bring)).is_err());
    }
    assert_eq!(unwound, 6, "each meets the second one");
    let asked = asked.map(Cell::into_inner);
    assert!(asked.iter().all(|&asked| asked >= 2), "R9: {asked:?}");
    let stats = reclaim.stats();
    assert_eq!(asked[1], unwound);
    assert_eq!(stats.pgsteal_direct, u64::from(asked[0] + asked[2]), "R9");
    assert_eq!(stats.pgscan_direct, 2 * stats.pgsteal_direct, "R9");
}
