//! What interrupts and faults come to on every architecture. A fault names the area that its address belongs to.

use crate::memory;
use crate::say;
use crate::serial::{Exit, exit};
use core::fmt;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use framewright::Page;

/// How often CPUs were interrupted by their timer, and by others.
pub static TICKS: AtomicU64 = AtomicU64::new(0);
pub static ANSWERS: AtomicU64 = AtomicU64::new(0);

pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// What a tick of the timer calls.
static ON_TICK: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

pub fn on_tick(handler: fn()) {
    ON_TICK.store(handler as *mut (), Release);
}

/// The timer has interrupted this CPU.
pub fn run_tick() {
    let handler = ON_TICK.load(Acquire);
    if !handler.is_null() {
        // SAFETY: `on_tick` stored a function of that type.
        unsafe { core::mem::transmute::<*mut (), fn()>(handler)() };
    }
}

/// Whether the next fault is what the test wants, and ends it.
pub static IS_FAULT_WANTED: AtomicBool = AtomicBool::new(false);

/// The area that an address belongs to. Safe in a handler: a look, without locks.
pub struct Named(pub u64);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = Page::of_address(self.0);
        let Some(area) = memory::engine().space().find(page) else {
            return f.write_str("in no area");
        };
        let place = if area.range().contains(page) {
            "in"
        } else {
            "behind the end of"
        };
        let (pages, kind, tag) = (area.pages, area.kind, area.tag);
        write!(
            f,
            "{place} the {kind} area of {pages} pages at {:#x}, {:?}, tag {tag}",
            area.start.0 << 12,
            area.state
        )
    }
}

/// A write that was tried has faulted.
pub fn say_caught(address: u64) {
    say!("  fault at {address:#x}: {}", Named(address));
}

/// A fault that ends the machine.
pub fn end_by_fault(number: u64, at: u64, error: u64, address: u64) -> ! {
    say!(
        "FAULT {number} at {at:#x}, error {error:#x}, address {address:#x}: {}",
        Named(address)
    );
    exit(if IS_FAULT_WANTED.load(Relaxed) {
        Exit::Passed
    } else {
        Exit::Faulted
    })
}
