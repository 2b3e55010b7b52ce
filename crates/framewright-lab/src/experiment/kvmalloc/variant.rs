//! The three allocators behind one way in.

use super::super::Failure;
use super::machine::JournalMachine;
use super::plan::KvmallocPlan;
use crate::before::journal::tenants::JournalTenants;
use crate::before::journal::{Journal, JournalSeat, LockCount, Rule, Setup, Wake};
use crate::experiment::timing::cpu_ns;
use framewright::engine::{Cpu, Engine, EngineLayout};
use framewright::frame::Zone;
use framewright::kv::{KvError, KvRequest};
use framewright::platform::ObjectPlatform;
use framewright::policy::RangeConfig;
use framewright::vrange::RangeError;
use framewright::{Addr, Context, CpuId, Frame, Mobility, Order, Run};
use std::sync::Arc;

/// What an allocator says of itself at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct VariantCounts {
    pub(super) spills: u64,
    pub(super) compact_stall: u64,
    pub(super) compact_success: u64,
    pub(super) allocstall: u64,
    pub(super) migrated: u64,
    pub(super) reclaimed: u64,
    pub(super) compact_ns: u64,
    pub(super) reclaim_ns: u64,
    pub(super) locks: Vec<LockCount>,
}

impl VariantCounts {
    /// What came after `earlier`. A lock's longest hold stays as it is: the count does not tell when it was.
    pub(super) fn since(mut self, earlier: &Self) -> Self {
        self.spills -= earlier.spills;
        self.compact_stall -= earlier.compact_stall;
        self.compact_success -= earlier.compact_success;
        self.allocstall -= earlier.allocstall;
        self.migrated -= earlier.migrated;
        self.reclaimed -= earlier.reclaimed;
        self.compact_ns -= earlier.compact_ns;
        self.reclaim_ns -= earlier.reclaim_ns;
        for (lock, earlier) in self.locks.iter_mut().zip(&earlier.locks) {
            lock.acquisitions -= earlier.acquisitions;
            lock.contended -= earlier.contended;
            lock.waited_ns -= earlier.waited_ns;
        }
        self
    }
}

/// An allocator that the journal's threads share.
pub(super) trait JournalVariant: Sync {
    /// One thread's way into it.
    type Seat<'a>: Allocating
    where
        Self: 'a;

    /// The way of CPU `cpu`; one at a time has it.
    fn seat(&self, cpu: u16) -> Result<Self::Seat<'_>, Failure>;

    /// Frames that are free, at about this moment.
    fn free_frames(&self) -> u64;

    /// What it counted so far.
    fn counted(&self) -> VariantCounts;

    /// Whether everything is where it should be. No thread may be at work meanwhile.
    fn verify(&self) -> Result<(), Failure>;
}

/// One thread's way into an allocator.
pub(super) trait Allocating {
    /// An object; `None` if there are no frames for it at this moment.
    fn kvmalloc(&mut self, bytes: u64) -> Result<Option<Addr>, Failure>;

    /// Frees it.
    fn kvfree(&mut self, addr: Addr) -> Result<(), Failure>;

    /// A frame for the cache.
    fn frame(&mut self) -> Option<Frame>;

    /// Gives one back.
    fn free_frame(&mut self, frame: Frame) -> Result<(), Failure>;

    /// What the background does when it was woken for a request of `order`.
    fn background(&mut self, order: usize) -> Result<(), Failure>;
}

/// Pages that are reclaimed at a time.
pub(super) const RECLAIM_PAGES: usize = 32;

impl JournalVariant for Journal<&JournalMachine> {
    type Seat<'a>
        = JournalSeat<'a, &'a JournalMachine>
    where
        Self: 'a;

    fn seat(&self, cpu: u16) -> Result<Self::Seat<'_>, Failure> {
        Ok(Journal::seat(self, cpu))
    }

    fn free_frames(&self) -> u64 {
        Journal::free_frames(self)
    }

    fn counted(&self) -> VariantCounts {
        let c = self.counters();
        VariantCounts {
            spills: c.spills,
            compact_stall: c.compact_stall,
            compact_success: c.compact_success,
            allocstall: c.allocstall,
            migrated: c.migrated,
            reclaimed: c.reclaimed,
            compact_ns: c.compact_ns,
            reclaim_ns: c.reclaim_ns,
            locks: self.lock_counts(),
        }
    }

    fn verify(&self) -> Result<(), Failure> {
        Journal::verify(self).map(drop).map_err(Failure::new)
    }
}

impl Allocating for JournalSeat<'_, &JournalMachine> {
    fn kvmalloc(&mut self, bytes: u64) -> Result<Option<Addr>, Failure> {
        Ok(JournalSeat::kvmalloc(self, bytes))
    }

    fn kvfree(&mut self, addr: Addr) -> Result<(), Failure> {
        match JournalSeat::kvfree(self, addr) {
            true => Ok(()),
            false => Err(Failure::new(format!("there is no object at {addr}"))),
        }
    }

    fn frame(&mut self) -> Option<Frame> {
        JournalSeat::frame(self)
    }

    fn free_frame(&mut self, frame: Frame) -> Result<(), Failure> {
        JournalSeat::free_frame(self, frame);
        Ok(())
    }

    fn background(&mut self, order: usize) -> Result<(), Failure> {
        JournalSeat::background(self, order);
        Ok(())
    }
}

/// Runs `work` on a journal's allocator of that rule in memory laid out as planned.
pub(super) fn with_journal<R>(
    rule: Rule,
    plan: &KvmallocPlan,
    machine: &JournalMachine,
    tenants: &Arc<JournalTenants>,
    wake: &Arc<Wake>,
    has_accounts: bool,
    work: impl FnOnce(&Journal<&JournalMachine>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let journal = Journal::new(Setup {
        frames: plan.frames,
        cpus: plan.seats(),
        machine_cpus: plan.machine_cpus,
        rule,
        marks: plan.marks,
        window: machine.window(),
        mapper: machine,
        tenants: Arc::clone(tenants),
        wake: Arc::clone(wake),
        direct: machine.direct_base(),
        cpu_ns: has_accounts.then_some(cpu_ns),
    });
    for frame in &plan.layout.free {
        journal.add(Frame(u64::from(*frame)));
    }
    work(&journal)
}

/// The engine, by its front door.
#[derive(Debug)]
pub(super) struct JournalEngine<'e, 'm> {
    engine: &'e Engine<'m, &'m JournalMachine>,
    tenants: &'e JournalTenants,
    high: u64,
}

/// Runs `work` on the engine in memory laid out as planned, strict or so that freed areas are kept; with its locks accounted if that is asked for.
pub(super) fn with_engine<R>(
    plan: &KvmallocPlan,
    machine: &JournalMachine,
    tenants: &JournalTenants,
    is_strict: bool,
    has_accounts: bool,
    work: impl FnOnce(&JournalEngine<'_, '_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let frames = u64::from(plan.frames);
    let window = machine.window();
    let ranges = RangeConfig {
        strict: is_strict,
        ..RangeConfig::for_cpus(plan.machine_cpus)
    };
    let layout = EngineLayout::new(Frame(0), frames)
        .with_cpus(plan.seats())
        .with_window(window.start(), window.pages())
        .with_range_config(ranges)
        .with_objects();
    let mut words = vec![0; layout.words_needed().map_err(Failure::new)?];
    let engine = Engine::new(&layout, &mut words, machine);
    let mut engine = engine.map_err(Failure::new)?;
    if has_accounts {
        engine = engine.with_lock_accounts();
    }
    let all = Run::new(Frame(0), frames);
    let all = all.ok_or_else(|| Failure::new("more frames than there are numbers"))?;
    engine.add(all).map_err(Failure::new)?;
    occupy(&engine.zones()[0], plan)?;
    work(&JournalEngine {
        engine: &engine,
        tenants,
        high: plan.marks.high,
    })
}

/// Takes every frame, gives those back that are free or cannot go, and takes the latter again as
/// what they are: the engine tells what can move from what cannot.
fn occupy(zone: &Zone<'_, &JournalMachine>, plan: &KvmallocPlan) -> Result<(), Failure> {
    let mut seat = zone.seat(CpuId(0)).map_err(Failure::new)?;
    for _ in 0..plan.frames {
        seat.alloc(Order::ZERO, Mobility::Movable)
            .map_err(Failure::new)?;
    }
    let layout = &plan.layout;
    for frame in layout.pinned.iter().chain(&layout.free) {
        seat.free(Frame(u64::from(*frame)), Order::ZERO)
            .map_err(Failure::new)?;
    }
    drop(seat);
    zone.drain();
    for frame in &layout.pinned {
        zone.alloc_at(Frame(u64::from(*frame)), Order::ZERO, Mobility::Unmovable)
            .map_err(Failure::new)?;
    }
    Ok(())
}

impl<'m> JournalEngine<'_, 'm> {
    fn zone(&self) -> &Zone<'m, &'m JournalMachine> {
        &self.engine.zones()[0]
    }

    fn locks(&self) -> Vec<LockCount> {
        let (frames, ranges) = (self.zone().stats(), self.engine.space().stats());
        [
            ("object_stop", self.engine.objects().stats().stop_lock),
            ("frame_stop", frames.stop_lock),
            ("pageblocks", frames.pageblock_locks),
            ("range_stop", ranges.stop_lock),
            ("arena", ranges.arena_lock),
            ("depot", ranges.depot_lock),
        ]
        .map(|(name, lock)| LockCount {
            name,
            acquisitions: lock.acquisitions,
            contended: lock.contended,
            hold_ns_max: lock.hold_ns_max,
            waited_ns: 0,
        })
        .into()
    }
}

/// One CPU's seats in the engine.
pub(super) struct JournalEngineSeat<'a, 'm> {
    cpu: Cpu<'a, 'm, &'m JournalMachine>,
    tenants: &'a JournalTenants,
    high: u64,
}

impl<'m> JournalVariant for JournalEngine<'_, 'm> {
    type Seat<'a>
        = JournalEngineSeat<'a, 'm>
    where
        Self: 'a;

    fn seat(&self, cpu: u16) -> Result<Self::Seat<'_>, Failure> {
        Ok(JournalEngineSeat {
            cpu: self.engine.cpu(CpuId(cpu)).map_err(Failure::new)?,
            tenants: self.tenants,
            high: self.high,
        })
    }

    fn free_frames(&self) -> u64 {
        self.zone().stats().nr_free_pages
    }

    fn counted(&self) -> VariantCounts {
        let stats = self.engine.objects().stats();
        VariantCounts {
            spills: stats.spills,
            compact_stall: stats.compact_stall,
            allocstall: stats.allocstall,
            // A fail-fast request of the engine does none of the rest; what its writer does for it is counted there.
            locks: self.locks(),
            ..VariantCounts::default()
        }
    }

    fn verify(&self) -> Result<(), Failure> {
        self.engine.verify().map_err(Failure::new)
    }
}

impl Allocating for JournalEngineSeat<'_, '_> {
    #[inline]
    fn kvmalloc(&mut self, bytes: u64) -> Result<Option<Addr>, Failure> {
        match self.cpu.kvmalloc(&KvRequest::new(bytes)) {
            Ok(addr) => Ok(Some(addr)),
            Err(
                KvError::Frames(_)
                | KvError::Ranges(RangeError::Frames(_) | RangeError::TooManyFrames { .. }),
            ) => Ok(None),
            Err(error) => Err(Failure::new(error)),
        }
    }

    #[inline]
    fn kvfree(&mut self, addr: Addr) -> Result<(), Failure> {
        self.cpu.kvfree(addr).map_err(Failure::new)?;
        Ok(())
    }

    fn frame(&mut self) -> Option<Frame> {
        let frame = self.cpu.alloc(Order::ZERO, Mobility::Movable, Context::ANY);
        frame.ok()
    }

    fn free_frame(&mut self, frame: Frame) -> Result<(), Failure> {
        self.cpu.free(frame, Order::ZERO).map_err(Failure::new)
    }

    fn background(&mut self, _order: usize) -> Result<(), Failure> {
        let mut frames = Vec::new();
        while self.cpu.frames().seat(0).zone().stats().nr_free_pages < self.high {
            self.tenants.evict(RECLAIM_PAGES, &mut frames);
            if frames.is_empty() {
                break;
            }
            for frame in frames.drain(..) {
                self.free_frame(frame)?;
            }
        }
        Ok(())
    }
}
