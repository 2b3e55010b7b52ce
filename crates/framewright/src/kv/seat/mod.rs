//! A CPU's seat in an object allocator: its slabs by class, and what it does in other CPUs' seats.
//!
//! The seat's CPU writes the seat and the records of its slabs while the seat is busy; so does a CPU that has
//! stopped all CPUs of `kv` (rank 0; K3, K4). `KvHeld` is the seat in such hands. Other CPUs write only the inbox and the
//! claim.
//!
//! A busy seat never enters the seat in the space. Of the zones it takes only blocks that are there
//! at once, and it gives blocks back.

mod drain;
mod frames;
mod held;
mod magazine;
mod record;

pub(super) use drain::Missed;
pub(super) use held::KvHeld;
pub(super) use record::{KvCounters, KvRecord, KvSeatRecord};

use super::Kv;
use crate::frame::FrameSource;
use crate::platform::{FramePlatform, ObjectPlatform, Relief};
use crate::seats::Taken;
use crate::sync::Ordering::Relaxed;
use crate::units::{CpuId, SetupError};
use crate::vrange::RangeSeat;

/// A CPU's place in an object allocator. The CPU does all its work in the allocator through it.
///
/// It holds the CPU's seat in the space, which holds the one in the zones. Only one thread at a time has
/// it, and two threads cannot share it. `R` gives memory back when a request asks for that: see
/// [`with_relief`](Self::with_relief).
#[derive(Debug)]
pub struct KvSeat<'k, 's, 'm, P, F, R = ()> {
    pub(super) kv: &'k Kv<'m, P>,
    /// The seat in the hands of the thread that may touch it: its own while it is busy, or one that has claimed it.
    pub(super) held: KvHeld<'m>,
    pub(super) ranges: RangeSeat<'s, 'm, P, F>,
    pub(super) relief: R,
    taken: Taken<'m>,
}

impl<'k, 's, 'm, P, F, R> KvSeat<'k, 's, 'm, P, F, R> {
    /// The object allocator.
    #[must_use]
    pub const fn kv(&self) -> &'k Kv<'m, P> {
        self.kv
    }

    /// The CPU whose seat it is.
    #[must_use]
    pub const fn cpu(&self) -> CpuId {
        self.ranges.cpu()
    }

    /// The CPU's seat in the space, for areas and mappings; its
    /// [`frames`](RangeSeat::frames) are the seat in the zones.
    #[must_use]
    pub const fn ranges(&mut self) -> &mut RangeSeat<'s, 'm, P, F> {
        &mut self.ranges
    }
}

impl<'m, P: ObjectPlatform> Kv<'m, P> {
    /// The seat of the CPU that the seat `ranges` in the space belongs to, until it is dropped.
    ///
    /// The slabs and magazines of the seat stay when it is given back. Time: one atomic operation.
    ///
    /// # Errors
    /// If the seat is taken, or there are fewer CPUs, or the space's window lies where the direct
    /// map has frames, or it is another space than that of the seats before (K11).
    pub fn seat<'s, F: FrameSource>(
        &self,
        ranges: RangeSeat<'s, 'm, P, F>,
    ) -> Result<KvSeat<'_, 's, 'm, P, F>, SetupError> {
        let cpu = ranges.cpu();
        if cpu.0 >= self.shape.cpus {
            return Err(SetupError::Unknown(cpu));
        }
        let space = ranges.space();
        if let Some((window, direct)) = self.overlap(space.start(), space.pages()) {
            return Err(SetupError::Overlap { window, direct });
        }
        let number = space.metadata_address();
        let seat = KvSeat::take(self, ranges).ok_or(SetupError::Taken(cpu))?;
        // Relaxed: no other access depends on the number.
        match self.space().compare_exchange(0, number, Relaxed, Relaxed) {
            Err(other) if other != number => Err(SetupError::OtherSpace(cpu)),
            _ => Ok(seat),
        }
    }
}

impl<'k, 's, 'm, P: FramePlatform, F: FrameSource> KvSeat<'k, 's, 'm, P, F> {
    pub(super) fn take(kv: &'k Kv<'m, P>, ranges: RangeSeat<'s, 'm, P, F>) -> Option<Self> {
        let held = kv.held(ranges.cpu().0);
        Taken::take(&held.words.claims).map(|taken| Self {
            kv,
            held,
            ranges,
            relief: (),
            taken,
        })
    }

    /// The same seat, with `relief` for the requests whose [effort](crate::policy::Effort) allows to ask for
    /// it. Until then there is none.
    #[must_use]
    pub fn with_relief<R: Relief<F>>(self, relief: R) -> KvSeat<'k, 's, 'm, P, F, R> {
        KvSeat {
            kv: self.kv,
            held: self.held,
            ranges: self.ranges,
            relief,
            taken: self.taken,
        }
    }
}

impl<'k, 's, 'm, P: FramePlatform, F: FrameSource, R> KvSeat<'k, 's, 'm, P, F, R> {
    /// Another relief of the same kind from now on.
    pub(crate) fn set_relief(&mut self, relief: R) {
        self.relief = relief;
    }

    /// From here to [`exit`](Self::exit) no other CPU touches the seat, and a CPU that stops all CPUs
    /// waits for this one. In between the caller must not enter the seat in the space. Of the zones it
    /// may take only blocks that are there at once, and it may give blocks back.
    #[inline(always)]
    pub(super) fn enter(&self) {
        if !self.try_enter() {
            self.wait_if_claimed();
        }
    }

    /// Enters, but does not wait: see `Turn::try_enter`.
    #[inline(always)]
    pub(super) fn try_enter(&self) -> bool {
        self.held.words.turn().try_enter::<P>()
    }

    /// In a busy seat, before the caller does anything in it: lets a CPU that claims the seat have it
    /// first.
    #[inline]
    pub(super) fn wait_if_claimed(&self) {
        self.held.words.turn().wait_if_claimed(&self.kv.platform);
    }

    #[inline(always)]
    pub(super) fn exit(&self) {
        self.held.words.turn().exit();
    }
}
