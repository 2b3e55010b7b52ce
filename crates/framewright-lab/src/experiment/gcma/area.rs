//! The areas that the variants have, behind one way in.

use super::super::Failure;
use super::Variant;
use super::plan::Plan;
use crate::before::gcma::{Conduct, Gcma, Kind};
use framewright::reserve::{Contiguous, Guaranteed, PoolConfig, PoolId, Reserve, ReserveLayout};
use framewright::{Frame, Run};
use framewright_linux::platform::Slots;
use framewright_linux::tenancy::{Guests, Tenancy};
use framewright_linux::{Linux, Pages, Ram, Stored};
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
}

impl Counted {
    /// What came after `earlier`.
    pub(super) fn since(self, earlier: &Self) -> Self {
        Self {
            migrated: self.migrated - earlier.migrated,
            discarded: self.discarded - earlier.discarded,
            wait_ns: self
                .wait_ns
                .zip(earlier.wait_ns)
                .map(|(now, then)| now - then),
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.migrated += other.migrated;
        self.discarded += other.discarded;
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
    /// An owner's way in.
    fn owner(&self) -> Box<dyn Contiguous + '_>;

    /// The guests' way in.
    fn tenancy(&self) -> &dyn Tenancy;

    /// The guests' pools.
    fn pools(&self) -> PoolIds;

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
        Variant::Gcma => {
            let gcma = Gcma::new(run, Conduct::Mended, platform);
            let pools = PoolIds {
                clean: gcma.open_pool(Kind::Cleancache).ok_or_else(no_pool)?,
                swap: gcma.open_pool(Kind::Frontswap).ok_or_else(no_pool)?,
            };
            work(&Published { gcma, pools })
        }
        Variant::Framewright => {
            let layout = ReserveLayout::new(run).with_cpus(plan.seats);
            let mut words = vec![0; layout.words_needed().map_err(Failure::new)?];
            let reserve = Reserve::new(&layout, &mut words, platform).map_err(Failure::new)?;
            let open = |config: &PoolConfig| reserve.open_pool(config).ok_or_else(no_pool);
            let pools = PoolIds {
                clean: open(&PoolConfig::CLEAN)?,
                swap: open(&PoolConfig::SWAP)?,
            };
            work(&Engine {
                reserve: &reserve,
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
    fn owner(&self) -> Box<dyn Contiguous + '_> {
        Box::new(&self.gcma)
    }

    fn tenancy(&self) -> &dyn Tenancy {
        &self.gcma
    }

    fn pools(&self) -> PoolIds {
        self.pools
    }

    fn counted(&self) -> Counted {
        let of = |kind| self.gcma.counters(kind).reclaimed_pages;
        Counted {
            migrated: 0,
            discarded: of(Kind::Cleancache) + of(Kind::Frontswap),
            wait_ns: Some(self.gcma.take_counters().wait_ns),
        }
    }
}

struct Engine<'r, 'm> {
    reserve: &'r Reserve<'m, Stored>,
    guests: Guests<'r, 'm, Stored>,
    pools: PoolIds,
}

impl Area for Engine<'_, '_> {
    fn owner(&self) -> Box<dyn Contiguous + '_> {
        Box::new(Guaranteed::new(self.reserve))
    }

    fn tenancy(&self) -> &dyn Tenancy {
        &self.guests
    }

    fn pools(&self) -> PoolIds {
        self.pools
    }

    fn counted(&self) -> Counted {
        Counted {
            migrated: 0,
            discarded: self.reserve.stats().guests().reclaimed_pages,
            wait_ns: None,
        }
    }
}
