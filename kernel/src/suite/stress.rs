//! All CPUs allocate and free areas, objects and mappings, which pass from CPU to CPU; every byte of each is
//! written, and checked before it is freed.
//!
//! `short=1` makes them short, so that ten million operations take minutes: an operation is a round of a CPU's loop, which
//! frees something, or allocates it, or maps and unmaps it.

use super::{Dice, address, loops, on_all_cpus};
use crate::counts::COUNTS;
use crate::memory::{DIRECT, with};
use crate::say;
use crate::serial::{Exit, exit};
use crate::traps::ANSWERS;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use framewright::kv::KvRequest;
use framewright::vrange::AreaRequest;
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page};

const SLOTS: usize = 128;

/// Something in use: 0, or its address with the low 16 bits of the kind (2) and the length (14) in place of the
/// upper ones, which are all ones.
static IN_USE: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
static WRONG: AtomicU64 = AtomicU64::new(0);

const AREA: u64 = 1;
const OBJECT: u64 = 2;

fn pack(at: u64, kind: u64, length: u64) -> u64 {
    at << 16 | kind << 14 | length
}

/// The word that belongs at an address of an allocation.
fn mark(start: u64, at: u64) -> u64 {
    start.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at
}

/// Writes every byte of `bytes` from `start` on: 8 at a time, and the last ones by themselves.
fn write(start: u64, bytes: u64) {
    let words = start + bytes / 8 * 8;
    for at in (start..words).step_by(8) {
        // SAFETY: the allocation is the caller's.
        unsafe { (at as *mut u64).write_volatile(mark(start, at)) };
    }
    for at in words..start + bytes {
        // SAFETY: as above.
        unsafe { (at as *mut u8).write_volatile(mark(start, at) as u8) };
    }
}

/// Checks each of these bytes.
fn check(start: u64, bytes: u64) {
    let wrong = |found: u64, at: u64| {
        if WRONG.fetch_add(1, Relaxed) == 0 {
            say!("WRONG: {found:#x} at {at:#x} of the allocation at {start:#x}");
        }
    };
    let words = start + bytes / 8 * 8;
    for at in (start..words).step_by(8) {
        // SAFETY: the allocation is the caller's.
        let found = unsafe { (at as *const u64).read_volatile() };
        if found != mark(start, at) {
            wrong(found, at);
        }
    }
    for at in words..start + bytes {
        // SAFETY: as above.
        let found = unsafe { (at as *const u8).read_volatile() };
        if found != mark(start, at) as u8 {
            wrong(u64::from(found), at);
        }
    }
}

/// The most pages of a short and of a long area, and bytes of an object. Short ones leave more of the time to the engine.
fn lengths() -> (u64, u64, u64) {
    match crate::boot::number("short") {
        Some(1) => (2, 8, 1000),
        _ => (8, 90, 12_000),
    }
}

fn release(packed: u64) {
    if packed == 0 {
        return;
    }
    let (at, kind, length) = (
        packed >> 16 | 0xffff << 48,
        packed >> 14 & 3,
        packed & 0x3fff,
    );
    if kind == AREA {
        check(at, length * Page::BYTES);
        with(|cpu| cpu.vfree(Page::of_address(at))).expect("it was allocated");
    } else {
        check(at, length);
        with(|cpu| cpu.kvfree(Addr(at))).expect("it was allocated");
    }
}

/// What each CPU does.
pub fn work(cpu: CpuId) {
    let (short, long, bytes_max) = lengths();
    let mut draw = Dice::new(u64::from(cpu.0) + 1);
    // Frames that change places with others between two uses of an address. Else a cache gives an address the frame
    // that it had, and a translation that no flush has removed is right by chance.
    let mut held: [Option<Frame>; 8] = [None; 8];
    for _ in 0..loops() {
        // What handlers have deferred: hundreds of areas, where the last round wrote long ones.
        with(|cpu| cpu.free_deferred());
        let place = &mut held[draw.below(8) as usize];
        let new = with(|cpu| cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY));
        if let Some(old) = core::mem::replace(place, new.ok()) {
            with(|cpu| cpu.free(old, Order::ZERO)).expect("it was allocated");
        }
        let slot = &IN_USE[draw.below(SLOTS as u64) as usize];
        let before = slot.swap(0, AcqRel);
        if before != 0 {
            release(before);
            continue;
        }
        let made = match draw.below(4) {
            0 | 1 => {
                // One of ten is long.
                let longest = if draw.below(10) == 0 { long } else { short };
                let pages = 1 + draw.below(longest);
                let Ok(page) = with(|cpu| cpu.vmalloc(&AreaRequest::new(pages))) else {
                    continue;
                };
                write(address(page), pages * Page::BYTES);
                pack(address(page), AREA, pages)
            }
            2 => {
                let bytes = 16 + draw.below(bytes_max);
                let Ok(at) = with(|cpu| cpu.kvmalloc(&KvRequest::new(bytes))) else {
                    continue;
                };
                write(at.0, bytes);
                pack(at.0, OBJECT, bytes)
            }
            _ => {
                map_some(1 + draw.below(short));
                continue;
            }
        };
        release(slot.swap(made, AcqRel));
    }
    for frame in held.into_iter().flatten() {
        with(|cpu| cpu.free(frame, Order::ZERO)).expect("it was allocated");
    }
}

/// Maps frames, and looks whether the mapping shows them and no others.
fn map_some(pages: u64) {
    let mut frames = [Frame(0); 8];
    let frames = &mut frames[..pages as usize];
    for frame in &mut *frames {
        let new = with(|cpu| cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY));
        *frame = new.expect("there is memory");
    }
    let page = with(|cpu| cpu.map_ram(frames, Context::ANY)).expect("there is room");
    let start = address(page);
    write(start, pages * Page::BYTES);
    for (nth, frame) in (0..).zip(&*frames) {
        let offset = nth * Page::BYTES;
        let direct = DIRECT.addr(*frame).0;
        for word in (0..Page::BYTES).step_by(8) {
            // SAFETY: the frame is this CPU's.
            let found = unsafe { ((direct + word) as *const u64).read_volatile() };
            if found != mark(start, start + offset + word) && WRONG.fetch_add(1, Relaxed) == 0 {
                say!("WRONG: page {nth} of the mapping at {start:#x} shows another frame");
            }
        }
    }
    with(|cpu| cpu.unmap_ram(page, pages)).expect("it was mapped");
    for frame in frames {
        with(|cpu| cpu.free(*frame, Order::ZERO)).expect("it was allocated");
    }
}

pub fn run() {
    run_as(work);
}

/// The same, where each CPU does `work`, which calls that of this module.
pub fn run_as(work: fn(CpuId)) {
    on_all_cpus(work);
    for slot in &IN_USE {
        release(slot.swap(0, AcqRel));
    }
    let [maps, unmaps, flushes, barriers] = [
        &COUNTS.maps,
        &COUNTS.unmaps,
        &COUNTS.flushes,
        &COUNTS.barriers,
    ]
    .map(|count| count.get());
    let answers = ANSWERS.load(Relaxed);
    say!("maps {maps} unmaps {unmaps} flushes {flushes} barriers {barriers} interrupts {answers}");
    say!("row operations {}", loops() * u64::from(crate::cpus()));
    say!("row flushes {flushes}");
    super::locks::say_and_check();
    let wrong = WRONG.load(Relaxed);
    if wrong > 0 {
        say!("{wrong} wrong words");
        exit(Exit::WrongBytes);
    }
}
