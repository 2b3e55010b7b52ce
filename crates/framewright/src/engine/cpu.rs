//! A CPU's seats in all parts of an engine, as one value.

use super::Engine;
use super::parts::{Parts, SharedParts};
use super::relief::ZoneRelief;
use crate::frame::{AllocError, FreeError, Seat, Seats, Zone};
use crate::kv::KvLayout;
use crate::platform::{FramePlatform, Relief, ReservePlatform};
use crate::reclaim::{BlockRequest, Clients, CpuRequests, Shrink};
use crate::reserve::{Guest, Key, PutRefused};
use crate::units::{Context, CpuId, Frame, Mobility, Order, Run, SetupError};
use core::fmt;

/// A CPU's place in an engine: its seats in all parts. Only one thread at a time has it, and two
/// threads cannot share it.
///
/// Its requests reclaim nothing, unless it has [clients](Self::with_clients).
pub struct Cpu<'e, 'm: 'e, P: FramePlatform + Clone, W: Parts<P> = KvLayout, const ZONES: usize = 1>
{
    pub(super) seat: W::Seat<'e, 'm, ZONES>,
    guest: Option<Guest<'e, 'm, P>>,
    relief: ZoneRelief<'e, 'm, P, ZONES>,
    pub(super) shared: &'e SharedParts<'m, P>,
    /// By zone: frames that the CPU may hand out before its next look at the watermarks.
    left: [u32; ZONES],
    cpu: CpuId,
}

impl<P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize> fmt::Debug
    for Cpu<'_, '_, P, W, ZONES>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cpu")
            .field("cpu", &self.cpu)
            .finish_non_exhaustive()
    }
}

impl<'e, 'm, P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize> Cpu<'e, 'm, P, W, ZONES> {
    pub(super) fn take(
        engine: &'e Engine<'m, P, W, ZONES>,
        cpu: CpuId,
    ) -> Result<Self, SetupError> {
        let relief = ZoneRelief {
            zones: core::array::from_fn(|nth| engine.reclaim(nth)),
            clients: None,
        };
        let frames = Seats::take(engine.zones(), cpu)?;
        let seat = W::seat(&engine.shared, cpu, frames, relief)?;
        let guest = match &engine.reserve {
            Some(reserve) => Some(reserve.guest(cpu).ok_or(SetupError::Taken(cpu))?),
            None => None,
        };
        Ok(Self {
            seat,
            guest,
            relief,
            shared: &engine.shared,
            left: [0; ZONES],
            cpu,
        })
    }

    /// The same with clients that give memory back: for each zone those that hold its frames. A request
    /// asks them when a zone is short, if its context may block and may reclaim.
    #[must_use]
    pub fn with_clients(mut self, clients: [Clients<'e, Seat<'e, 'm, P>>; ZONES]) -> Self {
        self.relief.clients = Some(clients);
        W::relieve(&mut self.seat, self.relief);
        self
    }

    /// The CPU.
    #[must_use]
    pub const fn id(&self) -> CpuId {
        self.cpu
    }

    /// Gives back what all CPUs keep for their next requests: areas that are lazy or kept, slabs and per-CPU pages without
    /// objects, cached frames. Stops all CPUs of each part in turn. Time: O(what is kept).
    ///
    /// A CPU that is taken down calls it, and then drops its seats. What others free later in its slabs and spans waits
    /// until its seats are taken again, or until a request would fail without it. A poisoned space stays as it is.
    pub fn drain(&mut self) {
        // Areas have frames, and so have slabs: the zones come last.
        W::drain(self.shared, &mut self.seat);
        for seat in W::frames(&mut self.seat).all() {
            seat.zone().drain();
        }
    }

    /// The seats in the zones, for all that a seat can do. What is taken there obeys no watermark.
    ///
    /// They must stay here. Seats that a caller exchanges for those of another engine (`mem::swap`) give that
    /// engine's frames to this one's objects and areas, and no call tells.
    pub fn frames(&mut self) -> &mut Seats<'e, 'm, P, ZONES> {
        W::frames(&mut self.seat)
    }

    /// Allocates a block of `order` for contents of `mobility`, from the first zone that has one.
    ///
    /// Frames behind lazy and kept areas serve no such request, nor do those behind per-CPU pages without objects. They are
    /// few ([`RangeConfig`](crate::policy::RangeConfig); four pages, if the platform unmaps them), and a
    /// [drain](Self::drain) gives them back.
    ///
    /// Without clients: as [`Seats::alloc`], or as [`Seats::alloc_at_once`] if the context must not block.
    /// With clients: as [`ReclaimSeat::alloc`](crate::reclaim::ReclaimSeat::alloc) in each zone, and a zone
    /// above its low watermark comes before those below.
    ///
    /// # Errors
    /// As these. Nothing has changed then, but clients may have given frames back and moved.
    #[inline(always)]
    pub fn alloc(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        let frame = match self.relief.clients {
            None => W::frames(&mut self.seat).alloc_in(order, mobility, context)?,
            Some(_) => self.alloc_with_clients(order, mobility, context)?,
        };
        Ok(frame)
    }

    #[inline]
    fn alloc_with_clients(
        &mut self,
        order: Order,
        mobility: Mobility,
        context: Context,
    ) -> Result<Frame, AllocError> {
        if let Some(frame) = self.requests(0).alloc_fast(order, mobility) {
            return Ok(frame);
        }
        let request = BlockRequest {
            order,
            mobility,
            context,
            goes_on: false,
        };
        self.alloc_slow(&request)
    }

    /// A block of `order` that is there at once, for a caller that goes on in another way if there is none.
    fn alloc_first(&mut self, order: Order, mobility: Mobility) -> Result<Frame, AllocError> {
        if self.relief.clients.is_none() {
            return W::frames(&mut self.seat).alloc_at_once_first(order, mobility);
        }
        if let Some(frame) = self.requests(0).alloc_fast(order, mobility) {
            return Ok(frame);
        }
        self.alloc_slow(&BlockRequest {
            order,
            mobility,
            context: Context::NOWAIT,
            goes_on: true,
        })
    }

    /// Allocates when the first zone's cache has no block, or a look at its watermarks is due.
    #[cold]
    #[inline(never)]
    fn alloc_slow(&mut self, request: &BlockRequest) -> Result<Frame, AllocError> {
        let freed = W::frames(&mut self.seat).freed_from(0);
        let clients = self.relief.clients.unwrap_or([Clients::NONE; ZONES]);
        if let [clients] = clients.as_slice() {
            return self.requests(0).alloc_slow(request, clients);
        }
        let above = (0..ZONES).find_map(|nth| self.requests(nth).alloc_above_low(request));
        if let Some(frame) = above {
            return Ok(frame);
        }
        let mut worst = None;
        for (nth, clients) in clients.iter().enumerate() {
            match self.requests(nth).alloc_slow(request, clients) {
                Ok(frame) => return Ok(frame),
                Err(error) => worst = Some(AllocError::worse(worst, error)),
            }
        }
        let &BlockRequest {
            order,
            mobility,
            context,
            ..
        } = request;
        let worst = worst.unwrap_or(AllocError::Exhausted);
        let frames = W::frames(&mut self.seat);
        if !context.may_block {
            return Err(frames.unless_freed(0, freed, worst));
        }
        frames
            .alloc_if_freed(0, order, mobility, freed)
            .ok_or(worst)
    }

    /// What the CPU's requests in zone `nth` work with.
    #[inline(always)]
    fn requests(&mut self, nth: usize) -> CpuRequests<'_, 'e, 'm, P> {
        CpuRequests {
            reclaim: &self.relief.zones[nth],
            frames: W::frames(&mut self.seat).seat(nth),
            left: &mut self.left[nth],
        }
    }

    /// Frees the block of `order` at `frame`, in whichever zone it lies.
    ///
    /// # Errors
    /// As [`Seat::free`]. Nothing has changed then.
    #[inline(always)]
    pub fn free(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        W::frames(&mut self.seat).free(frame, order)
    }

    /// Frees the block of `order` at `frame`, a whole allocation or an aligned part of one, in whichever zone it lies.
    /// With order 0 it frees one frame, of whatever allocation.
    ///
    /// # Errors
    /// As [`Seat::free_part`].
    #[inline]
    pub fn free_part(&mut self, frame: Frame, order: Order) -> Result<(), FreeError> {
        let seat = W::frames(&mut self.seat).seat_of(frame);
        seat.ok_or(FreeError::Outside(frame))?
            .free_part(frame, order)
    }

    /// Makes the allocation of `order` at `frame` into allocations of order `into`, each of which is freed by itself.
    ///
    /// # Errors
    /// As [`Seat::split`].
    pub fn split(&mut self, frame: Frame, order: Order, into: Order) -> Result<(), FreeError> {
        let seat = W::frames(&mut self.seat).seat_of(frame);
        seat.ok_or(FreeError::Outside(frame))?
            .split(frame, order, into)
    }

    /// Allocates `frames` frames side by side, the first at a multiple of `align` frames, in one zone.
    ///
    /// First it takes the smallest block in which they fit, if one is there at once, and frees the rest. Else, if
    /// the context may block, it looks for a run of free frames of any shape:
    /// [`Zone::alloc_contiguous`](crate::frame::Zone::alloc_contiguous) with its stops of all CPUs. Several
    /// zones are searched one after the other, and at last all at once, if a frame was freed meanwhile. If
    /// there is none either, it asks its clients for such a block, as [`alloc`](Self::alloc). Clients are not
    /// asked for a run that is longer than any block.
    ///
    /// A request that fails counts as a failure of that block's order, in each zone that has the order; a longer one
    /// counts as none. One that is served counts as none, except in zones whose clients could not help.
    ///
    /// # Errors
    /// [`AllocError::Impossible`] if no zone has that many frames, or `align` is no power of two, or `frames`
    /// is 0. [`AllocError::Exhausted`] if fewer frames are free, [`AllocError::Fragmented`] if no such
    /// run is, [`AllocError::WouldWait`] if the context must not look for it. Nothing has changed then, but
    /// clients may have given frames back and moved.
    pub fn alloc_run(
        &mut self,
        frames: u64,
        align: u64,
        mobility: Mobility,
        context: Context,
    ) -> Result<Run, AllocError> {
        if frames == 0 || !align.is_power_of_two() {
            return Err(AllocError::Impossible);
        }
        let max = W::frames(&mut self.seat).max_order();
        let order = Order::covering(frames.max(align)).filter(|order| *order <= max);
        let seats = W::frames(&mut self.seat);
        if self.relief.clients.is_none()
            && let Some(order) = order
            && let Some(run) =
                (0..ZONES).find_map(|nth| seats.seat(nth).try_first((order, mobility), frames))
        {
            return Ok(run);
        }
        (0..ZONES).for_each(|nth| seats.seat(nth).give_loose());
        if let Some(order) = order
            && let Ok(first) = self.alloc_first(order, mobility)
        {
            return Ok(self.cut(first, (order, mobility), frames));
        }
        if !context.may_block {
            let error = self.why_no_run(frames);
            return Err(self.failed_run(order, error));
        }
        let worst = match self.find_run(frames, align, mobility) {
            Ok(run) => return Ok(run),
            Err(worst) => worst,
        };
        match order {
            Some(of) if self.relief.clients.is_some() => {
                // It counts its failure itself.
                let first = self.alloc(of, mobility, context).map_err(|_| worst)?;
                Ok(self.cut(first, (of, mobility), frames))
            }
            order => Err(self.failed_run(order, worst)),
        }
    }

    /// Takes a run of free frames of any shape: in one zone after the other, and at last in all at once. Not inlined, so that
    /// what it needs is off the stack when clients are asked.
    #[inline(never)]
    fn find_run(&mut self, frames: u64, align: u64, mobility: Mobility) -> Result<Run, AllocError> {
        let freed = W::frames(&mut self.seat).freed_from(0);
        let mut worst = None;
        for nth in 0..ZONES {
            let zone = W::frames(&mut self.seat).seat(nth).zone();
            match zone.alloc_contiguous(frames, align, mobility) {
                Ok(run) => return Ok(run),
                Err(error) => worst = Some(AllocError::worse(worst, error)),
            }
        }
        let last = W::frames(&mut self.seat).alloc_run_if_freed(frames, align, mobility, freed);
        last.ok_or(worst.unwrap_or(AllocError::Impossible))
    }

    /// Counts a request for a run that would fit into a block of `order`.
    fn failed_run(&mut self, order: Option<Order>, error: AllocError) -> AllocError {
        if let Some(order) = order {
            W::frames(&mut self.seat).count_failure(order, error);
        }
        error
    }

    /// Why a request that must not look for a run of this many frames has none, by the zones' counts alone.
    #[cold]
    #[inline(never)]
    fn why_no_run(&mut self, frames: u64) -> AllocError {
        let seats = W::frames(&mut self.seat).all();
        let is_any = |count: fn(&Zone<'m, P>) -> u64| {
            let mut zones = seats.iter().map(Seat::zone);
            zones.any(|zone| count(zone) >= frames)
        };
        if is_any(Zone::frames_not_allocated) {
            AllocError::WouldWait
        } else if is_any(Zone::present_frames) {
            AllocError::Exhausted
        } else {
            AllocError::Impossible
        }
    }

    /// The first `frames` frames of a block that was just allocated; the others are freed.
    fn cut(&mut self, first: Frame, block: (Order, Mobility), frames: u64) -> Run {
        let seat = W::frames(&mut self.seat).seat_of(first);
        let seat = seat.expect("one of the zones gave the block");
        seat.keep_first(first, block, frames)
    }

    /// Frees the frames of `run`: what [`alloc_run`](Self::alloc_run) gave, or a part of it, or
    /// anything allocated that lies side by side in one zone.
    ///
    /// # Errors
    /// As [`Seat::free_frames`]; if the run reaches out of its zone, nothing has changed.
    pub fn free_run(&mut self, run: Run) -> Result<(), FreeError> {
        let seat = W::frames(&mut self.seat).seat_of(run.start());
        seat.ok_or(FreeError::Outside(run.start()))?
            .free_frames(run)
    }
}

impl<'e, 'm, P: FramePlatform + Clone, W: Parts<P>> Cpu<'e, 'm, P, W, 1> {
    /// The same in an engine of one zone, with clients that can give frames back: see
    /// [`with_clients`](Self::with_clients), which knows of contents that move, too.
    #[must_use]
    pub fn with_shrinkers(self, shrink: &'e [&'e dyn Shrink<Seat<'e, 'm, P>>]) -> Self {
        let migrate = &[];
        self.with_clients([Clients { shrink, migrate }])
    }
}

impl<P: FramePlatform + ReservePlatform + Clone, W: Parts<P>, const ZONES: usize>
    Cpu<'_, '_, P, W, ZONES>
{
    /// Stores a page in the reserve, as [`Guest::put`].
    ///
    /// # Errors
    /// As that; [`PutRefused::NoPool`] if there is no reserve.
    pub fn put(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        let guest = self.guest.as_mut().ok_or(PutRefused::NoPool)?;
        guest.put(key, page)
    }

    /// Loads a page from the reserve, as [`Guest::get`]; `false` if it is not there.
    pub fn get(&mut self, key: Key, page: &mut [u64; 512]) -> bool {
        self.guest
            .as_mut()
            .is_some_and(|guest| guest.get(key, page))
    }
}

impl<'e, 'm, P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize> Cpu<'e, 'm, P, W, ZONES> {
    /// The seat for guests in the reserve, for all that a guest can do.
    pub const fn guest(&mut self) -> Option<&mut Guest<'e, 'm, P>> {
        self.guest.as_mut()
    }
}

impl<P: FramePlatform + Clone, W: Parts<P>, const ZONES: usize> Cpu<'_, '_, P, W, ZONES> {
    /// Asks the clients for frames. Returns how many came.
    pub(super) fn reclaim(&mut self, wanted: u64, context: Context) -> u64 {
        let relief = self.relief;
        relief.reclaim(W::frames(&mut self.seat), wanted, context)
    }
}
