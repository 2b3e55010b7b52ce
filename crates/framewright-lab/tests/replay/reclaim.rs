//! `--reclaim` on the command line.

use crate::support::{as_str, recorded, run, tight, write};
use std::fs;

fn figure(lines: &str, variant: &str, metric: &str) -> Option<f64> {
    let is_it =
        |record: &serde_json::Value| record["variant"] == variant && record["metric"] == metric;
    let records = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    records
        .into_iter()
        .find(|record: &serde_json::Value| is_it(record))
        .map(|record| record["value"].as_f64().unwrap())
}

const THREE: [&str; 3] = ["linux-4.4", "proposal", "concentrated"];

#[test]
fn with_reclaim_there_are_three_columns_with_stalls_and_costs_and_the_same_bytes_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&tight(4_000, 5), folder.path(), "tight");
    let with = |jobs| {
        let args = [
            "replay",
            as_str(&path),
            "--reclaim",
            "--probe-huge",
            "3",
            "--json",
            "-",
            "--jobs",
            jobs,
        ];
        let (code, out, error) = run(&args);
        assert_eq!(code, Some(0), "{error}");
        let lines = out.lines().skip(1);
        let kept = lines.filter(|line| !line.contains("_ns_per_op"));
        kept.map(|line| format!("{line}\n")).collect::<String>()
    };
    let lines = with("1");
    assert_eq!(lines, with("3"));
    for variant in THREE {
        let figure = |metric: &str| figure(&lines, variant, metric);
        assert_eq!(figure("huge_probes"), Some(3.0), "{variant}");
        let stalls = figure("compact_stall").unwrap();
        let by_order = |k| figure(&format!("compact_stall_order{k}")).unwrap();
        assert_eq!(stalls, (0..=10).map(by_order).sum::<f64>(), "{variant}");
        assert!(figure("pgsteal_direct") > Some(0.0), "{variant}");
        assert_eq!(figure("fallbacks_movable_unmovable"), None);
    }
}

#[test]
fn what_cannot_reclaim_and_what_needs_reclaim_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&tight(100, 5), folder.path(), "tight");
    let (code, out, error) = run(&[
        "replay",
        as_str(&path),
        "--reclaim",
        "--policy",
        "linux-6.12",
    ]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        error.contains(
            "no kernel that reclaims with the policy linux-6.12, expected some of linux-4.4"
        ),
        "{error}"
    );
    let (code, _, error) = run(&["replay", as_str(&path), "--probe-huge", "3"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("--reclaim"), "{error}");
}

#[test]
fn the_table_says_what_reclaim_is_and_the_series_has_its_counters() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&tight(3_000, 5), folder.path(), "tight");
    let series = folder.path().join("series.csv");
    let squeezed = [
        "replay",
        as_str(&path),
        "--reclaim",
        "--squeeze",
        "9000",
        "--policy",
        "before,framewright",
        "--csv",
        as_str(&series),
    ];
    let (code, out, error) = run(&squeezed);
    assert_eq!(code, Some(0), "{error}");
    for words in [
        "unplaced_frames",
        "allocstall_order0",
        "frees_of_reclaimed",
        "is not known",
    ] {
        assert!(out.contains(words), "{words} in\n{out}");
    }
    let series = fs::read_to_string(series).unwrap();
    let mut rows = series.lines().map(|row| row.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let stalls = header
        .iter()
        .position(|&name| name == "allocstall_order0")
        .unwrap();
    let counts: Vec<u64> = rows.map(|row| row[stalls].parse().unwrap()).collect();
    assert!(counts.iter().any(|&count| count > 0));
    assert_eq!(header.last(), Some(&"pgmigrate_fail"));
}

/// The first 400,000 operations of the memory-tight recording, with so much taken away that reclaim has
/// to give some of it.
#[test]
fn on_recorded_memory_under_squeeze_the_engine_stalls_less_and_serves_more_huge_pages() {
    let Some(path) = recorded("smokeC.pft.zst") else {
        return;
    };
    let args = [
        "replay",
        as_str(&path),
        "--reclaim",
        "--probe-huge",
        "50",
        "--squeeze",
        "180000",
        "--policy",
        "before,framewright",
        "--json",
        "-",
    ];
    let (code, lines, error) = run(&args);
    assert_eq!(code, Some(0), "{error}");
    let stalls = |variant| {
        let of = |k| figure(&lines, variant, &format!("allocstall_order{k}")).unwrap();
        (0..=10).map(of).sum::<f64>()
    };
    let of = |variant, metric| figure(&lines, variant, metric).unwrap();
    assert!(of("linux-4.4", "pgsteal_kswapd") + of("linux-4.4", "pgsteal_direct") > 0.0);
    assert!(stalls("concentrated") < stalls("linux-4.4"));
    let served = "huge_probes_served";
    assert!(of("concentrated", served) > of("linux-4.4", served));
}

#[cfg(target_os = "linux")]
#[test]
fn lab_fallback_runs_the_same_machine_over_a_trace_in_the_phone_s_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&tight(1_000, 5), folder.path(), "tight");
    let args = [
        "lab",
        "fallback",
        "--trace",
        as_str(&path),
        "--squeeze",
        "500",
    ];
    let (code, out, error) = run(&args);
    assert_eq!(code, Some(0), "{error}");
    let (hollow, rest) = out.split_once("\n\n").unwrap();
    let (answer, table) = rest.split_once("\n\n").unwrap();
    let asked = "The answer for tight/imposed/b500\n";
    assert!(answer.starts_with(asked), "{answer}");
    assert!(
        hollow.contains("tight/imposed/b500: the trace is short"),
        "{out}"
    );
    assert!(table.starts_with("tight/imposed/b500: "), "{out}");
    assert!(out.contains("huge pages are requested"), "{out}");
    let (code, _, error) = run(&["lab", "fallback", "--squeeze", "500"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("--trace"), "{error}");
}
