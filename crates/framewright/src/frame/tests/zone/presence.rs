//! Which frames exist, beside a list of them; and zones in memory that holds zeroes.

use super::*;
use crate::frame::FreeError;
use crate::frame::pageblock::Tag;
use crate::frame::zone::Sought;
use crate::sync::Ordering::Relaxed;
use crate::units::RunError;

fn layouts() -> Vec<ZoneLayout> {
    let layout = |start, frames, pageblock| {
        ZoneLayout::new(Frame(start), frames).with_orders(order(pageblock), order(10))
    };
    vec![
        layout(0, 2048, 9),
        layout(37, 1500, 7),
        layout(5, 200, 3),
        layout(1000, 4000, 10),
    ]
}

/// The zone says of every frame what the list says.
fn agrees(zone: &Zone<'_, SingleThread>, layout: &ZoneLayout, present: &[bool]) {
    let offset = |nth: usize| zone.offset(Frame(layout.start.0 + nth as u64)).unwrap();
    for (nth, is_present) in present.iter().enumerate() {
        assert_eq!(zone.is_absent(offset(nth)), !is_present, "frame {nth}");
    }
    for frames in [1, 3, 64, 200, 700] {
        let found = zone.find_present(Sought::new(frames, 1).unwrap()).found;
        let listed = present
            .windows(frames as usize)
            .position(|run| run.iter().all(|is_present| *is_present));
        assert_eq!(found.map(|run| run.start), listed.map(offset), "{frames}");
    }
    let count = present.iter().filter(|is_present| **is_present).count();
    assert_eq!(zone.present_frames(), count as u64);
    zone.verify().unwrap();
}

#[test]
fn presence_is_that_of_a_list_of_frames() {
    for layout in layouts() {
        for is_zeroed in [false, true] {
            let mut memory = memory(&layout);
            if is_zeroed {
                memory.fill(0);
            }
            let config = Config::default();
            let zone = Zone::in_memory(
                &layout,
                &config,
                &mut memory,
                SingleThread::new(),
                is_zeroed,
            );
            let zone = zone.unwrap();
            let mut present = vec![false; layout.frames as usize];
            agrees(&zone, &layout, &present);
            let mut random = Random::new(layout.frames);
            for _ in 0..120 {
                let start = random.index(present.len());
                let most = (present.len() - start).min(1 << random.index(12));
                let run = start..start + 1 + random.index(most);
                let first = Frame(layout.start.0 + start as u64);
                let frames = Run::new(first, run.len() as u64).unwrap();
                let lowest = |is| run.clone().find(|nth| present[*nth] == is);
                let frame = |nth| Frame(layout.start.0 + nth as u64);
                let is_added = random.index(2) == 0;
                let (done, expected) = match is_added {
                    true => {
                        let there = lowest(true).map(|nth| RunError::Present(frame(nth)));
                        (zone.add(frames), there)
                    }
                    false => {
                        let gone = lowest(false).map(|nth| RunError::Absent(frame(nth)));
                        (zone.remove(frames), gone)
                    }
                };
                assert_eq!(done.err(), expected, "{frames:?}");
                if done.is_ok() {
                    present[run].fill(is_added);
                }
                agrees(&zone, &layout, &present);
            }
        }
    }
}

#[test]
fn memory_in_whole_pageblocks_needs_no_tag() {
    let layout = ZoneLayout::new(Frame(0), 512 * 4);
    let mut memory = memory(&layout);
    let zone = empty_zone(&layout, &mut memory);
    let tagged = || (0..512 * 4).find(|offset| zone.tag(*offset) != Tag::NONE);
    assert_eq!(tagged(), None);
    zone.add(Run::new(Frame(512), 1024).unwrap()).unwrap();
    assert_eq!(tagged(), None);
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let freed = seat.free(Frame(0), order(0));
    assert_eq!(freed, Err(FreeError::Absent(Frame(0))));
    let run = Run::new(Frame(500), 20).unwrap();
    let absent = Err(RunError::Absent(Frame(500)));
    assert_eq!(zone.alloc_run_at(run, Movable), absent);
    // A part of one: the others are absent by their tags.
    zone.add(Run::new(Frame(511), 1).unwrap()).unwrap();
    assert_eq!(tagged(), Some(0));
    assert_eq!(zone.tag(510), Tag::ABSENT);
    assert_eq!(zone.tag(511), Tag::NONE);
    zone.verify().unwrap();
}

#[test]
fn a_zone_in_memory_that_holds_zeroes_serves_all_of_it() {
    let layout = ZoneLayout::new(Frame(0), 512 * 64);
    let config = Config::default();
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let zone = Zone::in_zeroed(&layout, &config, &mut memory, SingleThread::new()).unwrap();
    zone.add(Run::new(Frame(0), 512 * 64).unwrap()).unwrap();
    let bits = zone.free.iter().all(|word| word.load(Relaxed) == !0);
    assert!(bits, "all are free");
    let mut seat = zone.seat(CpuId(0)).unwrap();
    let frame = seat.alloc(order(0), Movable).unwrap();
    seat.free(frame, order(0)).unwrap();
    zone.verify().unwrap();
}

#[test]
fn zones_in_any_memory_do_the_same() {
    for layout in layouts() {
        let config = Config::default();
        let (mut any, mut zeroes) = (memory(&layout), memory(&layout));
        zeroes.fill(0);
        let zones = [
            Zone::new(&layout, &config, &mut any, SingleThread::new()).unwrap(),
            Zone::in_zeroed(&layout, &config, &mut zeroes, SingleThread::new()).unwrap(),
        ];
        let mut seats = zones.each_ref().map(|zone| {
            zone.add(whole(&layout)).unwrap();
            zone.seat(CpuId(0)).unwrap()
        });
        let mut random = Random::new(3);
        let mut held = Vec::new();
        for _ in 0..2000 {
            if random.index(2) == 0 && !held.is_empty() {
                let at = random.index(held.len());
                let (frame, order) = held.swap_remove(at);
                seats
                    .iter_mut()
                    .for_each(|seat| seat.free(frame, order).unwrap());
                continue;
            }
            let (order, mobility) = (order(random.index(8) as u8), Mobility::ALL[random.index(3)]);
            let [one, two] = seats.each_mut().map(|seat| seat.alloc(order, mobility));
            assert_eq!(one, two);
            held.extend(one.ok().map(|frame| (frame, order)));
        }
        assert_eq!(zones[0].stats(), zones[1].stats());
        assert_eq!(zones[0].recount(), zones[1].recount());
        zones.iter().for_each(|zone| zone.verify().unwrap());
    }
}
