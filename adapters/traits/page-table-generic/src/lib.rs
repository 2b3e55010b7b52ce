#![doc = include_str!("../README.md")]
#![no_std]

use core::ptr;
use framewright::engine::{Engine, Parts};
use framewright::frame::{FreeError, Seats};
use framewright::platform::FramePlatform;
use framewright::{Addr, CpuId, Frame, Mobility, Order, Run, SetupError};
use page_table_generic::{FrameAllocator, PhysAddr};
use spin::Mutex;

/// The frames of an engine for page tables, by way of one CPU's seats, behind a lock: a reference to a static one is an
/// allocator.
pub struct TableFrames<P: FramePlatform + Clone + 'static, const ZONES: usize = 1> {
    inner: Mutex<Inner<P, ZONES>>,
    direct_map: Addr,
}

struct Inner<P: FramePlatform + Clone + 'static, const ZONES: usize> {
    seats: Seats<'static, 'static, P, ZONES>,
    refused: Option<FreeError>,
}

impl<P: FramePlatform + Clone, const ZONES: usize> TableFrames<P, ZONES> {
    /// Takes the seats of that CPU: no other caller names it from now on. Frame 0 lies, or would lie, at `direct_map`.
    ///
    /// # Errors
    /// If they are taken, or the engine has fewer CPUs.
    pub fn new<W: Parts<P>>(
        engine: &'static Engine<'static, P, W, ZONES>,
        cpu: CpuId,
        direct_map: Addr,
    ) -> Result<Self, SetupError> {
        let seats = Seats::take(engine.zones(), cpu)?;
        let inner = Mutex::new(Inner {
            seats,
            refused: None,
        });
        Ok(Self { inner, direct_map })
    }

    /// The last frame that was given back and refused, and why. The trait has no word for it, and nothing has changed then.
    pub fn refused(&self) -> Option<FreeError> {
        self.inner.lock().refused
    }

    /// Frees frames side by side.
    fn free(&self, first: PhysAddr, frames: u64) {
        let first = Frame::from_addr(first.as_usize() as u64);
        let inner = &mut *self.inner.lock();
        let freed = match (inner.seats.seat_of(first), Run::new(first, frames)) {
            (Some(seat), Some(_)) if frames == 1 => seat.free(first, Order::ZERO),
            (Some(seat), Some(run)) => seat.free_frames(run),
            _ => Err(FreeError::Outside(first)),
        };
        inner.refused = freed.err().or(inner.refused);
    }
}

fn address(frame: Frame) -> Option<PhysAddr> {
    Some(PhysAddr::from_usize(frame.addr()? as usize))
}

impl<P: FramePlatform + Clone, const ZONES: usize> FrameAllocator for &'static TableFrames<P, ZONES>
where
    TableFrames<P, ZONES>: Sync,
{
    fn alloc_frame(&self) -> Option<PhysAddr> {
        let seats = &mut self.inner.lock().seats;
        address(seats.alloc(0, Order::ZERO, Mobility::Unmovable).ok()?)
    }

    fn dealloc_frame(&self, frame: PhysAddr) {
        self.free(frame, 1);
    }

    fn phys_to_virt(&self, at: PhysAddr) -> *mut u8 {
        ptr::with_exposed_provenance_mut((self.direct_map.0 as usize).wrapping_add(at.as_usize()))
    }

    /// Top tables of several frames: `align` is in bytes.
    fn alloc_frames(&self, frames: usize, align: usize) -> Option<PhysAddr> {
        let (frames, align) = (frames as u64, (align as u64).div_ceil(Frame::BYTES).max(1));
        let seats = &mut self.inner.lock().seats;
        match Order::covering(frames) {
            Some(order) if order.frames() == frames && align <= frames => {
                address(seats.alloc(0, order, Mobility::Unmovable).ok()?)
            }
            _ => {
                let mut zones = (0..ZONES).map(|nth| seats.seat(nth).zone());
                let run = zones.find_map(|zone| {
                    zone.alloc_contiguous(frames, align, Mobility::Unmovable)
                        .ok()
                });
                address(run?.start())
            }
        }
    }

    fn dealloc_frames(&self, start: PhysAddr, frames: usize, frame_size: usize) {
        let frame = frame_size as u64 / Frame::BYTES;
        if let Some(frames) = frame
            .checked_mul(frames as u64)
            .filter(|frames| *frames > 0)
        {
            self.free(start, frames);
        }
    }
}
