//! A space in step with a sorted list of ranges, over several CPUs' seats in one thread.

extern crate std;

mod broken;
mod lazy;
mod pages;
mod senders;

use super::*;
use crate::policy::RangeConfig;
use crate::random::Random;
use crate::seats::Inboxes;
use crate::sync::Ordering;
use crate::units::{Context, CpuId, FRAMES_MAX, Frame, Page};
use pages::TestPages;
use std::boxed::Box;
use std::collections::BTreeMap;
use std::vec;
use std::vec::Vec;

type TestSpace = Space<'static, TestPages>;
type TestSeat = RangeSeat<'static, 'static, TestPages, ()>;

fn space(layout: SpaceLayout, config: RangeConfig) -> &'static TestSpace {
    // Whatever the words hold: here, headers of live areas and bits everywhere.
    let memory = vec![0x1999_9999_9999_9999; layout.words_needed().unwrap()];
    let pages = TestPages::new(layout.start, layout.pages);
    Box::leak(Box::new(
        Space::new(&layout, &config, memory.leak(), pages).unwrap(),
    ))
}

fn seats(space: &'static TestSpace) -> Vec<TestSeat> {
    (0..space.cpus())
        .map(|cpu| space.seat(CpuId(cpu), ()).unwrap())
        .collect()
}

fn config(lazy: u64, spans: bool) -> RangeConfig {
    RangeConfig {
        lazy_pages_max: lazy,
        spans,
        ..RangeConfig::default().kept()
    }
}

/// The obviously right twin: what is live, and everything about it.
struct SpaceTwin {
    space: &'static TestSpace,
    seats: Vec<TestSeat>,
    live: BTreeMap<u64, u64>,
}

impl SpaceTwin {
    fn new(space: &'static TestSpace) -> Self {
        Self {
            space,
            seats: seats(space),
            live: BTreeMap::new(),
        }
    }

    fn pages(&self) -> u64 {
        self.live.values().map(|pages| pages + 1).sum()
    }

    /// Whether an area fits between those that are live.
    fn fits(&self, pages: u64, align: u64) -> bool {
        let mut from = self.space.start().0;
        let end = from + self.space.pages();
        let gaps = self
            .live
            .iter()
            .map(|(&start, &pages)| (start, start + pages + 1))
            .chain([(end, end)]);
        for (start, behind) in gaps {
            if from.next_multiple_of(align) + pages < start {
                return true;
            }
            from = behind;
        }
        false
    }

    fn alloc(&mut self, cpu: usize, pages: u64, align: u64) -> Option<Page> {
        let request = AreaRequest::new(pages)
            .aligned_to(align * Page::BYTES)
            .tagged(pages as u32);
        let Ok(at) = self.seats[cpu].alloc_area(&request) else {
            let failing = self.space.platform().unmaps_until_failure.get() == 0;
            assert!(
                failing || !self.fits(pages, align),
                "V8: {pages} at {align}"
            );
            return None;
        };
        assert!(at.0.is_multiple_of(align));
        assert!(at >= self.space.start());
        assert!(at.0 + pages < self.space.start().0 + self.space.pages());
        let before = self.live.range(..=at.0).next_back();
        assert!(before.is_none_or(|(start, pages)| start + pages < at.0));
        let after = self.live.range(at.0..).next();
        assert!(after.is_none_or(|(&start, _)| at.0 + pages < start));
        self.space.platform().use_area(at, pages);
        self.live.insert(at.0, pages);
        Some(at)
    }

    fn free(&mut self, cpu: usize, nth: usize) {
        let (&start, &pages) = self.live.iter().nth(nth).unwrap();
        let failures = self.space.stats().unmap_failures;
        assert_eq!(self.seats[cpu].free_area(Page(start)), Ok(pages));
        if self.space.config().strict && self.space.stats().unmap_failures == failures {
            let mapped = self.space.platform().mapped_pages(Page(start), pages);
            assert_eq!(mapped, 0, "V12: {start:#x}");
        }
        self.live.remove(&start);
        let again = self.seats[cpu].free_area(Page(start));
        assert!(
            matches!(
                again,
                Err(RangeFreeError::AlreadyFree(_) | RangeFreeError::NotAllocated(_))
            ),
            "{again:?}"
        );
    }

    fn check(&self) {
        self.space.verify().unwrap();
        assert_eq!(self.space.stats().live_pages, self.pages());
        let mut listed = Vec::new();
        self.space.for_each_area(|area| {
            if area.state == AreaState::Live {
                listed.push((area.start.0, area.pages));
                assert_eq!(area.tag, area.pages as u32);
            }
        });
        let live: Vec<_> = self
            .live
            .iter()
            .map(|(&start, &pages)| (start, pages))
            .collect();
        assert_eq!(listed, live);
    }

    /// One random step.
    fn step(&mut self, random: &mut Random, longest: u64) {
        let cpu = random.remainder(self.seats.len() as u64) as usize;
        match random.remainder(100) {
            0..50 => {
                let pages = match random.remainder(10) {
                    0 => 1 + random.remainder(longest * 8),
                    1..5 => 1 + random.remainder(3),
                    _ => 1 + random.remainder(longest),
                };
                let align = match random.remainder(4) {
                    0 => 1 << random.remainder(6),
                    _ => 1,
                };
                self.alloc(cpu, pages, align);
            }
            50..98 if !self.live.is_empty() => {
                let nth = random.remainder(self.live.len() as u64) as usize;
                self.free(cpu, nth);
            }
            98 => self.seats[cpu].purge(),
            99 if random.remainder(4) == 0 => self.seats[cpu].drain(),
            _ => {}
        }
    }
}

#[test]
fn a_space_does_what_a_sorted_list_of_ranges_does() {
    follow_a_sorted_list(60, false);
}

#[test]
fn v12_a_strict_space_does_the_same_and_unmaps_what_is_freed_at_once() {
    follow_a_sorted_list(60, true);
}

fn follow_a_sorted_list(rounds: u64, strict: bool) {
    for round in 0..rounds {
        let mut random = Random::new(0x1234_5678_9abc_def1 ^ round << 32);
        let span_pages = 4 << random.remainder(6);
        let cpus = 1 + random.remainder(3) as u16;
        let layout = SpaceLayout::new(Page(0x4000), 40 + random.remainder(1000))
            .with_cpus(cpus)
            .with_span_pages(span_pages);
        let config = config(random.remainder(200), random.remainder(5) != 0);
        let mut twin = SpaceTwin::new(space(layout, RangeConfig { strict, ..config }));
        for _ in 0..400 {
            twin.step(&mut random, 1 + u64::from(span_pages) / 3);
            twin.check();
        }
        while !twin.live.is_empty() {
            let cpu = random.remainder(u64::from(cpus)) as usize;
            twin.free(cpu, 0);
        }
        twin.seats[0].drain();
        twin.check();
        let whole = twin.space.arena.lock(|_| ()).gap_count();
        assert_eq!(whole, 1, "all is one gap again");
    }
}

#[test]
fn wrong_frees_are_errors_that_say_what_is_wrong() {
    let layout = SpaceLayout::new(Page(0x400), 2048).with_cpus(2);
    let mut seats = seats(space(layout, config(64, true)));
    let small = seats[0].alloc_area(&AreaRequest::new(3)).unwrap();
    let large = seats[0].alloc_area(&AreaRequest::new(700)).unwrap();
    let next = |page: Page, pages| page.checked_add(pages).unwrap();
    for seat in &mut seats {
        let outside = Page(0x400 + 2048);
        assert_eq!(
            seat.free_area(outside),
            Err(RangeFreeError::Outside(outside))
        );
        assert_eq!(
            seat.free_area(Page(0)),
            Err(RangeFreeError::Outside(Page(0)))
        );
        for (start, inside) in [(small, 1), (small, 3), (large, 1), (large, 650)] {
            let page = next(start, inside);
            let error = RangeFreeError::NotTheFirst { page, start };
            assert_eq!(seat.free_area(page), Err(error));
        }
        let never = next(small, 100);
        assert_eq!(
            seat.free_area(never),
            Err(RangeFreeError::NotAllocated(never))
        );
    }
    assert_eq!(seats[1].free_area(small), Ok(3));
    assert_eq!(
        seats[0].free_area(small),
        Err(RangeFreeError::AlreadyFree(small))
    );
    assert_eq!(
        seats[0].free_kind(large, AreaKind::Vmalloc),
        Err(RangeFreeError::WrongKind(large))
    );
    seats[0].drain();
    assert_eq!(
        seats[0].free_area(small),
        Err(RangeFreeError::NotAllocated(small))
    );
    assert_eq!(seats[0].free_area(large), Ok(700));
}

#[test]
fn impossible_requests_are_errors_at_once() {
    let layout = SpaceLayout::new(Page(0x400), 2048);
    let space = space(layout, config(64, true));
    let mut seat = space.seat(CpuId(0), ()).unwrap();
    let mut alloc = |pages, align| seat.alloc_area(&AreaRequest::new(pages).aligned_to(align));
    assert_eq!(alloc(0, 4096), Err(RangeError::Empty));
    for bytes in [0, 3, 4097, u64::MAX] {
        assert_eq!(alloc(1, bytes), Err(RangeError::Align { bytes }));
    }
    for pages in [2049, u64::MAX, u64::MAX - 1, 1 << 52] {
        assert_eq!(alloc(pages, 4096), Err(RangeError::TooLong { pages }));
    }
    for (pages, align_bytes) in [(1, 1 << 63), (2048, 4096), (1, 1 << 40), (1025, 1 << 23)] {
        let error = RangeError::NoSpace { pages, align_bytes };
        assert_eq!(alloc(pages, align_bytes), Err(error));
    }
    assert!(alloc(1, 1).is_ok());
    assert_eq!(space.stats().drains, 0, "none of them stopped a CPU");
}

#[test]
fn a_window_has_a_page_number_less_than_thirty_bits_can_say() {
    let layout = |pages| SpaceLayout::new(Page(0), pages).words_needed();
    let said = |layout: SpaceLayout| std::format!("{}", layout.words_needed().unwrap_err());
    // Where addresses have 32 bits, as many pages as frames.
    let most = FRAMES_MAX.min((1 << 30) - 1);
    let over = std::format!("number of pages {} is above the maximum {most}", most + 1);
    for (pages, text) in [
        (0, "number of pages 0 is below the minimum 1"),
        (most + 1, &over),
    ] {
        assert_eq!(said(SpaceLayout::new(Page(0), pages)), text);
    }
    assert!(layout(most).is_ok());
    let usual = SpaceLayout::new(Page(0x40), 64);
    for (layout, text) in [
        (
            SpaceLayout::new(Page(u64::MAX - 7), 16).with_span_pages(4),
            "the window's pages from 0xfffffffffffffff8 end past the number range",
        ),
        (
            SpaceLayout::new(Page(0x11), 64).with_span_pages(64),
            "the window's first page 0x11 is no multiple of 64",
        ),
        (
            usual.with_span_pages(3),
            "span_pages 3 is below the minimum 4",
        ),
        (
            usual.with_span_pages(12),
            "span_pages 0xc is no multiple of 16",
        ),
        (
            usual.with_cpus(1024),
            "number of CPUs 1024 is above the maximum 1023",
        ),
    ] {
        assert_eq!(said(layout), text);
    }
}

#[test]
fn v8_a_live_page_in_each_span_keeps_nothing_else_from_being_used() {
    let layout = SpaceLayout::new(Page(0x1000), 64 * 64)
        .with_cpus(2)
        .with_span_pages(64);
    let space = space(layout, config(256, true));
    let mut seats = seats(space);
    let mut kept = Vec::new();
    let mut others = Vec::new();
    // Small areas until no space is left; one of each span stays.
    while let Ok(at) = seats[others.len() % 2].alloc_area(&AreaRequest::new(1)) {
        match at.0 % 64 {
            31 | 32 => kept.push(at),
            _ => others.push(at),
        }
    }
    assert_eq!(kept.len() + others.len(), 64 * 32, "all of it was had");
    let failed = space.stats();
    for _ in 0..5 {
        assert!(seats[0].alloc_area(&AreaRequest::new(1)).is_err());
    }
    assert_eq!(
        space.stats().drains,
        failed.drains,
        "and failing again is cheap"
    );
    for at in others {
        seats[1].free_area(at).unwrap();
    }
    space.verify().unwrap();
    // Over the border between two spans: 61 pages and a guard page.
    for _ in 0..63 {
        seats[0].alloc_area(&AreaRequest::new(61)).unwrap();
    }
    space.verify().unwrap();
    for at in kept {
        assert_eq!(space.find(at).unwrap().start, at);
        seats[0].free_area(at).unwrap();
    }
}

#[test]
fn an_area_over_many_spans_is_found_from_each_of_its_pages() {
    let layout = SpaceLayout::new(Page(0x1000), 1000).with_span_pages(16);
    let space = space(layout, config(100, true));
    let mut seat = space.seat(CpuId(0), ()).unwrap();
    let request = AreaRequest::new(300).tagged(7);
    let first = seat.alloc_area(&request).unwrap();
    let second = seat.alloc_area(&request).unwrap();
    for start in [first, second] {
        for nth in 0..=300 {
            let area = space.find(Page(start.0 + nth)).unwrap();
            assert_eq!((area.start, area.pages, area.guard), (start, 300, 1));
            assert_eq!((area.tag, area.state), (7, AreaState::Live));
        }
    }
    assert_eq!(space.find(Page(second.0 + 301)), None);
    assert_eq!(space.find(Page(0xfff)), None);
    assert_eq!(space.find(Page(0x1000 + 1000)), None);
    seat.free_area(first).unwrap();
    seat.purge();
    // The entry that covers a span is out of date, and `verify` does not trust it.
    assert!((0..=300).all(|nth| space.find(Page(first.0 + nth)).is_none()));
}

#[test]
fn without_may_block_nothing_is_purged_and_no_cpu_stopped() {
    let layout = SpaceLayout::new(Page(0), 1020).with_span_pages(16);
    let space = space(layout, config(100, true));
    let mut seat = space.seat(CpuId(0), ()).unwrap();
    let areas: Vec<_> = (0..17)
        .map(|_| seat.alloc_area(&AreaRequest::new(59)).unwrap())
        .collect();
    seat.free_area(areas[3]).unwrap();
    let before = space.stats();
    assert_eq!(before.vmap_lazy_nr, 60);
    let request = AreaRequest::new(59);
    assert!(seat.alloc_area(&request.within(Context::NOWAIT)).is_err());
    let after = space.stats();
    assert_eq!(
        (before.unmap_calls, before.tlb_flushes, before.drains),
        (after.unmap_calls, after.tlb_flushes, after.drains)
    );
    assert_eq!(seat.alloc_area(&request), Ok(areas[3]));
}

#[test]
fn a_space_in_zeroed_memory_does_as_one_in_memory_that_holds_anything() {
    let layout = SpaceLayout::new(Page(0x400), 2000)
        .with_cpus(2)
        .with_span_pages(64);
    let config = config(100, true);
    let memory = vec![0; layout.words_needed().unwrap()];
    let pages = TestPages::new(layout.start, layout.pages);
    let zeroed = Space::in_zeroed(&layout, &config, memory.leak(), pages).unwrap();
    let mut twins = [Box::leak(Box::new(zeroed)), space(layout, config)].map(SpaceTwin::new);
    let mut randoms = [Random::new(41), Random::new(41)];
    for step in 0..3000 {
        for (twin, random) in twins.iter_mut().zip(&mut randoms) {
            twin.step(random, 40);
        }
        assert_eq!(twins[0].live, twins[1].live, "step {step}");
        if step % 100 == 0 {
            twins.iter().for_each(SpaceTwin::check);
        }
    }
    assert_eq!(twins[0].space.stats(), twins[1].space.stats());
}

#[test]
fn what_waits_of_the_arena_serves_the_next_request_of_its_length() {
    let mut twin = SpaceTwin::new(space(
        SpaceLayout::new(Page(8192), 32768),
        config(4096, true),
    ));
    // Aligned to 8192 pages are four pages of the window.
    let aligns = [8192, 4096, 8192, 4096, 8192, 8192];
    let made = aligns.map(|align| twin.alloc(0, 1, align).unwrap().0 / 4096);
    assert_eq!(made, [2, 3, 4, 5, 6, 8]);
    for _ in aligns {
        twin.free(0, 0);
    }
    let cuts = twin.space.stats().alloc_vmap_area;
    // No gap of the arena is aligned so until there is a purge; then the least aligned serve.
    let mut again = |align| twin.alloc(0, 1, align).unwrap().0 / 4096;
    let round = again(8192);
    assert!([2, 6].contains(&round), "{round}");
    let odd = [again(4096), again(4096)];
    assert!(odd == [3, 5] || odd == [5, 3], "{odd:?}");
    assert_eq!(again(4096), 8 - round);
    let stats = twin.space.stats();
    assert_eq!((stats.alloc_vmap_area, stats.tlb_flushes), (cuts, 1));
    twin.check();
    // Another length is the arena's matter.
    assert!(twin.alloc(0, 2, 8192).is_some());
    assert_eq!(twin.space.stats().alloc_vmap_area, cuts + 1);
    twin.check();
}
