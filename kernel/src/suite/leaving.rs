//! A CPU is taken down, and comes again: what it has allocated the first CPU checks and frees meanwhile, and the first
//! CPU's flushes wait for it no longer.

use super::{Dice, address, loops, on_all_cpus, table_frames, vfree, vmalloc, wait};
use crate::arch::cpu::instructions::without_interrupts;
use crate::arch::pause;
use crate::counts::COUNTS;
use crate::memory::{SEATS, cpu_comes, cpu_goes, engine, with};
use crate::stack_frames;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use framewright::kv::KvRequest;
use framewright::vrange::AreaRequest;
use framewright::{Addr, CpuId, Page};

const THINGS: usize = 64;

/// The rounds that the second CPU has left in, and come back in.
static LEFT: AtomicU64 = AtomicU64::new(0);
static MAY_COME: AtomicU64 = AtomicU64::new(0);
static AREAS: [AtomicU64; THINGS] = [const { AtomicU64::new(0) }; THINGS];
static OBJECTS: [AtomicU64; THINGS] = [const { AtomicU64::new(0) }; THINGS];

/// The first word of something.
fn first(at: u64) -> *mut u64 {
    at as *mut u64
}

fn leave() {
    let mut draw = Dice::new(5);
    for round in 1..=loops() {
        for (area, object) in AREAS.iter().zip(&OBJECTS) {
            let page = vmalloc(&AreaRequest::new(1 + draw.below(20)));
            let request = KvRequest::new(8 + draw.below(5000));
            let addr = with(|cpu| cpu.kmalloc(&request)).expect("there is memory");
            for at in [address(page), addr.0] {
                // SAFETY: it is this test's.
                unsafe { first(at).write_volatile(at ^ round) };
            }
            area.store(page.0, Relaxed);
            object.store(addr.0, Relaxed);
        }
        // It takes no interrupt, so a flush that waited for it would never end.
        without_interrupts(|| {
            cpu_goes();
            LEFT.store(round, Release);
            for attempt in 0.. {
                if MAY_COME.load(Acquire) == round {
                    break;
                }
                pause(attempt);
            }
            cpu_comes(crate::cpus());
        });
        // Its handlers are still there.
        SEATS.allow_interrupts();
    }
}

fn stay() {
    with(|cpu| cpu.drain());
    let free = || engine().frame_stats().nr_free_pages;
    for round in 1..=loops() {
        wait(|| LEFT.load(Acquire) == round);
        let flushes = COUNTS.flushes.get();
        for (area, object) in AREAS.iter().zip(&OBJECTS) {
            let (page, addr) = (Page(area.load(Relaxed)), Addr(object.load(Relaxed)));
            for at in [address(page), addr.0] {
                // SAFETY: it is this test's.
                let found = unsafe { first(at).read_volatile() };
                assert_eq!(found, at ^ round, "the word at {at:#x}");
            }
            vfree(page);
            with(|cpu| cpu.kvfree(addr)).expect("it was allocated");
        }
        with(|cpu| cpu.drain());
        assert!(COUNTS.flushes.get() > flushes, "areas were freed");
        let frames = engine().zones()[0].present_frames();
        let used = table_frames() + stack_frames();
        assert!(
            free() + used >= frames,
            "{} of {frames} frames are free, {used} are tables and stacks",
            free()
        );
        MAY_COME.store(round, Release);
    }
}

pub fn run() {
    on_all_cpus(|cpu: CpuId| match cpu.0 {
        0 => stay(),
        1 => leave(),
        _ => {}
    });
}
