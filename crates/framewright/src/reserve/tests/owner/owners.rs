//! What owners may rely on: C1 to C3.

use super::*;
use crate::units::RunError;

fn run(start: u64, frames: u64) -> Run {
    Run::new(Frame(start), frames).unwrap()
}

#[test]
fn c3_a_reservation_is_taken_however_full_it_is() {
    let (reserve, toy) = reserve(2048, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let reservation = reserve.reserve("camera", 1500, 4).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    for index in 0..4000 {
        let key = Key {
            pool,
            object: 0,
            index,
        };
        // Every third would like to be dirty: those do not go into the reservation.
        let put = if index % 3 == 0 {
            guest.put_dirty(key, &page(index))
        } else {
            guest.put(key, &page(index))
        };
        assert!(put.is_ok() || put == Err(PutRefused::Full));
    }
    let taken = reserve.take(reservation).unwrap();
    assert_eq!(taken.frames(), 1500);
    assert_eq!(taken.start().0 % 4, 0);
    toy.fill(taken, 0xaaaa);
    assert_eq!(reserve.take(reservation), Err(RunError::Taken(taken)));
    for index in 0..4000 {
        let key = Key {
            pool,
            object: 0,
            index,
        };
        if guest.get(key, &mut out) {
            assert_eq!(stamp(&out), index);
        }
    }
    reserve.verify().unwrap();
    reserve.release(taken).unwrap();
    assert_eq!(reserve.take(reservation), Ok(taken));
    reserve.verify().unwrap();
}

/// What the proposal's guarantee lacks: plain requests fragment each other.
#[test]
fn plain_requests_fragment_each_other_and_a_reservation_holds() {
    let (plain, _) = reserve(1024, 1);
    let singles: Vec<Run> = (0..1024)
        .map(|_| plain.alloc_contig(1, 1).unwrap())
        .collect();
    for single in singles.iter().filter(|run| run.start().0 % 2 == 0) {
        plain.release(*single).unwrap();
    }
    // Half of it is free, but no two frames side by side.
    assert_eq!(plain.alloc_contig(2, 1), Err(RunError::NoRoom));

    let (reserve, _) = reserve(1024, 1);
    assert_eq!(
        reserve.reserve("display", 1, 4096),
        Err(RunError::NoRoom),
        "no frame has such a number"
    );
    let reservation = reserve.reserve("display", 512, 512).unwrap();
    let singles: Vec<Run> = core::iter::from_fn(|| reserve.alloc_contig(1, 1).ok()).collect();
    assert_eq!(singles.len(), 512);
    assert_eq!(reserve.take(reservation).unwrap().frames(), 512);
    reserve.verify().unwrap();
}

#[test]
fn of_several_runs_the_cheapest_is_taken() {
    let (reserve, _) = reserve(512, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    let mut out = [0; 512];
    let key = |index| Key {
        pool,
        object: 0,
        index,
    };
    // 256 pages from the first frame on, of which the first half is in use.
    for index in 0..256 {
        guest.put(key(index), &page(index)).unwrap();
    }
    for index in 0..128 {
        assert!(guest.get(key(index), &mut out));
    }
    let free = reserve.alloc_contig(200, 1).unwrap();
    assert!(
        free.start().0 >= FIRST + 256,
        "free frames are cheapest: {free:?}"
    );
    let cold = reserve.alloc_contig(64, 1).unwrap();
    assert!(
        cold.start().0 >= FIRST + 128 && cold.end().0 <= FIRST + 512,
        "then the pages that were not got: {cold:?}"
    );
    let hits = (0..128)
        .filter(|&index| guest.get(key(index), &mut out))
        .count();
    assert_eq!(hits, 128);
    reserve.verify().unwrap();
}

#[test]
fn what_is_asked_for_wrongly_is_refused_and_nothing_changes() {
    let (reserve, _) = reserve(100, 1);
    assert_eq!(reserve.alloc_contig(0, 1), Err(RunError::Malformed));
    assert_eq!(reserve.alloc_contig(1, 3), Err(RunError::Malformed));
    assert_eq!(reserve.alloc_contig(101, 1), Err(RunError::NoRoom));
    assert_eq!(reserve.alloc_contig(u64::MAX, 1), Err(RunError::NoRoom));
    assert_eq!(reserve.reserve("x", 0, 1), Err(RunError::Malformed));
    assert_eq!(reserve.reserve("x", 101, 1), Err(RunError::NoRoom));
    let taken = reserve.alloc_contig(10, 1).unwrap();
    for wrong in [
        run(taken.start().0, 11),
        run(FIRST - 1, 1),
        run(FIRST + 90, 20),
        run(taken.start().0, 0),
        run(taken.end().0, 1),
    ] {
        assert_eq!(reserve.release(wrong), Err(RunError::NotOwned(wrong)));
    }
    let reservation = reserve
        .reserve("a name longer than sixteen bytes", 20, 4)
        .unwrap();
    let part = run(reserve.run_of(reservation).unwrap().start().0, 10);
    reserve.take(reservation).unwrap();
    assert_eq!(
        reserve.release(part),
        Err(RunError::NotOwned(part)),
        "a reservation is released whole"
    );
    let taken_run = reserve.run_of(reservation).unwrap();
    assert_eq!(
        reserve.unreserve(reservation),
        Err(RunError::Taken(taken_run))
    );
    let mut seen = Vec::new();
    reserve.for_each_reservation(|name, run, taken| seen.push((name.len(), run, taken)));
    assert_eq!(seen, [(16, taken_run, true)]);
    reserve.release(taken_run).unwrap();
    reserve.unreserve(reservation).unwrap();
    assert_eq!(reserve.take(reservation), Err(RunError::Unknown));
    reserve.release(taken).unwrap();
    assert_eq!(reserve.alloc_contig(100, 1).unwrap().frames(), 100);
    reserve.verify().unwrap();
}

#[test]
fn c3_a_reservation_is_not_placed_over_pages_that_are_not_on_their_device() {
    let (reserve, _) = reserve(64, 1);
    let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
    let mut guest = guest(&reserve, 0);
    for index in 0..64 {
        let key = Key {
            pool,
            object: 0,
            index,
        };
        guest.put_dirty(key, &page(index)).unwrap();
    }
    assert_eq!(reserve.reserve("late", 16, 1), Err(RunError::Held));
    for index in 0..32 {
        guest.invalidate_page(Key {
            pool,
            object: 0,
            index,
        });
    }
    let reservation = reserve.reserve("late", 16, 1).unwrap();
    assert!(reserve.take(reservation).is_ok());
    reserve.verify().unwrap();
}

#[test]
fn metadata_is_two_and_a_half_to_three_and_a_half_percent_of_the_frames() {
    // From 32 MiB on, and each step of a sixteenth up to the next power of two: the index is rounded up.
    for frames in (13..20).flat_map(|shift| (16..32).map(move |part| part << shift >> 4)) {
        let layout = ReserveLayout::new(Run::new(Frame(0), frames).unwrap());
        let permille = layout.words_needed().unwrap() as u64 * 8 * 1000 / (frames * Frame::BYTES);
        assert!((25..36).contains(&permille), "{frames}: {permille}");
    }
    let layout = ReserveLayout::new(Run::new(Frame(0), 65_536).unwrap());
    let bytes = layout.words_needed().unwrap() as u64 * 8;
    let frames_bytes = 65_536 * Frame::BYTES;
    assert_eq!(
        (bytes * 1000 + frames_bytes / 2) / frames_bytes,
        31,
        "3.1 % of 256 MiB"
    );
}
