// UNSAFETY: values that one CPU writes at boot, or that belong to one CPU, are reached by shared references.
//! Statics of a kernel: a value that is set once, and a value for each CPU.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{
    AtomicBool, AtomicU8,
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

/// The CPU that calls, as [cells](CpuCells) ask for it. An architecture's crate implements it.
///
/// # Safety
/// [`current`](Self::current) is the number of the CPU that calls, and no other CPU has that number. What
/// [`without_interrupts`](Self::without_interrupts) calls runs on one CPU to its end.
pub unsafe trait ThisCpu: Copy {
    /// The calling CPU.
    fn current(self) -> CpuId;

    /// Calls `work` with interrupts off, and leaves them as they were.
    fn without_interrupts<R>(self, work: impl FnOnce() -> R) -> R;
}

/// A value for each CPU, which only that CPU uses, with interrupts off and once at a time: what interrupts its CPU inside
/// nevertheless finds it [busy](NestedEntry). Dropped, it drops no value, because a value may be dropped on its own CPU
/// alone.
#[derive(Debug)]
pub struct CpuCells<T, C, const CPUS: usize> {
    this: C,
    cells: [CpuCell<T>; CPUS],
}

#[derive(Debug)]
#[repr(align(64))]
struct CpuCell<T> {
    state: AtomicU8,
    /// Whole, unless the cell is [`EMPTY`].
    value: UnsafeCell<MaybeUninit<T>>,
}

/// States of a cell: it has a value, and its CPU is not inside; it has none; its CPU is inside.
const OPEN: u8 = 0;
const EMPTY: u8 = 1;
const BUSY: u8 = 2;

// SAFETY: only its own CPU comes to a cell (`ThisCpu`). It sets the value there too, so the value never leaves its CPU,
// and need not be `Send`.
unsafe impl<T, C: Sync, const CPUS: usize> Sync for CpuCells<T, C, CPUS> {}

/// The CPU is in its cell already, or has no value there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NestedEntry;

impl<T, C: ThisCpu, const CPUS: usize> CpuCells<T, C, CPUS> {
    /// No CPU has a value yet.
    #[must_use]
    pub const fn new(this: C) -> Self {
        Self {
            this,
            cells: [const {
                CpuCell {
                    state: AtomicU8::new(EMPTY),
                    value: UnsafeCell::new(MaybeUninit::uninit()),
                }
            }; CPUS],
        }
    }

    /// Works with the calling CPU's value.
    ///
    /// # Errors
    /// [`NestedEntry`] if the CPU is inside already, or has no value. Nothing has happened.
    ///
    /// # Panics
    /// If there is no such CPU.
    #[inline(always)]
    pub fn enter<R>(&self, work: impl FnOnce(&mut T) -> R) -> Result<R, NestedEntry> {
        self.this.without_interrupts(|| {
            let cell = &self.cells[self.this.current().index()];
            if cell.state.load(Relaxed) != OPEN {
                return Err(NestedEntry);
            }
            // SAFETY: the cell is this CPU's, and it is not inside.
            Ok(unsafe { cell.work(work) })
        })
    }

    /// The same for a caller that knows the CPU has a value and is not inside.
    ///
    /// # Panics
    /// If it has none or is inside, or if there is no such CPU.
    #[inline(always)]
    pub fn must_enter<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.this.without_interrupts(|| {
            let cell = &self.cells[self.this.current().index()];
            let is_open = cell.state.load(Relaxed) == OPEN;
            assert!(is_open, "a CPU enters its cell twice, or has nothing there");
            // SAFETY: as above.
            unsafe { cell.work(work) }
        })
    }

    /// Puts what `change` makes of the calling CPU's value in its place: each is `None` for no value.
    ///
    /// # Errors
    /// [`NestedEntry`] if the CPU is inside. Nothing has happened.
    ///
    /// # Panics
    /// If there is no such CPU.
    pub fn replace(&self, change: impl FnOnce(Option<T>) -> Option<T>) -> Result<(), NestedEntry> {
        self.this.without_interrupts(|| {
            let cell = &self.cells[self.this.current().index()];
            let state = cell.state.load(Relaxed);
            if state == BUSY {
                return Err(NestedEntry);
            }
            cell.state.store(BUSY, Relaxed);
            compiler_fence(SeqCst);
            let value = cell.value.get();
            // SAFETY: the cell is this CPU's, which was not inside; a cell that is not empty has a value, and while the
            // cell is busy no call reads what was taken out.
            let old = (state == OPEN).then(|| unsafe { value.read().assume_init() });
            let new = change(old);
            let state = if new.is_some() { OPEN } else { EMPTY };
            if let Some(new) = new {
                // SAFETY: as above.
                unsafe { value.write(MaybeUninit::new(new)) };
            }
            compiler_fence(SeqCst);
            cell.state.store(state, Relaxed);
            Ok(())
        })
    }
}

impl<T> CpuCell<T> {
    /// Works with the value, and is busy meanwhile. Plain loads and stores: only handlers on this CPU could come
    /// between, and they leave the mark as it was.
    ///
    /// # Safety
    /// The cell is open, and only one CPU comes to it.
    #[inline(always)]
    unsafe fn work<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        self.state.store(BUSY, Relaxed);
        compiler_fence(SeqCst);
        // SAFETY: an open cell has a value, and no other reference to it exists (the caller).
        let result = work(unsafe { (*self.value.get()).assume_init_mut() });
        compiler_fence(SeqCst);
        self.state.store(OPEN, Relaxed);
        result
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

    /// From now on that CPU may not, as if it had never been allowed.
    pub fn forbid(&self, cpu: CpuId) {
        self.0[cpu.index()].store(false, Relaxed);
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
pub(crate) mod tests {
    use super::*;
    use core::cell::Cell;
    use std::panic::catch_unwind;
    use std::thread_local;

    #[test]
    fn a_handler_lets_no_interrupt_in_and_the_call_that_it_interrupted_does() {
        let flags = InterruptFlags::<2>::new();
        let are = || [0, 1].map(|cpu| flags.are_allowed(CpuId(cpu)));
        assert!(flags.without(CpuId(0), || are() == [false, false]));
        assert_eq!(are(), [false, false]);
        flags.allow(CpuId(1));
        assert!(flags.without(CpuId(1), || are() == [false, false]));
        assert_eq!(are(), [false, true]);
        flags.forbid(CpuId(1));
        assert_eq!(are(), [false, false]);
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

    thread_local! {
        static NUMBER: Cell<u16> = const { Cell::new(0) };
    }

    /// A test's thread, which is all CPUs of its own cells, one after the other.
    #[derive(Clone, Copy)]
    pub(crate) struct CellCpu;

    impl CellCpu {
        pub(crate) fn becomes(self, cpu: u16) {
            NUMBER.set(cpu);
        }
    }

    // SAFETY: no two threads have the same cells.
    unsafe impl ThisCpu for CellCpu {
        fn current(self) -> CpuId {
            CpuId(NUMBER.get())
        }

        fn without_interrupts<R>(self, work: impl FnOnce() -> R) -> R {
            work()
        }
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
            let cells: CpuCells<SeenDropped<'_>, _, 1> = CpuCells::new(CellCpu);
            let set =
                |is_there: bool| cells.replace(|_| is_there.then(|| SeenDropped(&is_dropped)));
            set(true).unwrap();
            set(false).unwrap();
            assert!(is_dropped.swap(false, Relaxed));
            set(true).unwrap();
        }
        assert!(!is_dropped.load(Relaxed));
    }

    #[test]
    fn no_cpu_enters_a_cell_without_a_value() {
        let cells: CpuCells<u64, _, 2> = CpuCells::new(CellCpu);
        assert_eq!(cells.enter(|value| *value), Err(NestedEntry));
        assert_eq!(cells.replace(|value| value.or(Some(3))), Ok(()));
        assert_eq!(cells.enter(|value| *value), Ok(3));
        CellCpu.becomes(1);
        assert_eq!(cells.enter(|value| *value), Err(NestedEntry));
        CellCpu.becomes(0);
        assert_eq!(cells.replace(|value| value.map(|value| value + 1)), Ok(()));
        assert_eq!(cells.must_enter(|value| *value), 4);
        assert_eq!(cells.replace(|_| None), Ok(()));
        assert_eq!(cells.enter(|value| *value), Err(NestedEntry));
    }

    #[test]
    fn a_nested_entry_is_refused_and_changes_nothing() {
        let cells: CpuCells<u64, _, 2> = CpuCells::new(CellCpu);
        for cpu in [1, 0] {
            CellCpu.becomes(cpu);
            cells.replace(|_| Some(0)).unwrap();
        }
        // It works with a CPU's value, and the first CPU's from inside it.
        let enter = |cpu, add| {
            CellCpu.becomes(cpu);
            cells.enter(|value| {
                CellCpu.becomes(0);
                let inner = cells.enter(|value| *value = 0);
                let replaced = cells.replace(|_| Some(0));
                *value += add;
                (inner, replaced, *value)
            })
        };
        const REFUSED: Result<(), NestedEntry> = Err(NestedEntry);
        assert_eq!(enter(0, 3), Ok((REFUSED, REFUSED, 3)));
        assert_eq!(enter(0, 4), Ok((REFUSED, REFUSED, 7)));
        // From another CPU's cell the first one is free.
        assert_eq!(enter(1, 1), Ok((Ok(()), Ok(()), 1)));
        assert_eq!(enter(0, 5), Ok((REFUSED, REFUSED, 5)));
        // A CPU that replaces a value is inside, too.
        let inside = cells.replace(|value| {
            assert_eq!(cells.enter(|value| *value), Err(NestedEntry));
            value
        });
        assert_eq!((inside, enter(0, 1)), (Ok(()), Ok((REFUSED, REFUSED, 6))));
    }
}
