//! Instructions of an operation, on one CPU that counts them.
//!
//! OSTD frees a request frame by frame, so that is how requests are freed here.

use alloc::vec::Vec;
use core::alloc::Layout;
use ostd::arch::read_tsc;
use ostd::mm::frame::GlobalFrameAllocator;
use ostd::mm::{FrameAllocOptions, PAGE_SIZE, Paddr};

/// The request's pages, how many live at a time, and how many pairs are counted.
const SIZES: &[(usize, usize, usize)] = &[
    (1, 1000, 2000),
    (3, 1000, 2000),
    (16, 200, 2000),
    (17, 200, 2000),
    (64, 200, 2000),
    (512, 20, 100),
    (1024, 20, 100),
];

const ROUNDS: usize = 5;

pub(crate) fn run(frames: &dyn GlobalFrameAllocator) {
    let mut live = Vec::with_capacity(1000);
    for &(pages, count, pairs) in SIZES {
        // As drivers and page tables do: with interrupts off already.
        let guard = ostd::irq::disable_local();
        pair(frames, pages, 50);
        let spent = pair(frames, pages, pairs);
        bulk(frames, pages, count, 1, &mut live);
        let (alloc, free) = bulk(frames, pages, count, ROUNDS, &mut live);
        drop(guard);
        say!("figure {pages} pages, pair, {spent}");
        say!("figure {pages} pages, alloc, {alloc}");
        say!("figure {pages} pages, free, {free}");
    }
    for pages in [1, 16, 512] {
        let count = if pages > 64 { 20 } else { 200 };
        segments(pages, count, 1);
        let (made, dropped) = segments(pages, count, ROUNDS);
        say!("figure segment of {pages}, make, {made}");
        say!("figure segment of {pages}, drop, {dropped}");
    }
}

fn layout(pages: usize) -> Layout {
    Layout::from_size_align(pages * PAGE_SIZE, PAGE_SIZE).expect("a page is a power of two")
}

#[inline(always)]
fn free(frames: &dyn GlobalFrameAllocator, at: Paddr, pages: usize) {
    if pages == 1 {
        return frames.dealloc(at, PAGE_SIZE);
    }
    for nth in 0..pages {
        frames.dealloc(at + nth * PAGE_SIZE, PAGE_SIZE);
    }
}

/// One request, freed at once, again and again.
fn pair(frames: &dyn GlobalFrameAllocator, pages: usize, count: usize) -> u64 {
    let layout = layout(pages);
    let start = read_tsc();
    for _ in 0..count {
        let at = frames.alloc(layout).expect("memory is empty");
        free(frames, at, pages);
    }
    (read_tsc() - start) / count as u64
}

/// Many requests, then all of them freed.
fn bulk(
    frames: &dyn GlobalFrameAllocator,
    pages: usize,
    count: usize,
    rounds: usize,
    live: &mut Vec<Paddr>,
) -> (u64, u64) {
    let layout = layout(pages);
    let (mut alloc, mut freed) = (0, 0);
    for _ in 0..rounds {
        live.clear();
        let start = read_tsc();
        for _ in 0..count {
            live.push(frames.alloc(layout).expect("memory is empty"));
        }
        let middle = read_tsc();
        for &at in live.iter() {
            free(frames, at, pages);
        }
        alloc += middle - start;
        freed += read_tsc() - middle;
    }
    let count = (count * rounds) as u64;
    (alloc / count, freed / count)
}

/// The same through OSTD.
fn segments(pages: usize, count: usize, rounds: usize) -> (u64, u64) {
    let mut options = FrameAllocOptions::new();
    options.zeroed(false);
    let mut live = Vec::with_capacity(count);
    let (mut made, mut dropped) = (0, 0);
    for _ in 0..rounds {
        let start = read_tsc();
        for _ in 0..count {
            live.push(options.alloc_segment(pages).expect("memory is empty"));
        }
        let middle = read_tsc();
        live.clear();
        made += middle - start;
        dropped += read_tsc() - middle;
    }
    let count = (count * rounds) as u64;
    (made / count, dropped / count)
}
