//! The eviction queue: SIEVE.

use super::table::{CacheSlots, NONE};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slots with a page, from the newest to the oldest, and the hand that goes from the oldest to the
/// newest. A page that was visited since the hand came by loses its mark and stays *where it is*.
/// So a new page is looked at soon, and one that is not used again goes soon (Zhang et al., NSDI
/// 2024).
#[derive(Debug)]
pub(in crate::file_cache) struct SlotQueue(Mutex<QueueEnds>);

#[derive(Debug)]
struct QueueEnds {
    newest: u32,
    oldest: u32,
    hand: u32,
    len: u64,
}

/// What the hand found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::file_cache) enum HandStep {
    /// Used since: it stays.
    Visited,
    /// May go.
    Victim(u32),
}

impl SlotQueue {
    pub(in crate::file_cache) const fn new() -> Self {
        Self(Mutex::new(QueueEnds {
            newest: NONE,
            oldest: NONE,
            hand: NONE,
            len: 0,
        }))
    }

    pub(in crate::file_cache) fn len(&self) -> u64 {
        self.ends().len
    }

    /// Adds a slot that is in no queue, as the newest.
    pub(in crate::file_cache) fn push(&self, slots: &CacheSlots, id: u32) {
        let mut ends = self.ends();
        let slot = slots.get(id);
        slot.newer.store(NONE, Relaxed);
        slot.older.store(ends.newest, Relaxed);
        match ends.newest {
            NONE => ends.oldest = id,
            newest => slots.get(newest).newer.store(id, Relaxed),
        }
        ends.newest = id;
        ends.len += 1;
    }

    /// Takes out a slot that is in the queue.
    pub(in crate::file_cache) fn remove(&self, slots: &CacheSlots, id: u32) {
        let mut ends = self.ends();
        let (newer, older) = slots.get(id).neighbours();
        if ends.hand == id {
            ends.hand = newer;
        }
        ends.tie(slots, newer, older);
        ends.len -= 1;
    }

    /// Puts `to`, which is in no queue, in the place of `from`.
    pub(in crate::file_cache) fn replace(&self, slots: &CacheSlots, from: u32, to: u32) {
        let mut ends = self.ends();
        let (newer, older) = slots.get(from).neighbours();
        ends.tie(slots, newer, to);
        ends.tie(slots, to, older);
        if ends.hand == from {
            ends.hand = to;
        }
    }

    /// Moves the hand by one; `None` if the queue is empty.
    pub(in crate::file_cache) fn step(&self, slots: &CacheSlots) -> Option<HandStep> {
        let mut ends = self.ends();
        let at = match ends.hand {
            NONE => ends.oldest,
            hand => hand,
        };
        if at == NONE {
            return None;
        }
        let slot = slots.get(at);
        ends.hand = slot.newer.load(Relaxed);
        let visited = slot.visited.swap(false, Relaxed);
        Some(if visited {
            HandStep::Visited
        } else {
            HandStep::Victim(at)
        })
    }

    /// The slots in it; or a slot where it is no list in both directions with the hand in it.
    pub(in crate::file_cache) fn verify(&self, slots: &CacheSlots) -> Result<BTreeSet<u32>, u32> {
        let ends = self.ends();
        let (mut found, mut before, mut at) = (BTreeSet::new(), NONE, ends.oldest);
        while at != NONE {
            if !found.insert(at) || slots.get(at).neighbours().1 != before {
                return Err(at);
            }
            before = at;
            at = slots.get(at).neighbours().0;
        }
        let has_hand = ends.hand == NONE || found.contains(&ends.hand);
        if ends.newest != before || found.len() as u64 != ends.len || !has_hand {
            return Err(before);
        }
        Ok(found)
    }

    fn ends(&self) -> MutexGuard<'_, QueueEnds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl QueueEnds {
    /// Makes the two neighbours.
    fn tie(&mut self, slots: &CacheSlots, newer: u32, older: u32) {
        match newer {
            NONE => self.newest = older,
            newer => slots.get(newer).older.store(older, Relaxed),
        }
        match older {
            NONE => self.oldest = newer,
            older => slots.get(older).newer.store(newer, Relaxed),
        }
    }
}
