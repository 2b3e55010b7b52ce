//! Entries of pages, written and emptied. The page is one CPU's at a time, so a plain store does it.

use super::EMPTY;
use crate::entry::EntryFormat;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use framewright::{Frame, PageAccess};

/// Writes the entries of pages, one after the other.
#[inline(always)]
pub(super) fn fill<E: EntryFormat>(entries: &[AtomicU64], frame: Frame, access: PageAccess) {
    // All entries but the first by an addition: the frames' numbers have bits of their own, which the caller has checked.
    let first = E::page(frame, access).bits();
    let step = E::page(Frame(1), access).bits() - E::page(Frame(0), access).bits();
    let fill = |nth: u64, entry: &AtomicU64| fill_one(entry, first + nth * step);
    // Most calls are for few pages, and the compiler's way to do several at a time takes long to begin.
    if let [first, others @ ..] = entries
        && others.len() <= 3
    {
        fill(0, first);
        return up_to_3(others, |nth, entry| fill(nth + 1, entry));
    }
    for (nth, entry) in (0..).zip(entries) {
        fill(nth, entry);
    }
}

/// Calls `work` with each of at most three entries, without a loop.
#[inline(always)]
fn up_to_3(entries: &[AtomicU64], work: impl Fn(u64, &AtomicU64)) {
    if let [a, ..] = entries {
        work(0, a);
    }
    if let [_, b, ..] = entries {
        work(1, b);
    }
    if let [_, _, c] = entries {
        work(2, c);
    }
}

/// Writes the entry of a page for each frame.
#[inline(always)]
pub(super) fn fill_each<E: EntryFormat>(
    entries: &[AtomicU64],
    frames: &[Frame],
    access: PageAccess,
) {
    for (entry, frame) in entries.iter().zip(frames) {
        fill_one(entry, E::page(*frame, access).bits());
    }
}

#[inline(always)]
fn fill_one(entry: &AtomicU64, bits: u64) {
    debug_assert_eq!(entry.load(Relaxed), EMPTY, "mapped twice");
    // Relaxed: the walker of another CPU comes here only after that CPU has learnt of the page, which is
    // the caller's to order.
    entry.store(bits, Relaxed);
}

/// Empties the entries of pages.
#[inline(always)]
pub(super) fn empty(entries: &[AtomicU64]) {
    // As above.
    if let [first, others @ ..] = entries
        && others.len() <= 3
    {
        first.store(EMPTY, Relaxed);
        return up_to_3(others, |_, entry| entry.store(EMPTY, Relaxed));
    }
    for entry in entries {
        entry.store(EMPTY, Relaxed);
    }
}

/// The same for many pages: apart, because what few need is little.
#[inline(never)]
pub(super) fn empty_many(entries: &[AtomicU64]) {
    let (many, others) = entries.as_chunks::<32>();
    for all in many {
        for entry in all {
            entry.store(EMPTY, Relaxed);
        }
    }
    for entry in others {
        entry.store(EMPTY, Relaxed);
    }
}
