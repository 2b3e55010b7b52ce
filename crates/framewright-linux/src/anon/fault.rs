// UNSAFETY: a handler of signals is installed and called by the kernel, and it finds the region that
// was touched by a pointer; neither has a safe form.

//! Threads that touch a page while it moves: the handler of SIGSEGV.
//!
//! One handler for the process, installed with the first region and never taken away. It looks the
//! address up in a table of regions, waits there, and returns: the access is made again. For every
//! other address it does what was to be done before it was installed: the handler that it found is
//! called with the same arguments; where there was none, the default action takes place.
//!
//! It is async-signal-safe: it loads and stores atomics, and makes system calls; nothing is
//! allocated, no lock of the language is taken, and errno is left as it was. A region's gate is
//! never shut by somebody who touches the region's pages, so nobody waits for himself.
//!
//! What is populated and shown is taken for something that has moved a moment ago, and tried again: who
//! jumps into a region, where nothing can be executed, tries for ever.
//!
//! A thread that blocks SIGSEGV must not touch a region: the kernel ends the process then.
//!
//! Whoever installs a handler later and does not call this one takes the waiting away from all
//! regions: as with all users of SIGSEGV, the last one must pass on what is not his.

use super::AnonError;
use super::region::Region;
use std::ffi::c_int;
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// As many regions may be at a time.
const REGIONS: usize = 64;

/// A region that the handler knows.
///
/// # Invariants
/// - `region` points to a region that lives as long as `users` is not 0 or `region` is not null.
/// - `start` and `end` are those of the region, while `region` is not null.
struct Listing {
    region: AtomicPtr<Region>,
    start: AtomicUsize,
    end: AtomicUsize,
    /// Handlers that may use it.
    users: AtomicUsize,
    is_taken: AtomicUsize,
}

static LISTINGS: [Listing; REGIONS] = [const {
    Listing {
        region: AtomicPtr::new(std::ptr::null_mut()),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        users: AtomicUsize::new(0),
        is_taken: AtomicUsize::new(0),
    }
}; REGIONS];

/// What was to be done at a SIGSEGV before, once the handler is installed; or why it is not.
static BEFORE: OnceLock<Result<libc::sigaction, i32>> = OnceLock::new();

/// What became of a touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Touch {
    /// It will succeed, or be looked at again.
    Again,
    /// It is nothing that the region knows.
    Wrong,
}

/// A region that the handler knows until this is dropped.
#[derive(Debug)]
pub(super) struct Listed(&'static Listing);

impl std::fmt::Debug for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = self.start.load(Relaxed);
        f.debug_struct("Listing").field("start", &start).finish()
    }
}

impl Listed {
    /// Makes a region known to the handler, which is installed if it is not yet.
    ///
    /// # Safety
    /// The region lives, at its place, until the result is dropped.
    pub(super) unsafe fn new(region: *const Region) -> Result<Self, AnonError> {
        let before = BEFORE.get_or_init(install);
        before
            .as_ref()
            .map_err(|errno| AnonError::Handler(*errno))?;
        let free = LISTINGS.iter().find(|listing| {
            let taken = listing.is_taken.compare_exchange(0, 1, Acquire, Relaxed);
            taken.is_ok()
        });
        let listing = free.ok_or(AnonError::Regions { max: REGIONS })?;
        // SAFETY: it lives: this function's caller says so.
        let bytes = unsafe { &*region }.bytes();
        listing.start.store(bytes.start, Relaxed);
        listing.end.store(bytes.end, Relaxed);
        // INVARIANT: it lives until `drop` has waited for all users.
        listing.region.store(region.cast_mut(), SeqCst);
        Ok(Self(listing))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        // SeqCst here and in the handler: either it sees null, or its use is seen here.
        self.0.region.store(std::ptr::null_mut(), SeqCst);
        while self.0.users.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
        // Release pairs with the Acquire of who takes the listing next.
        self.0.is_taken.store(0, Release);
    }
}

/// What the region of `address` says of a touch, if it is a region's.
fn touched(address: usize) -> Option<Touch> {
    LISTINGS.iter().find_map(|listing| {
        let is_inside =
            || (listing.start.load(Relaxed)..listing.end.load(Relaxed)).contains(&address);
        if !is_inside() {
            return None;
        }
        listing.users.fetch_add(1, SeqCst);
        let region = listing.region.load(SeqCst);
        // Of another region's listing, if it was taken over meanwhile: then looked at again.
        let touch = if region.is_null() || !is_inside() {
            None
        } else {
            // SAFETY: not null after `users` was raised, so it lives until that is lowered
            // (invariant; the order of the two is SeqCst).
            Some(unsafe { &*region }.touched(address))
        };
        listing.users.fetch_sub(1, SeqCst);
        touch
    })
}

fn install() -> Result<libc::sigaction, i32> {
    let errno = || {
        let error = std::io::Error::last_os_error().raw_os_error();
        error.unwrap_or(libc::EINVAL)
    };
    // SAFETY: all zeroes are a `sigaction`: no handler, no flags, an empty mask.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    action.sa_sigaction =
        handler as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    // On the thread's other stack, where it has one: what is passed on may be the end of a stack.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: both are valid; the handler is async-signal-safe (see the module).
    let failed = unsafe { libc::sigaction(libc::SIGSEGV, &action, &mut before) };
    if failed == 0 {
        Ok(before)
    } else {
        Err(errno())
    }
}

/// Called by the kernel in the thread that touched something.
extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the thread's own.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel hands in what it knows of the signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // What somebody sends, at most 0, has no address.
    let touch = if code > 0 { touched(address) } else { None };
    if touch != Some(Touch::Again) {
        pass_on(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Does what was to be done before this handler was there.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Not set yet only between the installation and its end: then the access is made again.
    let Some(Ok(before)) = BEFORE.get() else {
        return;
    };
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all zeroes, which is SIG_DFL without flags. What is ignored cannot be at a
            // fault: the kernel takes the default action then, too.
            unsafe {
                let action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
            // The access is made again, with the default action; what somebody sent is sent again.
            // SAFETY: the kernel's own value.
            if unsafe { (*info).si_code } <= 0 {
                // SAFETY: sends a signal to the calling thread.
                unsafe { libc::raise(signal) };
            }
        }
        function if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: whoever installed it said by the flag that it has this type.
            let function: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                unsafe { std::mem::transmute(function) };
            function(signal, info, context);
        }
        function => {
            // SAFETY: as above: without the flag it has this type.
            let function: extern "C" fn(c_int) = unsafe { std::mem::transmute(function) };
            function(signal);
        }
    }
}
