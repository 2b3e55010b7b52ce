//! Per-CPU objects: an object has a copy for each CPU, so that a CPU writes its own and shares no line \[`mm/percpu.c`\].
//!
//! # Theory
//! A *unit* is a CPU's part of the address space, and all units are as long as each other. They lie one behind another:
//!
//! ```text
//!     address of CPU c's copy  =  address of CPU 0's  +  c * bytes of a unit
//! ```
//!
//! So an object is one address, that of CPU 0's copy, and a copy is found by one multiplication. Linux makes units in
//! chunks, as it needs them. Here they are as long as the layout says from the start: that costs address space and 88
//! bytes of metadata a page, and a word for each CPU. Frames come when a page is first used.
//!
//! A page of the units is a page in each of them, with a frame for each CPU behind it. It is in one state:
//!
//! ```text
//!     free ──▶ moving ──▶ slab ◀──▶ idle ──▶ moving ──▶ free
//!                │ ╰────▶ run, and what is behind its first page ──▶ moving
//!                ╰─▶ stuck ──▶ moving
//! ```
//!
//! A *slab* has slots of one length, with a bit for each. An object of more than half a page has a *run* of whole pages.
//! An *idle* page has its frames and no object: a few stay so, because an object that comes and goes by itself would map
//! and flush each time. A page is *moving* while a call brings its frames or takes them away, and *stuck* if the platform
//! did not unmap it, or the call must not wait for a flush: a later call takes it away.
//!
//! # Invariants
//! - **PC1** Each page is in one state. A CPU that holds the lock changes it; a moving page belongs to the call that
//!   made it so.
//! - **PC2** Behind a page of a slab, an idle one and one of a run lies a frame for each CPU, at this page of that CPU's
//!   unit. Behind a free one lies none, and no CPU has a translation of it: its frames went back after a flush that began
//!   after they were unmapped.
//! - **PC3** A slot is free, or one object's. A slab's free slots are its bits, and it is in the list of its class if and
//!   only if it has one. Each idle page is in the list of those, each stuck page in theirs.
//! - **PC4** The set of free pages has exactly the free ones.
//! - **PC5** An object is handed out with zeroes in each copy, in all the bytes that it has room for.
//! - **PC6** A call that fails has changed nothing, but for pages that are idle or stuck now. It has taken all frames
//!   before it maps the first: one that lacks frames leaves no page stuck.
//!
//! If the platform unwinds out of a call, the pages that the call moves stay moving, with the frames behind them, and an
//! object that it is zeroing stays allocated: they are lost, and no other call gets them.
//!
//! # Locks
//! One, over states, lists and bits. A CPU holds it for a bounded number of steps: 128 pages change their states, or the
//! first free page is found. Pages side by side are searched for without the lock, and taken under it if they are still
//! free. Neither the platform nor the source of frames is called under it. It
//! is no hot path: Linux takes a lock here, too.

mod class;
mod pages;
mod request;
mod search;
mod table;
mod verify;

use crate::frame::FrameSource;
use crate::platform::ObjectPlatform;
use crate::raw::Carver;
use crate::stats::{Broken, PerCpuStats};
use crate::units::Page;
use pages::UnitPages;
use table::UnitTable;

/// The per-CPU objects of all CPUs, in units in the address space.
#[derive(Debug)]
pub(crate) struct PerCpuUnits<'m, P> {
    pages: UnitPages<'m, P>,
}

/// The units of an engine: where they lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnitsLayout {
    /// The first page of CPU 0's unit.
    pub(crate) start: Page,
    /// The pages of each unit.
    pub(crate) pages: u64,
    pub(crate) cpus: u16,
}

impl UnitsLayout {
    /// The most pages of a unit: 4 GiB.
    pub(crate) const PAGES_MAX: u64 = 1 << 20;

    /// How many words of metadata they need.
    pub(crate) const fn words_needed(&self) -> usize {
        Carver::words_needed(UnitTable::words(self.pages as usize, self.cpus as usize))
    }
}

impl<'m, P: ObjectPlatform> PerCpuUnits<'m, P> {
    /// No object yet, in as many words as the layout needs.
    pub(crate) fn new(layout: &UnitsLayout, memory: &'m mut [u64], platform: P) -> Self {
        let mut carver = Carver::of(memory).at_a_line();
        Self {
            pages: UnitPages {
                table: UnitTable::new(layout.pages as usize, layout.cpus.into(), &mut carver),
                platform,
                start: layout.start,
                cpus: layout.cpus,
            },
        }
    }

    /// The bytes of a unit: how far apart two neighbouring CPUs' copies of an object lie.
    pub(crate) const fn unit_bytes(&self) -> u64 {
        self.pages.unit_bytes()
    }

    /// The most frames that an object of `bytes` bytes may need.
    pub(crate) const fn frames_for(&self, bytes: u64) -> u64 {
        bytes
            .div_ceil(Page::BYTES)
            .saturating_mul(self.pages.cpus as u64)
    }

    /// How many CPUs have a unit.
    pub(crate) const fn cpus(&self) -> u16 {
        self.pages.cpus
    }

    /// Gives the frames of all idle pages back, and tries once more with those that the platform did not unmap.
    pub(crate) fn purge(&self, frames: &mut impl FrameSource) {
        self.pages.purge(frames);
    }

    /// Checks the invariants, under the lock: for tests. O(pages of a unit).
    ///
    /// # Errors
    /// The first invariant that does not hold, with a page's number in the unit.
    pub(crate) fn verify(&self) -> Result<(), Broken> {
        self.pages.table.lock(&self.pages.platform).verify()
    }

    /// Counts a request that failed.
    pub(crate) fn count_failure(&self) {
        self.pages.table.lock(&self.pages.platform).count_failure();
    }

    /// What has been counted since they were made, of one moment.
    pub(crate) fn stats(&self) -> PerCpuStats {
        self.pages.table.lock(&self.pages.platform).stats()
    }
}
