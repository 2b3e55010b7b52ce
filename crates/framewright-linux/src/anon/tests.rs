//! Tests of what only the inside of a region shows: pages hidden behind the back of its records, and the gate held.

use super::*;
use crate::window::MappingAccess;
use crate::{Host, Options};
use framewright::frame::{FrameSource, ZoneLayout};
use framewright::reclaim::MoveState;
use std::time::{Duration, Instant};

fn host() -> Host<()> {
    Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 1024).with_cpus(2))).unwrap()
}

/// A region of 32 pages, populated, the first word of each its number.
fn region(host: &Host<()>) -> Anon {
    let anon = Anon::new(Arc::clone(host.ram_shared()), 32).unwrap();
    let mut seat = host.seat().unwrap();
    anon.populate(&mut seat, anon.range(), Order::ZERO).unwrap();
    for nth in 0..32 {
        let frame = anon.region.table.frame(nth).unwrap();
        let words = host.ram().words(frame).unwrap();
        words[0].store(nth as u64, std::sync::atomic::Ordering::Relaxed);
    }
    anon
}

fn first_word(anon: &Anon, nth: usize) -> u64 {
    let address = anon.address(anon.region.page(nth)).unwrap();
    // SAFETY: the page is populated, and no thread writes to it.
    unsafe { address.cast::<u64>().read_volatile() }
}

#[test]
fn a_page_that_the_kernel_refused_to_show_is_shown_by_the_thread_that_touches_it() {
    let host = host();
    let anon = region(&host);
    // As after a refusal: no access to populated pages, and the gate is open.
    let hidden = anon.region.range(&(4..12));
    anon.region.window.unmap(hidden).unwrap();
    for nth in (0..32).rev() {
        assert_eq!(first_word(&anon, nth), nth as u64);
    }
    assert_eq!(anon.stats().waits, 0);
}

#[test]
fn a_thread_that_touches_what_moves_waits_until_the_gate_is_open() {
    let host = host();
    let anon = region(&host);
    let shut = anon.region.gate.shut();
    let page = anon.region.range(&(7..8));
    anon.region.window.unmap(page).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| first_word(&anon, 7));
        let begun = Instant::now();
        while anon.stats().waits == 0 && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!reader.is_finished());
        let run = Run::new(anon.region.table.frame(7).unwrap(), 1).unwrap();
        anon.region
            .window
            .remap(page.start(), run, MappingAccess::Write, true)
            .unwrap();
        drop(shut);
        assert_eq!(reader.join().unwrap(), 7);
    });
    assert_eq!(anon.stats().waits, 1);
}

#[test]
fn what_is_no_region_is_refused() {
    let host = host();
    let none = Anon::new(Arc::clone(host.ram_shared()), 0).unwrap_err();
    assert_eq!(
        none.to_string(),
        "a window of 0 pages is not between 1 and 2^30"
    );
}

#[test]
fn of_two_moves_of_one_block_one_is_made_and_the_other_is_busy() {
    let host = Host::fenced(&Options::new(ZoneLayout::new(Frame(0), 4096))).unwrap();
    let mut seat = host.seat().unwrap();
    let anon = Anon::new(Arc::clone(host.ram_shared()), 1024).unwrap();
    let page = anon.range().start();
    let pages = PageRange::new(page, 1).unwrap();
    anon.populate(&mut seat, pages, Order::ZERO).unwrap();
    let from = anon.frame_of(page).unwrap();
    let mut moves = [0; 2].map(|_| Move {
        from,
        to: seat.alloc(Order::ZERO, Mobility::Movable).unwrap(),
        order: Order::ZERO,
        state: MoveState::Unknown,
    });
    anon.migrate(&mut moves);
    let states = moves.map(|of| of.state);
    assert_eq!(states, [MoveState::Moved, MoveState::Busy]);
    assert_eq!(anon.frame_of(page), Some(moves[0].to));
    assert_ne!(moves[0].to, moves[1].to);
}

#[test]
fn no_thread_allocates_with_the_gate_shut_that_populates_beside_another_one() {
    let host = host();
    let anon = region(&host);
    let mut seat = host.seat().unwrap();
    // Blocks for pages that another thread has populated meanwhile, or some of them.
    let blocks: Vec<BehindPages> = (0..8)
        .map(|nth| BehindPages {
            page: 4 * nth,
            frame: seat.alloc(Order::ZERO, Mobility::Movable).unwrap(),
            order: Order::ZERO,
        })
        .collect();
    let mut unused = Vec::new();
    assert_eq!(anon.show_blocks(&blocks, &mut unused), Ok(0));
    assert_eq!(crate::gate::allocs_with_a_gate_shut(), 0);
    for run in unused {
        FrameSource::free_run(&mut seat, run);
    }
    anon.discard(&mut seat, anon.range()).unwrap();
    assert_eq!(host.zone().recount().allocated.iter().sum::<u64>(), 0);
}
