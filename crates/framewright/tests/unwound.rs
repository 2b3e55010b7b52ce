//! A platform whose calls unwind: whatever a request had taken for its caller is free again (K6, V7), and
//! other CPUs go on.

mod common;

use common::maps_nothing;
use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::{Zone, ZoneLayout};
use framewright::kv::KvLayout;
use framewright::kv::KvRequest;
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::policy::{Config, Effort, RangeConfig};
use framewright::vrange::AreaRequest;
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

/// A call of the platform.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Map,
    Zero,
    ZeroBytes,
    CopyBytes,
}

/// How many more calls of each kind return; none unwinds above [`MANY`].
#[derive(Clone, Debug)]
struct Unwinding(Arc<[AtomicU32; 4]>);

const MANY: u32 = 1 << 20;

impl Unwinding {
    fn new() -> Self {
        Self(Arc::new([const { AtomicU32::new(u32::MAX) }; 4]))
    }

    /// From the `nth` on, or none.
    fn set(&self, call: Call, nth: u32) {
        self.0[call as usize].store(nth, SeqCst);
    }

    fn called(&self, call: Call) {
        let left = self.0[call as usize].fetch_sub(1, SeqCst);
        if left == 0 {
            self.set(call, u32::MAX);
            panic!("{call:?} unwinds");
        }
        if left > MANY {
            self.set(call, u32::MAX);
        }
    }
}

impl FramePlatform for Unwinding {
    fn relax(&self, _attempt: u32) {
        panic!("one thread waits for no other one");
    }
}

impl RangePlatform for Unwinding {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.called(Call::Map);
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {
        self.called(Call::Zero);
    }
}

impl ObjectPlatform for Unwinding {
    fn direct_base(&self) -> Addr {
        Addr(1 << 40)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {
        self.called(Call::ZeroBytes);
    }

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {
        self.called(Call::CopyBytes);
    }
}

type TestCpu<'e, 'm> = Cpu<'e, 'm, Unwinding, KvLayout>;

const FRAMES: u64 = 4096;

/// A request, and the free of what it gave.
type Work = fn(&mut TestCpu);

fn object(cpu: &mut TestCpu, request: &KvRequest) {
    let object = cpu.kvmalloc(request).unwrap();
    cpu.kvfree(object).unwrap();
}

fn area(cpu: &mut TestCpu, context: Context) {
    let request = AreaRequest::new(5).zeroed().within(context);
    let area = cpu.vmalloc(&request).unwrap();
    cpu.vfree(area).unwrap();
}

/// Frames that are no run, and frames that are one.
fn aliases(cpu: &mut TestCpu, context: Context) {
    let order = Order::new(2).unwrap();
    let block = cpu.alloc(order, Mobility::Movable, context).unwrap().0;
    let unwound = [[0, 1, 2, 3], [0, 2, 1, 3]].map(|frames| {
        let frames = frames.map(|nth| Frame(block + nth));
        catch_unwind(AssertUnwindSafe(|| {
            let alias = cpu.map_ram(&frames, context).unwrap();
            cpu.unmap_ram(alias, 4).unwrap();
        }))
    });
    cpu.free(Frame(block), order).unwrap();
    assert!(unwound.iter().all(Result::is_ok), "it goes on");
}

#[test]
fn what_a_request_had_taken_is_free_again_if_the_platform_unwinds() {
    let works: [(Call, Work); 13] = [
        (Call::ZeroBytes, |cpu| {
            object(cpu, &KvRequest::new(64).zeroed())
        }),
        (Call::ZeroBytes, |cpu| {
            object(cpu, &KvRequest::new(8192).zeroed())
        }),
        (Call::ZeroBytes, |cpu| {
            object(cpu, &KvRequest::new(64).zeroed().with(Effort::MustSucceed));
        }),
        // No block has that many frames.
        (Call::Zero, |cpu| {
            object(cpu, &KvRequest::new(2048 * 4096).zeroed())
        }),
        (Call::Map, |cpu| object(cpu, &KvRequest::new(2048 * 4096))),
        (Call::Zero, |cpu| area(cpu, Context::ANY)),
        (Call::Zero, |cpu| area(cpu, Context::NOWAIT)),
        (Call::Map, |cpu| area(cpu, Context::ANY)),
        (Call::Map, |cpu| area(cpu, Context::NOWAIT)),
        (Call::Map, |cpu| aliases(cpu, Context::ANY)),
        (Call::Map, |cpu| aliases(cpu, Context::NOWAIT)),
        (Call::CopyBytes, |cpu| moved(cpu, &KvRequest::new(9000))),
        (Call::ZeroBytes, |cpu| {
            moved(cpu, &KvRequest::new(9000).zeroed())
        }),
    ];
    let layout = EngineLayout::new(Frame(0), FRAMES)
        .with_cpus(2)
        .with_window(Page(1 << 20), 8192)
        .with_objects();
    for (nth_work, (call, work)) in works.into_iter().enumerate() {
        let mut unwound = 0;
        for nth in 0..8 {
            let mut memory = vec![0; layout.words_needed().unwrap()];
            let platform = Unwinding::new();
            let engine = Engine::new(&layout, &mut memory, platform.clone()).unwrap();
            engine.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
            let mut cpu = engine.cpu(CpuId(0)).unwrap();
            // The second time it takes what the first one left.
            platform.set(call, nth);
            for _ in 0..2 {
                unwound += u32::from(catch_unwind(AssertUnwindSafe(|| work(&mut cpu))).is_err());
            }
            platform.set(call, u32::MAX);
            drop(cpu);
            let mut other = engine.cpu(CpuId(1)).unwrap();
            let live = engine.objects().recount();
            other.objects().drain();
            other.ranges().drain();
            drop(other);
            let what = format!("work {nth_work}, call {nth} of {call:?}: {live:?}");
            engine.verify().unwrap();
            let mut areas = 0;
            engine.space().for_each_area(|_| areas += 1);
            assert_eq!(areas, 0, "{what}");
            assert_eq!(engine.frame_stats().nr_free_pages, FRAMES, "{what}");
        }
        assert!(unwound > 0, "work {nth_work}: {call:?} was not called");
    }
}

/// An object that becomes longer, and its free under whichever address it has.
fn moved(cpu: &mut TestCpu, request: &KvRequest) {
    let object = cpu.kvmalloc(&KvRequest::new(64)).unwrap();
    let new = catch_unwind(AssertUnwindSafe(|| {
        cpu.objects().kvrealloc(object, request).unwrap()
    }));
    cpu.kvfree(*new.as_ref().unwrap_or(&object)).unwrap();
    assert!(new.is_ok());
}

#[test]
fn v7_pages_of_an_unwound_area_that_have_no_frame_give_none_back_whatever_lay_in_their_words() {
    let layout = EngineLayout::new(Frame(0), FRAMES)
        .with_window(Page(1 << 20), 8192)
        .with_objects();
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let platform = Unwinding::new();
    let engine = Engine::new(&layout, &mut memory, platform.clone()).unwrap();
    engine.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    // Gaps all over the window, which then become one.
    let areas: Vec<_> = (0..20)
        .map(|_| cpu.vmalloc(&AreaRequest::new(200)).unwrap())
        .collect();
    for parity in [0, 1] {
        for area in areas.iter().skip(parity).step_by(2) {
            cpu.vfree(*area).unwrap();
        }
        cpu.ranges().drain();
    }
    // Single frames, so that an area gets them one by one.
    let all: Vec<_> = (0..FRAMES)
        .map(|_| cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY))
        .collect::<Result<_, _>>()
        .unwrap();
    for frame in all.iter().filter(|frame| frame.0 % 2 == 0) {
        cpu.free(*frame, Order::ZERO).unwrap();
    }
    for nth in 0..20 {
        platform.set(Call::Zero, nth);
        let request = AreaRequest::new(1000).zeroed();
        let area = catch_unwind(AssertUnwindSafe(|| cpu.vmalloc(&request)));
        assert!(area.is_err(), "{nth}");
        cpu.ranges().drain();
        engine.zones()[0].drain();
        assert_eq!(engine.frame_stats().nr_free_pages, FRAMES / 2, "{nth}");
        assert_eq!(engine.frame_stats().bad_frees, 0, "{nth}");
        engine.verify().unwrap();
    }
}

/// What another CPU does while all CPUs of a zone are stopped.
type WhileStopped = Rc<RefCell<Option<Box<dyn FnOnce()>>>>;

/// A board whose waits unwind.
#[derive(Clone, Default)]
struct WaitsUnwind(WhileStopped);

impl FramePlatform for WaitsUnwind {
    const ASYMMETRIC: bool = true;

    fn relax(&self, _attempt: u32) {
        panic!("the wait unwinds");
    }

    fn barrier_all(&self) {
        let work = self.0.borrow_mut().take();
        if let Some(work) = work {
            work();
        }
    }
}

maps_nothing!(WaitsUnwind);

#[test]
fn what_a_free_could_not_give_back_because_its_wait_unwound_goes_back_later() {
    // Blocks of frames, and the slots of several slabs, of which all but one go back when they are empty.
    for (bytes, objects) in [(4096, 1), (64 << 10, 1), (2048, 64)] {
        let layout = EngineLayout::new(Frame(0), FRAMES)
            .with_cpus(2)
            .with_window(Page(1 << 20), 8192)
            .with_objects();
        let memory = vec![0; layout.words_needed().unwrap()].leak();
        let platform = WaitsUnwind::default();
        let engine = Engine::new(&layout, memory, platform.clone()).unwrap();
        let engine: &'static Engine<'static, WaitsUnwind, KvLayout> = Box::leak(Box::new(engine));
        engine.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        let held: Vec<Addr> = (0..objects)
            .map(|_| cpu.kmalloc(&KvRequest::new(bytes)).unwrap())
            .collect();
        let after = Rc::new(RefCell::new(None));
        let result = after.clone();
        *platform.0.borrow_mut() = Some(Box::new(move || {
            let mut unwound = held;
            unwound.retain(|&addr| {
                catch_unwind(AssertUnwindSafe(|| cpu.kvfree(addr).unwrap())).is_err()
            });
            *result.borrow_mut() = Some((cpu, unwound));
        }));
        // While this stops all CPUs of the zone, the first CPU frees.
        engine.zones()[0].drain();
        let (mut cpu, unwound) = after.take().expect("a stop has a barrier");
        assert!(!unwound.is_empty(), "{bytes}: no free had to wait");
        for addr in unwound {
            let again = cpu.kvfree(addr);
            // A slot is free already: only the way of its slab to the zone was cut short.
            let is_slot = bytes < 4096;
            assert_eq!(again.is_err(), is_slot, "{bytes}: {again:?}");
        }
        cpu.objects().drain();
        drop(cpu);
        engine.verify().unwrap();
        assert_eq!(engine.frame_stats().nr_free_pages, FRAMES, "{bytes}");
    }
}

/// A clock that unwinds when it is told to.
struct BrokenClock(AtomicBool);

impl FramePlatform for &BrokenClock {
    fn now_ns(&self) -> u64 {
        assert!(!self.0.load(SeqCst), "the clock is broken");
        0
    }
}

/// Set for the program that is to end.
const CHILD: &str = "FRAMEWRIGHT_BROKEN_CLOCK";

#[test]
fn a_clock_that_unwinds_under_a_lock_ends_the_program_with_a_message() {
    if std::env::var_os(CHILD).is_none() {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["a_clock_that_unwinds", "--nocapture"]);
        let output = child.env(CHILD, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("no CPU may go on"), "{said}");
        assert_eq!(output.status.code(), None, "a signal: {said}");
        return;
    }
    let layout = ZoneLayout::new(Frame(0), FRAMES).with_cpus(2);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let clock = BrokenClock(AtomicBool::new(false));
    let zone = Zone::new(&layout, &Config::default(), &mut memory, &clock).unwrap();
    let zone = zone.with_lock_accounts();
    zone.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    clock.0.store(true, SeqCst);
    // If the program went on, the seat would be busy and a pageblock locked for ever.
    let order = Order::new(5).unwrap();
    let got = catch_unwind(AssertUnwindSafe(|| seat.alloc(order, Mobility::Movable)));
    assert!(got.is_err());
}

/// A platform that breaks down: after some calls that return, each one unwinds until it is repaired.
#[derive(Clone, Default)]
struct BreaksDown(Arc<AtomicU32>);

impl BreaksDown {
    /// After this many more calls; 0 is not at all.
    fn set(&self, calls: u32) {
        self.0.store(calls, SeqCst);
    }

    fn called(&self) {
        match self.0.load(SeqCst) {
            0 => {}
            1 => panic!("it is broken"),
            left => self.set(left - 1),
        }
    }
}

impl FramePlatform for BreaksDown {
    fn relax(&self, _attempt: u32) {
        panic!("one thread waits for no other one");
    }
}

impl RangePlatform for BreaksDown {
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
        self.called();
        Ok(())
    }

    fn flush_all(&self) {
        self.called();
    }

    fn zero(&self, _frames: Run) {
        self.called();
    }
}

impl ObjectPlatform for BreaksDown {
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

/// V6, V11: a request that the platform unwinds out of is cleaned up without a call that could unwind once more,
/// which would end the program, even where the bound on lazy pages is met.
#[test]
fn v6_a_platform_that_breaks_down_in_a_request_is_not_called_to_clean_up() {
    type Work = fn(&mut Cpu<'_, '_, BreaksDown, KvLayout>, &[Frame]);
    const BOUND: u64 = 64;
    let works: [Work; 7] = [
        |cpu, frames| _ = cpu.map_ram(&frames[..40], Context::ANY),
        |cpu, frames| _ = cpu.map_ram(&[frames[1], frames[0], frames[3]], Context::ANY),
        |cpu, frames| _ = cpu.map_ram(&[frames[1], frames[0], frames[3]], Context::NOWAIT),
        |cpu, _| _ = cpu.vmalloc(&AreaRequest::new(5).zeroed()),
        |cpu, _| _ = cpu.vmalloc(&AreaRequest::new(40)),
        |cpu, _| _ = cpu.vmalloc(&AreaRequest::new(40).zeroed().within(Context::NOWAIT)),
        |cpu, _| _ = cpu.kvmalloc(&KvRequest::new(2048 * 4096).zeroed()),
    ];
    let config = RangeConfig {
        lazy_pages_max: BOUND,
        kept_pages_max: 0,
        ..RangeConfig::default().kept()
    };
    let layout = EngineLayout::new(Frame(0), FRAMES)
        .with_cpus(2)
        .with_window(Page(1 << 20), 8192)
        .with_range_config(config)
        .with_objects();
    let order = Order::new(6).unwrap();
    for (nth, work) in works.into_iter().enumerate() {
        let mut unwound = 0;
        for calls in 1..12 {
            let mut memory = vec![0; layout.words_needed().unwrap()];
            let platform = BreaksDown::default();
            let engine = Engine::new(&layout, &mut memory, platform.clone()).unwrap();
            engine.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
            let mut cpu = engine.cpu(CpuId(0)).unwrap();
            let block = cpu.alloc(order, Mobility::Movable, Context::ANY).unwrap();
            let frames: Vec<_> = (0..64).map(|nth| Frame(block.0 + nth)).collect();
            // As many pages are lazy as may be, nearly.
            while engine.space().stats().vmap_lazy_nr + 4 <= BOUND {
                let area = cpu.vmalloc(&AreaRequest::new(3)).unwrap();
                cpu.vfree(area).unwrap();
            }
            platform.set(calls);
            let result = catch_unwind(AssertUnwindSafe(|| work(&mut cpu, &frames)));
            platform.set(0);
            let what = format!("work {nth}, after {calls} calls");
            if engine.space().is_poisoned() {
                // A purge for room was what unwound.
                continue;
            }
            unwound += u32::from(result.is_err());
            engine.verify().expect(&what);
            // It goes on, and comes below the bound again.
            let area = cpu.vmalloc(&AreaRequest::new(3)).unwrap();
            cpu.vfree(area).unwrap();
            cpu.ranges().purge();
            assert!(engine.space().stats().vmap_lazy_nr <= BOUND, "{what}");
            if result.is_ok() {
                // It was served before the platform broke down.
                continue;
            }
            cpu.free(block, order).unwrap();
            drop(cpu);
            let mut other = engine.cpu(CpuId(1)).unwrap();
            other.objects().drain();
            other.ranges().drain();
            drop(other);
            engine.verify().expect(&what);
            let mut areas = 0;
            engine.space().for_each_area(|_| areas += 1);
            assert_eq!(areas, 0, "{what}");
            assert_eq!(engine.frame_stats().nr_free_pages, FRAMES, "{what}");
        }
        assert!(unwound > 0, "work {nth} unwound nowhere but in purges");
    }
}
