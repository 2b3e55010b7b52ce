//! `framewright compare`, as a user calls it.

use crate::support::{as_str, repository, run, tight, write};
use framewright_lab::trace::reduce::ReferenceRow;
use framewright_lab::trace::{OpKind, Trace, TraceOp};
use std::fs;

/// A trace of some 40 seconds: twice as many operations as ticks of 200 ms need.
fn trace(seed: u64) -> Trace {
    tight(97 * 200, seed)
}

#[test]
fn a_recording_does_not_differ_from_itself_and_swapped_ones_are_mirrored() {
    let folder = tempfile::tempdir().unwrap();
    let a = write(&trace(1), folder.path(), "a");
    let b = write(&tight(97 * 150, 2), folder.path(), "b");
    let (a, b) = (as_str(&a), as_str(&b));
    let (code, out, error) = run(&["compare", a, a]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("Nothing differs beyond chance, of "), "{out}");
    let rows = |args: &[&str]| {
        let (code, out, error) = run(&[&["compare"], args, &["--json", "-"]].concat());
        assert_eq!(code, Some(0), "{error}");
        let rows = out.lines().skip(1);
        let rows = rows.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        (out.clone(), rows.collect::<Vec<_>>())
    };
    let (bytes, there) = rows(&[a, b, "--policy", "linux-4.4,framewright"]);
    let (_, back) = rows(&[b, a, "--policy", "linux-4.4,framewright", "--jobs", "1"]);
    assert_eq!(bytes, rows(&[a, b, "--policy", "linux-4.4,framewright"]).0);
    assert_eq!(there.len(), back.len());
    for (there, back) in there.iter().zip(&back) {
        let of = |row: &serde_json::Value, key: &str| row[key].as_f64().unwrap();
        for (one, other) in [("value", "value"), ("low", "high"), ("high", "low")] {
            assert!(of(there, one) == -of(back, other), "{there}\n{back}");
        }
        assert_eq!(there["is_beyond_chance"], back["is_beyond_chance"]);
    }
    let has = |variant: &str, metric: &str| {
        let is = |row: &&serde_json::Value| row["variant"] == variant && row["metric"] == metric;
        assert_eq!(there.iter().filter(is).count(), 1, "{variant} {metric}");
    };
    has("linux", "failures_order3");
    has("linux", "failures_reported_order3");
    has("linux", "huge_pages_not_had");
    for policy in ["linux-4.4", "concentrated"] {
        has(policy, "failures_order3");
        has(policy, "fallbacks");
        has(policy, "contaminated_blocks");
        has(policy, "unusable_index_order9");
    }
}

#[test]
fn what_changes_is_named_with_its_direction_and_its_rate() {
    let folder = tempfile::tempdir().unwrap();
    let before = trace(1);
    let mut after = Trace {
        ops: Vec::new(),
        ..before.clone()
    };
    // The same, but four of five failures did not happen.
    let mut failed = 0;
    for op in &before.ops {
        failed += u32::from(op.kind() == OpKind::Failed);
        if op.kind() != OpKind::Failed || failed % 5 == 0 {
            after.ops.push(*op);
        }
    }
    // And it went on for five seconds in which nothing happened.
    after.ops.push(TraceOp::tick(5000));
    let (a, b) = (
        write(&before, folder.path(), "a"),
        write(&after, folder.path(), "b"),
    );
    let (code, out, error) = run(&["compare", as_str(&a), as_str(&b)]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("On the machine itself"), "{out}");
    assert!(out.contains("lower in B failures_order"), "{out}");
    assert!(
        out.contains("They differ in length, so counts are rates."),
        "{out}"
    );
    assert!(
        out.contains("Hollow in A: nothing says what Linux itself made of memory"),
        "{out}"
    );
    // Whose rules are taken matters only where they are.
    let assumed = "Hollow in A: nothing says which kernel was recorded";
    assert!(out.contains(assumed), "{out}");
    let (code, out, error) = run(&["compare", as_str(&a), as_str(&b), "--policy", "linux-4.4"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(!out.contains("which kernel was recorded"), "{out}");
}

#[test]
fn what_is_too_short_has_no_range_and_says_so() {
    let sample = repository("sample.pft.zst");
    let (code, out, error) = run(&["compare", &sample, &sample]);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        out.contains(
            "These recordings cannot say what is chance: the shorter one has 1 of the 10 windows"
        ),
        "{out}"
    );
    let (code, out, error) = run(&["compare", &sample, &sample, "--window", "0.1"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("Nothing differs beyond chance"), "{out}");
    let (code, _, error) = run(&["compare", &sample, &sample, "--window", "5"]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("sample.pft.zst: the recording lasts 1.4")
            && error.contains("expected at least one window of 5 s"),
        "{error}"
    );
}

#[test]
fn bad_input_is_named_by_file_and_place_and_no_output_is_an_input() {
    let folder = tempfile::tempdir().unwrap();
    let a = write(&trace(1), folder.path(), "a");
    let b = write(&trace(2), folder.path(), "b");
    let at = |name: &str| folder.path().join(name);
    let refused = |args: &[&str], says: &str| {
        let (code, out, error) = run(&[&["compare"], args].concat());
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}: {error}");
        assert!(error.contains(says), "{args:?}: {error}");
    };
    let (a, b) = (as_str(&a), as_str(&b));
    refused(&[a, as_str(&at("none"))], "none: ");
    refused(
        &[a, b, "--json", b],
        "--json would replace what is read from",
    );
    fs::write(at("b.summary.txt"), "kernel 6.12\n").unwrap();
    refused(
        &[a, b, "--json", as_str(&at("b.summary.txt"))],
        "would replace",
    );
    refused(
        &[a, b, "--squeeze", "1TiB"],
        "--squeeze 268435456 is more than there is",
    );
    refused(&["-", "-"], "standard input is given twice");
    let mut still = trace(1);
    still.ops.retain(|op| op.kind() != OpKind::Tick);
    let still = write(&still, folder.path(), "still");
    refused(
        &[a, as_str(&still)],
        "still.pft: no time passes in the recording",
    );
    fs::write(
        at("b.linux_ref.csv"),
        format!("{}\n1,2\n", ReferenceRow::HEADER),
    )
    .unwrap();
    refused(&[a, b], "b.linux_ref.csv:2: 2 columns, expected 11");
}

#[test]
fn p5_time_that_a_recording_claims_is_not_worked_through_window_by_window() {
    let folder = tempfile::tempdir().unwrap();
    let short = write(&trace(1), folder.path(), "a");
    let mut long = trace(1);
    // Two hundred years in a thousand bytes or two.
    long.ops.extend([TraceOp::tick(u32::MAX); 1500]);
    let long = write(&long, folder.path(), "b");
    let (a, b) = (as_str(&short), as_str(&long));
    let (code, out, error) = run(&["compare", a, b, "--window", "1"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
    let says = " windows of 1 s, expected at most 20000; --window takes a longer one";
    assert!(error.contains("b.pft: the recording has "), "{error}");
    assert!(error.contains(says), "{error}");
    // By itself it takes windows so long that the shorter one has none.
    let (code, _, error) = run(&["compare", a, b]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("a.pft: the recording lasts "), "{error}");
    let (code, _, error) = run(&["compare", b, b]);
    assert_eq!(code, Some(0), "{error}");
}
