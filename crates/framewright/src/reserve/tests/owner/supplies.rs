//! Where the ordinary frames of pages that were put back come from, and go to.

use super::put_back::{OrdinaryFrames, PUT_BACK, beside, key};
use super::*;
use crate::frame::{AllocError, FrameSource};
use crate::reclaim::{Ask, Shrink, Shrunk};
use crate::units::{Context, Order, Run, RunError};

#[test]
fn c11_an_ordinary_frame_goes_back_to_no_other_source() {
    /// Another memory, with frames of the same numbers.
    struct OtherMemory(OrdinaryFrames);
    impl FrameSource for OtherMemory {
        fn origin(&self) -> u64 {
            8
        }
        fn frames_in_all(&self) -> u64 {
            self.0.frames_in_all()
        }
        fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
            self.0.alloc_run(frames, context)
        }
        fn free_run(&mut self, run: Run) {
            self.0.free_run(run);
        }
    }
    let (reserve, _, mut supply) = beside(16, 16);
    // All of its frames are in use: it decides nothing.
    let mut other = OtherMemory(OrdinaryFrames::new(FIRST + 16, 0));
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..8 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    let none = reserve.alloc_contig_with(16, 1, &mut other);
    assert!(matches!(none, Err(RunError::NoMemory(_))), "{none:?}");
    assert_eq!(reserve.collect(&mut other), 0, "there is none to give back");
    let run = reserve.alloc_contig_with(16, 1, &mut supply).unwrap();
    (0..4).for_each(|index| guest.invalidate_page(key(pool, index)));
    assert_eq!(reserve.collect(&mut other), 0);
    reserve.release(run).unwrap();
    let refused = reserve.alloc_contig_with(16, 1, &mut other);
    assert_eq!(refused, Err(RunError::OtherFrames));
    assert!(other.0.free.is_empty());
    assert!((4..8).all(|index| guest.get(key(pool, index), &mut out) && stamp(&out) == index));
    assert_eq!(reserve.collect(&mut supply), 4);
    reserve.verify().unwrap();
}

#[test]
fn spare_frames_serve_the_next_pages_and_go_back_when_reclaim_asks() {
    let (reserve, _, mut supply) = beside(16, 16);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut put_back = |from: u64| {
        for index in from..from + 8 {
            guest.put_dirty(key(pool, index), &page(index)).unwrap();
        }
        let run = reserve.alloc_contig_with(16, 1, &mut supply).unwrap();
        (from..from + 8).for_each(|index| guest.invalidate_page(key(pool, index)));
        reserve.release(run).unwrap();
        supply.free.len()
    };
    // The second eight need no other frames.
    assert_eq!((put_back(0), put_back(8)), (8, 8));
    let run = reserve.alloc_contig_with(16, 1, &mut supply).unwrap();
    reserve.release(run).unwrap();
    assert_eq!(supply.free.len(), 8, "an owner's request gives none back");
    let ask = |wanted, context| Ask {
        wanted,
        scan: 1000,
        order: Order::ZERO,
        context,
    };
    let spare = || Shrink::<OrdinaryFrames>::holding(&*reserve);
    assert_eq!(spare(), 8);
    let none = reserve.shrink(&mut supply, &ask(8, Context::NOWAIT));
    assert_eq!((none, spare()), (Shrunk::default(), 8));
    assert_eq!(reserve.shrink(&mut supply, &ask(0, Context::ANY)).freed, 0);
    let all = reserve.shrink(&mut supply, &ask(8, Context::ANY));
    assert_eq!((all.freed, spare(), supply.free.len()), (8, 0, 16));
    reserve.verify().unwrap();
}

#[test]
fn an_owner_that_lacks_ordinary_frames_has_those_of_dead_pages_first() {
    let (reserve, _, mut supply) = beside(16, 8);
    let pools = [PUT_BACK, PUT_BACK].map(|config| reserve.open_pool(&config).unwrap());
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for (nth, pool) in pools.into_iter().enumerate() {
        for index in 0..8 {
            guest.put_dirty(key(pool, index), &page(index)).unwrap();
        }
        let run = reserve.alloc_contig_with(16, 1, &mut supply).unwrap();
        assert!(
            (0..8).all(|index| guest.get(key(pool, index), &mut out)),
            "{nth}"
        );
        reserve.release(run).unwrap();
        // All eight descriptors and frames have pages, which die by their pool's generation.
        assert_eq!(supply.free.len(), 0);
        assert!(nth == 1 || guest.invalidate_pool(pool));
    }
    reserve.verify().unwrap();
}

#[test]
fn reclaim_gets_as_many_spare_frames_as_it_asks_for_and_those_of_dead_pages() {
    let (reserve, _, mut supply) = beside(160, 160);
    let pool = reserve.open_pool(&PUT_BACK).unwrap();
    let mut guest = guest(&reserve, 0);
    for index in 0..160 {
        guest.put_dirty(key(pool, index), &page(index)).unwrap();
    }
    let run = reserve.alloc_contig_with(160, 1, &mut supply).unwrap();
    let spare = || Shrink::<OrdinaryFrames>::holding(&*reserve);
    assert_eq!((spare(), supply.free.len()), (0, 0), "160 pages are there");
    let mut shrink = |wanted, scan| {
        let ask = Ask {
            wanted,
            scan,
            order: Order::ZERO,
            context: Context::ANY,
        };
        let Shrunk { scanned, freed } = reserve.shrink(&mut supply, &ask);
        (scanned, freed)
    };
    assert_eq!(shrink(160, 70), (70, 0), "it looks at no more than asked");
    // The other half keep their pages, and stand in the way of a look that begins anew. Eight looks see each once.
    (80..160).for_each(|index| guest.invalidate_page(key(pool, index)));
    let few: u64 = (0..8).map(|_| shrink(160, 20).1).sum();
    assert_eq!(
        (few, spare()),
        (80, 0),
        "it goes on where the last look ended"
    );
    assert!(guest.invalidate_pool(pool));
    assert_eq!(spare(), 80, "dead pages have frames");
    assert_eq!(shrink(160, 60), (60, 60));
    assert_eq!(shrink(7, 160).1, 7, "no more than is wanted");
    assert_eq!(spare(), 13);
    assert_eq!(shrink(160, 160), (13, 13));
    assert_eq!((shrink(160, 160), spare()), ((0, 0), 0));
    assert_eq!(supply.free.len(), 160);
    reserve.release(run).unwrap();
    reserve.verify().unwrap();
}
