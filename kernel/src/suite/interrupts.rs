//! Timer interrupts that allocate and free, throughout the stress; and handlers that interrupt a call.

use super::{Dice, loops, stress, touch};
use crate::arch::cpu::instructions::{enable_interrupts, without_interrupts};
use crate::arch::set_timer;
use crate::memory::{KernelCpu, SEATS, engine, with};
use crate::say;
use crate::traps::{TICKS, count, on_tick};
use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use framewright::kv::KvRequest;
use framewright::vrange::AreaRequest;
use framewright::{Addr, Context, Mobility, Order, Page};

static HELD_OBJECT: AtomicU64 = AtomicU64::new(0);
static HELD_AREA: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);
static SERVED: AtomicU64 = AtomicU64::new(0);
/// Ticks that found their CPU inside the engine, where it let them in.
static IN_WINDOW: AtomicU64 = AtomicU64::new(0);
static NO_MEMORY: AtomicU64 = AtomicU64::new(0);

fn next_tick() {
    // Odd and changing, so that it falls on other instructions each time.
    set_timer(700 + (TICKS.load(Relaxed) * 37 % 900) as u32);
}

/// A tick that works with the handlers' seats, so that it is served in a window of a long call, too.
fn tick() {
    if SEATS.try_with(|_| ()).is_err() {
        count(&IN_WINDOW);
    }
    SEATS.with_handler(serve);
    count(&SERVED);
    next_tick();
}

/// One that works with the seats of the call that it may have interrupted.
fn nested_tick() {
    let served = SEATS.try_with(serve);
    count(if served.is_ok() { &SERVED } else { &REFUSED });
    next_tick();
}

/// Frees what an earlier tick allocated, and allocates anew.
fn serve(cpu: &mut KernelCpu) {
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
        Err(_) => count(&NO_MEMORY),
    }
    if let Ok(frame) = cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::NOWAIT) {
        cpu.free(frame, Order::ZERO).expect("it was allocated");
    }
    match cpu.vmalloc(&AreaRequest::new(3).within(Context::NOWAIT)) {
        Ok(page) => {
            touch(page);
            let others = HELD_AREA.swap(page.0, AcqRel);
            if others != 0 {
                cpu.vfree(Page(others)).expect("it was allocated");
            }
        }
        Err(_) => count(&NO_MEMORY),
    }
}

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
    let counts = [&TICKS, &SERVED, &IN_WINDOW, &REFUSED, &NO_MEMORY];
    let [ticks, served, inside, refused, failed] = counts.map(|count| count.load(Relaxed));
    say!(
        "{ticks} ticks, {served} handlers served, {inside} of them in windows, {refused} refused as nested, {failed} \
         requests failed"
    );
}

/// The stress with ticks on the first CPU. Interrupts are off in every call of the engine, so none is nested.
pub fn run() {
    on_tick(tick);
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

/// Long calls while ticks come throughout: each is served in the midst of one, with all its requests, and what the
/// calls hand out and take back stays whole.
pub fn windows() {
    assert_eq!(
        crate::cpus(),
        1,
        "the time is the emulator's, by instructions"
    );
    on_tick(tick);
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
    on_tick(nested_tick);
    next_tick();
    let mut draw = Dice::new(9);
    let mut objects = [0; 64];
    for _ in 0..loops() {
        let nth = draw.below(64) as usize;
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
}
