//! Frees from other CPUs: how they are sent, and how the owner of the span collects them.
//!
//! ```text
//!   a CPU that frees    header: live ─▶ lazy    one bit, at the area's start    span into the inbox
//!   the owner           span out of the inbox   bits, and by them the headers   all pages are lazy
//! ```
//!
//! The header is the truth about an area, and the bit only points to it. So an area is sent and
//! collected as a whole (V9), however long it is and wherever the CPU that frees is interrupted.

use super::super::seat::Held;
use super::super::span::{SpanBits, SpanOwner, bits};
use super::super::{AreaHeader, AreaState};
use crate::platform::RangePlatform;
use crate::seats::{Inboxes, Parcel};
use crate::sync::{
    AtomicU64,
    Ordering::{Acquire, SeqCst},
    load_in_order,
};

impl<'m, P: RangePlatform> Inboxes<'m> for Held<'_, 'm, P> {
    #[inline(always)]
    fn here(&self) -> u16 {
        self.cpu
    }

    #[inline(always)]
    fn inbox(&self, cpu: u16) -> &'m AtomicU64 {
        &self.space.seat_words(cpu).inbox
    }

    #[inline(always)]
    fn parcel(&self, number: u32) -> Parcel<'m> {
        self.span(number).parcel()
    }

    fn owner(&self, number: u32) -> Option<u16> {
        self.span(number).owner().cpu()
    }

    fn has_remote(&self, number: u32) -> bool {
        let mut sent = self.span(number).sent().iter();
        sent.any(|word| load_in_order(word) != 0)
    }

    /// Makes the areas that other CPUs freed in a span of the seat's lazy, each as a whole. The bit says
    /// where an area starts, and its header how long it is.
    fn collect(&self, number: u32) {
        let span = self.span(number);
        let first = self.space.spans.first(number);
        let is_block = matches!(span.owner(), SpanOwner::Block(_));
        let (mut pages, mut words, mut is_mapped) = (0, 0, false);
        for (word, sent) in span.sent().iter().enumerate() {
            if sent.load(SeqCst) == 0 {
                continue;
            }
            // Acquire pairs with the Release in `send`: this CPU sees the header.
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
                bits::set(span.bits(SpanBits::Lazy), place, here);
                pages += here;
                words |= bits::summary_of(place, here);
                is_mapped |= header.next() != Some(first + place);
            }
        }
        if pages != 0 {
            self.note_lazy(span, pages, words, is_mapped);
            if is_block {
                self.soil(span, pages);
            }
        }
    }
}

impl<P: RangePlatform> Held<'_, '_, P> {
    /// Sends an area in another CPU's span back to the span's owner. Its header says already that it is
    /// lazy. One bit stands for all of it, so that no part of it can arrive before another.
    #[inline(always)]
    pub(in super::super) fn send(&self, owner: u16, number: u32, place: u32) {
        let span = self.span(number);
        // At least Release: it pairs with the Acquire in `collect`.
        span.sent()[(place / 64) as usize].fetch_or(1 << (place % 64), SeqCst);
        self.notify(owner, number);
        self.words.counters.remote_frees.add(1);
    }
}

/// How many pages become lazy when a CPU frees an area in a span: in a vmap block its whole slot.
#[inline(always)]
pub(in super::super) const fn lazy_pages(header: AreaHeader, is_block: bool) -> u32 {
    if is_block {
        header.pages().next_power_of_two()
    } else {
        header.pages()
    }
}
