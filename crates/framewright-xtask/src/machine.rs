//! The machine that figures are taken on: what it is, and what else it does meanwhile.

use crate::kernels::boot;
use serde::{Deserialize, Serialize};
use std::fs;
use std::process::Command;
use std::time::Instant;

/// Above this many CPUs' worth of other work a figure is marked.
pub(crate) const FOREIGN_MAX: f64 = 0.5;

/// A kernel's clock of CPU time ticks so often a second.
pub(crate) const TICKS: f64 = 100.0;

/// The machine, without its name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct MachineWords {
    pub(crate) cpu: String,
    pub(crate) cpus: u64,
    pub(crate) memory_mib: u64,
    pub(crate) os: String,
}

impl MachineWords {
    pub(crate) fn this() -> Self {
        let value = |path: &str, key: &str| {
            let text = read(path);
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory = value("/proc/meminfo", "MemTotal");
        let kib = memory.and_then(|text| text.split(' ').next()?.parse::<u64>().ok());
        let cpus = std::thread::available_parallelism();
        Self {
            cpu: value("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cpus: cpus.map_or(1, |cpus| cpus.get() as u64),
            memory_mib: kib.unwrap_or(0) / 1024,
            os: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        }
    }
}

/// The load average of the last minute.
pub(crate) fn load_average() -> f64 {
    let text = read("/proc/loadavg");
    let first = text.split(' ').next().and_then(|word| word.parse().ok());
    first.unwrap_or(0.0)
}

/// Counters of CPU time, at one moment.
pub(crate) struct ForeignWatch {
    start: Instant,
    cpus: MachineTicks,
    own: f64,
}

/// CPUs that others had between two moments, on average.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct ForeignLoad {
    /// Other processes, and the hypervisor.
    pub(crate) foreign: f64,
    /// The hypervisor alone.
    pub(crate) steal: f64,
}

impl ForeignWatch {
    pub(crate) fn begin() -> Self {
        Self {
            start: Instant::now(),
            cpus: MachineTicks::of(&read("/proc/stat")),
            own: own_ticks(&read("/proc/self/stat")),
        }
    }

    /// What others had since the beginning. Children of this process count as its own once they have been waited for.
    pub(crate) fn end(&self) -> ForeignLoad {
        let now = MachineTicks::of(&read("/proc/stat"));
        let wall = self.start.elapsed().as_secs_f64().max(1.0 / TICKS) * TICKS;
        let own = own_ticks(&read("/proc/self/stat")) - self.own;
        let steal = (now.steal - self.cpus.steal).max(0.0);
        let others = (now.busy - self.cpus.busy - own).max(0.0);
        ForeignLoad {
            foreign: (others + steal) / wall,
            steal: steal / wall,
        }
    }
}

/// Ticks of all CPUs since the machine started.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct MachineTicks {
    busy: f64,
    steal: f64,
}

impl MachineTicks {
    /// Of `/proc/stat`: neither idle nor waiting for I/O.
    fn of(text: &str) -> Self {
        let line = text.lines().next().unwrap_or_default();
        let words = line.split_whitespace().skip(1);
        let ticks: Vec<f64> = words.map(|word| word.parse().unwrap_or(0.0)).collect();
        let [user, nice, system, _idle, _waiting, hard, soft, steal, ..] = ticks[..] else {
            return Self::default();
        };
        let busy = user + nice + system + hard + soft;
        Self { busy, steal }
    }
}

/// Of a process's `/proc/PID/stat`: ticks of it and of the children that it has waited for.
pub(crate) fn own_ticks(text: &str) -> f64 {
    // The name in parentheses may contain spaces. Behind it, words 12 to 15 are the times.
    let behind = text.rsplit_once(')').map_or("", |(_, behind)| behind);
    let times = behind.split_whitespace().skip(11).take(4);
    times.filter_map(|word| word.parse::<f64>().ok()).sum()
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The revision that is measured; `+` if something is changed beside it.
pub(crate) fn commit() -> String {
    let git = |words: &[&str]| {
        let said = Command::new("git")
            .current_dir(boot::root())
            .args(words)
            .output();
        let said = said.map(|said| String::from_utf8_lossy(&said.stdout).trim().to_owned());
        said.unwrap_or_default()
    };
    let changed = git(&["status", "--porcelain", "--", "crates", "kernel"]);
    let mark = if changed.is_empty() { "" } else { "+" };
    git(&["rev-parse", "--short=7", "HEAD"]) + mark
}

/// Today, in UTC.
pub(crate) fn date() -> String {
    let said = Command::new("date").args(["-u", "+%F"]).output();
    said.map_or_else(
        |_| "unknown".to_owned(),
        |said| String::from_utf8_lossy(&said.stdout).trim().to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_read_by_their_place() {
        let text = "cpu  1 20 300 4000 50000 600000 7000000 80000000 5 6\ncpu0 1 1 1 1\n";
        let expected = MachineTicks {
            busy: 7_600_321.0,
            steal: 80_000_000.0,
        };
        assert_eq!(MachineTicks::of(text), expected);
        let stat = "77 (a b) c) S 1 2 3 4 5 6 7 8 9 10 1000 200 30 4 20 0 1";
        assert_eq!(own_ticks(stat), 1234.0);
    }

    #[test]
    fn what_a_child_does_is_not_foreign() {
        let watch = ForeignWatch::begin();
        let mut own = MachineTicks::default().busy;
        while own < 5.0 {
            let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
            let end = Command::new("sh").args(["-c", count]).status();
            assert!(end.unwrap().success());
            own = own_ticks(&read("/proc/self/stat")) - watch.own;
        }
        let end = watch.end();
        let all = MachineTicks::of(&read("/proc/stat")).busy - watch.cpus.busy;
        let wall = watch.start.elapsed().as_secs_f64() * TICKS;
        // Ticks are counted apart for a process and for a CPU.
        assert!(
            end.foreign <= end.steal + (all - own + 2.0).max(0.0) / wall,
            "{end:?}"
        );
    }
}
