//! A swap device in memory, compressed.
//!
//! A page that is one repeated word is stored as that word. Any other is compressed by LZ4; a page
//! that does not become smaller than three quarters is kept as it is, because decompressing it
//! would cost much and save little. There is a limit of bytes: a write that would exceed it is an
//! error, and its slot is empty.

use super::{AlignedPageBytes, DeviceUse, SwapDevice, check_slot};
use crate::ram::FRAME_BYTES;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A page that is longer when compressed is kept as it is.
const PACKED_MAX: usize = FRAME_BYTES / 4 * 3;

/// Locks for the slots: two pages that are compressed at once rarely want the same one.
const SHARDS: usize = 64;

/// The contents and their memory: the names are those of zram's `mm_stat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ZramStats {
    /// Bytes of the pages in it, as they were.
    pub orig_data_size: u64,
    /// Bytes that they take compressed, without the bookkeeping.
    pub compr_data_size: u64,
    /// Bytes that it takes now, with 24 for each slot that has a page.
    pub mem_used_total: u64,
    /// Bytes that it may take.
    pub mem_limit: u64,
    /// The most that `mem_used_total` was.
    pub mem_used_max: u64,
    /// Pages of one repeated word.
    pub same_pages: u64,
    /// Pages kept as they are.
    pub huge_pages: u64,
}

/// The contents of a slot.
#[derive(Clone, Debug, Default)]
enum ZramSlot {
    #[default]
    Empty,
    Same(u64),
    /// Compressed if shorter than a page, else as it is.
    Bytes(Box<[u8]>),
}

const ENTRY_BYTES: u64 = size_of::<ZramSlot>() as u64;
const _: () = assert!(ENTRY_BYTES == 24);

/// Memory with slots. See the [module's description](self).
///
/// ```
/// use framewright_linux::swap::{SwapDevice, Zram};
///
/// # fn main() -> std::io::Result<()> {
/// let device = Zram::new(1000, 1 << 20);
/// let counting: [u64; 512] = std::array::from_fn(|nth| nth as u64 / 8);
/// device.write(0, &[7; 512])?;
/// device.write(1, &counting)?;
/// let stats = device.stats();
/// assert_eq!((stats.orig_data_size, stats.same_pages), (8192, 1));
/// assert!(stats.compr_data_size < 2048);
/// let mut page = [0; 512];
/// device.read(1, &mut page)?;
/// assert_eq!(page, counting);
/// # Ok(())
/// # }
/// ```
pub struct Zram {
    shards: Box<[Mutex<Vec<ZramSlot>>]>,
    slots: u64,
    limit: u64,
    used: AtomicU64,
    used_max: AtomicU64,
    packed: AtomicU64,
    pages: AtomicU64,
    same: AtomicU64,
    huge: AtomicU64,
    written: AtomicU64,
    in_use: DeviceUse,
    spare: Mutex<Vec<Box<ZramWork>>>,
}

impl std::fmt::Debug for Zram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Zram")
            .field("stats", &self.stats())
            .finish()
    }
}

/// The working memory of the compressor.
struct ZramWork {
    table: CompressTable,
    page: AlignedPageBytes,
    packed: Box<[u8]>,
}

impl Zram {
    /// A device of `slots` slots that takes at most `limit` bytes. While it is empty it takes no
    /// memory but that of its table: 24 bytes a slot, where slots are used.
    #[must_use]
    pub fn new(slots: u64, limit: u64) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            slots,
            limit,
            used: AtomicU64::new(0),
            used_max: AtomicU64::new(0),
            packed: AtomicU64::new(0),
            pages: AtomicU64::new(0),
            same: AtomicU64::new(0),
            huge: AtomicU64::new(0),
            written: AtomicU64::new(0),
            in_use: DeviceUse::new(),
            spare: Mutex::default(),
        }
    }

    /// Its counters now.
    #[must_use]
    pub fn stats(&self) -> ZramStats {
        let load = |word: &AtomicU64| word.load(Relaxed);
        ZramStats {
            orig_data_size: load(&self.pages) * FRAME_BYTES as u64,
            compr_data_size: load(&self.packed),
            mem_used_total: load(&self.used),
            mem_limit: self.limit,
            mem_used_max: load(&self.used_max),
            same_pages: load(&self.same),
            huge_pages: load(&self.huge),
        }
    }

    /// The slot's shard, and its place there.
    fn shard(&self, slot: u64) -> (MutexGuard<'_, Vec<ZramSlot>>, usize) {
        let shard = &self.shards[slot as usize % SHARDS];
        let locked = shard.lock().unwrap_or_else(PoisonError::into_inner);
        (locked, slot as usize / SHARDS)
    }

    /// Makes the table reach to the slot.
    fn reach(&self, slot: u64) -> io::Result<()> {
        let (mut shard, at) = self.shard(slot);
        let more = (at + 1).saturating_sub(shard.len());
        // Asked for before it is filled: what an allocator refuses is an error, and not the process's end.
        shard.try_reserve(more).map_err(|_| {
            let what = format!("slot {slot}: no memory for a table so long");
            io::Error::new(io::ErrorKind::OutOfMemory, what)
        })
    }

    fn replace(&self, slot: u64, new: ZramSlot) {
        let (mut shard, at) = self.shard(slot);
        if shard.len() <= at {
            if matches!(new, ZramSlot::Empty) {
                return;
            }
            shard.resize_with(at + 1, ZramSlot::default);
        }
        let old = std::mem::replace(&mut shard[at], new);
        drop(shard);
        self.account(&old, u64::wrapping_neg);
    }

    /// Counts a stored page in, or out.
    fn account(&self, stored: &ZramSlot, sign: impl Fn(u64) -> u64) {
        let add = |word: &AtomicU64, by| word.fetch_add(sign(by), Relaxed);
        match stored {
            ZramSlot::Empty => return,
            ZramSlot::Same(_) => {
                add(&self.same, 1);
            }
            ZramSlot::Bytes(bytes) => {
                add(&self.packed, bytes.len() as u64);
                add(&self.huge, u64::from(bytes.len() == FRAME_BYTES));
            }
        }
        add(&self.pages, 1);
        // For a page that comes in, the limit was charged before.
        if sign(1) != 1 {
            self.used.fetch_sub(cost(stored), Relaxed);
        }
    }

    /// Takes the bytes that `stored` needs from the limit, if they are there.
    fn take(&self, stored: &ZramSlot) -> bool {
        let cost = cost(stored);
        let taken = self.used.fetch_update(Relaxed, Relaxed, |used| {
            used.checked_add(cost).filter(|all| *all <= self.limit)
        });
        taken.is_ok_and(|before| {
            self.used_max.fetch_max(before + cost, Relaxed);
            true
        })
    }

    /// A page in the form in which it is stored.
    fn pack(&self, page: &[u64; 512]) -> ZramSlot {
        if page.iter().all(|word| *word == page[0]) {
            return ZramSlot::Same(page[0]);
        }
        let spare = || self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let found = spare().pop();
        let mut work = found.unwrap_or_else(|| {
            Box::new(ZramWork {
                table: CompressTable::small(),
                page: AlignedPageBytes::ZERO,
                packed: vec![0; get_maximum_output_size(FRAME_BYTES)].into(),
            })
        });
        let ZramWork {
            table,
            page: bytes,
            packed,
        } = &mut *work;
        bytes.set(page);
        let stored = match compress_into_with_table(&bytes.0, packed, table) {
            Ok(len) if len <= PACKED_MAX => ZramSlot::Bytes(packed[..len].into()),
            _ => ZramSlot::Bytes(bytes.0.as_slice().into()),
        };
        spare().push(work);
        stored
    }
}

/// Bytes that a stored page takes.
fn cost(stored: &ZramSlot) -> u64 {
    match stored {
        ZramSlot::Empty => 0,
        ZramSlot::Same(_) => ENTRY_BYTES,
        ZramSlot::Bytes(bytes) => bytes.len() as u64 + ENTRY_BYTES,
    }
}

impl SwapDevice for Zram {
    fn slots(&self) -> u64 {
        self.slots
    }

    /// # Errors
    /// [`StorageFull`](io::ErrorKind::StorageFull) if the limit is reached: the slot is empty then.
    /// [`OutOfMemory`](io::ErrorKind::OutOfMemory) if there is no memory for the table up to the slot.
    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        check_slot(slot, self.slots)?;
        self.reach(slot)?;
        let stored = self.pack(page);
        // The old page goes first, so that the new one may have its room.
        self.replace(slot, ZramSlot::Empty);
        if !self.take(&stored) {
            let what = format!("slot {slot} does not fit into {} bytes", self.limit);
            return Err(io::Error::new(io::ErrorKind::StorageFull, what));
        }
        self.account(&stored, |by| by);
        let bytes = cost(&stored) - ENTRY_BYTES;
        self.written.fetch_add(bytes, Relaxed);
        self.replace(slot, stored);
        Ok(())
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        check_slot(slot, self.slots)?;
        let (shard, at) = self.shard(slot);
        match shard.get(at) {
            None | Some(ZramSlot::Empty) => {
                let what = format!("slot {slot} is empty");
                Err(io::Error::new(io::ErrorKind::NotFound, what))
            }
            Some(ZramSlot::Same(word)) => {
                page.fill(*word);
                Ok(())
            }
            Some(ZramSlot::Bytes(bytes)) => {
                let mut whole = AlignedPageBytes::ZERO;
                let len = if bytes.len() == FRAME_BYTES {
                    whole.0.copy_from_slice(bytes);
                    Ok(FRAME_BYTES)
                } else {
                    decompress_into(bytes, &mut whole.0)
                };
                if len.ok() != Some(FRAME_BYTES) {
                    let what = format!("slot {slot} does not decompress to a page");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
                whole.get(page);
                Ok(())
            }
        }
    }

    fn discard(&self, slot: u64) {
        if slot < self.slots {
            self.replace(slot, ZramSlot::Empty);
        }
    }

    /// Does nothing: it is as safe as the process.
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    /// Compressed bytes, to memory.
    fn bytes_written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    fn in_use(&self) -> &DeviceUse {
        &self.in_use
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swap::tests::page;
    use framewright_sim::Random;

    /// A page that cannot be compressed.
    fn noise(seed: u64) -> [u64; 512] {
        let mut random = Random::new(seed);
        std::array::from_fn(|_| random.bits())
    }

    #[test]
    fn what_was_written_is_read_and_counted_by_kind() {
        let device = Zram::new(300, 1 << 20);
        for nth in 0..100 {
            device.write(nth, &[nth; 512]).unwrap();
            device.write(100 + nth, &page(nth)).unwrap();
            device.write(200 + nth, &noise(nth)).unwrap();
        }
        let mut got = [1; 512];
        for nth in 0..100 {
            device.read(nth, &mut got).unwrap();
            assert_eq!(got, [nth; 512]);
            device.read(100 + nth, &mut got).unwrap();
            assert_eq!(got, page(nth));
            device.read(200 + nth, &mut got).unwrap();
            assert_eq!(got, noise(nth));
        }
        let stats = device.stats();
        assert_eq!(stats.orig_data_size, 300 * 4096);
        assert_eq!((stats.same_pages, stats.huge_pages), (100, 100));
        assert!(stats.compr_data_size >= 100 * 4096);
        assert!(stats.compr_data_size < 100 * (4096 + 3072));
        assert_eq!(stats.mem_used_total, stats.compr_data_size + 300 * 24);
        assert_eq!(device.bytes_written(), stats.compr_data_size);
        (0..300).for_each(|slot| device.discard(slot));
        let empty = device.stats();
        assert_eq!(empty.mem_used_max, stats.mem_used_total);
        let nothing = ZramStats {
            mem_used_max: empty.mem_used_max,
            mem_limit: 1 << 20,
            ..ZramStats::default()
        };
        assert_eq!(empty, nothing);
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_its_slot_is_empty() {
        let device = Zram::new(8, 3 * (4096 + 24));
        (0..3).for_each(|slot| device.write(slot, &noise(slot)).unwrap());
        let error = device.write(3, &noise(3)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(error.to_string(), "slot 3 does not fit into 12360 bytes");
        let mut got = [0; 512];
        let empty = device.read(3, &mut got).unwrap_err().to_string();
        assert_eq!(empty, "slot 3 is empty");
        // The new page may use its slot's own room.
        device.write(1, &noise(9)).unwrap();
        device.read(1, &mut got).unwrap();
        assert_eq!(got, noise(9));
        assert_eq!(device.stats().mem_used_total, 12_360);
    }

    #[test]
    fn a_slot_that_no_table_reaches_is_an_error() {
        let device = Zram::new(u64::MAX, 1 << 20);
        for slot in [u64::MAX - 1, 1 << 62, 1 << 50] {
            let refused = device.write(slot, &page(1)).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::OutOfMemory);
            let mut got = [0; 512];
            let empty = device.read(slot, &mut got).unwrap_err();
            assert_eq!(empty.kind(), io::ErrorKind::NotFound);
            device.discard(slot);
        }
        assert_eq!(device.stats().orig_data_size, 0);
        device.write(7, &page(7)).unwrap();
    }

    #[test]
    fn what_is_no_slot_is_said() {
        let device = Zram::new(8, 1 << 20);
        let mut got = [0; 512];
        let none = "slot 8 is not below 8";
        assert_eq!(device.read(8, &mut got).unwrap_err().to_string(), none);
        assert_eq!(device.write(8, &got).unwrap_err().to_string(), none);
        device.discard(8);
        device.sync().unwrap();
    }
}
