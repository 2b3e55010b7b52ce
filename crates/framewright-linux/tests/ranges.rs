//! Virtual ranges on real memory: every byte of every mapping, by several threads, at the limits.

use framewright::frame::{AllocError, ZoneLayout};
use framewright::platform::{FramePlatform, MapError};
use framewright::policy::RangeConfig;
use framewright::vrange::SpaceLayout;
use framewright::vrange::{AreaRequest, AreaState, RangeError, RangeFreeError};
use framewright::{Context, Frame, Mobility, Order, Page, PageRange};
use framewright_linux::{HostCpu, HostError, HostSpace, Options, RangeOptions, Windowed};
use framewright_sim::Random;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BYTES: usize = 4096;

fn options(frames: u64, cpus: u16) -> Options {
    // Frames do not begin at 0: what mistakes a frame's number for its place is found.
    Options::new(ZoneLayout::new(Frame(5 << 9), frames).with_cpus(cpus))
}

fn host(frames: u64, ranges: &RangeOptions) -> HostSpace<()> {
    HostSpace::fenced(&options(frames, 4).with_ranges(*ranges)).unwrap()
}

/// A window in which freed areas are kept.
fn kept(pages: u64) -> RangeOptions {
    let mut ranges = RangeOptions::new(pages);
    ranges.config = Some(RangeConfig::for_cpus(4).kept());
    ranges
}

/// A live area, and what tells its bytes from all others'.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LiveArea {
    at: Page,
    pages: u64,
    number: u64,
}

impl LiveArea {
    fn with_words<B: FramePlatform + Clone>(
        &self,
        host: &HostSpace<B>,
        work: impl FnOnce(&mut [u64]),
    ) {
        let range = PageRange::new(self.at, self.pages).unwrap();
        // SAFETY: the area is live, and only the holder of the `LiveArea` touches its pages; its frames
        // are the space's own, and so behind no other page.
        let bytes = unsafe { host.window().bytes_mut(range) }.unwrap();
        assert_eq!(bytes.len(), self.pages as usize * BYTES);
        // SAFETY: any bytes are words, and any words bytes.
        let (before, words, after) = unsafe { bytes.align_to_mut::<u64>() };
        assert!(before.is_empty() && after.is_empty());
        work(words);
    }

    fn fill<B: FramePlatform + Clone>(&self, host: &HostSpace<B>) {
        self.with_words(host, |words| {
            for (nth, word) in words.iter_mut().enumerate() {
                *word = self.number << 32 | nth as u64;
            }
        });
    }

    fn check<B: FramePlatform + Clone>(&self, host: &HostSpace<B>) {
        self.with_words(host, |words| {
            for (nth, word) in words.iter().enumerate() {
                assert_eq!(*word, self.number << 32 | nth as u64, "{self:?}");
            }
        });
    }

    fn check_zero<B: FramePlatform + Clone>(&self, host: &HostSpace<B>) {
        self.with_words(host, |words| {
            assert!(words.iter().all(|&word| word == 0), "{self:?}");
        });
    }
}

/// All frames are back, and all of the window is one gap.
fn all_is_back<B: FramePlatform + Clone>(host: &HostSpace<B>) {
    let mut seat = host.cpu().unwrap();
    seat.ranges().drain();
    host.space().verify().unwrap();
    let stats = host.space().stats();
    assert_eq!((stats.live_pages, stats.kept_pages), (0, 0));
    assert_eq!(host.window().mappings(), 1);
    let zone = host.zone();
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.stats().nr_free_pages, host.ram().frames().frames());
}

fn vmalloc<B: FramePlatform + Clone>(
    host: &HostSpace<B>,
    seat: &mut HostCpu<'_, Windowed<B>, SpaceLayout>,
    request: &AreaRequest,
    number: u64,
) -> Result<LiveArea, RangeError> {
    let at = seat.vmalloc(request)?;
    let area = LiveArea {
        at,
        pages: request.pages,
        number,
    };
    if request.zero {
        area.check_zero(host);
    }
    // The guard page has no mapping.
    let guard = Page(at.0 + request.pages);
    assert!(host.window().read(guard, 0, &mut [0]).is_err());
    area.fill(host);
    Ok(area)
}

#[test]
fn threads_in_one_window_have_each_byte_to_themselves() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = 2500;
    let mut ranges = RangeOptions::new(3 << 10);
    let mut config = RangeConfig::for_cpus(4).kept();
    // So small that all of it is used again and again.
    config.lazy_pages_max = 256;
    config.kept_pages_max = 128;
    ranges.config = Some(config);
    let host = host(2048, &ranges);
    // Areas go from thread to thread: half the frees are of another's.
    let shared = Mutex::new(Vec::<LiveArea>::new());
    let (served, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (host, shared, served, refused) = (&host, &shared, &served, &refused);
            scope.spawn(move || {
                let mut seat = host.cpu().unwrap();
                let mut random = Random::new(thread * 77 + 1);
                let mut live = Vec::new();
                for round in 1..=ROUNDS {
                    let number = thread + round * THREADS;
                    let pages = match random.remainder(16) {
                        0 => 65 + random.remainder(200),
                        _ => 1 + random.remainder(16),
                    };
                    let mut request = AreaRequest::new(pages).tagged(thread as u32);
                    if random.remainder(4) == 0 {
                        request = request.zeroed();
                    }
                    if random.remainder(8) == 0 {
                        request = request.within(Context::NOWAIT);
                    }
                    if live.len() < 24 {
                        match vmalloc(host, &mut seat, &request, number) {
                            Ok(area) => {
                                served.fetch_add(1, Relaxed);
                                live.push(area);
                            }
                            Err(
                                RangeError::Frames(_)
                                | RangeError::TooManyFrames { .. }
                                | RangeError::NoSpace { .. },
                            ) => {
                                refused.fetch_add(1, Relaxed);
                            }
                            Err(RangeError::WouldWait) if !request.context.may_block => {
                                refused.fetch_add(1, Relaxed);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                    while !live.is_empty() && random.remainder(20) >= 10 {
                        let mut area =
                            live.swap_remove(random.remainder(live.len() as u64) as usize);
                        area.check(host);
                        if random.remainder(2) == 0 {
                            shared.lock().unwrap().push(area);
                            let mut others = shared.lock().unwrap();
                            let nth = random.remainder(others.len().max(1) as u64) as usize;
                            if others.is_empty() {
                                continue;
                            }
                            area = others.swap_remove(nth);
                        }
                        area.check(host);
                        assert_eq!(seat.vfree(area.at), Ok(area.pages));
                    }
                }
                for area in live {
                    area.check(host);
                    assert_eq!(seat.vfree(area.at), Ok(area.pages));
                }
            });
        }
    });
    let mut seat = host.cpu().unwrap();
    for area in shared.into_inner().unwrap() {
        area.check(&host);
        seat.vfree(area.at).unwrap();
    }
    drop(seat);
    let stats = host.space().stats();
    assert!(served.load(Relaxed) > 500, "{stats:?}");
    assert!(stats.kept_takes > 50 && stats.tlb_flushes > 0, "{stats:?}");
    println!(
        "{} served, {} of them kept, {} refused, {} flushes",
        served.load(Relaxed),
        stats.kept_takes,
        refused.load(Relaxed),
        stats.tlb_flushes
    );
    all_is_back(&host);
}

/// Single frames of the caller's own, each filled with what tells it.
fn own_frames<B: FramePlatform + Clone>(
    host: &HostSpace<B>,
    seat: &mut HostCpu<'_, Windowed<B>, SpaceLayout>,
    count: usize,
) -> Vec<Frame> {
    let frames: Vec<_> = (0..count)
        .map(|_| {
            let frame = seat.frames().alloc(0, Order::ZERO, Mobility::Movable);
            frame.unwrap()
        })
        .collect();
    for &frame in &frames {
        host.ram().write(frame, &told_by(frame)).unwrap();
    }
    frames
}

fn told_by(frame: Frame) -> [u8; BYTES] {
    std::array::from_fn(|at| (frame.0 * 7 + frame.0 / 256 + at as u64 * 3 + at as u64 / 128) as u8)
}

#[test]
fn frames_of_the_callers_own_are_seen_wherever_they_are_mapped() {
    let host = host(1024, &RangeOptions::new(4096));
    let mut seat = host.cpu().unwrap();
    let frames = own_frames(&host, &mut seat, 70);
    let reversed: Vec<_> = frames.iter().rev().copied().collect();
    let one = seat.map_ram(&frames, Context::ANY).unwrap();
    let other = seat.map_ram(&reversed[..64], Context::ANY).unwrap();
    let mut bytes = [0; BYTES];
    for (nth, &frame) in frames.iter().enumerate() {
        host.window()
            .read(Page(one.0 + nth as u64), 0, &mut bytes)
            .unwrap();
        assert_eq!(bytes, told_by(frame));
    }
    // Written at one place, read at the other and in the frame.
    host.window().write(Page(one.0 + 69), 100, b"seen").unwrap();
    host.window().read(other, 100, &mut bytes[..4]).unwrap();
    assert_eq!(&bytes[..4], b"seen");
    host.ram().read(frames[69], &mut bytes).unwrap();
    assert_eq!(&bytes[100..104], b"seen");
    // Wrong counterparts.
    assert_eq!(seat.vfree(one), Err(RangeFreeError::WrongKind(one)));
    assert_eq!(seat.vfree(other), Err(RangeFreeError::WrongKind(other)));
    assert_eq!(
        seat.ranges().free_area(other),
        Err(RangeFreeError::WrongKind(other))
    );
    let area = seat.vmalloc(&AreaRequest::new(70)).unwrap();
    assert_eq!(
        seat.unmap_ram(area, 70),
        Err(RangeFreeError::WrongKind(area))
    );
    seat.vfree(area).unwrap();
    seat.unmap_ram(one, 70).unwrap();
    seat.unmap_ram(other, 64).unwrap();
    seat.ranges().purge();
    assert!(host.window().read(one, 0, &mut bytes).is_err());
    assert!(host.window().read(other, 0, &mut bytes).is_err());
    // An invalid frame in the middle: no page stays mapped.
    let mut wrong = frames.clone();
    wrong[33] = Frame(5);
    let refused = seat.map_ram(&wrong[..40], Context::ANY);
    assert_eq!(refused, Err(RangeError::Map(MapError::Frame(Frame(5)))));
    seat.frames()
        .seat(0)
        .free_bulk(Order::ZERO, &frames)
        .unwrap();
    drop(seat);
    all_is_back(&host);
}

#[test]
fn threads_that_map_their_own_frames_see_them_and_no_others() {
    let host = host(1024, &RangeOptions::new(4096));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let host = &host;
            scope.spawn(move || {
                let mut seat = host.cpu().unwrap();
                let mut random = Random::new(thread + 5);
                let mut frames = own_frames(host, &mut seat, 80);
                let mut bytes = [0; BYTES];
                for _ in 0..200 {
                    let length = match random.remainder(6) {
                        0 => 65 + random.remainder(15),
                        _ => 1 + random.remainder(16),
                    };
                    for nth in 1..frames.len() {
                        frames.swap(nth, random.remainder(nth as u64 + 1) as usize);
                    }
                    let these = &frames[..length as usize];
                    let at = seat.map_ram(these, Context::ANY).unwrap();
                    for (nth, &frame) in these.iter().enumerate() {
                        let page = Page(at.0 + nth as u64);
                        host.window().read(page, 0, &mut bytes).unwrap();
                        assert_eq!(bytes, told_by(frame), "page {nth} of {at}");
                    }
                    seat.unmap_ram(at, length).unwrap();
                }
                seat.frames()
                    .seat(0)
                    .free_bulk(Order::ZERO, &frames)
                    .unwrap();
            });
        }
    });
    all_is_back(&host);
}

#[test]
fn a_steady_churn_is_served_by_kept_areas_and_tears_nothing_down() {
    let host = host(4096, &kept(16 << 10));
    let mut seat = host.cpu().unwrap();
    let mut random = Random::new(9);
    let mut live: Vec<Option<LiveArea>> = vec![None; 8];
    let mut round = |seat: &mut HostCpu<'_, Windowed<()>, SpaceLayout>, number: u64| {
        let slot = random.remainder(8) as usize;
        if let Some(area) = live[slot].take() {
            area.check(&host);
            seat.vfree(area.at).unwrap();
        }
        let mut request = AreaRequest::new(1 + random.remainder(16));
        if number.is_multiple_of(5) {
            request = request.zeroed();
        }
        live[slot] = Some(vmalloc(&host, seat, &request, number).unwrap());
    };
    for number in 0..500 {
        round(&mut seat, number);
    }
    let before = host.space().stats();
    for number in 500..2500 {
        round(&mut seat, number);
    }
    let after = host.space().stats();
    let frees = after.area_frees - before.area_frees;
    assert_eq!(frees, 2000);
    assert!(after.tlb_flushes - before.tlb_flushes <= frees / 1000);
    assert!(after.unmap_calls - before.unmap_calls <= frees / 1000);
    assert!(after.kept_takes - before.kept_takes >= frees * 99 / 100);
    for area in live.into_iter().flatten() {
        area.check(&host);
        seat.vfree(area.at).unwrap();
    }
    drop(seat);
    all_is_back(&host);
}

#[test]
fn v12_by_default_a_free_unmaps_before_it_returns_on_either_thread() {
    let host = host(4096, &RangeOptions::new(16 << 10));
    std::thread::scope(|scope| {
        let mut seat = host.cpu().unwrap();
        let (give, take) = std::sync::mpsc::sync_channel::<LiveArea>(0);
        let (say, told) = std::sync::mpsc::sync_channel(0);
        let other = &host;
        scope.spawn(move || {
            let mut seat = other.cpu().unwrap();
            for area in take {
                area.check(other);
                seat.vfree(area.at).unwrap();
                say.send(other.window().mappings()).unwrap();
            }
        });
        for number in 0..200 {
            // In a span, and in the arena.
            let pages = [1, 7, 64, 700][number as usize % 4];
            let area = vmalloc(&host, &mut seat, &AreaRequest::new(pages), number).unwrap();
            let left = if number % 8 < 4 {
                area.check(&host);
                seat.vfree(area.at).unwrap();
                host.window().mappings()
            } else {
                give.send(area).unwrap();
                told.recv().unwrap()
            };
            assert_eq!(left, 1, "{area:?}: one without access is the whole window");
        }
    });
    all_is_back(&host);
}

#[test]
fn one_thread_allocates_and_another_frees_and_what_is_kept_goes_round() {
    let host = host(8192, &kept(16 << 10));
    let (give, take) = std::sync::mpsc::sync_channel::<LiveArea>(16);
    let areas = 2000;
    std::thread::scope(|scope| {
        let host = &host;
        scope.spawn(move || {
            let mut seat = host.cpu().unwrap();
            for area in take {
                area.check(host);
                assert_eq!(seat.vfree(area.at), Ok(area.pages));
            }
        });
        let mut seat = host.cpu().unwrap();
        let mut random = Random::new(3);
        for number in 0..areas {
            let request = AreaRequest::new(1 + random.remainder(8));
            give.send(vmalloc(host, &mut seat, &request, number).unwrap())
                .unwrap();
        }
        drop(give);
    });
    let stats = host.space().stats();
    assert_eq!(stats.area_frees, areas);
    // Constructed areas lie with the CPU that frees, in the depot, or on the way.
    assert!(stats.kept_takes >= areas * 3 / 5, "{stats:?}");
    assert_eq!(stats.unmap_calls, 0);
    all_is_back(&host);
}

#[test]
fn the_budget_of_mappings_is_an_error_that_names_it_only_when_nothing_can_be_unmapped() {
    let mut ranges = kept(16 << 10);
    ranges.mappings_max = Some(100);
    let host = host(4096, &ranges);
    let mut seat = host.cpu().unwrap();
    let mut live = Vec::new();
    let refused = loop {
        match vmalloc(&host, &mut seat, &AreaRequest::new(1), live.len() as u64) {
            Ok(area) => live.push(area),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, RangeError::Map(MapError::Limit { max: 100 }));
    assert!(refused.to_string().contains("limit of 100 mappings"));
    assert!((40..=50).contains(&live.len()), "{}", live.len());
    live.iter().for_each(|area| area.check(&host));
    // Kept and lazy areas are mapped too: they go before the request fails.
    for area in live.drain(..) {
        seat.vfree(area.at).unwrap();
    }
    assert!(host.window().mappings() > 80);
    // The same for frames of the caller's own: 60 scattered ones are too many, and leave no mapping
    // behind.
    let mut frames = own_frames(&host, &mut seat, 120);
    frames.sort_unstable();
    let scattered: Vec<_> = frames
        .iter()
        .step_by(2)
        .chain(&frames[1..2])
        .copied()
        .collect();
    let mapped = seat.map_ram(&scattered[..20], Context::ANY).unwrap();
    let others = seat.map_ram(&scattered[..60], Context::ANY);
    let third = seat.map_ram(&scattered[..60], Context::ANY);
    assert_eq!(third, Err(RangeError::Map(MapError::Limit { max: 100 })));
    let mut bytes = [0; BYTES];
    host.window().read(mapped, 0, &mut bytes).unwrap();
    assert_eq!(bytes, told_by(scattered[0]));
    seat.unmap_ram(others.unwrap(), 60).unwrap();
    seat.unmap_ram(mapped, 20).unwrap();
    seat.frames()
        .seat(0)
        .free_bulk(Order::ZERO, &frames)
        .unwrap();
    seat.ranges().drain();
    let two = vmalloc(&host, &mut seat, &AreaRequest::new(2), 1).unwrap();
    let nowait = AreaRequest::new(3).within(Context::NOWAIT);
    let three = vmalloc(&host, &mut seat, &nowait, 2).unwrap();
    assert!(host.window().mappings() < 10);
    for area in [two, three] {
        area.check(&host);
        seat.vfree(area.at).unwrap();
    }
    drop(seat);
    all_is_back(&host);
}

const CHILD: &str = "FRAMEWRIGHT_TEST_AT_THE_LIMIT";

/// In a process of its own: the others in this one need mappings too.
#[test]
fn at_the_kernels_limit_the_engine_purges_and_then_names_it() {
    if std::env::var_os(CHILD).is_none() {
        let name = "at_the_kernels_limit_the_engine_purges_and_then_names_it";
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&run.stdout);
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{out}{errors}");
        print!("{out}");
        return;
    }
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit: u64 = limit.trim().parse().unwrap();
    if limit > 1 << 18 {
        println!("skipped: vm.max_map_count of {limit} would take long to reach");
        return;
    }
    // As many frames as mappings: it is not they that are missing.
    let mut ranges = RangeOptions::new(4 * limit);
    let mut config = RangeConfig::for_cpus(4).kept();
    config.kept_pages_max = 4096;
    ranges.config = Some(config);
    let host = host(limit, &ranges);
    let mut seat = host.cpu().unwrap();
    let request = AreaRequest::new(1);
    let mut areas = Vec::new();
    let refused = loop {
        match seat.vmalloc(&request) {
            Ok(at) => areas.push(at),
            Err(error) => break error,
        }
    };
    assert_eq!(refused, RangeError::Map(MapError::Limit { max: limit }));
    println!(
        "{} areas, {} mappings",
        areas.len(),
        host.window().mappings()
    );
    assert!(areas.len() as u64 > limit / 16 * 7);
    // What is freed is kept and lazy, and mapped: it goes when another length is asked for.
    let rest = areas.split_off(areas.len() - 3000);
    for at in rest {
        seat.vfree(at).unwrap();
    }
    let mut others = Vec::new();
    for number in 0..1000 {
        others.push(vmalloc(&host, &mut seat, &AreaRequest::new(2), number).unwrap());
    }
    for area in others {
        area.check(&host);
        seat.vfree(area.at).unwrap();
    }
    for at in areas {
        seat.vfree(at).unwrap();
    }
    drop(seat);
    all_is_back(&host);
}

#[test]
fn all_frames_can_be_had_though_another_thread_kept_them() {
    let mut ranges = RangeOptions::new(16 << 10);
    let mut config = RangeConfig::for_cpus(4).kept();
    config.kept_pages_max = 1 << 20;
    ranges.config = Some(config);
    let host = host(1024, &ranges);
    std::thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            let mut seat = host.cpu().unwrap();
            let areas: Vec<_> = (0..60)
                .map(|_| seat.vmalloc(&AreaRequest::new(10)).unwrap())
                .collect();
            areas.iter().for_each(|&at| {
                seat.vfree(at).unwrap();
            });
            areas[0]
        });
        let at = sleeper.join().unwrap();
        assert_eq!(host.space().find(at).unwrap().state, AreaState::Kept);
    });
    let mut seat = host.cpu().unwrap();
    let all = vmalloc(&host, &mut seat, &AreaRequest::new(1024).zeroed(), 5).unwrap();
    let refused = seat.vmalloc(&AreaRequest::new(1));
    assert_eq!(refused, Err(RangeError::Frames(AllocError::Exhausted)));
    all.check(&host);
    seat.vfree(all.at).unwrap();
    drop(seat);
    all_is_back(&host);
}

#[test]
fn what_is_kept_goes_as_soon_as_frames_are_short() {
    let host = host(4096, &kept(16 << 10));
    let mut seat = host.cpu().unwrap();
    let areas: Vec<_> = (0..24)
        .map(|nth| seat.vmalloc(&AreaRequest::new(10 + nth % 4)).unwrap())
        .collect();
    for at in areas {
        seat.vfree(at).unwrap();
    }
    let kept = host.space().stats().kept_pages;
    assert!(kept > 200);
    let mut frames = Vec::new();
    while !host.zone().is_low() {
        let frame = seat.frames().alloc(0, Order::ZERO, Mobility::Movable);
        frames.push(frame.unwrap());
    }
    assert!(frames.len() > 2000);
    // Kept areas still serve, and a request that may not wait does not purge.
    let at = seat.vmalloc(&AreaRequest::new(12)).unwrap();
    seat.vfree(at).unwrap();
    let nowait = AreaRequest::new(3).within(Context::NOWAIT);
    let other = seat.vmalloc(&nowait).unwrap();
    assert_eq!(host.space().stats().kept_pages, kept);
    let third = seat.vmalloc(&AreaRequest::new(4)).unwrap();
    assert_eq!(host.space().stats().kept_pages, 0);
    for at in [other, third] {
        seat.vfree(at).unwrap();
    }
    seat.frames()
        .seat(0)
        .free_bulk(Order::ZERO, &frames)
        .unwrap();
    drop(seat);
    all_is_back(&host);
}

#[test]
fn frames_come_in_runs_so_that_few_mappings_are_needed() {
    let host = host(8192, &RangeOptions::new(16 << 10));
    let mut seat = host.cpu().unwrap();
    let area = vmalloc(&host, &mut seat, &AreaRequest::new(1000), 1).unwrap();
    // 1 for the window, and 2 for each piece at most; 1000 are 512 + 256 + 128 + 64 + 32 + 8.
    assert!(
        host.window().mappings() <= 13,
        "{}",
        host.window().mappings()
    );
    area.check(&host);
    seat.vfree(area.at).unwrap();
    drop(seat);
    all_is_back(&host);
}

#[test]
fn with_membarrier_it_is_the_same() {
    let host = match HostSpace::new(&options(2048, 4).with_window(4096)) {
        Ok(host) => host,
        Err(HostError::NoMembarrier) => {
            println!("skipped: the kernel has no membarrier");
            return;
        }
        Err(error) => panic!("{error}"),
    };
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let host = &host;
            scope.spawn(move || {
                let mut seat = host.cpu().unwrap();
                for number in 0..300 {
                    let request = AreaRequest::new(1 + number % 70).zeroed();
                    let area = vmalloc(host, &mut seat, &request, number * 2 + thread).unwrap();
                    area.check(host);
                    seat.vfree(area.at).unwrap();
                    if number % 100 == 99 {
                        seat.ranges().drain();
                    }
                }
            });
        }
    });
    all_is_back(&host);
}
