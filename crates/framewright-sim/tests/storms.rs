//! Many CPUs that fail at once: how often they stop one another.
//!
//! A request that fails stops all CPUs at most three times (K10), and of the requests that wait for a stop
//! together one makes it. So a storm of failures costs about as many stops as a single failure.

use framewright::frame::{Zone, ZoneLayout};
use framewright::kv::{Kv, KvLayout, KvRequest};
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::policy::{Config, Effort, RangeConfig};
use framewright::vrange::{AreaRequest, Space, SpaceLayout};
use framewright::{Addr, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
use std::sync::Barrier as Meeting;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

const CPUS: u16 = 64;
const FRAMES: u64 = 4096;

/// A host without page tables; it counts barriers, of which each stop executes one.
#[derive(Default)]
struct CountingHost {
    barriers: AtomicU64,
}

impl FramePlatform for &CountingHost {
    // Each side executes full barriers; the count is all that `barrier_all` adds.
    const ASYMMETRIC: bool = false;

    fn relax(&self, _attempt: u32) {
        thread::yield_now();
    }

    fn barrier_all(&self) {
        self.barriers.fetch_add(1, Ordering::SeqCst);
        std::sync::atomic::fence(Ordering::SeqCst);
    }
}

impl RangePlatform for &CountingHost {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

impl ObjectPlatform for &CountingHost {
    fn direct_base(&self) -> Addr {
        Addr(1 << 30)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

/// The stops that `rounds` failing requests of each kind cost on all CPUs together. Meanwhile `disturbs`
/// says that one more CPU frees and allocates an object in each round, so that no memo holds for long.
fn stops_of_a_storm(rounds: u64, disturbs: bool) -> (u64, u64) {
    let host = CountingHost::default();
    let layout = ZoneLayout::new(Frame(0), FRAMES).with_cpus(CPUS + 1);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let zone = Zone::new(&layout, &Config::default(), &mut memory, &host).unwrap();
    zone.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    let layout = SpaceLayout::new(Page(1 << 20), 4096).with_cpus(CPUS + 1);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let config = RangeConfig::for_cpus(CPUS + 1).kept();
    let space = Space::new(&layout, &config, &mut memory, &host).unwrap();
    let layout = KvLayout::new(Frame(0), FRAMES)
        .with_cpus(CPUS + 1)
        .with_slabs_max(FRAMES);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let kv = Kv::new(&layout, &mut memory, &host).unwrap();
    let seat = |cpu| {
        let ranges = space.seat(CpuId(cpu), zone.seat(CpuId(cpu)).unwrap());
        kv.seat(ranges.unwrap()).unwrap()
    };
    let mut churner = seat(CPUS);
    // Half of a slab, then all frames; so that a free of the disturbing CPU is an event of objects.
    let objects: Vec<Addr> = (0..8)
        .map(|_| churner.kmalloc(&KvRequest::new(256)).unwrap())
        .collect();
    let frames = churner.ranges().frames();
    while frames.alloc(Order::ZERO, Mobility::Unmovable).is_ok() {}
    let (meeting, failed) = (Meeting::new(usize::from(CPUS) + 1), AtomicU64::new(0));
    let before = host.barriers.load(Ordering::SeqCst);
    thread::scope(|scope| {
        let (seat, meeting, failed) = (&seat, &meeting, &failed);
        for cpu in 0..CPUS {
            scope.spawn(move || {
                let mut seat = seat(cpu);
                for _ in 0..rounds {
                    meeting.wait();
                    let careful = |bytes| KvRequest::new(bytes).with(Effort::MayCompact);
                    let mut errors = 0;
                    errors += u64::from(seat.kmalloc(&careful(4096)).is_err());
                    errors += u64::from(seat.kmalloc(&careful(16 * 4096)).is_err());
                    errors += u64::from(seat.kvmalloc(&careful(16 * 4096)).is_err());
                    let area = AreaRequest::new(5);
                    errors += u64::from(seat.ranges().vmalloc(&area).is_err());
                    let area = AreaRequest::new(4000);
                    errors += u64::from(seat.ranges().vmalloc(&area).is_err());
                    failed.fetch_add(errors, Ordering::Relaxed);
                }
            });
        }
        let mut objects = objects;
        for _ in 0..rounds {
            meeting.wait();
            if disturbs {
                churner.kfree(objects.pop().unwrap()).unwrap();
                thread::yield_now();
                objects.push(churner.kmalloc(&KvRequest::new(256)).unwrap());
            }
        }
    });
    let stops = host.barriers.load(Ordering::SeqCst) - before;
    kv.verify().unwrap();
    space.verify().unwrap();
    zone.verify().unwrap();
    (stops, failed.into_inner())
}

#[test]
fn k10_requests_of_64_cpus_that_all_fail_together_are_answered_by_a_few_stops() {
    let (stops, failed) = stops_of_a_storm(5, false);
    assert_eq!(failed, 5 * 5 * u64::from(CPUS));
    println!("{failed} failures: {stops} stops");
    // Five kinds of requests, and up to three stops for one.
    assert!(stops <= 15, "{stops} stops for {failed} failures");
}

#[test]
fn k10_beside_frees_that_help_no_request_they_share_their_stops_too() {
    let (stops, failed) = stops_of_a_storm(5, true);
    assert_eq!(failed, 5 * 5 * u64::from(CPUS));
    println!("{failed} failures beside frees: {stops} stops");
    assert!(stops <= 5 * 15, "{stops} stops for {failed} failures");
}
