//! Requests of a CPU whose clients give memory back.

use super::*;
use crate::frame::AllocError;
use crate::policy::Effort;
use crate::reclaim::{Ask, Clients, Shrink, Shrunk};
use crate::vrange::RangeError;
use std::cell::Cell;

/// A cache that holds frames until it is asked.
#[derive(Default)]
struct FrameCache(RefCell<Vec<Frame>>);

impl<'e, 'm> Shrink<crate::frame::Seat<'e, 'm, TestBoard>> for FrameCache {
    fn holding(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn shrink(&self, frames: &mut crate::frame::Seat<'e, 'm, TestBoard>, ask: &Ask) -> Shrunk {
        let mut shrunk = Shrunk::default();
        while shrunk.freed < ask.wanted && shrunk.scanned < ask.scan {
            let Some(frame) = self.0.borrow_mut().pop() else {
                break;
            };
            shrunk.scanned += 1;
            shrunk.freed += u64::from(frames.free(frame, Order::ZERO).is_ok());
        }
        shrunk
    }
}

/// EN3: a request without clients, or one that may not reclaim, asks none.
#[test]
fn en3_only_requests_that_may_reclaim_ask_the_clients() {
    let cache = FrameCache::default();
    let layout = full_layout();
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let one = |cpu: &mut Cpu<'_, '_, TestBoard>, context| {
        cpu.alloc(Order::ZERO, Mobility::Movable, context)
    };
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    while let Ok(frame) = one(&mut cpu, Context::ANY) {
        cache.0.borrow_mut().push(frame);
    }
    let held = cache.0.borrow().len();
    assert_eq!(held as u64, FRAMES);
    drop(cpu);

    let shrink: [&dyn Shrink<_>; 1] = [&cache];
    let mut cpu = engine
        .cpu(CpuId(0))
        .unwrap()
        .with_clients([client(&shrink)]);
    let refused = one(&mut cpu, Context::NOWAIT);
    assert_eq!(refused, Err(AllocError::Exhausted));
    assert_eq!(cache.0.borrow().len(), held, "it was not asked");
    let frame = one(&mut cpu, Context::ANY).unwrap();
    assert!(cache.0.borrow().len() < held);
    let area = cpu.vmalloc(&AreaRequest::new(600)).unwrap();
    let object = KvRequest::new(600 * Page::BYTES).with(Effort::MustSucceed);
    let object = cpu.kvmalloc(&object).unwrap();
    assert!(cache.0.borrow().len() <= held - 1200);
    assert!(engine.reclaim(0).stats().pgsteal_direct >= 1200);
    cpu.kvfree(object).unwrap();
    cpu.vfree(area).unwrap();
    cpu.free(frame, Order::ZERO).unwrap();
    engine.verify().unwrap();
}

/// Clients that only shrink.
fn client<'a, 'e, 'm>(
    shrink: &'a [&'a dyn Shrink<crate::frame::Seat<'e, 'm, TestBoard>>],
) -> Clients<'a, crate::frame::Seat<'e, 'm, TestBoard>> {
    let migrate = &[];
    Clients { shrink, migrate }
}

/// A zone above its low watermark comes first; when both are short, each zone's clients are asked.
#[test]
fn with_several_zones_each_has_clients_of_its_own() {
    let caches = [FrameCache::default(), FrameCache::default()];
    let near = ZoneLayout::new(Frame(0), 1024);
    let far = ZoneLayout::new(Frame(10_240), 2048);
    let layout = EngineLayout::of_zones([far, near])
        .with_window(Page(1 << 20), 8192)
        .with_objects();
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    engine.add(run(0, 1024)).unwrap();
    engine.add(run(10_240, 2048)).unwrap();
    let shrink: [[&dyn Shrink<_>; 1]; 2] = [[&caches[0]], [&caches[1]]];
    let clients = [client(&shrink[0]), client(&shrink[1])];
    let held = |nth: usize| caches[nth].0.borrow().len() as u64;

    let mut cpu = engine.cpu(CpuId(0)).unwrap().with_clients(clients);
    let order = Order::ZERO;
    while let Ok(frame) = cpu.alloc(order, Mobility::Movable, Context::NOWAIT) {
        let nth = usize::from(frame.0 < 1024);
        // The first zone stays above its min watermark until the second one is low, too.
        let is_second = nth == 1;
        if is_second && held(1) == 0 {
            let free = engine.zones()[0].stats().nr_free_pages;
            assert!(held(0) + free == 2048 && free > 0, "{free} free");
        }
        caches[nth].0.borrow_mut().push(frame);
    }
    assert_eq!([held(0), held(1)], [2048, 1024]);
    let frame = cpu.alloc(order, Mobility::Movable, Context::ANY).unwrap();
    assert!(frame.0 >= 10_240 && held(0) < 2048 && held(1) == 1024);
    // What the first zone's clients do not have, the second zone's give.
    let mut kept = std::mem::take(&mut *caches[0].0.borrow_mut());
    while let Ok(frame) = cpu.alloc(order, Mobility::Movable, Context::NOWAIT) {
        kept.push(frame);
    }
    let one = cpu.alloc(order, Mobility::Movable, Context::ANY).unwrap();
    assert!(one.0 < 1024 && held(1) < 1024);
    let before = held(1);
    let area = cpu.vmalloc(&AreaRequest::new(200)).unwrap();
    let object = KvRequest::new(200 * Page::BYTES).with(Effort::MustSucceed);
    let object = cpu.kvmalloc(&object).unwrap();
    assert!(held(1) < before - 300);
    // A context that must not reclaim asks no client, even if it may block.
    let before = held(1);
    let blocks = Context {
        may_reclaim: false,
        ..Context::ANY
    };
    while let Ok(frame) = cpu.alloc(order, Mobility::Movable, blocks) {
        kept.push(frame);
    }
    assert_eq!(held(1), before);
    cpu.kvfree(object).unwrap();
    cpu.vfree(area).unwrap();
    let rest = caches.iter().flat_map(|cache| cache.0.take());
    for frame in rest.chain(kept).chain([frame, one]) {
        cpu.free(frame, order).unwrap();
    }
    cpu.objects().drain();
    cpu.ranges().drain();
    drop(cpu);
    engine.verify().unwrap();
    assert_eq!(engine.frame_stats().nr_free_pages, 3072);
}

/// A request for more frames than exist asks no client.
#[test]
fn an_impossible_request_reclaims_nothing() {
    let cache = FrameCache::default();
    let layout = full_layout();
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let shrink: [&dyn Shrink<_>; 1] = [&cache];
    let mut cpu = engine
        .cpu(CpuId(0))
        .unwrap()
        .with_clients([client(&shrink)]);
    for _ in 0..1000 {
        let frame = cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY);
        cache.0.borrow_mut().push(frame.unwrap());
    }
    let refused = cpu.vmalloc(&AreaRequest::new(FRAMES + 1));
    assert!(matches!(refused, Err(RangeError::TooManyFrames { .. })));
    let refused = cpu.alloc_run(FRAMES + 1, 1, Mobility::Movable, Context::ANY);
    assert_eq!(refused, Err(AllocError::Impossible));
    assert_eq!(cache.0.borrow().len(), 1000);
    // One that is possible takes what is free first.
    let taken = cpu.alloc_run(1024, 1, Mobility::Movable, Context::ANY);
    assert_eq!(cache.0.borrow().len(), 1000);
    cpu.free_run(taken.unwrap()).unwrap();
}

/// The frames that are left lie in another CPU's cache, where only a stop finds them.
#[test]
fn a_cpu_that_must_not_wait_stops_no_other_one_with_clients_or_without() {
    for has_clients in [false, true] {
        let cache = FrameCache::default();
        let shrink: [&dyn Shrink<_>; 1] = [&cache];
        let layout = full_layout().with_cpus(2);
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
        engine.add(run(0, FRAMES)).unwrap();
        let [mut one, mut other] = [0, 1].map(|cpu| engine.cpu(CpuId(cpu)).unwrap());
        if has_clients {
            one = one.with_clients([client(&shrink)]);
        }
        let frame = other.alloc(Order::ZERO, Mobility::Movable, Context::ANY);
        other.free(frame.unwrap(), Order::ZERO).unwrap();
        let nowait = Context::NOWAIT;
        let stops = || {
            let frames = engine.frame_stats().drains;
            frames + engine.space().stats().drains + engine.objects().stats().drains
        };
        let before = stops();
        while let Ok(frame) = one.alloc(Order::ZERO, Mobility::Movable, nowait) {
            cache.0.borrow_mut().push(frame);
        }
        let would_wait = AllocError::WouldWait;
        let size = |order| Order::new(order).unwrap();
        for order in [0, 1].map(size) {
            let failed = one.alloc(order, Mobility::Unmovable, nowait);
            assert_eq!(failed, Err(would_wait), "{order}");
            let failed = one.alloc_run(order.frames(), 1, Mobility::Movable, nowait);
            assert_eq!(failed, Err(would_wait), "{order}");
        }
        let area = one.vmalloc(&AreaRequest::new(2).within(nowait));
        assert_eq!(area, Err(RangeError::Frames(would_wait)));
        let object = KvRequest::new(5000).within(nowait);
        assert!(one.kmalloc(&object).is_err());
        let spilled = one.kvmalloc(&object);
        let for_frames = KvError::Ranges(RangeError::Frames(would_wait));
        assert_eq!(spilled, Err(for_frames));
        assert_eq!(stops(), before, "with clients: {has_clients}");
        // One that may wait stops them and has the frame.
        let blocks = Context {
            may_block: true,
            ..nowait
        };
        one.alloc(Order::ZERO, Mobility::Unmovable, blocks).unwrap();
        assert!(stops() > before);
        drop((one, other));
        engine.verify().unwrap();
    }
}

/// A client that says it freed frames. With `swaps` it takes one and frees it, and else does nothing.
struct BoastingCache {
    swaps: bool,
    asked: Cell<u64>,
}

impl<'e, 'm> Shrink<crate::frame::Seat<'e, 'm, TestBoard>> for BoastingCache {
    fn holding(&self) -> u64 {
        1000
    }

    fn shrink(&self, frames: &mut crate::frame::Seat<'e, 'm, TestBoard>, ask: &Ask) -> Shrunk {
        self.asked.set(self.asked.get() + 1);
        assert!(self.asked.get() < 1_000_000, "the request never ends");
        if self.swaps
            && let Ok(frame) = frames.alloc(Order::ZERO, Mobility::Unmovable)
        {
            frames.free(frame, Order::ZERO).unwrap();
        }
        Shrunk {
            scanned: ask.scan,
            freed: 1,
        }
    }
}

#[test]
fn k7_a_client_that_says_it_freed_what_it_did_not_keeps_no_request_for_ever() {
    for swaps in [false, true] {
        let layout = full_layout();
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
        engine.add(run(0, FRAMES)).unwrap();
        let boaster = BoastingCache {
            swaps,
            asked: Cell::new(0),
        };
        let shrink: [&dyn Shrink<_>; 1] = [&boaster];
        let cpu = engine.cpu(CpuId(0)).unwrap();
        let mut cpu = cpu.with_clients([client(&shrink)]);
        // One frame is taken, so what would need all of them finds too few.
        let frame = cpu
            .alloc(Order::ZERO, Mobility::Movable, Context::NOWAIT)
            .unwrap();
        let all = KvRequest::new(FRAMES * Page::BYTES).with(Effort::MustSucceed);
        assert!(cpu.kvmalloc(&all).is_err());
        let asked = boaster.asked.get();
        let most = if swaps { 2 * FRAMES } else { 100 };
        assert!(asked <= most, "asked {asked} times, swaps {swaps}");
        cpu.free(frame, Order::ZERO).unwrap();
        let object = cpu.kvmalloc(&all).unwrap();
        cpu.kvfree(object).unwrap();
        engine.verify().unwrap();
    }
}
