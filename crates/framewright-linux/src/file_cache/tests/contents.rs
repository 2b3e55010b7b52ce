//! A read returns the bytes written last.

use super::*;
use framewright::Context;
use framewright::Order as BlockOrder;
use framewright::reclaim::{Ask, Shrink};
use std::fs;
use std::sync::Barrier;

fn ask(wanted: u64, context: Context) -> Ask {
    Ask {
        wanted,
        scan: u64::MAX,
        order: BlockOrder::ZERO,
        context,
    }
}

#[test]
fn a_real_file_is_read_in_pieces_of_any_length_and_ahead() {
    let (host, folder) = (host(1024), TestFolder::new());
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let mut expected = patterns(100);
    expected.truncate(99 * 4096 + 17);
    fs::write(folder.file("a"), &expected).unwrap();
    let file = cache.open(folder.file("a")).unwrap();
    assert_eq!(file.len_bytes(), expected.len() as u64);
    for piece in [1000, 4096, 10_000, 500_000] {
        assert_eq!(read_all(&cache, &mut seat, &file, piece).unwrap(), expected);
    }
    let stats = cache.stats();
    assert_eq!((stats.from_disk, stats.pages), (100, 100));
    // 4, 8, 16, 32, 32 and the rest.
    assert_eq!(
        (stats.misses, stats.ahead_pages, stats.ahead_hits),
        (6, 94, 94)
    );
    let mut some = [1; 4];
    assert_eq!(cache.read(&mut seat, &file, u64::MAX, &mut some), Ok(0));
    assert_eq!(
        cache.write(&mut seat, &file, 0, &some),
        Err(FileError::ReadOnly)
    );
    drop(file);
    assert_eq!(cleared(&cache, &mut seat), 0);
    all_is_back(&host);
}

#[test]
fn a_file_is_known_again_unless_it_was_changed() {
    let (host, folder) = (host(1024), TestFolder::new());
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let path = folder.file("a");
    fs::write(&path, patterns(3)).unwrap();
    // Open for reading first: a later opening for writing can write.
    let reader = cache.open(&path).unwrap();
    assert!(!reader.is_writable());
    let file = cache.create(&path).unwrap();
    assert_eq!((file.id(), file.is_writable()), (reader.id(), true));
    drop(reader);
    read_all(&cache, &mut seat, &file, 4096).unwrap();
    cache.write(&mut seat, &file, 10, b"new").unwrap();
    let id = file.id();
    let other = cache.open(&path).unwrap();
    assert_eq!(other.id(), id);
    // Dirty when it is closed: written when its contents are needed.
    drop((file, other));
    let file = cache.open(&path).unwrap();
    assert_eq!(file.id(), id);
    cache.sync(&file).unwrap();
    assert_eq!(fs::read(&path).unwrap()[10..13], *b"new");
    drop(file);
    let before = cache.stats().from_disk;
    let file = cache.open(&path).unwrap();
    assert_eq!(file.id(), id);
    read_all(&cache, &mut seat, &file, 4096).unwrap();
    assert_eq!(cache.stats().from_disk, before);
    drop(file);
    fs::write(&path, b"another one").unwrap();
    let file = cache.open(&path).unwrap();
    assert_ne!(file.id(), id);
    assert_eq!(
        read_all(&cache, &mut seat, &file, 4096).unwrap(),
        b"another one"
    );
    cache.forget(file).unwrap();
    assert_eq!(cleared(&cache, &mut seat), 0);
    all_is_back(&host);
}

#[test]
fn a_file_that_was_made_longer_or_shorter_while_it_is_open_is_another_one_when_it_is_opened() {
    let (host, folder) = (host(1024), TestFolder::new());
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let path = folder.file("a");
    fs::write(&path, patterns(3)).unwrap();
    let old = cache.open(&path).unwrap();
    assert!(read_all(&cache, &mut seat, &old, 4096).unwrap() == patterns(3));
    for contents in [b"short".to_vec(), patterns(5)] {
        fs::write(&path, &contents).unwrap();
        let new = cache.open(&path).unwrap();
        assert_ne!(new.id(), old.id());
        assert!(read_all(&cache, &mut seat, &new, 4096).unwrap() == contents);
        // The open handle still has the old one, as long as it exists.
        assert_eq!(old.len_bytes(), 3 * PAGE);
    }
    assert_eq!(cleared(&cache, &mut seat), 0);
}

#[test]
fn what_cannot_be_cached_is_refused_when_it_is_opened() {
    let (host, folder) = (host(1024), TestFolder::new());
    let cache = cache(&host);
    fs::write(folder.file("a"), b"x").unwrap();
    let appending = fs::File::options()
        .append(true)
        .read(true)
        .open(folder.file("a"));
    let refused = cache.add(appending.unwrap()).unwrap_err();
    assert!(refused.to_string().contains("not for appending"));
    let blind = fs::File::options().write(true).open(folder.file("a"));
    assert!(cache.add(blind.unwrap()).is_err());
    let refused = cache.open(&folder.0).unwrap_err();
    assert_eq!(refused.to_string(), "only regular files are cached");
    assert!(cache.open(folder.file("none")).is_err());
}

/// A copy of the contents that the file should have.
struct Shadow(Vec<u8>);

impl Shadow {
    fn write(&mut self, offset: usize, from: &[u8]) {
        let end = offset + from.len();
        if self.0.len() < end {
            self.0.resize(end, 0);
        }
        self.0[offset..end].copy_from_slice(from);
    }
}

/// Everything at random, on a file that is this thread's: equal to a copy all the time.
fn churn(
    cache: &FileCache<'_>,
    seat: &mut CacheSeat<'_>,
    path: &std::path::Path,
    seed: u64,
    ops: u64,
) {
    const LEN: u64 = 200 << 12;
    let mut random = Random::new(seed);
    let mut shadow = Shadow(patterns(100));
    fs::write(path, &shadow.0).unwrap();
    let mut file = cache.create(path).unwrap();
    let mut bytes = vec![0; 40_000];
    for _ in 0..ops {
        let offset = random.below(LEN);
        let longest = if random.below(4) == 0 { 40_000 } else { 5000 };
        let len = 1 + random.index(longest);
        match random.below(100) {
            0..50 => {
                let read = cache.read(seat, &file, offset, &mut bytes[..len]).unwrap();
                let rest = shadow.0.get(offset as usize..).unwrap_or(&[]);
                let expected = &rest[..rest.len().min(len)];
                assert!(bytes[..read] == *expected, "{len} bytes at {offset}");
            }
            50..85 => {
                let value = random.bits() as u8;
                bytes[..len]
                    .iter_mut()
                    .zip(0..)
                    .for_each(|(byte, nth)| *byte = value ^ (nth / 512) as u8);
                assert_eq!(cache.write(seat, &file, offset, &bytes[..len]), Ok(len));
                shadow.write(offset as usize, &bytes[..len]);
            }
            85..90 => {
                cache.truncate(&file, offset).unwrap();
                shadow.0.resize(offset as usize, 0);
            }
            90..96 => {
                let context = if random.below(2) == 0 {
                    Context::ANY
                } else {
                    Context::NOIO
                };
                cache.shrink(seat, &ask(random.below(60), context));
            }
            96 => cache.sync(&file).unwrap(),
            97 => {
                // Closed, whatever is dirty, and opened again.
                drop(file);
                file = cache.create(path).unwrap();
            }
            98 => {
                cache.sync(&file).unwrap();
                assert!(fs::read(path).unwrap() == shadow.0);
            }
            _ => cache.refresh(&file).unwrap(),
        }
        assert_eq!(file.len_bytes(), shadow.0.len() as u64);
    }
    assert!(read_all(cache, seat, &file, 4096).unwrap() == shadow.0);
    cache.sync(&file).unwrap();
    assert!(fs::read(path).unwrap() == shadow.0);
}

#[test]
fn what_is_read_is_what_was_written_whatever_happens_in_between() {
    let (host, folder) = (host(1024), TestFolder::new());
    let mut seat = host.seat().unwrap();
    let options = FileOptions {
        pages_max: 64,
        dirty_max: 16,
        ..FileOptions::default()
    };
    let cache = cache_with(&host, options);
    churn(&cache, &mut seat, &folder.file("a"), 1, 2000);
    let stats = cache.stats();
    assert!(stats.evicted > 100 && stats.written > 100 && stats.dirty == 0);
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop(seat);
    all_is_back(&host);
}

#[test]
fn threads_with_files_of_their_own_share_a_cache_and_a_cleancache_that_is_taken_and_poisoned() {
    for exclusive in [true, false] {
        let (host, folder) = (host(1024), TestFolder::new());
        let slots = host.platform().slots().clone();
        let mut words = Vec::new();
        let (reserve, ram) = reserve(&mut words, 1024, &slots);
        let clean = PoolConfig {
            exclusive,
            ..PoolConfig::CLEAN
        };
        let pool = reserve.open_pool(&clean).unwrap();
        let guests = Guests::new(&reserve, slots).unwrap();
        let options = FileOptions {
            pages_max: 150,
            dirty_max: 40,
            ..FileOptions::default()
        };
        let own = Arc::clone(host.ram_shared());
        let cache = FileCache::new(own, Some((&guests, pool)), options);
        let all_here = Barrier::new(3);
        std::thread::scope(|scope| {
            for nth in 0..3 {
                let (host, cache, folder, all_here) = (&host, &cache, &folder, &all_here);
                scope.spawn(move || {
                    let mut seat = host.seat().unwrap();
                    all_here.wait();
                    let path = folder.file(&nth.to_string());
                    churn(cache, &mut seat, &path, nth + 7, 450);
                });
            }
            // The owner takes the guests' frames, and fills them with a pattern.
            let mut random = Random::new(5);
            for _ in 0..200 {
                let frames = 1 + random.below(512);
                let run = reserve.alloc_contig(frames, 1).unwrap();
                for frame in run.start().0..run.end().0 {
                    ram.write(Frame(frame), &[0xaa; FRAME_BYTES]).unwrap();
                }
                reserve.release(run).unwrap();
                std::thread::yield_now();
            }
        });
        let stats = cache.stats();
        assert!(stats.from_cleancache > 20, "{stats:?}");
        let mut seat = host.seat().unwrap();
        assert_eq!(cleared(&cache, &mut seat), 0);
        drop(seat);
        all_is_back(&host);
    }
}

#[test]
fn threads_write_and_read_one_file_while_it_is_shrunk_synced_and_made_longer() {
    const PAGES: u64 = 90;
    let host = host(1024);
    let slots = host.platform().slots().clone();
    let mut words = Vec::new();
    let (reserve, _) = reserve(&mut words, 256, &slots);
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let options = FileOptions {
        pages_max: 50,
        dirty_max: 20,
        ..FileOptions::default()
    };
    let own = Arc::clone(host.ram_shared());
    let cache = FileCache::new(own, Some((&guests, pool)), options);
    let memory = MemoryFile::new(vec![0; PAGES as usize * FRAME_BYTES]);
    let file = cache.add_medium(memory.clone(), true).unwrap();
    let all_here = Barrier::new(3);
    std::thread::scope(|scope| {
        for nth in 0..3 {
            let (host, cache, file, all_here) = (&host, &cache, &file, &all_here);
            scope.spawn(move || {
                let mut seat = host.seat().unwrap();
                // Every third page is this thread's to write; each says twice how often it was.
                let (mut random, mut counts) = (Random::new(nth), [0u64; PAGES as usize]);
                all_here.wait();
                for _ in 0..1500 {
                    let page = random.below(PAGES);
                    let mut ends = [[0; 8]; 2];
                    let mine = page % 3 == nth;
                    for (end, bytes) in ends.iter_mut().enumerate() {
                        let at = page * PAGE + end as u64 * (PAGE - 8);
                        if mine && random.chance(50) {
                            let count = counts[page as usize] + 1 - end as u64;
                            cache
                                .write(&mut seat, file, at, &count.to_ne_bytes())
                                .unwrap();
                            counts[page as usize] = count;
                        }
                        cache.read(&mut seat, file, at, bytes).unwrap();
                    }
                    let [first, last] = ends.map(u64::from_ne_bytes);
                    let count = counts[page as usize];
                    assert!(!mine || first == count || last == count, "page {page}");
                    match random.below(60) {
                        0 => cache.sync(file).unwrap(),
                        1 => drop(cache.shrink(&mut seat, &ask(30, Context::ANY))),
                        2 => {
                            let longer = file.len_bytes() + random.below(5000);
                            let longer = longer.min((PAGES + 30) * PAGE);
                            cache.write(&mut seat, file, longer, b"x").unwrap();
                        }
                        _ => {}
                    }
                }
            });
        }
    });
    cache.sync(&file).unwrap();
    assert_eq!(memory.bytes().len() as u64, file.len_bytes());
    let mut seat = host.seat().unwrap();
    let all = read_all(&cache, &mut seat, &file, 5000).unwrap();
    assert!(all == *memory.bytes());
    assert_eq!(cleared(&cache, &mut seat), 0);
    assert!(read_all(&cache, &mut seat, &file, 5000).unwrap() == all);
    assert!(cache.stats().from_cleancache > 0);
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop(seat);
    all_is_back(&host);
}

#[test]
fn a_file_is_read_and_written_without_the_kernels_cache() {
    let (host, folder) = (host(1024), TestFolder::new());
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let path = folder.file("a");
    let mut expected = patterns(50);
    expected.truncate(49 * FRAME_BYTES + 17);
    fs::write(&path, &expected).unwrap();
    let direct = match DirectFile::open(&path, true) {
        Ok(direct) => direct,
        Err(error) => {
            println!("skipped: no direct I/O in the folder for temporary files: {error}");
            return;
        }
    };
    let file = cache.add_medium(Arc::new(direct), true).unwrap();
    assert!(read_all(&cache, &mut seat, &file, 5000).unwrap() == expected);
    assert_eq!(
        cache.add(fs::File::open(&path).unwrap()).unwrap().id(),
        file.id()
    );
    cache
        .write(&mut seat, &file, 30 * PAGE + 5, b"new")
        .unwrap();
    expected[30 * FRAME_BYTES + 5..][..3].copy_from_slice(b"new");
    for end in [50 * PAGE + 100, 53 * PAGE, 60 * PAGE + 1] {
        cache
            .write(&mut seat, &file, end - 10, b"at the end")
            .unwrap();
        expected.resize(end as usize, 0);
        expected[end as usize - 10..].copy_from_slice(b"at the end");
        cache.sync(&file).unwrap();
        assert!(fs::read(&path).unwrap() == expected);
    }
    assert_eq!(cleared(&cache, &mut seat), 0);
    assert!(read_all(&cache, &mut seat, &file, 5000).unwrap() == expected);
    // Another program appends: the last page is written back, and what lies behind it stays.
    cache.write(&mut seat, &file, 60 * PAGE, b"n").unwrap();
    *expected.last_mut().unwrap() = b'n';
    expected.resize(62 * FRAME_BYTES + 9, 7);
    let mut appended = fs::File::options().append(true).open(&path).unwrap();
    std::io::Write::write_all(&mut appended, &expected[60 * FRAME_BYTES + 1..]).unwrap();
    cache.sync(&file).unwrap();
    let found = fs::read(&path).unwrap();
    assert_eq!(found.len(), expected.len());
    assert!(found[61 * FRAME_BYTES..] == expected[61 * FRAME_BYTES..]);
    assert_eq!(cleared(&cache, &mut seat), 0);
}
