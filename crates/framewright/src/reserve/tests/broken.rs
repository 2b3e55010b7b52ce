//! Each thing that `verify` claims to look for, spoiled: it is found, and named.

use super::super::table::{FrameState, Lane};
use super::*;
use crate::sync::AtomicU64 as Word;

type Bitmap = fn(&Lane) -> &Word;

#[test]
fn what_does_not_hold_in_a_reserve_is_named() {
    let (reserve, _) = reserve(64, 1);
    let clean = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let swap = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let key = |pool, index| Key {
        pool,
        object: 1,
        index,
    };
    guest.put(key(clean, 1), &page(1)).unwrap();
    guest.put_dirty(key(swap, 2), &page(2)).unwrap();
    let camera = reserve.reserve("camera", 16, 16).unwrap();
    reserve.verify().unwrap();
    let finds = |invariant: &str| {
        let broken = reserve.verify().unwrap_err();
        assert_eq!(broken.invariant, invariant, "at {}", broken.at);
    };
    let table = &reserve.table;
    let first = |state, is_reserved| {
        let is_one =
            |&id: &usize| table.state(id).state() == state && table.is_reserved(id) == is_reserved;
        (0..64).find(is_one).unwrap()
    };
    let (cached, dirty) = (
        first(FrameState::Cached, false),
        first(FrameState::Dirty, false),
    );
    let free = first(FrameState::Free, false);
    let word = table.state(cached);
    for state in [FrameState::Filling, FrameState::Loading] {
        table.publish(cached, word.with_state(state));
        finds("C1");
    }
    table.publish(cached, word);
    let flip = |id: usize, bitmap: Bitmap| {
        let bits = bitmap(table.lane(id / 64));
        bits.store(bits.load(Relaxed) ^ 1 << (id % 64), Relaxed);
    };
    let (of_free, of_owned): (Bitmap, Bitmap) = (|lane| &lane.free, |lane| &lane.owned);
    let (of_dirty, of_reserved): (Bitmap, Bitmap) = (|lane| &lane.dirty, |lane| &lane.reserved);
    for (id, bitmap, invariant) in [
        (free, of_free, "C2"),
        (free, of_owned, "C2"),
        (cached, of_free, "C2"),
        (cached, of_owned, "C2"),
        (cached, of_dirty, "C7"),
        (dirty, of_dirty, "C7"),
        (cached, (|lane| &lane.movable) as Bitmap, "C7"),
        (dirty, of_reserved, "C3"),
        (free, of_reserved, "C3"),
    ] {
        flip(id, bitmap);
        finds(invariant);
        flip(id, bitmap);
    }
    // A page that is gone, and still counted.
    table.publish(cached, word.with_state(FrameState::Free));
    flip(cached, of_free);
    finds("pages held");
    flip(cached, of_free);
    table.publish(cached, word);
    // An owner's that was never opened again, and a guest that never left.
    let inside = table.try_enter(0).unwrap();
    finds("C3");
    drop(inside);
    reserve.verify().unwrap();
    reserve.unreserve(camera).unwrap();
    // A clean page that stands in no list of the eviction queues, and one that stands in two: 64 frames are one shard.
    let shard_of = |queue: usize| reserve.queues[queue].lock(0, &reserve.platform);
    shard_of(0).unlink(table, cached);
    finds("EQ2");
    shard_of(0).push(table, cached);
    reserve.verify().unwrap();
    shard_of(1).push(table, cached);
    finds("EQ1");
}
