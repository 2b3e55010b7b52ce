//! Per-CPU objects against a slow model: where each object lies, what is behind each copy, and what its bytes hold.
//!
//! What must never be seen: two objects that share a byte, two copies that share a frame, a copy that is not mapped or not
//! zero when it is handed out, bytes that change under an object, a frame that goes back while a page or a stale
//! translation reaches it, a request that must not wait and flushes, an error that changes what is allocated, a frame that
//! is lost.
#![cfg(not(any(shuttle, loom)))]

use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::AllocError;
use framewright::kv::{KvError, KvFreeError, KvLayout, KvRequest};
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::vrange::{AreaRequest, RangeError};
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
use framewright_sim::Random;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

const START: u64 = 1 << 20;
const WINDOW: u64 = 256;
const FRAMES: u64 = 512;
const CPUS: u16 = 3;
const UNIT: u64 = 24;
const DIRECT: u64 = 1 << 40;

struct BoardState {
    /// Each page's frame + 1, or 0.
    table: Vec<u64>,
    /// What was unmapped and not flushed.
    stale: Vec<u64>,
    bytes: Vec<u8>,
    /// Which call of `map`, and of `unmap`, fails, counted down to 1; none at 0.
    map_fails: u32,
    unmap_fails: u32,
    /// A page that the platform never unmaps.
    held: Option<u64>,
    must_not_wait: bool,
    flushes: u64,
    windows: u64,
}

#[derive(Clone)]
struct UnitBoard(Arc<Mutex<BoardState>>);

/// Counts down. Whether it was this call.
fn is_due(left: &mut u32) -> bool {
    let is_last = *left == 1;
    *left = left.saturating_sub(1);
    is_last
}

impl UnitBoard {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(BoardState {
            table: vec![0; WINDOW as usize],
            stale: vec![],
            bytes: vec![0xdb; (FRAMES * Page::BYTES) as usize],
            map_fails: 0,
            unmap_fails: 0,
            held: None,
            must_not_wait: false,
            flushes: 0,
            windows: 0,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, BoardState> {
        self.0.lock().unwrap()
    }

    /// The frame behind the page of an address.
    fn frame(&self, at: u64) -> Frame {
        let entry = self.lock().table[(at / Page::BYTES - START) as usize];
        Frame(
            entry
                .checked_sub(1)
                .unwrap_or_else(|| panic!("{at:#x} is not mapped")),
        )
    }

    /// Reads and then writes all bytes of a copy.
    fn change(&self, at: u64, bytes: u64, from: u8, to: u8) {
        for at in at..at + bytes {
            let place = self.frame(at).0 * Page::BYTES + at % Page::BYTES;
            let byte = std::mem::replace(&mut self.lock().bytes[place as usize], to);
            assert_eq!(byte, from, "PC5: the byte at {at:#x}");
        }
    }
}

impl FramePlatform for UnitBoard {
    fn relax(&self, attempt: u32) {
        ().relax(attempt);
        thread::yield_now();
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

impl RangePlatform for UnitBoard {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let mut board = self.lock();
        if is_due(&mut board.map_fails) {
            return Err(MapError::NoMemory);
        }
        for (page, frame) in (at.0 - START..).zip(frames.start().0..frames.end().0) {
            let is_stale = board.stale.contains(&(frame + 1));
            assert!(!is_stale, "{frame} is mapped before a flush");
            let is_twice = board.table.contains(&(frame + 1));
            assert!(!is_twice, "{frame} lies behind two pages");
            let entry = std::mem::replace(&mut board.table[page as usize], frame + 1);
            assert_eq!(entry, 0, "page {page} is mapped twice");
        }
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        let mut board = self.lock();
        assert!(!board.must_not_wait, "a request that must not wait unmaps");
        if is_due(&mut board.unmap_fails) {
            return Err(MapError::Refused(5));
        }
        let pages = range.start().0 - START..range.end().0 - START;
        if board.held.is_some_and(|held| pages.contains(&held)) {
            return Err(MapError::Refused(7));
        }
        for page in pages {
            let entry = std::mem::take(&mut board.table[page as usize]);
            board.stale.push(entry);
        }
        Ok(())
    }

    fn flush_all(&self) {
        let mut board = self.lock();
        assert!(!board.must_not_wait, "a request that must not wait flushes");
        board.stale.clear();
        board.flushes += 1;
    }

    fn zero(&self, _frames: Run) {}

    fn interrupt_window(&self) {
        self.lock().windows += 1;
    }
}

impl ObjectPlatform for UnitBoard {
    fn direct_base(&self) -> Addr {
        Addr(DIRECT)
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        for at in at.0..at.0 + bytes {
            let place = self.frame(at).0 * Page::BYTES + at % Page::BYTES;
            self.lock().bytes[place as usize] = 0;
        }
    }

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

type UnitEngine<'m> = Engine<'m, UnitBoard, KvLayout>;
type UnitCpu<'e, 'm> = Cpu<'e, 'm, UnitBoard, KvLayout>;

fn layout() -> EngineLayout<KvLayout> {
    let window = EngineLayout::new(Frame(0), FRAMES).with_window(Page(START), WINDOW);
    let window = window.with_span_pages(16);
    window
        .with_objects()
        .with_cpus(CPUS)
        .with_percpu(CPUS, UNIT)
}

fn with_engine(work: impl FnOnce(&UnitEngine<'_>, &UnitBoard)) {
    let board = UnitBoard::new();
    let mut memory = vec![0xa5a5; layout().words_needed().unwrap()];
    let engine = Engine::new(&layout(), &mut memory, board.clone()).unwrap();
    engine.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    work(&engine, &board);
    engine.verify().unwrap();
}

/// An object of the model's.
struct ModelUnitObject {
    bytes: u64,
    stamp: u8,
}

struct UnitModel<'e, 'm> {
    engine: &'e UnitEngine<'m>,
    board: UnitBoard,
    random: Random,
    objects: BTreeMap<u64, ModelUnitObject>,
    refused: u64,
}

impl UnitModel<'_, '_> {
    fn copies(&self, object: u64) -> [u64; CPUS as usize] {
        let copy = |cpu| self.engine.copy_of(Addr(object), CpuId(cpu)).unwrap().0;
        std::array::from_fn(|cpu| copy(cpu as u16))
    }

    fn step(&mut self, cpu: &mut UnitCpu<'_, '_>) {
        match self.random.below(100) {
            0..45 => self.alloc(cpu),
            45..85 => self.free(cpu),
            85..90 => self.free_wrongly(cpu),
            90..92 => cpu.purge_percpu(),
            92..96 => self.board.lock().map_fails = 1 + self.random.below(4) as u32,
            _ => self.board.lock().unmap_fails = 1 + self.random.below(3) as u32,
        }
    }

    fn alloc(&mut self, cpu: &mut UnitCpu<'_, '_>) {
        let most = 1 << (1 + self.random.below(14));
        let bytes = 1 + self.random.below(most);
        let align = 1 << self.random.below(13);
        let context = match self.random.chance(25) {
            true => Context::NOWAIT,
            false => Context::ANY,
        };
        let before = self.engine.percpu_stats();
        let idle = before.idle_pages;
        self.board.lock().must_not_wait = !context.may_block;
        let result = cpu.alloc_percpu(bytes, align, context);
        self.board.lock().must_not_wait = false;
        let after = self.engine.percpu_stats();
        match result {
            Ok(Addr(object)) => {
                assert_eq!(object % align, 0, "the alignment");
                let first = START + WINDOW - u64::from(CPUS) * UNIT;
                assert!(object >= first * Page::BYTES);
                assert!(
                    object + bytes <= (first + UNIT) * Page::BYTES,
                    "the unit's end"
                );
                let before = self.objects.range(..object + bytes).next_back();
                let is_apart = before.is_none_or(|(start, other)| start + other.bytes <= object);
                assert!(is_apart, "{object:#x} shares bytes with another object");
                let stamp = 1 + self.random.below(255) as u8;
                let copies = self.copies(object);
                for copy in copies {
                    self.board.change(copy, bytes, 0, stamp);
                }
                self.objects
                    .insert(object, ModelUnitObject { bytes, stamp });
            }
            Err(error) => {
                self.refused += 1;
                let same = (before.objects, before.bytes, before.allocs);
                let now = (after.objects, after.bytes, after.allocs);
                assert_eq!(now, same, "PC6: an error changes no object");
                assert_eq!(after.failures, before.failures + 1);
                let is_map = matches!(error, KvError::Ranges(RangeError::Map(_)));
                // A slab for a small object takes any page: only one without an idle and a free page has no room.
                if bytes <= 2048 && align <= 2048 && !is_map && context.may_block {
                    assert_eq!(idle, 0, "an idle page serves it: {error}");
                    let full = after.pages + after.stuck_pages == UNIT;
                    let is_empty = matches!(error, KvError::Frames(AllocError::Exhausted));
                    assert!(full || is_empty, "there is room: {error}");
                }
            }
        }
    }

    fn free(&mut self, cpu: &mut UnitCpu<'_, '_>) {
        let Some((object, model)) = self.take() else {
            return;
        };
        for copy in self.copies(object) {
            self.board
                .change(copy, model.bytes, model.stamp, model.stamp);
        }
        let room = cpu.free_percpu(Addr(object)).unwrap();
        assert!(room >= model.bytes);
        assert!(self.engine.percpu_stats().idle_pages <= 4);
        let again = cpu.free_percpu(Addr(object));
        let is_refused = matches!(
            again,
            Err(KvFreeError::AlreadyFree(_) | KvFreeError::NotAllocated(_))
        );
        assert!(is_refused, "{again:?}");
    }

    fn take(&mut self) -> Option<(u64, ModelUnitObject)> {
        if self.objects.is_empty() {
            return None;
        }
        let nth = self.random.index(self.objects.len());
        let object = *self.objects.keys().nth(nth)?;
        Some((object, self.objects.remove(&object)?))
    }

    /// Frees by addresses that are no object's.
    fn free_wrongly(&mut self, cpu: &mut UnitCpu<'_, '_>) {
        let first = (START + WINDOW - u64::from(CPUS) * UNIT) * Page::BYTES;
        let at = first - Page::BYTES + self.random.below((UNIT * 3 + 2) * Page::BYTES);
        if self.objects.contains_key(&at) {
            return;
        }
        let inside = self.objects.range(..at).next_back();
        let inside = inside.filter(|(start, object)| *start + object.bytes > at);
        let error = cpu.free_percpu(Addr(at)).unwrap_err();
        let in_unit = at >= first && at < first + UNIT * Page::BYTES;
        match inside {
            Some((start, _)) => {
                let (addr, start) = (Addr(at), Addr(*start));
                assert_eq!(error, KvFreeError::NotTheFirst { addr, start });
            }
            None => assert_eq!(
                matches!(error, KvFreeError::Outside(_)),
                !in_unit,
                "{error}"
            ),
        }
    }
}

/// All objects are freed: then all frames are there again.
fn end(model: &mut UnitModel<'_, '_>, cpu: &mut UnitCpu<'_, '_>, free: u64) {
    model.board.lock().unmap_fails = 0;
    while let Some((object, _)) = model.take() {
        cpu.free_percpu(Addr(object)).unwrap();
    }
    cpu.purge_percpu();
    let stats = model.engine.percpu_stats();
    let left = (
        stats.objects,
        stats.bytes,
        stats.pages,
        stats.idle_pages,
        stats.stuck_pages,
    );
    assert_eq!(left, (0, 0, 0, 0, 0));
    assert_eq!(model.engine.frame_stats().nr_free_pages, free);
    assert!(model.board.lock().table.iter().all(|entry| *entry == 0));
}

#[test]
fn objects_lie_apart_and_zeroed_behind_mapped_pages_whatever_fails() {
    for seed in 0..20 {
        with_engine(|engine, board| {
            let mut cpus = [0, 1, 2].map(|cpu| engine.cpu(CpuId(cpu)).unwrap());
            let mut model = UnitModel {
                engine,
                board: board.clone(),
                random: Random::new(seed),
                objects: BTreeMap::new(),
                refused: 0,
            };
            // Odd seeds: too few frames for all pages of the units.
            let free = engine.frame_stats().nr_free_pages;
            let few = u64::from(CPUS) * UNIT / 2;
            let mut hog = vec![];
            while seed % 2 == 1 && engine.frame_stats().nr_free_pages > few {
                hog.push(
                    cpus[0]
                        .alloc(Order::ZERO, Mobility::Unmovable, Context::ANY)
                        .unwrap(),
                );
            }
            for _ in 0..1500 {
                let nth = model.random.index(cpus.len());
                model.step(&mut cpus[nth]);
                engine.verify().unwrap();
            }
            assert!(model.refused > 0, "no request met a limit");
            for frame in hog {
                cpus[0].free(frame, Order::ZERO).unwrap();
            }
            end(&mut model, &mut cpus[1], free);
        });
    }
}

#[test]
fn cpus_that_allocate_and_free_at_a_time_keep_their_objects_apart() {
    with_engine(|engine, board| {
        let free = engine.frame_stats().nr_free_pages;
        thread::scope(|scope| {
            for cpu in 0..CPUS {
                scope.spawn(move || {
                    let mut seat = engine.cpu(CpuId(cpu)).unwrap();
                    let mut random = Random::new(cpu.into());
                    let mut mine: Vec<(u64, u64)> = vec![];
                    for _ in 0..1500 {
                        if mine.len() > 12 || (!mine.is_empty() && random.chance(45)) {
                            let (object, bytes) = mine.swap_remove(random.index(mine.len()));
                            let copy = engine.copy_of(Addr(object), CpuId(cpu)).unwrap();
                            board.change(copy.0, bytes, 1 + cpu as u8, 0);
                            seat.free_percpu(Addr(object)).unwrap();
                            continue;
                        }
                        let bytes = 1 + random.below(1 << (1 + random.clone().below(12)));
                        let Ok(object) = seat.alloc_percpu(bytes, 8, Context::ANY) else {
                            continue;
                        };
                        let copy = engine.copy_of(object, CpuId(cpu)).unwrap();
                        board.change(copy.0, bytes, 0, 1 + cpu as u8);
                        mine.push((object.0, bytes));
                    }
                    for (object, _) in mine {
                        seat.free_percpu(Addr(object)).unwrap();
                    }
                });
            }
        });
        let mut seat = engine.cpu(CpuId(0)).unwrap();
        seat.purge_percpu();
        let stats = engine.percpu_stats();
        assert_eq!((stats.objects, stats.pages, stats.failures), (0, 0, 0));
        assert_eq!(engine.frame_stats().nr_free_pages, free);
    });
}

#[test]
fn requests_that_make_no_sense_and_units_that_do_not_fit_are_refused() {
    with_engine(|engine, _| {
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        let mut refused = |bytes, align| cpu.alloc_percpu(bytes, align, Context::ANY).unwrap_err();
        assert_eq!(refused(0, 8), KvError::Empty);
        assert_eq!(refused(8, 3), KvError::Align { bytes: 3 });
        assert_eq!(refused(8, 0), KvError::Align { bytes: 0 });
        assert_eq!(refused(8, 8192), KvError::AlignContiguous { bytes: 8192 });
        let bytes = UNIT * Page::BYTES + 1;
        assert_eq!(refused(bytes, 8), KvError::TooLong { bytes });
        assert!(engine.copy_of(Addr(0), CpuId(CPUS)).is_err());
        assert_eq!(engine.percpu_stats().failures, 0);
        // The last pages of the window are the units'.
        assert_eq!(engine.space().pages(), WINDOW - u64::from(CPUS) * UNIT);
    });
    let longest = (WINDOW - 1) / u64::from(CPUS);
    assert!(layout().with_percpu(CPUS, longest).words_needed().is_ok());
    assert!(
        layout()
            .with_percpu(CPUS, longest + 1)
            .words_needed()
            .is_err()
    );
    assert!(layout().with_percpu(CPUS + 1, 1).words_needed().is_err());
    assert!(layout().with_percpu(CPUS, 0).words_needed().is_err());
    // The space that is left ends where it may, and the units past all addresses.
    let end = u64::MAX / Page::BYTES + 1;
    let at_the_end = |pages| {
        EngineLayout::new(Frame(0), FRAMES)
            .with_window(Page(end - 1024), pages)
            .with_objects()
            .with_percpu(1, 512)
            .words_needed()
    };
    assert!(at_the_end(1023).is_ok());
    assert!(at_the_end(1024 + 256).is_err());
    // The first CPUs alone may have units.
    let layout = layout().with_percpu(2, 8);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, UnitBoard::new()).unwrap();
    assert!(engine.copy_of(Addr(0), CpuId(1)).is_ok());
    assert!(engine.copy_of(Addr(0), CpuId(2)).is_err());
    assert_eq!(engine.space().pages(), WINDOW - 16);
}

#[test]
fn an_engine_without_units_refuses_per_cpu_objects() {
    let board = UnitBoard::new();
    let layout = layout().with_percpu(0, 0);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, board).unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let refused = cpu.alloc_percpu(8, 8, Context::ANY);
    assert_eq!(refused, Err(KvError::TooLong { bytes: 8 }));
    let refused = cpu.free_percpu(Addr(8));
    assert_eq!(refused, Err(KvFreeError::Outside(Addr(8))));
    assert_eq!(engine.unit_bytes(), 0);
}

#[test]
fn an_object_that_comes_and_goes_maps_and_flushes_once() {
    with_engine(|engine, board| {
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        for _ in 0..100 {
            let object = cpu.alloc_percpu(64, 64, Context::ANY).unwrap();
            cpu.free_percpu(object).unwrap();
        }
        assert_eq!(board.lock().flushes, 0);
        let stats = engine.percpu_stats();
        assert_eq!((stats.pages, stats.idle_pages, stats.allocs), (1, 1, 100));
    });
}

#[test]
fn an_idle_page_goes_back_for_a_request_that_lacks_it_and_where_frames_are_short() {
    with_engine(|engine, _| {
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        let small = cpu.alloc_percpu(8, 8, Context::ANY).unwrap();
        cpu.free_percpu(small).unwrap();
        assert_eq!(engine.percpu_stats().idle_pages, 1);
        let nowait = cpu.alloc_percpu(engine.unit_bytes(), 8, Context::NOWAIT);
        let waits = Err(KvError::Frames(AllocError::WouldWait));
        assert_eq!(nowait, waits, "it may not flush");
        let whole = cpu
            .alloc_percpu(engine.unit_bytes(), 8, Context::ANY)
            .unwrap();
        cpu.free_percpu(whole).unwrap();

        let small = cpu.alloc_percpu(8, 8, Context::ANY).unwrap();
        let mut hog = vec![];
        while let Ok(frame) = cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY) {
            hog.push(frame);
        }
        cpu.free_percpu(small).unwrap();
        let frames = u64::from(CPUS);
        assert_eq!(engine.percpu_stats().pages, 0);
        assert_eq!(engine.frame_stats().nr_free_pages, frames);
        for frame in hog {
            cpu.free(frame, Order::ZERO).unwrap();
        }
    });
}

/// Takes frames until so many are free.
fn hog(cpu: &mut UnitCpu<'_, '_>, engine: &UnitEngine<'_>, left: u64) -> Vec<Frame> {
    let mut hog = vec![];
    while engine.frame_stats().nr_free_pages > left {
        hog.push(
            cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY)
                .unwrap(),
        );
    }
    hog
}

#[test]
fn a_request_that_must_not_wait_and_lacks_frames_leaves_all_of_them_to_others() {
    with_engine(|engine, board| {
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        let hog = hog(&mut cpu, engine, 40);
        board.lock().must_not_wait = true;
        let run = cpu.alloc_percpu(engine.unit_bytes(), 8, Context::NOWAIT);
        assert!(matches!(run, Err(KvError::Frames(_))), "{run:?}");
        assert_eq!(engine.percpu_stats().stuck_pages, 0);
        assert_eq!(engine.frame_stats().nr_free_pages, 40);
        // Its pages serve the next request, which must not wait either.
        let small = cpu.alloc_percpu(8, 8, Context::NOWAIT).unwrap();
        board.lock().must_not_wait = false;
        cpu.free_percpu(small).unwrap();
        for frame in hog {
            cpu.free(frame, Order::ZERO).unwrap();
        }
    });
}

#[test]
fn of_pages_that_are_half_mapped_only_those_that_were_mapped_are_stuck() {
    with_engine(|engine, board| {
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        // The second page of CPU 1.
        board.lock().map_fails = u32::from(CPUS) + 2;
        let run = cpu.alloc_percpu(5 * Page::BYTES, 8, Context::NOWAIT);
        let refused = Err(KvError::Ranges(RangeError::Map(MapError::NoMemory)));
        assert_eq!(run, refused, "the platform's reason stays");
        assert_eq!(engine.percpu_stats().stuck_pages, 2);
        engine.verify().unwrap();
        cpu.purge_percpu();
        assert_eq!(engine.percpu_stats().stuck_pages, 0);
        assert_eq!(board.lock().flushes, 1, "one flush serves several pages");
    });
}

#[test]
fn a_page_that_is_never_unmapped_holds_no_other_back() {
    with_engine(|engine, board| {
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        let free = engine.frame_stats().nr_free_pages;
        let page = |cpu: &mut UnitCpu<'_, '_>| cpu.alloc_percpu(4096, 8, Context::ANY).unwrap();
        let objects: Vec<Addr> = (0..20).map(|_| page(&mut cpu)).collect();
        for object in &objects {
            board.lock().unmap_fails = 1;
            cpu.free_percpu(*object).unwrap();
        }
        assert_eq!(engine.percpu_stats().stuck_pages, 20);
        for object in &objects {
            board.lock().held = Some(object.0 / Page::BYTES - START);
            let whole = cpu.alloc_percpu(engine.unit_bytes(), 8, Context::ANY);
            assert!(whole.is_err());
            assert_eq!(engine.percpu_stats().stuck_pages, 1);
            engine.verify().unwrap();
            // Stuck again, in any order.
            board.lock().held = None;
            let others: Vec<Addr> = (0..19).map(|_| page(&mut cpu)).collect();
            for other in others {
                board.lock().unmap_fails = 1;
                cpu.free_percpu(other).unwrap();
            }
            assert_eq!(engine.percpu_stats().stuck_pages, 20);
        }
        cpu.purge_percpu();
        assert_eq!(engine.frame_stats().nr_free_pages, free);
    });
}

#[test]
fn a_request_counts_once_and_finds_what_areas_and_objects_keep() {
    with_engine(|engine, _| {
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        let areas: Vec<Page> = (0..8)
            .map(|_| cpu.vmalloc(&AreaRequest::new(1)).unwrap())
            .collect();
        let objects: Vec<Addr> = (0..200)
            .map(|_| cpu.kmalloc(&KvRequest::new(512)).unwrap())
            .collect();
        let hogged = hog(&mut cpu, engine, 0);
        areas
            .into_iter()
            .for_each(|page| _ = cpu.vfree(page).unwrap());
        objects
            .into_iter()
            .for_each(|object| _ = cpu.kvfree(object).unwrap());
        let more = engine.frame_stats().nr_free_pages;
        let rest = hog(&mut cpu, engine, 0);
        let waits = cpu.alloc_percpu(8, 8, Context::NOWAIT);
        assert!(
            matches!(waits, Err(KvError::Frames(_))),
            "{waits:?}, {more}"
        );
        assert_eq!(engine.percpu_stats().failures, 1);
        let object = cpu.alloc_percpu(8, 8, Context::ANY).unwrap();
        assert_eq!(engine.percpu_stats().failures, 1);
        let whole = cpu.alloc_percpu(engine.unit_bytes() - Page::BYTES, 8, Context::ANY);
        assert!(matches!(whole, Err(KvError::Frames(_))), "{whole:?}");
        assert_eq!(engine.percpu_stats().failures, 2);
        cpu.free_percpu(object).unwrap();
        for frame in hogged.into_iter().chain(rest) {
            cpu.free(frame, Order::ZERO).unwrap();
        }
    });
}

#[test]
fn pages_without_an_object_go_back_with_one_flush() {
    with_engine(|engine, board| {
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        let objects = [0; 7].map(|_| cpu.alloc_percpu(1500, 8, Context::ANY).unwrap());
        for object in objects {
            cpu.free_percpu(object).unwrap();
        }
        assert_eq!(engine.percpu_stats().idle_pages, 4);
        // A page's object takes an idle page, and needs no free one.
        board.lock().must_not_wait = true;
        let page = cpu.alloc_percpu(4096, 4096, Context::NOWAIT).unwrap();
        board.lock().must_not_wait = false;
        assert_eq!(engine.percpu_stats().idle_pages, 3);
        cpu.free_percpu(page).unwrap();
        let flushes = board.lock().flushes;
        cpu.purge_percpu();
        assert_eq!(board.lock().flushes, flushes + 1);
        assert_eq!(engine.percpu_stats().pages, 0);
    });
}

/// A part changes the states of 128 pages under the lock, or moves 16 frames.
#[test]
fn a_long_object_lets_interrupts_in_between_its_parts() {
    const PAGES: u64 = 1024;
    let board = UnitBoard::new();
    {
        let mut board = board.lock();
        board.table = vec![0; PAGES as usize + 16];
        board.bytes = vec![0; 2 * (PAGES * Page::BYTES) as usize];
    }
    let layout = EngineLayout::new(Frame(0), 2 * PAGES)
        .with_window(Page(START), PAGES + 16)
        .with_objects()
        .with_percpu(1, PAGES);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, board.clone()).unwrap();
    engine.add(Run::new(Frame(0), 2 * PAGES).unwrap()).unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let bytes = PAGES * Page::BYTES;
    let states = PAGES / 128 - 1;
    let frames = PAGES / 16;
    let object = cpu.alloc_percpu(bytes, 8, Context::ANY).unwrap();
    // Taken, given frames, mapped, made an object, zeroed.
    let least = 2 * states + 3 * frames - 1;
    let windows = std::mem::take(&mut board.lock().windows);
    assert!(windows >= least, "{windows} of {least}");
    cpu.free_percpu(object).unwrap();
    // An object no more, unmapped, without frames, free.
    let least = 2 * states + 2 * frames;
    let windows = std::mem::take(&mut board.lock().windows);
    assert!(windows >= least, "{windows} of {least}");
    engine.verify().unwrap();
}
