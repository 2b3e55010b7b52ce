//! The cache of files, on files in memory with an n-th transfer that fails, and on real ones.

mod contents;
mod errors;
mod eviction;
mod moving;

use super::*;
use crate::platform::Slots;
use crate::tenancy::Guests;
use crate::{Host, Linux, Options, RamPages, Stored};
use framewright::Run;
use framewright::frame::{Seat, ZoneLayout};
use framewright::reserve::{PoolConfig, Reserve, ReserveLayout};
use framewright_sim::Random;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

type CacheSeat<'h> = Seat<'h, 'h, Linux<()>>;
type CachePlatform = Stored<()>;

/// Frames that do not begin at 0: so tests find code that mistakes a frame's number for its place.
const FIRST: Frame = Frame(3 << 9);

fn host(frames: u64) -> Host<()> {
    Host::fenced(&Options::new(ZoneLayout::new(FIRST, frames).with_cpus(4))).unwrap()
}

fn cache_with(host: &Host<()>, options: FileOptions) -> FileCache<'static> {
    FileCache::new(Arc::clone(host.ram_shared()), None, options)
}

fn cache(host: &Host<()>) -> FileCache<'static> {
    cache_with(host, FileOptions::default())
}

/// A reserve of `frames` frames of its own, for as many threads as `slots`.
fn reserve<'m>(
    words: &'m mut Vec<u64>,
    frames: u64,
    slots: &Slots,
) -> (Reserve<'m, CachePlatform>, Arc<Ram>) {
    let run = Run::new(Frame(1 << 20), frames).unwrap();
    let layout = ReserveLayout::new(run).with_cpus(slots.count());
    words.resize(layout.words_needed().unwrap(), 0);
    let ram = Arc::new(Ram::new(run, RamPages::Base).unwrap());
    let platform = Stored::new(Linux::fenced(slots.clone()), Arc::clone(&ram));
    (Reserve::new(&layout, words, platform).unwrap(), ram)
}

fn all_is_back(host: &Host<()>) {
    let zone = host.zone();
    zone.drain();
    zone.verify().unwrap();
    assert_eq!(zone.stats().nr_free_pages, host.ram().frames().frames());
}

/// Clears the cache, with its invariants before and after.
fn cleared(cache: &FileCache<'_>, seat: &mut CacheSeat<'_>) -> u64 {
    cache.verify().unwrap();
    let left = cache.clear(seat);
    cache.verify().unwrap();
    left
}

/// What a page of a file holds at first.
fn pattern(page: u64) -> [u8; FRAME_BYTES] {
    std::array::from_fn(|at| (page * 31 + at as u64 / 7 + 1) as u8)
}

fn patterns(pages: u64) -> Vec<u8> {
    (0..pages).flat_map(pattern).collect()
}

/// A folder that goes when it is dropped.
struct TestFolder(std::path::PathBuf);

impl TestFolder {
    fn new() -> Self {
        static NTH: AtomicU64 = AtomicU64::new(0);
        let nth = NTH.fetch_add(1, Relaxed);
        let name = format!("framewright-files-{}-{nth}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> std::path::PathBuf {
        self.0.join(name)
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let gone = std::fs::remove_dir_all(&self.0);
        assert!(gone.is_ok() || std::thread::panicking());
    }
}

/// A file in memory. From the n-th transfer of a kind on it fails, this many times.
#[derive(Default)]
struct MemoryFile {
    bytes: Mutex<Vec<u8>>,
    reads: Fail,
    writes: Fail,
    syncs: Fail,
    lens: Fail,
    /// A write takes this many bytes at most; 0 is all.
    chunk: u64,
    /// A read gives this many pages at most; 0 is all.
    read_pages: usize,
}

#[derive(Default)]
struct Fail {
    calls: AtomicU64,
    first: AtomicU64,
    times: AtomicU64,
    errno: AtomicU64,
}

const EINTR: i32 = 4;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

impl Fail {
    fn at(&self, nth: u64, times: u64, errno: i32) {
        self.calls.store(0, Relaxed);
        self.first.store(nth, Relaxed);
        self.times.store(times, Relaxed);
        self.errno.store(errno as u64, Relaxed);
    }

    fn call(&self) -> io::Result<()> {
        let nth = self.calls.fetch_add(1, Relaxed) + 1;
        let first = self.first.load(Relaxed);
        if first > 0 && nth >= first && nth - first < self.times.load(Relaxed) {
            return Err(io::Error::from_raw_os_error(self.errno.load(Relaxed) as i32));
        }
        Ok(())
    }

    fn calls(&self) -> u64 {
        self.calls.load(Relaxed)
    }
}

impl MemoryFile {
    fn new(bytes: Vec<u8>) -> Arc<Self> {
        Arc::new(Self {
            bytes: Mutex::new(bytes),
            ..Self::default()
        })
    }

    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap()
    }
}

impl Medium for MemoryFile {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reads.call()?;
        let bytes = self.bytes();
        let rest = bytes.get(offset as usize..).unwrap_or(&[]);
        let most = match self.read_pages {
            0 => into.len(),
            pages => pages * FRAME_BYTES,
        };
        let len = rest.len().min(into.len()).min(most);
        into[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        self.writes.call()?;
        let chunk = if self.chunk > 0 { self.chunk } else { u64::MAX };
        let from = &from[..from.len().min(chunk as usize)];
        let (start, end) = (offset as usize, offset as usize + from.len());
        let mut bytes = self.bytes();
        if bytes.len() < end {
            bytes.resize(end, 0);
        }
        bytes[start..end].copy_from_slice(from);
        Ok(from.len())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.lens.call()?;
        Ok(self.bytes().len() as u64)
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.lens.call()?;
        self.bytes().resize(len_bytes as usize, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.syncs.call()
    }
}

/// Reads all of it, in pieces of `piece` bytes.
fn read_all(
    cache: &FileCache<'_>,
    seat: &mut CacheSeat<'_>,
    file: &OpenFile,
    piece: usize,
) -> Result<Vec<u8>, FileError> {
    let mut all = Vec::new();
    let mut bytes = vec![0; piece];
    loop {
        let read = cache.read(seat, file, all.len() as u64, &mut bytes)?;
        all.extend_from_slice(&bytes[..read]);
        if read < piece {
            return Ok(all);
        }
    }
}
