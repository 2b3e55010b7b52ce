//! The synthetic phone: tenants that hold memory, and sources that ask for it.
//!
//! ```text
//!   events by virtual time ──▶ Life ──alloc, free──▶ a Kernel ──shrink, migrate──▶ Tenants
//!   (sessions, applications,    │                                                    │
//!    readers, threads, slabs,   └────────────── the Store: frame → its holder ───────┘
//!    buffers)                                   Cache, Slabs, Killer
//! ```
//!
//! # Rules
//! - **Q1** What is asked for, and when, depends on parameters and seed, never on the kernel: each source
//!   has random numbers of its own. Only what a kernel had evicted or killed is asked for again.
//! - **Q2** Integers only; events at the same time in the order in which they were made.
//! - **Q3** Frames held and frames free are together those that are present, less what a kernel's CPUs
//!   keep.
//!
//! Between slices of work the background has the time that has passed: a burst outruns it.

mod cache;
mod killer;
mod life;
mod processes;
mod queue;
mod slab;
mod sources;
mod store;

pub(super) use life::{Lived, PhoneLife};

use super::params::Params;
use crate::pressure::{Frees, Gives, Tenants};
use cache::PhoneCache;
use framewright::reclaim::{Ask, Migrate, Move, MoveState, Shrink, Shrunk};
use framewright::{CpuId, Frame, Order};
use killer::PhoneKiller;
use slab::Slabs;
use std::cell::RefCell;
use store::PhoneStore;

/// What the tenants hold. The phone and its shrinkers borrow it for a moment, and never while they call
/// a kernel that may call a shrinker: that would borrow it a second time.
struct PhoneHeld {
    store: PhoneStore,
    cache: PhoneCache,
    slabs: Slabs,
}

/// The phone's tenants, as a kernel sees them.
pub(super) struct Phone {
    held: RefCell<PhoneHeld>,
    killer: PhoneKiller,
}

impl Phone {
    /// A phone that holds nothing; its files have this many pages.
    fn new(params: &Params, file_pages: u64) -> Self {
        let mut store = PhoneStore::new(&params.machine);
        let cache = PhoneCache::new(&mut store, file_pages);
        let slabs = Slabs::new(&mut store);
        Self {
            held: RefCell::new(PhoneHeld {
                store,
                cache,
                slabs,
            }),
            killer: PhoneKiller::new(&params.killer, params.machine.present()),
        }
    }
}

/// The CPU that frees what a shrinker gives: a kernel does not tell a shrinker on which CPU it runs.
const CPU: CpuId = CpuId(0);

/// The three shrinkers, in the order in which they are asked.
struct FileShrinker<'p>(&'p Phone);
struct ObjectShrinker<'p>(&'p Phone);
struct ProcessShrinker<'p>(&'p Phone);

impl<'f> Shrink<dyn Frees + 'f> for FileShrinker<'_> {
    fn holding(&self) -> u64 {
        PhoneCache::holding(&self.0.held.borrow().store)
    }

    fn heat(&self) -> u8 {
        cache::HEAT
    }

    fn shrink(&self, frames: &mut (dyn Frees + 'f), ask: &Ask) -> Shrunk {
        let held = &mut *self.0.held.borrow_mut();
        held.cache.shrink(&mut held.store, ask, |frame| {
            frames.give(CPU, Frame(u64::from(frame)), Order::ZERO);
        })
    }
}

impl<'f> Shrink<dyn Frees + 'f> for ObjectShrinker<'_> {
    fn holding(&self) -> u64 {
        let held = self.0.held.borrow();
        held.slabs.holding(&held.store)
    }

    fn heat(&self) -> u8 {
        slab::HEAT
    }

    fn shrink(&self, frames: &mut (dyn Frees + 'f), ask: &Ask) -> Shrunk {
        let held = &mut *self.0.held.borrow_mut();
        held.slabs.shrink(&mut held.store, ask, |frame, order| {
            // What is in the store was asked for with an order that exists.
            if let Some(order) = Order::new(order) {
                frames.give(CPU, Frame(u64::from(frame)), order);
            }
        })
    }
}

impl<'f> Shrink<dyn Frees + 'f> for ProcessShrinker<'_> {
    fn holding(&self) -> u64 {
        self.0.killer.holding(&self.0.held.borrow().store)
    }

    fn heat(&self) -> u8 {
        killer::HEAT
    }

    fn shrink(&self, _: &mut (dyn Frees + 'f), _: &Ask) -> Shrunk {
        self.0.killer.shrink(&self.0.held.borrow().store)
    }
}

/// The phone's shrinkers, which borrow from it.
struct Shrinkers<'p> {
    files: FileShrinker<'p>,
    objects: ObjectShrinker<'p>,
    processes: ProcessShrinker<'p>,
}

impl<'p> Shrinkers<'p> {
    const fn of(phone: &'p Phone) -> Self {
        Self {
            files: FileShrinker(phone),
            objects: ObjectShrinker(phone),
            processes: ProcessShrinker(phone),
        }
    }
}

/// What a kernel is handed.
struct Holders<'p> {
    phone: &'p Phone,
    shrinkers: [&'p dyn Gives; 3],
}

impl Tenants for Holders<'_> {
    fn shrinkers(&self) -> &[&dyn Gives] {
        &self.shrinkers
    }
}

impl Migrate for Holders<'_> {
    fn migrate(&self, moves: &mut [Move]) {
        let held = &mut *self.phone.held.borrow_mut();
        for one in moves {
            one.state = held.moved(one);
        }
    }
}

impl PhoneHeld {
    fn moved(&mut self, one: &Move) -> MoveState {
        let (Ok(from), Ok(to)) = (u32::try_from(one.from.0), u32::try_from(one.to.0)) else {
            return MoveState::Unknown;
        };
        let store = &mut self.store;
        let kind = store.kind(from);
        if kind == store::BlockKind::Nothing || store.order(from) != one.order.get() {
            return MoveState::Unknown;
        }
        if !kind.is_movable() || store.is_pinned(from) {
            return MoveState::Pinned;
        }
        if kind == store::BlockKind::File {
            self.cache.relocated(store.owner(from), to);
        }
        store.relocate(from, to);
        MoveState::Moved
    }
}
