//! From regions of memory to the engine.

use crate::{Ostd, OstdEngine};
use core::mem::MaybeUninit;
use framewright::engine::EngineLayout;
use framewright::policy::{Config, Fallback};
use framewright::{Frame, Order, Run};
use ostd::cpu::num_cpus;
use ostd::mm::io::util::HasVmReaderWriter;
use ostd::mm::{PAGE_SIZE, Paddr, Segment};
use ostd::sync::{LocalIrqDisabled, SpinLock};
use spin::Once;

pub(crate) static ENGINE: Once<OstdEngine> = Once::new();

/// What was added while there was no engine.
static EARLY: SpinLock<EarlyRuns, LocalIrqDisabled> = SpinLock::new(EarlyRuns {
    runs: [None; EARLY_MAX],
});

const EARLY_MAX: usize = 64;

/// The span begins at a multiple of this many frames, 1 GiB: what OSTD took before there was an allocator lies below what
/// it adds, and comes back. A frame of the span that is not there costs about three bytes.
const SPAN_ALIGN: u64 = 1 << 18;

/// Frames of the largest block that drivers often ask for.
const LARGE: u64 = 1024;

/// Caches may hold four times as much as by default, up to 2 % of what is free: a virtual machine may be small, and a
/// request for a long run drains them before it fails.
const CONFIG: Config = Config {
    fallback: Fallback::Concentrated,
    cache_permille: 20,
    cache_blocks_max: 64,
    stop_order_max: Order::new(3).unwrap(),
};

struct EarlyRuns {
    runs: [Option<Run>; EARLY_MAX],
}

/// The frames of a region.
pub(crate) fn run(at: Paddr, size: usize) -> Option<Run> {
    Run::new(Frame::from_addr(at as u64), (size / PAGE_SIZE) as u64)
}

/// Adds memory. False if it cannot be had: see [`OstdStats::refused`](crate::OstdStats::refused).
pub(crate) fn add(run: Run) -> bool {
    if let Some(engine) = ENGINE.get() {
        return engine.add(run).is_ok();
    }
    let mut early = EARLY.lock();
    let room = early.runs.iter_mut().find(|run| run.is_none());
    room.map(|room| *room = Some(run)).is_some()
}

/// The engine. The first call makes it, over what was added so far.
pub(crate) fn engine() -> Option<&'static OstdEngine> {
    if let Some(engine) = ENGINE.get() {
        return Some(engine);
    }
    let early = EARLY.lock().runs;
    if early.iter().all(Option::is_none) {
        return None;
    }
    // OSTD asks for the first frame on its first CPU, alone.
    Some(ENGINE.call_once(|| make(&early).expect("memory has room for the metadata")))
}

/// The engine, with its metadata in the end of that region which loses the fewest blocks of 4 MiB by it.
fn make(early: &[Option<Run>]) -> Option<OstdEngine> {
    let runs = || early.iter().flatten();
    let start = runs().map(|run| run.start().0).min()? / SPAN_ALIGN * SPAN_ALIGN;
    let end = runs().map(|run| run.end().0).max()?;
    let layout = EngineLayout::new(Frame(start), end - start)
        .with_cpus(num_cpus() as u16)
        .with_config(CONFIG);
    let words = layout.words_needed().ok()?;
    let taken = (words as u64 * 8).div_ceil(Frame::BYTES);
    let fits = runs().filter(|run| run.frames() > taken);
    let home = fits.min_by_key(|run| run.end().0 / LARGE - (run.end().0 - taken) / LARGE)?;
    let left = home.frames().checked_sub(taken)?;
    let metadata = words_in(Run::new(Frame(home.start().0 + left), taken)?)?;
    let engine = OstdEngine::in_zeroed(&layout, metadata, Ostd).ok()?;
    for run in runs() {
        let frames = if run == home { left } else { run.frames() };
        engine.add(Run::new(run.start(), frames)?).ok()?;
    }
    Some(engine)
}

/// The words in these frames, zeroes, which OSTD gives to no caller from now on.
#[expect(
    unsafe_code,
    reason = "OSTD gives out no address of a frame but for a handle that lives as long"
)]
pub(crate) fn words_in(run: Run) -> Option<&'static mut [u64]> {
    let bytes = run.frames() as usize * PAGE_SIZE;
    let place = crate::addr(run.start());
    let segment = Segment::<()>::from_unused(place..place + bytes, |_| ()).ok()?;
    let first = segment.writer().cursor().cast::<MaybeUninit<u64>>();
    core::mem::forget(segment);
    // SAFETY: OSTD has just said that these frames were unused, and it holds them as used for ever, because their one
    // handle is forgotten; so no other reference exists or will. They lie in its linear mapping, writable, side by side
    // and at the start of a page. Nothing need have been written there.
    let memory = unsafe { core::slice::from_raw_parts_mut(first, bytes / 8) };
    Some(EngineLayout::metadata_in(memory))
}
