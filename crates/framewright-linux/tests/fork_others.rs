//! Y3: what another library maps in a child, before the engine hides its parent's memory there, stays that library's.

// A child of a process with threads, which the thread sanitizer does not like.
#![cfg(not(tsan))]

use framewright::Frame;
use framewright::frame::ZoneLayout;
use framewright_linux::{Host, Options};
use std::sync::atomic::{AtomicPtr, Ordering::SeqCst};

/// Where the other library's function maps a page in a child.
static AT: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Another library's: maps a page, and writes to it.
extern "C" fn map_in_child() {
    let at = AT.load(SeqCst);
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: replaces nothing. If the page is there, it is the other library's.
    unsafe {
        let page = libc::mmap(at.cast(), 4096, access, flags, -1, 0);
        if page == at.cast() {
            at.write_volatile(42);
        }
    }
}

#[test]
fn y3_what_others_map_in_a_child_before_memory_is_hidden_there_stays_theirs() {
    // Before there is a host, so that it is called first.
    // SAFETY: the function may be called in a child: it only loads and calls the kernel.
    let refused = unsafe { libc::pthread_atfork(None, None, Some(map_in_child)) };
    assert_eq!(refused, 0);
    let layout = ZoneLayout::new(Frame(0), 4096).with_cpus(2);
    let host = Host::fenced(&Options::new(layout)).unwrap();
    let frame = |nth| host.ram().address(Frame(nth)).unwrap();
    AT.store(frame(1000), SeqCst);
    // What a child finds at each of these, by exit status: 42, or the signal.
    for (at, expected) in [
        (frame(1000), Ok(42)),
        (frame(0), Err(libc::SIGSEGV)),
        (frame(4095), Err(libc::SIGSEGV)),
    ] {
        // SAFETY: the child reads a byte and ends without returning.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            let none = libc::rlimit {
                rlim_cur: 0,
                rlim_max: 0,
            };
            // SAFETY: of the child alone.
            unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
            // SAFETY: the other library's page, or not mapped, as is to be seen.
            unsafe { libc::_exit(at.read_volatile().into()) };
        }
        let mut status = 0;
        // SAFETY: the child of this thread, and `status` is written to.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(waited, child);
        let found = match libc::WIFSIGNALED(status) {
            true => Err(libc::WTERMSIG(status)),
            false => Ok(libc::WEXITSTATUS(status)),
        };
        assert_eq!(found, expected, "Y3 and Y1");
    }
}
