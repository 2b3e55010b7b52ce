//! The areas that the variants have, behind one way in.

use super::waiting::{Clocked, Synchronous, Waited, as_owner};
use crate::before::gcma::{ClientCounters, Conduct, Gcma, GcmaKind};
use crate::experiment::Failure;
use crate::experiment::gcma::options::alignment;
use crate::experiment::gcma::plan::GcmaPlan;
use crate::experiment::gcma::{GcmaVariant, SwapSafety};
use framewright::Run;
use framewright::RunError;
use framewright::frame::{FrameSource, Seat};
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
pub(in crate::experiment::gcma) struct OwnerCounts {
    /// Pages that were moved.
    pub(in crate::experiment::gcma) migrated: u64,
    /// Pages that were dropped.
    pub(in crate::experiment::gcma) discarded: u64,
    /// How long owners waited.
    pub(in crate::experiment::gcma) wait_ns: u64,
    /// Pages that guests looked for and found.
    pub(in crate::experiment::gcma) loaded: u64,
    /// Those that were not there.
    pub(in crate::experiment::gcma) missed: u64,
}

impl OwnerCounts {
    /// What came after `earlier`.
    pub(in crate::experiment::gcma) fn since(self, earlier: &Self) -> Self {
        Self {
            migrated: self.migrated - earlier.migrated,
            discarded: self.discarded - earlier.discarded,
            loaded: self.loaded - earlier.loaded,
            missed: self.missed - earlier.missed,
            wait_ns: self.wait_ns - earlier.wait_ns,
        }
    }

    pub(in crate::experiment::gcma) fn add(&mut self, other: &Self) {
        self.migrated += other.migrated;
        self.discarded += other.discarded;
        self.loaded += other.loaded;
        self.missed += other.missed;
        self.wait_ns += other.wait_ns;
    }
}

/// A seat of the zone.
pub(super) type FrameSeat<'z> = Seat<'z, 'z, Linux>;

/// Lengths that are known beforehand, ascending, each with its place in the area.
pub(super) type Places = Vec<(u64, Reservation)>;

/// The two pools of an area that keeps guests' pages.
#[derive(Debug, Clone, Copy)]
pub(in crate::experiment::gcma) struct PoolIds {
    pub(super) clean: PoolId,
    pub(super) swap: PoolId,
}

/// An area with its owners and guests.
pub(in crate::experiment::gcma) trait GcmaArea: Sync {
    /// Runs `work` with an owner's way in, for the calling thread. Where the area has a
    /// [clock for it](Self::supply_waits), the frames for what an owner has put back are of `supply`.
    fn with_owner(
        &self,
        supply: Option<&mut dyn FrameSource>,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// Where owners need other frames: what counts how long they wait for them.
    fn supply_waits(&self) -> Option<&Waited> {
        None
    }

    /// What has such frames that no longer hold anything, for reclaim.
    fn spare<'z>(&self) -> Option<&dyn Shrink<FrameSeat<'z>>> {
        None
    }

    /// The guests' way in, and their pools, where pages are kept for guests.
    fn guests(&self) -> Option<(&dyn Tenancy, PoolIds)>;

    /// What was counted so far.
    fn counted(&self) -> OwnerCounts;
}

/// A place for each length that the plan reserves for, set aside by `reserve`.
pub(super) fn places(
    plan: &GcmaPlan,
    variant: GcmaVariant,
    policy: SwapSafety,
    mut reserve: impl FnMut(&str, u64, u64) -> Result<Reservation, RunError>,
) -> Result<Places, Failure> {
    let lengths = plan.reserved(variant, policy).into_iter();
    let place = |frames| {
        let place = reserve("request", frames, alignment(frames));
        Ok((frames, place.map_err(Failure::new)?))
    };
    lengths.map(place).collect()
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
            // The longest first, so that each begins where it is aligned.
            let mut places = Vec::new();
            let mut at = run.start();
            for frames in plan.reserved(variant, policy).into_iter().rev() {
                let place = Run::new(at, frames).filter(|place| place.end() <= run.end());
                let place = place.ok_or_else(|| Failure::new("no room for a place of its own"))?;
                at = framewright::Frame(place.end().0.next_multiple_of(alignment(frames)));
                places.push(place);
            }
            work(&Published {
                gcma,
                pools,
                places,
            })
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
            work(&EngineArea {
                reserve: &reserve,
                places: places(plan, variant, policy, |name, frames, align| {
                    reserve.reserve(name, frames, align)
                })?,
                guests: Guests::new(&reserve, slots).map_err(Failure::new)?,
                pools,
                puts_back,
            })
        }
    }
}

struct Published {
    gcma: Gcma<Stored>,
    pools: PoolIds,
    /// Of the lengths that are known beforehand.
    places: Vec<Run>,
}

/// An owner of the document's area whose callers choose the range, as `gcma_alloc_contig` has it.
struct ChosenPlaces<'p>(&'p Published);

impl Contiguous for ChosenPlaces<'_> {
    fn is_guaranteed(&self) -> bool {
        (&self.0.gcma).is_guaranteed()
    }

    fn alloc_contig(&mut self, frames: u64, align: u64) -> Result<Run, RunError> {
        match self.0.places.iter().find(|place| place.frames() == frames) {
            Some(place) if self.0.gcma.take_at(*place) => Ok(*place),
            Some(_) => Err(RunError::NoRoom),
            None => (&self.0.gcma).alloc_contig(frames, align),
        }
    }

    fn release(&mut self, run: Run) -> Result<(), RunError> {
        (&self.0.gcma).release(run)
    }

    fn reserve(&mut self, name: &str, frames: u64, align: u64) -> Result<Reservation, RunError> {
        (&self.0.gcma).reserve(name, frames, align)
    }

    fn take(&mut self, reservation: Reservation) -> Result<Run, RunError> {
        Contiguous::take(&mut &self.0.gcma, reservation)
    }

    fn unreserve(&mut self, reservation: Reservation) -> Result<(), RunError> {
        (&self.0.gcma).unreserve(reservation)
    }
}

impl GcmaArea for Published {
    fn with_owner(
        &self,
        _supply: Option<&mut dyn FrameSource>,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        work(&mut ChosenPlaces(self))
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

/// An owner of lengths that may be known beforehand: a reservation each, which lends its frames meanwhile.
struct Reserved<'r> {
    area: &'r mut dyn Contiguous,
    /// By length.
    places: &'r [(u64, Reservation)],
}

impl Contiguous for Reserved<'_> {
    fn is_guaranteed(&self) -> bool {
        self.area.is_guaranteed()
    }

    /// Its reservation; or, where it has none, what is cheapest elsewhere, and else the least reservation that is long
    /// enough.
    fn alloc_contig(&mut self, frames: u64, align: u64) -> Result<Run, RunError> {
        let at = self.places.partition_point(|(len, _)| *len < frames);
        let fits = self.places.get(at);
        as_owner(|| match fits {
            Some((len, place)) if *len == frames => self.area.take(*place),
            Some((_, place)) => {
                let elsewhere = self.area.alloc_contig(frames, align);
                elsewhere.or_else(|_| self.area.take(*place))
            }
            None => self.area.alloc_contig(frames, align),
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
    places: Places,
    guests: Guests<'r, 'm, Clocked>,
    pools: PoolIds,
    /// Whether owners put pages back.
    puts_back: bool,
}

impl GcmaArea for EngineArea<'_, '_> {
    fn supply_waits(&self) -> Option<&Waited> {
        self.puts_back.then(|| self.reserve.platform().waited())
    }

    fn spare<'z>(&self) -> Option<&dyn Shrink<FrameSeat<'z>>> {
        self.puts_back.then_some(self.reserve as &dyn Shrink<_>)
    }

    fn with_owner(
        &self,
        supply: Option<&mut dyn FrameSource>,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let supply = supply.map(|supply| -> &mut dyn FrameSource { supply });
        let mut area = self.reserve.owner(supply);
        work(&mut Reserved {
            area: &mut area,
            places: &self.places,
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
    /// Of the lengths that are known beforehand.
    pub(super) places: Places,
}

impl GcmaArea for MovingArea<'_, '_> {
    fn with_owner(
        &self,
        _supply: Option<&mut dyn FrameSource>,
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
        let mut area = self.area.owner(&mut seat, clients);
        work(&mut Reserved {
            area: &mut area,
            places: &self.places,
        })
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
