//! Tests against the kernel itself: its count of mappings, and its refusals at the limit, in a process of the test's
//! own.

use super::budget::process_mappings;
use super::*;
use framewright::PageAccess;
use framewright_sim::Random;
use std::process::Command;
use std::sync::Barrier;

fn run(start: u64, frames: u64) -> Run {
    Run::new(Frame(start), frames).unwrap()
}

fn ram(frames: u64) -> Arc<Ram> {
    Arc::new(Ram::new(run(1000, frames), crate::RamPages::Base).unwrap())
}

/// The `nth` page of the window.
fn page(window: &Window, nth: u64) -> Page {
    Page(window.range().start().0 + nth)
}

fn range(window: &Window, nth: u64, pages: u64) -> PageRange {
    PageRange::new(page(window, nth), pages).unwrap()
}

/// The kernel's mappings in the window, counted.
fn kernels(window: &Window) -> u64 {
    kernels_in(window.range())
}

fn kernels_in(inside: PageRange) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let in_window = |line: &&str| {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split(' ').next().unwrap();
        let number = |hex| u64::from_str_radix(hex, 16).unwrap() / Page::BYTES;
        number(start) < inside.end().0 && number(end) > inside.start().0
    };
    maps.lines().filter(in_window).count() as u64
}

/// Bytes that tell a frame and a place in it.
fn pattern(frame: u64) -> [u8; FRAME_BYTES] {
    std::array::from_fn(|at| (at as u64 * 31 + at as u64 / 256 + frame * 101) as u8)
}

#[test]
fn bytes_written_through_a_mapping_are_those_of_the_frames_also_elsewhere() {
    let ram = ram(64);
    let window = Window::new(Arc::clone(&ram), 1024).unwrap();
    let mut out = [0; FRAME_BYTES];
    window
        .map(page(&window, 3), run(1010, 4), PageAccess::DATA, &mut ())
        .unwrap();
    for nth in 0..4 {
        window
            .write(page(&window, 3 + nth), 0, &pattern(nth))
            .unwrap();
        ram.read(Frame(1010 + nth), &mut out).unwrap();
        assert_eq!(out, pattern(nth));
    }
    window.unmap(range(&window, 3, 4)).unwrap();
    window.flush_all();
    // Elsewhere, one by one, the other way round.
    for nth in 0..4 {
        let at = page(&window, 1023 - nth);
        window
            .map(at, run(1010 + nth, 1), PageAccess::DATA, &mut ())
            .unwrap();
    }
    for nth in 0..4 {
        window.read(page(&window, 1023 - nth), 0, &mut out).unwrap();
        assert_eq!(out, pattern(nth));
    }
    // Over a boundary, and a read sees what was written to the frame.
    ram.write(Frame(1011), &pattern(77)).unwrap();
    let mut both = [0; 200];
    window.read(page(&window, 1021), 4000, &mut both).unwrap();
    assert_eq!(both[..96], pattern(2)[4000..]);
    assert_eq!(both[96..], pattern(77)[..104]);
    // And by plain memory.
    // SAFETY: the window is this test's alone, the pages are mapped, each to its own frame, and
    // the slice is the only access while it lives.
    let bytes = unsafe { window.bytes_mut(range(&window, 1020, 4)) }.unwrap();
    bytes[4 * FRAME_BYTES - 1] = 42;
    ram.read(Frame(1010), &mut out).unwrap();
    assert_eq!(out[FRAME_BYTES - 1], 42);
}

#[test]
fn what_is_not_mapped_cannot_be_accessed() {
    let ram = ram(64);
    let window = Window::new(ram, 1024).unwrap();
    let mut out = [0; 10];
    let not_mapped = |nth| AccessError::NotMapped(page(&window, nth));
    assert_eq!(
        window.read(page(&window, 5), 0, &mut out),
        Err(not_mapped(5))
    );
    window
        .map(page(&window, 5), run(1000, 2), PageAccess::DATA, &mut ())
        .unwrap();
    assert_eq!(
        window.write(page(&window, 5), 2 * FRAME_BYTES - 5, &out),
        Err(not_mapped(7))
    );
    assert_eq!(
        window.read(page(&window, 4), FRAME_BYTES - 5, &mut out),
        Err(not_mapped(4))
    );
    window.unmap(range(&window, 6, 1)).unwrap();
    assert_eq!(
        window.read(page(&window, 0), 6 * FRAME_BYTES, &mut out),
        Err(not_mapped(6))
    );
    window.read(page(&window, 5), FRAME_BYTES, &mut []).unwrap();
    window
        .read(page(&window, 5), FRAME_BYTES - 10, &mut out)
        .unwrap();
    // SAFETY: no slice comes about, or an empty one.
    unsafe {
        assert_eq!(
            window.bytes_mut(range(&window, 5, 2)).unwrap_err(),
            not_mapped(6)
        );
        assert!(window.bytes_mut(range(&window, 6, 0)).unwrap().is_empty());
    }
    // Outside, on both sides and past the number range.
    let end = page(&window, 1024);
    assert_eq!(
        window.read(end, 0, &mut out),
        Err(AccessError::Outside(end))
    );
    let before = Page(window.range().start().0 - 1);
    assert_eq!(
        window.write(before, 0, &out),
        Err(AccessError::Outside(before))
    );
    assert_eq!(window.address(before), Err(AccessError::Outside(before)));
    assert_eq!(window.address(end), Err(AccessError::Outside(end)));
    assert!(window.address(page(&window, 1023)).is_ok());
    let far = Page(u64::MAX);
    assert!(window.read(far, 0, &mut out).is_err());
    assert!(window.read(end, usize::MAX, &mut out).is_err());
}

#[test]
fn a_copy_longer_than_a_call_does_goes_in_pieces() {
    let ram = ram(8);
    let window = Window::new(Arc::clone(&ram), 64).unwrap();
    // Two mappings, so that a call may end between them.
    let map = |nth, frames| window.map(page(&window, nth), frames, PageAccess::DATA, &mut ());
    map(3, run(1004, 4)).unwrap();
    map(7, run(1000, 4)).unwrap();
    let bytes: Vec<u8> = (0..8).flat_map(pattern).collect();
    let (start, len) = (77, 7 * FRAME_BYTES);
    for piece in [1000, FRAME_BYTES, 3 * FRAME_BYTES + 1, len, usize::MAX] {
        window
            .write(page(&window, 3), 0, &[0; 8 * FRAME_BYTES])
            .unwrap();
        let part = &bytes[start..start + len];
        window
            .write_by(piece, page(&window, 3), start, part)
            .unwrap();
        let mut all = [1; 8 * FRAME_BYTES];
        window
            .read_by(piece, page(&window, 3), 0, &mut all)
            .unwrap();
        assert_eq!(&all[start..start + len], part, "pieces of {piece}");
        assert!(
            all[..start]
                .iter()
                .chain(&all[start + len..])
                .all(|byte| *byte == 0)
        );
    }
    // The error names a page that is no longer mapped, in any of the pieces: only the kernel knows.
    window
        .reservation
        .unmap(&(9 * FRAME_BYTES..10 * FRAME_BYTES))
        .unwrap();
    for piece in [1000, 4 * FRAME_BYTES, usize::MAX] {
        let mut into = vec![0; len];
        let missing = Err(AccessError::NotMapped(page(&window, 9)));
        let at = page(&window, 3);
        assert_eq!(window.read_by(piece, at, start, &mut into), missing);
        assert_eq!(window.write_by(piece, at, start, &into), missing);
    }
}

/// The system call decides, and not the records before it: their answers may be out of date.
#[test]
fn the_kernel_refuses_what_the_records_would_have_allowed() {
    let window = Window::new(ram(4), 1024).unwrap();
    window.budget.take_always();
    window.budget.end_take(window.edges.map(&(8..9)));
    let refused = window.read(page(&window, 8), 0, &mut [0; 8]);
    assert_eq!(refused, Err(AccessError::NotMapped(page(&window, 8))));
    let refused = window.write(page(&window, 8), 0, &[0; 8]);
    assert_eq!(refused, Err(AccessError::NotMapped(page(&window, 8))));
}

#[test]
fn pages_and_frames_that_there_are_not_are_refused() {
    let window = Window::new(ram(64), 1024).unwrap();
    let map = |nth: u64, frames| window.map(page(&window, nth), frames, PageAccess::DATA, &mut ());
    assert_eq!(map(0, run(999, 2)), Err(MapError::Frame(Frame(999))));
    assert_eq!(map(0, run(1060, 5)), Err(MapError::Frame(Frame(1064))));
    assert_eq!(map(0, run(1064, 1)), Err(MapError::Frame(Frame(1064))));
    let end = page(&window, 1024);
    assert_eq!(map(1023, run(1000, 2)), Err(MapError::Page(end)));
    assert_eq!(map(1024, run(1000, 1)), Err(MapError::Page(end)));
    let before = Page(window.range().start().0 - 1);
    let unmapped = window.unmap(PageRange::new(before, 2).unwrap());
    assert_eq!(unmapped, Err(MapError::Page(before)));
    assert_eq!(
        window.unmap(range(&window, 1000, 25)),
        Err(MapError::Page(end))
    );
    assert_eq!(map(1024, run(5, 0)), Ok(()));
    assert_eq!(window.unmap(range(&window, 1024, 0)), Ok(()));
    assert_eq!((window.mappings(), kernels(&window)), (1, 1));
}

#[test]
fn a_window_says_why_there_is_none() {
    let of = |pages| Window::new(ram(4), pages).unwrap_err();
    assert_eq!(
        of(0).to_string(),
        "a window of 0 pages is not between 1 and 2^30"
    );
    assert_eq!(of((1 << 30) + 1), WindowError::Pages((1 << 30) + 1));
    let largest = Window::new(ram(4), WINDOW_PAGES_MAX).unwrap();
    let last = page(&largest, WINDOW_PAGES_MAX - 1);
    largest
        .map(last, run(1003, 1), PageAccess::DATA, &mut ())
        .unwrap();
    largest.write(last, 4095, &[1]).unwrap();
    let host = WindowError::Host(libc::ENOMEM).to_string();
    assert!(host.starts_with("no address space for a window: "));
    let page = AccessError::NotMapped(Page(16)).to_string();
    assert_eq!(page, "page 0x10 is not mapped");
}

#[test]
fn the_pool_of_huge_pages_has_no_window() {
    let ram = Ram::new(run(0, 512), crate::RamPages::Huge).unwrap();
    if ram.report().backing != Backing::Pool {
        println!("skipped: the host has no free huge page in its pool");
        return;
    }
    assert_eq!(
        Window::new(Arc::new(ram), 1024).unwrap_err(),
        WindowError::HugePool
    );
}

#[test]
fn zero_reaches_frames_wherever_they_are_mapped() {
    let ram = ram(8);
    let window = Window::new(Arc::clone(&ram), 16).unwrap();
    window
        .map(page(&window, 0), run(1000, 8), PageAccess::DATA, &mut ())
        .unwrap();
    for nth in 0..8 {
        window.write(page(&window, nth), 0, &pattern(nth)).unwrap();
    }
    window.zero(run(1002, 5));
    window.zero(run(900, 101));
    let mut out = [0; FRAME_BYTES];
    for nth in 0..8 {
        window.read(page(&window, nth), 0, &mut out).unwrap();
        let zeroed = nth == 0 || (2..7).contains(&nth);
        assert_eq!(
            out,
            if zeroed {
                [0; FRAME_BYTES]
            } else {
                pattern(nth)
            }
        );
    }
}

#[test]
fn the_count_of_mappings_is_never_below_the_kernels_and_comes_down() {
    let window = Window::new(ram(256), 256).unwrap();
    let mut numbers = Random::new(3);
    let mut random = |below| numbers.below(below);
    let mut mapped = [false; 256];
    for _ in 0..2000 {
        let start = random(256);
        let pages = 1 + random((256 - start).min(9));
        let these = &mut mapped[start as usize..(start + pages) as usize];
        if random(2) == 0 && !these.contains(&true) {
            // The even frames forwards, the odd ones too: some neighbours join, most do not.
            let frames = run(1000 + random(256 - pages), pages);
            window
                .map(page(&window, start), frames, PageAccess::DATA, &mut ())
                .unwrap();
            these.fill(true);
        } else {
            // Parts of pages that were mapped at once, too.
            window.unmap(range(&window, start, pages)).unwrap();
            these.fill(false);
        }
        let (ours, theirs) = (window.mappings(), kernels(&window));
        assert!(ours >= theirs, "{ours} counted, {theirs} in the kernel");
        assert!(ours <= theirs + 8, "{ours} counted, {theirs} in the kernel");
    }
    window.unmap(window.range()).unwrap();
    assert_eq!((window.mappings(), kernels(&window)), (1, 1));
}

#[test]
fn a_budget_is_kept_and_named_and_nothing_is_lost_at_it() {
    let ram = ram(64);
    let window = Window::with_mappings_max(ram, 64, 12).unwrap();
    let map = |nth| {
        window.map(
            page(&window, nth),
            run(1000 + nth, 1),
            PageAccess::DATA,
            &mut (),
        )
    };
    // 1 for the window, 2 for each page on its own.
    for nth in 0..5 {
        map(nth * 4 + 1).unwrap();
    }
    let refused = map(40).unwrap_err();
    assert_eq!(refused, MapError::Limit { max: 12 });
    assert!(
        refused.to_string().contains("limit of 12 mappings"),
        "{refused}"
    );
    assert_eq!((window.mappings(), kernels(&window)), (11, 11));
    let mut out = [0; 1];
    assert!(window.read(page(&window, 40), 0, &mut out).is_err());
    // A part in the middle of a run can be unmapped at the limit.
    window.unmap(range(&window, 0, 10)).unwrap();
    assert_eq!(window.mappings(), 5);
    map(40).unwrap();
    window.unmap(window.range()).unwrap();
    assert_eq!((window.mappings(), kernels(&window)), (1, 1));
    let none = Window::with_mappings_max(Arc::clone(window.ram()), 64, 1).unwrap();
    let refused = none.map(page(&none, 0), run(1000, 1), PageAccess::DATA, &mut ());
    assert_eq!(refused, Err(MapError::Limit { max: 1 }));
}

const CHILD: &str = "FRAMEWRIGHT_TEST_AT_THE_LIMIT";

/// The kernel's limit, in a process of the test's own (the others in this one need mappings too);
/// or, in this one, nothing, once the child is done.
fn limit_in_a_child(test: &str) -> Option<u64> {
    if std::env::var_os(CHILD).is_none() {
        let name = format!("window::tests::{test}");
        let run = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let out = String::from_utf8_lossy(&run.stdout);
        let errors = String::from_utf8_lossy(&run.stderr);
        assert!(run.status.success(), "{out}{errors}");
        assert!(out.contains("1 passed"), "{out}");
        print!("{out}");
        return None;
    }
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let limit = limit.trim().parse().unwrap();
    if limit > 1 << 18 {
        println!("skipped: vm.max_map_count of {limit} would take long to reach");
        return None;
    }
    Some(limit)
}

#[test]
#[cfg_attr(tsan, ignore = "the sanitizer needs mappings of its own at the limit")]
fn at_the_kernels_limit_a_mapping_is_refused_and_all_can_be_unmapped() {
    let test = "at_the_kernels_limit_a_mapping_is_refused_and_all_can_be_unmapped";
    let Some(limit) = limit_in_a_child(test) else {
        return;
    };
    let ram = ram(2);
    // Two windows: the limit is that of both.
    let windows = [(); 2].map(|()| Window::new(Arc::clone(&ram), 2 * limit).unwrap());
    let mut mapped = 0;
    let refused = loop {
        let window = &windows[mapped % 2];
        let at = page(window, mapped as u64 / 2 * 2 + 1);
        match window.map(at, run(1000, 1), PageAccess::DATA, &mut ()) {
            Ok(()) => mapped += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused, MapError::Limit { max: limit });
    let counted = windows[0].mappings() + windows[1].mappings();
    let kernels = kernels(&windows[0]) + kernels(&windows[1]);
    let (all, _) = process_mappings();
    println!("{mapped} pages mapped, {counted} mappings counted, {kernels} had, {all} in all");
    assert!((kernels..kernels + 4).contains(&counted));
    // The windows' part is bounded; the rest of the process is not theirs (a sanitizer has
    // hundreds).
    assert!(counted <= limit - limit / 16 && all + limit / 8 > limit && all < limit);
    // Each page on its own, which cuts nothing, then ranges that start and end anywhere.
    for nth in 0..1000 {
        windows[0]
            .unmap(range(&windows[0], nth * 2 + 1, 1))
            .unwrap();
    }
    windows[1].unmap(range(&windows[1], 7, 10_000)).unwrap();
    windows[1]
        .map(
            page(&windows[1], 7),
            run(1001, 1),
            PageAccess::DATA,
            &mut (),
        )
        .unwrap();
    for window in windows {
        window.unmap(window.range()).unwrap();
        assert_eq!(window.mappings(), 1);
    }
    assert!(process_mappings().0 < 1000);
}

#[test]
#[cfg_attr(tsan, ignore = "the sanitizer needs mappings of its own at the limit")]
fn where_others_used_up_the_limit_it_is_named_and_nothing_is_lost() {
    let test = "where_others_used_up_the_limit_it_is_named_and_nothing_is_lost";
    let Some(limit) = limit_in_a_child(test) else {
        return;
    };
    let ram = ram(4);
    let window = Window::new(ram, 64).unwrap();
    let map = |nth| window.map(page(&window, nth), run(1000, 1), PageAccess::DATA, &mut ());
    map(1).unwrap();
    // Each second page of these is a mapping of its own, after which one more is made.
    let others = AddressReservation::new(2 * limit as usize * FRAME_BYTES, FRAME_BYTES).unwrap();
    let frame = window.ram().as_fd();
    let mut count = 0;
    let one_more = |nth: usize| {
        let at = nth * 2 * FRAME_BYTES;
        others.map(
            &(at..at + FRAME_BYTES),
            frame,
            0,
            MappingAccess::Write,
            false,
        )
    };
    while one_more(count).is_ok() {
        count += 1;
    }
    assert!(count as u64 > limit / 3);
    // One page in the midst of others' takes two mappings more: there is room for one at most. (One that lies beside another
    // like it takes none, so it would say nothing.)
    let (all, _) = process_mappings();
    assert!(all + 2 > limit, "{all} mappings: the limit is not reached");
    assert_eq!(map(5), Err(MapError::Limit { max: limit }));
    let middle = window.unmap(range(&window, 30, 4));
    assert_eq!(middle, Err(MapError::Limit { max: limit }));
    assert!(!window.reservation.is_lost());
    // As soon as there is room again, all goes on.
    drop(others);
    map(5).unwrap();
    window.write(page(&window, 1), 0, &[1]).unwrap();
    window.unmap(window.range()).unwrap();
    assert_eq!((window.mappings(), kernels(&window)), (1, 1));
}

#[test]
fn of_a_window_that_lost_a_place_nothing_is_mapped_unmapped_or_accessed() {
    let window = Window::new(ram(4), 1024).unwrap();
    let at = page(&window, 3);
    window
        .map(at, run(1000, 2), PageAccess::DATA, &mut ())
        .unwrap();
    window
        .map(page(&window, 7), run(1000, 1), PageAccess::DATA, &mut ())
        .unwrap();
    window.reservation.lose_two_pages(3 * FRAME_BYTES);
    window.budget.take_always();
    assert_eq!(window.refused(&(3..5), Errno::NOMEM), MapError::NoMemory);
    let refused = window.read(at, 0, &mut [0; 8]);
    assert_eq!(refused, Err(AccessError::NotMapped(at)));
    window.write(page(&window, 7), 0, &[1]).unwrap();
    let mappings = window.mappings();
    let map = window.map(page(&window, 9), run(1000, 1), PageAccess::DATA, &mut ());
    assert_eq!(map, Err(MapError::NoMemory));
    assert_eq!(window.unmap(window.range()), Err(MapError::NoMemory));
    assert_eq!(window.mappings(), mappings);
    let mapped = kernels(&window);
    let range = window.range();
    drop(window);
    assert_eq!(kernels_in(range), mapped);
}

#[test]
fn two_threads_map_and_unmap_side_by_side() {
    const ROUNDS: u64 = 100;
    let ram = ram(64);
    let window = Window::new(Arc::clone(&ram), 64).unwrap();
    let both = Barrier::new(2);
    // Every second page is one thread's, so that all edges are both threads'.
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (ram, window, both) = (&ram, &window, &both);
            scope.spawn(move || {
                let mut out = [0; FRAME_BYTES];
                both.wait();
                for round in 0..ROUNDS {
                    for nth in (thread..64).step_by(2) {
                        // An own frame each time.
                        let frame = 1000 + (nth + round * 2) % 64;
                        let at = page(window, nth);
                        window
                            .map(at, run(frame, 1), PageAccess::DATA, &mut ())
                            .unwrap();
                        window.write(at, 0, &pattern(round + nth)).unwrap();
                        ram.read(Frame(frame), &mut out).unwrap();
                        assert_eq!(out, pattern(round + nth));
                        if round % 2 == 0 {
                            window.unmap(range(window, nth, 1)).unwrap();
                        }
                    }
                    if round % 2 != 0 {
                        both.wait();
                        if thread == 0 {
                            assert_eq!(window.mappings(), 66);
                            window.unmap(window.range()).unwrap();
                            assert_eq!((window.mappings(), kernels(window)), (1, 1));
                        }
                        both.wait();
                    }
                }
            });
        }
    });
}
