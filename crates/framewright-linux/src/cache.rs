//! A cache that gives its frames back when they are wanted: pages by key, filled by a function.
//!
//! ```text
//!    get ──▶ known? ── yes ──▶ marked as used ──▶ read, the frame held meanwhile
//!              │ no
//!              └──▶ a frame ──▶ filled ──▶ known ──▶ read
//!
//!    shrink:  ──▶ hand ──▶ used: its mark is taken, it has a second chance
//!                          held: passed by
//!                          else: forgotten, and its frame is freed
//! ```
//!
//! What is in the cache can be had again: so it can be dropped at any moment, which is what
//! [`Shrink`] asks for, and the cache never writes anything back.
//!
//! # Invariants
//! - **H1** A frame is read only while it is held, and freed only when nobody holds it: so what `get`
//!   shows is what was filled in for that key.
//! - **H2** One key has one frame at most.
//!
//! # Locks
//! One of its own, for the table. It is not held while a frame is allocated or freed, nor while one is
//! filled or read: each of those may come back to the cache, to shrink it.
//!
//! # What is not here
//! Files; writing. Frames are Reclaimable, and do not move.
//!
//! # Sources
//! Second chance: F. J. Corbató, "A paging experiment with the Multics system", 1968.

use crate::ram::{FRAME_BYTES, Ram};
use framewright::frame::{AllocError, Seat};
use framewright::platform::{Barrier, Relax};
use framewright::reclaim::{Ask, Holding, Shrink, Shrunk};
use framewright::{Frame, Mobility, Order};
use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A cache of pages by key. See the [module's description](self).
///
/// ```
/// use framewright::reclaim::{Ask, Shrink};
/// use framewright::{Context, Frame, Order, frame::ZoneLayout};
/// use framewright_linux::{Cache, Host, Options};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 4096)))?;
/// let mut seat = host.seat()?;
/// let cache = Cache::new(Arc::clone(host.ram_shared()));
/// let squares = |key: u64, page: &mut [u8; 4096]| page[..8].copy_from_slice(&(key * key).to_le_bytes());
/// let mut page = [0; 4096];
/// cache.get(&mut seat, 12, squares, &mut page)?;
/// assert_eq!(page[0], 144);
/// assert_eq!(cache.pages(), 1);
/// let ask = Ask { wanted: 8, scan: 8, order: Order::ZERO, context: Context::ANY };
/// // The first look takes its mark of use away, the second the page.
/// assert_eq!(cache.shrink(&mut seat, &ask).freed, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Cache {
    ram: Arc<Ram>,
    table: Mutex<Table>,
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Debug, Default)]
struct Table {
    pages: BTreeMap<u64, Cached>,
    /// Where the next look for something to drop begins.
    hand: u64,
}

#[derive(Debug)]
struct Cached {
    frame: Frame,
    /// Read since it was last looked at.
    is_used: bool,
    /// Who reads it now.
    readers: u32,
}

/// A frame that is freed when this is dropped: nobody keeps it yet.
struct Unkept<'s, 'z, 'm, P: Relax + Barrier> {
    seat: &'s mut Seat<'z, 'm, P>,
    frame: Frame,
}

impl<P: Relax + Barrier> Drop for Unkept<'_, '_, '_, P> {
    fn drop(&mut self) {
        let freed = self.seat.free(self.frame, Order::ZERO);
        debug_assert!(freed.is_ok(), "it was allocated a moment ago");
    }
}

impl Cache {
    /// An empty cache whose frames are in `ram`.
    #[must_use]
    pub fn new(ram: Arc<Ram>) -> Self {
        Self {
            ram,
            table: Mutex::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Copies the page of `key` to `into`; if it is not there, `fill` makes it.
    ///
    /// `fill` is called without a lock; if two threads miss one key at a time, both fill it, and
    /// what one of them made is kept.
    ///
    /// # Errors
    /// There is no frame to keep it in. Nothing has changed then, but for what `into` holds.
    ///
    /// # Panics
    /// If `fill` does: then too the cache is as before.
    pub fn get<P: Relax + Barrier>(
        &self,
        seat: &mut Seat<'_, '_, P>,
        key: u64,
        fill: impl FnOnce(u64, &mut [u8; FRAME_BYTES]),
        into: &mut [u8; FRAME_BYTES],
    ) -> Result<(), AllocError> {
        if let Some(frame) = self.hold(key) {
            self.hits.fetch_add(1, Relaxed);
            let read = self.ram.read(frame, into);
            debug_assert!(read.is_ok(), "cached frames are in RAM");
            self.release(key);
            return Ok(());
        }
        self.misses.fetch_add(1, Relaxed);
        let frame = seat.alloc(Order::ZERO, Mobility::Reclaimable)?;
        let unkept = Unkept { seat, frame };
        fill(key, into);
        // Not of this RAM: it cannot be kept.
        if self.ram.write(frame, into).is_ok() && self.keep(key, frame) {
            mem::forget(unkept);
        }
        Ok(())
    }

    /// Forgets what it has for `key`, unless somebody reads it. Returns whether it is forgotten.
    pub fn forget<P: Relax + Barrier>(&self, seat: &mut Seat<'_, '_, P>, key: u64) -> bool {
        let mut table = self.table();
        if table.pages.get(&key).is_none_or(|page| page.readers > 0) {
            return false;
        }
        let gone = table.pages.remove(&key);
        drop(table);
        if let Some(page) = gone {
            let freed = seat.free(page.frame, Order::ZERO);
            debug_assert!(freed.is_ok(), "the cache's frames are allocated");
        }
        true
    }

    /// Pages in it.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.table().pages.len() as u64
    }

    /// How often `get` found its page, and how often it did not, since the cache was made.
    #[must_use]
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Relaxed), self.misses.load(Relaxed))
    }

    fn hold(&self, key: u64) -> Option<Frame> {
        let mut table = self.table();
        let page = table.pages.get_mut(&key)?;
        page.is_used = true;
        page.readers += 1;
        Some(page.frame)
    }

    fn release(&self, key: u64) {
        if let Some(page) = self.table().pages.get_mut(&key) {
            page.readers -= 1;
        }
    }

    /// Whether it is kept: not if the key has a frame already.
    fn keep(&self, key: u64, frame: Frame) -> bool {
        let page = Cached {
            frame,
            is_used: true,
            readers: 0,
        };
        match self.table().pages.entry(key) {
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(page);
                true
            }
            std::collections::btree_map::Entry::Occupied(_) => false,
        }
    }

    /// The next key to be looked at, and then whether it may go: what it had is taken then.
    fn drop_next(&self) -> Option<Option<Frame>> {
        let mut table = self.table();
        let hand = table.hand;
        let next = table.pages.range_mut(hand..).next();
        let (&key, page) = match next {
            Some(found) => found,
            None => table.pages.iter_mut().next()?,
        };
        let stays = page.is_used || page.readers > 0;
        page.is_used = false;
        let frame = page.frame;
        table.hand = key.wrapping_add(1);
        if !stays {
            table.pages.remove(&key);
        }
        Some((!stays).then_some(frame))
    }

    /// What a panic of somebody's left is whole: nobody's code runs under the lock.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'z, 'm, P: Relax + Barrier> Shrink<Seat<'z, 'm, P>> for Cache {
    /// As hot as the part of all requests that found their page.
    fn holding(&self) -> Holding {
        let (hits, misses) = self.hits_and_misses();
        let heat = hits.saturating_mul(255) / hits.saturating_add(misses).max(1);
        Holding {
            frames: self.pages(),
            heat: heat.min(255) as u8,
        }
    }

    /// By second chance. What was read since the last look stays.
    fn shrink(&self, seat: &mut Seat<'z, 'm, P>, ask: &Ask) -> Shrunk {
        let mut shrunk = Shrunk::default();
        while shrunk.scanned < ask.scan && shrunk.freed < ask.wanted {
            let Some(looked) = self.drop_next() else {
                break;
            };
            shrunk.scanned += 1;
            if let Some(frame) = looked {
                // Refused only by a seat of another zone: it is lost rather than freed twice.
                shrunk.freed += u64::from(seat.free(frame, Order::ZERO).is_ok());
            }
        }
        shrunk
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, Options};
    use framewright::frame::ZoneLayout;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_filler_that_panics_leaves_no_frame_behind() {
        let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 1024))).unwrap();
        let mut seat = host.seat().unwrap();
        let cache = Cache::new(Arc::clone(host.ram_shared()));
        let mut page = [0; FRAME_BYTES];
        let allocated = || host.zone().recount().allocated.iter().sum::<u64>();
        let before = allocated();
        let got = catch_unwind(AssertUnwindSafe(|| {
            let fill = |key: u64, _: &mut [u8; FRAME_BYTES]| panic!("no page for {key}");
            cache.get(&mut seat, 7, fill, &mut page)
        }));
        assert!(got.is_err());
        assert_eq!((allocated(), cache.pages()), (before, 0));
        let fill = |_: u64, page: &mut [u8; FRAME_BYTES]| page.fill(3);
        cache.get(&mut seat, 7, fill, &mut page).unwrap();
        assert_eq!((allocated(), cache.pages()), (before + 1, 1));
        assert_eq!(page, [3; FRAME_BYTES]);
    }
}
