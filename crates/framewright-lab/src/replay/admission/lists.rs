//! What the free lists of a zone held when a trace began, as `/proc/pagetypeinfo` has it: how many blocks of each label and
//! order.

use crate::measure::{BLOCK_FRAMES, MAX_ORDER};
use crate::trace::state::{PageTypeInfo, ZoneInfo, ZoneType};
use framewright::Mobility;

/// The kernel stops counting the blocks of a list here.
const COUNTED_MAX: u64 = 100_000;

/// A zone's free blocks by label, indexed by [`Mobility`], and order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneLists {
    /// Free blocks of that label and order.
    pub free_blocks: [[u64; MAX_ORDER + 1]; 3],
}

impl ZoneLists {
    /// Those of some zones together, or nothing where the machine's pageblocks have another size.
    ///
    /// What is kept for atomic requests counts as unmovable, and a contiguous area as movable. A list that the kernel did not count to its end has what the
    /// zones have free besides; of several such lists the first of the lowest order does.
    pub(super) fn of(info: &PageTypeInfo, zones: &[&ZoneInfo]) -> Option<Self> {
        if info.pageblock_order != u64::from(BLOCK_FRAMES.ilog2()) {
            return None;
        }
        let mut lists = Self::default();
        let is_one = |of: &&ZoneType| {
            let same = |zone: &&ZoneInfo| zone.node == of.node && zone.zone == of.zone;
            zones.iter().any(same)
        };
        for of in info.types.iter().filter(is_one) {
            let label = match of.migratetype.as_str() {
                "HighAtomic" => Some(Mobility::Unmovable),
                _ => of.mobility(),
            };
            let Some(label) = label.map(Mobility::index) else {
                continue;
            };
            for (order, &blocks) in of.free_blocks.iter().enumerate() {
                // A replay has no larger blocks: one of them is two or more of its largest.
                let place = order.min(MAX_ORDER);
                let pieces = 1_u64.checked_shl((order - place) as u32);
                let blocks = blocks.saturating_mul(pieces.unwrap_or(u64::MAX));
                let sum = &mut lists.free_blocks[label][place];
                *sum = sum.saturating_add(blocks);
            }
        }
        let free = zones.iter().map(|zone| zone.free);
        let free = free.fold(0, u64::saturating_add);
        let counted = Mobility::ALL.map(|label| lists.free(label));
        let counted = counted.into_iter().fold(0, u64::saturating_add);
        let is_cut =
            |&(order, label): &(usize, usize)| lists.free_blocks[label][order] >= COUNTED_MAX;
        let mut all = (0..=MAX_ORDER).flat_map(|order| [0, 1, 2].map(|label| (order, label)));
        if let Some((order, label)) = all.find(is_cut) {
            let blocks = &mut lists.free_blocks[label][order];
            *blocks = blocks.saturating_add(free.saturating_sub(counted) >> order);
        }
        Some(lists)
    }

    /// Free frames listed under that label.
    #[must_use]
    pub fn free(&self, label: Mobility) -> u64 {
        let of_order = |(order, &blocks): (u32, &u64)| blocks.saturating_mul(1 << order);
        let all = (0..).zip(&self.free_blocks[label.index()]).map(of_order);
        all.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::state::read_pagetypeinfo;
    use framewright::{Frame, Run};

    fn zone(name: &str) -> ZoneInfo {
        ZoneInfo {
            node: 0,
            zone: name.into(),
            nth: 0,
            free: 0,
            span: Run::new(Frame(0), 1).unwrap(),
            present: 0,
            managed: 0,
            watermarks: [0; 3],
            boost: 0,
            protection: Vec::new(),
            cpus: Vec::new(),
        }
    }

    #[test]
    fn each_zone_has_its_own_lists_and_all_have_the_sum() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../traces/state/sample/before.pagetypeinfo"
        );
        let text = std::fs::read_to_string(path).unwrap();
        let info = read_pagetypeinfo("p", &text).unwrap();
        let zones = ["DMA", "DMA32", "Normal"].map(zone);
        let of = |zones: &[&ZoneInfo]| ZoneLists::of(&info, zones).unwrap();
        let all = of(&zones.iter().collect::<Vec<_>>());
        let each = zones.each_ref().map(|zone| of(&[zone]));
        for label in Mobility::ALL {
            let free = each.iter().map(|lists| lists.free(label));
            assert_eq!(free.sum::<u64>(), all.free(label));
            assert!(all.free(label) > 0);
        }
    }

    #[test]
    fn what_is_kept_for_atomic_requests_is_unmovable_and_pageblocks_of_another_size_say_nothing() {
        let text = "Page block order: 9\nPages per block:  512\n\n\
            Free pages count per migrate type at order 0 1\n\
            Node    0, zone   Normal, type    Unmovable 1 2\n\
            Node    0, zone   Normal, type   HighAtomic 3 4\n\n\
            Number of blocks type     Unmovable   HighAtomic\n\
            Node 0, zone   Normal 5 6\n";
        let of = |text: &str| {
            let info = read_pagetypeinfo("p", text).unwrap();
            ZoneLists::of(&info, &[&zone("Normal")])
        };
        let lists = of(text).unwrap();
        assert_eq!(lists.free_blocks[0][..3], [4, 6, 0]);
        assert_eq!(lists.free(Mobility::Unmovable), 16);
        assert_eq!(of(&text.replace("order: 9", "order: 10")), None);
    }

    #[test]
    fn a_contiguous_area_is_movable_and_a_block_above_the_largest_order_is_two_of_it() {
        let zeros = "0 ".repeat(MAX_ORDER);
        let text = format!(
            "Page block order: 9\nNode 0, zone Normal, type Movable {zeros}3 4\n\
             Node 0, zone Normal, type CMA 7 {}1\nNode 0, zone Normal, type Isolate 9\n\
             Number of blocks type Movable CMA Isolate\nNode 0, zone Normal 5 6 7\n",
            "0 ".repeat(MAX_ORDER - 1)
        );
        let info = read_pagetypeinfo("p", &text).unwrap();
        let lists = ZoneLists::of(&info, &[&zone("Normal")]).unwrap();
        let movable = lists.free_blocks[Mobility::Movable.index()];
        assert_eq!((movable[0], movable[MAX_ORDER]), (7, 3 + 8 + 1));
        let others = [Mobility::Unmovable, Mobility::Reclaimable];
        assert_eq!(others.map(|label| lists.free(label)), [0, 0]);
    }

    #[test]
    fn a_list_that_was_not_counted_to_its_end_has_what_is_free_besides() {
        let text = "Page block order: 9\nPages per block:  512\n\n\
            Free pages count per migrate type at order 0 1\n\
            Node    0, zone   Normal, type    Unmovable 7 2\n\
            Node    0, zone   Normal, type      Movable >100000 5\n\n\
            Number of blocks type     Unmovable      Movable\n\
            Node 0, zone   Normal 5 6\n";
        let info = read_pagetypeinfo("p", text).unwrap();
        let with = |free| {
            let zone = ZoneInfo {
                free,
                ..zone("Normal")
            };
            let lists = ZoneLists::of(&info, &[&zone]).unwrap();
            [0, 1].map(|label| lists.free_blocks[label][..2].to_vec())
        };
        assert_eq!(with(150_021), [[7, 2], [150_000, 5]]);
        assert_eq!(with(9), [[7, 2], [100_000, 5]], "read at another moment");
    }
}
