//! The reserve as a whole: its memory, its seats, its pools.

use super::reservations::{ReservationRecord, Reservations};
use super::table::{
    Descriptor, EvictionQueue, FrameTable, GuestRecord, IndexBucket, KINDS, OwnersRecord,
    PageIndex, PoolConfig, PoolId, PoolRecord, Pools, SECTION, SectionRecord, ShardRecord,
};
use crate::platform::{Awaited, Patience, ReservePlatform};
use crate::raw::{Carver, RawRecord};
use crate::sync::{AtomicU64, Lock, Ordering::Relaxed};
use crate::units::{CpuId, FRAMES_MAX, Frame, Run, SetupError};
use core::ops::Range;

/// The place and the shape of a reserve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReserveLayout {
    /// The frames: contiguous, in no zone, anywhere.
    pub run: Run,
    /// How many CPUs may have a guest's seat, 1 to 1023.
    pub cpus: u16,
    /// How many pools of each kind there may be at a time, 1 to 256.
    pub pools: u16,
    /// How many pages of one repeated word may be there without a frame.
    pub values: u32,
    /// How many pages may be in ordinary frames, because an owner took theirs (put-back).
    pub ordinary: u32,
}

/// How many there are of each part, in the queue in which they lie in the words handed in: the reservations come first.
#[derive(Clone, Copy, Debug)]
struct ReserveShape {
    frames: usize,
    values: usize,
    /// The first descriptor for a page in an ordinary frame.
    ordinary: usize,
    ids: usize,
    cpus: usize,
    pools: usize,
    /// Words by pool: whole cache lines.
    by_pool: usize,
    shards: [usize; 2],
    sections: usize,
    buckets: usize,
    /// Generations of objects.
    objects: usize,
    words: usize,
}

/// How many reservations a reserve can remember.
pub(super) const RESERVATIONS: usize = 64;
/// A number plus one fits 31 bits: that of a frame, rounded up, or of a page without one.
const RESERVE_MAX: u64 = if FRAMES_MAX < 1 << 30 {
    FRAMES_MAX
} else {
    1 << 30
};
const VALUES_MAX: u64 = RESERVE_MAX / 2;

impl ReserveShape {
    fn new(layout: &ReserveLayout) -> Result<Self, SetupError> {
        let frames = layout.run.frames();
        let values = u64::from(layout.values) + u64::from(layout.ordinary);
        SetupError::limits(&[
            ("number of frames", frames, 1, RESERVE_MAX),
            (
                "number of pages without a frame of the reserve",
                values,
                0,
                VALUES_MAX,
            ),
            ("number of CPUs", layout.cpus.into(), 1, 1023),
            ("number of pools", layout.pools.into(), 1, 256),
        ])?;
        let frames = frames as usize;
        let rounded = frames.next_multiple_of(SECTION);
        let values = layout.values as usize;
        let ordinary = match layout.ordinary {
            0 => rounded + values,
            _ => (rounded + values).next_multiple_of(SECTION),
        };
        let ids = ordinary + layout.ordinary as usize;
        let sections = ids.div_ceil(SECTION);
        let frame_sections = rounded / SECTION;
        let shards = [frame_sections, values.div_ceil(SECTION)]
            .map(|b| EvictionQueue::shards(layout.cpus, b));
        // One in eight pages is in an object of its own; more objects share generations.
        let objects = ids.div_ceil(8);
        let pools = usize::from(layout.pools * KINDS);
        let (cpus, by_pool) = (usize::from(layout.cpus), pools.next_multiple_of(8));
        let buckets = PageIndex::buckets(ids);
        let words = [
            RESERVATIONS * ReservationRecord::WORDS,
            OwnersRecord::WORDS,
            by_pool,
            pools * PoolRecord::WORDS,
            (shards[0] + shards[1]) * ShardRecord::WORDS,
            cpus * (GuestRecord::WORDS + by_pool),
            sections * SectionRecord::WORDS,
            buckets * IndexBucket::WORDS,
            ids,
            ids * Descriptor::WORDS,
            objects,
        ];
        Ok(Self {
            frames,
            values,
            ordinary,
            ids,
            cpus,
            pools,
            by_pool,
            shards,
            sections,
            buckets,
            objects,
            words: Carver::words_needed(words.iter().sum()),
        })
    }
}

impl ReserveLayout {
    /// A reserve for one CPU with 16 pools of each kind, and as many pages without a frame as a quarter of its
    /// frames.
    #[must_use]
    pub const fn new(run: Run) -> Self {
        Self {
            run,
            cpus: 1,
            pools: 16,
            values: (run.frames() / 4) as u32,
            ordinary: 0,
        }
    }

    /// The same for `cpus` CPUs.
    #[must_use]
    pub const fn with_cpus(mut self, cpus: u16) -> Self {
        self.cpus = cpus;
        self
    }

    /// The same with room for this many pages in ordinary frames: 88 to 112 bytes of metadata each.
    #[must_use]
    pub const fn with_ordinary(mut self, pages: u32) -> Self {
        self.ordinary = pages;
        self
    }

    /// How many words of metadata it needs: 2.5 to 3.5 % of the frames, because the index is rounded up to
    /// a power of two; 3.1 % of 256 MiB. With more pages without a frame than [`new`](Self::new) has, more.
    ///
    /// # Errors
    /// If the layout is not one a reserve can have.
    pub fn words_needed(&self) -> Result<usize, SetupError> {
        Ok(ReserveShape::new(self)?.words)
    }
}

/// A reserve of contiguous frames. See the [module's description](super) for states, invariants
/// and locks. Shared by reference; what a CPU does for guests it does through its [`Guest`](super::Guest).
#[derive(Debug)]
pub struct Reserve<'m, P> {
    pub(super) platform: P,
    run: Run,
    shape: ReserveShape,
    pub(super) own: &'m OwnersRecord,
    /// Pages that left each pool because owners took their frames.
    pub(super) lost: &'m [AtomicU64],
    pub(super) reservations: Reservations<'m>,
    pub(super) pools: Pools<'m>,
    /// Of frames, and of pages without one.
    pub(super) queues: [EvictionQueue<'m>; 2],
    seats: &'m [GuestRecord],
    /// By seat and pool.
    held: &'m [AtomicU64],
    pub(super) table: FrameTable<'m>,
    pub(super) index: PageIndex<'m>,
}

impl<'m, P: ReservePlatform> Reserve<'m, P> {
    /// A reserve of that layout, all of it free, in `memory`, which has at least as many words as
    /// [`ReserveLayout::words_needed`] says; their values do not matter. Time: O(metadata).
    ///
    /// # Errors
    /// What is wrong with layout or memory, with the number.
    pub fn new(
        layout: &ReserveLayout,
        memory: &'m mut [u64],
        platform: P,
    ) -> Result<Self, SetupError> {
        let shape = ReserveShape::new(layout)?;
        let mut carver = Carver::new(memory, shape.words)?.at_a_line();
        // The serials of the reservations go on.
        let reservations = Reservations::new(carver.records_as_they_are(RESERVATIONS));
        let own = carver.record();
        let lost = carver.words(shape.by_pool);
        let pools = carver.records(shape.pools);
        let queues = shape
            .shards
            .map(|shards| EvictionQueue::new(carver.records(shards)));
        let seats = carver.records(shape.cpus);
        let held = carver.words(shape.cpus * shape.by_pool);
        let sections = carver.records(shape.sections);
        let index = PageIndex::new(carver.records(shape.buckets));
        let states = carver.words(shape.ids);
        let descs = carver.records(shape.ids);
        let pools = Pools::new(pools, carver.words(shape.objects));
        debug_assert!(carver.is_used_up(), "`ReserveShape` counts every part");
        let (frames, ordinary) = (shape.frames, shape.ordinary);
        let reserve = Self {
            platform,
            run: layout.run,
            shape,
            own,
            lost,
            reservations,
            pools,
            queues,
            seats,
            held,
            table: FrameTable::new(states, descs, sections, seats, frames, ordinary),
            index,
        };
        let values = shape.frames.next_multiple_of(SECTION);
        let descriptors = (0..shape.frames).chain(values..values + shape.values);
        for id in descriptors.chain(shape.ordinary..shape.ids) {
            reserve.table.set_free(id);
        }
        for queue in reserve.queues {
            (0..queue.len()).for_each(|shard| queue.tell_free(shard));
        }
        Ok(reserve)
    }

    /// Opens a pool; `None` if there are as many of its kind as there can be.
    ///
    /// The number of a closed pool is used again. This first drops the pages that died with the
    /// last pool of that number, so that none of them counts against the
    /// [bound](PoolConfig::dirty_pages_max) of the new one: O(frames / 64) where the old pool had
    /// dirty pages. Takes the owners' lock: opening a pool is setup, and on no guest's path.
    pub fn open_pool(&self, config: &PoolConfig) -> Option<PoolId> {
        let _owners = self.lock_owners();
        let pool = self.pools.free_number(config.is_swap)?;
        if self.pools.dirty(usize::from(pool.0)) > 0 {
            self.drop_dead(&(0..self.table.frames()));
            self.drop_dead(&self.table.ordinary());
        }
        self.pools.open(pool, config);
        self.count_opened(pool);
        Some(pool)
    }

    /// The owners' lock. Its end also wakes guests that found a gate shut meanwhile.
    pub(super) fn lock_owners(&self) -> Awaited<'_, 'm, P> {
        let lock = Lock::new(&self.own.lock);
        let owners = lock.lock(|attempt| self.platform.relax(attempt));
        Awaited::new(owners, &self.platform)
    }

    /// The same, but gives up if the lock's holder keeps it for longer than `patience` lasts.
    pub(super) fn try_lock_owners(&self, patience: &mut Patience) -> Option<Awaited<'_, 'm, P>> {
        let lock = Lock::new(&self.own.lock);
        let (owners, _) = patience.lock(lock, |attempt| self.platform.relax(attempt))?;
        Some(Awaited::new(owners, &self.platform))
    }
}

impl<'m, P> Reserve<'m, P> {
    /// The frames.
    #[must_use]
    pub const fn run(&self) -> Run {
        self.run
    }

    /// What it asks of the world. A writer to the device reads a page's frame through it.
    #[must_use]
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// Number of descriptors, those of frames rounded up to a section.
    pub(super) const fn ids(&self) -> usize {
        self.shape.ids
    }

    /// The record of a CPU's seat, and what it holds by pool.
    pub(super) fn seat(&self, cpu: CpuId) -> Option<(&'m GuestRecord, &'m [AtomicU64])> {
        let record = self.seats.get(cpu.index())?;
        Some((
            record,
            &self.held[cpu.index() * self.shape.by_pool..][..self.shape.by_pool],
        ))
    }

    /// The record of every seat.
    pub(super) const fn seats(&self) -> &'m [GuestRecord] {
        self.seats
    }

    /// The number of pages that came by each seat less those that went; wraps.
    pub(super) fn held_by_seats(&self, pool: usize) -> impl Iterator<Item = u64> {
        let rows = self.held.chunks_exact(self.shape.by_pool);
        rows.map(move |row| row[pool].load(Relaxed))
    }

    /// Whether there is such a descriptor: the numbers between the kinds have none.
    pub(super) const fn is_descriptor(&self, id: usize) -> bool {
        let ReserveShape { frames, values, .. } = self.shape;
        let first_value = frames.next_multiple_of(SECTION);
        id < frames
            || id >= first_value && id < first_value + values
            || id >= self.shape.ordinary && id < self.shape.ids
    }

    /// The frame of the reserve that a descriptor is for.
    #[inline]
    pub(super) const fn frame(&self, id: usize) -> Frame {
        Frame(self.run.start().0 + id as u64)
    }

    /// The sections of frames, or of pages without one.
    pub(super) fn sections_of(&self, values: bool) -> Range<usize> {
        let frames = self.table.frame_sections();
        if values {
            frames..frames + self.shape.values.div_ceil(SECTION)
        } else {
            0..frames
        }
    }

    /// A descriptor is free: its shard is to be searched again. Descriptors for ordinary frames
    /// have no shard.
    pub(super) fn tell_free(&self, id: usize) {
        if self.table.is_ordinary(id) {
            return;
        }
        let (section, frames) = (id / SECTION, self.table.frame_sections());
        let (which, local) = match section.checked_sub(frames) {
            Some(local) => (1, local),
            None => (0, section),
        };
        let queue = self.queues[which];
        queue.tell_free(local % queue.len());
    }
}
