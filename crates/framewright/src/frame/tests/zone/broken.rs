//! Each invariant, broken by hand: `verify` names it.

use super::*;
use crate::frame::pageblock::Tag;
use crate::frame::seat::cache_bit;
use crate::stats::Broken;
use crate::sync::Ordering::Relaxed;
use std::string::ToString;

type Broke = fn(&Zone<'_, SingleThread>, &Seat<'_, '_, SingleThread>);

/// What `verify` says after `damage` of a zone with blocks of every state.
fn verdict(damage: Broke) -> Result<(), Broken> {
    // The last pageblock never had a frame.
    let layout = ZoneLayout::new(Frame(0), 512 * 5).with_cpus(2);
    let mut memory = memory(&layout);
    let config = caching(100);
    let zone = Zone::new(&layout, &config, &mut memory, SingleThread::new()).unwrap();
    zone.add(run(0, 512 * 4 - 100)).unwrap();
    zone.alloc_at(Frame(600), order(3), Unmovable).unwrap();
    zone.alloc_at(Frame(700), order(1), Movable).unwrap();
    zone.alloc_at(Frame(510), order(0), Movable).unwrap();
    let mut seat = zone.seat(CpuId(1)).unwrap();
    seat.words.set_limit(Movable, 0, 4);
    seat.free(Frame(510), order(0)).unwrap();
    zone.verify().unwrap();
    damage(&zone, &seat);
    zone.verify()
}

#[test]
fn verify_names_the_invariant_that_is_broken_and_where() {
    let cases: [(&str, u64, Broke); 20] = [
        // A frame that is free and absent; one whose tag says nothing.
        ("F1", 1, |zone, _| zone.set_tag(512 + 400, Tag::ABSENT)),
        ("F1", 1, |zone, _| zone.set_tag(700, Tag::NONE)),
        // Where no frame exists: one that is tagged, all of them free or taken.
        ("F1", 4, |zone, _| zone.set_tag(512 * 4 + 9, Tag::ABSENT)),
        ("F2", 4, |zone, _| {
            zone.bitmap(4)
                .iter()
                .for_each(|word| word.store(!0, Relaxed));
        }),
        ("F2", 4, |zone, _| {
            zone.set_tag(512 * 4, Tag::live(order(9), Movable));
        }),
        // Counted as movable, tagged as unmovable.
        ("F2", 1, |zone, _| {
            zone.set_tag(700, Tag::live(order(1), Unmovable));
        }),
        // Counted as free, neither free nor there.
        ("F2", 1, |zone, _| {
            let word = &zone.bitmap(1)[7];
            word.store(word.load(Relaxed) & !1, Relaxed);
            zone.set_tag(512 + 448, Tag::ABSENT);
        }),
        ("F3", 1, |zone, seat| {
            seat.words.entries(Movable, 0)[0].store(511, Relaxed);
            assert_eq!(zone.tag(511), Tag::NONE);
        }),
        // Tagged as cached by a seat that does not have it.
        ("F3", 0, |zone, _| {
            zone.set_tag(700, Tag::cached(0, order(1), Movable));
        }),
        // Holds a block, or has a stock or a limit, and is not among the caches that may hold one.
        ("F3", 1, |_, seat| seat.words.set_may_hold(0)),
        ("F3", 1, |_, seat| {
            seat.words.set_limit(Unmovable, 3, 1);
            seat.words
                .set_may_hold(seat.words.may_hold() & !cache_bit(Unmovable, 3));
        }),
        ("F4", 2, |zone, seat| {
            // Dropped, not unlocked.
            _ = zone.try_lock(seat.words.counters(), 2).unwrap();
        }),
        ("F4", 3, |zone, _| {
            zone.remote_bitmap(3)[5].store(4, Relaxed);
        }),
        // Out of its row, and in one more.
        ("F5", 2, |zone, _| {
            let class = zone.meta(2).class();
            zone.index.remove(zone.row(9, class), 2);
        }),
        ("F5", 0, |zone, _| {
            zone.index.insert(zone.row(9, zone.meta(2).class()), 0);
        }),
        ("F5", 2, |zone, _| {
            zone.index.insert(zone.row(4, zone.meta(2).class()), 2);
        }),
        ("F6", 0, |zone, _| {
            zone.set_present_frames(zone.present_frames() + 1);
        }),
        ("F6", 0, |_, seat| seat.words.counters().net.add(1)),
        ("F6", 0, |_, seat| seat.words.counters().large.add(8)),
        ("F7", 0, |zone, _| zone.count_corruption()),
    ];
    for (nth, (invariant, at, damage)) in cases.into_iter().enumerate() {
        let broken = Broken { invariant, at };
        assert_eq!(verdict(damage), Err(broken), "case {nth}");
    }
    assert_eq!(verdict(|_, _| ()), Ok(()));
    let broken = Broken {
        invariant: "F5",
        at: 17,
    };
    assert_eq!(broken.to_string(), "invariant F5 is broken at 0x11");
}
