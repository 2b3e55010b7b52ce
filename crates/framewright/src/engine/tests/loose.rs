//! A request for a run whose wait unwinds.

use super::*;
use crate::reclaim::Clients;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The wait unwinds out of each of several requests for a run: the next one gives the loose block of the last back, before
/// it has one itself.
#[test]
fn f1_no_request_for_a_run_forgets_the_loose_block_of_the_last_one() {
    let order = Order::new(3).unwrap();
    let config = Config {
        cache_permille: 100,
        ..Config::default()
    };
    let layout = EngineLayout::new(Frame(0), 4096)
        .with_cpus(2)
        .with_config(config);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    engine.add(run(0, 4096)).unwrap();
    let [zone] = engine.zones();
    // A CPU with clients looks at the watermarks first, and leaves its seat in between.
    let mut cpu = engine.cpu(CpuId(0)).unwrap().with_clients([Clients::NONE]);
    let blocks = [0; 3].map(|_| cpu.alloc(order, Mobility::Unmovable, Context::ANY).unwrap());
    blocks
        .iter()
        .for_each(|&block| cpu.free(block, order).unwrap());
    // Another CPU works in the pageblock of the cached blocks, and each request waits for it to cut one.
    zone.while_locked(blocks[0], || {
        for nth in 0..3 {
            let asked = || cpu.alloc_run(5, 1, Mobility::Unmovable, Context::NOWAIT);
            let unwound = catch_unwind(AssertUnwindSafe(asked));
            assert!(unwound.is_err(), "request {nth} cuts no cached block");
        }
    });
    drop(cpu);
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.recount().free, 4096);
}

#[test]
fn a_cpu_that_is_taken_down_holds_nothing_back_from_the_others() {
    let layout = EngineLayout::new(Frame(0), FRAMES)
        .with_cpus(2)
        .with_window(Page(1 << 20), 8192)
        .with_objects()
        .with_percpu(2, 32);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let mut stays = engine.cpu(CpuId(0)).unwrap();
    let mut leaves = engine.cpu(CpuId(1)).unwrap();
    let area = |pages| AreaRequest::new(pages);
    let frames: Vec<Frame> = (0..40)
        .map(|_| leaves.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY))
        .map(Result::unwrap)
        .collect();
    let areas: Vec<Page> = (1..40)
        .map(|pages| leaves.vmalloc(&area(pages)).unwrap())
        .collect();
    let objects: Vec<Addr> = (1..60)
        .map(|bytes| leaves.kmalloc(&KvRequest::new(bytes * 40)).unwrap())
        .collect();
    let percpu: Vec<Addr> = (1..60)
        .map(|bytes| leaves.alloc_percpu(bytes * 40, 8, Context::ANY).unwrap())
        .collect();
    // Half of each goes before, half after it left; the latter lies in its spans and slabs.
    for (nth, frame) in frames.iter().enumerate().filter(|(nth, _)| nth % 2 == 0) {
        let cpu = if nth % 4 == 0 {
            &mut leaves
        } else {
            &mut stays
        };
        cpu.free(*frame, Order::ZERO).unwrap();
    }
    areas
        .iter()
        .step_by(2)
        .for_each(|page| _ = leaves.vfree(*page).unwrap());
    objects
        .iter()
        .step_by(2)
        .for_each(|addr| _ = leaves.kvfree(*addr).unwrap());
    percpu
        .iter()
        .step_by(2)
        .for_each(|addr| _ = leaves.free_percpu(*addr).unwrap());
    let used = FRAMES - engine.frame_stats().nr_free_pages;
    leaves.drain();
    drop(leaves);
    let left = FRAMES - engine.frame_stats().nr_free_pages;
    assert!(left < used, "a drain gives frames back: {left} of {used}");
    engine.verify().unwrap();
    for frame in frames.iter().skip(1).step_by(2) {
        stays.free(*frame, Order::ZERO).unwrap();
    }
    areas
        .iter()
        .skip(1)
        .step_by(2)
        .for_each(|page| _ = stays.vfree(*page).unwrap());
    objects
        .iter()
        .skip(1)
        .step_by(2)
        .for_each(|addr| _ = stays.kvfree(*addr).unwrap());
    percpu
        .iter()
        .skip(1)
        .step_by(2)
        .for_each(|addr| _ = stays.free_percpu(*addr).unwrap());
    // No request is refused for what lies where the CPU was: an object that takes nearly all frames, but for the per-CPU
    // pages that stay.
    let whole = KvRequest::new((FRAMES - 8) * Frame::BYTES);
    let whole = stays.kvmalloc(&whole).unwrap();
    stays.kvfree(whole).unwrap();
    stays.drain();
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
    // It comes back, and works as before.
    let mut again = engine.cpu(CpuId(1)).unwrap();
    let page = again.vmalloc(&area(3)).unwrap();
    stays.vfree(page).unwrap();
    engine.verify().unwrap();
}
