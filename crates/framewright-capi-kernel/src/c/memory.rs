// UNSAFETY: exported names, and pointers of C's that go to `pointers` and `head`.

//! A memory: how it is laid out, made and ended; frames that come and go; statistics and checks.

use super::head::{self, KernelLayout, either};
use super::platform::FwkPlatform;
use super::{KernelRefusal, coded, panic};
use core::ffi::{c_char, c_int, c_void};
use framewright::engine::EngineLayout;
use framewright::policy::RangeConfig;
use framewright::reserve::ReserveLayout;
use framewright::{Addr, Frame};
use framewright_capi_core::arguments::{WrongArgument, page_at, run_of, whole_pages};
use framewright_capi_core::codes::{self, FW_EINVAL, FW_OK};
use framewright_capi_core::pointers::{self, Sized32};

/// A memory: frames, address space and objects of one kernel. C has its handle, which is an address in the metadata.
///
/// Functions that take one also return `FW_EHANDLE` for NULL or a memory that has ended, `FW_EINVAL` for a CPU that the
/// layout has not, and `FW_EREENTRY`.
#[derive(Debug)]
pub struct FwkMemory {
    _opaque: [u8; 0],
}

/// The metadata hold zeroes, so that `fwk_new` need not write those of pages and objects that are never used.
pub const FWK_ZEROED: u64 = 1;
/// Freed areas stay mapped for a while, and one of up to 128 pages keeps its frames for the next request of its length,
/// which costs nanoseconds. Without it each free of an area unmaps it before it returns.
pub const FWK_KEEPS_MAPPED: u64 = 2;

/// What a memory is to be. The caller zeroes it, sets `struct_bytes`, and what it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct FwkLayout {
    /// `sizeof (struct fwk_layout)`.
    pub struct_bytes: u32,
    /// How many CPUs there are, 1 to 1023: calls name one of 0 to `cpus` - 1.
    ///
    /// A number stands for seats, and at any moment at most one caller uses it: interrupts off, or one level of them, and
    /// no preemption. A kernel whose handlers call lays out twice as many, and handlers on CPU c call as CPU n + c.
    pub cpus: u32,
    /// The first frame that may ever be added, by number: its physical address divided by 4096.
    pub first_frame: u64,
    /// How many frames there are from it on, holes included. The metadata have about 43 bytes for each, and
    /// 17 for each page of the window.
    pub frames: u64,
    /// The address of the window in which areas appear: a multiple of 4 MiB, outside of the direct map.
    pub window: u64,
    /// The window's length: whole pages, less than 4 TiB.
    pub window_bytes: u64,
    /// The first frame of the reserve: 0 frames is none. They may lie among the others, and are not added.
    pub reserve_first: u64,
    /// How many frames it has.
    pub reserve_frames: u64,
    /// `FWK_ZEROED`, `FWK_KEEPS_MAPPED`, both added, or 0.
    pub flags: u64,
    /// How many CPUs, the first ones, have a unit for per-CPU objects: see `fwk_alloc_percpu`. 0 is none.
    pub units: u64,
    /// The length of each unit: whole pages, up to 4 GiB. The units are the last bytes of the window. The metadata have
    /// 88 bytes for each page of a unit, and 8 for each CPU that has one.
    pub unit_bytes: u64,
}

// SAFETY: numbers without padding (the assertion below), of which the first one is the length.
unsafe impl Sized32 for FwkLayout {
    const FIRST: usize = size_of::<Self>();
}

const _: () = assert!(size_of::<FwkLayout>() == 2 * 4 + 9 * 8);

impl FwkLayout {
    fn checked(&self) -> Result<KernelLayout, KernelRefusal> {
        let cpus = u16::try_from(self.cpus).map_err(|_| KernelRefusal(FW_EINVAL))?;
        if self.flags & !(FWK_ZEROED | FWK_KEEPS_MAPPED) != 0 {
            return Err(WrongArgument::Flags(self.flags as u32).into());
        }
        let start = page_at(Addr(self.window))?;
        let pages = whole_pages(self.window_bytes, "window_bytes")?;
        let base = EngineLayout::new(Frame(self.first_frame), self.frames)
            .with_cpus(cpus)
            .with_window(start, pages)
            .with_range_config(match self.flags & FWK_KEEPS_MAPPED {
                0 => RangeConfig::for_cpus(cpus),
                _ => RangeConfig::for_cpus(cpus).kept(),
            })
            .with_objects();
        let base = match self.units {
            0 => base,
            units => {
                let units = u16::try_from(units).map_err(|_| KernelRefusal(FW_EINVAL))?;
                base.with_percpu(units, whole_pages(self.unit_bytes, "unit_bytes")?)
            }
        };
        let reserve = match self.reserve_frames {
            0 => None,
            frames => Some(ReserveLayout::new(run_of(self.reserve_first, frames)?)),
        };
        Ok(KernelLayout {
            base,
            reserve,
            cpus,
            is_zeroed: self.flags & FWK_ZEROED != 0,
        })
    }
}

/// The library's version, as "0.2.0". The text is there for ever.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The text of a code: one line, in English, there for ever. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_strerror(code: c_int) -> *const c_char {
    codes::text(code).as_ptr()
}

/// The code of the last call for that CPU that failed, whatever it returned; `FW_OK` if none has. A call that succeeds does
/// not change it; one of a handler that comes between may.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_last_error(memory: *mut FwkMemory, cpu: u32) -> c_int {
    head::last(memory, cpu)
}

/// Writes how many bytes of metadata a memory of that layout needs to `bytes`.
///
/// Cost: below a microsecond.
///
/// Errors: `FW_EINVAL` for a layout that no memory can have, `FW_E2BIG` for one of a later version. `bytes` is unchanged
/// then.
///
/// # Safety
/// Unless they are NULL, `layout` has as many bytes as its first field says, and `bytes` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_metadata_bytes(layout: *const FwkLayout, bytes: *mut usize) -> c_int {
    let needed = || -> Result<(), KernelRefusal> {
        // SAFETY: promised by the caller.
        let layout = unsafe { pointers::read_sized(layout, "layout") }?;
        let needed = layout.checked()?.bytes()?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(bytes, needed, "bytes") }?)
    };
    needed().map_or_else(|KernelRefusal(code)| code, |()| FW_OK)
}

/// Makes a memory in `bytes` bytes of `metadata`, and writes its handle to `memory`. No frame exists in it yet: see
/// `fwk_add`. Any number of memories may exist; they know nothing of each other.
///
/// Cost: O(metadata), which it writes; with `FWK_ZEROED` most of it is not touched.
///
/// Errors: `FW_ENOMEM` if `metadata` is NULL or has too few bytes, `FW_EINVAL` for a layout that no memory can have, such
/// as a window in the direct map, and for a platform without `map` or `unmap`, `FW_E2BIG` for structures of a later
/// version. `memory` is unchanged then; the metadata may hold anything.
///
/// # Safety
/// Unless they are NULL, `layout` and `platform` have as many bytes as their first field says, `memory` can be written,
/// the metadata hold zeroes if `layout` says so, and the library alone uses them until `fwk_end`. As long, the callbacks
/// do what the platform says, and what is added lies in the direct map and is touched only by its owner.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_new(
    layout: *const FwkLayout,
    platform: *const FwkPlatform,
    metadata: *mut c_void,
    bytes: usize,
    memory: *mut *mut FwkMemory,
) -> c_int {
    let new = || -> Result<(), KernelRefusal> {
        pointers::check(memory, "memory")?;
        // SAFETY: promised by the caller.
        let (layout, platform) = unsafe {
            (
                pointers::read_sized(layout, "layout")?,
                pointers::read_sized(platform, "platform")?,
            )
        };
        platform.check()?;
        let bytes = if metadata.is_null() { 0 } else { bytes };
        // SAFETY: promised by the caller.
        let made = unsafe { head::make(&layout.checked()?, platform, metadata.cast(), bytes) }?;
        panic::hears(made.table);
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(memory, made.handle, "memory") }?)
    };
    new().map_or_else(|KernelRefusal(code)| code, |()| FW_OK)
}

/// Ends a memory: the metadata are the caller's again. It unmaps nothing, and what was allocated stays as it is.
///
/// Cost: O(CPUs).
///
/// Errors: `FW_EHANDLE`; `FW_EBUSY` if a CPU is inside a call. Nothing has changed then.
///
/// # Safety
/// No call for this memory is under way on another CPU, and the handle is that of a memory, or was, in metadata that can
/// still be read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_end(memory: *mut FwkMemory) -> c_int {
    match head::end(memory) {
        Ok(table) => {
            panic::hears_no_longer(table);
            FW_OK
        }
        Err(code) => code,
    }
}

/// Says that `frames` frames from `first` on exist, all of them free: memory found at boot, or plugged in later.
///
/// Cost: it stops all CPUs. O(frames).
///
/// Errors: `FW_EFOREIGN` outside of the layout, `FW_EINVAL` if some exist already or are the reserve's. Nothing has changed
/// then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_add(memory: *mut FwkMemory, cpu: u32, first: u64, frames: u64) -> c_int {
    coded(memory, cpu, |inside| {
        let run = run_of(first, frames)?;
        Ok(either!(KernelEngine, inside.engine, engine => engine.add(run))?)
    })
}

/// Says that `frames` frames from `first` on, all of them free, exist no longer.
///
/// Cost: it stops all CPUs. O(frames).
///
/// Errors: `FW_EFOREIGN` outside of the layout, `FW_EINVAL` if one is not free. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_remove(memory: *mut FwkMemory, cpu: u32, first: u64, frames: u64) -> c_int {
    coded(memory, cpu, |inside| {
        let run = run_of(first, frames)?;
        Ok(either!(KernelEngine, inside.engine, engine => engine.remove(run))?)
    })
}

/// Gives back what all CPUs keep for their next requests: lazy and kept areas are unmapped; empty slabs, per-CPU pages
/// without objects and cached frames become free. A CPU that is taken down calls it before it calls no more: nothing is held back from the others then.
///
/// Cost: it stops all CPUs for O(areas that are kept, and slabs that are empty), with `unmap` and `flush` for what is
/// unmapped.
///
/// Errors: `FW_EHANDLE`, `FW_EINVAL`, `FW_EREENTRY`.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_drain(memory: *mut FwkMemory, cpu: u32) -> c_int {
    coded(memory, cpu, |inside| {
        either!(KernelSeats, inside.seats, seats => seats.drain());
        Ok(())
    })
}

/// Checks all invariants of the memory, for tests.
///
/// Cost: it stops all CPUs for O(memory).
///
/// Errors: `FW_EBROKEN` if one does not hold: metadata were overwritten, or the library is wrong.
#[unsafe(no_mangle)]
pub extern "C" fn fwk_verify(memory: *mut FwkMemory, cpu: u32) -> c_int {
    coded(memory, cpu, |inside| {
        Ok(either!(KernelEngine, inside.engine, engine => engine.verify())?)
    })
}

/// The counters of a memory. Frames and pages have 4096 bytes. The caller sets `struct_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct FwkStats {
    /// `sizeof (struct fwk_stats)`.
    pub struct_bytes: u32,
    /// Zero.
    pub zero: u32,
    /// The frames that exist, without the reserve.
    pub frames: u64,
    /// Free frames, with those that CPUs have cached. Frames of kept areas and of slabs are not free.
    pub free_frames: u64,
    /// Frames handed out so far.
    pub frame_allocs: u64,
    /// Frames given back so far.
    pub frame_frees: u64,
    /// Requests for frames that failed: too few free, or not side by side.
    pub frame_failures: u64,
    /// Areas handed out so far.
    pub area_allocs: u64,
    /// Areas given back so far.
    pub area_frees: u64,
    /// Requests for areas that failed for want of address space.
    pub area_failures: u64,
    /// Pages of areas that are in use, or whose free is deferred, guard pages included.
    pub live_pages: u64,
    /// Pages of freed areas that are kept with their frames for the next request.
    pub kept_pages: u64,
    /// Freed pages that wait for a flush, or for a purge to unmap them.
    pub lazy_pages: u64,
    /// Objects handed out so far, of all kinds.
    pub object_allocs: u64,
    /// Objects given back so far.
    pub object_frees: u64,
    /// Objects that became mapped pages because no contiguous block was free.
    pub spills: u64,
    /// Frames in slabs.
    pub slab_frames: u64,
    /// Frees of frames and objects that were refused.
    pub bad_frees: u64,
    /// The frames of the reserve.
    pub reserve_frames: u64,
    /// Those of them that owners have.
    pub reserve_owned: u64,
    /// Those of them that reservations have set aside, owned or not.
    pub reserve_set_aside: u64,
    /// Times a lock was taken. Accounted only if the platform has `now`.
    pub lock_acquisitions: u64,
    /// Times another CPU held it.
    pub lock_contended: u64,
    /// The longest time that one was held, in nanoseconds.
    pub lock_hold_ns_max: u64,
    /// Per-CPU objects that there are.
    pub percpu_objects: u64,
    /// Pages of a unit with frames behind them: each has a frame for every CPU that has a unit.
    pub percpu_pages: u64,
}

// SAFETY: numbers without padding (the assertion below), of which the first one is the length.
unsafe impl Sized32 for FwkStats {
    const FIRST: usize = size_of::<Self>();
}

const _: () = assert!(size_of::<FwkStats>() == 2 * 4 + 24 * 8);

/// Writes the counters of a memory to `stats`, as many of them as its first field, `struct_bytes`, has room for.
///
/// Counters that change meanwhile may be some operations apart. Cost: O(CPUs).
///
/// Errors: `FW_EINVAL` for NULL, or if `struct_bytes` was not set to `sizeof (struct fwk_stats)`.
///
/// # Safety
/// Unless it is NULL, `stats` has as many bytes as its first field says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_stats(
    memory: *mut FwkMemory,
    cpu: u32,
    stats: *mut FwkStats,
) -> c_int {
    coded(memory, cpu, |inside| {
        // SAFETY: promised by the caller.
        let len = unsafe { pointers::len_of(stats, "stats") }?;
        let (present, frames, ranges, objects, percpu, reserve) = either!(KernelEngine, inside.engine, engine => (
            engine.zones()[0].present_frames(),
            engine.frame_stats(),
            engine.space().stats(),
            engine.objects().stats(),
            engine.percpu_stats(),
            engine.reserve().map(|reserve| (reserve.run(), reserve.occupancy())),
        ));
        let mut locks = frames.pageblock_locks;
        let stops = [frames.stop_lock, ranges.stop_lock, objects.stop_lock];
        for lock in [ranges.arena_lock, ranges.depot_lock].iter().chain(&stops) {
            locks.add(lock);
        }
        let all = FwkStats {
            struct_bytes: 0,
            zero: 0,
            frames: present,
            free_frames: frames.nr_free_pages,
            frame_allocs: frames.pgalloc.iter().sum(),
            frame_frees: frames.pgfree,
            frame_failures: frames.exhausted.iter().chain(&frames.fragmented).sum(),
            area_allocs: ranges.area_allocs,
            area_frees: ranges.area_frees,
            area_failures: ranges.failures,
            live_pages: ranges.live_pages,
            kept_pages: ranges.kept_pages,
            lazy_pages: ranges.vmap_lazy_nr,
            object_allocs: objects.slab_allocs + objects.run_allocs + objects.mapped_allocs,
            object_frees: objects.slab_frees + objects.run_frees + objects.mapped_frees,
            spills: objects.spills,
            slab_frames: objects.slab_frames,
            bad_frees: frames.bad_frees + objects.bad_frees + objects.double_frees,
            reserve_frames: reserve.map_or(0, |(run, _)| run.frames()),
            reserve_owned: reserve.map_or(0, |(_, occupancy)| occupancy.owned),
            reserve_set_aside: reserve.map_or(0, |(_, occupancy)| occupancy.reserved),
            lock_acquisitions: locks.acquisitions,
            lock_contended: locks.contended,
            lock_hold_ns_max: locks.hold_ns_max,
            percpu_objects: percpu.objects,
            percpu_pages: percpu.pages,
        };
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::write_sized(stats, &all, len, "stats") }?)
    })
}
