//! A reserve and its model in step: one operation after the other on both, with what differs as an error.

mod guests;
mod owners;
mod put_pages;
mod supplies;

use super::case::NO_POWER;
use super::{Ground, POOLS, ReserveCase, ReserveLie, ReserveOp};
use crate::difference::differ;
use crate::drive::{InStep, in_step};
use crate::{Difference, Finding, Machine, RunSummary};
use framewright::reserve::{Guest, Key, Reservation, Reserve, ReserveLayout};
use framewright::{CpuId, Frame, Run};
use put_pages::{PagePlace, PutPage, PutPages};

/// Reservations of the other reserve.
const STRANGERS: u64 = 8;

type PairChecked = Result<(), Difference>;

struct HeldRun {
    reservation: Reservation,
    run: Run,
    taken: bool,
}

struct ReservePair<'r, 'm, 'g> {
    case: &'r ReserveCase,
    ground: &'g Ground,
    reserve: &'r Reserve<'m, &'g Ground>,
    guests: [Guest<'r, 'm, &'g Ground>; 2],
    pools: Vec<framewright::reserve::PoolId>,
    pages: PutPages,
    /// How many dirty pages that died with a predecessor of each pool may still be there.
    dead: [u64; POOLS.len()],
    owned: Vec<Run>,
    reservations: Vec<HeldRun>,
    /// Reservations of another reserve.
    strangers: Vec<Reservation>,
    put_back_pages: u64,
    stamps: u64,
    lied: bool,
    summary: RunSummary,
}

/// Runs a sequence on a reserve and its model.
///
/// # Errors
/// The first difference.
///
/// # Panics
/// If no reserve can have the case's layout.
pub fn run(
    case: &ReserveCase,
    ground: &Ground,
    ops: impl IntoIterator<Item = ReserveOp>,
) -> Result<RunSummary, Finding> {
    let layout = ReserveLayout {
        pools: POOLS.len() as u16,
        values: case.values,
        ..ReserveLayout::new(Run::new(Frame(0), case.frames).expect("a run"))
            .with_cpus(2)
            .with_ordinary(case.ordinary)
    };
    let mut words = vec![!0; layout.words_needed().expect("a layout")];
    let reserve = Reserve::new(&layout, &mut words, ground).expect("a reserve");
    // Another reserve over frames of the same numbers, with as many reservations as it can have.
    let layout = ReserveLayout::new(Run::new(Frame(0), STRANGERS).expect("a run"));
    let mut words = vec![!0; layout.words_needed().expect("a layout")];
    let stranger = Reserve::new(&layout, &mut words, ground).expect("a reserve");
    let strangers = (0..STRANGERS).map(|_| stranger.reserve("stranger", 1, 1).expect("room"));
    let seat = |cpu| reserve.guest(CpuId(cpu)).expect("a seat");
    let pools = POOLS.iter().map(|config| reserve.open_pool(config));
    let mut pair = ReservePair {
        case,
        ground,
        reserve: &reserve,
        guests: [seat(0), seat(1)],
        pools: pools.map(|pool| pool.expect("room for all")).collect(),
        pages: PutPages::default(),
        dead: [0; POOLS.len()],
        owned: Vec::new(),
        reservations: Vec::new(),
        strangers: strangers.collect(),
        put_back_pages: 0,
        stamps: 0,
        lied: false,
        summary: RunSummary::default(),
    };
    in_step(&mut pair, case.cadence, ops)
}

const fn align(log: u8) -> u64 {
    if log == NO_POWER { 3 } else { 1 << log }
}

impl ReservePair<'_, '_, '_> {
    fn key(&self, (pool, object, index): PagePlace) -> Key {
        Key {
            pool: self.pools[pool],
            object,
            index,
        }
    }

    /// Whether to tell the lie now; it is told once.
    fn lies(&mut self, lie: ReserveLie) -> bool {
        let now = self.case.lie == lie && !self.lied;
        self.lied |= now;
        now
    }

    fn count(&mut self, is_served: bool) {
        if is_served {
            self.summary.served += 1;
        } else {
            self.summary.refused += 1;
        }
    }
}

impl InStep for ReservePair<'_, '_, '_> {
    type Op = ReserveOp;

    fn machine(&self) -> &Machine {
        self.ground.machine()
    }

    fn summary(&mut self) -> &mut RunSummary {
        &mut self.summary
    }

    fn step(&mut self, op: ReserveOp) -> PairChecked {
        let at = |pool: u8, object: u8, index: u8| {
            let pool = usize::from(pool) % POOLS.len();
            (pool, u64::from(object), u64::from(index))
        };
        match op {
            ReserveOp::Put {
                cpu,
                pool,
                object,
                index,
                dirty,
                value,
            } => self.put(cpu, at(pool, object, index), dirty, value),
            ReserveOp::Get {
                cpu,
                pool,
                object,
                index,
            } => self.get(cpu, at(pool, object, index)),
            ReserveOp::InvalidatePage {
                cpu,
                pool,
                object,
                index,
            } => self.invalidate(cpu, at(pool, object, index), 0),
            ReserveOp::InvalidateObject { cpu, pool, object } => {
                self.invalidate(cpu, at(pool, object, 0), 1)
            }
            ReserveOp::InvalidatePool { cpu, pool } => self.invalidate(cpu, at(pool, 0, 0), 2),
            ReserveOp::Clean {
                cpu,
                pages,
                fail_each,
            } => self.clean(cpu, pages.into(), fail_each.into()),
            ReserveOp::Alloc {
                frames,
                align_log,
                put_back,
                meddles,
            } => {
                let put_back = put_back.then_some(meddles);
                self.alloc(frames.into(), align(align_log), put_back)
            }
            ReserveOp::Release { pick } => self.release(pick),
            ReserveOp::ReleaseAny { at, frames } => {
                let run = Run::new(Frame(at.into()), frames.into());
                self.release_any(run.expect("a small number"))
            }
            ReserveOp::Reserve { frames, align_log } => {
                self.reserve(frames.into(), align(align_log))
            }
            ReserveOp::Take { pick } => self.take(pick),
            ReserveOp::Unreserve { pick } => self.unreserve(pick),
            ReserveOp::Collect => self.collect(),
            ReserveOp::Cross { pick } => self.cross(pick),
            ReserveOp::List => self.list(),
            ReserveOp::AgeFrames { generations } => {
                self.reserve.age_frames(generations);
                Ok(())
            }
            ReserveOp::AgePools { times } => {
                self.age_pools(times);
                Ok(())
            }
            ReserveOp::Stock { frames } => {
                let frames = if frames == u8::MAX {
                    usize::MAX
                } else {
                    frames.into()
                };
                self.ground.stock(frames);
                Ok(())
            }
        }
    }

    fn compare_counters(&mut self) -> PairChecked {
        if self.pages.dirty() > 0 && self.lies(ReserveLie::DropDirty) {
            let dirty = self.pages.iter().find(|(_, page)| page.is_dirty);
            let at = *dirty.expect("there is one").0;
            let key = self.key(at);
            self.guests[1].invalidate_page(key);
        }
        let stats = self.reserve.stats();
        if stats.put_back_pages < self.put_back_pages {
            return differ!("fewer pages were put back than before");
        }
        self.put_back_pages = stats.put_back_pages;
        let held = stats.guests().held_pages;
        if held < self.pages.dirty() {
            return differ!("C7: {held} pages held, {} are dirty", self.pages.dirty());
        }
        Ok(())
    }

    fn verify(&mut self) -> PairChecked {
        let broken = |broken| Difference(format!("{broken}"));
        self.reserve.verify().map_err(broken)?;
        assert_eq!(self.pages.dirty(), self.pages.recounted());
        let is_there = |(at, page): (&PagePlace, &PutPage)| {
            (page.is_dirty && !POOLS[at.0].exclusive).then_some(*at)
        };
        let dirty: Vec<PagePlace> = self.pages.iter().filter_map(is_there).collect();
        dirty.into_iter().try_for_each(|at| self.get(0, at))?;
        let occupancy = self.reserve.occupancy();
        let all = occupancy.dirty + occupancy.writing + occupancy.put_back;
        let (least, dead) = (self.pages.dirty(), self.dead.iter().sum::<u64>());
        if !(least..=least + dead).contains(&all) {
            return differ!("C7: {all} dirty pages, {least} and at most {dead} dead expected");
        }
        let reserved = self.reservations.iter().filter(|held| held.taken);
        let mut owned = self
            .owned
            .iter()
            .copied()
            .chain(reserved.map(|held| held.run));
        owned.try_for_each(|run| self.ground.expect_filled(run))
    }

    fn free_everything(&mut self) -> PairChecked {
        while !self.owned.is_empty() || self.reservations.iter().any(|held| held.taken) {
            self.release(0)?;
        }
        while !self.reservations.is_empty() {
            self.unreserve(0)?;
        }
        for pool in 0..POOLS.len() {
            self.invalidate(0, (pool, 0, 0), 2)?;
        }
        self.clean(0, u64::MAX, 0)?;
        self.collect()?;
        self.alloc(self.case.frames, 1, None)?;
        self.release(0)?;
        match (self.ground.lent(), self.reserve.stats().guests().held_pages) {
            (0, _) => self.verify(),
            (lent, held) => differ!("{lent} ordinary frames and {held} pages are left"),
        }
    }

    fn check_platform(&self) -> PairChecked {
        self.ground
            .wrong()
            .map_or(Ok(()), |wrong| Err(Difference(wrong)))
    }
}
