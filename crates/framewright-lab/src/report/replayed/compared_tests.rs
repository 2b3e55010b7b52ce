//! Two recordings beside each other: what the verdict makes of them.

use super::*;
use crate::trace::{TraceOp, WorkEvent, WorkKind};
use framewright::Order;

fn figure(name: &str, windows: &[f64]) -> WindowedFigure {
    WindowedFigure::rate(name.into(), "requests", windows.to_vec())
}

fn comparison(a: &[f64], b: &[f64]) -> RecordingComparison {
    let side = |name: &str, n: usize| ComparedRecording {
        name: name.into(),
        ms: n as u64 * 1000,
        frames: 1 << 18,
        managed: None,
        kernel: Some("6.12".into()),
        hollow: Vec::new(),
    };
    let both = [a, b].map(|windows| vec![figure("failures_order3", windows)]);
    RecordingComparison {
        sides: [side("before", a.len()), side("after", b.len())],
        windows: [a, b].map(|side| TimeWindows::of(side.len() as u64 * 1000, 1000)),
        variants: vec![ComparedVariant::of(LINUX, FigureSource::Measured, both)],
    }
}

fn noisy(level: f64, n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| level + [0.0, 1.5, -1.0, 0.5, -0.7][i % 5])
        .collect()
}

#[test]
fn the_verdict_says_what_differs_and_in_which_direction() {
    let fewer = comparison(&noisy(9.0, 20), &noisy(3.0, 25)).verdict();
    assert!(fewer[0].contains("1 of 1 figures differ beyond chance: lower in B failures_order3 (9.06 to 3.06 a second)"), "{fewer:?}");
    let more = comparison(&noisy(3.0, 20), &noisy(9.0, 20)).verdict();
    assert!(
        more[0].contains("higher in B failures_order3 (3.06 to 9.06 a second)"),
        "{more:?}"
    );
    let same = comparison(&noisy(3.0, 20), &noisy(3.0, 20)).verdict();
    assert_eq!(same, ["Nothing differs beyond chance, of 1 figures."]);
    let short = comparison(&noisy(3.0, 9), &noisy(9.0, 20));
    assert!(
        short.verdict()[0].contains("the shorter one has 9 of the 10 windows that a range needs")
    );
    assert!(!short.text().contains(" to "), "{}", short.text());
    assert!(
        short
            .text()
            .contains("They differ in length, so counts are rates.")
    );
}

#[test]
fn what_was_as_far_apart_at_the_beginning_is_no_difference_of_what_was_recorded() {
    let side = |start: f64, rise: f64| {
        let states: Vec<(u64, f64)> = (0..20)
            .map(|i| {
                (
                    i * 1000,
                    start + if i == 0 { 0.0 } else { rise + (i % 3) as f64 },
                )
            })
            .collect();
        let windows = TimeWindows::of(20_000, 1000);
        vec![WindowedFigure::state(
            m::CONTAMINATED_BLOCKS,
            &states,
            windows,
        )]
    };
    let verdict = |a: Vec<WindowedFigure>, b: Vec<WindowedFigure>| {
        let mut comparison = comparison(&[0.0; 20], &[0.0; 20]);
        let both = ComparedVariant::of(LINUX, FigureSource::Measured, [a, b]);
        comparison.variants = vec![both];
        comparison.verdict()
    };
    let before = verdict(side(100.0, 0.0), side(150.0, 0.0));
    assert!(
        before[0].contains("Nothing that came up within the recordings differs"),
        "{before:?}"
    );
    assert!(
        before[1].contains(
            "when the recordings began, so not of what was recorded: contaminated_blocks"
        )
    );
    let within = verdict(side(100.0, 0.0), side(100.0, 50.0));
    assert!(
        within[0].contains("higher in B contaminated_blocks"),
        "{within:?}"
    );
}

#[test]
fn what_requests_waited_for_falls_into_the_window_in_which_it_ended() {
    let compacted = |at, ns| WorkEvent {
        at,
        kind: WorkKind::Compacted {
            order: Order::ZERO,
            ns,
            is_again: false,
        },
    };
    let mut trace = Trace {
        ops: vec![TraceOp::tick(1500), TraceOp::tick(1000), TraceOp::tick(500)],
        ..Trace::default()
    };
    let windows = TimeWindows::of(3000, 1000);
    let none = machine_figures(&trace, None, None, windows);
    assert!(!none.iter().any(|figure| figure.name.contains("_wait")));
    trace.work.traced.compaction = true;
    trace.work.events = vec![
        compacted(0, 1_000_000),
        compacted(1, 2_000_000),
        compacted(1, 3_000_000),
    ];
    let figures = machine_figures(&trace, None, None, windows);
    let of = |name: &str| {
        let figure = figures.iter().find(|figure| figure.name == name);
        figure.map(|figure| figure.windows.clone())
    };
    assert_eq!(of("compaction_waits_order0"), Some(vec![1.0, 2.0, 0.0]));
    assert_eq!(of("compaction_wait_ms_order0"), Some(vec![1.0, 5.0, 0.0]));
    assert_eq!(of("reclaim_waits_order0"), None);
}

#[test]
fn swapped_recordings_have_mirrored_differences() {
    let (a, b) = (noisy(9.0, 20), noisy(7.5, 31));
    let range = |comparison: RecordingComparison| comparison.variants[0].figures[0].range.unwrap();
    let (there, back) = (range(comparison(&a, &b)), range(comparison(&b, &a)));
    assert_eq!(
        (there.difference, there.low),
        (-back.difference, -back.high)
    );
}

#[test]
fn rates_are_shown_with_three_digits() {
    let shown = [0.0, 0.04, 1.234, 56.78, 567.8, 12345.6, -2.5].map(shown_rate);
    assert_eq!(
        shown,
        ["0", "0.040", "1.23", "56.8", "568", "12 346", "-2.50"]
    );
}

#[test]
fn two_recordings_of_one_machine_do_not_differ_in_memory() {
    let unlike = |frames: [u64; 2], managed: [Option<u64>; 2]| {
        let mut comparison = comparison(&noisy(3.0, 20), &noisy(3.0, 20));
        for (side, (frames, managed)) in comparison
            .sides
            .iter_mut()
            .zip(frames.into_iter().zip(managed))
        {
            (side.frames, side.managed) = (frames, managed);
        }
        comparison
            .text()
            .contains("They differ in memory, so frames and blocks are of different wholes.")
    };
    let unknown = [None, None];
    assert!(!unlike([100_000, 100_000], unknown));
    assert!(
        !unlike([100_000, 99_000], unknown),
        "one in a hundred is the same machine"
    );
    assert!(unlike([100_000, 98_999], unknown));
    // What zones manage tells, where both say it.
    assert!(!unlike([100_000, 90_000], [Some(200_000), Some(200_100)]));
    assert!(unlike([100_000, 100_000], [Some(200_000), Some(150_000)]));
    assert!(unlike([100_000, 90_000], [Some(200_000), None]));
}
