//! `vmalloc` and `vfree` on the simulated page table: contents, failures at the n-th call of
//! anything, wrong frees, and what is kept.

mod shapes;

use framewright::frame::{AllocError, Zone, ZoneLayout};
use framewright::platform::{FramePlatform, MapError, RangePlatform, SingleThread};
use framewright::policy::{Config, RangeConfig};
use framewright::vrange::{
    AreaKind, AreaRequest, AreaState, RangeError, RangeFreeError, RangeSeat, Space, SpaceLayout,
};
use framewright::{Context, CpuId, Frame, Page, PageRange, Run};
use framewright_sim::{MachineCall, Paging, PoolFrames, Random};
use std::cell::RefCell;
use std::collections::BTreeMap;

const START: Page = Page(1 << 20);

type PagingSeat<'s, 'm, 'p> = RangeSeat<'s, 'm, &'p Paging, PoolFrames<'p>>;

/// A machine, and what a space over it is made of.
struct SpaceBench {
    paging: Paging,
    layout: SpaceLayout,
    config: RangeConfig,
}

impl SpaceBench {
    fn new(cpus: u16, pages: u64, frames: u32) -> Self {
        Self {
            paging: Paging::new(cpus, START, pages, frames, 0),
            layout: SpaceLayout::new(START, pages)
                .with_cpus(cpus)
                .with_span_pages(64),
            config: RangeConfig {
                lazy_pages_max: 64,
                kept_pages_max: 32,
                ..RangeConfig::for_cpus(cpus).kept()
            },
        }
    }

    fn run(&self, test: impl FnOnce(&Space<'_, &Paging>, &mut [PagingSeat<'_, '_, '_>])) {
        let mut memory = vec![0; self.layout.words_needed().unwrap()];
        let space = Space::new(&self.layout, &self.config, &mut memory, &self.paging).unwrap();
        let seat = |cpu| space.seat(CpuId(cpu), PoolFrames(&self.paging)).unwrap();
        let mut seats: Vec<_> = (0..self.layout.cpus).map(seat).collect();
        test(&space, &mut seats);
        assert_eq!(self.paging.broken(), None);
    }

    /// No memory is lost: with everything freed, all frames and all of the window are there.
    fn all_is_back(&self, space: &Space<'_, &Paging>, seats: &mut [PagingSeat<'_, '_, '_>]) {
        seats[0].drain();
        space.verify().unwrap();
        assert_eq!(self.paging.broken(), None);
        assert_eq!(
            self.paging.free_frames(),
            u64::from(self.paging.pool_frames())
        );
        assert_eq!(self.paging.mapped_pages(), 0);
        let stats = space.stats();
        assert_eq!((stats.live_pages, stats.kept_pages), (0, 0));
        assert_eq!(stats.area_allocs, stats.area_frees);
        let mut areas = 0;
        space.for_each_area(|_| areas += 1);
        assert_eq!(areas, 0);
        let all = AreaRequest::new(self.layout.pages - 1);
        let area = seats[0].alloc_area(&all).unwrap();
        seats[0].free_area(area).unwrap();
    }
}

/// Writes to each page of an area what tells it, by its first page and a number.
fn fill(paging: &Paging, cpu: u16, at: Page, pages: u64, number: u64) {
    for nth in 0..pages {
        assert!(paging.write(CpuId(cpu), Page(at.0 + nth), number << 16 | nth));
    }
    assert_eq!(paging.access(CpuId(cpu), Page(at.0 + pages)), None, "guard");
}

/// The engine says of each page what the page table says.
fn check_frames(space: &Space<'_, &Paging>, at: Page, pages: u64) {
    for page in (at.0..=at.0 + pages).map(Page) {
        assert_eq!(space.frame_behind(page), space.platform().mapped(page));
    }
}

fn check(paging: &Paging, cpu: u16, at: Page, pages: u64, number: u64) {
    for nth in 0..pages {
        let read = paging.read(CpuId(cpu), Page(at.0 + nth));
        assert_eq!(read, Some(number << 16 | nth), "page {nth} of {at}");
    }
}

#[test]
fn areas_have_frames_of_their_own_and_all_come_back() {
    for seed in 0..12 {
        let mut random = Random::new(seed);
        let cpus = 1 + seed as u16 % 3;
        let mut bench = SpaceBench::new(cpus, 640, 256);
        bench.config.kept_pages_max = [0, 16, 64][seed as usize / 3 % 3];
        bench.config.spans = seed % 4 != 3;
        bench.run(|space, seats| {
            let paging = &bench.paging;
            // First page: length, number.
            let mut live = BTreeMap::new();
            let (mut served, mut refused) = (0, 0);
            for number in 1..1500u64 {
                let cpu = random.below(u64::from(cpus)) as u16;
                paging.machine().run_on(CpuId(cpu));
                let seat = &mut seats[usize::from(cpu)];
                if random.below(100) < 55 {
                    let pages = match random.below(8) {
                        0 => 1 + random.below(100),
                        _ => 1 + random.below(9),
                    };
                    let mut request = AreaRequest::new(pages).tagged(number as u32);
                    if random.below(3) == 0 {
                        request = request.zeroed();
                    }
                    if random.below(5) == 0 {
                        request = request.aligned_to(4096 << random.below(6));
                    }
                    if random.below(4) == 0 {
                        request = request.within(Context::NOWAIT);
                    }
                    match paging.within(request.context, || seat.vmalloc(&request)) {
                        Ok(at) => {
                            served += 1;
                            assert_eq!(at.0 * 4096 % request.align_bytes, 0);
                            if request.zero {
                                for nth in 0..pages {
                                    let read = paging.read(CpuId(cpu), Page(at.0 + nth));
                                    assert_eq!(read, Some(0), "page {nth} of {at}");
                                }
                            }
                            fill(paging, cpu, at, pages, number);
                            assert_eq!(live.insert(at, (pages, number)), None);
                        }
                        Err(RangeError::Frames(_) | RangeError::NoSpace { .. }) => refused += 1,
                        Err(RangeError::WouldWait) if !request.context.may_block => refused += 1,
                        Err(error) => panic!("{error}"),
                    }
                } else if !live.is_empty() {
                    let nth = random.below(live.len() as u64) as usize;
                    let (&at, &(pages, number)) = live.iter().nth(nth).unwrap();
                    check(paging, cpu, at, pages, number);
                    assert_eq!(seat.vfree(at), Ok(pages));
                    live.remove(&at);
                }
                match random.below(300) {
                    0 => seats[usize::from(cpu)].drain(),
                    1 => seats[usize::from(cpu)].purge(),
                    _ => {}
                }
                if number % 16 == 0 {
                    space.verify().unwrap();
                    assert_eq!(paging.broken(), None, "seed {seed}, step {number}");
                    let stats = space.stats();
                    let kept_max = bench.config.kept_pages_max * u64::from(cpus + 1);
                    assert!(stats.kept_pages <= kept_max + 100);
                    for (&at, &(pages, number)) in &live {
                        let cpu = random.below(u64::from(cpus)) as u16;
                        check(paging, cpu, at, pages, number);
                        check_frames(space, at, pages);
                        let area = space.find(Page(at.0 + pages)).unwrap();
                        assert_eq!((area.start, area.pages, area.guard), (at, pages, 1));
                        assert_eq!(area.tag, number as u32);
                        assert_eq!(
                            (area.kind, area.state),
                            (AreaKind::Vmalloc, AreaState::Live)
                        );
                    }
                }
            }
            assert!(
                served > 300 && refused > 0,
                "{served} served, {refused} refused"
            );
            for &at in live.keys() {
                seats[0].vfree(at).unwrap();
            }
            bench.all_is_back(space, seats);
        });
    }
}

/// A piece of life that meets every call: an area of several runs, kept, taken again, evicted, a
/// long one, a purge. Returns what it did not give back.
fn life(seat: &mut PagingSeat<'_, '_, '_>, context: Context) -> Vec<Page> {
    let request = |pages| AreaRequest::new(pages).within(context);
    let mut live = Vec::new();
    for pages in [20, 3, 70, 20] {
        if let Ok(at) = seat.vmalloc(&request(pages)) {
            live.push(at);
        }
    }
    for at in live.drain(..) {
        seat.vfree(at).unwrap();
    }
    for pages in [20, 12, 5, 90] {
        if let Ok(at) = seat.vmalloc(&request(pages).zeroed()) {
            live.push(at);
        }
    }
    live
}

#[test]
fn each_call_that_fails_leaves_everything_as_it_was() {
    let mut hits = 0;
    for context in [Context::ANY, Context::NOWAIT] {
        for call in [
            MachineCall::Frames,
            MachineCall::Map,
            MachineCall::Unmap,
            MachineCall::Flush,
        ] {
            for nth in 0.. {
                let bench = SpaceBench::new(1, 512, 256);
                let machine = bench.paging.machine();
                machine.fail(call, nth, 1);
                machine.arm(true);
                bench.run(|space, seats| {
                    let live = life(&mut seats[0], context);
                    machine.arm(false);
                    space.verify().unwrap();
                    for (number, &at) in live.iter().enumerate() {
                        let pages = space.find(at).unwrap().pages;
                        (0..pages).for_each(|nth| {
                            let read = bench.paging.read(CpuId(0), Page(at.0 + nth));
                            assert_eq!(read, Some(0), "{call:?} {nth}: area {number}");
                        });
                    }
                    for at in live {
                        seats[0].vfree(at).unwrap();
                    }
                    bench.all_is_back(space, seats);
                });
                if machine.has_fault() {
                    break;
                }
                hits += 1;
            }
        }
    }
    assert!(hits > 60, "only {hits} calls were met");
}

#[test]
fn a_refused_request_changes_nothing() {
    for (call, kept) in [
        (MachineCall::Frames, 0),
        (MachineCall::Map, 0),
        (MachineCall::Map, 32),
    ] {
        for nth in 0..6 {
            let mut bench = SpaceBench::new(1, 512, 256);
            bench.config.kept_pages_max = kept;
            bench.run(|space, seats| {
                let paging = &bench.paging;
                let seat = &mut seats[0];
                let other = seat.vmalloc(&AreaRequest::new(3)).unwrap();
                fill(paging, 0, other, 3, 5);
                let before = (space.stats().live_pages, paging.free_frames());
                paging.machine().fail(call, nth, 1);
                paging.machine().arm(true);
                let refused = seat.vmalloc(&AreaRequest::new(60));
                paging.machine().arm(false);
                let Err(error) = refused else {
                    // A second attempt after a purge, or fewer runs.
                    seat.vfree(refused.unwrap()).unwrap();
                    return;
                };
                match call {
                    MachineCall::Frames => assert!(matches!(error, RangeError::Frames(_))),
                    _ => assert_eq!(error, RangeError::Map(MapError::NoMemory)),
                }
                let after = (space.stats().live_pages, paging.free_frames());
                assert_eq!(after, before, "{call:?} {nth}");
                assert_eq!(space.stats().vmap_lazy_nr, 0);
                check(paging, 0, other, 3, 5);
                space.verify().unwrap();
                seat.vfree(other).unwrap();
                bench.all_is_back(space, seats);
            });
        }
    }
}

#[test]
fn a_kept_area_is_taken_as_it_stands_and_never_dirty_by_a_request_for_zeroes() {
    let bench = SpaceBench::new(2, 512, 256);
    bench.run(|space, seats| {
        let paging = &bench.paging;
        let request = AreaRequest::new(5).tagged(1);
        let at = seats[0].vmalloc(&request).unwrap();
        fill(paging, 0, at, 5, 7);
        let maps = paging.machine().calls(MachineCall::Map);
        seats[0].vfree(at).unwrap();
        let area = space.find(at).unwrap();
        assert_eq!((area.state, area.pages), (AreaState::Kept, 5));
        assert_eq!(seats[0].vfree(at), Err(RangeFreeError::AlreadyFree(at)));
        assert_eq!(seats[1].vfree(at), Err(RangeFreeError::AlreadyFree(at)));
        // Not by another length, nor by another CPU, nor where it is not aligned.
        let other = seats[0].vmalloc(&AreaRequest::new(4)).unwrap();
        let others = seats[1].vmalloc(&request).unwrap();
        let aligned = seats[0].vmalloc(&request.aligned_to(64 * 4096)).unwrap();
        assert!(![other, others].contains(&at));
        assert!(aligned != at || at.0 % 64 == 0);
        if aligned != at {
            assert_eq!(seats[0].vmalloc(&request.tagged(2)), Ok(at));
        }
        check(paging, 1, at, 5, 7);
        seats[0].vfree(at).unwrap();
        let calls = paging.machine().calls(MachineCall::Map);
        assert_eq!(seats[0].vmalloc(&request.zeroed().tagged(3)), Ok(at));
        (0..5).for_each(|nth| assert_eq!(paging.read(CpuId(1), Page(at.0 + nth)), Some(0)));
        assert_eq!(paging.machine().calls(MachineCall::Map), calls);
        assert!(calls > maps);
        assert_eq!(space.find(at).unwrap().tag, 3);
        assert!(space.stats().kept_takes >= 1);
        // Freed by another CPU it is that one's.
        seats[1].vfree(at).unwrap();
        assert_ne!(seats[0].vmalloc(&request), Ok(at));
        assert_eq!(seats[1].vmalloc(&request), Ok(at));
        space.verify().unwrap();
    });
}

#[test]
fn what_is_kept_is_bounded_and_what_no_request_asks_for_goes() {
    let bench = SpaceBench::new(1, 1024, 512);
    bench.run(|space, seats| {
        let seat = &mut seats[0];
        for pages in 1..=16 {
            for _ in 0..4 {
                let at = seat.vmalloc(&AreaRequest::new(pages)).unwrap();
                let second = seat.vmalloc(&AreaRequest::new(pages)).unwrap();
                seat.vfree(at).unwrap();
                seat.vfree(second).unwrap();
                assert!(space.stats().kept_pages <= 32);
                space.verify().unwrap();
            }
        }
        // The last ones are there, so the first ones are not.
        let takes = space.stats().kept_takes;
        let at = seat.vmalloc(&AreaRequest::new(16)).unwrap();
        assert_eq!(space.stats().kept_takes, takes + 1);
        seat.vfree(at).unwrap();
        // One that is longer than all that may be kept is not kept.
        let at = seat.vmalloc(&AreaRequest::new(33)).unwrap();
        seat.vfree(at).unwrap();
        assert_eq!(space.find(at).map(|area| area.state), Some(AreaState::Lazy));
        bench.all_is_back(space, seats);
    });
}

#[test]
fn one_cpu_allocates_and_another_frees_and_nothing_is_built_anew() {
    let bench = SpaceBench::new(3, 1024, 512);
    bench.run(|space, seats| {
        let paging = &bench.paging;
        let mut calls = 0;
        for round in 0..2000 {
            if round == 30 {
                calls = paging.machine().calls(MachineCall::Map);
            }
            for pages in [1, 3, 7] {
                let at = seats[0].vmalloc(&AreaRequest::new(pages)).unwrap();
                fill(paging, 0, at, pages, round);
                check(paging, 2, at, pages, round);
                seats[2].vfree(at).unwrap();
            }
            assert!(space.stats().kept_pages <= 3 * 32 + 32);
            space.verify().unwrap();
        }
        assert_eq!(paging.machine().calls(MachineCall::Map), calls);
        assert_eq!(paging.machine().calls(MachineCall::Unmap), 0);
        // What lies in the depot goes too, before a request fails.
        assert!(space.stats().kept_pages > 16);
        let at = seats[1].vmalloc(&AreaRequest::new(512)).unwrap();
        assert_eq!(space.stats().kept_pages, 0);
        seats[1].vfree(at).unwrap();
        bench.all_is_back(space, seats);
    });
}

#[test]
fn what_is_kept_is_bounded_also_where_none_of_it_is_aligned_as_asked() {
    let bench = SpaceBench::new(2, 4096, 2048);
    bench.run(|space, seats| {
        // There is one such page.
        let aligned = AreaRequest::new(1)
            .aligned_to(4096 * Page::BYTES)
            .within(Context::NOWAIT);
        let first = seats[0].vmalloc(&aligned).unwrap();
        for round in 0..50 {
            let areas: Vec<_> = (0..30)
                .map(|_| seats[1].vmalloc(&AreaRequest::new(1)).unwrap())
                .collect();
            for at in areas {
                seats[1].vfree(at).unwrap();
            }
            for _ in 0..3 {
                seats[0].vmalloc(&aligned).unwrap_err();
            }
            let kept = space.stats().kept_pages;
            assert!(kept <= 2 * 32 + 32, "{kept} in round {round}");
            space.verify().unwrap();
        }
        seats[0].vfree(first).unwrap();
        bench.all_is_back(space, seats);
    });
}

#[test]
fn what_is_built_half_without_waiting_is_bounded() {
    for kept in [0, 32] {
        let mut bench = SpaceBench::new(1, 2048, 512);
        bench.config.kept_pages_max = kept;
        bench.run(|space, seats| {
            let (paging, seat) = (&bench.paging, &mut seats[0]);
            let machine = paging.machine();
            // Every other frame is taken, so none follow one another.
            let mut apart: Vec<_> = (0..512)
                .map_while(|_| seat.vmalloc(&AreaRequest::new(1)).ok())
                .collect();
            apart.sort_by_key(|&at| space.frame_behind(at));
            let mut nth = 0;
            apart.retain(|&at| {
                nth += 1;
                nth % 2 == 0 || seat.vfree(at).is_err()
            });
            seat.drain();
            let nowait = AreaRequest::new(10).within(Context::NOWAIT);
            let (unmaps, flushes) = (
                machine.calls(MachineCall::Unmap),
                machine.calls(MachineCall::Flush),
            );
            let mut no_room = 0;
            for _ in 0..20 {
                machine.fail(MachineCall::Map, 1, 1);
                machine.arm(true);
                let refused = seat.vmalloc(&nowait);
                machine.arm(false);
                no_room += u32::from(refused == Err(RangeError::WouldWait));
                refused.unwrap_err();
                space.verify().unwrap();
            }
            let after = (
                machine.calls(MachineCall::Unmap),
                machine.calls(MachineCall::Flush),
            );
            assert_eq!(after, (unmaps, flushes), "without waiting");
            let lazy = space.stats().vmap_lazy_nr;
            assert!(lazy <= 64 + space.lazy_batch_pages(), "V6: {lazy}");
            assert!(lazy > 40 && no_room > 10, "{lazy} and {no_room}");
            assert_eq!(space.stats().kept_pages, 0);
            let at = seat.vmalloc(&AreaRequest::new(200)).unwrap();
            seat.vfree(at).unwrap();
            for at in apart {
                seat.vfree(at).unwrap();
            }
            bench.all_is_back(space, seats);
        });
    }
}

#[test]
fn everything_kept_is_drained_before_a_request_fails() {
    let mut bench = SpaceBench::new(2, 512, 128);
    bench.config.kept_pages_max = 1000;
    bench.run(|space, seats| {
        // All frames in kept areas of both CPUs.
        let areas: Vec<_> = (0..128)
            .map(|nth| seats[nth % 2].vmalloc(&AreaRequest::new(1)).unwrap())
            .collect();
        for (nth, at) in areas.into_iter().enumerate() {
            seats[nth % 2].vfree(at).unwrap();
        }
        assert_eq!(bench.paging.free_frames(), 0);
        assert_eq!(space.stats().kept_pages, 128);
        let nowait = AreaRequest::new(128).within(Context::NOWAIT);
        let unmaps = bench.paging.machine().calls(MachineCall::Unmap);
        let refused = seats[0].vmalloc(&nowait);
        assert_eq!(refused, Err(RangeError::Frames(AllocError::WouldWait)));
        assert_eq!(bench.paging.machine().calls(MachineCall::Unmap), unmaps);
        let at = seats[0].vmalloc(&AreaRequest::new(128)).unwrap();
        assert_eq!(bench.paging.free_frames(), 0);
        let refused = seats[1].vmalloc(&AreaRequest::new(1));
        assert!(matches!(refused, Err(RangeError::Frames(_))));
        seats[1].vfree(at).unwrap();
        bench.all_is_back(space, seats);
    });
    // And for want of space, by areas without frames too.
    let bench = SpaceBench::new(2, 256, 512);
    bench.run(|space, seats| {
        let mut areas = Vec::new();
        while let Ok(at) = seats[1].vmalloc(&AreaRequest::new(15)) {
            areas.push(at);
        }
        assert_eq!(areas.len(), 16);
        for at in areas {
            seats[0].vfree(at).unwrap();
        }
        let all = seats[1].alloc_area(&AreaRequest::new(255)).unwrap();
        seats[0].free_area(all).unwrap();
        bench.all_is_back(space, seats);
    });
}

#[test]
fn wrong_frees_between_kinds_are_refused_and_change_nothing() {
    let bench = SpaceBench::new(2, 512, 128);
    bench.run(|space, seats| {
        let area = seats[0].alloc_area(&AreaRequest::new(4)).unwrap();
        assert_eq!(space.frame_behind(area), None);
        let mapped = seats[0].vmalloc(&AreaRequest::new(4)).unwrap();
        let long = seats[0].vmalloc(&AreaRequest::new(100)).unwrap();
        let before = space.stats();
        for seat in seats.iter_mut() {
            assert_eq!(seat.vfree(area), Err(RangeFreeError::WrongKind(area)));
            assert_eq!(
                seat.free_area(mapped),
                Err(RangeFreeError::WrongKind(mapped))
            );
            assert_eq!(seat.free_area(long), Err(RangeFreeError::WrongKind(long)));
            for inside in 1..=4 {
                let page = Page(mapped.0 + inside);
                let start = mapped;
                assert_eq!(
                    seat.vfree(page),
                    Err(RangeFreeError::NotTheFirst { page, start })
                );
            }
            for outside in [
                Page(START.0 - 1),
                Page(START.0 + 512),
                Page(0),
                Page(u64::MAX),
            ] {
                assert_eq!(seat.vfree(outside), Err(RangeFreeError::Outside(outside)));
            }
            let last = Page(START.0 + 511);
            assert_eq!(seat.vfree(last), Err(RangeFreeError::NotAllocated(last)));
        }
        assert_eq!(space.stats(), before);
        space.verify().unwrap();
        seats[1].vfree(mapped).unwrap();
        // One that is longer than all that may be lazy is gone at once.
        seats[1].vfree(long).unwrap();
        for seat in seats.iter_mut() {
            let again = seat.vfree(mapped);
            assert_eq!(again, Err(RangeFreeError::AlreadyFree(mapped)));
            assert_eq!(seat.vfree(long), Err(RangeFreeError::NotAllocated(long)));
        }
        seats[0].free_area(area).unwrap();
        bench.all_is_back(space, seats);
    });
}

#[test]
fn requests_that_no_space_can_serve_say_why() {
    let bench = SpaceBench::new(1, 512, 128);
    bench.run(|space, seats| {
        let seat = &mut seats[0];
        let mut refused = |request: AreaRequest| seat.vmalloc(&request).unwrap_err();
        assert_eq!(refused(AreaRequest::new(0)), RangeError::Empty);
        assert_eq!(
            refused(AreaRequest::new(513)),
            RangeError::TooLong { pages: 513 }
        );
        assert_eq!(
            refused(AreaRequest::new(u64::MAX)),
            RangeError::TooLong { pages: u64::MAX }
        );
        for bytes in [0, 3, 4097, u64::MAX] {
            assert_eq!(
                refused(AreaRequest::new(1).aligned_to(bytes)),
                RangeError::Align { bytes }
            );
        }
        assert!(matches!(
            refused(AreaRequest::new(1).aligned_to(1 << 63)),
            RangeError::NoSpace { .. }
        ));
        assert!(matches!(
            refused(AreaRequest::new(512)),
            RangeError::NoSpace { .. }
        ));
        let too_many = RangeError::TooManyFrames {
            pages: 129,
            frames: 128,
        };
        assert_eq!(refused(AreaRequest::new(129)), too_many);
        bench.all_is_back(space, seats);
    });
}

#[test]
fn areas_are_listed_by_address() {
    let bench = SpaceBench::new(1, 512, 256);
    bench.run(|space, seats| {
        let seat = &mut seats[0];
        let long = seat.vmalloc(&AreaRequest::new(70).tagged(1)).unwrap();
        let area = seat.alloc_area(&AreaRequest::new(2).tagged(2)).unwrap();
        let kept = seat.vmalloc(&AreaRequest::new(3)).unwrap();
        seat.vfree(kept).unwrap();
        let mut lines = Vec::new();
        space.for_each_area(|info| {
            let line = info.listed(|tag, f| write!(f, "caller_{}", tag));
            lines.push((info.start, line.to_string()));
        });
        assert!(lines.is_sorted(), "{lines:?}");
        let of = |at: Page| {
            lines
                .iter()
                .find(|(start, _)| *start == at)
                .unwrap()
                .1
                .clone()
        };
        assert!(of(long).ends_with(&format!(" {:>7} caller_1 pages=70 vmalloc", 71 * 4096)));
        assert!(of(area).ends_with("   12288 caller_2 ioremap"));
        assert!(of(kept).ends_with("   16384 pages=3 vmalloc kept"));
        let start = format!("{:#018x}-{:#018x} ", long.0 * 4096, (long.0 + 71) * 4096);
        assert!(of(long).starts_with(&start));
    });
}
