//! Replays compared with what they gave before, figure by figure.
//!
//! A change of a policy changes them. To accept it, look at the difference, then
//! `FRAMEWRIGHT_BLESS=1 cargo test -p framewright-lab --test replay golden`.

use crate::support::{as_str, repository, run, tight, write};
use std::path::PathBuf;

const HISTORICAL: &str =
    "linux-4.4,proposal,linux-4.13,linux-6.12,linux-6.12-nofragment,no-grouping";
const ENGINE: &str = "largest-first,smallest-when-costly,concentrated";

/// The figures without the first record and without times: what must not change by itself.
fn figures(args: &[&str]) -> String {
    let (code, out, error) = run(&[&["replay", "--json", "-"], args].concat());
    assert_eq!(code, Some(0), "{error}");
    let mut lines = out.lines();
    assert!(
        lines
            .next()
            .unwrap()
            .starts_with(r#"{"experiment":"replay","version":"#)
    );
    let kept = lines.filter(|line| !line.contains("_ns_per_op"));
    kept.map(|line| format!("{line}\n")).collect()
}

/// `CASE VARIANT METRIC VALUE` a line; what is zero is left out.
fn compare(name: &str, figures: &str) {
    let mut text = String::new();
    for line in figures.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let word = |key: &str| record[key].as_str().unwrap();
        if record["value"].as_f64() != Some(0.0) {
            let (case, variant, metric) = (word("case"), word("variant"), word("metric"));
            text += &format!("{case} {variant} {metric} {}\n", record["value"]);
        }
    }
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    if std::env::var_os("FRAMEWRIGHT_BLESS").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    for (at, (ours, theirs)) in text.lines().zip(golden.lines()).enumerate() {
        assert_eq!(ours, theirs, "tests/golden/{name}.txt:{}", at + 1);
    }
    assert_eq!(
        text.lines().count(),
        golden.lines().count(),
        "tests/golden/{name}.txt"
    );
}

fn tight_figures(policies: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&tight(30_000, 1), folder.path(), "tight");
    let path = as_str(&path);
    let one = figures(&[path, "--policy", policies, "--probe", "3"]);
    one + &figures(&[
        path,
        "--policy",
        policies,
        "--start",
        "fresh",
        "--squeeze",
        "800",
    ])
}

#[test]
fn historical_policies_on_tight_memory() {
    compare("tight-historical", &tight_figures(HISTORICAL));
}

#[test]
fn the_engine_on_tight_memory() {
    compare("tight-engine", &tight_figures(ENGINE));
}

#[test]
fn historical_policies_on_recorded_text() {
    let trace = repository("fork-storm.ftrace.gz");
    compare(
        "fork-storm-historical",
        &figures(&[&trace, "--policy", HISTORICAL]),
    );
}

#[test]
fn the_engine_on_recorded_text_within_the_free_memory_of_a_machine() {
    let trace = repository("fork-storm.ftrace.gz");
    let state = repository("state/sample/before.pagetypeinfo");
    let args = [&trace, "--policy", ENGINE, "--state", &state];
    compare("fork-storm-engine", &figures(&args));
}

#[test]
fn no_request_fails_while_a_free_block_of_its_order_exists() {
    let golden = tight_figures(HISTORICAL) + &tight_figures(ENGINE);
    let value = |line: &str| line.contains(r#""metric":"false_failures","value":0,"#);
    let of_metric = golden
        .lines()
        .filter(|line| line.contains("false_failures"));
    assert_eq!(of_metric.clone().count(), 2 * 9);
    assert!(of_metric.clone().all(value));
    let failed = |line: &&str| {
        line.contains(r#""metric":"failures_order"#) && !line.contains(r#""value":0,"#)
    };
    assert!(
        golden.lines().filter(failed).count() > 18,
        "the trace makes every policy fail"
    );
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&tight(5_000, 2), folder.path(), "tight");
    let with = |jobs| figures(&[as_str(&path), "--jobs", jobs]);
    assert_eq!(with("1"), with("5"));
}
