//! What interrupts and faults come to on every architecture. A fault names the area that its address belongs to.

use crate::memory::{self, MAX_CPUS};
use crate::say;
use crate::serial::{Exit, exit};
use core::fmt;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use framewright::vrange::{AreaInfo, AreaState};
use framewright::{CpuId, Page};

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

/// The tag of the area below which the next fault is what the test wants, and ends it; 0 if none is.
pub static WANTED_BELOW: AtomicU32 = AtomicU32::new(0);

/// The tags of stacks: this one and the CPU's number.
const STACKS: u32 = 0x057a_c000;

/// The tag of the area that is a CPU's stack.
pub const fn tag_of_stack(cpu: CpuId) -> u32 {
    STACKS + cpu.0 as u32
}

/// The CPU whose stack the area is.
fn cpu_of_stack(area: &AreaInfo) -> Option<u32> {
    let cpu = area.tag.checked_sub(STACKS)?;
    (area.state == AreaState::Live && cpu < MAX_CPUS as u32).then_some(cpu)
}

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
        } else if page < area.start {
            "in the guard page below"
        } else {
            "in the guard page behind"
        };
        let (pages, kind, tag) = (area.pages, area.kind, area.tag);
        write!(f, "{place} ")?;
        if let Some(cpu) = cpu_of_stack(&area) {
            write!(f, "the stack of CPU {cpu}, ")?;
        }
        write!(
            f,
            "the {kind} area of {pages} pages at {:#x}, {:?}, tag {tag}",
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
    let page = Page::of_address(address);
    let area = memory::engine().space().find(page);
    let below = area.filter(|area| page < area.start).map(|area| area.tag);
    let wanted = Some(WANTED_BELOW.load(Relaxed)).filter(|&tag| tag != 0);
    exit(if wanted.is_some() && below == wanted {
        Exit::Passed
    } else {
        Exit::Faulted
    })
}
