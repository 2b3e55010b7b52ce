//! Frames set aside for requests that must not fail, such as a driver's 4 MiB, and lent to guests until then.
//!
//! OSTD's requests have a size and nothing else, so the size decides: a request that finds no block takes the smallest
//! reservation that is not taken and of which it needs more than half. As long as one stands, such a request does not
//! fail.
//!
//! Until then guests keep copies of pages there ([`put`], [`get`]): what a page cache evicts and may want again. A
//! request takes the frames without asking them, and their pages are gone. Movable or reclaimable contents cannot be
//! guests here: OSTD's trait knows neither.

use crate::boot;
use crate::platform::Ostd;
use core::cell::RefCell;
use core::fmt;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use framewright::frame::Zone;
use framewright::reserve::{Guest, Key, PoolConfig, PoolId, Reservation, Reserve, ReserveLayout};
use framewright::{Frame, Mobility, Run};
use ostd::cpu::num_cpus;
use ostd::irq;
use ostd::mm::PAGE_SIZE;
use spin::Once;

/// How many reservations there may be.
const MOST: usize = 16;

static ASIDE: Once<Aside> = Once::new();
static IS_ASKED: AtomicBool = AtomicBool::new(false);
/// Where the frames lie, for a look that is cheap; 0 frames as long as there are none.
static START: AtomicU64 = AtomicU64::new(0);
static FRAMES: AtomicU64 = AtomicU64::new(0);

ostd::cpu_local! {
    static GUEST: RefCell<Option<Guest<'static, 'static, Ostd>>> = RefCell::new(None);
}

struct Aside {
    reserve: Reserve<'static, Ostd>,
    /// By size, the smallest first.
    slots: [Option<AsideSlot>; MOST],
    pool: PoolId,
}

struct AsideSlot {
    reservation: Reservation,
    run: Run,
    /// How many frames the request that has it has not freed yet; 0 if it is lent.
    left: AtomicU64,
}

/// Why nothing was set aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AsideError {
    /// It was done before, or there is no memory yet.
    NotNow,
    /// There are none, or more than sixteen, or one is empty.
    Sizes,
    /// There are no such runs.
    NoMemory,
}

impl fmt::Display for AsideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotNow => "frames are set aside once, when there is memory",
            Self::Sizes => "expected 1 to 16 sizes, none of them 0",
            Self::NoMemory => "there are no such runs of frames",
        })
    }
}

/// Sets runs aside, each of this many pages, rounded up to a power of two and aligned to that. Once, early: the kernel
/// gets these frames only by requests of their sizes.
///
/// # Errors
/// Why not. Nothing has changed then.
pub fn set_aside(pages: &[usize]) -> Result<(), AsideError> {
    if pages.is_empty() || pages.len() > MOST || pages.contains(&0) {
        return Err(AsideError::Sizes);
    }
    let mut sizes = [0u64; MOST];
    for (size, pages) in sizes.iter_mut().zip(pages) {
        *size = pages.checked_next_power_of_two().ok_or(AsideError::Sizes)? as u64;
    }
    sizes.sort_unstable();
    // It stops all CPUs.
    let _guard = irq::disable_local();
    let engine = boot::engine().ok_or(AsideError::NotNow)?;
    if IS_ASKED.swap(true, AcqRel) {
        return Err(AsideError::NotNow);
    }
    let aside = Aside::new(crate::zone(engine), &sizes);
    let aside = aside.inspect_err(|_| IS_ASKED.store(false, Release))?;
    let run = aside.reserve.run();
    ASIDE.call_once(|| aside);
    START.store(run.start().0, Relaxed);
    FRAMES.store(run.frames(), Release);
    Ok(())
}

impl Aside {
    fn new(zone: &Zone<'static, Ostd>, sizes: &[u64; MOST]) -> Result<Self, AsideError> {
        let alloc = |frames, align| {
            let run = zone.alloc_contiguous(frames, align, Mobility::Unmovable);
            run.map_err(|_| AsideError::NoMemory)
        };
        let run = alloc(sizes.iter().sum(), sizes[MOST - 1])?;
        let layout = ReserveLayout::new(run).with_cpus(num_cpus() as u16);
        let words = layout.words_needed().map_err(|_| AsideError::Sizes);
        let metadata = words.and_then(|words| alloc((words as u64 * 8).div_ceil(Frame::BYTES), 1));
        let metadata = metadata.inspect_err(|_| crate::free_run(run))?;
        let words = boot::words_in(metadata).expect("OSTD knows of no user of these frames");
        let reserve = Reserve::new(&layout, words, Ostd).expect("the layout was possible above");
        let pool = reserve.open_pool(&PoolConfig::CLEAN);
        let pool = pool.expect("it is the first pool");
        let mut slots = [const { None }; MOST];
        // The largest first, so that all fit.
        for (slot, &frames) in slots.iter_mut().zip(sizes).rev() {
            if frames > 0 {
                let reservation = reserve.reserve("ostd", frames, frames);
                let reservation = reservation.expect("the run is as long as all of them");
                let run = reserve.run_of(reservation).expect("it was made just now");
                let left = AtomicU64::new(0);
                *slot = Some(AsideSlot {
                    reservation,
                    run,
                    left,
                });
            }
        }
        Ok(Self {
            reserve,
            slots,
            pool,
        })
    }
}

/// Whether a frame is set aside.
pub(crate) fn has(frame: Frame) -> bool {
    frame.0.wrapping_sub(START.load(Relaxed)) < FRAMES.load(Relaxed)
}

/// Takes a reservation for a request, if one stands.
#[cold]
pub(crate) fn take(frames: u64, align: u64) -> Option<Frame> {
    let aside = ASIDE.get()?;
    aside.slots.iter().flatten().find_map(|slot| {
        let all = slot.run.frames();
        if !(all / 2 + 1..=all).contains(&frames) || align > all {
            return None;
        }
        let run = aside.reserve.take(slot.reservation).ok()?;
        slot.left.store(frames, Release);
        Some(run.start())
    })
}

/// Frames that OSTD frees: an owner's, or a guest's after its copy.
pub(crate) fn come_back(run: Run) {
    let Some(aside) = ASIDE.get() else {
        return;
    };
    let mut slots = aside.slots.iter().flatten();
    let Some(slot) = slots.find(|slot| slot.run.contains(run.start())) else {
        return;
    };
    // A guest's copy ends before an owner takes the frames, and begins after they are back.
    if slot.left.load(Acquire) > 0 && slot.left.fetch_sub(run.frames(), AcqRel) == run.frames() {
        let released = aside.reserve.release(slot.run);
        debug_assert!(released.is_ok(), "it was taken as a whole");
    }
}

/// Works with the calling CPU's seat for guests.
fn as_guest<T>(work: impl FnOnce(&mut Guest<'static, 'static, Ostd>, PoolId) -> T) -> Option<T> {
    let aside = ASIDE.get()?;
    let guard = irq::disable_local();
    let cell = GUEST.get_with(&guard);
    let mut cell = cell.borrow_mut();
    if cell.is_none() {
        *cell = aside.reserve.guest(crate::current(&guard));
    }
    cell.as_mut().map(|guest| work(guest, aside.pool))
}

/// Keeps a copy of a page, such as page `index` of file `object`, until a `get` or until a request takes the frame.
/// False if there is no room. A page that is put again takes the place of the earlier one.
pub fn put(object: u64, index: u64, page: &[u64; PAGE_SIZE / 8]) -> bool {
    let put = |guest: &mut Guest<'_, '_, Ostd>, pool| {
        let key = Key {
            pool,
            object,
            index,
        };
        guest.put(key, page).is_ok()
    };
    as_guest(put) == Some(true)
}

/// Gets the copy back, which is gone then. False if it is not there.
pub fn get(object: u64, index: u64, page: &mut [u64; PAGE_SIZE / 8]) -> bool {
    let get = |guest: &mut Guest<'_, '_, Ostd>, pool| {
        guest.get(
            Key {
                pool,
                object,
                index,
            },
            page,
        )
    };
    as_guest(get) == Some(true)
}
