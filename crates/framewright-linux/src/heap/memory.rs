//! Handles by which owners (`KVBox`, `KVVec`) take memory of a heap. A handle is where place, effort and context are
//! chosen, so the owner's type does not name them.

// UNSAFETY: owners use the heap's memory by address.

use super::inner::{HeapInner, NoHeapSeat, address};
use super::{Heap, mine};
use crate::HostError;
use framewright::Context;
use framewright::kv::{KvError, KvRequest, Memory};
use framewright::policy::Effort;
use std::alloc::Layout;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// Why an owner gets no memory from a heap. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeapError {
    /// The engine has no memory for the request.
    Objects(KvError),
    /// The heap could not be made.
    Host(HostError),
    /// The thread is inside a heap: it was interrupted there by a signal.
    Inside,
    /// More threads use the heap than it has seats, this one has none, another one is in the shared
    /// seat, and the context does not allow waiting: it may be free a moment later.
    SeatInUse,
    /// The process was forked off from the heap's.
    Forked,
}

impl From<NoHeapSeat> for HeapError {
    fn from(error: NoHeapSeat) -> Self {
        match error {
            NoHeapSeat::Inside => Self::Inside,
            NoHeapSeat::InUse => Self::SeatInUse,
            NoHeapSeat::Forked => Self::Forked,
        }
    }
}

impl fmt::Display for HeapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects(error) => error.fmt(f),
            Self::Host(error) => write!(f, "there is no heap: {error}"),
            Self::Inside => f.write_str("the thread is inside the heap already"),
            Self::SeatInUse => f.write_str(
                "the thread has no seat of its own in the heap and may not wait for the shared one",
            ),
            Self::Forked => {
                f.write_str("the heap is the parent's: this process was forked off from it")
            }
        }
    }
}

impl std::error::Error for HeapError {}

/// A [`Heap`], with a place, an effort and a context for its owners' requests.
#[derive(Clone, Copy, Debug)]
pub struct HeapWith<'h> {
    heap: &'h Heap,
    request: KvRequest,
    place: HeapPlace,
}

/// Where an owner's object may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HeapPlace {
    Contiguous,
    Mapped,
    Either,
}

impl Heap {
    /// The heap with that effort and context. By itself it makes fail-fast requests, for a caller
    /// that may do anything.
    ///
    /// No client gives memory back to a heap, so the effort only decides whether a contiguous
    /// object is also searched for in what other threads have cached: not by [`Effort::FailFast`].
    ///
    /// Two things ignore the context: the first request makes a heap that has not been made
    /// ([`set_up`](Self::set_up) does it earlier), and a free has no context: a thread without a
    /// seat waits for the shared one to free something.
    #[must_use]
    pub const fn with(&self, effort: Effort, context: Context) -> HeapWith<'_> {
        HeapWith {
            heap: self,
            request: KvRequest::new(0).with(effort).within(context),
            place: HeapPlace::Either,
        }
    }

    /// The heap for owners that lie contiguous in memory, in the direct map.
    #[must_use]
    pub const fn contiguous(&self) -> HeapWith<'_> {
        self.by_default().contiguous()
    }

    /// The heap for owners that lie in mapped pages.
    #[must_use]
    pub const fn mapped(&self) -> HeapWith<'_> {
        self.by_default().mapped()
    }

    const fn by_default(&self) -> HeapWith<'_> {
        self.with(Effort::FailFast, Context::ANY)
    }
}

impl HeapWith<'_> {
    /// The same for owners that lie contiguous in memory.
    #[must_use]
    pub const fn contiguous(mut self) -> Self {
        self.place = HeapPlace::Contiguous;
        self
    }

    /// The same for owners that lie in mapped pages.
    #[must_use]
    pub const fn mapped(mut self) -> Self {
        self.place = HeapPlace::Mapped;
        self
    }

    fn inner(&self) -> Result<&Arc<HeapInner>, HeapError> {
        match self.heap.inner() {
            Some(inner) => Ok(inner),
            None if mine::is_passing_on() => Err(HeapError::Inside),
            None => match self.heap.set_up() {
                Err(HostError::Forked) => Err(HeapError::Forked),
                Err(error) => Err(HeapError::Host(error)),
                // Another thread has made it since.
                Ok(()) => self.heap.made().ok_or(HeapError::Inside),
            },
        }
    }

    const fn request(&self, layout: Layout) -> KvRequest {
        KvRequest {
            bytes: layout.size() as u64,
            align_bytes: layout.align() as u64,
            ..self.request
        }
    }

    fn ask(&self, request: &KvRequest, inner: &Arc<HeapInner>) -> Result<NonNull<u8>, HeapError> {
        let may_block = request.context.may_block;
        let addr = mine::in_seat(inner, may_block, |seat| match self.place {
            HeapPlace::Contiguous => seat.objects().kmalloc(request),
            HeapPlace::Either => seat.objects().kvmalloc(request),
            HeapPlace::Mapped => seat.objects().vmalloc(request),
        });
        addr?
            .map(|addr| inner.pointer(addr))
            .map_err(HeapError::Objects)
    }
}

// SAFETY: an object is as long and aligned as asked for, and its owner's alone (the engine's K5).
// No safe function reaches the heap's memory, and it stays as long as the heap is borrowed. The
// engine takes a free from any thread. Nothing unwinds: `mine` ends the program first.
unsafe impl Memory for HeapWith<'_> {
    type Error = HeapError;

    fn too_long(&self, elements: usize, bytes_each: usize) -> HeapError {
        let (count, bytes_each) = (elements as u64, bytes_each as u64);
        HeapError::Objects(KvError::Overflow { count, bytes_each })
    }

    fn alloc(&self, layout: Layout, zero: bool) -> Result<NonNull<u8>, HeapError> {
        let at = self.ask(&self.request(layout), self.inner()?)?;
        if zero {
            // SAFETY: as long as that, and only this caller has it. Plain stores are faster than
            // the engine's, which other threads may race with.
            unsafe { at.write_bytes(0, layout.size()) };
        }
        Ok(at)
    }

    unsafe fn resize(
        &self,
        at: NonNull<u8>,
        old: Layout,
        bytes: usize,
    ) -> Result<NonNull<u8>, HeapError> {
        let inner = self.inner()?;
        let request = KvRequest {
            bytes: bytes as u64,
            ..self.request(old)
        };
        let may_block = request.context.may_block;
        if self.place == HeapPlace::Either {
            let addr = mine::in_seat(inner, may_block, |seat| {
                seat.objects().kvrealloc(address(at), &request)
            });
            return match addr? {
                Ok(addr) => Ok(inner.pointer(addr)),
                Err(error) => Err(HeapError::Objects(error)),
            };
        }
        // An object that may lie in one place only does not move to the other.
        let room = mine::in_seat(inner, may_block, |seat| seat.objects().kvsize(address(at)));
        if let Ok(Ok(room)) = room
            && (room / 2..=room).contains(&request.bytes)
        {
            return Ok(at);
        }
        let to = self.ask(&request, inner)?;
        // SAFETY: both are as long as that, two objects, and the caller's to use.
        unsafe { to.copy_from_nonoverlapping(at, old.size().min(bytes)) };
        self.heap.give_back(at);
        Ok(to)
    }

    unsafe fn free(&self, at: NonNull<u8>, _layout: Layout) {
        self.heap.give_back(at);
    }
}

// SAFETY: that of the heap with default effort and context.
unsafe impl Memory for Heap {
    type Error = HeapError;

    fn too_long(&self, elements: usize, bytes_each: usize) -> HeapError {
        let (count, bytes_each) = (elements as u64, bytes_each as u64);
        HeapError::Objects(KvError::Overflow { count, bytes_each })
    }

    fn alloc(&self, layout: Layout, zero: bool) -> Result<NonNull<u8>, HeapError> {
        self.by_default().alloc(layout, zero)
    }

    unsafe fn resize(
        &self,
        at: NonNull<u8>,
        old: Layout,
        bytes: usize,
    ) -> Result<NonNull<u8>, HeapError> {
        // SAFETY: what the caller promised.
        unsafe { self.by_default().resize(at, old, bytes) }
    }

    unsafe fn free(&self, at: NonNull<u8>, layout: Layout) {
        // SAFETY: what the caller promised.
        unsafe { self.by_default().free(at, layout) }
    }
}
