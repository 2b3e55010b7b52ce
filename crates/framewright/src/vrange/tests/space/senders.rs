//! Frees from another CPU in spans that change hands, and two frees at the same moment.

use super::*;
use crate::platform::FramePlatform;
use crate::platform::bare::BarePlatform;
use crate::units::Addr;

/// A space in which CPU 0 has an area in a span that is on its way to CPU 2, which had the span
/// before. A CPU that frees marks pages first, and sends the span after that; in between the owner
/// can have collected, purged and returned the span.
fn sent_to_a_former_owner() -> (&'static TestSpace, Vec<TestSeat>, Page) {
    let layout = SpaceLayout::new(Page(0x400), 1024)
        .with_cpus(3)
        .with_span_pages(64);
    let space = space(layout, config(200, true));
    let mut seats = seats(space);
    let was = space
        .spans
        .get(0)
        .parcel()
        .pending
        .swap(1, Ordering::AcqRel);
    assert_eq!(was, 0);
    seats[1].held().push(2, 0);
    let at = seats[0].alloc_area(&AreaRequest::new(3)).unwrap();
    assert_eq!(at, Page(0x400), "in that span");
    (space, seats, at)
}

#[test]
fn what_is_freed_in_a_span_that_changed_hands_is_drained_whichever_owner_was_told() {
    let (space, mut seats, at) = sent_to_a_former_owner();
    assert_eq!(seats[1].free_area(at), Ok(3));
    seats[1].drain();
    space.verify().unwrap();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    assert_eq!(space.arena.lock(|_| ()).gap_count(), 1);
}

#[test]
fn a_span_that_is_lent_while_a_former_owner_lets_go_of_it_is_sent_to_the_new_one() {
    let (space, mut seats, at) = sent_to_a_former_owner();
    assert_eq!(seats[1].free_area(at), Ok(3));
    // CPU 2 saw it as the arena's, before CPU 0 took it.
    let former = seats[2].held();
    assert_eq!(former.words.inbox.swap(0, Ordering::AcqRel), 1);
    former.forget(0);
    seats[0].purge();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    space.verify().unwrap();
}

#[test]
fn v10_an_area_that_a_slow_free_takes_goes_where_its_span_is_by_then() {
    let layout = SpaceLayout::new(Page(0x400), 1024)
        .with_cpus(3)
        .with_span_pages(64);
    let space = space(layout, config(200, true));
    let mut seats = seats(space);
    let old = seats[0].alloc_area(&AreaRequest::new(3)).unwrap();
    // What CPU 1 has seen when it is held up, in a free by a stale address: a span of CPU 0's, and this header.
    let header = seats[1].space.check_free(old, AreaKind::Plain).unwrap();
    // Meanwhile the area ends, and the span goes. Another area with that header is the arena's.
    seats[0].free_area(old).unwrap();
    seats[0].drain();
    let request = AreaRequest::new(3).aligned_to(128 * Page::BYTES);
    assert_eq!(seats[0].alloc_area(&request), Ok(old));
    // The free goes on.
    let slow = seats[1].held();
    let (at, pages) = (space.offset_unchecked(old) as u32, header.pages());
    slow.words
        .delta
        .set(slow.words.delta.get() + u64::from(pages));
    assert!(slow.becomes_lazy(slow.space.table.area(at), header));
    slow.pass_on(at, header, pages, false);
    space.verify().unwrap();
    let again = seats[0].free_area(old);
    assert_eq!(again, Err(RangeFreeError::AlreadyFree(old)));
    seats[1].drain();
    space.verify().unwrap();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
    assert_eq!(space.arena.lock(|_| ()).gap_count(), 1, "V10: not lost");
}

/// Several CPUs, none of which waits for long.
#[derive(Debug)]
struct Several;

impl FramePlatform for Several {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        assert!(attempt < 1000, "one thread waits for itself");
    }

    fn barrier_all(&self) {}
}

#[test]
fn of_two_frees_at_the_same_moment_one_is_refused_whichever_cpu_is_the_owner() {
    let layout = SpaceLayout::new(Page(0x400), 1024)
        .with_cpus(2)
        .with_span_pages(64);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(
        &layout,
        &config(200, true),
        &mut memory,
        BarePlatform(Several, Addr(0)),
    )
    .unwrap();
    let [mut owner, mut other] = [0, 1].map(|cpu| space.seat(CpuId(cpu), ()).unwrap());
    let area = owner.alloc_area(&AreaRequest::new(3)).unwrap();
    let slot = owner.map_ram(&[Frame(7)], Context::ANY).unwrap();
    for (page, kind) in [(area, AreaKind::Plain), (slot, AreaKind::Ram)] {
        let (number, _) = space.spans.place(space.offset_unchecked(page) as u32);
        let span = space.spans.get(number);
        assert_eq!(span.owner().cpu(), Some(0), "not the arena's");
        // The owner has looked, and the other one is first to free it.
        let seen = owner.space.check_free(page, kind).unwrap();
        match kind {
            AreaKind::Ram => other.unmap_ram(page, 1),
            _ => other.free_area(page),
        }
        .unwrap();
        let at = space.offset_unchecked(page) as u32;
        assert!(!owner.held().free_checked(at, seen));
    }
    assert_eq!(space.stats().vmap_lazy_nr, 4 + 1);
    let again = RangeFreeError::AlreadyFree;
    assert_eq!(owner.free_area(area), Err(again(area)));
    assert_eq!(owner.unmap_ram(slot, 1), Err(again(slot)));
    other.drain();
    space.verify().unwrap();
    assert_eq!(space.stats().vmap_lazy_nr, 0);
}
