//! Rust's heap, on the engine's objects.

use crate::memory::with;
use core::alloc::{GlobalAlloc, Layout};
use framewright::Addr;
use framewright::kv::KvRequest;

/// Objects of the engine's, contiguous or mapped.
struct GlobalHeap;

#[global_allocator]
static HEAP: GlobalHeap = GlobalHeap;

// SAFETY: the engine hands out what no other has, aligned as asked for, until it is freed.
unsafe impl GlobalAlloc for GlobalHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let request = KvRequest::new(layout.size() as u64).aligned_to(layout.align() as u64);
        with(|cpu| cpu.kvmalloc(&request)).map_or(core::ptr::null_mut(), |at| at.0 as *mut u8)
    }

    unsafe fn dealloc(&self, at: *mut u8, _layout: Layout) {
        with(|cpu| cpu.kvfree(Addr(at as u64))).expect("it was allocated");
    }
}
