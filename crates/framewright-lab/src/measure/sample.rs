//! What memory looked like at one moment, means over such samples, and the metrics that they are.

use super::replay as m;
use super::{BLOCK_FRAMES, MAX_ORDER, Metric, REGION_BLOCKS};
use framewright::Mobility;

/// What memory looked like at one moment of a trace.
///
/// The formulas stand here as code, and in the table [`replay`](super::replay) in words; `docs/metrics.md` is
/// made from that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// Milliseconds since the trace's start.
    pub ms: u64,
    /// `S_k` for each order k: aligned free blocks of 2^k frames, those inside larger ones
    /// included (two of order k for each of order k + 1).
    pub aligned_free: [u64; MAX_ORDER + 1],
    /// 2 MiB blocks with at least one unmovable or reclaimable frame.
    pub contaminated_blocks: u64,
    /// Contaminated blocks that also hold a movable frame.
    pub mixed_blocks: u64,
    /// Movable frames in mixed blocks.
    pub movable_frames_in_mixed: u64,
    /// Aligned runs of [`REGION_BLOCKS`] 2 MiB blocks with at least one contaminated block.
    pub tainted_regions: u64,
    /// Unmovable and reclaimable frames in use.
    pub nonmovable_frames: u64,
}

impl Sample {
    /// `F`: frames that no allocation holds, those in a policy's per-CPU caches included.
    #[must_use]
    pub const fn free_frames(&self) -> u64 {
        self.aligned_free[0]
    }

    /// `S_9`: wholly free 2 MiB blocks.
    #[must_use]
    pub const fn free_2m_blocks(&self) -> u64 {
        self.aligned_free[9]
    }

    /// `free_k = S_k - 2 S_(k+1)`: free blocks of order k that are part of no larger one, as a
    /// buddy system that has merged everything would list them; at the largest order, `S_k`.
    #[must_use]
    pub const fn free_blocks(&self, order: usize) -> u64 {
        if order < MAX_ORDER {
            self.aligned_free[order] - 2 * self.aligned_free[order + 1]
        } else {
            self.aligned_free[order]
        }
    }

    /// `U_k = (F - S_k 2^k) / F`: the share of the free frames that no block of order k can use.
    ///
    /// 0 is good, 1 is bad, and 1 too when nothing is free, as Linux has it
    /// (`unusable_free_index`).
    #[must_use]
    pub fn unusable_index(&self, order: usize) -> f64 {
        let free = self.free_frames();
        if free == 0 {
            return 1.0;
        }
        (free - (self.aligned_free[order] << order)) as f64 / free as f64
    }

    /// `1 - (1 + F / 2^k) / sum of free_j`: why a request of order k fails, towards 0 for lack
    /// of memory and towards 1 for fragmentation (`fragmentation_index`).
    ///
    /// `None` while a block of the order is free, and when nothing at all is.
    #[must_use]
    pub fn fragmentation_index(&self, order: usize) -> Option<f64> {
        if self.aligned_free[order] > 0 || self.free_frames() == 0 {
            return None;
        }
        let pieces: u64 = (0..=MAX_ORDER).map(|k| self.free_blocks(k)).sum();
        let wanted = (1u64 << order) as f64;
        Some(1.0 - (1.0 + self.free_frames() as f64 / wanted) / pieces as f64)
    }

    /// The fewest 2 MiB blocks that the non-movable frames fit in: `ceil(non-movable / 512)`.
    #[must_use]
    pub const fn contaminated_blocks_floor(&self) -> u64 {
        self.nonmovable_frames.div_ceil(BLOCK_FRAMES)
    }

    /// The fewest regions that the non-movable frames fit in: `ceil(non-movable / 32768)`.
    #[must_use]
    pub const fn tainted_regions_floor(&self) -> u64 {
        self.nonmovable_frames
            .div_ceil(BLOCK_FRAMES * REGION_BLOCKS as u64)
    }
}

/// Sums over a run's samples, and from them the means.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Means {
    samples: u64,
    aligned_free: [u64; MAX_ORDER + 1],
    unusable: [f64; MAX_ORDER + 1],
    fragmentation: [(f64, u64); MAX_ORDER + 1],
    contaminated: u64,
    floor: u64,
    mixed: u64,
    movable_in_mixed: u64,
    tainted_regions: u64,
    tainted_regions_floor: u64,
}

impl Means {
    /// Takes one more sample in.
    pub fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        self.contaminated += sample.contaminated_blocks;
        self.floor += sample.contaminated_blocks_floor();
        self.mixed += sample.mixed_blocks;
        self.tainted_regions += sample.tainted_regions;
        self.tainted_regions_floor += sample.tainted_regions_floor();
        self.movable_in_mixed += sample.movable_frames_in_mixed;
        for k in 0..=MAX_ORDER {
            self.aligned_free[k] += sample.aligned_free[k];
            self.unusable[k] += sample.unusable_index(k);
            if let Some(index) = sample.fragmentation_index(k) {
                self.fragmentation[k].0 += index;
                self.fragmentation[k].1 += 1;
            }
        }
    }

    /// How many samples there are.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Contaminated blocks, mixed blocks and movable frames in these, added up over all samples.
    #[must_use]
    pub const fn block_sums(&self) -> [u64; 3] {
        [self.contaminated, self.mixed, self.movable_in_mixed]
    }

    /// Every mean that there is, and the number of samples.
    #[must_use]
    pub fn values(&self) -> Vec<(Metric, f64)> {
        let mut values = vec![(m::SAMPLES, self.samples as f64)];
        if self.samples == 0 {
            return values;
        }
        values.extend([
            (m::FREE_FRAMES, self.free_frames()),
            (m::FREE_2M_BLOCKS, self.free_2m_blocks()),
            (m::CONTAMINATED_BLOCKS, self.contaminated_blocks()),
            (
                m::CONTAMINATED_BLOCKS_FLOOR,
                self.contaminated_blocks_floor(),
            ),
            (m::MIXED_BLOCKS, self.mixed_blocks()),
            (m::MOVABLE_FRAMES_IN_MIXED, self.movable_frames_in_mixed()),
            (m::TAINTED_REGIONS, self.mean(self.tainted_regions as f64)),
            (
                m::TAINTED_REGIONS_FLOOR,
                self.mean(self.tainted_regions_floor as f64),
            ),
        ]);
        for order in 0..=MAX_ORDER {
            values.push((m::FREE_BLOCKS.of(order), self.free_blocks(order)));
            if order > 0 {
                values.push((m::UNUSABLE_INDEX.of(order), self.unusable_index(order)));
                let index = self.fragmentation_index(order);
                values.extend(index.map(|(index, _)| (m::FRAGMENTATION_INDEX.of(order), index)));
            }
        }
        values
    }

    fn mean(&self, sum: f64) -> f64 {
        if self.samples == 0 {
            0.0
        } else {
            sum / self.samples as f64
        }
    }

    /// Mean of [`Sample::free_frames`].
    #[must_use]
    pub fn free_frames(&self) -> f64 {
        self.mean(self.aligned_free[0] as f64)
    }

    /// Mean of [`Sample::free_2m_blocks`].
    #[must_use]
    pub fn free_2m_blocks(&self) -> f64 {
        self.mean(self.aligned_free[9] as f64)
    }

    /// Mean of [`Sample::free_blocks`].
    #[must_use]
    pub fn free_blocks(&self, order: usize) -> f64 {
        let above = self.aligned_free.get(order + 1).map_or(0, |n| 2 * n);
        self.mean((self.aligned_free[order] - above) as f64)
    }

    /// Mean of [`Sample::unusable_index`].
    #[must_use]
    pub fn unusable_index(&self, order: usize) -> f64 {
        self.mean(self.unusable[order])
    }

    /// Mean of [`Sample::fragmentation_index`] over the samples that have one, and their number.
    #[must_use]
    pub fn fragmentation_index(&self, order: usize) -> Option<(f64, u64)> {
        let (sum, n) = self.fragmentation[order];
        (n > 0).then(|| (sum / n as f64, n))
    }

    /// Mean of [`Sample::contaminated_blocks`].
    #[must_use]
    pub fn contaminated_blocks(&self) -> f64 {
        self.mean(self.contaminated as f64)
    }

    /// Mean of [`Sample::contaminated_blocks_floor`].
    #[must_use]
    pub fn contaminated_blocks_floor(&self) -> f64 {
        self.mean(self.floor as f64)
    }

    /// Mean of [`Sample::mixed_blocks`].
    #[must_use]
    pub fn mixed_blocks(&self) -> f64 {
        self.mean(self.mixed as f64)
    }

    /// Mean of [`Sample::movable_frames_in_mixed`].
    #[must_use]
    pub fn movable_frames_in_mixed(&self) -> f64 {
        self.mean(self.movable_in_mixed as f64)
    }
}

/// Sums over what a policy says of its own lists at each sample, and from them the means.
///
/// A reader sees them; no policy is compared by them, because each counts in its own way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListMeans {
    samples: u64,
    pageblocks: [u64; 3],
    free_blocks: [[u64; MAX_ORDER + 1]; 3],
}

impl ListMeans {
    /// Takes in the pageblocks by label, and the free blocks by label and order.
    pub fn add(&mut self, pageblocks: [u64; 3], free_blocks: [[u64; MAX_ORDER + 1]; 3]) {
        self.samples += 1;
        for label in 0..3 {
            self.pageblocks[label] += pageblocks[label];
            for (sum, n) in self.free_blocks[label].iter_mut().zip(free_blocks[label]) {
                *sum += n;
            }
        }
    }

    /// Mean number of pageblocks with this label.
    #[must_use]
    pub fn pageblocks(&self, label: Mobility) -> f64 {
        self.pageblocks[label.index()] as f64 / self.samples.max(1) as f64
    }

    /// Mean number of free blocks of the order on the lists of this label.
    #[must_use]
    pub fn free_blocks(&self, label: Mobility, order: usize) -> f64 {
        self.free_blocks[label.index()][order] as f64 / self.samples.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Observer;
    use framewright::{Frame, Order};

    /// 1024 frames. In use: frame 0 unmovable; 1 movable; 512..516 reclaimable. Free in the
    /// first block: 2..512 = orders 1, 2, .., 8 once each (510 frames); in the second:
    /// 516..1024 = orders 2, 3, .., 8 once each (508 frames).
    fn tiny() -> Observer {
        let order = |k| Order::new(k).unwrap();
        let mut observer = Observer::new(1024, &[]);
        observer
            .take(Frame(0), order(0), Mobility::Unmovable)
            .unwrap();
        observer
            .take(Frame(1), order(0), Mobility::Movable)
            .unwrap();
        observer
            .take(Frame(512), order(2), Mobility::Reclaimable)
            .unwrap();
        observer
    }

    #[test]
    fn the_formulas_give_what_a_hand_computes() {
        let sample = tiny().sample(5);
        assert_eq!(sample.ms, 5);
        assert_eq!(sample.free_frames(), 510 + 508);
        assert_eq!(sample.free_2m_blocks(), 0);
        let free: Vec<u64> = (0..=MAX_ORDER).map(|k| sample.free_blocks(k)).collect();
        assert_eq!(free, [0, 1, 2, 2, 2, 2, 2, 2, 2, 0, 0]);
        // S_3 = 2 (1 + 2 + 4 + 8 + 16 + 32) = 126 blocks of 8 = 1008 of 1018 frames.
        assert_eq!(sample.aligned_free[3], 126);
        assert!((sample.unusable_index(3) - 10.0 / 1018.0).abs() < 1e-12);
        assert!((sample.unusable_index(9) - 1.0).abs() < 1e-12);
        // 15 pieces: 1 - (1 + 1018 / 512) / 15.
        let index = sample.fragmentation_index(9).unwrap();
        assert!((index - (1.0 - (1.0 + 1018.0 / 512.0) / 15.0)).abs() < 1e-12);
        assert_eq!(sample.fragmentation_index(8), None);
        assert_eq!(
            (
                sample.contaminated_blocks,
                sample.mixed_blocks,
                sample.movable_frames_in_mixed
            ),
            (2, 1, 1)
        );
        assert_eq!(sample.contaminated_blocks_floor(), 1);
        assert_eq!(
            (sample.tainted_regions, sample.tainted_regions_floor()),
            (1, 1)
        );
    }

    #[test]
    fn nothing_free_is_wholly_unusable_and_has_no_fragmentation_index() {
        let mut observer = Observer::new(1024, &[]);
        observer
            .take(Frame(0), Order::new(10).unwrap(), Mobility::Movable)
            .unwrap();
        let sample = observer.sample(0);
        assert!((sample.unusable_index(0) - 1.0).abs() < 1e-12);
        assert_eq!(sample.fragmentation_index(3), None);
    }

    #[test]
    fn means_are_taken_over_the_samples_that_have_a_value() {
        let mut observer = tiny();
        let mut means = Means::default();
        assert!(means.free_frames().abs() < 1e-12, "no sample, no figure");
        means.add(&observer.sample(0));
        let index = observer.sample(0).fragmentation_index(9).unwrap();
        observer
            .give(Frame(512), Order::new(2).unwrap(), Mobility::Reclaimable)
            .unwrap();
        means.add(&observer.sample(1));
        assert_eq!(means.samples(), 2);
        assert!((means.free_frames() - (1018.0 + 1022.0) / 2.0).abs() < 1e-9);
        assert!((means.free_2m_blocks() - 0.5).abs() < 1e-12);
        assert!((means.free_blocks(9) - 0.5).abs() < 1e-12);
        assert!((means.free_blocks(2) - (2.0 + 1.0) / 2.0).abs() < 1e-12);
        assert!((means.contaminated_blocks() - 1.5).abs() < 1e-12);
        assert_eq!(means.fragmentation_index(9), Some((index, 1)));
    }
}
