// UNSAFETY: a page is asked of the kernel that it wipes in a child, and a function of C's is called by fork(3), in which
// address space is hidden; neither has a safe form.

//! A forked process and its parent's memory: nothing that it could harm.
//!
//! ```text
//!                          parent     fork(3)                      clone(2) by hand
//!     RAM, metadata        as it is   no access (MADV_DONTFORK)    no mapping
//!     a window             as it is   no access                    shared with the parent
//!     the heap's two       as it is   can be read                  shared with the parent
//! ```
//!
//! Frames are shared memory, and metadata is not: if both processes went on with them, both would
//! hand out the same frames. So a child that touches them ends by SIGSEGV, and its calls report it
//! where they can. A process has a *token*, kept in a page that the kernel wipes in a child, and
//! each value with memory of the engine's notes the token of the process that made it. A thread
//! that shares the address space (vfork(2), posix_spawn(3), clone(2) with CLONE_VM) is no child in
//! this sense.
//!
//! A child can read a heap's memory, because a program with that heap keeps there the arguments
//! with which it starts another program, as [`Command`](std::process::Command) does.
//!
//! A child may make hosts of its own.
//!
//! # What fork(3) finds in the child
//! Other libraries' functions may run in the child before `hide` does, and a thread of the parent's may have been at
//! work. So by then an address may have another owner than in the parent. `hide` replaces only what the child has
//! inherited from a value that lived; a hole that MADV_DONTFORK left it fills around what lies there. Three orders see to
//! that: a range becomes known here only when the kernel has agreed to leave it out; it can be read by a child only
//! when the kernel no longer leaves it out; and it is forgotten before its owner unmaps it. (Before Linux 6.12 a refused
//! change of a window can leave a hole there for a moment: see `window/reservation.rs`.)
//!
//! # Invariants
//! - **Y1** A child neither reads nor writes its parent's frames and metadata; a heap's memory it can only read.
//! - **Y2** A value with memory of the engine's knows the process that made it: in another process its calls are
//!   errors, and dropping it changes nothing.
//! - **Y3** A fork replaces no mapping in the child but what the child has inherited of the engine's memory.
//!
//! # Sources
//! madvise(2): MADV_DONTFORK, MADV_WIPEONFORK (Linux 4.14); mmap(2): MAP_FIXED_NOREPLACE (4.17); pthread_atfork(3).

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

/// Where the process's token is: in a page that is zero in a child. Null until a thread has asked.
///
/// Not a `OnceLock`: a child that is forked off while another thread is at work in one would wait for
/// that thread, which it does not have.
static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// The same where the kernel does not wipe pages: fork(3) wipes it.
static NOT_WIPED: AtomicU64 = AtomicU64::new(0);

/// A place that one process at a time claims, and keeps.
#[derive(Debug)]
pub(crate) struct ProcessClaim(AtomicU64);

impl ProcessClaim {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Claims it for the calling process. Returns whether it is that process's, now or already.
    pub(crate) fn claim(&self) -> bool {
        let this = Process::this();
        let claimed = self.0.compare_exchange(0, this.0, Relaxed, Relaxed);
        claimed.map_or_else(|by| by == this.0, |_| true)
    }
}

/// A process, as distinct from those that it was forked from and those forked from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process(u64);

/// A process, for values that often ask whether it is the calling one.
#[derive(Debug)]
pub(crate) struct WatchedProcess {
    word: &'static AtomicU64,
    process: Process,
}

impl WatchedProcess {
    pub(crate) fn this() -> Self {
        Self {
            process: Process::this(),
            word: word(),
        }
    }

    /// Whether it is the calling process. One load beside its own: a child has another token, or
    /// none yet.
    #[inline(always)]
    pub(crate) fn is_this(&self) -> bool {
        self.word.load(Relaxed) == self.process.0
    }
}

#[inline]
fn word() -> &'static AtomicU64 {
    // Acquire pairs with the Release in `choose_word`.
    // SAFETY: null, or from a reference that lasts for ever.
    let known = unsafe { WORD.load(Acquire).as_ref() };
    known.unwrap_or_else(choose_word)
}

/// Of several threads that choose, the first decides; the others have made a page for nothing.
#[cold]
fn choose_word() -> &'static AtomicU64 {
    let mine = std::ptr::from_ref(wiped().unwrap_or(&NOT_WIPED)).cast_mut();
    let chosen = WORD.compare_exchange(std::ptr::null_mut(), mine, Release, Acquire);
    let word = chosen.map_or_else(|first| first, |_| mine);
    // SAFETY: as in `word`, and not null.
    unsafe { &*word }
}

impl Process {
    /// The calling process.
    #[inline]
    #[must_use]
    pub fn this() -> Self {
        let word = word();
        match word.load(Relaxed) {
            0 => Self::begin(word),
            token => Self(token),
        }
    }

    /// Whether it is the calling process: some loads, no system call.
    #[inline]
    #[must_use]
    pub fn is_this(self) -> bool {
        self == Self::this()
    }

    /// Gives the process a token that none of its ancestors has: those began earlier.
    #[cold]
    fn begin(word: &AtomicU64) -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        match word.compare_exchange(0, ns | 1, Relaxed, Relaxed) {
            Ok(_) => Self(ns | 1),
            Err(token) => Self(token),
        }
    }
}

fn wiped() -> Option<&'static AtomicU64> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: no address is asked for, so no mapping is replaced.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, access, MapFlags::PRIVATE) };
    let page = page.ok()?;
    // SAFETY: the page is this function's, and no other code knows it.
    if unsafe { libc::madvise(page, 4096, libc::MADV_WIPEONFORK) } != 0 {
        return None;
    }
    // SAFETY: zeroed by the kernel, aligned to a page, and never given back.
    Some(unsafe { &*page.cast::<AtomicU64>() })
}

// What a child finds in a range.
const FREE: u32 = 0;
const CHANGING: u32 = 1;
/// The parent's mapping.
const INHERITED: u32 = 2;
/// A hole: the kernel has left the mapping out.
const LEFT_OUT: u32 = 3;
/// The parent's mapping, which it may read.
const READABLE: u32 = 4;

/// A range as a child finds it. A node is never freed, but used again.
struct ForkedRange {
    state: AtomicU32,
    start: AtomicUsize,
    len_bytes: AtomicUsize,
    next: AtomicPtr<ForkedRange>,
}

static FIRST: AtomicPtr<ForkedRange> = AtomicPtr::new(std::ptr::null_mut());
/// Whether fork(3) calls [`hide`]. Two threads at the same time may both see to it: it does no harm twice.
static HAS_HANDLER: AtomicBool = AtomicBool::new(false);

fn nodes() -> impl Iterator<Item = &'static ForkedRange> {
    let node = |at: &AtomicPtr<ForkedRange>| {
        // Acquire pairs with the Release of the thread that put it there.
        // SAFETY: null, or from `Box::leak`.
        unsafe { at.load(Acquire).as_ref() }
    };
    std::iter::successors(node(&FIRST), move |last| node(&last.next))
}

/// A range of addresses that a child cannot use, until this is dropped.
pub(crate) struct Unforked(&'static ForkedRange);

impl std::fmt::Debug for Unforked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let start = self.0.start.load(Relaxed);
        f.debug_tuple("Unforked").field(&start).finish()
    }
}

impl Unforked {
    /// Whole pages, which belong to the caller until the result is dropped. `is_left_out` says that the kernel has agreed
    /// to leave them out of a child; else a child inherits them.
    pub(crate) fn new(start: usize, len_bytes: usize, is_left_out: bool) -> Self {
        // Relaxed: only the calling thread must know that its ranges are hidden.
        if !HAS_HANDLER.load(Relaxed) {
            // SAFETY: fork(3) may call the function in a child: it only loads, and makes system
            // calls. It fails if there is no memory: then a child has what clone(2) leaves it.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(hide)) };
            HAS_HANDLER.store(true, Relaxed);
        }
        let take = |node: &&ForkedRange| {
            let taken = node
                .state
                .compare_exchange(FREE, CHANGING, Acquire, Relaxed);
            taken.is_ok()
        };
        let node = nodes().find(take).unwrap_or_else(|| {
            let node = Box::leak(Box::new(ForkedRange {
                state: AtomicU32::new(CHANGING),
                start: AtomicUsize::new(0),
                len_bytes: AtomicUsize::new(0),
                next: AtomicPtr::new(FIRST.load(Relaxed)),
            }));
            let at: *mut ForkedRange = node;
            while let Err(first) =
                FIRST.compare_exchange(node.next.load(Relaxed), at, Release, Relaxed)
            {
                node.next.store(first, Relaxed);
            }
            node
        });
        node.start.store(start, Relaxed);
        node.len_bytes.store(len_bytes, Relaxed);
        // Release: a child that sees it sees the range.
        let state = if is_left_out { LEFT_OUT } else { INHERITED };
        node.state.store(state, Release);
        Self(node)
    }

    /// Lets a child read it from here on, which inherits it.
    pub(crate) fn let_read(&self) {
        self.0.state.store(READABLE, Release);
    }

    /// Gives a child all that the parent has from here on: the range may get another owner.
    pub(crate) fn give_up(&self) {
        self.0.state.store(CHANGING, Relaxed);
    }
}

impl Drop for Unforked {
    fn drop(&mut self) {
        self.0.state.store(FREE, Release);
    }
}

/// Called by fork(3) in the child.
extern "C" fn hide() {
    NOT_WIPED.store(0, Relaxed);
    for node in nodes() {
        let state = node.state.load(Acquire);
        let (start, len) = (node.start.load(Relaxed), node.len_bytes.load(Relaxed));
        let at = std::ptr::without_provenance_mut(start);
        // A failure leaves the range as it was: there is no caller to tell.
        match state {
            INHERITED => {
                let flags = none() | MapFlags::FIXED;
                // SAFETY: the range is that of a `Reservation` or a `Mapping` of the parent's that the child has inherited
                // (Y3). No Rust value of the child's lies there: those that did belong to the parent.
                let _ = unsafe { mmap_anonymous(at, len, ProtFlags::empty(), flags) };
            }
            LEFT_OUT => fill_hole(start, len),
            READABLE => {
                // SAFETY: inherited as above; the bytes that can be read there do not change.
                let _ = unsafe { mprotect(at, len, MprotectFlags::READ) };
            }
            _ => continue,
        }
        // A child of the child's inherits what is there now.
        node.state.store(CHANGING, Relaxed);
    }
}

/// A part of a hole in which another mapping lies is left as it is if it is no longer than this.
const PART_MIN: usize = 64 << 10;
/// The most parts that wait to be filled: each is half as long as the one before.
const PARTS: usize = 64;

/// Maps memory without access wherever nothing is mapped in a range. Allocates nothing, and calls only the kernel.
fn fill_hole(start: usize, len_bytes: usize) {
    let mut parts = [(0, 0); PARTS];
    parts[0] = (start, len_bytes);
    let mut waiting = 1;
    while waiting > 0 {
        waiting -= 1;
        let (start, len) = parts[waiting];
        let at = std::ptr::without_provenance_mut(start);
        let flags = none() | MapFlags::FIXED_NOREPLACE;
        // SAFETY: replaces nothing.
        let is_taken = match unsafe { mmap_anonymous(at, len, ProtFlags::empty(), flags) } {
            Ok(filled) if filled == at => false,
            // A kernel that does not know the flag has chosen another place.
            Ok(elsewhere) => {
                // SAFETY: just mapped there, and no other code knows it.
                let _ = unsafe { munmap(elsewhere, len) };
                true
            }
            Err(errno) => errno == Errno::EXIST,
        };
        if is_taken && len > PART_MIN {
            let half = (len / 2).next_multiple_of(PART_MIN);
            parts[waiting] = (start, half);
            parts[waiting + 1] = (start + half, len - half);
            waiting += 2;
        }
    }
}

/// NORESERVE: without access, memory is never needed.
fn none() -> MapFlags {
    MapFlags::PRIVATE | MapFlags::NORESERVE
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MsyncFlags, msync};

    #[test]
    fn y3_a_hole_is_filled_around_what_others_have_there() {
        const PART: usize = 64 << 10;
        const LEN: usize = 100 * PART + 4096;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: no address is asked for, so no mapping is replaced.
        let hole = unsafe { mmap_anonymous(std::ptr::null_mut(), LEN, access, none()).unwrap() };
        let at = |nth: usize| hole.wrapping_byte_add(nth * PART);
        let taken = [0, 37, 38, 99];
        for nth in taken {
            // SAFETY: mapped above, and no other code knows it.
            unsafe { at(nth).cast::<u64>().write(nth as u64 + 1) };
        }
        let holes = [1..37, 39..99];
        for parts in holes.clone() {
            // SAFETY: the same; what another thread maps there meanwhile is not this test's.
            unsafe { munmap(at(parts.start), parts.len() * PART).unwrap() };
        }
        fill_hole(hole.addr(), LEN);
        for nth in taken {
            // SAFETY: still mapped if Y3 holds; else this ends the test.
            let word = unsafe { at(nth).cast::<u64>().read() };
            assert_eq!(word, nth as u64 + 1, "Y3");
        }
        for parts in holes {
            // SAFETY: changes nothing; an error if a part of the range is not mapped.
            let all = unsafe { msync(at(parts.start), parts.len() * PART, MsyncFlags::ASYNC) };
            all.unwrap();
        }
        for nth in taken {
            // SAFETY: mapped by this test. (The rest stays: another thread may have a part of it.)
            unsafe { munmap(at(nth), PART).unwrap() };
        }
    }
}
