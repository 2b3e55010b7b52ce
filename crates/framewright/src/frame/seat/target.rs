//! Takes frames to move contents to, and frees many blocks at once.

use super::super::pageblock::{HeldBlock, Tag, big};
use super::super::wanted::WantedBlock;
use super::Seat;
use crate::platform::FramePlatform;
use crate::policy::{Class, Label, SHARE_SETTLED, takes_contents};
use crate::units::{Frame, Mobility, Order};

/// How many pageblocks of one row a search tries before the next row.
const TRIES: usize = 8;

/// Where frames to move contents to may come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TargetRoom {
    /// From free blocks below this order, in pageblocks that hold movable contents already. So
    /// never from a free block as large as the one to be made, and never from an entirely free
    /// pageblock, except where the contents to move fill one. To make a whole pageblock also from
    /// those without movable contents: a pageblock that a request waits for is worth more than the
    /// stock there.
    Below(Order),
    /// The same, and from any frames lent to movable contents: free blocks there, however large,
    /// are no use to the requests that room is made for.
    BelowOrLent(Order),
    /// From wherever movable requests may be served: only emptying the source counts.
    Anywhere,
    /// The same, but from lent frames only if there are no others.
    LentLast,
    /// From pageblocks that hold something and are not settled: for contents that have to leave a
    /// settled one.
    Unsettled,
}

impl TargetRoom {
    /// The largest free blocks from which a block of `order` may come.
    fn limit(self, order: Order, pageblock_order: Order) -> u8 {
        match self {
            Self::Anywhere | Self::LentLast | Self::BelowOrLent(_) => pageblock_order.get(),
            Self::Unsettled => pageblock_order.get() - 1,
            Self::Below(made) if order == pageblock_order => made.get().min(order.get() + 1) - 1,
            Self::Below(made) => made.min(pageblock_order).get() - 1,
        }
    }

    const fn is_anywhere(self) -> bool {
        matches!(self, Self::Anywhere | Self::LentLast)
    }

    /// Whether contents may go to pageblocks without movable contents, if labels do not decide.
    pub(crate) fn takes_pure(self, pageblock_order: Order) -> bool {
        matches!(self, Self::Below(made) if made >= pageblock_order)
    }

    /// Whether free blocks of order `size` in pageblocks of `class` may be broken for one of
    /// `order`.
    fn takes(self, class: Class, order: Order, size: u8, pageblock_order: Order) -> bool {
        if let Self::BelowOrLent(made) = self
            && !matches!(class, Class::Contiguous { .. })
        {
            let below = Self::Below(made);
            return size <= below.limit(order, pageblock_order)
                && below.takes(class, order, size, pageblock_order);
        }
        let is_whole = order == pageblock_order && size == order.get();
        match class {
            Class::Mixed { share, .. } if self == Self::Unsettled => share < SHARE_SETTLED,
            Class::Clean { .. } | Class::Mixed { .. } | Class::Contiguous { .. } => true,
            Class::Labelled { label, .. } => label.is_movable() || self.is_anywhere(),
            Class::Empty => is_whole || self.is_anywhere(),
            Class::Pure { .. } => self.is_anywhere() || self.takes_pure(pageblock_order),
            Class::HighOrder => false,
        }
    }
}

/// The result of a search for targets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FoundTargets {
    /// How many blocks were taken.
    pub(crate) taken: usize,
    /// Pageblocks looked at.
    pub(crate) looks: u64,
}

impl<'m, P: FramePlatform> Seat<'_, 'm, P> {
    /// Takes up to `out.len()` blocks of `order` to move contents to, live and movable: the
    /// smallest free blocks that suffice, in the fullest pageblocks, as for movable requests. The
    /// search does not go by position: it takes the cheapest pageblock in the index, and stays
    /// there until that is full. Fills `out` with the blocks' offsets in the zone.
    ///
    /// Never waits; passes by the pageblocks that other CPUs hold.
    pub(crate) fn take_targets(
        &mut self,
        order: Order,
        room: TargetRoom,
        out: &mut [u32],
    ) -> FoundTargets {
        let zone = self.zone;
        let mut found = FoundTargets::default();
        self.enter();
        if order > zone.pageblock_order() {
            if room.is_anywhere() {
                self.take_large_targets(order, out, &mut found);
            }
        } else {
            self.take_small_targets(order, room, out, &mut found);
        }
        for offset in &out[..found.taken] {
            zone.set_tag(*offset as usize, Tag::live(order, Mobility::Movable));
        }
        let frames = order.frames() * found.taken as u64;
        let counters = self.words.counters();
        counters.pgalloc[Mobility::Movable.index()].add(frames);
        counters.net.add(frames);
        self.exit();
        found
    }

    fn take_large_targets(&self, order: Order, out: &mut [u32], found: &mut FoundTargets) {
        let mobility = Mobility::Movable;
        for out in out {
            found.looks += 1;
            let Some(offset) = big::take(
                self.zone,
                self.words.counters(),
                WantedBlock { order, mobility },
            ) else {
                return;
            };
            // `big` counts what it takes, and so does the caller: count it once.
            self.words.counters().net.add(order.frames().wrapping_neg());
            *out = offset as u32;
            found.taken += 1;
        }
    }

    fn take_small_targets(
        &self,
        order: Order,
        room: TargetRoom,
        out: &mut [u32],
        found: &mut FoundTargets,
    ) {
        let zone = self.zone;
        let pressure = zone.policy.pressure(&zone.zone_facts());
        let list = zone.policy.list(Mobility::Movable, pressure);
        let limit = room.limit(order, zone.pageblock_order());
        // Lent frames come first if they have no other use: contents in frames that the requests
        // themselves could use would gain those requests nothing.
        let passes: &[Option<bool>] = match room {
            TargetRoom::BelowOrLent(_) => &[Some(true), Some(false)],
            TargetRoom::LentLast => &[Some(false), Some(true)],
            TargetRoom::Below(_) | TargetRoom::Anywhere | TargetRoom::Unsettled => &[None],
        };
        for lent in passes {
            for size in order.get()..=limit {
                let mut from = 0;
                while found.taken < out.len()
                    && let Some((rank, class, _)) =
                        zone.index.cheapest(list, usize::from(size), from)
                {
                    from = rank + 1;
                    let kind = zone
                        .policy
                        .classes()
                        .class(class as u16, zone.policy.is_labelled());
                    let is_meant = |kind| {
                        let is_lent = matches!(kind, Class::Contiguous { .. });
                        lent.is_none_or(|lent| lent == is_lent)
                            && room.takes(kind, order, size, zone.pageblock_order())
                    };
                    if kind.is_some_and(is_meant) {
                        self.take_from_class((list, class as u16), (order, size), room, out, found);
                    }
                }
            }
        }
    }

    /// Takes from the pageblocks of one row.
    fn take_from_class(
        &self,
        (list, class): (usize, u16),
        (order, size): (Order, u8),
        room: TargetRoom,
        out: &mut [u32],
        found: &mut FoundTargets,
    ) {
        let zone = self.zone;
        let row = zone.row(usize::from(size), class);
        let end = zone.policy.end(Mobility::Movable);
        let mut at = None;
        for _ in 0..TRIES {
            let Some(id) = zone.index.find(row, end, at, true) else {
                if at.is_none() {
                    zone.index.lower_flag(list, row);
                }
                return;
            };
            at = Some(id);
            found.looks += 1;
            let Some(mut held) = zone.try_lock(self.words.counters(), id) else {
                continue;
            };
            let meta = held.meta();
            let is_as_found =
                meta.class() == class && meta.orders() >> size & 1 != 0 && !meta.is_isolated();
            if is_as_found && is_target(&held, room, order) {
                let out = &mut out[found.taken..];
                found.taken += held.take(size, order, Mobility::Movable, out, 0);
            }
            held.unlock();
            if found.taken == out.len() {
                return;
            }
        }
    }

    /// Frees live blocks at once, each into its pageblock; successive blocks of one pageblock share
    /// one lock. Returns how many frames. A block that is not live with that order is passed over,
    /// and counts as a wrong free.
    pub(crate) fn free_at_once(&mut self, blocks: impl Iterator<Item = (Frame, Order)>) -> u64 {
        let zone = self.zone;
        let mut freed = 0;
        let mut given = 0;
        let mut held: Option<HeldBlock<'_, 'm, P>> = None;
        self.enter();
        for (frame, order) in blocks {
            let offset = zone.offset_unchecked(frame);
            let live = zone
                .tag_if_inside(offset)
                .and_then(|tag| tag.as_live_of(order));
            let id = offset >> zone.map.pageblock_order;
            if held.as_ref().is_none_or(|held| held.id != id) || order > zone.pageblock_order() {
                if let Some(held) = held.take() {
                    held.unlock();
                }
                if live.is_some() && order <= zone.pageblock_order() {
                    held = zone.try_lock(self.words.counters(), id);
                }
            }
            let Some(mobility) = live else {
                _ = self.refuse(frame, order);
                continue;
            };
            if let Some(held) = &mut held {
                // Looked at again under the lock.
                let is_live = zone.tag(offset) == Tag::live(order, mobility);
                if is_live && held.give(zone.slot(offset), order, mobility) {
                    zone.set_tag(offset, Tag::NONE);
                    given += order.frames();
                } else {
                    _ = self.refuse(frame, order);
                }
            } else if self.free_uncached(offset, order, mobility).is_ok() {
                // This call counts in the statistics itself.
                freed += order.frames();
            }
        }
        if let Some(held) = held {
            held.unlock();
        }
        self.words.counters().net.add(given.wrapping_neg());
        self.words.counters().pgfree.add(given);
        self.exit();
        freed + given
    }
}

/// Whether contents may be moved into a pageblock.
fn is_target<P>(held: &HeldBlock<'_, '_, P>, room: TargetRoom, order: Order) -> bool {
    let is_whole = order == held.zone.pageblock_order();
    let labelled = held.zone.policy.is_labelled();
    let is_lent = held.meta().label() == Label::Contiguous;
    let takes_lent = is_lent && matches!(room, TargetRoom::BelowOrLent(_));
    let takes_pure = !labelled && !is_lent && room.takes_pure(held.zone.pageblock_order());
    room.is_anywhere()
        || is_whole
        || takes_lent
        || takes_pure
        || takes_contents(&held.facts(), labelled)
}
