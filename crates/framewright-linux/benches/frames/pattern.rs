//! The patterns: what the threads do, and how long it took them.

use crate::subject::{FrameSubject, FrameWorker};
use crate::threads::{PhaseSpan, SpinGate, in_threads, summary, timed};
use framewright::Order;
use framewright_sim::Random;
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Instant;

/// Blocks in one bulk call, and in one batch when memory is low.
pub(crate) const BATCH: usize = 64;

/// Nanoseconds for each operation, mean over the threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameTiming {
    pub(crate) alloc_ns: f64,
    pub(crate) free_ns: f64,
    /// The part of the time in which all threads were at work, 0 to 1.
    pub(crate) overlap: f64,
}

/// In which order blocks are freed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FreeOrder {
    /// As they were allocated.
    Same,
    /// Each thread shuffles its own.
    RandomOwn,
    /// All threads' blocks are shuffled together, and each thread frees a part.
    RandomOfAll,
}

/// What the benchmark runs on.
#[derive(Clone, Copy)]
pub(crate) struct FrameLoad {
    pub(crate) frames: u64,
    pub(crate) threads: usize,
    /// Operations of a pair pattern, and of a cycle's phase at least.
    pub(crate) ops: usize,
    /// Whether the frames handed out are checked.
    pub(crate) check: bool,
}

fn timing(allocs: &[Vec<PhaseSpan>], frees: &[Vec<PhaseSpan>]) -> FrameTiming {
    let (alloc_ns, overlap) = summary(allocs);
    let (free_ns, other) = summary(frees);
    FrameTiming {
        alloc_ns,
        free_ns,
        overlap: overlap.min(other),
    }
}

/// Panics unless the blocks lie in the memory, are aligned, and share no frame.
fn assert_distinct(blocks: &[u64], order: Order, frames: u64) {
    let mut seen = vec![false; (frames / order.frames()) as usize];
    for &block in blocks {
        assert!(block.is_multiple_of(order.frames()) && block < frames);
        let seen = &mut seen[(block / order.frames()) as usize];
        assert!(!*seen, "frame {block:#x} was handed out twice");
        *seen = true;
    }
}

/// Allocates all memory in blocks of `order`, and frees it; as often as it takes to have the
/// load's operations.
pub(crate) fn bulk<S: FrameSubject>(
    subject: &S,
    load: FrameLoad,
    order: Order,
    free_order: FreeOrder,
    by_call: bool,
) -> FrameTiming {
    let count = (load.frames / order.frames()) as usize / load.threads;
    let cycles = (load.ops / load.threads).div_ceil(count);
    // Where blocks change hands between the phases.
    let exchange: Mutex<Vec<u64>> = Mutex::new(Vec::new());
    let spans = in_threads(load.threads, |nth, gate| {
        let mut worker = subject.worker();
        let mut blocks = vec![!0; count];
        let (mut allocs, mut frees) = (Vec::new(), Vec::new());
        for cycle in 0..cycles {
            gate.wait();
            allocs.push(timed(count, || {
                if by_call {
                    for part in blocks.chunks_mut(BATCH) {
                        worker.alloc_bulk(order, part);
                    }
                } else {
                    for block in &mut blocks {
                        *block = worker.alloc(order);
                    }
                }
                black_box(&mut blocks);
            }));
            let mut random = Random::new((cycle * load.threads + nth) as u64);
            match free_order {
                FreeOrder::Same => {}
                FreeOrder::RandomOwn => random.shuffle(&mut blocks),
                FreeOrder::RandomOfAll => {
                    exchange.lock().expect("no panic").extend(&blocks);
                    gate.wait();
                    if nth == 0 {
                        random.shuffle(&mut exchange.lock().expect("no panic"));
                    }
                    gate.wait();
                    let start = nth * count;
                    let all = exchange.lock().expect("no panic");
                    blocks.copy_from_slice(&all[start..start + count]);
                    drop(all);
                }
            }
            if load.check {
                check(&exchange, gate, nth, &blocks, order, load);
            }
            gate.wait();
            if nth == 0 {
                exchange.lock().expect("no panic").clear();
            }
            gate.wait();
            frees.push(timed(count, || {
                if by_call {
                    for part in blocks.chunks(BATCH) {
                        worker.free_bulk(order, part);
                    }
                } else {
                    for &block in &blocks {
                        worker.free(block, order);
                    }
                }
            }));
        }
        (allocs, frees)
    });
    let (allocs, frees): (Vec<_>, Vec<_>) = spans.into_iter().unzip();
    timing(&allocs, &frees)
}

/// Brings all threads' blocks together and checks them.
fn check(
    exchange: &Mutex<Vec<u64>>,
    gate: &SpinGate,
    nth: usize,
    blocks: &[u64],
    order: Order,
    load: FrameLoad,
) {
    gate.wait();
    if nth == 0 {
        exchange.lock().expect("no panic").clear();
    }
    gate.wait();
    exchange.lock().expect("no panic").extend(blocks);
    gate.wait();
    if nth == 0 {
        let all = exchange.lock().expect("no panic");
        assert_eq!(all.len() as u64, load.frames / order.frames());
        assert_distinct(&all, order, load.frames);
    }
}

/// Allocates a block and frees it, again and again: `alloc_ns` is the sum of both.
pub(crate) fn pair<S: FrameSubject>(subject: &S, load: FrameLoad, order: Order) -> FrameTiming {
    let spans = in_threads(load.threads, |_, gate| {
        let mut worker = subject.worker();
        let warm = worker.alloc(order);
        worker.free(warm, order);
        gate.wait();
        vec![timed(load.ops, || {
            for _ in 0..load.ops {
                let block = black_box(worker.alloc(order));
                worker.free(block, order);
            }
        })]
    });
    let (alloc_ns, overlap) = summary(&spans);
    FrameTiming {
        alloc_ns,
        free_ns: 0.0,
        overlap,
    }
}

/// What comes of almost full memory.
pub(crate) struct Low {
    /// The mean of all operations, in `alloc_ns`.
    pub(crate) mean: FrameTiming,
    /// Single operations, the clock's own time included.
    pub(crate) single: Histogram<u64>,
}

/// Fills the memory, frees every hundredth frame at random, and then frees `at_once` random frames
/// and allocates as many, again and again.
pub(crate) fn low_on_memory<S: FrameSubject>(subject: &S, load: FrameLoad, at_once: usize) -> Low {
    let order = Order::ZERO;
    let count = load.frames as usize / load.threads;
    let results = in_threads(load.threads, |nth, gate| {
        let mut worker = subject.worker();
        let mut random = Random::new(nth as u64);
        let mut blocks: Vec<u64> = (0..count).map(|_| worker.alloc(order)).collect();
        random.shuffle(&mut blocks);
        let free = count / 100;
        for block in blocks.drain(count - free..) {
            worker.free(block, order);
        }
        let mut spans = Vec::new();
        let mut single = Histogram::new(3).expect("3 digits");
        // The victims are gathered and put back outside the timed part: the misses of this
        // table are the benchmark's and not the allocator's.
        let mut victims = [0; BATCH];
        for batch in 0..load.ops / BATCH {
            let places: [usize; BATCH] =
                std::array::from_fn(|_| random.below(blocks.len() as u64) as usize);
            // The same place twice would be a double free.
            let mut sorted = places;
            sorted.sort_unstable();
            if sorted.windows(2).any(|two| two[0] == two[1]) {
                continue;
            }
            for (victim, place) in victims.iter_mut().zip(places) {
                *victim = blocks[place];
            }
            if batch == 0 {
                gate.wait();
            }
            if batch % 2 == 0 {
                spans.push(timed(2 * BATCH, || {
                    for part in victims.chunks_mut(at_once) {
                        part.iter().for_each(|&victim| worker.free(victim, order));
                        part.fill_with(|| worker.alloc(order));
                    }
                    black_box(&mut victims);
                }));
            } else {
                let mut took = |start: Instant| {
                    let ns = start.elapsed().as_nanos() as u64;
                    single.record(ns).expect("the histogram grows");
                };
                for part in victims.chunks_mut(at_once) {
                    for &victim in &*part {
                        let start = Instant::now();
                        worker.free(victim, order);
                        took(start);
                    }
                    for victim in part {
                        let start = Instant::now();
                        *victim = black_box(worker.alloc(order));
                        took(start);
                    }
                }
            }
            for (victim, place) in victims.iter().zip(places) {
                blocks[place] = *victim;
            }
        }
        if load.check {
            assert_distinct(&blocks, order, load.frames);
        }
        for block in blocks {
            worker.free(block, order);
        }
        (spans, single)
    });
    let (spans, singles): (Vec<_>, Vec<_>) = results.into_iter().unzip();
    let mut single = Histogram::new(3).expect("3 digits");
    for other in singles {
        single.add(other).expect("the same kind of histogram");
    }
    // Batches that were left out differ from thread to thread: no phases to compare.
    let mean = spans
        .iter()
        .map(|spans| summary(std::slice::from_ref(spans)).0)
        .sum::<f64>();
    let mean = FrameTiming {
        alloc_ns: mean / spans.len() as f64,
        free_ns: 0.0,
        overlap: 1.0,
    };
    Low { mean, single }
}
