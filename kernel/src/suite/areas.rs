//! The tests of Linux's `test_vmalloc`, by their description: the same lengths, orders and loops.

use super::{Dice, Since, address, loops, measure, touch, vfree, vmalloc};
use crate::memory::{DIRECT, with};
use alloc::vec::Vec;
use framewright::vrange::AreaRequest;
use framewright::{Context, Frame, Mobility, Order, Page};

/// An area is allocated, touched, freed.
fn pair(request: &AreaRequest) {
    let page = vmalloc(request);
    touch(page);
    vfree(page);
}

pub fn fix_size() {
    measure("fix_size", || pair(&AreaRequest::new(1)));
}

/// Single pages with a hole of one page between each two; the holes are what fits. Linux counts the set-up.
pub fn full_fit() {
    const HOLES: u64 = 8192;
    let single = AreaRequest::new(1);
    let mut stay = Vec::with_capacity(HOLES as usize);
    let mut go = Vec::with_capacity(HOLES as usize);
    let since = Since::now();
    for _ in 0..HOLES {
        stay.push(vmalloc(&single));
        go.push(vmalloc(&single));
    }
    go.drain(..).for_each(vfree);
    for _ in 0..loops() {
        pair(&single);
    }
    stay.drain(..).for_each(vfree);
    since.say("full_fit", loops());
}

/// Many areas are in use while a long and a short one come and go. Linux counts the set-up.
pub fn long_busy_list() {
    let (single, long) = (AreaRequest::new(1), AreaRequest::new(100));
    let since = Since::now();
    let mut busy: Vec<Page> = (0..15_000).map(|_| vmalloc(&single)).collect();
    for _ in 0..loops() {
        let (one, two) = (vmalloc(&long), vmalloc(&single));
        touch(one);
        touch(two);
        vfree(one);
        vfree(two);
    }
    busy.drain(..).for_each(vfree);
    since.say("long_busy_list", loops());
}

pub fn random_size() {
    let mut draw = Dice::new(0);
    measure("random_size", || {
        pair(&AreaRequest::new(1 + draw.below(100)))
    });
}

pub fn fix_align() {
    let request = AreaRequest::new(5).zeroed().aligned_to(32 << 10);
    measure("fix_align", || pair(&request));
}

pub fn random_size_align() {
    let mut draw = Dice::new(0);
    measure("random_size_align", || {
        let drawn = draw.below(256);
        let request = AreaRequest::new(1 + drawn % 10).zeroed();
        pair(&request.aligned_to(1 << (drawn % 23)));
    });
}

#[inline(never)]
fn map_ram(frames: &[Frame]) -> Page {
    with(|cpu| cpu.map_ram(frames, Context::ANY)).expect("there is room")
}

#[inline(never)]
fn unmap_ram(page: Page, pages: u64) {
    with(|cpu| cpu.unmap_ram(page, pages)).expect("it was mapped");
}

/// Frames of the caller's, each allocated alone: as they come, most of them side by side, or every second one,
/// so that none is beside the one before.
pub fn vm_map_ram(name: &str, pages: u64, step: usize) {
    let any = || with(|cpu| cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY));
    let taken = pages * step as u64;
    let mut all: Vec<Frame> = (0..taken)
        .map(|_| any().expect("there is memory"))
        .collect();
    all.sort();
    let frames: Vec<Frame> = all.iter().copied().step_by(step).collect();
    measure(name, || {
        let page = map_ram(&frames);
        touch(page);
        unmap_ram(page, pages);
    });
    let page = map_ram(&frames);
    for nth in 0..pages {
        // SAFETY: the frames are the test's.
        unsafe { (address(Page(page.0 + nth)) as *mut u64).write_volatile(nth) };
        let direct = DIRECT.addr(frames[nth as usize]).0;
        // SAFETY: the same frame, by the direct map.
        let found = unsafe { (direct as *const u64).read_volatile() };
        assert_eq!(found, nth, "another frame");
    }
    unmap_ram(page, pages);
    for frame in all {
        with(|cpu| cpu.free(frame, Order::ZERO)).expect("it was allocated");
    }
}
