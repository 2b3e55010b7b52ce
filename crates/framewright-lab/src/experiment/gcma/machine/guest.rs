//! Guests without a job: one that fills the area, and one that is always busy.

use super::GcmaMachine;
use super::area::PoolIds;
use crate::experiment::Failure;
use framewright::frame::FrameSource;
use framewright::reserve::Key;
use framewright_linux::file_cache::{Medium, OpenFile};
use framewright_linux::tenancy::Tenancy;
use framewright_sim::Random;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Bytes in a page.
const PAGE: usize = 4096;

/// Pages of one object: a file of 4 MiB.
const OBJECT_PAGES: u64 = 1024;

/// The key of the `nth` page: of two in three files', of one swap's.
fn key(pools: PoolIds, nth: u64) -> Key {
    if nth.is_multiple_of(3) {
        return Key {
            pool: pools.swap,
            object: 0,
            index: nth / 3,
        };
    }
    Key {
        pool: pools.clean,
        object: nth / OBJECT_PAGES,
        index: nth % OBJECT_PAGES,
    }
}

/// A page of words that differ.
fn contents(nth: u64) -> [u64; 512] {
    std::array::from_fn(|word| nth << 16 | word as u64)
}

/// Fills memory with pages, each of which is new.
#[derive(Debug, Default)]
pub(in crate::experiment::gcma) struct Filler {
    next: u64,
}

impl Filler {
    /// Puts this many pages: if as many frames are free, none is afterwards.
    pub(in crate::experiment::gcma) fn put(
        &mut self,
        tenancy: &dyn Tenancy,
        pools: PoolIds,
        pages: u64,
    ) {
        let mut page = contents(0);
        for nth in self.next..self.next + pages {
            page[0] = nth << 16;
            tenancy.with(&mut |store| {
                // What does not find room is not there: the area is as full as it can be.
                let _ = store.put(key(pools, nth), &page);
            });
        }
        self.next += pages;
    }
}

/// Gets pages at random, and puts those that are not there, until it is stopped.
pub(in crate::experiment::gcma) fn be_busy(
    tenancy: &dyn Tenancy,
    pools: PoolIds,
    seed: u64,
    frames: u64,
    stop: &AtomicBool,
) {
    let (mut draw, mut page) = (Random::new(seed), contents(0));
    while !stop.load(Relaxed) {
        let nth = draw.remainder(frames);
        tenancy.with(&mut |store| {
            if !store.get(key(pools, nth), &mut page) {
                page = contents(nth);
                let _ = store.put(key(pools, nth), &page);
            }
        });
    }
}

/// A file of this many bytes that differ from word to word: a page of one word takes no frame in some areas.
struct DifferingWords(u64);

impl Medium for DifferingWords {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        let there = self.0.saturating_sub(offset).min(into.len() as u64) as usize;
        let (words, _) = into[..there].as_chunks_mut::<8>();
        for (nth, word) in (offset / 8..).zip(words) {
            *word = nth.to_le_bytes();
        }
        Ok(there)
    }

    fn write_at(&self, _from: &[u8], _offset: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0)
    }

    fn set_len(&self, _len_bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Movable memory for an area that has no guests: half of it pages of a file, which are clean, half of it paged
/// memory.
#[derive(Debug)]
pub(in crate::experiment::gcma) struct Movable {
    file: OpenFile,
    next: u64,
}

impl Movable {
    /// A file of `pages` pages, and all of paged memory written.
    pub(in crate::experiment::gcma) fn new(
        machine: &GcmaMachine<'_>,
        pages: u64,
    ) -> Result<Self, Failure> {
        let made = Self::of_file(machine, pages)?;
        let bytes: [u8; PAGE] = std::array::from_fn(|at| at as u8);
        for page in 0..machine.paged.pages() {
            let written = machine.paged.write(page * PAGE as u64, &bytes);
            written.map_err(Failure::new)?;
        }
        Ok(made)
    }

    /// The file alone.
    pub(in crate::experiment::gcma) fn of_file(
        machine: &GcmaMachine<'_>,
        pages: u64,
    ) -> Result<Self, Failure> {
        let words = Arc::new(DifferingWords(pages * PAGE as u64));
        let file = machine.files.add_medium(words, false);
        let file = file.map_err(Failure::new)?;
        Ok(Self { file, next: 0 })
    }

    /// Reads this many pages of the file, which are not in memory, or were not for the longest time.
    pub(in crate::experiment::gcma) fn read(
        &mut self,
        machine: &GcmaMachine<'_>,
        supply: &mut dyn FrameSource,
        pages: u64,
    ) -> Result<(), Failure> {
        let all = self.file.len_bytes() / PAGE as u64;
        let mut bytes = [0; PAGE];
        for _ in 0..pages {
            let offset = self.next * PAGE as u64;
            let read = machine.files.read(supply, &self.file, offset, &mut bytes);
            read.map_err(Failure::new)?;
            self.next = (self.next + 1) % all;
        }
        Ok(())
    }

    /// Reads a page of the file at random.
    pub(in crate::experiment::gcma) fn read_any(
        &mut self,
        machine: &GcmaMachine<'_>,
        supply: &mut dyn FrameSource,
        draw: &mut Random,
    ) -> Result<(), Failure> {
        let mut bytes = [0; PAGE];
        let offset = draw.remainder(self.file.len_bytes() / PAGE as u64) * PAGE as u64;
        let read = machine.files.read(supply, &self.file, offset, &mut bytes);
        read.map(drop).map_err(Failure::new)
    }
}
