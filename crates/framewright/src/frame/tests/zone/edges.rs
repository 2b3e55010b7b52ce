//! Layouts at the edges of what there may be, and calls with any argument.

use super::*;
use crate::sync::Ordering::Relaxed;
use crate::units::RunError;

/// Zones of one frame, at the end of the number range, with the most CPUs, and with orders far apart.
fn edges() -> Vec<ZoneLayout> {
    let last = |order: u8| u64::MAX >> order << order;
    let layout = |start, frames, (pageblock, max), cpus| {
        ZoneLayout::new(Frame(start), frames)
            .with_orders(order(pageblock), order(max))
            .with_cpus(cpus)
    };
    vec![
        layout(0, 1, (1, 1), 1),
        layout(1, 1, (1, 20), 2),
        layout(511, 1, (9, 10), 2),
        layout(1023, 2, (10, 20), 1),
        layout(last(1) - 33, 33, (1, 3), 2),
        layout(last(10) - 1, 1, (10, 10), 1),
        layout(last(6) - 200, 200, (6, 20), 2),
        layout((1 << 52) - 700, 1400, (4, 8), 3),
        layout((1 << 32) - 3, 70, (5, 5), 2),
        layout(7, 500, (5, 9), 1023),
        layout(3, 4096, (1, 20), 2),
        layout(5, 3000, (10, 11), 2),
    ]
}

#[test]
fn zones_at_the_edges_of_what_a_layout_may_be_keep_their_invariants() {
    for layout in edges() {
        for fallback in Fallback::ALL {
            for cache_permille in [0, 100] {
                let config = Config {
                    fallback,
                    cache_permille,
                    ..Config::default()
                };
                random_history(&layout, &config, layout.frames, 600);
            }
        }
    }
}

/// Frames in a zone, at its edges, and anywhere.
fn places(layout: &ZoneLayout) -> Vec<Frame> {
    let (start, end) = (layout.start.0, layout.start.0 + layout.frames);
    let near = [
        start,
        end,
        start / 2 + end / 2,
        0,
        1 << 32,
        1 << 52,
        u64::MAX,
    ];
    let around = |at: u64| [-1, 0, 1].map(|by| Frame(at.wrapping_add_signed(by)));
    let beyond = [start, end].map(|at| Frame(at.wrapping_add(1 << 32)));
    near.into_iter().flat_map(around).chain(beyond).collect()
}

fn runs(layout: &ZoneLayout) -> Vec<Run> {
    let lengths = [0, 1, 2, 64, layout.frames, 1 << 32, 1 << 63, u64::MAX];
    let of = |start: Frame| lengths.map(|frames| Run::new(start, frames));
    places(layout).into_iter().flat_map(of).flatten().collect()
}

/// All that a zone says of itself, except for counts of refused calls.
fn said(
    zone: &Zone<'_, SingleThread>,
) -> (crate::frame::zone::Recount, [u64; 5], Vec<u64>, Vec<u32>) {
    let words = zone.free.iter().map(|word| word.load(Relaxed)).collect();
    let pins = (0..zone.pageblocks()).map(|id| zone.pins(id)).collect();
    (zone.recount(), zone.pageblocks_by_label(), words, pins)
}

#[test]
fn no_call_with_whatever_argument_panics_or_changes_anything_when_it_is_refused() {
    for layout in edges() {
        if layout.cpus > 3 {
            continue;
        }
        let mut memory = memory(&layout);
        let zone = full_zone(&layout, &Config::default(), &mut memory);
        let mut seat = zone.seat(CpuId(0)).unwrap();
        // Every third frame is allocated; the caches are given back before a comparison.
        let mut kept = Vec::new();
        while let Ok(frame) = seat.alloc(Order::ZERO, Movable) {
            kept.push(frame);
        }
        for &frame in kept.iter().filter(|frame| frame.0 % 3 > 0) {
            seat.free(frame, Order::ZERO).unwrap();
        }
        zone.drain();
        let before = said(&zone);
        let unchanged = |what: &str| {
            zone.verify()
                .unwrap_or_else(|broken| panic!("{layout:?}: {what}: {broken}"));
            assert_eq!(said(&zone), before, "{layout:?}: {what}");
        };
        for frame in places(&layout) {
            for size in (0..=Order::MAX.get()).filter_map(Order::new) {
                let is_one = zone.contains(frame) && frame.0 % 3 == 0;
                if !(is_one && size == Order::ZERO) {
                    assert!(
                        seat.free(frame, size).is_err(),
                        "{layout:?}: {frame} {size}"
                    );
                    assert!(seat.free_part(frame, size).is_err(), "{frame} {size}");
                }
                if zone.alloc_at(frame, size, Unmovable).is_ok() {
                    seat.free(frame, size).unwrap();
                    zone.drain();
                }
            }
            match zone.pin(frame) {
                Ok(pins) => {
                    assert!(zone.contains(frame), "{layout:?}: a pin of {frame}");
                    assert_eq!(zone.unpin(frame), Ok(pins - 1));
                }
                Err(error) => assert_eq!(error, RunError::Outside),
            }
            let unpinned = match zone.contains(frame) {
                true => RunError::Pins(frame),
                false => RunError::Outside,
            };
            assert_eq!(zone.unpin(frame), Err(unpinned));
            assert!(zone.contains(frame) || !zone.is_free(frame));
            unchanged("frames");
        }
        for run in runs(&layout) {
            assert!(zone.add(run).is_err(), "{layout:?}: {run:?}");
            if zone.remove(run).is_ok() {
                zone.add(run).unwrap();
            }
            if zone.alloc_run_at(run, Movable).is_ok() {
                seat.free_range(run).unwrap();
            }
            if !run.is_empty() && run.frames() != 1 {
                assert!(seat.free_range(run).is_err(), "{layout:?}: {run:?}");
                assert!(seat.free_frames(run).is_err(), "{layout:?}: {run:?}");
            }
            if zone.isolate(run).is_ok() {
                assert!(zone.isolate(run).is_err());
                zone.unisolate(run).unwrap();
            }
            assert!(zone.unisolate(run).is_err(), "{layout:?}: {run:?}");
            if zone.set_label(run, Label::Contiguous).is_ok() {
                zone.set_label(run, Label::Of(Movable)).unwrap();
            }
            zone.drain();
        }
        unchanged("runs");
        assert_eq!(zone.reserve_high_order(usize::MAX), zone.pageblocks() / 100);
        zone.verify().unwrap();
    }
}

#[test]
fn a_pageblock_has_as_many_pins_as_it_can_and_no_more() {
    let layout = ZoneLayout::new(Frame(3), 600);
    let mut memory = memory(&layout);
    let zone = full_zone(&layout, &Config::default(), &mut memory);
    assert_eq!(zone.pin(Frame(2)), Err(RunError::Outside), "before it");
    assert_eq!(zone.pin(Frame(603)), Err(RunError::Outside), "behind it");
    let stopped = zone.stop();
    let mut held = stopped.hold(1);
    held.set_pins(u32::MAX);
    held.unlock();
    drop(stopped);
    assert_eq!(zone.pin(Frame(602)), Err(RunError::Pins(Frame(602))));
    assert_eq!(zone.unpin(Frame(602)), Ok(u32::MAX - 1));
    assert_eq!(zone.pageblock(1).absent, 1024 - 603);
    zone.verify().unwrap();
}
