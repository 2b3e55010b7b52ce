//! The areas that the variants have, behind one way in.

use super::super::Failure;
use super::plan::GcmaPlan;
use super::waiting::{Clocked, Synchronous, Waited, as_owner};
use super::{GcmaVariant, SwapSafety};
use crate::before::gcma::{ClientCounters, Conduct, Gcma, GcmaKind};
use framewright::Run;
use framewright::RunError;
use framewright::frame::FrameSource;
use framewright::reclaim::{Clients, Migrate, Shrink};
use framewright::reserve::{
    Contiguous, MigrateArea, PoolConfig, PoolId, Reservation, Reserve, ReserveLayout,
};
use framewright_linux::file_cache::FileCache;
use framewright_linux::paged::Paged;
use framewright_linux::platform::Slots;
use framewright_linux::tenancy::{Guests, Tenancy};
use framewright_linux::{Host, Linux, Ram, RamPages, Stored};
use std::sync::Arc;

/// What an area has counted of its owners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct OwnerCounts {
    /// Pages that were moved.
    pub(super) migrated: u64,
    /// Pages that were dropped.
    pub(super) discarded: u64,
    /// How long owners waited.
    pub(super) wait_ns: u64,
    /// Pages that guests looked for and found.
    pub(super) loaded: u64,
    /// Those that were not there.
    pub(super) missed: u64,
}

impl OwnerCounts {
    /// What came after `earlier`.
    pub(super) fn since(self, earlier: &Self) -> Self {
        Self {
            migrated: self.migrated - earlier.migrated,
            discarded: self.discarded - earlier.discarded,
            loaded: self.loaded - earlier.loaded,
            missed: self.missed - earlier.missed,
            wait_ns: self.wait_ns - earlier.wait_ns,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.migrated += other.migrated;
        self.discarded += other.discarded;
        self.loaded += other.loaded;
        self.missed += other.missed;
        self.wait_ns += other.wait_ns;
    }
}

/// The two pools of an area that keeps guests' pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolIds {
    pub(super) clean: PoolId,
    pub(super) swap: PoolId,
}

/// An area with its owners and guests.
pub(super) trait GcmaArea: Sync {
    /// Runs `work` with an owner's way in, for the calling thread.
    fn with_owner(
        &self,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// The guests' way in, and their pools, where pages are kept for guests.
    fn guests(&self) -> Option<(&dyn Tenancy, PoolIds)>;

    /// What was counted so far.
    fn counted(&self) -> OwnerCounts;
}

/// Runs `work` on the fresh area of a variant that keeps guests' pages.
pub(super) fn with_area<R>(
    variant: GcmaVariant,
    plan: &GcmaPlan,
    policy: SwapSafety,
    host: &Host,
    work: impl FnOnce(&dyn GcmaArea) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let slots = Slots::new(plan.seats);
    let linux = Linux::new(slots.clone()).map_err(Failure::new)?;
    // Behind the zone's: pages may be put back into those, so their numbers are not to be the same.
    let run = Run::new(host.ram().frames().end(), plan.reserve_frames);
    let run = run.ok_or_else(|| Failure::new("more frames than there are numbers"))?;
    let ram = Arc::new(Ram::new(run, RamPages::Base).map_err(Failure::new)?);
    let platform = Stored::new(linux, ram);
    let no_pool = || Failure::new("no pool is to be had");
    match variant {
        GcmaVariant::Gcma | GcmaVariant::GcmaZram => {
            let gcma = Gcma::new(run, Conduct::Mended, platform);
            let pools = PoolIds {
                clean: gcma.open_pool(GcmaKind::Cleancache).ok_or_else(no_pool)?,
                swap: gcma.open_pool(GcmaKind::Frontswap).ok_or_else(no_pool)?,
            };
            work(&Published { gcma, pools })
        }
        _ => {
            let puts_back = policy == SwapSafety::PutBack;
            let layout = ReserveLayout::new(run).with_cpus(plan.seats);
            let layout = if puts_back {
                layout.with_ordinary(plan.ordinary_max(policy))
            } else {
                layout
            };
            let mut words = vec![0; layout.words_needed().map_err(Failure::new)?];
            let platform = Clocked::new(platform.with_ordinary(Arc::clone(host.ram_shared())));
            let reserve = Reserve::new(&layout, &mut words, platform).map_err(Failure::new)?;
            let open = |config: &PoolConfig| reserve.open_pool(config).ok_or_else(no_pool);
            let pools = PoolIds {
                clean: open(&PoolConfig::CLEAN)?,
                swap: open(&PoolConfig {
                    put_back: puts_back,
                    ..PoolConfig::SWAP
                })?,
            };
            let mut reservations = Vec::new();
            for frames in plan.reserved(policy) {
                let reservation = reserve
                    .reserve("request", frames, 1)
                    .map_err(Failure::new)?;
                reservations.push((frames, reservation));
            }
            work(&EngineArea {
                reserve: &reserve,
                reservations,
                guests: Guests::new(&reserve, slots).map_err(Failure::new)?,
                pools,
                supply: puts_back.then_some(host),
            })
        }
    }
}

struct Published {
    gcma: Gcma<Stored>,
    pools: PoolIds,
}

impl GcmaArea for Published {
    fn with_owner(
        &self,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        work(&mut &self.gcma)
    }

    fn guests(&self) -> Option<(&dyn Tenancy, PoolIds)> {
        Some((&self.gcma, self.pools))
    }

    fn counted(&self) -> OwnerCounts {
        let clients =
            [GcmaKind::Cleancache, GcmaKind::Frontswap].map(|kind| self.gcma.counters(kind));
        let sum = |of: fn(&ClientCounters) -> u64| clients.iter().map(of).sum();
        OwnerCounts {
            migrated: 0,
            discarded: sum(|c| c.reclaimed_pages),
            wait_ns: self.gcma.take_counters().wait_ns,
            loaded: sum(|c| c.loaded_pages),
            missed: sum(|c| c.load_failed_pages),
        }
    }
}

/// An owner whose requests are known beforehand: a reservation each, which lends its frames meanwhile.
struct Reserved<'r, A> {
    area: A,
    /// By length.
    reservations: &'r [(u64, Reservation)],
    /// Whether a request without a reservation of its length first tries the frames that no reservation needs.
    takes_others: bool,
}

impl<A: Contiguous> Contiguous for Reserved<'_, A> {
    fn is_guaranteed(&self) -> bool {
        self.area.is_guaranteed()
    }

    /// The least of the reservations that is long enough; or, where there are few, what is cheapest elsewhere.
    fn alloc_contig(&mut self, frames: u64, align: u64) -> Result<Run, RunError> {
        let at = self.reservations.partition_point(|(len, _)| *len < frames);
        let fits = self.reservations.get(at);
        let is_exact = fits.is_some_and(|(len, _)| *len == frames);
        as_owner(|| {
            if self.takes_others
                && !is_exact
                && let Ok(run) = self.area.alloc_contig(frames, align)
            {
                return Ok(run);
            }
            let (_, reservation) = fits.ok_or(RunError::NoRoom)?;
            self.area.take(*reservation)
        })
    }

    fn release(&mut self, run: Run) -> Result<(), RunError> {
        self.area.release(run)
    }

    fn reserve(&mut self, name: &str, frames: u64, align: u64) -> Result<Reservation, RunError> {
        self.area.reserve(name, frames, align)
    }

    fn take(&mut self, reservation: Reservation) -> Result<Run, RunError> {
        self.area.take(reservation)
    }

    fn try_take(&mut self, reservation: Reservation, rounds: u32) -> Result<Run, RunError> {
        self.area.try_take(reservation, rounds)
    }

    fn unreserve(&mut self, reservation: Reservation) -> Result<(), RunError> {
        self.area.unreserve(reservation)
    }
}

struct EngineArea<'r, 'm> {
    reserve: &'r Reserve<'m, Clocked>,
    reservations: Vec<(u64, Reservation)>,
    guests: Guests<'r, 'm, Clocked>,
    pools: PoolIds,
    /// Where frames are for pages that are put back.
    supply: Option<&'r Host>,
}

impl GcmaArea for EngineArea<'_, '_> {
    fn with_owner(
        &self,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut seat = match self.supply {
            Some(host) => Some(host.seat().map_err(Failure::new)?),
            None => None,
        };
        let takes_others = seat.is_some();
        let supply = seat.as_mut().map(|seat| seat as &mut dyn FrameSource);
        work(&mut Reserved {
            area: self.reserve.owner(supply),
            reservations: &self.reservations,
            takes_others,
        })
    }

    fn guests(&self) -> Option<(&dyn Tenancy, PoolIds)> {
        Some((&self.guests, self.pools))
    }

    fn counted(&self) -> OwnerCounts {
        let stats = self.reserve.stats().guests();
        OwnerCounts {
            migrated: self.reserve.stats().put_back_pages,
            discarded: stats.reclaimed_pages,
            wait_ns: self.reserve.platform().waited().ns(),
            loaded: stats.loaded_pages,
            missed: stats.load_failed_pages,
        }
    }
}

/// The area that is lent to movable memory.
pub(super) struct MovingArea<'a, 'u> {
    pub(super) area: &'a MigrateArea<'a, 'a, 'a, Linux>,
    pub(super) host: &'a Host,
    pub(super) files: &'a FileCache<'u>,
    pub(super) paged: &'a Paged<'u>,
    pub(super) waited: Waited,
}

impl GcmaArea for MovingArea<'_, '_> {
    fn with_owner(
        &self,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut seat = self.host.seat().map_err(Failure::new)?;
        let files = Synchronous::new(self.files, &self.waited);
        let paged = Synchronous::new(self.paged, &self.waited);
        let shrink: [&dyn Shrink<_>; 2] = [&files, &paged];
        let migrate: [&dyn Migrate; 2] = [&files, &paged];
        let clients = Clients {
            shrink: &shrink,
            migrate: &migrate,
        };
        work(&mut self.area.owner(&mut seat, clients))
    }

    fn guests(&self) -> Option<(&dyn Tenancy, PoolIds)> {
        None
    }

    fn counted(&self) -> OwnerCounts {
        let stats = self.area.stats();
        OwnerCounts {
            migrated: stats.pages_migrated,
            discarded: stats.pages_discarded,
            wait_ns: self.waited.ns(),
            loaded: 0,
            missed: 0,
        }
    }
}
