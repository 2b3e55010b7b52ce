//! A bare-metal machine whose memory manager is Framewright's engine.
//!
//! | file | what |
//! |---|---|
//! | `memory.rs` | all that a kernel writes to have the engine |
//! | `arch` | the machine: the first instructions, what the loader hands over, interrupts, faults, devices |
//! | `boot.rs`, `traps.rs`, `serial.rs` | what that comes to on every architecture |
//! | `faults.rs` | kernels that break a promise, for tests that must catch them |
//! | `suite` | the tests, one a boot, chosen by `test=` on the command line |
//! | `calls.rs` | in place of the tests, for the size of a kernel without them |
#![no_std]
#![no_main]
// Without tests there is no caller of what they look at.
#![cfg_attr(not(feature = "suite"), allow(unused))]

extern crate alloc;

mod arch;
mod boot;
#[cfg(not(feature = "suite"))]
mod calls;
mod counts;
mod faults;
mod heap;
mod memory;
mod serial;
#[cfg(feature = "suite")]
mod suite;
mod traps;

use arch::cpu::cells::SetOnce;
use arch::cpu::instructions::time_stamp;
use core::panic::PanicInfo;
use core::sync::atomic::{
    AtomicU16, AtomicU64,
    Ordering::{AcqRel, Acquire, Release},
};
use framewright::policy::RangeConfig;
use framewright::vrange::AreaRequest;
use framewright::{CpuId, Frame};
use memory::MAX_CPUS;
use serial::{Exit, exit};

/// Where the stacks of CPUs 1 and up end, which grow down from there; that of the first one is its architecture's.
#[unsafe(no_mangle)]
static CPU_STACK_TOPS: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// The pages of such a stack: 64 KiB.
const STACK_PAGES: u64 = 16;

/// The frames behind all of these.
#[cfg(feature = "suite")]
fn stack_frames() -> u64 {
    u64::from(cpus() - 1) * STACK_PAGES
}

/// A stack for each other CPU: an area with a guard page on both sides, which its tag names.
#[cold]
#[inline(never)]
fn make_stacks() {
    for cpu in 1..cpus() {
        let request = AreaRequest::new(STACK_PAGES)
            .guarded()
            .tagged(traps::tag_of_stack(CpuId(cpu)));
        let stack = memory::with(|cpu| cpu.vmalloc(&request)).expect("there is memory");
        let top = (stack.0 + STACK_PAGES) << 12;
        CPU_STACK_TOPS[usize::from(cpu)].store(top, Release);
    }
}

/// How many CPUs run.
static ONLINE: AtomicU16 = AtomicU16::new(1);

fn cpus() -> u16 {
    boot::number("cpus").map_or(1, |cpus| cpus as u16)
}

/// When the kernel began.
static START: SetOnce<u64> = SetOnce::new();

/// The time since then. Where an emulator counts instructions, a tick is one of them, and a nanosecond.
fn ticks_since_start() -> u64 {
    time_stamp() - START.get().copied().unwrap_or(0)
}

/// The first CPU comes here from its architecture, which has read what the loader says.
fn start() -> ! {
    START.set(time_stamp());
    let memory = boot::memory();
    let defaults = RangeConfig::for_cpus(cpus());
    let ranges = RangeConfig {
        strict: boot::number("strict").map_or(defaults.strict, |number| number != 0),
        kept_pages_max: boot::number("kept").unwrap_or(defaults.kept_pages_max),
        lazy_pages_max: boot::number("lazy").unwrap_or(defaults.lazy_pages_max),
        ..defaults
    };
    let window_pages = boot::number("window").unwrap_or(8) << 18;
    memory::set_up(memory, cpus(), window_pages, ranges);
    for range in memory {
        if let Some(run) = range.usable_from(Frame(0)) {
            say!(
                "memory {:#x} to {:#x}",
                run.start().0 << 12,
                run.end().0 << 12
            );
        }
    }
    say!(
        "ready after {} µs, {} pages of metadata",
        ticks_since_start() / 1000,
        counts::COUNTS.metadata_pages.get()
    );
    arch::enable(CpuId(0));
    start_others();
    faults::make();
    // SAFETY: the gates are loaded, and no caller relies on interrupts being off.
    unsafe { memory::enable_interrupts() };
    work()
}

/// One test, and what holds after each.
#[cfg(feature = "suite")]
fn work() -> ! {
    suite::run(boot::word("test").unwrap_or("boot"));
    let verified = memory::engine().verify();
    verified.expect("the engine's invariants hold");
    say!("passed");
    exit(Exit::Passed)
}

#[cfg(not(feature = "suite"))]
fn work() -> ! {
    calls::keep();
    exit(Exit::Passed)
}

/// What another CPU does.
#[cfg(feature = "suite")]
use suite::serve;

#[cfg(not(feature = "suite"))]
fn serve(_: CpuId) -> ! {
    loop {
        core::hint::spin_loop();
    }
}

fn start_others() {
    assert!(usize::from(cpus()) <= MAX_CPUS, "at most {MAX_CPUS} CPUs");
    if cpus() == 1 {
        return;
    }
    make_stacks();
    arch::start_others(cpus());
    for attempt in 0.. {
        if ONLINE.load(Acquire) == cpus() {
            break;
        }
        memory::answer();
        arch::pause(attempt);
    }
    say!("{} CPUs", cpus());
}

#[unsafe(no_mangle)]
extern "C" fn other_cpu_main(number: u16) -> ! {
    let cpu = CpuId(number);
    arch::set_up_traps(cpu);
    arch::enable(cpu);
    memory::cpu_comes(cpus());
    ONLINE.fetch_add(1, AcqRel);
    // SAFETY: the gates are loaded.
    unsafe { memory::enable_interrupts() };
    serve(cpu)
}

#[panic_handler]
fn on_panic(info: &PanicInfo<'_>) -> ! {
    say!("PANIC {info}");
    exit(Exit::Panicked)
}
