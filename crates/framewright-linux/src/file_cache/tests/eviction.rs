//! Which pages go and which stay, and from where a page that went can be read again.

use super::*;
use framewright::Context;
use framewright::Order as BlockOrder;
use framewright::reclaim::{Ask, Shrink, Shrunk};
use framewright::reserve::{Key, PutRefused, Store};
use std::collections::{BTreeMap, BTreeSet};

fn ask(wanted: u64, scan: u64, context: Context) -> Ask {
    Ask {
        wanted,
        scan,
        order: BlockOrder::ZERO,
        context,
    }
}

/// Pages by a Zipf distribution of exponent 0.9 over `pages`, and every fourth one of a scan that never
/// comes back.
struct ZipfTrace {
    /// Sums of the weights, in units of which the most frequent page has 2^20.
    sums: Vec<u64>,
    scan: u64,
    random: Random,
}

impl ZipfTrace {
    fn new(pages: u64) -> Self {
        let mut sum = 0;
        let weight = |page| ((1u64 << 20) as f64 / ((page + 1) as f64).powf(0.9)) as u64;
        let sums = (0..pages).map(|page| {
            sum += weight(page);
            sum
        });
        Self {
            sums: sums.collect(),
            scan: pages,
            random: Random::new(42),
        }
    }

    fn next(&mut self) -> u64 {
        if self.random.chance(25) {
            self.scan += 1;
            return self.scan - 1;
        }
        let at = self.random.below(*self.sums.last().unwrap());
        self.sums.partition_point(|sum| *sum <= at) as u64
    }
}

/// The rival: the page that was not used for longest goes.
#[derive(Default)]
struct RivalLru {
    last_use: BTreeMap<u64, u64>,
    by_use: BTreeSet<(u64, u64)>,
    now: u64,
}

impl RivalLru {
    fn has(&mut self, page: u64, max: usize) -> bool {
        self.now += 1;
        let before = self.last_use.insert(page, self.now);
        if let Some(before) = before {
            self.by_use.remove(&(before, page));
        }
        self.by_use.insert((self.now, page));
        if self.last_use.len() > max {
            let (_, oldest) = self.by_use.pop_first().unwrap();
            self.last_use.remove(&oldest);
        }
        before.is_some()
    }
}

/// A file of zeros without an end.
struct Endless;

impl Medium for Endless {
    fn read_at(&self, into: &mut [u8], _: u64) -> io::Result<usize> {
        into.fill(0);
        Ok(into.len())
    }

    fn write_at(&self, from: &[u8], _: u64) -> io::Result<usize> {
        Ok(from.len())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(1 << 50)
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn sieve_keeps_more_of_what_is_used_again_than_lru_beside_a_scan() {
    const CACHED: u64 = 512;
    const USES: u64 = 30_000;
    let host = host(1024);
    let options = FileOptions {
        pages_max: CACHED,
        ahead_max: 1,
        ..FileOptions::default()
    };
    let (cache, mut seat) = (cache_with(&host, options), host.seat().unwrap());
    let file = cache.add_medium(Arc::new(Endless), false).unwrap();
    let (mut trace, mut lru, mut lru_hits) = (ZipfTrace::new(4 * CACHED), RivalLru::default(), 0);
    let mut byte = [0];
    for _ in 0..USES {
        let page = trace.next();
        cache
            .read(&mut seat, &file, page * PAGE, &mut byte)
            .unwrap();
        lru_hits += u64::from(lru.has(page, CACHED as usize));
    }
    let stats = cache.stats();
    assert_eq!((stats.hits + stats.misses, stats.pages), (USES, CACHED));
    let (sieve, lru) = (stats.hits * 1000 / USES, lru_hits * 1000 / USES);
    println!("SIEVE {sieve}, LRU {lru} hits in 1000");
    assert!(sieve >= lru + 40, "SIEVE {sieve}, LRU {lru} hits in 1000");
    assert_eq!(cleared(&cache, &mut seat), 0);
}

#[test]
fn a_hit_among_small_reads_of_one_page_is_one_use() {
    let host = host(1024);
    let options = FileOptions {
        ahead_max: 1,
        ..FileOptions::default()
    };
    let (cache, mut seat) = (cache_with(&host, options), host.seat().unwrap());
    let file = cache
        .add_medium(MemoryFile::new(patterns(20)), false)
        .unwrap();
    read_all(&cache, &mut seat, &file, 100).unwrap();
    // All of them were used once, in many pieces: the first look takes them.
    let shrunk = cache.shrink(&mut seat, &ask(20, 20, Context::ANY));
    assert_eq!(
        shrunk,
        Shrunk {
            scanned: 20,
            freed: 20
        }
    );
    for _ in 0..2 {
        read_all(&cache, &mut seat, &file, 4096).unwrap();
    }
    let shrunk = cache.shrink(&mut seat, &ask(20, 20, Context::ANY));
    assert_eq!(
        shrunk,
        Shrunk {
            scanned: 20,
            freed: 0
        }
    );
    assert_eq!(cache.shrink(&mut seat, &ask(7, 20, Context::ANY)).freed, 7);
    assert_eq!(Shrink::<CacheSeat<'_>>::holding(&cache), 13);
    cache.clear(&mut seat);
}

#[test]
fn dirty_pages_are_passed_by_or_written_as_the_context_says() {
    let host = host(1024);
    let (cache, mut seat) = (cache(&host), host.seat().unwrap());
    let memory = MemoryFile::new(Vec::new());
    let file = cache.add_medium(memory.clone(), true).unwrap();
    cache.write(&mut seat, &file, 0, &patterns(30)).unwrap();
    for context in [Context::NOIO, Context::NOFS, Context::NOWAIT] {
        assert_eq!(cache.shrink(&mut seat, &ask(30, 100, context)).freed, 0);
    }
    assert_eq!(memory.writes.calls(), 0);
    let shrunk = cache.shrink(&mut seat, &ask(10, 100, Context::ANY));
    assert_eq!(shrunk.freed, 10);
    // Neighbours were written with the first: one transfer.
    let stats = cache.stats();
    assert_eq!(
        (memory.writes.calls(), stats.written + stats.dirty),
        (1, 30)
    );
    assert!(stats.written >= 10);
    assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == patterns(30));
    assert_eq!(cleared(&cache, &mut seat), 0);
    assert!(*memory.bytes() == patterns(30));
}

#[test]
fn what_was_evicted_comes_from_the_cleancache_unless_it_was_changed() {
    for exclusive in [true, false] {
        let host = host(1024);
        let slots = Slots::new(2);
        let mut words = Vec::new();
        let (reserve, _) = reserve(&mut words, 512, &slots);
        let clean = PoolConfig {
            exclusive,
            ..PoolConfig::CLEAN
        };
        let pool = reserve.open_pool(&clean).unwrap();
        let guests = Guests::new(&reserve, slots).unwrap();
        let own = Arc::clone(host.ram_shared());
        let cache = FileCache::new(own, Some((&guests, pool)), FileOptions::default());
        let mut seat = host.seat().unwrap();
        let memory = MemoryFile::new(patterns(100));
        let file = cache.add_medium(memory.clone(), true).unwrap();
        let mut expected = patterns(100);
        read_all(&cache, &mut seat, &file, 4096).unwrap();
        assert_eq!(cleared(&cache, &mut seat), 0);
        let reads = memory.reads.calls();
        assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == expected);
        assert_eq!(
            (memory.reads.calls(), cache.stats().from_cleancache),
            (reads, 100)
        );
        let in_store = |index| {
            let (mut page, mut hit) = ([0; 512], false);
            let object = file.id();
            let key = Key {
                pool,
                object,
                index,
            };
            guests.with(&mut |store| hit = store.get(key, &mut page));
            hit
        };
        assert_eq!(in_store(50), !exclusive);
        // Changed: the store's copy is old from the beginning of the write on.
        cache.write(&mut seat, &file, 50 * PAGE, b"new").unwrap();
        expected[50 * FRAME_BYTES..][..3].copy_from_slice(b"new");
        assert!(!in_store(50));
        assert_eq!(cleared(&cache, &mut seat), 0);
        assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == expected);
        // Overwritten while it is only there.
        assert_eq!(cleared(&cache, &mut seat), 0);
        cache
            .write(&mut seat, &file, 60 * PAGE, &[9; FRAME_BYTES])
            .unwrap();
        expected[60 * FRAME_BYTES..][..FRAME_BYTES].fill(9);
        assert_eq!(cleared(&cache, &mut seat), 0);
        assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == expected);
        // Truncated while it is only there, in the middle of a page, and longer again: few pages, and many.
        for len in [98 * PAGE + 7, 3 * PAGE + 7] {
            assert_eq!(cleared(&cache, &mut seat), 0);
            cache.truncate(&file, len).unwrap();
            cache.truncate(&file, 100 * PAGE).unwrap();
            expected[len as usize..].fill(0);
            assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == expected);
        }
        assert!(*memory.bytes() == expected);
        assert_eq!(cleared(&cache, &mut seat), 0);
        drop((cache, file, seat));
        all_is_back(&host);
    }
}

#[test]
fn files_beyond_the_limit_are_forgotten_the_first_closed_first() {
    let (host, folder) = (host(1024), TestFolder::new());
    let options = FileOptions {
        files_max: 3,
        ..FileOptions::default()
    };
    let (cache, mut seat) = (cache_with(&host, options), host.seat().unwrap());
    let mut ids = Vec::new();
    for nth in 0..6 {
        let path = folder.file(&nth.to_string());
        std::fs::write(&path, pattern(nth)).unwrap();
        let file = cache.open(&path).unwrap();
        read_all(&cache, &mut seat, &file, 4096).unwrap();
        ids.push(file.id());
    }
    assert!(cache.stats().pages <= 4);
    let is_known = |nth: usize| cache.open(folder.file(&nth.to_string())).unwrap().id() == ids[nth];
    assert!(is_known(5) && is_known(4) && !is_known(0));
    assert_eq!(cleared(&cache, &mut seat), 0);
}

#[test]
fn files_that_are_closed_dirty_do_not_keep_their_descriptors_for_ever() {
    let (host, folder) = (host(1024), TestFolder::new());
    let options = FileOptions {
        dirty_files_max: 4,
        ..FileOptions::default()
    };
    let (cache, mut seat) = (cache_with(&host, options), host.seat().unwrap());
    let path = |nth: u64| folder.file(&nth.to_string());
    for nth in 0..20 {
        let file = cache.create(path(nth)).unwrap();
        cache.write(&mut seat, &file, 0, &pattern(nth)).unwrap();
        assert!(cache.stats().dirty <= 5);
    }
    for nth in 0..15 {
        assert!(std::fs::read(path(nth)).unwrap() == pattern(nth));
    }
    assert_eq!(cleared(&cache, &mut seat), 0);
    assert!(std::fs::read(path(19)).unwrap() == pattern(19));
}

#[test]
fn a_file_that_was_closed_again_is_forgotten_after_one_that_was_not() {
    let (host, folder) = (host(1024), TestFolder::new());
    let options = FileOptions {
        files_max: 3,
        ..FileOptions::default()
    };
    let cache = cache_with(&host, options);
    let open = |nth: u64| {
        let path = folder.file(&nth.to_string());
        if !path.exists() {
            std::fs::write(&path, pattern(nth)).unwrap();
        }
        cache.open(path).unwrap().id()
    };
    let ids = [open(0), open(1), open(2)];
    for _ in 0..1000 {
        assert_eq!(open(0), ids[0]);
    }
    open(3);
    // The second went, and not the first, which was used again.
    assert_eq!((open(0), open(2)), (ids[0], ids[2]));
    assert_ne!(open(1), ids[1]);
}

/// A store of all that was put; while a page is put, another thread begins to write to it.
struct OvertakenStore {
    pages: Mutex<BTreeMap<u64, [u64; 512]>>,
    /// 1: a put is under way. 2: the writer has begun. 3: the writer is done.
    stage: AtomicU64,
}

struct SlowStore<'s>(&'s OvertakenStore);

impl crate::Tenancy for OvertakenStore {
    fn with(&self, work: &mut dyn FnMut(&mut dyn Store)) {
        work(&mut SlowStore(self));
    }
}

impl Store for SlowStore<'_> {
    fn put(&mut self, key: Key, page: &[u64; 512]) -> Result<(), PutRefused> {
        let stage = &self.0.stage;
        if stage.compare_exchange(0, 1, Relaxed, Relaxed).is_ok() {
            while stage.load(Relaxed) < 2 {
                std::thread::yield_now();
            }
            // The writer has all the time that it needs, and must not be able to use it.
            for _ in 0..2000 {
                std::thread::yield_now();
            }
            assert_eq!(stage.load(Relaxed), 2, "a page on its way out was changed");
        }
        self.0.pages.lock().unwrap().insert(key.index, *page);
        Ok(())
    }

    fn put_dirty(&mut self, _: Key, _: &[u64; 512]) -> Result<(), PutRefused> {
        panic!("a cache of files puts clean pages");
    }

    fn get(&mut self, key: Key, page: &mut [u64; 512]) -> bool {
        let found = self.0.pages.lock().unwrap().remove(&key.index);
        found.is_some_and(|found| {
            *page = found;
            true
        })
    }

    fn invalidate_page(&mut self, key: Key) {
        self.0.pages.lock().unwrap().remove(&key.index);
    }

    fn invalidate_object(&mut self, _: PoolId, _: u64) {
        self.0.pages.lock().unwrap().clear();
    }

    fn invalidate_pool(&mut self, _: PoolId) -> bool {
        false
    }
}

#[test]
fn a_writer_of_a_page_on_its_way_to_the_cleancache_waits_and_finds_it_there() {
    let host = host(1024);
    let slow = OvertakenStore {
        pages: Mutex::default(),
        stage: AtomicU64::new(0),
    };
    let own = Arc::clone(host.ram_shared());
    let cache = FileCache::new(own, Some((&slow, PoolId(0))), FileOptions::default());
    let memory = MemoryFile::new(patterns(1));
    let file = cache.add_medium(memory.clone(), true).unwrap();
    let mut seat = host.seat().unwrap();
    cache.read(&mut seat, &file, 0, &mut [0]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut seat = host.seat().unwrap();
            while slow.stage.load(Relaxed) < 1 {
                std::thread::yield_now();
            }
            slow.stage.store(2, Relaxed);
            cache.write(&mut seat, &file, 8, b"new").unwrap();
            slow.stage.store(3, Relaxed);
        });
        assert_eq!(cache.shrink(&mut seat, &ask(1, 1, Context::ANY)).freed, 1);
    });
    // It came from there, once, and nothing old is left.
    let stats = cache.stats();
    assert_eq!((stats.from_cleancache, stats.from_disk), (1, 1));
    assert!(slow.pages.lock().unwrap().is_empty());
    let mut expected = patterns(1);
    expected[8..11].copy_from_slice(b"new");
    for _ in 0..2 {
        assert!(read_all(&cache, &mut seat, &file, 4096).unwrap() == expected);
        assert_eq!(cleared(&cache, &mut seat), 0);
    }
    assert!(*memory.bytes() == expected);
}

#[test]
fn a_thread_that_writes_too_much_has_all_of_the_file_written_that_was_dirty_first() {
    let host = host(1024);
    let options = FileOptions {
        dirty_max: 40,
        ..FileOptions::default()
    };
    let (cache, mut seat) = (cache_with(&host, options), host.seat().unwrap());
    let [first, second] = [(); 2].map(|()| MemoryFile::new(Vec::new()));
    let file = cache.add_medium(first.clone(), true).unwrap();
    cache.write(&mut seat, &file, 0, &patterns(40)).unwrap();
    assert!(first.bytes().is_empty());
    let beside = cache.add_medium(second.clone(), true).unwrap();
    cache.write(&mut seat, &beside, 0, &patterns(80)).unwrap();
    assert!(*first.bytes() == patterns(40));
    assert!(cache.stats().dirty <= 40 && second.bytes().len() >= 40 * FRAME_BYTES);
    assert_eq!(cleared(&cache, &mut seat), 0);
    assert!(*second.bytes() == patterns(80));
}
