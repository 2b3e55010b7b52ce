//! The variants, and work that is done with the allocator of each.

use super::plan::{cpus_bound, window};
use crate::before::vmalloc::{AreaSet, BusyAreas, FreeAreas, VmallocList};
use crate::experiment::ranges::{
    HostedList, Null, NumberFrames, RangeEngine, with_host, with_space,
};
use crate::experiment::{
    Allocator, BEFORE, FRAMEWRIGHT, FRAMEWRIGHT_KEPT, Failure, Mapper, PROPOSED,
};
use framewright::PageRange;
use framewright::policy::RangeConfig;
use framewright::vrange::SpaceLayout;

/// The engine's tree of gaps alone.
pub(super) const TREE: &str = "tree";

/// Linux's own allocator of today, in a process of its own.
pub(super) const LINUX: &str = "linux-6.12";

/// A variant that runs in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FitVariant {
    /// A list of busy areas, walked.
    Before,
    /// A list of free areas, first fit.
    Proposed,
    /// The engine without spans: a tree of gaps under one lock.
    Tree,
    /// The engine by default: each free unmaps before it returns.
    Framewright,
    /// The engine, which keeps freed areas mapped and unmaps others later.
    Kept,
}

/// A piece of work that is done with the allocator of a variant.
pub(super) trait VariantWork {
    type Out;

    fn with<A: Allocator>(self, variant: &'static str, allocator: &A)
    -> Result<Self::Out, Failure>;
}

impl FitVariant {
    const NULL: [Self; 4] = [Self::Before, Self::Proposed, Self::Tree, Self::Framewright];
    const HOST: [Self; 5] = [
        Self::Before,
        Self::Proposed,
        Self::Tree,
        Self::Framewright,
        Self::Kept,
    ];

    /// Those that there are with a mapper.
    pub(super) const fn all(mapper: Mapper) -> &'static [Self] {
        match mapper {
            Mapper::Null => &Self::NULL,
            Mapper::Host => &Self::HOST,
        }
    }

    /// The name in figures.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Before => BEFORE,
            Self::Proposed => PROPOSED,
            Self::Tree => TREE,
            Self::Framewright => FRAMEWRIGHT,
            Self::Kept => FRAMEWRIGHT_KEPT,
        }
    }

    /// Whether it is a list, which has no vmap blocks.
    pub(super) const fn is_list(self) -> bool {
        matches!(self, Self::Before | Self::Proposed)
    }

    /// How the engine is configured for it.
    pub(super) fn config(self, cpus: u16) -> RangeConfig {
        RangeConfig {
            spans: self != Self::Tree,
            strict: self != Self::Kept,
            ..RangeConfig::for_cpus(cpus)
        }
    }

    /// `work` with its allocator in a fresh window of the usual length.
    pub(super) fn run<W: VariantWork>(
        self,
        mapper: Mapper,
        cpus: u16,
        work: W,
    ) -> Result<W::Out, Failure> {
        match mapper {
            Mapper::Null => self.run_null(window(), cpus, None, work),
            Mapper::Host => with_host(cpus, |host| match self {
                Self::Before => work.with(self.name(), &HostedList::<BusyAreas>::new(host, cpus)),
                Self::Proposed => work.with(self.name(), &HostedList::<FreeAreas>::new(host, cpus)),
                _ => {
                    let layout = host.platform.layout(cpus);
                    let config = self.config(cpus);
                    with_space(&layout, &config, host.platform, |space| {
                        let engine = RangeEngine::<_, _, true> {
                            space,
                            frames: host,
                        };
                        work.with(self.name(), &engine)
                    })
                }
            }),
        }
    }

    /// `work` with its allocator in a fresh `window` in which nothing is mapped, with another bound on lazy pages if
    /// one is given.
    pub(super) fn run_null<W: VariantWork>(
        self,
        window: PageRange,
        cpus: u16,
        lazy_pages_max: Option<u64>,
        work: W,
    ) -> Result<W::Out, Failure> {
        let bound = lazy_pages_max.unwrap_or(cpus_bound(cpus));
        match self {
            Self::Before => {
                let list: VmallocList<BusyAreas, _> = list(window, cpus, bound)?;
                work.with(self.name(), &list)
            }
            Self::Proposed => {
                let list: VmallocList<FreeAreas, _> = list(window, cpus, bound)?;
                work.with(self.name(), &list)
            }
            _ => {
                let layout = SpaceLayout::new(window.start(), window.pages()).with_cpus(cpus);
                let config = RangeConfig {
                    lazy_pages_max: bound,
                    ..self.config(cpus)
                };
                with_space(&layout, &config, Null::new()?, |space| {
                    let engine = RangeEngine::<_, _, false> {
                        space,
                        frames: &NumberFrames,
                    };
                    work.with(self.name(), &engine)
                })
            }
        }
    }
}

fn list<A: AreaSet>(
    window: PageRange,
    cpus: u16,
    lazy_pages_max: u64,
) -> Result<VmallocList<A, Null>, Failure> {
    let list = VmallocList::new(window, cpus, Null::new()?);
    Ok(list.with_lazy_pages_max(lazy_pages_max))
}
