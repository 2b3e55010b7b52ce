//! A whole object allocator on threads, with interleavings that shuttle chooses:
//! `RUSTFLAGS='--cfg shuttle' cargo test -p framewright-sim --release --test shuttle_objects`.
//! In a normal build this file is empty.
//!
//! What must never be seen: a byte that two objects have at a time, a request that fails although
//! what it needs is free and it may wait, a slot or a frame that is lost, whichever CPU frees,
//! drains or takes slabs over meanwhile.
#![cfg(shuttle)]

use framewright::frame::{Seat, Zone, ZoneLayout};
use framewright::kv::{Kv, KvLayout, KvRequest, KvSeat};
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::policy::{Config, Effort, RangeConfig};
use framewright::vrange::{AreaRequest, RangeSeat, Space, SpaceLayout};
use framewright::{Addr, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
use framewright_sim::Random;
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::Mutex;
use shuttle::{Config as ShuttleConfig, Runner, thread};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex as Plain};

/// Where frame 0 lies, and the first page of the space.
const DIRECT: Addr = Addr(0x100_0000);
const WINDOW: Page = Page(0x8_0000);

/// Mapping succeeds at once; what TLBs keep is the ranges' tests' business.
#[derive(Clone, Copy, Debug)]
struct MapsAtOnce;

impl FramePlatform for MapsAtOnce {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        ().relax(attempt);
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

impl RangePlatform for MapsAtOnce {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        thread::yield_now();
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        thread::yield_now();
        Ok(())
    }

    fn flush_all(&self) {
        thread::yield_now();
    }

    fn zero(&self, _frames: Run) {}
}

impl ObjectPlatform for MapsAtOnce {
    fn direct_base(&self) -> Addr {
        DIRECT
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

type ShuttleKvSeat =
    KvSeat<'static, 'static, 'static, MapsAtOnce, Seat<'static, 'static, MapsAtOnce>>;

type Ranges = RangeSeat<'static, 'static, MapsAtOnce, Seat<'static, 'static, MapsAtOnce>>;

/// The live objects: first byte and the one behind the last. Not known to shuttle: it must not
/// change the interleavings.
type LiveObjects = Plain<BTreeMap<u64, u64>>;

#[derive(Clone, Copy)]
struct SharedObjects {
    zone: &'static Zone<'static, MapsAtOnce>,
    space: &'static Space<'static, MapsAtOnce>,
    kv: &'static Kv<'static, MapsAtOnce>,
    live: &'static LiveObjects,
    frames: u64,
    cpus: u16,
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

impl SharedObjects {
    fn new(cpus: u16, frames: u64) -> Self {
        Self::with(cpus, frames, &RangeConfig::for_cpus(cpus).kept())
    }

    fn with(cpus: u16, frames: u64, ranges: &RangeConfig) -> Self {
        let order = |order| Order::new(order).unwrap();
        let layout = ZoneLayout::new(Frame(0), frames)
            .with_orders(order(4), order(4))
            .with_cpus(cpus);
        let config = Config {
            cache_permille: 100,
            ..Config::default()
        };
        let memory = vec![0; layout.words_needed().unwrap()].leak();
        let zone = Zone::new(&layout, &config, memory, MapsAtOnce).unwrap();
        zone.add(Run::new(Frame(0), frames).unwrap()).unwrap();
        let layout = SpaceLayout::new(WINDOW, 64)
            .with_span_pages(8)
            .with_cpus(cpus);
        let memory = vec![0; layout.words_needed().unwrap()].leak();
        let space = Space::new(&layout, ranges, memory, MapsAtOnce).unwrap();
        let layout = KvLayout::new(Frame(0), frames)
            .with_cpus(cpus)
            .with_slabs_max(frames);
        let memory = vec![0; layout.words_needed().unwrap()].leak();
        let kv = Kv::new(&layout, memory, MapsAtOnce).unwrap();
        Self {
            zone: leak(zone),
            space: leak(space),
            kv: leak(kv),
            live: leak(Plain::default()),
            frames,
            cpus,
        }
    }

    fn seat(&self, cpu: u16) -> ShuttleKvSeat {
        let frames = self.zone.seat(CpuId(cpu)).unwrap();
        let ranges = self.space.seat(CpuId(cpu), frames).unwrap();
        self.kv.seat(ranges).unwrap()
    }

    fn ranges(&self, cpu: u16) -> Ranges {
        let frames = self.zone.seat(CpuId(cpu)).unwrap();
        self.space.seat(CpuId(cpu), frames).unwrap()
    }

    fn note(&self, seat: &ShuttleKvSeat, addr: Addr) -> Addr {
        let bytes = seat.kvsize(addr).expect("K5: it was just handed out");
        let mut live = self.live.lock().unwrap();
        let end = addr.0 + bytes;
        if let Some((start, before)) = live.range(..end).next_back() {
            assert!(*before <= addr.0, "K5: {addr} and {start:#x} overlap");
        }
        live.insert(addr.0, end);
        addr
    }

    fn alloc(&self, seat: &mut ShuttleKvSeat, request: &KvRequest) -> Option<Addr> {
        let addr = seat.kmalloc(request).ok()?;
        Some(self.note(seat, addr))
    }

    fn kvmalloc(&self, seat: &mut ShuttleKvSeat, request: &KvRequest) -> Option<Addr> {
        let addr = seat.kvmalloc(request).ok()?;
        Some(self.note(seat, addr))
    }

    fn free(&self, seat: &mut ShuttleKvSeat, addr: Addr) {
        let end = self.live.lock().unwrap().remove(&addr.0).expect("live");
        assert_eq!(seat.kvfree(addr), Ok(end - addr.0));
    }

    /// Runs `work` on all CPUs; then everything must have been freed, and all frames be back.
    fn on_cpus(self, work: impl Fn(&Self, &mut ShuttleKvSeat, u16) + Send + Sync + 'static) {
        let work = Arc::new(work);
        let threads: Vec<_> = (0..self.cpus)
            .map(|cpu| {
                let work = work.clone();
                thread::spawn(move || {
                    let mut seat = self.seat(cpu);
                    work(&self, &mut seat, cpu);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert!(self.live.lock().unwrap().is_empty());
        self.kv.verify().unwrap();
        let recount = self.kv.recount();
        assert_eq!((recount.live_slots, recount.runs), (0, 0), "{recount:?}");
        let mut seat = self.seat(0);
        seat.drain();
        seat.ranges().drain();
        drop(seat);
        self.kv.verify().unwrap();
        self.zone.drain();
        self.zone.verify().unwrap();
        assert_eq!(self.kv.recount().slab_frames, 0);
        assert_eq!(self.zone.recount().free, self.frames, "K6");
    }
}

/// Half of the schedules at random, half with few, well-placed preemptions.
fn explore(schedules: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut config = ShuttleConfig::new();
    config.stack_size = 1 << 18;
    let body = Arc::new(body);
    let same = body.clone();
    Runner::new(RandomScheduler::new(schedules / 2), config.clone()).run(move || body());
    Runner::new(PctScheduler::new(3, schedules / 2), config).run(move || same());
}

#[test]
fn objects_are_passed_on_and_freed_anywhere() {
    explore(800, || {
        let shared = SharedObjects::new(3, 64);
        let passed: Arc<Mutex<Vec<Addr>>> = Arc::default();
        shared.on_cpus(move |shared, seat, cpu| {
            let mut random = Random::new(u64::from(cpu) + 1);
            let mut own = Vec::new();
            for _ in 0..14 {
                let bytes = [48, 1024, 2048, 6000][random.below(4) as usize];
                let request = KvRequest::new(bytes);
                match random.below(8) {
                    0..=3 => own.extend(shared.alloc(seat, &request)),
                    4 => {
                        let taken = passed.lock().unwrap().pop();
                        if let Some(addr) = taken {
                            shared.free(seat, addr);
                        }
                    }
                    5 | 6 => {
                        if let Some(addr) = own.pop() {
                            passed.lock().unwrap().push(addr);
                        }
                    }
                    _ => {
                        if let Some(addr) = own.pop() {
                            shared.free(seat, addr);
                        }
                    }
                }
            }
            for addr in own {
                shared.free(seat, addr);
            }
            if cpu == 1 {
                seat.drain();
            }
            let left: Vec<_> = std::mem::take(&mut *passed.lock().unwrap());
            for addr in left {
                shared.free(seat, addr);
            }
        });
    });
}

#[test]
fn slots_that_others_free_come_back_to_their_owner() {
    // One allocates, two free: what is on its way is collected when the magazine is empty, and
    // memory for half of it is enough for all.
    explore(600, || {
        let shared = SharedObjects::new(3, 32);
        let passed: Arc<Mutex<Vec<Addr>>> = Arc::default();
        shared.on_cpus(move |shared, seat, cpu| {
            let request = KvRequest::new(2048);
            for _ in 0..16 {
                if cpu == 0 {
                    let addr = shared.alloc(seat, &request).expect("there is room");
                    passed.lock().unwrap().push(addr);
                } else {
                    let taken = passed.lock().unwrap().pop();
                    match taken {
                        Some(addr) => shared.free(seat, addr),
                        None => thread::yield_now(),
                    }
                }
            }
            let left: Vec<_> = std::mem::take(&mut *passed.lock().unwrap());
            for addr in left {
                shared.free(seat, addr);
            }
        });
    });
}

#[test]
fn drains_and_what_is_taken_over_lose_nothing() {
    // Memory is so short that requests drain all CPUs and take over what others have free.
    explore(600, || {
        let shared = SharedObjects::new(3, 16);
        shared.on_cpus(|shared, seat, cpu| {
            let mut random = Random::new(u64::from(cpu) + 3);
            let mut own = Vec::new();
            for _ in 0..14 {
                let bytes = [512, 1024, 2048, 4096, 12_000][random.below(5) as usize];
                let request = KvRequest::new(bytes).with(Effort::MayCompact);
                match random.below(8) {
                    0..=3 => own.extend(shared.alloc(seat, &request)),
                    4 => own.extend(shared.kvmalloc(seat, &request)),
                    5 if cpu == 2 => {
                        seat.drain();
                    }
                    _ if own.is_empty() => {}
                    _ => {
                        let nth = random.below(own.len() as u64) as usize;
                        shared.free(seat, own.swap_remove(nth));
                    }
                }
            }
            for addr in own {
                shared.free(seat, addr);
            }
        });
    });
}

#[test]
fn k9_frames_that_came_back_before_another_request_failed_are_found() {
    // All that is left lies in an empty slab. Its CPU gives it back, and a request for all 16 frames fails
    // after that: the third CPU, whose first search came before both, must see the frames.
    explore(2000, || {
        let shared = SharedObjects::new(3, 16);
        let mut filler = shared.seat(0);
        let slot = filler.kmalloc(&KvRequest::new(2048)).unwrap();
        let mut pages = Vec::new();
        while let Ok(page) = filler.kmalloc(&KvRequest::new(4096)) {
            pages.push(page);
        }
        filler.kfree(slot).unwrap();
        drop(filler);
        let giver = thread::spawn(move || {
            shared.seat(0).drain();
        });
        let failing = thread::spawn(move || {
            let all = KvRequest::new(16 * 4096).with(Effort::MayCompact);
            assert!(shared.seat(1).kmalloc(&all).is_err());
        });
        let two = KvRequest::new(8192).with(Effort::MayCompact);
        let mut seat = shared.seat(2);
        let found = seat.kvmalloc(&two);
        assert!(
            found.is_ok(),
            "K9: {found:?} with {} pages taken",
            pages.len()
        );
        giver.join().unwrap();
        failing.join().unwrap();
    });
}

#[test]
fn k9_a_frame_that_lies_empty_in_anothers_slab_is_found() {
    // 16 frames; each of two holds at most two objects of four frames, or slots of two: there is
    // always room, unless empty slabs are held back.
    explore(600, || {
        let shared = SharedObjects::new(2, 16);
        shared.on_cpus(|shared, seat, cpu| {
            let mut random = Random::new(u64::from(cpu) + 5);
            for _ in 0..6 {
                let small = KvRequest::new(2048).with(Effort::MayCompact);
                let own: Vec<Addr> = (0..2)
                    .map(|_| shared.alloc(seat, &small).expect("K9: a slot"))
                    .collect();
                own.into_iter().for_each(|addr| shared.free(seat, addr));
                if random.below(2) == 0 {
                    let large = KvRequest::new(12_288).with(Effort::MayCompact);
                    let mapped = shared.kvmalloc(seat, &large).expect("K9: three frames");
                    shared.free(seat, mapped);
                }
            }
        });
    });
}

#[test]
fn k9_a_slot_is_found_while_others_keep_and_return_slabs_of_other_classes() {
    // 24 frames; what two others have live lies in two slabs of at most eight frames each: there is
    // always room for a third, unless a request fails while slabs are on their way.
    explore(300, || {
        let shared = SharedObjects::new(3, 24);
        shared.on_cpus(|shared, seat, cpu| {
            let mut random = Random::new(u64::from(cpu) + 7);
            for _ in 0..8 {
                let bytes = [512, 1024, 2048, 4096][random.below(4) as usize];
                let request = KvRequest::new(bytes).with(Effort::MayCompact);
                let addr = shared.alloc(seat, &request).expect("K9: a slot or a frame");
                shared.free(seat, addr);
            }
        });
    });
}

#[test]
fn k9_frames_that_a_drain_gives_back_are_found_on_their_way() {
    // 8 frames, one slab's; one CPU takes a slot and frees it, and the other gives back what lies
    // empty: somewhere there is always room.
    explore(600, || {
        let shared = SharedObjects::new(2, 8);
        shared.on_cpus(|shared, seat, cpu| {
            let mut random = Random::new(9);
            for _ in 0..8 {
                if cpu == 1 {
                    seat.drain();
                    continue;
                }
                let bytes = [512, 1024, 2048, 4096, 12_288][random.below(5) as usize];
                let request = KvRequest::new(bytes).with(Effort::MayCompact);
                let addr = match bytes {
                    12_288 => shared.kvmalloc(seat, &request),
                    _ => shared.alloc(seat, &request),
                };
                shared.free(seat, addr.expect("K9: no other CPU has an object"));
            }
        });
    });
}

#[test]
fn of_two_frees_of_one_object_at_the_same_moment_neither_corrupts_anything() {
    explore(800, || {
        let shared = SharedObjects::new(2, 32);
        let addr: [Addr; 2] = {
            let mut seat = shared.seat(0);
            [2048, 8192].map(|bytes| shared.alloc(&mut seat, &KvRequest::new(bytes)).unwrap())
        };
        shared.live.lock().unwrap().clear();
        let freed: Arc<Plain<[u32; 2]>> = Arc::default();
        let counted = freed.clone();
        let both = shuttle::sync::Barrier::new(2);
        shared.on_cpus(move |shared, seat, _| {
            for nth in 0..2 {
                if seat.kvfree(addr[nth]).is_ok() {
                    freed.lock().unwrap()[nth] += 1;
                }
            }
            // Later it would be the free of another user's object; and a free on its way when a
            // slot is handed out again cannot be told from that.
            both.wait();
            seat.drain();
            both.wait();
            // Each is handed out once: `note` finds what overlaps.
            let own: Vec<Addr> = (0..3)
                .filter_map(|_| shared.alloc(seat, &KvRequest::new(2048)))
                .collect();
            own.into_iter().for_each(|addr| shared.free(seat, addr));
        });
        let [slot, run] = *counted.lock().unwrap();
        assert_eq!(run, 1, "of a block one is refused");
        let later = u64::from(slot) - 1;
        assert!(
            later == 0 || shared.kv.stats().double_frees == later,
            "{later}"
        );
    });
}

#[test]
fn v8_frames_that_another_cpus_drain_gives_back_are_found() {
    // While the drain holds them they are neither in the space nor in the zone.
    explore(2000, || {
        let shared = SharedObjects::new(2, 16);
        let mut giver = shared.ranges(0);
        let most = AreaRequest::new(12);
        let area = giver.vmalloc(&most).unwrap();
        giver.vfree(area).unwrap();
        let other = thread::spawn(move || giver.drain());
        let found = shared.ranges(1).vmalloc(&most);
        assert!(found.is_ok(), "V8: nothing is live: {found:?}");
        other.join().unwrap();
    });
}

#[test]
fn v8_a_kept_area_that_makes_room_for_another_is_found() {
    explore(800, || {
        let mut config = RangeConfig::for_cpus(2).kept();
        config.kept_pages_max = 12;
        let shared = SharedObjects::with(2, 32, &config);
        let mut giver = shared.ranges(0);
        let areas = [12, 12, 4].map(|pages| giver.vmalloc(&AreaRequest::new(pages)).unwrap());
        let [first, second, third] = areas;
        // The first one goes to the depot, to make room for the second one.
        giver.vfree(first).unwrap();
        giver.vfree(second).unwrap();
        let other = thread::spawn(move || giver.vfree(third).unwrap());
        let found = shared.ranges(1).vmalloc(&AreaRequest::new(24));
        assert!(found.is_ok(), "V8: four pages at most are live: {found:?}");
        other.join().unwrap();
    });
}

#[test]
fn an_object_that_another_cpu_frees_while_it_becomes_shorter_loses_no_frame() {
    explore(2000, || {
        let shared = SharedObjects::new(2, 32);
        let whole = KvRequest::new(8 * 4096);
        let addr = shared.seat(0).kmalloc(&whole).unwrap();
        let freed = Arc::new(Plain::new(false));
        let both = shuttle::sync::Barrier::new(2);
        shared.on_cpus(move |_, seat, cpu| {
            if cpu == 1 {
                *freed.lock().unwrap() = seat.kvfree(addr).is_ok();
                both.wait();
                return;
            }
            let shorter = seat.kvrealloc(addr, &KvRequest::new(3 * 4096));
            assert!(shorter.is_err() || shorter == Ok(addr));
            both.wait();
            // If the free came in between, it was refused, and the object is this CPU's as before.
            let is_freed = *freed.lock().unwrap();
            assert!(is_freed || shorter.is_ok());
            assert_eq!(seat.kvfree(addr).is_ok(), !is_freed);
        });
    });
}

#[test]
fn what_is_no_object_is_refused_beside_drains_and_requests_that_stop_all() {
    explore(400, || {
        let shared = SharedObjects::new(3, 128);
        let passed: Arc<Mutex<Vec<Addr>>> = Arc::default();
        let hand_over = passed.clone();
        let largest = Order::new(4).unwrap();
        shared.on_cpus(move |shared, seat, cpu| {
            let mut random = Random::new(u64::from(cpu) + 11);
            let mut own: Vec<Addr> = Vec::new();
            for _ in 0..24 {
                let pages = [1, 2, 3, 4, 8, 16][random.below(6) as usize];
                let request = KvRequest::new(pages * 4096);
                match (random.below(14), own.last().copied()) {
                    (0..=4, _) => own.extend(shared.kvmalloc(seat, &request)),
                    (5, _) => own.extend(shared.alloc(seat, &request.with(Effort::MayCompact))),
                    (6, _) => shared.zone.drain(),
                    (7, _) => {
                        let frames = seat.ranges().frames();
                        if let Ok(frame) = frames.alloc_hard(largest, Mobility::Movable) {
                            thread::yield_now();
                            frames.free(frame, largest).unwrap();
                        }
                    }
                    (8, _) => _ = seat.drain(),
                    (_, None) => {}
                    (9 | 10, Some(addr)) => {
                        // Behind its first byte, at a page's beginning or not.
                        let bytes = seat.kvsize(addr).unwrap();
                        let inside = addr.0 + 16 + random.below(bytes - 16);
                        let page = inside & !4095;
                        for inside in [inside, page]
                            .map(Addr)
                            .into_iter()
                            .filter(|at| *at != addr)
                        {
                            assert!(seat.kvfree(inside).is_err(), "{inside} in {addr}");
                            assert!(seat.kfree(inside).is_err(), "{inside} in {addr}");
                        }
                    }
                    (11, Some(addr)) => {
                        own.pop();
                        let end = shared.live.lock().unwrap().remove(&addr.0).unwrap();
                        let moved = seat.kvrealloc(addr, &request);
                        assert!(moved.is_ok() || seat.kvsize(addr) == Ok(end - addr.0));
                        own.push(shared.note(seat, moved.unwrap_or(addr)));
                    }
                    (12, Some(addr)) => {
                        own.pop();
                        let other = std::mem::replace(&mut *passed.lock().unwrap(), vec![addr]);
                        other.into_iter().for_each(|addr| shared.free(seat, addr));
                    }
                    (_, Some(addr)) => {
                        own.pop();
                        shared.free(seat, addr);
                    }
                }
            }
            own.extend(std::mem::take(&mut *hand_over.lock().unwrap()));
            own.into_iter().for_each(|addr| shared.free(seat, addr));
        });
    });
}
