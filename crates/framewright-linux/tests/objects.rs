//! Objects on real memory: threads on all paths at once, and no object's bytes are another's.
//!
//! Each object is full of words that depend on its key, written by plain stores through its own
//! address. Most go from the thread that allocated them to the next one, which checks every word
//! and frees the object; some stay, change their length and go then. What two objects shared, one
//! of them would find overwritten; and a thread that got memory without its former user's leave
//! (no happens-before) the thread sanitizer would find.

use framewright::frame::{AllocError, ZoneLayout};
use framewright::kv::{KvError, KvFreeError, KvRequest};
use framewright::platform::{FramePlatform, MapError};
use framewright::vrange::RangeError;
use framewright::{Addr, Frame};
use framewright_linux::{HostCpu, HostError, HostKv, Options, Windowed};
use framewright_sim::Random;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// 64 MiB, not starting at a pageblock.
const START: u64 = 1000;
const FRAMES: u64 = 16384;
const BYTES: u64 = FRAMES * 4096;
/// Longer than the longest block, so always mapped pages.
const HUGE: u64 = 5 << 20;

fn options(cpus: u16) -> Options {
    let layout = ZoneLayout::new(Frame(START), FRAMES).with_cpus(cpus);
    Options::new(layout).with_window(4 * FRAMES)
}

/// What is drawn.
struct Draw(Random);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0.remainder(bound)
    }

    /// A whole number of words, of any of the kinds.
    fn bytes(&mut self) -> u64 {
        let bytes = match self.below(256) {
            0 => HUGE,
            1..16 => (64 << 10) + self.below(192 << 10),
            16..64 => 2049 + self.below(62 << 10),
            _ => 1 + self.below(2048),
        };
        bytes.next_multiple_of(8)
    }
}

/// A live object.
#[derive(Debug)]
struct LiveObject {
    addr: Addr,
    bytes: u64,
    key: u64,
}

impl LiveObject {
    /// The word at that place in the object of that key.
    fn word(key: u64, place: usize) -> u64 {
        (key ^ place as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Does something with the words of its first `bytes` bytes.
    fn with_words<B: FramePlatform + Clone>(
        &self,
        host: &HostKv<B>,
        bytes: u64,
        work: impl FnOnce(&mut [u64]),
    ) {
        let at = if host.kv().is_mapped(self.addr) {
            host.window().address(self.addr.page()).unwrap()
        } else {
            let ram = host.ram();
            let first = ram.address(Frame(START)).unwrap();
            let offset = self.addr.0 as usize - first.addr();
            assert!(offset + bytes as usize <= BYTES as usize, "{self:?}");
            first.wrapping_byte_add(offset)
        };
        assert_eq!(at.addr() as u64, self.addr.0);
        // SAFETY: the object is live, at least so long, aligned to 16, and the holder of the
        // `LiveObject` alone has its bytes: that it is so is what is tested here.
        work(unsafe { std::slice::from_raw_parts_mut(at.cast(), bytes as usize / 8) });
    }

    fn fill<B: FramePlatform + Clone>(&self, host: &HostKv<B>) {
        self.with_words(host, self.bytes, |words| {
            for (place, word) in words.iter_mut().enumerate() {
                *word = Self::word(self.key, place);
            }
        });
    }

    /// Panics unless the first `bytes` bytes are as they were written.
    fn check<B: FramePlatform + Clone>(&self, host: &HostKv<B>, bytes: u64) {
        self.with_words(host, bytes, |words| {
            for (place, word) in words.iter().enumerate() {
                assert_eq!(*word, Self::word(self.key, place), "word {place}, {self:?}");
            }
        });
    }
}

/// What all threads count.
#[derive(Default)]
struct ThreadCounts {
    full: AtomicU64,
    objects: AtomicU64,
    moved: AtomicU64,
    zeroed: AtomicU64,
    freed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Whether the request was right but memory is full, or the kernel has no mapping left; or memory
/// is not side by side, and the request needs it so or is for less than a page.
fn is_full(error: KvError) -> bool {
    let full = |error| matches!(error, AllocError::Exhausted | AllocError::Fragmented);
    match error {
        KvError::NotNow { .. } => true,
        KvError::Frames(error) => full(error),
        KvError::Ranges(RangeError::Frames(error)) => full(error),
        KvError::Ranges(RangeError::NoSpace { .. } | RangeError::TooManyFrames { .. }) => true,
        KvError::Ranges(RangeError::Map(error)) => {
            matches!(error, MapError::Limit { .. } | MapError::NoMemory)
        }
        _ => false,
    }
}

struct ObjectWorker<'h, B: FramePlatform + Clone> {
    host: &'h HostKv<B>,
    seat: HostCpu<'h, Windowed<B>>,
    random: Draw,
    counts: &'h ThreadCounts,
    kept: Vec<LiveObject>,
}

impl<B: FramePlatform + Clone> ObjectWorker<'_, B> {
    /// Makes an object in one of the possible ways; `None` if memory is full.
    fn alloc(&mut self) -> Option<LiveObject> {
        let bytes = self.random.bytes();
        let key = self.random.below(u64::MAX);
        let request = KvRequest::new(bytes);
        let way = self.random.below(4);
        let addr = match way {
            0 if bytes <= 4 << 20 => self.seat.kmalloc(&request),
            1 => self.seat.objects().kvcalloc(bytes / 8, 8, &request),
            _ => self.seat.kvmalloc(&request),
        };
        let addr = match addr {
            Ok(addr) => addr,
            Err(error) => {
                assert!(is_full(error), "{error}");
                count(&self.counts.full);
                return None;
            }
        };
        let object = LiveObject { addr, bytes, key };
        if way == 1 {
            object.with_words(self.host, bytes, |words| {
                assert!(words.iter().all(|word| *word == 0), "{object:?}");
            });
            count(&self.counts.zeroed);
        }
        object.fill(self.host);
        count(&self.counts.objects);
        Some(object)
    }

    fn free(&mut self, object: &LiveObject) {
        object.check(self.host, object.bytes);
        let is_mapped = self.host.kv().is_mapped(object.addr);
        let freed = if is_mapped || self.random.below(2) == 0 {
            self.seat.kvfree(object.addr)
        } else {
            self.seat.objects().kfree(object.addr)
        };
        assert!(freed.unwrap() >= object.bytes, "{object:?}");
        count(&self.counts.freed);
    }

    /// Gives an object another length; its bytes stay, whether there was memory or not.
    fn resize(&mut self, mut object: LiveObject) -> LiveObject {
        let bytes = self.random.bytes();
        let moved = self
            .seat
            .objects()
            .kvrealloc(object.addr, &KvRequest::new(bytes));
        match moved {
            Ok(addr) => {
                object.addr = addr;
                object.check(self.host, object.bytes.min(bytes));
                object.bytes = bytes;
                object.fill(self.host);
                count(&self.counts.moved);
            }
            Err(error) => {
                assert!(is_full(error), "{error}");
                object.check(self.host, object.bytes);
            }
        }
        object
    }

    /// One thread's part: allocates until it has had its share, hands on, frees what comes.
    fn work(mut self, share: u64, next: Sender<LiveObject>, from_before: &Receiver<LiveObject>) {
        let mut had = 0;
        while had < share {
            match self.alloc() {
                Some(object) => {
                    had += object.bytes;
                    match self.random.below(4) {
                        0 => self.kept.push(object),
                        _ => next.send(object).unwrap(),
                    }
                }
                // Memory is with the others: make room, or wait until there is some to make.
                None => match from_before.try_recv() {
                    Ok(object) => self.free(&object),
                    Err(_) => match self.kept.pop() {
                        Some(object) => next.send(object).unwrap(),
                        None => thread::yield_now(),
                    },
                },
            }
            if self.random.below(8) == 0
                && let Some(object) = self.kept.pop()
            {
                let object = self.resize(object);
                next.send(object).unwrap();
            }
            // No object comes back before memory was full once, whichever threads run; then often
            // enough that it is not always full.
            if self.counts.full.load(Relaxed) > 0
                && self.random.below(4) == 0
                && let Ok(object) = from_before.try_recv()
            {
                self.free(&object);
            }
        }
        for object in std::mem::take(&mut self.kept) {
            next.send(object).unwrap();
        }
        drop(next);
        // All shares together are more than there is, so some thread finds memory full.
        while self.counts.full.load(Relaxed) == 0 {
            thread::yield_now();
        }
        while let Ok(object) = from_before.recv() {
            self.free(&object);
        }
    }
}

/// Checks that no object is allocated, and all frames are back.
fn all_is_back<B: FramePlatform + Clone>(host: &HostKv<B>) {
    host.kv().verify().unwrap();
    let present = host.kv().recount();
    assert_eq!((present.live_slots, present.runs), (0, 0));
    let mut seat = host.cpu().unwrap();
    seat.objects().drain();
    seat.ranges().drain();
    drop(seat);
    host.kv().verify().unwrap();
    host.space().verify().unwrap();
    host.zone().drain();
    host.zone().verify().unwrap();
    assert_eq!(host.zone().recount().free, FRAMES);
}

fn hand_round<B: FramePlatform + Clone + Send + Sync>(
    host: &HostKv<B>,
    threads: usize,
    share: u64,
) {
    assert!(threads as u64 * share > BYTES, "memory becomes full");
    let counts = ThreadCounts::default();
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    thread::scope(|scope| {
        let mut workers = Vec::new();
        for (thread, receiver) in receivers.into_iter().enumerate() {
            let next = senders[(thread + 1) % threads].clone();
            let counts = &counts;
            workers.push(scope.spawn(move || {
                let worker = ObjectWorker {
                    host,
                    seat: host.cpu().unwrap(),
                    random: Draw(Random::new(thread as u64)),
                    counts,
                    kept: Vec::new(),
                };
                worker.work(share, next, &receiver);
            }));
        }
        drop(senders);
        for worker in workers {
            worker.join().unwrap();
        }
    });
    let [full, objects, moved, zeroed, freed] = [
        &counts.full,
        &counts.objects,
        &counts.moved,
        &counts.zeroed,
        &counts.freed,
    ]
    .map(|counter| counter.load(Relaxed));
    let stats = host.kv().stats();
    println!("{objects} objects, {moved} resized, {full} times full: {stats:?}");
    assert!(full > 0, "memory must have been full");
    assert!(moved > 0 && zeroed > 0);
    assert_eq!(objects, freed);
    assert!(stats.slab_allocs > 0 && stats.run_allocs > 0 && stats.spills > 0);
    assert!(stats.remote_frees > 0);
    assert_eq!((stats.bad_frees, stats.double_frees), (0, 0));
    assert_eq!((stats.compact_stall, stats.allocstall), (0, 0));
    assert_eq!(stats.slab_allocs, stats.slab_frees);
    assert_eq!(stats.run_allocs, stats.run_frees);
    assert_eq!(stats.spills, stats.mapped_frees);
    all_is_back(host);
}

#[test]
fn no_thread_finds_its_objects_overwritten_with_membarrier() {
    let options = options(4);
    let host = match HostKv::new(&options) {
        Err(error @ HostError::NoMembarrier) => return eprintln!("skipped: {error}"),
        host => host.unwrap(),
    };
    hand_round(&host, 4, 24 << 20);
}

#[test]
fn no_thread_finds_its_objects_overwritten_with_fences() {
    let options = options(3);
    let host: HostKv<()> = HostKv::fenced(&options).unwrap();
    hand_round(&host, 3, 32 << 20);
}

#[test]
fn a_free_of_what_is_free_or_was_never_allocated_is_an_error_on_real_memory() {
    let options = options(1);
    let host = HostKv::fenced(&options).unwrap();
    let mut seat = host.cpu().unwrap();
    let (small, run) = (KvRequest::new(64), KvRequest::new(10_000));
    let objects = [
        seat.kmalloc(&small).unwrap(),
        seat.kmalloc(&run).unwrap(),
        seat.kvmalloc(&KvRequest::new(HUGE)).unwrap(),
    ];
    let kinds = objects.map(|addr| (host.kv().is_mapped(addr), host.kv().is_in_slab(addr)));
    assert_eq!(kinds, [(false, true), (false, false), (true, false)]);
    let mapped = objects[2];
    assert_eq!(
        seat.objects().kfree(mapped),
        Err(KvFreeError::Mapped(mapped))
    );
    for addr in objects {
        seat.kvfree(addr).unwrap();
        let twice = seat.kvfree(addr).unwrap_err();
        let inside = seat.kvfree(Addr(addr.0 + 8)).unwrap_err();
        println!("{twice}; {inside}");
    }
    let own = Box::new(5u64);
    let outside = Addr(std::ptr::from_ref(&*own).addr() as u64);
    assert!(seat.kvfree(outside).is_err());
    assert_eq!(host.kv().stats().bad_frees, 8);
    drop(seat);
    all_is_back(&host);
}
