//! One CPU maps areas, one after the other, and all others read each: a translation that a CPU has kept from an
//! area before shows at once.

use super::{Dice, address, loops, on_all_cpus, vfree, vmalloc, wait};
use crate::counts::COUNTS;
use crate::memory::with;
use crate::say;
use crate::serial::{Exit, exit};
use core::sync::atomic::{
    AtomicU16, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use framewright::vrange::AreaRequest;
use framewright::{Context, CpuId, Frame, Mobility, Order, Page};

/// Which area it is, from 1 on, its address and its bytes; and how many CPUs have read it.
static TURN: AtomicU64 = AtomicU64::new(0);
static START: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static READERS: AtomicU16 = AtomicU16::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// Whether an area is read by the others. Addresses come round after some thousand pages, and an emulator keeps the
/// translations of a few hundred: of those pages that are read it still has them then.
fn is_read(page: Page) -> bool {
    const ROUND: u64 = 1024;
    const READ: u64 = 128;
    page.0 % ROUND < READ
}

/// The word at an address in that turn.
fn word(turn: u64, at: u64) -> u64 {
    turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ at
}

fn show() {
    let mut draw = Dice::new(3);
    // Frames that change places with others, so that an address has another frame the next time.
    let mut held: [Option<Frame>; 64] = [None; 64];
    let mut turn = 0;
    while turn < loops() {
        for _ in 0..1 + draw.below(8) {
            let place = &mut held[draw.below(64) as usize];
            let new = with(|cpu| cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY));
            if let Some(old) = core::mem::replace(place, new.ok()) {
                with(|cpu| cpu.free(old, Order::ZERO)).expect("it was allocated");
            }
        }
        let pages = 1 + draw.below(4);
        let page = vmalloc(&AreaRequest::new(pages));
        if !is_read(page) {
            vfree(page);
            continue;
        }
        turn += 1;
        let (start, bytes) = (address(page), pages * Page::BYTES);
        for at in (start..start + bytes).step_by(8) {
            // SAFETY: the area is this test's.
            unsafe { (at as *mut u64).write_volatile(word(turn, at)) };
        }
        READERS.store(0, Relaxed);
        START.store(start, Relaxed);
        BYTES.store(bytes, Relaxed);
        TURN.store(turn, Release);
        wait(|| READERS.load(Acquire) == crate::cpus() - 1);
        vfree(page);
    }
    for frame in held.into_iter().flatten() {
        with(|cpu| cpu.free(frame, Order::ZERO)).expect("it was allocated");
    }
}

fn look() {
    for turn in 1..=loops() {
        wait(|| TURN.load(Acquire) == turn);
        let (start, bytes) = (START.load(Relaxed), BYTES.load(Relaxed));
        for at in (start..start + bytes).step_by(8) {
            // SAFETY: the area is there until all have read it.
            let found = unsafe { (at as *const u64).read_volatile() };
            if found != word(turn, at) && WRONG.fetch_add(1, Relaxed) == 0 {
                say!("WRONG: {found:#x} at {at:#x} in turn {turn}");
            }
        }
        READERS.fetch_add(1, AcqRel);
    }
}

fn work(cpu: CpuId) {
    if cpu.0 == 0 { show() } else { look() }
}

pub fn run() {
    on_all_cpus(work);
    let (flushes, wrong) = (COUNTS.flushes.get(), WRONG.load(Relaxed));
    say!("{} areas, {flushes} flushes, {wrong} wrong words", loops());
    if wrong > 0 {
        exit(Exit::WrongBytes);
    }
}
