//! A recorded layout, before the first request.

use super::Kernel310;
use super::lists::{CMA, MOVABLE, RESERVE, Tag310, list_of};
use crate::before::buddy::MAX_ORDER;
use crate::pressure::{Impose, Kernel};
use framewright::{CpuId, Frame, Mobility, Order};

impl Kernel310 {
    /// The free block that holds the block of `order` at `frame`: its first frame and its order.
    fn free_block_around(&self, frame: u32, order: u8) -> Option<(u32, u8)> {
        (order..=MAX_ORDER).find_map(|around| {
            let start = frame >> around << around;
            let tag = self.zone.tag(start);
            (tag.is_free() && tag.order() == around).then_some((start, around))
        })
    }

    fn is_in_place(&self, frame: Frame, order: Order) -> bool {
        let end = frame.0.checked_add(order.frames());
        frame.is_aligned(order) && end.is_some_and(|end| end <= u64::from(self.zone.count()))
    }
}

/// The parts that are left when the block of `order` at `frame` is cut out of the one of `around` at
/// `start`.
fn rest_of(start: u32, around: u8, frame: u32, order: u8) -> impl Iterator<Item = (u32, u8)> {
    let mut at = start;
    (order..around).rev().map(move |half| {
        let upper = at + (1 << half);
        if frame < upper {
            (upper, half)
        } else {
            (std::mem::replace(&mut at, upper), half)
        }
    })
}

impl Impose for Kernel310 {
    /// The contiguous area's pageblocks keep their type, and those of the reserve do if the recording has
    /// them movable.
    fn set_label(&mut self, pageblock: u64, label: Mobility) {
        let zone = &mut self.zone;
        let Ok(index) = usize::try_from(pageblock) else {
            return;
        };
        let list = list_of(label);
        match zone.labels().get(index).map(|&now| usize::from(now)) {
            None | Some(CMA) => return,
            Some(RESERVE) if list == MOVABLE => return,
            Some(_) => {}
        }
        zone.set_label(index, list);
        zone.move_pageblock((index as u32) << zone.pageblock_order(), list);
    }

    fn alloc_at(&mut self, frame: Frame, order: Order, mobility: Mobility) -> bool {
        if !self.is_in_place(frame, order) {
            return false;
        }
        let (frame, order) = (frame.0 as u32, order.get());
        let Some((start, around)) = self.free_block_around(frame, order) else {
            return false;
        };
        let zone = &mut self.zone;
        zone.take(start, around, MOVABLE);
        for (rest, order) in rest_of(start, around, frame, order) {
            zone.free_block(rest, order, zone.label(rest));
        }
        zone.set_tag(frame, Tag310::allocated(order, list_of(mobility)));
        true
    }

    fn free_part(&mut self, cpu: CpuId, frame: Frame, order: Order) {
        self.free(cpu, frame, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::before::kernel310::{Layout310, Variant310};

    fn order(order: u8) -> Order {
        Order::new(order).unwrap()
    }

    fn kernel() -> Kernel310 {
        let layout = Layout310 {
            pageblock_order: 9,
            ..Layout310::new(16 * 512 + 40)
        };
        Kernel310::new(&layout, Variant310::Before).unwrap()
    }

    #[test]
    fn a_layout_is_imposed_block_by_block_and_every_invariant_holds() {
        let mut kernel = kernel();
        for (pageblock, label) in Mobility::ALL.into_iter().cycle().take(16).enumerate() {
            kernel.set_label(pageblock as u64, label);
        }
        kernel.set_label(99, Mobility::Unmovable);
        let free = kernel.free_frames();
        let mut taken = 0;
        for (frame, k) in [(0, 0), (3, 0), (1024, 10), (2560, 3), (8192 + 39, 0)] {
            assert!(kernel.alloc_at(Frame(frame), order(k), Mobility::Unmovable));
            assert!(!kernel.alloc_at(Frame(frame), order(k), Mobility::Unmovable));
            kernel.verify().unwrap();
            taken += 1 << k;
        }
        assert_eq!(kernel.free_frames(), free - taken);
        assert!(!kernel.alloc_at(Frame(5), order(1), Mobility::Movable));
        assert!(!kernel.alloc_at(Frame(8192 + 40), order(0), Mobility::Movable));
        let lists = kernel.labels();
        assert!(lists[..3].iter().all(|&n| n >= 4), "{lists:?}");
    }

    #[test]
    fn the_reserve_s_pageblocks_stay_the_reserve_s_where_the_recording_has_them_movable() {
        let mut kernel = kernel();
        let reserve = kernel.labels()[RESERVE];
        for pageblock in 0..17 {
            kernel.set_label(pageblock, Mobility::Movable);
        }
        assert!(reserve > 0);
        assert_eq!(kernel.labels()[RESERVE], reserve);
    }

    #[test]
    fn a_block_freed_part_by_part_is_whole_again() {
        let mut kernel = kernel();
        let free = kernel.free_frames();
        assert!(kernel.alloc_at(Frame(1024), order(4), Mobility::Movable));
        for (offset, k) in [(8, 2), (1, 0), (12, 2), (4, 2), (0, 0), (2, 1)] {
            kernel.free_part(CpuId(0), Frame(1024 + offset), order(k));
            kernel.verify().unwrap();
        }
        kernel.drain_all();
        kernel.verify().unwrap();
        assert_eq!(kernel.free_frames(), free);
    }

    #[test]
    #[should_panic(expected = "no block of order 0 is allocated at frame 8")]
    fn a_part_of_what_is_free_cannot_be_freed() {
        kernel().free_part(CpuId(0), Frame(8), order(0));
    }
}
