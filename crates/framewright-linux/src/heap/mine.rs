// UNSAFETY: a thread's seat is reached through an address, because looking it up in a value that
// is dropped at the thread's end would cost more than an allocation.

//! The calling thread's seats, and whether it is in one.

use super::inner::{Inner, OwnSeat};
use crate::HostKvSeat;
use std::cell::{Cell, RefCell};
use std::ptr::{self, NonNull};
use std::sync::Arc;

/// How often a thread without a seat goes to the shared one before it looks for its own again.
const PATIENCE: u32 = 1000;

/// What is asked at each operation. Is never dropped, so that it is there until the thread's very
/// end, and needs no memory of its own.
struct Now {
    /// This thread is inside the heap: what it asks for meanwhile is passed on.
    is_inside: Cell<bool>,
    /// The heap whose seat `seat` is; null for none.
    heap: Cell<*const Inner>,
    // INVARIANT: unless `heap` is null, the seat of an `OwnSeat` in `MINE`.
    seat: Cell<*mut HostKvSeat<'static>>,
    patience: Cell<u32>,
}

thread_local! {
    static NOW: Now = const {
        Now {
            is_inside: Cell::new(false),
            heap: Cell::new(ptr::null()),
            seat: Cell::new(ptr::null_mut()),
            patience: Cell::new(0),
        }
    };
    static MINE: Mine = const { Mine(RefCell::new(Vec::new())) };
}

/// This thread's seats, one in each heap that it uses; given back at its end.
struct Mine(RefCell<Vec<OwnSeat>>);

impl Drop for Mine {
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

/// Nothing unwinds out of an allocator: the program ends instead.
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

/// Does something during which what this thread asks for is passed on.
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
    // Out of the closure at once: what is done in it is not inlined.
    let now = NOW.with(|now| NonNull::from(now));
    // SAFETY: it is there until the thread's very end, because it has nothing to be dropped, and
    // the reference stays in this thread: `Now` is not Sync.
    unsafe { now.as_ref() }
}

/// Works in this thread's seat in the heap, or in the shared one if it has none. `None` if the
/// thread is inside a heap already.
#[inline(always)]
pub(super) fn in_seat<T>(
    heap: &Arc<Inner>,
    work: impl FnOnce(&mut HostKvSeat<'_>) -> T,
) -> Option<T> {
    let now = now();
    if now.is_inside.replace(true) {
        return None;
    }
    let guard = NoUnwinding;
    let seat = if ptr::eq(now.heap.get(), Arc::as_ptr(heap)) {
        now.seat.get()
    } else {
        own_seat(now, heap)
    };
    let done = match NonNull::new(seat) {
        // SAFETY: it is there: it is the heap's `OwnSeat`'s in `MINE` (the invariant of `Now`), which
        // drops none without `forget`. Used by one at a time: it is this thread's, and `is_inside`
        // was false.
        Some(mut seat) => Some(work(unsafe { seat.as_mut() })),
        None => heap.in_shared_seat(work),
    };
    std::mem::forget(guard);
    now.is_inside.set(false);
    done
}

/// The thread's seat in a heap that it did not use last; null if there is none for it.
#[cold]
fn own_seat(now: &Now, heap: &Arc<Inner>) -> *mut HostKvSeat<'static> {
    if let Some(patience) = now.patience.get().checked_sub(1) {
        now.patience.set(patience);
        return ptr::null_mut();
    }
    let found = MINE.try_with(|mine| {
        let mut mine = mine.0.borrow_mut();
        now.forget();
        mine.retain(|own| !own.heap().is_closed());
        let known = mine.iter().find(|own| Arc::ptr_eq(own.heap(), heap));
        let seat = match known {
            Some(own) => own.seat(),
            None => {
                let own = OwnSeat::take(heap)?;
                let seat = own.seat();
                mine.push(own);
                seat
            }
        };
        // INVARIANT: it is in `MINE`.
        now.seat.set(seat.as_ptr());
        now.heap.set(Arc::as_ptr(heap));
        Some(seat)
    });
    // The thread is ending (an error), or there is no free seat.
    match found.ok().flatten() {
        Some(seat) => seat.as_ptr(),
        None => {
            now.patience.set(PATIENCE);
            ptr::null_mut()
        }
    }
}
