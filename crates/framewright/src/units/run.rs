//! Runs: frames in sequence, of any length and alignment.

use super::Frame;
use core::fmt;

/// A half-open sequence of frames, of any length and alignment.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Run {
    start: Frame,
    frames: u64,
}

impl Run {
    /// The run of `frames` frames from `start`, or `None` if its end is past the number range.
    #[must_use]
    pub const fn new(start: Frame, frames: u64) -> Option<Self> {
        match start.checked_add(frames) {
            Some(_) => Some(Self { start, frames }),
            None => None,
        }
    }

    /// The first frame.
    #[must_use]
    pub const fn start(self) -> Frame {
        self.start
    }

    /// The frame after the last one.
    #[must_use]
    pub const fn end(self) -> Frame {
        Frame(self.start.0 + self.frames)
    }

    /// The length in frames.
    #[must_use]
    pub const fn frames(self) -> u64 {
        self.frames
    }

    /// The run's first `frames` frames and the others, or `None` if it has fewer.
    #[must_use]
    pub const fn split_at(self, frames: u64) -> Option<(Self, Self)> {
        match self.frames.checked_sub(frames) {
            Some(others) => Some((self.part(0, frames), self.part(frames, others))),
            None => None,
        }
    }

    /// `frames` frames of the run, from its `from`th on.
    ///
    /// # Panics
    /// If the run has fewer.
    #[inline]
    pub(crate) const fn part(self, from: u64, frames: u64) -> Self {
        assert!(from <= self.frames && frames <= self.frames - from);
        Self {
            start: Frame(self.start.0 + from),
            frames,
        }
    }

    /// Whether the run has no frame.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.frames == 0
    }

    /// Whether `frame` lies in the run.
    #[must_use]
    pub const fn contains(self, frame: Frame) -> bool {
        frame.0 >= self.start.0 && frame.0 < self.end().0
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Run({}..{})", self.start, self.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_past_the_number_range_is_none() {
        assert!(Run::new(Frame(u64::MAX), 1).is_none());
        let run = Run::new(Frame(4), 3).unwrap();
        assert!(run.contains(Frame(6)) && !run.contains(Frame(7)) && !run.is_empty());
    }
    #[test]
    fn a_run_is_split_into_what_it_has() {
        let run = Run::new(Frame(4), 3).unwrap();
        let of = |start, frames| Run::new(Frame(start), frames).unwrap();
        assert_eq!(run.split_at(0), Some((of(4, 0), run)));
        assert_eq!(run.split_at(2), Some((of(4, 2), of(6, 1))));
        assert_eq!(run.split_at(3), Some((run, of(7, 0))));
        assert_eq!(run.split_at(4), None);
    }
}
