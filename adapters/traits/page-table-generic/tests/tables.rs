//! Tables of the crate `page-table-generic` in memory of this process, in which the engine's frames lie.

use framewright::engine::{Engine, EngineLayout};
use framewright::frame::FreeError;
use framewright::platform::FramePlatform;
use framewright::{Addr, CpuId, Frame, Run};
use framewright_table_frames::TableFrames;
use page_table_generic::{
    FrameAllocator, PageTable, PageTableEntry, PagingError, PhysAddr, TableMeta, VirtAddr,
};
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

const FIRST: u64 = 0x300;
const FRAMES: u64 = 2048;

#[derive(Clone, Copy)]
struct FramesBoard;

impl FramePlatform for FramesBoard {}

type FramesEngine = Engine<'static, FramesBoard, ()>;

/// An engine, and its frames for tables.
fn board() -> (&'static FramesEngine, &'static TableFrames<FramesBoard>) {
    let ram = Layout::from_size_align((FRAMES * 4096) as usize, 1 << 21).unwrap();
    // SAFETY: the layout has bytes.
    let ram_at = unsafe { alloc_zeroed(ram) };
    if ram_at.is_null() {
        handle_alloc_error(ram);
    }
    let layout: EngineLayout<()> = EngineLayout::new(Frame(FIRST), FRAMES);
    let metadata = vec![0; layout.words_needed().unwrap()].leak();
    let engine: &FramesEngine = Box::leak(Box::new(
        Engine::new(&layout, metadata, FramesBoard).unwrap(),
    ));
    engine.add(Run::new(Frame(FIRST), FRAMES).unwrap()).unwrap();
    let direct_map = Addr(ram_at.expose_provenance() as u64 - FIRST * 4096);
    let frames = TableFrames::new(engine, CpuId(0), direct_map).unwrap();
    (engine, Box::leak(Box::new(frames)))
}

/// An entry as on x86-64: present, large, and the address.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
struct Entry(u64);

impl PageTableEntry for Entry {
    type PteConfig = u64;

    fn new_page(at: PhysAddr, config: u64, is_huge: bool) -> Self {
        Self(at.as_usize() as u64 | config | 1 | u64::from(is_huge) << 7)
    }

    fn new_table(at: PhysAddr) -> Self {
        Self(at.as_usize() as u64 | 1)
    }

    fn paddr(&self, _is_dir: bool) -> PhysAddr {
        PhysAddr::from_usize((self.0 & 0x000f_ffff_ffff_f000) as usize)
    }

    fn config(&self, _is_dir: bool) -> u64 {
        self.0 & 2
    }

    fn present(&self) -> bool {
        self.0 & 1 != 0
    }

    fn huge(&self, is_dir: bool) -> bool {
        is_dir && self.0 & 1 << 7 != 0
    }

    fn unused(&self) -> bool {
        self.0 == 0
    }

    fn clear(&mut self) {
        self.0 = 0;
    }
}

/// Four levels, as on x86-64.
#[derive(Clone, Copy)]
struct Four;

impl TableMeta for Four {
    type P = Entry;
    const PAGE_SIZE: usize = 4096;
    const LEVEL_BITS: &'static [usize] = &[9, 9, 9, 9];
    const MAX_BLOCK_LEVEL: usize = 3;

    fn flush(_at: Option<VirtAddr>) {}
}

/// A top table of four frames, as RISC-V has for guests.
#[derive(Clone, Copy)]
struct Wide;

impl TableMeta for Wide {
    type P = Entry;
    const PAGE_SIZE: usize = 4096;
    const LEVEL_BITS: &'static [usize] = &[11, 9, 9];
    const MAX_BLOCK_LEVEL: usize = 3;

    fn flush(_at: Option<VirtAddr>) {}
}

fn is_whole(engine: &FramesEngine, frames: &TableFrames<FramesBoard>) {
    assert_eq!(frames.refused(), None);
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
    engine.verify().unwrap();
}

#[test]
fn pages_of_two_sizes_are_mapped_and_all_tables_come_back() {
    let (engine, frames) = board();
    let mut table = PageTable::<Four, _>::new(frames).unwrap();
    for n in 0..300_usize {
        // A table of its own for each two.
        let at = 0x1000_0000 + n * 0x10_0000;
        table
            .map_page(at.into(), (n * 4096).into(), 4096, 2)
            .unwrap();
    }
    table
        .map_page(0x8000_0000.into(), 0x4000_0000.into(), 2 << 20, 2)
        .unwrap();
    assert!(engine.frame_stats().nr_free_pages < FRAMES - 150);
    let at = table
        .translate_phys((0x1000_0000 + 7 * 0x10_0000 + 9).into())
        .unwrap();
    assert_eq!(at.as_usize(), 7 * 4096 + 9);
    let at = table
        .translate_phys((0x8000_0000 + 0x12_3456).into())
        .unwrap();
    assert_eq!(at.as_usize(), 0x4012_3456);
    table.unmap_page(0x1000_0000.into()).unwrap();
    assert!(table.translate_phys(0x1000_0000.into()).is_err());
    drop(table);
    is_whole(engine, frames);
}

#[test]
fn a_top_table_of_several_frames_is_one_block() {
    let (engine, frames) = board();
    let mut table = PageTable::<Wide, _>::new(frames).unwrap();
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES - 4);
    assert_eq!(table.root_paddr().as_usize() % (4 * 4096), 0);
    table
        .map_page(0x1f0_0000_0000.into(), 0x9000.into(), 4096, 2)
        .unwrap();
    assert_eq!(
        table
            .translate_phys(0x1f0_0000_0008.into())
            .unwrap()
            .as_usize(),
        0x9008
    );
    drop(table);
    is_whole(engine, frames);
}

#[test]
fn a_map_without_frames_is_an_error_and_changes_nothing() {
    let (engine, frames) = board();
    let mut table = PageTable::<Four, _>::new(frames).unwrap();
    let mut all = Vec::new();
    while let Some(frame) = (&frames).alloc_frame() {
        all.push(frame);
    }
    let failed = table.map_page(0x1000_0000.into(), 0x1000.into(), 4096, 2);
    assert_eq!(failed, Err(PagingError::NoMemory));
    assert_eq!((&frames).alloc_frames(4, 1 << 14), None);
    for frame in all {
        (&frames).dealloc_frame(frame);
    }
    drop(table);
    is_whole(engine, frames);
}

#[test]
fn runs_of_any_length_and_wrong_frees() {
    let (engine, frames) = board();
    let run = (&frames).alloc_frames(3, 16 << 12).unwrap();
    assert_eq!(run.as_usize() % (16 << 12), 0);
    (&frames).dealloc_frames(run, 3, 4096);
    is_whole(engine, frames);
    (&frames).dealloc_frame(run);
    assert!(
        matches!(frames.refused(), Some(FreeError::AlreadyFree(_))),
        "{:?}",
        frames.refused()
    );
    (&frames).dealloc_frame(PhysAddr::from_usize(0));
    assert_eq!(frames.refused(), Some(FreeError::Outside(Frame(0))));
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
}
