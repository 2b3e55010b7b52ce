//! 4-level page tables: the walk of `framewright-paging` over this architecture's entries.
//!
//! A change of an entry that was empty needs nothing more: a CPU keeps no translation of what is not present (Intel SDM,
//! volume 3, "Details of TLB Use"), and its stores reach other CPUs in order. Behind an unmapping stands a
//! [flush](crate::shootdown).

use crate::entry::TableEntry;
use framewright_paging::tables::EntryTables;
pub use framewright_paging::tables::{
    CpuMap, CpusTables, ENTRIES, KnownTables, PhysMap, TablePage, TableSource,
};

/// A page table, by its root.
pub type PageTables<M> = EntryTables<M, TableEntry>;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use framewright::{Context, Frame, Page, PageAccess, PageRange, Run};
    use std::cell::Cell;

    struct FourTables {
        frames: [TablePage; 4],
        next: Cell<u64>,
    }

    impl PhysMap for &FourTables {
        fn table(&self, frame: Frame) -> &TablePage {
            &self.frames[frame.0 as usize]
        }
    }

    impl TableSource for &FourTables {
        fn context(&self) -> Context {
            Context::ANY
        }

        fn take_table(&mut self) -> Option<Frame> {
            Some(Frame(self.next.replace(self.next.get() + 1)))
        }

        fn give_back(&mut self, _frame: Frame) {}
    }

    /// The words that a CPU reads on its way, by the manual's division of an address.
    #[test]
    fn the_words_are_where_the_cpu_looks() {
        let memory = FourTables {
            frames: [const { [const { AtomicU64::new(0) }; ENTRIES] }; 4],
            next: Cell::new(1),
        };
        let tables = PageTables::new(Frame(0), &memory);
        let word = |frame: usize, nth: usize| memory.frames[frame][nth].load(Relaxed);
        let map = |address, frame, frames| {
            let run = Run::new(Frame(frame), frames).unwrap();
            let at = Page::of_address(address);
            tables.map(at, run, PageAccess::DATA, &mut &memory)
        };
        // Bits 47 to 39 are 0x192, 38 to 30 are 1, 29 to 21 are 2, 20 to 12 are 3.
        let address = 0xffff_c900_4040_3000;
        map(address, 0x55, 1).unwrap();
        assert_eq!((word(0, 0x192), word(1, 1)), (0x1003, 0x2003));
        assert_eq!((word(2, 2), word(3, 3)), (0x3003, 0x8000_0000_0005_5003));
        map(address + 0x1f_d000, 0x400, 512).unwrap();
        assert_eq!(word(2, 3), 0x8000_0000_0040_0083);
        tables
            .unmap(
                PageRange::new(Page::of_address(address), 1).unwrap(),
                &mut &memory,
            )
            .unwrap();
        assert_eq!(word(3, 3), 0);
    }
}
