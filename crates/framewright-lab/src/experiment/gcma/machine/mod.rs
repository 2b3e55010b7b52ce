//! A machine for one variant: frames, their users, the area, and the swap device.
//!
//! ```text
//!   original, cma   zone of all frames, the area among them, lent to movable memory
//!   gcma, ...       zone of all frames but the area's, and the area with its guests
//!
//!   FileCache ──▶ cleancache ──▶ the area        Paged ──▶ Frontswap ──▶ the area, and the swap device
//! ```
//!
//! The area of each variant is behind one way in (`area.rs`), so that what measures does not know whose it is; files and
//! swap lie on one storage (`storage.rs`), which may be an emulated [`card`]; guests without a job are here because they
//! use nothing but a machine.

mod area;
pub mod card;
pub(super) mod guest;
mod storage;
mod waiting;

pub(super) use area::{GcmaArea, OwnerCounts};
pub(super) use storage::Storage;

use super::super::Failure;
use super::plan::GcmaPlan;
use super::{GcmaOptions, GcmaVariant, SwapSafety};
use crate::printable;
use area::{FrameSeat, MovingArea, PoolIds, places, with_area};
use framewright::frame::{FrameSource, Zone, ZoneLayout};
use framewright::policy::{ContigConfig, ReclaimConfig};
use framewright::reclaim::{Background, Clients, Migrate, Reclaim, Shrink};
use framewright::reserve::{Contiguous, MigrateArea};
use framewright::{Context, CpuId, Frame, Mobility, Order, Run};
use framewright_linux::file_cache::{FileCache, FileOptions};
use framewright_linux::paged::Paged;
use framewright_linux::swap::{Frontswap, SwapDevice, SwapPolicy};
use framewright_linux::tenancy::{Reclaiming, Tenancy};
use framewright_linux::{Host, Linux};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use storage::ZramInFrames;
use waiting::{Synchronous, Waited};

/// Looks of one step of the background.
const BUDGET: u64 = 1024;

/// As Linux 3.17 reclaims: for free frames, and not for whole pageblocks. The same for all variants.
fn reclaim_config() -> ReclaimConfig {
    ReclaimConfig {
        pageblocks_percent: 0,
        boost_percent: 0,
        ..ReclaimConfig::default()
    }
}

/// Files that are dirty at a time, each of which keeps a file descriptor; the background begins to write at half.
const DIRTY_FILES_MAX: usize = 512;

/// How long the background sleeps before it looks whether it is wanted.
const NAP: Duration = Duration::from_millis(2);

/// A machine.
pub(super) struct GcmaMachine<'a> {
    pub(super) host: &'a Host,
    pub(super) reclaim: &'a Reclaim<'a, 'a, Linux>,
    pub(super) files: &'a FileCache<'a>,
    pub(super) paged: &'a Paged<'a>,
    pub(super) device: &'a dyn SwapDevice,
    pub(super) storage: &'a Storage,
    pub(super) area: &'a dyn GcmaArea,
    held_frames: u64,
}

impl<'a> GcmaMachine<'a> {
    /// Runs `work` with the clients that reclaim and compaction ask for frames.
    pub(super) fn with_clients<R>(&self, work: impl FnOnce(Clients<'_, FrameSeat<'a>>) -> R) -> R {
        let users: [&dyn Shrink<FrameSeat<'a>>; 2] = [self.files, self.paged];
        let shrink: Vec<_> = users.into_iter().chain(self.area.spare()).collect();
        let migrate: [&dyn Migrate; 2] = [self.files, self.paged];
        work(Clients {
            shrink: &shrink,
            migrate: &migrate,
        })
    }

    /// Runs `work` with frames for the calling thread, which takes a seat.
    pub(super) fn with_supply<R>(
        &self,
        work: impl FnOnce(&mut dyn FrameSource) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        self.with_clients(|clients| self.with_supply_of(clients, work))
    }

    fn with_supply_of<R>(
        &self,
        clients: Clients<'_, FrameSeat<'a>>,
        work: impl FnOnce(&mut dyn FrameSource) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let mut seat = self.reclaim.seat(self.host.seat().map_err(Failure::new)?);
        let mut supply = Reclaiming {
            seat: &mut seat,
            clients,
            context: Context::ANY,
        };
        work(&mut supply)
    }

    /// Runs `work` with an owner's way in. Frames that an owner needs besides may be reclaimed: then it waits, as one
    /// that moves pages does for their room.
    pub(super) fn with_owner(
        &self,
        work: &mut dyn FnMut(&mut dyn Contiguous) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Some(waits) = self.area.supply_waits() else {
            return self.area.with_owner(None, work);
        };
        self.with_clients(|clients| {
            let charged: Vec<_> = clients
                .shrink
                .iter()
                .map(|client| Synchronous::new(*client, waits))
                .collect();
            let shrink: Vec<&dyn Shrink<FrameSeat<'a>>> =
                charged.iter().map(|client| client as _).collect();
            let clients = Clients {
                shrink: &shrink,
                ..clients
            };
            self.with_supply_of(clients, |supply| self.area.with_owner(Some(supply), work))
        })
    }

    /// What Linux has flushers for: writes files behind those that write into them, until it is stopped.
    pub(super) fn write_behind(&self, stop: &AtomicBool) {
        let dirty_max = (self.host.zone().present_frames() - self.held_frames) / 10;
        while !stop.load(Relaxed) {
            if !self.files.write_behind(dirty_max, DIRTY_FILES_MAX / 2) {
                std::thread::sleep(NAP);
            }
        }
    }

    /// What Linux has kswapd for, until it is stopped.
    pub(super) fn background(&self, stop: &AtomicBool) -> Result<(), Failure> {
        let mut seat = self.host.seat().map_err(Failure::new)?;
        self.with_clients(|clients| {
            while !stop.load(Relaxed) {
                match self.reclaim.background(&mut seat, &clients, BUDGET) {
                    Background::Works => {}
                    Background::Naps => std::thread::sleep(NAP),
                    Background::Sleeps => {
                        while !self.reclaim.is_wanted() && !stop.load(Relaxed) {
                            std::thread::sleep(NAP);
                        }
                    }
                }
            }
        });
        Ok(())
    }
}

/// What a variant's guests are kept by.
type SwapFront<'a> = Option<(&'a dyn Tenancy, PoolIds, SwapPolicy)>;

/// Runs `work` on a fresh machine of that variant, whose swap device lies in `folder`.
pub(super) fn with_machine<R>(
    variant: GcmaVariant,
    plan: &GcmaPlan,
    options: &GcmaOptions,
    folder: &Path,
    work: impl FnOnce(&GcmaMachine<'_>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let storage = &Storage::new(options.device);
    let frames = plan.zone_frames(variant);
    let layout = ZoneLayout::new(Frame(0), frames).with_cpus(plan.seats);
    let host = Host::new(&framewright_linux::Options::new(layout)).map_err(Failure::new)?;
    let device: Box<dyn SwapDevice + '_> = match variant {
        GcmaVariant::GcmaZram => {
            let seat = host.zone().seat(CpuId(plan.seats - 1));
            let seat = seat.map_err(Failure::new)?;
            Box::new(ZramInFrames::new(plan.swap_slots, seat))
        }
        _ => {
            let path = folder.join("swap");
            let file = storage.swap_file(&path, plan.swap_slots);
            file.map_err(|e| {
                Failure::new(format!("{}: no swap file: {e}", printable::path(&path)))
            })?
        }
    };
    let device = &*device;
    let mut words = vec![0; Reclaim::words_needed(host.zone())];
    let reclaim = Reclaim::new(host.zone(), &reclaim_config(), &mut words);
    let reclaim = reclaim.map_err(Failure::new)?;
    if variant.is_moving() {
        let run = Run::new(Frame(frames - plan.reserve_frames), plan.reserve_frames)
            .ok_or_else(|| Failure::new("more frames than there are numbers"))?;
        let mut words = vec![0; MigrateArea::<Linux>::words_needed(run)];
        let area = MigrateArea::new(&reclaim, run, &ContigConfig::LINUX, &mut words);
        let area = area.map_err(Failure::new)?;
        hold_back(host.zone(), plan)?;
        return with_users(&host, device, None, plan, |files, paged| {
            let moving = MovingArea {
                area: &area,
                host: &host,
                files,
                paged,
                waited: Waited::default(),
                places: places(plan, variant, options.policy, |name, frames, align| {
                    area.reserve(name, frames, align)
                })?,
            };
            work(&GcmaMachine {
                host: &host,
                reclaim: &reclaim,
                files,
                paged,
                device,
                storage,
                area: &moving,
                held_frames: plan.held_frames,
            })
        });
    }
    hold_back(host.zone(), plan)?;
    with_area(variant, plan, options.policy, &host, |area| {
        let dirty_max = plan.dirty_max(options.policy);
        let policy = match (variant, options.policy) {
            (GcmaVariant::Framewright, SwapSafety::WriteBack) => {
                SwapPolicy::WriteBack { dirty_max }
            }
            (GcmaVariant::Framewright, SwapSafety::PutBack) => SwapPolicy::PutBack { dirty_max },
            _ => SwapPolicy::WriteThrough,
        };
        let front = area
            .guests()
            .map(|(tenancy, pools)| (tenancy, pools, policy));
        with_users(&host, device, front, plan, |files, paged| {
            work(&GcmaMachine {
                host: &host,
                reclaim: &reclaim,
                files,
                paged,
                device,
                storage,
                area,
                held_frames: plan.held_frames,
            })
        })
    })
}

/// Runs `work` with a file cache and paged memory.
fn with_users<'a, R>(
    host: &'a Host,
    device: &'a dyn SwapDevice,
    front: SwapFront<'a>,
    plan: &GcmaPlan,
    work: impl FnOnce(&FileCache<'a>, &Paged<'a>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let mut swap = Frontswap::new(device, plan.paged_pages);
    if let Some((tenancy, pools, policy)) = front {
        swap = swap.with_store(tenancy, pools.swap, 0, policy);
    }
    // As many as there are: reclaim says which.
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, plan.paged_pages);
    let paged = paged.map_err(Failure::new)?;
    let cleancache = front.map(|(tenancy, pools, _)| (tenancy, pools.clean));
    // As Linux: a thread that writes waits when a fifth of what is not held is dirty.
    let dirty_max = (host.zone().present_frames() - plan.held_frames) / 5;
    let options = FileOptions {
        dirty_max,
        dirty_files_max: DIRTY_FILES_MAX,
        ..FileOptions::default()
    };
    let files = FileCache::new(Arc::clone(host.ram_shared()), cleancache, options);
    work(&files, &paged)
}

/// Takes the kernel's frames, which no variant can move.
fn hold_back(zone: &Zone<'_, Linux>, plan: &GcmaPlan) -> Result<(), Failure> {
    let mut seat = zone.seat(framewright::CpuId(0)).map_err(Failure::new)?;
    for _ in 0..plan.held_frames {
        seat.alloc(Order::ZERO, Mobility::Unmovable)
            .map_err(Failure::new)?;
    }
    Ok(())
}
