//! A platform with page tables takes their frames from the seat that maps, and maps for the access that was asked for.

use super::*;
use crate::frame::{AllocError, FrameSource, Seat, tables_of};
use crate::kv::{KvError, KvFreeError, KvRequest};
use crate::platform::TableSource;
use crate::reclaim::{Ask, Shrink, Shrunk};
use crate::units::PageAccess;
use crate::vrange::{RangeError, RangeFreeError};
use std::cell::Cell;

/// The pages of one page table.
const TABLE_PAGES: u64 = 64;

/// A board with page tables, and the access of each page.
#[derive(Clone, Default)]
struct TabledBoard {
    board: TestBoard,
    tables: Rc<RefCell<BTreeMap<u64, Frame>>>,
    access: Rc<RefCell<BTreeMap<u64, PageAccess>>>,
}

impl TabledBoard {
    fn bring(&self, at: Page, pages: u64, source: &mut impl TableSource) -> Result<(), MapError> {
        let mut brought = Vec::new();
        for number in at.0 / TABLE_PAGES..=(at.0 + pages - 1) / TABLE_PAGES {
            if self.tables.borrow().contains_key(&number) {
                continue;
            }
            let Some(frame) = source.take_table() else {
                brought
                    .into_iter()
                    .for_each(|(_, frame)| source.give_back(frame));
                return Err(MapError::NoMemory);
            };
            brought.push((number, frame));
        }
        self.tables.borrow_mut().extend(brought);
        Ok(())
    }

    fn tables(&self) -> u64 {
        self.tables.borrow().len() as u64
    }
}

impl FramePlatform for TabledBoard {}

impl RangePlatform for TabledBoard {
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.bring(at, frames.frames(), tables)?;
        let pages = at.0..at.0 + frames.frames();
        let mut all = self.access.borrow_mut();
        all.extend(pages.map(|page| (page, access)));
        self.board.map(at, frames, access, tables)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.board.unmap(range)
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

impl ObjectPlatform for TabledBoard {
    fn direct_base(&self) -> Addr {
        Addr(1 << 40)
    }

    fn zero_bytes(&self, at: Addr, _bytes: u64) {
        let access = self.access.borrow();
        let is_read_only = |access: &PageAccess| !access.is_writable();
        assert!(!access.get(&at.page().0).is_some_and(is_read_only));
    }

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

/// A holder of one frame.
struct HeldFrame(Cell<Option<Frame>>);

impl Shrink<Seat<'_, '_, TabledBoard>> for HeldFrame {
    fn holding(&self) -> u64 {
        u64::from(self.0.get().is_some())
    }

    fn shrink(&self, frames: &mut Seat<'_, '_, TabledBoard>, _ask: &Ask) -> Shrunk {
        let freed = self.0.take().map(|frame| frames.free(frame, Order::ZERO));
        let freed = u64::from(freed == Some(Ok(())));
        Shrunk { scanned: 1, freed }
    }
}

fn layout(ranges: RangeConfig) -> EngineLayout<KvLayout> {
    EngineLayout::new(Frame(0), FRAMES)
        .with_window(Page(1 << 20), 8192)
        .with_range_config(ranges)
        .with_objects()
        .with_percpu(1, 256)
}

#[test]
fn each_kind_of_mapping_takes_its_tables_from_the_calling_seat() {
    let board = TabledBoard::default();
    let layout = layout(RangeConfig::default());
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, board.clone()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let free = || engine.frame_stats().nr_free_pages;
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let mut expected = FRAMES;
    let mut tables = 0;
    let mut is_counted = |frames: u64, free: u64, what: &str| {
        let now = board.tables();
        assert!(now > tables, "{what} needs a table");
        expected -= now - tables;
        tables = now;
        assert_eq!(free, expected - frames, "{what}");
    };
    let area = cpu.vmalloc(&AreaRequest::new(200)).unwrap();
    is_counted(200, free(), "vmalloc");
    cpu.vfree(area).unwrap();
    cpu.drain();
    let ram: Vec<_> = (0..300).map(|nth| Frame(nth * 2)).collect();
    let at = cpu.map_ram(&ram, Context::ANY).unwrap();
    is_counted(0, free(), "map_ram");
    cpu.unmap_ram(at, 300).unwrap();
    let object = cpu.alloc_percpu(64, 8, Context::ANY).unwrap();
    is_counted(1, free(), "alloc_percpu");
    cpu.free_percpu(object).unwrap();
    cpu.drain();
    engine.verify().unwrap();
    assert_eq!(free(), FRAMES - board.tables(), "tables stay");
}

#[test]
fn without_a_frame_for_a_table_nothing_is_mapped_and_none_is_lost() {
    let board = TabledBoard::default();
    let layout = layout(RangeConfig::default());
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, board.clone()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let no_table = Err(RangeError::Map(MapError::NoMemory));
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let all: Vec<_> = (0..FRAMES)
        .map(|_| cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY))
        .map(Result::unwrap)
        .collect();
    for context in [Context::ANY, Context::NOWAIT] {
        assert_eq!(cpu.map_ram(&[Frame(7)], context), no_table);
        // One frame for two tables.
        cpu.free(all[0], Order::ZERO).unwrap();
        let many = cpu
            .ranges()
            .ioremap(run(1 << 30, 100), PageAccess::DATA, context);
        assert_eq!(many, no_table);
        assert_eq!(engine.frame_stats().nr_free_pages, 1);
        let back = cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY);
        assert_eq!(back, Ok(all[0]));
    }
    assert!(board.board.0.mapped.borrow().is_empty());
    engine.verify().unwrap();
    // A client has one.
    drop(cpu);
    let client = HeldFrame(Cell::new(Some(all[1])));
    let clients: [&dyn Shrink<_>; 1] = [&client];
    let mut cpu = engine.cpu(CpuId(0)).unwrap().with_shrinkers(&clients);
    let at = cpu.map_ram(&[Frame(7)], Context::ANY).unwrap();
    assert_eq!((board.tables(), client.0.get()), (1, None));
    cpu.unmap_ram(at, 1).unwrap();
    engine.verify().unwrap();
}

#[test]
fn v14_each_request_is_mapped_for_its_access() {
    for ranges in [RangeConfig::default(), RangeConfig::default().kept()] {
        let layout = layout(ranges);
        let board = TabledBoard::default();
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let engine = Engine::new(&layout, &mut memory, board.clone()).unwrap();
        engine.add(run(0, FRAMES)).unwrap();
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        let access = |page: Page| board.access.borrow()[&page.0];
        for _ in 0..20 {
            for wanted in [PageAccess::DATA, PageAccess::READ, PageAccess::TEXT] {
                let request = AreaRequest::new(3).mapped_for(wanted);
                let areas: Vec<_> = (0..3).map(|_| cpu.vmalloc(&request).unwrap()).collect();
                for area in areas {
                    assert_eq!(access(area), wanted);
                    cpu.vfree(area).unwrap();
                    engine.verify().unwrap();
                }
            }
        }
        // A device's frames, which no zone has.
        let device = run(1 << 35, 300);
        let at = cpu.ioremap(device, PageAccess::DEVICE, Context::ANY);
        let at = at.unwrap();
        assert_eq!(access(Page(at.0 + 299)), PageAccess::DEVICE);
        let behind = board.board.0.mapped.borrow()[&(at.0 + 299)];
        assert_eq!(behind, Frame((1 << 35) + 299));
        cpu.unmap_ram(at, 300).unwrap();
        let nothing = cpu.vmap(&[], PageAccess::READ, Context::ANY);
        assert_eq!(nothing, Err(RangeError::Empty));
        cpu.drain();
        engine.verify().unwrap();
    }
}

/// A holder of frames, which gives as many as it is asked for, but at most `most` at each ask.
struct TableHolder {
    frames: RefCell<Vec<Frame>>,
    asks: RefCell<Vec<u64>>,
    most: u64,
    /// Whether it first takes all that is free, as other CPUs' requests may.
    takes: bool,
}

impl Shrink<Seat<'_, '_, TabledBoard>> for TableHolder {
    fn holding(&self) -> u64 {
        self.frames.borrow().len() as u64
    }

    fn shrink(&self, frames: &mut Seat<'_, '_, TabledBoard>, ask: &Ask) -> Shrunk {
        self.asks.borrow_mut().push(ask.wanted);
        while self.takes
            && let Ok(frame) = frames.alloc(Order::ZERO, Mobility::Movable)
        {
            self.frames.borrow_mut().push(frame);
        }
        let mut freed = 0;
        while freed < ask.wanted.min(self.most)
            && let Some(frame) = self.frames.borrow_mut().pop()
        {
            frames.free(frame, Order::ZERO).unwrap();
            freed += 1;
        }
        Shrunk {
            scanned: freed.max(1),
            freed,
        }
    }
}

/// Runs `test` with an engine of which a client has all frames. It gives at most so many at each ask, and takes all that is free first,
/// or not.
fn with_all_held(
    layout: &EngineLayout<KvLayout>,
    (most, takes): (u64, bool),
    test: impl FnOnce(&mut crate::engine::Cpu<'_, '_, TabledBoard>, &TableHolder, &TabledBoard),
) {
    let board = TabledBoard::default();
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(layout, &mut memory, board.clone()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let mut held = Vec::new();
    while let Ok(frame) = cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY) {
        held.push(frame);
    }
    drop(cpu);
    let client = TableHolder {
        frames: RefCell::new(held),
        asks: RefCell::default(),
        most,
        takes,
    };
    let clients: [&dyn Shrink<_>; 1] = [&client];
    let mut cpu = engine.cpu(CpuId(0)).unwrap().with_shrinkers(&clients);
    test(&mut cpu, &client, &board);
    engine.verify().unwrap();
}

#[test]
fn each_kind_of_mapping_asks_clients_for_frames_of_tables() {
    let layout = layout(RangeConfig::default());
    for kind in 0..3 {
        for pages in [1, 2000] {
            with_all_held(&layout, (u64::MAX, false), |cpu, client, board| {
                let frames: Vec<_> = (0..pages).map(|nth| Frame(nth * 2)).collect();
                let at = match kind {
                    0 => cpu.map_ram(&frames, Context::ANY),
                    1 => cpu.vmap(&frames, PageAccess::READ, Context::ANY),
                    _ => cpu.ioremap(run(1 << 30, pages), PageAccess::DEVICE, Context::ANY),
                };
                // One ask, of as many as the pages need.
                assert_eq!(*client.asks.borrow(), [8 + pages / 256]);
                if pages == 1 {
                    assert_eq!(board.tables(), 1);
                    cpu.unmap_ram(at.unwrap(), pages).unwrap();
                }
            });
        }
    }
}

#[test]
fn objects_of_all_cpus_ask_clients_for_frames_of_tables() {
    let layout = EngineLayout::new(Frame(0), FRAMES)
        .with_cpus(4)
        .with_window(Page(1 << 20), 8192)
        .with_objects()
        .with_percpu(4, 256);
    with_all_held(&layout, (u64::MAX, false), |cpu, client, board| {
        let object = cpu.alloc_percpu(64, 8, Context::ANY).unwrap();
        // A frame for each CPU at first; then these were there, and tables were not.
        assert_eq!(*client.asks.borrow(), [4, 4 * 4]);
        assert_eq!(board.tables(), 4);
        cpu.free_percpu(object).unwrap();
    });
}

#[test]
fn a_request_asks_clients_once_for_each_kind_of_frames() {
    let layout = layout(RangeConfig::default());
    with_all_held(&layout, (1, false), |cpu, client, _| {
        let refused = cpu.vmalloc(&AreaRequest::new(100));
        assert!(matches!(refused, Err(RangeError::Frames(_))), "{refused:?}");
        // Each round of one ask wants less by what came.
        let asks = client.asks.borrow();
        assert_eq!(asks[0], 100);
        assert!(asks.is_sorted_by(|first, next| first > next), "{asks:?}");
    });
}

#[test]
fn a_request_that_lacks_now_frames_and_now_tables_asks_clients_twice() {
    let layout = layout(RangeConfig::default());
    with_all_held(&layout, (u64::MAX, true), |cpu, client, _| {
        let refused = cpu.vmalloc(&AreaRequest::new(100));
        assert!(matches!(refused, Err(RangeError::Frames(_))), "{refused:?}");
        // A hundred frames, and no more for a table; then frames for tables, and no others.
        assert_eq!(*client.asks.borrow(), [100, 8]);
    });
}

#[test]
fn an_area_of_memory_is_cached() {
    for ranges in [RangeConfig::default(), RangeConfig::default().kept()] {
        let layout = layout(ranges);
        let board = TabledBoard::default();
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let engine = Engine::new(&layout, &mut memory, board.clone()).unwrap();
        engine.add(run(0, FRAMES)).unwrap();
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        for access in [PageAccess::DEVICE, PageAccess::READ.write_combining()] {
            let refused = cpu.vmalloc(&AreaRequest::new(2).mapped_for(access));
            assert_eq!(refused, Err(RangeError::Caching(access)));
            let at = cpu.vmap(&[Frame(7)], access, Context::ANY).unwrap();
            assert_eq!(board.access.borrow()[&at.0], access);
            cpu.unmap_ram(at, 1).unwrap();
        }
        engine.verify().unwrap();
    }
}

#[test]
fn an_area_of_another_access_is_no_object_that_changes_its_length() {
    for ranges in [RangeConfig::default(), RangeConfig::default().kept()] {
        let layout = layout(ranges);
        let board = TabledBoard::default();
        let mut memory = vec![0; layout.words_needed().unwrap()];
        let engine = Engine::new(&layout, &mut memory, board.clone()).unwrap();
        engine.add(run(0, FRAMES)).unwrap();
        let mut cpu = engine.cpu(CpuId(0)).unwrap();
        // Areas that were freed serve later requests, each for its own access.
        for access in [PageAccess::READ, PageAccess::DATA, PageAccess::ALL].repeat(300) {
            let request = AreaRequest::new(2).zeroed().mapped_for(access);
            let page = cpu.vmalloc(&request).unwrap();
            let addr = Addr(page.0 * Page::BYTES);
            for bytes in [5000, 50_000] {
                let request = KvRequest::new(bytes).zeroed();
                let changed = cpu.objects().kvrealloc(addr, &request);
                if access == PageAccess::DATA {
                    assert!(changed.is_ok());
                    cpu.kvfree(changed.unwrap()).unwrap();
                    break;
                }
                let error = KvFreeError::Ranges(RangeFreeError::WrongKind(page));
                assert_eq!(changed, Err(KvError::Free(error)));
                assert_eq!(cpu.objects().kvsize(addr), Ok(2 * Page::BYTES));
            }
            if access != PageAccess::DATA {
                assert_eq!(cpu.vfree(page), Ok(2));
            }
        }
        engine.verify().unwrap();
        assert_ne!(engine.space().stats().kept_takes, 0);
    }
}

#[test]
fn a_source_that_gives_more_or_nothing_gives_one_table_or_none() {
    struct WrongLength(u64, Vec<Run>);
    impl FrameSource for WrongLength {
        fn origin(&self) -> u64 {
            1
        }

        fn frames_in_all(&self) -> u64 {
            8
        }

        fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
            Ok(run(8, self.0))
        }

        fn free_run(&mut self, frames: Run) {
            self.1.push(frames);
        }
    }
    for (given, table, back) in [
        (4, Some(Frame(8)), vec![run(9, 3)]),
        (1, Some(Frame(8)), vec![]),
        (0, None, vec![]),
    ] {
        let mut source = WrongLength(given, Vec::new());
        let taken = tables_of(&mut source, Context::ANY).take_table();
        assert_eq!((taken, source.1), (table, back));
    }
}

#[test]
fn a_frame_that_is_no_table_is_refused() {
    let layout = layout(RangeConfig::default());
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut memory, TabledBoard::default()).unwrap();
    engine.add(run(0, FRAMES)).unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let mut tables = tables_of(cpu.frames(), Context::ANY);
    let frame = tables.take_table().unwrap();
    assert!(!tables.try_give_back(Frame(FRAMES)));
    assert!(tables.try_give_back(frame));
    assert!(!tables.try_give_back(frame));
    drop(tables);
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
}
