//! A platform whose calls, or waits, unwind on one CPU while another one allocates and frees, with interleavings
//! that shuttle chooses: `RUSTFLAGS='--cfg shuttle' cargo test -p framewright-sim --release --test shuttle_unwound`.
//! In a normal build this file is empty.
//!
//! What must never be seen: a frame, a slot or an area that is lost, or two have; a CPU that waits for ever.
//!
//! Nothing here is a mutex of shuttle's: while one thread unwinds, the locks of all of them stay locked.
#![cfg(shuttle)]

use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::ZoneLayout;
use framewright::kv::KvLayout;
use framewright::kv::KvRequest;
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::policy::Effort;
use framewright::vrange::{AreaRequest, RangeFreeError};
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
use framewright_sim::Random;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config as ShuttleConfig, Runner, thread};
use std::cell::Cell;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

/// What a call unwinds with. Without a message: no hook hears of it.
struct Unwound;

/// What unwinds.
#[derive(Clone, Copy, Debug)]
enum Unwinds {
    /// Each n-th call that works for a request.
    Work(u32),
    /// The first wait of a call of the engine's that [`or_unwound`] makes.
    Waits,
}

shuttle::thread_local! {
    /// Whether the next wait of this thread unwinds.
    static WAIT_UNWINDS: Cell<bool> = const { Cell::new(false) };
}

/// A board on which calls or waits unwind, in the middle of other CPUs' work. Not known to shuttle: the count must
/// not change the interleavings.
#[derive(Clone, Debug)]
struct UnwindingBoard {
    what: Unwinds,
    calls: Arc<AtomicU32>,
}

impl UnwindingBoard {
    fn called(&self) {
        thread::yield_now();
        if let Unwinds::Work(nth) = self.what
            && (self.calls.fetch_add(1, Relaxed) + 1).is_multiple_of(nth)
        {
            resume_unwind(Box::new(Unwound));
        }
    }
}

impl FramePlatform for UnwindingBoard {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        if matches!(self.what, Unwinds::Waits)
            && WAIT_UNWINDS.with(|unwinds| unwinds.replace(false))
        {
            self.calls.fetch_add(1, Relaxed);
            resume_unwind(Box::new(Unwound));
        }
        ().relax(attempt);
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

impl RangePlatform for UnwindingBoard {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.called();
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        thread::yield_now();
        Ok(())
    }

    fn flush_all(&self) {
        thread::yield_now();
    }

    fn zero(&self, _frames: Run) {
        self.called();
    }
}

impl ObjectPlatform for UnwindingBoard {
    fn direct_base(&self) -> Addr {
        Addr(1 << 40)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {
        self.called();
    }

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {
        self.called();
    }
}

type UnwindingCpu = Cpu<'static, 'static, UnwindingBoard, KvLayout>;

const FRAMES: u64 = 64;
const CPUS: u16 = 2;

/// Half of the schedules at random, half with few, well-placed preemptions. `body` says whether all was looked at in
/// the end: most of the time it must be.
fn explore(schedules: usize, body: impl Fn() -> bool + Send + Sync + 'static) {
    let mut config = ShuttleConfig::new();
    config.stack_size = 1 << 18;
    let looked_at = Arc::new(AtomicUsize::new(0));
    let counted = looked_at.clone();
    let body = Arc::new(move || _ = counted.fetch_add(body().into(), Relaxed));
    let same = body.clone();
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(move || body());
    Runner::new(PctScheduler::new(3, schedules / 2), config).run(move || same());
    let looked_at = looked_at.load(Relaxed);
    assert!(looked_at * 2 > schedules, "{looked_at} of {schedules}");
}

/// What `work` gives, or nothing if a call of the platform unwound out of it.
fn or_unwound<T>(work: impl FnOnce() -> T) -> Option<T> {
    WAIT_UNWINDS.with(|unwinds| unwinds.set(true));
    let done = catch_unwind(AssertUnwindSafe(work));
    WAIT_UNWINDS.with(|unwinds| unwinds.set(false));
    done.map_err(|why| assert!(why.is::<Unwound>(), "another panic"))
        .ok()
}

/// Runs `work` on each CPU of a small engine on which `what` unwinds. Then all must be back. Returns whether it was
/// looked at: a poisoned space keeps what it has (V11).
fn on_cpus(what: Unwinds, work: fn(&mut UnwindingCpu, &mut Random)) -> bool {
    let order = Order::new(4).unwrap();
    let zone = ZoneLayout::new(Frame(0), FRAMES).with_orders(order, order);
    let layout = EngineLayout::of_zones([zone])
        .with_cpus(CPUS)
        .with_window(Page(1 << 20), 256)
        .with_objects();
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let calls = Arc::new(AtomicU32::new(0));
    let platform = UnwindingBoard { what, calls };
    let engine = Engine::new(&layout, memory, platform).unwrap();
    let engine: &'static Engine<'static, UnwindingBoard, KvLayout> = Box::leak(Box::new(engine));
    engine.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    let threads: Vec<_> = (0..CPUS)
        .map(|cpu| {
            thread::spawn(move || {
                let mut random = Random::new(u64::from(cpu) + 1);
                work(&mut engine.cpu(CpuId(cpu)).unwrap(), &mut random);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    if engine.space().is_poisoned() {
        return false;
    }
    engine.verify().unwrap();
    for cpu in (0..CPUS).map(CpuId) {
        let mut cpu = engine.cpu(cpu).unwrap();
        cpu.objects().drain();
        cpu.ranges().drain();
    }
    engine.verify().unwrap();
    let mut areas = 0;
    engine.space().for_each_area(|_| areas += 1);
    assert_eq!(areas, 0, "V7");
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES, "K6, V7");
    true
}

#[test]
fn k6_objects_whose_zeroing_unwinds_are_not_lost_while_another_cpu_frees_and_drains() {
    explore(300, || {
        on_cpus(Unwinds::Work(3), |cpu, random| {
            let mut own = Vec::new();
            for _ in 0..10 {
                let bytes = [64, 2048, 8192, 3 * 4096][random.below(4) as usize];
                let request = KvRequest::new(bytes).zeroed().with(Effort::MayCompact);
                match random.below(6) {
                    0..=3 => own.extend(or_unwound(|| cpu.kvmalloc(&request).ok()).flatten()),
                    4 => _ = cpu.objects().drain(),
                    _ => {
                        if let Some(addr) = own.pop() {
                            cpu.kvfree(addr).unwrap();
                        }
                    }
                }
            }
            for addr in own {
                cpu.kvfree(addr).unwrap();
            }
        })
    });
}

#[test]
fn k6_an_object_whose_move_unwinds_stays_and_its_new_place_is_free() {
    explore(300, || {
        on_cpus(Unwinds::Work(3), |cpu, random| {
            for _ in 0..5 {
                let Ok(mut addr) = cpu.kvmalloc(&KvRequest::new(100)) else {
                    continue;
                };
                let longer = KvRequest::new([900, 6000][random.below(2) as usize]).zeroed();
                let moved = or_unwound(|| cpu.objects().kvrealloc(addr, &longer));
                if let Some(Ok(new)) = moved {
                    addr = new;
                }
                cpu.kvfree(addr).unwrap();
            }
        })
    });
}

#[test]
fn v7_areas_whose_zeroing_or_mapping_unwinds_give_back_their_frames_while_another_cpu_purges() {
    explore(300, || {
        on_cpus(Unwinds::Work(3), |cpu, random| {
            let mut own = Vec::new();
            for _ in 0..10 {
                let request = AreaRequest::new(1 + random.below(6));
                let request = [request, request.zeroed()][random.below(2) as usize];
                let context = [Context::ANY, Context::NOWAIT][random.below(2) as usize];
                match random.below(6) {
                    0..=3 => {
                        let request = request.within(context);
                        own.extend(or_unwound(|| cpu.vmalloc(&request).ok()).flatten());
                    }
                    4 => cpu.ranges().purge(),
                    _ => {
                        if let Some(area) = own.pop() {
                            cpu.vfree(area).unwrap();
                        }
                    }
                }
            }
            for area in own {
                cpu.vfree(area).unwrap();
            }
        })
    });
}

#[test]
fn v7_frames_whose_mapping_unwinds_are_the_callers_again() {
    explore(300, || {
        on_cpus(Unwinds::Work(2), |cpu, random| {
            let order = Order::new(2).unwrap();
            for _ in 0..4 {
                let Ok(block) = cpu.alloc(order, Mobility::Movable, Context::ANY) else {
                    continue;
                };
                let places = [[0, 1, 2, 3], [0, 2, 1, 3]][random.below(2) as usize];
                let frames = places.map(|nth| Frame(block.0 + nth));
                let context = [Context::ANY, Context::NOWAIT][random.below(2) as usize];
                let alias = or_unwound(|| cpu.map_ram(&frames, context).ok()).flatten();
                if let Some(alias) = alias {
                    cpu.unmap_ram(alias, 4).unwrap();
                }
                cpu.ranges().purge();
                cpu.free(block, order).unwrap();
            }
        })
    });
}

/// A free of one thing whose wait unwinds has changed nothing, and may be called again.
fn free_surely<E: Debug>(mut free: impl FnMut() -> Result<u64, E>) {
    or_unwound(&mut free).unwrap_or_else(free).unwrap();
}

/// What a CPU holds: this many allocations of an order, side by side or not.
enum FreedWhole {
    Run(Run),
    Blocks(Order, Vec<Frame>),
}

impl FreedWhole {
    /// A free of several blocks whose wait unwinds has ended all the same.
    fn free(self, cpu: &mut UnwindingCpu) {
        _ = match self {
            Self::Run(run) => or_unwound(|| cpu.free_run(run).unwrap()),
            Self::Blocks(order, blocks) => {
                or_unwound(|| cpu.frames().seat(0).free_bulk(order, &blocks).unwrap())
            }
        };
    }
}

#[test]
fn f1_blocks_and_runs_of_a_call_whose_wait_unwinds_are_not_lost() {
    explore(600, || {
        on_cpus(Unwinds::Waits, |cpu, random| {
            let mut own = Vec::new();
            for _ in 0..12 {
                let mobility = [Mobility::Movable, Mobility::Unmovable][random.below(2) as usize];
                let order = Order::new([0, 1, 3][random.below(3) as usize]).unwrap();
                match random.below(10) {
                    0..=1 => {
                        let block = or_unwound(|| cpu.alloc(order, mobility, Context::ANY).ok());
                        let run = block.flatten().and_then(|at| Run::new(at, order.frames()));
                        own.extend(run.map(FreedWhole::Run));
                    }
                    2..=3 => {
                        let frames = 1 + random.below(20);
                        let run =
                            or_unwound(|| cpu.alloc_run(frames, 1, mobility, Context::ANY).ok());
                        own.extend(run.flatten().map(FreedWhole::Run));
                    }
                    4..=5 => {
                        let mut blocks = vec![Frame(0); 3];
                        let taken = or_unwound(|| {
                            let seat = cpu.frames().seat(0);
                            seat.alloc_bulk(order, mobility, &mut blocks).unwrap_or(0)
                        });
                        blocks.truncate(taken.unwrap_or(0));
                        own.push(FreedWhole::Blocks(order, blocks));
                    }
                    6 => _ = or_unwound(|| cpu.frames().seat(0).zone().drain()),
                    7 => {
                        if let Some(FreedWhole::Run(run)) = own.last()
                            && run.frames() == order.frames()
                        {
                            _ = or_unwound(|| cpu.split(run.start(), order, Order::ZERO).ok());
                        }
                    }
                    _ => {
                        if let Some(holding) = own.pop() {
                            holding.free(cpu);
                        }
                    }
                }
            }
            own.into_iter().for_each(|holding| holding.free(cpu));
        })
    });
}

#[test]
fn k6_objects_of_a_call_whose_wait_unwinds_are_not_lost() {
    explore(600, || {
        on_cpus(Unwinds::Waits, |cpu, random| {
            let mut own = Vec::new();
            for _ in 0..10 {
                let bytes = [64, 2048, 8192, 3 * 4096][random.below(4) as usize];
                let request = KvRequest::new(bytes).with(Effort::MayCompact);
                match random.below(6) {
                    0..=2 => own.extend(or_unwound(|| cpu.kvmalloc(&request).ok()).flatten()),
                    3 => _ = or_unwound(|| cpu.objects().drain()),
                    4 => {
                        if let Some(addr) = own.last_mut() {
                            let before = cpu.objects().kvsize(*addr).unwrap();
                            let moved = or_unwound(|| cpu.objects().kvrealloc(*addr, &request));
                            if let Some(Ok(new)) = moved {
                                *addr = new;
                            }
                            // If it unwinds, the object is as long as before, or cut to what was asked for.
                            let after = cpu.objects().kvsize(*addr).unwrap();
                            assert!(after >= bytes || after == before, "K6: {after} of {before}");
                        }
                    }
                    _ => {
                        if let Some(addr) = own.pop() {
                            free_surely(|| cpu.kvfree(addr));
                        }
                    }
                }
            }
            for addr in own {
                free_surely(|| cpu.kvfree(addr));
            }
        })
    });
}

/// A poisoned space frees nothing more (V11).
fn unless_poisoned(freed: Result<u64, RangeFreeError>) -> Result<u64, RangeFreeError> {
    match freed {
        Err(RangeFreeError::Poisoned) => Ok(0),
        freed => freed,
    }
}

#[test]
fn v7_areas_of_a_call_whose_wait_unwinds_are_not_lost() {
    explore(600, || {
        on_cpus(Unwinds::Waits, |cpu, random| {
            let mut own = Vec::new();
            for _ in 0..10 {
                let request = AreaRequest::new(1 + random.below(20));
                match random.below(6) {
                    0..=2 => own.extend(or_unwound(|| cpu.vmalloc(&request).ok()).flatten()),
                    3 => _ = or_unwound(|| cpu.ranges().purge()),
                    4 => _ = or_unwound(|| cpu.ranges().drain()),
                    _ => {
                        if let Some(area) = own.pop() {
                            free_surely(|| unless_poisoned(cpu.vfree(area)));
                        }
                    }
                }
            }
            for area in own {
                free_surely(|| unless_poisoned(cpu.vfree(area)));
            }
        })
    });
}
