//! What a handler may do where a long call lets interrupts in: everything, with seats of another number.

use super::*;
use std::boxed::Box;
use std::cell::Cell;

type InterruptHandler = Box<dyn FnMut()>;

/// A board on which each window is an interrupt: its handler makes every kind of call, and then looks at the whole
/// engine. The board's waits panic, so a seat that is busy there, or a lock that is held, is found at once.
#[derive(Clone, Default)]
struct WindowBoard {
    board: TestBoard,
    /// How many interrupts came, and what their handler does, if it is not running.
    came: Rc<Cell<u64>>,
    handler: Rc<RefCell<Option<InterruptHandler>>>,
}

impl FramePlatform for WindowBoard {
    const ASYMMETRIC: bool = true;

    fn relax(&self, attempt: u32) {
        self.board.relax(attempt);
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for WindowBoard {
    fn map(
        &self,
        at: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        self.board.map(at, frames, access, tables)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.board.unmap(range)
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}

    fn interrupt_window(&self) {
        let handler = self.handler.borrow_mut().take();
        if let Some(mut handler) = handler {
            self.came.set(self.came.get() + 1);
            handler();
            *self.handler.borrow_mut() = Some(handler);
        }
    }
}

impl ObjectPlatform for WindowBoard {
    fn direct_base(&self) -> Addr {
        self.board.direct_base()
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

/// EN5: no seat is busy and no lock is held where a long call lets interrupts in.
fn handlers_work_in_windows(ranges: RangeConfig) {
    let layout = EngineLayout::new(Frame(0), FRAMES)
        .with_cpus(2)
        .with_window(Page(1 << 20), 32768)
        .with_range_config(ranges)
        .with_objects();
    let board = WindowBoard::default();
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let engine = Engine::new(&layout, memory, board.clone()).unwrap();
    let engine: &'static _ = Box::leak(Box::new(engine));
    engine.add(run(0, FRAMES)).unwrap();
    let mut other = engine.cpu(CpuId(1)).unwrap();
    *board.handler.borrow_mut() = Some(Box::new(move || {
        let frame = other.alloc(Order::ZERO, Mobility::Movable, Context::ANY);
        other.free(frame.unwrap(), Order::ZERO).unwrap();
        let area = other.vmalloc(&AreaRequest::new(20).zeroed()).unwrap();
        let object = other.kmalloc(&KvRequest::new(100)).unwrap();
        let alias = other.map_ram(&[Frame(1), Frame(3)], Context::ANY).unwrap();
        other.unmap_ram(alias, 2).unwrap();
        other.kvfree(object).unwrap();
        other.vfree(area).unwrap();
        other.objects().drain();
        other.ranges().drain();
        engine.verify().unwrap();
    }));

    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let came = |what: &str| assert!(board.came.replace(0) > 0, "{what}");
    // Each second frame is taken, so that nothing comes in long runs.
    let single = Context::ANY;
    let frames: Vec<_> = (0..FRAMES * 3 / 4)
        .map(|_| cpu.alloc(Order::ZERO, Mobility::Movable, single).unwrap())
        .collect();
    for frame in frames.iter().step_by(2) {
        cpu.free(*frame, Order::ZERO).unwrap();
    }
    for pages in [300, 60] {
        let request = AreaRequest::new(pages).zeroed();
        let areas: Vec<_> = (0..3).map(|_| cpu.vmalloc(&request).unwrap()).collect();
        came("zeroing and mapping");
        for area in areas {
            cpu.vfree(area).unwrap();
        }
        cpu.ranges().purge();
        came("a purge");
    }
    let areas: Vec<_> = (0..40)
        .map(|_| cpu.vmalloc(&AreaRequest::new(15)).unwrap())
        .collect();
    areas
        .into_iter()
        .for_each(|area| assert_eq!(cpu.vfree(area), Ok(15)));
    cpu.ranges().drain();
    came("a drain");
    let bytes = 200 * Page::BYTES;
    let object = cpu.kvmalloc(&KvRequest::new(bytes).zeroed()).unwrap();
    came("zeroing an object");
    let larger = KvRequest::new(2 * bytes).zeroed();
    let object = cpu.objects().kvrealloc(object, &larger).unwrap();
    came("copying an object");
    cpu.kvfree(object).unwrap();
    for frame in frames.iter().skip(1).step_by(2) {
        cpu.free(*frame, Order::ZERO).unwrap();
    }
    cpu.objects().drain();
    cpu.ranges().drain();
    engine.verify().unwrap();
    drop(cpu);
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
}

#[test]
fn en5_handlers_work_in_windows_of_a_strict_space() {
    handlers_work_in_windows(RangeConfig::for_cpus(2));
}

#[test]
fn en5_handlers_work_in_windows_of_a_space_that_keeps() {
    handlers_work_in_windows(RangeConfig::for_cpus(2).kept());
}
