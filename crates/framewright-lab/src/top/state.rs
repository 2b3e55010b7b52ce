//! What has been seen so far: a pure value that takes events and readings, and knows no clock, file or terminal.

use super::layout::TopLayout;
use super::outlook::{MemoryOutlook, ORDERS};
use crate::replay::FailureCause;
use crate::trace::state::{ZoneFree, ZoneInfo};
use crate::trace::{EventKind, RequestTraits, TraceEvent, gfp_names};
use framewright::Mobility;
use std::collections::{BTreeMap, VecDeque};

/// Lines of events and failures that are kept.
const LINES_MAX: usize = 200;
/// How far back a trend looks, and the least that makes one, in nanoseconds.
const TREND_NS: u64 = 60_000_000_000;
const TREND_LEAST_NS: u64 = 10_000_000_000;
/// How long a failure counts as one of now.
pub(super) const RECENT_NS: u64 = 10_000_000_000;
/// Readings that are kept for both, however often there is one.
const PAST_MAX: usize = 700;

/// What the files of `/proc` and the buffers say at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct TopReading {
    /// In nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) now_ns: u64,
    pub(crate) zones: Vec<ZoneFree>,
    pub(crate) infos: Vec<ZoneInfo>,
    pub(crate) vmstat: BTreeMap<String, u64>,
    /// A look at the pageblocks that has ended since the last reading.
    pub(crate) layout: Option<TopLayout>,
    /// Events that were lost since the start, and lines that could not be read.
    pub(crate) lost: u64,
    /// The CPU time of this process, in nanoseconds.
    pub(crate) own_cpu_ns: u64,
}

/// Events since the start, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TopCounts {
    /// Requests served, by order. Those of order 0 are not among the events.
    pub(crate) requests: [u64; ORDERS],
    /// Requests that failed, by order.
    pub(crate) failures: [u64; ORDERS],
    /// Those of them whose failure the kernel prints.
    pub(crate) reported: [u64; ORDERS],
    /// Requests served from another mobility's pageblock: by the mobility asked for, and by that of the pageblock.
    pub(crate) fallbacks: [[u64; 3]; 3],
    pub(crate) compactions: u64,
    pub(crate) background_wakes: u64,
}

impl TopCounts {
    /// All fallbacks.
    pub(crate) fn all_fallbacks(&self) -> u64 {
        self.fallbacks.iter().flatten().sum()
    }
}

/// A counter of `/proc/vmstat`, or several whose names begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VmCounter {
    /// Frames handed out, of all orders.
    Frames,
    ReclaimStalls,
    CompactionStalls,
    CompactionSuccesses,
    CompactionFailures,
}

impl VmCounter {
    const ALL: [Self; 5] = [
        Self::Frames,
        Self::ReclaimStalls,
        Self::CompactionStalls,
        Self::CompactionSuccesses,
        Self::CompactionFailures,
    ];

    fn is_in(self, name: &str) -> bool {
        match self {
            Self::Frames => name.starts_with("pgalloc_"),
            // One counter before Linux 4.10, one a zone since.
            Self::ReclaimStalls => name == "allocstall" || name.starts_with("allocstall_"),
            Self::CompactionStalls => name == "compact_stall",
            Self::CompactionSuccesses => name == "compact_success",
            Self::CompactionFailures => name == "compact_fail",
        }
    }

    /// All counters; `None` of what this kernel does not count.
    fn values(vmstat: &BTreeMap<String, u64>) -> [Option<u64>; 5] {
        Self::ALL.map(|counter| {
            let named = vmstat.iter().filter(|(name, _)| counter.is_in(name));
            let values = named.map(|(_, value)| *value);
            values.reduce(u64::saturating_add)
        })
    }
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SeenFailure {
    pub(crate) time_ns: u64,
    pub(crate) order: usize,
    /// Its flags by name.
    pub(crate) flags: String,
    pub(crate) traits: RequestTraits,
    /// Printable.
    pub(crate) command: String,
    pub(crate) task: u32,
    /// What it failed for, as far as the readings before and after it tell; `None` before the second.
    pub(crate) cause: Option<FailureCause>,
}

/// What has happened, several times in a row perhaps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenEvent {
    /// When it happened last.
    pub(crate) time_ns: u64,
    pub(crate) what: String,
    /// Printable.
    pub(crate) command: String,
    pub(crate) times: u64,
}

/// A reading of before.
#[derive(Debug, Clone, Copy)]
pub(super) struct PastReading {
    pub(super) now_ns: u64,
    pub(super) left: [u64; ORDERS],
    pub(super) counts: TopCounts,
}

/// A rate: in the last interval a second, and the sum since the start.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SeenRate {
    pub(crate) a_second: f64,
    pub(crate) total: u64,
}

/// All that a view is drawn from.
#[derive(Debug, Clone)]
pub(crate) struct TopState {
    /// The order that the user asks about.
    pub(crate) chosen: usize,
    /// Whether events are traced.
    pub(crate) has_events: bool,
    /// What cannot be shown on this machine, and why.
    pub(crate) missing: Vec<String>,
    pub(crate) counts: TopCounts,
    pub(crate) reading: TopReading,
    pub(crate) outlook: MemoryOutlook,
    pub(crate) layout: Option<TopLayout>,
    /// The newest last.
    pub(crate) failures: VecDeque<SeenFailure>,
    pub(crate) events: VecDeque<SeenEvent>,
    pub(super) past: VecDeque<PastReading>,
    start_ns: u64,
    start_cpu_ns: u64,
    start_vm: [Option<u64>; 5],
    /// At the reading before the last.
    before: TopCounts,
    before_vm: [Option<u64>; 5],
    before_ns: u64,
    before_cpu_ns: u64,
    /// At the last one, which is what the next interval is counted from.
    at_reading: TopCounts,
}

impl TopState {
    /// The state at the start, with what memory looks like then.
    pub(crate) fn new(
        chosen: usize,
        has_events: bool,
        missing: Vec<String>,
        first: TopReading,
    ) -> Self {
        let vm = VmCounter::values(&first.vmstat);
        let outlook = MemoryOutlook::of(&first.zones, &first.infos);
        let (now_ns, own_cpu_ns) = (first.now_ns, first.own_cpu_ns);
        let mut state = Self {
            chosen: chosen.min(ORDERS - 1),
            has_events,
            missing,
            counts: TopCounts::default(),
            outlook,
            layout: None,
            failures: VecDeque::new(),
            events: VecDeque::new(),
            past: VecDeque::new(),
            start_ns: now_ns,
            start_cpu_ns: own_cpu_ns,
            start_vm: vm,
            before: TopCounts::default(),
            before_vm: vm,
            before_ns: now_ns,
            before_cpu_ns: own_cpu_ns,
            at_reading: TopCounts::default(),
            reading: first,
        };
        state.take_layout();
        state.note_past();
        state
    }

    /// Takes an event, with the name of its task where that is known. `name` is as it came.
    pub(crate) fn event(&mut self, event: &TraceEvent, name: Option<&[u8]>) {
        let command = || match name {
            Some(name) => crate::printable::bytes(name),
            None => format!("task {}", event.pid),
        };
        match event.kind {
            EventKind::Alloc {
                frame: Some(_),
                order,
                ..
            } => self.counts.requests[order.index().min(ORDERS - 1)] += 1,
            EventKind::Alloc {
                frame: None,
                order,
                gfp,
                ..
            } => {
                let order = order.index().min(ORDERS - 1);
                let traits = RequestTraits::of(gfp);
                self.counts.failures[order] += 1;
                self.counts.reported[order] += u64::from(traits.is_reported);
                keep(
                    &mut self.failures,
                    SeenFailure {
                        time_ns: event.time_ns,
                        order,
                        flags: gfp_names(gfp),
                        traits,
                        command: command(),
                        task: event.pid,
                        cause: None,
                    },
                );
            }
            EventKind::Extfrag { wanted, taken } => {
                self.counts.fallbacks[wanted.index()][taken.index()] += 1;
                let (wanted, taken) = (shown(wanted), shown(taken));
                let what = format!("fallback: {wanted} from a pageblock labelled {taken}");
                self.happened(event, what, command());
            }
            EventKind::CompactionBegin => {
                self.counts.compactions += 1;
                self.happened(event, "compaction of a zone".into(), command());
            }
            EventKind::DirectCompaction { order } => {
                let what = format!("a request of {order} compacts before it is served");
                self.happened(event, what, command());
            }
            EventKind::DirectReclaim { order } => {
                let what = format!("a request of {order} reclaims before it is served");
                self.happened(event, what, command());
            }
            EventKind::BackgroundWakes { node, order } => {
                self.counts.background_wakes += 1;
                let what = format!("kswapd of node {node} begins to reclaim, for {order}");
                self.happened(event, what, command());
            }
            EventKind::BackgroundSleeps { node } => {
                let what = format!("kswapd of node {node} is done");
                self.happened(event, what, command());
            }
            // How many were lost the buffers say; the rest ends what was noted, or is not looked at.
            EventKind::Lost(_)
            | EventKind::Free { .. }
            | EventKind::FreeBatched
            | EventKind::MigrateStart
            | EventKind::MigrateEnd { .. }
            | EventKind::CompactionEnd
            | EventKind::DirectReclaimEnd { .. }
            | EventKind::Other => {}
        }
    }

    fn happened(&mut self, event: &TraceEvent, what: String, command: String) {
        if let Some(last) = self.events.back_mut()
            && last.what == what
            && last.command == command
        {
            last.times += 1;
            last.time_ns = event.time_ns;
            return;
        }
        keep(
            &mut self.events,
            SeenEvent {
                time_ns: event.time_ns,
                what,
                command,
                times: 1,
            },
        );
    }

    /// Takes a reading: an interval ends.
    pub(crate) fn read(&mut self, reading: TopReading) {
        self.before = self.at_reading;
        self.at_reading = self.counts;
        self.before_vm = VmCounter::values(&self.reading.vmstat);
        self.before_ns = self.reading.now_ns;
        self.before_cpu_ns = self.reading.own_cpu_ns;
        let outlook = MemoryOutlook::of(&reading.zones, &reading.infos);
        // Of the moments around a failure the one at which memory could serve less of its order is nearer to it.
        for failure in self.failures.iter_mut().rev() {
            if failure.cause.is_some() {
                break;
            }
            let of = |outlook: &MemoryOutlook| outlook.orders[failure.order];
            let (then, now) = (of(&self.outlook), of(&outlook));
            let nearer = if then.left < now.left { then } else { now };
            failure.cause = Some(nearer.cause);
        }
        self.outlook = outlook;
        self.reading = reading;
        self.take_layout();
        self.note_past();
    }

    fn take_layout(&mut self) {
        if let Some(layout) = self.reading.layout.take() {
            self.layout = Some(layout);
        }
    }

    fn note_past(&mut self) {
        let now_ns = self.reading.now_ns;
        let left = self.outlook.orders.map(|order| order.left);
        let counts = self.counts;
        self.past.push_back(PastReading {
            now_ns,
            left,
            counts,
        });
        let is_old = |past: &PastReading| now_ns.saturating_sub(past.now_ns) > TREND_NS;
        while self.past.len() > 2 && (self.past.len() > PAST_MAX || is_old(&self.past[0])) {
            self.past.pop_front();
        }
    }

    /// Seconds since the start.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds_of(self.reading.now_ns)
    }

    /// Seconds from the start to that moment; events may be a little older.
    pub(crate) fn seconds_of(&self, time_ns: u64) -> f64 {
        (i128::from(time_ns) - i128::from(self.start_ns)) as f64 / 1e9
    }

    /// The length of the last interval.
    pub(crate) fn interval(&self) -> f64 {
        self.reading.now_ns.saturating_sub(self.before_ns) as f64 / 1e9
    }

    /// The start of the last interval, in nanoseconds of `CLOCK_MONOTONIC`.
    pub(crate) const fn interval_start_ns(&self) -> u64 {
        self.before_ns
    }

    fn a_second(&self, count: u64) -> f64 {
        match self.interval() {
            0.0 => 0.0,
            seconds => count as f64 / seconds,
        }
    }

    /// The rate of something that the events count.
    pub(crate) fn rate(&self, of: impl Fn(&TopCounts) -> u64) -> SeenRate {
        let (now, before) = (of(&self.at_reading), of(&self.before));
        SeenRate {
            a_second: self.a_second(now.saturating_sub(before)),
            total: now,
        }
    }

    /// The rate of a counter of the kernel's; `None` where the kernel does not count it.
    pub(crate) fn vm_rate(&self, counter: VmCounter) -> Option<SeenRate> {
        let place = counter as usize;
        let now = VmCounter::values(&self.reading.vmstat)[place]?;
        let since = |then: Option<u64>| now.saturating_sub(then.unwrap_or(now));
        Some(SeenRate {
            a_second: self.a_second(since(self.before_vm[place])),
            total: since(self.start_vm[place]),
        })
    }

    /// Requests of an order that were served; those of order 0 are what `/proc/vmstat` counts besides the others. `None`
    /// where that is not known.
    pub(crate) fn requests(&self, order: usize) -> Option<SeenRate> {
        if !self.has_events {
            return None;
        }
        if order > 0 {
            return Some(self.rate(|counts| counts.requests[order]));
        }
        let frames = self.vm_rate(VmCounter::Frames)?;
        let larger = self.rate(|counts| {
            let orders = counts.requests.iter().enumerate().skip(1);
            orders.fold(0, |sum, (order, &n)| sum.saturating_add(n << order))
        });
        Some(SeenRate {
            a_second: (frames.a_second - larger.a_second).max(0.0),
            total: frames.total.saturating_sub(larger.total),
        })
    }

    /// This process's share of one CPU, in percent: in the last interval, and since the start.
    pub(crate) fn own_percent(&self) -> (f64, f64) {
        let share = |ns: u64, seconds: f64| match seconds > 0.0 {
            true => ns as f64 / 1e7 / seconds,
            false => 0.0,
        };
        let now = self.reading.own_cpu_ns;
        (
            share(now.saturating_sub(self.before_cpu_ns), self.interval()),
            share(now.saturating_sub(self.start_cpu_ns), self.seconds()),
        )
    }

    /// What the look at the pageblocks could not read, too.
    pub(crate) fn all_missing(&self) -> impl Iterator<Item = &str> {
        let layout = self.layout.iter().flat_map(|layout| &layout.missing);
        self.missing.iter().chain(layout).map(String::as_str)
    }

    /// After how many seconds nothing is left of an order, at the rate of the last minute; `None` where it does not fall.
    pub(crate) fn seconds_left(&self, order: usize) -> Option<f64> {
        let first = self.past.front()?;
        let ns = self.reading.now_ns.saturating_sub(first.now_ns);
        let now = self.outlook.orders[order].left;
        let gone = first.left[order]
            .checked_sub(now)
            .filter(|&gone| gone > 0)?;
        (ns >= TREND_LEAST_NS).then(|| now as f64 / gone as f64 * ns as f64 / 1e9)
    }
}

/// A mobility as a sentence has it.
fn shown(mobility: Mobility) -> String {
    mobility.name().to_lowercase()
}

fn keep<T>(lines: &mut VecDeque<T>, line: T) {
    if lines.len() == LINES_MAX {
        lines.pop_front();
    }
    lines.push_back(line);
}
