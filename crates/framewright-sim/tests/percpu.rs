//! Per-CPU objects against a slow model: where each object lies, what is behind each copy, and what its bytes hold.
//!
//! What must never be seen: two objects that share a byte, two copies that share a frame, a copy that is not mapped or not
//! zero when it is handed out, bytes that change under an object, a frame that goes back while a page or a stale
//! translation reaches it, a request that must not wait and flushes, an error that changes what is allocated, a frame that
//! is lost.
#![cfg(not(any(shuttle, loom)))]

use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::AllocError;
use framewright::kv::{KvError, KvFreeError, KvLayout};
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform};
use framewright::vrange::RangeError;
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Page, PageRange, Run};
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
    must_not_wait: bool,
    flushes: u64,
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
            must_not_wait: false,
            flushes: 0,
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
    fn map(&self, at: Page, frames: Run, _context: Context) -> Result<(), MapError> {
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
        for page in range.start().0 - START..range.end().0 - START {
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
        assert!(nowait.is_err(), "it may not flush");
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
