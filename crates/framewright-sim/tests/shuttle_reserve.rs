//! Guests and owners of a small reserve under random interleavings.
//!
//! `RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/models cargo test --release -p
//! framewright-sim --test shuttle_reserve`
#![cfg(shuttle)]

use framewright::RunError;
use framewright::frame::{AllocError, FrameSource};
use framewright::platform::{FramePlatform, ReservePlatform};
use framewright::reserve::{Guest, Key, PoolConfig, PoolId, PutRefused, Reserve, ReserveLayout};
use framewright::{Context, CpuId, Frame, Run};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicU64, Ordering::Relaxed};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;

/// Pages of which only the two ends are kept: that is enough to see a torn one.
#[derive(Clone, Copy)]
struct TwoEnds(&'static [[AtomicU64; 2]]);

impl FramePlatform for TwoEnds {
    fn relax(&self, _attempt: u32) {
        thread::yield_now();
    }
}

impl ReservePlatform for TwoEnds {
    fn store(&self, frame: Frame, page: &[u64; 512]) {
        let [first, last] = &self.0[frame.0 as usize];
        first.store(page[0], Relaxed);
        last.store(page[511], Relaxed);
    }

    fn load(&self, frame: Frame, page: &mut [u64; 512]) {
        let [first, last] = &self.0[frame.0 as usize];
        page[0] = first.load(Relaxed);
        page[511] = last.load(Relaxed);
    }
}

impl TwoEnds {
    fn poison(&self, run: Run) {
        for frame in run.start().0..run.end().0 {
            self.0[frame as usize]
                .iter()
                .for_each(|end| end.store(u64::MAX, Relaxed));
        }
    }

    fn is_poisoned(&self, run: Run) -> bool {
        let frames = &self.0[run.start().0 as usize..run.end().0 as usize];
        let mut ends = frames.iter().flatten();
        ends.all(|end| end.load(Relaxed) == u64::MAX)
    }
}

type ShuttleReserve = Reserve<'static, TwoEnds>;
type ShuttleGuest = Guest<'static, 'static, TwoEnds>;

fn whole(frames: u64, cpus: u16) -> (&'static ShuttleReserve, TwoEnds) {
    beside(frames, cpus, 0)
}

/// A reserve, and behind it this many ordinary frames that pages may be put back into.
fn beside(frames: u64, cpus: u16, ordinary: u32) -> (&'static ShuttleReserve, TwoEnds) {
    let ends = (0..frames + u64::from(ordinary)).map(|_| [0, 0].map(AtomicU64::new));
    let ends = TwoEnds(Vec::leak(ends.collect()));
    let layout = ReserveLayout {
        pools: 2,
        values: 0,
        ordinary,
        ..ReserveLayout::new(Run::new(Frame(0), frames).unwrap()).with_cpus(cpus)
    };
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let reserve = Reserve::new(&layout, memory, ends).unwrap();
    // So that the generations of frames come round in every run.
    reserve.age_frames((1 << 52) - 3);
    (Box::leak(Box::new(reserve)), ends)
}

/// A page with `stamp` at both ends, which is no repeated word.
fn page(stamp: u64) -> [u64; 512] {
    let mut page = [1; 512];
    (page[0], page[511]) = (stamp << 8, stamp << 8 | 1);
    page
}

fn stamp(page: &[u64; 512]) -> u64 {
    assert_eq!(page[0] | 1, page[511], "a torn page, or an owner's");
    page[0] >> 8
}

const fn key(pool: PoolId, index: u64) -> Key {
    Key {
        pool,
        object: 0,
        index,
    }
}

/// Puts, gets and invalidates keys of its own, and knows what may be there.
fn guest_at_work(seat: &mut ShuttleGuest, pool: PoolId, first: u64, exclusive: bool) {
    let mut there = [None; 2];
    let mut out = [0; 512];
    for n in 0..5u64 {
        let which = (n % 2) as usize;
        let key = key(pool, first + which as u64);
        there[which] = seat.put(key, &page(n + 1)).is_ok().then_some(n + 1);
        if n == 2 {
            seat.invalidate_page(key);
            there[which] = None;
        }
        for which in 0..2 {
            let key = Key {
                index: first + which as u64,
                ..key
            };
            if seat.get(key, &mut out) {
                assert_eq!(Some(stamp(&out)), there[which]);
                if exclusive {
                    there[which] = None;
                }
            } else {
                // A miss stays a miss (C5).
                there[which] = None;
            }
        }
    }
}

/// As many schedules at random, and as many with three changes of priority: only those hold a
/// thread up for long between two of its steps.
fn explore(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    let test = Arc::new(test);
    let same = test.clone();
    Runner::new(RandomScheduler::new(schedules), Config::new()).run(move || test());
    Runner::new(PctScheduler::new(3, schedules), Config::new()).run(move || same());
}

fn guests_beside_an_owner(config: &'static PoolConfig) {
    let (reserve, ends) = whole(4, 2);
    let pool = reserve.open_pool(config).unwrap();
    let guests: Vec<_> = (0..2u16)
        .map(|cpu| {
            thread::spawn(move || {
                let mut seat = reserve.guest(CpuId(cpu)).unwrap();
                guest_at_work(&mut seat, pool, u64::from(cpu) * 2, config.exclusive);
            })
        })
        .collect();
    for frames in [3, 1, 4] {
        let run = reserve.alloc_contig(frames, 1).expect("no page is dirty");
        ends.poison(run);
        reserve.release(run).unwrap();
    }
    guests.into_iter().for_each(|guest| guest.join().unwrap());
    reserve.verify().unwrap();
}

#[test]
fn c4_c5_guests_get_their_own_last_pages_or_nothing_beside_an_owner() {
    explore(400, || guests_beside_an_owner(&PoolConfig::SWAP));
}

#[test]
fn c4_c5_the_same_where_a_get_takes_its_page_away() {
    explore(400, || guests_beside_an_owner(&PoolConfig::CLEAN));
}

/// Short, so that each pair of steps of the two meets in some schedule.
#[test]
fn c2_c4_no_guest_writes_a_frame_that_an_owner_has() {
    for config in [&PoolConfig::SWAP, &PoolConfig::CLEAN] {
        explore(2000, move || {
            let (reserve, ends) = whole(1, 1);
            let pool = reserve.open_pool(config).unwrap();
            let guest = thread::spawn(move || {
                let mut seat = reserve.guest(CpuId(0)).unwrap();
                let mut out = [0; 512];
                for index in 0..2 {
                    let _ = seat.put(key(pool, index), &page(index + 1));
                    let is_there = seat.get(key(pool, index), &mut out);
                    assert!(!is_there || stamp(&out) == index + 1);
                }
            });
            let run = reserve.alloc_contig(1, 1).expect("no page is dirty");
            ends.poison(run);
            guest.join().unwrap();
            assert!(ends.is_poisoned(run), "a guest has written it");
            reserve.verify().unwrap();
        });
    }
}

#[test]
fn c3_c7_a_reservation_is_taken_and_no_dirty_page_is_lost() {
    explore(400, || {
        let (reserve, ends) = whole(6, 1);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let guest = thread::spawn(move || {
            let mut seat = reserve.guest(CpuId(0)).unwrap();
            let mut out = [0; 512];
            let mut stored = Vec::new();
            for index in 0..3 {
                if seat.put_dirty(key(pool, index), &page(index + 1)).is_ok() {
                    stored.push(index);
                }
                for &index in &stored {
                    assert!(seat.get(key(pool, index), &mut out), "C7");
                    assert_eq!(stamp(&out), index + 1);
                }
            }
        });
        let reservation = match reserve.reserve("camera", 3, 1) {
            Ok(reservation) => Some(reservation),
            Err(RunError::Held) => None,
            Err(other) => panic!("{other}"),
        };
        if let Some(reservation) = reservation {
            for _ in 0..2 {
                let run = reserve.take(reservation).expect("C3");
                ends.poison(run);
                reserve.release(run).unwrap();
            }
        }
        guest.join().unwrap();
        reserve.verify().unwrap();
    });
}

#[test]
fn c3_an_owner_that_waits_with_a_bound_takes_a_reservation_or_changes_nothing() {
    explore(400, || {
        let (reserve, ends) = whole(4, 2);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let reservation = reserve.reserve("camera", 3, 1).unwrap();
        let guests: Vec<_> = (0..2u16)
            .map(|cpu| {
                thread::spawn(move || {
                    let mut seat = reserve.guest(CpuId(cpu)).unwrap();
                    guest_at_work(&mut seat, pool, u64::from(cpu) * 2, false);
                })
            })
            .collect();
        for rounds in [0, 1, 4] {
            match reserve.try_take(reservation, rounds) {
                Ok(run) => {
                    ends.poison(run);
                    reserve.release(run).unwrap();
                }
                // No frame is an owner's: a guest that finds otherwise would see a torn page.
                Err(RunError::WouldWait) => assert_eq!(reserve.occupancy().owned, 0),
                Err(other) => panic!("{other}"),
            }
        }
        guests.into_iter().for_each(|guest| guest.join().unwrap());
        let run = reserve
            .try_take(reservation, 0)
            .expect("no guest is inside");
        ends.poison(run);
        reserve.release(run).unwrap();
        reserve.verify().unwrap();
    });
}

#[test]
fn c6_a_pool_is_closed_once_and_serves_nothing_when_it_is_open_again() {
    explore(400, || {
        let (reserve, _) = whole(4, 2);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let other = thread::spawn(move || {
            let mut seat = reserve.guest(CpuId(1)).unwrap();
            let _ = seat.put(key(pool, 0), &page(1));
            seat.invalidate_pool(pool)
        });
        let mut seat = reserve.guest(CpuId(0)).unwrap();
        let _ = seat.put_dirty(key(pool, 1), &page(2));
        let closed = seat.invalidate_pool(pool);
        assert!(closed != other.join().unwrap(), "one of two closes it");
        assert_eq!(reserve.open_pool(&PoolConfig::SWAP), Some(pool));
        let mut out = [0; 512];
        assert!((0..2).all(|index| !seat.get(key(pool, index), &mut out)));
        drop(seat);
        reserve.verify().unwrap();
    });
}

#[test]
fn c6_what_two_put_under_one_key_is_one_of_the_two_or_nothing() {
    explore(400, || {
        let (reserve, _) = whole(4, 2);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let other = thread::spawn(move || {
            let mut seat = reserve.guest(CpuId(1)).unwrap();
            let put = seat.put(key(pool, 0), &page(2));
            assert!(matches!(put, Ok(()) | Err(PutRefused::Overtaken)));
            seat.invalidate_page(key(pool, 1));
        });
        let mut seat = reserve.guest(CpuId(0)).unwrap();
        let mut out = [0; 512];
        let put = seat.put(key(pool, 0), &page(1));
        assert!(matches!(put, Ok(()) | Err(PutRefused::Overtaken)));
        let under_way = seat.put(key(pool, 1), &page(3));
        if seat.get(key(pool, 0), &mut out) {
            assert!((1..=2).contains(&stamp(&out)));
        }
        other.join().unwrap();
        if seat.get(key(pool, 1), &mut out) {
            assert!(under_way.is_ok(), "a refused put leaves nothing");
            assert_eq!(stamp(&out), 3);
        }
        seat.invalidate_object(pool, 0);
        assert!((0..2).all(|index| !seat.get(key(pool, index), &mut out)));
        drop(seat);
        reserve.verify().unwrap();
    });
}

#[test]
fn c7_a_page_put_again_or_forgotten_while_it_is_written_is_not_written_for_another() {
    explore(400, || {
        let (reserve, ends) = whole(4, 2);
        let pool = reserve.open_pool(&PoolConfig::SWAP).unwrap();
        let mut seat = reserve.guest(CpuId(0)).unwrap();
        for index in 0..3 {
            seat.put_dirty(key(pool, index), &page(index + 1)).unwrap();
        }
        let cleaner = thread::spawn(move || {
            let mut seat = reserve.guest(CpuId(1)).unwrap();
            seat.clean(8, |key, frame| {
                let mut page = [1; 512];
                ends.load(frame, &mut page);
                let is = stamp(&page);
                assert!(is == key.index + 1 || is == key.index + 11, "{key:?}: {is}");
                true
            });
        });
        let mut out = [0; 512];
        seat.put_dirty(key(pool, 0), &page(11)).unwrap();
        seat.invalidate_page(key(pool, 1));
        let _ = seat.put(key(pool, 3), &page(4));
        assert!(seat.get(key(pool, 0), &mut out) && stamp(&out) == 11);
        cleaner.join().unwrap();
        drop(seat);
        reserve.verify().unwrap();
    });
}

const PUT_BACK: PoolConfig = PoolConfig {
    put_back: true,
    ..PoolConfig::SWAP
};

/// Ordinary frames; what is given back is poisoned at once.
struct PoisonedFrames {
    ends: TwoEnds,
    free: Vec<Frame>,
}

impl FrameSource for PoisonedFrames {
    fn origin(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    fn frames_in_all(&self) -> u64 {
        self.free.len() as u64
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        thread::yield_now();
        let frame = self.free.pop().ok_or(AllocError::Exhausted)?;
        Ok(Run::new(frame, 1).unwrap())
    }

    fn free_run(&mut self, run: Run) {
        let frame = run.start();
        self.ends.poison(run);
        assert!(!self.free.contains(&frame), "given back twice");
        self.free.push(frame);
    }
}

fn ordinary(ends: TwoEnds, from: u64, frames: u64) -> PoisonedFrames {
    let free = (from..from + frames).map(Frame).collect();
    PoisonedFrames { ends, free }
}

/// Takes some runs with whatever is in them, and poisons them.
fn owner_that_puts_back(
    reserve: &ShuttleReserve,
    ends: TwoEnds,
    supply: &mut PoisonedFrames,
    sizes: &[u64],
) -> usize {
    let takes =
        sizes.iter().filter(
            |frames| match reserve.alloc_contig_with(**frames, 1, supply) {
                Ok(run) => {
                    ends.poison(run);
                    reserve.release(run).unwrap();
                    true
                }
                Err(RunError::NoRoom | RunError::NoMemory(_)) => false,
                Err(other) => panic!("{other}"),
            },
        );
    takes.count()
}

#[test]
fn c7_a_page_is_got_in_one_place_or_the_other_while_an_owner_has_it_moved() {
    explore(400, || {
        let (reserve, ends) = beside(4, 2, 4);
        let pool = reserve.open_pool(&PUT_BACK).unwrap();
        let mut seat = reserve.guest(CpuId(0)).unwrap();
        for index in 0..3 {
            seat.put_dirty(key(pool, index), &page(index + 1)).unwrap();
        }
        let reader = thread::spawn(move || {
            let mut seat = reserve.guest(CpuId(1)).unwrap();
            let mut out = [0; 512];
            for index in [0, 1, 2, 0] {
                assert!(seat.get(key(pool, index), &mut out), "C7: page {index}");
                assert_eq!(stamp(&out), index + 1);
            }
        });
        let mut supply = ordinary(ends, 4, 4);
        let taken = owner_that_puts_back(reserve, ends, &mut supply, &[4, 2]);
        assert_eq!(taken, 2, "nothing was in the way");
        reader.join().unwrap();
        assert_eq!(reserve.stats().put_back_pages, 3);
        seat.invalidate_object(pool, 0);
        reserve.collect(&mut supply);
        assert_eq!(supply.free.len(), 4);
        drop(seat);
        reserve.verify().unwrap();
    });
}

#[test]
fn c5_c6_a_page_that_is_put_again_or_forgotten_while_it_is_moved_is_not_found_again() {
    explore(600, || {
        let (reserve, ends) = beside(4, 2, 4);
        let pool = reserve.open_pool(&PUT_BACK).unwrap();
        let mut seat = reserve.guest(CpuId(0)).unwrap();
        for index in 0..3 {
            seat.put_dirty(key(pool, index), &page(index + 1)).unwrap();
        }
        let guest = thread::spawn(move || {
            let mut seat = reserve.guest(CpuId(1)).unwrap();
            let mut out = [0; 512];
            let again = seat.put_dirty(key(pool, 0), &page(11)).is_ok();
            assert_eq!(seat.get(key(pool, 0), &mut out), again, "C7");
            assert!(!again || stamp(&out) == 11, "C5");
            seat.invalidate_page(key(pool, 1));
            assert!(!seat.get(key(pool, 1), &mut out), "C6");
            seat.invalidate_object(pool, 0);
            for index in 0..3 {
                assert!(!seat.get(key(pool, index), &mut out), "C6: page {index}");
            }
        });
        let mut supply = ordinary(ends, 4, 4);
        owner_that_puts_back(reserve, ends, &mut supply, &[3, 4]);
        guest.join().unwrap();
        let mut out = [0; 512];
        assert!((0..3).all(|index| !seat.get(key(pool, index), &mut out)));
        drop(seat);
        reserve.collect(&mut supply);
        assert_eq!(supply.free.len(), 4, "none leaks");
        assert_eq!(reserve.stats().frontswap.held_pages, 0);
        reserve.verify().unwrap();
    });
}

#[test]
fn c7_pages_are_got_away_and_written_while_an_owner_has_them_moved() {
    explore(600, || {
        let (reserve, ends) = beside(4, 2, 4);
        let config = PoolConfig {
            exclusive: true,
            ..PUT_BACK
        };
        let pool = reserve.open_pool(&config).unwrap();
        let mut seat = reserve.guest(CpuId(0)).unwrap();
        for index in 0..4 {
            seat.put_dirty(key(pool, index), &page(index + 1)).unwrap();
        }
        let cleaner = thread::spawn(move || {
            let mut seat = reserve.guest(CpuId(1)).unwrap();
            seat.clean(1, |key, frame| {
                let mut page = [1; 512];
                ends.load(frame, &mut page);
                assert_eq!(stamp(&page), key.index + 1);
                true
            })
        });
        let guest = thread::spawn(move || {
            let mut out = [0; 512];
            for index in 1..3 {
                // What was written may have been dropped since.
                if seat.get(key(pool, index), &mut out) {
                    assert_eq!(stamp(&out), index + 1);
                }
                assert!(!seat.get(key(pool, index), &mut out), "it is the getter's");
            }
            seat
        });
        let mut supply = ordinary(ends, 4, 4);
        owner_that_puts_back(reserve, ends, &mut supply, &[4]);
        let cleaned = cleaner.join().unwrap();
        let mut seat = guest.join().unwrap();
        let mut out = [0; 512];
        let there = [0, 3].map(|index| seat.get(key(pool, index), &mut out));
        let lost = there.iter().filter(|there| !**there).count();
        assert!(lost as u64 <= cleaned.written, "C7");
        assert!(seat.invalidate_pool(pool));
        drop(seat);
        reserve.collect(&mut supply);
        assert_eq!(supply.free.len(), 4, "none leaks");
        reserve.verify().unwrap();
    });
}

#[test]
fn c10_an_owner_that_clears_a_run_and_fails_makes_no_other_one_fail() {
    // One page is dirty, and the first owner has no ordinary frame for it: it keeps all frames for a while, and
    // gives them up. So the other one has room at each moment.
    let requests: [fn(&ShuttleReserve, TwoEnds) -> Result<Run, RunError>; 2] = [
        |reserve, _| reserve.alloc_contig(2, 1),
        |reserve, ends| reserve.alloc_contig_with(2, 1, &mut ordinary(ends, 4, 2)),
    ];
    for request in requests {
        explore(400, move || {
            let (reserve, ends) = beside(4, 2, 2);
            let pool = reserve.open_pool(&PUT_BACK).unwrap();
            let mut seat = reserve.guest(CpuId(0)).unwrap();
            seat.put_dirty(key(pool, 0), &page(1)).unwrap();
            let failing = thread::spawn(move || {
                for _ in 0..2 {
                    let got = reserve.alloc_contig_with(4, 1, &mut ordinary(ends, 4, 0));
                    let is_right = matches!(got, Err(RunError::NoMemory(_) | RunError::NoRoom));
                    assert!(is_right, "{got:?}");
                }
            });
            let run = request(reserve, ends).expect("C10: two clean frames lie side by side");
            ends.poison(run);
            failing.join().unwrap();
            reserve.release(run).unwrap();
            let mut out = [0; 512];
            assert!(seat.get(key(pool, 0), &mut out), "C7");
            assert_eq!(stamp(&out), 1);
            drop(seat);
            reserve.verify().unwrap();
        });
    }
}

#[test]
fn a_guest_that_puts_at_once_drops_no_page_while_there_is_room() {
    explore(10_000, || {
        let (reserve, _) = whole(8, 3);
        let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
        let guests: Vec<_> = (0..3u16)
            .map(|cpu| {
                thread::spawn(move || {
                    let mut seat = reserve.guest(CpuId(cpu)).unwrap();
                    seat.put(key(pool, cpu.into()), &page(cpu.into())).unwrap();
                })
            })
            .collect();
        for guest in guests {
            guest.join().unwrap();
        }
        let mut seat = reserve.guest(CpuId(0)).unwrap();
        let mut out = [0; 512];
        for index in 0..3 {
            assert!(seat.get(key(pool, index), &mut out), "page {index} is gone");
            assert_eq!(stamp(&out), index);
        }
    });
}
