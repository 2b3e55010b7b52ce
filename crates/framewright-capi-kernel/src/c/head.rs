// UNSAFETY: a memory lies in metadata that the caller hands in by address, and a cell is reached by its CPU's number.

//! A memory: its engine, and a cell for each CPU, at the beginning of the caller's metadata.
//!
//! ```text
//!   metadata ─▶ (to a line) │ MemoryHead: table, engine │ SeatCell of each CPU │ the engine's words │
//! ```

use super::platform::{Callbacks, FwkPlatform};
use super::{FwkMemory, KernelRefusal};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr;
use core::slice;
use core::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    compiler_fence,
};
use framewright::CpuId;
use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::kv::KvLayout;
use framewright::reserve::ReserveLayout;
use framewright_capi_core::codes::{
    FW_EBUSY, FW_EHANDLE, FW_EINVAL, FW_ENOMEM, FW_EREENTRY, FW_OK,
};

/// What a head begins with while its memory is there.
const MADE: u64 = u64::from_le_bytes(*b"fwk mem1");

/// A line, and its neighbour, which the processor fetches, too.
const LINE: usize = 128;

/// An engine: with a fence in each operation, or with a barrier on all CPUs where one is needed.
pub(super) enum KernelEngine {
    Fenced(Engine<'static, Callbacks<false>>),
    Barriers(Engine<'static, Callbacks<true>>),
}

/// A CPU's seats in such an engine.
pub(super) enum KernelSeats {
    Fenced(Cpu<'static, 'static, Callbacks<false>>),
    Barriers(Cpu<'static, 'static, Callbacks<true>>),
}

/// Works with an engine, or with a CPU's seats, of either kind.
macro_rules! either {
    ($kind:ident, $value:expr, $name:ident => $work:expr) => {
        match $value {
            $crate::c::head::$kind::Fenced($name) => $work,
            $crate::c::head::$kind::Barriers($name) => $work,
        }
    };
}
pub(super) use either;

/// A memory, at the beginning of its metadata.
#[repr(C, align(128))]
pub(super) struct MemoryHead {
    made: AtomicU64,
    // INVARIANT: as many cells behind the head, each with its seats.
    cpus: usize,
    table: FwkPlatform,
    engine: MaybeUninit<KernelEngine>,
}

/// A CPU's place.
#[repr(C, align(128))]
struct SeatCell {
    is_busy: AtomicBool,
    last: AtomicI32,
    seats: UnsafeCell<MaybeUninit<KernelSeats>>,
}

/// A memory, and a CPU's seats in it, during one call.
pub(super) struct InMemory<'a> {
    pub(super) seats: &'a mut KernelSeats,
    pub(super) engine: &'static KernelEngine,
    pub(super) table: &'static FwkPlatform,
}

/// A layout with or without a reserve.
#[derive(Clone, Copy)]
pub(super) struct KernelLayout {
    pub(super) base: EngineLayout<KvLayout>,
    pub(super) reserve: Option<ReserveLayout>,
    pub(super) cpus: u16,
    pub(super) is_zeroed: bool,
}

impl KernelLayout {
    fn words(&self) -> Result<usize, KernelRefusal> {
        let words = match self.reserve {
            Some(reserve) => self.base.with_reserve(reserve).words_needed(),
            None => self.base.words_needed(),
        };
        Ok(words?)
    }

    /// How many bytes of metadata a memory has, wherever they begin.
    pub(super) fn bytes(&self) -> Result<usize, KernelRefusal> {
        Ok(LINE - 1 + self.words_at() + self.words()? * 8)
    }

    /// Where the engine's words begin, behind the head.
    fn words_at(&self) -> usize {
        size_of::<MemoryHead>() + usize::from(self.cpus) * size_of::<SeatCell>()
    }

    fn engine<const B: bool>(
        &self,
        zeroes: &'static mut [u64],
        table: &'static FwkPlatform,
    ) -> Result<Engine<'static, Callbacks<B>>, KernelRefusal> {
        let platform = Callbacks::<B>::new(table);
        let made = match self.reserve {
            Some(reserve) => Engine::in_zeroed(&self.base.with_reserve(reserve), zeroes, platform),
            None => Engine::in_zeroed(&self.base, zeroes, platform),
        }?;
        Ok(match table.now {
            Some(_) => made.with_lock_accounts(),
            None => made,
        })
    }
}

/// A memory that was just made.
pub(super) struct NewMemory {
    pub(super) handle: *mut FwkMemory,
    pub(super) table: *const FwkPlatform,
}

/// Makes a memory in `bytes` bytes from `metadata` on.
///
/// # Safety
/// The library alone uses these bytes until the memory ends. They hold zeroes if the layout says so.
pub(super) unsafe fn make(
    layout: &KernelLayout,
    table: FwkPlatform,
    metadata: *mut u8,
    bytes: usize,
) -> Result<NewMemory, KernelRefusal> {
    if bytes < layout.bytes()? {
        return Err(KernelRefusal(FW_ENOMEM));
    }
    let base = metadata.wrapping_add(metadata.align_offset(LINE));
    let head: *mut MemoryHead = base.cast();
    let words_at = base.wrapping_add(layout.words_at());
    let words = layout.words()?;
    // SAFETY: all of it lies in the caller's bytes (`bytes` has room for the alignment), each part behind the other, and
    // aligned. Words that may hold anything need not have been written; the others hold the caller's zeroes.
    let (table, zeroes) = unsafe {
        (&raw mut (*head).made).write(AtomicU64::new(0));
        (&raw mut (*head).cpus).write(usize::from(layout.cpus));
        (&raw mut (*head).table).write(table);
        let zeroes = match layout.is_zeroed {
            true => slice::from_raw_parts_mut(words_at.cast(), words),
            false => EngineLayout::metadata_in(slice::from_raw_parts_mut(words_at.cast(), words)),
        };
        let table = &raw const (*head).table;
        (&*table, zeroes)
    };
    let engine = match table.barrier {
        Some(_) => KernelEngine::Barriers(layout.engine(zeroes, table)?),
        None => KernelEngine::Fenced(layout.engine(zeroes, table)?),
    };
    // SAFETY: as above; the engine stays at that address until the memory ends.
    let engine = unsafe {
        (&raw mut (*head).engine).write(MaybeUninit::new(engine));
        let engine = &raw const (*head).engine;
        (*engine).assume_init_ref()
    };
    for nth in 0..layout.cpus {
        let seats = match engine {
            KernelEngine::Fenced(engine) => engine.cpu(CpuId(nth)).map(KernelSeats::Fenced),
            KernelEngine::Barriers(engine) => engine.cpu(CpuId(nth)).map(KernelSeats::Barriers),
        };
        let cell = SeatCell {
            is_busy: AtomicBool::new(false),
            last: AtomicI32::new(FW_OK),
            seats: UnsafeCell::new(MaybeUninit::new(seats?)),
        };
        // SAFETY: as above.
        unsafe { first_cell(head).add(usize::from(nth)).write(cell) };
    }
    // SAFETY: as above. Release pairs with the Acquire in `find`.
    unsafe { (*head).made.store(MADE, Release) };
    let handle = head.cast();
    Ok(NewMemory { handle, table })
}

const fn first_cell(head: *mut MemoryHead) -> *mut SeatCell {
    head.wrapping_add(1).cast()
}

/// The memory of a handle (CK2).
#[inline(always)]
fn find(memory: *mut FwkMemory) -> Result<&'static MemoryHead, c_int> {
    let head: *const MemoryHead = memory.cast_const().cast();
    if head.is_null() || !head.is_aligned() {
        return Err(FW_EHANDLE);
    }
    // SAFETY: promised by each caller: what is not null, and aligned, is a memory, or was one, and can be read.
    let made = unsafe { (*head).made.load(Acquire) };
    match made {
        // SAFETY: it was made there, and has not ended.
        MADE => Ok(unsafe { &*head }),
        _ => Err(FW_EHANDLE),
    }
}

impl MemoryHead {
    #[inline(always)]
    fn cell(&self, cpu: u32) -> Result<&SeatCell, c_int> {
        if cpu as usize >= self.cpus {
            return Err(FW_EINVAL);
        }
        let first = first_cell(ptr::from_ref(self).cast_mut());
        // SAFETY: there are as many cells behind the head, written before it was `made`.
        Ok(unsafe { &*first.add(cpu as usize) })
    }

    fn engine(&self) -> &KernelEngine {
        // SAFETY: written before the head was `made`.
        unsafe { self.engine.assume_init_ref() }
    }
}

/// Works in the seats of a CPU; a refusal becomes its last error.
#[inline(always)]
pub(super) fn with<T>(
    memory: *mut FwkMemory,
    cpu: u32,
    work: impl FnOnce(InMemory<'_>) -> Result<T, KernelRefusal>,
) -> Result<T, c_int> {
    let head = find(memory)?;
    let cell = head.cell(cpu)?;
    // A plain load and store: only a handler on this CPU, or a callback, comes between, and leaves the mark as it was.
    if cell.is_busy.load(Acquire) {
        cell.last.store(FW_EREENTRY, Relaxed);
        return Err(FW_EREENTRY);
    }
    cell.is_busy.store(true, Relaxed);
    compiler_fence(SeqCst);
    // SAFETY: written before the head was `made`. The mark, and the promise of one caller for a CPU, see to it that this
    // reference is the only one.
    let seats = unsafe { (*cell.seats.get()).assume_init_mut() };
    let done = work(InMemory {
        seats,
        engine: head.engine(),
        table: &head.table,
    });
    compiler_fence(SeqCst);
    // Release: the next caller may be another thread that the kernel runs as this CPU.
    cell.is_busy.store(false, Release);
    done.map_err(|KernelRefusal(code)| {
        cell.last.store(code, Relaxed);
        code
    })
}

/// Works with the engine alone, in no CPU's seats: its caller may have interrupted a call that has them. Returns a code,
/// which becomes no CPU's last error.
pub(super) fn without_seats(
    memory: *mut FwkMemory,
    work: impl FnOnce(&KernelEngine) -> Result<(), KernelRefusal>,
) -> c_int {
    let done = find(memory)
        .map_err(KernelRefusal)
        .and_then(|head| work(head.engine()));
    done.map_or_else(|KernelRefusal(code)| code, |()| FW_OK)
}

/// The last refusal of a CPU; that of the handle, or of the number, if these are wrong.
pub(super) fn last(memory: *mut FwkMemory, cpu: u32) -> c_int {
    let cell = find(memory).and_then(|head| head.cell(cpu));
    cell.map_or_else(|code| code, |cell| cell.last.load(Relaxed))
}

/// Ends a memory, unless a CPU is inside. Returns its table.
pub(super) fn end(memory: *mut FwkMemory) -> Result<*const FwkPlatform, c_int> {
    let head = find(memory)?;
    for cpu in 0..head.cpus as u32 {
        if head.cell(cpu)?.is_busy.load(Acquire) {
            return Err(FW_EBUSY);
        }
    }
    head.made.store(0, Release);
    Ok(&raw const head.table)
}
