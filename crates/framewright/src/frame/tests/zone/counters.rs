//! What a zone says of itself.

use super::*;
use crate::frame::AllocError;
use crate::stats::FrameStats;

/// A zone of one pageblock labelled `owner`, of which `taken` frames are used by it.
fn owned_by<'m>(
    owner: Mobility,
    taken: u64,
    config: &Config,
    memory: &'m mut [u64],
) -> Zone<'m, SingleThread> {
    let zone = full_zone(&ZoneLayout::new(Frame(0), 512), config, memory);
    zone.set_label(run(0, 512), Label::Of(owner)).unwrap();
    if taken > 0 {
        zone.alloc_run_at(run(0, taken), owner).unwrap();
    }
    zone
}

#[test]
fn each_fallback_is_counted_by_the_mobility_wanted_and_the_pageblocks_own() {
    let mut memory = memory(&ZoneLayout::new(Frame(0), 512));
    for fallback in Fallback::labelled() {
        for (wanted, owner) in Mobility::ALL
            .iter()
            .flat_map(|wanted| Mobility::ALL.map(|owner| (*wanted, owner)))
        {
            let mut once = [[0; 3]; 3];
            once[wanted.index()][owner.index()] = u64::from(wanted != owner);
            let zone = owned_by(owner, 400, &config(fallback), &mut memory);
            zone.seat(CpuId(0))
                .unwrap()
                .alloc(order(0), wanted)
                .unwrap();
            let stats = zone.stats();
            // Unmovable kinds share the pageblock, which changes its label.
            if wanted.is_movable() || owner.is_movable() {
                assert_eq!((stats.steals, stats.relabels), (once, [[0; 3]; 3]));
                assert_eq!(zone.pageblock(0).label, Label::Of(owner));
            } else {
                assert_eq!((stats.steals, stats.relabels), ([[0; 3]; 3], once));
            }

            let zone = owned_by(owner, 0, &config(fallback), &mut memory);
            let mut seat = zone.seat(CpuId(0)).unwrap();
            seat.alloc(order(0), wanted).unwrap();
            let stats = zone.stats();
            assert_eq!((stats.steals, stats.relabels), ([[0; 3]; 3], once));
            assert_eq!(zone.pageblock(0).label, Label::Of(wanted));
            seat.alloc(order(1), wanted).unwrap();
            assert_eq!(zone.stats().relabels, once, "its own by now");
            zone.verify().unwrap();
            drop(seat);

            let zone = owned_by(owner, 0, &config(fallback), &mut memory);
            let mut seat = zone.seat(CpuId(0)).unwrap();
            seat.alloc(order(9), wanted).unwrap();
            let stats = zone.stats();
            assert_eq!((stats.steals, stats.relabels), ([[0; 3]; 3], once));
        }
    }
}

#[test]
fn a_block_above_the_pageblocks_relabels_each_pageblock_of_another_label() {
    let layout = ZoneLayout::new(Frame(0), 1024);
    let mut memory = memory(&layout);
    for fallback in Fallback::ALL {
        for wanted in Mobility::ALL {
            for owner in Mobility::ALL {
                let zone = full_zone(&layout, &config(fallback), &mut memory);
                zone.set_label(run(0, 512), Label::Of(owner)).unwrap();
                zone.set_label(run(512, 512), Label::Of(wanted)).unwrap();
                let mut seat = zone.seat(CpuId(0)).unwrap();
                seat.alloc(order(10), wanted).unwrap();
                let mut once = [[0; 3]; 3];
                once[wanted.index()][owner.index()] = u64::from(wanted != owner);
                let stats = zone.stats();
                assert_eq!((stats.steals, stats.relabels), ([[0; 3]; 3], once));
                assert_eq!(zone.pageblock(0).label, Label::Of(wanted));
                zone.verify().unwrap();
            }
        }
    }
}

#[test]
fn every_seat_adds_to_every_counter() {
    let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(3);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut seats = [0, 1, 2].map(|cpu| zone.seat(CpuId(cpu)).unwrap());
    let mut expected = FrameStats {
        nr_free_pages: 2048,
        ..FrameStats::default()
    };
    for (nth, seat) in seats.iter_mut().enumerate() {
        let kept = seat.alloc(order(3), Unmovable).unwrap();
        let freed = seat.alloc(order(2), Reclaimable).unwrap();
        seat.alloc(order(5), Movable).unwrap();
        seat.free(freed, order(2)).unwrap();
        assert!(seat.free(freed, order(2)).is_err());
        expected.pgalloc[0] += 8;
        expected.pgalloc[1] += 32;
        expected.pgalloc[2] += 4;
        expected.pgfree += 4;
        expected.bad_frees += 1;
        expected.nr_free_pages -= 40;
        // A free while another CPU works in the pageblock.
        let id = kept.0 as usize / 512;
        let held = zone.try_lock(zone.unseated_counters(), id).unwrap();
        seat.free_uncached(kept.0 as usize, order(3), Unmovable)
            .unwrap();
        held.unlock();
        expected.remote_frees += 1;
        expected.pgfree += 8;
        expected.nr_free_pages += 8;
        // Two requests that fail, for two reasons.
        let large = order(10);
        zone.isolate(whole(&layout)).unwrap();
        assert_eq!(seat.alloc(large, Movable), Err(AllocError::Exhausted));
        zone.unisolate(whole(&layout)).unwrap();
        zone.alloc_at(Frame(300 + nth as u64), order(0), Movable)
            .unwrap();
        assert_eq!(seat.alloc(large, Movable), Err(AllocError::Fragmented));
        expected.exhausted[10] += 1;
        expected.fragmented[10] += 1;
        expected.pgalloc[1] += 1;
        expected.nr_free_pages -= 1;
        expected.drains += 2;
    }
    zone.count_corruption();
    expected.bad_frees += 1;
    // Where a whole pageblock was free, each first request of a kind relabelled one.
    let mut stats = zone.stats();
    (stats.steals, stats.relabels) = Default::default();
    assert_eq!(stats, expected);
}

#[test]
fn requests_that_can_be_served_stop_no_cpu() {
    let layout = ZoneLayout::new(Frame(0), 4096);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    for wanted in 0..=10 {
        let frame = seat.alloc(order(wanted), Movable).unwrap();
        seat.free(frame, order(wanted)).unwrap();
    }
    assert_eq!(zone.stats().drains, 0);
    zone.drain();
    assert_eq!(zone.stats().drains, 1);
}

#[test]
fn free_blocks_are_the_maximal_ones_under_their_pageblocks_label() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    zone.add(run(0, 512 * 3)).unwrap();
    assert_eq!(zone.pageblocks(), 4);
    zone.alloc_at(Frame(7), order(0), Movable).unwrap();
    zone.alloc_at(Frame(520), order(0), Movable).unwrap();
    zone.set_label(run(1024, 512), Label::Of(Unmovable))
        .unwrap();
    let blocks = zone.free_blocks();
    let mut movable = [0; Order::MAX.index() + 1];
    movable[..9].fill(2);
    let mut unmovable = [0; Order::MAX.index() + 1];
    unmovable[9] = 1;
    assert_eq!(blocks[Label::Of(Movable).index()], movable);
    assert_eq!(blocks[Label::Of(Unmovable).index()], unmovable);
    assert_eq!(blocks[Label::Contiguous.index()], [0; 21]);
    // The fourth pageblock has no frame and so no label that counts.
    assert_eq!(zone.pageblocks_by_label(), [1, 2, 0, 0, 0]);
    assert!(!zone.is_free(Frame(7)) && zone.is_free(Frame(8)));
    assert!(!zone.is_free(Frame(520)) && zone.is_free(Frame(519)));
    assert!(!zone.is_free(Frame(1600)) && !zone.is_free(Frame(9999)));
}

#[test]
fn a_recount_is_the_sum_over_all_pageblocks() {
    let layout = ZoneLayout::new(Frame(3), 1500);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    zone.add(run(3, 1400)).unwrap();
    zone.alloc_run_at(run(500, 30), Unmovable).unwrap();
    zone.alloc_run_at(run(1000, 40), Reclaimable).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut frames = [Frame(0); 2];
    for block in &mut frames {
        *block = seat.alloc(order(0), Movable).unwrap();
    }
    let recount = zone.recount();
    assert_eq!(recount.present, 1400);
    assert_eq!(recount.allocated, [30, 2, 40]);
    assert_eq!(recount.free + recount.cached, 1400 - 72);
    seat.words.set_limit(Movable, 0, 4);
    let cached = recount.cached;
    seat.free(frames[0], order(0)).unwrap();
    assert_eq!(zone.recount().cached, cached + 1);
    assert_eq!(zone.recount().free, recount.free);
    drop(seat);
    zone.drain();
    let recount = zone.recount();
    assert_eq!((recount.free, recount.cached), (1400 - 71, 0));
}
