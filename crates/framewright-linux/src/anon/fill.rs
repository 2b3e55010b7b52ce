//! Page tables are filled ahead of the first touch, by one system call for many ranges. It is apart from the window
//! because it changes no mapping: where the kernel refuses, faults do the same.

// UNSAFETY: the kernel is told addresses in two system calls without a safe form.

use libc::{c_int, iovec};
use std::ops::Range;

/// The calling process, where a file descriptor of one is expected (Linux 6.14).
const PIDFD_SELF: c_int = -10_000;

/// Address ranges with page tables that are to be filled.
pub(super) struct TableFill<const N: usize> {
    ranges: [iovec; N],
    len: usize,
}

impl<const N: usize> TableFill<N> {
    pub(super) const fn new() -> Self {
        let none = iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        };
        Self {
            ranges: [none; N],
            len: 0,
        }
    }

    /// Adds a range, if there is room; joins it with the last one if it continues that.
    pub(super) fn add(&mut self, bytes: Range<*mut u8>) {
        let len = bytes.end.addr() - bytes.start.addr();
        if let Some(last) = self.len.checked_sub(1).map(|last| &mut self.ranges[last])
            && last.iov_base.addr() + last.iov_len == bytes.start.addr()
        {
            last.iov_len += len;
        } else if self.len < N {
            self.ranges[self.len] = iovec {
                iov_base: bytes.start.cast(),
                iov_len: len,
            };
            self.len += 1;
        }
    }

    /// Fills the page tables, so that the first access of each page is no fault: 16 pages at a
    /// time, where their frames follow one another, and writable at once, because shared memory
    /// keeps no account of writers.
    pub(super) fn fill(&self) {
        if self.len == 0 {
            return;
        }
        // SAFETY: `ranges` are valid to read, and the advice changes neither contents nor access.
        let filled = unsafe {
            libc::syscall(
                libc::SYS_process_madvise,
                PIDFD_SELF,
                self.ranges.as_ptr(),
                self.len,
                libc::MADV_POPULATE_READ,
                0,
            )
        };
        if filled >= 0 {
            return;
        }
        for range in &self.ranges[..self.len] {
            // SAFETY: as above.
            unsafe { libc::madvise(range.iov_base, range.iov_len, libc::MADV_POPULATE_READ) };
        }
    }
}
