//! Pages that a read from the device brings with the one that is touched.

use crate::machine::{host, load, served_by, store};
use framewright_linux::paged::Paged;
use framewright_linux::{Frontswap, Zram};
use std::sync::Arc;

const PAGES: u64 = 512;

/// A region of which most pages lie on the device, with one pager, which knows all sequences.
fn mostly_on_device(work: impl FnOnce(&Paged<'_>)) {
    let host = host();
    let device = Zram::new(PAGES, 4 << 20);
    let swap = Frontswap::new(&device, PAGES);
    let paged = Paged::new(Arc::clone(host.ram_shared()), swap, 64).unwrap();
    served_by(1, &host, &paged, || {
        (0..PAGES).for_each(|page| store(&paged, page, 3, page + 7));
        work(&paged);
        paged.verify().unwrap();
        (0..PAGES).for_each(|page| assert_eq!(load(&paged, page, 3), page + 7));
    });
}

#[test]
fn touches_far_from_one_another_soon_bring_single_pages() {
    mostly_on_device(|paged| {
        // The first pages of each eight, in no order, and long before any of them comes again.
        let touch = |nth: u64| load(paged, nth * 19 % 64 * 8, 3);
        (0..8).for_each(|nth| _ = touch(nth));
        let before = paged.stats();
        (8..56).for_each(|nth| _ = touch(nth));
        let after = paged.stats();
        let (brought, ahead) = (after.brought - before.brought, after.ahead - before.ahead);
        assert!((30..=48).contains(&brought), "{before:?} {after:?}");
        assert_eq!(ahead, 0, "{before:?} {after:?}");
    });
}

#[test]
fn a_read_whose_pages_are_used_is_followed_by_as_long_a_one() {
    mostly_on_device(|paged| {
        // All pages of an eight, from the last one down: no sequence that a pager knows.
        let touch = |nth: u64| {
            let first = nth * 19 % 56 * 8;
            (first..first + 8)
                .rev()
                .for_each(|page| assert_eq!(load(paged, page, 3), page + 7));
        };
        touch(0);
        let before = paged.stats();
        (1..48).for_each(touch);
        let after = paged.stats();
        assert_eq!(after.ahead - before.ahead, 47 * 7);
        assert_eq!(after.ahead_used - before.ahead_used, 47 * 7);
        assert_eq!(after.faults - before.faults, 47);
        assert_eq!(after.used_again, before.used_again);
    });
}

#[test]
fn a_page_that_is_copied_or_pinned_is_used_too() {
    mostly_on_device(|paged| {
        let mut bytes = [0; 8];
        let mut used = paged.stats().ahead_used;
        for first in [0, 152, 304] {
            load(paged, first, 3);
            assert_eq!(paged.stats().ahead_used, used, "nothing but the first one");
            paged.read((first + 1) * 4096, &mut bytes).unwrap();
            paged.write((first + 2) * 4096, &bytes).unwrap();
            drop(paged.pin(first + 3..first + 5, false).unwrap());
            drop(paged.pin(first + 3..first + 5, true).unwrap());
            used += 4;
            assert_eq!(paged.stats().ahead_used, used);
        }
    });
}

#[test]
fn a_sequence_takes_no_hits_and_gives_none() {
    mostly_on_device(|paged| {
        // Touches at random have used all that came with them. A sequence of reads changes nothing of that.
        let used = |first: u64| {
            (first..first + 8)
                .rev()
                .for_each(|page| _ = load(paged, page, 3))
        };
        used(0);
        used(152);
        (200..300).for_each(|page| _ = load(paged, page, 3));
        let before = paged.stats();
        load(paged, 404, 3);
        assert_eq!(
            paged.stats().ahead - before.ahead,
            7,
            "as before the sequence"
        );
    });
}
