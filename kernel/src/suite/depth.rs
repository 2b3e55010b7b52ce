//! How much stack the engine's calls take below their caller: 4 KiB at most.
//!
//! # How it is measured
//! ```text
//!   caller's frame   ◀── top
//!   call's frames    the deepest word that was written ──┐
//!   paint            PAINTED bytes, as they were  ◀──────┘ depth = top - that word
//! ```
//! The test runs on an area of its own, so that no other data lies below. Before each call it fills what lies below its own
//! frame with a word that no call writes, and afterwards looks for the lowest word that has changed. Whatever a call enters
//! counts: the platform's functions, page tables, the test's own clients of reclaim. There is one CPU and no timer, so no
//! interrupt counts. A frame whose deepest words are never written counts without them.
//!
//! A call is as deep as the way that it takes: empty caches, a purge, a stop of all CPUs, a request that is served by
//! reclaim or by compaction. So the calls come in a random mix, first with much memory, and then with little.
//!
//! # What takes it
//! Where a request compacts: the moves that its clients see and may change, 64 of them (1.5 KiB), and the engine's own record of
//! them. Where it does not: what a purge calls to free frames into full caches. Functions that a deep way only passes by are not
//! inlined, so that what they need does not lie there.

use super::{Dice, address, loops, vmalloc};
use crate::arch::call_on_stack;
use crate::arch::cpu::instructions::without_interrupts;
use crate::memory::{BarePc, SEATS, ZoneSeat, engine, with};
use crate::say;
use crate::serial::{Exit, exit};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;
use framewright::kv::KvRequest;
use framewright::platform::ReservePlatform;
use framewright::reclaim::{Ask, Clients, Migrate, Move, MoveState, Shrink, Shrunk};
use framewright::reserve::{Key, PoolConfig, PoolId};
use framewright::vrange::AreaRequest;
use framewright::{Addr, Context, Frame, Mobility, Order, Page, Run};

/// What a call may take, in bytes.
const BAR: u64 = 4096;
/// Calls that the mix must have made, or it has shown little.
const DEEPEST: [&str; 5] = [
    "alloc_run",
    "alloc",
    "alloc, pressed",
    "vmalloc",
    "background",
];
const PAINTED: u64 = 16 << 10;
const PAINT: u64 = 0x5afe_c0de_5afe_c0de;
const STACK_PAGES: u64 = 16;

/// Fills what lies below `top`, but for the frame of this function.
#[inline(never)]
fn paint(top: u64) {
    let frame = 0_u64;
    let end = (&raw const *core::hint::black_box(&frame)) as u64 - 256;
    let mut at = top - PAINTED;
    while at < end {
        // SAFETY: this test's stack, below all that is in use.
        unsafe { (at as *mut u64).write_volatile(PAINT) };
        at += 8;
    }
}

/// How deep `work` goes.
#[inline(never)]
fn depth_of(work: &mut dyn FnMut()) -> u64 {
    let frame = 0_u64;
    let top = (&raw const *core::hint::black_box(&frame)) as u64;
    paint(top);
    work();
    let mut at = top - PAINTED;
    // SAFETY: as above; a frame lies at `top`, so it ends there.
    while at < top && unsafe { (at as *const u64).read_volatile() } == PAINT {
        at += 8;
    }
    top - at
}

/// The deepest of each kind of call.
struct Depths(Vec<(&'static str, u64)>);

impl Depths {
    fn of<T>(&mut self, call: &'static str, work: impl FnOnce() -> T) -> T {
        let (mut work, mut done) = (Some(work), None);
        let depth = depth_of(&mut || done = work.take().map(|work| work()));
        match self.0.iter_mut().find(|known| known.0 == call) {
            Some(known) => known.1 = known.1.max(depth),
            None => self.0.push((call, depth)),
        }
        done.expect("it was called")
    }
}

fn order(order: u64) -> Order {
    Order::new(order as u8).expect("a small order")
}

fn mobility(dice: &mut Dice) -> Mobility {
    Mobility::ALL[dice.below(3) as usize]
}

/// Something that the mix has allocated.
enum DepthHolding {
    Block(Frame, Order),
    Run(Run),
    Area(Page),
    Mapping(Page, Vec<Frame>),
    Object(Addr),
    Percpu(Addr),
}

fn take(depths: &mut Depths, dice: &mut Dice) -> Option<DepthHolding> {
    let context = if dice.below(4) == 0 {
        Context::NOWAIT
    } else {
        Context::ANY
    };
    match dice.below(7) {
        0 => {
            let (order, mobility) = (order(dice.below(11)), mobility(dice));
            let block = depths.of("alloc", || with(|cpu| cpu.alloc(order, mobility, context)));
            Some(DepthHolding::Block(block.ok()?, order))
        }
        1 => {
            let (frames, mobility) = (1 + dice.below(1500), mobility(dice));
            let run = depths.of("alloc_run", || {
                with(|cpu| cpu.alloc_run(frames, 1, mobility, context))
            });
            Some(DepthHolding::Run(run.ok()?))
        }
        2 | 3 => {
            let long = if dice.below(8) == 0 { 2000 } else { 40 };
            let mut request = AreaRequest::new(1 + dice.below(long)).within(context);
            if dice.below(3) == 0 {
                request = request.zeroed().aligned_to(4096 << dice.below(10));
            }
            let area = depths.of("vmalloc", || with(|cpu| cpu.vmalloc(&request)));
            Some(DepthHolding::Area(area.ok()?))
        }
        4 => {
            let one = || with(|cpu| cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY));
            let frames: Vec<Frame> = (0..1 + dice.below(64)).filter_map(|_| one().ok()).collect();
            let page = depths.of("map_ram", || with(|cpu| cpu.map_ram(&frames, context)));
            match page {
                Ok(page) => Some(DepthHolding::Mapping(page, frames)),
                Err(_) => {
                    free_each(frames);
                    None
                }
            }
        }
        5 => {
            let request = KvRequest::new(1 << dice.below(21)).within(context);
            let object = if request.bytes <= 8192 && dice.below(2) == 0 {
                depths.of("kmalloc", || with(|cpu| cpu.kmalloc(&request)))
            } else {
                depths.of("kvmalloc", || with(|cpu| cpu.kvmalloc(&request)))
            };
            Some(DepthHolding::Object(object.ok()?))
        }
        _ => {
            let (bytes, align) = (1 + dice.below(4096), 1 << dice.below(11));
            let object = depths.of("alloc_percpu", || {
                with(|cpu| cpu.alloc_percpu(bytes, align, context))
            });
            Some(DepthHolding::Percpu(object.ok()?))
        }
    }
}

fn free_each(frames: Vec<Frame>) {
    for frame in frames {
        with(|cpu| cpu.free(frame, Order::ZERO)).expect("it was allocated");
    }
}

fn give(depths: &mut Depths, held: DepthHolding, dice: &mut Dice) {
    match held {
        DepthHolding::Block(frame, order) if order != Order::ZERO && dice.below(4) == 0 => {
            let into = depths.of("split", || with(|cpu| cpu.split(frame, order, Order::ZERO)));
            into.expect("it was allocated");
            let frames = (0..order.frames()).map(|nth| Frame(frame.0 + nth));
            free_each(frames.collect());
        }
        DepthHolding::Block(frame, order) => depths
            .of("free", || with(|cpu| cpu.free(frame, order)))
            .expect("it was allocated"),
        DepthHolding::Run(run) => depths
            .of("free_run", || with(|cpu| cpu.free_run(run)))
            .expect("it was allocated"),
        DepthHolding::Area(page) => {
            let freed = depths.of("vfree", || with(|cpu| cpu.vfree(page)));
            freed.expect("it was allocated");
        }
        DepthHolding::Mapping(page, frames) => {
            let pages = frames.len() as u64;
            let unmapped = depths.of("unmap_ram", || with(|cpu| cpu.unmap_ram(page, pages)));
            unmapped.expect("it was mapped");
            free_each(frames);
        }
        DepthHolding::Object(object) => {
            let freed = depths.of("kvfree", || with(|cpu| cpu.kvfree(object)));
            freed.expect("it was allocated");
        }
        DepthHolding::Percpu(object) => {
            let freed = depths.of("free_percpu", || with(|cpu| cpu.free_percpu(object)));
            freed.expect("it was allocated");
        }
    }
}

/// Allocates and frees at random; sometimes all that is kept goes back.
fn mix(depths: &mut Depths, dice: &mut Dice, rounds: u64) {
    let mut held: Vec<Option<DepthHolding>> = (0..64).map(|_| None).collect();
    for _ in 0..rounds {
        let place = &mut held[dice.below(64) as usize];
        match place.take() {
            Some(old) => give(depths, old, dice),
            None => *place = take(depths, dice),
        }
        match dice.below(200) {
            0 => depths.of("drain", || with(|cpu| cpu.drain())),
            1 => {
                depths.of("ranges().drain", || with(|cpu| cpu.ranges().drain()));
            }
            2 => depths.of("purge_percpu", || with(|cpu| cpu.purge_percpu())),
            3 => {
                depths.of("objects().drain", || with(|cpu| cpu.objects().drain()));
            }
            _ => {}
        }
    }
    for held in held.into_iter().flatten() {
        give(depths, held, dice);
    }
}

fn open(depths: &mut Depths, config: &PoolConfig) -> PoolId {
    let reserve = engine().reserve().expect("the layout has one");
    let pool = depths.of("open_pool", || {
        without_interrupts(|| reserve.open_pool(config))
    });
    pool.expect("there is room for a pool")
}

/// Guests and owners of the reserve. Pages that are on no device are copied into ordinary frames.
fn reserve(depths: &mut Depths, dice: &mut Dice, rounds: u64) {
    let reserve = engine().reserve().expect("the layout has one");
    let clean = open(depths, &PoolConfig::CLEAN);
    let config = PoolConfig {
        put_back: true,
        ..PoolConfig::SWAP
    };
    let swap = open(depths, &config);
    let page: Box<[u64; 512]> = Box::new(core::array::from_fn(|nth| nth as u64 + 7));
    let mut found = Box::new([0; 512]);
    for _ in 0..rounds {
        let key = |pool, dice: &mut Dice| Key {
            pool,
            object: dice.below(4),
            index: dice.below(2000),
        };
        let (of_clean, of_swap) = (key(clean, dice), key(swap, dice));
        // Refused where an owner has the frames.
        let _ = depths.of("put", || with(|cpu| cpu.put(of_clean, &page)));
        let _ = depths.of("put_dirty", || {
            with(|cpu| cpu.guest().map(|guest| guest.put_dirty(of_swap, &page)))
        });
        depths.of("get", || with(|cpu| cpu.get(of_clean, &mut found)));
        depths.of("get", || with(|cpu| cpu.get(of_swap, &mut found)));
        let invalidated = key(swap, dice);
        match dice.below(100) {
            0 => depths.of("invalidate_object", || {
                with(|cpu| {
                    if let Some(guest) = cpu.guest() {
                        guest.invalidate_object(swap, invalidated.object);
                    }
                })
            }),
            1..10 => depths.of("invalidate_page", || {
                with(|cpu| {
                    if let Some(guest) = cpu.guest() {
                        guest.invalidate_page(invalidated);
                    }
                })
            }),
            10..15 => {
                let frames = 1 + dice.below(500);
                let run = depths.of("alloc_contig_with", || {
                    with(|cpu| reserve.alloc_contig_with(frames, 1, cpu.frames()))
                });
                if let Ok(run) = run {
                    let released =
                        depths.of("release", || without_interrupts(|| reserve.release(run)));
                    released.expect("it was taken");
                }
                depths.of("collect", || with(|cpu| reserve.collect(cpu.frames())));
            }
            15..18 => own(depths, 1 + dice.below(500)),
            _ => {}
        }
    }
    for pool in [clean, swap] {
        depths.of("invalidate_pool", || {
            with(|cpu| cpu.guest().map(|guest| guest.invalidate_pool(pool)))
        });
    }
    depths.of("collect", || with(|cpu| reserve.collect(cpu.frames())));
}

/// A reservation is made, taken and given up.
fn own(depths: &mut Depths, frames: u64) {
    let reserve = engine().reserve().expect("the layout has one");
    let made = depths.of("reserve", || {
        without_interrupts(|| reserve.reserve("camera", frames, 1))
    });
    // Pages that are on no device are in the way.
    let Ok(camera) = made else { return };
    let taken = depths.of("take", || without_interrupts(|| reserve.take(camera)));
    let run = taken.expect("no guest is in the way");
    without_interrupts(|| reserve.release(run)).expect("it was taken");
    let given_up = depths.of("unreserve", || {
        without_interrupts(|| reserve.unreserve(camera))
    });
    given_up.expect("it was made");
}

/// Pages that can move, and be dropped.
struct DepthPages(RefCell<Vec<Frame>>);

// SAFETY: the test has one CPU and no handlers.
unsafe impl Sync for DepthPages {}

static PAGES: DepthPages = DepthPages(RefCell::new(Vec::new()));

impl Shrink<ZoneSeat> for DepthPages {
    fn holding(&self) -> u64 {
        self.0.try_borrow().map_or(0, |pages| pages.len() as u64)
    }

    fn shrink(&self, frames: &mut ZoneSeat, ask: &Ask) -> Shrunk {
        // A request that the list makes for its own memory finds it in use.
        let Ok(mut pages) = self.0.try_borrow_mut() else {
            return Shrunk::default();
        };
        let count = ask.wanted.min(ask.scan).min(pages.len() as u64);
        for frame in pages.drain(..count as usize) {
            frames.free(frame, Order::ZERO).expect("it was allocated");
        }
        let (scanned, freed) = (count, count);
        Shrunk { scanned, freed }
    }
}

impl Migrate for DepthPages {
    fn migrate(&self, moves: &mut [Move]) {
        let Ok(mut pages) = self.0.try_borrow_mut() else {
            return;
        };
        for one in moves.iter_mut().filter(|one| one.order == Order::ZERO) {
            if let Some(page) = pages.iter_mut().find(|page| **page == one.from) {
                BarePc.copy(one.from, one.to);
                *page = one.to;
                one.state = MoveState::Moved;
            }
        }
    }
}

/// Requests when hardly anything is free: served by reclaim, and large ones by compaction.
fn pressed(depths: &mut Depths, dice: &mut Dice, rounds: u64) {
    let shrink: &[&dyn Shrink<ZoneSeat>] = Box::leak(Box::new([&PAGES as &dyn Shrink<ZoneSeat>]));
    let migrate: &[&dyn Migrate] = Box::leak(Box::new([&PAGES as &dyn Migrate]));
    let clients = Clients { shrink, migrate };
    SEATS.set_clients(clients);
    // The lists' own memory, before memory is short.
    let most = engine().frame_stats().nr_free_pages as usize;
    let mut all = Vec::with_capacity(most);
    PAGES.0.borrow_mut().reserve(most);
    for _ in 0..rounds {
        while all.len() < all.capacity()
            && let Ok(frame) =
                with(|cpu| cpu.alloc(Order::ZERO, Mobility::Movable, Context::NOWAIT))
        {
            all.push(frame);
        }
        // Every second one goes back, so that compaction has work.
        for (nth, frame) in all.drain(..).enumerate() {
            if nth % 2 == 0 {
                PAGES.0.borrow_mut().push(frame);
            } else {
                with(|cpu| cpu.free(frame, Order::ZERO)).expect("it was allocated");
            }
        }
        for _ in 0..8 {
            let (order, mobility) = (order(dice.below(10)), mobility(dice));
            let block = depths.of("alloc, pressed", || {
                with(|cpu| cpu.alloc(order, mobility, Context::ANY))
            });
            if let Ok(frame) = block {
                depths
                    .of("free", || with(|cpu| cpu.free(frame, order)))
                    .expect("it was allocated");
            }
        }
        mix(depths, dice, 100);
        depths.of("background", || {
            with(|cpu| {
                let reclaim = engine().reclaim(0);
                reclaim.background(cpu.frames().seat(0), &clients, 4096)
            })
        });
    }
    let stats = engine().reclaim(0).stats();
    say!("{stats:?}");
    let is_served = stats.pgsteal_direct > 0 && stats.compact_success > 0;
    assert!(is_served, "reclaim or compaction served no request");
    free_each(core::mem::take(&mut *PAGES.0.borrow_mut()));
}

extern "C" fn on_own_stack() {
    let (mut depths, mut dice) = (Depths(Vec::with_capacity(64)), Dice::new(21));
    mix(&mut depths, &mut dice, loops());
    reserve(&mut depths, &mut dice, loops());
    pressed(&mut depths, &mut dice, (loops() / 500).max(1));
    depths.of("frame_stats", || {
        core::hint::black_box(engine().frame_stats());
    });
    depths
        .0
        .sort_by_key(|(_, depth)| core::cmp::Reverse(*depth));
    for (call, depth) in &depths.0 {
        say!("{call}: {depth} bytes of stack");
    }
    for call in DEEPEST {
        let is_measured = depths.0.iter().any(|(measured, _)| *measured == call);
        assert!(is_measured, "{call} was not called");
    }
    for (call, depth) in &depths.0 {
        assert!(
            *depth <= BAR,
            "{call} took {depth} bytes, and may take {BAR}"
        );
    }
    engine().verify().expect("the engine's invariants hold");
    say!("passed");
    exit(Exit::Passed)
}

/// All kinds of calls, on a stack of this test's own.
pub fn run() {
    assert_eq!(crate::cpus(), 1, "another CPU's interrupts would count");
    let stack = vmalloc(&AreaRequest::new(STACK_PAGES));
    call_on_stack(address(stack) + STACK_PAGES * Page::BYTES, on_own_stack)
}
