//! Every error is a value, and no data is lost by it.

use super::*;
use framewright::Context;
use framewright::Order as BlockOrder;
use framewright::frame::{AllocError, FrameSource};
use framewright::reclaim::{Ask, Shrink};
use framewright::reserve::Store;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn each_read_that_fails_is_said_for_its_page_and_the_next_one_succeeds() {
    let expected = patterns(40);
    // Without errors it is 6 transfers: 4, 8, 16 and 12 pages, and then none.
    for nth in 1..=5 {
        let host = host(1024);
        let (cache, mut seat) = (cache(&host), host.seat().unwrap());
        let medium = MemoryFile::new(expected.clone());
        let file = cache.add_medium(medium.clone(), false).unwrap();
        // The second attempt of a transfer is one page: it must fail, too, to be said.
        medium.reads.at(nth, 2, EIO);
        let mut all = Vec::new();
        let mut errors = Vec::new();
        let mut bytes = [0; FRAME_BYTES];
        while all.len() < expected.len() {
            match cache.read(&mut seat, &file, all.len() as u64, &mut bytes) {
                Ok(read) => all.extend_from_slice(&bytes[..read]),
                Err(error) => errors.push((all.len() as u64 / PAGE, error)),
            }
        }
        assert!(all == expected);
        let is_last = nth == 5;
        assert_eq!(errors.len(), usize::from(!is_last), "{nth}: {errors:?}");
        for (page, error) in errors {
            assert_eq!(error, FileError::Read { page, errno: EIO });
            let message = format!("page {page} was not read: Input/output error (os error 5)");
            assert_eq!(error.to_string(), message);
        }
        // An error in pages that were only read ahead is not reported: the second transfer has four
        // pages.
        medium.reads.at(2, 1, EIO);
        cache.clear(&mut seat);
        assert!(read_all(&cache, &mut seat, &file, FRAME_BYTES).unwrap() == expected);
        assert_eq!(cleared(&cache, &mut seat), 0);
        drop((cache, file, seat));
        all_is_back(&host);
    }
}

#[test]
fn transfers_that_are_short_or_interrupted_go_on() {
    let host = host(1024);
    let mut seat = host.seat().unwrap();
    let mut expected = patterns(70);
    expected.truncate(69 * FRAME_BYTES + 9);
    let mut calls = Vec::new();
    for (nth, times) in [(1, 0), (1, 4), (2, 4), (9, 4)] {
        let medium = Arc::new(MemoryFile {
            bytes: Mutex::new(expected.clone()),
            read_pages: 3,
            chunk: 5000,
            ..MemoryFile::default()
        });
        let cache = cache(&host);
        let file = cache.add_medium(medium.clone(), true).unwrap();
        medium.reads.at(nth, times, EINTR);
        assert!(read_all(&cache, &mut seat, &file, 10_000).unwrap() == expected);
        calls.push(medium.reads.calls() - times);
        medium.writes.at(nth, times, EINTR);
        expected
            .iter_mut()
            .for_each(|byte| *byte = byte.wrapping_add(1));
        let written = cache.write(&mut seat, &file, 0, &expected);
        assert_eq!(written, Ok(expected.len()));
        cache.sync(&file).unwrap();
        assert!(*medium.bytes() == expected);
        assert_eq!(cleared(&cache, &mut seat), 0);
    }
    // As many as without interruptions, and at least one for three pages.
    assert!(
        calls[0] >= 70 / 3 && calls.iter().all(|one| *one == calls[0]),
        "{calls:?}"
    );
}

#[test]
fn a_write_back_that_fails_keeps_the_page_dirty_and_is_said_by_each_sync_until_it_succeeds() {
    // 70 pages in three transfers; a write takes 3000 bytes at once.
    let transfers = (70 * 4096u64).div_ceil(3000) + 3;
    for nth in (1..transfers).step_by(11) {
        let host = host(1024);
        let (cache, mut seat) = (cache(&host), host.seat().unwrap());
        let medium = Arc::new(MemoryFile {
            chunk: 3000,
            ..MemoryFile::default()
        });
        let file = cache.add_medium(medium.clone(), true).unwrap();
        let expected = patterns(70);
        assert_eq!(
            cache.write(&mut seat, &file, 0, &expected),
            Ok(expected.len())
        );
        medium.writes.at(nth, 1_000_000, ENOSPC);
        let failed = cache.sync(&file).unwrap_err();
        assert!(
            matches!(failed, FileError::Write { errno: ENOSPC, .. }),
            "{failed}"
        );
        let dirty = cache.stats().dirty;
        assert!(dirty > 0);
        assert_eq!(cache.sync(&file), Err(failed));
        // Pressure does not lose it either.
        let everything = Ask {
            wanted: 1000,
            scan: 1000,
            order: BlockOrder::ZERO,
            context: Context::ANY,
        };
        cache.shrink(&mut seat, &everything);
        assert_eq!(cache.stats().dirty, dirty);
        assert!(read_all(&cache, &mut seat, &file, 5000).unwrap() == expected);
        assert_eq!(cache.sync(&file).unwrap_err(), failed);
        medium.writes.at(0, 0, 0);
        cache.sync(&file).unwrap();
        assert!(*medium.bytes() == expected);
        assert_eq!((cache.stats().dirty, cache.sync(&file)), (0, Ok(())));
        assert_eq!(cleared(&cache, &mut seat), 0);
        drop((cache, file, seat));
        all_is_back(&host);
    }
}

#[test]
fn what_was_written_before_a_sync_that_failed_is_written_again() {
    let host = host(1024);
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let medium = MemoryFile::new(Vec::new());
    let file = cache.add_medium(medium.clone(), true).unwrap();
    let expected = patterns(8);
    cache.write(&mut seat, &file, 0, &expected).unwrap();
    medium.syncs.at(1, 2, EIO);
    for _ in 0..2 {
        assert_eq!(cache.sync(&file), Err(FileError::Sync { errno: EIO }));
        assert_eq!(cache.stats().dirty, 8);
        // As a host may do that has said so once.
        medium.bytes().fill(0);
    }
    cache.sync(&file).unwrap();
    assert!(*medium.bytes() == expected);
    assert_eq!((medium.syncs.calls(), cache.stats().dirty), (3, 0));
    // Nothing has changed: nothing to sync.
    cache.sync(&file).unwrap();
    assert_eq!(medium.syncs.calls(), 3);
    // A page evicted in between cannot be written again; each sync reports that until the page is
    // overwritten or truncated.
    cache.write(&mut seat, &file, 0, &expected).unwrap();
    assert_eq!(cleared(&cache, &mut seat), 0);
    medium.syncs.at(1, 1, EIO);
    for _ in 0..3 {
        assert_eq!(cache.sync(&file), Err(FileError::Sync { errno: EIO }));
    }
    cache
        .write(&mut seat, &file, 0, &expected[..5 * FRAME_BYTES])
        .unwrap();
    assert_eq!(cache.sync(&file), Err(FileError::Sync { errno: EIO }));
    cache.truncate(&file, 5 * PAGE).unwrap();
    cache.sync(&file).unwrap();
    assert!(*medium.bytes() == expected[..5 * FRAME_BYTES]);
    assert_eq!(cleared(&cache, &mut seat), 0);
}

#[test]
fn whatever_fails_at_random_what_was_said_to_be_written_is_there() {
    for seed in 0..6 {
        let host = host(1024);
        let options = FileOptions {
            pages_max: 40,
            dirty_max: 12,
            ..FileOptions::default()
        };
        let (cache, mut seat) = (cache_with(&host, options), host.seat().unwrap());
        let medium = MemoryFile::new(patterns(60));
        let file = cache.add_medium(medium.clone(), true).unwrap();
        let (mut shadow, mut random, mut errors) = (patterns(60), Random::new(seed), 0);
        let mut bytes = vec![0; 20_000];
        for _ in 0..600 {
            let kinds = [&medium.reads, &medium.writes, &medium.lens];
            let nth = 1 + random.below(3);
            kinds[random.index(3)].at(nth, random.below(3), EIO);
            let at = random.index(100 * FRAME_BYTES);
            let len = 1 + random.index(bytes.len());
            match random.below(10) {
                0..5 => match cache.read(&mut seat, &file, at as u64, &mut bytes[..len]) {
                    Ok(read) => {
                        let rest = shadow.get(at..).unwrap_or(&[]);
                        assert!(bytes[..read] == rest[..read]);
                    }
                    Err(_) => errors += 1,
                },
                5..8 => {
                    bytes[..len].fill(random.bits() as u8);
                    match cache.write(&mut seat, &file, at as u64, &bytes[..len]) {
                        Ok(written) => {
                            let end = at + written;
                            shadow.resize(shadow.len().max(end), 0);
                            shadow[at..end].copy_from_slice(&bytes[..written]);
                        }
                        Err(_) => errors += 1,
                    }
                }
                8 => match cache.truncate(&file, at as u64) {
                    Ok(()) => shadow.resize(at, 0),
                    Err(_) => errors += 1,
                },
                _ => errors += u64::from(cache.sync(&file).is_err()),
            }
            assert_eq!(file.len_bytes(), shadow.len() as u64);
        }
        assert!(errors > 20, "{errors}");
        for kind in [&medium.reads, &medium.writes, &medium.lens] {
            kind.at(0, 0, 0);
        }
        cache.sync(&file).unwrap();
        assert!(*medium.bytes() == shadow);
        assert!(read_all(&cache, &mut seat, &file, 5000).unwrap() == shadow);
        assert_eq!(cleared(&cache, &mut seat), 0);
    }
}

#[test]
fn a_writer_is_refused_when_too_much_is_dirty_and_nothing_can_be_written() {
    let host = host(1024);
    let options = FileOptions {
        dirty_max: 10,
        ..FileOptions::default()
    };
    let (cache, mut seat) = (cache_with(&host, options), host.seat().unwrap());
    let full = MemoryFile::new(Vec::new());
    let other = MemoryFile::new(Vec::new());
    let file = cache.add_medium(full.clone(), true).unwrap();
    let beside = cache.add_medium(other.clone(), true).unwrap();
    full.writes.at(1, u64::MAX, ENOSPC);
    // Ten pages are taken, and then no more; the result says how much was taken.
    let some = patterns(20);
    assert_eq!(
        cache.write(&mut seat, &file, 0, &some),
        Ok(10 * FRAME_BYTES)
    );
    let refused = cache.write(&mut seat, &file, 10 * PAGE, &some).unwrap_err();
    assert_eq!(refused, FileError::Dirty { pages: 10 });
    assert_eq!(file.len_bytes(), 10 * PAGE);
    assert!(cache.write(&mut seat, &beside, 0, &some).is_err());
    full.writes.at(0, 0, 0);
    assert_eq!(cache.write(&mut seat, &beside, 0, &some), Ok(some.len()));
    let rest = cache.write(&mut seat, &file, 10 * PAGE, &some[10 * FRAME_BYTES..]);
    assert_eq!(rest, Ok(10 * FRAME_BYTES));
    for (file, medium) in [(&file, &full), (&beside, &other)] {
        cache.sync(file).unwrap();
        assert!(*medium.bytes() == some);
    }
    assert!(cache.stats().write_errors > 0);
    assert_eq!(cleared(&cache, &mut seat), 0);
}

#[test]
fn a_file_that_another_process_truncated_is_said_and_refreshed() {
    let host = host(1024);
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let medium = MemoryFile::new(patterns(40));
    let file = cache.add_medium(medium.clone(), true).unwrap();
    let mut bytes = [0; FRAME_BYTES];
    cache.read(&mut seat, &file, 0, &mut bytes).unwrap();
    medium.bytes().truncate(2 * FRAME_BYTES + 100);
    // In the cache it is as it was; elsewhere it is gone, from the page on in which it ends.
    assert_eq!(cache.read(&mut seat, &file, 0, &mut bytes), Ok(FRAME_BYTES));
    for page in [20, 39] {
        let gone = cache.read(&mut seat, &file, page * PAGE, &mut bytes);
        assert_eq!(gone, Err(FileError::Truncated { page }));
    }
    cache.write(&mut seat, &file, 5, b"mine").unwrap();
    medium.lens.at(1, 1, EIO);
    assert_eq!(cache.refresh(&file), Err(FileError::Length { errno: EIO }));
    assert_eq!(file.len_bytes(), 40 * PAGE);
    cache.refresh(&file).unwrap();
    assert_eq!(file.len_bytes(), 2 * PAGE + 100);
    let mut expected = patterns(3);
    expected.truncate(2 * FRAME_BYTES + 100);
    expected[5..9].copy_from_slice(b"mine");
    assert!(read_all(&cache, &mut seat, &file, 1000).unwrap() == expected);
    cache.sync(&file).unwrap();
    assert!(*medium.bytes() == expected);
    assert_eq!(cleared(&cache, &mut seat), 0);
}

#[test]
fn a_truncation_that_is_refused_changes_nothing() {
    let host = host(1024);
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let medium = MemoryFile::new(patterns(4));
    let file = cache.add_medium(medium.clone(), true).unwrap();
    cache.write(&mut seat, &file, 3 * PAGE, b"dirty").unwrap();
    medium.lens.at(1, 1, EIO);
    assert_eq!(
        cache.truncate(&file, 10),
        Err(FileError::Length { errno: EIO })
    );
    let mut expected = patterns(4);
    expected[3 * FRAME_BYTES..][..5].copy_from_slice(b"dirty");
    assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == expected);
    assert_eq!(cache.truncate(&file, 1 << 63), Err(FileError::TooLong));
    let past = cache.write(&mut seat, &file, (1 << 63) - 2, b"two");
    assert_eq!(past, Err(FileError::TooLong));
    // Truncated pages are no longer dirty, and pages that come again are zero.
    cache.truncate(&file, 10).unwrap();
    assert_eq!(cache.stats().dirty, 0);
    cache.truncate(&file, 5000).unwrap();
    expected.truncate(10);
    expected.resize(5000, 0);
    assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == expected);
    cache.sync(&file).unwrap();
    assert!(*medium.bytes() == expected);
    assert_eq!(cleared(&cache, &mut seat), 0);
}

#[test]
fn without_a_frame_the_cache_gives_its_own_and_then_says_so() {
    let host = host(1024);
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let file = cache
        .add_medium(MemoryFile::new(patterns(2000)), false)
        .unwrap();
    // More than there are frames.
    assert!(read_all(&cache, &mut seat, &file, 50_000).unwrap() == patterns(2000));
    assert!(cache.stats().pages <= 1024);
    assert_eq!(cleared(&cache, &mut seat), 0);
    let mut bytes = [0; 10];
    let mut all = Vec::new();
    while let Ok(frame) = FrameSource::alloc_frame(&mut seat) {
        all.push(frame);
    }
    let error = cache.read(&mut seat, &file, 0, &mut bytes).unwrap_err();
    assert_eq!(error, FileError::Frames(AllocError::Exhausted));
    assert_eq!(
        cache.pin(&mut seat, &file, 2000).unwrap_err(),
        FileError::PastTheEnd { page: 2000 }
    );
    all.into_iter()
        .for_each(|frame| FrameSource::free_frame(&mut seat, frame));
    assert_eq!(cache.read(&mut seat, &file, 0, &mut bytes), Ok(10));
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop((cache, file, seat));
    all_is_back(&host);
}

/// Panics where a [`MemoryFile`] would fail.
struct PanickingFile(Arc<MemoryFile>);

impl Medium for PanickingFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.0.read_at(into, offset).expect("told to panic"))
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        Ok(self.0.write_at(from, offset).expect("told to panic"))
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.0.len_bytes()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.0.set_len(len_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

#[test]
fn a_medium_that_panics_leaves_no_thread_waiting_and_loses_nothing() {
    let host = host(1024);
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let memory = MemoryFile::new(patterns(8));
    let file = cache
        .add_medium(Arc::new(PanickingFile(memory.clone())), true)
        .unwrap();
    memory.reads.at(1, 1, EIO);
    let mut bytes = [0; 10];
    let read = catch_unwind(AssertUnwindSafe(|| {
        cache.read(&mut seat, &file, 0, &mut bytes)
    }));
    assert!(read.is_err());
    cache.write(&mut seat, &file, 0, b"some").unwrap();
    memory.writes.at(1, 1, EIO);
    assert!(catch_unwind(AssertUnwindSafe(|| cache.sync(&file))).is_err());
    assert_eq!(cache.stats().dirty, 1);
    cache.sync(&file).unwrap();
    let mut expected = patterns(8);
    expected[..4].copy_from_slice(b"some");
    assert!(*memory.bytes() == expected);
    assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == expected);
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop((cache, file, seat));
    all_is_back(&host);
}

/// A file that grows by a page at each write of a write-back.
struct Appended {
    file: Arc<MemoryFile>,
    written: std::sync::mpsc::SyncSender<()>,
    appended: Mutex<std::sync::mpsc::Receiver<()>>,
}

impl Medium for Appended {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(into, offset)
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        // The appending has ended when it is done.
        if self.written.send(()).is_ok() {
            let _ = self.appended.lock().unwrap().recv();
        }
        self.file.write_at(from, offset)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.file.len_bytes()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.file.set_len(len_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

#[test]
fn a_sync_ends_though_another_thread_appends_in_front_of_it() {
    let host = host(512);
    let cache = cache(&host);
    let (written, is_written) = std::sync::mpsc::sync_channel(0);
    let (append, appended) = std::sync::mpsc::channel();
    let memory = MemoryFile::new(Vec::new());
    let medium = Appended {
        file: Arc::clone(&memory),
        written,
        appended: Mutex::new(appended),
    };
    let file = cache.add_medium(Arc::new(medium), true).unwrap();
    let mut seat = host.seat().unwrap();
    cache.write(&mut seat, &file, 0, &pattern(0)).unwrap();
    std::thread::scope(|scope| {
        let (cache, file, host) = (&cache, &file, &host);
        scope.spawn(move || {
            let mut seat = host.seat().unwrap();
            // A hundred pages: a sync that went after them would write as often.
            for page in 1..=100 {
                let Ok(()) = is_written.recv_timeout(std::time::Duration::from_secs(2)) else {
                    return;
                };
                let at = page * FRAME_BYTES as u64;
                cache.write(&mut seat, file, at, &pattern(page)).unwrap();
                append.send(()).unwrap();
            }
        });
        cache.sync(file).unwrap();
    });
    assert_eq!(memory.writes.calls(), 1, "the pages dirty when it began");
    assert_eq!(memory.bytes().len(), FRAME_BYTES);
    cache.sync(&file).unwrap();
    assert_eq!(*memory.bytes(), patterns(2));
    drop(file);
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop(seat);
    all_is_back(&host);
}

#[test]
fn fc8_a_file_that_is_open_in_one_cache_is_refused_by_another() {
    let host = host(512);
    let (one, other) = (cache(&host), cache(&host));
    let memory = MemoryFile::new(patterns(4));
    let file = one.add_medium(memory.clone(), true).unwrap();
    let mut seat = host.seat().unwrap();
    let mut bytes = [0; 8];
    let refused = [
        other.read(&mut seat, &file, 0, &mut bytes).map(drop),
        other.write(&mut seat, &file, 0, b"other").map(drop),
        other.pin(&mut seat, &file, 0).map(drop),
        other.truncate(&file, 0),
        other.refresh(&file),
        other.sync(&file),
    ];
    assert_eq!(refused, [Err(FileError::OtherCache); 6]);
    assert_eq!(
        FileError::OtherCache.to_string(),
        "the file is open in another cache"
    );
    one.write(&mut seat, &file, 0, b"one").unwrap();
    // Only the handle goes.
    assert_eq!(other.forget(file), Err(FileError::OtherCache));
    assert_eq!(
        (cleared(&other, &mut seat), cleared(&one, &mut seat)),
        (0, 0)
    );
    assert_eq!(&memory.bytes()[..3], b"one");
    drop(seat);
    all_is_back(&host);
}

#[test]
fn a_page_with_as_many_pins_as_can_be_counted_says_so() {
    let host = host(512);
    let cache = cache(&host);
    let file = cache
        .add_medium(MemoryFile::new(patterns(1)), false)
        .unwrap();
    let mut seat = host.seat().unwrap();
    let pin = cache.pin(&mut seat, &file, 0).unwrap();
    let slot = cache.table.slot(cache.table.id_of(pin.frame()).unwrap());
    slot.set_pins(u32::MAX);
    let refused = cache.pin(&mut seat, &file, 0).map(drop);
    assert_eq!(refused, Err(FileError::Pins { page: 0 }));
    slot.set_pins(1);
    drop((pin, file));
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop(seat);
    all_is_back(&host);
}

/// Calls until one panics; 0 for none.
#[derive(Default)]
struct PanicAfter(AtomicU64);

impl PanicAfter {
    fn count(&self) {
        let before = self
            .0
            .fetch_update(Relaxed, Relaxed, |calls| calls.checked_sub(1));
        assert!(before != Ok(1), "told to panic");
    }
}

struct PanickyTenancy<'t>(&'t dyn Tenancy, PanicAfter);

impl Tenancy for PanickyTenancy<'_> {
    fn with(&self, work: &mut dyn FnMut(&mut dyn Store)) {
        self.1.count();
        self.0.with(work);
    }
}

struct PanickyFrames<'s, 'h>(&'s mut CacheSeat<'h>, PanicAfter);

impl FrameSource for PanickyFrames<'_, '_> {
    fn origin(&self) -> u64 {
        self.0.origin()
    }

    fn frames_in_all(&self) -> u64 {
        self.0.frames_in_all()
    }

    fn alloc_run(&mut self, frames: u64, context: Context) -> Result<Run, AllocError> {
        self.1.count();
        FrameSource::alloc_run(self.0, frames, context)
    }

    fn free_run(&mut self, run: Run) {
        FrameSource::free_run(self.0, run);
    }
}

#[test]
fn fc9_a_store_or_a_supply_that_panics_leaves_no_page_in_transit_and_loses_no_frame() {
    let host = host(256);
    let (slots, mut words) = (Slots::new(1), Vec::new());
    let (reserve, _ram) = reserve(&mut words, 64, &slots);
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let store = PanickyTenancy(&guests, PanicAfter::default());
    let options = FileOptions {
        pages_max: 24,
        ..FileOptions::default()
    };
    let cache = FileCache::new(Arc::clone(host.ram_shared()), Some((&store, pool)), options);
    let medium = MemoryFile {
        bytes: Mutex::new(patterns(100)),
        ..MemoryFile::default()
    };
    let file = cache.add_medium(Arc::new(medium), true).unwrap();
    let mut seat = host.seat().unwrap();
    let mut panics = 0;
    for round in 0..300 {
        let mut supply = PanickyFrames(&mut seat, PanicAfter::default());
        let calls = if round % 2 == 0 { &store.1 } else { &supply.1 };
        calls.0.store(1 + round / 7, Relaxed);
        let mut bytes = vec![0; 50 * FRAME_BYTES];
        let first = round * 13 % 50;
        let read = catch_unwind(AssertUnwindSafe(|| {
            cache.read(&mut supply, &file, first * PAGE, &mut bytes)
        }));
        match read {
            Ok(read) => {
                assert_eq!(read, Ok(bytes.len()));
                assert!(bytes == patterns(100)[first as usize * FRAME_BYTES..][..bytes.len()]);
            }
            Err(_) => panics += 1,
        }
        store.1.0.store(0, Relaxed);
        cache.verify().unwrap();
    }
    assert!(panics > 50, "{panics}");
    assert_eq!(cleared(&cache, &mut seat), 0);
    drop(seat);
    all_is_back(&host);
}

#[test]
fn fc10_no_page_comes_back_that_the_cleancache_could_not_be_made_to_forget() {
    let host = host(256);
    let (slots, mut words) = (Slots::new(1), Vec::new());
    let (reserve, _ram) = reserve(&mut words, 64, &slots);
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let guests = Guests::new(&reserve, slots).unwrap();
    let store = PanickyTenancy(&guests, PanicAfter::default());
    let options = FileOptions::default();
    let cache = FileCache::new(Arc::clone(host.ram_shared()), Some((&store, pool)), options);
    let mut seat = host.seat().unwrap();
    for pages in [8, 80] {
        let medium = MemoryFile {
            bytes: Mutex::new(patterns(pages)),
            ..MemoryFile::default()
        };
        let file = cache.add_medium(Arc::new(medium), true).unwrap();
        let mut bytes = vec![0; pages as usize * FRAME_BYTES];
        cache.read(&mut seat, &file, 0, &mut bytes).unwrap();
        assert_eq!(cleared(&cache, &mut seat), 0);
        assert!(
            reserve.stats().guests().held_pages > 0,
            "they are in the cleancache"
        );
        store.1.0.store(1, Relaxed);
        let cut = catch_unwind(AssertUnwindSafe(|| cache.truncate(&file, 0)));
        assert!(cut.is_err(), "it was told to panic");
        cache.truncate(&file, bytes.len() as u64).unwrap();
        // Nor if the next one panics, too.
        store.1.0.store(1, Relaxed);
        let read = catch_unwind(AssertUnwindSafe(|| {
            cache.read(&mut seat, &file, 0, &mut bytes)
        }));
        assert!(read.is_err(), "it was told to panic");
        cache.verify().unwrap();
        cache.read(&mut seat, &file, 0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "FC10");
        // From then on its pages come from the cleancache again.
        let before = cache.stats().from_cleancache;
        assert_eq!(cleared(&cache, &mut seat), 0);
        cache.read(&mut seat, &file, 0, &mut bytes).unwrap();
        assert!(cache.stats().from_cleancache > before);
        assert_eq!(cleared(&cache, &mut seat), 0);
    }
    drop(seat);
    all_is_back(&host);
}
