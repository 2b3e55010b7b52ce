//! Interleavings of the words that CPUs share without a lock: a pageblock's lock and its second
//! bitmap, and the index above the leaves; every one, or those up to the preemptions that a model says.
//! `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --lib frame::models`

extern crate std;

use super::pageblock::{BlockIndex, IndexShape, Tag};
use super::wanted::WantedBlock;
use super::zone::{Sought, Zone};
use super::{Seat, ZoneLayout};
use crate::policy::{Config, End, Fallback};
use crate::raw::Carver;
use crate::sync::models::explore;
use crate::sync::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use crate::units::{CpuId, Frame, Mobility, Order, Run};
use loom::thread;
use std::boxed::Box;
use std::sync::Arc;
use std::vec;

type ModelZone = &'static Zone<'static, ()>;
type ModelFrameSeat = Seat<'static, 'static, ()>;

const MOVABLE: Mobility = Mobility::Movable;

/// A zone of one pageblock of `order`, with nothing cached.
fn pageblock(order: u8, cpus: u16) -> ModelZone {
    pageblock_with(order, cpus, Config::default().fallback)
}

fn pageblock_with(order: u8, cpus: u16, fallback: Fallback) -> ModelZone {
    let zone = void_with(order, cpus, fallback);
    let frames = zone.pageblock_order().frames();
    zone.add(Run::new(Frame(0), frames).unwrap()).unwrap();
    zone
}

/// The same without its frames, in memory that holds zeroes.
fn void_with(order: u8, cpus: u16, fallback: Fallback) -> ModelZone {
    let order = Order::new(order).unwrap();
    let layout = ZoneLayout::new(Frame(0), order.frames())
        .with_orders(order, order)
        .with_cpus(cpus);
    let config = Config {
        fallback,
        cache_permille: 0,
        ..Config::default()
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let zone = Zone::in_memory(&layout, &config, memory, (), true).unwrap();
    Box::leak(Box::new(zone))
}

fn seat(zone: ModelZone, cpu: u16) -> ModelFrameSeat {
    zone.seat(CpuId(cpu)).unwrap()
}

/// Frees a block as a CPU does that found no room in its cache: under the pageblock's lock, or beside it.
fn give(zone: ModelZone, cpu: u16, block: usize) {
    let seat = seat(zone, cpu);
    let given = zone.give_back(seat.words.counters(), block, Order::ZERO, MOVABLE);
    given.unwrap();
}

/// Asserts that no CPU holds the pageblock, that nothing is left in it, and that the index knows
/// its `free` frames.
fn assert_settled(zone: ModelZone, free: u64) {
    assert_eq!(zone.descriptor(0).lock.load(Relaxed), 0, "F4: the lock");
    assert_eq!(zone.remote_bitmap(0)[0].load(Relaxed), 0, "F4: remote");
    let bits = zone.bitmap(0)[0].load(Relaxed);
    let facts = zone.facts(0);
    assert_eq!(u64::from(bits.count_ones()), free, "F1");
    assert_eq!(u64::from(facts.free), free, "F2");
    let meta = zone.meta(0);
    for order in 0..=zone.pageblock_order().index() {
        let row = zone.row(order, meta.class());
        let has = meta.orders() >> order & 1 != 0;
        assert_eq!(zone.index.contains(row, 0), has, "F5: order {order}");
    }
    assert!(zone.index.is_consistent(), "I2");
    assert_eq!(zone.corruptions(), 0, "F7");
}

/// Takes the frames of the zone's pageblock one by one, all of them.
fn take_all(zone: ModelZone) -> usize {
    let frames = zone.pageblock_order().frames() as usize;
    let run = Run::new(Frame(0), frames as u64).unwrap();
    let stopped = zone.stop();
    let mut held = stopped.hold(0);
    for slot in 0..frames {
        assert!(held.take_at(slot, Order::ZERO, MOVABLE));
        zone.set_tag(slot, Tag::live(Order::ZERO, MOVABLE));
    }
    held.unlock();
    run.frames() as usize
}

#[test]
fn what_is_left_while_another_cpu_unlocks_is_collected_by_one_of_them() {
    explore(None, || {
        let zone = pageblock(1, 2);
        take_all(zone);
        let other = thread::spawn(move || give(zone, 1, 1));
        give(zone, 0, 0);
        other.join().unwrap();
        assert_settled(zone, 2);
    });
}

#[test]
fn what_two_leave_in_a_pageblock_that_a_third_unlocks_is_all_collected() {
    // With two preemptions it takes minutes.
    explore(Some(1), || {
        let zone = pageblock(2, 3);
        take_all(zone);
        let one = thread::spawn(move || give(zone, 1, 1));
        let two = thread::spawn(move || give(zone, 2, 2));
        give(zone, 0, 0);
        one.join().unwrap();
        two.join().unwrap();
        assert_settled(zone, 3);
    });
}

#[test]
fn what_is_left_while_another_cpu_takes_a_frame_is_neither_lost_nor_twice() {
    explore(Some(3), || {
        let zone = pageblock(1, 2);
        take_all(zone);
        give(zone, 0, 0);
        let other = thread::spawn(move || give(zone, 1, 1));
        let mut mine = seat(zone, 0);
        let taken = mine.try_alloc(Order::ZERO, MOVABLE);
        other.join().unwrap();
        // A search passes by a pageblock that it finds locked.
        assert_settled(zone, 2 - u64::from(taken.is_some()));
        if let Some(frame) = taken {
            assert_eq!(
                zone.tag(frame.0 as usize),
                Tag::live(Order::ZERO, MOVABLE),
                "F1"
            );
        }
    });
}

#[test]
fn a_look_beside_memory_that_comes_sees_no_frame_that_is_not_there() {
    explore(Some(2), || {
        let zone = void_with(2, 1, Config::default().fallback);
        let look = |frames| zone.find_present(Sought::new(frames, 1).unwrap()).found;
        let other = thread::spawn(move || {
            assert_eq!(look(3), None);
            assert!(look(2).is_none_or(|at| at == (1..3)));
            assert!(look(1).is_none_or(|at| at == (1..2)));
        });
        zone.add(Run::new(Frame(1), 2).unwrap()).unwrap();
        other.join().unwrap();
        assert_eq!(look(2), Some(1..3));
    });
}

#[test]
fn a_block_that_is_spilled_beside_one_that_is_left_is_free() {
    explore(Some(3), || {
        let zone = pageblock(2, 2);
        take_all(zone);
        let cached = Tag::cached(0, Order::ZERO, MOVABLE);
        zone.set_tag(0, cached);
        let other = thread::spawn(move || give(zone, 1, 3));
        // The fast path of a cache that gives one block back.
        let mine = seat(zone, 0);
        let block = [AtomicU32::new(0)];
        zone.give_cached(mine.words, &block, Order::ZERO, MOVABLE);
        other.join().unwrap();
        assert_settled(zone, 2);
    });
}

#[test]
fn f5_a_whole_pageblock_that_two_see_free_is_handed_out_once() {
    explore(Some(3), || {
        // The least that fills a word, as the fast path wants it; and the policy with the fewest classes,
        // because the index of the others takes too long to make.
        let zone = pageblock_with(6, 2, Fallback::LargestFirst);
        let take = move |cpu| seat(zone, cpu).try_alloc(zone.pageblock_order(), MOVABLE);
        let other = thread::spawn(move || take(1));
        let mine = take(0);
        let theirs = other.join().unwrap();
        assert_ne!(mine.is_some(), theirs.is_some(), "F5");
        assert_settled(zone, 0);
    });
}

/// Two lists rank two classes of one order; pageblocks in two words.
fn index() -> BlockIndex<'static> {
    let shape = IndexShape::new(1, 2, 128);
    let words = Carver::of(vec![0; shape.words()].leak());
    let counts = [0; 3].map(|zero| &*Box::leak(Box::new(AtomicU64::new(zero))));
    BlockIndex::new(shape, words, (counts, false), |list, _, class| {
        (list < 2).then_some(class as i32)
    })
}

const ROW: usize = 1;

/// The steps of a CPU that finds a row empty: tidies up behind it.
fn search(index: BlockIndex<'_>, list: usize) -> Option<usize> {
    let found = index.find(ROW, End::Lowest, None, true);
    if found.is_none() {
        index.lower_flag(list, ROW);
    }
    found
}

#[test]
fn i2_what_is_inserted_while_a_search_tidies_up_is_found() {
    explore(None, || {
        let index = index();
        index.insert(ROW, 3);
        index.remove(ROW, 3);
        let other = thread::spawn(move || search(index, 0));
        index.insert(ROW, 5);
        other.join().unwrap();
        assert!(index.is_consistent(), "I2");
        assert_eq!(search(index, 1), Some(5));
    });
}

#[test]
fn what_is_inserted_is_there_for_one_list_while_a_search_through_another_tidies_up() {
    explore(None, || {
        let index = index();
        index.insert(ROW, 3);
        index.remove(ROW, 3);
        assert_eq!(index.find(ROW, End::Lowest, None, true), None);
        let other = thread::spawn(move || index.lower_flag(0, ROW));
        index.insert(ROW, 5);
        assert!(index.may_have(1, 0), "F8");
        other.join().unwrap();
        assert!(index.may_have(0, 0) && index.may_have(1, 0));
    });
}

#[test]
fn a_look_that_a_search_made_miss_a_pageblock_is_told_so_afterwards() {
    for is_summary in [true, false] {
        explore(None, move || {
            let index = index();
            index.insert(ROW, 3);
            index.remove(ROW, 3);
            let find = move || index.find(ROW, End::Lowest, None, true);
            if !is_summary {
                assert_eq!(find(), None);
            }
            let other = thread::spawn(move || match is_summary {
                true => _ = find(),
                false => index.lower_flag(0, ROW),
            });
            index.insert(ROW, 5);
            let before = index.missed();
            let is_missed = !index.may_have(0, 0);
            other.join().unwrap();
            assert!(!is_missed || index.missed() != before, "F8");
        });
    }
}

/// A note that there is nothing, and whether it holds now.
fn look_for_none(index: BlockIndex<'_>) -> impl Fn() -> bool {
    let (begun, is_tidying) = index.tidied();
    let is_none = !index.may_have(0, 0);
    move || is_none && !is_tidying && index.tidied().0 == begun
}

#[test]
fn a_note_of_nothing_does_not_hold_once_a_look_sees_the_pageblock_again() {
    explore(None, || {
        let index = index();
        index.insert(ROW, 3);
        index.remove(ROW, 3);
        let other = thread::spawn(move || search(index, 0));
        index.insert(ROW, 5);
        let holds = look_for_none(index);
        // The next request, wherever the other CPU is now.
        let is_seen = index.may_have(0, 0) || index.may_have(1, 0);
        assert!(!is_seen || !holds(), "F8");
        other.join().unwrap();
        assert!(!holds(), "F8");
    });
}

#[test]
fn a_note_of_nothing_does_not_hold_once_another_insertion_shows_the_pageblock() {
    explore(Some(2), || {
        let index = index();
        index.insert(ROW, 3);
        index.remove(ROW, 3);
        let searching = thread::spawn(move || search(index, 0));
        index.insert(ROW, 5);
        // It has not counted yet.
        let inserting = thread::spawn(move || index.insert(ROW, 6));
        let holds = look_for_none(index);
        let is_seen = index.contains(ROW, 5) && index.may_have(0, 0);
        assert!(!is_seen || !holds(), "F8");
        searching.join().unwrap();
        inserting.join().unwrap();
        assert!(!holds(), "F8");
    });
}

const ONE: WantedBlock = WantedBlock {
    order: Order::ZERO,
    mobility: MOVABLE,
};

/// A zone without a free frame, in which each of these CPUs has searched and found nothing.
fn barren(cpus: u16) -> ModelZone {
    let zone = pageblock_with(1, cpus + 1, Fallback::LargestFirst);
    take_all(zone);
    for cpu in 0..cpus {
        assert_eq!(seat(zone, cpu).try_alloc(ONE.order, ONE.mobility), None);
    }
    zone
}

#[test]
fn a_note_of_nothing_does_not_hold_once_a_free_has_returned() {
    explore(Some(3), || {
        let zone = barren(1);
        let freed = Arc::new(AtomicU64::new(0));
        let is_freed = freed.clone();
        let other = thread::spawn(move || {
            let mine = seat(zone, 0);
            // Noted, or not.
            _ = mine.is_barren(ONE);
            let is_freed = is_freed.load(Acquire) != 0;
            assert!(!mine.is_barren(ONE) || !is_freed, "F8");
        });
        give(zone, 1, 0);
        freed.store(1, Release);
        other.join().unwrap();
        assert!(!seat(zone, 0).is_barren(ONE), "F8");
    });
}

#[test]
fn two_notes_beside_one_insertion_hold_no_longer_than_it_takes() {
    explore(Some(2), || {
        let zone = barren(2);
        let looks = [0, 1].map(|cpu| thread::spawn(move || seat(zone, cpu).is_barren(ONE)));
        give(zone, 2, 0);
        for look in looks {
            look.join().unwrap();
        }
        for cpu in [0, 1] {
            assert!(!seat(zone, cpu).is_barren(ONE), "F8");
        }
    });
}

#[test]
fn i2_holds_after_two_searches_in_different_lists_beside_an_insertion() {
    explore(Some(3), || {
        let index = index();
        index.insert(ROW, 70);
        index.remove(ROW, 70);
        let one = thread::spawn(move || search(index, 0));
        let two = thread::spawn(move || search(index, 1));
        index.insert(ROW, 5);
        one.join().unwrap();
        two.join().unwrap();
        assert!(index.is_consistent(), "I2");
    });
}

#[test]
fn i2_holds_after_an_insertion_a_removal_and_a_search_in_one_word() {
    explore(Some(3), || {
        let index = index();
        index.insert(ROW, 7);
        let one = thread::spawn(move || index.remove(ROW, 7));
        let two = thread::spawn(move || _ = search(index, 0));
        index.insert(ROW, 5);
        one.join().unwrap();
        two.join().unwrap();
        assert!(index.is_consistent(), "I2");
        assert!(index.contains(ROW, 5) && !index.contains(ROW, 7), "I1");
    });
}

#[test]
fn i3_a_look_from_outside_hides_nothing_from_a_search_at_rest() {
    explore(None, || {
        let index = index();
        for id in [3, 70] {
            index.insert(ROW, id);
            index.remove(ROW, id);
        }
        let other = thread::spawn(move || index.peek(ROW, End::Lowest, None));
        index.insert(ROW, 71);
        // As a request that stopped all CPUs: the thread that looks is in no seat, and goes on.
        assert_eq!(search(index, 0), Some(71), "F8");
        other.join().unwrap();
        assert!(index.is_consistent(), "I2");
    });
}
