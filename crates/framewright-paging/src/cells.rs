// UNSAFETY: values that one CPU writes at boot, or that belong to one CPU, are reached by shared references.
//! Statics of a kernel: a value that is set once, and a value for each CPU.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::mem::ManuallyDrop;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
    compiler_fence,
};
use framewright::CpuId;

/// A value that one CPU sets, before it is read.
#[derive(Debug)]
pub struct SetOnce<T> {
    is_claimed: AtomicBool,
    is_set: AtomicBool,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the one call of `set` that has the claim writes it, and it is only read after that; `Send` because the
// value came from another CPU.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}

impl<T> SetOnce<T> {
    /// Not set.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            is_claimed: AtomicBool::new(false),
            is_set: AtomicBool::new(false),
            value: UnsafeCell::new(None),
        }
    }

    /// Sets it.
    ///
    /// # Panics
    /// If it was set before.
    pub fn set(&self, value: T) {
        let was_claimed = self.is_claimed.swap(true, Acquire);
        assert!(!was_claimed, "it is set once");
        // SAFETY: this call has the claim, and no reference exists before `is_set`.
        unsafe { *self.value.get() = Some(value) };
        self.is_set.store(true, Release);
    }

    /// The value, if it was set.
    #[inline(always)]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        if !self.is_set.load(Acquire) {
            return None;
        }
        // SAFETY: behind `is_set` nothing writes.
        unsafe { (*self.value.get()).as_ref() }
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A value for each CPU, which only that CPU uses, and once at a time: a handler that interrupts its CPU inside
/// finds it [busy](NestedEntry). Dropped, it drops no value, because a value may be dropped on its own CPU alone.
#[derive(Debug)]
pub struct CpuCells<T, const CPUS: usize>([CpuCell<T>; CPUS]);

#[derive(Debug)]
#[repr(align(64))]
struct CpuCell<T> {
    is_busy: AtomicBool,
    value: UnsafeCell<ManuallyDrop<Option<T>>>,
}

// SAFETY: `enter` is unsafe, and asks that only one CPU comes to each cell. The value is set there too, so it
// never leaves its CPU, and need not be `Send`.
unsafe impl<T, const CPUS: usize> Sync for CpuCells<T, CPUS> {}

/// The CPU is in its cell already, or has no value there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NestedEntry;

impl<T, const CPUS: usize> CpuCells<T, CPUS> {
    /// No CPU has a value yet.
    #[must_use]
    pub const fn new() -> Self {
        Self(
            [const {
                CpuCell {
                    is_busy: AtomicBool::new(false),
                    value: UnsafeCell::new(ManuallyDrop::new(None)),
                }
            }; CPUS],
        )
    }

    /// Works with the CPU's value, which it may set or take out.
    ///
    /// # Errors
    /// [`NestedEntry`] if the CPU is inside already. Nothing has happened.
    ///
    /// # Panics
    /// If there is no such CPU.
    ///
    /// # Safety
    /// The caller runs on that CPU, and stays on it until this returns.
    #[inline(always)]
    pub unsafe fn enter<R>(
        &self,
        cpu: CpuId,
        work: impl FnOnce(&mut Option<T>) -> R,
    ) -> Result<R, NestedEntry> {
        let cell = &self.0[cpu.index()];
        if cell.is_busy.load(Relaxed) {
            return Err(NestedEntry);
        }
        // SAFETY: only this CPU comes here (the caller), and it is not inside.
        Ok(unsafe { cell.work(work) })
    }

    /// The same for a caller that knows the CPU is not inside.
    ///
    /// # Panics
    /// If it is, or if there is no such CPU.
    ///
    /// # Safety
    /// As [`enter`](Self::enter).
    #[inline(always)]
    pub unsafe fn must_enter<R>(&self, cpu: CpuId, work: impl FnOnce(&mut Option<T>) -> R) -> R {
        let cell = &self.0[cpu.index()];
        assert!(!cell.is_busy.load(Relaxed), "a CPU enters its cell twice");
        // SAFETY: as above.
        unsafe { cell.work(work) }
    }
}

impl<T> CpuCell<T> {
    /// Works with the value, and is busy meanwhile. Plain loads and stores: only handlers on this CPU could come
    /// between, and they leave the mark as it was.
    ///
    /// # Safety
    /// The cell is not busy, and only one CPU comes to it.
    #[inline(always)]
    unsafe fn work<R>(&self, work: impl FnOnce(&mut Option<T>) -> R) -> R {
        self.is_busy.store(true, Relaxed);
        compiler_fence(SeqCst);
        // SAFETY: no other reference to the value exists (the caller).
        let result = work(unsafe { &mut *self.value.get() });
        compiler_fence(SeqCst);
        self.is_busy.store(false, Relaxed);
        result
    }
}

impl<T, const CPUS: usize> Default for CpuCells<T, CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether each CPU may take interrupts in a long call of the engine: not before it takes them at all, nor in a handler.
#[derive(Debug)]
pub struct InterruptFlags<const CPUS: usize>([AtomicBool; CPUS]);

impl<const CPUS: usize> InterruptFlags<CPUS> {
    /// No CPU may.
    #[must_use]
    pub const fn new() -> Self {
        Self([const { AtomicBool::new(false) }; CPUS])
    }

    /// From now on that CPU may.
    ///
    /// # Panics
    /// If there is no such CPU, as in the others.
    pub fn allow(&self, cpu: CpuId) {
        self.0[cpu.index()].store(true, Relaxed);
    }

    /// Whether that CPU may.
    #[inline(always)]
    #[must_use]
    pub fn are_allowed(&self, cpu: CpuId) -> bool {
        self.0[cpu.index()].load(Relaxed)
    }

    /// Calls `work` while `cpu`, the calling CPU, may not, and lets it again if it might before.
    pub fn without<R>(&self, cpu: CpuId, work: impl FnOnce() -> R) -> R {
        let did = self.0[cpu.index()].swap(false, Relaxed);
        let done = work();
        self.0[cpu.index()].store(did, Relaxed);
        done
    }
}

impl<const CPUS: usize> Default for InterruptFlags<CPUS> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_handler_lets_no_interrupt_in_and_the_call_that_it_interrupted_does() {
        let flags = InterruptFlags::<2>::new();
        let are = || [0, 1].map(|cpu| flags.are_allowed(CpuId(cpu)));
        assert!(flags.without(CpuId(0), || are() == [false, false]));
        assert_eq!(are(), [false, false]);
        flags.allow(CpuId(1));
        assert!(flags.without(CpuId(1), || are() == [false, false]));
        assert_eq!(are(), [false, true]);
    }

    #[test]
    fn a_value_is_set_once_and_seen_afterwards() {
        static VALUE: SetOnce<u64> = SetOnce::new();
        assert_eq!(VALUE.get(), None);
        VALUE.set(7);
        assert_eq!(VALUE.get(), Some(&7));
        assert!(catch_unwind(|| VALUE.set(8)).is_err());
        assert_eq!(VALUE.get(), Some(&7));
    }

    #[test]
    fn values_are_dropped_on_their_own_cpu_or_never() {
        struct SeenDropped<'a>(&'a AtomicBool);
        impl Drop for SeenDropped<'_> {
            fn drop(&mut self) {
                self.0.store(true, Relaxed);
            }
        }
        let is_dropped = AtomicBool::new(false);
        {
            let cells: CpuCells<SeenDropped<'_>, 1> = CpuCells::new();
            // SAFETY: one thread is the CPU.
            let enter = |new| unsafe { cells.enter(CpuId(0), |value| *value = new) };
            enter(Some(SeenDropped(&is_dropped))).unwrap();
            enter(None).unwrap();
            assert!(is_dropped.swap(false, Relaxed));
            enter(Some(SeenDropped(&is_dropped))).unwrap();
        }
        assert!(!is_dropped.load(Relaxed));
    }

    #[test]
    fn a_nested_entry_is_refused_and_changes_nothing() {
        let cells: CpuCells<u64, 2> = CpuCells::new();
        // SAFETY: one thread is both CPUs.
        let enter = |cpu, add| unsafe {
            cells.enter(CpuId(cpu), |value| {
                let inner = cells.enter(CpuId(0), |value| *value = None);
                *value = Some(value.unwrap_or(0) + add);
                (inner, *value)
            })
        };
        assert_eq!(enter(0, 3), Ok((Err(NestedEntry), Some(3))));
        assert_eq!(enter(0, 4), Ok((Err(NestedEntry), Some(7))));
        // From another CPU's cell the first one is free.
        assert_eq!(enter(1, 1), Ok((Ok(()), Some(1))));
        assert_eq!(enter(0, 5), Ok((Err(NestedEntry), Some(5))));
    }
}
