//! What each effort does and does not do, as laws; the context that each inner call sees; and that
//! no memory is lost when any of them fails.

use super::watch::{FullSource, Heard};
use super::*;
use crate::frame::AllocError;
use crate::kv::table::ObjectKind;
use crate::platform::bare::BarePlatform;
use crate::platform::crowd::Crowd;
use crate::policy::Effort::{self, FailFast, MayCompact, MustSucceed};
use crate::units::{Mobility::Movable, Order};
use crate::vrange::RangeError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

const K: u64 = 1024;
const CAREFUL: Context = Context {
    may_reclaim: false,
    ..Context::ANY
};

/// Every other of the first 256 frames is free: no two side by side.
fn fragmented() -> FullSource {
    let mut full = FullSource::new(512, 4096);
    full.free((0..256).step_by(2));
    full.log.take();
    full
}

fn kind(full: &FullSource, addr: Addr) -> ObjectKind {
    full.machine.kv.kind(addr)
}

#[test]
fn k7_fail_fast_spills_and_never_asks_for_relief() {
    let mut full = fragmented();
    full.cached(300..400);
    let addr = full.seat.kvmalloc(&KvRequest::new(64 * K)).unwrap();
    assert_eq!(kind(&full, addr), ObjectKind::Mapped);
    full.seat.kvfree(addr).unwrap();
    let none = full.seat.kvmalloc(&KvRequest::new(800 * K));
    let exhausted = KvError::Ranges(RangeError::Frames(AllocError::Exhausted));
    assert_eq!(none, Err(exhausted));
    assert_eq!(full.log.relief(), (0, 0));
    // A request that must be contiguous takes one look, and stops no CPU.
    full.log.take();
    let none = full.seat.kmalloc(&KvRequest::new(64 * K));
    assert_eq!(none, Err(KvError::NotNow { bytes: 64 * K }));
    assert_eq!(
        std::format!("{}", none.unwrap_err()),
        "65536 contiguous bytes were not there at once"
    );
    assert_eq!(full.log.take(), [Heard::Try(Order::new(4).unwrap())]);
    let stats = full.machine.kv.stats();
    assert_eq!((stats.compact_stall, stats.allocstall), (0, 0));
    assert_eq!((stats.spills, stats.failures), (1, 2));
}

#[test]
fn k7_may_compact_compacts_once_and_looks_again_before_it_spills() {
    let order = Order::new(4).unwrap();
    let request = KvRequest::new(64 * K).with(MayCompact);
    let mut full = fragmented();
    *full.cache.between.borrow_mut() = (1..64).step_by(2).map(Frame).collect();
    let addr = full.seat.kvmalloc(&request).unwrap();
    assert_eq!(kind(&full, addr), ObjectKind::Run);
    let compact = Heard::Compact(order, Context::ANY);
    let heard = [Heard::Try(order), compact, Heard::Try(order)];
    assert_eq!(full.log.take(), heard);
    // The next ones find no more to move.
    let more: Vec<Addr> = (0..4)
        .map(|_| full.seat.kvmalloc(&request).unwrap())
        .collect();
    assert_eq!(kind(&full, more[3]), ObjectKind::Mapped);
    assert_eq!(full.log.relief().1, 0);
    let stats = full.machine.kv.stats();
    assert!(stats.compact_stall >= 2 && stats.compact_stall <= 5);
    assert_eq!(stats.allocstall, 0);
}

#[test]
fn k7_may_compact_reclaims_once() {
    let mut full = FullSource::new(512, 4096);
    let request = KvRequest::new(32 * K).with(MayCompact);
    full.cached(100..107);
    assert!(full.seat.kvmalloc(&request).is_err());
    assert_eq!(full.log.relief(), (1, 1));
    full.cached(200..201);
    // Seven are free now, and the eighth comes.
    let addr = full.seat.kvmalloc(&request).unwrap();
    assert_eq!(full.log.relief(), (2, 2));
    assert_eq!(full.machine.kv.stats().allocstall, 2);
    full.seat.kvfree(addr).unwrap();
    assert_eq!(full.free_frames(), 8);
}

#[test]
fn k7_must_succeed_reclaims_until_no_client_gives_anything() {
    let mut full = FullSource::new(512, 4096);
    full.cache.most.set(3);
    full.cached((100..164).step_by(2));
    let request = KvRequest::new(64 * K).with(MustSucceed);
    let addr = full.seat.kvmalloc(&request).unwrap();
    // Six times three frames are enough for sixteen.
    assert_eq!(full.log.relief(), (0, 6));
    assert_eq!(kind(&full, addr), ObjectKind::Mapped);
    // Two of those are left, and fourteen cached ones: a second one fits just so.
    let more = full.seat.kvmalloc(&request).unwrap();
    let failed = full.seat.kvmalloc(&request);
    let exhausted = KvError::Ranges(RangeError::Frames(AllocError::Exhausted));
    assert_eq!(failed, Err(exhausted), "an error, and nothing hangs");
    full.seat.kvfree(addr).unwrap();
    full.seat.kvfree(more).unwrap();
    assert_eq!(full.free_frames(), 32);
}

#[test]
fn k7_what_must_succeed_and_may_not_wait_is_refused_before_anything_is_tried() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let own = seat.kvmalloc(&KvRequest::new(100)).unwrap();
    for context in [Context::NOWAIT, CAREFUL] {
        let request = KvRequest::new(64).with(MustSucceed).within(context);
        assert_eq!(seat.kmalloc(&request), Err(KvError::MustNotWait));
        assert_eq!(seat.kvmalloc(&request), Err(KvError::MustNotWait));
        assert_eq!(seat.kvrealloc(own, &request), Err(KvError::MustNotWait));
        assert_eq!(
            std::format!("{}", KvError::MustNotWait),
            "a request that must succeed has to be allowed to wait and to reclaim"
        );
    }
    assert_eq!(machine.kv.stats().failures, 0);
    seat.kvfree(own).unwrap();
    machine.assert_all_free(seat);
}

#[test]
fn kmalloc_obeys_the_same_efforts_and_does_not_spill() {
    let request = |effort| KvRequest::new(64 * K).with(effort);
    let mut full = fragmented();
    // Reclaiming alone makes a block of it in the end: it takes the odd ones of sixteen.
    full.cached((1..16).step_by(2));
    full.cache.most.set(2);
    let once = full.seat.kmalloc(&request(MayCompact));
    assert_eq!(once, Err(KvError::Frames(AllocError::Fragmented)));
    assert_eq!(full.log.relief(), (1, 1));
    full.log.take();
    let addr = full.seat.kmalloc(&request(MustSucceed)).unwrap();
    assert_eq!(kind(&full, addr), ObjectKind::Run);
    // Three more reclaims; memory compacted before each.
    assert_eq!(full.log.relief(), (3, 3));
    assert_eq!(full.seat.kfree(addr), Ok(64 * K));
    // Alone: a caller that may wait, but not reclaim, has everything collected.
    full.log.take();
    let waits = request(MayCompact).within(CAREFUL);
    let addr = full.seat.kmalloc(&waits).unwrap();
    assert_eq!(full.log.relief(), (0, 0));
    full.seat.kfree(addr).unwrap();
    full.log.take();
    let nowait = request(MayCompact).within(Context::NOWAIT);
    let _ = full.seat.kmalloc(&nowait).map(|addr| full.seat.kfree(addr));
    assert_eq!(full.log.take(), [Heard::Try(Order::new(4).unwrap())]);
}

#[test]
fn k8_every_inner_call_sees_the_context_of_the_request() {
    let contexts = [
        Context::ANY,
        Context::NOFS,
        Context::NOIO,
        Context::NOWAIT,
        CAREFUL,
    ];
    for context in contexts {
        for effort in [FailFast, MayCompact, MustSucceed] {
            let mut full = fragmented();
            full.cached(300..500);
            full.cache.most.set(40);
            let request = KvRequest::new(64 * K).with(effort).within(context);
            let addr = match full.seat.kvmalloc(&request) {
                Err(KvError::MustNotWait) if effort == MustSucceed => continue,
                got => got.unwrap(),
            };
            assert_eq!(kind(&full, addr), ObjectKind::Mapped, "also without I/O");
            // Longer than what is free: as much of everything as the effort allows.
            let longer = KvRequest {
                bytes: 700 * K,
                ..request
            };
            let more = full.seat.kvmalloc(&longer);
            let may = context.may_reclaim && effort != FailFast;
            assert_eq!(full.log.relief().1 > 0, may, "{effort:?} {context:?}");
            assert_eq!(more.is_ok(), effort == MustSucceed);
            let blocks = KvRequest {
                bytes: 32 * K,
                ..request
            };
            let _ = full.seat.kmalloc(&blocks);
            let grown = KvRequest {
                bytes: 80 * K,
                ..request
            };
            let moved = full.seat.kvrealloc(addr, &grown);
            match context.may_block {
                true => assert!(moved.is_ok(), "{moved:?}"),
                false => assert_eq!(moved, Err(KvError::MustNotFree(addr))),
            }
            assert_eq!(full.log.strangers(context), "", "{effort:?} {context:?}");
            let mapped = full.machine.toy.contexts.borrow();
            assert!(!mapped.is_empty());
            assert!(mapped.iter().all(|seen| *seen == context), "{mapped:?}");
        }
    }
}

/// Everything that a call sees fails in turn, the first, the second and so on, until there is no
/// further call; and a request that fails gives back all that it took.
fn each_fails(
    effort: Effort,
    work: impl Fn(&mut FullSource, Effort) -> Result<(), KvError>,
) -> u32 {
    let mut failures = 0;
    for is_map in [false, true] {
        for nth in 0.. {
            let mut full = FullSource::new(128, 512);
            full.free((0..64).step_by(2));
            full.cached(100..108);
            full.cache.most.set(5);
            full.cache.between.borrow_mut().extend([1, 3].map(Frame));
            let total = |full: &mut FullSource| {
                let cache = full.cache;
                let held = cache.cached.borrow().len() + cache.between.borrow().len();
                full.free_frames() + held as u64
            };
            let before = total(&mut full);
            full.log.fail(if is_map { u64::MAX } else { nth });
            full.machine.toy.map_fails.set(is_map.then_some(nth));
            let calls_before = full.machine.toy.contexts.borrow().len() as u64;
            let result = work(&mut full, effort);
            failures += u32::from(result.is_err());
            let maps = full.machine.toy.contexts.borrow().len() as u64 - calls_before;
            let calls = if is_map {
                maps
            } else {
                full.log.take().len() as u64
            };
            full.machine.toy.map_fails.set(None);
            assert_eq!(total(&mut full), before, "K6: {effort:?} {nth}: {result:?}");
            full.machine.zone.verify().unwrap();
            full.machine.space.verify().unwrap();
            assert!(full.machine.toy.mapped.borrow().is_empty());
            if calls <= nth {
                break;
            }
        }
    }
    failures
}

#[test]
fn k6_whichever_inner_step_fails_everything_taken_goes_back() {
    for effort in [FailFast, MayCompact, MustSucceed] {
        let failures = each_fails(effort, |full, effort| {
            let request = KvRequest::new(144 * K).with(effort);
            let addr = full.seat.kvmalloc(&request)?;
            full.seat.kvfree(addr).unwrap();
            Ok(())
        });
        assert!(failures > 0, "{effort:?}: {failures}");
        each_fails(effort, |full, effort| {
            let addr = full.seat.kmalloc(&KvRequest::new(8 * K).with(effort))?;
            full.seat.kfree(addr).unwrap();
            Ok(())
        });
        each_fails(effort, |full, effort| {
            let request = KvRequest::new(9 * K).with(effort);
            let addr = full.seat.kvmalloc(&request)?;
            full.machine.toy.fill(addr, 9 * K, 3);
            let grown = full
                .seat
                .kvrealloc(addr, &KvRequest::new(60 * K).with(effort));
            let now = *grown.as_ref().unwrap_or(&addr);
            assert!(full.machine.toy.is_filled(now, 9 * K, 3), "{grown:?}");
            full.seat.kvfree(now).unwrap();
            grown.map(|_| ())
        });
    }
}

#[test]
fn where_the_window_is_full_what_may_wait_is_served_contiguously() {
    let mut full = FullSource::new(512, 16);
    full.free(0..12);
    let addr = full.seat.kvmalloc(&KvRequest::new(40 * K)).unwrap();
    assert_eq!(kind(&full, addr), ObjectKind::Mapped, "no block of order 4");
    // Odd frames come back, so that a block can be made, but there are no pages for mapping.
    full.cached(16..64);
    let fast = full.seat.kvmalloc(&KvRequest::new(20 * K));
    assert!(matches!(
        fast,
        Err(KvError::Ranges(RangeError::NoSpace { .. }))
    ));
    let request = KvRequest::new(20 * K).with(MayCompact);
    let served = full.seat.kvmalloc(&request.within(Context::NOIO));
    assert_eq!(kind(&full, served.unwrap()), ObjectKind::Run);
    assert_eq!(
        full.log.strangers(Context::ANY).matches("Reclaim").count(),
        1
    );
}

#[test]
fn what_no_memory_can_serve_is_refused_before_a_client_is_asked() {
    let mut full = FullSource::new(512, 64);
    full.cached(0..512);
    full.log.take();
    let longest = 512 * Page::BYTES;
    for bytes in [longest + 1, 1 << 40, u64::MAX] {
        let request = KvRequest::new(bytes).with(MustSucceed);
        assert_eq!(
            full.seat.kvmalloc(&request),
            Err(KvError::TooLong { bytes })
        );
        assert_eq!(full.seat.kmalloc(&request), Err(KvError::TooLong { bytes }));
    }
    // No block is so long in this memory, and no window.
    let bytes = longest - 1;
    let request = KvRequest::new(bytes).with(MustSucceed).aligned_to(1 << 30);
    assert_eq!(
        full.seat.kvmalloc(&request),
        Err(KvError::TooLong { bytes })
    );
    let far = KvRequest::new(8).aligned_to(1 << 31);
    let error = full.seat.kmalloc(&far).unwrap_err();
    assert_eq!(
        std::format!("{error}"),
        "no contiguous object is aligned to 2147483648 bytes"
    );
    assert_eq!(full.log.take(), []);
}

#[test]
fn a_source_that_panics_leaves_the_seat_idle_and_whole() {
    let mut full = FullSource::new(512, 4096);
    full.free(0..64);
    let free = full.machine.zone.stats().nr_free_pages;
    let request = KvRequest::new(100);
    for is_free in [false, true] {
        let held: Vec<Addr> = match is_free {
            true => (0..200)
                .map(|_| full.seat.kmalloc(&request).unwrap())
                .collect(),
            false => Vec::new(),
        };
        full.log.panics.set(true);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            if !is_free {
                return full.seat.kmalloc(&request).is_ok();
            }
            // Of the slabs that become empty, the second goes back.
            held.iter().all(|&addr| full.seat.kfree(addr).is_ok())
        }));
        assert!(unwound.is_err(), "free: {is_free}");
        // A CPU that stops all others now need not wait.
        full.machine.kv.verify().unwrap();
        full.machine.zone.verify().unwrap();
        let addr = full.seat.kmalloc(&request).unwrap();
        full.seat.kfree(addr).unwrap();
        held.iter().for_each(|&addr| _ = full.seat.kfree(addr));
        full.seat.drain();
        assert_eq!(full.machine.zone.stats().nr_free_pages, free, "K6");
        full.machine.kv.verify().unwrap();
    }
}

#[test]
fn k10_a_request_that_fails_stops_all_cpus_once_and_not_again_in_vain() {
    let mut full = FullSource::new(512, 4096);
    let stops = |full: &FullSource| {
        let (kv, zone) = (full.machine.kv.stats(), full.machine.zone.stats());
        kv.drains + full.machine.space.stats().drains + zone.drains
    };
    for bytes in [100, 4096, 64 * K] {
        let request = KvRequest::new(bytes).with(MayCompact).within(CAREFUL);
        let before = stops(&full);
        assert!(full.seat.kmalloc(&request).is_err());
        assert!(
            stops(&full) <= before + 3,
            "{bytes}: {} stops",
            stops(&full) - before
        );
        assert!(full.seat.kvmalloc(&request).is_err());
        let before = stops(&full);
        for _ in 0..100 {
            assert!(full.seat.kmalloc(&request).is_err());
            assert!(full.seat.kvmalloc(&request).is_err());
        }
        assert_eq!(stops(&full), before, "{bytes}: nothing was freed");
    }
}

/// A machine of 64 CPUs in which every frame is taken: how many stops of all CPUs the first `requests` for an object cost,
/// made at once by so many CPUs, and their errors.
fn stops_at_once(requests: u16, bytes: u64) -> (u64, Vec<KvError>) {
    const CPUS: u16 = 64;
    let crowd = Crowd::default();
    let layout = ZoneLayout::new(Frame(0), 1024).with_cpus(CPUS);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let zone = Zone::new(&layout, &Config::default(), &mut memory, &crowd).unwrap();
    zone.add(Run::new(Frame(0), 1024).unwrap()).unwrap();
    let platform = BarePlatform(&crowd, Addr(1 << 40));
    let layout = SpaceLayout::new(WINDOW, 1 << 16).with_cpus(CPUS);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let config = RangeConfig::default();
    let space = Space::new(&layout, &config, &mut memory, platform).unwrap();
    let layout = KvLayout::new(Frame(0), 1024).with_cpus(CPUS);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let kv = Kv::new(&layout, &mut memory, platform).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    while seat.alloc(Order::ZERO, Movable).is_ok() {}
    // A free and an allocation, so that the memo of stops rules no stop out.
    seat.free(Frame(0), Order::ZERO).unwrap();
    assert_eq!(seat.alloc(Order::ZERO, Movable), Ok(Frame(0)));
    drop(seat);
    let stops = || kv.stats().drains + space.stats().drains + zone.stats().drains;
    let before = stops();
    crowd.expect(requests - 1);
    let errors = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for cpu in 0..requests {
            let (zone, space, kv, errors) = (&zone, &space, &kv, &errors);
            scope.spawn(move || {
                let frames = zone.seat(CpuId(cpu)).unwrap();
                let ranges = space.seat(CpuId(cpu), frames).unwrap();
                let mut seat = kv.seat(ranges).unwrap();
                let got = seat.kvmalloc(&KvRequest::new(bytes).within(CAREFUL));
                errors.lock().unwrap().push(got.unwrap_err());
            });
        }
    });
    (stops() - before, errors.into_inner().unwrap())
}

#[test]
fn k10_requests_of_64_cpus_that_fail_at_once_cost_no_more_stops_than_one() {
    for bytes in [100, 64 * K] {
        let (alone, error) = stops_at_once(1, bytes);
        assert!((1..=3).contains(&alone), "{bytes} bytes: {alone} stops");
        let (all, errors) = stops_at_once(64, bytes);
        assert_eq!(errors, vec![error[0]; 64], "{bytes} bytes");
        assert!(
            (1..=alone).contains(&all),
            "{bytes}: {all}, {alone} for one"
        );
    }
}

#[test]
fn what_has_more_frames_than_there_are_is_refused_without_a_stop() {
    // The table is for 512 frames, and one is taken away.
    let mut full = FullSource::new(512, 4096);
    full.free(511..512);
    full.machine.zone.remove(one(511)).unwrap();
    full.log.take();
    let drains = full.machine.zone.stats().drains;
    let bytes = 512 * Page::BYTES;
    let request = KvRequest::new(bytes).with(MustSucceed);
    assert_eq!(full.seat.kmalloc(&request), Err(KvError::TooLong { bytes }));
    assert_eq!(
        full.seat.kvmalloc(&request),
        Err(KvError::TooLong { bytes })
    );
    assert_eq!(full.log.take(), []);
    assert_eq!(full.machine.zone.stats().drains, drains);
}

#[test]
fn what_is_served_at_once_asks_for_nothing_but_the_block() {
    let mut full = FullSource::new(512, 4096);
    full.free(0..64);
    for bytes in [4096, 64 * K] {
        let request = KvRequest::new(bytes);
        full.log.take();
        let addr = full.seat.kvmalloc(&request).unwrap();
        assert_eq!(full.log.take().len(), 1, "{bytes}");
        full.seat.kvfree(addr).unwrap();
    }
    assert_eq!(full.log.questions.get(), 0);
}

fn one(frame: u64) -> Run {
    Run::new(Frame(frame), 1).unwrap()
}
