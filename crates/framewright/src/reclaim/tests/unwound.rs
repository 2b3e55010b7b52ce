//! Waits that unwind while frames are in reclaim's hands: none is lost (R1, R2).

use super::*;
use crate::platform::scene::Scene;
use crate::policy::ContigConfig;
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
fn waits_after_its_client(drops: bool, mood: Mood, work: ReclaimWork) {
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
}

#[test]
fn r2_each_move_leaves_one_block_if_the_wait_for_that_unwinds() {
    for mood in [Mood::Moves, Mood::Busy] {
        waits_after_its_client(false, mood, |reclaim, seat, client| {
            reclaim.evacuate(seat, run(64, 64), &[client]).is_ok()
        });
        waits_after_its_client(false, mood, |reclaim, seat, client| {
            let found = reclaim.compact(seat, order(6), Movable, &[client]);
            matches!(found, Compaction::Captured(_))
        });
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
    let (config, effort) = (ContigConfig::default(), &mut RunEffort::default());
    let taken = reclaim.take_run(seat, run(70, 100), &clients, &config, effort);
    taken.is_ok()
}

#[test]
fn r2_a_run_that_is_emptied_loses_no_frame_if_the_wait_for_that_unwinds() {
    for drops in [false, true] {
        waits_after_its_client(drops, Mood::Moves, take_run);
    }
}
