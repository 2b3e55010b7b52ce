//! What failed in a replay, and what memory looked like at that moment.

use crate::measure::{MAX_ORDER, Sample};
use crate::trace::RequestCounts;

/// What a request failed for: three different things, told from free memory by order at the moment of the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureCause {
    /// Fewer frames were free than it asked for.
    Exhausted,
    /// As many were free, but to hand them out would have gone below the min watermark; or a block was free and the
    /// machine refused it, which only a watermark of the block's zone does.
    Watermark,
    /// More were free than that, in pieces too small.
    Fragmented,
}

impl FailureCause {
    /// In the order of their places in [`FailureLog::causes`].
    pub const ALL: [Self; 3] = [Self::Exhausted, Self::Watermark, Self::Fragmented];

    /// Why a request of `order` failed while memory looked like `sample`; `min` is the watermark in frames.
    #[must_use]
    pub fn of(order: usize, sample: &Sample, min: u64) -> Self {
        let wanted = 1 << order.min(MAX_ORDER);
        let free = sample.free_frames();
        if free < wanted {
            Self::Exhausted
        } else if free - wanted < min || sample.aligned_free[order.min(MAX_ORDER)] > 0 {
            Self::Watermark
        } else {
            Self::Fragmented
        }
    }
}

/// The first request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstFailure {
    /// Its order.
    pub order: usize,
    /// What it failed for.
    pub cause: FailureCause,
    /// Milliseconds since the trace's start.
    pub ms: u64,
    /// Frames that were free.
    pub free_frames: u64,
    /// The order of the largest free block; `None` where nothing was free.
    pub largest: Option<usize>,
    /// Whether no event showed its flags, so that its moment was inferred.
    pub is_inferred: bool,
}

/// The requests that failed in a replay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureLog {
    /// How many, by what their flags say.
    pub counts: RequestCounts,
    /// How many, by order and by what they failed for, in the order of [`FailureCause::ALL`].
    pub causes: [[u64; 3]; MAX_ORDER + 1],
    /// The first one that an event showed; where none did, the first.
    pub first: Option<FirstFailure>,
    /// When the last one failed.
    pub last_ms: u64,
}

impl FailureLog {
    /// Notes a failure: `flags` where an event showed them, memory as it was, and what for.
    pub(crate) fn note(
        &mut self,
        order: usize,
        flags: Option<u32>,
        sample: &Sample,
        cause: FailureCause,
    ) {
        self.counts.note(order, flags);
        if let Some(causes) = self.causes.get_mut(order) {
            causes[cause as usize] += 1;
        }
        let is_inferred = flags.is_none();
        if self
            .first
            .is_none_or(|first| first.is_inferred && !is_inferred)
        {
            self.first = Some(FirstFailure {
                order,
                cause,
                ms: sample.ms,
                free_frames: sample.free_frames(),
                largest: sample.aligned_free.iter().rposition(|&blocks| blocks > 0),
                is_inferred,
            });
        }
        self.last_ms = sample.ms;
    }

    /// These and `others`, of the same replay.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        let mut all = Self {
            counts: self.counts.and(&others.counts),
            last_ms: self.last_ms.max(others.last_ms),
            ..self.clone()
        };
        for (causes, more) in all.causes.iter_mut().zip(others.causes) {
            for (count, more) in causes.iter_mut().zip(more) {
                *count += more;
            }
        }
        // Of two at one moment it is the first of these.
        let firsts = self.first.into_iter().chain(others.first);
        all.first = firsts.min_by_key(|first| (first.is_inferred, first.ms));
        all
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.all.iter().sum()
    }

    /// How many failed for that.
    #[must_use]
    pub fn of_cause(&self, cause: FailureCause) -> u64 {
        self.causes
            .iter()
            .map(|causes| causes[cause as usize])
            .sum()
    }
}

/// The min watermark of a machine with that many frames which sets none: Linux takes `4 * sqrt(KiB)` KiB, at least 128
/// and at most 262,144 KiB (`vm.min_free_kbytes`).
#[must_use]
pub fn default_watermark(frames: u64) -> u64 {
    let kib = frames.saturating_mul(4);
    let min = kib.saturating_mul(16).isqrt();
    min.clamp(128, 262_144) / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Free blocks by order, none of them part of a larger one.
    fn sample(blocks: &[(usize, u64)]) -> Sample {
        let mut sample = Sample {
            ms: 7,
            ..Sample::default()
        };
        for &(order, count) in blocks {
            for below in 0..=order {
                sample.aligned_free[below] += count << (order - below);
            }
        }
        sample
    }

    #[test]
    fn exhausted_below_the_watermark_and_fragmented_are_three_things() {
        use FailureCause::{Exhausted, Fragmented, Watermark};
        let cases = [
            (3, vec![], Exhausted),
            (3, vec![(0, 7)], Exhausted),
            (0, vec![], Exhausted),
            (3, vec![(0, 8)], Watermark),
            (3, vec![(0, 107)], Watermark),
            (3, vec![(0, 108)], Fragmented),
            (3, vec![(2, 27)], Fragmented),
            (3, vec![(3, 50)], Watermark),
            (0, vec![(0, 100)], Watermark),
            (10, vec![(9, 4)], Fragmented),
        ];
        for (order, blocks, cause) in cases {
            assert_eq!(
                FailureCause::of(order, &sample(&blocks), 100),
                cause,
                "{order} {blocks:?}"
            );
        }
        for (place, cause) in FailureCause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, place);
        }
    }

    #[test]
    fn the_first_failure_stands_with_what_was_free_then() {
        let mut log = FailureLog::default();
        let mut note = |order, flags, sample: Sample| {
            let cause = FailureCause::of(order, &sample, 10);
            log.note(order, flags, &sample, cause);
            log.first.unwrap().is_inferred
        };
        assert!(note(9, None, sample(&[(8, 1)])));
        assert!(!note(3, Some(0x820), sample(&[(2, 50), (0, 1)])));
        note(1, None, sample(&[]));
        let first = log.first.unwrap();
        assert_eq!(
            (first.order, first.ms, first.free_frames, first.largest),
            (3, 7, 201, Some(2))
        );
        assert_eq!(first.cause, FailureCause::Fragmented);
        assert_eq!((log.total(), log.of_cause(FailureCause::Exhausted)), (3, 2));
        assert_eq!((log.counts.reported[3], log.counts.unseen[1]), (1, 1));
    }

    #[test]
    fn a_machine_that_sets_no_watermark_has_linux_s() {
        // 4 GiB: 4 * sqrt(4194304) = 8192 KiB.
        assert_eq!(default_watermark(1 << 20), 2048);
        assert_eq!(default_watermark(1), 32);
        assert_eq!(default_watermark(u64::MAX), 65_536);
    }
}
