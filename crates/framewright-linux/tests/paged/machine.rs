//! A zone, a reserve, devices: what the tests run on.

use framewright::frame::{AllocError, FrameSource, ZoneLayout};
use framewright::reserve::{PoolConfig, PoolId, Reserve, ReserveLayout};
use framewright::{Context, Frame, Run};
use framewright_linux::paged::Paged;
use framewright_linux::platform::Slots;
use framewright_linux::tenancy::Guests;
use framewright_linux::{Host, Linux, Options, Ram, RamPages, Stored};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(crate) type MachinePlatform = Stored<()>;

/// Frames of the zone, for all tests.
pub(crate) fn host() -> Host<()> {
    Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 4096).with_cpus(8))).unwrap()
}

/// Ordinary frames beside a reserve.
pub(crate) const ORDINARY: u64 = 128;

/// A reserve of `frames` frames, the first of RAM of its own in which [`ORDINARY`] follow, and seats for
/// four threads. Pages of its pool are put back.
pub(crate) fn with_reserve(
    frames: u64,
    work: impl FnOnce(&Reserve<'_, MachinePlatform>, &Guests<'_, '_, MachinePlatform>, PoolId),
) {
    let run = Run::new(Frame(0), frames).unwrap();
    let slots = Slots::new(4);
    let layout = ReserveLayout::new(run)
        .with_cpus(slots.count())
        .with_ordinary(ORDINARY as u32);
    let mut words = vec![0; layout.words_needed().unwrap()];
    let all = Run::new(Frame(0), frames + ORDINARY).unwrap();
    let ram = Arc::new(Ram::new(all, RamPages::Base).unwrap());
    let platform = Stored::new(Linux::fenced(slots.clone()), ram);
    let reserve = Reserve::new(&layout, &mut words, platform).unwrap();
    let pool = reserve.open_pool(&PoolConfig {
        put_back: true,
        ..PoolConfig::SWAP
    });
    let pool = pool.unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    work(&reserve, &guests, pool);
}

/// The ordinary frames beside a reserve of this many.
pub(crate) struct OrdinaryRam(Vec<Frame>);

impl OrdinaryRam {
    pub(crate) fn beside(frames: u64) -> Self {
        Self((frames..frames + ORDINARY).map(Frame).collect())
    }
}

impl FrameSource for OrdinaryRam {
    fn origin(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    fn frames_in_all(&self) -> u64 {
        ORDINARY
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        let frame = self.0.pop().ok_or(AllocError::Exhausted)?;
        Ok(Run::new(frame, 1).expect("one frame"))
    }

    fn free_run(&mut self, run: Run) {
        self.0.push(run.start());
    }
}

/// Runs `work` while two threads serve the region; then everything is discarded, and all frames are free again.
pub(crate) fn served(host: &Host<()>, paged: &Paged<'_>, work: impl FnOnce()) {
    served_by(2, host, paged, work);
}

/// The same with as many threads that serve.
pub(crate) fn served_by(pagers: u32, host: &Host<()>, paged: &Paged<'_>, work: impl FnOnce()) {
    /// Also if the work panics: else the pager would be waited for.
    struct StopPager<'p, 's>(&'p Paged<'s>);
    impl Drop for StopPager<'_, '_> {
        fn drop(&mut self) {
            self.0.stop();
        }
    }
    std::thread::scope(|scope| {
        for _ in 0..pagers {
            scope.spawn(|| paged.serve(&mut host.seat().unwrap()));
        }
        paged.await_pager().unwrap();
        let _stop = StopPager(paged);
        work();
        paged.verify().unwrap();
    });
    assert_eq!(paged.verify(), Ok(paged.stats().resident));
    paged
        .discard(0..paged.pages(), &mut host.seat().unwrap())
        .unwrap();
    assert_eq!(paged.stats().resident, 0);
    assert_eq!(host.zone().recount().allocated.iter().sum::<u64>(), 0);
}

/// The `nth` word of a page, by load and store.
pub(crate) fn load(paged: &Paged<'_>, page: u64, nth: usize) -> u64 {
    let words = paged.address(page).unwrap().cast::<u64>();
    // SAFETY: in the region, and each word of a page is one thread's.
    unsafe { words.add(nth).read_volatile() }
}

pub(crate) fn store(paged: &Paged<'_>, page: u64, nth: usize, value: u64) {
    let words = paged.address(page).unwrap().cast::<u64>();
    // SAFETY: as above.
    unsafe { words.add(nth).write_volatile(value) };
}

/// A folder that is gone when this is dropped.
pub(crate) struct MachineFolder(PathBuf);

impl MachineFolder {
    pub(crate) fn new(name: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let nth = NEXT.fetch_add(1, Relaxed);
        let name = format!("framewright-{name}-{}-{nth}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for MachineFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
