//! The files of `/proc` before and after a recording. A flight recorder learns late where its recording begins, so
//! it keeps a bounded log of moments and chooses from it in the end.

use super::settings::settings;
use crate::record::RecordError;
use crate::trace::state::read_zoneinfo;
use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// What is kept with a recording, before and after: files of `/proc`, and [`SETTINGS`].
pub(crate) const STATE: [&str; 6] = [
    "pagetypeinfo",
    "buddyinfo",
    "zoneinfo",
    "vmstat",
    "meminfo",
    SETTINGS,
];
/// How the kernel is set, from several files.
const SETTINGS: &str = "settings";

/// How often a flight recorder reads them: it learns only later where its recording begins.
const EVERY: Duration = Duration::from_secs(10);
/// Of this many moments it keeps every second one, so that memory is bounded: 40 KiB each. It reads them at 1/256 of the
/// time that the buffers hold where that is longer.
const MOMENTS_MAX: usize = 512;

/// Files of `/proc` at one moment, by name.
pub(crate) type ProcFiles = Vec<(&'static str, Vec<u8>)>;

/// What this kernel has of [`STATE`].
pub(crate) fn state() -> Result<ProcFiles, RecordError> {
    let mut files = Vec::new();
    for name in STATE {
        if name == SETTINGS {
            files.push((name, settings("/proc/cmdline".as_ref())));
            continue;
        }
        let path = Path::new("/proc").join(name);
        match fs::read(&path) {
            Ok(bytes) => files.push((name, bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(RecordError::file(&path, &error)),
        }
    }
    Ok(files)
}

/// How many frames came to free lists and CPUs' lists or left them between two states, as far as the kernel says: what came and
/// left again is not seen.
pub(crate) fn frames_moved(before: &ProcFiles, after: &ProcFiles) -> u64 {
    let zones = |files: &ProcFiles| {
        let zoneinfo = files.iter().find(|(name, _)| *name == "zoneinfo");
        let text = zoneinfo.map(|(_, bytes)| String::from_utf8_lossy(bytes));
        read_zoneinfo("zoneinfo", &text.unwrap_or_default()).unwrap_or_default()
    };
    let all = zones(before).into_iter().zip(zones(after));
    all.fold(0, |sum: u64, (before, after)| {
        let cpus = before.cpus.iter().zip(&after.cpus);
        let cached = cpus.map(|(before, after)| before.count.abs_diff(after.count));
        let cached = cached.fold(0, u64::saturating_add);
        let listed = before.free.abs_diff(after.free);
        sum.saturating_add(listed).saturating_add(cached)
    })
}

/// How often the frames are looked at, until memory is at rest.
pub(crate) const LOOKS_MAX: u32 = 5;
/// Memory counts as at rest where no more frames than these, 16 MiB, change hands meanwhile.
pub(crate) const AT_REST_FRAMES: u64 = 4096;

/// Looks until memory was at rest meanwhile, or [`LOOKS_MAX`] times; `look` says what the state is then. Returns the last state,
/// and how many frames the last look was off by.
pub(crate) fn until_at_rest(
    mut now: ProcFiles,
    mut look: impl FnMut() -> Result<ProcFiles, RecordError>,
) -> Result<(ProcFiles, u64), RecordError> {
    let mut moved = 0;
    for _ in 0..LOOKS_MAX {
        let before = std::mem::replace(&mut now, look()?);
        moved = frames_moved(&before, &now);
        if moved <= AT_REST_FRAMES {
            break;
        }
    }
    Ok((now, moved))
}

/// States from which the one at the beginning of a recording is chosen, by nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub(crate) struct StateLog<S = ProcFiles> {
    moments: VecDeque<(u64, S)>,
    every_ns: u64,
}

impl<S> StateLog<S> {
    pub(crate) fn new(now_ns: u64, state: S) -> Self {
        Self {
            moments: VecDeque::from([(now_ns, state)]),
            every_ns: EVERY.as_nanos() as u64,
        }
    }

    /// Whether the newest state is old enough for another one.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let newest = self.moments.back().map_or(0, |&(at, _)| at);
        now_ns.saturating_sub(newest) >= self.every_ns
    }

    /// Adds a state. What is older than the newest one before `whole_from_ns`, where the buffers begin now, can no
    /// longer be chosen and goes.
    pub(crate) fn add(&mut self, now_ns: u64, state: S, whole_from_ns: Option<u64>) {
        let begin = whole_from_ns.unwrap_or(0);
        while self.moments.get(1).is_some_and(|&(at, _)| at <= begin) {
            self.moments.pop_front();
        }
        self.moments.push_back((now_ns, state));
        if self.moments.len() > MOMENTS_MAX {
            let mut keep = false;
            self.moments.retain(|_| {
                keep = !keep;
                keep
            });
        }
        let oldest = self.moments.front().map_or(now_ns, |&(at, _)| at);
        let share = now_ns.saturating_sub(oldest) / (MOMENTS_MAX as u64 / 2);
        self.every_ns = share.max(EVERY.as_nanos() as u64);
    }

    /// The newest state from before `whole_from_ns`, with its time; the oldest one where nothing was overwritten.
    pub(crate) fn choose(mut self, whole_from_ns: Option<u64>) -> Option<(u64, S)> {
        let begin = whole_from_ns.unwrap_or(0);
        while self.moments.get(1).is_some_and(|&(at, _)| at <= begin) {
            self.moments.pop_front();
        }
        self.moments.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Two zones with so many free frames each, and so many on the list of a CPU.
    fn state(free: [u64; 2], count: u64) -> ProcFiles {
        let zone = |name: &str, free: u64| {
            format!(
                "Node 0, zone {name}\n  nr_free_pages {free}\n        min 1\n        low 2\n        high 3\n        spanned 9\n        \
                     present 9\n        managed 9\n  pagesets\n    cpu: 0\n              count: {count}\n              high: 5\n              \
                     batch: 1\n  start_pfn: 1\n"
            )
        };
        let text = zone("DMA32", free[0]) + &zone("Normal", free[1]);
        vec![("zoneinfo", text.into_bytes())]
    }

    #[test]
    fn frames_are_looked_at_until_memory_is_at_rest_and_not_for_ever() {
        let looks = |free: &[u64]| {
            let mut left = free.iter();
            let look = || Ok(state([*left.next().unwrap(), 0], 0));
            let (last, moved) = until_at_rest(state([0, 0], 0), look).unwrap();
            (
                last == state([free[free.len() - left.len() - 1], 0], 0),
                free.len() - left.len(),
                moved,
            )
        };
        let rest = AT_REST_FRAMES;
        assert_eq!(looks(&[rest, 0]), (true, 1, rest));
        assert_eq!(looks(&[2 * rest + 1, 9, 8, 0]), (true, 3, 1));
        let never = [1, 0, 1, 0, 1, 0].map(|nth| nth * 2 * rest);
        assert_eq!(looks(&never), (true, LOOKS_MAX as usize, 2 * rest));
    }

    #[test]
    fn frames_that_moved_are_those_by_which_free_lists_and_cpus_lists_differ() {
        let before = state([100, 200], 10);
        assert_eq!(frames_moved(&before, &before), 0);
        assert_eq!(frames_moved(&before, &state([130, 180], 10)), 50);
        assert_eq!(frames_moved(&before, &state([130, 180], 3)), 64);
        assert_eq!(frames_moved(&before, &Vec::new()), 0, "nothing is known");
    }

    #[test]
    fn the_state_of_a_recording_is_the_newest_from_before_it_begins() {
        let log = || {
            let mut log = StateLog::new(S, 0);
            for second in [11, 21, 31] {
                log.add(second * S, second, None);
            }
            log
        };
        for (begin, expected) in [
            (None, 0),
            (Some(0), 0),
            (Some(5 * S), 0),
            (Some(11 * S), 11),
            (Some(30 * S), 21),
            (Some(u64::MAX), 31),
        ] {
            let (_, state) = log().choose(begin).unwrap();
            assert_eq!(state, expected, "{begin:?}");
        }
    }

    #[test]
    fn a_log_of_days_is_bounded_by_what_the_buffers_hold_and_by_a_number() {
        let mut log = StateLog::new(0, 0);
        let mut whole_from = StateLog::new(0, 0);
        for second in 1..1_000_000 {
            let now = second * S;
            if log.is_due(now) {
                log.add(now, second, None);
                assert!(log.moments.len() <= MOMENTS_MAX);
            }
            if whole_from.is_due(now) {
                whole_from.add(now, second, Some(now.saturating_sub(60 * S)));
                assert!(
                    whole_from.moments.len() <= 9,
                    "{}",
                    whole_from.moments.len()
                );
            }
        }
        // The first one stays, as long as nothing is overwritten.
        assert_eq!(log.moments.front(), Some(&(0, 0)));
        let begin = 999_000 * S;
        assert_eq!(whole_from.every_ns, 10 * S);
        assert!(whole_from.choose(Some(begin)).unwrap().1 > 999_000 - 130);
        // After an hour in which nothing was overwritten it is as close as ever where a minute is kept.
        assert!(log.every_ns > 3_000 * S);
        for second in 1_000_000..1_020_000 {
            let now = second * S;
            if log.is_due(now) {
                log.add(now, second, Some(now - 60 * S));
            }
        }
        assert_eq!(log.every_ns, 10 * S);
        assert!(log.choose(Some(1_019_940 * S)).unwrap().1 >= 1_019_930);
    }

    #[test]
    fn a_state_is_from_a_hundredth_of_what_is_kept_before_the_beginning_at_most() {
        for hours in [1, 30, 700] {
            let mut log = StateLog::new(0, 0);
            let end = hours * 3_600;
            for second in 1..end {
                if log.is_due(second * S) {
                    log.add(second * S, second, None);
                }
            }
            let times: Vec<u64> = log
                .moments
                .iter()
                .map(|&(at, _)| at / S)
                .chain([end])
                .collect();
            let most = times.windows(2).map(|two| two[1] - two[0]).max().unwrap();
            assert!(most <= 10.max(end / 100), "{hours} hours: {most} s");
        }
    }
}
