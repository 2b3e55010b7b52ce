//! A platform whose calls unwind on one CPU while another one allocates and frees, with interleavings that
//! shuttle chooses: `RUSTFLAGS='--cfg shuttle' cargo test -p framewright-sim --release --test shuttle_unwound`.
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
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform};
use framewright::policy::Effort;
use framewright::vrange::AreaRequest;
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page, PageRange, Run};
use framewright_sim::Random;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config as ShuttleConfig, Runner, thread};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What a call unwinds with. Without a message: no hook hears of it.
struct Unwound;

/// A board on which each `nth` call that works for a request unwinds, in the middle of other CPUs' work. Not known
/// to shuttle: the count must not change the interleavings.
#[derive(Clone, Debug)]
struct UnwindingBoard {
    nth: u32,
    calls: Arc<AtomicU32>,
}

impl UnwindingBoard {
    fn called(&self) {
        thread::yield_now();
        if (self.calls.fetch_add(1, Relaxed) + 1).is_multiple_of(self.nth) {
            resume_unwind(Box::new(Unwound));
        }
    }
}

impl FramePlatform for UnwindingBoard {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        ().relax(attempt);
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

impl RangePlatform for UnwindingBoard {
    fn map(&self, _at: Page, _frames: Run, _context: Context) -> Result<(), MapError> {
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

/// Half of the schedules at random, half with few, well-placed preemptions.
fn explore(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut config = ShuttleConfig::new();
    config.stack_size = 1 << 18;
    let body = Arc::new(body);
    let same = body.clone();
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(move || body());
    Runner::new(PctScheduler::new(3, schedules / 2), config).run(move || same());
}

/// What `work` gives, or nothing if a call of the platform unwound out of it.
fn or_unwound<T>(work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.map_err(|why| assert!(why.is::<Unwound>(), "another panic"))
        .ok()
}

/// Runs `work` on each CPU of a small engine on which each `nth` call unwinds. Then all must be back.
fn on_cpus(nth: u32, work: fn(&mut UnwindingCpu, &mut Random)) {
    let order = Order::new(4).unwrap();
    let zone = ZoneLayout::new(Frame(0), FRAMES).with_orders(order, order);
    let layout = EngineLayout::of_zones([zone])
        .with_cpus(CPUS)
        .with_window(Page(1 << 20), 256)
        .with_objects();
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let calls = Arc::new(AtomicU32::new(0));
    let platform = UnwindingBoard { nth, calls };
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
}

#[test]
fn k6_objects_whose_zeroing_unwinds_are_not_lost_while_another_cpu_frees_and_drains() {
    explore(300, || {
        on_cpus(3, |cpu, random| {
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
        });
    });
}

#[test]
fn k6_an_object_whose_move_unwinds_stays_and_its_new_place_is_free() {
    explore(300, || {
        on_cpus(3, |cpu, random| {
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
        });
    });
}

#[test]
fn v7_areas_whose_zeroing_or_mapping_unwinds_give_back_their_frames_while_another_cpu_purges() {
    explore(300, || {
        on_cpus(3, |cpu, random| {
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
        });
    });
}

#[test]
fn v7_frames_whose_mapping_unwinds_are_the_callers_again() {
    explore(300, || {
        on_cpus(2, |cpu, random| {
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
        });
    });
}
