//! Tests of the machine itself: what it must record is what the runs rely on.

use super::*;
use crate::PoolFrames;
use framewright::frame::{FrameSource, tables_of};

const CPU: CpuId = CpuId(0);
const OTHER: CpuId = CpuId(1);

/// Sixteen pages from page 100, four pool frames and four own ones.
fn small() -> Paging {
    Paging::new(2, Page(100), 16, 4, 4)
}

fn run(start: u64, frames: u64) -> Run {
    Run::new(Frame(start), frames).unwrap()
}

fn range(start: u64, pages: u64) -> PageRange {
    PageRange::new(Page(start), pages).unwrap()
}

#[test]
fn a_tlb_keeps_what_was_unmapped_until_it_is_flushed() {
    let paging = small();
    paging
        .map(Page(103), run(5, 2), PageAccess::DATA, &mut ())
        .unwrap();
    assert_eq!(paging.access(CPU, Page(104)), Some(Frame(6)));
    paging.unmap(range(100, 16)).unwrap();
    assert_eq!((paging.mapped(Page(104)), paging.mapped_pages()), (None, 0));
    assert_eq!(paging.access(CPU, Page(104)), Some(Frame(6)));
    assert_eq!(paging.access(OTHER, Page(104)), None);
    paging.flush_all();
    assert_eq!(paging.access(CPU, Page(104)), None);
    assert_eq!(paging.access(CPU, Page(99)), None);
    assert_eq!(paging.access(CPU, Page(116)), None);
    assert_eq!(paging.broken(), None);
}

#[test]
fn words_written_through_one_mapping_are_read_through_another() {
    let paging = small();
    paging
        .map(Page(100), run(4, 1), PageAccess::DATA, &mut ())
        .unwrap();
    paging
        .map(Page(109), run(4, 1), PageAccess::DATA, &mut ())
        .unwrap();
    assert!(paging.write(CPU, Page(100), 77) && !paging.write(CPU, Page(101), 1));
    assert_eq!(paging.read(OTHER, Page(109)), Some(77));
    paging.fill(Frame(4), 8);
    assert_eq!(paging.read(CPU, Page(100)), Some(8));
    assert_eq!(paging.contents(Frame(4)), 8);
    assert_eq!(paging.broken(), None);
}

#[test]
fn v5_a_page_is_mapped_only_when_no_tlb_has_an_old_translation() {
    for (is_eager, touch) in [(false, false), (false, true), (true, false)] {
        let paging = small().eager(is_eager);
        paging
            .map(Page(100), run(4, 1), PageAccess::DATA, &mut ())
            .unwrap();
        if touch {
            paging.access(OTHER, Page(100));
        }
        paging.unmap(range(100, 1)).unwrap();
        paging
            .map(Page(100), run(4, 1), PageAccess::DATA, &mut ())
            .unwrap();
        let broken = paging.broken().unwrap_or_default();
        assert_eq!(broken.contains("old translation"), is_eager || touch);
    }
}

#[test]
fn v5_a_frame_is_given_back_only_when_nothing_reaches_it() {
    let give_back = |is_unmapped, is_flushed| {
        let paging = small();
        let mut pool = PoolFrames(&paging);
        let taken = pool.alloc_run(1, Context::ANY).unwrap();
        paging
            .map(Page(100), taken, PageAccess::DATA, &mut ())
            .unwrap();
        paging.access(CPU, Page(100));
        if is_unmapped {
            paging.unmap(range(100, 1)).unwrap();
        }
        if is_flushed {
            paging.flush_all();
        }
        pool.free_run(taken);
        paging.broken().unwrap_or_default()
    };
    assert!(give_back(false, false).contains("is mapped"));
    assert!(give_back(true, false).contains("a TLB reaches it"));
    assert_eq!(give_back(true, true), "");
}

#[test]
fn v7_a_frame_is_taken_and_given_back_once() {
    let paging = small();
    let mut pool = PoolFrames(&paging);
    let mut taken = Vec::new();
    while let Ok(run) = pool.alloc_run(9, Context::ANY) {
        taken.extend(run.start().0..run.end().0);
    }
    taken.sort_unstable();
    assert_eq!((taken, paging.free_frames()), (vec![0, 1, 2, 3], 0));
    pool.free_run(run(1, 2));
    assert_eq!((paging.free_frames(), paging.broken()), (2, None));
    pool.free_run(run(2, 1));
    assert!(paging.broken().unwrap().contains("given back twice"));
}

#[test]
fn what_may_not_be_asked_for_is_recorded() {
    let broken = |ask: fn(&Paging) -> bool, has_error: bool| {
        let paging = small();
        assert_eq!(ask(&paging), has_error);
        paging.broken().unwrap_or_default()
    };
    let map = |p: &Paging, at, frame| {
        p.map(Page(at), run(frame, 1), PageAccess::DATA, &mut ())
            .is_err()
    };
    let outside = |p: &Paging| {
        p.map(Page(99), run(4, 1), PageAccess::DATA, &mut ())
            .is_err()
    };
    assert!(broken(outside, true).contains("outside"));
    assert!(broken(|p| p.unmap(range(115, 2)).is_err(), true).contains("outside"));
    let of_no_cpu = |p: &Paging| {
        p.map(Page(100), run(0, 1), PageAccess::DATA, &mut ())
            .is_err()
    };
    assert!(broken(of_no_cpu, false).contains("not taken"));
    let absent = |p: &Paging| {
        p.map(Page(100), run(8, 1), PageAccess::DATA, &mut ())
            .is_err()
    };
    assert_eq!(broken(absent, true), "");
    let zeroed = |p: &Paging| {
        p.zero(run(4, 1));
        false
    };
    assert!(broken(zeroed, false).contains("not taken"));
    let strange = |p: &Paging| {
        PoolFrames(p).free_run(run(4, 1));
        false
    };
    assert!(broken(strange, false).contains("never had it"));
    let paging = small();
    assert!(!map(&paging, 100, 4) && !map(&paging, 100, 5));
    assert!(paging.broken().unwrap().contains("mapped already"));
}

#[test]
fn the_callers_context_is_passed_on() {
    let paging = small();
    let map = |context| {
        paging
            .within(Context::NOIO, || {
                paging.map(
                    Page(100),
                    run(4, 1),
                    PageAccess::DATA,
                    &mut tables_of(&mut (), context),
                )
            })
            .unwrap();
    };
    map(Context::NOIO);
    paging
        .within(Context::NOIO, || paging.unmap(range(100, 1)))
        .unwrap();
    assert_eq!(paging.broken(), None);
    map(Context::ANY);
    assert!(paging.broken().unwrap().contains("instead of"));
    let paging = small();
    paging.within(Context::NOWAIT, || paging.flush_all());
    assert!(paging.broken().unwrap().contains("may not wait"));
}

#[test]
fn the_nth_call_fails_and_changes_nothing() {
    let paging = small();
    paging.machine().arm(true);
    paging.machine().fail(MachineCall::Map, 1, 1);
    paging
        .map(Page(100), run(4, 2), PageAccess::DATA, &mut ())
        .unwrap();
    let failed = paging.map(Page(102), run(6, 2), PageAccess::DATA, &mut ());
    assert_eq!(
        (failed, paging.mapped_pages()),
        (Err(MapError::NoMemory), 2)
    );
    paging.machine().fail(MachineCall::Unmap, 0, 1);
    assert!(paging.unmap(range(100, 2)).is_err() && paging.mapped_pages() == 2);
    paging.machine().fail(MachineCall::Frames, 0, 1);
    assert!(PoolFrames(&paging).alloc_run(1, Context::ANY).is_err());
    assert_eq!(paging.free_frames(), 4);
    let before = paging.now_ns();
    paging.machine().fail(MachineCall::Flush, 0, 1);
    paging.flush_all();
    assert_eq!(paging.now_ns() - before, 1000 * FLUSH_NS);
    assert_eq!(
        (paging.broken(), paging.machine().calls(MachineCall::Flush)),
        (None, 1)
    );
}

#[test]
fn at_the_limit_nothing_more_is_mapped() {
    let paging = small().limited(3);
    let map = |at, pages| paging.map(Page(at), run(4, pages), PageAccess::DATA, &mut ());
    assert_eq!(map(100, 2), Ok(()));
    assert_eq!(map(102, 2), Err(MapError::Limit { max: 3 }));
    assert_eq!((paging.mapped_pages(), map(102, 1)), (2, Ok(())));
}

#[test]
fn a_platform_that_lies_does_what_the_lie_says() {
    let lying = |lie| {
        let paging = small();
        let taken = PoolFrames(&paging).alloc_run(4, Context::ANY).unwrap();
        paging.lie(lie);
        (paging, taken)
    };
    let (paging, _) = lying(PagingLie::FlushNothing);
    paging
        .map(Page(100), run(4, 3), PageAccess::DATA, &mut ())
        .unwrap();
    paging.access(CPU, Page(100));
    paging.unmap(range(100, 3)).unwrap();
    paging.flush_all();
    assert!(paging.access(CPU, Page(100)).is_some());
    for (lie, left) in [(PagingLie::UnmapAllButOne, 1), (PagingLie::UnmapNothing, 3)] {
        let (paging, _) = lying(lie);
        paging
            .map(Page(100), run(4, 3), PageAccess::DATA, &mut ())
            .unwrap();
        paging.unmap(range(100, 3)).unwrap();
        assert_eq!(paging.mapped_pages(), left);
    }
    let (paging, taken) = lying(PagingLie::ZeroAllButOne);
    paging.zero(taken);
    assert_ne!(paging.contents(taken.start()), 0);
    let (paging, _) = lying(PagingLie::MapReversed);
    paging
        .map(Page(100), run(4, 2), PageAccess::DATA, &mut ())
        .unwrap();
    assert_eq!(paging.mapped(Page(100)), Some(Frame(5)));
    let (paging, _) = lying(PagingLie::MapForAll);
    paging
        .map(Page(100), run(4, 1), PageAccess::READ, &mut ())
        .unwrap();
    assert_eq!(paging.access_of(Page(100)), Some(PageAccess::DATA));
    let (paging, taken) = lying(PagingLie::LoseFrames);
    let before = paging.free_frames();
    PoolFrames(&paging).free_run(taken);
    assert_eq!(paging.free_frames(), before);
}

#[test]
fn an_unmap_of_a_part_of_what_one_call_mapped_is_recorded() {
    let parts = [(100, 2), (101, 2), (101, 1), (100, 4), (98, 4), (104, 3)];
    for (start, pages) in parts {
        let paging = Paging::new(2, Page(90), 32, 4, 8);
        for at in [100, 103] {
            paging
                .map(Page(at), run(4, 3), PageAccess::DATA, &mut ())
                .unwrap();
        }
        paging.unmap(range(start, pages)).unwrap();
        let broken = paging.broken().expect("it cut a run");
        assert!(broken.contains("is a part of"), "{broken}");
    }
    for (start, pages) in [(100, 3), (103, 3), (100, 6), (95, 8), (106, 5), (96, 4)] {
        let paging = Paging::new(2, Page(90), 32, 4, 8);
        for at in [100, 103] {
            paging
                .map(Page(at), run(4, 3), PageAccess::DATA, &mut ())
                .unwrap();
        }
        paging.unmap(range(start, pages)).unwrap();
        assert_eq!(paging.broken(), None, "{start} {pages}");
    }
}

#[test]
fn a_page_table_is_brought_with_the_first_of_its_pages_and_stays() {
    let paging = small().with_tables(4);
    let map = |at, frames| {
        let mut pool = PoolFrames(&paging);
        let tables = &mut tables_of(&mut pool, Context::ANY);
        paging.map(Page(at), frames, PageAccess::DATA, tables)
    };
    map(102, run(4, 2)).unwrap();
    map(100, run(6, 1)).unwrap();
    assert_eq!((paging.free_frames(), paging.table_frames()), (3, 1));
    paging.unmap(range(102, 2)).unwrap();
    assert_eq!(paging.table_frames(), 1);
    // Of two tables that are missing one is there: none is lost, and none stays.
    let taken: Vec<Run> = (0..2)
        .map(|_| PoolFrames(&paging).alloc_run(1, Context::ANY).unwrap())
        .collect();
    assert_eq!(map(106, run(4, 4)), Err(MapError::NoMemory));
    assert_eq!((paging.free_frames(), paging.table_frames()), (1, 1));
    assert_eq!((paging.mapped_pages(), paging.broken()), (1, None));
    PoolFrames(&paging).free_run(taken[0]);
    map(106, run(4, 4)).unwrap();
    assert_eq!((paging.free_frames(), paging.table_frames()), (0, 3));
    // A table's frame is the platform's.
    let of_table = *paging.state.borrow().tables.values().next().unwrap();
    PoolFrames(&paging).free_run(Run::new(of_table, 1).unwrap());
    assert!(paging.broken().unwrap().contains("a page table lies in it"));
}
