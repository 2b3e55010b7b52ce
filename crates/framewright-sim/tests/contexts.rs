//! Every inner call for a request has the context of its caller, whichever way the request takes.

use framewright::frame::{AllocError, FrameSource};
use framewright::policy::RangeConfig;
use framewright::vrange::{AreaRequest, Space, SpaceLayout};
use framewright::{Context, CpuId, Frame, Page, Run};
use framewright_sim::{MachineCall, Paging, PoolFrames};
use std::cell::Cell;

const START: Page = Page(1 << 20);
const PAGES: u64 = 512;
const FRAMES: u32 = 96;
/// Frames of the callers' own, behind the pool's.
const OWN: u32 = 128;

/// A source that notes whether it was asked if frames are short, and says that they are.
struct Short<'p> {
    pool: PoolFrames<'p>,
    asked: &'p Cell<u32>,
}

impl FrameSource for Short<'_> {
    fn origin(&self) -> u64 {
        self.pool.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.pool.frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        self.pool.alloc_run(frames, context)
    }

    fn free_run(&mut self, frames: Run) {
        self.pool.free_run(frames);
    }

    fn is_short(&mut self) -> bool {
        self.asked.set(self.asked.get() + 1);
        true
    }
}

/// All that there are.
fn contexts() -> impl Iterator<Item = Context> {
    (0..16).map(|bits| Context {
        may_block: bits & 1 != 0,
        may_reclaim: bits & 2 != 0,
        may_io: bits & 4 != 0,
        may_fs: bits & 8 != 0,
    })
}

/// Runs `test` on a fresh space of one CPU, of which a call fails at the n-th time, if one is named.
fn with_seat(
    fault: Option<(MachineCall, u64)>,
    test: impl FnOnce(
        &Paging,
        &mut framewright::vrange::RangeSeat<'_, '_, &Paging, Short<'_>>,
        &Cell<u32>,
    ),
) {
    let paging = Paging::new(1, START, PAGES, FRAMES, OWN);
    let layout = SpaceLayout::new(START, PAGES).with_span_pages(64);
    let config = RangeConfig {
        lazy_pages_max: 32,
        kept_pages_max: 32,
        ..RangeConfig::for_cpus(1).kept()
    };
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &config, &mut memory, &paging).unwrap();
    let asked = &Cell::new(0);
    let pool = PoolFrames(&paging);
    let mut seat = space.seat(CpuId(0), Short { pool, asked }).unwrap();
    if let Some((call, nth)) = fault {
        paging.machine().fail(call, nth, 1);
        paging.machine().arm(true);
    }
    test(&paging, &mut seat, asked);
    paging.machine().arm(false);
    space.verify().unwrap();
    assert_eq!(paging.broken(), None);
}

#[test]
fn each_inner_call_of_a_request_has_its_callers_context_also_where_one_fails() {
    let faults = [MachineCall::Frames, MachineCall::Map]
        .into_iter()
        .flat_map(|call| (0..8).map(move |nth| Some((call, nth))));
    for fault in [None].into_iter().chain(faults) {
        for context in contexts() {
            with_seat(fault, |paging, seat, asked| {
                let own = |nth: u64| Frame(u64::from(FRAMES) + nth);
                let scattered: Vec<Frame> = (0..5).map(|nth| own(2 * nth)).collect();
                let long: Vec<Frame> = (0..70).map(own).collect();
                let request = |pages| AreaRequest::new(pages).within(context);
                let mut served = 0;
                for round in 0..6 {
                    // Built anew, kept ones, zeroed ones; more frames than there are in the end.
                    for pages in [3, 20, 3, 40] {
                        let request = request(pages).aligned_to(4096 << (round % 3));
                        let built = paging.within(context, || seat.vmalloc(&request.zeroed()));
                        if let Ok(at) = built {
                            served += 1;
                            seat.vfree(at).unwrap();
                        }
                    }
                    let all = paging.within(context, || seat.vmalloc(&request(u64::from(FRAMES))));
                    if let Ok(at) = all {
                        seat.vfree(at).unwrap();
                    }
                    for frames in [&scattered[..], &scattered[..1], &long] {
                        let mapped = paging.within(context, || seat.map_ram(frames, context));
                        if let Ok(at) = mapped {
                            served += 1;
                            seat.unmap_ram(at, frames.len() as u64).unwrap();
                        }
                    }
                    let area = paging.within(context, || seat.alloc_area(&request(100)));
                    if let Ok(at) = area {
                        served += 1;
                        seat.free_area(at).unwrap();
                    }
                    // More than there is, and so the last resort of a request that may wait.
                    let none = paging.within(context, || seat.alloc_area(&request(PAGES - 1)));
                    if let Ok(at) = none {
                        seat.free_area(at).unwrap();
                    }
                }
                assert!(served > 20, "{context:?}, {fault:?}: {served}");
                // A source is asked questions before it must give only for requests that may wait.
                assert_eq!(asked.get() > 0, context.may_block, "{context:?}");
                let stats = seat.space().stats();
                assert_eq!(
                    stats.drains > 0,
                    context.may_block,
                    "{context:?}, {fault:?}"
                );
            });
        }
    }
}

#[test]
fn a_request_that_may_wait_is_drained_for_whether_or_not_it_may_reclaim() {
    for context in contexts().filter(|context| context.may_block) {
        with_seat(None, |paging, seat, _| {
            // All frames in kept areas and lazy ones.
            for pages in [30, 30, 36] {
                let at = seat.vmalloc(&AreaRequest::new(pages)).unwrap();
                seat.vfree(at).unwrap();
            }
            let all = AreaRequest::new(u64::from(FRAMES)).within(context);
            let at = paging.within(context, || seat.vmalloc(&all)).unwrap();
            seat.vfree(at).unwrap();
        });
    }
}

#[test]
fn a_request_that_meets_a_short_source_gives_back_what_the_depot_keeps_also_if_its_cpu_keeps_nothing()
 {
    let paging = Paging::new(2, START, PAGES, FRAMES, OWN);
    let layout = SpaceLayout::new(START, PAGES)
        .with_span_pages(64)
        .with_cpus(2);
    let config = RangeConfig {
        lazy_pages_max: 32,
        kept_pages_max: 16,
        ..RangeConfig::for_cpus(2).kept()
    };
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &config, &mut memory, &paging).unwrap();
    let asked = &Cell::new(0);
    let seat = |cpu| {
        let pool = PoolFrames(&paging);
        space.seat(CpuId(cpu), Short { pool, asked }).unwrap()
    };
    let (mut asking, mut keeping) = (seat(0), seat(1));
    let areas: Vec<_> = (0..30)
        .map(|_| asking.vmalloc(&AreaRequest::new(1)).unwrap())
        .collect();
    for at in areas {
        keeping.vfree(at).unwrap();
    }
    let kept = space.stats().kept_pages;
    let longer = asking.vmalloc(&AreaRequest::new(5)).unwrap();
    let left = space.stats().kept_pages;
    assert!(0 < left && left < kept, "{left} of {kept}");
    asking.vfree(longer).unwrap();
    drop((asking, keeping));
    space.verify().unwrap();
    assert_eq!(paging.broken(), None);
}
