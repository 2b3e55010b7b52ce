//! The tests, one a boot. Each ends with `verify()` of the whole engine, but for `ready`, whose 64 GiB would take minutes.

mod areas;
mod asking;
mod depth;
mod handover;
mod interrupts;
mod leaving;
mod locks;
mod machine;
mod objects;
mod pressure;
#[cfg(feature = "replay")]
mod replay;
mod stress;

use crate::arch::cpu::instructions::time_stamp;
use crate::arch::pause;
use crate::counts::COUNTS;
use crate::memory::{page_tables, with};
use crate::{boot, say};
use core::sync::atomic::{
    AtomicU16, AtomicUsize,
    Ordering::{AcqRel, Acquire, Release},
};
use framewright::vrange::AreaRequest;
use framewright::{CpuId, Page};

pub fn run(test: &str) {
    match test {
        "boot" => {}
        "fix_size" => areas::fix_size(),
        "full_fit" => areas::full_fit(),
        "long_busy_list" => areas::long_busy_list(),
        "random_size" => areas::random_size(),
        "fix_align" => areas::fix_align(),
        "random_size_align" => areas::random_size_align(),
        "vm_map_ram_1" => areas::vm_map_ram(test, 1, 1),
        "vm_map_ram_4" => areas::vm_map_ram(test, 4, 1),
        "vm_map_ram_16" => areas::vm_map_ram(test, 16, 1),
        "vm_map_ram_64" => areas::vm_map_ram(test, 64, 1),
        "vm_map_ram_16_apart" => areas::vm_map_ram(test, 16, 2),
        "vm_map_ram_64_apart" => areas::vm_map_ram(test, 64, 2),
        "alloc_pages_0" => objects::alloc_pages(0),
        "alloc_pages_3" => objects::alloc_pages(3),
        "alloc_pages_9" => objects::alloc_pages(9),
        "kmalloc_64" => objects::kmalloc(64),
        "kvmalloc_4k" => objects::kvmalloc(4 << 10),
        "kvmalloc_64k" => objects::kvmalloc(64 << 10),
        "kvmalloc_1m" => objects::kvmalloc(1 << 20),
        "pcpu" => objects::percpu(),
        "map_1" => machine::map::<1>(test),
        "map_64" => machine::map::<64>(test),
        "longest_random" | "longest_16m_zeroed" | "longest_drain" => machine::longest(test),
        "smp" => stress::run(),
        "handover" => handover::run(),
        "asking" => asking::run(),
        "leaving" => leaving::run(),
        "interrupts" => interrupts::run(),
        "ticks" => interrupts::everywhere(),
        "nested" => interrupts::nested(),
        "windows" => interrupts::windows(),
        "reclaim" => pressure::reclaim(),
        "reserve" => pressure::reserve(),
        "guards" => machine::guards(),
        "stack" => machine::stack(),
        "stacks" => machine::stacks(),
        "heap" => machine::heap(),
        "huge" => machine::huge(),
        "full" => machine::full(),
        "ready_64g" | "ready_64g_zeroed" => machine::ready(test),
        "depth" => depth::run(),
        #[cfg(feature = "replay")]
        "replay" => replay::run(),
        _ => panic!("there is no test `{test}`"),
    }
}

/// The rounds of a test's loop.
fn loops() -> u64 {
    boot::number("loops").unwrap_or(20_000)
}

/// Instructions, where the emulator counts them.
struct Since {
    ticks: u64,
    zeroed: u64,
    maps: u64,
}

impl Since {
    fn now() -> Self {
        Self {
            ticks: time_stamp(),
            zeroed: COUNTS.zeroed_words.get(),
            maps: COUNTS.maps.get(),
        }
    }

    /// Says what the loops cost: hundredths of ticks a loop, with and without the words zeroed, of which
    /// each is a tick.
    fn say(&self, name: &str, loops: u64) {
        let ticks = time_stamp() - self.ticks;
        let zeroed = COUNTS.zeroed_words.get() - self.zeroed;
        let maps = COUNTS.maps.get() - self.maps;
        let of = |count: u64| count * 100 / loops;
        say!(
            "figure {name} {} {} loops {loops} maps {maps}",
            of(ticks),
            of(ticks - zeroed)
        );
    }
}

/// Says what one loop of a test costs.
fn measure(name: &str, mut work: impl FnMut()) {
    let since = Since::now();
    for _ in 0..loops() {
        work();
    }
    since.say(name, loops());
}

/// Random numbers that are the same in each run, from a seed of the command line.
struct Dice(u64);

impl Dice {
    fn new(stream: u64) -> Self {
        let seed = boot::number("seed").unwrap_or(1);
        Self((seed << 32 | stream).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

fn address(page: Page) -> u64 {
    page.0 << 12
}

/// How many frames of the engine are page tables.
fn table_frames() -> u64 {
    page_tables().count_tables() - COUNTS.boot_tables.get()
}

/// Writes the area's first byte, as Linux's tests do.
fn touch(page: Page) {
    // SAFETY: the area is the caller's.
    unsafe { (address(page) as *mut u8).write_volatile(1) };
}

/// Calls of the engine, one copy of each for all tests: what else a kernel holds moves no figure by inlining.
#[inline(never)]
fn vmalloc(request: &AreaRequest) -> Page {
    with(|cpu| cpu.vmalloc(request)).expect("there is memory")
}

#[inline(never)]
fn vfree(page: Page) {
    with(|cpu| cpu.vfree(page)).expect("it was allocated");
}

/// What the other CPUs do: nothing, or a round of a test.
static ROUND: AtomicUsize = AtomicUsize::new(0);
static DONE: AtomicU16 = AtomicU16::new(0);

/// Every CPU does `work`, this one too.
fn on_all_cpus(work: fn(CpuId)) {
    DONE.store(0, Release);
    ROUND.store(work as usize, Release);
    work(CpuId(0));
    wait(|| DONE.load(Acquire) == crate::cpus() - 1);
    ROUND.store(0, Release);
    wait(|| DONE.load(Acquire) == 0);
}

/// Waits for other CPUs.
fn wait(is_over: impl Fn() -> bool) {
    let mut attempt = 0;
    while !is_over() {
        pause(attempt);
        attempt = attempt.wrapping_add(1);
    }
}

/// What the other CPUs run.
pub fn serve(cpu: CpuId) -> ! {
    loop {
        wait(|| ROUND.load(Acquire) != 0);
        let work = ROUND.load(Acquire);
        // SAFETY: `on_all_cpus` stored a function of that type.
        unsafe { core::mem::transmute::<usize, fn(CpuId)>(work)(cpu) };
        DONE.fetch_add(1, AcqRel);
        wait(|| ROUND.load(Acquire) == 0);
        DONE.fetch_sub(1, AcqRel);
    }
}
