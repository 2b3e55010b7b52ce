//! Locks, accounted where that is asked for.

use framewright::frame::ZoneLayout;
use framewright::kv::KvRequest;
use framewright::policy::Effort;
use framewright::stats::{FrameStats, LockStats, RangeStats};
use framewright::vrange::AreaRequest;
use framewright::{CpuId, Frame, Mobility, Order};
use framewright_linux::{HostKv, HostSpace, Options};
use std::sync::Barrier;
use std::thread;

const FRAMES: u64 = 4096;
/// Fewer than there are frames: so what no gap of the window can serve is not refused for its frames.
const PAGES: u64 = 1 << 11;

fn options(accounts_locks: bool, frames: u64) -> Options {
    Options {
        accounts_locks,
        ..Options::new(ZoneLayout::new(Frame(0), frames).with_cpus(2))
    }
}

fn host(accounts_locks: bool) -> HostSpace<()> {
    let options = options(accounts_locks, FRAMES);
    HostSpace::fenced(&options.with_window(PAGES)).unwrap()
}

/// One thread's work, in which every lock is taken: a pageblock's, the arena's, and at the end the
/// stop locks by requests that can never be served.
fn work(host: &HostSpace<()>) {
    let mut seat = host.cpu().unwrap();
    let area = seat.vmalloc(&AreaRequest::new(3)).unwrap();
    seat.vmalloc(&AreaRequest::new(PAGES - 2)).unwrap_err();
    seat.vfree(area).unwrap();
    let block = Order::new(9).unwrap();
    let frame = seat.frames().alloc(0, block, Mobility::Movable).unwrap();
    seat.frames().free(frame, block).unwrap();
    let mut all = Vec::new();
    while let Ok(frame) = seat.frames().alloc_hard(0, block, Mobility::Movable) {
        all.push(frame);
    }
    for frame in all {
        seat.frames().free(frame, block).unwrap();
    }
}

fn all(host: &HostSpace<()>) -> ([LockStats; 2], [LockStats; 3]) {
    let FrameStats {
        stop_lock,
        pageblock_locks,
        ..
    } = host.zone().stats();
    let frames = [stop_lock, pageblock_locks];
    let RangeStats {
        stop_lock,
        arena_lock,
        depot_lock,
        ..
    } = host.space().stats();
    (frames, [stop_lock, arena_lock, depot_lock])
}

#[test]
fn by_one_thread_every_lock_is_taken_so_often_and_never_met() {
    let host = host(true);
    let (frames, _) = all(&host);
    work(&host);
    let (after, ranges) = all(&host);
    assert_eq!(
        after[0].acquisitions,
        frames[0].acquisitions + 1,
        "one failed"
    );
    // Of eight pageblocks one was the area's; each other one was taken and given back, once more
    // the first.
    let pageblocks = after[1].acquisitions - frames[1].acquisitions;
    assert!((16..40).contains(&pageblocks), "{pageblocks}");
    assert_eq!(ranges[0].acquisitions, 1);
    assert!((1..10).contains(&ranges[1].acquisitions), "{ranges:?}");
    for lock in after.iter().chain(&ranges[..2]) {
        assert_eq!(lock.contended, 0);
        assert!(lock.hold_ns_max > 0);
    }
}

/// How often the stop lock and pageblocks' locks are taken while each of two CPUs, in turn, takes
/// `held` blocks of `order` and frees them, this many times, when they have done so before.
fn taken_by_two(order: Order, held: usize, rounds: usize) -> [u64; 2] {
    let options = options(true, 1 << 16);
    let host = HostSpace::fenced(&options.with_window(PAGES)).unwrap();
    let zone = host.zone();
    let mut seats = [0, 1].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    let mut both = |rounds| {
        let mut blocks = [vec![], vec![]];
        for _ in 0..rounds {
            for (seat, blocks) in seats.iter_mut().zip(&mut blocks) {
                blocks.extend((0..held).map(|_| seat.alloc(order, Mobility::Unmovable).unwrap()));
            }
            for (seat, blocks) in seats.iter_mut().zip(&mut blocks) {
                blocks
                    .drain(..)
                    .for_each(|block| seat.free(block, order).unwrap());
            }
        }
    };
    // The limits are set, and the caches have their first blocks.
    both(2);
    let before = all(&host).0;
    both(rounds);
    let after = all(&host).0;
    [0, 1].map(|nth| after[nth].acquisitions - before[nth].acquisitions)
}

#[test]
fn no_operation_of_the_orders_0_to_4_takes_a_lock_that_all_cpus_share() {
    for order in (0..=4).filter_map(Order::new) {
        // Pairs: no lock at all.
        assert_eq!(taken_by_two(order, 1, 300), [0, 0], "{order:?}");
        // More than the caches hold: a pageblock's for each batch, which is half a cache.
        let (held, rounds) = (256 >> order.get(), 20);
        let [stop, pageblocks] = taken_by_two(order, held, rounds);
        let operations = (2 * 2 * held * rounds) as u64;
        let batch = 32 >> order.get();
        assert_eq!(stop, 0, "{order:?}");
        assert!(
            pageblocks > 0 && pageblocks * batch <= 2 * operations,
            "{order:?}"
        );
    }
}

#[test]
fn the_stop_lock_of_objects_is_taken_by_requests_that_would_fail() {
    let objects = HostKv::fenced(&options(true, FRAMES).with_window(PAGES)).unwrap();
    let mut seat = objects.cpu().unwrap();
    let request = KvRequest::new(64).with(Effort::MustSucceed);
    assert_eq!(objects.kv().stats().stop_lock, LockStats::default());
    while seat.kmalloc(&request).is_ok() {}
    let lock = objects.kv().stats().stop_lock;
    assert!(lock.acquisitions > 0 && lock.contended == 0 && lock.hold_ns_max > 0);
}

#[test]
fn nothing_is_accounted_unasked() {
    let host = host(false);
    work(&host);
    assert_eq!(
        all(&host),
        ([LockStats::default(); 2], [LockStats::default(); 3])
    );
}

#[test]
fn of_two_threads_the_sums_are_those_of_both() {
    let host = host(true);
    let (before, _) = all(&host);
    let begin = Barrier::new(2);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                begin.wait();
                for _ in 0..200 {
                    let mut seat = host.cpu().unwrap();
                    let order = Order::new(9).unwrap();
                    let frame = seat.frames().alloc(0, order, Mobility::Movable).unwrap();
                    seat.frames().free(frame, order).unwrap();
                }
            });
        }
    });
    let (after, _) = all(&host);
    let pageblocks = after[1].acquisitions - before[1].acquisitions;
    assert!(pageblocks >= 800, "{pageblocks} for 800 blocks");
    assert_eq!(
        after[0].acquisitions, before[0].acquisitions,
        "no CPU was stopped"
    );
}
