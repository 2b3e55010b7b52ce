//! One machine at work: the threads that it needs, and what is measured of them.

use super::super::{CalibratedClock, Failure, Progress};
use super::job::{BuildJob, CpuTime, SourceTree};
use super::machine::guest::{self, Filler, Movable};
use super::machine::{GcmaArea, GcmaMachine, OwnerCounts};
use super::plan::{GcmaPlan, PAGERS};
use super::request::{self, SizeOutcome};
use super::{BesideRequests, GcmaOptions, GcmaVariant};
use crate::experiment::timing::{LoadWatch, joined};
use crate::printable;
use framewright::Frame;
use framewright::frame::FrameSource;
use framewright::reserve::Contiguous;
use framewright_sim::Random;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Between a release and the next request where no build runs beside them.
const PAUSE: Duration = Duration::from_millis(5);

/// Builds beside which requests are made until there are enough of each size.
const BUILDS_MAX: u32 = 50;

/// How often the foreground looks whether its next request is due.
const POLL: Duration = Duration::from_micros(500);

/// How long nothing is swapped out until what was on its way is counted: more than one command of the card takes.
const AT_REST: Duration = Duration::from_millis(40);

/// Looks whether that is so; then the figures are as they are.
const LOOKS: u32 = 50;

/// What became of pages that were swapped out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Swapped {
    /// Versions of pages that were stored.
    pub(super) stored: u64,
    /// Pages that were written to the device, as the device counts them.
    pub(super) written: u64,
    /// Versions that the swap had to write so far.
    due: u64,
}

impl Swapped {
    /// Of the stored versions some need no write, or not yet.
    const fn new(stored: u64, written: u64, unwritten: u64) -> Self {
        Self {
            stored,
            written,
            due: stored.saturating_sub(unwritten),
        }
    }

    fn of(machine: &GcmaMachine<'_>, variant: GcmaVariant) -> Self {
        let swap = machine.paged.swap();
        let stats = swap.stats();
        let written = match variant {
            // Bytes of compressed pages are no pages.
            GcmaVariant::GcmaZram => stats.device_writes,
            _ => machine.device.bytes_written() / Frame::BYTES,
        };
        let unwritten = stats.got_back + stats.gone_unwritten + swap.dirty_pages();
        Self::new(stats.stores, written, unwritten)
    }

    /// When the background is at rest: a device counts pages before the swap does.
    fn at_rest(machine: &GcmaMachine<'_>, variant: GcmaVariant) -> Self {
        let mut seen = Self::of(machine, variant);
        for _ in 0..LOOKS {
            std::thread::sleep(AT_REST);
            let now = Self::of(machine, variant);
            if now == seen {
                break;
            }
            seen = now;
        }
        seen
    }

    /// What came after `earlier`.
    const fn since(self, earlier: &Self) -> Self {
        Self {
            stored: self.stored - earlier.stored,
            written: self.written - earlier.written,
            due: self.due.saturating_sub(earlier.due),
        }
    }

    /// Pages that were written beyond one for each version that had to be.
    pub(super) const fn twice(&self) -> u64 {
        self.written.saturating_sub(self.due)
    }
}

/// What one build took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Built {
    pub(super) cpu: CpuTime,
    pub(super) elapsed_s: f64,
    pub(super) device_bytes: u64,
    pub(super) swap: Swapped,
    pub(super) counted: OwnerCounts,
    pub(super) names: u64,
    pub(super) load_average: f64,
    pub(super) foreign_load: f64,
}

/// What came of a machine: a build, if it was that, and the requests by size.
#[derive(Debug, Default)]
pub(super) struct Came {
    pub(super) built: Option<Built>,
    pub(super) outcomes: Vec<SizeOutcome>,
}

/// What is done on each machine.
#[derive(Clone, Copy)]
pub(super) struct BuildWork<'w> {
    pub(super) variant: GcmaVariant,
    pub(super) plan: &'w GcmaPlan,
    pub(super) options: &'w GcmaOptions,
    pub(super) tree: Option<&'w SourceTree>,
    pub(super) folder: &'w Path,
    pub(super) clock: CalibratedClock,
    pub(super) progress: Progress<'w>,
    /// Requests that there must be at the end.
    pub(super) must: usize,
}

/// When the next request is due, after `made` of them, in the time of all builds so far: in the middle of its
/// interval.
fn due(made: usize, interval: Duration) -> Duration {
    let made = u32::try_from(made).unwrap_or(u32::MAX);
    interval.saturating_mul(made).saturating_add(interval / 2)
}

/// Which size is next: in turns, or drawn.
struct SizeOrder {
    sizes: usize,
    made: usize,
    draw: Option<Random>,
}

impl SizeOrder {
    fn new(options: &GcmaOptions, sizes: usize) -> Self {
        Self {
            sizes,
            made: 0,
            draw: options.is_drawn().then(|| Random::new(options.seed)),
        }
    }

    fn next(&mut self) -> usize {
        let at = match &mut self.draw {
            Some(draw) => draw.remainder(self.sizes as u64) as usize,
            None => self.made % self.sizes,
        };
        self.made += 1;
        at
    }
}

/// Stops the threads that serve a machine, also if the work panics.
struct ServingThreads<'m>(&'m GcmaMachine<'m>, &'m AtomicBool);

impl Drop for ServingThreads<'_> {
    fn drop(&mut self) {
        self.1.store(true, Relaxed);
        self.0.paged.stop();
    }
}

/// One of the threads that are left, until this is dropped, even by a panic: the thread that waits for the last one is told.
struct WorkingThread<'a>(&'a AtomicUsize, &'a AtomicBool);

impl Drop for WorkingThread<'_> {
    fn drop(&mut self) {
        if self.0.fetch_sub(1, Relaxed) == 1 {
            self.1.store(true, Relaxed);
        }
    }
}

impl BuildWork<'_> {
    /// Does it.
    pub(super) fn on(&self, machine: &GcmaMachine<'_>) -> Result<Came, Failure> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let serving = ServingThreads(machine, &stop);
            let stop = &stop;
            // Where one cannot serve, no thread waits for it, and the work ends by an error.
            let ended = |served: Result<(), Failure>| {
                if served.is_err() {
                    machine.paged.stop();
                }
                served
            };
            let serve = move || {
                let serve = |supply: &mut dyn FrameSource| machine.paged.serve(supply);
                ended(machine.with_supply(|supply| serve(supply).map_err(Failure::new)))
            };
            let mut threads: Vec<_> = (0..PAGERS).map(|_| scope.spawn(serve)).collect();
            threads.push(scope.spawn(move || ended(machine.background(stop))));
            scope.spawn(|| machine.write_behind(stop));
            let is_served = machine.paged.await_pager().map_err(Failure::new);
            let came = is_served.and_then(|()| match self.tree {
                Some(tree) => self.beside_builds(machine, tree),
                None => self.without_builds(machine),
            });
            drop(serving);
            let served = threads.into_iter().map(joined);
            // Their error before that of the work: it is the reason.
            served.collect::<Result<Vec<()>, _>>().and(came)
        })
    }

    fn counted<'m>(area: &'m dyn GcmaArea) -> impl Fn() -> OwnerCounts + 'm {
        || area.counted()
    }

    fn job<'m>(
        &self,
        machine: &'m GcmaMachine<'m>,
        tree: &'m SourceTree,
        out: &Path,
        workers: u16,
    ) -> BuildJob<'m, 'm> {
        let users = (machine.files, machine.paged);
        let out = out.to_owned();
        let heap_pages = self.plan.heap_pages;
        BuildJob::new(
            tree,
            users,
            machine.storage,
            out,
            self.options,
            workers,
            heap_pages,
        )
    }

    /// Fills memory, as it is on a machine that has run for a while. The experiment does not measure this, so
    /// the storage runs as fast as the host's own.
    fn warm_up(&self, machine: &GcmaMachine<'_>, tree: &SourceTree) -> Result<(), Failure> {
        machine.storage.set_slow(false);
        let job = self.job(machine, tree, self.folder, 1);
        let pages = self.plan.zone_frames(self.variant);
        let read = machine.with_supply(|supply| {
            // What was read before the build, until reclaim has no other frames to take; guests' area is full, too.
            let area = if machine.area.guests().is_some() {
                self.plan.reserve_frames
            } else {
                0
            };
            Movable::of_file(machine, pages + area)?.read(machine, supply, pages + area)?;
            job.read_all(supply)
        });
        machine.storage.set_slow(true);
        read
    }

    /// Builds with requests beside them, until there are enough.
    fn beside_builds(&self, machine: &GcmaMachine<'_>, tree: &SourceTree) -> Result<Came, Failure> {
        let mut came = Came {
            built: None,
            outcomes: vec![SizeOutcome::default(); self.plan.sizes.len()],
        };
        self.warm_up(machine, tree)?;
        let asks = self.variant != GcmaVariant::Original;
        let mut order = SizeOrder::new(self.options, self.plan.sizes.len());
        let mut earlier = Duration::ZERO;
        for nth in 0..BUILDS_MAX {
            let mut built = Built::default();
            if asks {
                machine.with_owner(&mut |owner| {
                    built = self.one_build(machine, tree, nth, &mut |is_done| {
                        self.foreground(machine, owner, is_done, earlier, &mut order, &mut came)
                    })?;
                    Ok(())
                })?;
            } else {
                built = self.one_build(machine, tree, nth, &mut |_| Ok(()))?;
            }
            earlier += Duration::from_secs_f64(built.elapsed_s);
            came.built.get_or_insert(built);
            if !asks || order.made >= self.must {
                break;
            }
        }
        if asks && order.made < self.must {
            return Err(Failure::new(format!(
                "{} of {} requests were made beside {BUILDS_MAX} builds",
                order.made, self.must
            )));
        }
        Ok(came)
    }

    /// Requests beside one build, by time: one in each interval, after `earlier` builds' time. One that takes long is
    /// followed at once by those that were due meanwhile.
    fn foreground(
        &self,
        machine: &GcmaMachine<'_>,
        owner: &mut dyn Contiguous,
        is_done: &AtomicBool,
        earlier: Duration,
        order: &mut SizeOrder,
        came: &mut Came,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        while !is_done.load(Relaxed) {
            if earlier + begun.elapsed() < due(order.made, self.options.interval) {
                std::thread::sleep(POLL);
                continue;
            }
            let at = order.next();
            self.request(machine.area, owner, at, &mut came.outcomes[at])?;
            if self.options.is_drawn() {
                self.tell(order.made);
            }
        }
        Ok(())
    }

    /// A step of progress for each hundredth of the requests.
    fn tell(&self, made: usize) {
        let all = self.options.requests as usize;
        let hundredths = |made: usize| made.min(all) * super::job::STEPS / all;
        for _ in hundredths(made - 1)..hundredths(made) {
            self.progress.step();
        }
    }

    fn request(
        &self,
        area: &dyn GcmaArea,
        owner: &mut dyn Contiguous,
        size: usize,
        outcome: &mut SizeOutcome,
    ) -> Result<(), Failure> {
        let counted = Self::counted(area);
        let frames = self.plan.sizes[size];
        request::one(frames, owner, self.clock, &counted, outcome)
    }

    /// One build with `beside` at the same time, which is told when it is done.
    fn one_build(
        &self,
        machine: &GcmaMachine<'_>,
        tree: &SourceTree,
        nth: u32,
        beside: &mut dyn FnMut(&AtomicBool) -> Result<(), Failure>,
    ) -> Result<Built, Failure> {
        let out = self.folder.join(format!("out-{nth}"));
        std::fs::create_dir(&out)
            .map_err(|e| Failure::new(format!("{}: no folder: {e}", printable::path(&out))))?;
        let workers = self.options.workers;
        let job = self.job(machine, tree, &out, workers);
        // Of requests that are drawn, these are the steps; and of one build.
        let is_told = nth == 0 && !self.options.is_drawn();
        let progress = is_told.then_some(self.progress);
        let written = || {
            let swap = match self.variant {
                // Memory is no device.
                GcmaVariant::GcmaZram => 0,
                _ => machine.device.bytes_written(),
            };
            swap + machine.files.stats().written * Frame::BYTES
        };
        let (earlier, bytes) = (machine.area.counted(), written());
        let swapped = Swapped::of(machine, self.variant);
        let (left, is_done) = (
            AtomicUsize::new(usize::from(workers)),
            AtomicBool::new(false),
        );
        let start = Instant::now();
        let watch = LoadWatch::begin();
        let mut built = Built::default();
        std::thread::scope(|scope| {
            let work = |nth| {
                let job = &job;
                let working = WorkingThread(&left, &is_done);
                scope.spawn(move || {
                    let done = machine.with_supply(|supply| job.work(nth, supply, progress));
                    drop(working);
                    (done, start.elapsed())
                })
            };
            let threads: Vec<_> = (0..workers).map(work).collect();
            let asked = beside(&is_done);
            if asked.is_err() {
                job.stop();
            }
            for thread in threads {
                let (done, elapsed) = joined(thread);
                built.cpu.add(done?);
                built.elapsed_s = built.elapsed_s.max(elapsed.as_secs_f64());
            }
            asked
        })?;
        // Of the build, and not of the wait behind it.
        if let Some(load) = watch.end(Duration::ZERO) {
            (built.load_average, built.foreign_load) = (load.average, load.foreign);
        }
        built.counted = machine.area.counted().since(&earlier);
        built.swap = Swapped::at_rest(machine, self.variant).since(&swapped);
        built.device_bytes = written() - bytes;
        built.names = job.names();
        Ok(built)
    }

    /// Requests beside a guest that is always busy, or beside nothing.
    fn without_builds(&self, machine: &GcmaMachine<'_>) -> Result<Came, Failure> {
        let stop = AtomicBool::new(false);
        let is_filled = self.options.idle || self.options.background == BesideRequests::Guest;
        let is_beside = self.options.at_work() == BesideRequests::Guest;
        let (plan, seed) = (self.plan, self.options.seed);
        let mut outcomes = vec![SizeOutcome::default(); plan.sizes.len()];
        let mut movable = None;
        let mut filler = Filler::default();
        if is_filled {
            match machine.area.guests() {
                Some((tenancy, pools)) => filler.put(tenancy, pools, plan.reserve_frames),
                None => {
                    let pages = plan.zone_frames(self.variant);
                    let made = Movable::new(machine, pages)?;
                    movable = Some(std::sync::Mutex::new(made));
                }
            }
        }
        let fill_again = |filler: &mut Filler, pages: u64| match machine.area.guests() {
            Some((tenancy, pools)) => {
                filler.put(tenancy, pools, pages);
                Ok(())
            }
            None => std::thread::scope(|scope| {
                let reader = scope.spawn(|| {
                    let Some(movable) = &movable else {
                        return Ok(());
                    };
                    let mut movable = movable
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner);
                    machine.with_supply(|supply| movable.read(machine, supply, pages))
                });
                joined(reader)
            }),
        };
        if is_filled && movable.is_some() {
            fill_again(&mut filler, plan.zone_frames(self.variant))?;
        }
        std::thread::scope(|scope| {
            let beside = is_beside.then(|| {
                let (stop, movable) = (&stop, &movable);
                let frames = plan.reserve_frames;
                scope.spawn(move || match (machine.area.guests(), movable) {
                    (Some((tenancy, pools)), _) => {
                        guest::be_busy(tenancy, pools, seed, frames, stop);
                        Ok(())
                    }
                    (None, Some(movable)) => machine.with_supply(|supply| {
                        let mut draw = Random::new(seed);
                        while !stop.load(Relaxed) {
                            let mut movable = movable
                                .lock()
                                .unwrap_or_else(std::sync::PoisonError::into_inner);
                            movable.read_any(machine, supply, &mut draw)?;
                        }
                        Ok(())
                    }),
                    (None, None) => Ok(()),
                })
            });
            let mut free = 0;
            let asked = machine.with_owner(&mut |owner| {
                let requests = self.options.requests_of(plan.sizes.len());
                let mut order = SizeOrder::new(self.options, plan.sizes.len());
                for nth in 0..requests {
                    let at = if self.options.is_drawn() {
                        order.next()
                    } else {
                        nth / self.options.requests as usize
                    };
                    std::thread::sleep(PAUSE);
                    if is_filled && free > 0 {
                        fill_again(&mut filler, free)?;
                    }
                    self.request(machine.area, owner, at, &mut outcomes[at])?;
                    free = plan.sizes[at];
                    self.progress.step();
                }
                Ok(())
            });
            stop.store(true, Relaxed);
            let joined: Result<(), Failure> = beside.map_or(Ok(()), joined);
            asked.and(joined)
        })?;
        Ok(Came {
            built: None,
            outcomes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::with_machine;
    use super::super::options::alignment;
    use super::super::{Lengths, SwapSafety};
    use super::*;
    use framewright::Run;

    /// Runs `test` on a machine of this many seats, with what is needed to work on it.
    fn with_work<R>(
        variant: GcmaVariant,
        options: &GcmaOptions,
        seats: Option<u16>,
        test: impl FnOnce(&BuildWork<'_>, &GcmaMachine<'_>) -> R,
    ) -> R {
        let mut plan = GcmaPlan::new(options).unwrap();
        plan.seats = seats.unwrap_or(plan.seats);
        let folder = crate::files::TempFolder::make("gcma").unwrap();
        let steps = std::sync::atomic::AtomicU64::new(0);
        let work = BuildWork {
            variant,
            plan: &plan,
            options,
            tree: None,
            folder: folder.path(),
            clock: CalibratedClock::calibrated(),
            progress: Progress::new(&steps),
            must: 0,
        };
        with_machine(variant, &plan, options, folder.path(), |machine| {
            Ok(test(&work, machine))
        })
        .unwrap()
    }

    #[test]
    fn a_machine_that_cannot_be_served_ends_by_an_error() {
        let mut options = super::super::command::sized(false);
        options.background = BesideRequests::None;
        // Longer than a thread waits for a seat.
        options.requests = 16;
        (options.ram_bytes, options.reserve_bytes) = (40 << 20, 16 << 20);
        // For one of the pagers, and for all of them, but not for the thread that reclaims.
        for seats in [1, PAGERS] {
            let ended = with_work(GcmaVariant::Gcma, &options, Some(seats), |work, machine| {
                work.on(machine).map(drop)
            });
            let error = ended.expect_err(&format!("{seats} seats")).to_string();
            assert!(error.contains("slot"), "{seats}: {error}");
        }
    }

    #[test]
    fn a_warm_machine_has_a_page_in_every_frame_of_the_area_too() {
        let mut options = super::super::command::sized(false);
        (options.ram_bytes, options.reserve_bytes) = (40 << 20, 16 << 20);
        let tree = SourceTree::make(1 << 20, 1).unwrap();
        for variant in [
            GcmaVariant::Cma,
            GcmaVariant::Gcma,
            GcmaVariant::Framewright,
        ] {
            with_work(variant, &options, None, |work, machine| {
                work.warm_up(machine, &tree).unwrap();
                let free = machine.host.zone().stats().nr_free_pages;
                assert!(free < 512, "{}: {free} frames are free", variant.name());
                let asked = machine.with_owner(&mut |owner| {
                    let frames = 2048;
                    let run = owner.alloc_contig(frames, 256).map_err(Failure::new)?;
                    let counted = machine.area.counted();
                    let met = counted.discarded + counted.migrated;
                    // What reclaim left free may lie in an area that is a part of the zone.
                    let least = if variant == GcmaVariant::Cma {
                        frames - free
                    } else {
                        frames
                    };
                    assert!((least..=frames).contains(&met), "{}: {met}", variant.name());
                    owner.release(run).map_err(Failure::new)
                });
                asked.unwrap();
            });
        }
    }

    #[test]
    fn each_length_that_is_known_has_a_place_of_its_own_and_no_other_has_one() {
        let mut options = super::super::command::sized(false);
        (options.ram_bytes, options.reserve_bytes) = (40 << 20, 16 << 20);
        options.policy = SwapSafety::WriteThrough;
        for variant in [
            GcmaVariant::Cma,
            GcmaVariant::Gcma,
            GcmaVariant::Framewright,
        ] {
            for lengths in [Lengths::Known, Lengths::Unknown] {
                options.lengths = lengths;
                let overlap = with_work(variant, &options, None, |work, machine| {
                    let mut runs: Vec<Run> = Vec::new();
                    let asked = machine.with_owner(&mut |owner| {
                        for &frames in work.plan.sizes.iter().chain(&work.plan.sizes) {
                            let align = alignment(frames);
                            let run = owner.alloc_contig(frames, align).map_err(Failure::new)?;
                            runs.push(run);
                            owner.release(run).map_err(Failure::new)?;
                        }
                        Ok(())
                    });
                    asked.unwrap();
                    let (first, second) = runs.split_at(work.plan.sizes.len());
                    assert_eq!(first, second, "nothing was in the way");
                    let overlaps = |at: usize| {
                        let meets =
                            |b: &Run| first[at].start() < b.end() && b.start() < first[at].end();
                        first[at + 1..].iter().any(meets)
                    };
                    (0..first.len()).any(overlaps)
                });
                let what = format!("{}, {}", variant.name(), lengths.name());
                assert_eq!(overlap, lengths == Lengths::Unknown, "{what}");
            }
        }
    }

    #[test]
    fn a_page_is_written_twice_that_is_written_more_often_than_stored() {
        let earlier = Swapped::new(100, 90, 10);
        let later = |written, unwritten| {
            let later = Swapped::new(150, written, unwritten);
            later.since(&earlier).twice()
        };
        // Write-through; write-back, some of which came back in time; and one that should not be.
        assert_eq!([later(140, 10), later(120, 30), later(127, 40)], [0, 0, 17]);
        // What was dirty before is written now.
        assert_eq!(Swapped::new(100, 100, 0).since(&earlier).twice(), 0);
    }

    #[test]
    fn a_version_that_is_gone_before_it_was_written_hides_no_page_that_is_written_twice() {
        let mut options = super::super::command::sized(false);
        (options.ram_bytes, options.reserve_bytes) = (40 << 20, 16 << 20);
        options.policy = SwapSafety::WriteBack;
        let variant = GcmaVariant::Framewright;
        with_work(variant, &options, None, |_, machine| {
            let swap = machine.paged.swap();
            let begun = Swapped::of(machine, variant);
            let twice = || Swapped::of(machine, variant).since(&begun).twice();
            let store = |page, word| swap.store(&[page], &[[word; 512]]).unwrap();
            (0..8).for_each(|page| store(page, page + 1));
            swap.invalidate(0).unwrap();
            store(1, 100);
            assert_eq!((swap.dirty_pages(), swap.clean(100), twice()), (7, 7, 0));
            // The second time.
            machine.device.write(100, &[1; 512]).unwrap();
            assert_eq!(twice(), 1);
        });
    }

    #[test]
    fn sizes_take_turns_and_of_many_requests_they_are_drawn() {
        let mut options = super::super::command::sized(false);
        options.requests = 1000;
        let mut turns = SizeOrder::new(&options, 3);
        assert_eq!([(); 4].map(|()| turns.next()), [0, 1, 2, 0]);
        assert_eq!(options.requests_of(3), 3000);
        options.requests = 1001;
        let drawn = || {
            let mut order = SizeOrder::new(&options, 3);
            let all: Vec<usize> = (0..1001).map(|_| order.next()).collect();
            assert_eq!(order.made, 1001);
            all
        };
        assert_eq!(drawn(), drawn(), "one seed, one sequence");
        for size in 0..3 {
            let times = drawn().iter().filter(|at| **at == size).count();
            assert!((280..390).contains(&times), "{size}: {times}");
        }
        assert_eq!(options.requests_of(3), 1001);
    }

    #[test]
    fn a_request_is_due_in_the_middle_of_its_interval_however_long_the_others_took() {
        let seconds = |made| due(made, Duration::from_secs(2)).as_secs();
        assert_eq!([0, 1, 255].map(seconds), [1, 3, 511]);
        assert!(due(usize::MAX, Duration::from_secs(100)) > Duration::from_secs(1 << 36));
    }
}
