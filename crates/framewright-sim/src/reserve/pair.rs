use super::case::NO_POWER;
use super::{Ground, POOLS, ReserveCase, ReserveLie, ReserveOp};
use crate::difference::differ;
use crate::drive::{InStep, in_step};
use crate::{Difference, Finding, Machine, RunSummary};
use framewright::RunError;
use framewright::frame::{AllocError, FrameSource};
use framewright::reclaim::{Ask, Shrink};
use framewright::reserve::{Guest, Key, PutRefused, Reservation, Reserve, ReserveLayout};
use framewright::{Context, CpuId, Frame, Order, Run};
use std::collections::BTreeMap;

/// Reservations of the other reserve.
const STRANGERS: u64 = 8;

type PairChecked = Result<(), Difference>;
type PagePlace = (usize, u64, u64);

/// The page put last under a key.
#[derive(Clone, Copy)]
struct PutPage {
    stamp: u64,
    /// It is on no device yet.
    is_dirty: bool,
}

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
    pages: BTreeMap<PagePlace, PutPage>,
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

/// A supply of ordinary frames, with a guest: each time that the owner asks for a frame, the guest
/// invalidates a page, between two steps of the owner's.
struct MeddlingSupply<'a, 'r, 'm, 'g> {
    ground: &'g Ground,
    guest: &'a mut Guest<'r, 'm, &'g Ground>,
    keys: std::vec::IntoIter<(PagePlace, Key)>,
    gone: Vec<PagePlace>,
}

impl FrameSource for MeddlingSupply<'_, '_, '_, '_> {
    fn origin(&self) -> u64 {
        self.ground.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.ground.frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        if let Some((at, key)) = self.keys.next() {
            self.guest.invalidate_page(key);
            self.gone.push(at);
        }
        let mut ground = self.ground;
        ground.alloc_run(frames, context)
    }

    fn free_run(&mut self, run: Run) {
        let mut ground = self.ground;
        ground.free_run(run);
    }
}

/// A source whose frames have the numbers of the ground's.
struct OtherSupply {
    given: u64,
}

impl FrameSource for OtherSupply {
    fn origin(&self) -> u64 {
        1
    }

    fn frames_in_all(&self) -> u64 {
        u64::MAX
    }

    fn alloc_run(&mut self, _frames: u64, _context: Context) -> Result<Run, AllocError> {
        Err(AllocError::Exhausted)
    }

    fn free_run(&mut self, run: Run) {
        self.given += run.frames();
    }
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
        pages: BTreeMap::new(),
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

const fn overlaps(a: Run, b: Run) -> bool {
    a.start().0 < b.end().0 && b.start().0 < a.end().0
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

    fn dirty_of(&self, pool: usize) -> u64 {
        let all = self.pages.range((pool, 0, 0)..(pool + 1, 0, 0));
        all.filter(|(_, page)| page.is_dirty).count() as u64
    }

    fn dirty(&self) -> u64 {
        self.pages.values().filter(|page| page.is_dirty).count() as u64
    }

    fn count(&mut self, is_served: bool) {
        if is_served {
            self.summary.served += 1;
        } else {
            self.summary.refused += 1;
        }
    }

    fn put(&mut self, cpu: u16, at: PagePlace, is_dirty: bool, is_value: bool) -> PairChecked {
        self.stamps += 1;
        let stamp = self.stamps;
        let page = if is_value {
            [stamp << 1; 512]
        } else {
            Ground::page(stamp)
        };
        let key = self.key(at);
        let old = self.pages.remove(&at);
        let stored = if self.lies(ReserveLie::StoreAnother) {
            Ground::page(stamp + 1000)
        } else {
            page
        };
        let guest = &mut self.guests[usize::from(cpu)];
        let put = if is_dirty {
            guest.put_dirty(key, &stored)
        } else {
            guest.put(key, &stored)
        };
        self.count(put.is_ok());
        let config = POOLS[at.0];
        let dirty = if is_dirty { self.dirty_of(at.0) } else { 0 };
        match put {
            Ok(()) if is_dirty && (!config.may_be_dirty || dirty >= config.dirty_pages_max) => {
                return differ!("a dirty page is stored in pool {}, which has {dirty}", at.0);
            }
            Ok(()) => {
                self.pages.insert(at, PutPage { stamp, is_dirty });
                return Ok(());
            }
            Err(PutRefused::NoPool) if is_dirty && !config.may_be_dirty => {}
            Err(PutRefused::DirtyFull)
                if is_dirty && dirty + self.dead[at.0] >= config.dirty_pages_max => {}
            Err(PutRefused::Full) if self.may_be_full(at.0, is_dirty) => {}
            Err(PutRefused::IndexFull) if self.dirty() > 0 => {}
            Err(reason) => return differ!("{at:?} is refused: {reason:?}"),
        }
        if let Some(old) = old
            && self.case.lie == ReserveLie::KeepRefused
            && !self.lied
        {
            // It counts as told when that succeeds: the older version may be refused, too.
            self.lied = self.guests[0].put(key, &Ground::page(old.stamp)).is_ok();
        }
        Ok(())
    }

    /// Whether every frame can be an owner's, a reservation's for a dirty page, a dirty page's, or
    /// among another pool's least; or the pool has its most, perhaps all of it without frames if
    /// one is wanted.
    fn may_be_full(&self, pool: usize, is_dirty: bool) -> bool {
        let others = POOLS.iter().enumerate().filter(|(nth, _)| *nth != pool);
        let least: u64 = others.map(|(_, config)| config.min_pages).sum();
        let owned: u64 = self.owned.iter().map(|run| run.frames()).sum();
        let held = self
            .reservations
            .iter()
            .filter(|held| held.taken || is_dirty);
        let held: u64 = held.map(|held| held.run.frames()).sum();
        let dead: u64 = self.dead.iter().sum();
        // The hand goes round twice in a small reserve, and gives up earlier in a large one.
        self.case.frames > 32
            || POOLS[pool].max_pages != u64::MAX
            || owned + held + self.dirty() + dead + least >= self.case.frames
    }

    fn get(&mut self, cpu: u16, at: PagePlace) -> PairChecked {
        let key = self.key(at);
        let mut out = [7; 512];
        let hit = self.guests[usize::from(cpu)].get(key, &mut out);
        let known = self.pages.get(&at).copied();
        if !hit {
            self.pages.remove(&at);
            return match known {
                Some(page) if page.is_dirty => differ!("C7: the dirty page {at:?} is lost"),
                _ => Ok(()),
            };
        }
        let got = Ground::stamp(&out);
        let Some(page) = known.filter(|page| got == Some(page.stamp)) else {
            let put = known.map(|page| page.stamp);
            return differ!("C5: {at:?} is {got:?}, and {put:?} was put last");
        };
        if POOLS[at.0].exclusive {
            self.pages.remove(&at);
            if self.lies(ReserveLie::KeepGot) {
                let _ = self.guests[0].put(key, &Ground::page(page.stamp));
            }
        }
        Ok(())
    }

    fn invalidate(&mut self, cpu: u16, at: PagePlace, what: u8) -> PairChecked {
        let key = self.key(at);
        let guest = usize::from(cpu);
        match what {
            0 => {
                self.guests[guest].invalidate_page(key);
                self.pages.remove(&at);
            }
            1 => {
                let mut places = self.pages.keys();
                let has_pages = places.any(|other| (other.0, other.1) == (at.0, at.1));
                if !(has_pages && self.lies(ReserveLie::KeepObject)) {
                    self.guests[guest].invalidate_object(key.pool, key.object);
                }
                self.pages
                    .retain(|other, _| (other.0, other.1) != (at.0, at.1));
            }
            _ => {
                self.dead[at.0] += self.dirty_of(at.0);
                self.pages.retain(|other, _| other.0 != at.0);
                if !self.guests[guest].invalidate_pool(key.pool) {
                    return differ!("pool {} was not there", at.0);
                }
                self.closed(guest, key)?;
                match self.reserve.open_pool(&POOLS[at.0]) {
                    Some(pool) => {
                        self.pools[at.0] = pool;
                        // The pages that died with its predecessor are dropped, and count no
                        // longer.
                        self.dead[at.0] = 0;
                    }
                    None => return differ!("pool {} is not opened again", at.0),
                }
            }
        }
        Ok(())
    }

    /// A pool that is closed has no pages, takes none, and is not closed again.
    fn closed(&mut self, guest: usize, key: Key) -> PairChecked {
        let guest = &mut self.guests[guest];
        let put = guest.put(key, &Ground::page(1));
        let got = guest.get(key, &mut [7; 512]);
        match (put, got, guest.invalidate_pool(key.pool)) {
            (Err(PutRefused::NoPool), false, false) => Ok(()),
            found => differ!("a closed pool: {found:?}"),
        }
    }

    fn clean(&mut self, cpu: u16, pages: u64, fail_each: u64) -> PairChecked {
        let (mut calls, mut written, mut wrong) = (0, 0, None);
        let again = self.lies(ReserveLie::WriteTwice);
        let (model, pools, ground) = (&mut self.pages, &self.pools, self.ground);
        let cleaned = self.guests[usize::from(cpu)].clean(pages, |key, frame| {
            calls += 1;
            let pool = pools.iter().position(|pool| *pool == key.pool);
            let at = (pool.unwrap_or(usize::MAX), key.object, key.index);
            match model.get_mut(&at) {
                Some(page) if page.is_dirty && ground.stamp_in(frame) == Some(page.stamp) => {
                    let fails = fail_each != 0 && calls % fail_each == 0;
                    page.is_dirty = fails;
                    written += u64::from(!fails);
                    // The lie says that it was not written, and has it written once more.
                    !fails && !again
                }
                _ => {
                    wrong = Some(at);
                    false
                }
            }
        });
        if let Some(at) = wrong {
            return differ!("{at:?} is written, and is not the page to be written");
        }
        let dead: u64 = self.dead.iter().sum();
        if !again && (cleaned.written, cleaned.failed) != (written, calls - written)
            || cleaned.overtaken > dead
        {
            return differ!("{cleaned:?} after {calls} calls, of which {written} wrote");
        }
        if pages == u64::MAX {
            self.dead = [0; POOLS.len()];
        }
        Ok(())
    }

    /// A request that puts pages back, while the first `meddles` times that a frame is asked for a page of those that
    /// may be moved goes.
    fn alloc_with(&mut self, frames: u64, align: u64, meddles: u8) -> Result<Run, RunError> {
        let is = |(at, page): &(&PagePlace, &PutPage)| page.is_dirty && POOLS[at.0].put_back;
        let places = self.pages.iter().filter(is).map(|(at, _)| *at);
        // Other ones each time: those that were put lately lie anywhere in this order.
        let skipped = self.stamps as usize % 3;
        let places = places.skip(skipped).take(meddles.into());
        let keys: Vec<_> = places.map(|at| (at, self.key(at))).collect();
        let mut supply = MeddlingSupply {
            ground: self.ground,
            guest: &mut self.guests[1],
            keys: keys.into_iter(),
            gone: Vec::new(),
        };
        let taken = self.reserve.alloc_contig_with(frames, align, &mut supply);
        for at in supply.gone {
            self.pages.remove(&at);
        }
        taken
    }

    fn alloc(&mut self, frames: u64, align: u64, put_back: Option<u8>) -> PairChecked {
        let taken = match put_back {
            Some(meddles) => self.alloc_with(frames, align, meddles),
            None => self.reserve.alloc_contig(frames, align),
        };
        self.count(taken.is_ok());
        // The dirty page that was in the way may be gone.
        let meddles = put_back.is_some_and(|meddles| meddles > 0);
        if frames == 0 || !align.is_power_of_two() {
            return match taken {
                Err(RunError::Malformed) => Ok(()),
                other => differ!("{frames} frames at {align}: {other:?}"),
            };
        }
        let has_room = || {
            let starts = (0..self.case.frames).step_by(align as usize);
            let mut runs = starts.filter_map(|start| Run::new(Frame(start), frames));
            let reserved = self.reservations.iter().map(|held| held.run);
            let taken: Vec<Run> = self.owned.iter().copied().chain(reserved).collect();
            runs.any(|run| {
                run.end().0 <= self.case.frames && !taken.iter().any(|other| overlaps(run, *other))
            })
        };
        match taken {
            Ok(run) => {
                let reserved = self.reservations.iter().map(|held| held.run);
                let mut others = self.owned.iter().copied().chain(reserved);
                if let Some(other) = others.find(|other| overlaps(*other, run)) {
                    return differ!("C2: {run:?} overlaps {other:?}");
                }
                if run.frames() != frames
                    || run.start().0 % align != 0
                    || run.end().0 > self.case.frames
                {
                    return differ!("asked for {frames} at {align}, got {run:?}");
                }
                self.ground.own(run, true);
                self.owned.push(run);
                if self.lies(ReserveLie::OwnTwice) {
                    let released = self.reserve.release(run);
                    return released.map_err(|error| Difference(error.to_string()));
                }
                Ok(())
            }
            Err(RunError::NoRoom) if self.dirty() > 0 || meddles || !has_room() => Ok(()),
            Err(RunError::NoMemory(_)) if put_back.is_some() && (self.dirty() > 0 || meddles) => {
                Ok(())
            }
            Err(error) => differ!("no run of {frames} at {align}: {error}"),
        }
    }

    fn release(&mut self, pick: u32) -> PairChecked {
        let taken = self.reservations.iter_mut().filter(|held| held.taken);
        let mut taken: Vec<&mut HeldRun> = taken.collect();
        let all = self.owned.len() + taken.len();
        if all == 0 {
            return Ok(());
        }
        let pick = pick as usize % all;
        let run = match pick.checked_sub(self.owned.len()) {
            Some(reserved) => {
                taken[reserved].taken = false;
                taken[reserved].run
            }
            None => self.owned.swap_remove(pick),
        };
        if !self.ground.is_filled(run) {
            return differ!("{run:?} is an owner's, but was written");
        }
        self.ground.own(run, false);
        let released = self.reserve.release(run);
        released.map_err(|error| Difference(format!("{run:?} is not released: {error}")))
    }

    /// Any run: an owner's, a part of it or of several, or a taken reservation's, and nothing else.
    fn release_any(&mut self, run: Run) -> PairChecked {
        let taken = self.reservations.iter_mut().filter(|held| held.taken);
        let reserved = { taken }.find(|held| held.run == run);
        let mut owned: u64 = 0;
        for other in &self.owned {
            let (start, end) = (run.start().max(other.start()), run.end().min(other.end()));
            owned += end.0.saturating_sub(start.0);
        }
        let may = run.frames() > 0 && (reserved.is_some() || owned == run.frames());
        if may && !self.ground.is_filled(run) {
            return differ!("somebody wrote in {run:?}, which is an owner's");
        }
        if may {
            self.ground.own(run, false);
        }
        match self.reserve.release(run) {
            Ok(()) if may => {}
            Err(RunError::NotOwned(at)) if !may && at == run => return Ok(()),
            other => {
                return differ!("the release of {run:?}, of which {owned} are owned: {other:?}");
            }
        }
        if let Some(held) = reserved {
            held.taken = false;
            return Ok(());
        }
        let part = |from: Frame, to: Frame| {
            let frames = to.0.saturating_sub(from.0);
            Run::new(from, frames).filter(|_| frames > 0)
        };
        let parts = self.owned.iter().flat_map(|other| {
            [
                part(other.start(), other.end().min(run.start())),
                part(other.start().max(run.end()), other.end()),
            ]
        });
        self.owned = parts.flatten().collect();
        Ok(())
    }

    fn reserve(&mut self, frames: u64, align: u64) -> PairChecked {
        let is_possible = frames > 0 && align.is_power_of_two();
        match self.reserve.reserve("model", frames, align) {
            Err(RunError::Malformed) if !is_possible => Ok(()),
            other if !is_possible => differ!("{frames} frames at {align}: {other:?}"),
            Ok(reservation) => {
                let run = self.reserve.run_of(reservation);
                let run = run.ok_or(Difference("a reservation has no run".into()))?;
                let reserved = self.reservations.iter().map(|held| held.run);
                let mut others = self.owned.iter().copied().chain(reserved);
                if let Some(other) = others.find(|other| overlaps(*other, run)) {
                    return differ!("C2: the reservation {run:?} overlaps {other:?}");
                }
                let taken = false;
                self.reservations.push(HeldRun {
                    reservation,
                    run,
                    taken,
                });
                Ok(())
            }
            Err(RunError::NoRoom | RunError::Held) => Ok(()),
            Err(RunError::TooMany(max)) if self.reservations.len() == max => Ok(()),
            Err(error) => differ!("no reservation of {frames} at {align}: {error}"),
        }
    }

    fn take(&mut self, pick: u32) -> PairChecked {
        let len = self.reservations.len();
        let Some(held) = self.reservations.get_mut(pick as usize % len.max(1)) else {
            return Ok(());
        };
        // No guest is at work meanwhile, so nothing has to be waited for.
        let taken = if pick.is_multiple_of(2) {
            self.reserve.take(held.reservation)
        } else {
            self.reserve.try_take(held.reservation, 0)
        };
        let expected = if held.taken {
            Err(RunError::Taken(held.run))
        } else {
            Ok(held.run)
        };
        if taken != expected {
            return differ!("C3: {taken:?}, and {expected:?} was expected");
        }
        if !held.taken {
            self.ground.own(held.run, true);
        }
        held.taken = true;
        Ok(())
    }

    fn unreserve(&mut self, pick: u32) -> PairChecked {
        if self.reservations.is_empty() {
            return Ok(());
        }
        let pick = pick as usize % self.reservations.len();
        let held = &self.reservations[pick];
        match self.reserve.unreserve(held.reservation) {
            Err(RunError::Taken(run)) if held.taken && run == held.run => {}
            Ok(()) if !held.taken => {
                self.reservations.swap_remove(pick);
            }
            other => return differ!("{other:?} when {:?} was given up", held.run),
        }
        Ok(())
    }

    /// Checks that a reservation of another reserve is unknown to this one, and that another source gets none of the
    /// ordinary frames (C11).
    fn cross(&mut self, pick: u32) -> PairChecked {
        let stranger = self.strangers[pick as usize % self.strangers.len()];
        let run = self.reserve.run_of(stranger);
        let taken = self.reserve.take(stranger);
        let given_up = self.reserve.unreserve(stranger);
        if (run, taken, given_up) != (None, Err(RunError::Unknown), Err(RunError::Unknown)) {
            return differ!(
                "C2: another reserve's {stranger:?} is {run:?}, {taken:?}, {given_up:?}"
            );
        }
        let mut other = OtherSupply { given: 0 };
        let collected = self.reserve.collect(&mut other);
        // Before the first frame was put back into, any source will do.
        let is_known = self.ground.lent() > 0;
        let taken = is_known.then(|| self.reserve.alloc_contig_with(1, 1, &mut other));
        let is_refused = taken.is_none_or(|taken| taken == Err(RunError::OtherFrames));
        match (collected, other.given, is_refused) {
            (0, 0, true) => Ok(()),
            _ => differ!(
                "C11: another source got {} frames, or {taken:?}",
                other.given
            ),
        }
    }

    /// Checks that every reservation is listed once, and that the callback may ask the reserve.
    fn list(&self) -> PairChecked {
        let mut left: Vec<&HeldRun> = self.reservations.iter().collect();
        let mut wrong = None;
        self.reserve.for_each_reservation(|name, run, taken| {
            let is = |held: &&HeldRun| (held.run, held.taken) == (run, taken);
            let at = left
                .iter()
                .position(|held| is(held) && self.reserve.run_of(held.reservation) == Some(run));
            match at.filter(|_| name == "model") {
                Some(at) => drop(left.swap_remove(at)),
                None => wrong = Some(run),
            }
        });
        match (wrong, left.first()) {
            (None, None) => Ok(()),
            (Some(run), _) => differ!("{run:?} is listed, and is no such reservation"),
            (_, Some(held)) => differ!("{:?} is not listed", held.run),
        }
    }

    /// Ages the pools by a year.
    fn age_pools(&mut self, times: u64) {
        self.reserve.age_pools(times);
        for pool in 0..POOLS.len() {
            self.dead[pool] += self.dirty_of(pool);
        }
        self.pages.clear();
    }

    /// Checks that every ordinary frame that is lent has a page, after collecting them.
    fn collect(&mut self) -> PairChecked {
        let mut supply = self.ground;
        let spare = Shrink::<&Ground>::holding(self.reserve);
        for context in [Context::NOWAIT, Context::ANY] {
            let ask = Ask {
                wanted: spare / 2,
                scan: u64::MAX,
                order: Order::ZERO,
                context,
            };
            let freed = self.reserve.shrink(&mut supply, &ask).freed;
            let least = if context.may_block { ask.wanted } else { 0 };
            if freed < least || freed > 0 && !context.may_block {
                return differ!("{freed} of {spare} spare frames are freed for {ask:?}");
            }
        }
        self.reserve.collect(&mut supply);
        if self.lies(ReserveLie::KeepFrame) {
            let _ = supply.alloc_frame();
        }
        let (lent, there) = (self.ground.lent(), self.reserve.occupancy().put_back);
        if lent != there {
            return differ!("{lent} ordinary frames are lent, for {there} pages");
        }
        Ok(())
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
        if self.dirty() > 0 && self.lies(ReserveLie::DropDirty) {
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
        if held < self.dirty() {
            return differ!("C7: {held} pages held, {} are dirty", self.dirty());
        }
        Ok(())
    }

    fn verify(&mut self) -> PairChecked {
        let broken = |broken| Difference(format!("{broken}"));
        self.reserve.verify().map_err(broken)?;
        let is_there = |(at, page): (&PagePlace, &PutPage)| {
            (page.is_dirty && !POOLS[at.0].exclusive).then_some(*at)
        };
        let dirty: Vec<PagePlace> = self.pages.iter().filter_map(is_there).collect();
        dirty.into_iter().try_for_each(|at| self.get(0, at))?;
        let occupancy = self.reserve.occupancy();
        let all = occupancy.dirty + occupancy.writing + occupancy.put_back;
        let (least, dead) = (self.dirty(), self.dead.iter().sum::<u64>());
        if !(least..=least + dead).contains(&all) {
            return differ!("C7: {all} dirty pages, {least} and at most {dead} dead expected");
        }
        let reserved = self.reservations.iter().filter(|held| held.taken);
        let mut owned = self
            .owned
            .iter()
            .copied()
            .chain(reserved.map(|held| held.run));
        match owned.find(|run| !self.ground.is_filled(*run)) {
            Some(run) => differ!("{run:?} is an owner's, but was written"),
            None => Ok(()),
        }
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
