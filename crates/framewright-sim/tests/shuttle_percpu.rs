//! Per-CPU objects of several CPUs, with interleavings that shuttle chooses:
//! `RUSTFLAGS='--cfg shuttle' cargo test -p framewright-sim --release --test shuttle_percpu`.
//! In a normal build this file is empty.
//!
//! What must never be seen: a byte that two objects have, a page that is unmapped under an object, a frame behind two
//! pages or one that is used while a stale translation reaches it, two frees of one object that both succeed, a small
//! object that is refused although there is room, a frame that is lost.
#![cfg(shuttle)]

use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::kv::KvLayout;
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::{Addr, Context, CpuId, Frame, Page, PageAccess, PageRange, Run};
use framewright_sim::Random;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config as ShuttleConfig, Runner, thread};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Plain, MutexGuard};

const START: u64 = 1 << 20;
const WINDOW: u64 = 64;
const FRAMES: u64 = 512;
const CPUS: u16 = 2;
const UNIT: u64 = 24;
/// The first page of CPU 0's unit.
const FIRST: u64 = START + WINDOW - CPUS as u64 * UNIT;
/// How many objects a CPU has at most: both CPUs', with what both move and keep, leave a unit some room.
const OBJECTS: usize = 3;
const STEPS: usize = 14;
const SCHEDULES: usize = 120;

/// What page tables, caches of translations and users see. Shuttle does not know it: it changes no interleaving, but for
/// the yields of the platform.
#[derive(Default)]
struct UnitsShadow {
    /// By page: the frame behind it.
    table: BTreeMap<u64, u64>,
    /// Frames that a stale translation reaches.
    stale: Vec<u64>,
    /// By its first byte in CPU 0's unit: the end of an object.
    objects: BTreeMap<u64, u64>,
    unmap_fails: u32,
}

#[derive(Clone, Default)]
struct ShuttleUnits(Arc<Plain<UnitsShadow>>);

impl ShuttleUnits {
    fn lock(&self) -> MutexGuard<'_, UnitsShadow> {
        self.0.lock().unwrap()
    }

    fn add(&self, object: u64, bytes: u64) {
        let mut shadow = self.lock();
        let before = shadow.objects.range(..object + bytes).next_back();
        let is_apart = before.is_none_or(|(_, end)| *end <= object);
        assert!(is_apart, "PC3: two objects share bytes");
        shadow.objects.insert(object, object + bytes);
    }

    fn remove(&self, object: u64) {
        assert!(self.lock().objects.remove(&object).is_some());
    }
}

impl FramePlatform for ShuttleUnits {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        ().relax(attempt);
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

impl RangePlatform for ShuttleUnits {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        thread::yield_now();
        let mut shadow = self.lock();
        let frame = frames.start().0;
        assert_eq!(frames.frames(), 1);
        assert!(!shadow.stale.contains(&frame), "PC2: used before a flush");
        let is_twice = shadow.table.values().any(|other| *other == frame);
        assert!(!is_twice, "PC2: a frame behind two pages");
        let was = shadow.table.insert(at.0, frame);
        assert_eq!(was, None, "PC2: a page is mapped twice");
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        thread::yield_now();
        let mut shadow = self.lock();
        shadow.unmap_fails = shadow.unmap_fails.wrapping_add(1);
        if shadow.unmap_fails % 7 == 3 {
            return Err(MapError::Refused(5));
        }
        for page in range.start().0..range.end().0 {
            let behind = (page - FIRST) % UNIT;
            let bytes = (FIRST + behind) * Page::BYTES..(FIRST + behind + 1) * Page::BYTES;
            let before = shadow.objects.range(..bytes.end).next_back();
            let is_used = before.is_some_and(|(_, end)| *end > bytes.start);
            assert!(!is_used, "PC2: unmapped under its object");
            let frame = shadow.table.remove(&page);
            shadow.stale.extend(frame);
        }
        Ok(())
    }

    fn flush_all(&self) {
        // What is stale when it begins is forgotten when it ends.
        let before = self.lock().stale.clone();
        thread::yield_now();
        self.lock().stale.retain(|frame| !before.contains(frame));
    }

    fn zero(&self, _frames: Run) {}

    fn interrupt_window(&self) {
        thread::yield_now();
    }
}

impl ObjectPlatform for ShuttleUnits {
    fn direct_base(&self) -> Addr {
        Addr(1 << 40)
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        let shadow = self.lock();
        for page in at.0 / Page::BYTES..(at.0 + bytes).div_ceil(Page::BYTES) {
            assert!(shadow.table.contains_key(&page), "PC2: page {page}");
        }
    }

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

type UnitsEngine = &'static Engine<'static, ShuttleUnits, KvLayout>;
type UnitsCpu = Cpu<'static, 'static, ShuttleUnits, KvLayout>;

/// Half of the schedules at random, half with few, well-placed preemptions.
fn explore(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut config = ShuttleConfig::new();
    config.stack_size = 1 << 18;
    let body = Arc::new(body);
    let same = body.clone();
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(move || body());
    Runner::new(PctScheduler::new(4, schedules / 2), config).run(move || same());
}

fn units() -> (UnitsEngine, ShuttleUnits) {
    let board = ShuttleUnits::default();
    let layout = EngineLayout::new(Frame(0), FRAMES)
        .with_window(Page(START), WINDOW)
        .with_span_pages(4)
        .with_objects()
        .with_cpus(CPUS + 1)
        .with_percpu(CPUS, UNIT);
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let engine = Engine::new(&layout, memory, board.clone()).unwrap();
    engine.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    (Box::leak(Box::new(engine)), board)
}

/// One CPU's calls.
fn work(engine: UnitsEngine, board: &ShuttleUnits, cpu: u16, seed: u64) {
    let mut seat: UnitsCpu = engine.cpu(CpuId(cpu)).unwrap();
    let mut random = Random::new(seed * 2 + u64::from(cpu));
    let mut mine: Vec<u64> = vec![];
    for _ in 0..STEPS {
        match random.below(10) {
            0..6 if mine.len() < OBJECTS => {
                let is_small = random.chance(50);
                let bytes = match is_small {
                    true => 700 + random.below(1300),
                    false => Page::BYTES * (1 + random.below(4)),
                };
                let context = match random.chance(20) {
                    true => Context::NOWAIT,
                    false => Context::ANY,
                };
                match seat.alloc_percpu(bytes, 8, context) {
                    Ok(object) => {
                        board.add(object.0, bytes);
                        mine.push(object.0);
                    }
                    Err(error) => assert!(!is_small || !context.may_block, "{error}"),
                }
            }
            0..9 => {
                if let Some(object) = mine.pop() {
                    board.remove(object);
                    seat.free_percpu(Addr(object)).unwrap();
                }
            }
            _ => seat.purge_percpu(),
        }
    }
    for object in mine {
        board.remove(object);
        seat.free_percpu(Addr(object)).unwrap();
    }
}

/// Nothing is left: each frame is where it was, and each page of a unit is free.
fn end(engine: UnitsEngine, free: u64) {
    let mut seat = engine.cpu(CpuId(CPUS)).unwrap();
    for _ in 0..8 {
        seat.purge_percpu();
    }
    engine.verify().unwrap();
    let stats = engine.percpu_stats();
    assert_eq!((stats.objects, stats.bytes, stats.pages), (0, 0, 0));
    assert_eq!(stats.stuck_pages, 0);
    assert_eq!(engine.frame_stats().nr_free_pages, free, "a frame is lost");
    let whole = seat.alloc_percpu(UNIT * Page::BYTES, 8, Context::ANY);
    assert!(whole.is_ok(), "a page is lost: {whole:?}");
}

#[test]
fn objects_lie_apart_and_no_frame_goes_back_too_early() {
    let seeds = std::sync::atomic::AtomicU64::new(0);
    explore(SCHEDULES, move || {
        let seed = seeds.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (engine, board) = units();
        let free = engine.frame_stats().nr_free_pages;
        let other = board.clone();
        let thread = thread::spawn(move || work(engine, &other, 1, seed));
        work(engine, &board, 0, seed);
        thread.join().unwrap();
        end(engine, free);
    });
}

/// Both search for pages side by side and find the same ones; then one takes a part of them before the other.
#[test]
fn long_objects_that_cpus_ask_for_at_a_time_lie_apart() {
    explore(SCHEDULES, || {
        let (engine, board) = units();
        let free = engine.frame_stats().nr_free_pages;
        let work = move |cpu: u16, board: &ShuttleUnits| {
            let mut seat = engine.cpu(CpuId(cpu)).unwrap();
            let bytes = (5 + u64::from(cpu)) * Page::BYTES;
            // Wherever the other CPU's lies, or is about to, there is room before it or behind it.
            for _ in 0..3 {
                let object = seat.alloc_percpu(bytes, 8, Context::ANY).unwrap();
                board.add(object.0, bytes);
                board.remove(object.0);
                seat.free_percpu(object).unwrap();
            }
        };
        let other = board.clone();
        let thread = thread::spawn(move || work(1, &other));
        work(0, &board);
        thread.join().unwrap();
        end(engine, free);
    });
}

#[test]
fn of_two_frees_of_an_object_one_succeeds() {
    explore(SCHEDULES, || {
        let (engine, _) = units();
        let free = engine.frame_stats().nr_free_pages;
        let mut seat = engine.cpu(CpuId(0)).unwrap();
        let bytes = [8, 2048, 3 * Page::BYTES];
        let objects = bytes.map(|bytes| seat.alloc_percpu(bytes, 8, Context::ANY).unwrap());
        let thread = thread::spawn(move || {
            let mut seat = engine.cpu(CpuId(1)).unwrap();
            objects.map(|object| seat.free_percpu(object).is_ok())
        });
        let mine = objects.map(|object| seat.free_percpu(object).is_ok());
        let others = thread.join().unwrap();
        for (mine, other) in mine.into_iter().zip(others) {
            assert!(mine != other, "{mine} and {other}");
        }
        end(engine, free);
    });
}

#[test]
fn cpus_that_leave_at_a_time_give_everything_back() {
    explore(SCHEDULES, || {
        let (engine, _) = units();
        let free = engine.frame_stats().nr_free_pages;
        let leave = move |cpu| {
            for bytes in [64, 3 * Page::BYTES] {
                let mut seat = engine.cpu(CpuId(cpu)).unwrap();
                let object = seat.alloc_percpu(bytes, 8, Context::ANY).unwrap();
                seat.free_percpu(object).unwrap();
                seat.drain();
            }
        };
        let threads = [0, 1].map(|cpu| thread::spawn(move || leave(cpu)));
        for thread in threads {
            thread.join().unwrap();
        }
        end(engine, free);
    });
}
