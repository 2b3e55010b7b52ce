//! Threads read and write at random; each knows what must be there.

use crate::machine::{MachineFolder, OrdinaryRam, host, load, served, store, with_reserve};
use framewright::frame::ZoneLayout;
use framewright::policy::ReclaimConfig;
use framewright::reclaim::{Ask, Clients, Discard, Migrate, Move, MoveState, Reclaim, Shrink};
use framewright::{Context, Mobility, Order};
use framewright_linux::paged::Paged;
use framewright_linux::swap::{SwapDevice, SwapPolicy};
use framewright_linux::tenancy::Reclaiming;
use framewright_linux::{Frontswap, Host, Options, SwapFile, Zram};
use framewright_sim::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const PAGES: u64 = 256;
const THREADS: u64 = 3;

/// One thread's pages are those with its remainder; it writes two words of each, and checks them.
fn read_and_write(paged: &Paged<'_>, thread: u64, steps: u64) {
    let mut random = Random::new(thread + 1);
    let mut shadow = vec![0; PAGES as usize];
    for step in 1..=steps {
        // Half of the touches go to an eighth of the pages.
        let among = if random.below(2) == 0 {
            PAGES / 8
        } else {
            PAGES
        };
        let page = random.below(among / THREADS) * THREADS + thread;
        let known = &mut shadow[page as usize];
        match random.below(8) {
            0..4 => {
                assert_eq!(load(paged, page, 0), *known, "page {page}, step {step}");
                assert_eq!(load(paged, page, 511), *known, "page {page}, step {step}");
            }
            4..6 => {
                *known = page << 32 | step;
                store(paged, page, 0, *known);
                store(paged, page, 511, *known);
            }
            6 => {
                let mut bytes = [0; 8];
                paged.read(page * 4096 + 4088, &mut bytes).unwrap();
                assert_eq!(
                    u64::from_ne_bytes(bytes),
                    *known,
                    "page {page}, step {step}"
                );
            }
            _ => {
                *known = page << 32 | step;
                let bytes = known.to_ne_bytes();
                paged.write(page * 4096, &bytes[..3]).unwrap();
                paged.write(page * 4096 + 3, &bytes[3..]).unwrap();
                paged.write(page * 4096 + 4088, &bytes).unwrap();
            }
        }
    }
    for page in (thread..PAGES).step_by(THREADS as usize) {
        assert_eq!(
            load(paged, page, 0),
            shadow[page as usize],
            "page {page} at the end"
        );
        assert_eq!(
            load(paged, page, 511),
            shadow[page as usize],
            "page {page} at the end"
        );
    }
}

/// All threads at once, with what `beside` does until they are done.
fn all_threads(paged: &Paged<'_>, steps: u64, beside: impl Fn() + Sync) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            while !is_done.load(Relaxed) {
                beside();
                std::thread::yield_now();
            }
        });
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || read_and_write(paged, thread, steps)))
            .collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        is_done.store(true, Relaxed);
        other.join().unwrap();
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
}

#[test]
fn a_quarter_of_the_frames_is_enough_on_each_device_under_each_policy_beside_an_owner_who_takes() {
    let folder = MachineFolder::new("shadow");
    let file = SwapFile::create(&folder.path().join("swap"), 600).unwrap();
    let zram = Zram::new(600, 4 << 20);
    let devices: [&dyn SwapDevice; 2] = [&file, &zram];
    let back = SwapPolicy::WriteBack { dirty_max: 40 };
    let put_back = SwapPolicy::PutBack { dirty_max: 100 };
    for device in devices {
        for policy in [
            None,
            Some(SwapPolicy::WriteThrough),
            Some(back),
            Some(put_back),
        ] {
            let host = host();
            with_reserve(512, |reserve, guests, pool| {
                let mut swap = Frontswap::new(device, PAGES);
                if let Some(policy) = policy {
                    swap = swap.with_store(guests, pool, 0, policy);
                }
                let ram = Arc::clone(host.ram_shared());
                let paged = Paged::new(ram, swap, PAGES / 4).unwrap();
                // An owner that puts back copies the guests' dirty pages there first.
                let ordinary = Mutex::new(OrdinaryRam::beside(512));
                served(&host, &paged, || {
                    all_threads(&paged, 3000, || {
                        // The owner fills what it took: no thread may get that for a page.
                        for frames in [512, 64, 7, 1] {
                            let run = if policy == Some(put_back) {
                                let supply = &mut *ordinary.lock().unwrap();
                                reserve.alloc_contig_with(frames, 1, supply)
                            } else {
                                reserve.alloc_contig(frames, 1)
                            };
                            let Ok(run) = run else {
                                continue;
                            };
                            let ram = reserve.platform().ram();
                            for frame in run.start().0..run.end().0 {
                                let poison = [0xaa; 4096];
                                ram.write(framewright::Frame(frame), &poison).unwrap();
                            }
                            reserve.release(run).unwrap();
                        }
                    });
                    paged.swap().sync().unwrap();
                    assert_eq!(paged.swap().dirty_pages(), 0);
                    (0..THREADS).for_each(|thread| assert_eq!(load(&paged, thread, 1), 0));
                });
                let stats = paged.stats();
                assert!(stats.evicted > 100 && stats.used_again > 0, "{stats:?}");
                assert_eq!(stats.failed, 0);
                let swap = paged.swap().stats();
                if policy.is_some() {
                    assert!(swap.store_loads > 0, "{swap:?}");
                }
                let is_put_back = reserve.stats().put_back_pages > 0;
                assert_eq!(is_put_back, policy == Some(put_back));
                assert_eq!(paged.swap().used_slots(), 0);
            });
        }
    }
}

#[test]
fn frames_move_and_are_asked_for_while_threads_use_them() {
    let host = host();
    let device = Zram::new(600, 4 << 20);
    let ram = Arc::clone(host.ram_shared());
    let paged = Paged::new(ram, Frontswap::new(&device, PAGES), PAGES / 4).unwrap();
    let dropped = AtomicU64::new(0);
    served(&host, &paged, || {
        all_threads(&paged, 6000, || {
            let mut seat = host.seat().unwrap();
            let mut blocks: Vec<_> = (0..PAGES)
                .filter_map(|page| paged.frame_of(page))
                .map(|frame| Discard {
                    frame,
                    order: Order::ZERO,
                    is_dropped: false,
                })
                .collect();
            Migrate::discard(&paged, &mut blocks);
            for one in blocks.iter().filter(|one| one.is_dropped) {
                dropped.fetch_add(1, Relaxed);
                seat.free(one.frame, Order::ZERO).unwrap();
            }
            let mut moves: Vec<_> = (0..PAGES)
                .filter_map(|page| paged.frame_of(page))
                .map(|from| Move {
                    from,
                    to: seat.alloc(Order::ZERO, Mobility::Movable).unwrap(),
                    order: Order::ZERO,
                    state: MoveState::Unknown,
                })
                .collect();
            paged.migrate(&mut moves);
            for one in &moves {
                let unused = if one.state == MoveState::Moved {
                    one.from
                } else {
                    one.to
                };
                seat.free(unused, Order::ZERO).unwrap();
            }
            let ask = Ask {
                wanted: 5,
                scan: 100,
                order: Order::ZERO,
                context: Context::ANY,
            };
            paged.shrink(&mut seat, &ask);
            paged.verify().unwrap();
        });
    });
    let stats = paged.stats();
    assert!(
        stats.moved > 0 && stats.evicted > dropped.load(Relaxed),
        "{stats:?}"
    );
    assert!(dropped.into_inner() > 0);
}

#[test]
fn few_mappings_cost_faults_and_nothing_else() {
    let host = host();
    let device = Zram::new(600, 4 << 20);
    let ram = Arc::clone(host.ram_shared());
    let swap = Frontswap::new(&device, PAGES);
    // Room for a third of what the budget could need.
    let paged = Paged::with_mappings_max(ram, swap, PAGES / 2, 90).unwrap();
    served(&host, &paged, || {
        all_threads(&paged, 3000, || assert!(paged.mappings() <= 90));
    });
    assert!(paged.stats().evicted > 100);
}

#[test]
fn two_regions_and_one_zone_that_is_too_small_for_either_ask_each_other_for_frames() {
    let layout = ZoneLayout::new(framewright::Frame(0), 512).with_cpus(6);
    let host = Host::fenced(&Options::new(layout)).unwrap();
    let mut words = vec![0; Reclaim::words_needed(host.zone())];
    let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut words).unwrap();
    let device = [Zram::new(900, 4 << 20), Zram::new(900, 4 << 20)];
    let new = |device| {
        let ram = Arc::clone(host.ram_shared());
        // No budget below what there is: only the zone keeps them small.
        Paged::new(ram, Frontswap::new(device, 800), 800).unwrap()
    };
    let regions = device.each_ref().map(|device| new(device));
    std::thread::scope(|scope| {
        for paged in &regions {
            scope.spawn(|| {
                let mut seat = reclaim.seat(host.seat().unwrap());
                let clients = regions.each_ref().map(|paged| paged as &dyn Shrink<_>);
                let mut supply = Reclaiming {
                    seat: &mut seat,
                    clients: Clients {
                        shrink: &clients,
                        migrate: &[],
                    },
                    context: Context::ANY,
                };
                paged.serve(&mut supply).unwrap();
            });
            paged.await_pager().unwrap();
        }
        let users = regions.each_ref().map(|paged| {
            scope.spawn(move || {
                for round in 1..4 {
                    (0..800).for_each(|page| store(paged, page, 9, page * round));
                    (0..800).for_each(|page| assert_eq!(load(paged, page, 9), page * round));
                }
                paged.verify().unwrap();
            })
        });
        let ended = users.map(|user| user.join());
        regions.iter().for_each(Paged::stop);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    let mut seat = host.seat().unwrap();
    for paged in &regions {
        assert!(paged.stats().evicted > 800 && paged.stats().failed == 0);
        paged.discard(0..800, &mut seat).unwrap();
    }
    drop(seat);
    assert_eq!(host.zone().recount().allocated.iter().sum::<u64>(), 0);
}

#[test]
fn no_write_is_lost_while_its_page_moves_or_is_saved_or_goes() {
    let host = host();
    let device = Zram::new(100, 4 << 20);
    let swap = Frontswap::new(&device, 16);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 8).unwrap();
    let ask = Ask {
        wanted: 1,
        scan: 20,
        order: Order::ZERO,
        context: Context::ANY,
    };
    let beside: [&(dyn Fn() + Sync); 3] = [
        &|| {
            let mut seat = host.seat().unwrap();
            let frames = (0..2).filter_map(|page| paged.frame_of(page));
            let mut moves: Vec<_> = frames
                .map(|from| Move {
                    from,
                    to: seat.alloc(Order::ZERO, Mobility::Movable).unwrap(),
                    order: Order::ZERO,
                    state: MoveState::Unknown,
                })
                .collect();
            paged.migrate(&mut moves);
            for one in &moves {
                let has_moved = one.state == MoveState::Moved;
                let unused = if has_moved { one.from } else { one.to };
                seat.free(unused, Order::ZERO).unwrap();
            }
        },
        &|| {
            paged.sync().unwrap();
            paged.shrink(&mut host.seat().unwrap(), &ask);
        },
        &|| {
            paged.shrink(&mut host.seat().unwrap(), &ask);
        },
    ];
    served(&host, &paged, || {
        for beside in beside {
            let is_done = AtomicBool::new(false);
            let (rounds, losers) = (AtomicU64::new(0), AtomicU64::new(0));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    for _ in 0..200 {
                        // Each time while users are at work.
                        let seen = rounds.load(Relaxed);
                        while rounds.load(Relaxed) < seen + 2 && losers.load(Relaxed) == 0 {
                            std::thread::yield_now();
                        }
                        beside();
                    }
                    is_done.store(true, Relaxed);
                });
                let users = [0, 1].map(|page| {
                    let (paged, is_done) = (&paged, &is_done);
                    let (rounds, losers) = (&rounds, &losers);
                    scope.spawn(move || {
                        // Writes without a pause, so that some come between any two steps.
                        let mut live = (1..).take_while(|_| !is_done.load(Relaxed));
                        let lost = live.find(|round| {
                            (0..64).for_each(|nth| store(paged, page, nth * 8, round + nth as u64));
                            rounds.fetch_add(1, Relaxed);
                            !(0..64).all(|nth| load(paged, page, nth * 8) == round + nth as u64)
                        });
                        losers.fetch_add(u64::from(lost.is_some()), Relaxed);
                        lost
                    })
                });
                let lost = users.map(|user| user.join().unwrap());
                assert_eq!(lost, [None, None]);
            });
        }
    });
    let stats = paged.stats();
    assert!(stats.moved > 0 && stats.evicted > 0, "{stats:?}");
}
