//! The machine that the figures were measured on.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::fmt::Write;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

/// The processor, how many there are, the kernel, and how busy they are.
pub(crate) fn description() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name"))
        .map_or("unknown processor", |rest| {
            rest.trim_matches([' ', '\t', ':'])
        });
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let mut text = String::new();
    let _ = write!(
        text,
        "{model}, {cpus} CPUs, Linux {}, load {}, {} ns to read the clock",
        kernel.trim(),
        load.split(' ').next().unwrap_or("unknown"),
        clock_ns()
    );
    text
}

/// What reading the clock costs.
pub(crate) fn clock_ns() -> u64 {
    let start = Instant::now();
    for _ in 0..1000 {
        black_box(Instant::now());
    }
    start.elapsed().as_nanos() as u64 / 1000
}

/// Binds the calling thread to the `nth` of the CPUs that it may use, if there are that many.
pub(crate) fn pin(nth: usize) {
    let Ok(allowed) = sched_getaffinity(None) else {
        return;
    };
    let nth = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .nth(nth);
    if let Some(cpu) = nth {
        let mut one = CpuSet::new();
        one.set(cpu);
        // Only a wish: without it the figures spread more.
        let _ = sched_setaffinity(None, &one);
    }
}
