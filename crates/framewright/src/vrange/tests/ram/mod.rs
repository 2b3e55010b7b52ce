//! `map_ram` and its vmap blocks: the document's counts, histories with a page table that notices
//! everything, and calls that fail.

extern crate std;

mod counts;
mod histories;
mod threads;

use super::*;
use crate::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use crate::policy::RangeConfig;
use crate::random::Random;
use crate::stats::RangeStats;
use crate::units::{Context, CpuId, Frame, Page, PageAccess, PageRange, Run};
use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pte {
    Clean,
    Mapped(Frame),
    /// Unmapped, not flushed.
    Stale(Frame),
}

/// A page table and its TLBs. Its n-th map or unmap from now can be made to fail. With no pages it
/// only counts.
#[derive(Default)]
struct PageTable {
    start: u64,
    pages: RefCell<Vec<Pte>>,
    maps: Cell<u64>,
    maps_until_failure: Cell<Option<u64>>,
    unmaps_until_failure: Cell<Option<u64>>,
}

impl PageTable {
    fn of(layout: &SpaceLayout) -> Self {
        Self {
            start: layout.start.0,
            pages: RefCell::new(vec![Pte::Clean; layout.pages as usize]),
            ..Self::default()
        }
    }

    fn at(&self, page: Page) -> Pte {
        self.pages.borrow()[(page.0 - self.start) as usize]
    }

    fn fails(left: &Cell<Option<u64>>) -> bool {
        match left.get() {
            Some(0) => {
                left.set(None);
                true
            }
            Some(more) => {
                left.set(Some(more - 1));
                false
            }
            None => false,
        }
    }
}

impl FramePlatform for PageTable {
    const ASYMMETRIC: bool = true;
    const ALONE: bool = true;

    fn relax(&self, attempt: u32) {
        assert!(attempt < 1000, "one thread waits for itself");
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for PageTable {
    fn map(
        &self,
        at: Page,
        frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        if Self::fails(&self.maps_until_failure) {
            return Err(MapError::NoMemory);
        }
        self.maps.set(self.maps.get() + 1);
        let mut pages = self.pages.borrow_mut();
        if pages.is_empty() {
            return Ok(());
        }
        let start = (at.0 - self.start) as usize;
        let frames = (frames.start().0..frames.end().0).map(Frame);
        for (pte, frame) in pages[start..].iter_mut().zip(frames) {
            assert_eq!(*pte, Pte::Clean, "V5: {at}");
            *pte = Pte::Mapped(frame);
        }
        Ok(())
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        if Self::fails(&self.unmaps_until_failure) {
            return Err(MapError::Refused(12));
        }
        let mut pages = self.pages.borrow_mut();
        if pages.is_empty() {
            return Ok(());
        }
        let start = (range.start().0 - self.start) as usize;
        for pte in &mut pages[start..start + range.pages() as usize] {
            if let Pte::Mapped(frame) = *pte {
                *pte = Pte::Stale(frame);
            }
        }
        Ok(())
    }

    fn flush_all(&self) {
        for pte in self.pages.borrow_mut().iter_mut() {
            if matches!(pte, Pte::Stale(_)) {
                *pte = Pte::Clean;
            }
        }
    }

    fn zero(&self, _frames: Run) {}
}

/// Where a new block goes in its list.
const HEAD: bool = true;
const TAIL: bool = false;

fn config(newest_first: bool, recycle: bool) -> RangeConfig {
    RangeConfig {
        newest_first,
        recycle,
        ..RangeConfig::default().kept()
    }
}

fn frames(first: u64, frames: u64) -> Vec<Frame> {
    (first..first + frames).map(Frame).collect()
}

type RamSeat<'s, 'm> = RangeSeat<'s, 'm, PageTable, ()>;

/// Runs `work` on the only CPU of a window that is only counted.
fn on_one_cpu(
    pages: u64,
    config: &RangeConfig,
    work: impl FnOnce(&mut RamSeat<'_, '_>),
) -> RangeStats {
    let layout = SpaceLayout::new(Page(1 << 20), pages);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, config, &mut memory, PageTable::default()).unwrap();
    let mut seat = space.seat(CpuId(0), ()).unwrap();
    work(&mut seat);
    drop(seat);
    let stats = space.stats();
    space.verify().unwrap();
    stats
}

fn pair(seat: &mut RamSeat<'_, '_>, frames: &[Frame]) {
    let page = seat.map_ram(frames, Context::ANY).unwrap();
    seat.unmap_ram(page, frames.len() as u64).unwrap();
}

const BLOCK: u64 = 1024;

/// Bounds on lazy pages from one that is always met to one that never is.
const BOUNDS: [u64; 3] = [64, 8192, 1 << 30];
/// The most that one CPU has lazy beyond the bound.
const BATCH: u64 = 256;
/// Enough for every block of every scenario: 8 GiB.
const WINDOW: u64 = 8 * 1024 * BLOCK;

/// A window of 4096 pages with spans of 64, and its page table.
fn with_table(config: &RangeConfig, work: impl FnOnce(&Space<'_, &PageTable>, &PageTable)) {
    let layout = SpaceLayout::new(Page(1 << 20), 4096)
        .with_cpus(2)
        .with_span_pages(64);
    let table = PageTable::of(&layout);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, config, &mut memory, &table).unwrap();
    work(&space, &table);
    space.verify().unwrap();
}

#[test]
fn wrong_unmaps_say_what_is_wrong_and_change_nothing() {
    for recycle in [true, false] {
        with_table(&config(TAIL, recycle), |space, _| {
            let mut seat = space.seat(CpuId(0), ()).unwrap();
            let mut other = space.seat(CpuId(1), ()).unwrap();
            let three = seat.map_ram(&frames(1, 3), Context::ANY).unwrap();
            let long = seat.map_ram(&frames(1, 100), Context::ANY).unwrap();
            let plain = seat.alloc_area(&AreaRequest::new(3)).unwrap();
            let inside = |page: Page, more: u64| Page(page.0 + more);
            let outside = Page(space.start().0 + space.pages());
            let wrong_length = |page, pages, mapped| RangeFreeError::WrongLength {
                page,
                pages,
                mapped,
            };
            let not_first = |start, more| RangeFreeError::NotTheFirst {
                page: inside(start, more),
                start,
            };
            for (page, pages, error) in [
                (outside, 1, RangeFreeError::Outside(outside)),
                (Page(0), 1, RangeFreeError::Outside(Page(0))),
                (three, 0, wrong_length(three, 0, 3)),
                (three, 4, wrong_length(three, 4, 3)),
                (three, u64::MAX, wrong_length(three, u64::MAX, 3)),
                (long, 99, wrong_length(long, 99, 100)),
                (inside(three, 1), 2, not_first(three, 1)),
                (inside(long, 99), 1, not_first(long, 99)),
                (
                    inside(three, 3),
                    1,
                    RangeFreeError::NotAllocated(inside(three, 3)),
                ),
                (plain, 3, RangeFreeError::WrongKind(plain)),
            ] {
                let before = space.stats();
                assert_eq!(seat.unmap_ram(page, pages), Err(error));
                assert_eq!(other.unmap_ram(page, pages), Err(error));
                assert_eq!(space.stats(), before);
            }
            for page in [three, long] {
                let wrong = RangeFreeError::WrongKind(page);
                assert_eq!(seat.free_area(page), Err(wrong));
            }
            // From the other CPU and from its own.
            assert_eq!(other.unmap_ram(three, 3), Ok(3));
            assert_eq!(seat.unmap_ram(long, 100), Ok(100));
            for (page, pages) in [(three, 3), (long, 100)] {
                let twice = Err(RangeFreeError::AlreadyFree(page));
                assert_eq!(seat.unmap_ram(page, pages), twice);
                assert_eq!(other.unmap_ram(page, pages), twice);
            }
            assert_eq!(space.stats().vm_unmap_ram, 2);
            assert_eq!(space.stats().remote_frees, 1);
            space.verify().unwrap();
        });
    }
}

#[test]
fn requests_that_no_space_can_serve_are_errors() {
    with_table(&config(TAIL, true), |space, _| {
        let mut seat = space.seat(CpuId(0), ()).unwrap();
        assert_eq!(seat.map_ram(&[], Context::ANY), Err(RangeError::Empty));
        let long = frames(0, 4097);
        let too_long = Err(RangeError::TooLong { pages: 4097 });
        assert_eq!(seat.map_ram(&long, Context::ANY), too_long);
        // The number range's last frame is in no run that ends inside the range.
        let last = Frame(u64::MAX);
        let no_frame = Err(RangeError::Map(MapError::Frame(last)));
        assert_eq!(seat.map_ram(&[last], Context::ANY), no_frame);
        assert_eq!(seat.map_ram(&[Frame(0), last], Context::ANY), no_frame);
        let stats = space.stats();
        assert_eq!((stats.vm_map_ram, stats.live_pages), (0, 0));
        let most = seat.map_ram(&long[..4096], Context::ANY).unwrap();
        assert_eq!(most, space.start());
        let full = RangeError::NoSpace {
            pages: 1,
            align_bytes: 4096,
        };
        for context in [Context::ANY, Context::NOWAIT] {
            assert_eq!(seat.map_ram(&long[..1], context), Err(full));
        }
        assert_eq!(space.stats().failures, 2);
    });
}

#[test]
fn more_than_64_pages_are_the_arenas_and_fewer_have_slots_of_a_power_of_two() {
    with_table(&config(TAIL, true), |space, table| {
        let mut seat = space.seat(CpuId(0), ()).unwrap();
        let mut pages = [1, 3, 16, 64, 33].map(|pages| {
            let page = seat.map_ram(&frames(9, pages), Context::ANY).unwrap();
            page.0 - space.start().0
        });
        // The first block has 64 pages: 1, 4 and 16 of it; then two more.
        pages[3..].iter_mut().for_each(|page| *page -= 64);
        assert_eq!(pages, [0, 1, 5, 0, 64]);
        assert_eq!(space.stats().new_vmap_block, 3);
        let long = seat.map_ram(&frames(9, 65), Context::ANY).unwrap();
        assert_eq!(long.0 - space.start().0, 192);
        let stats = space.stats();
        assert_eq!((stats.new_vmap_block, stats.alloc_vmap_area), (3, 4));
        assert_eq!(table.maps.get(), 6, "one call for each run");
        assert_eq!(stats.live_pages, 1 + 3 + 16 + 64 + 33 + 65);
    });
}

#[test]
fn the_nth_map_fails_for_every_n_and_nothing_is_lost() {
    for recycle in [true, false] {
        for context in [Context::ANY, Context::NOWAIT] {
            for pages in [1, 5, 64, 90] {
                for nth in 0..pages {
                    with_table(&config(TAIL, recycle), |space, table| {
                        let mut seat = space.seat(CpuId(0), ()).unwrap();
                        // As many runs as frames.
                        let apart: Vec<_> = (0..pages).map(|nth| Frame(2 * nth)).collect();
                        let kept = seat.map_ram(&apart[..1], context).unwrap();
                        let before = space.stats();
                        table.maps_until_failure.set(Some(nth));
                        let failed = seat.map_ram(&apart, context);
                        let after = space.stats();
                        let live = |stats: &RangeStats| {
                            (stats.vm_map_ram, stats.vm_unmap_ram, stats.live_pages)
                        };
                        match failed {
                            // After a drain, with what that gave back.
                            Ok(page) => {
                                assert!(context.may_block);
                                assert_eq!(seat.unmap_ram(page, pages), Ok(pages));
                            }
                            Err(error) => {
                                assert_eq!(error, RangeError::Map(MapError::NoMemory));
                                assert_eq!(live(&after), live(&before));
                                let mut mapped = 0;
                                for_each_pte(table, |pte| {
                                    mapped += u64::from(matches!(pte, Pte::Mapped(_)));
                                });
                                let lazy = after.vmap_lazy_nr;
                                assert!(mapped <= 1 + lazy, "{mapped} mapped, {lazy} lazy");
                            }
                        }
                        space.verify().unwrap();
                        assert_eq!(table.at(kept), Pte::Mapped(Frame(0)));
                        let page = seat.map_ram(&apart, context).unwrap();
                        seat.unmap_ram(page, pages).unwrap();
                        seat.unmap_ram(kept, 1).unwrap();
                        seat.drain();
                        for_each_pte(table, |pte| assert_eq!(pte, Pte::Clean));
                        assert_eq!(space.stats().live_pages, 0);
                    });
                }
            }
        }
    }
}

fn for_each_pte(table: &PageTable, visit: impl FnMut(Pte)) {
    table.pages.borrow().iter().copied().for_each(visit);
}

#[test]
fn without_waiting_runs_are_mapped_only_where_their_failure_would_have_room() {
    let config = RangeConfig {
        lazy_pages_max: 8,
        ..config(TAIL, true)
    };
    with_table(&config, |space, table| {
        let mut seat = space.seat(CpuId(0), ()).unwrap();
        let apart = [Frame(1), Frame(3), Frame(5), Frame(7)];
        let maps = table.maps.get();
        for _ in 0..2 {
            table.maps_until_failure.set(Some(1));
            let failed = seat.map_ram(&apart, Context::NOWAIT);
            assert_eq!(failed, Err(RangeError::Map(MapError::NoMemory)));
        }
        assert_eq!(space.stats().vmap_lazy_nr, 8);
        let no_room = seat.map_ram(&apart, Context::NOWAIT);
        assert_eq!(no_room, Err(RangeError::WouldWait));
        assert_eq!(
            table.maps.get(),
            maps + 2,
            "two runs whose mapping was undone"
        );
        let stats = space.stats();
        assert_eq!(
            (stats.live_pages, stats.tlb_flushes, stats.unmap_calls),
            (0, 0, 0)
        );
        space.verify().unwrap();
        seat.map_ram(&frames(1, 4), Context::NOWAIT).unwrap();
        seat.map_ram(&apart, Context::ANY).unwrap();
    });
}

#[test]
fn a_drain_dissolves_blocks_only_if_their_slots_are_used_again() {
    for recycle in [true, false] {
        with_table(&config(TAIL, recycle), |space, _| {
            let mut seat = space.seat(CpuId(0), ()).unwrap();
            let kept = seat.map_ram(&frames(1, 3), Context::ANY).unwrap();
            let gone = seat.map_ram(&frames(1, 64), Context::ANY).unwrap();
            seat.unmap_ram(gone, 64).unwrap();
            seat.drain();
            space.verify().unwrap();
            let stats = space.stats();
            assert_eq!(stats.free_vmap_block, 1 + u64::from(recycle));
            assert_eq!(seat.unmap_ram(kept, 3), Ok(3));
            seat.drain();
            let all = frames(0, 4096);
            assert_eq!(seat.map_ram(&all, Context::ANY), Ok(space.start()));
        });
    }
}
