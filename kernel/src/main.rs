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
use core::cell::UnsafeCell;
use core::panic::PanicInfo;
use core::sync::atomic::{
    AtomicU16,
    Ordering::{AcqRel, Acquire},
};
use framewright::policy::RangeConfig;
use framewright::{CpuId, Frame};
use memory::MAX_CPUS;
use serial::{Exit, exit};

#[repr(C, align(4096))]
struct CpuStack(UnsafeCell<[u8; 0x10000]>);
// SAFETY: each is the stack of one CPU.
unsafe impl Sync for CpuStack {}

/// The stacks of CPUs 1 and up; that of the first one is its architecture's.
#[unsafe(no_mangle)]
static CPU_STACKS: [CpuStack; MAX_CPUS] =
    [const { CpuStack(UnsafeCell::new([0; 0x10000])) }; MAX_CPUS];

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
