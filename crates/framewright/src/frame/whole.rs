//! Blocks of the pageblock order: a whole pageblock, and where CPUs look for one.
//!
//! Before, such a pageblock is entirely free; afterwards it is full of frames of one mobility. So
//! nothing has to be counted: descriptor and class are constants, by label and mobility.
//!
//! # CPUs that meet
//! All CPUs begin at the same end of memory, where the policy says. Two that meet at a pageblock
//! would meet at each one after it, and at the cache lines of the index: so the one that finds it
//! locked goes to the next [`REGION`] in which there is one, and stays there as long as there is
//! any. A CPU that meets nobody follows the policy alone.

use super::search::Wanted;
use super::seat::SeatWords;
use super::zone::Zone;
use crate::policy::{BlockFacts, End, Label, Policy, Pressure};
use crate::units::{Mobility, Order};

/// Pageblocks of which the bits of one row share a cache line.
const REGION: usize = 512;

/// The classes of pageblocks that are entirely free, or entirely one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct WholeClasses {
    /// By label.
    free: [u16; Label::COUNT],
    /// By label and mobility.
    taken: [[u16; 3]; Label::COUNT],
}

impl WholeClasses {
    pub(super) fn new(policy: &Policy, pageblock_order: Order) -> Self {
        let frames = pageblock_order.frames() as u32;
        let class = |label: usize, free: u32, by_mobility: [u32; 3]| {
            let label = Label::from_index(label).unwrap_or(Label::HighOrder);
            let facts = BlockFacts {
                label,
                free,
                by_mobility,
                absent: 0,
            };
            policy.classes().number(policy.class(&facts))
        };
        let full = |mobility: usize| core::array::from_fn(|m| u32::from(m == mobility) * frames);
        Self {
            free: core::array::from_fn(|label| class(label, frames, [0; 3])),
            taken: core::array::from_fn(|label| {
                core::array::from_fn(|mobility| class(label, 0, full(mobility)))
            }),
        }
    }

    #[inline(always)]
    pub(super) const fn free(&self, label: Label) -> u16 {
        self.free[label.index()]
    }

    #[inline(always)]
    pub(super) const fn taken(&self, label: Label, mobility: Mobility) -> u16 {
        self.taken[label.index()][mobility.index()]
    }
}

impl<'m, P> Zone<'m, P> {
    /// Takes a whole pageblock as one block; its offset, if there is one. Never waits.
    ///
    /// The same as [`take_some`](Self::take_some), for the one order at which nothing has to be
    /// weighed: a whole pageblock is a whole pageblock, and which is the cheapest is ranked.
    #[inline]
    pub(super) fn take_whole(&self, seat: SeatWords<'m>, mobility: Mobility) -> Option<usize> {
        let order = self.pageblock_order();
        let list = self.policy.list(mobility, Pressure::default());
        let end = self.policy.end(mobility);
        let mut from = 0;
        while let Some((rank, class, _)) = self.index.cheapest(list, order.index(), from) {
            let class = class as u16;
            let row = self.row(order.index(), class);
            let mut at = self.begin_away(seat, row, end);
            let Some(first) = self.index.find(row, end, at, true) else {
                self.index.lower_flag(list, row);
                from = rank + 1;
                continue;
            };
            let mut id = first;
            loop {
                if self.take_this(seat, id, class, Wanted { order, mobility }) {
                    return Some(id << self.map.pageblock_order);
                }
                at = self.go_away(seat, row, end, id).or(at);
                match self.index.find(row, end, at, true) {
                    Some(next) => id = next,
                    None => break,
                }
            }
            from = rank + 1;
        }
        None
    }

    /// Takes pageblock `id` if it is entirely free, of `class`, and nobody holds it.
    #[inline(always)]
    fn take_this(&self, seat: SeatWords<'m>, id: usize, class: u16, wanted: Wanted) -> bool {
        let Some(held) = self.try_lock(seat, id) else {
            return false;
        };
        let meta = held.meta();
        let is_free = meta.orders() >> self.map.pageblock_order & 1 != 0;
        if meta.class() != class || !is_free || meta.is_isolated() {
            held.unlock();
            return false;
        }
        let label = meta.label();
        let is_own = label == Label::Of(wanted.mobility) || label == Label::Contiguous;
        let becomes = if is_own {
            label
        } else {
            self.fall_back(seat, &held, wanted, self.map.pageblock_order)
        };
        held.take_whole_as(wanted.mobility, becomes);
        true
    }

    /// From where on this seat looks for an entirely free pageblock in `row`: `None` at the end
    /// where the policy begins.
    #[inline(always)]
    pub(super) fn begin_away(&self, seat: SeatWords<'m>, row: usize, end: End) -> Option<usize> {
        let at = seat.away()?;
        let next = self.index.find(row, end, Some(at), false);
        // Nothing is left there; or the other end of memory is asked for.
        let is_there = next.is_some_and(|id| match end {
            End::Lowest => at + 1 == at / REGION * REGION + REGION && id - at <= REGION,
            End::Highest => at % REGION == 0 && at - id <= REGION,
        });
        if is_there {
            return Some(at);
        }
        seat.set_away(None);
        None
    }

    /// Where to look after somebody else was met at `id`: in the next region, if there is one, and
    /// from then on.
    #[cold]
    pub(super) fn go_away(
        &self,
        seat: SeatWords<'m>,
        row: usize,
        end: End,
        id: usize,
    ) -> Option<usize> {
        let region = match end {
            End::Lowest => id / REGION * REGION + REGION - 1,
            End::Highest => id / REGION * REGION,
        };
        if self.index.find(row, end, Some(region), false).is_some() {
            seat.set_away(Some(region));
            return Some(region);
        }
        Some(id)
    }
}
