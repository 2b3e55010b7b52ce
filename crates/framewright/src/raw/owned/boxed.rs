//! A single value in memory of an allocator.

use super::{Memory, Refused};
use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::pin::Pin;
use core::ptr::NonNull;

/// A value in memory of `A`. Whether it is contiguous there \[`kmalloc`\], in mapped pages \[`vmalloc`\], or
/// the first if that is there \[`kvmalloc`\], the handle says.
///
/// A value without bytes takes no memory.
///
/// # Invariants
/// - `value` points to a valid `T` that is this owner's alone. Unless it has no bytes, it lies in
///   memory from `heap` for `T`'s layout, which is not free.
pub struct KVBox<T: ?Sized, A: Memory> {
    value: NonNull<T>,
    heap: A,
    owns: PhantomData<T>,
}

// SAFETY: the owner alone has its value, as if it lay in the owner. Any thread may use the memory
// (the contract). A handle is used on another thread only if it may be there.
unsafe impl<T: ?Sized + Send, A: Memory + Send> Send for KVBox<T, A> {}
// SAFETY: a shared owner gives out only shared values and handles.
unsafe impl<T: ?Sized + Sync, A: Memory + Sync> Sync for KVBox<T, A> {}

impl<T, A: Memory> KVBox<T, A> {
    /// Moves `value` into memory of `heap`.
    ///
    /// # Errors
    /// The value, if there was no memory; the handle is dropped then.
    pub fn try_new(value: T, heap: A) -> Result<Self, Refused<T, A::Error>> {
        match KVBox::<MaybeUninit<T>, A>::try_uninit(heap) {
            Ok(place) => Ok(place.write(value)),
            Err(error) => Err(Refused { value, error }),
        }
    }

    /// Takes the value out, and gives its memory back.
    #[must_use]
    pub fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the handle is read once, and `this` neither used again nor dropped.
        let heap = unsafe { core::ptr::read(&this.heap) };
        let _memory = Freed {
            at: this.value.cast(),
            layout: Layout::new::<T>(),
            heap,
        };
        // SAFETY: a valid value, read once; its memory is free only when this function ends.
        unsafe { this.value.read() }
    }
}

impl<T, A: Memory> KVBox<MaybeUninit<T>, A> {
    /// Memory for a value to come, of any contents.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn try_uninit(heap: A) -> Result<Self, A::Error> {
        Self::try_of(heap, false)
    }

    /// Memory for a value to come, full of zeroes.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn try_zeroed(heap: A) -> Result<Self, A::Error> {
        Self::try_of(heap, true)
    }

    fn try_of(heap: A, zero: bool) -> Result<Self, A::Error> {
        let layout = Layout::new::<T>();
        let value = match layout.size() {
            0 => NonNull::dangling(),
            _ => heap.alloc(layout, zero)?.cast(),
        };
        // INVARIANT: any bytes are a `MaybeUninit`, and the memory was just allocated for it.
        Ok(Self {
            value,
            heap,
            owns: PhantomData,
        })
    }

    /// Writes a value there.
    #[must_use]
    pub fn write(mut self, value: T) -> KVBox<T, A> {
        (*self).write(value);
        // SAFETY: `write` above wrote it.
        unsafe { self.assume_init() }
    }

    /// The same memory, now as that of a value.
    ///
    /// # Safety
    /// A valid `T` has been written there; whether zeroes are one depends on the type.
    #[must_use]
    pub unsafe fn assume_init(self) -> KVBox<T, A> {
        let (value, heap) = self.into_raw();
        // SAFETY: it came from `into_raw` a line above; `T` is at the same address with the same
        // layout, and valid by the caller's promise.
        unsafe { KVBox::from_raw(value.cast(), heap) }
    }
}

impl<T: ?Sized, A: Memory> KVBox<T, A> {
    /// Gives up the value's address and the handle: the memory is the caller's now.
    #[must_use = "the value is not dropped, nor its memory given back"]
    pub fn into_raw(self) -> (NonNull<T>, A) {
        let this = ManuallyDrop::new(self);
        // SAFETY: read once, and `this` is neither used again nor dropped.
        (this.value, unsafe { core::ptr::read(&this.heap) })
    }

    /// Makes an owner again, perhaps of the same value as another type: an unsized one, such as a
    /// trait object.
    ///
    /// # Safety
    /// Both came from [`into_raw`](Self::into_raw) of an owner, and are in no
    /// other use. `value` is the same address, and what it points to is valid there and has the
    /// same layout.
    #[must_use]
    pub const unsafe fn from_raw(value: NonNull<T>, heap: A) -> Self {
        // INVARIANT: by the caller's promise.
        Self {
            value,
            heap,
            owns: PhantomData,
        }
    }

    /// The value for as long as the handle could live; its memory is not given back.
    #[must_use]
    pub fn leak<'a>(self) -> &'a mut T
    where
        A: 'a,
    {
        let this = ManuallyDrop::new(self);
        // SAFETY: valid, and this owner alone had it, which no longer exists. The handle is not
        // dropped, so the memory stays.
        unsafe { &mut *this.value.as_ptr() }
    }

    /// The same, never to move again.
    #[must_use]
    pub fn into_pin(self) -> Pin<Self>
    where
        A: 'static,
    {
        // SAFETY: the value does not move with its owner, and the owner cannot be taken apart while
        // it is pinned. A handle that could be gone before the value's end is ruled out by
        // 'static.
        unsafe { Pin::new_unchecked(self) }
    }

    /// The handle to the memory.
    #[must_use]
    pub const fn heap(&self) -> &A {
        &self.heap
    }
}

/// Memory that is given back at the end of a block, even if something in it panics.
struct Freed<A: Memory> {
    at: NonNull<u8>,
    layout: Layout,
    heap: A,
}

impl<A: Memory> Drop for Freed<A> {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            // SAFETY: the memory was that of an owner that no longer exists, came from its handle
            // and for its layout (the owner's invariant), and its value is gone.
            unsafe { self.heap.free(self.at, self.layout) };
        }
    }
}

impl<T: ?Sized, A: Memory> Drop for KVBox<T, A> {
    fn drop(&mut self) {
        let _memory = Freed {
            at: self.value.cast(),
            layout: Layout::for_value::<T>(self),
            heap: &self.heap,
        };
        // SAFETY: valid, this owner's alone, and dropped once.
        unsafe { self.value.drop_in_place() };
    }
}

impl<T: ?Sized, A: Memory> Deref for KVBox<T, A> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: valid and this owner's alone, which is borrowed.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized, A: Memory> DerefMut for KVBox<T, A> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: valid and this owner's alone, which is borrowed mutably.
        unsafe { self.value.as_mut() }
    }
}

// The value does not move with its owner.
impl<T: ?Sized, A: Memory> Unpin for KVBox<T, A> {}

impl<T: ?Sized + fmt::Debug, A: Memory> fmt::Debug for KVBox<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display, A: Memory> fmt::Display for KVBox<T, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
