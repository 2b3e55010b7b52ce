//! Threads instead of a sequence, under shuttle and on real CPUs: then no order of calls is known, and only what
//! holds in each order is checked.

use super::calls::{self, RangeRequest, covers, own_frame};
use super::{ModelArea, RangeModel};
use crate::{Paging, Random, SharedFrames, SharedPaging};
use framewright::stats::RangeStats;
use framewright::vrange::{AreaKind, RangeError, RangeSeat, Space, SpaceLayout};
use framewright::{Context, CpuId, Page};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

/// Several threads in one space. A model on which no interleaving depends knows which thread has
/// which page, and every mapping and word is checked.
#[derive(Debug)]
pub struct Hammer<'s, 'm> {
    space: &'s Space<'m, &'s SharedPaging>,
    paging: &'s SharedPaging,
    model: Mutex<RangeModel>,
    /// Areas that any thread may free.
    shared: Mutex<Vec<ModelArea>>,
}

/// The work of one thread.
#[derive(Clone, Copy, Debug)]
pub struct HammerWork {
    /// The kinds of areas it makes, one chosen at random each time.
    pub kinds: &'static [AreaKind],
    /// The longest of them, in pages.
    pub pages_max: u64,
    /// How many it holds at most.
    pub held_max: usize,
    /// How many in a hundred it leaves to other threads to free.
    pub shared_percent: u64,
    /// Purges and drains in a hundred operations.
    pub purge_percent: u64,
    /// How many of a hundred areas with frames it frees as a handler does: the free is deferred.
    pub defer_percent: u64,
    /// Whether each request must be served, because the window is large enough for all that the
    /// threads hold, wherever it lies.
    pub must_serve: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'s, 'm> Hammer<'s, 'm> {
    /// No area is allocated in the space yet.
    #[must_use]
    pub fn new(
        space: &'s Space<'m, &'s SharedPaging>,
        paging: &'s SharedPaging,
        layout: &SpaceLayout,
    ) -> Self {
        Self {
            space,
            paging,
            model: Mutex::new(RangeModel::new(layout)),
            shared: Mutex::default(),
        }
    }

    fn seat(&self, cpu: u16) -> RangeSeat<'s, 'm, &'s SharedPaging, SharedFrames<'s>> {
        self.space
            .seat(CpuId(cpu), SharedFrames(self.paging))
            .expect("one thread a CPU")
    }

    /// Runs a thread on `cpu`: `ops` operations by the numbers of `seed`; in the end it frees the
    /// areas that it still has.
    ///
    /// # Panics
    /// If anything is not as it must be.
    pub fn work(&self, cpu: u16, seed: u64, ops: u32, work: &HammerWork) {
        let mut seat = self.seat(cpu);
        let mut random = Random::new(seed);
        let mut held: Vec<ModelArea> = Vec::new();
        for _ in 0..ops {
            if random.chance(work.purge_percent) {
                match random.below(10) {
                    0..3 => seat.drain(),
                    3..5 if work.defer_percent != 0 => _ = seat.free_deferred(),
                    _ => seat.purge(),
                }
                continue;
            }
            if held.len() < work.held_max && (held.is_empty() || random.chance(60)) {
                if let Some(area) = self.alloc(&mut seat, &mut random, work) {
                    if random.chance(work.shared_percent) {
                        lock(&self.shared).push(area);
                    } else {
                        held.push(area);
                    }
                }
            } else if !held.is_empty() {
                let area = held.swap_remove(random.below(held.len() as u64) as usize);
                self.free_or_defer(&mut seat, &area, random.chance(work.defer_percent));
            }
            if random.chance(work.shared_percent) {
                let taken = {
                    let mut shared = lock(&self.shared);
                    // Not the area that this thread has just left there.
                    (shared.len() > 1).then(|| shared.remove(0))
                };
                if let Some(area) = taken {
                    self.free_or_defer(&mut seat, &area, random.chance(work.defer_percent));
                }
            }
        }
        for area in &held {
            self.free_or_defer(&mut seat, area, random.chance(work.defer_percent));
        }
    }

    /// Runs a thread on `cpu` that sends each of its `areas` areas to the thread behind `next`, and frees
    /// what it receives. If `next` is full, it frees first: so in a ring no thread waits for ever,
    /// and each thread is still there when another one frees its areas, however they are scheduled.
    ///
    /// # Panics
    /// If anything is not as it must be.
    pub fn relay(
        &self,
        cpu: u16,
        areas: u32,
        work: &HammerWork,
        received: &Receiver<ModelArea>,
        next: SyncSender<ModelArea>,
    ) {
        let mut seat = self.seat(cpu);
        let mut random = Random::new(u64::from(cpu) + 1);
        for _ in 0..areas {
            if random.chance(work.purge_percent) {
                seat.purge();
            }
            let Some(mut area) = self.alloc(&mut seat, &mut random, work) else {
                continue;
            };
            while let Err(TrySendError::Full(back)) = next.try_send(area) {
                area = back;
                match received.try_recv() {
                    Ok(other) => self.free(&mut seat, &other),
                    Err(_) => thread::yield_now(),
                }
            }
        }
        drop(next);
        for other in received {
            self.free(&mut seat, &other);
        }
    }

    fn alloc(
        &self,
        seat: &mut RangeSeat<'s, 'm, &'s SharedPaging, SharedFrames<'s>>,
        random: &mut Random,
        work: &HammerWork,
    ) -> Option<ModelArea> {
        let kind = work.kinds[random.below(work.kinds.len() as u64) as usize];
        let (pages, tag) = (1 + random.below(work.pages_max), random.below(9) as u32);
        // The model gives the number, and the engine must not wait for the model: so another number
        // chooses the callers' own frames.
        let request = RangeRequest {
            cpu: seat.cpu().0,
            kind,
            pages,
            align_bytes: Page::BYTES,
            guard_before: false,
            huge: false,
            zero: kind == AreaKind::Vmalloc && random.chance(30),
            context: Context::ANY,
            tag,
            id: random.below(1 << 20),
        };
        let pool_frames = self.paging.lock().pool_frames();
        match calls::alloc(seat, pool_frames, &request) {
            Ok(start) => {
                let mut model = lock(&self.model);
                let covers = covers(kind, pages);
                if let Some(objection) = model.objection(start, covers, Page::BYTES) {
                    panic!("V1: {request:?} was served at {start}: {objection}");
                }
                let mut area = model.alloc(start, pages, covers, kind, tag);
                drop(model);
                area.id = request.id;
                let paging = self.paging.lock();
                let inspected = area.inspect(&paging, request.cpu, request.zero, pages);
                if let Err(wrong) = inspected {
                    panic!("{wrong}");
                }
                self.check(&paging);
                Some(area)
            }
            Err(error @ (RangeError::NoSpace { .. } | RangeError::Frames(_))) => {
                assert!(!work.must_serve, "V8: {request:?}: {error}");
                None
            }
            Err(error) => panic!("{request:?}: {error}"),
        }
    }

    fn free(
        &self,
        seat: &mut RangeSeat<'s, 'm, &'s SharedPaging, SharedFrames<'s>>,
        area: &ModelArea,
    ) {
        self.free_or_defer(seat, area, false);
    }

    fn free_or_defer(
        &self,
        seat: &mut RangeSeat<'s, 'm, &'s SharedPaging, SharedFrames<'s>>,
        area: &ModelArea,
        is_deferred: bool,
    ) {
        let paging = self.paging.lock();
        for nth in 0..area.pages {
            if area.kind != AreaKind::Vmalloc {
                let own = own_frame(paging.pool_frames(), area.id, nth);
                assert_eq!(paging.mapped(Page(area.start.0 + nth)), Some(own));
            }
            if let Err(wrong) = area.touch(&paging, seat.cpu().0, nth) {
                panic!("{wrong}");
            }
        }
        self.check(&paging);
        drop(paging);
        // Before the free: another thread may get the pages as soon as they are free.
        lock(&self.model).free(area.start);
        let freed = match area.kind {
            // It enters no seat, as where this thread's handler calls it.
            AreaKind::Vmalloc if is_deferred => self.space.vfree_atomic(area.start),
            kind => calls::free(seat, area.start, kind, area.pages),
        };
        match freed {
            Ok(pages) => assert_eq!(pages, area.pages),
            Err(error) => panic!("{area:?}: {error}"),
        }
    }

    fn check(&self, paging: &Paging) {
        if let Some(broken) = paging.broken() {
            panic!("the platform was misused: {broken}");
        }
    }

    /// When all threads are done: frees the rest, drains, and checks that everything is as at
    /// first.
    ///
    /// # Panics
    /// If anything is not.
    pub fn end(&self) -> RangeStats {
        self.verify();
        let mut seat = self.seat(0);
        let rest: Vec<ModelArea> = lock(&self.shared).drain(..).collect();
        for area in &rest {
            self.free(&mut seat, area);
        }
        seat.drain();
        self.verify();
        let paging = self.paging.lock();
        self.check(&paging);
        let stats = self.space.stats();
        let left = (stats.live_pages, stats.vmap_lazy_nr, paging.mapped_pages());
        assert_eq!(left, (0, 0, 0), "live, lazy and mapped pages at the end");
        let frames = (paging.free_frames(), u64::from(paging.pool_frames()));
        assert_eq!(frames.0, frames.1, "V7: frames at the end");
        self.space
            .for_each_area(|area| panic!("{area:?} at the end"));
        stats
    }

    fn verify(&self) {
        if let Err(broken) = self.space.verify() {
            panic!("{broken}");
        }
    }
}
