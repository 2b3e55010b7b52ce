#![doc = include_str!("../README.md")]
#![no_std]

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::{self, NonNull};
use framewright::engine::Engine;
use framewright::frame::Seats;
use framewright::kv::{KvLayout, KvRequest, KvSeat};
use framewright::platform::ObjectPlatform;
use framewright::{Addr, CpuId, SetupError};
use spin::{Mutex, Once};

/// A CPU's seat in an engine's objects. A [`Cpu`](framewright::engine::Cpu) has such a one, but stays with its thread.
pub type ObjectSeat<'e, 'm, P, const ZONES: usize = 1> =
    KvSeat<'e, 'e, 'm, P, Seats<'e, 'm, P, ZONES>>;

/// The objects of an engine, by way of one CPU's seats, behind a lock: a reference is an allocator.
pub struct EngineObjects<'e, 'm, P: ObjectPlatform + Clone, const ZONES: usize = 1> {
    seat: Mutex<ObjectSeat<'e, 'm, P, ZONES>>,
}

impl<'e, 'm, P: ObjectPlatform + Clone, const ZONES: usize> EngineObjects<'e, 'm, P, ZONES> {
    /// Takes the seats of that CPU: no other caller names it from now on.
    ///
    /// # Errors
    /// If they are taken, or the engine has fewer CPUs.
    pub fn new(engine: &'e Engine<'m, P, KvLayout, ZONES>, cpu: CpuId) -> Result<Self, SetupError> {
        let frames = Seats::take(engine.zones(), cpu)?;
        let ranges = engine.space().seat(cpu, frames)?;
        let seat = Mutex::new(engine.objects().seat(ranges)?);
        Ok(Self { seat })
    }

    /// The seat, for other requests. No object is allocated or freed by way of it meanwhile.
    pub fn with<T>(&self, ask: impl FnOnce(&mut ObjectSeat<'e, 'm, P, ZONES>) -> T) -> T {
        ask(&mut self.seat.lock())
    }

    /// An object of that layout; None if there is no memory. It has a byte at least.
    fn alloc(&self, layout: Layout, is_zeroed: bool) -> Option<NonNull<u8>> {
        let request = request(layout.size(), layout.align());
        let request = if is_zeroed { request.zeroed() } else { request };
        at(self.with(|seat| seat.kvmalloc(&request)).ok()?)
    }

    /// Frees an object that this gave. What is no such object is refused: the engine counts it, and nothing has changed then.
    fn free(&self, at: NonNull<u8>) {
        let addr = Addr(at.addr().get() as u64);
        let _is_counted = self.with(|seat| seat.kvfree(addr));
    }

    /// The object with another length, where it is or elsewhere, and the bytes that both lengths have.
    fn resize(&self, object: NonNull<u8>, bytes: usize, align: usize) -> Option<NonNull<u8>> {
        let addr = Addr(object.addr().get() as u64);
        at(self
            .with(|seat| seat.kvrealloc(addr, &request(bytes, align)))
            .ok()?)
    }
}

const fn request(bytes: usize, align: usize) -> KvRequest {
    // One of no bytes is one of a byte: it has an address of its own.
    KvRequest::new(if bytes == 0 { 1 } else { bytes as u64 }).aligned_to(align as u64)
}

fn at(addr: Addr) -> Option<NonNull<u8>> {
    NonNull::new(ptr::with_exposed_provenance_mut(addr.0 as usize))
}

/// The trait of one version of the crate.
macro_rules! allocator {
    ($feature:literal, $of:ident) => {
        // SAFETY: the platform promises that an object's bytes are memory, which the engine gives to no other caller before
        // it is freed. A reference that is moved or copied refers to the same engine.
        #[cfg(feature = $feature)]
        unsafe impl<P: ObjectPlatform + Clone, const ZONES: usize> $of::alloc::Allocator
            for &EngineObjects<'_, '_, P, ZONES>
        {
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $of::alloc::AllocError> {
                let object = self.alloc(layout, false).ok_or($of::alloc::AllocError)?;
                Ok(NonNull::slice_from_raw_parts(object, layout.size()))
            }

            fn allocate_zeroed(
                &self,
                layout: Layout,
            ) -> Result<NonNull<[u8]>, $of::alloc::AllocError> {
                let object = self.alloc(layout, true).ok_or($of::alloc::AllocError)?;
                Ok(NonNull::slice_from_raw_parts(object, layout.size()))
            }

            unsafe fn deallocate(&self, object: NonNull<u8>, _layout: Layout) {
                self.free(object);
            }

            unsafe fn grow(
                &self,
                object: NonNull<u8>,
                _old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, $of::alloc::AllocError> {
                let object = self.resize(object, new.size(), new.align());
                let object = object.ok_or($of::alloc::AllocError)?;
                Ok(NonNull::slice_from_raw_parts(object, new.size()))
            }

            unsafe fn shrink(
                &self,
                object: NonNull<u8>,
                _old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, $of::alloc::AllocError> {
                let object = self.resize(object, new.size(), new.align());
                let object = object.ok_or($of::alloc::AllocError)?;
                Ok(NonNull::slice_from_raw_parts(object, new.size()))
            }
        }
    };
}

allocator!("v02", allocator_api2_02);
allocator!("v04", allocator_api2_04);

/// A kernel's heap: a static that gets its objects at boot, and has no memory before.
pub struct KernelHeap<P: ObjectPlatform + Clone + 'static> {
    objects: Once<EngineObjects<'static, 'static, P>>,
}

impl<P: ObjectPlatform + Clone> KernelHeap<P> {
    /// A heap without memory.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            objects: Once::new(),
        }
    }

    /// Gives it objects, once: what comes later changes nothing. Returns those that it has.
    pub fn set_up(
        &self,
        objects: EngineObjects<'static, 'static, P>,
    ) -> &EngineObjects<'static, 'static, P> {
        self.objects.call_once(|| objects)
    }
}

impl<P: ObjectPlatform + Clone> Default for KernelHeap<P> {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: as above. A failure is a null pointer, and nothing unwinds.
unsafe impl<P: ObjectPlatform + Clone> GlobalAlloc for KernelHeap<P>
where
    EngineObjects<'static, 'static, P>: Sync,
{
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let object = self
            .objects
            .get()
            .and_then(|objects| objects.alloc(layout, false));
        object.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let object = self
            .objects
            .get()
            .and_then(|objects| objects.alloc(layout, true));
        object.map_or(ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, object: *mut u8, _layout: Layout) {
        if let (Some(objects), Some(object)) = (self.objects.get(), NonNull::new(object)) {
            objects.free(object);
        }
    }

    unsafe fn realloc(&self, object: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let both = self.objects.get().zip(NonNull::new(object));
        let moved =
            both.and_then(|(objects, object)| objects.resize(object, bytes, layout.align()));
        moved.map_or(ptr::null_mut(), NonNull::as_ptr)
    }
}
