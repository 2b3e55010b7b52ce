//! Page tables in a vector, beside a map of what was mapped.

use super::*;
use framewright::Context;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec::Vec;

/// An entry of no machine: the frame from bit 20 on, what it is in bits 4 to 6, the access in bit 8.
#[derive(Clone, Copy)]
pub(super) struct ToyEntry<const LEVELS: u32>(u64);

const FRAMES_END: u64 = 1 << 40;
const PAGE: u64 = 1 << 4;
const HUGE: u64 = 1 << 5;
const TABLE: u64 = 1 << 6;

impl<const LEVELS: u32> EntryFormat for ToyEntry<LEVELS> {
    const LEVELS: u32 = LEVELS;
    const FRAMES_MAX: u64 = FRAMES_END;

    fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    fn bits(self) -> u64 {
        self.0
    }

    fn page(frame: Frame, access: PageAccess) -> Self {
        Self(frame.0 << 20 | u64::from(access.is_writable()) << 8 | PAGE)
    }

    fn huge(frame: Frame, access: PageAccess) -> Self {
        Self(frame.0 << 20 | u64::from(access.is_writable()) << 8 | HUGE)
    }

    fn table(frame: Frame) -> Self {
        Self(frame.0 << 20 | TABLE)
    }

    fn is_present(self) -> bool {
        self.0 != 0
    }

    fn is_huge(self) -> bool {
        self.0 & HUGE != 0
    }

    fn is_table(self) -> bool {
        self.0 & TABLE != 0
    }

    fn frame(self) -> Frame {
        Frame(self.0 >> 20)
    }

    fn access(self) -> PageAccess {
        if self.0 & 1 << 8 == 0 {
            PageAccess::READ
        } else {
            PageAccess::DATA
        }
    }
}

type ToyTables<'m, const LEVELS: u32> = EntryTables<&'m TestMemory, ToyEntry<LEVELS>>;

/// Frames 0 to n - 1 hold tables; frame 0 is the root. A source that has only this many left.
struct TestMemory {
    frames: Vec<TablePage>,
    free: RefCell<Vec<Frame>>,
    given_back: Cell<u32>,
    known: KnownTables,
}

impl TestMemory {
    fn new(tables: u64) -> Self {
        let page = || [const { AtomicU64::new(!0) }; ENTRIES];
        let frames: Vec<TablePage> = (0..tables).map(|_| page()).collect();
        for word in &frames[0] {
            word.store(0, Relaxed);
        }
        Self {
            frames,
            free: RefCell::new((1..tables).rev().map(Frame).collect()),
            given_back: Cell::new(0),
            known: KnownTables::new(),
        }
    }

    fn tables(&self) -> ToyTables<'_, 4> {
        ToyTables::new(Frame(0), self)
    }

    fn left(&self) -> usize {
        self.free.borrow().len()
    }
}

impl PhysMap for &TestMemory {
    fn table(&self, frame: Frame) -> &TablePage {
        &self.frames[frame.0 as usize]
    }

    fn known_tables(&self) -> Option<&KnownTables> {
        Some(&self.known)
    }
}

impl TableSource for &TestMemory {
    fn context(&self) -> Context {
        Context::ANY
    }

    fn take_table(&mut self) -> Option<Frame> {
        self.free.borrow_mut().pop()
    }

    fn give_back(&mut self, frame: Frame) {
        self.given_back.set(self.given_back.get() + 1);
        self.free.borrow_mut().push(frame);
    }
}

fn run(start: u64, frames: u64) -> Run {
    Run::new(Frame(start), frames).unwrap()
}

fn range(start: u64, pages: u64) -> PageRange {
    PageRange::new(Page(start), pages).unwrap()
}

/// The first page of the upper half's window, as kernels place it.
const HIGH: u64 = 0xffff_c900_0000_0000 >> 12;

#[test]
fn a_run_is_found_page_by_page_and_not_beside_it() {
    let memory = TestMemory::new(16);
    let tables = memory.tables();
    for (at, frame, pages) in [(HIGH + 510, 1000, 5), (7, 3, 1), (HIGH + 1024, 77, 700)] {
        tables
            .map(Page(at), run(frame, pages), PageAccess::DATA, &mut &memory)
            .unwrap();
        for nth in 0..pages {
            let found = tables.translate(Page(at + nth));
            assert_eq!(found, Some((Frame(frame + nth), PageAccess::DATA)));
            assert!(!tables.is_huge(Page(at + nth)));
        }
        assert_eq!(tables.translate(Page(at - 1)), None);
        assert_eq!(tables.translate(Page(at + pages)), None);
        tables.unmap(range(at, pages), &mut &memory).unwrap();
        for nth in 0..pages {
            assert_eq!(tables.translate(Page(at + nth)), None);
        }
    }
}

#[test]
fn frames_that_lie_apart_are_mapped_in_one_go_or_up_to_the_first_that_cannot_be() {
    let memory = TestMemory::new(8);
    let tables = memory.tables();
    let map = |at, frames: &[Frame]| {
        let access = PageAccess::DATA;
        tables.map_frames(Page(at), frames, access, &mut &memory)
    };
    let apart = [5, 3, 9, 10, 1 << 30].map(Frame);
    // Where no table is, across two tables, and where both are.
    for at in [HIGH + 509, HIGH + 509, HIGH + 3] {
        assert_eq!(map(at, &apart), Ok(()));
        for (page, frame) in (at..).zip(apart) {
            let found = tables.translate(Page(page));
            assert_eq!(found, Some((frame, PageAccess::DATA)));
        }
        tables.unmap(range(at, 5), &mut &memory).unwrap();
    }
    let beyond = [5, 3, FRAMES_END, 7].map(Frame);
    let refused = MapError::Frame(beyond[2]);
    assert_eq!(map(HIGH, &beyond), Err((2, refused)));
    assert!(tables.translate(Page(HIGH + 1)).is_some());
    assert_eq!(tables.translate(Page(HIGH + 2)), None);
    memory.free.borrow_mut().clear();
    let far = HIGH + (1 << 18) - 1;
    assert_eq!(map(far, &apart), Err((0, MapError::NoMemory)));
}

#[test]
fn two_mebibytes_are_one_entry_where_page_and_frame_are_aligned() {
    let memory = TestMemory::new(16);
    let tables = memory.tables();
    let at = HIGH + 512 * 8;
    // 100 pages before, two huge ones, 100 behind.
    let frames = run(4096 - 100, 100 + 1024 + 100);
    tables
        .map(Page(at - 100), frames, PageAccess::READ, &mut &memory)
        .unwrap();
    let huge = |page: u64| tables.is_huge(Page(page));
    assert!(!huge(at - 1) && huge(at) && huge(at + 1023) && !huge(at + 1024));
    for nth in [0, 99, 100, 611, 612, 1123, 1124, 1223] {
        let found = tables.translate(Page(at - 100 + nth));
        assert_eq!(found, Some((Frame(4096 - 100 + nth), PageAccess::READ)));
    }
    // Root, two levels, one table on either side.
    assert_eq!((memory.left(), tables.count_tables()), (15 - 4, 4));
    // Frames that are not aligned need pages.
    let other = HIGH + 512 * 64;
    tables
        .map(Page(other), run(513, 512), PageAccess::DATA, &mut &memory)
        .unwrap();
    assert!(!huge(other));
    assert_eq!(tables.translate(Page(other + 511)).unwrap().0, Frame(1024));
}

#[test]
fn pt3_a_split_moves_no_other_page() {
    let memory = TestMemory::new(16);
    let tables = memory.tables();
    let at = HIGH + 512;
    tables
        .map(Page(at), run(1024, 1536), PageAccess::DATA, &mut &memory)
        .unwrap();
    let before = memory.left();
    // From the middle of the first to the middle of the third; the second goes whole.
    tables.unmap(range(at + 300, 912), &mut &memory).unwrap();
    assert_eq!(before - memory.left(), 2);
    for nth in 0..1536 {
        let expected =
            (!(300..1212).contains(&nth)).then_some((Frame(1024 + nth), PageAccess::DATA));
        assert_eq!(tables.translate(Page(at + nth)), expected, "{nth}");
    }
    // The table stays, so the place is never huge again (PT1), and maps all the same.
    tables.unmap(range(at, 1536), &mut &memory).unwrap();
    tables
        .map(Page(at), run(2048, 1536), PageAccess::DATA, &mut &memory)
        .unwrap();
    assert!(!tables.is_huge(Page(at)) && tables.is_huge(Page(at + 512)));
    assert_eq!(tables.translate(Page(at + 5)).unwrap().0, Frame(2053));
}

#[test]
fn pt2_without_a_frame_for_a_table_nothing_has_changed() {
    // A map of two pages on either side of 1 GiB needs three tables below the root, then two more.
    let at = HIGH + (1 << 18) - 1;
    for tables_left in 0..6 {
        let memory = TestMemory::new(1 + tables_left);
        let tables = memory.tables();
        let mapped = tables.map(Page(at), run(9, 2), PageAccess::DATA, &mut &memory);
        let is_enough = tables_left == 5;
        assert_eq!(mapped.is_ok(), is_enough, "{tables_left}: {mapped:?}");
        assert!(is_enough || mapped == Err(MapError::NoMemory));
        for nth in 0..2 {
            assert_eq!(tables.translate(Page(at + nth)).is_some(), is_enough);
        }
    }
    // Huge pages that reach out of the range at both ends, and tables for one split or none.
    for extra in 0..3 {
        let memory = TestMemory::new(1 + 2 + extra);
        let tables = memory.tables();
        tables
            .map(Page(HIGH), run(512, 1024), PageAccess::DATA, &mut &memory)
            .unwrap();
        let unmapped = tables.unmap(range(HIGH + 1, 1022), &mut &memory);
        assert_eq!(unmapped.is_ok(), extra == 2, "{extra}");
        let is_mapped =
            |nth| tables.translate(Page(HIGH + nth)) == Some((Frame(512 + nth), PageAccess::DATA));
        for nth in 0..1024 {
            let expected = extra < 2 || nth == 0 || nth == 1023;
            assert_eq!(is_mapped(nth), expected, "{extra}: {nth}");
        }
    }
}

#[test]
fn what_no_entry_can_say_is_refused_with_its_place() {
    let memory = TestMemory::new(8);
    let tables = memory.tables();
    let map = |at, frames| tables.map(Page(at), frames, PageAccess::DATA, &mut &memory);
    // The hole between the halves: 47 bits of address below, bit 47 above.
    let hole = 1 << 35;
    assert_eq!(map(hole, run(1, 1)), Err(MapError::Page(Page(hole))));
    assert_eq!(
        map(hole - 1, run(1, 2)),
        Err(MapError::Page(Page(hole - 1)))
    );
    assert_eq!(
        map(u64::MAX, run(1, 1)),
        Err(MapError::Page(Page(u64::MAX)))
    );
    let last = FRAMES_END - 1;
    assert_eq!(
        map(HIGH, run(last, 2)),
        Err(MapError::Frame(Frame(last + 1)))
    );
    let unmapped = tables.unmap(range(hole, 1), &mut &memory);
    assert_eq!(unmapped, Err(MapError::Page(Page(hole))));
    assert_eq!(tables.translate(Page(hole)), None);
    assert_eq!(memory.left(), 7, "a refusal takes no table");
    map(hole - 1, run(1, 1)).unwrap();
    // A page inside a huge one.
    map(HIGH, run(512, 512)).unwrap();
    assert_eq!(
        map(HIGH + 3, run(5, 1)),
        Err(MapError::Page(Page(HIGH + 3)))
    );
    // What is not mapped may be unmapped.
    tables
        .unmap(range(HIGH + (1 << 30), 5000), &mut &memory)
        .unwrap();
    assert_eq!(memory.given_back.get(), 0);
}

#[test]
fn tables_and_a_plain_map_agree() {
    agree::<4>(0xffff_c900_0000_0000 >> 12);
    agree::<3>(0xffff_ffe0_0000_0000 >> 12);
}

/// Random maps and unmaps beside a map of pages; after each step every page of the window is compared.
fn agree<const LEVELS: u32>(window_start: u64) {
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 20) % below
    };
    let window = 32 * 512;
    let memory = TestMemory::new(64);
    let tables = ToyTables::<LEVELS>::new(Frame(0), &memory);
    let mut plain: BTreeMap<u64, u64> = BTreeMap::new();
    let mut huge_seen = 0;
    for _ in 0..120 {
        // Half of them begin where huge pages do, and are longer than one.
        let (at, pages) = if next(2) == 0 {
            let slots = window / 512;
            let slot = next(slots);
            let longest = (slots - slot).min(2);
            (slot * 512, 512 * (1 + next(longest)))
        } else {
            let at = next(window - 1);
            (at, 1 + next((window - at).min(300)))
        };
        let is_free = plain.range(at..at + pages).next().is_none();
        if is_free {
            let frame = if next(2) == 0 {
                at + 512 * next(50)
            } else {
                next(100_000)
            };
            tables
                .map(
                    Page(window_start + at),
                    run(frame, pages),
                    PageAccess::DATA,
                    &mut &memory,
                )
                .unwrap();
            plain.extend((0..pages).map(|nth| (at + nth, frame + nth)));
            huge_seen += u32::from(tables.is_huge(Page(window_start + at)));
        } else {
            tables
                .unmap(range(window_start + at, pages), &mut &memory)
                .unwrap();
            plain.retain(|page, _| !(at..at + pages).contains(page));
        }
        for page in 0..window {
            let found = tables
                .translate(Page(window_start + page))
                .map(|(frame, _)| frame.0);
            assert_eq!(found, plain.get(&page).copied());
        }
    }
    assert!(huge_seen > 0);
}

/// A source that looks at the pages of a call each time it is asked for a table.
struct LookingSource<'m> {
    memory: &'m TestMemory,
    pages: PageRange,
}

impl TableSource for &LookingSource<'_> {
    fn context(&self) -> Context {
        Context::ANY
    }

    fn take_table(&mut self) -> Option<Frame> {
        for page in self.pages.start().0..self.pages.end().0 {
            assert_eq!(self.memory.tables().translate(Page(page)), None);
        }
        (&mut &*self.memory).take_table()
    }

    fn give_back(&mut self, frame: Frame) {
        (&mut &*self.memory).give_back(frame);
    }
}

/// A CPU keeps what it finds in a table even if it finds it for a moment, and the engine flushes nothing after a call
/// that has failed.
#[test]
fn pt2_no_page_is_mapped_for_a_moment_by_a_call_that_fails() {
    // Pages of one table, 2 MiB, pages of another table: two below the root, three for the pages and the huge ones.
    for tables_left in 0..=4 {
        let memory = TestMemory::new(1 + tables_left);
        let source = LookingSource {
            memory: &memory,
            pages: range(HIGH + 510, 2 + 512 + 3),
        };
        let frames = run(1024 - 2, 2 + 512 + 3);
        let tables = memory.tables();
        let mapped = tables.map(Page(HIGH + 510), frames, PageAccess::READ, &mut &source);
        assert_eq!(mapped.is_ok(), tables_left == 4, "{tables_left}");
    }
}

#[test]
fn with_three_levels_an_address_has_39_bits() {
    let memory = TestMemory::new(9);
    let tables = ToyTables::<3>::new(Frame(0), &memory);
    let map = |at, frames| tables.map(Page(at), frames, PageAccess::READ, &mut &memory);
    let (hole, upper) = (1 << 26, (1 << 52) - (1 << 26));
    assert_eq!(map(hole, run(1, 1)), Err(MapError::Page(Page(hole))));
    assert_eq!(
        map(upper - 1, run(1, 1)),
        Err(MapError::Page(Page(upper - 1)))
    );
    assert_eq!(memory.left(), 8);
    for at in [0, hole - 1, upper, (1 << 52) - 1] {
        map(at, run(at % 1000, 1)).unwrap();
        let found = tables.translate(Page(at));
        assert_eq!(found, Some((Frame(at % 1000), PageAccess::READ)));
    }
    // Two tables below the root for each of the four, of which none is shared.
    assert_eq!(memory.left(), 0);
}
