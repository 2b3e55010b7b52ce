// UNSAFETY: the caller's callbacks are called, and its frames are reached through its direct map.

//! The caller's table of callbacks as a platform of the engine.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use framewright::platform::{
    FramePlatform, MapError, ObjectPlatform, RangePlatform, ReservePlatform, TableSource,
};
use framewright::{Addr, Frame, Page, PageAccess, PageRange, Run};
use framewright_capi_core::arguments::{WrongArgument, flags_from};
use framewright_capi_core::codes::{FW_EINVAL, FW_ENOMEM, FW_OK};
use framewright_capi_core::pointers::{self, Sized32};

/// What the library asks of the kernel. The caller zeroes it, sets `struct_bytes` and what it means, and may reuse the
/// structure after `fwk_new`, which copies it. `map` and `unmap` must be there, others may be NULL.
///
/// Each gets `context` as its first argument. A callback runs on the CPU of a call that is inside the library; it may call
/// the library for another CPU's number alone (see `fwk_layout`), and must return. Sizes are in bytes, all addresses are of
/// pages, and frames go by number.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FwkPlatform {
    /// `sizeof (struct fwk_platform)`.
    pub struct_bytes: u32,
    /// Zero.
    pub zero_word: u32,
    /// The caller's own, handed to each callback.
    pub context: *mut c_void,
    /// Where the first byte of frame 0 lies, or would lie: frame n is 4096 n bytes further on, wrapping. All frames that
    /// are added can be reached there at any time.
    pub direct_map: u64,
    /// Maps `frames` frames from `first` on at `at`, in order, readable. None of the pages is mapped before. `flags` are of
    /// `FW_NOWAIT`, `FW_NOIO`, `FW_NOFS`: what it may do meanwhile; and of `FWK_READ_ONLY`, `FWK_EXECUTABLE`,
    /// `FWK_WRITE_COMBINING`, `FWK_UNCACHED`: how the pages are mapped. `fwk_take_table` takes frames for page tables from
    /// `tables`, during the call alone. Returns 0; or `FW_ENOMEM`, or another negative code, and none of the pages is mapped
    /// then.
    pub map: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            at: *mut c_void,
            first: u64,
            frames: u64,
            flags: u32,
            tables: *mut FwkTables,
        ) -> c_int,
    >,
    /// Unmaps all pages of `bytes` bytes from `at` on; some may not be mapped. Returns 0; or a negative code, and each page
    /// is as it was. CPUs may still reach the frames until `flush`.
    pub unmap:
        Option<unsafe extern "C" fn(context: *mut c_void, at: *mut c_void, bytes: usize) -> c_int>,
    /// Returns when no CPU has a translation left of what was unmapped before the call. NULL: `unmap` itself sees to that.
    pub flush: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Zeroes memory. NULL: the library does.
    pub zero: Option<unsafe extern "C" fn(context: *mut c_void, at: *mut c_void, bytes: usize)>,
    /// Copies memory that does not overlap. NULL: the library does.
    pub copy: Option<
        unsafe extern "C" fn(
            context: *mut c_void,
            to: *mut c_void,
            from: *const c_void,
            bytes: usize,
        ),
    >,
    /// Called while the library waits for another CPU, with the number of the attempt, from 0. It must answer the
    /// interrupts that `flush` and `barrier` send from elsewhere. NULL: a spin hint.
    pub relax: Option<unsafe extern "C" fn(context: *mut c_void, attempt: u32)>,
    /// What others wait for in `relax` may be over. NULL: nothing.
    pub wake: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Called in long calls, between parts of at most some hundred frames, where the CPU's number is in use but waits for
    /// nothing and holds nothing: lets interrupts in, if the caller had them on. Their handlers call as a CPU of another
    /// number, which each CPU has for them. NULL: nothing.
    pub interrupt_window: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Returns when every CPU that calls the library has executed a full memory barrier since the call. With it, calls do
    /// without a barrier of their own, and a stop of all CPUs calls it once. NULL: each call has a barrier.
    pub barrier: Option<unsafe extern "C" fn(context: *mut c_void)>,
    /// Nanoseconds by a clock that never goes back. With it the locks are accounted (`fwk_stats`), which costs two calls of it
    /// each time that one is taken. NULL: no accounts.
    pub now: Option<unsafe extern "C" fn(context: *mut c_void) -> u64>,
    /// The library is wrong: it panicked, with `message`, a line that ends with a zero byte. Its seats stay in use, and CPUs
    /// may wait for them for ever, so the kernel ends here; if this returns, the CPU spins. NULL: it spins. Of several
    /// memories, that made last hears it, whichever panicked.
    pub panic: Option<unsafe extern "C" fn(context: *mut c_void, message: *const c_char)>,
}

/// The pages may not be written.
pub const FWK_READ_ONLY: u32 = 64;
/// What is in the pages may be executed.
pub const FWK_EXECUTABLE: u32 = 128;
/// Caches keep nothing of the pages, but stores may be collected before they go out: the memory of a display. For
/// `fwk_map_ram` and `fwk_map_run` alone. A caller that asks for it
/// for memory has written back what caches have of it, and reaches it elsewhere no longer.
pub const FWK_WRITE_COMBINING: u32 = 256;
/// Caches keep nothing of the pages: registers of a device. With it `FWK_WRITE_COMBINING` means nothing; for the rest it is as
/// that.
pub const FWK_UNCACHED: u32 = 512;

const fn flags_of_access(access: PageAccess) -> u32 {
    let read_only = if access.is_writable() {
        0
    } else {
        FWK_READ_ONLY
    };
    let executable = if access.is_executable() {
        FWK_EXECUTABLE
    } else {
        0
    };
    let caching = match (access.is_uncached(), access.is_write_combining()) {
        (false, false) => 0,
        (false, true) => FWK_WRITE_COMBINING,
        (true, _) => FWK_UNCACHED,
    };
    read_only | executable | caching
}

/// The access that flags ask for, and the other flags.
pub(super) const fn access_of(flags: u32) -> (PageAccess, u32) {
    let mut access = PageAccess::new(flags & FWK_READ_ONLY == 0, flags & FWK_EXECUTABLE != 0);
    if flags & FWK_UNCACHED != 0 {
        access = access.uncached();
    } else if flags & FWK_WRITE_COMBINING != 0 {
        access = access.write_combining();
    }
    let all = FWK_READ_ONLY | FWK_EXECUTABLE | FWK_WRITE_COMBINING | FWK_UNCACHED;
    (access, flags & !all)
}

/// The frames that a `map` may take for page tables, during its call.
#[derive(Debug)]
pub struct FwkTables(*mut (dyn TableSource + 'static));

impl FwkTables {
    /// The value is dropped before the source.
    fn new(source: &mut (dyn TableSource + '_)) -> Self {
        let source: *mut (dyn TableSource + '_) = source;
        // SAFETY: only the lifetime changes, and C uses it during the call of `map` alone: promised at `fwk_take_table`.
        Self(unsafe {
            core::mem::transmute::<*mut (dyn TableSource + '_), *mut (dyn TableSource + 'static)>(
                source,
            )
        })
    }
}

/// Takes a frame for a page table from the `tables` that a `map` callback was handed, and puts its number into `frame`. Its
/// contents are undefined. It is the kernel's from then on, and counts as in use; a `map` that fails after all gives it back.
///
/// Cost: that of `fwk_alloc` of one frame.
///
/// Errors: `FW_ENOMEM` if there is none within what the caller of the library allows, `FW_EINVAL` for a pointer that is NULL
/// or not aligned. Nothing has changed then. `fwk_last_error` stays as it was.
///
/// # Safety
/// `tables` is what the calling `map` was handed, and it has not returned. `frame` can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_take_table(tables: *mut FwkTables, frame: *mut u64) -> c_int {
    if tables.is_null() || pointers::check(frame, "frame").is_err() {
        return FW_EINVAL;
    }
    // SAFETY: promised by the caller.
    let source = unsafe { &mut *(*tables).0 };
    let Some(taken) = source.take_table() else {
        return FW_ENOMEM;
    };
    // SAFETY: as above, and it was checked.
    unsafe { frame.write(taken.0) };
    FW_OK
}

/// Gives a frame back that `fwk_take_table` took and that is no page table, from the same `map` or a later one.
///
/// Cost: that of `fwk_free` of one frame.
///
/// Errors: `FW_EINVAL` if `tables` is NULL, or if the frame is free or none of the memory's. Nothing has changed then.
/// `fwk_last_error` stays as it was.
///
/// # Safety
/// `tables` is what the calling `map` was handed, and it has not returned. Nothing uses the frame.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fwk_give_table(tables: *mut FwkTables, frame: u64) -> c_int {
    if tables.is_null() {
        return FW_EINVAL;
    }
    // SAFETY: promised by the caller.
    let source = unsafe { &mut *(*tables).0 };
    match source.try_give_back(Frame(frame)) {
        true => FW_OK,
        false => FW_EINVAL,
    }
}

// SAFETY: numbers, addresses and callbacks without padding (the assertion below), of which the first is the length. The caller
// promises its callbacks; null is none.
unsafe impl Sized32 for FwkPlatform {
    const FIRST: usize = size_of::<Self>();
}

const _: () = assert!(size_of::<FwkPlatform>() == 2 * 4 + 2 * 8 + 11 * size_of::<usize>());

impl Default for FwkPlatform {
    fn default() -> Self {
        Self {
            struct_bytes: size_of::<Self>() as u32,
            zero_word: 0,
            context: ptr::null_mut(),
            direct_map: 0,
            map: None,
            unmap: None,
            flush: None,
            zero: None,
            copy: None,
            relax: None,
            wake: None,
            interrupt_window: None,
            barrier: None,
            now: None,
            panic: None,
        }
    }
}

impl FwkPlatform {
    /// Refuses a table without the callbacks that must be there.
    pub(super) const fn check(&self) -> Result<(), WrongArgument> {
        let missing = match (&self.map, &self.unmap) {
            (None, _) => "map",
            (_, None) => "unmap",
            _ => return Ok(()),
        };
        Err(WrongArgument::Pointer {
            what: missing,
            address: 0,
        })
    }
}

/// A table in the head of its memory. `BARRIERS` says whether it has a barrier that acts on all CPUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Callbacks<const BARRIERS: bool> {
    // INVARIANT: a table that passed `check`, in metadata of a memory that has not ended.
    table: &'static FwkPlatform,
}

// SAFETY: the table does not change, and the caller's callbacks are for all CPUs.
unsafe impl<const BARRIERS: bool> Send for Callbacks<BARRIERS> {}
// SAFETY: as above.
unsafe impl<const BARRIERS: bool> Sync for Callbacks<BARRIERS> {}

/// The pointer to an address of the kernel's.
#[inline(always)]
pub(super) fn pointer(addr: Addr) -> *mut c_void {
    ptr::with_exposed_provenance_mut(addr.0 as usize)
}

impl<const BARRIERS: bool> Callbacks<BARRIERS> {
    pub(super) const fn new(table: &'static FwkPlatform) -> Self {
        Self { table }
    }

    /// A frame's first byte.
    #[inline(always)]
    fn direct(&self, frame: Frame) -> Addr {
        let offset = frame.0.wrapping_mul(Frame::BYTES);
        Addr(self.table.direct_map.wrapping_add(offset))
    }

    /// A frame's words: an owner may write them while a guest's copy reads them.
    #[inline(always)]
    fn words(&self, frame: Frame) -> &[AtomicU64; 512] {
        let at: *const [AtomicU64; 512] = pointer(self.direct(frame)).cast_const().cast();
        // SAFETY: the direct map has all frames that the caller handed in, for as long as the memory is there: promised
        // at `fwk_new`. A frame is aligned.
        unsafe { &*at }
    }
}

/// Nothing on success; the caller's code else.
const fn done(code: c_int) -> Result<(), MapError> {
    match code {
        0 => Ok(()),
        FW_ENOMEM => Err(MapError::NoMemory),
        code => Err(MapError::Refused(code)),
    }
}

/// The address of a page of the window.
fn at(page: Page) -> *mut c_void {
    // The layout was refused if a page of the window had none.
    pointer(Addr(page.address().unwrap_or(0)))
}

impl<const BARRIERS: bool> FramePlatform for Callbacks<BARRIERS> {
    const ASYMMETRIC: bool = BARRIERS;

    fn relax(&self, attempt: u32) {
        match self.table.relax {
            // SAFETY: a callback of the caller's, with its context. So below.
            Some(relax) => unsafe { relax(self.table.context, attempt) },
            None => core::hint::spin_loop(),
        }
    }

    fn wake(&self) {
        if let Some(wake) = self.table.wake {
            // SAFETY: as above.
            unsafe { wake(self.table.context) };
        }
    }

    fn barrier_all(&self) {
        fence(SeqCst);
        if let Some(barrier) = self.table.barrier {
            // SAFETY: as above.
            unsafe { barrier(self.table.context) };
        }
    }

    fn now_ns(&self) -> u64 {
        // SAFETY: as above.
        self.table
            .now
            .map_or(0, |now| unsafe { now(self.table.context) })
    }
}

impl<const BARRIERS: bool> RangePlatform for Callbacks<BARRIERS> {
    fn map(
        &self,
        page: Page,
        frames: Run,
        access: PageAccess,
        tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        let map = self.table.map.ok_or(MapError::Page(page))?;
        let flags = flags_from(tables.context()) | flags_of_access(access);
        let mut tables = FwkTables::new(tables);
        let (first, count) = (frames.start().0, frames.frames());
        // SAFETY: as above.
        done(unsafe {
            map(
                self.table.context,
                at(page),
                first,
                count,
                flags,
                &raw mut tables,
            )
        })
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        let unmap = self.table.unmap.ok_or(MapError::Page(range.start()))?;
        let bytes = (range.pages() * Page::BYTES) as usize;
        // SAFETY: as above.
        done(unsafe { unmap(self.table.context, at(range.start()), bytes) })
    }

    fn flush_all(&self) {
        if let Some(flush) = self.table.flush {
            // SAFETY: as above.
            unsafe { flush(self.table.context) };
        }
    }

    fn interrupt_window(&self) {
        if let Some(interrupt_window) = self.table.interrupt_window {
            // SAFETY: as above.
            unsafe { interrupt_window(self.table.context) };
        }
    }

    fn zero(&self, frames: Run) {
        self.zero_bytes(self.direct(frames.start()), frames.frames() * Frame::BYTES);
    }
}

impl<const BARRIERS: bool> ObjectPlatform for Callbacks<BARRIERS> {
    #[inline(always)]
    fn direct_base(&self) -> Addr {
        Addr(self.table.direct_map)
    }

    fn zero_bytes(&self, at: Addr, bytes: u64) {
        let (at, bytes) = (pointer(at), bytes as usize);
        match self.table.zero {
            // SAFETY: as above.
            Some(zero) => unsafe { zero(self.table.context, at, bytes) },
            // SAFETY: bytes of one object or frame that the caller of the engine owns, which the direct map or `map` put
            // there: promised at `fwk_new`.
            None => unsafe { at.write_bytes(0, bytes) },
        }
    }

    fn copy_bytes(&self, from: Addr, to: Addr, bytes: u64) {
        let (from, to, bytes) = (pointer(from).cast_const(), pointer(to), bytes as usize);
        match self.table.copy {
            // SAFETY: as above.
            Some(copy) => unsafe { copy(self.table.context, to, from, bytes) },
            // SAFETY: as for zeroes; two objects do not overlap.
            None => unsafe { to.copy_from_nonoverlapping(from, bytes) },
        }
    }
}

impl<const BARRIERS: bool> ReservePlatform for Callbacks<BARRIERS> {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        for (to, from) in self.words(frame).iter().zip(page) {
            to.store(*from, Relaxed);
        }
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        for (to, from) in page.iter_mut().zip(self.words(frame)) {
            *to = from.load(Relaxed);
        }
    }
}
