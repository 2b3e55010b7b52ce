//! When a picture of memory is taken. A film is bounded by its number of pictures, so they are spread over the
//! trace before it begins.

use crate::measure::{BLOCK_FRAMES, Film, Observer, Picture};
use crate::replay::TraceMemory;

/// The pictures of a replay under way.
#[derive(Debug)]
pub(crate) struct Camera {
    film: Film,
    every_ms: u64,
    next_ms: u64,
}

impl Camera {
    /// For at most this many pictures of a trace, if there are to be any.
    pub(crate) fn new(pictures: u32, memory: &TraceMemory<'_>) -> Option<Self> {
        // One at the start and one at the end, whatever the time between two of them.
        let between = u64::from(pictures).checked_sub(1)?.saturating_sub(1).max(1);
        let blocks = memory.trace.nframes.div_ceil(BLOCK_FRAMES);
        Some(Self {
            film: Film::new(blocks),
            every_ms: memory.ms.div_ceil(between).max(1),
            next_ms: 0,
        })
    }

    /// Takes one if it is time.
    pub(crate) fn look(&mut self, now_ms: u64, observer: &mut Observer) {
        if now_ms >= self.next_ms {
            self.take(now_ms, observer);
            self.next_ms = now_ms + self.every_ms;
        }
    }

    fn take(&mut self, now_ms: u64, observer: &mut Observer) {
        self.film.pictures.push(Picture {
            sample: observer.sample(now_ms),
            cells: observer.cells(self.film.blocks_per_cell),
        });
    }

    /// The film, the end in it.
    pub(crate) fn developed(mut self, now_ms: u64, observer: &mut Observer) -> Film {
        // What followed the last tick has happened at the same time as that.
        if self
            .film
            .pictures
            .last()
            .is_some_and(|last| last.sample.ms == now_ms)
        {
            self.film.pictures.pop();
        }
        self.take(now_ms, observer);
        self.film
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Trace, TraceOp};

    fn taken(pictures: u32, ticks: &[u32]) -> Option<Vec<u64>> {
        let trace = Trace {
            nframes: 1024,
            ops: ticks.iter().map(|&ms| TraceOp::tick(ms)).collect(),
            ..Trace::default()
        };
        let memory = TraceMemory::new(&trace).unwrap();
        let mut observer = Observer::new(1024, &[]);
        let mut camera = Camera::new(pictures, &memory)?;
        let mut now = 0;
        camera.look(now, &mut observer);
        for &ms in ticks {
            now += u64::from(ms);
            camera.look(now, &mut observer);
        }
        let film = camera.developed(now, &mut observer);
        Some(
            film.pictures
                .iter()
                .map(|picture| picture.sample.ms)
                .collect(),
        )
    }

    #[test]
    fn pictures_are_spread_over_the_trace_and_no_more_than_asked_for() {
        assert_eq!(taken(0, &[1, 1]), None);
        let ticks = [1; 1000];
        for most in [1, 2, 3, 5, 120, 5000] {
            let ms = taken(most, &ticks).unwrap();
            assert!(ms.len() <= (most as usize).max(2), "{most}: {}", ms.len());
            assert!(ms.is_sorted_by(|a, b| a < b), "{ms:?}");
            assert_eq!((ms[0], ms.last()), (0, Some(&1000)), "{most}");
            assert!(
                ms.len() * 2 > most.min(1000) as usize,
                "{most}: {}",
                ms.len()
            );
        }
        // Without time there is one moment.
        assert_eq!(taken(10, &[]), Some(vec![0]));
        assert_eq!(taken(3, &[1, 10_000]), Some(vec![0, 10_001]));
    }
}
