//! All parts of an engine at once, in two zones: blocks, runs and parts of them, areas, mappings of a caller's
//! frames, objects. The models know one part each; here the parts take frames from one another.
//!
//! An oracle has an owner for each frame and the pages that reach it. What must never be seen: a frame that two
//! have, or that is handed out while a page or a stale translation reaches it; a page that is mapped twice or
//! before a flush; a request that must not wait and stops, unmaps or flushes; an error that leaves the counts
//! changed, or for a block or run that is there; a frame that is lost.
#![cfg(not(any(shuttle, loom)))]

use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::ZoneLayout;
use framewright::kv::{KvLayout, KvRequest};
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::policy::{Config, Effort, RangeConfig};
use framewright::vrange::{AreaRequest, RangeError};
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
use framewright_sim::Random;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

const START: u64 = 1 << 20;
const PAGES: u64 = 2048;
const DIRECT: u64 = 1 << 40;
/// By zone: the first frame, and how many.
const ZONES: [(u64, u64); 2] = [(1024, 640), (0, 512)];
const FRAMES: u64 = 512 + 640;

/// What has a frame; 0 has none.
const BLOCK: u32 = 1;
const AREA: u32 = 2;
const OBJECT: u32 = 3;

/// The page table, and what was unmapped and not flushed.
struct Pages {
    /// Each page's frame + 1, or 0.
    table: Vec<u64>,
    stale: Vec<(usize, u64)>,
}

struct Oracle {
    owners: Vec<AtomicU32>,
    /// How many pages reach each frame, in the table or stale.
    reached: Vec<AtomicU32>,
    pages: Mutex<Pages>,
    /// One thread has all CPUs.
    is_alone: bool,
    must_not_wait: AtomicBool,
    /// Which call of `map` fails, counted down to 1; none at 0.
    fails: AtomicU32,
}

#[derive(Clone)]
struct WatchedBoard(Arc<Oracle>);

impl WatchedBoard {
    fn new(is_alone: bool) -> Self {
        let words = || (0..2048).map(|_| AtomicU32::new(0)).collect();
        let pages = Pages {
            table: vec![0; PAGES as usize],
            stale: vec![],
        };
        Self(Arc::new(Oracle {
            owners: words(),
            reached: words(),
            pages: Mutex::new(pages),
            is_alone,
            must_not_wait: AtomicBool::new(false),
            fails: AtomicU32::new(0),
        }))
    }

    /// Notes the owner of a frame that a request gave, and that this many pages reach.
    fn got(&self, frame: Frame, who: u32, pages: u32) {
        let was = self.0.owners[frame.0 as usize].swap(who, SeqCst);
        assert_eq!(was, 0, "{frame} is handed out to {who}, and {was} has it");
        let reached = self.0.reached[frame.0 as usize].load(SeqCst);
        assert_eq!(reached, pages, "{frame} is handed out to {who}");
    }

    fn gives(&self, frame: Frame, who: u32) {
        let was = self.0.owners[frame.0 as usize].swap(0, SeqCst);
        assert_eq!(was, who, "{frame}");
    }

    fn behind(&self, page: Page, pages: u64) -> Vec<Frame> {
        let first = (page.0 - START) as usize;
        let table = &self.0.pages.lock().unwrap().table;
        let frames = table[first..first + pages as usize].iter();
        let mapped = frames.map(|entry| Frame(entry.checked_sub(1).expect("it is mapped")));
        mapped.collect()
    }

    fn is_reached(&self, run: Run) -> bool {
        let mut frames = run.start().0..run.end().0;
        frames.any(|frame| self.0.reached[frame as usize].load(SeqCst) != 0)
    }

    fn waits(&self, what: &str) {
        let must_not = self.0.must_not_wait.load(SeqCst);
        assert!(!must_not, "a request that must not wait {what}");
    }
}

impl FramePlatform for WatchedBoard {
    fn relax(&self, attempt: u32) {
        assert!(!self.0.is_alone, "one thread waits for no other one");
        ().relax(attempt);
        thread::yield_now();
    }

    fn barrier_all(&self) {
        self.waits("stops CPUs");
        ().barrier_all();
    }
}

impl RangePlatform for WatchedBoard {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let left = self.0.fails.load(SeqCst);
        if left != 0 {
            self.0.fails.store(left - 1, SeqCst);
            if left == 1 {
                return Err(MapError::NoMemory);
            }
        }
        let mut pages = self.0.pages.lock().unwrap();
        for (page, frame) in (at.0 - START..).zip(frames.start().0..frames.end().0) {
            let entry = std::mem::replace(&mut pages.table[page as usize], frame + 1);
            assert_eq!(entry, 0, "page {page} is mapped twice");
            let is_stale = pages.stale.iter().any(|(stale, _)| *stale as u64 == page);
            assert!(!is_stale, "page {page} is mapped before a flush");
            self.0.reached[frame as usize].fetch_add(1, SeqCst);
        }
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.waits("unmaps");
        let mut pages = self.0.pages.lock().unwrap();
        for page in (range.start().0 - START) as usize..(range.end().0 - START) as usize {
            if let Some(frame) = std::mem::take(&mut pages.table[page]).checked_sub(1) {
                pages.stale.push((page, frame));
            }
        }
        Ok(())
    }

    fn flush_all(&self) {
        self.waits("flushes");
        for (_, frame) in std::mem::take(&mut self.0.pages.lock().unwrap().stale) {
            self.0.reached[frame as usize].fetch_sub(1, SeqCst);
        }
    }

    fn zero(&self, _frames: Run) {}
}

impl ObjectPlatform for WatchedBoard {
    fn direct_base(&self) -> Addr {
        Addr(DIRECT)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

type WatchedEngine<'m> = Engine<'m, WatchedBoard, KvLayout, 2>;
type WatchedCpu<'e, 'm> = Cpu<'e, 'm, WatchedBoard, KvLayout, 2>;

/// What a request gave.
enum Thing {
    Block(Run),
    Area(Page, u64),
    Plain(Page),
    Alias(Page, Vec<Frame>),
    Object(Addr, u64),
}

/// The users of an engine, and what they have.
struct EngineUsers<'e, 'm> {
    engine: &'e WatchedEngine<'m>,
    board: WatchedBoard,
    random: Random,
    things: Vec<Thing>,
    /// Requests that were refused and could not have been served.
    refused: u64,
}

impl EngineUsers<'_, '_> {
    fn up_to(&mut self, few: u64, many: u64) -> u64 {
        let most = if self.random.chance(80) { few } else { many };
        1 + self.random.below(most)
    }

    /// Serves a request in that context.
    fn within<T>(&self, context: Context, work: impl FnOnce() -> T) -> T {
        let must_not = self.board.0.is_alone && !context.may_block;
        self.board.0.must_not_wait.store(must_not, SeqCst);
        let result = work();
        self.board.0.must_not_wait.store(false, SeqCst);
        result
    }

    fn free_frames(&self) -> u64 {
        self.engine.frame_stats().nr_free_pages
    }

    fn step(&mut self, cpu: &mut WatchedCpu<'_, '_>) {
        if !self.things.is_empty() && self.random.chance(45) {
            let nth = self.random.index(self.things.len());
            let thing = self.things.swap_remove(nth);
            return self.free(cpu, thing);
        }
        let context = match self.random.below(4) {
            0 => Context::NOWAIT,
            _ => Context::ANY,
        };
        if self.board.0.is_alone && self.random.chance(2) {
            let nth = 1 + self.random.below(4) as u32;
            self.board.0.fails.store(nth, SeqCst);
        }
        match self.random.below(12) {
            0 | 1 => {
                let order = Order::new(self.random.below(8) as u8).unwrap();
                // A costly order stops no CPU, and so may fail for what lies in caches.
                let is_exact = context.may_block && order.get() <= 3;
                self.block(cpu, context, order.frames(), Some(order), is_exact);
            }
            2 | 3 => {
                let frames = self.up_to(20, 150);
                self.block(cpu, context, frames, None, context.may_block);
            }
            4 | 5 => self.area(cpu, context),
            6 => {
                let pages = self.up_to(40, 40);
                let request = AreaRequest::new(pages).within(context);
                if let Ok(page) = self.within(context, || cpu.ranges().alloc_area(&request)) {
                    self.things.push(Thing::Plain(page));
                }
            }
            7 | 8 => self.alias(cpu, context),
            9 | 10 => {
                let bytes = self.up_to(1 << (1 + self.random.clone().below(18)), 1 << 19);
                let request = KvRequest::new(bytes).within(context);
                let request = match context.may_block && self.random.chance(30) {
                    true => request.with(Effort::MustSucceed),
                    false => request,
                };
                let contiguous = self.random.chance(40);
                let object = self.within(context, || match contiguous {
                    true => cpu.kmalloc(&request),
                    false => cpu.kvmalloc(&request),
                });
                if let Ok(addr) = object {
                    self.got_object(cpu, addr, bytes);
                }
            }
            _ => self.change_object(cpu, context),
        }
        self.board.0.fails.store(0, SeqCst);
    }

    /// A block of `order`, or a run.
    fn block(
        &mut self,
        cpu: &mut WatchedCpu<'_, '_>,
        context: Context,
        frames: u64,
        order: Option<Order>,
        is_exact: bool,
    ) {
        let mobility = Mobility::ALL[self.random.index(3)];
        let align = match order {
            Some(order) => order.frames(),
            None => 1 << self.random.below(4),
        };
        let before = self.free_frames();
        let got = self.within(context, || match order {
            Some(order) => {
                let block = cpu.alloc(order, mobility, context);
                block.map(|frame| Run::new(frame, frames).unwrap())
            }
            None => cpu.alloc_run(frames, align, mobility, context),
        });
        match got {
            Ok(run) => {
                assert_eq!((run.frames(), run.start().0 % align), (frames, 0));
                for frame in run.start().0..run.end().0 {
                    self.board.got(Frame(frame), BLOCK, 0);
                }
                self.things.push(Thing::Block(run));
            }
            Err(error) if self.board.0.is_alone => {
                assert_eq!(self.free_frames(), before, "an error changes nothing");
                if is_exact {
                    self.refused += 1;
                    let has = self.has_run(frames, align);
                    assert!(!has, "{frames} frames are there: {error}");
                }
            }
            Err(_) => {}
        }
    }

    /// Whether such a run is free or cached.
    fn has_run(&self, frames: u64, align: u64) -> bool {
        ZONES.iter().any(|&(first, count)| {
            let zone = self.engine.zone_of(Frame(first)).unwrap();
            let mut begin = first;
            (first..first + count).any(|frame| {
                if !zone.is_free(Frame(frame)) {
                    begin = frame + 1;
                }
                begin.next_multiple_of(align) + frames <= frame + 1
            })
        })
    }

    fn area(&mut self, cpu: &mut WatchedCpu<'_, '_>, context: Context) {
        let pages = self.up_to(20, 120);
        let request = AreaRequest::new(pages).within(context);
        let request = match self.random.below(8) {
            0 => request.zeroed(),
            1 => request.aligned_to(Page::BYTES << self.random.below(5)),
            _ => request,
        };
        match self.within(context, || cpu.vmalloc(&request)) {
            Ok(page) => {
                for frame in self.board.behind(page, pages) {
                    self.board.got(frame, AREA, 1);
                }
                self.things.push(Thing::Area(page, pages));
            }
            Err(RangeError::Frames(error)) if self.board.0.is_alone && context.may_block => {
                // Everything kept and lazy has been purged.
                self.refused += 1;
                let free = self.free_frames();
                assert!(free < pages, "{free} of {pages} frames are free: {error}");
            }
            Err(_) => {}
        }
    }

    /// A mapping of frames of some blocks. Only where no other thread frees them meanwhile.
    fn alias(&mut self, cpu: &mut WatchedCpu<'_, '_>, context: Context) {
        let blocks = self.things.iter().filter_map(|thing| match thing {
            Thing::Block(run) => Some(*run),
            _ => None,
        });
        let blocks: Vec<Run> = blocks.collect();
        if blocks.is_empty() || !self.board.0.is_alone {
            return;
        }
        let most = self.up_to(70, 200) as usize;
        let mut frames = vec![];
        while frames.len() < most {
            let run = blocks[self.random.index(blocks.len())];
            frames.extend((run.start().0..run.end().0).map(Frame));
        }
        frames.truncate(most);
        if let Ok(page) = self.within(context, || cpu.map_ram(&frames, context)) {
            assert_eq!(self.board.behind(page, most as u64), frames);
            self.things.push(Thing::Alias(page, frames));
        }
    }

    /// Frames behind mapped objects are theirs alone.
    fn got_object(&mut self, cpu: &mut WatchedCpu<'_, '_>, addr: Addr, bytes: u64) {
        let has = cpu.objects().kvsize(addr).unwrap();
        assert!(has >= bytes);
        if addr.0 < DIRECT {
            for frame in self.board.behind(addr.page(), has / Page::BYTES) {
                self.board.got(frame, OBJECT, 1);
            }
        }
        self.things.push(Thing::Object(addr, has));
    }

    fn gives_object(&self, addr: Addr, has: u64) {
        if addr.0 < DIRECT {
            for frame in self.board.behind(addr.page(), has / Page::BYTES) {
                self.board.gives(frame, OBJECT);
            }
        }
    }

    fn change_object(&mut self, cpu: &mut WatchedCpu<'_, '_>, context: Context) {
        let is_object = |thing: &Thing| matches!(thing, Thing::Object(..));
        let Some(nth) = self.things.iter().position(is_object) else {
            return;
        };
        let Thing::Object(addr, had) = self.things.swap_remove(nth) else {
            unreachable!("it is an object");
        };
        self.gives_object(addr, had);
        let bytes = self.up_to(5000, 1 << 18);
        let request = KvRequest::new(bytes).within(context);
        match self.within(context, || cpu.objects().kvrealloc(addr, &request)) {
            Ok(new) => self.got_object(cpu, new, bytes),
            Err(_) => {
                assert_eq!(cpu.objects().kvsize(addr), Ok(had));
                self.got_object(cpu, addr, had);
            }
        }
    }

    fn free(&mut self, cpu: &mut WatchedCpu<'_, '_>, thing: Thing) {
        match thing {
            Thing::Block(run) => self.free_block(cpu, run),
            Thing::Area(page, pages) => {
                for frame in self.board.behind(page, pages) {
                    self.board.gives(frame, AREA);
                }
                assert_eq!(cpu.vfree(page), Ok(pages));
                // No other thread can have got it meanwhile.
                assert!(!self.board.0.is_alone || cpu.vfree(page).is_err());
            }
            Thing::Plain(page) => assert!(cpu.ranges().free_area(page).is_ok()),
            Thing::Alias(page, frames) => {
                let pages = frames.len() as u64;
                assert_eq!(self.board.behind(page, pages), frames);
                assert_eq!(cpu.unmap_ram(page, pages), Ok(pages));
            }
            Thing::Object(addr, has) => {
                self.gives_object(addr, has);
                assert_eq!(cpu.kvfree(addr), Ok(has));
            }
        }
    }

    /// Frees a block, or a part of it.
    fn free_block(&mut self, cpu: &mut WatchedCpu<'_, '_>, run: Run) {
        if self.board.is_reached(run) {
            // A mapping that is gone may still reach it: that is its user's to know.
            cpu.ranges().drain();
        }
        let (mut from, mut end) = (run.start().0, run.end().0);
        if self.board.is_reached(run) {
            return self.things.push(Thing::Block(run));
        }
        if self.random.chance(50) {
            from += self.random.below(end - from);
            end = from + 1 + self.random.below(end - from);
        }
        (from..end).for_each(|frame| self.board.gives(Frame(frame), BLOCK));
        let part = Run::new(Frame(from), end - from).unwrap();
        assert_eq!(cpu.free_run(part), Ok(()));
        for (from, end) in [(run.start().0, from), (end, run.end().0)] {
            if from < end {
                let rest = Run::new(Frame(from), end - from).unwrap();
                self.things.push(Thing::Block(rest));
            }
        }
    }

    fn free_all(&mut self, cpu: &mut WatchedCpu<'_, '_>) {
        // Mappings go before what they map.
        while !self.things.is_empty() {
            for thing in std::mem::take(&mut self.things) {
                self.free(cpu, thing);
            }
        }
    }
}

/// Runs this many operations on each CPU, all CPUs in one thread or each in its own. Returns how many requests
/// were rightly refused.
fn run(seed: u64, ops: u64, cpus: u16, is_alone: bool) -> u64 {
    let board = WatchedBoard::new(is_alone);
    let mut random = Random::new(seed);
    let pageblock = Order::new(4 + random.below(4) as u8).unwrap();
    let max = Order::new(pageblock.get() + random.below(2) as u8).unwrap();
    let zone = |(first, frames)| ZoneLayout::new(Frame(first), frames);
    let zones = ZONES.map(|of| zone(of).with_orders(pageblock, max));
    let config = Config {
        cache_permille: [0, 5, 50, 100][random.index(4)],
        ..Config::default()
    };
    let ranges = RangeConfig {
        lazy_pages_max: [16, 64, 300, 8192][random.index(4)],
        kept_pages_max: [0, 16, 100, 1024][random.index(4)],
        spans: random.chance(80),
        recycle: random.chance(80),
        strict: random.chance(30),
        ..RangeConfig::for_cpus(cpus).kept()
    };
    let layout = EngineLayout::of_zones(zones)
        .with_cpus(cpus)
        .with_config(config)
        .with_window(Page(START), PAGES)
        .with_range_config(ranges)
        .with_span_pages(64 << random.below(3))
        .with_objects()
        .with_slabs_max(8 + random.below(200));
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine: WatchedEngine<'_> = Engine::new(&layout, &mut memory, board.clone()).unwrap();
    for (first, frames) in ZONES {
        engine.add(Run::new(Frame(first), frames).unwrap()).unwrap();
    }
    let users = |seed| EngineUsers {
        engine: &engine,
        board: board.clone(),
        random: Random::new(seed),
        things: vec![],
        refused: 0,
    };
    let mut all = users(seed);
    if is_alone {
        let mut seats: Vec<_> = (0..cpus)
            .map(|cpu| engine.cpu(CpuId(cpu)).unwrap())
            .collect();
        for op in 0..ops * u64::from(cpus) {
            let nth = all.random.index(seats.len());
            if all.random.chance(1) {
                seats[nth].objects().drain();
                seats[nth].ranges().drain();
            }
            all.step(&mut seats[nth]);
            if op % 64 == 0 {
                engine.verify().unwrap();
            }
        }
        all.free_all(&mut seats[0]);
    } else {
        thread::scope(|scope| {
            for cpu in 0..cpus {
                let mut users = users(seed + u64::from(cpu));
                let engine = &engine;
                scope.spawn(move || {
                    let mut cpu = engine.cpu(CpuId(cpu)).unwrap();
                    (0..ops).for_each(|_| users.step(&mut cpu));
                    users.free_all(&mut cpu);
                });
            }
        });
    }
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    cpu.objects().drain();
    cpu.ranges().drain();
    drop(cpu);
    engine.verify().unwrap();
    assert_eq!(all.free_frames(), FRAMES, "a frame is lost");
    all.refused
}

#[test]
fn all_parts_at_once_lose_and_share_no_frame() {
    let refused: u64 = (0..12)
        .map(|seed| run(seed, 1000, 1 + seed as u16 % 4, true))
        .sum();
    assert!(refused > 100, "{refused} requests were refused");
}

#[test]
fn all_parts_at_once_on_threads_lose_and_share_no_frame() {
    for seed in 0..4 {
        run(1000 * seed, 2500, 2 + seed as u16 % 3, false);
    }
}
