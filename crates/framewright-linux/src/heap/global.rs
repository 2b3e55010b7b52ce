//! The heap as the program's allocator: what the engine cannot serve goes to the system's, and an address tells which
//! of the two has it. Frees of the heap's objects never go on to the system.

// UNSAFETY: an allocator for everything hands out memory by address.

use super::inner::{HeapInner, address};
use super::{Heap, mine};
use framewright::kv::{KvError, KvRequest};
use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Heap {
    #[inline]
    fn serve(&self, layout: Layout, zero: bool) -> Option<NonNull<u8>> {
        let heap = self.inner()?;
        let addr = mine::in_seat(heap, true, |seat| {
            // Made in here, it is kept in memory on slow paths alone.
            let request = KvRequest::new(layout.size() as u64).aligned_to(layout.align() as u64);
            seat.objects().kvmalloc(&request)
        });
        let addr = addr.ok()?.ok()?;
        let at = heap.pointer(addr);
        if zero {
            // SAFETY: as long as that, and only this caller has it. Plain stores are faster than
            // the engine's, which other threads may race with.
            unsafe { at.write_bytes(0, layout.size()) };
        }
        Some(at)
    }

    #[cold]
    fn pass_on(&self) {
        // Relaxed: only a count.
        self.system_allocs.fetch_add(1, Relaxed);
    }

    /// Frees an object of the heap's.
    pub(super) fn give_back(&self, at: NonNull<u8>) {
        match self.made() {
            Some(heap) => self.give_back_to(heap, at, heap.is_direct(at.as_ptr())),
            None => self.lose(),
        }
    }

    /// The same for a caller that knows whether the object is in the direct map.
    #[inline(always)]
    fn give_back_to(&self, heap: &Arc<HeapInner>, at: NonNull<u8>, is_direct: bool) {
        let given = mine::in_seat(heap, true, |seat| {
            let freed = match is_direct {
                true => seat.objects().kfree(address(at)),
                false => seat.objects().kvfree(address(at)),
            };
            // The caller promised that the object is the heap's. In here, so that a wrong one
            // ends the program.
            debug_assert!(freed.is_ok(), "a wrong free: {}", freed.unwrap_err());
        });
        if given.is_err() {
            self.lose();
        }
    }

    /// Frees an object of the heap's in mapped pages.
    #[inline(never)]
    fn give_pages_back(&self, heap: &Arc<HeapInner>, at: NonNull<u8>) {
        self.give_back_to(heap, at, false);
    }

    #[cold]
    fn lose(&self) {
        self.lost_frees.fetch_add(1, Relaxed);
    }
}

// SAFETY: an object is memory of one kind alone: the engine hands out no byte twice (its K5), and
// the heap's frames are in no other hands, because no safe function reaches them. It is as long and
// aligned as asked for, or the system's. An address tells which of the two it is: the heap's ranges
// are reserved as long as it lives. Nothing unwinds: `mine` ends the program first.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.serve(layout, false) {
            Some(at) => at.as_ptr(),
            None => {
                self.pass_on();
                // SAFETY: what the caller promised.
                unsafe { System.alloc(layout) }
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        match self.serve(layout, true) {
            Some(at) => at.as_ptr(),
            None => {
                self.pass_on();
                // SAFETY: what the caller promised.
                unsafe { System.alloc_zeroed(layout) }
            }
        }
    }

    #[inline]
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if let Some(heap) = self.made()
            && let Some(at) = NonNull::new(at)
        {
            if heap.is_direct(at.as_ptr()) {
                return self.give_back_to(heap, at, true);
            }
            if heap.contains(at.as_ptr()) {
                return self.give_pages_back(heap, at);
            }
        }
        // SAFETY: what the caller promised; it is not the heap's, so the system's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let Some(old) = NonNull::new(at).filter(|at| self.contains(at.as_ptr())) else {
            // SAFETY: what the caller promised; it is not the heap's, so the system's.
            return unsafe { System.realloc(at, layout, bytes) };
        };
        let request = KvRequest::new(bytes as u64).aligned_to(layout.align() as u64);
        let moved = self.made().and_then(|heap| {
            let addr = mine::in_seat(heap, true, |seat| {
                let moved = seat.objects().kvrealloc(address(old), &request);
                debug_assert!(
                    !matches!(moved, Err(KvError::Free(_))),
                    "a wrong realloc: {}",
                    moved.unwrap_err()
                );
                moved
            });
            addr.ok()?.ok().map(|addr| heap.pointer(addr))
        });
        if let Some(at) = moved {
            return at.as_ptr();
        }
        self.pass_on();
        // SAFETY: the caller promised that a layout can have the new length.
        let new = unsafe { Layout::from_size_align_unchecked(bytes, layout.align()) };
        // SAFETY: as long as the caller promised: not 0.
        let to = unsafe { System.alloc(new) };
        if !to.is_null() {
            // SAFETY: both are as long as that and two objects, and the caller's to use.
            unsafe { to.copy_from_nonoverlapping(at, layout.size().min(bytes)) };
            self.give_back(old);
        }
        to
    }
}
