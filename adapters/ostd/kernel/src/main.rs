//! A kernel on OSTD that measures its frame allocator: Framewright's, or with the feature `stock` OSTD's own. All else is
//! the same. `cargo xtask ostd` boots both.
//!
//! `test=` on the command line says what to do: `speed`, `frag`, `heavy`, `aside` (as `heavy`, with 4 MiB
//! set aside), `smp`. Each figure is a
//! line `figure CASE, METRIC, VALUE`. The exit code is OSTD's: 0x10 if all was right, else 0x20.
#![no_std]
#![no_main]
#![deny(unsafe_code)]

extern crate alloc;

/// Prints a line. OSTD's own macro captures no variables.
macro_rules! say {
    ($($words:tt)*) => { ostd::prelude::println!("{}", format_args!($($words)*)) };
}

mod choice;
mod churn;
mod smp;
mod speed;

use choice::{frames, free_frames};
use core::panic::PanicInfo;
use ostd::mm::heap::SlotInfo;
use ostd::power::{ExitCode, poweroff};

#[ostd::global_heap_allocator]
static HEAP: osdk_heap_allocator::HeapAllocator = osdk_heap_allocator::HeapAllocator;

#[ostd::global_heap_allocator_slot_map]
const fn slot_of(layout: core::alloc::Layout) -> Option<SlotInfo> {
    osdk_heap_allocator::type_from_layout(layout)
}

#[ostd::main]
fn kernel_main() {
    let free = free_frames();
    say!(
        "{}: {free} frames free, {} CPUs",
        choice::NAME,
        ostd::cpu::num_cpus()
    );
    let is_asked = |word: &str| {
        let mut words = ostd::boot::boot_info().kernel_cmdline.split_whitespace();
        words.any(|other| other.strip_prefix("test=") == Some(word))
    };
    if is_asked("speed") {
        speed::run(frames());
    }
    if is_asked("frag") {
        churn::run();
    }
    if is_asked("heavy") {
        churn::run_heavy(false);
    }
    if is_asked("aside") {
        churn::run_heavy(true);
    }
    if is_asked("smp") {
        smp::run();
    }
    choice::check();
    poweroff(ExitCode::Success);
}

#[panic_handler]
fn on_panic(info: &PanicInfo<'_>) -> ! {
    say!("PANIC {info}");
    poweroff(ExitCode::Failure)
}
