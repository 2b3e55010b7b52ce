//! One machine at work: the threads that it needs, and what is measured of them.

use super::super::va_fit::joined;
use super::super::{Clock, Failure, Progress};
use super::area::{Area, Counted};
use super::guest::{self, Filler, Movable};
use super::job::{CpuTime, Job};
use super::machine::Machine;
use super::plan::Plan;
use super::request::{self, Outcome};
use super::tree::Tree;
use super::{Background, Options, Variant};
use framewright::Frame;
use framewright::reserve::Contiguous;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Between a release and the next request where nobody works for anything.
const PAUSE: Duration = Duration::from_millis(5);

/// Builds beside which requests are made until there are enough of each size.
const BUILDS_MAX: u32 = 50;

/// What one build took.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Built {
    pub(super) cpu: CpuTime,
    pub(super) elapsed_s: f64,
    pub(super) device_bytes: u64,
    pub(super) counted: Counted,
    pub(super) names: u64,
}

/// What came of a machine: a build, if it was that, and the requests by size.
#[derive(Debug, Default)]
pub(super) struct Came {
    pub(super) built: Option<Built>,
    pub(super) outcomes: Vec<Outcome>,
}

/// What is done on each machine.
#[derive(Clone, Copy)]
pub(super) struct Work<'w> {
    pub(super) variant: Variant,
    pub(super) plan: &'w Plan,
    pub(super) options: &'w Options,
    pub(super) tree: Option<&'w Tree>,
    pub(super) folder: &'w Path,
    pub(super) clock: Clock,
    pub(super) progress: Progress<'w>,
    /// Requests of each size that there must be at the end.
    pub(super) requests: usize,
}

/// Stops the threads that serve a machine, also if the work panics.
struct Serving<'m>(&'m Machine<'m>, &'m AtomicBool);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.1.store(true, Relaxed);
        self.0.paged.stop();
    }
}

impl Work<'_> {
    /// Does it.
    pub(super) fn on(&self, machine: &Machine<'_>) -> Result<Came, Failure> {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _serving = Serving(machine, &stop);
            scope.spawn(|| {
                machine.with_supply(|supply| {
                    machine.paged.serve(supply);
                    Ok(())
                })
            });
            scope.spawn(|| machine.background(&stop));
            machine.paged.await_pager();
            match self.tree {
                Some(tree) => self.beside_builds(machine, tree),
                None => self.without_builds(machine),
            }
        })
    }

    fn counted<'m>(area: &'m dyn Area) -> impl Fn() -> Counted + 'm {
        || area.counted()
    }

    /// Fills memory, as it is on a machine that was not started a moment ago.
    fn warm_up(&self, machine: &Machine<'_>, tree: &Tree) -> Result<(), Failure> {
        let out = self.folder.to_owned();
        let seed = self.options.seed;
        let job = Job::new(tree, machine.files, machine.paged, out, seed, 1, 0);
        machine.with_supply(|supply| job.read_all(supply))
    }

    /// Builds with requests beside them, until there are enough.
    fn beside_builds(&self, machine: &Machine<'_>, tree: &Tree) -> Result<Came, Failure> {
        let mut came = Came {
            built: None,
            outcomes: vec![Outcome::default(); self.plan.sizes.len()],
        };
        self.warm_up(machine, tree)?;
        let asks = self.variant != Variant::Original;
        for nth in 0..BUILDS_MAX {
            let mut next = 0;
            let mut built = Built::default();
            if asks {
                machine.area.with_owner(&mut |owner| {
                    built = self.one_build(machine, tree, nth, &mut |is_done| {
                        while !is_done.load(Relaxed) {
                            std::thread::sleep(self.options.pause);
                            let at = next % self.plan.sizes.len();
                            self.request(machine.area, owner, at, &mut came.outcomes[at])?;
                            next += 1;
                        }
                        Ok(())
                    })?;
                    Ok(())
                })?;
            } else {
                built = self.one_build(machine, tree, nth, &mut |_| Ok(()))?;
            }
            came.built.get_or_insert(built);
            let enough = |outcome: &Outcome| outcome.requests() >= self.requests;
            if !asks || came.outcomes.iter().all(enough) {
                break;
            }
        }
        Ok(came)
    }

    fn request(
        &self,
        area: &dyn Area,
        owner: &mut dyn Contiguous,
        size: usize,
        outcome: &mut Outcome,
    ) -> Result<(), Failure> {
        let counted = Self::counted(area);
        let frames = self.plan.sizes[size];
        request::one(frames, owner, self.clock, &counted, outcome)
    }

    /// One build with `beside` at the same time, which is told when it is done.
    fn one_build(
        &self,
        machine: &Machine<'_>,
        tree: &Tree,
        nth: u32,
        beside: &mut dyn FnMut(&AtomicBool) -> Result<(), Failure>,
    ) -> Result<Built, Failure> {
        let out = self.folder.join(format!("out-{nth}"));
        std::fs::create_dir(&out)
            .map_err(|e| Failure::new(format!("{}: no folder: {e}", out.display())))?;
        let (workers, seed) = (self.options.workers, self.options.seed);
        let job = Job::new(
            tree,
            machine.files,
            machine.paged,
            out,
            seed,
            workers,
            self.options.pins,
        );
        let written = || {
            let swap = match self.variant {
                // Memory is no device.
                Variant::GcmaZram => 0,
                _ => machine.device.bytes_written(),
            };
            swap + machine.files.stats().written * Frame::BYTES
        };
        let (earlier, bytes) = (machine.area.counted(), written());
        let (left, is_done) = (
            AtomicUsize::new(usize::from(workers)),
            AtomicBool::new(false),
        );
        let start = Instant::now();
        let mut built = Built::default();
        std::thread::scope(|scope| {
            let work = |nth| {
                let (job, left, is_done) = (&job, &left, &is_done);
                scope.spawn(move || {
                    let done = machine.with_supply(|supply| job.work(nth, supply, self.progress));
                    if left.fetch_sub(1, Relaxed) == 1 {
                        is_done.store(true, Relaxed);
                    }
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
        built.counted = machine.area.counted().since(&earlier);
        built.device_bytes = written() - bytes;
        built.names = job.names();
        Ok(built)
    }

    /// Requests beside a guest that is always busy, or beside nobody.
    fn without_builds(&self, machine: &Machine<'_>) -> Result<Came, Failure> {
        let stop = AtomicBool::new(false);
        let is_filled = self.options.idle || self.options.background == Background::Guest;
        let is_beside = self.options.at_work() == Background::Guest;
        let (plan, seed) = (self.plan, self.options.seed);
        let mut outcomes = vec![Outcome::default(); plan.sizes.len()];
        let mut movable = None;
        let mut filler = Filler::default();
        if is_filled {
            match machine.area.guests() {
                Some((tenancy, pools)) => filler.put(tenancy, pools, plan.reserve_frames),
                None => {
                    let pages = plan.zone_frames(self.variant);
                    let made = Movable::new(machine, self.folder, pages)?;
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
                        let mut draw = super::tree::Draw::new(seed);
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
            let asked = machine.area.with_owner(&mut |owner| {
                for (at, &frames) in plan.sizes.iter().enumerate() {
                    for _ in 0..self.options.requests {
                        std::thread::sleep(PAUSE);
                        if is_filled && free > 0 {
                            fill_again(&mut filler, free)?;
                        }
                        self.request(machine.area, owner, at, &mut outcomes[at])?;
                        free = frames;
                        self.progress.step();
                    }
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
