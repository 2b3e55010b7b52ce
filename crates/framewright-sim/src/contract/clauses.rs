//! Each clause is a function of a [`House`] and nothing else, so it holds any store to the contract in the same way.

use super::{Clause, CopyEvent, EventOutcome, House, PoolPages, Verdict, page, stamp};
use framewright::Run;
use framewright::reserve::{Key, PoolId};

/// The contract, clause by clause.
pub const CLAUSES: &[Clause] = &[
    clause(
        "S1",
        "a put copies: the caller may use its page again",
        copies,
    ),
    clause("S2", "a refused put leaves no older version", refused),
    clause(
        "S2",
        "a refused dirty put leaves no older version",
        refused_dirty,
    ),
    clause(
        "S2",
        "a put that lacks memory leaves no older version",
        starved,
    ),
    clause("S3", "a get returns the last put", last_put),
    clause("S3", "a miss stays a miss until the next put", misses),
    clause("S4", "an exclusive get takes its page away", exclusive),
    clause("S4", "in any other pool a page stays", staying),
    clause(
        "S5",
        "a get beside an owner returns a whole page or none",
        whole,
    ),
    clause("S6", "a page that is on no device does not vanish", dirty),
    clause("S7", "a page that was invalidated is not served", |house| {
        invalidated(house, 0)
    }),
    clause(
        "S7",
        "an object that was invalidated is not served",
        |house| invalidated(house, 1),
    ),
    clause(
        "S7",
        "a pool that was invalidated is not served and takes no more",
        |house| invalidated(house, 2),
    ),
    clause(
        "S7",
        "a get under way serves nothing that was invalidated meanwhile",
        |house| overtaken(house, true),
    ),
    clause(
        "S7",
        "a put under way leaves nothing that was invalidated meanwhile",
        |house| overtaken(house, false),
    ),
    clause(
        "S8",
        "of two puts at once one is found, whole, or none",
        two_puts,
    ),
    clause(
        "O1",
        "an owner's run is as requested, and no frame is lost",
        no_frame_lost,
    ),
    clause("O2", "no frame is owned twice", owned_once),
    clause("O3", "no guest writes an owner's frames", no_guest_writes),
    clause(
        "O4",
        "a pool that fills the area does not keep another one out",
        no_thread_starves,
    ),
];

pub(super) const NEEDS_ONLY_FRAMES: &str = "a put needs nothing but frames";
const NO_POOL: Verdict = Verdict::NotChecked("there is no such pool");
const NONE_LET_IN: Verdict = Verdict::NotChecked("no thread is let in during a copy");
const POISON: u64 = 0xdead_beef_dead_beef;

type ClauseChecked = Result<(), Verdict>;

const fn clause(
    name: &'static str,
    says: &'static str,
    check: fn(&mut dyn House) -> ClauseChecked,
) -> Clause {
    Clause { name, says, check }
}

fn broken(how: impl Into<String>) -> ClauseChecked {
    Err(Verdict::Broken(how.into()))
}

const fn key(pool: PoolId, object: u64, index: u64) -> Key {
    Key {
        pool,
        object,
        index,
    }
}

fn open(house: &mut dyn House, pages: PoolPages) -> Result<PoolId, Verdict> {
    house.open_pool(pages).ok_or(NO_POOL)
}

/// Puts a page, for which there is room.
fn put(house: &mut dyn House, key: Key, page: &[u64; 512]) -> ClauseChecked {
    let put = house.store().put(key, page);
    put.map_err(|reason| {
        Verdict::Broken(format!("with room for it {key:?} is refused: {reason:?}"))
    })
}

/// The stamp of the page that a get returns, if any; a torn page breaks S5 and every other clause.
fn get(house: &mut dyn House, key: Key) -> Result<Option<u64>, Verdict> {
    let mut out = [POISON; 512];
    if !house.store().get(key, &mut out) {
        return Ok(None);
    }
    let torn = || Verdict::Broken(format!("the page of {key:?} is torn"));
    stamp(&out).map(Some).ok_or_else(torn)
}

/// Owners take everything, one frame at a time.
fn take_all(house: &mut dyn House) -> Vec<Run> {
    let frames = house.frames();
    (0..=frames).map_while(|_| house.take(1)).collect()
}

fn copies(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    let mut given = page(1);
    put(house, key(pool, 0, 0), &given)?;
    given.fill(POISON);
    match get(house, key(pool, 0, 0))? {
        Some(1) => Ok(()),
        other => broken(format!("got {other:?}")),
    }
}

fn refused(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    // Pages of one repeated word may be kept without a frame: they outlive the owners.
    for index in 0..4 {
        put(house, key(pool, 0, index), &[index; 512])?;
    }
    take_all(house);
    for index in 0..4 {
        let refused = house.store().put(key(pool, 0, index), &page(9)).is_err();
        let mut out = [0; 512];
        if refused && house.store().get(key(pool, 0, index), &mut out) {
            return broken(format!("page {index} is found after its put was refused"));
        }
    }
    Ok(())
}

fn refused_dirty(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    put(house, key(pool, 0, 0), &page(1))?;
    let put = house.store().put_dirty(key(pool, 0, 0), &page(2));
    match (put, get(house, key(pool, 0, 0))?) {
        (Err(_), Some(found)) => broken(format!("version {found} is found")),
        (Ok(()), Some(1)) => broken("the older version is found"),
        _ => Ok(()),
    }
}

fn starved(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    put(house, key(pool, 0, 0), &page(1))?;
    if !house.starve_next_put() {
        return Err(Verdict::NotChecked(NEEDS_ONLY_FRAMES));
    }
    let put = house.store().put(key(pool, 0, 0), &page(2));
    match (put, get(house, key(pool, 0, 0))?) {
        (Err(_), Some(found)) => broken(format!("version {found} is found")),
        (Ok(()), Some(1)) => broken("the older version is found"),
        _ => Ok(()),
    }
}

fn last_put(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    for version in 1..5 {
        put(house, key(pool, 0, 0), &page(version))?;
        match get(house, key(pool, 0, 0))? {
            Some(found) if found != version => {
                return broken(format!("version {found} is found after version {version}"));
            }
            _ => {}
        }
    }
    Ok(())
}

fn misses(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    let frames = house.frames();
    // Three times as many pages as there are frames, so some are gone.
    let mut gone = Vec::new();
    for index in 0..3 * frames {
        let _ = house.store().put(key(pool, 0, index), &page(index));
        for (old, is_gone) in gone.iter_mut().enumerate() {
            let found = get(house, key(pool, 0, old as u64))?;
            if *is_gone && found.is_some() {
                return broken(format!("page {old} is found again"));
            }
            if found.is_some_and(|found| found != old as u64) {
                return broken(format!("page {old} is another one"));
            }
            *is_gone = found.is_none();
        }
        gone.push(false);
    }
    Ok(())
}

fn exclusive(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Exclusive)?;
    put(house, key(pool, 0, 0), &page(1))?;
    match [get(house, key(pool, 0, 0))?, get(house, key(pool, 0, 0))?] {
        [Some(1), None] => Ok(()),
        other => broken(format!("got {other:?}")),
    }
}

fn staying(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    put(house, key(pool, 0, 0), &page(1))?;
    match [get(house, key(pool, 0, 0))?, get(house, key(pool, 0, 0))?] {
        [Some(1), Some(1)] => Ok(()),
        other => broken(format!("got {other:?}")),
    }
}

fn whole(house: &mut dyn House) -> ClauseChecked {
    let frames = house.frames();
    for pages in [PoolPages::Staying, PoolPages::Exclusive] {
        let pool = open(house, pages)?;
        put(house, key(pool, 0, 0), &page(1))?;
        if !house.during_next_copy(CopyEvent::Take(frames, POISON)) {
            return Err(NONE_LET_IN);
        }
        get(house, key(pool, 0, 0))?;
        if let Some(EventOutcome::Taken(Some(run))) = house.outcome() {
            house.release(run);
        }
        if get(house, key(pool, 0, 0))?.is_some() {
            return broken("a page is found although an owner had its frame");
        }
    }
    Ok(())
}

fn dirty(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Dirty)?;
    for index in 0..4 {
        let put = house.store().put_dirty(key(pool, 0, index), &page(index));
        put.map_err(|_| Verdict::NotChecked("no page may be dirty"))?;
    }
    for index in 4..4 * house.frames() {
        let _ = house.store().put(key(pool, 0, index), &page(index));
    }
    for run in take_all(house) {
        house.release(run);
    }
    for index in 0..4 {
        if get(house, key(pool, 0, index))? != Some(index) {
            return broken(format!("page {index} is lost"));
        }
    }
    Ok(())
}

fn invalidated(house: &mut dyn House, what: u8) -> ClauseChecked {
    for pages in [PoolPages::Exclusive, PoolPages::Staying, PoolPages::Dirty] {
        let Some(pool) = house.open_pool(pages) else {
            continue;
        };
        for index in 0..4 {
            put(house, key(pool, index % 2, index), &page(index))?;
        }
        match what {
            0 => house.store().invalidate_page(key(pool, 1, 1)),
            1 => house.store().invalidate_object(pool, 1),
            _ => {
                house.store().invalidate_pool(pool);
            }
        }
        for index in 0..4 {
            let is_gone = match what {
                0 => index == 1,
                1 => index % 2 == 1,
                _ => true,
            };
            if is_gone && get(house, key(pool, index % 2, index))?.is_some() {
                return broken(format!(
                    "page {index} of a pool of {pages:?} pages is found"
                ));
            }
        }
        if what == 2 && house.store().put(key(pool, 0, 9), &page(9)).is_ok() {
            return broken("a page is stored in the pool");
        }
    }
    Ok(())
}

fn overtaken(house: &mut dyn House, is_get: bool) -> ClauseChecked {
    for pages in [PoolPages::Exclusive, PoolPages::Staying, PoolPages::Dirty] {
        for what in 0..3 {
            let Some(pool) = house.open_pool(pages) else {
                continue;
            };
            let key = key(pool, 1, 1);
            if is_get {
                put(house, key, &page(1))?;
            }
            let event = match what {
                0 => CopyEvent::InvalidatePage(key),
                1 => CopyEvent::InvalidateObject(pool, 1),
                _ => CopyEvent::InvalidatePool(pool),
            };
            if !house.during_next_copy(event) {
                return Err(NONE_LET_IN);
            }
            let got = if is_get {
                get(house, key)?
            } else {
                let _ = house.store().put(key, &page(1));
                None
            };
            house.outcome();
            if got.is_some() || get(house, key)?.is_some() {
                return broken(format!("a page is found after {event:?}"));
            }
            house.store().invalidate_pool(pool);
        }
    }
    Ok(())
}

fn two_puts(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    for (index, before) in [(0, false), (1, true)] {
        let key = key(pool, 0, index);
        if before {
            put(house, key, &page(1))?;
        }
        if !house.during_next_copy(CopyEvent::Put(key, 3)) {
            return Err(NONE_LET_IN);
        }
        let mine = house.store().put(key, &page(2)).is_ok();
        let theirs = house.outcome() == Some(EventOutcome::Stored(true));
        match get(house, key)? {
            Some(2) if mine => {}
            Some(3) if theirs => {}
            None => {}
            Some(found) => {
                return broken(format!("version {found}, with 2 {mine} and 3 {theirs}"));
            }
        }
    }
    Ok(())
}

fn no_frame_lost(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    let frames = house.frames();
    for beside_a_put in [false, true] {
        for index in 0..frames {
            let _ = house.store().put(key(pool, 0, index), &page(index));
        }
        let run = if !beside_a_put {
            house.take(frames / 2)
        } else if house.during_next_copy(CopyEvent::Take(frames / 2, POISON)) {
            // A key that exists already: its old page and its new one are released once each.
            let _ = house.store().put(key(pool, 0, frames - 1), &page(1));
            match house.outcome() {
                Some(EventOutcome::Taken(run)) => run,
                _ => None,
            }
        } else {
            return Ok(());
        };
        let Some(run) = run else {
            return broken("an owner cannot have half of the area, although its pages are clean");
        };
        let others = take_all(house);
        if (run.frames(), run.frames() + others.len() as u64) != (frames / 2, frames) {
            let others = others.len();
            return broken(format!("{run:?} and {others} others, of {frames} frames"));
        }
        house.release(run);
        others.into_iter().for_each(|run| house.release(run));
    }
    Ok(())
}

fn owned_once(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    let frames = house.frames();
    for index in 0..frames {
        let _ = house.store().put(key(pool, 0, index), &page(index));
    }
    let mut owned: Vec<Run> = Vec::new();
    for wanted in [frames / 2, 3, 1, frames / 4, 2, 1, 1] {
        let Some(run) = house.take(wanted) else {
            continue;
        };
        let clashes = |other: &Run| run.start() < other.end() && other.start() < run.end();
        if owned.iter().any(clashes) {
            return broken(format!("{run:?} is owned already"));
        }
        owned.push(run);
    }
    Ok(())
}

fn no_guest_writes(house: &mut dyn House) -> ClauseChecked {
    let pool = open(house, PoolPages::Staying)?;
    let frames = house.frames();
    if !house.during_next_copy(CopyEvent::Take(frames, POISON)) {
        return Err(NONE_LET_IN);
    }
    let _ = house.store().put(key(pool, 0, 0), &page(1));
    let Some(EventOutcome::Taken(Some(run))) = house.outcome() else {
        return broken("an owner cannot have the area beside a put");
    };
    let _ = house.store().put(key(pool, 0, 1), &page(2));
    if !house.is_filled(run, POISON) {
        return broken("an owner's frames were written");
    }
    if get(house, key(pool, 0, 0))?.is_some() {
        return broken("a page is found in an owner's frame");
    }
    Ok(())
}

fn no_thread_starves(house: &mut dyn House) -> ClauseChecked {
    let [first, second] =
        [PoolPages::Exclusive, PoolPages::Staying].map(|pages| house.open_pool(pages));
    let (Some(first), Some(second)) = (first, second) else {
        return Err(NO_POOL);
    };
    let frames = house.frames();
    for (full, other) in [(first, second), (second, first)] {
        for index in 0..2 * frames {
            let _ = house.store().put(key(full, 0, index), &page(index));
        }
        for index in 0..frames / 4 {
            let _ = house.store().put(key(other, 0, index), &page(index));
        }
        let mut found = 0;
        for index in 0..frames / 4 {
            found += u64::from(get(house, key(other, 0, index))?.is_some());
        }
        if found == 0 {
            return broken(format!("none of {} pages is found", frames / 4));
        }
    }
    Ok(())
}
