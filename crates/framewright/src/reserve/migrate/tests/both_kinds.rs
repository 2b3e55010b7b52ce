//! An area of either kind in one machine.

use super::*;
use crate::platform::{FramePlatform, ReservePlatform};
use crate::reserve::{Key, PoolConfig, Reserve, ReserveLayout};
use crate::units::RunError;
use std::sync::Mutex;

/// The memory in which guests' pages lie.
struct GuestPages(Mutex<BTreeMap<Frame, [u64; 512]>>);

impl FramePlatform for GuestPages {
    fn relax(&self, _attempt: u32) {}
}

impl ReservePlatform for GuestPages {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        self.0.lock().unwrap().insert(frame, *page);
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        *page = self.0.lock().unwrap()[&frame];
    }
}

/// What an owner does, whichever kind it is.
fn borrow_two_runs(area: &mut dyn Contiguous) -> [Result<Run, RunError>; 2] {
    let camera = area.reserve("camera", 100, 4).unwrap();
    let taken = area.take(camera);
    let plain = area.alloc_contig(50, 2);
    if let Ok(plain) = plain {
        area.release(plain).unwrap();
    }
    if let Ok(taken) = taken {
        area.release(taken).unwrap();
    }
    area.unreserve(camera).unwrap();
    [taken, plain]
}

#[test]
fn an_area_of_either_kind_in_one_machine_and_a_pin_stops_one_of_them() {
    machine!(zone, area, seat, ContigConfig::default());
    // The guaranteed one begins where the zone ends.
    let layout = ReserveLayout::new(run(FRAMES, 256));
    let mut words = vec![!0; layout.words_needed().unwrap()];
    let pages = GuestPages(Mutex::default());
    let reserve = Reserve::new(&layout, &mut words, pages).unwrap();
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let mut guest = reserve.guest(CpuId(0)).unwrap();
    for index in 0..256 {
        let key = Key {
            pool,
            object: 0,
            index,
        };
        let page = core::array::from_fn(|n| index << 16 | n as u64);
        guest.put(key, &page).unwrap();
    }
    let holder = AreaHolder::default();
    holder.hold(&zone, FIRST..FRAMES, AreaMood::Moves);
    let contents = holder.contents();
    let movers: [&dyn Migrate; 1] = [&holder];
    for pinned in [false, true] {
        if pinned {
            let mut blocks = holder.blocks.borrow_mut();
            blocks.values_mut().for_each(|of| of.2 = AreaMood::Pinned);
            drop(blocks);
            // Whatever is free of the area.
            while seat.try_alloc(Order::ZERO, Movable).is_some() {}
        }
        let clients = super::movers(&movers);
        let mut lends_to_movable = area.owner(&mut seat, clients);
        let mut lends_to_guests = reserve.owner(None);
        let both: [&mut dyn Contiguous; 2] = [&mut lends_to_movable, &mut lends_to_guests];
        for of in both {
            let is_guaranteed = of.is_guaranteed();
            let got = borrow_two_runs(of);
            let is_had = is_guaranteed || !pinned;
            for got in got {
                assert_eq!(got.is_ok(), is_had, "guaranteed: {is_guaranteed}, {got:?}");
            }
        }
        assert_eq!(holder.contents(), contents);
        area.verify().unwrap();
        reserve.verify().unwrap();
        zone.verify().unwrap();
    }
    assert!(reserve.stats().guests().reclaimed_pages >= 100);
    assert!(area.stats().pages_migrated >= 100);
}
