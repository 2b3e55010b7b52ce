//! Runs from seats in one zone and in several.

extern crate std;

use super::*;
use crate::frame::{AllocError, ZoneLayout};
use crate::platform::SingleThread;
use crate::policy::Config;
use crate::units::CpuId;
use std::vec;
use std::vec::Vec;

#[test]
fn a_seat_gives_the_largest_run_that_one_block_has_and_takes_any_part_of_it_back() {
    let layout = ZoneLayout::new(Frame(0), 2048);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let zone = Zone::new(
        &layout,
        &Config::default(),
        &mut memory,
        SingleThread::new(),
    )
    .unwrap();
    zone.add(Run::new(Frame(0), 2048).unwrap()).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let lengths = [0, 1, 2, 3, 5, 7, 8, 11, 15, 16, 95, 100, 511, 600].map(|asked| {
        let run = seat.alloc_run(asked, Context::NOWAIT).unwrap();
        let got = run.frames();
        // Gives it back in parts that are no blocks, and not from the front.
        let third = got / 3;
        let part = |from: u64, frames| Run::new(Frame(run.start().0 + from), frames).unwrap();
        seat.free_run(part(third, got - third));
        seat.free_run(part(0, third));
        got
    });
    assert_eq!(lengths, [1, 1, 2, 3, 4, 7, 8, 8, 15, 16, 64, 100, 511, 512]);
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.stats().nr_free_pages, 2048);
}

#[test]
fn where_only_single_frames_are_left_single_frames_are_given_until_there_are_none() {
    let layout = ZoneLayout::new(Frame(0), 1024);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let zone = Zone::new(
        &layout,
        &Config::default(),
        &mut memory,
        SingleThread::new(),
    )
    .unwrap();
    zone.add(Run::new(Frame(0), 1024).unwrap()).unwrap();
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let mut all = Vec::new();
    while let Ok(run) = seat.alloc_run(1024, Context::ANY) {
        all.push(run);
    }
    assert_eq!(all.iter().map(|run| run.frames()).sum::<u64>(), 1024);
    assert_eq!(seat.alloc_run(1, Context::ANY), Err(AllocError::Exhausted));
    assert_eq!(
        seat.alloc_run(1, Context::NOWAIT),
        Err(AllocError::Exhausted)
    );
    for frame in (0..1024).step_by(2) {
        seat.free_run(Run::new(Frame(frame), 1).unwrap());
    }
    let mut singles = 0;
    while let Ok(run) = seat.alloc_run(64, Context::ANY) {
        assert_eq!(run.frames(), 1);
        singles += 1;
    }
    assert_eq!(singles, 512);
    // Gives all back at once: runs of many allocations, side by side.
    seat.free_run(Run::new(Frame(0), 1024).unwrap());
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.stats().nr_free_pages, 1024);
}

#[test]
fn several_zones_give_in_order_of_preference_and_take_runs_over_their_border() {
    // The zones lie side by side, so a run may go back over the border.
    let layouts = [1024, 0].map(|start| ZoneLayout::new(Frame(start), 1024));
    let mut memory = layouts.map(|layout| vec![0; layout.words_needed().unwrap()]);
    let [a, b] = &mut memory;
    let zone = |layout: &ZoneLayout, memory| {
        let zone = Zone::new(layout, &Config::default(), memory, SingleThread::new()).unwrap();
        zone.add(Run::new(layout.start, 1024).unwrap()).unwrap();
        zone
    };
    let zones = [zone(&layouts[0], a), zone(&layouts[1], b)];
    let mut seats = Seats::<_, 2>::take(&zones, CpuId(0)).unwrap();
    for context in [Context::NOWAIT, Context::ANY] {
        let mut runs = Vec::new();
        while let Ok(run) = seats.alloc_run(100, context) {
            runs.push(run);
            let is_short = zones.iter().all(Zone::is_low);
            assert_eq!(seats.is_short(), is_short);
        }
        let taken: u64 = runs.iter().map(|run| run.frames()).sum();
        assert_eq!(taken, 2048);
        assert_eq!(seats.alloc_run(1, context), Err(AllocError::Exhausted));
        // All of the preferred zone comes before any of the other.
        let preferred = runs.iter().take_while(|run| run.start().0 >= 1024);
        assert_eq!(preferred.map(|run| run.frames()).sum::<u64>(), 1024);
        seats.free_run(Run::new(Frame(0), 1000).unwrap());
        seats.free_run(Run::new(Frame(1000), 1048).unwrap());
        zones.iter().for_each(|zone| {
            zone.drain();
            zone.verify().unwrap();
            assert_eq!(zone.stats().nr_free_pages, 1024);
        });
    }
}
