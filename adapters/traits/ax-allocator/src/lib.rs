#![doc = include_str!("../README.md")]
#![no_std]

use ax_allocator::{AllocError, AllocResult, BaseAllocator, ByteAllocator, PageAllocator};
use core::alloc::Layout;
use core::ptr::{self, NonNull};
use framewright::engine::Engine;
use framewright::frame::{Seat, Seats};
use framewright::kv::{KvRequest, KvSeat};
use framewright::platform::ObjectPlatform;
use framewright::{Addr, CpuId, Frame, Mobility, Order, Run, RunError, SetupError};

const PAGE: usize = Frame::BYTES as usize;

/// An engine as a `PageAllocator` and a `ByteAllocator`, by way of one CPU's seats. Positions are addresses in the direct map.
pub struct EngineMemory<'e, 'm, P: ObjectPlatform + Clone> {
    engine: &'e Engine<'m, P>,
    seat: KvSeat<'e, 'e, 'm, P, Seats<'e, 'm, P, 1>>,
    direct_map: usize,
    pages: usize,
    refused: usize,
}

impl<'e, 'm, P: ObjectPlatform + Clone> EngineMemory<'e, 'm, P> {
    /// Takes the seats of that CPU: no other caller names it from now on. `platform` is that of the engine.
    ///
    /// # Errors
    /// If they are taken, or the engine has fewer CPUs.
    pub fn new(engine: &'e Engine<'m, P>, cpu: CpuId, platform: &P) -> Result<Self, SetupError> {
        let frames = Seats::take(engine.zones(), cpu)?;
        Ok(Self {
            engine,
            seat: engine.objects().seat(engine.space().seat(cpu, frames)?)?,
            direct_map: platform.direct_base().0 as usize,
            pages: 0,
            refused: 0,
        })
    }

    /// How many calls were refused that have no result: memory at `init`, and frees of what was not allocated. Nothing has
    /// changed then.
    pub const fn refused(&self) -> usize {
        self.refused
    }

    fn frames(&mut self) -> &mut Seat<'e, 'm, P> {
        self.seat.ranges().frames().seat(0)
    }

    /// The frames of whole pages; None where there are no such.
    fn run(&self, at: usize, pages: usize) -> Option<Run> {
        let offset = at.wrapping_sub(self.direct_map);
        let run = Run::new(Frame((offset / PAGE) as u64), pages as u64)?;
        (offset.is_multiple_of(PAGE) && pages > 0).then_some(run)
    }

    /// An alignment in bytes as one in frames.
    const fn align(bytes: usize) -> AllocResult<u64> {
        if bytes.is_power_of_two() && bytes >= PAGE {
            Ok((bytes / PAGE) as u64)
        } else {
            Err(AllocError::InvalidParam)
        }
    }

    fn count<E>(&mut self, result: Result<(), E>) {
        self.refused += usize::from(result.is_err());
    }
}

impl<P: ObjectPlatform + Clone> BaseAllocator for EngineMemory<'_, '_, P> {
    fn init(&mut self, start: usize, size: usize) {
        let added = self.add_memory(start, size);
        self.count(added);
    }

    /// Adds the whole pages that lie there.
    fn add_memory(&mut self, start: usize, size: usize) -> AllocResult {
        let ends = start
            .checked_add(size)
            .zip(start.checked_next_multiple_of(PAGE));
        let (end, first) = ends.ok_or(AllocError::InvalidParam)?;
        let pages = end.saturating_sub(first) / PAGE;
        let run = self.run(first, pages).ok_or(AllocError::InvalidParam)?;
        self.engine.add(run).map_err(|error| match error {
            RunError::Present(_) => AllocError::MemoryOverlap,
            _ => AllocError::InvalidParam,
        })?;
        self.pages += pages;
        Ok(())
    }
}

impl<P: ObjectPlatform + Clone> PageAllocator for EngineMemory<'_, '_, P> {
    const PAGE_SIZE: usize = PAGE;

    fn alloc_pages(&mut self, num_pages: usize, align: usize) -> AllocResult<usize> {
        let (pages, align) = (num_pages as u64, Self::align(align)?);
        if pages == 0 {
            return Err(AllocError::InvalidParam);
        }
        let zone = self.frames().zone();
        let block = Order::covering(pages).filter(|order| {
            order.frames() == pages && align <= pages && *order <= zone.max_order()
        });
        let first = match block {
            Some(order) => self.frames().alloc(order, Mobility::Unmovable),
            None => zone
                .alloc_contiguous(pages, align, Mobility::Unmovable)
                .map(Run::start),
        };
        let first = first.map_err(|_| AllocError::NoMemory)?;
        Ok(self.direct_map.wrapping_add(first.0 as usize * PAGE))
    }

    fn dealloc_pages(&mut self, pos: usize, num_pages: usize) {
        let freed = match self.run(pos, num_pages) {
            Some(run) => self.frames().free_frames(run).map_err(|_| ()),
            None => Err(()),
        };
        self.count(freed);
    }

    fn alloc_pages_at(
        &mut self,
        base: usize,
        num_pages: usize,
        align: usize,
    ) -> AllocResult<usize> {
        Self::align(align)?;
        let run = self.run(base, num_pages).ok_or(AllocError::InvalidParam)?;
        if !base.is_multiple_of(align) {
            return Err(AllocError::InvalidParam);
        }
        let zone = self.frames().zone();
        for taken in 0..run.frames() {
            // One by one, because a run need be no block.
            let frame = Frame(run.start().0 + taken);
            if zone
                .alloc_at(frame, Order::ZERO, Mobility::Unmovable)
                .is_err()
            {
                if let Some(before) = self.run(base, taken as usize) {
                    let freed = self.frames().free_frames(before);
                    self.count(freed);
                }
                return Err(AllocError::NoMemory);
            }
        }
        Ok(base)
    }

    fn total_pages(&self) -> usize {
        self.pages
    }

    fn used_pages(&self) -> usize {
        self.pages.saturating_sub(self.available_pages())
    }

    fn available_pages(&self) -> usize {
        self.engine.frame_stats().nr_free_pages as usize
    }
}

impl<P: ObjectPlatform + Clone> ByteAllocator for EngineMemory<'_, '_, P> {
    fn alloc(&mut self, layout: Layout) -> AllocResult<NonNull<u8>> {
        // One of no bytes has an address of its own.
        let request = KvRequest::new(layout.size().max(1) as u64).aligned_to(layout.align() as u64);
        let at = self
            .seat
            .kvmalloc(&request)
            .map_err(|_| AllocError::NoMemory)?;
        let at = NonNull::new(ptr::with_exposed_provenance_mut(at.0 as usize));
        at.ok_or(AllocError::NoMemory)
    }

    fn dealloc(&mut self, pos: NonNull<u8>, _layout: Layout) {
        let freed = self.seat.kvfree(Addr(pos.addr().get() as u64));
        self.count(freed.map(|_bytes| ()));
    }

    fn total_bytes(&self) -> usize {
        self.pages * PAGE
    }

    fn used_bytes(&self) -> usize {
        self.used_pages() * PAGE
    }

    fn available_bytes(&self) -> usize {
        self.available_pages() * PAGE
    }
}
