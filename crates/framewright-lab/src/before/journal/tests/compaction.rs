//! Compaction and reclaim of the baseline on layouts of a few pageblocks, where each move can be foretold.

use super::super::compact::{JournalOutcome, Mode};
use super::super::scanners::JournalScanners;
use super::super::tenants::{FrameHolder, JournalTenants};
use super::super::{Rule, Wake};
use super::{NO_MARKS, Paper, add, journal};
use framewright::{Frame, Mobility};
use std::sync::Arc;

const FRAMES: u32 = 4096;

/// Program pages at these frames, cache pages at those, in an otherwise pinned memory.
fn tenants(paper: &Paper, movable: &[u64], cached: &[u64]) -> Arc<JournalTenants> {
    let tenants = JournalTenants::new(FRAMES, movable.len() as u32);
    for (page, frame) in movable.iter().enumerate() {
        tenants.settle(&paper, Frame(*frame), page as u32);
    }
    let cached: Vec<_> = cached.iter().map(|frame| Frame(*frame)).zip(0..).collect();
    tenants.read_in(&paper, &cached);
    Arc::new(tenants)
}

#[test]
fn a_block_without_pins_is_emptied_and_its_pages_are_whole_elsewhere() {
    let paper = Paper::new(FRAMES);
    // Block 16..32 has pages of both kinds; the free frames lie at the top.
    let movable: Vec<u64> = (16..24).collect();
    let cached: Vec<u64> = (24..32).collect();
    let tenants = tenants(&paper, &movable, &cached);
    let journal = journal(&paper, &tenants, Rule::Stall, NO_MARKS);
    journal.zone.set_label(0, Mobility::Unmovable);
    for frame in 0..40 {
        journal.add(Frame(3072 + 3 * frame));
    }
    assert!(!journal.zone.has(4));
    assert_eq!(journal.compact(4, Mode::Direct), JournalOutcome::Success);
    assert_eq!(journal.zone.order_at(16), Some(4));
    assert_eq!(journal.counters().migrated, 16);
    assert!((16..32).all(|frame| tenants.holder(frame).is_none()));
    tenants.verify(&&paper).unwrap();
    assert_eq!(tenants.cached(), 8);
    assert_eq!(journal.verify(), Ok(40));
}

#[test]
fn a_direct_attempt_leaves_a_block_at_the_first_pin_and_moves_nothing_of_it() {
    let paper = Paper::new(FRAMES);
    // Frame 30 is pinned: no tenant has a page there that can move.
    let movable: Vec<u64> = (16..30).chain([31]).collect();
    let tenants = tenants(&paper, &movable, &[]);
    let journal = journal(&paper, &tenants, Rule::Stall, NO_MARKS);
    journal.zone.set_label(0, Mobility::Unmovable);
    for frame in 0..40 {
        journal.add(Frame(3072 + 3 * frame));
    }
    assert_eq!(journal.compact(4, Mode::Direct), JournalOutcome::Complete);
    assert_eq!(journal.counters().migrated, 0);
    assert!((16..30).all(|frame| tenants.holder(frame) == Some(FrameHolder::Movable)));
    tenants.verify(&&paper).unwrap();
    // The background moves what it can, to no avail, once the hints are dropped.
    assert_eq!(
        journal.compact(4, Mode::Background),
        JournalOutcome::Complete
    );
    assert_eq!(journal.counters().migrated, 0);
    journal.scanners.asleep();
    assert_eq!(
        journal.compact(4, Mode::Background),
        JournalOutcome::Complete
    );
    assert_eq!(journal.counters().migrated, 15);
    tenants.verify(&&paper).unwrap();
    assert_eq!(journal.verify(), Ok(40));
}

#[test]
fn a_request_moves_nothing_from_movable_pageblocks_and_the_background_does() {
    let paper = Paper::new(FRAMES);
    let movable: Vec<u64> = (16..32).collect();
    let tenants = tenants(&paper, &movable, &[]);
    let journal = journal(&paper, &tenants, Rule::Stall, NO_MARKS);
    for frame in 0..40 {
        journal.add(Frame(3072 + 3 * frame));
    }
    assert_eq!(journal.compact(4, Mode::Direct), JournalOutcome::Complete);
    assert_eq!(journal.counters().migrated, 0);
    let background = journal.compact(4, Mode::Background);
    assert_eq!(background, JournalOutcome::Success);
    assert_eq!(journal.counters().migrated, 16);
    tenants.verify(&&paper).unwrap();
}

/// Pages go to a free block from the lists, if one lies in the upper half of what is between the scanners.
#[test]
fn a_free_block_of_the_lists_serves_before_the_scan_from_the_top() {
    let paper = Paper::new(FRAMES);
    let movable: Vec<u64> = (16..32).collect();
    let tenants = tenants(&paper, &movable, &[]);
    let journal = journal(&paper, &tenants, Rule::Stall, NO_MARKS);
    journal.zone.set_label(0, Mobility::Unmovable);
    // Two blocks of order 3, neither in the topmost pageblock, where single frames are.
    add(&journal, 3080..3088);
    add(&journal, 3128..3136);
    for frame in 0..40 {
        journal.add(Frame(3584 + 3 * frame));
    }
    assert_eq!(journal.compact(4, Mode::Direct), JournalOutcome::Success);
    let moved = (3080..3088).chain(3128..3136);
    assert!(
        moved
            .into_iter()
            .all(|frame| tenants.holder(frame).is_some())
    );
    tenants.verify(&&paper).unwrap();
}

#[test]
fn without_frames_to_move_to_nothing_moves() {
    let paper = Paper::new(FRAMES);
    let movable: Vec<u64> = (16..32).collect();
    let tenants = tenants(&paper, &movable, &[]);
    let journal = journal(&paper, &tenants, Rule::Stall, NO_MARKS);
    journal.zone.set_label(0, Mobility::Unmovable);
    add(&journal, 8..16);
    assert_eq!(journal.compact(4, Mode::Direct), JournalOutcome::Skipped);
    // Enough, but below the pages.
    for frame in 0..40 {
        journal.add(Frame(3 * frame));
    }
    assert!(matches!(
        journal.compact(4, Mode::Direct),
        JournalOutcome::Complete | JournalOutcome::Contended
    ));
    tenants.verify(&&paper).unwrap();
    assert_eq!(journal.verify(), Ok(48));
}

#[test]
fn pageblocks_in_which_nothing_was_found_are_passed_over_until_the_background_sleeps() {
    let paper = Paper::new(FRAMES);
    let movable: Vec<u64> = (16..30).collect();
    let tenants = tenants(&paper, &movable, &[]);
    let journal = journal(&paper, &tenants, Rule::Stall, NO_MARKS);
    journal.zone.set_label(0, Mobility::Unmovable);
    for frame in 0..40 {
        journal.add(Frame(3072 + 3 * frame));
    }
    assert_eq!(journal.compact(4, Mode::Direct), JournalOutcome::Complete);
    // Now the block could be emptied, but its pageblock is not looked at.
    tenants.settle(&&paper, Frame(30), 0);
    tenants.settle(&&paper, Frame(31), 1);
    assert_eq!(journal.compact(4, Mode::Direct), JournalOutcome::Complete);
    journal.scanners.asleep();
    assert_eq!(journal.compact(4, Mode::Direct), JournalOutcome::Success);
}

#[test]
fn failures_of_the_background_are_backed_off_from_and_a_success_ends_that() {
    let scanners = JournalScanners::new(FRAMES);
    assert!(!scanners.is_deferred());
    for passed in [1, 3, 7, 15, 31, 63, 63] {
        scanners.defer();
        let deferred = (0..200).take_while(|_| scanners.is_deferred()).count();
        assert_eq!(deferred, passed);
        assert!(!scanners.is_deferred(), "and then all are tried");
    }
    scanners.succeeded();
    assert!(!scanners.is_deferred());
}

#[test]
fn reclaim_takes_what_was_read_in_longest_ago_and_the_background_stops_at_the_high_mark() {
    let paper = Paper::new(FRAMES);
    let cached: Vec<u64> = (100..1100).collect();
    let tenants = tenants(&paper, &[], &cached);
    let marks = super::super::JournalMarks {
        min: 10,
        low: 20,
        high: 100,
    };
    let journal = journal(&paper, &tenants, Rule::Stall, marks);
    let mut seat = journal.seat(0);
    seat.background(0);
    assert_eq!(journal.free_frames(), 128, "whole steps of 32");
    assert_eq!(tenants.cached(), 1000 - 128);
    let is_cached = |frame| tenants.holder(frame) == Some(FrameHolder::Cache);
    assert!((100..228).all(|frame| !is_cached(frame)));
    assert!((228..1100).all(is_cached));
    seat.background(0);
    assert_eq!(tenants.cached(), 872);
    tenants.verify(&&paper).unwrap();
    let wake = Wake::default();
    wake.wake(0);
    assert_eq!(wake.wakes(), 0);
}
