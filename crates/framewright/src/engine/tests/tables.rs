//! A platform with page tables takes their frames from the seat that maps, and maps for the access that was asked for.

use super::*;
use crate::frame::Seat;
use crate::platform::TableSource;
use crate::reclaim::{Ask, Shrink, Shrunk};
use crate::units::PageAccess;
use crate::vrange::RangeError;
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

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

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
        let at = cpu
            .ranges()
            .ioremap(device, PageAccess::DEVICE, Context::ANY);
        let at = at.unwrap();
        assert_eq!(access(Page(at.0 + 299)), PageAccess::DEVICE);
        let behind = board.board.0.mapped.borrow()[&(at.0 + 299)];
        assert_eq!(behind, Frame((1 << 35) + 299));
        cpu.unmap_ram(at, 300).unwrap();
        let nothing = cpu.ranges().vmap(&[], PageAccess::READ, Context::ANY);
        assert_eq!(nothing, Err(RangeError::Empty));
        cpu.drain();
        engine.verify().unwrap();
    }
}
