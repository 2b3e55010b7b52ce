//! A kernel without tests: what it calls of the engine, in a table that stays in the image though no caller uses it.
//!
//! # How large the engine is
//! `cargo xtask kernel --suite` builds this kernel and says how many bytes its section `.text` has. Generic code is compiled
//! where it is called, so an engine is as large as what a kernel calls of it. The features say what that is:
//!
//! | feature | what |
//! |---|---|
//! | none | frames, areas, mappings of a caller's frames, objects; the platform, page tables, faults |
//! | `percpu` | objects of each CPU |
//! | `reclaim` | requests that ask clients for memory, compaction, the background |
//! | `reserve` | contiguous runs that are guaranteed, their guests and owners |
//! | `suite` | the tests, and all of these |

use crate::memory::with;
use core::hint::black_box;
use framewright::frame::{AllocError, FreeError};
use framewright::kv::{KvError, KvFreeError, KvRequest};
use framewright::vrange::{AreaRequest, RangeError, RangeFreeError};
use framewright::{Addr, Context, Frame, Mobility, Order, Page, Run};

fn alloc(order: Order, mobility: Mobility, how: Context) -> Result<Frame, AllocError> {
    with(|cpu| cpu.alloc(order, mobility, how))
}

fn free(frame: Frame, order: Order) -> Result<(), FreeError> {
    with(|cpu| cpu.free(frame, order))
}

fn alloc_run(frames: u64, align: u64, how: Context) -> Result<Run, AllocError> {
    with(|cpu| cpu.alloc_run(frames, align, Mobility::Unmovable, how))
}

fn free_run(run: Run) -> Result<(), FreeError> {
    with(|cpu| cpu.free_run(run))
}

fn vmalloc(request: &AreaRequest) -> Result<Page, RangeError> {
    with(|cpu| cpu.vmalloc(request))
}

fn vfree(page: Page) -> Result<u64, RangeFreeError> {
    with(|cpu| cpu.vfree(page))
}

fn map_ram(frames: &[Frame], how: Context) -> Result<Page, RangeError> {
    with(|cpu| cpu.map_ram(frames, how))
}

fn unmap_ram(page: Page, pages: u64) -> Result<u64, RangeFreeError> {
    with(|cpu| cpu.unmap_ram(page, pages))
}

fn kmalloc(request: &KvRequest) -> Result<Addr, KvError> {
    with(|cpu| cpu.kmalloc(request))
}

fn kvmalloc(request: &KvRequest) -> Result<Addr, KvError> {
    with(|cpu| cpu.kvmalloc(request))
}

fn kvfree(addr: Addr) -> Result<u64, KvFreeError> {
    with(|cpu| cpu.kvfree(addr))
}

fn drain() {
    with(|cpu| cpu.drain());
}

#[cfg(feature = "percpu")]
mod percpu {
    use super::*;

    pub fn alloc(bytes: u64, align: u64, how: Context) -> Result<Addr, KvError> {
        with(|cpu| cpu.alloc_percpu(bytes, align, how))
    }

    pub fn free(object: Addr) -> Result<u64, KvFreeError> {
        with(|cpu| cpu.free_percpu(object))
    }
}

#[cfg(feature = "reclaim")]
mod reclaim {
    use super::*;
    use crate::memory::{SEATS, ZoneSeat, engine};
    use framewright::reclaim::{Background, Clients};

    pub fn set_clients(clients: Clients<'static, ZoneSeat>) {
        SEATS.set_clients(clients);
    }

    pub fn background(clients: &Clients<'static, ZoneSeat>, budget: u64) -> Background {
        with(|cpu| {
            let seat = cpu.frames().seat(0);
            engine().reclaim(0).background(seat, clients, budget)
        })
    }
}

#[cfg(feature = "reserve")]
mod reserve {
    use super::*;
    use crate::arch::cpu::instructions::without_interrupts;
    use crate::memory::{BarePc, engine};
    use framewright::RunError;
    use framewright::reserve::{Key, PoolConfig, PoolId, PutRefused, Reservation, Reserve};

    fn area() -> &'static Reserve<'static, BarePc> {
        engine().reserve().expect("the layout has one")
    }

    pub fn open(config: &PoolConfig) -> Option<PoolId> {
        without_interrupts(|| area().open_pool(config))
    }

    pub fn put(key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        with(|cpu| cpu.put(key, page))
    }

    pub fn get(key: Key, page: &mut [u64; 512]) -> bool {
        with(|cpu| cpu.get(key, page))
    }

    pub fn invalidate(key: Key) {
        with(|cpu| {
            if let Some(guest) = cpu.guest() {
                guest.invalidate_page(key);
            }
        });
    }

    pub fn reserve(name: &str, frames: u64, align: u64) -> Result<Reservation, RunError> {
        without_interrupts(|| area().reserve(name, frames, align))
    }

    pub fn take(reservation: Reservation) -> Result<Run, RunError> {
        without_interrupts(|| area().take(reservation))
    }

    pub fn alloc_contig(frames: u64, align: u64) -> Result<Run, RunError> {
        with(|cpu| area().alloc_contig_with(frames, align, cpu.frames()))
    }

    pub fn release(run: Run) -> Result<(), RunError> {
        without_interrupts(|| area().release(run))
    }
}

/// Keeps all of them.
pub fn keep() {
    black_box((alloc as fn(_, _, _) -> _, free as fn(_, _) -> _));
    black_box((alloc_run as fn(_, _, _) -> _, free_run as fn(_) -> _));
    black_box((vmalloc as fn(&_) -> _, vfree as fn(_) -> _));
    black_box((map_ram as fn(&_, _) -> _, unmap_ram as fn(_, _) -> _));
    black_box((kmalloc as fn(&_) -> _, kvmalloc as fn(&_) -> _));
    black_box((kvfree as fn(_) -> _, drain as fn()));
    // The handler of faults names its instructions.
    black_box((|at| crate::arch::try_write(at)) as fn(u64) -> bool);
    #[cfg(feature = "percpu")]
    black_box((
        percpu::alloc as fn(_, _, _) -> _,
        percpu::free as fn(_) -> _,
    ));
    #[cfg(feature = "reclaim")]
    black_box((
        reclaim::set_clients as fn(_),
        reclaim::background as fn(&_, _) -> _,
    ));
    #[cfg(feature = "reserve")]
    {
        black_box((reserve::open as fn(&_) -> _, reserve::put as fn(_, &_) -> _));
        black_box((
            reserve::get as fn(_, &mut _) -> _,
            reserve::invalidate as fn(_),
        ));
        black_box((
            reserve::reserve as fn(&_, _, _) -> _,
            reserve::take as fn(_) -> _,
        ));
        black_box((
            reserve::alloc_contig as fn(_, _) -> _,
            reserve::release as fn(_) -> _,
        ));
    }
}
