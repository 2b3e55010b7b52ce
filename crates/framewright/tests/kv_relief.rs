//! Objects with memory that other clients give back: `kvmalloc` over the engine's own reclaim.

mod common;

use common::maps_nothing;
use framewright::frame::{FrameSource, Seat, Zone, ZoneLayout};
use framewright::kv::{Kv, KvLayout, KvRequest, KvSeat};
use framewright::platform::{FramePlatform, Relief};
use framewright::policy::{Config, Effort, RangeConfig, ReclaimConfig};
use framewright::reclaim::{Ask, Clients, Migrate, Move, MoveState, Reclaim, Shrink, Shrunk};
use framewright::vrange::{Space, SpaceLayout};
use framewright::{Addr, CpuId, Frame, Mobility, Order, Page, Run};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Maps no page; the tests do not look at the contents.
#[derive(Clone, Copy, Debug)]
struct PlainPlatform;

impl FramePlatform for PlainPlatform {
    const ASYMMETRIC: bool = true;
    const ALONE: bool = true;

    fn relax(&self, _attempt: u32) {}

    fn barrier_all(&self) {}
}

maps_nothing!(PlainPlatform);

/// A cache of single frames that can be dropped, and moved.
#[derive(Default)]
struct ReliefCache(RefCell<BTreeSet<Frame>>);

impl<F: FrameSource> Shrink<F> for ReliefCache {
    fn holding(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
        let mut freed = 0;
        while freed < ask.wanted.min(ask.scan) {
            let Some(frame) = self.0.borrow_mut().pop_first() else {
                break;
            };
            frames.free_block(frame, Order::ZERO).unwrap();
            freed += 1;
        }
        Shrunk {
            scanned: freed,
            freed,
        }
    }
}

impl Migrate for ReliefCache {
    fn migrate(&self, moves: &mut [Move]) {
        for a_move in moves {
            if self.0.borrow_mut().remove(&a_move.from) {
                assert!(self.0.borrow_mut().insert(a_move.to));
                a_move.state = MoveState::Moved;
            }
        }
    }
}

type ReliefFrames = Seat<'static, 'static, PlainPlatform>;

fn leak<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

const FRAMES: u64 = 8192;

/// All of memory is the cache's but every `nth` frame; for the rest of the process.
fn machine(
    nth: u64,
) -> (
    &'static ReliefCache,
    &'static Reclaim<'static, 'static, PlainPlatform>,
    KvSeat<
        'static,
        'static,
        'static,
        PlainPlatform,
        ReliefFrames,
        impl Relief<ReliefFrames> + use<>,
    >,
) {
    let layout = ZoneLayout::new(Frame(0), FRAMES);
    let memory = leak(vec![0; layout.words_needed().unwrap()]);
    let zone = leak(Zone::new(&layout, &Config::default(), memory, PlainPlatform).unwrap());
    zone.add(Run::new(Frame(0), FRAMES).unwrap()).unwrap();
    let cache: &ReliefCache = leak(ReliefCache::default());
    for frame in (0..FRAMES).filter(|frame| frame % nth != 0).map(Frame) {
        zone.alloc_at(frame, Order::ZERO, Mobility::Movable)
            .unwrap();
        cache.0.borrow_mut().insert(frame);
    }
    let zone: &Zone<'_, _> = zone;
    let memory = leak(vec![0; Reclaim::words_needed(zone)]);
    let reclaim: &Reclaim<'_, '_, _> =
        leak(Reclaim::new(zone, &ReclaimConfig::default(), memory).unwrap());
    let clients: Clients<'static, ReliefFrames> = Clients {
        shrink: leak([cache as &dyn Shrink<ReliefFrames>]),
        migrate: leak([cache as &dyn Migrate]),
    };
    let layout = SpaceLayout::new(Page(1 << 20), 4096);
    let memory = leak(vec![0; layout.words_needed().unwrap()]);
    let space =
        leak(Space::new(&layout, &RangeConfig::for_cpus(1), memory, PlainPlatform).unwrap());
    let layout = KvLayout::new(Frame(0), FRAMES);
    let memory = leak(vec![0; layout.words_needed().unwrap()]);
    let kv = leak(Kv::new(&layout, memory, PlainPlatform).unwrap());
    let ranges = space.seat(CpuId(0), zone.seat(CpuId(0)).unwrap()).unwrap();
    let seat = kv.seat(ranges).unwrap();
    (cache, reclaim, seat.with_relief(reclaim.relief(clients)))
}

#[test]
fn an_object_is_mapped_over_frames_that_a_cache_gave_back() {
    let (cache, reclaim, mut seat) = machine(FRAMES);
    let before = cache.0.borrow().len();
    let request = KvRequest::new(600 * Page::BYTES);
    assert!(seat.kvmalloc(&request).is_err(), "nothing is free");
    assert_eq!(
        cache.0.borrow().len(),
        before,
        "and the cache was not asked"
    );
    let request = request.with(Effort::MustSucceed);
    let addr = seat.kvmalloc(&request).unwrap();
    let stats = reclaim.stats();
    assert!(
        stats.allocstall[0] > 0 && stats.pgsteal_direct >= 599,
        "{stats:?}"
    );
    assert!(cache.0.borrow().len() <= before - 599);
    seat.kvfree(addr).unwrap();
}

#[test]
fn an_object_is_contiguous_where_a_cache_was_moved_out_of_the_way() {
    let (cache, reclaim, mut seat) = machine(4);
    let before = cache.0.borrow().len();
    let request = KvRequest::new(8 * Page::BYTES).with(Effort::MayCompact);
    let addr = seat.kvmalloc(&request).unwrap();
    assert!(addr >= Addr(1 << 40), "in the direct map");
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.compact_success), (1, 1));
    assert_eq!((stats.allocstalls(), stats.pgsteal_direct), (0, 0));
    assert!(stats.pgmigrate_success > 0);
    assert_eq!(cache.0.borrow().len(), before, "it lost nothing");
    seat.kvfree(addr).unwrap();
}
