//! A CPU's seat in a space.
//!
//! `RangeSeat` is the CPU's handle. `Held` is the seat in the hands of the thread that may touch
//! it, whether by its own turn or by a claim, so the same code serves both. No CPU enters a seat of
//! a poisoned space (V11).

mod block;
mod depot;
mod keep;
mod pool;

pub(super) use block::slot_of;
pub(super) use depot::Spill;
pub(super) use pool::Choice;

use super::areas::Kept;
use super::error::Poisoned;
use super::space::SpaceSeatRecord;
use super::{AreaHeader, Space};
use crate::frame::{FrameSource, origin_word};
use crate::platform::RangePlatform;
use crate::seats::Taken;
use crate::sync::Ordering::Relaxed;
use crate::units::{CpuId, SetupError};

/// A seat in the hands of the one thread that may touch it: its owner while the seat is busy, or the holder
/// of the stop lock that has claimed it.
#[derive(Debug)]
pub(super) struct Held<'s, 'm, P> {
    pub(super) space: &'s Space<'m, P>,
    pub(super) words: &'m SpaceSeatRecord,
    pub(super) cpu: u16,
}

impl<'m, P> Held<'_, 'm, P> {
    pub(super) fn header(&self, at: u32) -> AreaHeader {
        self.space
            .table
            .header(at)
            .expect("an area has its header until it is released")
    }

    /// The seat's lists of kept areas.
    #[inline(always)]
    pub(super) fn kept(&self) -> Kept<'m> {
        self.words.kept(self.space.table)
    }
}

impl<P> Clone for Held<'_, '_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Held<'_, '_, P> {}

/// A CPU's place in a space. The CPU does all its work in the space through it.
///
/// Only one thread at a time has a CPU's seat, and two threads cannot share it.
#[derive(Debug)]
pub struct RangeSeat<'s, 'm, P, F> {
    pub(super) space: &'s Space<'m, P>,
    pub(super) words: &'m SpaceSeatRecord,
    pub(super) frames: F,
    pub(super) cpu: u16,
    _taken: Taken<'m>,
}

impl<'s, 'm, P, F> RangeSeat<'s, 'm, P, F> {
    /// The space.
    #[must_use]
    pub const fn space(&self) -> &'s Space<'m, P> {
        self.space
    }

    /// The CPU whose seat it is.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        CpuId(self.cpu)
    }

    /// The source of its frames.
    #[must_use]
    pub const fn frames(&mut self) -> &mut F {
        &mut self.frames
    }
}

impl<'s, 'm, P: RangePlatform, F: FrameSource> RangeSeat<'s, 'm, P, F> {
    pub(super) fn take(space: &'s Space<'m, P>, cpu: CpuId, frames: F) -> Option<Self> {
        let words = space.seat_words(cpu.0);
        Taken::take(&words.claims).map(|taken| Self {
            space,
            words,
            frames,
            cpu: cpu.0,
            _taken: taken,
        })
    }

    /// What the busy seat's own thread works with.
    #[inline(always)]
    pub(super) const fn held(&self) -> Held<'s, 'm, P> {
        Held {
            space: self.space,
            words: self.words,
            cpu: self.cpu,
        }
    }

    /// From here to [`exit`](Self::exit) no other CPU touches the seat, and a CPU that stops all CPUs
    /// waits for this one. So the caller must not wait for such a CPU in between.
    ///
    /// # Errors
    /// The space is poisoned. The caller has not entered the seat.
    #[inline(always)]
    pub(super) fn enter(&self) -> Result<(), Poisoned> {
        if self.try_enter() {
            return Ok(());
        }
        self.wait_if_claimed()
    }

    /// Enters, but does not wait: see `Turn::try_enter`.
    #[inline(always)]
    pub(super) fn try_enter(&self) -> bool {
        self.words.turn().try_enter::<P>()
    }

    /// In a busy seat, before the caller does anything in it: lets a CPU that claims the seat have it
    /// first.
    pub(super) fn wait_if_claimed(&self) -> Result<(), Poisoned> {
        let space = self.space;
        let turn = self.words.turn();
        match turn.wait_if_claimed_unless(&space.platform, || space.is_poisoned()) {
            true => Ok(()),
            false => Err(Poisoned),
        }
    }

    #[inline(always)]
    pub(super) fn exit(&self) {
        self.words.turn().exit();
    }
}

impl<'m, P: RangePlatform> Space<'m, P> {
    /// A seat whose owner cannot be in it: the caller's own, or one that the caller claimed.
    pub(super) fn claimed(&self, cpu: u16) -> Held<'_, 'm, P> {
        Held {
            space: self,
            words: self.seat_words(cpu),
            cpu,
        }
    }

    /// The seat of `cpu`, until it is dropped. Frames for its areas come from `frames`, and go back
    /// to it, as do those of other CPUs' areas that this seat purges.
    ///
    /// All seats that a space ever has must have frames of one [origin](crate::frame::FrameSource::origin), because
    /// each gives back frames that another one took.
    ///
    /// The spans and lazy pages of the seat stay when it is given back. Time: two atomic
    /// operations.
    ///
    /// # Errors
    /// If the seat is in use, the space was made for fewer CPUs, or its frames have another origin.
    pub fn seat<F: FrameSource>(
        &self,
        cpu: CpuId,
        frames: F,
    ) -> Result<RangeSeat<'_, 'm, P, F>, SetupError> {
        if cpu.0 >= self.shape.cpus {
            return Err(SetupError::Unknown(cpu));
        }
        let origin = origin_word(frames.origin());
        let seat = RangeSeat::take(self, cpu, frames).ok_or(SetupError::Taken(cpu))?;
        // Relaxed: no other access depends on the number.
        match self
            .words
            .origin
            .compare_exchange(0, origin, Relaxed, Relaxed)
        {
            Err(other) if other != origin => Err(SetupError::OtherFrames(cpu)),
            _ => Ok(seat),
        }
    }
}
