//! All CPUs at once: each churns its part of memory, and at the end all frames are back.

use crate::choice::{free_frames, set_aside};
use crate::churn::{LiveSegments, compete};
use core::sync::atomic::{
    AtomicUsize,
    Ordering::{Acquire, Release},
};
use ostd::boot::smp::register_ap_entry;
use ostd::cpu::num_cpus;

static READY: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);
static TARGET: AtomicUsize = AtomicUsize::new(0);

/// Churns of each CPU.
const ROUNDS: u64 = 2;

fn wait_for(counter: &AtomicUsize, count: usize) {
    while counter.load(Acquire) < count {
        core::hint::spin_loop();
    }
}

fn churn(live: &mut LiveSegments, cpu: u64) {
    for round in 0..ROUNDS {
        compete(live, 1 + cpu * ROUNDS + round, TARGET.load(Acquire));
    }
}

pub(crate) fn run() {
    set_aside();
    // While memory is whole: OSTD's own allocator has no such run later.
    let mut live = LiveSegments::new();
    register_ap_entry(other_cpu);
    wait_for(&READY, num_cpus() - 1);
    let free = free_frames();
    TARGET.store(free / 5 * 2, Release);
    READY.fetch_add(1, Release);
    churn(&mut live, 0);
    wait_for(&DONE, num_cpus() - 1);
    let after = free_frames();
    say!("figure smp, lost, {}", free.abs_diff(after));
    assert_eq!(free, after, "all frames are back");
}

fn other_cpu() {
    let mut live = LiveSegments::new();
    READY.fetch_add(1, Release);
    wait_for(&READY, num_cpus());
    churn(&mut live, 1);
    DONE.fetch_add(1, Release);
    // OSTD expects that a CPU's entry does not return.
    loop {
        core::hint::spin_loop();
    }
}
