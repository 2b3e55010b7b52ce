//! Anonymous memory with frames that move while threads write to it.

use framewright::frame::{AllocError, Seat, ZoneLayout};
use framewright::platform::MapError;
use framewright::policy::ReclaimConfig;
use framewright::reclaim::{Compaction, Migrate, Move, MoveState, Reclaim};
use framewright::{Frame, Mobility, Order, Page, PageRange, Run};
use framewright_linux::anon::{Anon, PageError};
use framewright_linux::{Host, Linux, Options};
use framewright_sim::Random;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

type AnonSeat<'h> = Seat<'h, 'h, Linux<()>>;

const WORDS: usize = 512;

fn host(frames: u64) -> Host<()> {
    // Frames do not begin at 0: what mistakes a frame's number for its place is found.
    Host::fenced(&Options::new(
        ZoneLayout::new(Frame(5 << 9), frames).with_cpus(4),
    ))
    .unwrap()
}

fn region(host: &Host<()>, pages: u64) -> Anon {
    Anon::new(Arc::clone(host.ram_shared()), pages).unwrap()
}

fn pages(anon: &Anon, from: u64, pages: u64) -> PageRange {
    PageRange::new(Page(anon.range().start().0 + from), pages).unwrap()
}

fn order(order: u8) -> Order {
    Order::new(order).unwrap()
}

/// A page's words, by plain loads and stores.
#[derive(Clone, Copy)]
struct PageWordsRead(*mut u64);

// SAFETY: an address; each test says which thread uses which word.
unsafe impl Send for PageWordsRead {}

impl PageWordsRead {
    fn of(anon: &Anon, page: u64) -> Self {
        let page = Page(anon.range().start().0 + page);
        Self(anon.address(page).unwrap().cast())
    }

    fn get(self, nth: usize) -> u64 {
        assert!(nth < WORDS);
        // SAFETY: inside a populated page, as each test ensures, and no other thread uses it at the
        // moment.
        unsafe { self.0.add(nth).read_volatile() }
    }

    fn set(self, nth: usize, value: u64) {
        assert!(nth < WORDS);
        // SAFETY: as above.
        unsafe { self.0.add(nth).write_volatile(value) }
    }
}

fn stamp(anon: &Anon, page: u64) {
    let words = PageWordsRead::of(anon, page);
    (0..WORDS).for_each(|nth| words.set(nth, page << 32 | nth as u64));
}

fn is_stamped(anon: &Anon, page: u64) -> bool {
    let words = PageWordsRead::of(anon, page);
    (0..WORDS).all(|nth| words.get(nth) == page << 32 | nth as u64)
}

fn is_zero(anon: &Anon, page: u64) -> bool {
    let words = PageWordsRead::of(anon, page);
    (0..WORDS).all(|nth| words.get(nth) == 0)
}

/// Moves from where the pages are to frames of the seat.
fn moves_of(anon: &Anon, seat: &mut AnonSeat<'_>, some: impl Iterator<Item = u64>) -> Vec<Move> {
    let a_move = |page| Move {
        from: anon.frame_of(Page(anon.range().start().0 + page)).unwrap(),
        to: seat.alloc(Order::ZERO, Mobility::Movable).unwrap(),
        order: Order::ZERO,
        state: MoveState::Unknown,
    };
    some.map(a_move).collect()
}

/// What the caller of `migrate` does with its frames afterwards.
fn settle(seat: &mut AnonSeat<'_>, moves: &[Move]) -> u64 {
    let mut moved = 0;
    for one in moves {
        let is_moved = one.state == MoveState::Moved;
        moved += u64::from(is_moved);
        let mine = if is_moved { one.from } else { one.to };
        seat.free(mine, one.order).unwrap();
    }
    moved
}

fn all_is_back(host: &Host<()>) {
    let zone = host.zone();
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.stats().nr_free_pages, host.ram().frames().frames());
}

/// A thread that counts in its word of each page, and looks whether it finds what it left.
fn count_until(end: &AtomicBool, wrote: &AtomicU64, pages: &[PageWordsRead], nth: usize) {
    let mut mine = vec![0u64; pages.len()];
    let mut random = Random::new(nth as u64);
    while !end.load(Relaxed) {
        let at = random.index(pages.len());
        // The word of this thread, anywhere in the page.
        let word = (at * 2 % WORDS) + nth;
        assert_eq!(pages[at].get(word), mine[at], "page {at}");
        mine[at] += 1;
        pages[at].set(word, mine[at]);
        wrote.fetch_add(1, Relaxed);
    }
    for (at, mine) in mine.iter().enumerate() {
        let word = (at * 2 % WORDS) + nth;
        assert_eq!(pages[at].get(word), *mine, "page {at} in the end");
    }
}

/// Two threads write to `live` while `work` runs; returns how often they wrote.
fn with_two_writers(anon: &Anon, live: &[u64], work: impl FnOnce(&AtomicU64)) -> u64 {
    let (end, wrote) = (AtomicBool::new(false), AtomicU64::new(0));
    // What panics must not leave the writers running.
    struct AnonEnds<'e>(&'e AtomicBool);
    impl Drop for AnonEnds<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    std::thread::scope(|scope| {
        for nth in 0..2 {
            let words: Vec<PageWordsRead> = live
                .iter()
                .map(|&page| PageWordsRead::of(anon, page))
                .collect();
            let (end, wrote) = (&end, &wrote);
            scope.spawn(move || {
                let words = words;
                count_until(end, wrote, &words, nth);
            });
        }
        let _ends = AnonEnds(&end);
        work(&wrote);
    });
    wrote.into_inner()
}

#[test]
fn an2_two_threads_that_write_during_thousands_of_moves_lose_nothing() {
    let host = host(4096);
    let mut seat = host.seat().unwrap();
    let anon = region(&host, 1024);
    // Some close together, some with gaps, some alone.
    let live: Vec<u64> = (0..256)
        .chain((300..500).step_by(2))
        .chain((520..1000).step_by(37))
        .collect();
    for &page in &live {
        let range = pages(&anon, page, 1);
        assert_eq!(anon.populate(&mut seat, range, Order::ZERO), Ok(1));
    }
    let mut moved = 0;
    let wrote = with_two_writers(&anon, &live, |wrote| {
        let begun = Instant::now();
        let mut random = Random::new(5);
        // Time ends it only when enough has happened.
        while moved < 1000
            || wrote.load(Relaxed) < 1000
            || moved < 8000 && begun.elapsed() < Duration::from_secs(5)
        {
            let start = random.index(live.len());
            let step = 1 + random.index(3);
            let some = live.iter().copied().skip(start).step_by(step).take(100);
            let mut moves = moves_of(&anon, &mut seat, some);
            anon.migrate(&mut moves);
            assert!(moves.iter().all(|one| one.state == MoveState::Moved));
            moved += settle(&mut seat, &moves);
        }
    });
    let stats = anon.stats();
    assert_eq!(stats.moved_pages, moved);
    assert!(moved >= 1000 && wrote >= 1000, "{stats:?}, {wrote} writes");
    println!("{stats:?}, {wrote} writes, {} mappings", anon.mappings());
    assert_eq!(anon.discard(&mut seat, anon.range()), Ok(live.len() as u64));
    drop(seat);
    all_is_back(&host);
    assert_eq!(anon.mappings(), 1);
}

#[test]
fn compaction_makes_a_huge_block_out_of_memory_that_is_written_to() {
    const PAGES: u64 = 4096;
    let host = host(PAGES + 512);
    let mut memory = vec![0; Reclaim::words_needed(host.zone())];
    let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut memory).unwrap();
    let anon = region(&host, PAGES);
    let mut seat = host.seat().unwrap();
    let all = pages(&anon, 0, PAGES);
    assert_eq!(anon.populate(&mut seat, all, Order::ZERO), Ok(PAGES));
    for page in (1..PAGES).step_by(2) {
        anon.discard(&mut seat, pages(&anon, page, 1)).unwrap();
    }
    let live: Vec<u64> = (0..PAGES).step_by(2).collect();
    let mut blocks = Vec::new();
    with_two_writers(&anon, &live, |_| {
        for _ in 0..3 {
            let made = reclaim.compact_ahead(&mut seat, order(9), Mobility::Unmovable, &[&anon]);
            let Compaction::Captured(frame) = made else {
                panic!("{made:?}, {:?}", anon.stats());
            };
            blocks.push(frame);
        }
    });
    let stats = anon.stats();
    println!("{stats:?}, {} mappings", anon.mappings());
    assert!(stats.moved_pages >= 256, "{stats:?}");
    assert_eq!((stats.refused, reclaim.stats().pgmigrate_fail), (0, 0));
    for frame in blocks {
        seat.free(frame, order(9)).unwrap();
    }
    assert_eq!(anon.discard(&mut seat, all), Ok(PAGES / 2));
    drop(seat);
    all_is_back(&host);
}

#[test]
fn pages_come_and_go_on_two_threads_while_a_third_compacts() {
    const EACH: u64 = 1536;
    let host = host(2 * EACH + 512);
    let mut memory = vec![0; Reclaim::words_needed(host.zone())];
    let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut memory).unwrap();
    let anon = region(&host, 2 * EACH);
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (host, anon, end) = (&host, &anon, &end);
            scope.spawn(move || {
                let mut seat = host.seat().unwrap();
                let mut is_there = vec![false; EACH as usize];
                let mut random = Random::new(thread);
                while !end.load(Relaxed) {
                    let nth = random.below(EACH);
                    let len = (1 + random.below(16)).min(EACH - nth);
                    let first = thread * EACH + nth;
                    let is_full = random.below(2) == 0;
                    if is_full
                        && anon
                            .populate(&mut seat, pages(anon, first, len), order(3))
                            .is_ok()
                    {
                        for page in first..first + len {
                            let was_there = &mut is_there[(page - thread * EACH) as usize];
                            if !*was_there {
                                assert!(is_zero(anon, page));
                                stamp(anon, page);
                                *was_there = true;
                            }
                        }
                    } else if !is_full {
                        for page in first..first + len {
                            let was_there = &mut is_there[(page - thread * EACH) as usize];
                            assert!(!*was_there || is_stamped(anon, page), "page {page}");
                            *was_there = false;
                        }
                        anon.discard(&mut seat, pages(anon, first, len)).unwrap();
                    }
                }
                for (nth, was_there) in is_there.iter().enumerate() {
                    assert!(!was_there || is_stamped(anon, thread * EACH + nth as u64));
                }
            });
        }
        let mut seat = host.seat().unwrap();
        let begun = Instant::now();
        let (mut made, mut tries) = (0, 0);
        while tries < 20
            || (begun.elapsed() < Duration::from_millis(1200) || made == 0) && tries < 20_000
        {
            tries += 1;
            for wanted in [9, 6] {
                let done =
                    reclaim.compact_ahead(&mut seat, order(wanted), Mobility::Unmovable, &[&anon]);
                if let Compaction::Captured(frame) = done {
                    made += 1;
                    host.ram()
                        .zero(Run::new(frame, 1 << wanted).unwrap())
                        .unwrap();
                    seat.free(frame, order(wanted)).unwrap();
                }
            }
        }
        end.store(true, Relaxed);
        println!("{made} blocks in {tries} tries, {:?}", anon.stats());
        assert!(made > 0);
    });
    let mut seat = host.seat().unwrap();
    anon.discard(&mut seat, anon.range()).unwrap();
    drop(seat);
    all_is_back(&host);
}

#[test]
fn an3_what_is_pinned_stays_and_moves_when_it_is_not() {
    let host = host(1024);
    let mut seat = host.seat().unwrap();
    let anon = region(&host, 64);
    anon.populate(&mut seat, pages(&anon, 0, 8), Order::ZERO)
        .unwrap();
    (0..8).for_each(|page| stamp(&anon, page));
    let pin = anon.pin(pages(&anon, 2, 2)).unwrap();
    let again = anon.pin(pages(&anon, 3, 1)).unwrap();
    let pinned = [pin.frame(0), pin.frame(1)];
    assert_eq!(pin.frame(2), None);
    assert_eq!(again.frame(0), pinned[1]);
    let mut moves = moves_of(&anon, &mut seat, 0..8);
    anon.migrate(&mut moves);
    for (page, one) in moves.iter().enumerate() {
        let expected = if matches!(page, 2 | 3) {
            MoveState::Pinned
        } else {
            MoveState::Moved
        };
        assert_eq!(one.state, expected);
    }
    assert_eq!([pin.frame(0), pin.frame(1)], pinned);
    let third = Page(anon.range().start().0 + 3);
    let refused = anon.discard(&mut seat, anon.range());
    assert_eq!(refused, Err(PageError::Pinned(Page(third.0 - 1))));
    settle(&mut seat, &moves);
    drop(pin);
    let mut moves = moves_of(&anon, &mut seat, 2..4);
    anon.migrate(&mut moves);
    assert_eq!(moves[0].state, MoveState::Moved);
    assert_eq!(moves[1].state, MoveState::Pinned);
    settle(&mut seat, &moves);
    drop(again);
    let mut moves = moves_of(&anon, &mut seat, 3..4);
    anon.migrate(&mut moves);
    assert_eq!(settle(&mut seat, &moves), 1);
    assert!((0..8).all(|page| is_stamped(&anon, page)));
    let nobodys = anon.pin(pages(&anon, 7, 2)).unwrap_err();
    assert_eq!(
        nobodys,
        PageError::NotPopulated(Page(anon.range().start().0 + 8))
    );
    assert_eq!(anon.discard(&mut seat, anon.range()), Ok(8));
    drop(seat);
    all_is_back(&host);
}

#[test]
fn what_was_discarded_is_populated_with_zeroes_and_its_neighbours_keep_theirs() {
    let host = host(2048);
    let mut seat = host.seat().unwrap();
    let anon = region(&host, 1024);
    let all = anon.range();
    assert_eq!(anon.populate(&mut seat, all, order(9)), Ok(1024));
    assert!(anon.mappings() <= 4, "{}", anon.mappings());
    assert!((0..1024).all(|page| is_zero(&anon, page)));
    (0..1024).for_each(|page| stamp(&anon, page));
    for start in (0..1024).step_by(3) {
        let one = pages(&anon, start, 1);
        assert_eq!(anon.discard(&mut seat, one), Ok(1));
        assert_eq!(anon.discard(&mut seat, one), Ok(0));
        assert_eq!(anon.frame_of(one.start()), None);
    }
    // Other contents in the frames that are free now.
    let others: Vec<Frame> =
        std::iter::from_fn(|| seat.alloc(Order::ZERO, Mobility::Movable).ok()).collect();
    for &frame in &others {
        host.ram().write(frame, &[0xee; 4096]).unwrap();
    }
    for frame in others {
        seat.free(frame, Order::ZERO).unwrap();
    }
    assert_eq!(anon.populate(&mut seat, all, order(4)), Ok(342));
    assert_eq!(anon.populate(&mut seat, all, order(4)), Ok(0));
    for page in 0..1024 {
        let is_new = page % 3 == 0;
        assert!(
            if is_new {
                is_zero(&anon, page)
            } else {
                is_stamped(&anon, page)
            },
            "{page}"
        );
    }
    assert_eq!(anon.discard(&mut seat, all), Ok(1024));
    drop(seat);
    all_is_back(&host);
}

#[test]
fn blocks_move_as_a_whole_and_their_parts_when_they_were_parted() {
    let host = host(4096);
    let mut seat = host.seat().unwrap();
    let anon = region(&host, 64);
    let align = (64 - anon.range().start().0 % 16) % 16;
    assert_eq!(
        anon.populate(&mut seat, pages(&anon, align, 48), order(4)),
        Ok(48)
    );
    (align..align + 48).for_each(|page| stamp(&anon, page));
    let frame = |page: u64| {
        anon.frame_of(Page(anon.range().start().0 + align + page))
            .unwrap()
    };
    let to = |seat: &mut AnonSeat<'_>, of| seat.alloc(order(of), Mobility::Movable).unwrap();
    let a_move = |from, to, of| Move {
        from,
        to,
        order: order(of),
        state: MoveState::Unknown,
    };
    let mut moves = [0, 16, 32].map(|page| a_move(frame(page), to(&mut seat, 4), 4));
    anon.migrate(&mut moves);
    assert_eq!(settle(&mut seat, &moves), 3);
    // Twice in one call: the second time it is on its way.
    let mut moves = [0, 1].map(|_| a_move(frame(0), to(&mut seat, 4), 4));
    anon.migrate(&mut moves);
    assert_eq!(
        moves.map(|one| one.state),
        [MoveState::Moved, MoveState::Busy]
    );
    seat.free(moves[0].from, order(4)).unwrap();
    seat.free(moves[1].to, order(4)).unwrap();
    // Of the middle one, the eight pages of an aligned half, and not another order's.
    anon.discard(&mut seat, pages(&anon, align + 16, 8))
        .unwrap();
    let mut moves = [
        a_move(frame(24), to(&mut seat, 3), 3),
        a_move(frame(0), to(&mut seat, 5), 5),
    ];
    anon.migrate(&mut moves);
    assert_eq!(
        moves.map(|one| one.state),
        [MoveState::Moved, MoveState::Busy]
    );
    settle(&mut seat, &moves);
    assert!((0..48).all(|page| (16..24).contains(&page) || is_stamped(&anon, align + page)));
    assert_eq!(anon.discard(&mut seat, anon.range()), Ok(40));
    drop(seat);
    all_is_back(&host);
}

#[test]
fn two_regions_move_each_its_own_and_leave_the_others_unknown() {
    let host = host(1024);
    let mut seat = host.seat().unwrap();
    let (one, other) = (region(&host, 64), region(&host, 64));
    for page in 0..32 {
        // Frames in turn: the worst for mappings.
        one.populate(&mut seat, pages(&one, page, 1), Order::ZERO)
            .unwrap();
        other
            .populate(&mut seat, pages(&other, page, 1), Order::ZERO)
            .unwrap();
        stamp(&one, page);
        stamp(&other, page);
    }
    let mut moves = moves_of(&one, &mut seat, 0..32);
    moves.extend(moves_of(&other, &mut seat, 0..32));
    let nobodys = seat.alloc(Order::ZERO, Mobility::Movable).unwrap();
    moves.push(Move {
        from: nobodys,
        ..moves[0]
    });
    other.migrate(&mut moves);
    let is = |state| {
        moves
            .iter()
            .map(|one| one.state == state)
            .collect::<Vec<_>>()
    };
    assert!(is(MoveState::Unknown)[..32].iter().all(|unknown| *unknown));
    assert!(is(MoveState::Moved)[32..64].iter().all(|moved| *moved));
    one.migrate(&mut moves);
    assert!(moves[..64].iter().all(|one| one.state == MoveState::Moved));
    assert_eq!(moves.pop().unwrap().state, MoveState::Unknown);
    seat.free(nobodys, Order::ZERO).unwrap();
    assert_eq!(settle(&mut seat, &moves), 64);
    assert!((0..32).all(|page| is_stamped(&one, page) && is_stamped(&other, page)));
    for anon in [one, other] {
        assert_eq!(anon.discard(&mut seat, anon.range()), Ok(32));
    }
    drop(seat);
    all_is_back(&host);
}

#[test]
fn what_cannot_be_had_is_an_error_and_all_is_as_before() {
    let host = host(1024);
    let mut seat = host.seat().unwrap();
    let anon = Anon::with_mappings_max(Arc::clone(host.ram_shared()), 2048, 40).unwrap();
    // Outside.
    let end = anon.range().end();
    let outside = PageRange::new(Page(end.0 - 1), 2).unwrap();
    let refused = anon.populate(&mut seat, outside, Order::ZERO);
    assert_eq!(refused, Err(PageError::Outside(end)));
    assert_eq!(
        refused.unwrap_err().to_string(),
        format!("page {end} is not in the region")
    );
    // More than there is.
    let free = host.zone().stats().nr_free_pages;
    let refused = anon.populate(&mut seat, anon.range(), order(3));
    assert_eq!(refused, Err(PageError::Frames(AllocError::Exhausted)));
    assert_eq!(host.zone().stats().nr_free_pages, free);
    assert_eq!(anon.mappings(), 1);
    // More mappings than there may be: every second page, from the last frame to the first.
    let mut page = 0;
    let error = loop {
        let between = seat.alloc(Order::ZERO, Mobility::Movable).unwrap();
        match anon.populate(&mut seat, pages(&anon, page, 1), Order::ZERO) {
            Ok(_) => stamp(&anon, page),
            Err(error) => {
                seat.free(between, Order::ZERO).unwrap();
                break error;
            }
        }
        page += 2;
    };
    assert_eq!(error, PageError::Map(MapError::Limit { max: 40 }));
    assert!((10..40).contains(&page), "{page}");
    assert!((0..page).step_by(2).all(|page| is_stamped(&anon, page)));
    // A move that would need more mappings than allowed changes nothing.
    let mut moves = moves_of(&anon, &mut seat, (0..page).step_by(2));
    anon.migrate(&mut moves);
    let busy = moves
        .iter()
        .filter(|one| one.state == MoveState::Busy)
        .count();
    assert_eq!(anon.stats().refused > 0, busy > 0);
    settle(&mut seat, &moves);
    assert!((0..page).step_by(2).all(|page| is_stamped(&anon, page)));
    assert_eq!(anon.discard(&mut seat, anon.range()), Ok(page / 2));
}

#[test]
fn a_touch_of_what_is_not_populated_ends_the_process_as_elsewhere() {
    const CHILD: &str = "FRAMEWRIGHT_ANON_TOUCH";
    if let Ok(what) = std::env::var(CHILD) {
        let host = host(512);
        let anon = region(&host, 64);
        let elsewhere = what == "elsewhere";
        let words = if elsewhere {
            PageWordsRead(8192 as *mut u64)
        } else {
            PageWordsRead::of(&anon, 3)
        };
        words.set(0, 1);
        std::process::exit(0);
    }
    for what in ["region", "elsewhere"] {
        let name = "a_touch_of_what_is_not_populated_ends_the_process_as_elsewhere";
        let child = Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact"])
            .env(CHILD, what)
            .output()
            .unwrap();
        // Of a sanitizer's handler, which is called then, the end has another status.
        let is_segv = child.status.signal() == Some(libc::SIGSEGV);
        let is_sanitizers = String::from_utf8_lossy(&child.stderr).contains("Sanitizer");
        assert!(is_segv || is_sanitizers, "{what}: {child:?}");
    }
}

#[test]
fn an5_pages_that_two_threads_populate_at_once_are_all_populated() {
    const ROUNDS: usize = 3000;
    let host = host(1024);
    let anon = region(&host, 512);
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    let missing = AtomicU64::new(0);
    std::thread::scope(|scope| {
        // One takes a block for all of them, and the other one single frames for some in their midst.
        for (from, count, largest) in [(0, 8, 3), (3, 2, 0)] {
            let (anon, host) = (&anon, &host);
            let (begin, end, missing) = (&begin, &end, &missing);
            scope.spawn(move || {
                let mut seat = host.seat().unwrap();
                for _ in 0..ROUNDS {
                    begin.wait();
                    let mine = pages(anon, from, count);
                    anon.populate(&mut seat, mine, order(largest)).unwrap();
                    for page in mine.start().0..mine.end().0 {
                        missing.fetch_add(anon.frame_of(Page(page)).is_none().into(), Relaxed);
                    }
                    if end.wait().is_leader() {
                        anon.discard(&mut seat, pages(anon, 0, 8)).unwrap();
                    }
                    end.wait();
                }
            });
        }
    });
    assert_eq!(missing.into_inner(), 0);
    assert_eq!(host.zone().recount().allocated.iter().sum::<u64>(), 0);
}
