//! Devices, supplies and stores that panic: no page is lost, and none is waited for for ever.

use crate::machine::{host, with_reserve};
use crate::told::ToldDevice;
use framewright::frame::{AllocError, FrameSource};
use framewright::reserve::{Cleaned, Key, Store};
use framewright::{Context, Frame, Run};
use framewright_linux::Frontswap;
use framewright_linux::Zram;
use framewright_linux::paged::{Paged, PagedError};
use framewright_linux::swap::{SwapOp, SwapPolicy};
use framewright_linux::tenancy::Tenancy;
use framewright_sim::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How many calls go well until one panics.
#[derive(Default)]
struct CallsUntil(AtomicI64);

impl CallsUntil {
    fn count(&self, what: &str) {
        assert!(
            self.0.fetch_sub(1, SeqCst) != 1,
            "{what}, as the test wants it"
        );
    }

    fn set(&self, calls: i64) {
        self.0.store(calls, SeqCst);
    }
}

/// The calls of a device of which one panics.
#[derive(Default)]
struct PanickyCalls {
    writes: CallsUntil,
    reads: CallsUntil,
}

impl PanickyCalls {
    /// A device with these.
    fn device(&self) -> ToldDevice<Zram, impl Fn(SwapOp) + Send + Sync> {
        ToldDevice {
            device: Zram::new(400, 4 << 20),
            before: |op| match op {
                SwapOp::Write => self.writes.count("a write"),
                SwapOp::Read => self.reads.count("a read"),
                SwapOp::Sync => {}
            },
        }
    }
}

/// A store with a call that panics before it does anything, or once it has done all.
struct PanickyStore<'t> {
    store: &'t dyn Tenancy,
    calls: CallsUntil,
    ends: CallsUntil,
}

impl<'t> PanickyStore<'t> {
    fn before(store: &'t dyn Tenancy) -> Self {
        Self {
            store,
            calls: CallsUntil::default(),
            ends: CallsUntil::default(),
        }
    }
}

impl Tenancy for PanickyStore<'_> {
    fn with(&self, work: &mut dyn FnMut(&mut dyn Store)) {
        self.calls.count("a call of the store");
        self.store.with(work);
        self.ends.count("the end of a call of the store");
    }

    fn clean(&self, pages: u64, write: &mut dyn FnMut(&Key, &[u64; 512]) -> bool) -> Cleaned {
        self.store.clean(pages, write)
    }
}

/// A supply with a call that panics before it does anything.
struct PanickySupply<'c, F> {
    frames: F,
    allocs: &'c CallsUntil,
    frees: &'c CallsUntil,
}

impl<F: FrameSource> FrameSource for PanickySupply<'_, F> {
    fn origin(&self) -> u64 {
        self.frames.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.frames.frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        self.allocs.count("an allocation");
        self.frames.alloc_run(frames, context)
    }

    fn free_run(&mut self, run: Run) {
        for frame in run.start().0..run.end().0 {
            self.frames.free_frame(Frame(frame));
        }
        self.frees.count("a free");
    }
}

const PAGES: u64 = 96;

/// What a page holds: at its first word, and at its last.
fn check(paged: &Paged<'_>, page: u64, value: u64) -> Result<(), PagedError> {
    let mut bytes = [0; 8];
    for at in [0, 4088] {
        paged.read(page * 4096 + at, &mut bytes)?;
        assert_eq!(u64::from_ne_bytes(bytes), value, "page {page} at {at}");
    }
    Ok(())
}

/// Writes to a region whose device, or whose supply, panics now and then, and reads all of it again. Each
/// thread that serves it begins anew when it has panicked.
fn among_panics(seed: u64, device: &PanickyCalls, store: &CallsUntil, swap: Frontswap<'_>) {
    let host = host();
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 24).unwrap();
    let (allocs, frees) = (CallsUntil::default(), CallsUntil::default());
    let is_over = AtomicBool::new(false);
    let mut random = Random::new(seed);
    let mut values = vec![0; PAGES as usize];
    let retry = |call: &dyn Fn() -> Result<(), PagedError>| {
        let begun = Instant::now();
        while call().is_err() {
            assert!(
                begun.elapsed() < Duration::from_secs(200),
                "it is served again"
            );
            std::thread::yield_now();
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_over.load(SeqCst) {
                    let served = catch_unwind(AssertUnwindSafe(|| {
                        let mut supply = PanickySupply {
                            frames: host.seat().unwrap(),
                            allocs: &allocs,
                            frees: &frees,
                        };
                        paged.serve(&mut supply)
                    }));
                    assert!(served.is_err() || is_over.load(SeqCst));
                }
            });
        }
        // A thread that waits for ever would have the test wait for ever.
        scope.spawn(|| {
            let begun = Instant::now();
            while !is_over.load(SeqCst) {
                if begun.elapsed() > Duration::from_secs(240) {
                    eprintln!("a page is waited for for ever: {:?}", paged.stats());
                    std::process::exit(101);
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        for round in 1..150 {
            let calls = 1 + random.below(40) as i64;
            match random.below(6) {
                0 => device.writes.set(calls),
                1 => device.reads.set(calls),
                2 => allocs.set(calls),
                3 => frees.set(calls),
                4 => store.set(calls),
                _ => {
                    // Copies them, and is told of the panic itself.
                    let _ = catch_unwind(AssertUnwindSafe(|| paged.sync().map(drop)));
                }
            }
            for _ in 0..random.below(60) {
                let page = random.below(PAGES);
                if random.below(3) > 0 {
                    let bytes = (round << 16 | page).to_ne_bytes();
                    for at in [0, 4088] {
                        retry(&|| paged.write(page * 4096 + at, &bytes));
                    }
                    values[page as usize] = round << 16 | page;
                } else {
                    retry(&|| check(&paged, page, values[page as usize]));
                }
            }
        }
        for calls in [&device.writes, &device.reads, &allocs, &frees, store] {
            calls.set(0);
        }
        for page in 0..PAGES {
            retry(&|| check(&paged, page, values[page as usize]));
        }
        paged.sync().unwrap();
        is_over.store(true, SeqCst);
        paged.stop();
    });
    assert_eq!(paged.verify(), Ok(paged.stats().resident));
    paged.discard(0..PAGES, &mut host.seat().unwrap()).unwrap();
    assert_eq!(paged.stats().resident, 0);
    assert_eq!(paged.swap().used_slots(), 0);
    assert_eq!(paged.swap().dirty_pages(), 0);
    assert_eq!(host.zone().recount().allocated.iter().sum::<u64>(), 0);
}

#[test]
fn pg6_a_call_that_panics_leaves_no_page_busy_and_none_lost() {
    for seed in 1..4 {
        let calls = PanickyCalls::default();
        let device = calls.device();
        let swap = Frontswap::new(&device, PAGES);
        among_panics(seed, &calls, &CallsUntil::default(), swap);
    }
}

#[test]
fn fs6_nor_does_one_over_a_store() {
    for seed in 1..4 {
        with_reserve(512, |_, guests, pool| {
            let of_device = PanickyCalls::default();
            let device = of_device.device();
            let policy = SwapPolicy::WriteBack { dirty_max: 16 };
            let store = PanickyStore::before(guests);
            let swap = Frontswap::new(&device, PAGES).with_store(&store, pool, 1, policy);
            among_panics(seed, &of_device, &store.calls, swap);
        });
    }
}

#[test]
fn fs6_a_page_whose_cleaning_panics_is_cleaned_later() {
    with_reserve(512, |_, guests, pool| {
        let calls = PanickyCalls::default();
        let device = calls.device();
        let policy = SwapPolicy::WriteBack { dirty_max: 16 };
        let swap = Frontswap::new(&device, PAGES).with_store(guests, pool, 1, policy);
        let pages: Vec<u64> = (0..4).collect();
        swap.store(&pages, &[[7; 512]; 4]).unwrap();
        assert_eq!(swap.dirty_pages(), 4);
        calls.writes.set(2);
        assert!(catch_unwind(AssertUnwindSafe(|| swap.clean(4))).is_err());
        // One was written before the panic. The cleaner goes round, so it may meet the others later.
        for _ in 0..8 {
            swap.clean(4);
        }
        assert_eq!(swap.dirty_pages(), 0, "FS6");
    });
}

#[test]
fn fs7_no_version_that_no_page_has_stays_in_the_store() {
    with_reserve(512, |reserve, guests, pool| {
        let held = || reserve.stats().guests().held_pages;
        let device = Zram::new(100, 1 << 20);
        for policy in [
            SwapPolicy::WriteBack { dirty_max: 4 },
            SwapPolicy::PutBack { dirty_max: 4 },
            SwapPolicy::WriteThrough,
        ] {
            let store = PanickyStore::before(guests);
            let swap = Frontswap::new(&device, 8).with_store(&store, pool, 1, policy);
            let (one, page) = ([3], [[1; 512]]);
            let mut panics = 0;
            // Each call of the store's panics once: before its work, and after it. On the way a page is stored over
            // what is in the store and over what is in a slot, offered and refused, loaded and forgotten.
            for calls in [&store.calls, &store.ends] {
                for nth in 1..24 {
                    calls.set(nth);
                    let work = catch_unwind(AssertUnwindSafe(|| {
                        for _ in 0..2 {
                            swap.store(&one, &page).unwrap();
                        }
                        swap.store(&[0, 1, 2, 4, 5], &[[2; 512]; 5]).unwrap();
                        swap.store(&one, &page).unwrap();
                        swap.load(3, &mut [0; 512]).unwrap();
                        (0..8).for_each(|nth| swap.invalidate(nth).unwrap());
                    }));
                    panics += u32::from(work.is_err());
                    calls.set(0);
                    // Even if the calls panic that are to make up for it.
                    for nth in 1..4 {
                        calls.set(nth);
                        let _ = catch_unwind(AssertUnwindSafe(|| {
                            (0..8).for_each(|nth| swap.invalidate(nth).unwrap());
                        }));
                        calls.set(0);
                    }
                    (0..8).for_each(|nth| swap.invalidate(nth).unwrap());
                    assert_eq!(held(), 0, "FS7: {policy:?}, call {nth}");
                    assert_eq!((swap.dirty_pages(), swap.used_slots()), (0, 0));
                }
            }
            assert!(panics > 20, "{panics}");
            reserve.verify().unwrap();
        }
    });
}
