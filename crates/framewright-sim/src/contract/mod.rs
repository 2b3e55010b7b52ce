//! The guests' contract as checks: one function for each clause, for any [`Store`].
//!
//! ```text
//!     CLAUSES ──each on a new house──▶ House ── store() ─────────────▶ puts, gets, invalidations
//!                                        ├──── take(), release() ───▶ an owner
//!                                        └──── during_next_copy() ──▶ another thread, in the middle of a copy
//! ```
//!
//! A [`House`] is a store with an owner beside it. The engine's is [`in_reserve`]. To learn which
//! clauses another store keeps, write a house for it and call [`verdicts`]. What a house cannot do,
//! such as letting another thread in during a copy, leaves the clauses that need it
//! [unchecked](Verdict::NotChecked), and these do not count as kept.
//!
//! S1 to S8 are the [contract's](framewright::reserve::contract). Of the area that the store is in, owners and
//! guests may expect besides:
//!
//! - **O1** An owner's run is as requested, and after its release no frame is lost.
//! - **O2** No frame is owned twice.
//! - **O3** No guest writes an owner's frames.
//! - **O4** A pool that fills the area does not keep another one out.
//!
//! [`poison`] holds a store to the same contract with guests and owners on threads, at any length.
//!
//! The checks find the faults that are known of the proposal's code (from reading it; GCMA v2 of
//! 2015): an object's invalidation that does nothing, S7; a store that is refused and leaves the
//! older copy, S2; a retry that isolates frames beyond the request, and a second release when a key
//! is stored again during a take, O1; frames owned twice, O2; a frame that an owner has while a
//! store copies into it, O3; a guest that can only evict its own pages and never enters, O4.

mod clauses;
mod house;
pub mod poison;

pub use clauses::CLAUSES;
pub use house::in_reserve;

use framewright::Run;
use framewright::reserve::{Key, PoolId, Store};
use std::fmt;

/// The kind of a pool's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolPages {
    /// A get takes them away (S4).
    Exclusive,
    /// They stay until they are invalidated.
    Staying,
    /// The same, and some are on no device yet (S6).
    Dirty,
}

/// What another thread does while a page is copied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CopyEvent {
    /// Forgets a page.
    InvalidatePage(Key),
    /// Forgets an object.
    InvalidateObject(PoolId, u64),
    /// Forgets a pool.
    InvalidatePool(PoolId),
    /// Puts [`page`]`(stamp)`.
    Put(Key, u64),
    /// An owner takes this many frames, and fills them with a word.
    Take(u64, u64),
}

/// The result of an [`CopyEvent`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventOutcome {
    /// An invalidation has returned.
    Done,
    /// Whether a page was stored.
    Stored(bool),
    /// The run that an owner has now.
    Taken(Option<Run>),
}

/// A store with an owner beside it. New for each clause.
pub trait House {
    /// How many frames the store's area has.
    fn frames(&self) -> u64;

    /// Opens a pool; `None` if the store has no pool for such pages.
    fn open_pool(&mut self, pages: PoolPages) -> Option<PoolId>;

    /// The store.
    fn store(&mut self) -> &mut dyn Store;

    /// An owner takes a run of this many frames.
    fn take(&mut self, frames: u64) -> Option<Run>;

    /// The owner gives it back.
    fn release(&mut self, run: Run);

    /// Whether every word of the owner's run is `word`.
    fn is_filled(&self, run: Run, word: u64) -> bool;

    /// Has another thread do `event` in the middle of the next copy of a page, as far as it gets
    /// there without waiting for the copy's end. `false` if that is not possible.
    fn during_next_copy(&mut self, event: CopyEvent) -> bool {
        let _ = event;
        false
    }

    /// The result of that event, when it has ended. `None` if there was no copy.
    fn outcome(&mut self) -> Option<EventOutcome> {
        None
    }

    /// Has the next put fail for want of something other than frames, such as memory for an entry.
    /// `false` if it needs only frames.
    fn starve_next_put(&mut self) -> bool {
        false
    }
}

/// A clause of the contract.
#[derive(Clone, Copy, Debug)]
pub struct Clause {
    /// Its letter and number.
    pub name: &'static str,
    /// What it says, in a line.
    pub says: &'static str,
    pub(crate) check: fn(&mut dyn House) -> Result<(), Verdict>,
}

/// Whether a store keeps a clause, as far as its check can see.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It does.
    Kept,
    /// It does not; with the observation.
    Broken(String),
    /// The house cannot do what the check needs.
    NotChecked(&'static str),
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kept => f.write_str("kept"),
            Self::Broken(how) => write!(f, "broken: {how}"),
            Self::NotChecked(why) => write!(f, "not checked: {why}"),
        }
    }
}

impl Clause {
    /// Whether the store of `house`, which is new, keeps it.
    pub fn verdict(&self, house: &mut dyn House) -> Verdict {
        match (self.check)(house) {
            Ok(()) => Verdict::Kept,
            Err(verdict) => verdict,
        }
    }
}

/// The verdict of each clause; `within` calls its argument with a new house.
pub fn verdicts(
    mut within: impl FnMut(&mut dyn FnMut(&mut dyn House)),
) -> Vec<(&'static Clause, Verdict)> {
    let verdict = |clause: &'static Clause| {
        let mut verdict = Verdict::NotChecked("there is no house");
        within(&mut |house| verdict = clause.verdict(house));
        (clause, verdict)
    };
    CLAUSES.iter().map(verdict).collect()
}

/// A page that carries its stamp in every word; it is no repeated word.
#[must_use]
pub fn page(stamp: u64) -> [u64; 512] {
    std::array::from_fn(|n| stamp << 16 | n as u64)
}

/// The stamp of a page; `None` if the page is a mix, or has none.
#[must_use]
pub fn stamp(page: &[u64; 512]) -> Option<u64> {
    let stamp = page[0] >> 16;
    let mut words = page.iter().enumerate();
    words
        .all(|(n, word)| *word == stamp << 16 | n as u64)
        .then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_keeps_every_clause() {
        for (clause, verdict) in verdicts(|work| in_reserve(32, work)) {
            let starve = verdict == Verdict::NotChecked(clauses::NEEDS_ONLY_FRAMES);
            assert!(
                verdict == Verdict::Kept || starve,
                "{} ({}): {verdict}",
                clause.name,
                clause.says
            );
        }
    }

    /// Stores everything in a map, with one of the faults.
    struct Careless {
        pages: std::collections::BTreeMap<(u16, u64, u64), [u64; 512]>,
        closed: Vec<PoolId>,
        fault: u8,
    }

    impl Store for Careless {
        fn put(
            &mut self,
            key: Key,
            page: &[u64; 512],
        ) -> Result<(), framewright::reserve::PutRefused> {
            let at = (key.pool.0, key.object, key.index);
            if self.closed.contains(&key.pool) {
                return Err(framewright::reserve::PutRefused::NoPool);
            }
            if self.fault == 1 && self.pages.contains_key(&at) {
                return Ok(());
            }
            let mut page = *page;
            if self.fault == 2 {
                page[300] = 0;
            }
            self.pages.insert(at, page);
            Ok(())
        }

        fn put_dirty(
            &mut self,
            _: Key,
            _: &[u64; 512],
        ) -> Result<(), framewright::reserve::PutRefused> {
            // The older version stays.
            Err(framewright::reserve::PutRefused::NoPool)
        }

        fn get(&mut self, key: Key, page: &mut [u64; 512]) -> bool {
            let at = (key.pool.0, key.object, key.index);
            let found = self.pages.get(&at).copied();
            if let Some(found) = found {
                *page = found;
            }
            if key.pool.0 == 0 && self.fault != 3 {
                self.pages.remove(&at);
            }
            found.is_some()
        }

        fn invalidate_page(&mut self, key: Key) {
            if self.fault != 4 {
                self.pages.remove(&(key.pool.0, key.object, key.index));
            }
        }

        fn invalidate_object(&mut self, pool: PoolId, object: u64) {
            if self.fault != 5 {
                let is = |at: &(u16, u64, u64)| at.0 == pool.0 && at.1 == object;
                self.pages.retain(|at, _| !is(at));
            }
        }

        fn invalidate_pool(&mut self, pool: PoolId) -> bool {
            if self.fault != 6 {
                self.pages.retain(|at, _| at.0 != pool.0);
                self.closed.push(pool);
            }
            true
        }
    }

    struct Shed(Careless, u16);

    impl House for Shed {
        fn frames(&self) -> u64 {
            16
        }

        fn open_pool(&mut self, pages: PoolPages) -> Option<PoolId> {
            self.1 += 1;
            Some(PoolId(if pages == PoolPages::Exclusive {
                0
            } else {
                self.1
            }))
        }

        fn store(&mut self) -> &mut dyn Store {
            &mut self.0
        }

        fn take(&mut self, frames: u64) -> Option<Run> {
            // An owner that always gets the same frames.
            Run::new(framewright::Frame(0), frames).filter(|_| frames <= 16)
        }

        fn release(&mut self, _: Run) {}

        fn is_filled(&self, _: Run, _: u64) -> bool {
            true
        }
    }

    #[test]
    fn each_planted_fault_is_named_by_its_clause() {
        let of = |fault| {
            let found = verdicts(|work| {
                let pages = std::collections::BTreeMap::new();
                work(&mut Shed(
                    Careless {
                        pages,
                        closed: vec![],
                        fault,
                    },
                    0,
                ));
            });
            let broken = found.into_iter();
            let broken = broken.filter(|(_, verdict)| matches!(verdict, Verdict::Broken(_)));
            broken.map(|(clause, _)| clause.says).collect::<Vec<_>>()
        };
        let plain = of(0);
        assert!(
            plain.iter().any(|says| says.contains("dirty"))
                && plain.iter().any(|says| says.contains("owned")),
            "{plain:?}"
        );
        for (fault, word) in [
            (1, "last put"),
            (2, "copies"),
            (3, "exclusive"),
            (4, "a page that was invalidated"),
            (5, "an object"),
            (6, "a pool"),
        ] {
            let found = of(fault);
            let is_new = |says: &&&str| !plain.contains(says) && says.contains(word);
            assert!(found.iter().any(|says| is_new(&says)), "{fault}: {found:?}");
        }
    }
}
