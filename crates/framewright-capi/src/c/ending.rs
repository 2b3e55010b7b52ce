// UNSAFETY: C calls a function when a thread ends, to give its places back.

//! The end of a thread.

use crate::seats;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The key whose destructor gives a thread's places back. `None` if the process has no key left.
///
/// Not a `OnceLock`: a child that is forked off while another thread is at work in one would wait for that thread, which
/// it does not have.
fn key() -> Option<libc::pthread_key_t> {
    /// The key plus one.
    static KEY: AtomicU64 = AtomicU64::new(0);
    // Relaxed: a number, which needs nothing that was written before it.
    if let Some(key) = KEY.load(Relaxed).checked_sub(1) {
        return Some(key as libc::pthread_key_t);
    }
    let mut key = 0;
    // SAFETY: `key` is written to; `thread_ends` is a function for values of this key, and the library stays loaded (the
    // build script says so to the linker).
    if unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } != 0 {
        return None;
    }
    match KEY.compare_exchange(0, u64::from(key) + 1, Relaxed, Relaxed) {
        Ok(_) => Some(key),
        Err(first) => {
            // SAFETY: another thread was faster; this thread's key has no values.
            unsafe { libc::pthread_key_delete(key) };
            Some((first - 1) as libc::pthread_key_t)
        }
    }
}

/// Sees to it that the calling thread gives its places back at its end. Returns whether it will.
pub(crate) fn announce() -> bool {
    // Any value but null: the destructor needs none.
    let value = NonNull::<c_void>::dangling().as_ptr();
    // SAFETY: the key is there for ever, and the value is not followed.
    key().is_some_and(|key| unsafe { libc::pthread_setspecific(key, value) } == 0)
}

/// Called at a thread's end, when its thread-local values have been dropped.
extern "C" fn thread_ends_safely(_value: *mut c_void) {
    seats::end();
}

/// The same, as the key wants it.
unsafe extern "C" fn thread_ends(value: *mut c_void) {
    thread_ends_safely(value);
}
