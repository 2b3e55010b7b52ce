// UNSAFETY: physical memory is reached at addresses that are worked out from frames.
//! Physical memory where a kernel has mapped all of it: at one fixed distance, as Linux's direct map.
//!
//! A platform's `zero`, `zero_bytes`, `copy_bytes`, `store` and `load` are each a call of these.

#![allow(unsafe_code)]

use crate::instructions::{copy_words, zero_words};
use crate::tables::{PhysMap, TablePage};
use framewright::{Addr, Frame};

/// The direct map of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectMap {
    base: Addr,
}

impl DirectMap {
    /// The map where frame 0 lies at `base`.
    ///
    /// # Safety
    /// Every frame that a call names is mapped there for reading and writing when it is called. The frame of each
    /// [table](PhysMap::table) is one for as long as the kernel runs.
    #[must_use]
    pub const unsafe fn new(base: Addr) -> Self {
        Self { base }
    }

    /// Where frame 0 lies.
    #[inline(always)]
    #[must_use]
    pub const fn base(self) -> Addr {
        self.base
    }

    /// Where a frame lies.
    #[inline(always)]
    #[must_use]
    pub const fn addr(self, frame: Frame) -> Addr {
        Addr(self.base.0 + frame.0 * Frame::BYTES)
    }

    /// `words` words from a frame on, as they are.
    ///
    /// # Safety
    /// The memory is the caller's alone, for ever.
    #[must_use]
    pub const unsafe fn words(self, frame: Frame, words: usize) -> &'static mut [u64] {
        // SAFETY: they are mapped (`new`) and the caller's; a frame begins at a multiple of a word.
        unsafe { core::slice::from_raw_parts_mut(self.addr(frame).0 as *mut u64, words) }
    }

    /// Fills `bytes` bytes with zeroes, from `at` on, in the map or not.
    ///
    /// # Safety
    /// They are mapped, and the caller's to write.
    #[inline]
    pub unsafe fn zero(self, at: Addr, bytes: u64) {
        let (words, rest) = ((bytes / 8) as usize, (bytes % 8) as usize);
        // SAFETY: as the caller owes.
        unsafe {
            zero_words(at.0 as *mut u64, words);
            core::ptr::write_bytes((at.0 as *mut u8).add(words * 8), 0, rest);
        }
    }

    /// Copies `bytes` bytes, in the map or not.
    ///
    /// # Safety
    /// They are mapped and do not overlap, and the latter are the caller's to write.
    #[inline]
    pub unsafe fn copy(self, from: Addr, to: Addr, bytes: u64) {
        let (from, to) = (from.0 as *const u8, to.0 as *mut u8);
        // SAFETY: as the caller owes.
        unsafe { from.copy_to_nonoverlapping(to, bytes as usize) };
    }

    /// Writes a frame.
    ///
    /// # Safety
    /// It is the caller's to write.
    #[inline]
    pub unsafe fn store(self, frame: Frame, page: &[u64; 512]) {
        // SAFETY: it is mapped (`new`) and the caller's.
        unsafe { copy_words(page.as_ptr(), self.addr(frame).0 as *mut u64, page.len()) };
    }

    /// Reads a frame. Another CPU may write it meanwhile: then the page is any mixture.
    ///
    /// # Safety
    /// It is memory.
    #[inline]
    pub unsafe fn load(self, frame: Frame, page: &mut [u64; 512]) {
        // SAFETY: as the caller owes.
        unsafe {
            copy_words(
                self.addr(frame).0 as *const u64,
                page.as_mut_ptr(),
                page.len(),
            )
        };
    }
}

impl PhysMap for DirectMap {
    #[inline(always)]
    fn table(&self, frame: Frame) -> &TablePage {
        // SAFETY: it is mapped and a table for ever (`new`), and all its words are atomics.
        unsafe { &*(self.addr(frame).0 as *const TablePage) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;
    use std::vec;

    #[repr(C, align(4096))]
    #[derive(Clone)]
    struct TestFrame([u64; 512]);

    #[test]
    fn frames_are_written_read_copied_and_zeroed_where_they_lie() {
        let memory = vec![TestFrame([7; 512]); 3].leak();
        // SAFETY: three frames from 0 on are mapped, for ever.
        let map = unsafe { DirectMap::new(Addr(memory.as_mut_ptr() as u64)) };
        assert_eq!(map.addr(Frame(2)).0 - map.base().0, 2 * Frame::BYTES);
        let page = core::array::from_fn(|nth| nth as u64 + 1);
        // SAFETY: all of it is the test's.
        unsafe { map.store(Frame(1), &page) };
        let load = |frame| {
            let mut read = [0; 512];
            // SAFETY: as above.
            unsafe { map.load(frame, &mut read) };
            read
        };
        assert_eq!(load(Frame(1)), page);
        assert_eq!(map.table(Frame(1))[3].load(Relaxed), 4);
        let inside = |frame, at| Addr(map.addr(Frame(frame)).0 + at);
        // SAFETY: as above.
        unsafe {
            map.copy(inside(1, 8), inside(2, 16), 9);
            map.zero(inside(1, 0), 21);
        }
        // Of the third word the first five bytes are gone, and it held 3.
        assert_eq!(load(Frame(1))[..4], [0, 0, 0, 4]);
        // Of 3 the first byte.
        assert_eq!(load(Frame(2))[1..5], [7, 2, 3, 7]);
        // SAFETY: nothing else has it.
        let words = unsafe { map.words(Frame(0), 512) };
        assert_eq!(words, [7; 512]);
    }
}
