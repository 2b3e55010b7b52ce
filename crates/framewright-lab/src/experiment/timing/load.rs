//! What else the machine did while something was measured.

use std::time::{Duration, Instant};

/// Above this many CPUs' worth of other work a figure is marked.
pub(in crate::experiment) const FOREIGN_MAX: f64 = 0.5;

/// A kernel's clock of CPU time ticks a hundred times a second.
const TICK: Duration = Duration::from_millis(10);

/// The counters at the beginning.
#[derive(Debug)]
pub(in crate::experiment) struct LoadWatch {
    start: Instant,
    cpus: Option<CpuTicks>,
    own: Duration,
}

/// What there was between beginning and end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::experiment) struct Load {
    /// The load average of the last minute, this process included.
    pub(in crate::experiment) average: f64,
    /// CPUs that others had, on average: other processes, and the hypervisor (`stolen`).
    pub(in crate::experiment) foreign: f64,
    /// CPUs that the hypervisor gave to others.
    pub(in crate::experiment) stolen: f64,
}

impl LoadWatch {
    pub(in crate::experiment) fn begin() -> Self {
        Self {
            start: Instant::now(),
            cpus: CpuTicks::now(),
            own: own_time(),
        }
    }

    /// What there was since the beginning, less the time of this process and `also_own`; `None` where the system does
    /// not say.
    pub(in crate::experiment) fn end(&self, also_own: Duration) -> Option<Load> {
        let (then, now) = (self.cpus?, CpuTicks::now()?);
        let text = std::fs::read_to_string("/proc/loadavg").ok()?;
        let average = text.split_whitespace().next()?.parse().ok()?;
        let wall = self.start.elapsed().max(TICK).as_secs_f64();
        let own = (own_time().saturating_sub(self.own) + also_own).as_secs_f64();
        let seconds = |ticks: u64| TICK.as_secs_f64() * ticks as f64;
        let stolen = seconds(now.stolen.saturating_sub(then.stolen));
        let busy = seconds(now.busy.saturating_sub(then.busy));
        Some(Load {
            average,
            foreign: ((busy - own).max(0.0) + stolen) / wall,
            stolen: stolen / wall,
        })
    }
}

/// The time that this process has had CPUs.
fn own_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(time.tv_sec.unsigned_abs(), nanoseconds)
}

/// Ticks of all CPUs since the machine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CpuTicks {
    busy: u64,
    stolen: u64,
}

impl CpuTicks {
    fn now() -> Option<Self> {
        Self::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// User, nice, system, interrupts; not idle and not waiting for I/O. A guest's are the user's already.
    fn of(text: &str) -> Option<Self> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .map(|word| word.parse().unwrap_or(0))
            .collect();
        let [user, nice, system, _idle, _waiting, hard, soft, stolen, ..] = ticks[..] else {
            return None;
        };
        Some(Self {
            busy: user + nice + system + hard + soft,
            stolen,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_ticks_are_neither_idle_nor_stolen() {
        let text = "cpu  1 20 300 4000 50000 600000 7000000 80000000 5 6\ncpu0 1 1 1 1\n";
        let ticks = CpuTicks::of(text).unwrap();
        assert_eq!((ticks.busy, ticks.stolen), (7_600_321, 80_000_000));
        assert_eq!(CpuTicks::of("cpu  1 2 3\n"), None);
    }

    #[test]
    fn what_this_process_does_is_not_foreign() {
        let watch = LoadWatch::begin();
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {
            std::hint::spin_loop();
        }
        let with_own = watch.end(Duration::ZERO).unwrap();
        let without = watch.end(Duration::from_secs(1000)).unwrap();
        assert!(without.foreign <= with_own.foreign && without.foreign >= with_own.stolen * 0.5);
        assert!(with_own.average >= 0.0 && with_own.stolen >= 0.0);
    }
}
