//! A replay over trace time in Perfetto's format, for <https://ui.perfetto.dev>: a group of tracks for each case and
//! policy, and one for the recording machine.
//!
//! A group has a counter track for each figure, the machine's where the trace comes with what that made of memory, and a
//! track of failures: a slice for each stretch of time between two
//! points of the series in which requests failed, named by how many of which orders. The numbers of the fields are those
//! of Perfetto's `trace_packet.proto`, `track_descriptor.proto`, `counter_descriptor.proto` and `track_event.proto`.

use crate::measure::{MAX_ORDER, Sample};
use crate::replay::SeriesPoint;
use crate::trace::reduce::ReferenceRow;
use prost::Message;

/// One sequence of packets, as one writer's.
const SEQUENCE: u32 = 1;

#[derive(Clone, PartialEq, Message)]
struct PerfettoTrace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<PerfettoPacket>,
}

#[derive(Clone, PartialEq, Message)]
struct PerfettoPacket {
    /// Nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    sequence: Option<u32>,
    #[prost(message, optional, tag = "11")]
    event: Option<PerfettoEvent>,
    #[prost(message, optional, tag = "60")]
    track: Option<PerfettoTrack>,
}

#[derive(Clone, PartialEq, Message)]
struct PerfettoTrack {
    #[prost(uint64, optional, tag = "1")]
    number: Option<u64>,
    #[prost(string, optional, tag = "2")]
    name: Option<String>,
    #[prost(uint64, optional, tag = "5")]
    group: Option<u64>,
    #[prost(message, optional, tag = "8")]
    counter: Option<PerfettoCounter>,
}

#[derive(Clone, PartialEq, Message)]
struct PerfettoCounter {
    #[prost(string, optional, tag = "6")]
    unit: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct PerfettoEvent {
    #[prost(enumeration = "PerfettoEventKind", optional, tag = "9")]
    kind: Option<i32>,
    #[prost(uint64, optional, tag = "11")]
    track: Option<u64>,
    #[prost(string, optional, tag = "23")]
    name: Option<String>,
    #[prost(double, optional, tag = "44")]
    value: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
enum PerfettoEventKind {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Counter = 4,
}

/// A figure over time: its name and unit, and its value in a policy's sample and in a row of the machine's.
type CounterTrack = (
    &'static str,
    &'static str,
    fn(&Sample) -> f64,
    fn(&ReferenceRow) -> f64,
);

#[rustfmt::skip]
const COUNTERS: [CounterTrack; 6] = [
    ("free", "frames", |s| s.free_frames() as f64, |r| r.free_frames as f64),
    ("free blocks of 2 MiB", "blocks", |s| s.free_2m_blocks() as f64, |r| r.free_2m as f64),
    ("unusable index, order 3", "", |s| s.unusable_index(3), |r| r.unusable_o3),
    ("unusable index, order 9", "", |s| s.unusable_index(9), |r| r.unusable_o9),
    ("contaminated pageblocks", "pageblocks", |s| s.contaminated_blocks as f64, |r| r.blocks_unmov_any as f64),
    ("mixed pageblocks", "pageblocks", |s| s.mixed_blocks as f64, |r| r.blocks_mixed as f64),
];

/// Requests that failed, by order.
type FailedByOrder = [u64; MAX_ORDER + 1];

/// A replayed case.
#[derive(Debug, Clone)]
pub struct PerfettoCase<'a> {
    /// Its name.
    pub name: &'a str,
    /// The series of each policy, by its name.
    pub policies: Vec<(&'a str, &'a [SeriesPoint])>,
    /// What the recording machine made of memory, as far as that is known.
    pub rows: &'a [ReferenceRow],
    /// Requests that failed there so far, by order, at each moment.
    pub failures: &'a [(u64, FailedByOrder)],
}

/// The cases in Perfetto's format.
#[must_use]
pub fn perfetto(cases: &[PerfettoCase<'_>]) -> Vec<u8> {
    let mut out = PerfettoWriter::default();
    for case in cases {
        if !(case.rows.is_empty() && case.failures.is_empty()) {
            let group = out.track(format!("{}: the recording machine", case.name), None, None);
            for (name, unit, _, value) in COUNTERS.iter().filter(|_| !case.rows.is_empty()) {
                let points = case.rows.iter().map(|row| (row.ms, value(row)));
                out.counter(group, name, unit, points);
            }
            out.failures(group, case.failures.iter().copied());
        }
        for (policy, series) in &case.policies {
            let group = out.track(format!("{}: {policy}", case.name), None, None);
            for (name, unit, value, _) in COUNTERS {
                let points = series.iter().map(|at| (at.sample.ms, value(&at.sample)));
                out.counter(group, name, unit, points);
            }
            out.failures(group, series.iter().map(|at| (at.sample.ms, at.failures)));
        }
    }
    out.trace.encode_to_vec()
}

#[derive(Default)]
struct PerfettoWriter {
    trace: PerfettoTrace,
    tracks: u64,
}

impl PerfettoWriter {
    fn packet(&mut self, packet: PerfettoPacket) {
        self.trace.packets.push(PerfettoPacket {
            sequence: Some(SEQUENCE),
            ..packet
        });
    }

    /// Names a track, and returns its number.
    fn track(&mut self, name: String, group: Option<u64>, counter: Option<PerfettoCounter>) -> u64 {
        self.tracks += 1;
        let track = PerfettoTrack {
            number: Some(self.tracks),
            name: Some(name),
            group,
            counter,
        };
        self.packet(PerfettoPacket {
            track: Some(track),
            ..PerfettoPacket::default()
        });
        self.tracks
    }

    fn event(
        &mut self,
        ms: u64,
        track: u64,
        kind: PerfettoEventKind,
        name: Option<String>,
        value: Option<f64>,
    ) {
        let event = PerfettoEvent {
            kind: Some(kind.into()),
            track: Some(track),
            name,
            value,
        };
        self.packet(PerfettoPacket {
            timestamp: Some(ms.saturating_mul(1_000_000)),
            event: Some(event),
            ..PerfettoPacket::default()
        });
    }

    fn counter(
        &mut self,
        group: u64,
        name: &str,
        unit: &str,
        points: impl Iterator<Item = (u64, f64)>,
    ) {
        let unit = (!unit.is_empty()).then(|| unit.to_owned());
        let counter = PerfettoCounter { unit };
        let track = self.track(name.to_owned(), Some(group), Some(counter));
        for (ms, value) in points {
            self.event(ms, track, PerfettoEventKind::Counter, None, Some(value));
        }
    }

    fn failures(&mut self, group: u64, points: impl Iterator<Item = (u64, FailedByOrder)>) {
        let track = self.track("failures".to_owned(), Some(group), None);
        let (mut from, mut before) = (0, [0; MAX_ORDER + 1]);
        for (to, so_far) in points {
            let failed: Vec<String> = (0..=MAX_ORDER)
                .map(|order| (order, so_far[order] - before[order]))
                .filter(|&(_, count)| count > 0)
                .map(|(order, count)| format!("{count} of order {order}"))
                .collect();
            if !failed.is_empty() {
                self.event(
                    from,
                    track,
                    PerfettoEventKind::SliceBegin,
                    Some(failed.join(", ")),
                    None,
                );
                self.event(to, track, PerfettoEventKind::SliceEnd, None, None);
            }
            (from, before) = (to, so_far);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(ms: u64, free: u64, failures_order3: u64) -> SeriesPoint {
        let mut point = SeriesPoint {
            sample: Sample::default(),
            failures: [0; MAX_ORDER + 1],
            failures_reported: [0; MAX_ORDER + 1],
            fallbacks: [[0; 3]; 3],
            reclaim: None,
        };
        point.sample.ms = ms;
        point.sample.aligned_free[0] = free;
        point.failures[3] = failures_order3;
        point
    }

    #[test]
    fn a_series_becomes_counters_and_slices_of_failures() {
        let series = [
            point(1000, 7, 0),
            point(2000, 5, 2),
            point(3000, 5, 2),
            point(4000, 4, 3),
        ];
        let row = ReferenceRow {
            ms: 1500,
            free_frames: 9,
            ..ReferenceRow::default()
        };
        let refused = |order9| {
            let mut failed = [0; MAX_ORDER + 1];
            failed[9] = order9;
            failed
        };
        let bytes = perfetto(&[PerfettoCase {
            name: "run",
            policies: vec![("proposed", &series)],
            rows: &[row],
            failures: &[(0, refused(0)), (1000, refused(4)), (1700, refused(4))],
        }]);
        let trace = PerfettoTrace::decode(&*bytes).unwrap();
        let tracks: Vec<&PerfettoTrack> = trace
            .packets
            .iter()
            .filter_map(|p| p.track.as_ref())
            .collect();
        // A group, six counters and the failures of the machine's, and as many of the policy's.
        assert_eq!(tracks.len(), 8 + 8);
        assert_eq!(
            tracks[0].name.as_deref(),
            Some("run: the recording machine")
        );
        let numbers: std::collections::BTreeSet<_> = tracks.iter().map(|t| t.number).collect();
        assert_eq!(numbers.len(), tracks.len());
        let of = |name: &str, group: &PerfettoTrack| {
            let is =
                |t: &&&PerfettoTrack| t.name.as_deref() == Some(name) && t.group == group.number;
            let track = tracks.iter().find(is).unwrap().number;
            let events = trace
                .packets
                .iter()
                .filter(move |p| p.event.as_ref().is_some_and(|event| event.track == track));
            events.cloned().collect::<Vec<_>>()
        };
        let values = |events: &[PerfettoPacket]| -> Vec<(u64, f64)> {
            let value = |p: &PerfettoPacket| {
                (
                    p.timestamp.unwrap(),
                    p.event.as_ref().unwrap().value.unwrap(),
                )
            };
            events.iter().map(value).collect()
        };
        assert_eq!(values(&of("free", tracks[0])), [(1_500_000_000, 9.0)]);
        let free = values(&of("free", tracks[8]));
        assert_eq!(free[..2], [(1_000_000_000, 7.0), (2_000_000_000, 5.0)]);
        let slices = |group| -> Vec<_> {
            let slice = |p: &PerfettoPacket| {
                let event = p.event.clone().unwrap();
                (p.timestamp.unwrap() / 1_000_000, event.kind(), event.name)
            };
            of("failures", group).iter().map(slice).collect()
        };
        use PerfettoEventKind::{SliceBegin, SliceEnd};
        assert_eq!(
            slices(tracks[0]),
            [
                (0, SliceBegin, Some("4 of order 9".to_owned())),
                (1000, SliceEnd, None),
            ]
        );
        assert_eq!(
            slices(tracks[8]),
            [
                (1000, SliceBegin, Some("2 of order 3".to_owned())),
                (2000, SliceEnd, None),
                (3000, SliceBegin, Some("1 of order 3".to_owned())),
                (4000, SliceEnd, None),
            ]
        );
    }

    #[test]
    fn a_machine_of_which_nothing_is_known_has_no_group() {
        let bytes = perfetto(&[PerfettoCase {
            name: "run",
            policies: Vec::new(),
            rows: &[],
            failures: &[],
        }]);
        assert!(bytes.is_empty());
    }

    #[test]
    fn a_machine_of_which_memory_is_not_known_has_failures_alone() {
        let bytes = perfetto(&[PerfettoCase {
            name: "run",
            policies: Vec::new(),
            rows: &[],
            failures: &[(0, [0; MAX_ORDER + 1]), (1000, [1; MAX_ORDER + 1])],
        }]);
        let trace = PerfettoTrace::decode(&*bytes).unwrap();
        let names = trace
            .packets
            .iter()
            .filter_map(|p| p.track.as_ref()?.name.clone());
        assert_eq!(
            names.collect::<Vec<_>>(),
            ["run: the recording machine", "failures"]
        );
        assert_eq!(
            trace.packets.len(),
            2 + 2,
            "a slice has a beginning and an end"
        );
    }
}
