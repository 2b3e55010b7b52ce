//! An engine as its users see it: one slice, seats in all parts or in none, clients.

extern crate std;

mod clients;
mod loose;
mod tables;
mod windows;

use super::*;
use crate::frame::{AllocError, FreeError, Seats, ZoneLayout};
use crate::kv::KvLayout;
use crate::kv::{KvError, KvRequest};
use crate::platform::{
    FramePlatform, MapError, ObjectPlatform, RangePlatform, ReservePlatform, SingleThread,
    TableSource,
};
use crate::policy::{Config, RangeConfig, ReclaimConfig};
use crate::reserve::{Key, PoolConfig, ReserveLayout};
use crate::units::{
    Addr, Context, FRAMES_MAX, Frame, Mobility, Order, Page, PageAccess, PageRange, RunError,
    SetupError,
};
use crate::vrange::AreaRequest;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

/// A platform that only records what is mapped, and what lies in the reserve's frames.
#[derive(Clone, Debug, Default)]
struct TestBoard(Rc<TestBoardState>);

#[derive(Debug, Default)]
struct TestBoardState {
    mapped: RefCell<BTreeMap<u64, Frame>>,
    pages: RefCell<BTreeMap<Frame, [u64; 512]>>,
}

impl FramePlatform for TestBoard {
    const ASYMMETRIC: bool = true;

    fn relax(&self, _attempt: u32) {
        panic!("one thread waits for no other one");
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for TestBoard {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let mut mapped = self.0.mapped.borrow_mut();
        for (page, frame) in (at.0..).zip(frames.start().0..frames.end().0) {
            assert_eq!(mapped.insert(page, Frame(frame)), None, "mapped twice");
        }
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        let mut mapped = self.0.mapped.borrow_mut();
        mapped.retain(|page, _| !range.contains(Page(*page)));
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

impl ObjectPlatform for TestBoard {
    fn direct_base(&self) -> Addr {
        Addr(1 << 40)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

impl ReservePlatform for TestBoard {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        self.0.pages.borrow_mut().insert(frame, *page);
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        *page = self.0.pages.borrow()[&frame];
    }
}

fn run(start: u64, frames: u64) -> Run {
    Run::new(Frame(start), frames).unwrap()
}

const FRAMES: u64 = 4096;
const RESERVED: u64 = 10_000;

/// Everything that an engine can have, for two CPUs.
fn full_layout() -> EngineLayout<KvLayout, ReserveLayout> {
    EngineLayout::new(Frame(0), FRAMES)
        .with_cpus(2)
        .with_window(Page(1 << 20), 8192)
        .with_objects()
        .with_reserve(ReserveLayout::new(run(RESERVED, 1024)))
}

#[test]
fn one_slice_holds_all_parts_wherever_it_begins() {
    let layout = full_layout();
    let words = layout.words_needed().unwrap();
    let frames = layout.frames_needed().unwrap() as usize;
    assert!(words <= frames * 512 && words > (frames - 1) * 512);
    for shift in 0..8 {
        let mut memory = vec![!0; words + shift];
        let board = TestBoard::default();
        let short = Engine::new(&layout, &mut memory[shift + 1..], board.clone()).unwrap_err();
        let needed = SetupError::Metadata {
            words: words - 1,
            needed: words,
        };
        assert_eq!(short, EngineError::Metadata(needed));
        let engine = Engine::new(&layout, &mut memory[shift..], board).unwrap();
        engine.add(run(0, FRAMES)).unwrap();
        engine.verify().unwrap();
        assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
    }
}

#[test]
fn a_cpu_has_frames_areas_objects_and_a_guest() {
    let layout = full_layout();
    let mut memory = vec![!0; layout.words_needed().unwrap()];
    let board = TestBoard::default();
    let engine = Engine::new(&layout, &mut memory, board.clone()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let pool = engine.reserve().unwrap().open_pool(&PoolConfig::SWAP);
    let mut cpu = engine.cpu(CpuId(1)).unwrap();
    assert_eq!(cpu.id(), CpuId(1));

    let frame = cpu
        .alloc(Order::ZERO, Mobility::Movable, Context::ANY)
        .unwrap();
    let area = cpu.vmalloc(&AreaRequest::new(5)).unwrap();
    let alias = cpu.map_ram(&[frame, frame], Context::ANY).unwrap();
    assert_eq!(board.0.mapped.borrow()[&alias.0], frame);
    let small = cpu.kmalloc(&KvRequest::new(64)).unwrap();
    // No block has that many frames.
    let large = cpu.kvmalloc(&KvRequest::new(2048 * Page::BYTES)).unwrap();
    assert_eq!(board.0.mapped.borrow().len(), 5 + 2 + 2048);
    let key = Key {
        pool: pool.unwrap(),
        object: 7,
        index: 3,
    };
    let page = core::array::from_fn(|word| word as u64);
    cpu.put(key, &page).unwrap();
    let mut found = [0; 512];
    assert!(cpu.get(key, &mut found));
    assert_eq!(found, page);
    engine.verify().unwrap();

    assert_eq!(cpu.kvfree(large), Ok(2048 * Page::BYTES));
    assert_eq!(cpu.kvfree(small), Ok(64));
    assert_eq!(cpu.unmap_ram(alias, 2), Ok(2));
    assert_eq!(cpu.vfree(area), Ok(5));
    cpu.free(frame, Order::ZERO).unwrap();
    cpu.objects().drain();
    cpu.ranges().drain();
    drop(cpu);
    engine.verify().unwrap();
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
    engine.remove(run(0, 512)).unwrap();
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES - 512);
}

/// EN2: a CPU has all of its seats, or none.
#[test]
fn en2_a_refused_cpu_leaves_no_seat_taken() {
    let layout = full_layout();
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    let one = CpuId(0);
    let taken = Err(SetupError::Taken(one));
    let refused = || engine.cpu(one).map(|_| ());
    {
        let _zone = engine.zones()[0].seat(one).unwrap();
        assert_eq!(refused(), taken);
    }
    {
        let _guest = engine.reserve().unwrap().guest(one).unwrap();
        assert_eq!(refused(), taken);
    }
    {
        let frames = Seats::<_, 1>::take(engine.zones(), CpuId(1)).unwrap();
        let _ranges = engine.space().seat(one, frames).unwrap();
        assert_eq!(refused(), taken);
    }
    let cpu = engine.cpu(one).unwrap();
    assert_eq!(refused(), taken);
    drop(cpu);
    assert_eq!(refused(), Ok(()));
    let unknown = engine.cpu(CpuId(2)).map(|_| ());
    assert_eq!(unknown, Err(SetupError::Unknown(CpuId(2))));
}

#[test]
fn an_engine_of_frames_alone_needs_a_platform_that_waits_and_nothing_else() {
    let near = ZoneLayout::new(Frame(0), 1024);
    let far = ZoneLayout::new(Frame(10_240), 2048);
    let layout = EngineLayout::of_zones([far, near]);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, SingleThread::new()).unwrap();
    engine.add(run(0, 1024)).unwrap();
    engine.add(run(10_240, 2048)).unwrap();
    assert_eq!(engine.add(run(5000, 8)), Err(RunError::Outside));
    assert!(engine.zone_of(Frame(5000)).is_none());
    let zone_of = |frame| engine.zone_of(Frame(frame)).unwrap().contains(Frame(7));
    assert!(zone_of(1023) && !zone_of(10_240));
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let huge = Order::new(9).unwrap();
    let mut blocks = Vec::new();
    while let Ok(block) = cpu.alloc(huge, Mobility::Movable, Context::ANY) {
        blocks.push(block);
    }
    assert_eq!(blocks.len(), 6);
    assert!(blocks[..4].iter().all(|block| block.0 >= 10_240));
    for block in blocks {
        cpu.free(block, huge).unwrap();
    }
    drop(cpu);
    engine.verify().unwrap();
    assert_eq!(engine.frame_stats().nr_free_pages, 3072);
}

#[test]
fn runs_of_any_length_are_taken_and_given_back_whole_or_in_parts() {
    let layout = EngineLayout::new(Frame(0), FRAMES);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, SingleThread::new()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    for (frames, align) in [(1, 1), (3, 1), (5, 64), (700, 1), (1025, 1), (3000, 512)] {
        let taken = cpu
            .alloc_run(frames, align, Mobility::Unmovable, Context::ANY)
            .unwrap();
        assert_eq!(taken.frames(), frames);
        assert_eq!(taken.start().0 % align, 0);
        let free = FRAMES - frames;
        assert_eq!(engine.frame_stats().nr_free_pages, free, "{frames}");
        let (first, rest) = (taken.start().0, frames - 1);
        cpu.free_run(run(first, 1)).unwrap();
        if rest > 0 {
            cpu.free_run(run(first + 1, rest)).unwrap();
        }
        let again = cpu.free_run(run(first, 1));
        assert!(matches!(again, Err(FreeError::AlreadyFree(_))), "{again:?}");
        assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
    }
    let refused = [(0, 1), (1, 3), (FRAMES + 1, 1), (u64::MAX, 1)];
    for (frames, align) in refused {
        let refused = cpu.alloc_run(frames, align, Mobility::Movable, Context::ANY);
        assert_eq!(refused, Err(AllocError::Impossible), "{frames} {align}");
    }
    // A request that may not block takes no more than a block, and says whether there may be such a run.
    let mut nowait = |frames| cpu.alloc_run(frames, 1, Mobility::Movable, Context::NOWAIT);
    assert_eq!(nowait(1025), Err(AllocError::WouldWait));
    assert_eq!(nowait(FRAMES + 1), Err(AllocError::Impossible));
    let block = nowait(512).unwrap();
    assert_eq!(nowait(FRAMES), Err(AllocError::Exhausted));
    cpu.free_run(block).unwrap();
    drop(cpu);
    engine.verify().unwrap();
}

/// A run that is no block serves a request that no block serves: that is no failure, and a failure is one.
#[test]
fn a_request_for_a_run_counts_as_failed_once_and_only_if_it_failed() {
    let layout = EngineLayout::new(Frame(0), FRAMES);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, SingleThread::new()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let zone = &engine.zones()[0];
    // What is free are runs of 48 frames, none of which has a block of 32.
    for start in (0..FRAMES).step_by(64) {
        for taken in [run(start, 8), run(start + 56, 8)] {
            zone.alloc_run_at(taken, Mobility::Unmovable).unwrap();
        }
    }
    let failures = || {
        let stats = engine.frame_stats();
        let of = |counts: &[u64]| counts.iter().sum::<u64>();
        of(&stats.exhausted) + of(&stats.fragmented)
    };
    let shrink = [];
    for with_clients in [false, true] {
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        if with_clients {
            cpu = cpu.with_shrinkers(&shrink);
        }
        let before = failures();
        let taken = cpu.alloc_run(48, 1, Mobility::Unmovable, Context::ANY);
        let taken = taken.unwrap();
        assert_eq!(failures(), before, "it was served");
        cpu.free_run(taken).unwrap();
        for (context, error) in [
            (Context::ANY, AllocError::Fragmented),
            (Context::NOWAIT, AllocError::WouldWait),
        ] {
            let before = failures();
            let failed = cpu.alloc_run(49, 1, Mobility::Unmovable, context);
            assert_eq!(failed, Err(error));
            assert_eq!(failures(), before + 1, "with clients: {with_clients}");
        }
    }
}

/// EN4: no frame belongs to a zone and to the reserve.
#[test]
fn en4_a_reserve_may_lie_in_a_hole_of_a_zone_and_its_frames_are_not_added() {
    let layout =
        EngineLayout::new(Frame(0), FRAMES).with_reserve(ReserveLayout::new(run(1024, 512)));
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    let refused = [(0, FRAMES), (0, 1025), (1024, 512), (1535, 1), (1200, 8)];
    for (start, frames) in refused {
        let error = RunError::Present(Frame(start.max(1024)));
        assert_eq!(
            engine.add(run(start, frames)),
            Err(error),
            "{start} {frames}"
        );
    }
    engine.add(run(0, 1024)).unwrap();
    engine.add(run(1536, FRAMES - 1536)).unwrap();
    let owned = engine.reserve().unwrap().alloc_contig(512, 512).unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    while let Ok(frame) = cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY) {
        assert!(!owned.contains(frame), "{frame} has two owners");
    }
}

/// Where addresses have 32 bits, the offset of such a frame in the zone would be cut to that of another one.
#[test]
fn a_frame_that_differs_from_a_live_one_in_its_upper_half_is_outside() {
    let mut memory = vec![0; full_layout().words_needed().unwrap()];
    let engine = Engine::new(&full_layout(), &mut memory, TestBoard::default()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let frame = cpu
        .alloc(Order::ZERO, Mobility::Movable, Context::ANY)
        .unwrap();
    for far in [32, 40, 63].map(|bit| Frame(frame.0 | 1 << bit)) {
        assert_eq!(cpu.free(far, Order::ZERO), Err(FreeError::Outside(far)));
        let seat = cpu.frames().seat(0);
        assert_eq!(seat.free(far, Order::ZERO), Err(FreeError::Outside(far)));
        assert!(!seat.free_cached(far, Order::ZERO));
        assert!(engine.add(Run::new(far, 1).unwrap()).is_err());
    }
    cpu.free(frame, Order::ZERO).unwrap();
    engine.verify().unwrap();
}

#[test]
fn impossible_layouts_are_refused_with_their_place() {
    let said = |error: EngineError| std::format!("{error}");
    let overlapping = EngineLayout::of_zones([
        ZoneLayout::new(Frame(0), 1024),
        ZoneLayout::new(Frame(1000), 1024),
    ]);
    assert_eq!(overlapping.words_needed(), Err(EngineError::Zones));
    let apart = EngineLayout::of_zones([
        ZoneLayout::new(Frame(0), 1024),
        ZoneLayout::new(Frame(1 << 40), 1024),
    ]);
    let error = apart.words_needed().unwrap_err();
    let all = std::format!("2^{} frames", FRAMES_MAX.ilog2());
    assert!(said(error).contains(&all), "{error}");
    // As many words as one address can name, and one frame more.
    let longest = EngineLayout::new(Frame(512), FRAMES_MAX)
        .with_cpus(1023)
        .with_window(Page(1 << 30), 1 << 25)
        .with_objects();
    assert!(longest.words_needed().unwrap() as u64 > FRAMES_MAX);
    let longer = EngineLayout::new(Frame(512), FRAMES_MAX + 1);
    let error = longer.words_needed().unwrap_err();
    assert!(said(error).starts_with("zone 0: "), "{error}");
    let empty = EngineLayout::of_zones([
        ZoneLayout::new(Frame(0), 1024),
        ZoneLayout::new(Frame(5000), 0),
    ]);
    let error = empty.words_needed().unwrap_err();
    assert!(said(error).starts_with("zone 1: "), "{error}");
    let none = EngineLayout::<_, _, 0>::of_zones([]);
    assert_eq!(none.words_needed(), Err(EngineError::Zones));
    let window = EngineLayout::new(Frame(0), 1024).with_window(Page(1), 8192);
    let error = window.words_needed().unwrap_err();
    assert!(said(error).starts_with("address space: "), "{error}");
    // The window lies in the direct map.
    let layout = EngineLayout::new(Frame(0), 1024)
        .with_window(Page(1 << 28), 8192)
        .with_objects();
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let refused = Engine::new(&layout, &mut memory, TestBoard::default()).map(|_| ());
    let overlap = SetupError::Overlap {
        window: Addr((1 << 28) * Page::BYTES),
        direct: Addr(1 << 40),
    };
    assert_eq!(refused, Err(EngineError::Objects(overlap)));
}

/// Whatever the caller allows: frames behind lazy pages serve no request.
#[test]
fn at_most_a_32nd_of_the_frames_lie_behind_lazy_pages() {
    let layout = EngineLayout::new(Frame(0), FRAMES).with_window(Page(1 << 20), 8192);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    assert_eq!(engine.space().lazy_bound_pages(), FRAMES / 32);
}

/// Frames that may be plugged in later count for nothing until they are there.
#[test]
fn all_cpus_together_keep_a_32nd_of_the_frames_that_exist() {
    const THERE: u64 = 1024;
    let ranges = RangeConfig {
        lazy_frames_max: 64,
        ..RangeConfig::for_cpus(2)
    };
    let layout = EngineLayout::new(Frame(0), 64 * THERE)
        .with_window(Page(1 << 20), 8192)
        .with_range_config(ranges)
        .with_cpus(2);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    engine.add(run(0, THERE)).unwrap();
    let mut cpus = [0, 1].map(|cpu| engine.cpu(CpuId(cpu)).unwrap());
    let mut kept_by = |there: u64| {
        let mut most = 0;
        for round in 0..200 {
            for cpu in &mut cpus {
                let pages = [2, 5][round % 2];
                let areas = [(); 9].map(|()| cpu.vmalloc(&AreaRequest::new(pages)).unwrap());
                for area in areas {
                    cpu.vfree(area).unwrap();
                }
            }
            most = engine.space().stats().kept_pages.max(most);
        }
        engine.verify().unwrap();
        assert!(most > 0 && most <= there / 32, "{most} of {there} are kept");
        most
    };
    let few = kept_by(THERE);
    engine.add(run(THERE, 8 * THERE)).unwrap();
    let more = kept_by(9 * THERE);
    assert!(more > few, "{few} of few, {more} of many");
}

/// The caller's policies reach the parts that they are for.
#[test]
fn each_part_has_the_callers_policies() {
    let frames = Config {
        cache_permille: 3,
        ..Config::default()
    };
    let ranges = RangeConfig {
        lazy_pages_max: 77,
        ..RangeConfig::default()
    };
    let reclaim = ReclaimConfig {
        quota_frames: 5,
        ..ReclaimConfig::default()
    };
    let window = EngineLayout::new(Frame(0), FRAMES).with_window(Page(1 << 20), 8192);
    let layout = window
        .with_range_config(ranges)
        .with_config(frames)
        .with_reclaim_config(reclaim);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TestBoard::default()).unwrap();
    assert_eq!(engine.zones()[0].config().cache_permille, 3);
    assert_eq!(engine.space().lazy_bound_pages(), 77);
    assert_eq!(engine.reclaim(0).config().quota_frames, 5);
    let wrong = ReclaimConfig {
        batch_frames: 0,
        ..reclaim
    };
    let refused = Engine::new(
        &layout.with_reclaim_config(wrong),
        &mut memory,
        TestBoard::default(),
    );
    let error = refused.map(|_| ()).unwrap_err();
    assert!(matches!(error, EngineError::Zone { nth: 0, .. }), "{error}");
}
