// UNSAFETY: a thread's seat is reached through an address, because looking it up in a value that
// is dropped at the thread's end would cost more than an allocation.

//! The calling thread's seats, and whether it is in one.

use super::inner::{HeapInner, HeapLife, HeapSeat, NoHeapSeat};
use crate::HostCpu;
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// How often a thread without a seat in a heap uses the shared one before it looks for its own
/// again.
const PATIENCE: u32 = 1000;

/// The state that each operation reads. It is never dropped, so it is there until the thread's very
/// end, and it needs no memory of its own.
struct Now {
    /// This thread is inside the heap: its requests meanwhile are passed on.
    is_inside: Cell<bool>,
    /// The life of the heap that the seat `seat` is in; null for none.
    heap: Cell<*const HeapLife>,
    // INVARIANT: unless `heap` is null, the seat of an `HeapSeat` in `MINE`, beside that life.
    seat: Cell<*mut HostCpu<'static>>,
}

thread_local! {
    static NOW: Now = const {
        Now {
            is_inside: Cell::new(false),
            heap: Cell::new(ptr::null()),
            seat: Cell::new(ptr::null_mut()),
        }
    };
    static MINE: MyHeaps = const { MyHeaps(RefCell::new(Vec::new())) };
}

/// The heaps that this thread uses; its seats in them are given back at its end.
struct MyHeaps(RefCell<Vec<KnownHeap>>);

/// A heap, by its life, and this thread's seat in it.
struct KnownHeap {
    heap: Arc<HeapLife>,
    seat: Option<HeapSeat>,
    /// How often the thread goes on without a seat before it looks for one.
    patience: u32,
}

impl Drop for MyHeaps {
    fn drop(&mut self) {
        NOW.with(Now::forget);
    }
}

impl Now {
    fn forget(&self) {
        self.heap.set(ptr::null());
        self.seat.set(ptr::null_mut());
    }
}

/// Nothing may unwind out of an allocator: this ends the program instead.
struct NoUnwinding;

impl Drop for NoUnwinding {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Whether the thread is inside a heap.
pub(super) fn is_passing_on() -> bool {
    NOW.with(|now| now.is_inside.get())
}

/// Runs `work`, and passes this thread's requests meanwhile on to the system.
pub(super) fn passing_on<T>(work: impl FnOnce() -> T) -> T {
    NOW.with(|now| {
        let before = now.is_inside.replace(true);
        let guard = NoUnwinding;
        let done = work();
        std::mem::forget(guard);
        now.is_inside.set(before);
        done
    })
}

/// This thread's [`Now`].
#[inline(always)]
fn now<'t>() -> &'t Now {
    // Out of the closure at once, because work inside it is not inlined.
    let now = NOW.with(|now| NonNull::from(now));
    // SAFETY: it is there until the thread's very end, because it has no destructor, and the
    // reference stays in this thread: `Now` is not Sync.
    unsafe { now.as_ref() }
}

/// Works in this thread's seat in the heap, or in the shared one if it has none. Fails if the
/// thread is inside a heap already, or would have to wait for the shared seat and may not.
#[inline(always)]
pub(super) fn in_seat<T>(
    heap: &Arc<HeapInner>,
    may_block: bool,
    work: impl FnOnce(&mut HostCpu<'_>) -> T,
) -> Result<T, NoHeapSeat> {
    if !heap.is_this_process() {
        return Err(NoHeapSeat::Forked);
    }
    let now = now();
    if now.is_inside.replace(true) {
        return Err(NoHeapSeat::Inside);
    }
    let guard = NoUnwinding;
    let seat = if ptr::eq(now.heap.get(), Arc::as_ptr(heap.life())) {
        now.seat.get()
    } else {
        own_seat(heap)
    };
    let done = match NonNull::new(seat) {
        // SAFETY: it is there: the heap is, and it is the heap's `HeapSeat`'s in `MINE` (the
        // invariant of `Now`), which drops none without `forget`. It has one user at a time: this
        // thread, while `is_inside` was false.
        Some(mut seat) => Ok(work(unsafe { seat.as_mut() })),
        None => heap.in_shared_seat(may_block, work),
    };
    std::mem::forget(guard);
    now.is_inside.set(false);
    done
}

/// The thread's seat in a heap that is not the one of `now.seat`; null if it gets none.
#[cold]
fn own_seat(heap: &Arc<HeapInner>) -> *mut HostCpu<'static> {
    // Not handed in: so the fast path need not know where the state lies.
    let now = now();
    let found = MINE.try_with(|mine| {
        let mut mine = mine.0.borrow_mut();
        mine.retain(|known| {
            let is_gone = known.heap.has_ended();
            if is_gone && ptr::eq(now.heap.get(), Arc::as_ptr(&known.heap)) {
                now.forget();
            }
            !is_gone
        });
        let life = heap.life();
        let is_it = |known: &KnownHeap| Arc::ptr_eq(&known.heap, life);
        let at = mine.iter().position(is_it).unwrap_or_else(|| {
            mine.push(KnownHeap {
                heap: Arc::clone(life),
                seat: None,
                patience: 0,
            });
            mine.len() - 1
        });
        let known = &mut mine[at];
        if known.seat.is_none() {
            if let Some(patience) = known.patience.checked_sub(1) {
                known.patience = patience;
                return None;
            }
            known.seat = HeapSeat::take(heap);
            known.patience = PATIENCE;
        }
        // If there is none, the seat that was used last stays at hand.
        let seat = known.seat.as_ref()?.seat();
        // INVARIANT: it is in `MINE`.
        now.seat.set(seat.as_ptr());
        now.heap.set(Arc::as_ptr(life));
        Some(seat)
    });
    // An error means that the thread is ending.
    let seat = found.ok().flatten();
    seat.map_or(ptr::null_mut(), NonNull::as_ptr)
}
