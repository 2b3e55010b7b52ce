//! The purge: from lazy to waiting, from waiting to free.
//!
//! All of it is in bounded passes, so that whoever is interrupted by the bound is not for long.

use super::bits;
use super::seat::{Count, Held, Own, SeatWords};
use super::space::MERGES_MAX;
use super::span::{Bits, Marked, Owner};
use super::{AreaKind, FrameSource};
use crate::platform::{Barrier, Map, Relax};
use crate::sync::{
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    model_fence,
};
use crate::units::{PageRange, Run};

/// Spans, or areas of the arena, that are purged in one pass.
const PASS: usize = 6;
/// Calls of the platform's `unmap` that did so, after which a pass ends, with the word it is at.
const UNMAPS: u64 = 48;
/// Spans whose waiting pages become free in one request.
pub(super) const RELEASES: usize = 4;

impl<'m, P: Relax + Barrier + Map> Held<'_, 'm, P> {
    /// Pages of a span of the seat's have become lazy, and these words of its bitmap say so.
    #[inline(always)]
    pub(super) fn note_lazy(&self, number: u32, pages: u32, words: u32) {
        let span = self.span(number);
        let before = span.lazy();
        span.set_lazy(before.with(pages, words));
        self.words.add(Own::Purgeable, u64::from(pages));
        if before.pages == 0 {
            self.append_lazy(number);
        }
    }

    /// A span joins those in which something is lazy.
    fn append_lazy(&self, number: u32) {
        self.span(number).set_lazy_next(None);
        match self.words.link(Own::LazyTail) {
            Some(tail) => self.span(tail).set_lazy_next(Some(number)),
            None => self.words.set_link(Own::LazyHead, Some(number)),
        }
        self.words.set_link(Own::LazyTail, Some(number));
    }

    fn pop_lazy(&self) -> Option<u32> {
        let number = self.words.link(Own::LazyHead)?;
        let next = self.span(number).lazy_next();
        self.words.set_link(Own::LazyHead, next);
        if next.is_none() {
            self.words.set_link(Own::LazyTail, None);
        }
        Some(number)
    }

    fn append_waiting(&self, number: u32) {
        self.span(number).set_waiting_next(None);
        match self.words.link(Own::WaitTail) {
            Some(tail) => self.span(tail).set_waiting_next(Some(number)),
            None => self.words.set_link(Own::WaitHead, Some(number)),
        }
        self.words.set_link(Own::WaitTail, Some(number));
    }

    /// Takes what others freed in the seat's spans: it is lazy then, and the seat's to purge.
    /// Returns whether there was a message.
    #[inline]
    pub(super) fn collect_inbox(&self) -> bool {
        let is_full = self.words.inbox().load(Relaxed) != 0;
        if is_full {
            self.collect_all();
        }
        is_full
    }

    #[cold]
    fn collect_all(&self) {
        // Acquire pairs with the Release in `push_inbox`.
        let mut next = self.words.inbox().swap(0, AcqRel);
        while let Some(number) = (next as u32).checked_sub(1) {
            let span = self.span(number);
            next = span.inbox_next().load(Relaxed);
            match span.owner() {
                Owner::Areas(cpu) | Owner::Block(cpu) if cpu == self.cpu => {
                    // Whoever frees sets its bits and then this: either it is seen here that it
                    // was set, and so are the bits, or whoever sets it next sends the span again.
                    span.pending().swap(0, SeqCst);
                    model_fence();
                    self.collect_span(number);
                }
                // Handed on since it was sent.
                Owner::Areas(cpu) | Owner::Block(cpu) => self.push_inbox(cpu, number),
                Owner::Arena => self.forget_sent(number),
            }
        }
    }

    /// A span that was sent to a former owner, and was the arena's when it came, is in no inbox
    /// any more.
    #[cold]
    pub(super) fn forget_sent(&self, number: u32) {
        let span = self.span(number);
        // Since it was looked at, a CPU may have taken it, and somebody freed in it who saw that
        // it was on its way, and did not send it: then its bits are seen here, as above, and with
        // them whose it is.
        span.pending().swap(0, SeqCst);
        model_fence();
        let has_some = span.remote().iter().any(|word| word.load(SeqCst) != 0);
        if has_some
            && let Some(cpu) = span.owner().cpu()
            && span.pending().swap(1, AcqRel) == 0
        {
            self.push_inbox(cpu, number);
        }
    }

    /// Sends a span, which is in no inbox and marked as pending, to its owner.
    pub(super) fn push_inbox(&self, owner: u16, number: u32) {
        let inbox = self.space.seat_words(owner).inbox();
        let mut head = inbox.load(Relaxed);
        loop {
            self.span(number).inbox_next().store(head, Relaxed);
            // Release: whoever takes the list sees the link.
            match inbox.compare_exchange_weak(head, u64::from(number) + 1, Release, Relaxed) {
                Ok(_) => return,
                Err(found) => head = found,
            }
        }
    }

    /// Moves a span's remote bits to its lazy ones.
    pub(super) fn collect_span(&self, number: u32) {
        let span = self.span(number);
        let (mut pages, mut words) = (0, 0);
        for (word, remote) in span.remote().iter().enumerate() {
            if remote.load(SeqCst) == 0 {
                continue;
            }
            // Acquire pairs with the Release of whoever freed.
            let freed = remote.swap(0, Acquire);
            let lazy = &span.bits(Bits::Lazy)[word];
            let others = span.bits(Bits::Free)[word].load(Relaxed)
                | span.bits(Bits::Waiting)[word].load(Relaxed)
                | lazy.load(Relaxed);
            if freed & others != 0 {
                // Its owner and somebody else freed the same area at the same time.
                self.words.count(Count::DoubleFrees, 1);
                self.space
                    .sub_lazy(u64::from((freed & others).count_ones()));
            }
            let freed = freed & !others;
            lazy.store(lazy.load(Relaxed) | freed, Relaxed);
            pages += freed.count_ones();
            words |= 1 << word;
        }
        if pages != 0 {
            self.note_lazy(number, pages, words);
            if matches!(span.owner(), Owner::Block(_)) {
                self.soil(span, pages);
            }
        }
    }

    /// Unmaps what is lazy in some spans, or some areas of the arena, of the seat's. Returns
    /// whether anything was unmapped.
    ///
    /// What the platform fails to unmap stays lazy; if nothing was unmapped, all was tried.
    pub(super) fn pass(&self) -> bool {
        let spans = self.pass_spans();
        let areas = self.pass_areas();
        let left = self.words.get(Own::Purgeable);
        if !spans && !areas {
            self.words.set(Own::Stuck, left);
            return false;
        }
        self.words.count(Count::Purges, 1);
        let stuck = self.words.get(Own::Stuck);
        self.words.set(Own::Stuck, stuck.min(left));
        true
    }

    /// Unmaps what is lazy in some spans. Those in which nothing can be unmapped go to the end of
    /// the list, and the others are tried before it is given up.
    fn pass_spans(&self) -> bool {
        let mut left = None;
        loop {
            let (tried, unmapped) = self.pass_some_spans();
            if unmapped != 0 || tried == 0 {
                return unmapped != 0;
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
        let first = self.words.link(Own::LazyHead);
        core::iter::successors(first, |&number| self.span(number).lazy_next()).count()
    }

    /// Tries the first spans of the list. How many, and how many pages of them are unmapped.
    fn pass_some_spans(&self) -> (usize, u64) {
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
        // Runs of pages in which nobody is and something is lazy, joined where spans touch.
        let mut failed = false;
        let mut pending: Option<(u32, u32)> = None;
        let done = || self.words.read(Count::Unmaps) - self.words.read(Count::UnmapFailures);
        let unmaps = done() + UNMAPS;
        let is_enough = || done() > unmaps;
        let mut looked_at = 0;
        // The words of the last span's bitmaps that were looked at.
        let mut words = 0;
        for &number in numbers {
            if is_enough() {
                break;
            }
            looked_at += 1;
            let first = self.space.spans.first(number);
            words = self.for_each_dead_run(number, is_enough, |start, end| {
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
                self.collect_span(number);
            }
        }
        self.words.sub(Own::Purgeable, unmapped);
        self.words.add_unmapped(unmapped);
        (looked_at, unmapped)
    }

    /// What was lazy in the first words of a span, and is unmapped now, waits for that generation.
    /// Returns how many pages that are.
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
        };
        for word in bits::places(later.words) {
            later.pages += span.bits(Bits::Lazy)[word].load(Relaxed).count_ones();
        }
        let now = lazy.words & looked_at;
        for word in bits::places(now) {
            let lazy = &span.bits(Bits::Lazy)[word];
            let waiting = &span.bits(Bits::Waiting)[word];
            waiting.store(waiting.load(Relaxed) | lazy.load(Relaxed), Relaxed);
            lazy.store(0, Relaxed);
        }
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

    /// Calls `sink` with each run of pages of a span in which nobody is and something is lazy, until
    /// it is enough after a word. Returns how many words were looked at, those included in which
    /// nothing is lazy.
    #[inline(always)]
    fn for_each_dead_run(
        &self,
        number: u32,
        is_enough: impl Fn() -> bool,
        mut sink: impl FnMut(u32, u32),
    ) -> usize {
        let span = self.span(number);
        let (lazy, free) = (span.bits(Bits::Lazy), span.bits(Bits::Free));
        let waiting = span.bits(Bits::Waiting);
        let dead = |word: usize| {
            lazy[word].load(Relaxed) | free[word].load(Relaxed) | waiting[word].load(Relaxed)
        };
        let words = span.lazy().words;
        if words == 0 {
            return lazy.len();
        }
        // The words with something lazy, and those beside them that may join with it or with the
        // next span.
        let mut first = words.trailing_zeros() as usize;
        while first > 0 && dead(first - 1) == !0 {
            first -= 1;
        }
        let mut last = words.ilog2() as usize;
        while last + 1 < lazy.len() && dead(last + 1) == !0 {
            last += 1;
        }
        // The run that reaches the end of the last word, and whether something in it is lazy.
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
                    some_lazy |= freed >> at & (!0 >> (64 - len)) != 0;
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
            if is_last || is_enough() {
                if some_lazy {
                    sink(start, base + 64);
                }
                return if is_last { lazy.len() } else { word + 1 };
            }
        }
        lazy.len()
    }

    /// Unmaps a range of pages in spans of the seat's. True if that failed: what was lazy in it is
    /// then as if others had freed it, for [`collect_span`](Self::collect_span).
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
            bits::for_each_part(place, here, |word, mask| {
                let lazy = &span.bits(Bits::Lazy)[word];
                let again = lazy.load(Relaxed) & mask;
                lazy.store(lazy.load(Relaxed) & !again, Relaxed);
                span.remote()[word].fetch_or(again, Release);
                kept += again.count_ones();
            });
            let lazy = span.lazy();
            span.set_lazy(Marked {
                pages: lazy.pages - kept,
                ..lazy
            });
            self.unsoil(span, kept);
            self.words.sub(Own::Purgeable, u64::from(kept));
            at += here;
        }
        true
    }

    fn unmap(&self, start: u32, end: u32) -> bool {
        let range = PageRange::new(self.space.page(start), u64::from(end - start))
            .expect("a window ends inside the number range");
        self.words.count(Count::Unmaps, 1);
        let unmapped = self.space.platform.unmap(range).is_ok();
        if !unmapped {
            self.words.count(Count::UnmapFailures, 1);
        }
        unmapped
    }

    /// Unmaps some of the arena's areas in the seat's list. Those that cannot be unmapped are put
    /// aside until all others have been tried, so that they hide none.
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
        self.words.set(Own::AreasStamp, self.space.stamp());
        self.words.sub(Own::Purgeable, unmapped);
        self.words.add_unmapped(unmapped);
        true
    }

    /// With an empty list: those that were put aside become it.
    fn try_failed_again(&self) {
        let failed = self.words.link(Own::AreasFailed);
        self.words.set_link(Own::AreasLazy, failed);
        self.words.set_link(Own::AreasFailed, None);
    }

    /// Goes on in the list until something is unmapped. Returns how many pages that are.
    fn pass_until_some(&self) -> u64 {
        let mut unmapped = 0;
        while unmapped == 0 && self.words.link(Own::AreasLazy).is_some() {
            unmapped = self.pass_some_areas();
        }
        unmapped
    }

    /// Tries the first areas of the list. Returns how many pages are unmapped.
    fn pass_some_areas(&self) -> u64 {
        let mut areas = [(0, 0); PASS];
        let mut count = 0;
        let mut next = self.words.link(Own::AreasLazy);
        while count < PASS
            && let Some(at) = next
        {
            let header = self.header(at);
            areas[count] = (at, header.pages());
            next = header.next();
            count += 1;
        }
        self.words.set_link(Own::AreasLazy, next);
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
            let list = if self.unmap(start, end) {
                unmapped += u64::from(end - start);
                Own::AreasWait
            } else {
                Own::AreasFailed
            };
            for &(at, _) in now {
                let lazy = self.header(at).lazy(self.words.link(list));
                self.space.table.set_header(at, lazy);
                self.words.set_link(list, Some(at));
            }
        }
        unmapped
    }

    pub(super) fn header(&self, at: u32) -> super::Header {
        self.space
            .table
            .header(at)
            .expect("an area has its header until it is released")
    }

    /// The pages of one of the seat's spans become free, if there is one whose generation has
    /// passed. Frames behind them go back. Returns whether there was one.
    pub(super) fn release_span(&self, frames: &mut impl FrameSource) -> bool {
        let Some(number) = self.words.link(Own::WaitHead) else {
            return false;
        };
        let span = self.span(number);
        if span.stamp() > self.space.done() {
            return false;
        }
        let next = span.waiting_next();
        self.words.set_link(Own::WaitHead, next);
        if next.is_none() {
            self.words.set_link(Own::WaitTail, None);
        }
        let is_current = self.words.link(Own::Current) == Some(number);
        let is_block = matches!(span.owner(), Owner::Block(_));
        let is_free = !is_block || self.space.config.recycle;
        if !is_current && !is_block {
            self.unlist(number);
        }
        let has_frames = span.may_have_frames();
        for word in bits::places(span.waiting().words) {
            let waiting = span.bits(Bits::Waiting)[word].load(Relaxed);
            span.bits(Bits::Waiting)[word].store(0, Relaxed);
            let starts = &span.bits(Bits::Starts)[word];
            let mut freed = if has_frames {
                starts.load(Relaxed) & waiting
            } else {
                0
            };
            starts.store(starts.load(Relaxed) & !waiting, Relaxed);
            if is_free {
                let free = &span.bits(Bits::Free)[word];
                free.store(free.load(Relaxed) | waiting, Relaxed);
            }
            while freed != 0 {
                let at = word as u32 * 64 + freed.trailing_zeros();
                freed &= freed - 1;
                self.give_frames(self.space.spans.first(number) + at, frames);
            }
        }
        span.set_waiting(Marked::default());
        if is_block {
            self.block_released(number);
        } else if is_current {
            self.words
                .set(Own::Most, u64::from(self.space.spans.pages()));
        } else {
            self.list(number);
            self.return_surplus();
        }
        true
    }

    /// Gives the arena's areas that wait back to it, if their generation has passed. Returns
    /// whether there were some.
    pub(super) fn release_areas(&self, most: usize, frames: &mut impl FrameSource) -> bool {
        self.ready_areas();
        if self.words.link(Own::AreasReady).is_none() {
            return false;
        }
        let mut areas = [(0, 0); MERGES_MAX];
        let mut count = 0;
        // Frames go back before the arena's lock is taken: nothing is called under it.
        while count < most.min(MERGES_MAX)
            && let Some(at) = self.words.link(Own::AreasReady)
        {
            let header = self.header(at);
            self.words.set_link(Own::AreasReady, header.next());
            self.give_frames(at, frames);
            self.clear_arena_start(at);
            areas[count] = (at, header.pages());
            count += 1;
        }
        self.space.give(self.words, areas[..count].iter().copied());
        true
    }

    /// Areas of the arena whose generation has passed are ready, before others wait for a later one.
    /// Time: O(1) if none were, and else O(those that waited).
    pub(super) fn ready_areas(&self) {
        let waiting = self.words.link(Own::AreasWait);
        let Some(first) = waiting else { return };
        if self.words.get(Own::AreasStamp) > self.space.done() {
            return;
        }
        let ready = self.words.link(Own::AreasReady);
        if ready.is_some() {
            let mut last = first;
            while let Some(next) = self.header(last).next() {
                last = next;
            }
            let linked = self.header(last).lazy(ready);
            self.space.table.set_header(last, linked);
        }
        self.words.set_link(Own::AreasReady, waiting);
        self.words.set_link(Own::AreasWait, None);
    }

    /// Gives back the frames behind an area, if they are the space's.
    pub(super) fn give_frames(&self, at: u32, frames: &mut impl FrameSource) {
        let table = self.space.table;
        let header = self.header(at);
        if header.kind() != AreaKind::Vmalloc {
            return;
        }
        let mut run: Option<Run> = None;
        for page in at..at + header.pages() - 1 {
            let Some(frame) = table.frame(page) else {
                continue;
            };
            table.set_frame(page, None);
            run = match run {
                Some(run) if run.end() == frame => Run::new(run.start(), run.frames() + 1),
                _ => {
                    if let Some(run) = run {
                        frames.free_run(run);
                    }
                    Run::new(frame, 1)
                }
            };
        }
        if let Some(run) = run {
            frames.free_run(run);
        }
    }

    /// Everything that the seat can make free becomes so: what is lazy is unmapped, flushed and
    /// released. What the platform fails to unmap stays lazy.
    pub(super) fn purge_all(&self, frames: &mut impl FrameSource) {
        self.purge_lazy();
        self.release_all(frames);
    }

    /// The same without the release: nothing of it is free yet.
    pub(super) fn purge_lazy(&self) {
        self.collect_inbox();
        while self.pass() {}
        if self.space.unflushed() != 0 {
            self.space.flush(self.words);
        }
    }

    /// Everything whose generation has passed becomes free.
    pub(super) fn release_all(&self, frames: &mut impl FrameSource) {
        while self.release_span(frames) {}
        while self.release_areas(MERGES_MAX, frames) {}
    }
}

/// Sorts a few numbers: an insertion sort, because most come in order.
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

/// A count of all seats.
pub(super) fn sum<'m>(seats: impl Iterator<Item = SeatWords<'m>>, counter: Count) -> u64 {
    seats
        .map(|seat| seat.read(counter))
        .fold(0, u64::wrapping_add)
}
