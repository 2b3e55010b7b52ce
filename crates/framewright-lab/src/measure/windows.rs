//! Equal windows of a recording's time, and what a figure came to in each of them.

/// Equal windows from a recording's beginning on. What is left behind the last whole one is in none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWindows {
    len_ms: u64,
    count: usize,
}

impl TimeWindows {
    /// The windows of `len_ms` milliseconds, at least one, in a recording of `ms` milliseconds.
    #[must_use]
    pub fn of(ms: u64, len_ms: u64) -> Self {
        let len_ms = len_ms.max(1);
        Self {
            len_ms,
            count: (ms / len_ms) as usize,
        }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Milliseconds of each.
    #[must_use]
    pub const fn len_ms(&self) -> u64 {
        self.len_ms
    }

    /// The window of that moment.
    #[must_use]
    pub fn at(&self, ms: u64) -> Option<usize> {
        let window = (ms / self.len_ms) as usize;
        (window < self.count).then_some(window)
    }

    /// What was counted in a window, as a rate: this many a second.
    #[must_use]
    pub fn rate(&self, counted: f64) -> f64 {
        counted * 1000.0 / self.len_ms as f64
    }

    /// The rate in each window of what is counted from 0 on: `(ms, so far)`, ascending. At a window's end the last
    /// point up to there counts.
    #[must_use]
    pub fn rates(&self, so_far: &[(u64, f64)]) -> Vec<f64> {
        let mut points = so_far.iter().peekable();
        let (mut before, mut now) = (0.0, 0.0);
        let window = |nth: usize| {
            let end = (nth as u64 + 1) * self.len_ms;
            while let Some(&(_, count)) = points.next_if(|(ms, _)| *ms <= end) {
                now = count;
            }
            let counted = now - before;
            before = now;
            self.rate(counted)
        };
        (0..self.count).map(window).collect()
    }

    /// The mean over time of a state in each window: `(ms, state)`, ascending. A state lasts until the next point, and the
    /// first one was there from the beginning. Without a point there is no mean.
    #[must_use]
    pub fn means(&self, states: &[(u64, f64)]) -> Vec<f64> {
        let Some(&(_, mut state)) = states.first() else {
            return Vec::new();
        };
        let mut points = states.iter().peekable();
        let window = |nth: usize| {
            let (mut from, end) = (nth as u64 * self.len_ms, (nth as u64 + 1) * self.len_ms);
            let mut sum = 0.0;
            while let Some(&(ms, next)) = points.next_if(|(ms, _)| *ms < end) {
                sum += state * ms.saturating_sub(from) as f64;
                from = from.max(ms);
                state = next;
            }
            (sum + state * (end - from) as f64) / self.len_ms as f64
        };
        (0..self.count).map(window).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_was_counted_in_a_window_by_its_seconds() {
        let windows = TimeWindows::of(4999, 1000);
        assert_eq!(windows.count(), 4);
        let rates = windows.rates(&[
            (500, 1.0),
            (1000, 4.0),
            (1001, 5.0),
            (3500, 9.0),
            (4500, 50.0),
        ]);
        assert_eq!(rates, [4.0, 1.0, 0.0, 4.0]);
        assert_eq!(
            TimeWindows::of(4000, 2000).rates(&[(2000, 6.0)]),
            [3.0, 0.0]
        );
        assert_eq!((windows.at(3999), windows.at(4000)), (Some(3), None));
        assert_eq!(windows.rates(&[]), [0.0; 4]);
    }

    #[test]
    fn a_mean_weighs_each_state_by_the_time_that_it_lasts() {
        let windows = TimeWindows::of(3000, 1000);
        let states = [
            (250, 4.0),
            (500, 8.0),
            (1000, 2.0),
            (2900, 12.0),
            (3000, 99.0),
        ];
        assert_eq!(windows.means(&states), [4.0 * 0.5 + 8.0 * 0.5, 2.0, 3.0]);
        assert_eq!(windows.means(&[]), [0.0; 0]);
        assert_eq!(windows.means(&[(9000, 7.0)]), [7.0; 3]);
    }
}
