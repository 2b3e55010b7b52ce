//! A mapper of the crate `x86_64` over memory of this process, in which the engine's frames lie.

use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::FreeError;
use framewright::platform::SingleThread;
use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
use framewright_x86_frames::PagingFrames;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use x86_64::VirtAddr;
use x86_64::structures::paging::mapper::{CleanUp, MapToError, Translate};
use x86_64::structures::paging::{
    FrameAllocator, FrameDeallocator, Mapper, OffsetPageTable, Page, PageSize, PageTable,
    PageTableFlags, PhysFrame, Size1GiB, Size2MiB, Size4KiB,
};

const FIRST: u64 = 0x200;
const FRAMES: u64 = 8192;
const FLAGS: PageTableFlags = PageTableFlags::PRESENT.union(PageTableFlags::WRITABLE);

/// RAM, at an address of this process.
struct MapperRam(*mut u8);

impl MapperRam {
    const LAYOUT: Layout = match Layout::from_size_align((FRAMES * 4096) as usize, 1 << 21) {
        Ok(layout) => layout,
        Err(_) => panic!("a power of two"),
    };

    fn new() -> Self {
        // SAFETY: the layout has bytes.
        let at = unsafe { alloc_zeroed(Self::LAYOUT) };
        if at.is_null() {
            handle_alloc_error(Self::LAYOUT);
        }
        Self(at)
    }

    /// What is added to a physical address.
    fn offset(&self) -> VirtAddr {
        VirtAddr::new(self.0 as u64 - FIRST * 4096)
    }
}

impl Drop for MapperRam {
    fn drop(&mut self) {
        // SAFETY: it was allocated so.
        unsafe { dealloc(self.0, Self::LAYOUT) };
    }
}

type MapperCpu<'e, 'm> = Cpu<'e, 'm, SingleThread, (), 1>;

/// A test body with a CPU and a mapper, whose top table is given back. Every frame is free at the end.
fn with_mapper(body: impl FnOnce(&mut MapperCpu<'_, '_>, &mut OffsetPageTable<'_>)) {
    let layout: EngineLayout<()> = EngineLayout::new(Frame(FIRST), FRAMES);
    let mut metadata = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut metadata, SingleThread::new()).unwrap();
    engine.add(Run::new(Frame(FIRST), FRAMES).unwrap()).unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let ram = MapperRam::new();
    let top = cpu
        .alloc(Order::ZERO, Mobility::Unmovable, Context::ANY)
        .unwrap();
    let at = ram.offset() + top.addr().unwrap();
    // SAFETY: the frame is this table's alone, and zero is an empty table; all frames lie at that offset.
    let mut mapper =
        unsafe { OffsetPageTable::new(&mut *at.as_mut_ptr::<PageTable>(), ram.offset()) };
    body(&mut cpu, &mut mapper);
    cpu.free(top, Order::ZERO).unwrap();
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
    drop(cpu);
    engine.verify().unwrap();
}

fn page<S: PageSize>(n: u64) -> Page<S> {
    // Spread out, so that each few pages need tables of their own.
    let at = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 18;
    Page::containing_address(VirtAddr::new(0x1000_0000_0000 + at / S::SIZE * S::SIZE))
}

#[test]
fn pages_are_mapped_translated_and_given_back_with_their_tables() {
    with_mapper(|cpu, mapper| {
        let mut frames = PagingFrames::new(cpu);
        let mut mapped = Vec::new();
        for n in 0..500 {
            let frame = frames.allocate_frame().unwrap();
            // SAFETY: the frame is new, and nothing is read through these tables.
            match unsafe { mapper.map_to(page::<Size4KiB>(n), frame, FLAGS, &mut frames) } {
                Ok(flush) => flush.ignore(),
                Err(error) => panic!("{error:?}"),
            }
            mapped.push((page::<Size4KiB>(n), frame));
        }
        for (page, frame) in &mapped {
            assert_eq!(
                mapper.translate_addr(page.start_address() + 5),
                Some(frame.start_address() + 5)
            );
        }
        for (page, frame) in mapped {
            let (was, flush) = mapper.unmap(page).unwrap();
            flush.ignore();
            assert_eq!(was, frame);
            // SAFETY: it is mapped nowhere.
            unsafe { frames.deallocate_frame(frame) };
        }
        // SAFETY: each table is in one place.
        unsafe { mapper.clean_up(&mut frames) };
        assert_eq!(frames.refused(), None);
    });
}

#[test]
fn large_pages_are_blocks_and_none_is_without_room() {
    with_mapper(|cpu, mapper| {
        let mut frames = PagingFrames::new(cpu).of(Mobility::Movable);
        let frame: PhysFrame<Size2MiB> = frames.allocate_frame().unwrap();
        let page = page::<Size2MiB>(7);
        // SAFETY: as above.
        unsafe { mapper.map_to(page, frame, FLAGS, &mut frames) }
            .unwrap()
            .ignore();
        assert_eq!(
            mapper.translate_addr(page.start_address() + 0x12_3456),
            Some(frame.start_address() + 0x12_3456)
        );
        mapper.unmap(page).unwrap().1.ignore();
        // SAFETY: each table is in one place, and the page is mapped nowhere.
        unsafe {
            mapper.clean_up(&mut frames);
            frames.deallocate_frame(frame);
        }
        // There is less than that.
        let none: Option<PhysFrame<Size1GiB>> = frames.allocate_frame();
        assert_eq!(none, None);
    });
}

#[test]
fn a_mapper_that_finds_no_frame_says_so() {
    with_mapper(|cpu, mapper| {
        let mut all = Vec::new();
        while let Ok(frame) = cpu.alloc(Order::ZERO, Mobility::Unmovable, Context::ANY) {
            all.push(frame);
        }
        let frame = PhysFrame::containing_address(x86_64::PhysAddr::new(0x1000));
        let mut frames = PagingFrames::new(cpu).within(Context::NOWAIT);
        // SAFETY: it fails.
        let failed = unsafe { mapper.map_to(page::<Size4KiB>(1), frame, FLAGS, &mut frames) };
        assert!(matches!(failed, Err(MapToError::FrameAllocationFailed)));
        for frame in all {
            cpu.free(frame, Order::ZERO).unwrap();
        }
    });
}

#[test]
fn a_frame_that_comes_back_twice_is_refused() {
    with_mapper(|cpu, _| {
        let mut frames = PagingFrames::new(cpu);
        let frame: PhysFrame<Size4KiB> = frames.allocate_frame().unwrap();
        // SAFETY: it is in use nowhere; the second call is the fault that is tried.
        unsafe {
            frames.deallocate_frame(frame);
            assert_eq!(frames.refused(), None);
            frames.deallocate_frame(frame);
        }
        assert!(
            matches!(frames.refused(), Some(FreeError::AlreadyFree(_))),
            "{:?}",
            frames.refused()
        );
    });
}

#[test]
fn a_page_of_a_gibibyte_is_a_run() {
    const GIBIBYTE: u64 = Size1GiB::SIZE / 4096;
    // No memory is behind these frames, and none is touched.
    let layout: EngineLayout<()> = EngineLayout::new(Frame(GIBIBYTE), 2 * GIBIBYTE);
    let mut metadata = vec![0; layout.words_needed().unwrap()];
    let engine = Engine::new(&layout, &mut metadata, SingleThread::new()).unwrap();
    engine
        .add(Run::new(Frame(GIBIBYTE), 2 * GIBIBYTE).unwrap())
        .unwrap();
    let mut cpu = engine.cpu(CpuId(0)).unwrap();
    let small = cpu
        .alloc(Order::ZERO, Mobility::Unmovable, Context::ANY)
        .unwrap();
    let mut frames = PagingFrames::new(&mut cpu);
    let page: PhysFrame<Size1GiB> = frames.allocate_frame().unwrap();
    assert_eq!(
        <PagingFrames<'_, '_, '_, _, _, 1> as FrameAllocator<Size1GiB>>::allocate_frame(
            &mut frames
        ),
        None
    );
    // SAFETY: nothing is in it.
    unsafe { frames.deallocate_frame(page) };
    assert_eq!(frames.refused(), None);
    cpu.free(small, Order::ZERO).unwrap();
    assert_eq!(engine.frame_stats().nr_free_pages, 2 * GIBIBYTE);
}
