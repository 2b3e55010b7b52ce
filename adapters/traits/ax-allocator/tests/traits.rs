//! The same test over the crate's own allocators and over the engine.

#[path = "../../board.rs"]
mod board;

use ax_allocator::{
    AllocError, BaseAllocator, BitmapPageAllocator, BuddyByteAllocator, ByteAllocator,
    PageAllocator,
};
use board::DirectBoard;
use framewright::engine::{Engine, EngineLayout};
use framewright::{CpuId, Frame, Page};
use framewright_ax_allocator::EngineMemory;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;

const FRAMES: usize = 4096;
const FIRST: u64 = 0x800;

/// Memory for an allocator.
fn ram() -> usize {
    let layout = Layout::from_size_align(FRAMES * 4096, 1 << 22).unwrap();
    // SAFETY: the layout has bytes.
    let at = unsafe { alloc_zeroed(layout) };
    if at.is_null() {
        handle_alloc_error(layout);
    }
    at.expose_provenance()
}

/// An engine without memory yet, and where its RAM is.
fn board() -> (
    &'static Engine<'static, DirectBoard>,
    EngineMemory<'static, 'static, DirectBoard>,
    usize,
) {
    let ram = ram();
    let board = DirectBoard(ram as u64 - FIRST * 4096);
    let layout = EngineLayout::new(Frame(FIRST), FRAMES as u64)
        .with_window(Page::of_address(0xffff_c900_0000_0000), 1 << 16)
        .with_objects();
    let metadata = vec![0; layout.words_needed().unwrap()].leak();
    let engine: &Engine<'_, DirectBoard> =
        Box::leak(Box::new(Engine::new(&layout, metadata, board).unwrap()));
    let memory = EngineMemory::new(engine, CpuId(0), &board).unwrap();
    (engine, memory, ram)
}

/// What any page allocator does with so much memory.
fn pages_come_and_go(pages: &mut impl PageAllocator, ram: usize) {
    assert_eq!((pages.total_pages(), pages.used_pages()), (FRAMES, 0));
    let mut held = Vec::new();
    for n in 0..200_usize {
        let (length, align) = (1 + n % 9, 4096 << (n % 4));
        let at = pages
            .alloc_pages(length, if length == 1 { 4096 } else { align })
            .unwrap();
        assert!(at >= ram && at + length * 4096 <= ram + FRAMES * 4096);
        held.push((at, length));
    }
    held.sort_unstable();
    assert!(
        held.windows(2)
            .all(|pair| pair[0].0 + pair[0].1 * 4096 <= pair[1].0),
        "they overlap"
    );
    assert_eq!(
        pages.used_pages(),
        held.iter().map(|(_, length)| length).sum()
    );
    assert!(matches!(
        pages.alloc_pages(FRAMES, 4096),
        Err(AllocError::NoMemory)
    ));
    assert!(matches!(
        pages.alloc_pages(1, 48),
        Err(AllocError::InvalidParam)
    ));
    for (at, length) in held {
        pages.dealloc_pages(at, length);
    }
    let at = ram + 100 * 4096;
    assert_eq!(pages.alloc_pages_at(at, 7, 4096).unwrap(), at);
    assert!(pages.alloc_pages_at(at - 4096, 2, 4096).is_err());
    assert_eq!(pages.used_pages(), 7);
    pages.dealloc_pages(at, 7);
    assert_eq!(pages.available_pages(), FRAMES);
    // Everything is in one piece again.
    let all = pages.alloc_pages(FRAMES, 4096).unwrap();
    pages.dealloc_pages(all, FRAMES);
}

/// What any byte allocator does.
fn bytes_come_and_go(bytes: &mut impl ByteAllocator) {
    let layout = |n: usize| Layout::from_size_align(1 + n * 37 % 5000, 1 << (n % 8)).unwrap();
    let mut held: Vec<(NonNull<u8>, usize)> = Vec::new();
    for n in 0..600 {
        let at = bytes.alloc(layout(n)).unwrap();
        assert_eq!(at.addr().get() % layout(n).align(), 0);
        // SAFETY: it is an object of this many bytes.
        unsafe { at.write_bytes(n as u8, layout(n).size()) };
        held.push((at, n));
    }
    for (at, n) in held {
        // SAFETY: as above, and it was written.
        let object = unsafe { std::slice::from_raw_parts(at.as_ptr(), layout(n).size()) };
        assert!(
            object.iter().all(|byte| *byte == n as u8),
            "object {n} was overwritten"
        );
        bytes.dealloc(at, layout(n));
    }
    assert!(
        bytes
            .alloc(Layout::from_size_align(1 << 40, 8).unwrap())
            .is_err()
    );
}

#[test]
fn pages_of_the_crates_own() {
    let (mut own, ram) = (BitmapPageAllocator::<4096>::new(), ram());
    own.init(ram, FRAMES * 4096);
    pages_come_and_go(&mut own, ram);
}

#[test]
fn pages_of_the_engine() {
    let (engine, mut memory, ram) = board();
    memory.init(ram, FRAMES * 4096);
    pages_come_and_go(&mut memory, ram);
    assert_eq!(memory.refused(), 0);
    engine.verify().unwrap();
}

#[test]
fn bytes_of_the_crates_own() {
    let mut own = BuddyByteAllocator::new();
    own.init(ram(), FRAMES * 4096);
    bytes_come_and_go(&mut own);
}

#[test]
fn bytes_of_the_engine() {
    let (engine, mut memory, ram) = board();
    memory.init(ram, FRAMES * 4096);
    bytes_come_and_go(&mut memory);
    assert_eq!((memory.refused(), memory.total_bytes()), (0, FRAMES * 4096));
    engine.verify().unwrap();
}

#[test]
fn memory_comes_in_regions_and_wrong_calls_are_counted() {
    let (engine, mut memory, ram) = board();
    // Whole pages alone count.
    memory.add_memory(ram + 10, 3 * 4096).unwrap();
    assert_eq!(memory.total_pages(), 2);
    memory.add_memory(ram + 64 * 4096, 64 * 4096).unwrap();
    assert!(matches!(
        memory.add_memory(ram + 4096, 4096),
        Err(AllocError::MemoryOverlap)
    ));
    assert!(matches!(
        memory.add_memory(ram - 4096, 4096),
        Err(AllocError::InvalidParam)
    ));
    assert!(matches!(
        memory.add_memory(usize::MAX - 5, 4096),
        Err(AllocError::InvalidParam)
    ));
    memory.init(ram + 4096, 4096);
    assert_eq!((memory.refused(), memory.total_pages()), (1, 66));
    let page = memory.alloc_pages(1, 4096).unwrap();
    memory.dealloc_pages(page, 1);
    memory.dealloc_pages(page, 1);
    memory.dealloc_pages(page + 5, 1);
    assert_eq!((memory.refused(), memory.available_pages()), (3, 66));
    engine.verify().unwrap();
}
