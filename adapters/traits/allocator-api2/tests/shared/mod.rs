//! A board whose RAM is memory of this process.

use framewright::engine::{Engine, EngineLayout};
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform};
use framewright::{Addr, Context, CpuId, Frame, Page, PageRange, Run};
use framewright_objects::EngineObjects;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

pub(crate) const FRAMES: u64 = 4096;
const FIRST: u64 = 0x400;

/// Its direct map. Nothing is ever mapped beside it, so objects are contiguous ones.
#[derive(Clone, Copy)]
pub(crate) struct Board(u64);

impl FramePlatform for Board {}

impl RangePlatform for Board {
    fn map(&self, _at: Page, _frames: Run, _context: Context) -> Result<(), MapError> {
        Err(MapError::NoMemory)
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, frames: Run) {
        self.zero_bytes(
            Addr(self.0 + frames.start().0 * 4096),
            frames.frames() * 4096,
        );
    }
}

impl ObjectPlatform for Board {
    fn direct_base(&self) -> Addr {
        Addr(self.0)
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        // SAFETY: the engine names bytes of its frames, which are this process's memory.
        unsafe {
            std::ptr::with_exposed_provenance_mut::<u8>(at.0 as usize)
                .write_bytes(0, bytes as usize)
        };
    }

    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64) {
        let from = std::ptr::with_exposed_provenance::<u8>(from.0 as usize);
        let to = std::ptr::with_exposed_provenance_mut::<u8>(to.0 as usize);
        // SAFETY: as above, of two objects.
        unsafe { from.copy_to_nonoverlapping(to, bytes as usize) };
    }
}

/// An engine over such a board, for ever.
pub(crate) fn engine() -> &'static Engine<'static, Board> {
    let layout = Layout::from_size_align((FRAMES * 4096) as usize, 1 << 22).unwrap();
    // SAFETY: the layout has bytes.
    let ram = unsafe { alloc_zeroed(layout) };
    if ram.is_null() {
        handle_alloc_error(layout);
    }
    let board = Board(ram.expose_provenance() as u64 - FIRST * 4096);
    let layout = EngineLayout::new(Frame(FIRST), FRAMES)
        .with_window(Page::of_address(0xffff_c900_0000_0000), 1 << 16)
        .with_objects();
    let metadata = vec![0; layout.words_needed().unwrap()].leak();
    let engine = Engine::new(&layout, metadata, board).unwrap();
    engine.add(Run::new(Frame(FIRST), FRAMES).unwrap()).unwrap();
    Box::leak(Box::new(engine))
}

/// Objects by way of its one CPU.
pub(crate) fn objects(
    engine: &'static Engine<'static, Board>,
) -> EngineObjects<'static, 'static, Board> {
    EngineObjects::new(engine, CpuId(0)).unwrap()
}
