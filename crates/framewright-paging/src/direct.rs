// UNSAFETY: physical memory is reached at addresses that are worked out from frames.
//! Physical memory where a kernel has mapped all of it: at one fixed distance, as Linux's direct map.

#![allow(unsafe_code)]

use crate::tables::{PhysMap, TablePage};
use framewright::{Addr, Frame, Run};

/// The direct map of a machine: frame 0 lies at the address `BASE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectMap<const BASE: u64>(());

impl<const BASE: u64> DirectMap<BASE> {
    /// The map.
    ///
    /// # Safety
    /// Every frame that a call names is mapped there for reading and writing when it is called. The frame of each
    /// [table](PhysMap::table) stays one for as long as the kernel runs.
    #[must_use]
    pub const unsafe fn new() -> Self {
        Self(())
    }

    /// Where a frame lies.
    #[inline(always)]
    #[must_use]
    pub const fn addr(self, frame: Frame) -> Addr {
        Addr(BASE + frame.0 * Frame::BYTES)
    }

    /// The words of a run, as they are.
    ///
    /// # Safety
    /// The memory is the caller's alone, for ever.
    #[must_use]
    pub const unsafe fn words(self, run: Run) -> &'static mut [u64] {
        let words = (run.frames() * Frame::BYTES / 8) as usize;
        // SAFETY: they are mapped (`new`) and the caller's; a frame begins at a multiple of a word.
        unsafe { core::slice::from_raw_parts_mut(self.addr(run.start()).0 as *mut u64, words) }
    }
}

impl<const BASE: u64> PhysMap for DirectMap<BASE> {
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
    fn frames_are_written_and_read_where_they_lie() {
        let memory = vec![TestFrame([7; 512]); 3].leak();
        let first = memory.as_mut_ptr() as u64 / Frame::BYTES;
        let frame = |nth| Frame(first + nth);
        // SAFETY: at the distance 0 lies all memory of a process; only these three frames are named.
        let map = unsafe { DirectMap::<0>::new() };
        for (nth, word) in (1..).zip(map.table(frame(1))) {
            word.store(nth, Relaxed);
        }
        assert_eq!(map.table(frame(0))[511].load(Relaxed), 7);
        // SAFETY: nothing else has it.
        let words = unsafe { map.words(Run::new(frame(1), 2).unwrap()) };
        assert_eq!((words[0], words[511], words[512]), (1, 512, 7));
        assert_eq!(words.len(), 1024);
        // SAFETY: as above.
        let far = unsafe { DirectMap::<0x8000_0000_0000>::new() };
        assert_eq!(far.addr(Frame(2)).0, 0x8000_0000_2000);
    }
}
