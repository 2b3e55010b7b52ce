//! A pass of the purge: from lazy to waiting.
//!
//! It takes whole areas (V9): it ends where an area ends, and each call of the platform's `unmap`
//! is for whole areas, whether it fails or not. Where a [strict](super::strict) space has unmapped all
//! lazy pages of a span already, it calls nothing.

use super::super::seat::Held;
use super::super::span::{Marked, Span, SpanBits, bits};
use crate::platform::RangePlatform;
use crate::seats::Inboxes;
use crate::slots::ones_at;
use crate::sync::Ordering::{Relaxed, Release};
use crate::units::PageRange;
use core::cell::Cell;

/// The most spans, or areas of the arena, that one pass purges.
const PASS: usize = 6;
/// A pass ends after this many successful calls of the platform's `unmap`: at the end of its
/// current word, and of the area that goes on there. Such an area has at most half a span, so the
/// pass has an end.
const UNMAP_CALLS: u64 = 8;
/// It ends likewise with this many pages. Free pages at the beginning of a run count once it has a lazy one. Of the arena's
/// areas, which are longer, a pass takes no further one once it has so many pages.
const UNMAP_PAGES: u32 = 1024;

impl<P: RangePlatform> Held<'_, '_, P> {
    /// Records that pages of a span of the seat's have become lazy, in these words of its bitmap, and whether some of
    /// them may be mapped.
    #[inline(always)]
    pub(in super::super) fn note_lazy(
        &self,
        span: Span<'_, '_>,
        pages: u32,
        words: u32,
        is_mapped: bool,
    ) {
        let is_first = span.add_lazy(pages, words, is_mapped);
        self.words.purgeable.add(u64::from(pages));
        if is_first {
            self.append_lazy(span.number());
        }
    }

    /// Adds a span to those with lazy pages.
    fn append_lazy(&self, number: u32) {
        self.span(number).set_lazy_next(None);
        match self.words.lazy_tail.link() {
            Some(tail) => self.span(tail).set_lazy_next(Some(number)),
            None => self.words.lazy_head.set_link(Some(number)),
        }
        self.words.lazy_tail.set_link(Some(number));
    }

    fn pop_lazy(&self) -> Option<u32> {
        let number = self.words.lazy_head.link()?;
        let next = self.span(number).lazy_next();
        self.words.lazy_head.set_link(next);
        if next.is_none() {
            self.words.lazy_tail.set_link(None);
        }
        Some(number)
    }

    pub(super) fn append_waiting(&self, number: u32) {
        self.span(number).set_waiting_next(None);
        match self.words.wait_tail.link() {
            Some(tail) => self.span(tail).set_waiting_next(Some(number)),
            None => self.words.wait_head.set_link(Some(number)),
        }
        self.words.wait_tail.set_link(Some(number));
    }

    /// Unmaps lazy pages in some spans, or some areas of the arena, of the seat's. Returns whether
    /// it unmapped any.
    ///
    /// Pages that the platform fails to unmap stay lazy. If none were unmapped, all were tried.
    pub(in super::super) fn pass(&self) -> bool {
        let spans = self.pass_spans();
        let areas = self.pass_areas();
        let left = self.words.purgeable.get();
        if !spans && !areas {
            self.words.stuck.set(left);
            return false;
        }
        self.words.counters.purges.add(1);
        let stuck = self.words.stuck.get();
        self.words.stuck.set(stuck.min(left));
        true
    }

    /// Unmaps lazy pages in some spans. Spans where nothing can be unmapped go to the end of the
    /// list, and it tries the others before it gives up: then however many pages it finds, because only the first ones
    /// can be what cannot be unmapped.
    fn pass_spans(&self) -> bool {
        let (tried, unmapped) = self.pass_some_spans(UNMAP_PAGES);
        if unmapped != 0 || tried == 0 {
            return unmapped != 0;
        }
        let mut left = None;
        loop {
            let (tried, unmapped) = self.pass_some_spans(u32::MAX);
            if unmapped != 0 {
                return true;
            }
            let all = left.unwrap_or_else(|| self.count_lazy_spans());
            if tried >= all {
                return false;
            }
            left = Some(all - tried);
        }
    }

    #[cold]
    fn count_lazy_spans(&self) -> usize {
        let first = self.words.lazy_head.link();
        core::iter::successors(first, |&number| self.span(number).lazy_next()).count()
    }

    /// Tries the first spans of the list, until it found `most` pages in them. Returns how many, and how many pages of
    /// them are unmapped.
    fn pass_some_spans(&self, most: u32) -> (usize, u64) {
        let mut numbers = [0; PASS];
        let mut count = 0;
        while count < PASS
            && let Some(number) = self.pop_lazy()
        {
            numbers[count] = number;
            count += 1;
        }
        let numbers = &mut numbers[..count];
        if count == 0 {
            return (0, 0);
        }
        sort(numbers);
        let numbers = &*numbers;
        // Runs of dead pages with some lazy ones, joined where spans touch.
        let mut failed = false;
        let mut pending: Option<(u32, u32)> = None;
        let done = || self.words.counters.unmaps.read() - self.words.counters.unmap_failures.read();
        let unmaps = done() + UNMAP_CALLS;
        let pages = Cell::new(0);
        let is_enough = |more: u32| done() > unmaps || pages.get() + more >= most;
        let mut looked_at = 0;
        // The words looked at in the last span's bitmaps.
        let mut words = 0;
        for &number in numbers {
            if is_enough(0) {
                break;
            }
            looked_at += 1;
            if !self.span(number).lazy().is_mapped {
                words = usize::MAX;
                continue;
            }
            let first = self.space.spans.first(number);
            words = self.for_each_dead_run(number, is_enough, |start, end| {
                pages.set(pages.get() + end - start);
                let (start, end) = (first + start, first + end);
                match &mut pending {
                    Some(run) if run.1 == start => run.1 = end,
                    _ => {
                        if let Some((start, end)) = pending.replace((start, end)) {
                            failed |= self.fails_to_unmap(start, end);
                        }
                    }
                }
            });
        }
        if let Some((start, end)) = pending {
            failed |= self.fails_to_unmap(start, end);
        }
        let (numbers, later) = numbers.split_at(looked_at);
        for &number in later {
            self.append_lazy(number);
        }
        let stamp = self.space.stamp();
        let mut unmapped = 0;
        for (nth, &number) in numbers.iter().enumerate() {
            let is_last = nth + 1 == looked_at;
            let words = if is_last { words } else { usize::MAX };
            unmapped += self.wait_for(number, stamp, words);
        }
        if failed {
            for &number in numbers {
                self.collect(number);
            }
        }
        self.words.purgeable.sub(unmapped);
        self.words.add_unmapped(unmapped);
        (looked_at, unmapped)
    }

    /// Makes the pages that were lazy in the first words of a span, and are unmapped now, wait for
    /// that generation. Returns how many pages that are.
    fn wait_for(&self, number: u32, stamp: u64, words: usize) -> u64 {
        let span = self.span(number);
        let lazy = span.lazy();
        let looked_at = if words < u32::BITS as usize {
            (1 << words) - 1
        } else {
            u32::MAX
        };
        let mut later = Marked {
            pages: 0,
            words: lazy.words & !looked_at,
            is_mapped: lazy.is_mapped,
        };
        for word in bits::places(later.words) {
            later.pages += span.bits(SpanBits::Lazy)[word].load(Relaxed).count_ones();
        }
        let now = lazy.words & looked_at;
        for word in bits::places(now) {
            let lazy = &span.bits(SpanBits::Lazy)[word];
            let waiting = &span.bits(SpanBits::Waiting)[word];
            waiting.store(waiting.load(Relaxed) | lazy.load(Relaxed), Relaxed);
            lazy.store(0, Relaxed);
        }
        later.is_mapped &= later.pages != 0;
        span.set_lazy(later);
        if later.pages != 0 {
            self.append_lazy(number);
        }
        let pages = lazy.pages - later.pages;
        if pages != 0 {
            let waiting = span.waiting();
            if waiting.pages == 0 {
                self.append_waiting(number);
            }
            span.set_waiting(waiting.with(pages, now));
            span.set_stamp(stamp);
        }
        u64::from(pages)
    }

    /// Calls `sink` with each run of dead pages of a span that has lazy ones, until `is_enough`, asked with the pages of the
    /// run that is not passed on yet, says so, and a word ends at which no lazy area goes on. Returns how many words were looked at,
    /// including words without lazy pages: each lazy area lies in these words or behind them.
    #[inline(always)]
    fn for_each_dead_run(
        &self,
        number: u32,
        is_enough: impl Fn(u32) -> bool,
        mut sink: impl FnMut(u32, u32),
    ) -> usize {
        let span = self.span(number);
        let (lazy, free) = (span.bits(SpanBits::Lazy), span.bits(SpanBits::Free));
        let waiting = span.bits(SpanBits::Waiting);
        let dead = |word: usize| {
            lazy[word].load(Relaxed) | free[word].load(Relaxed) | waiting[word].load(Relaxed)
        };
        let starts = span.bits(SpanBits::Starts);
        // V9: whether a lazy area has pages in this word and in the next one.
        let goes_on = |word: usize| {
            let next = lazy[word + 1].load(Relaxed) & !starts[word + 1].load(Relaxed);
            lazy[word].load(Relaxed) >> 63 & next & 1 != 0
        };
        let words = span.lazy().words;
        if words == 0 {
            return lazy.len();
        }
        // The words with lazy pages, and those beside them that may join with them or with the next
        // span.
        let mut first = words.trailing_zeros() as usize;
        while first > 0 && dead(first - 1) == !0 {
            first -= 1;
        }
        let mut last = words.ilog2() as usize;
        while last + 1 < lazy.len() && dead(last + 1) == !0 {
            last += 1;
        }
        // The run that reaches the end of the last word, and whether it has lazy pages.
        let (mut start, mut some_lazy) = (first as u32 * 64, false);
        for word in first..=last {
            let freed = lazy[word].load(Relaxed);
            let dead = dead(word);
            let base = word as u32 * 64;
            let mut at = 0;
            loop {
                // Dead pages from `at` on, then live ones.
                let len = (!(dead >> at)).trailing_zeros().min(64 - at);
                if len != 0 {
                    some_lazy |= freed & ones_at(at, len) != 0;
                    at += len;
                }
                if at == 64 {
                    break;
                }
                if some_lazy {
                    sink(start, base + at);
                    some_lazy = false;
                }
                at += (dead >> at).trailing_zeros().min(64 - at);
                start = base + at;
                if at == 64 {
                    break;
                }
            }
            let is_last = word == last;
            let not_passed_on = if some_lazy { base + 64 - start } else { 0 };
            if is_last || is_enough(not_passed_on) && !goes_on(word) {
                if some_lazy {
                    sink(start, base + 64);
                }
                return if is_last { lazy.len() } else { word + 1 };
            }
        }
        lazy.len()
    }

    /// Unmaps a range of pages in spans of the seat's; its lazy pages are whole areas. Returns true
    /// if that failed. These areas are then marked like areas that other CPUs freed, and are
    /// collected like these: however many of their pages were unmapped, they are
    /// lazy as a whole, and all of their pages are unmapped again.
    fn fails_to_unmap(&self, start: u32, end: u32) -> bool {
        if self.unmap(start, end) {
            return false;
        }
        let mut at = start;
        while at < end {
            let (number, place) = self.space.spans.place(at);
            let span = self.span(number);
            let here = (self.space.spans.pages() - place).min(end - at);
            let mut kept = 0;
            for (word, mask) in bits::words_of(place, here) {
                let lazy = &span.bits(SpanBits::Lazy)[word];
                let again = lazy.load(Relaxed) & mask;
                lazy.store(lazy.load(Relaxed) & !again, Relaxed);
                let starts = again & span.bits(SpanBits::Starts)[word].load(Relaxed);
                span.sent()[word].fetch_or(starts, Release);
                kept += again.count_ones();
            }
            let lazy = span.lazy();
            span.set_lazy(Marked {
                pages: lazy.pages - kept,
                ..lazy
            });
            self.unsoil(span, kept);
            self.words.purgeable.sub(u64::from(kept));
            at += here;
        }
        true
    }

    /// Calls the platform. Returns whether these pages are unmapped.
    #[inline(always)]
    pub(in super::super) fn unmap(self, start: u32, end: u32) -> bool {
        let range = PageRange::new(self.space.page(start), u64::from(end - start))
            .expect("a window ends inside the number range");
        self.words.counters.unmaps.add(1);
        let calling = self.space.calling_out();
        let unmapped = self.space.platform.unmap(range).is_ok();
        calling.end();
        if !unmapped {
            self.words.counters.unmap_failures.add(1);
        }
        unmapped
    }

    /// Unmaps some of the arena's areas in the seat's list. Areas that cannot be unmapped are put
    /// aside until all others have been tried, so that they do not block those.
    fn pass_areas(&self) -> bool {
        self.ready_areas();
        let mut unmapped = self.pass_until_some();
        if unmapped == 0 {
            self.try_failed_again();
            unmapped = self.pass_until_some();
        }
        if unmapped == 0 {
            self.try_failed_again();
            return false;
        }
        self.words.areas_stamp.set(self.space.stamp());
        self.words.purgeable.sub(unmapped);
        self.words.add_unmapped(unmapped);
        true
    }

    /// When the list is empty, the areas that were put aside become the list.
    fn try_failed_again(&self) {
        let failed = self.words.areas_failed.link();
        self.words.areas_lazy.set_link(failed);
        self.words.areas_failed.set_link(None);
    }

    /// Goes on in the list until some pages are unmapped. Returns how many.
    fn pass_until_some(&self) -> u64 {
        let mut unmapped = 0;
        while unmapped == 0 && self.words.areas_lazy.link().is_some() {
            unmapped = self.pass_some_areas();
        }
        unmapped
    }

    /// Tries the first areas of the list. Returns how many pages are unmapped.
    fn pass_some_areas(&self) -> u64 {
        let mut areas = [(0, 0); PASS];
        let (mut count, mut pages) = (0, 0);
        let mut next = self.words.areas_lazy.link();
        while count < PASS
            && pages < UNMAP_PAGES
            && let Some(at) = next
        {
            let header = self.header(at);
            areas[count] = (at, header.pages());
            pages += header.pages();
            next = header.next();
            count += 1;
        }
        self.words.areas_lazy.set_link(next);
        let areas = &mut areas[..count];
        sort(areas);
        let mut unmapped = 0;
        let mut rest = &*areas;
        while let Some(&(start, _)) = rest.first() {
            let mut end = start;
            let joined = rest
                .iter()
                .take_while(|&&(at, pages)| {
                    let joins = at == end;
                    end = if joins { at + pages } else { end };
                    joins
                })
                .count();
            let (now, later) = rest.split_at(joined);
            rest = later;
            if self.unmap(start, end) {
                unmapped += u64::from(end - start);
                for &(at, _) in now {
                    self.append_waiting_area(at, self.header(at));
                }
                continue;
            }
            let list = &self.words.areas_failed;
            for &(at, _) in now {
                let lazy = self.header(at).lazy(list.link());
                self.space.table.set_header(at, lazy);
                list.set_link(Some(at));
            }
        }
        unmapped
    }
}

/// Sorts a few numbers: by insertion, because most come in order.
fn sort<T: Ord + Copy>(items: &mut [T]) {
    for end in 1..items.len() {
        let item = items[end];
        let mut at = end;
        while at > 0 && items[at - 1] > item {
            items[at] = items[at - 1];
            at -= 1;
        }
        items[at] = item;
    }
}
