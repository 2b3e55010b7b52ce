//! How often a lock was held when a CPU wanted it, where the command line has `locks=1` or `locks=2`.
//!
//! The ordinary paths take no lock of the engine's, and a batch of frames one of many. So of all locks taken less than one in
//! a hundred is held by another CPU: more would say that CPUs wait for each other. A lock that is hardly ever taken says nothing
//! by itself: one stop of two is half of them.
//!
//! With `locks=2` it only says so. Where the emulator's CPUs are threads, the host takes them away for milliseconds, also
//! while they hold a lock, and what that comes to is the host's.

use crate::memory::engine;
use crate::{boot, say};
use framewright::stats::LockStats;

/// Of so many that are taken one at most is contended.
const ONE_OF: u64 = 100;

/// Says how often each was taken and contended, if they are accounted.
pub fn say_and_check() {
    let asked = boot::number("locks").unwrap_or(0);
    if asked == 0 {
        return;
    }
    let (frames, ranges) = (engine().frame_stats(), engine().space().stats());
    let objects = engine().objects().stats();
    let locks = [
        ("zone's stop", frames.stop_lock),
        ("pageblocks", frames.pageblock_locks),
        ("space's stop", ranges.stop_lock),
        ("arena", ranges.arena_lock),
        ("depot", ranges.depot_lock),
        ("objects' stop", objects.stop_lock),
    ];
    let mut all = LockStats::default();
    for (name, lock) in &locks {
        all.add(lock);
        let LockStats {
            acquisitions,
            contended,
            hold_ns_max,
        } = lock;
        say!(
            "lock {name}: {acquisitions} taken, {contended} contended, held {hold_ns_max} ticks at most"
        );
    }
    let (taken, contended) = (all.acquisitions, all.contended);
    let of_10_000 = (contended * 10_000).div_ceil(taken.max(1));
    say!("locks: {taken} taken, {contended} contended, {of_10_000} of 10,000");
    assert!(taken > 0, "no lock is accounted");
    assert!(
        asked == 2 || contended * ONE_OF < taken,
        "{contended} of {taken} locks were contended"
    );
}
