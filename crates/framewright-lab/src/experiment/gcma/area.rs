//! The areas that the variants have, behind one way in.

use super::super::Failure;
use super::Variant;
use super::plan::Plan;
use crate::before::gcma::{ClientCounters, Conduct, Gcma, Kind};
use framewright::reclaim::{Clients, Migrate, Shrink};
use framewright::reserve::{
    AreaKind, ContigError, Contiguous, Guaranteed, MigrateArea, Migrating, PoolConfig, PoolId,
    ReleaseError, Reservation, ReservationError, Reserve, ReserveLayout,
};
use framewright::{Frame, Run};
use framewright_linux::file_cache::FileCache;
use framewright_linux::paged::Paged;
use framewright_linux::platform::Slots;
use framewright_linux::tenancy::{Guests, Tenancy};
use framewright_linux::{Host, Linux, Pages, Ram, Stored};
use std::sync::Arc;

/// What an area has counted of its owners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Pages that were moved.
    pub(super) migrated: u64,
    /// Pages that were dropped.
    pub(super) discarded: u64,
    /// How long owners waited, where the area knows.
    pub(super) wait_ns: Option<u64>,
    /// Pages that guests looked for and found.
    pub(super) loaded: u64,
    /// Those that were not there.
    pub(super) missed: u64,
}

impl Counted {
    /// What came after `earlier`.
    pub(super) fn since(self, earlier: &Self) -> Self {
        Self {
            migrated: self.migrated - earlier.migrated,
            discarded: self.discarded - earlier.discarded,
            loaded: self.loaded - earlier.loaded,
            missed: self.missed - earlier.missed,
            wait_ns: self
                .wait_ns
                .zip(earlier.wait_ns)
                .map(|(now, then)| now - then),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.migrated += other.migrated;
        self.discarded += other.discarded;
        self.loaded += other.loaded;
        self.missed += other.missed;
        if let Some(ns) = other.wait_ns {
            self.wait_ns = Some(self.wait_ns.unwrap_or(0) + ns);
        }
    }
}

/// The two pools of an area that keeps guests' pages.
#[derive(Debug, Clone, Copy)]
pub(super) struct PoolIds {
    pub(super) clean: PoolId,
    pub(super) swap: PoolId,
}

/// An area with its owners and guests.
pub(super) trait Area: Sync {
    /// Runs `work` with an owner's way in, for the calling thread.
    fn with_owner(
        &self,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// The guests' way in, and their pools, where pages are kept for guests.
    fn guests(&self) -> Option<(&dyn Tenancy, PoolIds)>;

    /// What was counted so far.
    fn counted(&self) -> Counted;
}

/// Runs `work` on the fresh area of a variant that keeps guests' pages.
pub(super) fn with_area<R>(
    variant: Variant,
    plan: &Plan,
    work: impl FnOnce(&dyn Area) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let slots = Slots::new(plan.seats);
    let linux = Linux::new(slots.clone()).map_err(Failure::new)?;
    let run = Run::new(Frame(0), plan.reserve_frames);
    let run = run.ok_or_else(|| Failure::new("more frames than there are numbers"))?;
    let ram = Arc::new(Ram::new(run, Pages::Base).map_err(Failure::new)?);
    let platform = Stored::new(linux, ram);
    let no_pool = || Failure::new("no pool is to be had");
    match variant {
        Variant::Gcma | Variant::GcmaZram => {
            let gcma = Gcma::new(run, Conduct::Mended, platform);
            let pools = PoolIds {
                clean: gcma.open_pool(Kind::Cleancache).ok_or_else(no_pool)?,
                swap: gcma.open_pool(Kind::Frontswap).ok_or_else(no_pool)?,
            };
            work(&Published { gcma, pools })
        }
        _ => {
            let layout = ReserveLayout::new(run).with_cpus(plan.seats);
            let mut words = vec![0; layout.words_needed().map_err(Failure::new)?];
            let reserve = Reserve::new(&layout, &mut words, platform).map_err(Failure::new)?;
            let open = |config: &PoolConfig| reserve.open_pool(config).ok_or_else(no_pool);
            let pools = PoolIds {
                clean: open(&PoolConfig::CLEAN)?,
                swap: open(&PoolConfig::SWAP)?,
            };
            let mut reservations = Vec::new();
            for &frames in &plan.sizes {
                let reservation = reserve
                    .reserve("request", frames, 1)
                    .map_err(Failure::new)?;
                reservations.push((frames, reservation));
            }
            work(&Engine {
                reserve: &reserve,
                reservations,
                guests: Guests::new(&reserve, slots).map_err(Failure::new)?,
                pools,
            })
        }
    }
}

struct Published {
    gcma: Gcma<Stored>,
    pools: PoolIds,
}

impl Area for Published {
    fn with_owner(
        &self,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        work(&mut &self.gcma)
    }

    fn guests(&self) -> Option<(&dyn Tenancy, PoolIds)> {
        Some((&self.gcma, self.pools))
    }

    fn counted(&self) -> Counted {
        let clients = [Kind::Cleancache, Kind::Frontswap].map(|kind| self.gcma.counters(kind));
        let sum = |of: fn(&ClientCounters) -> u64| clients.iter().map(of).sum();
        Counted {
            migrated: 0,
            discarded: sum(|c| c.reclaimed_pages),
            wait_ns: Some(self.gcma.take_counters().wait_ns),
            loaded: sum(|c| c.loaded_pages),
            missed: sum(|c| c.load_failed_pages),
        }
    }
}

/// An owner whose requests are known beforehand: a reservation each, which lends its frames meanwhile.
struct Reserved<'r, 'm> {
    area: Guaranteed<'r, 'm, Stored>,
    /// By length.
    reservations: &'r [(u64, Reservation)],
}

impl Contiguous for Reserved<'_, '_> {
    fn kind(&self) -> AreaKind {
        self.area.kind()
    }

    /// The least of the reservations that is long enough.
    fn alloc_contig(&mut self, frames: u64, _align: u64) -> Result<Run, ContigError> {
        let at = self.reservations.partition_point(|(len, _)| *len < frames);
        let (_, reservation) = self.reservations.get(at).ok_or(ContigError::NoRoom)?;
        self.area.take(*reservation)
    }

    fn release(&mut self, run: Run) -> Result<(), ReleaseError> {
        self.area.release(run)
    }

    fn reserve(
        &mut self,
        name: &str,
        frames: u64,
        align: u64,
    ) -> Result<Reservation, ReservationError> {
        self.area.reserve(name, frames, align)
    }

    fn take(&mut self, reservation: Reservation) -> Result<Run, ContigError> {
        self.area.take(reservation)
    }

    fn unreserve(&mut self, reservation: Reservation) -> Result<(), ContigError> {
        self.area.unreserve(reservation)
    }
}

struct Engine<'r, 'm> {
    reserve: &'r Reserve<'m, Stored>,
    reservations: Vec<(u64, Reservation)>,
    guests: Guests<'r, 'm, Stored>,
    pools: PoolIds,
}

impl Area for Engine<'_, '_> {
    fn with_owner(
        &self,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        work(&mut Reserved {
            area: Guaranteed::new(self.reserve),
            reservations: &self.reservations,
        })
    }

    fn guests(&self) -> Option<(&dyn Tenancy, PoolIds)> {
        Some((&self.guests, self.pools))
    }

    fn counted(&self) -> Counted {
        let stats = self.reserve.stats().guests();
        Counted {
            migrated: 0,
            discarded: stats.reclaimed_pages,
            wait_ns: None,
            loaded: stats.loaded_pages,
            missed: stats.load_failed_pages,
        }
    }
}

/// The area that is lent to movable memory.
pub(super) struct Moving<'a, 'u> {
    pub(super) area: &'a MigrateArea<'a, 'a, 'a, Linux>,
    pub(super) host: &'a Host,
    pub(super) files: &'a FileCache<'u>,
    pub(super) paged: &'a Paged<'u>,
}

impl Area for Moving<'_, '_> {
    fn with_owner(
        &self,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut seat = self.host.seat().map_err(Failure::new)?;
        let shrink: [&dyn Shrink<_>; 2] = [self.files, self.paged];
        let migrate: [&dyn Migrate; 2] = [self.files, self.paged];
        let clients = Clients {
            shrink: &shrink,
            migrate: &migrate,
        };
        work(&mut Migrating::new(self.area, &mut seat, clients))
    }

    fn guests(&self) -> Option<(&dyn Tenancy, PoolIds)> {
        None
    }

    fn counted(&self) -> Counted {
        let stats = self.area.stats();
        Counted {
            migrated: stats.pages_migrated,
            discarded: stats.pages_discarded,
            wait_ns: None,
            loaded: 0,
            missed: 0,
        }
    }
}
