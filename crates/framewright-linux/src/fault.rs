// UNSAFETY: a handler of signals is installed and called by the kernel, and it finds the touched
// region by a pointer; neither has a safe form.

//! The handler of SIGSEGV, for threads that touch a page without having access to it.
//!
//! One handler for the process, installed with the first region and never removed. It looks the
//! address up in a table of regions, has the region handle the touch (mostly: wait), and returns:
//! the access is made again. For every other address it does what the earlier handler did: it calls
//! the handler that it found with the same arguments; if there was none, the default action takes
//! place.
//!
//! It is async-signal-safe: it loads and stores atomics, and makes system calls. It allocates
//! nothing, takes no lock of the language, and leaves errno unchanged. A thread that touches a
//! region's pages never holds the region's gate, so no thread waits for itself.
//!
//! It takes a touch of a visible page for a page that was hidden a moment ago, and tries again: a
//! thread that jumps into a region, where nothing can be executed, tries for ever.
//!
//! A thread that blocks SIGSEGV must not touch a region: the kernel ends the process then.
//!
//! A handler that is installed later and does not call this one takes the waiting away from all
//! regions. As with all users of SIGSEGV, the last handler must pass on the signals that are not
//! its own.

use crate::anon::AnonError;
use crate::fork::Process;
use std::ffi::c_int;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

/// The most regions at a time.
const REGIONS: usize = 64;

/// What the handler asks of an owner of user addresses.
///
/// Called in a handler of signals: it must allocate nothing, and take no lock that a thread may
/// hold while it touches the addresses.
pub(crate) trait Touched: Sync {
    /// The addresses: always the same.
    fn bytes(&self) -> Range<usize>;

    /// Handles that a thread could not access `address`, which is one of them; with whether it was
    /// going to write, where the machine tells.
    fn touched(&self, address: usize, is_write: Option<bool>) -> Touch;
}

/// A region as the handler finds it, behind a thin pointer, and the process that it belongs to.
struct KnownRegion(*const dyn Touched, Process);

/// A region that the handler knows.
///
/// # Invariants
/// - `region` points to one that lives, with its region, as long as `users` is not 0 or `region` is not null.
/// - `start` and `end` are those of the region, while `region` is not null.
struct Listing {
    region: AtomicPtr<KnownRegion>,
    start: AtomicUsize,
    end: AtomicUsize,
    /// Handlers that may be using it.
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

/// The action for SIGSEGV before the handler was installed: known before the handler is. Null at first.
///
/// Not a `OnceLock`: a child that is forked off while another thread is at work in one would wait for
/// that thread, which it does not have; and its handler would wait for the action for ever.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());
/// Whether the handler is installed. Two threads at the same time may both install it: it does no harm twice.
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

/// The outcome of a touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Touch {
    /// The access will succeed, or come here again.
    Again,
    /// The region cannot help.
    Wrong,
}

/// A region that the handler knows until this is dropped.
pub(crate) struct ListedRegion {
    listing: &'static Listing,
    /// From `Box::into_raw`; freed when the handler has forgotten it.
    known: *mut KnownRegion,
    process: Process,
}

// SAFETY: only the handler uses what `known` points to, in any thread: a region is `Sync`.
unsafe impl Send for ListedRegion {}
// SAFETY: a shared `ListedRegion` has no methods.
unsafe impl Sync for ListedRegion {}

impl std::fmt::Debug for ListedRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Listed").field(&self.listing).finish()
    }
}

impl std::fmt::Debug for Listing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = self.start.load(Relaxed);
        f.debug_struct("Listing").field("start", &start).finish()
    }
}

impl ListedRegion {
    /// Makes a region known to the handler, which is installed if it is not yet.
    ///
    /// # Safety
    /// The region lives, at its place, until the result is dropped.
    pub(crate) unsafe fn new(region: *const dyn Touched) -> Result<Self, AnonError> {
        if !IS_INSTALLED.load(Acquire) {
            install().map_err(AnonError::Handler)?;
            IS_INSTALLED.store(true, Release);
        }
        let free = LISTINGS.iter().find(|listing| {
            let taken = listing.is_taken.compare_exchange(0, 1, Acquire, Relaxed);
            taken.is_ok()
        });
        let listing = free.ok_or(AnonError::Regions { max: REGIONS })?;
        // SAFETY: it lives: this function's caller says so.
        let bytes = unsafe { &*region }.bytes();
        listing.start.store(bytes.start, Relaxed);
        listing.end.store(bytes.end, Relaxed);
        let process = Process::this();
        let known = Box::into_raw(Box::new(KnownRegion(region, process)));
        // INVARIANT: both live until `drop` has waited for all users.
        listing.region.store(known, SeqCst);
        Ok(Self {
            listing,
            known,
            process,
        })
    }
}

impl Drop for ListedRegion {
    fn drop(&mut self) {
        // SeqCst here and in the handler: either it sees null, or its use is seen here.
        self.listing.region.store(std::ptr::null_mut(), SeqCst);
        if !self.process.is_this() {
            // Handlers of the parent's are counted here for ever, so the listing has no next user (Y2).
            return;
        }
        while self.listing.users.load(SeqCst) != 0 {
            std::thread::yield_now();
        }
        // SAFETY: made by `Box::into_raw` in `new`, and no handler can reach it now.
        drop(unsafe { Box::from_raw(self.known) });
        // Release pairs with the Acquire of the thread that takes the listing next.
        self.listing.is_taken.store(0, Release);
    }
}

/// The outcome of a touch of `address`, if it is a region's.
fn touched(address: usize, is_write: Option<bool>) -> Option<Touch> {
    LISTINGS.iter().find_map(|listing| {
        let is_inside =
            || (listing.start.load(Relaxed)..listing.end.load(Relaxed)).contains(&address);
        if !is_inside() {
            return None;
        }
        listing.users.fetch_add(1, SeqCst);
        let region = listing.region.load(SeqCst);
        // The listing may have been taken over by another region meanwhile: looks again.
        let touch = if region.is_null() || !is_inside() {
            None
        } else {
            // SAFETY: not null after `users` was raised, so both live until that is lowered
            // (invariant; the order of the two is SeqCst).
            let (region, process) = unsafe { (&*(*region).0, (*region).1) };
            // A child has no access, and must not wait for a thread of the parent's.
            process.is_this().then(|| region.touched(address, is_write))
        };
        listing.users.fetch_sub(1, SeqCst);
        touch
    })
}

/// Installs the handler, when it is known what it passes signals on to.
fn install() -> Result<(), i32> {
    let errno = || {
        let error = std::io::Error::last_os_error().raw_os_error();
        error.unwrap_or(libc::EINVAL)
    };
    // SAFETY: all zeroes are a `sigaction`: no handler, no flags, an empty mask.
    let (mut action, mut before): (libc::sigaction, libc::sigaction) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    if BEFORE.load(Acquire).is_null() {
        // SAFETY: asks only; `before` is valid.
        if unsafe { libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut before) } != 0 {
            return Err(errno());
        }
        // The first thread decides. It asked before any thread installed the handler, because each does so after this.
        let new = Box::into_raw(Box::new(before));
        let first = BEFORE.compare_exchange(std::ptr::null_mut(), new, Release, Relaxed);
        if first.is_err() {
            // SAFETY: from `Box::into_raw` just now, and no other code knows it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
    action.sa_sigaction =
        handler as extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) as usize;
    // On the thread's other stack, if it has one: a signal that is passed on may mean the end of a
    // stack.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: `action` is valid; the handler is async-signal-safe (see the module).
    let failed = unsafe { libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) };
    match failed {
        0 => Ok(()),
        _ => Err(errno()),
    }
}

/// Called by the kernel in the thread that touched something.
extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the thread's own.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel hands in what it knows of the signal.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // A signal that was sent, with a code of at most 0, has no address.
    let touch = if code > 0 {
        touched(address, is_write(context))
    } else {
        None
    };
    if touch != Some(Touch::Again) {
        pass_on(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Whether the access was to write, as the processor said: bit 1 of a page fault's error code.
#[cfg(target_arch = "x86_64")]
fn is_write(context: *mut c_void) -> Option<bool> {
    // SAFETY: the kernel hands in the context of the thread, of this type.
    let registers = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    Some(registers[libc::REG_ERR as usize] & 2 != 0)
}

/// Not known: regions find out themselves.
#[cfg(not(target_arch = "x86_64"))]
fn is_write(_context: *mut c_void) -> Option<bool> {
    None
}

/// Does what the earlier handler did.
fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // Acquire pairs with the Release in `install`.
    // SAFETY: null, or from `Box::into_raw`, and there for ever.
    let Some(before) = (unsafe { BEFORE.load(Acquire).as_ref() }) else {
        return;
    };
    match before.sa_sigaction {
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: all zeroes, which is SIG_DFL without flags. A fault cannot be ignored: the
            // kernel takes the default action then, too.
            unsafe {
                let action: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &action, std::ptr::null_mut());
            }
            // The access is made again, with the default action; a signal that was sent is sent
            // again.
            // SAFETY: the kernel's own value.
            if unsafe { (*info).si_code } <= 0 {
                // SAFETY: sends a signal to the calling thread.
                unsafe { libc::raise(signal) };
            }
        }
        function if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: the code that installed it declared by the flag that it has this type.
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
