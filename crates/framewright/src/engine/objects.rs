//! Areas, mappings and objects through an engine; and per-CPU objects, which take their frames from the CPU that asks for
//! them. Where a page or a page table lacks a frame, the CPU's clients are asked.

use super::parts::RangeParts;
use super::{Cpu, Engine};
use crate::frame::Seats;
use crate::kv::{KvError, KvFreeError, KvLayout, KvRequest, KvSeat};
use crate::platform::{ObjectPlatform, RangePlatform, Relief};
use crate::stats::PerCpuStats;
use crate::units::{Addr, Context, CpuId, Frame, Page, PageAccess, Run, SetupError};
use crate::vrange::{AreaRequest, RangeError, RangeFreeError, RangeSeat};

/// The most page tables at one end of a mapping, one for each level: some may go to caches.
const TABLE_LEVELS: u64 = 4;

/// More page tables than lie between its ends.
const fn tables_over(pages: u64) -> u64 {
    pages / 256
}

/// Whether clients were asked for a request's own frames, and for those of page tables: each at most once.
#[derive(Default)]
struct AskedClients([bool; 2]);

impl AskedClients {
    /// Notes that they are asked now. Returns whether they were not before.
    fn is_first(&mut self, is_for_tables: bool) -> bool {
        !core::mem::replace(&mut self.0[usize::from(is_for_tables)], true)
    }
}

/// What a request may lack.
#[derive(Clone, Copy)]
struct RangeNeed {
    /// Frames of its own.
    frames: u64,
    /// The pages that it maps, which need page tables.
    pages: u64,
    context: Context,
}

impl RangeNeed {
    const fn of_area(request: &AreaRequest) -> Self {
        Self {
            frames: request.pages,
            pages: request.pages,
            context: request.context,
        }
    }

    /// Of a mapping of the caller's frames.
    const fn of_mapping(pages: u64, context: Context) -> Self {
        Self {
            frames: 0,
            pages,
            context,
        }
    }
}

impl<'e, 'm, P: RangePlatform + Clone, W: RangeParts<P>, const ZONES: usize>
    Cpu<'e, 'm, P, W, ZONES>
{
    /// The seat in the address space, for all that a seat can do.
    pub fn ranges(&mut self) -> &mut RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>> {
        W::ranges(&mut self.seat)
    }

    /// Allocates an area of mapped frames, as [`RangeSeat::vmalloc`]. If too few frames are
    /// free, for its pages or for page tables, it asks its clients, at most once for each.
    ///
    /// # Errors
    /// As that.
    #[inline]
    pub fn vmalloc(&mut self, request: &AreaRequest) -> Result<Page, RangeError> {
        match self.ranges().vmalloc(request) {
            Err(error) if error.is_for_memory() => {
                let need = RangeNeed::of_area(request);
                self.again(need, error, move |seat| seat.vmalloc(request))
            }
            made => made,
        }
    }

    /// Frees an area, as [`RangeSeat::vfree`]. Returns its length in pages.
    ///
    /// # Errors
    /// As that.
    #[inline]
    pub fn vfree(&mut self, page: Page) -> Result<u64, RangeFreeError> {
        self.ranges().vfree(page)
    }

    /// Frees the areas whose free any CPU has deferred, as [`RangeSeat::free_deferred`]. Returns how many there were. To defer
    /// one takes no `Cpu`: the engine's [`space`](Engine::space) does ([`vfree_atomic`](crate::vrange::Space::vfree_atomic)).
    #[inline]
    pub fn free_deferred(&mut self) -> u64 {
        self.ranges().free_deferred()
    }

    /// Maps frames of the caller's, as [`RangeSeat::map_ram`]. If too few frames are free for page tables, it asks its clients
    /// once.
    ///
    /// # Errors
    /// As that.
    #[inline(always)]
    pub fn map_ram(&mut self, frames: &[Frame], context: Context) -> Result<Page, RangeError> {
        match self.ranges().map_ram(frames, context) {
            Err(error) if error.is_for_memory() => {
                let need = RangeNeed::of_mapping(frames.len() as u64, context);
                self.again(need, error, move |seat| seat.map_ram(frames, context))
            }
            mapped => mapped,
        }
    }

    /// Maps frames of the caller's for an access, as [`RangeSeat::vmap`]. If too few frames are free for
    /// page tables, it asks its clients once.
    ///
    /// # Errors
    /// As that.
    pub fn vmap(
        &mut self,
        frames: &[Frame],
        access: PageAccess,
        context: Context,
    ) -> Result<Page, RangeError> {
        match self.ranges().vmap(frames, access, context) {
            Err(error) if error.is_for_memory() => {
                let need = RangeNeed::of_mapping(frames.len() as u64, context);
                self.again(need, error, move |seat| seat.vmap(frames, access, context))
            }
            mapped => mapped,
        }
    }

    /// Maps frames that follow one another for an access, a device's too, as [`RangeSeat::ioremap`]. If too few frames
    /// are free for page tables, it asks its clients once.
    ///
    /// # Errors
    /// As that.
    pub fn ioremap(
        &mut self,
        frames: Run,
        access: PageAccess,
        context: Context,
    ) -> Result<Page, RangeError> {
        match self.ranges().ioremap(frames, access, context) {
            Err(error) if error.is_for_memory() => {
                let need = RangeNeed::of_mapping(frames.frames(), context);
                self.again(need, error, move |seat| {
                    seat.ioremap(frames, access, context)
                })
            }
            mapped => mapped,
        }
    }

    /// Unmaps what one of these three mapped, as [`RangeSeat::unmap_ram`]. Returns how many pages.
    ///
    /// # Errors
    /// As that.
    #[inline(always)]
    pub fn unmap_ram(&mut self, page: Page, pages: u64) -> Result<u64, RangeFreeError> {
        self.ranges().unmap_ram(page, pages)
    }

    /// Makes a request again that lacked memory: has clients give that. Once more if it lacks the other kind then: page tables, or
    /// frames of its own.
    #[cold]
    #[inline(never)]
    fn again(
        &mut self,
        need: RangeNeed,
        mut error: RangeError,
        request: impl Fn(&mut RangeSeat<'e, 'm, P, Seats<'e, 'm, P, ZONES>>) -> Result<Page, RangeError>,
    ) -> Result<Page, RangeError> {
        let mut asked = AskedClients::default();
        while error.is_for_memory() && asked.is_first(error.is_for_tables()) {
            // Where a table lacks a frame, the request's own were there, and are free again.
            let lacking = match error.is_for_tables() {
                true => 2 * TABLE_LEVELS + tables_over(need.pages),
                false => need.frames,
            };
            if self.reclaim(lacking, need.context) == 0 {
                break;
            }
            match request(self.ranges()) {
                Err(again) => error = again,
                served => return served,
            }
        }
        Err(error)
    }
}

impl<'e, 'm, P: ObjectPlatform + Clone, const ZONES: usize> Cpu<'e, 'm, P, KvLayout, ZONES> {
    /// The seat in the object allocator, for all that a seat can do.
    pub const fn objects(
        &mut self,
    ) -> &mut KvSeat<
        'e,
        'e,
        'm,
        P,
        Seats<'e, 'm, P, ZONES>,
        impl Relief<Seats<'e, 'm, P, ZONES>> + use<'e, 'm, P, ZONES>,
    > {
        &mut self.seat
    }

    /// Allocates an object that is contiguous in the direct map, as [`KvSeat::kmalloc`].
    ///
    /// # Errors
    /// As that.
    #[inline]
    pub fn kmalloc(&mut self, request: &KvRequest) -> Result<Addr, KvError> {
        self.seat.kmalloc(request)
    }

    /// Allocates an object that need not be contiguous, as [`KvSeat::kvmalloc`].
    ///
    /// # Errors
    /// As that.
    #[inline]
    pub fn kvmalloc(&mut self, request: &KvRequest) -> Result<Addr, KvError> {
        self.seat.kvmalloc(request)
    }

    /// Frees an object of either kind, as [`KvSeat::kvfree`]. Returns its size in bytes.
    ///
    /// # Errors
    /// As that.
    #[inline]
    pub fn kvfree(&mut self, addr: Addr) -> Result<u64, KvFreeError> {
        self.seat.kvfree(addr)
    }
}

impl<P: ObjectPlatform + Clone, const ZONES: usize> Engine<'_, P, KvLayout, ZONES> {
    /// The bytes of each unit, 0 without [units](super::EngineLayout::with_percpu): so far apart lie two
    /// neighbouring CPUs' copies of a per-CPU object.
    #[must_use]
    pub const fn unit_bytes(&self) -> u64 {
        match self.shared.percpu() {
            Some(units) => units.unit_bytes(),
            None => 0,
        }
    }

    /// The address of a CPU's copy of the per-CPU object at `object` \[`per_cpu_ptr`\]: that many units behind it.
    ///
    /// # Errors
    /// [`SetupError::Unknown`] if the CPU has no unit.
    pub fn copy_of(&self, object: Addr, cpu: CpuId) -> Result<Addr, SetupError> {
        let units = self.shared.percpu();
        if units.is_none_or(|units| cpu.0 >= units.cpus()) {
            return Err(SetupError::Unknown(cpu));
        }
        let behind = u64::from(cpu.0) * self.unit_bytes();
        Ok(Addr(object.0.wrapping_add(behind)))
    }

    /// What per-CPU objects have counted; zeroes without [units](super::EngineLayout::with_percpu).
    #[must_use]
    pub fn percpu_stats(&self) -> PerCpuStats {
        let units = self.shared.percpu();
        units.map_or(PerCpuStats::default(), |units| units.stats())
    }
}

impl<P: ObjectPlatform + Clone, const ZONES: usize> Cpu<'_, '_, P, KvLayout, ZONES> {
    /// Allocates an object of `bytes` bytes for each CPU that has a unit, each copy at a multiple of `align_bytes` and
    /// full of zeroes \[`__alloc_percpu`\]. Returns the address of CPU 0's copy: see [`Engine::copy_of`].
    ///
    /// An object of at most 2048 bytes shares a page with others, so mostly this takes no frame; a longer one has whole
    /// pages. For a page it takes a frame for each CPU. If too few are free and the context may block, what all CPUs keep
    /// of areas and objects goes back, and then it asks its clients: at most once for these frames, and once for page tables.
    /// Time: O(bytes of all copies), and O(pages of a unit) for a longer one. It waits for a lock that each CPU holds for a
    /// bounded number of steps.
    ///
    /// # Errors
    /// [`KvError::Empty`], [`KvError::Align`], [`KvError::AlignContiguous`] (more than a page) or [`KvError::TooLong`]
    /// (more than a unit, or the engine has none) if it cannot serve the request; [`KvError::Frames`] if there is no frame
    /// within the context, [`WouldWait`](crate::frame::AllocError::WouldWait) if one that may block might get one, or a
    /// page; [`KvError::Ranges`] if the units have no room left, or the platform maps nothing. No object has changed then.
    pub fn alloc_percpu(
        &mut self,
        bytes: u64,
        align_bytes: u64,
        context: Context,
    ) -> Result<Addr, KvError> {
        let units = self.shared.percpu().ok_or(KvError::TooLong { bytes })?;
        let mut result = units.alloc(bytes, align_bytes, context, self.frames());
        if result.is_err_and(lacks_frames) && context.may_block {
            self.seat.ranges().drain();
            self.seat.drain();
            result = units.alloc(bytes, align_bytes, context, self.frames());
        }
        let mut asked = AskedClients::default();
        while let Err(error) = result
            && lacks_frames(error)
            && asked.is_first(matches!(error, KvError::Ranges(_)))
        {
            let lacking = match error {
                KvError::Ranges(_) => {
                    let pages = bytes.div_ceil(Page::BYTES);
                    let ends = 1 + u64::from(pages > 1);
                    u64::from(units.cpus()) * (ends * TABLE_LEVELS + tables_over(pages))
                }
                _ => units.frames_for(bytes),
            };
            if self.reclaim(lacking, context) == 0 {
                break;
            }
            result = units.alloc(bytes, align_bytes, context, self.frames());
        }
        if matches!(result, Err(KvError::Frames(_) | KvError::Ranges(_))) {
            units.count_failure();
        }
        result
    }

    /// Frees such an object, every copy, whichever CPU allocated it \[`free_percpu`\]. Returns the bytes that each copy had
    /// room for.
    ///
    /// Pages without an object are unmapped and their frames go back, but for four that stay for the next
    /// object while frames are not short: then the CPUs flush once.
    ///
    /// # Errors
    /// [`KvFreeError::Outside`] if CPU 0's unit does not have the address, [`KvFreeError::AlreadyFree`],
    /// [`KvFreeError::NotTheFirst`] or [`KvFreeError::NotAllocated`]. Nothing has changed then.
    pub fn free_percpu(&mut self, object: Addr) -> Result<u64, KvFreeError> {
        let units = self.shared.percpu().ok_or(KvFreeError::Outside(object))?;
        units.free(object, self.frames())
    }

    /// Gives the frames of per-CPU pages without objects back, and tries once more with pages that the platform did not
    /// unmap.
    pub fn purge_percpu(&mut self) {
        if let Some(units) = self.shared.percpu() {
            units.purge(self.frames());
        }
    }
}

/// Whether a per-CPU object lacked frames, for its pages or for a page table.
const fn lacks_frames(error: KvError) -> bool {
    match error {
        KvError::Frames(_) => true,
        KvError::Ranges(error) => error.is_for_memory(),
        _ => false,
    }
}
