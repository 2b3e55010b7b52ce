//! All CPUs allocate and free areas, objects and mappings, which pass from CPU to CPU; every byte of each is
//! written, and checked before it is freed.

use super::{Dice, address, loops, on_all_cpus};
use crate::counts::{COUNTS, IS_FLUSH_LEFT_OUT};
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

/// Words from `start` on, `bytes` bytes: 8 at a time, all that are whole.
fn write(start: u64, bytes: u64) {
    for at in (start..start + bytes / 8 * 8).step_by(8) {
        // SAFETY: the allocation is the caller's.
        unsafe { (at as *mut u64).write_volatile(mark(start, at)) };
    }
}

fn check(start: u64, bytes: u64) {
    for at in (start..start + bytes / 8 * 8).step_by(8) {
        // SAFETY: the allocation is the caller's.
        let found = unsafe { (at as *const u64).read_volatile() };
        if found != mark(start, at) && WRONG.fetch_add(1, Relaxed) == 0 {
            say!("WRONG: {found:#x} at {at:#x} of the allocation at {start:#x}");
        }
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

fn work(cpu: CpuId) {
    let mut draw = Dice::new(u64::from(cpu.0) + 1);
    // Frames that change places with others between two uses of an address. Else a cache gives an address the frame
    // that it had, and a translation that no flush has removed is right by chance.
    let mut held: [Option<Frame>; 8] = [None; 8];
    for _ in 0..loops() {
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
                let longest = if draw.below(10) == 0 { 90 } else { 8 };
                let pages = 1 + draw.below(longest);
                let Ok(page) = with(|cpu| cpu.vmalloc(&AreaRequest::new(pages))) else {
                    continue;
                };
                write(address(page), pages * Page::BYTES);
                pack(address(page), AREA, pages)
            }
            2 => {
                let bytes = 16 + draw.below(12_000);
                let Ok(at) = with(|cpu| cpu.kvmalloc(&KvRequest::new(bytes))) else {
                    continue;
                };
                write(at.0, bytes);
                pack(at.0, OBJECT, bytes)
            }
            _ => {
                map_some(1 + draw.below(8));
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
    if crate::boot::number("noflush") == Some(1) {
        IS_FLUSH_LEFT_OUT.store(true, Relaxed);
    }
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
    let wrong = WRONG.load(Relaxed);
    if wrong > 0 {
        say!("{wrong} wrong words");
        exit(Exit::WrongBytes);
    }
}
