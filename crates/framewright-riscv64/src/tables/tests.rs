//! Page tables in a vector, walked as the manual says by a hart that keeps what it has found, until it fences.

use super::*;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use framewright::Context;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec::Vec;

/// The upper half of Sv39, which is one of Sv48 too.
const HIGH: u64 = 0xffff_ffe0_0000_0000 >> 12;

struct HartMemory {
    frames: Vec<TablePage>,
    next: Cell<u64>,
}

impl HartMemory {
    fn new(tables: u64) -> Self {
        let page = || [const { AtomicU64::new(0) }; ENTRIES];
        Self {
            frames: (0..tables).map(|_| page()).collect(),
            next: Cell::new(1),
        }
    }
}

impl PhysMap for &HartMemory {
    fn table(&self, frame: Frame) -> &TablePage {
        &self.frames[frame.0 as usize]
    }
}

impl TableSource for &HartMemory {
    fn context(&self) -> Context {
        Context::ANY
    }

    fn take_table(&mut self) -> Option<Frame> {
        let next = self.next.get();
        self.next.set(next + 1);
        (next < self.frames.len() as u64).then_some(Frame(next))
    }

    fn give_back(&mut self, _frame: Frame) {}
}

/// A word that was read, and the page if it is that page's own entry.
type KeptWord = (u64, Option<Page>);

/// A hart that keeps every word of a table that it has read, valid or not, as it may. Of its tables with this many levels.
struct KeepingHart<'m> {
    memory: &'m HartMemory,
    levels: u32,
    /// The words it has read, by frame and place.
    kept: RefCell<BTreeMap<(u64, usize), KeptWord>>,
    fences: Cell<u32>,
}

impl<'m> KeepingHart<'m> {
    fn new(memory: &'m HartMemory, levels: u32) -> Self {
        Self {
            memory,
            levels,
            kept: RefCell::default(),
            fences: Cell::new(0),
        }
    }

    /// An access: the frame that the hart reaches by the manual's rules, or a fault.
    fn reach(&self, page: Page) -> Option<u64> {
        let mut table = 0;
        for level in (0..self.levels).rev() {
            let place = (page.0 >> (9 * level)) as usize % 512;
            let memory = self.memory.frames[table as usize][place].load(Relaxed);
            let mut kept = self.kept.borrow_mut();
            let word = kept.entry((table, place)).or_insert((memory, None));
            let (bits, number) = (word.0 & 0x3ff, word.0 >> 10);
            if bits & 0b1110 != 0 || level == 0 {
                word.1 = Some(page);
            }
            match bits & 0b1111 {
                bits if bits & 1 == 0 => return None,
                0b0001 => table = number,
                _ => return Some(number + page.0 % (1 << (9 * level))),
            }
        }
        None
    }
}

impl TableFence for &KeepingHart<'_> {
    /// The leaf of the page alone.
    fn fence_page(&self, page: Page) {
        self.fences.set(self.fences.get() + 1);
        let mut kept = self.kept.borrow_mut();
        kept.retain(|_, (_, of)| *of != Some(page));
    }

    fn fence_all(&self) {
        self.fences.set(self.fences.get() + 1);
        self.kept.borrow_mut().clear();
    }
}

fn run(start: u64, frames: u64) -> Run {
    Run::new(Frame(start), frames).unwrap()
}

fn a_hart_finds_what_it_has_mapped<const LEVELS: u32>() {
    let memory = HartMemory::new(32);
    let hart = KeepingHart::new(&memory, LEVELS);
    let tables = SvTables::<_, _, LEVELS>::new(Frame(0), &memory, &hart);
    let map = |at, frames| tables.map(Page(at), frames, PageAccess::DATA, &mut &memory);
    // New tables, then pages in tables that are there, few and many; 2 MiB; across two tables.
    let mappings = [
        (HIGH, run(7, 1)),
        (HIGH + 1, run(100, 3)),
        (HIGH + 4, run(1000, FENCED_PAGES_MAX + 1)),
        (HIGH + 1024, run(512, 512)),
        (HIGH + 511, run(3, 2)),
        (HIGH + (1 << 18) - 1, run(9, 2)),
        (12, run(5, 4)),
    ];
    for (at, frames) in mappings {
        let pages = || (at..).take(frames.frames() as usize);
        // The hart looks before, and keeps that nothing is there.
        assert!(pages().all(|page| hart.reach(Page(page)).is_none()));
        map(at, frames).unwrap();
        for (page, frame) in pages().zip(frames.start().0..) {
            assert_eq!(hart.reach(Page(page)), Some(frame), "{page:#x}");
        }
    }
    assert!(tables.is_huge(Page(HIGH + 1024)));
}

#[test]
fn a_hart_finds_what_it_has_mapped_though_it_keeps_entries_that_were_not_valid() {
    a_hart_finds_what_it_has_mapped::<3>();
    a_hart_finds_what_it_has_mapped::<4>();
}

#[test]
fn frames_that_lie_apart_are_found_too_and_those_before_a_refused_one() {
    let memory = HartMemory::new(8);
    let hart = KeepingHart::new(&memory, 3);
    let tables = Sv39Tables::new(Frame(0), &memory, &hart);
    let map = |at: u64, frames: &[Frame]| {
        assert!((at..at + 4).all(|page| hart.reach(Page(page)).is_none()));
        tables.map_frames(Page(at), frames, PageAccess::DATA, &mut &memory)
    };
    map(HIGH, &[9, 3, 77, 5].map(Frame)).unwrap();
    assert_eq!(hart.reach(Page(HIGH + 2)), Some(77));
    let beyond = Frame(1 << 44);
    let refused = map(HIGH + 8, &[Frame(4), Frame(6), beyond, Frame(8)]);
    assert_eq!(refused, Err((2, MapError::Frame(beyond))));
    let reached = [8, 9, 10].map(|nth| hart.reach(Page(HIGH + nth)));
    assert_eq!(reached, [Some(4), Some(6), None]);
}

#[test]
fn another_hart_finds_a_mapping_at_the_fault_and_an_access_that_is_not_granted_stays_one() {
    let memory = HartMemory::new(8);
    let [maps, uses] = [(); 2].map(|()| KeepingHart::new(&memory, 3));
    let of_one = Sv39Tables::new(Frame(0), &memory, &maps);
    let of_other = Sv39Tables::new(Frame(0), &memory, &uses);
    let page = Page(HIGH + 5);
    assert_eq!(uses.reach(page), None);
    assert!(!of_other.was_stale(page, FaultedAccess::Load));
    assert_eq!(uses.fences.get(), 0);
    let mapped = of_one.map(page, run(6, 1), PageAccess::READ, &mut &memory);
    mapped.unwrap();
    assert_eq!(uses.reach(page), None, "it has kept that nothing was there");
    assert!(!of_other.was_stale(page, FaultedAccess::Store));
    assert!(of_other.was_stale(page, FaultedAccess::Load));
    assert_eq!(uses.reach(page), Some(6));
}

#[test]
fn an_unmapped_page_is_reached_until_a_fence_and_not_behind_it() {
    let memory = HartMemory::new(8);
    let hart = KeepingHart::new(&memory, 3);
    let tables = Sv39Tables::new(Frame(0), &memory, &hart);
    let map = |frame| tables.map(Page(HIGH), run(frame, 1), PageAccess::DATA, &mut &memory);
    map(6).unwrap();
    assert_eq!(hart.reach(Page(HIGH)), Some(6));
    let one = PageRange::new(Page(HIGH), 1).unwrap();
    tables.unmap(one, &mut &memory).unwrap();
    assert_eq!(tables.translate(Page(HIGH)), None);
    assert_eq!(hart.reach(Page(HIGH)), Some(6));
    (&hart).fence_all();
    assert_eq!(hart.reach(Page(HIGH)), None);
}

#[test]
fn few_pages_are_fenced_one_by_one_and_many_at_once() {
    let memory = HartMemory::new(8);
    let hart = KeepingHart::new(&memory, 3);
    let tables = Sv39Tables::new(Frame(0), &memory, &hart);
    let fences = |at, pages| {
        let before = hart.fences.get();
        let mapped = tables.map(Page(at), run(1, pages), PageAccess::DATA, &mut &memory);
        mapped.unwrap();
        hart.fences.get() - before
    };
    assert_eq!(fences(HIGH, 3), 1, "tables are new");
    assert_eq!(fences(HIGH + 3, 3), 3);
    assert_eq!(fences(HIGH + 100, FENCED_PAGES_MAX), 64);
    assert_eq!(fences(HIGH + 200, FENCED_PAGES_MAX + 1), 1);
}

/// The numbers that the manual gives the modes.
#[test]
fn the_register_names_mode_and_root() {
    let memory = HartMemory::new(1);
    let hart = KeepingHart::new(&memory, 3);
    let sv39 = Sv39Tables::new(Frame(0x8_0201), &memory, &hart);
    assert_eq!(sv39.register(), 0x8000_0000_0008_0201);
    let sv48 = Sv48Tables::new(Frame(5), &memory, &hart);
    assert_eq!((sv48.register(), sv48.root()), (9 << 60 | 5, Frame(5)));
}
