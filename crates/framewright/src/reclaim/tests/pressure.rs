//! Requests under pressure, with caches that give back.

use super::*;
use crate::frame::{AllocError, FrameSource};
use crate::platform::Relief;
use crate::reclaim;
use crate::reclaim::state::Lack;
use crate::units::Context;
use std::collections::VecDeque;

type TestFrames<'z, 'm> = Seat<'z, 'm, SingleThread>;

/// A cache of single frames.
#[derive(Default)]
pub(super) struct TestCache {
    frames: RefCell<VecDeque<Frame>>,
    heat: u8,
    calls: Cell<u64>,
    /// The first call that gives nothing; later ones give nothing either.
    fails_from: Option<u64>,
    /// The only call that gives nothing.
    fails_at: Option<u64>,
    /// Takes a frame for itself before it frees any.
    allocates: bool,
    contexts: RefCell<Vec<Context>>,
}

impl TestCache {
    pub(super) fn fill(&self, frames: &mut TestFrames<'_, '_>, count: u64) {
        for _ in 0..count {
            let frame = frames.alloc(Order::ZERO, Movable).unwrap();
            self.frames.borrow_mut().push_back(frame);
        }
    }

    pub(super) fn held(&self) -> u64 {
        self.frames.borrow().len() as u64
    }
}

impl<F: FrameSource> Shrink<F> for TestCache {
    fn holding(&self) -> u64 {
        self.held()
    }

    fn heat(&self) -> u8 {
        self.heat
    }

    fn shrink(&self, frames: &mut F, ask: &Ask) -> Shrunk {
        let call = self.calls.get();
        self.calls.set(call + 1);
        self.contexts.borrow_mut().push(ask.context);
        if self.fails_from.is_some_and(|from| call >= from) || self.fails_at == Some(call) {
            return Shrunk {
                scanned: ask.scan,
                freed: 0,
            };
        }
        // What it needs in order to free, from where it frees to: R4.
        let own = self.allocates.then(|| {
            frames
                .alloc_block(Order::ZERO, Unmovable, Context::ANY)
                .unwrap()
        });
        let count = ask.wanted.min(ask.scan).min(self.held());
        for _ in 0..count {
            let frame = self.frames.borrow_mut().pop_front().unwrap();
            frames.free_block(frame, Order::ZERO).unwrap();
        }
        if let Some(own) = own {
            frames.free_block(own, Order::ZERO).unwrap();
        }
        Shrunk {
            scanned: count,
            freed: count,
        }
    }
}

/// No caches of CPUs, so that free frames are counted exactly.
pub(super) const UNCACHED: Config = Config {
    cache_permille: 0,
    fallback: crate::policy::Fallback::Concentrated,
    cache_blocks_max: 0,
    stop_order_max: Order::MAX,
};

pub(super) fn plain() -> ReclaimConfig {
    ReclaimConfig {
        pageblocks_percent: 0,
        batch_frames: 32,
        ..ReclaimConfig::default()
    }
}

/// 16 pageblocks: min 181, low 226, high 271.
pub(super) const FRAMES: u64 = 8192;
pub(super) const MIN: u64 = 180;

pub(super) fn layout(cpus: u16) -> ZoneLayout {
    ZoneLayout::new(Frame(0), FRAMES).with_cpus(cpus)
}

/// This many single movable frames.
pub(super) fn take<'z, 'm>(
    seat: &mut reclaim::ReclaimSeat<'_, 'z, 'm, SingleThread>,
    clients: &Clients<'_, TestFrames<'z, 'm>>,
    count: u64,
) {
    for _ in 0..count {
        seat.alloc(order(0), Movable, Context::ANY, clients)
            .unwrap();
    }
}

#[test]
fn watermarks_hold_as_long_as_clients_could_give() {
    machine!(zone, reclaim, &UNCACHED, layout(1), &plain(), |_| ());
    assert_eq!(zone.watermarks().min, MIN);
    let mut frames = zone.seat(CpuId(0)).unwrap();
    let cache = TestCache::default();
    cache.fill(&mut frames, 7000);
    let clients = Clients {
        shrink: &[&cache],
        migrate: &[],
    };
    let mut seat = reclaim.seat(frames);
    let mut live = Vec::new();
    let error = loop {
        let size = order((live.len() % 3) as u8);
        match seat.alloc(size, Movable, Context::ANY, &clients) {
            Ok(frame) => live.push((frame, size)),
            Err(error) => break error,
        }
        let free = zone.free_in_pageblocks();
        assert!(free >= MIN, "{free} are free, {} are held", cache.held());
    };
    assert_eq!(error, AllocError::Exhausted);
    assert_eq!(
        cache.held(),
        0,
        "R7: it fails when no client holds anything"
    );
    let stats = reclaim.stats();
    assert!(stats.allocstalls() > 10 && stats.pgsteal_direct == 7000);
    assert!(stats.pgscan_direct >= stats.pgsteal_direct);
    assert_eq!(stats.pgscan_kswapd, 0);
    let sum: u64 = live.iter().map(|(_, size)| size.frames()).sum();
    assert!(FRAMES - sum < MIN + 4);
    // A request that must not wait may go below, and never asks a client.
    let calls = cache.calls.get();
    let mut atomic = 0;
    while let Ok(frame) = seat.alloc(order(0), Unmovable, Context::NOWAIT, &clients) {
        live.push((frame, order(0)));
        atomic += 1;
    }
    assert!(atomic >= MIN - 4);
    assert_eq!(cache.calls.get(), calls);
    assert_eq!(reclaim.stats().allocstalls(), stats.allocstalls());
    assert_eq!(zone.stats().failures(order(0)), 1);
    assert!(reclaim.is_wanted(), "the background was woken");
    let mut frames = seat.into_inner();
    for (frame, size) in live {
        frames.free(frame, size).unwrap();
    }
    drop(frames);
    assert_all_is_there(&zone, 0);
}

#[test]
fn r3_memory_squeezed_to_nothing_gives_an_error_and_ends() {
    machine!(
        zone,
        reclaim,
        &Config::default(),
        layout(1),
        &plain(),
        |_| ()
    );
    let mut frames = zone.seat(CpuId(0)).unwrap();
    // The cache holds everything, and gives nothing.
    let cache = TestCache {
        fails_from: Some(0),
        ..TestCache::default()
    };
    cache.fill(&mut frames, FRAMES);
    let clients = Clients {
        shrink: &[&cache, &cache],
        migrate: &[],
    };
    let mut seat = reclaim.seat(frames);
    for size in [0, 1, 2, 3, 9, 10] {
        for mobility in Mobility::ALL {
            let calls = cache.calls.get();
            let failed = seat.alloc(order(size), mobility, Context::ANY, &clients);
            assert_eq!(failed, Err(AllocError::Exhausted), "{size} {mobility}");
            let calls = cache.calls.get() - calls;
            // 13 priorities, at most one call of each client at each.
            assert!((2..=26).contains(&calls), "{size} {mobility}: {calls}");
        }
    }
    let too_large = seat.alloc(order(11), Movable, Context::ANY, &clients);
    assert!(matches!(too_large, Err(AllocError::TooLarge { .. })));
    let stats = reclaim.stats();
    assert_eq!(stats.allocstalls(), 18, "each counted once");
    assert_eq!(stats.allocstall[9], 3);
    assert_eq!(zone.stats().failures(order(9)), 3);
    drop(seat);
    assert_all_is_there(&zone, FRAMES);
}

#[test]
fn r7_a_client_that_claims_what_it_did_not_do_does_not_keep_a_request_for_ever() {
    struct LyingShrinker(Cell<u64>);
    impl<F> Shrink<F> for LyingShrinker {
        fn holding(&self) -> u64 {
            u64::MAX
        }
        fn shrink(&self, _: &mut F, ask: &Ask) -> Shrunk {
            self.0.set(self.0.get() + 1);
            Shrunk {
                scanned: u64::MAX,
                freed: ask.wanted,
            }
        }
    }
    machine!(zone, reclaim, &UNCACHED, layout(1), &plain(), |_| ());
    let mut frames = zone.seat(CpuId(0)).unwrap();
    let cache = TestCache::default();
    cache.fill(&mut frames, FRAMES);
    let liar = LyingShrinker(Cell::new(0));
    let clients = Clients {
        shrink: &[&liar],
        migrate: &[],
    };
    let mut seat = reclaim.seat(frames);
    let failed = seat.alloc(order(0), Movable, Context::ANY, &clients);
    assert_eq!(failed, Err(AllocError::Exhausted));
    assert_eq!(liar.0.get(), 32, "its rounds were over");
    reclaim.wake(Lack::Frames);
    let mut frames = seat.into_inner();
    assert_eq!(
        reclaim.background(&mut frames, &clients, 100),
        Background::Works,
        "the budget ends it"
    );
}

#[test]
fn a_client_that_fails_at_any_call_leaves_everything_as_it_was() {
    for fails_at in 0..40 {
        machine!(
            zone,
            reclaim,
            &Config::default(),
            layout(1),
            &ReclaimConfig::default(),
            |_| ()
        );
        let mut frames = zone.seat(CpuId(0)).unwrap();
        let cache = TestCache {
            fails_at: Some(fails_at),
            ..TestCache::default()
        };
        cache.fill(&mut frames, FRAMES - 100);
        let clients = Clients {
            shrink: &[&cache],
            migrate: &[],
        };
        let mut seat = reclaim.seat(frames);
        let mut live = 0;
        for nth in 0..300 {
            let size = order([0, 0, 1, 2][nth % 4]);
            if seat.alloc(size, Unmovable, Context::ANY, &clients).is_ok() {
                live += size.frames();
            }
        }
        assert!(live >= 300, "one fruitless call fails no request: {live}");
        let mut frames = seat.into_inner();
        while reclaim.background(&mut frames, &clients, 64) == Background::Works {}
        assert!(cache.calls.get() > fails_at || fails_at > 20);
        drop(frames);
        assert_all_is_there(&zone, live + cache.held());
    }
}

#[test]
fn r4_a_client_that_allocates_from_within_is_served_without_reclaim() {
    machine!(zone, reclaim, &UNCACHED, layout(1), &plain(), |_| ());
    let mut frames = zone.seat(CpuId(0)).unwrap();
    let cache = TestCache {
        allocates: true,
        ..TestCache::default()
    };
    cache.fill(&mut frames, FRAMES - MIN);
    let clients = Clients {
        shrink: &[&cache],
        migrate: &[],
    };
    let mut seat = reclaim.seat(frames);
    seat.alloc(order(0), Movable, Context::NOFS, &clients)
        .unwrap();
    assert_eq!(reclaim.stats().allocstalls(), 1, "the client's is none");
    assert!(!cache.contexts.borrow().is_empty());
    assert!(cache.contexts.borrow().iter().all(|c| *c == Context::NOFS));
    drop(seat);
    assert_all_is_there(&zone, cache.held() + 1);
}

#[test]
fn a_free_block_in_another_cpus_cache_means_no_stall() {
    machine!(
        zone,
        reclaim,
        &Config {
            cache_permille: 100,
            ..Config::default()
        },
        layout(2),
        &plain(),
        |_| ()
    );
    let mut frames = zone.seat(CpuId(0)).unwrap();
    let mut other = zone.seat(CpuId(1)).unwrap();
    let cache = TestCache::default();
    let mut pairs = Vec::new();
    // Enough is free, but in single frames; one block of order 2 is in the other CPU's cache.
    let kept = other.alloc(order(2), Movable).unwrap();
    while let Ok(frame) = frames.alloc(order(1), Movable) {
        pairs.push(frame);
    }
    for frame in &pairs[..400] {
        frames.free_part(*frame, Order::ZERO).unwrap();
    }
    zone.drain();
    assert!(zone.free_in_pageblocks() >= MIN + 8);
    other.free(kept, order(2)).unwrap();
    let clients = Clients {
        shrink: &[&cache],
        migrate: &[],
    };
    let mut seat = reclaim.seat(frames);
    let found = seat.alloc(order(2), Movable, Context::ANY, &clients);
    assert_eq!(found, Ok(kept));
    let stats = reclaim.stats();
    assert_eq!((stats.allocstalls(), stats.compact_stall), (0, 0));
    // The next one would have to wait, and no client can help it.
    let failed = seat.alloc(order(2), Movable, Context::ANY, &clients);
    assert_eq!(failed, Err(AllocError::Fragmented));
    assert_eq!(cache.calls.get(), 0, "it holds nothing");
}

#[test]
fn clients_are_asked_by_turns_for_what_they_hold_and_how_cold_it_is() {
    machine!(zone, reclaim, &UNCACHED, layout(1), &plain(), |_| ());
    let mut frames = zone.seat(CpuId(0)).unwrap();
    let caches = [0, 0, 192].map(|heat| TestCache {
        heat,
        ..TestCache::default()
    });
    let each = (FRAMES - MIN) / 3;
    for cache in &caches {
        cache.fill(&mut frames, each);
    }
    let clients = Clients {
        shrink: &[&caches[0], &caches[1], &caches[2]],
        migrate: &[],
    };
    let mut seat = reclaim.seat(frames);
    take(&mut seat, &clients, 1500);
    let given = caches.map(|cache| each - cache.held());
    assert!(given[0].abs_diff(given[1]) < 200, "{given:?}");
    assert!(
        given[2] > 0 && given[2] * 2 < given[0] + given[1],
        "{given:?}"
    );
}

#[test]
fn relief_frees_what_is_wanted_or_all_that_there_is_and_counts_one_stall() {
    machine!(zone, reclaim, &UNCACHED, layout(1), &plain(), |_| ());
    let mut frames = zone.seat(CpuId(0)).unwrap();
    let cache = TestCache::default();
    cache.fill(&mut frames, 1000);
    let shrink: [&dyn Shrink<_>; 1] = [&cache];
    let clients = Clients {
        shrink: &shrink,
        migrate: &[],
    };
    let relief = reclaim.relief(clients);
    assert_eq!(relief.reclaim(&mut frames, 10, Context::NOWAIT), 0);
    assert_eq!(reclaim.stats().allocstalls(), 0);
    assert_eq!(relief.reclaim(&mut frames, 300, Context::NOIO), 300);
    assert_eq!(relief.reclaim(&mut frames, 5000, Context::ANY), 700);
    assert_eq!(relief.reclaim(&mut frames, 1, Context::ANY), 0);
    assert!(!relief.compact(&mut frames, order(3), Context::ANY));
    assert_eq!(reclaim.stats().allocstalls(), 3);
    drop(frames);
    assert_all_is_there(&zone, 0);
}

/// Moves whatever it is offered.
struct AllMove;

impl Migrate for AllMove {
    fn migrate(&self, moves: &mut [Move]) {
        for of in moves {
            of.state = MoveState::Moved;
        }
    }
}

#[test]
fn a_frame_in_the_cpus_own_cache_is_had_without_a_stall_when_a_look_is_due() {
    machine!(
        zone,
        reclaim,
        &Config {
            cache_permille: 100,
            ..Config::default()
        },
        layout(2),
        &ReclaimConfig::default(),
        |_| ()
    );
    let mut frames = zone.seat(CpuId(0)).unwrap();
    let mut other = zone.seat(CpuId(1)).unwrap();
    let mut all = Vec::new();
    while let Ok(frame) = frames.alloc(order(0), Movable) {
        all.push(frame);
    }
    for frame in all.iter().step_by(2) {
        frames.free(*frame, order(0)).unwrap();
    }
    zone.drain();
    // One pageblock is contaminated, and its free frames lie in the cache.
    let first = frames.alloc(order(0), Unmovable).unwrap();
    let its = |frame: Frame| (frame.0 >> zone.pageblock_order().get()) as usize;
    let contaminated = its(first);
    while zone.pageblock(contaminated).free > 0 {
        other.alloc(order(0), Unmovable).unwrap();
    }
    assert!(zone.would_contaminate(order(0), Unmovable));
    let clients = Clients {
        shrink: &[],
        migrate: &[&AllMove],
    };
    let mut seat = reclaim.seat(frames);
    let got = seat
        .alloc(order(0), Unmovable, Context::ANY, &clients)
        .unwrap();
    let stats = reclaim.stats();
    assert_eq!((stats.compact_stall, stats.pgmigrate_success), (0, 0));
    assert_eq!(its(got), contaminated);
}

#[test]
fn f8_a_request_that_must_not_wait_stops_no_cpu_nor_does_a_costly_one_that_must_not_reclaim() {
    let blocks = Context {
        may_block: true,
        ..Context::NOWAIT
    };
    let cases = [
        (Context::NOWAIT, order(3), Err(AllocError::WouldWait)),
        (Context::NOWAIT, order(9), Err(AllocError::WouldWait)),
        (blocks, order(3), Err(AllocError::Fragmented)),
        (blocks, order(9), Ok(Frame(0))),
    ];
    for (context, stop_order_max, expected) in cases {
        let layout = ZoneLayout::new(Frame(0), 512).with_cpus(2);
        let config = Config {
            cache_permille: 100,
            stop_order_max,
            ..Config::default()
        };
        let mut memory = vec![!0; layout.words_needed().unwrap()];
        let zone = Zone::new(&layout, &config, &mut memory, ()).unwrap();
        zone.add(run(0, 512)).unwrap();
        let mut words = vec![!0; Reclaim::words_needed(&zone)];
        let reclaim = Reclaim::new(&zone, &plain(), &mut words).unwrap();
        // A frame of the only pageblock lies in the other CPU's cache.
        let mut other = zone.seat(CpuId(1)).unwrap();
        let frame = other.alloc(Order::ZERO, Movable).unwrap();
        other.free(frame, Order::ZERO).unwrap();
        let clients = Clients {
            shrink: &[],
            migrate: &[],
        };
        let mut seat = reclaim.seat(zone.seat(CpuId(0)).unwrap());
        let got = seat.alloc(order(9), Movable, context, &clients);
        let drains = zone.stats().drains;
        assert_eq!((got, drains), (expected, u64::from(expected.is_ok())));
        zone.verify().unwrap();
    }
}
