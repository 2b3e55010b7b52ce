//! A heap that remembers each object, and that can refuse.

use super::super::Memory;
use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::alloc::{GlobalAlloc, System};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::vec::Vec;

/// Where an object may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ObjectPlace {
    Contiguous,
    Mapped,
    Either,
}

/// The heap, for objects at one place.
#[derive(Clone, Copy)]
pub(super) struct AtPlace<'h>(pub(super) &'h ToyHeap, ObjectPlace);

/// The system's memory. Remembers each object: its layout, and where it lies.
#[derive(Default)]
pub(super) struct ToyHeap {
    live: Mutex<BTreeMap<usize, (Layout, ObjectPlace)>>,
    asked: AtomicUsize,
    /// Larger objects are refused, if it is not 0.
    bytes_max: AtomicUsize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoMemory {
    Full,
    TooLong(usize),
}

impl core::fmt::Display for NoMemory {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Full => f.write_str("no memory"),
            Self::TooLong(elements) => {
                write!(f, "{elements} elements are more than a vector can have")
            }
        }
    }
}

impl core::error::Error for NoMemory {}

impl ToyHeap {
    /// A heap that refuses objects of more bytes, if that is not 0.
    pub(super) const fn up_to(bytes: usize) -> Self {
        Self {
            live: Mutex::new(BTreeMap::new()),
            asked: AtomicUsize::new(0),
            bytes_max: AtomicUsize::new(bytes),
        }
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.load(Relaxed)
    }

    pub(super) fn live(&self) -> usize {
        self.live.lock().unwrap().len()
    }

    pub(super) fn places(&self) -> Vec<ObjectPlace> {
        let live = self.live.lock().unwrap();
        live.values().map(|(_, place)| *place).collect()
    }

    pub(super) const fn contiguous(&self) -> AtPlace<'_> {
        AtPlace(self, ObjectPlace::Contiguous)
    }

    pub(super) const fn mapped(&self) -> AtPlace<'_> {
        AtPlace(self, ObjectPlace::Mapped)
    }
}

// SAFETY: the system's allocator keeps the promises, and unwinding out of this ends the test.
unsafe impl Memory for AtPlace<'_> {
    type Error = NoMemory;

    fn too_long(&self, elements: usize, _bytes_each: usize) -> NoMemory {
        NoMemory::TooLong(elements)
    }

    fn alloc(&self, layout: Layout, zero: bool) -> Result<NonNull<u8>, NoMemory> {
        let &Self(heap, place) = self;
        heap.asked.fetch_add(1, Relaxed);
        assert!(layout.size() > 0, "no owner asks for nothing");
        let max = heap.bytes_max.load(Relaxed);
        if max != 0 && layout.size() > max {
            return Err(NoMemory::Full);
        }
        // SAFETY: more than 0 bytes.
        let at = unsafe { System.alloc(layout) };
        let at = NonNull::new(at).ok_or(NoMemory::Full)?;
        // SAFETY: as long as that.
        unsafe { at.write_bytes(if zero { 0 } else { 0xa5 }, layout.size()) };
        let before = heap
            .live
            .lock()
            .unwrap()
            .insert(at.addr().get(), (layout, place));
        assert_eq!(before, None);
        Ok(at)
    }

    unsafe fn resize(
        &self,
        at: NonNull<u8>,
        old: Layout,
        bytes: usize,
    ) -> Result<NonNull<u8>, NoMemory> {
        let new = Layout::from_size_align(bytes, old.align()).unwrap();
        let to = self.alloc(new, false)?;
        // SAFETY: both are as long as that, and two objects.
        unsafe { to.copy_from_nonoverlapping(at, old.size().min(bytes)) };
        assert_eq!(self.0.live.lock().unwrap()[&at.addr().get()].1, self.1);
        // SAFETY: what the caller promised.
        unsafe { self.free(at, old) };
        Ok(to)
    }

    unsafe fn free(&self, at: NonNull<u8>, layout: Layout) {
        let had = self.0.live.lock().unwrap().remove(&at.addr().get());
        assert_eq!(had.expect("not free").0, layout);
        // SAFETY: allocated above with this layout.
        unsafe { System.dealloc(at.as_ptr(), layout) };
    }
}

// SAFETY: that of the heap for objects at either place.
unsafe impl Memory for ToyHeap {
    type Error = NoMemory;

    fn too_long(&self, elements: usize, _bytes_each: usize) -> NoMemory {
        NoMemory::TooLong(elements)
    }

    fn alloc(&self, layout: Layout, zero: bool) -> Result<NonNull<u8>, NoMemory> {
        AtPlace(self, ObjectPlace::Either).alloc(layout, zero)
    }

    unsafe fn resize(
        &self,
        at: NonNull<u8>,
        old: Layout,
        bytes: usize,
    ) -> Result<NonNull<u8>, NoMemory> {
        // SAFETY: what the caller promised.
        unsafe { AtPlace(self, ObjectPlace::Either).resize(at, old, bytes) }
    }

    unsafe fn free(&self, at: NonNull<u8>, layout: Layout) {
        // SAFETY: what the caller promised.
        unsafe { AtPlace(self, ObjectPlace::Either).free(at, layout) }
    }
}
