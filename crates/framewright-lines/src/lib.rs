//! Atomics that tell which of them were read and written, for a build in which the engine's are
//! these (`--cfg lines`): so the code whose cache lines are counted is the code that ships.
//!
//! Each is exactly one of `core`'s. While a thread [records](record), each access of its own is
//! noted: the address, and whether it was a write, which takes the cache line from all other CPUs. A thread that
//! [watches](watch) has a function of its own called before each.
#![forbid(unsafe_code)]

pub use core::sync::atomic::{Ordering, fence};

use std::cell::{Cell, RefCell};
use std::panic::Location;

/// One access of an atomic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Where the atomic lies.
    pub address: usize,
    /// Whether it was a write: a read-modify-write is one, also if it changed nothing.
    pub is_write: bool,
}

impl Access {
    /// The number of the cache line, of 64 bytes.
    #[must_use]
    pub const fn line(self) -> usize {
        self.address / 64
    }
}

/// What is called before each access, with the place in the source that makes it.
pub type Watcher = fn(Access, &'static Location<'static>);

thread_local! {
    static RECORD: RefCell<Option<Vec<Access>>> = const { RefCell::new(None) };
    static WATCHER: Cell<Option<Watcher>> = const { Cell::new(None) };
}

/// From now on the calling thread's atomics call `watcher` before each access. It may switch to another coroutine of the
/// thread: the access follows when it returns. `None` ends that.
pub fn watch(watcher: Option<Watcher>) {
    WATCHER.set(watcher);
}

/// What the calling thread's atomics are asked for within `work`, in order. Not within another one.
pub fn record<T>(work: impl FnOnce() -> T) -> (T, Vec<Access>) {
    RECORD.with_borrow_mut(|record| *record = Some(Vec::new()));
    let result = work();
    let accesses = RECORD.with_borrow_mut(Option::take);
    (result, accesses.unwrap_or_default())
}

#[track_caller]
fn note<T>(atomic: &T, is_write: bool) {
    let address = std::ptr::from_ref(atomic).addr();
    let access = Access { address, is_write };
    if let Some(watcher) = WATCHER.get() {
        watcher(access, Location::caller());
    }
    RECORD.with_borrow_mut(|record| {
        if let Some(accesses) = record {
            accesses.push(access);
        }
    });
}

macro_rules! atomic {
    ($($name:ident of $value:ty),*) => { $(
        #[doc = concat!("`core`'s `", stringify!($name), "`, which tells of its accesses.")]
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(core::sync::atomic::$name);

        impl $name {
            /// An atomic of that value.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(core::sync::atomic::$name::new(value))
            }

            /// The value, of an atomic that is no more.
            #[must_use]
            pub const fn into_inner(self) -> $value {
                self.0.into_inner()
            }

            /// As `core`'s.
            #[must_use]
            #[track_caller]
            pub fn load(&self, order: Ordering) -> $value {
                note(self, false);
                self.0.load(order)
            }

            /// As `core`'s.
            #[track_caller]
            pub fn store(&self, value: $value, order: Ordering) {
                note(self, true);
                self.0.store(value, order);
            }

            /// As `core`'s.
            #[track_caller]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                note(self, true);
                self.0.swap(value, order)
            }

            /// As `core`'s.
            ///
            /// # Errors
            /// The value, if it was another one.
            #[track_caller]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note(self, true);
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As `core`'s.
            ///
            /// # Errors
            /// The value, if it was another one, or for no reason.
            #[track_caller]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                note(self, true);
                self.0.compare_exchange_weak(current, new, success, failure)
            }

            /// As `core`'s.
            ///
            /// # Errors
            /// The value, if `update` wants none instead.
            #[track_caller]
            pub fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                note(self, true);
                self.0.fetch_update(success, failure, update)
            }

            /// As `core`'s.
            #[track_caller]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                note(self, true);
                self.0.fetch_add(value, order)
            }

            /// As `core`'s.
            #[track_caller]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                note(self, true);
                self.0.fetch_sub(value, order)
            }

            /// As `core`'s.
            #[track_caller]
            pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                note(self, true);
                self.0.fetch_and(value, order)
            }

            /// As `core`'s.
            #[track_caller]
            pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                note(self, true);
                self.0.fetch_or(value, order)
            }

            /// As `core`'s.
            #[track_caller]
            pub fn fetch_xor(&self, value: $value, order: Ordering) -> $value {
                note(self, true);
                self.0.fetch_xor(value, order)
            }

            /// As `core`'s.
            #[track_caller]
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                note(self, true);
                self.0.fetch_max(value, order)
            }
        }
    )* };
}

atomic!(AtomicU16 of u16, AtomicU32 of u32, AtomicU64 of u64);

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::Relaxed;

    #[test]
    fn what_is_recorded_is_what_was_done_within() {
        let (a, b) = (AtomicU64::new(3), AtomicU16::new(7));
        a.store(4, Relaxed);
        let (sum, accesses) = record(|| {
            b.store(8, Relaxed);
            a.load(Relaxed) + a.fetch_add(1, Relaxed)
        });
        assert_eq!(sum, 8);
        let at = |address: usize, is_write| Access { address, is_write };
        let (a_at, b_at) = (std::ptr::from_ref(&a).addr(), std::ptr::from_ref(&b).addr());
        assert_eq!(accesses, [at(b_at, true), at(a_at, false), at(a_at, true)]);
        assert_eq!(record(|| ()).1, []);
        assert_eq!((a.into_inner(), b.into_inner()), (5, 8));
    }

    thread_local! {
        static TOLD: RefCell<Vec<(bool, u32)>> = const { RefCell::new(Vec::new()) };
    }

    #[test]
    fn a_watcher_is_told_each_access_and_its_place() {
        let word = AtomicU64::new(3);
        watch(Some(|access, place| {
            assert!(place.file().ends_with("lib.rs"));
            TOLD.with_borrow_mut(|told| told.push((access.is_write, place.line())));
        }));
        let line = line!() + 1;
        let old = word.fetch_add(1, Relaxed) + word.load(Relaxed);
        watch(None);
        word.store(0, Relaxed);
        assert_eq!((old, TOLD.take()), (7, vec![(true, line), (false, line)]));
    }

    #[test]
    fn each_operation_is_cores() {
        let word = AtomicU32::new(6);
        assert_eq!(word.swap(5, Relaxed), 6);
        assert_eq!(word.compare_exchange(4, 1, Relaxed, Relaxed), Err(5));
        assert_eq!(word.compare_exchange(5, 12, Relaxed, Relaxed), Ok(5));
        while word
            .compare_exchange_weak(12, 10, Relaxed, Relaxed)
            .is_err()
        {}
        assert_eq!(word.fetch_sub(4, Relaxed), 10);
        assert_eq!(word.fetch_or(9, Relaxed), 6);
        assert_eq!(word.fetch_and(13, Relaxed), 15);
        assert_eq!(word.fetch_xor(1, Relaxed), 13);
        assert_eq!(word.fetch_max(20, Relaxed), 12);
        let doubled = word.fetch_update(Relaxed, Relaxed, |value| value.checked_mul(2));
        assert_eq!((doubled, word.load(Relaxed)), (Ok(20), 40));
        assert_eq!(AtomicU16::default().into_inner(), 0);
    }
}

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
