//! Objects of the baseline: contiguous where a block is there or can be made, mapped otherwise, and never two with
//! a byte in common.

use super::super::tenants::{JournalContents, JournalTenants};
use super::super::{Journal, Rule};
use super::{DIRECT, NO_MARKS, Paper, add, journal};
use framewright::{Addr, Frame, Mobility, Page};
use framewright_sim::Random;
use std::collections::BTreeMap;
use std::sync::Arc;

const FRAMES: u32 = 4096;
const OBJECT: u64 = 64 << 10;

fn idle(paper: &Paper, rule: Rule) -> Journal<&Paper> {
    journal(
        paper,
        &Arc::new(JournalTenants::new(FRAMES, 0)),
        rule,
        NO_MARKS,
    )
}

const fn is_direct(addr: Addr) -> bool {
    addr.0.wrapping_sub(DIRECT.0) < FRAMES as u64 * Page::BYTES
}

#[test]
fn a_block_that_is_there_is_taken_and_becomes_whole_again() {
    let paper = Paper::new(FRAMES);
    let journal = idle(&paper, Rule::Stall);
    add(&journal, 0..1024);
    let mut seat = journal.seat(0);
    let objects: Vec<Addr> = (0..64).map(|_| seat.kvmalloc(OBJECT).unwrap()).collect();
    assert!(objects.iter().all(|addr| is_direct(*addr)));
    let mut starts: Vec<u64> = objects.iter().map(|addr| addr.0).collect();
    starts.sort_unstable();
    starts.dedup();
    assert_eq!(starts.len(), 64);
    assert_eq!(seat.kvmalloc(OBJECT), None, "all memory is taken");
    for addr in objects {
        assert!(seat.kvfree(addr));
        assert!(!seat.kvfree(addr), "a second time");
    }
    seat.drain();
    assert_eq!(journal.zone.order_at(0), Some(10));
    assert_eq!(journal.verify(), Ok(1024));
    assert!(paper.log().is_empty(), "nothing was mapped");
}

#[test]
fn pieces_are_mapped_in_runs_and_unmapped_by_their_free_and_flushed_by_one_purge() {
    let paper = Paper::new(FRAMES);
    let mut journal = idle(&paper, Rule::FailFast);
    // Pairs of frames: no block of order 4.
    for pair in 0..64 {
        add(&journal, 4 * pair..4 * pair + 2);
    }
    journal.areas.set_lazy_pages_max(3 * 17);
    let mut seat = journal.seat(0);
    let objects: Vec<Addr> = (0..4).map(|_| seat.kvmalloc(OBJECT).unwrap()).collect();
    assert!(objects.iter().all(|addr| !is_direct(*addr)));
    let mapped = paper.log();
    assert!(mapped.iter().all(|entry| entry.starts_with("map ")));
    assert!(mapped.len() >= 32 && mapped.len() <= 64, "{mapped:?}");
    let counters = journal.counters();
    assert_eq!((counters.allocs, counters.spills), (4, 4));
    assert_eq!((counters.compact_stall, counters.allocstall), (0, 0));
    for addr in &objects[..3] {
        assert!(seat.kvfree(*addr));
    }
    // Three areas of 16 pages and a guard page are the bound, not above it.
    assert_eq!(journal.areas.lazy(), (51, 0));
    let unmapped = |addr: &Addr| format!("unmap {}+16", addr.page().0);
    let of_three: Vec<String> = objects[..3].iter().map(unmapped).collect();
    assert_eq!(paper.log(), of_three);
    assert!(seat.kvfree(objects[3]));
    assert_eq!(journal.areas.lazy(), (0, 1));
    let first = objects[0].page().0;
    assert_eq!(paper.log(), [unmapped(&objects[3]), "flush".to_owned()]);
    assert!(!seat.kvfree(objects[3]));
    assert_eq!(journal.verify(), Ok(128));
    assert_eq!(seat.kvmalloc(OBJECT).unwrap().page().0, first, "lowest gap");
}

#[test]
fn a_request_that_may_stall_compacts_and_one_that_fails_fast_maps() {
    for (rule, is_contiguous) in [(Rule::Stall, true), (Rule::FailFast, false)] {
        let paper = Paper::new(FRAMES);
        let tenants = JournalTenants::new(FRAMES, 16);
        for page in 0..16 {
            tenants.settle(&&paper, Frame(16 + u64::from(page)), page);
        }
        let tenants = Arc::new(tenants);
        let journal = journal(&paper, &tenants, rule, NO_MARKS);
        journal.zone.set_label(0, Mobility::Unmovable);
        for frame in 0..60 {
            journal.add(Frame(3072 + 3 * frame));
        }
        let addr = journal.seat(0).kvmalloc(OBJECT).unwrap();
        assert_eq!(is_direct(addr), is_contiguous, "{rule:?}");
        let counters = journal.counters();
        assert_eq!(counters.compact_stall, u64::from(is_contiguous));
        assert_eq!(counters.spills, u64::from(!is_contiguous));
        tenants.verify(&&paper).unwrap();
    }
}

#[test]
fn without_enough_frames_nothing_stays_taken() {
    let paper = Paper::new(FRAMES);
    let journal = idle(&paper, Rule::Stall);
    for frame in 0..15 {
        journal.add(Frame(2 * frame));
    }
    let mut seat = journal.seat(0);
    assert_eq!(seat.kvmalloc(OBJECT), None);
    assert_eq!(seat.kvmalloc(u64::MAX / 2), None);
    assert!(!seat.kvfree(Addr(12)));
    assert_eq!(journal.verify(), Ok(15));
}

/// Objects of many sizes, frames of a cache and the background on two threads; every object's
/// bytes are its own.
#[test]
fn two_threads_never_share_a_byte() {
    let paper = Paper::new(FRAMES);
    let tenants = Arc::new(JournalTenants::new(FRAMES, 0));
    let setup = super::super::Setup {
        cpus: 2,
        ..setup(&paper, &tenants)
    };
    let journal = Journal::new(setup);
    add(&journal, 0..u64::from(FRAMES));
    std::thread::scope(|scope| {
        for cpu in 0..2 {
            let (journal, tenants, paper) = (&journal, &tenants, &paper);
            scope.spawn(move || churn(journal, tenants, paper, cpu));
        }
    });
    tenants.verify(&&paper).unwrap();
    let free = journal.verify().unwrap();
    assert_eq!(free + tenants.cached(), u64::from(FRAMES));
}

fn setup<'p>(paper: &'p Paper, tenants: &Arc<JournalTenants>) -> super::super::Setup<&'p Paper> {
    super::super::Setup {
        frames: FRAMES,
        cpus: 1,
        machine_cpus: 1,
        rule: Rule::Stall,
        marks: super::super::JournalMarks {
            min: 64,
            low: 80,
            high: 96,
        },
        window: framewright::PageRange::new(Page(1 << 16), 1 << 16).unwrap(),
        mapper: paper,
        tenants: Arc::clone(tenants),
        wake: Arc::default(),
        direct: DIRECT,
        cpu_ns: None,
    }
}

fn churn(journal: &Journal<&Paper>, tenants: &JournalTenants, paper: &Paper, cpu: u16) {
    let mut seat = journal.seat(cpu);
    let mut random = Random::new(u64::from(cpu));
    let mut live: BTreeMap<u64, u64> = BTreeMap::new();
    for step in 0..3000 {
        match random.below(4) {
            0 => {
                if let Some(frame) = seat.frame() {
                    tenants.read_in(&paper, &[(frame, step)]);
                }
            }
            1 | 2 if live.len() < 24 => {
                let bytes = 1 + random.below(20 << 12);
                if let Some(addr) = seat.kvmalloc(bytes) {
                    if is_direct(addr) {
                        let frame = Frame((addr.0 - DIRECT.0) / Page::BYTES);
                        (&paper).set_word(frame, 7, addr.0);
                    }
                    assert!(live.insert(addr.0, bytes).is_none());
                }
            }
            _ => {
                if let Some((addr, _)) = live.pop_first() {
                    if is_direct(Addr(addr)) {
                        let frame = Frame((addr - DIRECT.0) / Page::BYTES);
                        assert_eq!((&paper).word(frame, 7), addr);
                    }
                    assert!(seat.kvfree(Addr(addr)));
                }
            }
        }
        if step % 64 == 0 {
            seat.background(4);
        }
    }
    for addr in live.into_keys() {
        assert!(seat.kvfree(Addr(addr)));
    }
}
