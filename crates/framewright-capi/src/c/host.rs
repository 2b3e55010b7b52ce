// UNSAFETY: exported names, and pointers of C's that go to `pointers`.

//! Hosts, a thread's last error, statistics and checks.

use super::coded;
use crate::codes::CallRefusal;
use crate::{registry, seats};
use framewright::Frame;
use framewright::frame::ZoneLayout;
use framewright::kv::KvLayout;
use framewright::policy::RangeConfig;
use framewright_capi_core::arguments::whole_pages;
use framewright_capi_core::codes::{self, FW_EINVAL, FW_OK};
use framewright_capi_core::pointers::{self, Sized32};
use framewright_linux::{HostKv, Options, RangeOptions};
use std::ffi::{c_char, c_int};
use std::mem::size_of;
use std::ptr;

/// A host: memory, and the address space in which it appears. C has only its handle, which is a number and no address.
#[derive(Debug)]
pub struct FwHost {
    _opaque: [u8; 0],
}

/// What a host is to be. `fw_options_init` sets all fields; a caller changes those that it means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct FwOptions {
    /// The length of this structure in the caller's header, in bytes.
    pub struct_bytes: u32,
    /// How many threads have a seat of their own at a time, 1 to 1022. Further threads share one, behind a lock.
    /// Default: 63.
    pub threads: u32,
    /// Memory for frames, areas and objects, in bytes: whole pages, and more of them than threads. It costs nothing until
    /// it is touched. Default: 256 MiB.
    pub memory_bytes: u64,
    /// Address space for areas, in bytes: whole pages, less than 4 TiB. 0, the default, is four times the memory, and at
    /// least 256 MiB.
    pub window_bytes: u64,
    /// The reserve behind that memory, in bytes: whole pages. 0, the default, is no reserve.
    pub reserve_bytes: u64,
    /// The most mappings of the operating system's for the window. 0, the default, is as many as vm.max_map_count leaves.
    pub mappings_max: u64,
    /// 0, the default: each free of an area unmaps it before it returns, as Linux's `vfree`. 1: freed areas stay mapped for
    /// a while, and one of up to 128 pages keeps its frames for the next request of its length, which costs nanoseconds.
    pub keeps_mapped: u64,
}

// SAFETY: numbers without padding (the assertion below), of which the first one is the length.
unsafe impl Sized32 for FwOptions {
    const FIRST: usize = 40;
}

const _: () = assert!(size_of::<FwOptions>() == 2 * 4 + 5 * 8);

impl Default for FwOptions {
    fn default() -> Self {
        Self {
            struct_bytes: size_of::<Self>() as u32,
            threads: 63,
            memory_bytes: 256 << 20,
            window_bytes: 0,
            reserve_bytes: 0,
            mappings_max: 0,
            keeps_mapped: 0,
        }
    }
}

/// A window has fewer pages than this.
const WINDOW_PAGES_MAX: u64 = (1 << 30) - 1;
/// The least pages of a window by default: 256 MiB.
const WINDOW_PAGES: u64 = 1 << 16;

impl FwOptions {
    /// The host that they describe.
    pub(crate) fn host(&self) -> Result<HostKv, CallRefusal> {
        let frames = whole_pages(self.memory_bytes, "memory_bytes")?;
        let reserve = whole_pages(self.reserve_bytes, "reserve_bytes")?;
        let window = match whole_pages(self.window_bytes, "window_bytes")? {
            0 => frames
                .saturating_mul(4)
                .clamp(WINDOW_PAGES, WINDOW_PAGES_MAX),
            window => window,
        };
        let threads = u16::try_from(self.threads).unwrap_or(u16::MAX);
        if !(1..=1022).contains(&threads) || frames <= u64::from(threads) {
            let message = format_args!(
                "{} threads, {frames} frames: expected 1 to 1022 threads, and more frames than threads",
                self.threads
            );
            return Err(CallRefusal::new(FW_EINVAL, &message));
        }
        // One more than threads: the shared one.
        let cpus = threads + 1;
        let mut options = Options::new(ZoneLayout::new(Frame(0), frames).with_cpus(cpus));
        // Most seats are empty most of the time: the others together may have a tenth.
        options.config.cache_permille = 100;
        let mut ranges = RangeOptions::new(window);
        let slabs = KvLayout::new(Frame(0), frames).slabs_max;
        ranges.slabs_max = Some(slabs.max(u64::from(cpus)));
        ranges.config = match self.keeps_mapped {
            0 => None,
            1 => Some(RangeConfig::for_cpus(cpus).kept()),
            other => {
                let message = format_args!("keeps_mapped {other}: expected 0 or 1");
                return Err(CallRefusal::new(FW_EINVAL, &message));
            }
        };
        ranges.mappings_max = Some(self.mappings_max).filter(|max| *max > 0);
        Ok(HostKv::new(
            &options.with_ranges(ranges).with_reserve(reserve),
        )?)
    }
}

/// The library's version, as "0.2.0". The text is there for ever.
#[unsafe(no_mangle)]
pub extern "C" fn fw_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The code of the calling thread's last call that failed, whatever it returned; `FW_OK` if none has. A call that
/// succeeds does not change it.
#[unsafe(no_mangle)]
pub extern "C" fn fw_last_error() -> c_int {
    seats::last()
}

/// Copies the message of the calling thread's last call that failed: a line with the numbers that the code does not have.
///
/// It writes at most `bytes` bytes to `into`, a zero byte at the end included, and cuts what is longer; `into` may be
/// NULL. Returns the length of the whole message, without the zero byte: at most 200.
///
/// # Safety
/// Unless it is NULL, `into` has room for `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_last_message(into: *mut c_char, bytes: usize) -> usize {
    // SAFETY: promised by the caller.
    let room = unsafe { pointers::room(into, bytes.min(seats::MESSAGE_MAX + 1)) };
    let Some((end, text)) = room.split_last_mut() else {
        return seats::copy_message(&mut []);
    };
    *end = 0;
    seats::copy_message(text)
}

/// The text of a code: one line, in English, there for ever. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn fw_strerror(code: c_int) -> *const c_char {
    codes::text(code).as_ptr()
}

/// Sets all fields of `options` to their defaults, and its first one to `struct_bytes`, which is
/// `sizeof (struct fw_options)`: so a program and a library of different versions understand each other.
///
/// Cost: nanoseconds.
///
/// Errors: `FW_EINVAL` for NULL, or a length that no version has.
///
/// # Safety
/// Unless it is NULL, `options` has room for `struct_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_options_init(options: *mut FwOptions, struct_bytes: usize) -> c_int {
    let defaults = FwOptions::default();
    let done = seats::call(|| {
        // SAFETY: promised by the caller.
        unsafe { pointers::write_sized(options, &defaults, struct_bytes, "options") }
            .map_err(CallRefusal::from)
    });
    done.map_or_else(|code| code, |()| FW_OK)
}

/// Makes a host, all of whose memory is free, and writes its handle to `host`. There may be 255 at a time; they know
/// nothing of each other. `options` may be NULL, for the defaults.
///
/// It belongs to this process: in a child after fork(2) its calls return `FW_EFORKED`, and a child that touches its memory
/// ends by SIGSEGV.
///
/// Cost: milliseconds: system calls, and O(pages) of memory, most of which is not touched.
///
/// Errors: `FW_EINVAL` for options that no host can have, `FW_E2BIG` for options of a later version, `FW_ENOMEM` or
/// `FW_EHOST` for what the operating system refuses, `FW_ENOSYS` where there is no membarrier(2), `FW_ENOSPC` for one host
/// too many. Nothing is left behind then.
///
/// # Safety
/// Unless it is NULL, `options` has as many bytes as its first field says. `host` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_host_new(options: *const FwOptions, host: *mut *mut FwHost) -> c_int {
    let done = seats::call(|| {
        pointers::check(host, "host")?;
        let options = match options.is_null() {
            true => FwOptions::default(),
            // SAFETY: promised by the caller.
            false => unsafe { pointers::read_sized(options, "options") }?,
        };
        let handle = registry::publish(options.host()?, options.threads as u16)?;
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::put(host, ptr::without_provenance_mut(handle), "host") }?)
    });
    done.map_or_else(|code| code, |()| FW_OK)
}

/// Ends a host, and gives all its memory back, whatever is still allocated in it: the caller must not touch that any
/// longer. NULL is no host, and no error.
///
/// It waits for calls of other threads that are inside the host; those that come later get `FW_EHANDLE`.
///
/// Cost: O(threads), and system calls that give back what was touched.
///
/// Errors: `FW_EHANDLE`, `FW_EFORKED`, `FW_EPANIC`, `FW_EREENTRY`. Nothing has changed then.
#[unsafe(no_mangle)]
pub extern "C" fn fw_host_free(host: *mut FwHost) -> c_int {
    if host.is_null() {
        return FW_OK;
    }
    let done = seats::call(|| registry::close(host.addr()));
    done.map_or_else(|code| code, |()| FW_OK)
}

/// Gives back what all threads keep for their next requests: lazy and kept areas are unmapped, empty slabs and cached
/// frames become free.
///
/// For a program that runs idle, or looks for leaks. Cost: it stops the calls of all threads for O(areas that are kept, and
/// slabs that are empty), with system calls for what is unmapped.
///
/// Errors: `FW_EHANDLE`, `FW_EFORKED`, `FW_EPANIC`, `FW_EREENTRY`.
#[unsafe(no_mangle)]
pub extern "C" fn fw_drain(host: *mut FwHost) -> c_int {
    coded(host, |seat| {
        // Areas have frames, and so have slabs: the zone comes last.
        seat.cpu().ranges().drain();
        seat.cpu().objects().drain();
        seat.host().zone().drain();
        Ok(())
    })
}

/// Checks all invariants of the host, for tests.
///
/// Cost: it stops the calls of all threads for O(memory).
///
/// Errors: `FW_EBROKEN`, and the message says which invariant does not hold, and where.
#[unsafe(no_mangle)]
pub extern "C" fn fw_verify(host: *mut FwHost) -> c_int {
    coded(host, |seat| Ok(seat.host().engine().verify()?))
}

/// The counters of a host. Frames and pages have 4096 bytes. The caller sets `struct_bytes`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct FwStats {
    /// The length of this structure in the caller's header, in bytes.
    pub struct_bytes: u32,
    /// Zero.
    pub zero: u32,
    /// The frames of the memory, without the reserve.
    pub frames: u64,
    /// Free frames, with those that threads have cached. Frames of kept areas and of slabs are not free.
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
    /// Pages of areas that are in use, guard pages included.
    pub live_pages: u64,
    /// Pages of freed areas that are kept with their frames for the next request.
    pub kept_pages: u64,
    /// Freed pages that wait for a flush, or for a purge to unmap them.
    pub lazy_pages: u64,
    /// Mappings of the operating system's that the window has, at most.
    pub mappings: u64,
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
    /// How many threads can have a seat of their own.
    pub threads_max: u64,
    /// How many threads have one.
    pub threads: u64,
    /// Calls that worked in the shared seat.
    pub shared_calls: u64,
}

// SAFETY: numbers without padding (the assertion below), of which the first one is the length.
unsafe impl Sized32 for FwStats {
    const FIRST: usize = 192;
}

const _: () = assert!(size_of::<FwStats>() == 2 * 4 + 23 * 8);

/// Writes the counters of a host to `stats`, as many of them as its first field, `struct_bytes`, has room for.
///
/// Counters that change meanwhile may be some operations apart. Cost: O(threads).
///
/// Errors: `FW_EINVAL` for NULL, or if `struct_bytes` was not set to `sizeof (struct fw_stats)`.
///
/// # Safety
/// Unless it is NULL, `stats` has as many bytes as its first field says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fw_stats(host: *mut FwHost, stats: *mut FwStats) -> c_int {
    coded(host, |seat| {
        // SAFETY: promised by the caller.
        let len = unsafe { pointers::len_of(stats, "stats") }?;
        let [threads_max, threads, shared_calls] = seat.threads();
        let host = seat.host();
        let frames = host.zone().stats();
        let ranges = host.space().stats();
        let objects = host.kv().stats();
        let reserve = host
            .reserve()
            .map(|reserve| (reserve.run(), reserve.occupancy()));
        let all = FwStats {
            struct_bytes: 0,
            zero: 0,
            frames: host.zone().present_frames(),
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
            mappings: host.window().mappings(),
            object_allocs: objects.slab_allocs + objects.run_allocs + objects.mapped_allocs,
            object_frees: objects.slab_frees + objects.run_frees + objects.mapped_frees,
            spills: objects.spills,
            slab_frames: objects.slab_frames,
            bad_frees: frames.bad_frees + objects.bad_frees + objects.double_frees,
            reserve_frames: reserve.map_or(0, |(run, _)| run.frames()),
            reserve_owned: reserve.map_or(0, |(_, occupancy)| occupancy.owned),
            reserve_set_aside: reserve.map_or(0, |(_, occupancy)| occupancy.reserved),
            threads_max,
            threads,
            shared_calls,
        };
        // SAFETY: promised by the caller.
        Ok(unsafe { pointers::write_sized(stats, &all, len, "stats") }?)
    })
}
