//! All CPUs ask one another for flushes and barriers at the same moment, with interrupts off.
//!
//! Most of the engine's calls that ask do so under a lock, and a CPU that waits for that lock answers in `relax`. Here the
//! CPUs meet first, with interrupts off, and ask without a lock. It finds a platform whose asking CPU hangs, or gives no
//! answer for as long as it waits; that every order of answers ends, it does not show: loom's model of the shootdown does.

use super::{loops, on_all_cpus, wait};
use crate::arch::cpu::instructions::without_interrupts;
use crate::counts::COUNTS;
use crate::memory::{BarePc, answer};
use crate::say;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire},
};
use framewright::CpuId;
use framewright::platform::{FramePlatform, RangePlatform};

/// How often a CPU has come to a round.
static CAME: AtomicU64 = AtomicU64::new(0);

fn work(cpu: CpuId) {
    let cpus = u64::from(crate::cpus());
    for nth in 0..loops() {
        without_interrupts(|| {
            CAME.fetch_add(1, AcqRel);
            wait(|| {
                // Another CPU may ask before it comes here.
                answer();
                CAME.load(Acquire) >= (nth + 1) * cpus
            });
            match (nth + u64::from(cpu.0)) % 2 {
                0 => BarePc.flush_all(),
                _ => BarePc.barrier_all(),
            }
        });
    }
}

pub fn run() {
    on_all_cpus(work);
    let (flushes, barriers) = (COUNTS.flushes.get(), COUNTS.barriers.get());
    say!("flushes {flushes} barriers {barriers}");
    let asked = loops() * u64::from(crate::cpus());
    assert!(flushes + barriers >= asked, "each round asks on each CPU");
}
