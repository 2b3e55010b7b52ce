//! Blocks above the pageblock order: aligned runs of entirely free pageblocks.

use super::super::counters::Counters;
use super::super::wanted::WantedBlock;
use super::super::zone::Zone;
use super::tag::Tag;
use crate::policy::{End, Label};
use crate::units::{Mobility, Order};

/// Takes a block of more than the pageblock order. Returns its offset, if there is one. Never
/// waits.
///
/// Looks at all aligned runs, from the end of memory where the mobility belongs. Passes by a run if
/// another CPU holds one of its pageblocks.
pub(in super::super) fn take<'m, P>(
    zone: &Zone<'m, P>,
    counters: &'m Counters,
    wanted: WantedBlock,
) -> Option<usize> {
    if wanted.order > zone.max_order() {
        return None;
    }
    let shift = wanted.order.get() - zone.map.pageblock_order;
    let run = 1usize << shift;
    // Blocks are aligned in physical memory, not in the zone.
    let first_block = (zone.map.origin >> zone.map.pageblock_order) as usize & (run - 1);
    let lowest = first_block.next_multiple_of(run);
    let highest = (first_block + zone.map.blocks) & !(run - 1);
    let runs = highest.saturating_sub(lowest) >> shift;
    for nth in 0..runs {
        let nth = match zone.policy.end(wanted.mobility) {
            End::Lowest => nth,
            End::Highest => runs - 1 - nth,
        };
        let start = lowest + (nth << shift) - first_block;
        if take_run(zone, counters, start..start + run, wanted) {
            counters.net.add(wanted.order.frames());
            return Some(start << zone.map.pageblock_order);
        }
    }
    None
}

/// Takes the pageblocks `ids` as one block, or takes none.
fn take_run<'m, P>(
    zone: &Zone<'m, P>,
    counters: &'m Counters,
    ids: core::ops::Range<usize>,
    wanted: WantedBlock,
) -> bool {
    if !ids.clone().all(|id| is_takeable(zone, id, wanted.mobility)) {
        return false;
    }
    let pageblock_order = zone.pageblock_order();
    for id in ids.clone() {
        let taken = zone.try_lock(counters, id).is_some_and(|mut held| {
            let taken = is_takeable(zone, id, wanted.mobility)
                && held.take_at(0, pageblock_order, wanted.mobility);
            held.unlock();
            taken
        });
        if !taken {
            // No block lies in them yet, and other CPUs hold them only briefly, so giving them back
            // does not wait for long.
            for taken in ids.start..id {
                give_pageblock(zone, counters, taken, wanted.mobility);
            }
            return false;
        }
    }
    for id in ids {
        let Label::Of(owner) = zone.meta(id).label() else {
            continue;
        };
        if owner != wanted.mobility {
            let pair = wanted.mobility.index() * 3 + owner.index();
            counters.relabels[pair].add(1);
            if let Some(held) = zone.try_lock(counters, id) {
                held.unlock_as(Label::Of(wanted.mobility), false);
            }
        }
    }
    true
}

fn is_takeable<P>(zone: &Zone<'_, P>, id: usize, mobility: Mobility) -> bool {
    let meta = zone.meta(id);
    let may = match meta.label() {
        Label::Of(_) => true,
        Label::Contiguous => mobility.is_movable(),
        Label::HighOrder => false,
    };
    may && !meta.is_isolated() && meta.orders() >> zone.map.pageblock_order & 1 != 0
}

/// Gives back a pageblock that was taken whole and in which no block starts.
fn give_pageblock<'m, P>(
    zone: &Zone<'m, P>,
    counters: &'m Counters,
    id: usize,
    mobility: Mobility,
) {
    let order = zone.pageblock_order();
    if let Some(mut held) = zone.try_lock(counters, id) {
        let given = held.give(0, order, mobility);
        held.unlock();
        if !given {
            zone.count_corruption();
        }
    } else {
        let offset = id << zone.map.pageblock_order;
        zone.set_tag(offset, Tag::remote(order, mobility));
        zone.leave(counters, offset);
    }
}

/// Gives back a live block of more than the pageblock order. `Err` if it is no longer live.
pub(in super::super) fn give<'m, P>(
    zone: &Zone<'m, P>,
    counters: &'m Counters,
    offset: usize,
    order: Order,
    mobility: Mobility,
) -> Result<(), ()> {
    if !zone.change_tag(offset, Tag::live(order, mobility), Tag::NONE) {
        return Err(());
    }
    let first = offset >> zone.map.pageblock_order;
    for id in first..first + (1 << (order.get() - zone.map.pageblock_order)) {
        give_pageblock(zone, counters, id, mobility);
    }
    counters.net.add(order.frames().wrapping_neg());
    counters.pgfree.add(order.frames());
    Ok(())
}
