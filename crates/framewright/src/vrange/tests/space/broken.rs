//! Each thing that `verify` claims to look for in spans, areas and lists, spoiled: it is found, and named.

use super::*;
use crate::vrange::span::{Marked, Span, SpanBits, SpanOwner, bits};

/// A span of CPU 0's with three areas: one is live, CPU 0 has freed one, and CPU 1 one. Behind it two areas of the arena's,
/// of which CPU 0 has freed one.
struct SpoiledSpace {
    space: &'static TestSpace,
    seats: Vec<TestSeat>,
    span: Span<'static, 'static>,
    /// The first pages of the areas, counted from the window's.
    live: u32,
    lazy: u32,
    sent: u32,
    arena_live: u32,
    arena_lazy: u32,
}

impl SpoiledSpace {
    fn new() -> Self {
        let layout = SpaceLayout::new(Page(0x400), 1024)
            .with_cpus(2)
            .with_span_pages(64);
        let space = space(layout, config(500, true));
        let mut seats = seats(space);
        let mut area = |align: u64| {
            let request = AreaRequest::new(3).aligned_to(align * Page::BYTES);
            seats[0].alloc_area(&request).unwrap()
        };
        let pages = [area(1), area(1), area(1), area(128), area(128)];
        seats[0].free_area(pages[1]).unwrap();
        seats[1].free_area(pages[2]).unwrap();
        seats[0].free_area(pages[4]).unwrap();
        let [live, lazy, sent, arena_live, arena_lazy] =
            pages.map(|page| space.offset_unchecked(page) as u32);
        let (number, _) = space.spans.place(live);
        let span = space.spans.get(number);
        assert_eq!(span.owner(), SpanOwner::Areas(0));
        let owner_of = |at| space.spans.get(space.spans.place(at).0).owner();
        assert_eq!(owner_of(arena_lazy), SpanOwner::Arena);
        space.verify().unwrap();
        Self {
            space,
            seats,
            span,
            live,
            lazy,
            sent,
            arena_live,
            arena_lazy,
        }
    }

    fn finds(&self, invariant: &str) {
        let broken = self.space.verify().unwrap_err();
        assert_eq!(broken.invariant, invariant);
        let place = self.space.page(0).0..self.space.page(1024).0;
        assert!(place.contains(&broken.at), "{broken}");
    }

    fn is_whole(&self) {
        self.space.verify().unwrap();
    }

    fn header(&self, at: u32) -> AreaHeader {
        self.space.table.header(at).unwrap()
    }

    /// Spoils an area's header, and puts it back.
    fn with_header(&self, at: u32, header: AreaHeader, invariant: &str) {
        let before = self.header(at);
        self.space.table.set_header(at, header);
        self.finds(invariant);
        self.space.table.set_header(at, before);
        self.is_whole();
    }

    /// Sets a bit that is clear, and puts it back.
    fn with_bit(&self, bitmap: &[crate::sync::AtomicU64], at: u32, invariant: &str) {
        let place = self.space.spans.place(at).1;
        assert!(!bits::has_all(bitmap, place, 1));
        bits::set(bitmap, place, 1);
        self.finds(invariant);
        bits::clear(bitmap, place, 1);
        self.is_whole();
    }
}

#[test]
fn v1_v4_areas_that_overlap_what_is_free_or_are_not_found_are_named() {
    let of = SpoiledSpace::new();
    let starts = of.span.bits(SpanBits::Starts);
    let place = of.space.spans.place(of.live).1;
    bits::clear(starts, place, 1);
    of.finds("V1: a gap or an area");
    bits::set(starts, place, 1);
    of.with_bit(starts, of.live + 1, "V4: an area is found from each page");
    let free = of.span.bits(SpanBits::Free);
    of.with_bit(free, of.live, "V1: free pages are in no area");
    of.with_bit(free, of.live + 1, "V1: an area's pages are not free");
    let cursor = of.space.seat_words(0).cursor.page();
    of.with_bit(free, cursor, "V1: free or in the bump");
    let long = AreaHeader::live(AreaKind::Plain, 1000, 0);
    of.with_header(of.live, long, "V1: an area has pages");
}

#[test]
fn v1_freed_areas_and_spans_that_no_list_has_are_named() {
    let of = SpoiledSpace::new();
    let seat = of.space.seat_words(0);
    assert_eq!(seat.areas_lazy.link(), Some(of.arena_lazy));
    seat.areas_lazy.set_link(None);
    of.finds("V1: each freed area of the arena is in a list");
    seat.areas_lazy.set_link(Some(of.arena_live));
    of.finds("V1: a list of freed areas");
    seat.areas_lazy.set_link(Some(of.arena_lazy));
    let circle = of.header(of.arena_lazy).lazy(Some(of.arena_lazy));
    of.with_header(of.arena_lazy, circle, "V1: a list of freed areas");
    let freed = of.header(of.arena_live).lazy(None);
    let lost = "V1: each freed area of the arena is in a list";
    of.with_header(of.arena_live, freed, lost);

    let number = of.space.spans.place(of.live).0;
    seat.wait_head.set_link(Some(number));
    of.finds("V1: the list of waiting spans ends");
    seat.wait_head.set_link(None);
    // The lazy area becomes a waiting one, and no list has its span.
    let (place, pages) = (of.space.spans.place(of.lazy).1, of.header(of.lazy).pages());
    bits::clear(of.span.bits(SpanBits::Lazy), place, pages);
    bits::set(of.span.bits(SpanBits::Waiting), place, pages);
    let marked = of.span.lazy();
    of.span.set_lazy(Marked::default());
    of.span.set_waiting(marked);
    of.finds("V1: a waiting span is in its list");
}

#[test]
fn v3_wrong_counts_owners_and_lists_of_spans_are_named() {
    let of = SpoiledSpace::new();
    let (lazy, listed) = (of.span.lazy(), of.span.listed());
    of.span.set_lazy(lazy.with(1, 1));
    of.finds("V3: a span's counts");
    of.span.set_lazy(Marked { words: 0, ..lazy });
    of.finds("V3: the words with lazy or waiting pages");
    of.span.set_lazy(lazy);
    of.span.set_listed(listed ^ 1 << 8);
    of.finds("V3: a span's list");
    of.span.set_listed(listed);
    of.span.set_owner(SpanOwner::Areas(7));
    of.finds("V3: the owner exists");
    of.span.set_owner(SpanOwner::Areas(0));
    of.is_whole();
}

#[test]
fn v6_lazy_pages_that_nothing_counts_are_named() {
    let mut of = SpoiledSpace::new();
    let purgeable = &of.space.seat_words(0).purgeable;
    purgeable.add(1);
    of.finds("V6: a seat's lazy pages");
    purgeable.sub(1);
    of.space.sub_lazy(1);
    of.finds("V6: all lazy pages");
    of.space.sub_lazy(u64::MAX);
    of.is_whole();
    of.seats[0].drain();
    of.is_whole();
}

#[test]
fn v9_areas_that_are_in_no_state_or_in_two_are_named() {
    let of = SpoiledSpace::new();
    let freed = of.header(of.live).lazy(None);
    of.with_header(of.live, freed, "V9: a header says the state of its area");
    let live = AreaHeader::live(AreaKind::Plain, of.header(of.lazy).pages(), 0);
    of.with_header(of.lazy, live, "V9: a header says the state of its area");
    of.with_bit(of.span.sent(), of.sent + 1, "V9: one bit sends an area");
    of.with_bit(
        of.span.sent(),
        of.lazy,
        "V9: a header says the state of its area",
    );
    // A page of the lazy area is no longer lazy.
    let (place, lazy) = (of.space.spans.place(of.lazy).1, of.span.lazy());
    bits::clear(of.span.bits(SpanBits::Lazy), place, 1);
    of.span.set_lazy(Marked {
        pages: lazy.pages - 1,
        ..lazy
    });
    of.finds("V9: lazy or waiting as a whole");
}

#[test]
fn v13_lists_of_deferred_areas_that_have_others_or_one_twice_are_named() {
    let of = SpoiledSpace::new();
    let pages = of.header(of.live).pages();
    let areas = [of.live, of.arena_live];
    for at in areas {
        let header = AreaHeader::live(AreaKind::Vmalloc, pages, 0);
        of.space.table.set_header(at, header);
        of.space.vfree_atomic(of.space.page(at)).unwrap();
    }
    of.is_whole();
    let live = AreaHeader::live(AreaKind::Vmalloc, pages, 0);
    of.with_header(of.live, live, "V13: a list of deferred areas");
    let circle = of.header(of.live).deferred(Some(of.arena_live));
    of.with_header(of.live, circle, "V13: a list of deferred areas");
    let seat = of.space.seat_words(1);
    seat.deferred.set_link(Some(of.live));
    of.finds("V13: a deferred area is in one list");
    seat.deferred.set_link(None);
    seat.evicting.set_link(Some(of.live));
    of.finds("V13: a deferred area is in one list");
    seat.evicting.set_link(None);
    of.is_whole();
}

#[test]
fn v1_a_mark_of_a_guard_page_without_an_area_behind_it_is_named() {
    let of = SpoiledSpace::new();
    let (number, _) = of.space.spans.place(of.arena_live);
    let marks = of.space.spans.get(number).bits(SpanBits::Lazy);
    let stray = "V1: a mark of a guard page is at a start";
    of.with_bit(marks, of.arena_live + 8, stray);
}
