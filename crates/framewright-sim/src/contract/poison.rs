//! The poison test: guests, owners and a cleaner at once, on threads, with every word checked.
//!
//! ```text
//!     guest ──put, get, invalidate──▶ Site ◀──take, release── owner: fills what it took, and checks it
//!       │ knows what each of its                                      before it gives it back
//!       │ pages was put as last ◀──── versions on the device ◀──── cleaner
//! ```
//!
//! Each page carries its name and its version in every word, so the test notices every page that a
//! guest gets and did not put last. It checks, by the letters of the [engine's
//! reserve](framewright::reserve):
//!
//! - C2: a frame has one owner at a time, and O3: no other thread writes to it meanwhile;
//! - C3: a take of a reservation succeeds each time;
//! - C4, C5: a get returns what was put last, whole, or nothing, and then nothing until the next
//!   put;
//! - C6: no get finds a page that was invalidated, by page, object or pool;
//! - C7: a dirty page is found, unless the cleaner has written this version.
//!
//! A [`PoisonSite`] has a store and owners. The engine's on real memory is in the tests of
//! `framewright-linux`, and the proposal's is in the laboratory. One thread makes all calls with
//! one key (S8). The seed decides what each thread asks for; the machine decides the order, and so
//! the numbers of the report.

use super::{page, stamp};
use crate::{Difference, Random};
use framewright::reserve::{Key, PoolId, Store};
use framewright::{Frame, Run};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

mod guest;

/// The use of a guest's pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolPlan {
    /// A get takes its page away.
    pub exclusive: bool,
    /// Pages may be put that are on no device yet.
    pub may_be_dirty: bool,
    /// Its pages belong to objects, each of which can be invalidated; else all keys have object 0.
    pub has_objects: bool,
}

impl PoolPlan {
    const fn object(self, guest: u64, index: u64) -> u64 {
        match self.has_objects {
            true => guest * OBJECTS + index % OBJECTS,
            false => 0,
        }
    }
}

/// A store for guests, with owners; shared by all threads.
pub trait PoisonSite: Sync {
    /// The frames that owners may get.
    fn frames(&self) -> Run;

    /// The pools of each guest, up to 16.
    fn pools(&self) -> Vec<PoolPlan>;

    /// Opens the `nth` of those for a guest; `None` if the store refuses it.
    fn open_pool(&self, nth: usize) -> Option<PoolId>;

    /// The `nth` guest's store: asked for once, on the guest's thread.
    fn guest(&self, nth: u16) -> Box<dyn Store + '_>;

    /// The `nth` owner: asked for once, on the owner's thread.
    fn owner(&self, nth: u16) -> Box<dyn PoisonOwner + '_>;

    /// Has up to `pages` dirty pages written: calls `write` with the key and contents of each,
    /// which returns whether the page is on its device now.
    fn clean(&self, pages: u64, write: &mut dyn FnMut(&Key, &[u64; 512]) -> bool) {
        let _ = (pages, write);
    }

    /// Writes `word` into every word of a frame that an owner has.
    fn fill(&self, frame: Frame, word: u64);

    /// Whether every word of a frame is `word`.
    fn is_filled(&self, frame: Frame, word: u64) -> bool;
}

/// An owner: it takes runs.
pub trait PoisonOwner {
    /// A run of this many frames, the first at a multiple of `align`; `None` if there is none.
    fn take(&mut self, frames: u64, align: u64) -> Option<Run>;

    /// How many reservations it has.
    fn reservations(&self) -> usize {
        0
    }

    /// Takes the `nth` of them, which it does not have at the moment; `None` breaks C3.
    fn take_reserved(&mut self, nth: usize) -> Option<Run> {
        let _ = nth;
        None
    }

    /// Gives back the run that it took, or a part of one that was not reserved. Returns whether
    /// that was possible.
    fn release(&mut self, run: Run) -> bool;
}

/// How long the test goes on, and with how many threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoisonPlan {
    /// The source of all threads' random numbers.
    pub seed: u64,
    /// Puts, gets and invalidations of all guests together, at least.
    pub ops: u64,
    /// Guests, 1 to 16.
    pub guests: u16,
    /// Owners.
    pub owners: u16,
    /// Pages that each guest has in each of its pools, 1 to 65,536.
    pub pages: u64,
}

/// The calls done, without any error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoisonReport {
    /// Pages stored.
    pub stored: u64,
    /// Puts that were refused.
    pub refused: u64,
    /// Gets that found a page, each of which was checked.
    pub hits: u64,
    /// Gets that found none.
    pub misses: u64,
    /// Invalidations of a page, an object or a pool.
    pub invalidated: u64,
    /// Runs that owners took.
    pub takes: u64,
    /// Those of them that were reservations.
    pub reserved_takes: u64,
    /// Requests that found no room for a run.
    pub no_room: u64,
    /// Frames in all runs.
    pub frames_taken: u64,
    /// Dirty pages that were written.
    pub written: u64,
}

impl PoisonReport {
    /// Puts, gets and invalidations.
    #[must_use]
    pub const fn ops(&self) -> u64 {
        self.stored + self.refused + self.hits + self.misses + self.invalidated
    }

    fn add(&mut self, other: &Self) {
        self.stored += other.stored;
        self.refused += other.refused;
        self.hits += other.hits;
        self.misses += other.misses;
        self.invalidated += other.invalidated;
        self.takes += other.takes;
        self.reserved_takes += other.reserved_takes;
        self.no_room += other.no_room;
        self.frames_taken += other.frames_taken;
        self.written += other.written;
    }
}

/// Objects in each pool of a guest.
const OBJECTS: u64 = 3;
/// Runs that an owner has at a time.
const HELD: usize = 4;
/// The fewest rounds of each owner and of the cleaner, even if the guests are done before they
/// begin.
const ROUNDS_MIN: u64 = 200;
/// What owners write, except for the low bits: no word of a guest's page has this value.
const POISON: u64 = 0xdead_beef_dead_0000;
/// The low bits of a page of one repeated word.
const REPEATED: u64 = 0xffff;

/// A page of a guest's, and its version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct PageName {
    guest: u64,
    pool: u64,
    index: u64,
    version: u64,
}

impl PageName {
    const fn stamp(self) -> u64 {
        self.guest << 44 | self.pool << 40 | self.index << 24 | self.version & 0xff_ffff
    }

    const fn of(stamp: u64) -> Self {
        Self {
            guest: stamp >> 44,
            pool: stamp >> 40 & 0xf,
            index: stamp >> 24 & 0xffff,
            version: stamp & 0xff_ffff,
        }
    }

    /// Now and then a page of one repeated word, which needs no frame.
    fn page(self) -> [u64; 512] {
        match self.version % 16 {
            0 => [self.stamp() << 16 | REPEATED; 512],
            _ => page(self.stamp()),
        }
    }

    /// The name on a page; `None` if the page is a mix, torn, or an owner's.
    fn read(page: &[u64; 512]) -> Option<Self> {
        let stamp = match page[0] & REPEATED {
            REPEATED => page.iter().all(|w| *w == page[0]).then_some(page[0] >> 16),
            _ => stamp(page),
        };
        stamp.map(Self::of)
    }
}

/// What all threads share.
struct PoisonShared<'s> {
    site: &'s dyn PoisonSite,
    plan: PoisonPlan,
    pools: Vec<PoolPlan>,
    /// The version of each page on the device.
    device: Vec<AtomicU64>,
    /// Whether an owner has each frame.
    owned: Vec<AtomicBool>,
    guests_left: AtomicU64,
    is_over: AtomicBool,
    wrong: Mutex<Option<Difference>>,
    start: Barrier,
    report: Mutex<PoisonReport>,
}

impl PoisonShared<'_> {
    fn wrong(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.get_or_insert(Difference(what));
        self.is_over.store(true, Relaxed);
    }

    /// Whether owners and the cleaner, after this many rounds, do another one.
    fn goes_on(&self, rounds: u64) -> bool {
        let is_wanted = rounds < ROUNDS_MIN || self.guests_left.load(Relaxed) > 0;
        is_wanted && !self.is_over.load(Relaxed)
    }

    fn random(&self, thread: u64) -> Random {
        Random::new(self.plan.seed.wrapping_mul(1 << 32).wrapping_add(thread))
    }

    fn on_device(&self, name: PageName) -> Option<&AtomicU64> {
        let page = name.guest * self.pools.len() as u64 + name.pool;
        let is_one = name.pool < self.pools.len() as u64 && name.index < self.plan.pages;
        let at = page * self.plan.pages + name.index;
        self.device.get(at as usize).filter(|_| is_one)
    }

    fn add(&self, report: &PoisonReport) {
        let mut sum = self.report.lock().unwrap_or_else(PoisonError::into_inner);
        sum.add(report);
    }
}

/// An owner's run, the word that it is filled with, and which reservation it is.
type OwnedRun = (Run, u64, Option<usize>);

/// Checks an owner's run, and gives it back, in two parts where that is possible.
fn give_back(shared: &PoisonShared<'_>, owner: &mut dyn PoisonOwner, held: OwnedRun) {
    let (run, word, reserved) = held;
    let first = shared.site.frames().start().0;
    for frame in run.start().0..run.end().0 {
        if !shared.site.is_filled(Frame(frame), word) {
            shared.wrong(format!("O3: frame {frame} of {run:?} was written to"));
        }
        shared.owned[(frame - first) as usize].store(false, SeqCst);
    }
    let cut = match reserved {
        None => run.frames() / 2,
        Some(_) => 0,
    };
    let parts = [
        (run.start(), cut),
        (Frame(run.start().0 + cut), run.frames() - cut),
    ];
    for part in parts {
        let part = Run::new(part.0, part.1).filter(|part| !part.is_empty());
        if part.is_some_and(|part| !owner.release(part)) {
            shared.wrong(format!("{part:?} is not taken back"));
        }
    }
}

fn owner(shared: &PoisonShared<'_>, nth: u16) {
    shared.start.wait();
    let mut owner = shared.site.owner(nth);
    let mut random = shared.random(1000 + u64::from(nth));
    let (frames, mut report) = (shared.site.frames(), PoisonReport::default());
    let mut held: Vec<OwnedRun> = Vec::new();
    let mut rounds = 0;
    while shared.goes_on(rounds) {
        rounds += 1;
        if held.len() == HELD || random.chance(30) && !held.is_empty() {
            let which = random.below(held.len() as u64) as usize;
            give_back(shared, &mut *owner, held.swap_remove(which));
            thread::yield_now();
            continue;
        }
        let reserved = random.below(1 + 2 * owner.reservations() as u64) as usize;
        let reserved = (reserved < owner.reservations()).then_some(reserved);
        if reserved.is_some() && held.iter().any(|held| held.2 == reserved) {
            continue;
        }
        let run = match reserved {
            Some(which) => owner.take_reserved(which),
            None => {
                // As many short runs as long ones.
                let most = frames.frames() >> (2 + random.below(8));
                owner.take(1 + random.below(most.max(1)), 1 << random.below(4))
            }
        };
        let Some(run) = run else {
            report.no_room += 1;
            if reserved.is_some() {
                shared.wrong(format!("C3: reservation {reserved:?} is not had"));
            }
            continue;
        };
        report.takes += 1;
        report.reserved_takes += u64::from(reserved.is_some());
        report.frames_taken += run.frames();
        let word = POISON | random.below(REPEATED);
        for frame in run.start().0..run.end().0 {
            let is_in = frames.start().0 <= frame && frame < frames.end().0;
            let mark = (frame.wrapping_sub(frames.start().0)) as usize;
            if !is_in || shared.owned[mark].swap(true, SeqCst) {
                return shared.wrong(format!("C2: frame {frame} of {run:?} is another one's"));
            }
            shared.site.fill(Frame(frame), word);
        }
        held.push((run, word, reserved));
    }
    for held in held {
        give_back(shared, &mut *owner, held);
    }
    shared.add(&report);
}

fn cleaner(shared: &PoisonShared<'_>) {
    shared.start.wait();
    let mut report = PoisonReport::default();
    let mut random = shared.random(2000);
    let mut rounds = 0;
    while shared.goes_on(rounds) {
        rounds += 1;
        thread::yield_now();
        // Slower than the guests make pages dirty.
        if !random.chance(20) {
            continue;
        }
        shared.site.clean(1 + random.below(16), &mut |key, page| {
            // The device fails now and then.
            if random.chance(2) {
                return false;
            }
            let name = PageName::read(page);
            let is_its = |name: &PageName| {
                let pool = shared.pools.get(name.pool as usize);
                let object = pool.map(|pool| pool.object(name.guest, name.index));
                (object, name.index) == (Some(key.object), key.index)
            };
            let word = name
                .filter(is_its)
                .and_then(|name| Some((name, shared.on_device(name)?)));
            match word {
                Some((name, word)) => {
                    word.fetch_max(name.version, SeqCst);
                }
                None => shared.wrong(format!("C7: {name:?} is written for {key:?}")),
            }
            report.written += 1;
            true
        });
    }
    shared.add(&report);
}

/// Runs guests, owners and a cleaner on `site`, each on a thread of its own, until the guests have
/// done this many operations.
///
/// # Errors
/// The first thing that was wrong.
///
/// # Panics
/// If the engine does, or `plan` has an impossible number.
pub fn run(site: &dyn PoisonSite, plan: &PoisonPlan) -> Result<PoisonReport, Difference> {
    let pools = site.pools();
    let in_range = (1..=16).contains(&plan.guests) && (1..=1 << 16).contains(&plan.pages);
    assert!(in_range && (1..=16).contains(&pools.len()), "{plan:?}");
    let pages = u64::from(plan.guests) * pools.len() as u64 * plan.pages;
    let threads = usize::from(plan.guests) + usize::from(plan.owners) + 1;
    let shared = PoisonShared {
        site,
        plan: *plan,
        pools,
        device: (0..pages).map(|_| AtomicU64::new(0)).collect(),
        owned: (0..site.frames().frames())
            .map(|_| AtomicBool::new(false))
            .collect(),
        guests_left: AtomicU64::new(plan.guests.into()),
        is_over: AtomicBool::new(false),
        wrong: Mutex::default(),
        start: Barrier::new(threads),
        report: Mutex::default(),
    };
    thread::scope(|scope| {
        let shared = &shared;
        for nth in 0..plan.guests {
            scope.spawn(move || guest::guest(shared, nth));
        }
        for nth in 0..plan.owners {
            scope.spawn(move || owner(shared, nth));
        }
        cleaner(shared);
    });
    let wrong = shared.wrong.into_inner();
    match wrong.unwrap_or_else(PoisonError::into_inner) {
        Some(wrong) => Err(wrong),
        None => Ok(shared
            .report
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Fails {
        Pool,
        Guest,
        Owner,
    }

    /// Has no such thing, and one of its threads does not start.
    struct BrokenSite(Fails);

    impl PoisonSite for BrokenSite {
        fn frames(&self) -> Run {
            Run::new(Frame(0), 8).unwrap()
        }

        fn pools(&self) -> Vec<PoolPlan> {
            vec![PoolPlan {
                exclusive: false,
                may_be_dirty: false,
                has_objects: false,
            }]
        }

        fn open_pool(&self, _nth: usize) -> Option<PoolId> {
            assert_ne!(self.0, Fails::Pool);
            None
        }

        fn guest(&self, _nth: u16) -> Box<dyn Store + '_> {
            panic!("no guest")
        }

        fn owner(&self, _nth: u16) -> Box<dyn PoisonOwner + '_> {
            assert_ne!(self.0, Fails::Owner);
            Box::new(Idle)
        }

        fn fill(&self, _frame: Frame, _word: u64) {}

        fn is_filled(&self, _frame: Frame, _word: u64) -> bool {
            true
        }
    }

    struct Idle;

    impl PoisonOwner for Idle {
        fn take(&mut self, _frames: u64, _align: u64) -> Option<Run> {
            None
        }

        fn release(&mut self, _run: Run) -> bool {
            false
        }
    }

    #[test]
    fn a_thread_that_panics_before_any_work_keeps_no_other_waiting() {
        let plan = PoisonPlan {
            seed: 1,
            ops: 100,
            guests: 2,
            owners: 2,
            pages: 4,
        };
        for fails in [Fails::Pool, Fails::Guest, Fails::Owner] {
            let ran = catch_unwind(AssertUnwindSafe(|| run(&BrokenSite(fails), &plan)));
            assert!(ran.is_err(), "{fails:?}");
        }
    }
}
