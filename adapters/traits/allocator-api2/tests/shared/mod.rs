//! An engine over a board.

#[path = "../../../board.rs"]
mod board;

pub(crate) use board::DirectBoard;
use framewright::engine::{Engine, EngineLayout};
use framewright::{CpuId, Frame, Page, Run};
use framewright_objects::EngineObjects;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

pub(crate) const FRAMES: u64 = 4096;
const FIRST: u64 = 0x400;

/// An engine over such a board, for ever.
pub(crate) fn engine() -> &'static Engine<'static, DirectBoard> {
    let layout = Layout::from_size_align((FRAMES * 4096) as usize, 1 << 22).unwrap();
    // SAFETY: the layout has bytes.
    let ram = unsafe { alloc_zeroed(layout) };
    if ram.is_null() {
        handle_alloc_error(layout);
    }
    let board = DirectBoard(ram.expose_provenance() as u64 - FIRST * 4096);
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
    engine: &'static Engine<'static, DirectBoard>,
) -> EngineObjects<'static, 'static, DirectBoard> {
    EngineObjects::new(engine, CpuId(0)).unwrap()
}
