//! What the lists of a zone held when a trace began, as `/proc/pagetypeinfo` has it: how many pageblocks carry each label,
//! and how many blocks of each order were listed as free under it.

use crate::measure::{BLOCK_FRAMES, MAX_ORDER};
use crate::trace::state::{PageTypeInfo, ZoneInfo, ZoneType};
use framewright::Mobility;

/// A zone's pageblocks and free blocks by label, indexed by [`Mobility`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZoneLists {
    /// Pageblocks with that label.
    pub pageblocks: [u64; 3],
    /// Free blocks of that label and order; the machine stops counting at 100,000 of them.
    pub free_blocks: [[u64; MAX_ORDER + 1]; 3],
}

impl ZoneLists {
    /// Those of some zones together, or nothing where the machine's pageblocks have another size.
    ///
    /// Pageblocks kept for atomic requests hold what does not move, and count as that.
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
                name => Mobility::ALL.into_iter().find(|label| label.name() == name),
            };
            let Some(label) = label.map(Mobility::index) else {
                continue;
            };
            let sum = &mut lists.pageblocks[label];
            *sum = sum.saturating_add(of.pageblocks);
            for (sum, &blocks) in lists.free_blocks[label].iter_mut().zip(&of.free_blocks) {
                *sum = sum.saturating_add(blocks);
            }
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
            let pageblocks = each.iter().map(|lists| lists.pageblocks[label.index()]);
            let pageblocks: u64 = pageblocks.sum();
            assert_eq!(pageblocks, all.pageblocks[label.index()]);
            // One is kept for atomic requests.
            let kept = u64::from(label == Mobility::Unmovable);
            assert_eq!(pageblocks, info.pageblocks(label) + kept);
            let free = each.iter().map(|lists| lists.free(label));
            assert_eq!(free.sum::<u64>(), all.free(label));
            assert!(all.free(label) > 0);
        }
    }

    #[test]
    fn what_is_kept_for_atomic_requests_does_not_move_and_other_pageblocks_are_not_told_apart() {
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
        assert_eq!(lists.pageblocks, [11, 0, 0]);
        assert_eq!(lists.free_blocks[0][..3], [4, 6, 0]);
        assert_eq!(lists.free(Mobility::Unmovable), 16);
        assert_eq!(of(&text.replace("order: 9", "order: 10")), None);
    }
}
