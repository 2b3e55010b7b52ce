#![doc = include_str!("../README.md")]
#![no_std]

use framewright::engine::{Cpu, Parts};
use framewright::frame::FreeError;
use framewright::platform::FramePlatform;
use framewright::{Context, Frame, Mobility, Order, Run};
use x86_64::PhysAddr;
use x86_64::structures::paging::{FrameAllocator, FrameDeallocator, PageSize, PhysFrame};

/// The frames of an engine, as mappers ask for them: in pages of any size, on one CPU.
#[derive(Debug)]
pub struct PagingFrames<'c, 'e, 'm, P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize> {
    cpu: &'c mut Cpu<'e, 'm, P, W, ZONES>,
    mobility: Mobility,
    context: Context,
    refused: Option<FreeError>,
}

impl<'c, 'e, 'm, P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize>
    PagingFrames<'c, 'e, 'm, P, W, ZONES>
{
    /// Frames by way of that CPU: for contents that stay where they are, such as page tables, by a caller that may wait.
    pub const fn new(cpu: &'c mut Cpu<'e, 'm, P, W, ZONES>) -> Self {
        Self {
            cpu,
            mobility: Mobility::Unmovable,
            context: Context::ANY,
            refused: None,
        }
    }

    /// The same for contents of that mobility.
    #[must_use]
    pub const fn of(mut self, mobility: Mobility) -> Self {
        self.mobility = mobility;
        self
    }

    /// The same for a caller that may do only what `context` allows.
    #[must_use]
    pub const fn within(mut self, context: Context) -> Self {
        self.context = context;
        self
    }

    /// The last frame that was given back and refused, and why: it was free, or of another size. The trait has no word for
    /// it, and nothing has changed then.
    pub const fn refused(&self) -> Option<FreeError> {
        self.refused
    }
}

/// The order of the block for this many frames; pages of 1 GiB are longer than any.
const fn block(frames: u64) -> Option<Order> {
    match Order::covering(frames) {
        Some(order) if frames <= 1 << 10 => Some(order),
        _ => None,
    }
}

/// How many frames a page of that size has.
const fn frames<S: PageSize>() -> u64 {
    S::SIZE / Frame::BYTES
}

// SAFETY: the engine hands out a frame that is free, and not again before it is freed.
unsafe impl<S: PageSize, P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize>
    FrameAllocator<S> for PagingFrames<'_, '_, '_, P, W, ZONES>
{
    fn allocate_frame(&mut self) -> Option<PhysFrame<S>> {
        let (frames, mobility, context) = (frames::<S>(), self.mobility, self.context);
        let first = match block(frames) {
            Some(order) => self.cpu.alloc(order, mobility, context).ok()?,
            None => {
                let run = self.cpu.alloc_run(frames, frames, mobility, context);
                run.ok()?.start()
            }
        };
        let at = first.addr().and_then(|at| PhysAddr::try_new(at).ok());
        at.and_then(|at| PhysFrame::from_start_address(at).ok())
    }
}

impl<S: PageSize, P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize> FrameDeallocator<S>
    for PagingFrames<'_, '_, '_, P, W, ZONES>
{
    unsafe fn deallocate_frame(&mut self, frame: PhysFrame<S>) {
        let first = Frame::from_addr(frame.start_address().as_u64());
        let freed = match block(frames::<S>()) {
            Some(order) => self.cpu.free(first, order),
            None => match Run::new(first, frames::<S>()) {
                Some(run) => self.cpu.free_run(run),
                None => Err(FreeError::Outside(first)),
            },
        };
        if let Err(error) = freed {
            self.refused = Some(error);
        }
    }
}
