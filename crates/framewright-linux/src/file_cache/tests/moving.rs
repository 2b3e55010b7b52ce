//! Pages move while they are in use, unless they are pinned.

use super::*;
use framewright::frame::FrameSource;
use framewright::policy::{ContigConfig, ReclaimConfig};
use framewright::reclaim::{Clients, Migrate, Move, MoveState, Reclaim};
use framewright::reserve::MigrateArea;
use framewright::{Mobility, Order as BlockOrder};
use std::sync::atomic::AtomicBool;

fn a_move(from: Frame, to: Frame) -> Move {
    Move {
        from,
        to,
        order: BlockOrder::ZERO,
        state: MoveState::Unknown,
    }
}

#[test]
fn a_page_moves_with_its_contents_and_marks_and_a_pinned_one_stays() {
    let host = host(1024);
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let memory = MemoryFile::new(patterns(4));
    let file = cache.add_medium(memory.clone(), true).unwrap();
    cache.write(&mut seat, &file, 5, b"dirty").unwrap();
    let pin = cache.pin(&mut seat, &file, 0).unwrap();
    let from = pin.frame();
    let to = FrameSource::alloc_frame(&mut seat).unwrap();
    let foreign = FrameSource::alloc_frame(&mut seat).unwrap();
    let mut moves = [a_move(from, to), a_move(foreign, to), a_move(Frame(1), to)];
    cache.migrate(&mut moves);
    let states = moves.map(|one| one.state);
    assert_eq!(
        states,
        [MoveState::Pinned, MoveState::Unknown, MoveState::Unknown]
    );
    // Two pins on one page.
    let second = cache.pin(&mut seat, &file, 0).unwrap();
    assert_eq!(second.frame(), from);
    drop(pin);
    let mut moves = [a_move(from, to)];
    cache.migrate(&mut moves);
    assert_eq!(moves[0].state, MoveState::Pinned);
    drop(second);
    let mut moves = [
        a_move(from, to),
        a_move(from, foreign),
        a_move(to, Frame(1)),
    ];
    cache.migrate(&mut moves);
    let states = moves.map(|one| one.state);
    assert_eq!(
        states,
        [MoveState::Moved, MoveState::Unknown, MoveState::Busy]
    );
    assert_eq!((cache.stats().moved, cache.stats().dirty), (1, 1));
    for frame in [from, foreign] {
        FrameSource::free_frame(&mut seat, frame);
    }
    let mut expected = patterns(4);
    expected[5..10].copy_from_slice(b"dirty");
    assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == expected);
    assert_eq!(cache.pin(&mut seat, &file, 0).unwrap().frame(), to);
    assert_eq!(cleared(&cache, &mut seat), 0);
    assert!(*memory.bytes() == expected);
    drop((cache, file, seat));
    all_is_back(&host);
}

#[test]
fn a_pinned_page_that_is_truncated_keeps_its_frame_until_it_is_unpinned() {
    let host = host(1024);
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let file = cache
        .add_medium(MemoryFile::new(patterns(4)), true)
        .unwrap();
    let mut pin = |page| cache.pin(&mut seat, &file, page).unwrap();
    let (first, second, third) = (pin(1), pin(2), pin(2));
    let frame = second.frame();
    assert_eq!(cleared(&cache, &mut seat), 2);
    cache.truncate(&file, PAGE).unwrap();
    cache.truncate(&file, 4 * PAGE).unwrap();
    assert_eq!(cache.stats().pages, 0);
    let again = cache.pin(&mut seat, &file, 2).unwrap();
    assert_ne!(again.frame(), frame);
    let to = FrameSource::alloc_frame(&mut seat).unwrap();
    let mut moves = [a_move(frame, to)];
    cache.migrate(&mut moves);
    assert_eq!(moves[0].state, MoveState::Pinned);
    FrameSource::free_frame(&mut seat, to);
    let words = host.ram().words(frame).unwrap();
    assert_eq!(words[0].load(Relaxed).to_ne_bytes(), pattern(2)[..8]);
    drop((first, second, third, again));
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop((cache, file, seat));
    all_is_back(&host);
}

#[test]
fn where_a_contiguous_run_is_taken_clean_pages_are_dropped_and_dirty_ones_move() {
    let host = host(4096);
    let mut words = vec![0; Reclaim::words_needed(host.zone())];
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut words).unwrap();
    let area = Run::new(Frame(FIRST.0 + 2048), 2048).unwrap();
    let mut words = vec![0; MigrateArea::<Linux<()>>::words_needed(area)];
    let area = MigrateArea::new(&reclaim, area, &ContigConfig::LINUX, &mut words).unwrap();
    let memory = MemoryFile::new(patterns(3000));
    let file = cache.add_medium(memory.clone(), true).unwrap();
    assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == patterns(3000));
    for page in (0..3000).step_by(3) {
        cache
            .write(&mut seat, &file, page * PAGE, &pattern(page))
            .unwrap();
    }
    // Frames of the stock lie in the area, too.
    cache.truncate(&file, 2900 * PAGE).unwrap();
    let movers: [&dyn Migrate; 1] = [&cache];
    let clients = Clients {
        shrink: &[],
        migrate: &movers,
    };
    let taken = area.alloc_contig(&mut seat, 2048, 1, &clients).unwrap();
    let stats = area.stats();
    assert!(
        stats.pages_discarded > stats.pages_migrated && stats.pages_migrated > 100,
        "{stats:?}"
    );
    cache.verify().unwrap();
    for frame in taken.start().0..taken.end().0 {
        host.ram().write(Frame(frame), &[0xaa; 4096]).unwrap();
    }
    assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == patterns(2900));
    area.release(&mut seat, taken).unwrap();
    area.verify().unwrap();
    assert_eq!(cleared(&cache, &mut seat), 0);
    assert!(*memory.bytes() == patterns(2900));
    drop(seat);
    all_is_back(&host);
}

#[test]
fn a_run_of_pageblocks_full_of_files_is_emptied_and_not_where_a_page_is_pinned() {
    let host = host(4096);
    let mut words = vec![0; Reclaim::words_needed(host.zone())];
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let reclaim = Reclaim::new(host.zone(), &ReclaimConfig::default(), &mut words).unwrap();
    let file = cache
        .add_medium(MemoryFile::new(patterns(1500)), false)
        .unwrap();
    assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == patterns(1500));
    let pin = cache.pin(&mut seat, &file, 700).unwrap();
    let block = Frame(pin.frame().0 & !511);
    let run = Run::new(block, 512).unwrap();
    let refused = reclaim.evacuate(&mut seat, run, &[&cache]).unwrap_err();
    assert!(refused.to_string().ends_with("is pinned"), "{refused}");
    drop(pin);
    let emptied = reclaim.evacuate(&mut seat, run, &[&cache]).unwrap();
    assert!(emptied > 100 && cache.stats().moved >= emptied);
    assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == patterns(1500));
    host.zone().unisolate(run).unwrap();
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop(seat);
    all_is_back(&host);
}

#[test]
fn pages_move_under_readers_and_a_writer() {
    const PAGES: u64 = 60;
    let host = host(1024);
    let cache = cache(&host);
    let memory = MemoryFile::new(patterns(PAGES));
    let file = cache.add_medium(memory.clone(), true).unwrap();
    let end = AtomicBool::new(false);
    let moved = std::thread::scope(|scope| {
        let reader = |seed: u64| {
            let (host, cache, file, end) = (&host, &cache, &file, &end);
            move || {
                let mut seat = host.seat().unwrap();
                let (mut random, mut bytes) = (Random::new(seed), [0; FRAME_BYTES]);
                while !end.load(Relaxed) {
                    let page = random.below(PAGES);
                    cache
                        .read(&mut seat, file, page * PAGE, &mut bytes)
                        .unwrap();
                    let expected = pattern(page);
                    // The first word is a writer's counter.
                    assert!(bytes[8..] == expected[8..], "page {page}");
                }
            }
        };
        let writer = || {
            let mut seat = host.seat().unwrap();
            let (mut random, mut counts) = (Random::new(3), [0u64; PAGES as usize]);
            while !end.load(Relaxed) {
                let page = random.below(PAGES);
                let count = &mut counts[page as usize];
                let mut word = [0; 8];
                cache
                    .read(&mut seat, &file, page * PAGE, &mut word)
                    .unwrap();
                assert!(*count == 0 || u64::from_ne_bytes(word) == *count);
                *count += 1;
                cache
                    .write(&mut seat, &file, page * PAGE, &count.to_ne_bytes())
                    .unwrap();
            }
        };
        scope.spawn(reader(1));
        scope.spawn(writer);
        let mover = || {
            let mut seat = host.seat().unwrap();
            let (mut random, mut moved) = (Random::new(9), 0u64);
            let mut rounds = 0;
            while moved < 3000 && rounds < 200_000 {
                rounds += 1;
                let from = Frame(FIRST.0 + random.below(1024));
                let to = seat.alloc(BlockOrder::ZERO, Mobility::Movable).unwrap();
                let mut moves = [a_move(from, to)];
                if from != to {
                    cache.migrate(&mut moves);
                }
                let is_moved = moves[0].state == MoveState::Moved;
                moved += u64::from(is_moved);
                FrameSource::free_frame(&mut seat, if is_moved { from } else { to });
            }
            end.store(true, Relaxed);
            moved
        };
        scope.spawn(mover).join().unwrap()
    });
    assert_eq!(moved, 3000);
    assert_eq!(cache.stats().moved, moved);
    cache.sync(&file).unwrap();
    let written = memory.bytes();
    for (page, bytes) in written.chunks(FRAME_BYTES).enumerate() {
        assert!(bytes[8..] == pattern(page as u64)[8..]);
    }
    let mut seat = host.seat().unwrap();
    drop(written);
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop(seat);
    all_is_back(&host);
}

#[test]
fn a_thread_that_wants_a_frame_empty_waits_until_its_page_is_written() {
    let host = host(1024);
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let memory = MemoryFile::new(patterns(4));
    let file = cache.add_medium(memory.clone(), true).unwrap();
    cache.write(&mut seat, &file, 5, b"dirty").unwrap();
    let from = cache.pin(&mut seat, &file, 0).unwrap().frame();
    let to = FrameSource::alloc_frame(&mut seat).unwrap();
    assert!(!cache.await_frame(from), "no thread writes it");
    assert!(!cache.await_frame(Frame(1)) && !cache.await_frame(to));
    let moved = || {
        let mut moves = [a_move(from, to)];
        cache.migrate(&mut moves);
        moves[0].state
    };
    // The device takes no data until then.
    let device = memory.bytes();
    let (is_free, is_waiting) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| cache.sync(&file).unwrap());
        let id = cache.table.id_of(from).unwrap();
        while !cache.table.slot(id).is_writing() {
            std::thread::yield_now();
        }
        assert_eq!(moved(), MoveState::Busy);
        let waiter = scope.spawn(|| {
            is_waiting.store(true, Relaxed);
            assert!(cache.await_frame(from), "there was something to wait for");
            assert!(is_free.load(Relaxed), "it was still being written");
        });
        while !is_waiting.load(Relaxed) {
            std::thread::yield_now();
        }
        // A thread that does not wait is done by then; one that comes later finds it written, and
        // reports that.
        std::thread::sleep(std::time::Duration::from_millis(20));
        is_free.store(true, Relaxed);
        drop(device);
        waiter.join().unwrap();
        writer.join().unwrap();
    });
    assert_eq!(moved(), MoveState::Moved);
    FrameSource::free_frame(&mut seat, from);
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop((cache, file, seat));
    all_is_back(&host);
}
