//! `map_ram` and its vmap blocks: the document's counts, histories with a page table that notices
//! everything, and calls that fail.

extern crate std;

use super::*;
use crate::platform::{Barrier, Map, MapError, Relax};
use crate::policy::{Insert, RangeConfig};
pub(super) use crate::random::Random;
use crate::stats::RangeStats;
use crate::units::{Context, CpuId, Frame, Page, PageRange, Run};
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

impl Relax for PageTable {
    fn relax(&self, attempt: u32) {
        assert!(attempt < 1000, "one thread waits for itself");
    }
}

impl Barrier for PageTable {
    const ASYMMETRIC: bool = true;
    const ALONE: bool = true;

    fn barrier_all(&self) {}
}

impl Map for PageTable {
    fn map(&self, at: Page, frames: Run, _context: Context) -> Result<(), MapError> {
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
}

pub(super) fn config(insert: Insert, recycle: bool) -> RangeConfig {
    RangeConfig {
        insert,
        recycle,
        ..RangeConfig::default()
    }
}

pub(super) fn frames(first: u64, frames: u64) -> Vec<Frame> {
    (first..first + frames).map(Frame).collect()
}

type RamSeat<'s, 'm> = RangeSeat<'s, 'm, PageTable, NoFrames>;

/// Runs `work` on the only CPU of a window that is only counted.
fn on_one_cpu(
    pages: u64,
    config: &RangeConfig,
    work: impl FnOnce(&mut RamSeat<'_, '_>),
) -> RangeStats {
    let layout = SpaceLayout::new(Page(1 << 20), pages);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, config, &mut memory, PageTable::default()).unwrap();
    let mut seat = space.seat(CpuId(0), NoFrames).unwrap();
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

pub(super) const BLOCK: u64 = 1024;

fn exhaust(seat: &mut RamSeat<'_, '_>) {
    let all = frames(7, 64);
    for _ in 0..1000 {
        pair(seat, &all[..16]);
        for _ in 0..(BLOCK - 16) / 8 - 1 {
            pair(seat, &all[..8]);
        }
    }
}

fn orders(seat: &mut RamSeat<'_, '_>) {
    let all = frames(7, 64);
    for _ in 0..1000 {
        for order in 0..=6 {
            for _ in 0..(BLOCK >> order) - 1 {
                pair(seat, &all[..1 << order]);
            }
        }
        for order in 0..=6 {
            pair(seat, &all[..1 << order]);
        }
    }
}

fn random(seat: &mut RamSeat<'_, '_>, seed: u64) {
    let all = frames(7, 64);
    let mut random = Random::new(seed);
    for _ in 0..10_000 {
        pair(seat, &all[..1 + random.remainder(64) as usize]);
    }
}

/// Bounds on lazy pages from one that is always met to one that never is.
const BOUNDS: [u64; 3] = [64, 8192, 1 << 30];
/// The most that one CPU has lazy beyond the bound.
const BATCH: u64 = 256;
/// Enough for every block of every scenario: 8 GiB.
const WINDOW: u64 = 8 * 1024 * BLOCK;

fn block_counts(insert: Insert, lazy_pages_max: u64, work: fn(&mut RamSeat<'_, '_>)) -> (u64, u64) {
    let config = RangeConfig {
        lazy_pages_max,
        ..config(insert, false)
    };
    let stats = on_one_cpu(WINDOW, &config, work);
    assert_eq!(stats.vm_map_ram, stats.vm_unmap_ram);
    assert_eq!(stats.new_vmap_block, stats.alloc_vmap_area);
    assert_eq!((stats.live_pages, stats.drains), (0, 0));
    assert!(stats.lazy_pages_peak <= lazy_pages_max + BATCH);
    (stats.alloc_vmap_area, stats.free_vmap_block)
}

#[test]
fn exhaust_counts_what_the_document_counts() {
    for bound in BOUNDS {
        assert_eq!(block_counts(Insert::Head, bound, exhaust), (1000, 0));
        assert_eq!(block_counts(Insert::Tail, bound, exhaust), (993, 992));
    }
}

#[test]
fn orders_count_what_the_document_counts() {
    assert_eq!(block_counts(Insert::Head, BOUNDS[0], orders), (7001, 6993));
    assert_eq!(block_counts(Insert::Tail, BOUNDS[1], orders), (7000, 7000));
}

#[test]
fn random_counts_are_near_the_documents() {
    // The published test makes one draw: 420 and 37, 414 and 412. Of the blocks that head insertion
    // ever gives back there are few, so that number differs most from draw to draw.
    let mut given_back = 0;
    let seeds = 20;
    for seed in 1..=seeds {
        let run = |insert| {
            let stats = on_one_cpu(WINDOW, &config(insert, false), |seat| random(seat, seed));
            (stats.alloc_vmap_area, stats.free_vmap_block)
        };
        let within = |count: u64, published: u64| count.abs_diff(published) * 100 <= published * 3;
        let (allocs, frees) = run(Insert::Head);
        assert!(
            within(allocs, 420) && frees < 60,
            "seed {seed}: {allocs} {frees}"
        );
        given_back += frees;
        let (allocs, frees) = run(Insert::Tail);
        assert!(
            within(allocs, 414) && within(frees, 412),
            "seed {seed}: {allocs} {frees}"
        );
    }
    let mean = given_back / seeds;
    assert!((37..=50).contains(&mean), "{mean}");
}

#[test]
fn with_recycling_few_blocks_are_enough() {
    let config = config(Insert::Tail, true);
    let works: [fn(&mut RamSeat<'_, '_>); 3] = [exhaust, orders, |seat| random(seat, 1)];
    for work in works {
        let stats = on_one_cpu(WINDOW, &config, work);
        assert!(stats.alloc_vmap_area <= 20, "{}", stats.alloc_vmap_area);
        assert!(stats.lazy_pages_peak <= 8192 + BATCH);
        // Each makes as many pages free as the bound allows, or nearly.
        let pages = stats.tlb_flushes * (8192 - 2 * BATCH) * 9 / 10;
        assert!(pages <= 7_168_000, "{} flushes", stats.tlb_flushes);
    }
}

/// Keeps one page of each block mapped and uses the rest up, until the window is full. How many
/// stay mapped.
fn pin(recycle: bool) -> u64 {
    let mut kept = 0;
    let stats = on_one_cpu(32 * BLOCK, &config(Insert::Tail, recycle), |seat| {
        let one = frames(0, 1);
        loop {
            let before = seat.space().stats().new_vmap_block;
            match seat.map_ram(&one, Context::ANY) {
                Ok(_) => kept += 1,
                Err(error) => {
                    assert!(matches!(error, RangeError::NoSpace { .. }), "{error}");
                    break;
                }
            }
            // The rest of its block, if it is a new one.
            if seat.space().stats().new_vmap_block != before {
                for _ in 1..BLOCK {
                    pair(seat, &one);
                }
            }
        }
    });
    assert_eq!(stats.failures, 1);
    kept
}

#[test]
fn one_live_page_in_each_block_does_not_fill_the_window() {
    let kept = pin(true);
    assert!(kept > 30_000, "{kept}");
    // As in Linux: a page for each block, because no part of a block is used again.
    assert_eq!(pin(false), 32);
}

/// What a history knows: the live mappings, by their first page.
struct Live {
    areas: BTreeMap<u64, Vec<Frame>>,
}

impl Live {
    /// Checks that every page of every mapping reaches its frame, and that no two overlap.
    fn check(&self, space: &Space<'_, &PageTable>) {
        let mut end = 0;
        for (&start, frames) in &self.areas {
            assert!(start >= end, "V1: {start:#x} overlaps");
            end = start + frames.len() as u64;
            for (page, &frame) in (start..).zip(frames) {
                assert_eq!(
                    space.platform().at(Page(page)),
                    Pte::Mapped(frame),
                    "{page:#x}"
                );
            }
            let found = space.find(Page(end - 1)).unwrap();
            let area = (found.start, found.pages, found.guard, found.kind);
            assert_eq!(area, (Page(start), frames.len() as u64, 0, AreaKind::Ram));
        }
    }
}

/// Frames for a request of some pages: mostly in a few runs.
fn some_frames(random: &mut Random, pages: u64) -> Vec<Frame> {
    let mut frame = random.remainder(1 << 20);
    (0..pages)
        .map(|_| {
            frame = if random.remainder(4) == 0 {
                random.remainder(1 << 20)
            } else {
                frame + 1
            };
            Frame(frame)
        })
        .collect()
}

/// A random history on `cpus` CPUs' seats, with a look at everything now and then.
fn history(seed: u64, layout: &SpaceLayout, config: &RangeConfig, ops: u64, fail: u64) {
    let mut random = Random::new(seed);
    let table = PageTable::of(layout);
    let mut memory = vec![0x1999_9999_9999_9999; layout.words_needed().unwrap()];
    let space = Space::new(layout, config, &mut memory, &table).unwrap();
    let mut seats: Vec<_> = (0..layout.cpus)
        .map(|cpu| space.seat(CpuId(cpu), NoFrames).unwrap())
        .collect();
    let mut live = Live {
        areas: BTreeMap::new(),
    };
    let mut plain = Vec::new();
    for op in 0..ops {
        let seat = random.remainder(seats.len() as u64) as usize;
        let seat = &mut seats[seat];
        if fail != 0 && random.remainder(fail) == 0 {
            let left = Some(random.remainder(4));
            match random.remainder(2) {
                0 => table.maps_until_failure.set(left),
                _ => table.unmaps_until_failure.set(left),
            }
        }
        let fills = if op / 500 % 2 == 0 { 60 } else { 45 };
        match random.remainder(100) {
            0..=2 => plain.extend(
                seat.alloc_area(&AreaRequest::new(1 + random.remainder(9)))
                    .ok(),
            ),
            3..=5 if !plain.is_empty() => {
                let page = plain.swap_remove(random.remainder(plain.len() as u64) as usize);
                seat.free_area(page).unwrap();
            }
            6 => seat.purge(),
            7 if random.remainder(20) == 0 => seat.drain(),
            draw if draw < fills || live.areas.is_empty() => {
                let most = [4, 64, 80][random.remainder(3) as usize];
                let pages = 1 + random.remainder(most);
                let frames = some_frames(&mut random, pages);
                let context =
                    [Context::ANY, Context::NOWAIT][usize::from(random.remainder(8) == 0)];
                let (maps, before) = (table.maps.get(), space.stats().vm_map_ram);
                match seat.map_ram(&frames, context) {
                    Ok(page) => {
                        let runs = frames.windows(2).filter(|two| two[0].0 + 1 != two[1].0);
                        let made = table.maps.get() - maps;
                        let runs = runs.count() as u64 + 1;
                        assert!(made == runs || fail != 0 && made >= runs, "one call a run");
                        assert!(live.areas.insert(page.0, frames).is_none());
                    }
                    Err(RangeError::NoSpace { .. }) => {}
                    Err(error) => assert!(fail != 0, "seed {seed}: {error}"),
                }
                let counted = space.stats().vm_map_ram - before;
                assert!(counted <= 1 && space.stats().vm_map_ram >= live.areas.len() as u64);
            }
            _ => {
                let nth = random.remainder(live.areas.len() as u64) as usize;
                let (&start, frames) = live.areas.iter().nth(nth).unwrap();
                let pages = frames.len() as u64;
                let wrong = seat.unmap_ram(Page(start), pages + 1);
                let expected = RangeFreeError::WrongLength {
                    page: Page(start),
                    pages: pages + 1,
                    mapped: pages,
                };
                assert_eq!(wrong, Err(expected));
                assert_eq!(seat.unmap_ram(Page(start), pages), Ok(pages), "seed {seed}");
                live.areas.remove(&start);
                assert!(seat.unmap_ram(Page(start), pages).is_err());
            }
        }
        if op % 16 == 0 {
            live.check(&space);
            space
                .verify()
                .unwrap_or_else(|error| panic!("seed {seed}, operation {op}: {error}"));
        }
    }
    table.maps_until_failure.set(None);
    table.unmaps_until_failure.set(None);
    for (start, frames) in core::mem::take(&mut live.areas) {
        seats[0]
            .unmap_ram(Page(start), frames.len() as u64)
            .unwrap();
    }
    for page in plain {
        seats[0].free_area(page).unwrap();
    }
    seats[0].drain();
    space.verify().unwrap();
    let stats = space.stats();
    assert_eq!(
        (stats.live_pages, stats.vmap_lazy_nr),
        (0, 0),
        "seed {seed}"
    );
    assert_eq!(stats.vm_map_ram, stats.vm_unmap_ram, "seed {seed}");
    assert!(table.pages.borrow().iter().all(|&pte| pte == Pte::Clean));
    // One request can have all of the window in one piece.
    let all = frames(0, layout.pages);
    let page = seats[0].map_ram(&all, Context::ANY).unwrap();
    assert_eq!(page, layout.start);
}

#[test]
fn histories_end_as_they_began_whatever_the_policy() {
    for seed in 0..24 {
        let cpus = [1, 2, 3][seed as usize % 3];
        let span_pages = [64, 128, 1024, 16][seed as usize % 4];
        let layout = SpaceLayout::new(Page(1 << 20), 4096)
            .with_cpus(cpus)
            .with_span_pages(span_pages);
        let insert = [Insert::Tail, Insert::Head][seed as usize / 3 % 2];
        let config = RangeConfig {
            lazy_pages_max: [40, 400, 4000][seed as usize % 3],
            ..config(insert, seed % 5 != 0)
        };
        history(seed, &layout, &config, 3000, 0);
        history(seed, &layout, &config, 1500, 20);
    }
}

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
        with_table(&config(Insert::Tail, recycle), |space, _| {
            let mut seat = space.seat(CpuId(0), NoFrames).unwrap();
            let mut other = space.seat(CpuId(1), NoFrames).unwrap();
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
fn requests_that_nobody_can_serve_are_errors() {
    with_table(&config(Insert::Tail, true), |space, _| {
        let mut seat = space.seat(CpuId(0), NoFrames).unwrap();
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
    with_table(&config(Insert::Tail, true), |space, table| {
        let mut seat = space.seat(CpuId(0), NoFrames).unwrap();
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
                    with_table(&config(Insert::Tail, recycle), |space, table| {
                        let mut seat = space.seat(CpuId(0), NoFrames).unwrap();
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
        ..config(Insert::Tail, true)
    };
    with_table(&config, |space, table| {
        let mut seat = space.seat(CpuId(0), NoFrames).unwrap();
        let apart = [Frame(1), Frame(3), Frame(5), Frame(7)];
        let maps = table.maps.get();
        for _ in 0..2 {
            table.maps_until_failure.set(Some(1));
            let failed = seat.map_ram(&apart, Context::NOWAIT);
            assert_eq!(failed, Err(RangeError::Map(MapError::NoMemory)));
        }
        assert_eq!(space.stats().vmap_lazy_nr, 8);
        let no_room = seat.map_ram(&apart, Context::NOWAIT);
        assert!(matches!(no_room, Err(RangeError::NoSpace { .. })));
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
        with_table(&config(Insert::Tail, recycle), |space, _| {
            let mut seat = space.seat(CpuId(0), NoFrames).unwrap();
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
