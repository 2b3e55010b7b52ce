//! A zone, and a tenant that holds its memory.

mod compaction;
mod fallback;
mod model;
mod pressure;

use super::*;
use crate::pressure::{Frees, Gives};
use core::cell::{Cell, RefCell};
use framewright::Mobility::{Movable, Reclaimable, Unmovable};
use framewright::reclaim::{Ask, Migrate, Move, MoveState, Shrink, Shrunk};
use framewright::{Context, Mobility, Run};
use lists::{CMA, MOVABLE, RECLAIMABLE, RESERVE, UNMOVABLE};

pub(super) const CPU: CpuId = CpuId(0);

pub(super) fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// A tenant with movable pages. Some are a cache, which it gives back, oldest first.
#[derive(Default)]
pub(super) struct Holder310 {
    /// Pages that stay until they are freed, and those of the cache.
    pub(super) anon: RefCell<Vec<u64>>,
    pub(super) cache: RefCell<Vec<u64>>,
    pub(super) pinned: RefCell<Vec<u64>>,
    /// This many frames are given back an ask at most.
    pub(super) gives: Cell<u64>,
    /// How hot the cache is.
    pub(super) heat: Cell<u8>,
    /// The next this many pages to move are in use.
    pub(super) busy: Cell<u32>,
}

impl Holder310 {
    pub(super) fn new() -> Self {
        let holder = Self::default();
        holder.gives.set(u64::MAX);
        holder
    }

    /// Calls `f` with this holder as the only tenant.
    pub(super) fn with<R>(&self, f: impl FnOnce(&dyn Tenants) -> R) -> R {
        f(&View {
            clients: [self],
            holder: self,
        })
    }
}

impl<'f> Shrink<dyn Frees + 'f> for Holder310 {
    fn holding(&self) -> u64 {
        self.cache.borrow().len() as u64
    }

    fn heat(&self) -> u8 {
        self.heat.get()
    }

    fn shrink(&self, frames: &mut (dyn Frees + 'f), ask: &Ask) -> Shrunk {
        let mut cache = self.cache.borrow_mut();
        let scanned = ask.scan.min(cache.len() as u64);
        let freed = scanned.min(ask.wanted).min(self.gives.get());
        for frame in cache.drain(..freed as usize) {
            frames.give(CPU, Frame(frame), Order::ZERO);
        }
        Shrunk { scanned, freed }
    }
}

impl Migrate for Holder310 {
    fn migrate(&self, moves: &mut [Move]) {
        for each in moves {
            let mut lists = [self.anon.borrow_mut(), self.cache.borrow_mut()];
            let page = lists
                .iter_mut()
                .find_map(|list| list.iter_mut().find(|page| **page == each.from.0));
            let Some(page) = page else { continue };
            each.state = if self.pinned.borrow().contains(page) {
                MoveState::Pinned
            } else if self.busy.get() > 0 {
                self.busy.set(self.busy.get() - 1);
                MoveState::Busy
            } else {
                *page = each.to.0;
                MoveState::Moved
            };
        }
    }
}

struct View<'a> {
    clients: [&'a dyn Gives; 1],
    holder: &'a Holder310,
}

impl Migrate for View<'_> {
    fn migrate(&self, moves: &mut [Move]) {
        self.holder.migrate(moves);
    }
}

impl Tenants for View<'_> {
    fn shrinkers(&self) -> &[&dyn Gives] {
        &self.clients
    }
}

/// What stands in a pageblock: its type, and the frames in it that are allocated, and as what.
pub(super) type HeldBlock310<'a> = (usize, &'a [(core::ops::Range<u32>, usize)]);

/// A zone of pageblocks of 1024 frames without watermarks, as single frames are allocated in it;
/// all others are free.
pub(super) fn kernel(variant: Variant310, blocks: &[HeldBlock310<'_>]) -> Kernel310 {
    let frames = blocks.len() as u32 * 1024;
    let layout = Layout310 {
        min_free_kbytes: Some(0),
        ..Layout310::new(u64::from(frames))
    };
    let mut kernel = Kernel310::new(&layout, variant).unwrap();
    let mut zone = Zone310::new(frames, 10, kernel.cached.len() * lists::ASKED);
    for (pageblock, &(label, used)) in blocks.iter().enumerate() {
        let start = pageblock as u32 * 1024;
        zone.set_label(pageblock, label);
        let mut at = 0;
        for (range, list) in used {
            if at < range.start {
                zone.add_present(start + at, start + range.start);
            }
            for frame in range.clone() {
                zone.add_present(start + frame, start + frame + 1);
                zone.take(start + frame, 0, label);
                zone.set_tag(start + frame, Tag310::allocated(0, *list));
            }
            at = range.end;
        }
        if at < 1024 {
            zone.add_present(start + at, start + 1024);
        }
    }
    kernel.zone = zone;
    kernel.verify().unwrap();
    kernel
}

pub(super) fn request(order_: u8, mobility: Mobility) -> PressureRequest {
    PressureRequest {
        cpu: CPU,
        order: order(order_),
        mobility,
        context: Context::ANY,
    }
}

/// What a request gets where no tenant has anything to give.
pub(super) fn take(kernel: &mut Kernel310, order: u8, mobility: Mobility) -> Option<u64> {
    let frame = Holder310::new().with(|tenants| kernel.alloc(tenants, request(order, mobility)));
    kernel.verify().unwrap();
    frame.map(|frame| frame.0)
}

/// The free blocks of one list, as `(order, count)` where there are any.
pub(super) fn free_of(kernel: &Kernel310, list: usize) -> Vec<(usize, u64)> {
    let counts = kernel.free_blocks()[list];
    counts
        .into_iter()
        .enumerate()
        .filter(|&(_, count)| count > 0)
        .collect()
}
