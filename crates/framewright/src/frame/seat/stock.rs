//! A seat's stock: while memory abounds, whole words of 64 free frames behind the caches of order 0.
//!
//! One lock and one change of the index bring up to [`WORDS_MAX`] words of one free block, which
//! the policy chose for a single frame. Each word is cached as one block of order 6, with one tag
//! ([`Tag::stocked`]), until the cache in front of it is empty: then its 64 frames get tags of
//! their own and fill the cache. Frees never go into a stock.
//!
//! A stock is part of what its CPU may hold, at most half of that. It goes back as soon as the seat
//! finds that it may hold less, and whenever caches are drained.

use super::super::pageblock::Tag;
use super::super::zone::Zone;
use super::caches::{CACHE_MAX, SeatWords};
use crate::slots::WORD_ORDER;
use crate::units::{Mobility, Order};

/// The most words in one stock: a pageblock of 512 frames.
pub(super) const WORDS_MAX: usize = 8;

/// Frames of one word.
pub(in super::super) const WORD_FRAMES: usize = 1 << WORD_ORDER;

const _: () = assert!(WORD_FRAMES <= CACHE_MAX, "a word fits into an empty cache");

/// What remains of a word without its first frame, as blocks: slot and order.
const REST: [(usize, u8); 6] = [(1, 0), (2, 1), (4, 2), (8, 3), (16, 4), (32, 5)];

/// How many words a stock may have if the caches in use of its CPU may hold `share` frames each.
pub(super) const fn words_of(share: u64) -> usize {
    let words = share / 2 / WORD_FRAMES as u64;
    if words < WORDS_MAX as u64 {
        words as usize
    } else {
        WORDS_MAX
    }
}

impl<'m> SeatWords<'m> {
    /// Puts `words` words of free frames from `offset` on, which were just taken, into the stock,
    /// which is empty.
    pub(super) fn stock_up<P>(
        self,
        zone: &Zone<'m, P>,
        mobility: Mobility,
        (offset, words): (usize, usize),
    ) {
        let tag = Tag::stocked(self.number, mobility);
        for word in 0..words {
            zone.set_tag(offset + word * WORD_FRAMES, tag);
        }
        self.counters().net.add((words * WORD_FRAMES) as u64);
        self.set_stock(mobility, offset, words);
    }

    /// Takes a word out of the stock and puts its frames into the cache of order 0, which is empty.
    /// Returns the first frame instead of caching it.
    pub(super) fn unpack_word<P>(self, zone: &Zone<'m, P>, mobility: Mobility) -> Option<usize> {
        let (offset, words) = self.stock(mobility)?;
        self.set_stock(mobility, offset + WORD_FRAMES, words - 1);
        let is_ours = zone.tag(offset) == Tag::stocked(self.number, mobility);
        let tag = Tag::cached(self.number, Order::ZERO, mobility);
        zone.tags.fill(
            offset + 1,
            WORD_FRAMES - 1,
            tag.0,
            crate::sync::Ordering::Relaxed,
        );
        self.fill_cache(mobility, offset + 1, WORD_FRAMES - 1);
        if is_ours {
            return Some(offset);
        }
        // Another CPU freed the word before this one did, and has it.
        zone.count_corruption();
        self.pop(zone, mobility, Order::ZERO)
    }

    /// Gives the stock back. Never waits.
    pub(in super::super) fn give_stock<P>(self, zone: &Zone<'m, P>, mobility: Mobility) {
        let Some((offset, words)) = self.stock(mobility) else {
            return;
        };
        self.set_stock(mobility, 0, 0);
        let leave = |offset, order| {
            let order = Order::new(order).expect("orders in a word are small");
            zone.set_tag(offset, Tag::remote(order, mobility));
            zone.leave(self.counters(), offset);
            order.frames()
        };
        let mut frames = 0;
        for word in 0..words {
            let offset = offset + word * WORD_FRAMES;
            if zone.tag(offset) == Tag::stocked(self.number, mobility) {
                frames += leave(offset, WORD_ORDER);
            } else {
                // Another CPU freed the word before this one did, and has its first frame.
                zone.count_corruption();
                frames += REST
                    .map(|(slot, order)| leave(offset + slot, order))
                    .iter()
                    .sum::<u64>();
            }
        }
        self.counters().net.add(frames.wrapping_neg());
    }
}
