//! What memory could serve at one moment, order by order, and what a request that fails would fail for.

use crate::measure::{MAX_ORDER, Sample};
use crate::replay::FailureCause;
use crate::trace::state::{ZoneFree, ZoneInfo};

/// Orders that are told apart. What a kernel has beyond counts as blocks of the last.
pub(crate) const ORDERS: usize = MAX_ORDER + 1;

/// Zones that an ordinary request of the kernel is not served from.
const FOR_OTHERS: [&str; 3] = ["Movable", "Device", "HighMem"];

/// What one order looks like.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct OrderOutlook {
    /// Free blocks of just this order.
    pub(crate) free_blocks: u64,
    /// The share of the free frames that it cannot use.
    pub(crate) unusable: f64,
    /// Requests of it that could be served now, one after the other, if none waits and no memory comes free.
    pub(crate) left: u64,
    /// What the first one fails for that is not served.
    pub(crate) cause: FailureCause,
}

/// What all of memory looks like.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MemoryOutlook {
    pub(crate) orders: [OrderOutlook; ORDERS],
    pub(crate) free_frames: u64,
    /// Frames that are free where an ordinary request is served from.
    pub(crate) usable_frames: u64,
    /// The order of the largest free block there; `None` where nothing is free.
    pub(crate) largest: Option<usize>,
}

/// A zone, and what it keeps back from an ordinary request.
struct KeptZone<'a> {
    free: &'a ZoneFree,
    /// Frames free as the watermarks count them.
    frames: u64,
    mark: u64,
}

impl KeptZone<'_> {
    fn is_open(&self) -> bool {
        self.frames > self.mark
    }
}

impl MemoryOutlook {
    /// The outlook for a request with no right to the kernel's reserve that may be served from any zone up to `Normal`.
    /// Without `/proc/zoneinfo` nothing is known to be kept back.
    pub(crate) fn of(zones: &[ZoneFree], infos: &[ZoneInfo]) -> Self {
        let serving = zones
            .iter()
            .filter(|zone| !FOR_OTHERS.contains(&zone.zone.as_str()));
        let serving: Vec<KeptZone<'_>> = serving.map(|zone| kept(zone, infos)).collect();
        let all = sample(zones);
        let open: Vec<&KeptZone<'_>> = serving.iter().filter(|zone| zone.is_open()).collect();
        // A zone that is kept back as a whole says nothing of what the others lack.
        let judged = match open.is_empty() {
            true => serving.iter().collect(),
            false => open.clone(),
        };
        let seen = sample(judged.iter().map(|zone| zone.free));
        let min = judged
            .iter()
            .fold(0_u64, |sum, zone| sum.saturating_add(zone.mark));
        let orders = std::array::from_fn(|order| {
            let (mut left, mut pieces, mut above) = (0_u64, 0_u64, 0_u64);
            for zone in &open {
                let blocks = aligned(zone.free, order);
                let allowed = (zone.frames - zone.mark) >> order;
                left = left.saturating_add(blocks.min(allowed));
                pieces = pieces.saturating_add(blocks);
                above = above.saturating_add(allowed);
            }
            let cause = match left {
                0 => FailureCause::of(order, &seen, min),
                _ if pieces < above => FailureCause::Fragmented,
                _ => FailureCause::Watermark,
            };
            OrderOutlook {
                free_blocks: all.free_blocks(order),
                unusable: all.unusable_index(order),
                left,
                cause,
            }
        });
        Self {
            orders,
            free_frames: all.free_frames(),
            usable_frames: seen.free_frames(),
            largest: seen.aligned_free.iter().rposition(|&blocks| blocks > 0),
        }
    }
}

/// A zone with its marks: min, the boost, and what is kept for requests that could do with fewer zones.
fn kept<'a>(zone: &'a ZoneFree, infos: &[ZoneInfo]) -> KeptZone<'a> {
    let of_node = || infos.iter().filter(|info| info.node == zone.node);
    let last = of_node()
        .filter(|info| !FOR_OTHERS.contains(&info.zone.as_str()))
        .map(|info| info.nth)
        .max();
    let Some(info) = of_node().find(|info| info.zone == zone.zone) else {
        return KeptZone {
            free: zone,
            frames: zone.free_frames(),
            mark: 0,
        };
    };
    let protected = last.and_then(|last| info.protection.get(last)).copied();
    let mark = info.watermarks[0]
        .saturating_add(info.boost)
        .saturating_add(protected.unwrap_or(0));
    KeptZone {
        free: zone,
        frames: info.free,
        mark,
    }
}

/// Blocks of that order which a zone could hand out, those inside larger ones included.
fn aligned(zone: &ZoneFree, order: usize) -> u64 {
    let blocks = zone.free_blocks.iter().enumerate().skip(order);
    blocks.fold(0, |sum: u64, (of, &blocks)| {
        let inside = 1_u64.checked_shl((of - order) as u32).unwrap_or(u64::MAX);
        sum.saturating_add(blocks.saturating_mul(inside))
    })
}

/// The free blocks of zones together. Their sums are bounded so that they multiply without a fault, whatever a file says.
fn sample<'a>(zones: impl IntoIterator<Item = &'a ZoneFree>) -> Sample {
    let mut sample = Sample::default();
    for zone in zones {
        for order in (0..ORDERS).rev() {
            let more = aligned(zone, order).min((1 << 44) >> order);
            let sum = &mut sample.aligned_free[order];
            *sum = (*sum + more).min((1 << 52) >> order);
        }
    }
    // Where a bound has cut one order, the smaller ones still hold at least its blocks.
    for order in (0..MAX_ORDER).rev() {
        let inside = 2 * sample.aligned_free[order + 1];
        sample.aligned_free[order] = sample.aligned_free[order].max(inside);
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright::{Frame, Run};

    fn zone(name: &str, blocks: &[u64]) -> ZoneFree {
        let mut free_blocks = vec![0; ORDERS];
        free_blocks[..blocks.len()].copy_from_slice(blocks);
        ZoneFree {
            node: 0,
            zone: name.into(),
            free_blocks,
        }
    }

    fn info(zone: &ZoneFree, nth: usize, min: u64, protection: &[u64]) -> ZoneInfo {
        ZoneInfo {
            node: 0,
            zone: zone.zone.clone(),
            nth,
            free: zone.free_frames(),
            span: Run::new(Frame(0), 1 << 20).unwrap(),
            present: 1 << 20,
            managed: 1 << 20,
            watermarks: [min, 2 * min, 3 * min],
            boost: 0,
            protection: protection.to_vec(),
            cpus: Vec::new(),
        }
    }

    #[test]
    fn what_is_left_of_an_order_ends_at_the_pieces_or_at_the_watermark() {
        // 100 frames, 100 pairs and 2 blocks of order 3: 316 frames.
        let normal = zone("Normal", &[100, 100, 0, 2]);
        let outlook = MemoryOutlook::of(
            std::slice::from_ref(&normal),
            &[info(&normal, 2, 300, &[0, 0, 0])],
        );
        let left: Vec<u64> = outlook.orders.iter().map(|order| order.left).collect();
        // 16 frames above min: of order 3 two blocks, as many as there are.
        assert_eq!(left[..6], [16, 8, 4, 2, 0, 0]);
        let cause = |order: usize| outlook.orders[order].cause;
        assert_eq!(cause(0), FailureCause::Watermark);
        assert_eq!(cause(3), FailureCause::Watermark);
        assert_eq!(cause(4), FailureCause::Fragmented);
        assert_eq!(cause(9), FailureCause::Exhausted);
        assert_eq!((outlook.free_frames, outlook.largest), (316, Some(3)));
        assert!((outlook.orders[3].unusable - 300.0 / 316.0).abs() < 1e-12);
        // With a lower mark it is the pieces that end first.
        let outlook =
            MemoryOutlook::of(std::slice::from_ref(&normal), &[info(&normal, 2, 10, &[])]);
        assert_eq!(outlook.orders[3].left, 2);
        assert_eq!(outlook.orders[3].cause, FailureCause::Fragmented);
    }

    #[test]
    fn a_zone_that_is_kept_for_others_serves_nothing_and_hides_nothing() {
        let (dma, normal) = (
            zone("DMA", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3]),
            zone("Normal", &[900]),
        );
        let movable = zone("Movable", &[0, 0, 0, 5]);
        let infos = [
            info(&dma, 0, 8, &[0, 0, 6000]),
            info(&normal, 2, 100, &[0, 0, 0]),
            info(&movable, 3, 1, &[]),
        ];
        let zones = [dma, normal, movable];
        let outlook = MemoryOutlook::of(&zones, &infos);
        assert_eq!(outlook.orders[0].left, 800);
        // The DMA zone has blocks of the order, and is no reason to call a split zone short of memory.
        assert_eq!(
            (outlook.orders[3].left, outlook.orders[3].cause),
            (0, FailureCause::Fragmented)
        );
        assert_eq!(outlook.free_frames, 3 * 1024 + 900 + 40);
        assert_eq!((outlook.usable_frames, outlook.largest), (900, Some(0)));
        // Where all zones are kept back, it is the marks.
        let outlook = MemoryOutlook::of(&zones[..1], &infos);
        assert_eq!(
            (outlook.orders[3].left, outlook.orders[3].cause),
            (0, FailureCause::Watermark)
        );
    }

    #[test]
    fn nothing_free_is_exhausted_and_numbers_of_any_size_are_borne() {
        let outlook = MemoryOutlook::of(&[zone("Normal", &[])], &[]);
        assert_eq!(outlook.orders[0].cause, FailureCause::Exhausted);
        assert_eq!((outlook.orders[0].left, outlook.largest), (0, None));
        let huge = ZoneFree {
            node: 0,
            zone: "Normal".into(),
            free_blocks: vec![u64::MAX; 80],
        };
        let outlook = MemoryOutlook::of(&[huge.clone(), huge], &[]);
        assert!(outlook.orders[10].left > 0 && outlook.orders[3].unusable >= 0.0);
    }
}
