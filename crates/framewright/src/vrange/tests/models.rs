//! The interleavings of what CPUs share without a lock: the way of spans into an inbox, and the
//! stamp of pages that wait beside a flush. Of seats by themselves: so all of them, or nearly, are
//! tried. `RUSTFLAGS='--cfg loom' cargo test -p framewright --release --lib vrange::models`

extern crate std;

use super::purge::ReleasePart;
use super::seat::Held;
use super::{AreaHeader, AreaKind, AreaRequest, RangeSeat, Space, SpaceLayout};
use crate::platform::{FramePlatform, MapError, RangePlatform, TableSource};
use crate::policy::RangeConfig;
use crate::seats::Inboxes;
use crate::sync::models::explore;
use crate::sync::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};
use crate::units::{CpuId, Page, PageAccess, PageRange, Run};
use loom::thread;
use std::boxed::Box;
use std::vec;

/// How many pages are mapped, and how many of them a TLB may still know.
struct ModelPages {
    mapped: AtomicU64,
    cached: AtomicU64,
}

impl FramePlatform for ModelPages {
    const ASYMMETRIC: bool = false;

    fn relax(&self, attempt: u32) {
        ().relax(attempt);
    }

    fn barrier_all(&self) {
        ().barrier_all();
    }
}

impl RangePlatform for ModelPages {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Err(MapError::NoMemory)
    }

    fn unmap(&self, range: PageRange) -> Result<(), MapError> {
        self.mapped.fetch_sub(range.pages(), AcqRel);
        Ok(())
    }

    fn flush_all(&self) {
        // When it ends, TLBs may know only translations that were mapped when it began.
        let mapped = self.mapped.load(Acquire);
        self.cached.fetch_min(mapped, AcqRel);
    }

    fn zero(&self, _frames: Run) {}
}

type ModelSpace = &'static Space<'static, ModelPages>;
type ModelSeat = RangeSeat<'static, 'static, ModelPages, ()>;

/// Sixteen spans of four pages: two areas of one page, each with its guard page, fill one.
fn space(cpus: u16) -> ModelSpace {
    let layout = SpaceLayout::new(Page(0x400), 64)
        .with_span_pages(4)
        .with_cpus(cpus);
    let config = RangeConfig::for_cpus(cpus).kept();
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let pages = ModelPages {
        mapped: AtomicU64::new(0),
        cached: AtomicU64::new(0),
    };
    Box::leak(Box::new(
        Space::new(&layout, &config, memory, pages).unwrap(),
    ))
}

fn seat(space: ModelSpace, cpu: u16) -> ModelSeat {
    space.seat(CpuId(cpu), ()).unwrap()
}

fn held(space: ModelSpace, cpu: u16) -> Held<'static, 'static, ModelPages> {
    Held {
        space,
        words: space.seat_words(cpu),
        cpu,
    }
}

/// Where an area of one page starts, and the span that it is in.
fn alloc(seat: &mut ModelSeat) -> (u32, u32) {
    let page = seat.alloc_area(&AreaRequest::new(1)).unwrap();
    let at = seat.space().offset_unchecked(page) as u32;
    (at, seat.space().spans.place(at).0)
}

fn free(held: Held<'_, '_, ModelPages>, at: u32) {
    assert!(held.free_checked(at, held.header(at)), "no other CPU frees");
}

/// Pages freed in a span have come to its owner: no bit of it is left in no inbox.
fn assert_collected(space: ModelSpace, number: u32) {
    let span = space.spans.get(number);
    let sent = span.sent().iter().all(|word| word.load(Relaxed) == 0);
    assert!(
        sent && span.parcel().pending.load(Relaxed) == 0,
        "V3: collected"
    );
    assert_eq!(span.lazy().pages, 2, "V9: the area and its guard page");
}

/// Runs two threads beside each other. The sender is the first one, with which loom begins. If it
/// were the second one, loom would not try its compare-and-swap before the other's load of the same
/// word: loom does not see that the two race if the sender has loaded the word itself in between.
fn beside(first: impl FnOnce() + Send + 'static, second: impl FnOnce() + Send + 'static) {
    let threads = [thread::spawn(first), thread::spawn(second)];
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A CPU has a bound's pages lazy, and a batch that it has not reported. It reports, purges, frees and reports once more.
/// There are never more than the bound and a batch.
#[test]
fn v6_a_count_of_lazy_pages_is_of_one_moment() {
    const BOUND: u64 = 16;
    const BATCH: u64 = 4;
    explore(Some(3), || {
        let space = space(1);
        space.add_lazy(BOUND);
        let owner = held(space, 0);
        owner.words.delta.set(BATCH);
        let look = move || {
            if let Some(all) = space.lazy_at_a_moment() {
                assert!(all <= BOUND + BATCH, "V6: {all}");
            }
        };
        let work = move || {
            let owner = held(space, 0);
            // Two pages, which are lazy when all others have been flushed.
            assert_eq!(owner.report(2), BOUND + BATCH + 2);
            space.sub_lazy(BOUND + BATCH);
            owner.words.settle();
            owner.words.delta.set(BATCH);
            assert_eq!(owner.report(BOUND - 2), BATCH + BOUND);
            owner.words.settle();
        };
        beside(work, look);
        assert_eq!(space.lazy_at_a_moment(), Some(BOUND + BATCH));
    });
}

#[test]
fn v5_what_a_flush_did_not_see_unmapped_waits_for_the_next_one() {
    explore(None, || {
        let space = space(2);
        let mut owner = seat(space, 0);
        let page = owner.alloc_area(&AreaRequest::new(1)).unwrap();
        let pages = space.platform();
        pages.mapped.store(2, Relaxed);
        pages.cached.store(2, Relaxed);
        owner.free_area(page).unwrap();
        let other = thread::spawn(move || space.flush(space.seat_words(1)));
        let held = owner.held();
        assert!(held.pass());
        if held.release_span(&mut ReleasePart::whole(), &mut ()) {
            let cached = pages.cached.load(Relaxed);
            assert_eq!(cached, 0, "V5: free before a flush saw it unmapped");
        }
        other.join().unwrap();
    });
}

#[test]
fn v3_of_spans_that_are_sent_one_after_another_each_arrives() {
    explore(None, || {
        let space = space(2);
        let mut owner = seat(space, 0);
        let [one, _, two, _] = [(); 4].map(|()| alloc(&mut owner));
        assert_ne!(one.1, two.1, "two spans");
        let frees = move || {
            free(held(space, 1), one.0);
            free(held(space, 1), two.0);
        };
        beside(frees, move || _ = held(space, 0).collect_inbox());
        owner.held().collect_inbox();
        assert_collected(space, one.1);
        assert_collected(space, two.1);
    });
}

#[test]
fn v3_a_free_in_a_span_that_lies_in_a_former_owners_inbox_is_not_lost() {
    explore(Some(3), || {
        let space = space(3);
        // The CPU that freed the last area of a span sent the span only when it had gone back to
        // the arena.
        let former = held(space, 0);
        space.spans.get(0).parcel().pending.store(1, Relaxed);
        former.push(0, 0);
        let free_in_it = move || {
            // It is another CPU's then, and a third one frees in it.
            let (at, number) = alloc(&mut seat(space, 1));
            assert_eq!(number, 0);
            free(held(space, 2), at);
        };
        beside(free_in_it, move || _ = former.collect_inbox());
        former.collect_inbox();
        held(space, 1).collect_inbox();
        assert_collected(space, 0);
    });
}

/// An area of `vmalloc` without frames.
fn alloc_vmalloc(seat: &mut ModelSeat) -> Page {
    let (at, number) = alloc(seat);
    let space = seat.space();
    space.table.clear_frames(at, 2);
    space.spans.get(number).set_frames(true);
    let header = AreaHeader::live(AreaKind::Vmalloc, 2, 0);
    space.table.set_header(at, header);
    space.page(at)
}

/// Callers defer while a CPU frees what is deferred: no area is lost, none is freed twice, and each link is seen.
#[test]
fn v13_what_is_deferred_beside_a_free_of_the_others_is_freed_once() {
    explore(Some(2), || {
        let space = space(2);
        let mut owner = seat(space, 0);
        let [one, two, three] = [(); 3].map(|()| alloc_vmalloc(&mut owner));
        space.vfree_atomic(one).unwrap();
        let defers = thread::spawn(move || {
            space.vfree_atomic(two).unwrap();
        });
        let other = thread::spawn(move || {
            let mut other = seat(space, 1);
            space.vfree_atomic(three).unwrap();
            other.free_deferred()
        });
        let freed = owner.free_deferred();
        defers.join().unwrap();
        let freed = freed + other.join().unwrap();
        assert_eq!(freed + owner.free_deferred(), 3, "V13: an area is lost");
        assert_eq!(space.stats().area_frees, 3);
    });
}

/// Of two frees of one area, deferred or not, one succeeds, also while a CPU frees what is deferred.
#[test]
fn v10_of_two_frees_one_of_which_is_deferred_one_succeeds() {
    explore(Some(3), || {
        let space = space(2);
        let mut owner = seat(space, 0);
        let area = alloc_vmalloc(&mut owner);
        let defers = thread::spawn(move || space.vfree_atomic(area).is_ok());
        let other = thread::spawn(move || {
            let mut other = seat(space, 1);
            let is_free = other.free_kind(area, AreaKind::Vmalloc).is_ok();
            other.free_deferred();
            is_free
        });
        owner.free_deferred();
        let frees = u64::from(defers.join().unwrap()) + u64::from(other.join().unwrap());
        assert_eq!(frees, 1, "V10");
        owner.free_deferred();
        assert_eq!(space.stats().area_frees, 1);
    });
}
