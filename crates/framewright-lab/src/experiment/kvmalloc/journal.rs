//! What a journal's threads do: a batch of items a commit, each copied into a buffer of its own.

use super::super::Failure;
use super::machine::{Checksum, JournalMachine};
use super::plan::{ITEMS_SHARE, KvmallocPlan, ObjectSize};
use super::variant::{Allocating, JournalVariant, RECLAIM_PAGES, VariantCounts};
use crate::before::journal::Wake;
use crate::before::journal::tenants::{FRAME_WORDS, JournalTenants};
use crate::experiment::timing::{CalibratedClock, Latencies, bind, cpu_ns, joined};
use framewright::Addr;
use framewright_sim::Random;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// In one commit of this many each call of kvmalloc is timed, and its CPU time is not in the mean.
const TIMED_EVERY: u64 = 4;

/// Times that a thread lets others run because there is no frame for a buffer.
const WAITS_MAX: u32 = 10_000;

/// What one repetition of one variant came to.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) commits_per_s: f64,
    /// Commits, calls and CPU time of all threads.
    pub(super) commits: u64,
    pub(super) calls: u64,
    pub(super) timed_calls: u64,
    pub(super) kvmalloc_ns: f64,
    pub(super) timed_kvmalloc_ns: f64,
    pub(super) copy_ns: f64,
    pub(super) free_ns: f64,
    pub(super) cpu_ns: f64,
    pub(super) background_ns: f64,
    pub(super) waits: u64,
    /// Pages that the writers reclaimed for calls, and their CPU time in that.
    pub(super) reclaimed: u64,
    pub(super) reclaim_ns: f64,
    /// Runs of frames in all buffers, if they are counted.
    pub(super) frame_runs: u64,
    pub(super) latencies: Latencies,
    pub(super) counted: VariantCounts,
}

/// Runs the journal on a variant until the time is over, and checks that nothing was lost.
pub(super) fn run<V: JournalVariant>(
    variant: &V,
    plan: &KvmallocPlan,
    machine: &JournalMachine,
    tenants: &JournalTenants,
    wake: &Wake,
    clock: CalibratedClock,
    has_accounts: bool,
) -> Result<Measured, Failure> {
    let threads = plan.options.threads;
    let start = Barrier::new(usize::from(threads));
    let warm = Mutex::new(VariantCounts::default());
    let failed = AtomicBool::new(false);
    let pages = AtomicU32::new(u32::MAX / 2);
    let background_ns = AtomicU64::new(0);
    let is_short = || variant.free_frames() < plan.floor;
    let count = || {
        let mut counted = variant.counted();
        counted.locks.push(tenants.lock_count());
        counted
    };
    let work = |thread: u16| {
        bind(usize::from(thread));
        let seat = variant.seat(thread);
        let warmed = seat.and_then(|seat| {
            let mut writer = Writer {
                seat,
                plan,
                machine,
                tenants,
                wake,
                clock,
                has_accounts,
                pages: &pages,
                items: Items::new(plan, thread),
                live: VecDeque::new(),
                part: ThreadPart::new(),
            };
            writer.warm_up(&failed, is_short).map(|()| writer)
        });
        // A thread that failed passes both barriers too, or the others would wait for it.
        if start.wait().is_leader() {
            // What the variant counted until here is of the warm-up.
            *locked(&warm) = count();
            background_ns.store(0, Relaxed);
        }
        start.wait();
        warmed.and_then(|mut writer| {
            let result = writer.run(&failed, is_short);
            failed.fetch_or(result.is_err(), Relaxed);
            result.map(|()| writer.part)
        })
    };
    let parts = std::thread::scope(|scope| {
        let background = scope.spawn(|| {
            let mut seat = variant.seat(threads)?;
            while let Some(order) = wake.wait() {
                let begin = cpu_ns();
                seat.background(order)?;
                background_ns.fetch_add(cpu_ns() - begin, Relaxed);
            }
            Ok::<(), Failure>(())
        });
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let work = &work;
                scope.spawn(move || work(thread))
            })
            .collect();
        let parts: Result<Vec<ThreadPart>, Failure> = running.into_iter().map(joined).collect();
        wake.end();
        joined(background).and(parts)
    })?;
    tenants.verify(machine).map_err(Failure::new)?;
    variant.verify()?;
    let counted = count().since(&locked(&warm));
    Ok(sum(&parts, background_ns.into_inner(), counted))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sum(parts: &[ThreadPart], background_ns: u64, counted: VariantCounts) -> Measured {
    let total = |of: fn(&ThreadPart) -> f64| parts.iter().map(of).sum::<f64>();
    let count = |of: fn(&ThreadPart) -> u64| parts.iter().map(of).sum::<u64>();
    let mut latencies = Latencies::new();
    parts.iter().for_each(|part| latencies.add(&part.latencies));
    Measured {
        commits_per_s: total(|part| part.commits as f64 / part.wall.as_secs_f64().max(1e-9)),
        commits: count(|part| part.commits),
        calls: count(|part| part.calls),
        timed_calls: count(|part| part.timed_calls),
        kvmalloc_ns: total(|part| part.kvmalloc_ns as f64),
        timed_kvmalloc_ns: total(|part| part.timed_kvmalloc_ns as f64),
        copy_ns: total(|part| part.copy_ns as f64),
        free_ns: total(|part| part.free_ns as f64),
        cpu_ns: total(|part| part.cpu_ns as f64) + background_ns as f64,
        background_ns: background_ns as f64,
        waits: count(|part| part.waits),
        reclaimed: count(|part| part.reclaimed),
        reclaim_ns: total(|part| part.reclaim_ns as f64),
        frame_runs: count(|part| part.frame_runs),
        latencies,
        counted,
    }
}

/// What one thread did.
struct ThreadPart {
    commits: u64,
    calls: u64,
    timed_calls: u64,
    kvmalloc_ns: u64,
    timed_kvmalloc_ns: u64,
    copy_ns: u64,
    free_ns: u64,
    cpu_ns: u64,
    wall: Duration,
    waits: u64,
    reclaimed: u64,
    reclaim_ns: u64,
    frame_runs: u64,
    latencies: Latencies,
}

impl ThreadPart {
    fn new() -> Self {
        Self {
            commits: 0,
            calls: 0,
            timed_calls: 0,
            kvmalloc_ns: 0,
            timed_kvmalloc_ns: 0,
            copy_ns: 0,
            free_ns: 0,
            cpu_ns: 0,
            wall: Duration::ZERO,
            waits: 0,
            reclaimed: 0,
            reclaim_ns: 0,
            frame_runs: 0,
            latencies: Latencies::new(),
        }
    }
}

/// The items of one thread, and in which order it logs them.
struct Items {
    words: Vec<u64>,
    /// Of each item: where it begins, and its bytes.
    places: Vec<(usize, u64)>,
    sums: Vec<Checksum>,
    random: Random,
}

impl Items {
    fn new(plan: &KvmallocPlan, thread: u16) -> Self {
        let mut random = Random::new(plan.options.seed ^ u64::from(thread + 1) << 32);
        let all = plan.frames as usize * FRAME_WORDS / ITEMS_SHARE as usize;
        let mean = match plan.options.object {
            ObjectSize::Bytes(_) => plan.words,
            ObjectSize::Mixed => plan.words / 2,
        };
        let count = (all / mean).clamp(plan.items, 1 << 16);
        let mut at = 0;
        let places: Vec<(usize, u64)> = (0..count)
            .map(|_| {
                let bytes = match plan.options.object {
                    ObjectSize::Bytes(bytes) => bytes,
                    ObjectSize::Mixed => mixed(&mut random, plan.words),
                };
                let place = (at, bytes);
                at += words_of(bytes);
                place
            })
            .collect();
        let words: Vec<u64> = (0..at).map(|_| random.bits()).collect();
        let sums = places
            .iter()
            .map(|&(at, bytes)| checksum(&words[at..][..words_of(bytes)]));
        Self {
            sums: sums.collect(),
            words,
            places,
            random,
        }
    }

    fn draw(&mut self) -> usize {
        self.random.below(self.sums.len() as u64) as usize
    }

    fn item(&self, nth: usize) -> &[u64] {
        let (at, bytes) = self.places[nth];
        &self.words[at..][..words_of(bytes)]
    }

    fn bytes(&self, nth: usize) -> u64 {
        self.places[nth].1
    }
}

/// Bytes of an item of mixed length: as many pages as often as others, whole words.
fn mixed(random: &mut Random, longest_words: usize) -> u64 {
    let pages = 1 + random.below(longest_words as u64 / FRAME_WORDS as u64);
    let last = 1 + random.below(FRAME_WORDS as u64);
    ((pages - 1) * FRAME_WORDS as u64 + last) * 8
}

const fn words_of(bytes: u64) -> usize {
    bytes.div_ceil(8) as usize
}

fn checksum(item: &[u64]) -> Checksum {
    let mut sum = Checksum::default();
    sum.add(item.iter().copied());
    sum
}

/// One thread of the journal.
struct Writer<'w, S> {
    seat: S,
    plan: &'w KvmallocPlan,
    machine: &'w JournalMachine,
    tenants: &'w JournalTenants,
    wake: &'w Wake,
    clock: CalibratedClock,
    has_accounts: bool,
    /// The number of the next page that is read in.
    pages: &'w AtomicU32,
    items: Items,
    /// The batches whose buffers are live, the first one formatted in front.
    live: VecDeque<Vec<Addr>>,
    part: ThreadPart,
}

impl<S: Allocating> Writer<'_, S> {
    /// Formats as many batches as will be live, and as many again.
    fn warm_up(&mut self, failed: &AtomicBool, is_short: impl Fn() -> bool) -> Result<(), Failure> {
        for _ in 0..2 * self.plan.held {
            if failed.load(Relaxed) {
                break;
            }
            let done = self.read_in(&is_short).and_then(|()| self.commit());
            done.inspect_err(|_| failed.store(true, Relaxed))?;
        }
        self.part = ThreadPart::new();
        Ok(())
    }

    fn run(&mut self, failed: &AtomicBool, is_short: impl Fn() -> bool) -> Result<(), Failure> {
        let seconds = Duration::from_secs_f64(self.plan.options.seconds);
        let (start, cpu) = (Instant::now(), cpu_ns());
        while start.elapsed() < seconds && !failed.load(Relaxed) {
            self.read_in(&is_short)?;
            self.commit()?;
        }
        self.part.wall = start.elapsed();
        self.part.cpu_ns = cpu_ns() - cpu;
        for addr in std::mem::take(&mut self.live).into_iter().flatten() {
            self.seat.kvfree(addr)?;
        }
        Ok(())
    }

    /// Reads pages into the cache for the batch: cold items. If too few frames are free, the thread
    /// reclaims by itself first.
    fn read_in(&mut self, is_short: &impl Fn() -> bool) -> Result<(), Failure> {
        let mut waits = 0;
        while is_short() {
            self.wake.wake(0);
            if self.reclaim()? > 0 {
                continue;
            }
            // The cache is empty while the other threads hold pages that they have just reclaimed
            // or are about to read in.
            waits += 1;
            if waits > WAITS_MAX {
                return Err(Failure::new(
                    "nothing is left in the cache, and too little is free, however long it waits",
                ));
            }
            std::thread::yield_now();
        }
        let wanted = self.plan.read_in;
        let first = self.pages.fetch_add(wanted as u32, Relaxed);
        let mut read = Vec::with_capacity(wanted);
        for nth in 0..wanted as u32 {
            let mut frame = self.seat.frame();
            // What it reclaims another thread may take.
            for _ in 0..WAITS_MAX {
                if frame.is_some() {
                    break;
                }
                self.reclaim()?;
                frame = self.seat.frame();
            }
            let frame = frame.ok_or_else(|| Failure::new("there is no frame for the cache"))?;
            read.push((frame, first.wrapping_add(nth)));
        }
        self.tenants.read_in(self.machine, &read);
        Ok(())
    }

    fn reclaim(&mut self) -> Result<usize, Failure> {
        let mut frames = Vec::with_capacity(RECLAIM_PAGES);
        self.tenants.evict(RECLAIM_PAGES, &mut frames);
        for frame in &frames {
            self.seat.free_frame(*frame)?;
        }
        Ok(frames.len())
    }

    fn commit(&mut self) -> Result<(), Failure> {
        let is_timed = self.part.commits.is_multiple_of(TIMED_EVERY);
        let chosen: Vec<usize> = (0..self.plan.items).map(|_| self.items.draw()).collect();
        let mut batch = Vec::with_capacity(self.plan.items);
        let begin = cpu_ns();
        for item in &chosen {
            let bytes = self.items.bytes(*item);
            let addr = if is_timed {
                let (addr, ns) = self.clock.time(|| self.seat.kvmalloc(bytes));
                self.part.latencies.record(ns);
                addr?
            } else {
                self.seat.kvmalloc(bytes)?
            };
            match addr {
                Some(addr) => batch.push(addr),
                None => batch.push(self.wait_for(bytes)?),
            }
        }
        let allocated = cpu_ns();
        for (addr, item) in batch.iter().zip(&chosen) {
            self.machine.store(*addr, self.items.item(*item))?;
        }
        let copied = cpu_ns();
        for (addr, item) in batch.iter().zip(&chosen) {
            let words = words_of(self.items.bytes(*item));
            if self.has_accounts {
                self.part.frame_runs += self.machine.runs(*addr, words)?;
            }
            if self.machine.sum(*addr, words)? != self.items.sums[*item] {
                return Err(Failure::new(format!(
                    "the bytes at {addr} are not the item's"
                )));
            }
        }
        let summed = cpu_ns();
        self.live.push_back(batch);
        if self.live.len() > self.plan.held {
            for addr in self.live.pop_front().unwrap_or_default() {
                self.seat.kvfree(addr)?;
            }
        }
        let freed = cpu_ns();
        let part = &mut self.part;
        let (calls, kvmalloc_ns) = if is_timed {
            (&mut part.timed_calls, &mut part.timed_kvmalloc_ns)
        } else {
            (&mut part.calls, &mut part.kvmalloc_ns)
        };
        *calls += self.plan.items as u64;
        *kvmalloc_ns += allocated - begin;
        part.copy_ns += copied - allocated;
        part.free_ns += freed - summed;
        part.commits += 1;
        Ok(())
    }

    /// A buffer for which there was no frame: lets the background work.
    fn wait_for(&mut self, bytes: u64) -> Result<Addr, Failure> {
        for _ in 0..WAITS_MAX {
            self.part.waits += 1;
            self.wake.wake(0);
            let begin = cpu_ns();
            self.part.reclaimed += self.reclaim()? as u64;
            self.part.reclaim_ns += cpu_ns() - begin;
            if let Some(addr) = self.seat.kvmalloc(bytes)? {
                return Ok(addr);
            }
            std::thread::yield_now();
        }
        Err(Failure::new(
            "there are no frames for a buffer, however long it waits",
        ))
    }
}
