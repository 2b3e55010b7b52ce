//! Timer interrupts that allocate and free, throughout the stress; and handlers that interrupt a call.
//!
//! Of the areas that they free they defer one of [`DEFERRED_ONE_OF`], and where their seats are busy each: the CPUs' own loops
//! free those. An area holds its words until then.
//!
//! A handler may not wait, so it asks with `Context::NOWAIT`: it stops no CPU, unmaps and flushes nothing. Such a request may
//! fail while other CPUs keep what it wants, or work there. Where memory and addresses abound that must be rare: of these
//! tests' requests at most one in [`FAILED_ONE_OF`] fails, and with one CPU, which waits for no other, none.

use super::{Dice, address, loops, stress};
use crate::arch::cpu::instructions::{enable_interrupts, without_interrupts};
use crate::arch::set_timer;
use crate::memory::{KernelCpu, MAX_CPUS, SEATS, engine, with};
use crate::say;
use crate::traps::{TICKS, count, on_tick};
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use framewright::kv::KvRequest;
use framewright::vrange::AreaRequest;
use framewright::{Addr, Context, CpuId, Mobility, Order, Page};

static HELD_OBJECT: AtomicU64 = AtomicU64::new(0);
static HELD_AREA: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);
static SERVED: AtomicU64 = AtomicU64::new(0);
/// Ticks that found their CPU inside the engine, where it let them in.
static IN_WINDOW: AtomicU64 = AtomicU64::new(0);
/// Areas whose free a handler has deferred: where it was served, and where it was refused as nested.
static DEFERRED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The pages of areas in use when the ticks began.
static LIVE_BEFORE: AtomicU64 = AtomicU64::new(0);
/// Requests of handlers that failed: for objects, frames, areas.
static FAILED: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// By CPU.
static SERVED_ON: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// Beside other CPUs one request of handlers in so many may fail, rounded up.
const FAILED_ONE_OF: u64 = 1000;

/// Of so many areas that handlers free they defer one.
const DEFERRED_ONE_OF: u64 = 2;

/// The pages of a handler's area.
const PAGES: u64 = 3;

/// The least time between two ticks of a CPU, over the number of CPUs: `tick=` on the command line. The emulator's CPUs take turns, and time
/// passes for all of them in each turn. So with as little for several CPUs a tick would be due again at the end of the last, and
/// their calls would stand still.
static TICK_LEAST: AtomicU64 = AtomicU64::new(700);

/// By CPU, a bit: its ticks do nothing from here on.
static IS_OVER: AtomicU64 = AtomicU64::new(0);

/// Ticks call `handler` from now on, on each CPU that sets its timer.
fn begin(handler: fn()) {
    if let Some(least) = crate::boot::number("tick") {
        TICK_LEAST.store(least, Relaxed);
    }
    LIVE_BEFORE.store(engine().space().stats().live_pages, Relaxed);
    on_tick(handler);
}

/// The words of a handler's area, one a page.
fn words(page: Page) -> [*mut u64; PAGES as usize] {
    core::array::from_fn(|nth| (address(page) + nth as u64 * Page::BYTES) as *mut u64)
}

fn mark(page: Page) {
    for at in words(page) {
        // SAFETY: the area is the handlers'.
        unsafe { at.write_volatile(!(at as u64)) };
    }
}

/// Looks whether the area holds what `mark` wrote.
fn check(page: Page) {
    for at in words(page) {
        // SAFETY: as above.
        let found = unsafe { at.read_volatile() };
        assert_eq!(found, !(at as u64), "an area of a handler's changed");
    }
}

/// Defers the free of a handler's area, which keeps its words. It enters no seat.
fn defer(page: Page, how: usize) {
    check(page);
    let pages = engine().space().vfree_atomic(page);
    assert_eq!(pages, Ok(PAGES), "it was allocated");
    DEFERRED[how].fetch_add(1, Relaxed);
}

/// Frees an area of the handlers', or defers that.
fn free(cpu: &mut KernelCpu, page: Page) {
    if SERVED.load(Relaxed).is_multiple_of(DEFERRED_ONE_OF) {
        return defer(page, 0);
    }
    check(page);
    cpu.vfree(page).expect("it was allocated");
}

fn next_tick() {
    // Odd and changing, so that it falls on other instructions each time.
    let least = TICK_LEAST.load(Relaxed) * u64::from(crate::cpus());
    let ticks = least + TICKS.load(Relaxed) * 37 % (least + 200);
    set_timer(ticks as u32);
}

/// A tick that works with the handlers' seats, so that it is served in a window of a long call, too.
fn tick() {
    if SEATS.try_with(|_| ()).is_err() {
        count(&IN_WINDOW);
    }
    let is_over = SEATS.with_handler(|cpu| {
        let own = cpu.id().0 % crate::cpus();
        let is_over = IS_OVER.load(Relaxed) >> own & 1 != 0;
        if !is_over {
            serve(cpu);
        }
        is_over
    });
    if !is_over {
        count(&SERVED);
        next_tick();
    }
}

/// One that works with the seats of the call that it may have interrupted.
fn nested_tick() {
    let served = SEATS.try_with(serve);
    count(if served.is_ok() { &SERVED } else { &REFUSED });
    let held = served.err().map_or(0, |_| HELD_AREA.swap(0, AcqRel));
    if held != 0 {
        defer(Page(held), 1);
    }
    next_tick();
}

/// Frees what an earlier tick allocated, and allocates anew.
fn serve(cpu: &mut KernelCpu) {
    count(&SERVED_ON[usize::from(cpu.id().0 % crate::cpus())]);
    let object = HELD_OBJECT.swap(0, AcqRel);
    if object != 0 {
        // SAFETY: the object is the handlers'.
        let found = unsafe { (object as *const u64).read_volatile() };
        assert_eq!(
            found, !object,
            "an object of a handler's was handed out twice"
        );
        cpu.kvfree(Addr(object)).expect("it was allocated");
    }
    match cpu.kmalloc(&KvRequest::new(64).within(Context::NOWAIT)) {
        Ok(object) => {
            // SAFETY: as above.
            unsafe { (object.0 as *mut u64).write_volatile(!object.0) };
            let others = HELD_OBJECT.swap(object.0, AcqRel);
            if others != 0 {
                cpu.kvfree(Addr(others)).expect("it was allocated");
            }
        }
        Err(_) => count(&FAILED[0]),
    }
    match cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::NOWAIT) {
        Ok(frame) => cpu.free(frame, Order::ZERO).expect("it was allocated"),
        Err(_) => count(&FAILED[1]),
    }
    match cpu.vmalloc(&AreaRequest::new(PAGES).within(Context::NOWAIT)) {
        Ok(page) => {
            mark(page);
            let others = HELD_AREA.swap(page.0, AcqRel);
            if others != 0 {
                free(cpu, Page(others));
            }
        }
        Err(_) => count(&FAILED[2]),
    }
}

/// Ends the ticks, says what came of them, and whether too many requests failed.
fn end() {
    on_tick(|| {});
    for (held, is_area) in [(&HELD_OBJECT, false), (&HELD_AREA, true)] {
        let held = held.swap(0, AcqRel);
        match is_area {
            _ if held == 0 => {}
            true => with(|cpu| cpu.vfree(Page(held)))
                .map(|_| ())
                .expect("it was allocated"),
            false => with(|cpu| cpu.kvfree(Addr(held)))
                .map(|_| ())
                .expect("it was allocated"),
        }
    }
    with(|cpu| cpu.free_deferred());
    let live = engine().space().stats().live_pages;
    assert_eq!(live, LIVE_BEFORE.load(Relaxed), "an area is left");
    let counts = [&TICKS, &SERVED, &IN_WINDOW, &REFUSED];
    let [ticks, served, inside, refused] = counts.map(|count| count.load(Relaxed));
    let [objects, frames, areas] = FAILED.each_ref().map(|count| count.load(Relaxed));
    let (requests, failed) = (served * FAILED.len() as u64, objects + frames + areas);
    say!(
        "{ticks} ticks, {served} handlers served, {inside} of them in windows, {refused} refused as nested; {failed} of \
         {requests} requests failed: {objects} for objects, {frames} for frames, {areas} for areas"
    );
    let [deferred, nested] = DEFERRED.each_ref().map(|count| count.load(Relaxed));
    say!("{deferred} frees deferred by handlers, and {nested} by nested ones");
    say!("row ticks {ticks}");
    say!("row requests {requests}");
    say!("row failed {failed}");
    let most = match crate::cpus() {
        1 => 0,
        _ => requests.div_ceil(FAILED_ONE_OF),
    };
    assert!(failed <= most, "{failed} of {requests} requests failed");
    assert!(
        (deferred + nested) * 2 * DEFERRED_ONE_OF > served,
        "{deferred} and {nested} frees deferred by {served} handlers"
    );
}

/// The stress with ticks on the first CPU. Interrupts are off in every call of the engine, so none is nested.
pub fn run() {
    begin(tick);
    next_tick();
    stress::run();
    // The timer goes by the host's clock where the emulator's CPUs are threads: on a busy host the stress may end
    // before it has ticked often. A timer that does not tick at all is ended by the limit on the kernel's time.
    while SERVED.load(Relaxed) <= 100 {
        with(|cpu| {
            let frame = cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::NOWAIT);
            if let Ok(frame) = frame {
                cpu.free(frame, Order::ZERO).expect("it was allocated");
            }
        });
        core::hint::spin_loop();
    }
    end();
}

fn ticking_work(cpu: CpuId) {
    next_tick();
    stress::work(cpu);
    // What a handler holds is given back once all CPUs are here.
    IS_OVER.fetch_or(1 << cpu.0, Relaxed);
}

/// The stress with ticks on each CPU.
pub fn everywhere() {
    begin(tick);
    stress::run_as(ticking_work);
    end();
    let on = &SERVED_ON[..usize::from(crate::cpus())];
    let fewest = on.iter().map(|count| count.load(Relaxed)).min();
    assert!(
        fewest.is_some_and(|fewest| fewest > 100),
        "a CPU had too few ticks: {fewest:?}"
    );
}

/// Long calls while ticks come throughout: each is served in the midst of one, with all its requests, and what the
/// calls hand out and take back stays whole.
pub fn windows() {
    assert_eq!(
        crate::cpus(),
        1,
        "the time is the emulator's, by instructions"
    );
    begin(tick);
    next_tick();
    for nth in 0..loops() {
        let pages = 64 + nth % 512;
        let area = with(|cpu| cpu.vmalloc(&AreaRequest::new(pages).zeroed()));
        let area = area.expect("there is memory");
        let object = with(|cpu| cpu.kvmalloc(&KvRequest::new(pages << 12).zeroed()));
        let object = object.expect("there is memory");
        for page in 0..pages {
            for at in [(area.0 + page) << 12, object.0 + (page << 12)] {
                // SAFETY: the page is the test's.
                let word = unsafe { &mut *(at as *mut u64) };
                assert_eq!(core::mem::replace(word, !0), 0, "a page is not zeroed");
            }
        }
        with(|cpu| cpu.vfree(area)).expect("it was allocated");
        with(|cpu| cpu.kvfree(object)).expect("it was allocated");
        if nth % 16 == 0 {
            with(|cpu| cpu.ranges().drain());
        }
    }
    end();
    assert!(
        IN_WINDOW.load(Relaxed) > loops(),
        "too few ticks came in the midst of calls"
    );
}

/// A kernel that leaves interrupts on in its calls: handlers that come in the midst of one are refused, and
/// nothing breaks.
pub fn nested() {
    assert_eq!(
        crate::cpus(),
        1,
        "interrupts on in a call: on one CPU alone"
    );
    begin(nested_tick);
    next_tick();
    let mut draw = Dice::new(9);
    let mut objects = [0; 64];
    for _ in 0..loops() {
        let nth = draw.below(64) as usize;
        if nth == 0 {
            with(|cpu| cpu.free_deferred());
        }
        let done = SEATS.try_with(|cpu| {
            // SAFETY: `try_with` has marked the CPU busy, which is what this test is about.
            unsafe { enable_interrupts() };
            match objects[nth] {
                0 => {
                    let object = cpu.kvmalloc(&KvRequest::new(64 + 4096 * (nth as u64 % 3)));
                    objects[nth] = object.expect("there is memory").0;
                }
                object => {
                    // SAFETY: the object is this test's.
                    let found = unsafe { (object as *const u64).read_volatile() };
                    assert_eq!(found, object, "an object was handed out twice");
                    cpu.kvfree(Addr(object)).expect("it was allocated");
                    objects[nth] = 0;
                }
            }
            without_interrupts(|| engine().frame_stats());
        });
        done.expect("no handler is in the midst of a call here");
        // Ticks come here, too, and find the CPU's place free.
        (0..draw.below(20)).for_each(|_| core::hint::spin_loop());
        if objects[nth] != 0 {
            // SAFETY: the object is this test's.
            unsafe { (objects[nth] as *mut u64).write_volatile(objects[nth]) };
        }
    }
    for object in objects.into_iter().filter(|object| *object != 0) {
        with(|cpu| cpu.kvfree(Addr(object))).expect("it was allocated");
    }
    end();
    assert!(
        REFUSED.load(Relaxed) > 10 && SERVED.load(Relaxed) > 10,
        "too few ticks in calls"
    );
    assert!(
        DEFERRED[1].load(Relaxed) > 10,
        "too few frees deferred in the midst of calls"
    );
}
