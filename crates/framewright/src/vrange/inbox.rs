//! Frees from other CPUs: how they are sent, and how the owner of the span collects them.
//!
//! ```text
//!   a CPU that frees    header: live ─▶ lazy    one bit, at the area's start    span into the inbox
//!   the owner           span out of the inbox   bits, and by them the headers   all pages are lazy
//! ```
//!
//! The header is the truth about an area, and the bit only points to it. So an area is sent and
//! collected as a whole (V9), however long it is and wherever the CPU that frees is interrupted.

use super::seat::{Count, Held};
use super::span::{Bits, Owner};
use super::{AreaState, Header, bits};
use crate::platform::{Barrier, Map, Relax};
use crate::sync::{
    Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst},
    model_fence,
};

impl<P: Relax + Barrier + Map> Held<'_, '_, P> {
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
        let has_some = span.sent().iter().any(|word| word.load(SeqCst) != 0);
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

    /// What others freed in a span of the seat's is lazy, each area as a whole: its bit says where
    /// it starts, its header how long it is.
    pub(super) fn collect_span(&self, number: u32) {
        let span = self.span(number);
        let first = self.space.spans.first(number);
        let is_block = matches!(span.owner(), Owner::Block(_));
        let (mut pages, mut words) = (0, 0);
        for (word, sent) in span.sent().iter().enumerate() {
            if sent.load(SeqCst) == 0 {
                continue;
            }
            // Acquire pairs with the Release in `send`: the header is seen.
            let mut starts = sent.swap(0, Acquire);
            while starts != 0 {
                let place = word as u32 * 64 + starts.trailing_zeros();
                starts &= starts - 1;
                let header = self.header(first + place);
                debug_assert!(
                    header.state() == AreaState::Lazy,
                    "V9: its header came first"
                );
                let here = lazy_pages(header, is_block);
                bits::set(span.bits(Bits::Lazy), place, here);
                pages += here;
                words |= bits::words_of(place, here);
            }
        }
        if pages != 0 {
            self.note_lazy(number, pages, words);
            if is_block {
                self.soil(span, pages);
            }
        }
    }

    /// An area in another CPU's span, whose header says that it is lazy, goes back to the span's
    /// owner: by one bit, so that no part of it can come before another.
    #[inline(always)]
    pub(super) fn send(&self, owner: u16, number: u32, place: u32) {
        let span = self.span(number);
        // At least Release: it pairs with the Acquire in `collect_span`.
        span.sent()[(place / 64) as usize].fetch_or(1 << (place % 64), SeqCst);
        // The bit first, then this; the owner the other way round: so one sees the other. Mostly the
        // span is on its way already, and a look is all it costs.
        model_fence();
        if span.pending().load(SeqCst) == 0 && span.pending().swap(1, AcqRel) == 0 {
            self.push_inbox(owner, number);
        }
        self.words.count(Count::RemoteFrees, 1);
    }
}

/// How many pages become lazy when an area in a span is freed: in a vmap block all of its slot.
#[inline(always)]
pub(super) const fn lazy_pages(header: Header, is_block: bool) -> u32 {
    if is_block {
        header.pages().next_power_of_two()
    } else {
        header.pages()
    }
}
