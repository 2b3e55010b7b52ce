//! A seat's spans: the current one, the lists of the others, and taking areas from them.
//!
//! A span with free pages that is not the current one is in one list: that of the entirely free
//! ones, or one chosen by the longest run of its free pages and by whether an eighth or more is
//! free (*rich*). A seat looks for the span with the longest runs among the rich ones, because
//! these serve many requests before the next must be found. Poor ones are used before a request
//! goes to the arena.

use super::super::arena::WantedGap;
use super::super::space::LISTS;
use super::super::span::{Span, SpanBits, SpanOwner, bits};
use super::Held;
use crate::platform::RangePlatform;

/// Lists 0 to 10: poor spans, by the logarithm of their longest run; 11 to 21: rich ones. This one:
/// the entirely free ones.
const EMPTY: usize = LISTS - 1;
const CLASSES: usize = 11;
const _: () = assert!(2 * CLASSES == EMPTY && 1024 < 1 << CLASSES);
/// How many spans that may or may not fit are looked at in the lists.
const TRIES: usize = 8;

/// Which spans may be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Choice {
    /// Rich ones, then entirely free ones.
    Rich,
    /// Poor ones.
    Poor,
}

impl<'s, 'm, P: RangePlatform> Held<'s, 'm, P> {
    #[inline(always)]
    pub(in super::super) fn span(&self, span: u32) -> Span<'s, 'm> {
        self.space.spans.get(span)
    }

    /// Puts a span into the list that it belongs to now. It is in no list, and not the current one.
    pub(in super::super) fn list(&self, number: u32) {
        let span = self.span(number);
        let free = span.bits(SpanBits::Free);
        let (longest, pages) = bits::survey(free);
        if longest == 0 {
            span.set_listed(0);
            return;
        }
        let all = self.space.spans.pages();
        let list = if longest == all {
            self.words.empties.add(1);
            EMPTY
        } else if pages >= all / 8 {
            CLASSES + longest.ilog2() as usize
        } else {
            longest.ilog2() as usize
        };
        let head = self.words.head(list);
        span.set_next(head);
        span.set_prev(None);
        if let Some(head) = head {
            self.span(head).set_prev(Some(number));
        }
        self.words.set_head(list, Some(number));
        self.words.mask.set(self.words.mask.get() | 1 << list);
        span.set_listed(u64::from(longest) << 8 | (list as u64 + 1));
    }

    /// Takes a span out of its list, if it is in one. Returns its longest run.
    pub(in super::super) fn unlist(&self, number: u32) -> u32 {
        let span = self.span(number);
        let listed = span.listed();
        let Some(list) = (listed as usize & 0xff).checked_sub(1) else {
            return 0;
        };
        if list == EMPTY {
            self.words.empties.sub(1);
        }
        let (next, prev) = (span.next(), span.prev());
        if let Some(next) = next {
            self.span(next).set_prev(prev);
        }
        match prev {
            Some(prev) => self.span(prev).set_next(next),
            None => {
                self.words.set_head(list, next);
                if next.is_none() {
                    self.words.mask.set(self.words.mask.get() & !(1 << list));
                }
            }
        }
        span.set_listed(0);
        (listed >> 8) as u32
    }

    /// Removes all spans from the lists; the caller lists them anew.
    pub(in super::super) fn forget_lists(&self) {
        for list in 0..LISTS {
            self.words.set_head(list, None);
        }
        self.words.mask.set(0);
        self.words.empties.set(0);
    }

    /// Takes an area out of the current span.
    pub(in super::super) fn take_current(&self, pages: u32, align: u32) -> Option<u32> {
        let current = self.words.current.link()?;
        let free = self.span(current).bits(SpanBits::Free);
        let (cursor, end) = (self.words.cursor.page(), self.words.end.page());
        let aligned = cursor.next_multiple_of(align);
        if aligned + pages <= end {
            if aligned > cursor {
                self.put_aside(free, cursor, aligned);
            }
            self.words.cursor.set(u64::from(aligned + pages));
            return Some(aligned);
        }
        if pages > self.words.most.page().max(end - cursor) {
            return None;
        }
        if cursor < end {
            self.put_aside(free, cursor, end);
            self.words.end.set(u64::from(cursor));
        }
        let first = self.space.spans.first(current);
        // The search has seen the pages before the bump, so it goes on behind them.
        let found = bits::find(free, cursor - first, pages, align);
        let Some((at, stop)) = found.or_else(|| bits::find(free, 0, pages, align)) else {
            if align == 1 {
                self.words.most.set(u64::from(pages - 1));
            }
            return None;
        };
        bits::clear(free, at, stop - at);
        self.words.cursor.set(u64::from(first + at + pages));
        self.words.end.set(u64::from(first + stop));
        Some(first + at)
    }

    /// Makes pages of one of the seat's spans free again. They have no mapping.
    pub(in super::super) fn put_back(&self, number: u32, at: u32, pages: u32) {
        let free = self.span(number).bits(SpanBits::Free);
        if self.words.current.link() == Some(number) {
            if at + pages == self.words.cursor.page() {
                self.words.cursor.set(u64::from(at));
            } else {
                self.put_aside(free, at, at + pages);
            }
            return;
        }
        self.unlist(number);
        let (_, place) = self.space.spans.place(at);
        bits::set(free, place, pages);
        self.list(number);
        self.return_surplus();
    }

    /// Turns pages of the bump into free pages of the current span.
    fn put_aside(&self, free: &[crate::sync::AtomicU64], from: u32, to: u32) {
        let (_, at) = self.space.spans.place(from);
        bits::set(free, at, to - from);
        // They may join with free pages beside them.
        self.words.most.set(u64::from(self.space.spans.pages()));
    }

    /// Puts the current span among the others.
    pub(in super::super) fn retire_current(&self) {
        let Some(current) = self.words.current.link() else {
            return;
        };
        let (cursor, end) = (self.words.cursor.page(), self.words.end.page());
        if cursor < end {
            self.put_aside(self.span(current).bits(SpanBits::Free), cursor, end);
        }
        self.words.cursor.set(0);
        self.words.end.set(0);
        self.words.current.set_link(None);
        self.list(current);
        self.return_surplus();
    }

    /// Makes a span of the lists the current one.
    fn make_current(&self, number: u32) {
        self.retire_current();
        let longest = self.unlist(number);
        let first = self.space.spans.first(number);
        self.words.current.set_link(Some(number));
        self.words.cursor.set(u64::from(first));
        self.words.end.set(u64::from(first));
        self.words.most.set(u64::from(longest));
    }

    /// Takes an area out of a span of the lists, which becomes the current one.
    pub(in super::super) fn take_listed(
        &self,
        pages: u32,
        align: u32,
        choice: Choice,
    ) -> Option<u32> {
        let number = self.choose(pages, align, choice)?;
        self.make_current(number);
        let at = self.take_current(pages, align);
        debug_assert!(
            at.is_some(),
            "a chosen span has the pages for which it was chosen"
        );
        at
    }

    /// Whether [`take_listed`](Self::take_listed) finds a rich span.
    pub(in super::super) fn has_rich(&self, pages: u32, align: u32) -> bool {
        self.choose(pages, align, Choice::Rich).is_some()
    }

    fn choose(&self, pages: u32, align: u32, choice: Choice) -> Option<u32> {
        let found = self.choose_partly_free(choice, pages, align, TRIES);
        match choice {
            Choice::Rich => found.or_else(|| self.words.head(EMPTY)),
            Choice::Poor => found,
        }
    }

    /// The same as [`take_listed`](Self::take_listed) from any span of the lists, however long the search takes.
    #[cold]
    pub(in super::super) fn take_anywhere(&self, pages: u32, align: u32) -> Option<u32> {
        let found = [Choice::Poor, Choice::Rich]
            .into_iter()
            .find_map(|choice| self.choose_partly_free(choice, pages, align, usize::MAX));
        self.make_current(found.or_else(|| self.words.head(EMPTY))?);
        self.take_current(pages, align)
    }

    /// A span that has an aligned run: from the lists of rich ones from the longest runs down, or
    /// of poor ones from the shortest up, so that long runs stay for requests that need them.
    fn choose_partly_free(
        &self,
        choice: Choice,
        pages: u32,
        align: u32,
        mut tries: usize,
    ) -> Option<u32> {
        let offset = match choice {
            Choice::Rich => CLASSES,
            Choice::Poor => 0,
        };
        let lists = self.words.mask.get() >> offset & ((1 << CLASSES) - 1);
        let class = pages.ilog2();
        let mut left = lists >> class << class;
        while left != 0 {
            let list = match choice {
                Choice::Rich => left.ilog2(),
                Choice::Poor => left.trailing_zeros(),
            };
            left &= !(1 << list);
            let mut next = self.words.head(offset + list as usize);
            while let Some(number) = next {
                let span = self.span(number);
                let longest = (span.listed() >> 8) as u32;
                if longest >= pages + align - 1 {
                    return Some(number);
                }
                if align > 1
                    && longest >= pages
                    && bits::find(span.bits(SpanBits::Free), 0, pages, align).is_some()
                {
                    return Some(number);
                }
                tries -= 1;
                if tries == 0 {
                    return None;
                }
                next = span.next();
            }
        }
        None
    }

    /// Takes a span from the arena; it becomes the current one.
    ///
    /// Refuses if much of the window lies idle in spans: in a small or nearly full window first fit
    /// packs closer.
    pub(in super::super) fn take_span(&self) -> bool {
        let pages = self.space.spans.pages();
        if self.space.has_enough_spans() {
            return false;
        }
        let takes = Some(&self.words.counters.span_takes);
        let wanted = WantedGap::new(pages, u64::from(pages));
        let cut = wanted.and_then(|wanted| self.space.cut(self.words, &wanted, takes));
        let Some(first) = cut else {
            return false;
        };
        let (number, _) = self.space.spans.place(first);
        self.retire_current();
        self.space.add_span();
        self.span(number).set_owner(SpanOwner::Areas(self.cpu));
        self.words.current.set_link(Some(number));
        self.words.cursor.set(u64::from(first));
        self.words.end.set(u64::from(first + pages));
        self.words.most.set(0);
        true
    }

    /// Gives entirely free spans back to the arena, beyond those that a seat keeps.
    pub(in super::super) fn return_surplus(&self) {
        self.return_empties(self.space.empties_max);
    }

    /// Gives all entirely free spans back to the arena, vmap blocks too.
    pub(in super::super) fn return_all_empties(&self) {
        let current = self.words.current.link();
        let bump = self.words.end.get() - self.words.cursor.get();
        let is_free = |number: u32| {
            let free = bits::count(self.span(number).bits(SpanBits::Free));
            u64::from(free) + bump == u64::from(self.space.spans.pages())
        };
        if current.is_some_and(is_free) {
            self.retire_current();
        }
        self.return_empties(0);
        self.return_empty_blocks();
    }

    /// Gives entirely free spans back to the arena until `keep` are left.
    pub(in super::super) fn return_empties(&self, keep: u64) {
        let all = self.space.spans.pages();
        let mut count = 0;
        let surplus = core::iter::from_fn(|| {
            if self.words.empties.get() <= keep {
                return None;
            }
            let number = self.words.head(EMPTY)?;
            self.unlist(number);
            self.unown(number);
            count += 1;
            Some((self.space.spans.first(number), all))
        });
        self.space.give(self.words, surplus);
        // Only now: a CPU that sees the count finds the spans in the arena.
        self.words.counters.span_returns.add(count);
    }

    /// Gives up an entirely free span: its pages are in no bitmap.
    fn unown(&self, number: u32) {
        let span = self.span(number);
        bits::clear(span.bits(SpanBits::Free), 0, self.space.spans.pages());
        span.set_frames(false);
        span.set_owner(SpanOwner::Arena);
        self.space.sub_span();
    }
}
