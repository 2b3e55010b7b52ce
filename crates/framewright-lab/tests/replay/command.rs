//! Outputs, assertions, bad input.

use crate::support::{as_str, repository, run, tight, write};
use framewright_lab::trace::Trace;
use std::fs;
use std::path::PathBuf;

struct ReplayFolder {
    folder: tempfile::TempDir,
    trace: PathBuf,
}

impl ReplayFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trace = write(&tight(3_000, 3), folder.path(), "tight");
        Self { folder, trace }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn trace(&self) -> &str {
        as_str(&self.trace)
    }
}

#[test]
fn the_table_has_a_column_a_policy_and_a_verdict() {
    let folder = ReplayFolder::new();
    let (code, out, _) = run(&[
        "replay",
        folder.trace(),
        "--time",
        "--policy",
        "before,framewright",
    ]);
    assert_eq!(code, Some(0));
    assert!(out.contains("\ntight/imposed/b0: 3"), "{out}");
    assert!(
        out.contains("linux-") && out.contains("concentrated"),
        "{out}"
    );
    for row in [
        "contaminated_blocks ",
        "unusable_index_order3 ",
        "failures_order3 ",
        "replay_ns",
    ] {
        assert!(out.contains(&format!("\n {row}")), "{row} in\n{out}");
    }
    assert!(
        out.contains("concentrated against the best of 1 others"),
        "{out}"
    );
    assert!(out.contains("not calibrated"), "{out}");
}

#[test]
fn a_page_has_a_map_of_each_policy_and_each_row_of_the_table() {
    let folder = ReplayFolder::new();
    let page = folder.path("page.html");
    fs::write(&page, "an earlier one").unwrap();
    let args = [
        "replay",
        folder.trace(),
        "--html",
        as_str(&page),
        "--policy",
    ];
    let other: &[&str] = &["before,linux-6.12,framewright"];
    let reclaiming: &[&str] = &["before,proposed,framewright", "--reclaim"];
    for more in [other, reclaiming] {
        let (code, out, error) = run(&[&args[..], more].concat());
        assert_eq!(code, Some(0), "{error}");
        let text = fs::read_to_string(&page).unwrap();
        assert!(text.starts_with("<!DOCTYPE html>"), "{}", &text[..40]);
        let parsed = scraper::Html::parse_document(&text);
        assert_eq!(parsed.errors, Vec::<String>::new());
        let select = |selector: &str| -> Vec<String> {
            let selector = scraper::Selector::parse(selector).unwrap();
            let text = |e: scraper::ElementRef<'_>| e.text().collect::<String>();
            parsed.select(&selector).map(text).collect()
        };
        let names = select("tbody th[scope=row]");
        let rows: Vec<&str> = out
            .lines()
            .skip_while(|line| !line.starts_with("--"))
            .skip(1)
            .take_while(|line| line.starts_with(' '))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert!(rows.len() > 5, "{out}");
        for row in rows {
            assert!(
                names.iter().any(|name| name.starts_with(row)),
                "no row {row}"
            );
        }
        // Three moments of three policies, without a script.
        assert_eq!(select("figure.map .printed figure svg").len(), 9);
        // Memory in six figures, and the orders that fail.
        let plots = select(".plots figure.plot > figcaption");
        assert!((6..=10).contains(&plots.len()), "{plots:?}");
        for title in ["unusable index, order 9", "mixed blocks", "free memory"] {
            assert!(plots.iter().any(|plot| plot.ends_with(title)), "{plots:?}");
        }
        assert!(!text.contains("http"), "nothing is loaded");
    }
}

#[test]
fn a_page_that_has_no_place_is_told_before_the_replay() {
    let folder = ReplayFolder::new();
    let page = folder.path("none/page.html");
    let (code, out, error) = run(&["replay", "no-such-trace", "--html", as_str(&page)]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(error.contains("page.html: cannot write: "), "{error}");
    let (code, _, error) = run(&["replay", folder.trace(), "--html", "-"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("expected a file's name"), "{error}");
}

#[test]
fn linux_s_own_layouts_are_printed_of_the_final_state() {
    let folder = ReplayFolder::new();
    let args = [
        "replay",
        folder.trace(),
        "--policy",
        "linux-6.12",
        "--format",
        "pagetypeinfo",
    ];
    let (_, out, _) = run(&args);
    let text = out.strip_prefix("# tight/imposed/b0 linux-6.12\n").unwrap();
    let info = framewright_lab::trace::state::read_pagetypeinfo("out", text.trim_end()).unwrap();
    let labels = framewright::Mobility::ALL.map(|m| info.pageblocks(m));
    assert_eq!(labels.iter().sum::<u64>(), 16);
    let (_, out, _) = run(&[
        "replay",
        folder.trace(),
        "--policy",
        "linux-6.12",
        "--format",
        "buddyinfo",
    ]);
    let line = out.lines().nth(1).unwrap();
    let counts: Vec<u64> = line
        .split_whitespace()
        .skip(4)
        .map(|word| word.parse().unwrap())
        .collect();
    let listed: Vec<u64> = (0..11)
        .map(|order| {
            framewright::Mobility::ALL
                .iter()
                .map(|&m| info.free_blocks(m, order))
                .sum()
        })
        .collect();
    assert_eq!(counts, listed);
}

#[test]
fn the_series_has_a_row_each_interval_and_policy() {
    let folder = ReplayFolder::new();
    let csv = folder.path("a.csv");
    let args = [
        "replay",
        folder.trace(),
        "--policy",
        "linux-4.4,concentrated",
        "--every",
        "2.5",
    ];
    let (code, _, error) = run(&[&args[..], &["--csv", as_str(&csv)]].concat());
    assert_eq!(code, Some(0), "{error}");
    let text = fs::read_to_string(&csv).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..4], ["case", "variant", "ms", "free_frames"]);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    let times = |policy| -> Vec<u64> {
        let of = rows.iter().filter(|row| row[1] == policy);
        of.map(|row| row[2].parse().unwrap()).collect()
    };
    // Ticks are 200 ms apart.
    assert_eq!(times("linux-4.4")[..3], [200, 2800, 5400]);
    assert_eq!(times("linux-4.4"), times("concentrated"));

    // The same series in Perfetto's format: the first packet names a group of tracks.
    let trace = folder.path("a.pftrace");
    let (code, _, error) = run(&[&args[..], &["--perfetto", as_str(&trace)]].concat());
    assert_eq!(code, Some(0), "{error}");
    let bytes = fs::read(&trace).unwrap();
    assert_eq!(bytes[0], 1 << 3 | 2, "field 1, a message");
    let counts = |name: &str| {
        bytes
            .windows(name.len())
            .filter(|at| *at == name.as_bytes())
            .count()
    };
    assert_eq!(counts(": linux-4.4"), 1);
    assert_eq!(counts(": concentrated"), 1);
    assert_eq!(counts(": the recording machine"), 1);
    assert_eq!(counts("mixed pageblocks"), 2);
    let (code, _, error) = run(&[&args[..], &["--perfetto", "-"]].concat());
    assert_eq!(code, Some(2));
    assert!(
        error.contains("--perfetto - wants standard output"),
        "{error}"
    );
}

#[test]
fn figures_are_flat_records_behind_one_that_describes_the_run() {
    let folder = ReplayFolder::new();
    let json = folder.path("a.jsonl");
    let args = [
        "replay",
        folder.trace(),
        "--policy",
        "linux-4.4",
        "--json",
        as_str(&json),
    ];
    let (code, out, _) = run(&[&args[..], &["--start", "fresh", "--squeeze", "9"]].concat());
    assert_eq!(code, Some(0));
    assert!(
        out.contains("tight/fresh/b9"),
        "the table comes besides: {out}"
    );
    let text = fs::read_to_string(&json).unwrap();
    let records: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for key in ["machine", "commit", "seed", "options"] {
        assert!(records[0].get(key).is_some(), "{key}");
    }
    assert_eq!(records[0]["options"]["squeeze"], "9");
    // In this order: an engineer may read the lines as they are, or cut fields out of them.
    let keys = [
        "experiment",
        "case",
        "variant",
        "metric",
        "value",
        "unit",
        "source",
    ];
    for (line, record) in text.lines().zip(&records).skip(1) {
        let at = keys.map(|key| line.find(&format!("\"{key}\":")).unwrap());
        assert!(at.is_sorted(), "{line}");
        // The answer has its sentences besides.
        let says = record["says"].as_array();
        assert_eq!(says.is_some(), record["variant"] == "answer", "{line}");
        let more = usize::from(says.is_some());
        assert_eq!(record.as_object().unwrap().len(), keys.len() + more);
        assert_eq!(record["case"], "tight/fresh/b9");
    }
    let has = |metric: &str| records[1..].iter().any(|record| record["metric"] == metric);
    for metric in [
        "free_frames",
        "unusable_index_order9",
        "failures_order10",
        "fallbacks_movable_unmovable",
    ] {
        assert!(has(metric), "{metric}");
    }
}

#[test]
fn an_assertion_that_does_not_hold_is_exit_code_1_with_the_figures() {
    let folder = ReplayFolder::new();
    let check = |assertion: &str| {
        run(&[
            "replay",
            folder.trace(),
            "--policy",
            "before,concentrated",
            "--assert",
            assertion,
        ])
    };
    assert_eq!(check("framewright.false_failures==0").0, Some(0));
    let (code, out, error) = check("linux-4.4.free_frames<0.5");
    assert_eq!(code, Some(1));
    assert!(
        error.contains("tight/imposed/b0: linux-4.4.free_frames<0.5 does not hold: "),
        "{error}"
    );
    assert!(
        out.contains("free_frames"),
        "the table is printed all the same"
    );
    let (code, _, error) = check("linux-6.12.free_frames>0");
    assert_eq!(code, Some(2));
    assert_eq!(
        error,
        "tight/imposed/b0: there is no figure linux-6.12.free_frames\n"
    );
}

#[test]
fn bad_input_is_exit_code_2_and_leaves_no_file() {
    let folder = ReplayFolder::new();
    let json = folder.path("out.jsonl");
    fs::write(folder.path("bad.txt"), "no trace at all\n").unwrap();
    let whole = fs::read(&folder.trace).unwrap();
    fs::write(folder.path("cut.pft"), &whole[..whole.len() / 2]).unwrap();
    let missing = folder.path("missing");
    let bad = folder.path("bad.txt");
    let cut = folder.path("cut.pft");
    for (path, says) in [
        (&missing, "missing: cannot open"),
        (&bad, "bad.txt:1: "),
        (&cut, "cut.pft: "),
    ] {
        let args = [
            "replay",
            folder.trace(),
            as_str(path),
            "--json",
            as_str(&json),
        ];
        let (code, out, error) = run(&args);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
        assert!(
            error.contains(says) && error.lines().count() == 1,
            "{error}"
        );
        assert!(!json.exists());
    }
    let nowhere = folder.path("no/such/folder.jsonl");
    let (code, _, error) = run(&["replay", folder.trace(), "--json", as_str(&nowhere)]);
    assert_eq!(code, Some(2));
    assert!(error.contains("folder.jsonl: cannot write: "), "{error}");
    for (args, says) in [
        (
            &["--policy", "linux-9"][..],
            "there is no policy 'linux-9', expected one of linux-4.4",
        ),
        (
            &["--assert", "concentrated.speed<1"],
            "there is no metric 'speed'",
        ),
        (&["--every", "0"], "expected a number of seconds"),
        (
            &["--squeeze", "99999999"],
            "--squeeze 99999999 is more than there is to take away",
        ),
        (&["--probe", "11"], "11 is not in 0..=10"),
        (&["--json", "-", "--csv", "-"], "both want standard output"),
    ] {
        let (code, _, error) = run(&[&["replay", folder.trace()], args].concat());
        assert_eq!(code, Some(2));
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_bad_reference_beside_the_trace_is_named_by_line() {
    let folder = ReplayFolder::new();
    let header = framewright_lab::trace::reduce::ReferenceRow::HEADER;
    fs::write(
        folder.path("tight.linux_ref.csv"),
        format!("{header}\n1,2\n"),
    )
    .unwrap();
    let (code, _, error) = run(&["replay", folder.trace()]);
    assert_eq!(code, Some(2));
    assert!(
        error.ends_with("tight.linux_ref.csv:2: 2 columns, expected 11\n"),
        "{error}"
    );
}

#[test]
fn a_reference_beside_the_trace_calibrates_and_marks() {
    let folder = ReplayFolder::new();
    let header = framewright_lab::trace::reduce::ReferenceRow::HEADER;
    let rows = "0,200,2000,0,0,0.5,1.0,4,4,100,0\n9,1200,2000,0,0,0.5,1.0,4,4,100,0\n";
    fs::write(
        folder.path("tight.linux_ref.csv"),
        format!("{header}\n{rows}"),
    )
    .unwrap();
    let (code, out, error) = run(&["replay", folder.trace(), "--json", "-"]);
    assert_eq!(code, Some(0), "{error}");
    let linux = r#""variant":"linux","metric":"free_frames","value":2000.0,"unit":"frames","source":"measured""#;
    assert!(out.contains(linux), "{out}");
    assert!(out.contains(r#""variant":"calibration","metric":"error_contaminated_blocks""#));
    let (_, out, _) = run(&["replay", folder.trace()]);
    assert!(
        out.contains("model error: how far linux-6.12 replayed"),
        "{out}"
    );
    assert!(out.contains("over 2 samples"), "{out}");
    // From a start of its own there is nothing that Linux itself did.
    let (_, out, _) = run(&["replay", folder.trace(), "--start", "fresh", "--json", "-"]);
    assert!(!out.contains(r#""variant":"linux""#));
}

#[test]
fn a_trace_comes_through_standard_input_too() {
    let folder = ReplayFolder::new();
    let output = crate::support::framewright(&["replay", "-", "--policy", "linux-4.4"])
        .write_stdin(fs::read(&folder.trace).unwrap())
        .output()
        .unwrap();
    let out = String::from_utf8(output.stdout).unwrap();
    assert!(out.contains("\nstdin/imposed/b0: "), "{out}");
}

#[test]
fn text_anomalies_are_said() {
    let (code, out, _) = run(&[
        "replay",
        &repository("fork-storm.ftrace.gz"),
        "--policy",
        "linux-4.4",
    ]);
    assert_eq!(code, Some(0));
    assert!(out.contains("anomaly: missed_frees 226"), "{out}");
    assert!(out.contains("the trace is short"), "{out}");
}

#[test]
fn p4_a_machine_far_larger_than_its_trace_is_refused_with_the_option_that_allows_it() {
    let folder = ReplayFolder::new();
    let trace = Trace {
        nframes: 1 << 30,
        ..Trace::default()
    };
    let path = write(&trace, folder.folder.path(), "large");
    let (code, _, err) = run(&["replay", as_str(&path), "--policy", "framewright"]);
    assert_eq!(code, Some(2));
    assert!(
        err.ends_with(
            "large.pft: the trace's memory has 1073741824 frames, far more than its operations \
             name: each replay takes 16384 MiB of memory, expected at most 512 MiB; \
             `--memory-limit 16384` allows it\n"
        ),
        "{err}"
    );
    let (code, _, err) = run(&[
        "replay",
        folder.trace(),
        "--policy",
        "framewright",
        "--memory-limit",
        "1",
    ]);
    assert_eq!(code, Some(0), "8192 frames take less than a MiB: {err}");
}

/// Text of one free a line, each in a chunk of its own, `apart_us` after the one above.
fn frees_in_chunks(chunks: u64, apart_us: u64) -> String {
    let mut text = String::from("# tracer: nop\n#\n");
    for i in 0..chunks {
        let us = 1_000_000 + i * apart_us;
        let (s, us, frame) = (us / 1_000_000, us % 1_000_000, i << 10);
        text += &format!(
            "            bash-1 [000] ...2. {s}.{us:06}: mm_page_free: page=x pfn={frame} order=0\n"
        );
    }
    text
}

#[test]
fn p4_text_that_names_a_chunk_a_line_is_refused_as_a_machine_and_small_to_reduce() {
    let folder = ReplayFolder::new();
    let path = folder.path("chunks.txt");
    // 80 bytes a line, each with a chunk of its own: some 2 KiB to reduce, and 16 to replay.
    fs::write(&path, frees_in_chunks(3_000, 1)).unwrap();
    let refused = |mib: &str| {
        let (code, _, err) = run(&["replay", as_str(&path), "--memory-limit", mib]);
        assert_eq!(code, Some(2));
        err
    };
    let err = refused("16");
    assert!(
        err.contains(
            "3072000 frames, far more than its operations name: each replay takes 47 MiB of memory, \
             expected at most 16 MiB; `--memory-limit 47` allows it"
        ),
        "{err}"
    );
    let err = refused("2");
    assert!(
        err.contains("chunks.txt:")
            && err.contains("the reduction of the events so far takes 3 MiB"),
        "{err}"
    );
}

#[test]
fn a_text_of_a_row_an_event_is_replayed() {
    let folder = ReplayFolder::new();
    let path = folder.path("rows.txt");
    fs::write(&path, frees_in_chunks(200, 2_000_000)).unwrap();
    let (code, _, err) = run(&["replay", as_str(&path), "--policy", "framewright"]);
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn p7_a_name_that_would_be_obeyed_or_reordered_is_shown_by_its_numbers() {
    let folder = ReplayFolder::new();
    let path = folder.path("a\u{202e}\u{1b}[2J,b.txt");
    fs::write(&path, "x\u{2066}y\n").unwrap();
    let (code, _, err) = run(&["replay", as_str(&path)]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("a\\u{202e}\\u{1b}[2J,b.txt:1: `x\\u{2066}y` is"),
        "{err}"
    );
    let trace = folder.path("a\u{202e},\"b.pft");
    fs::copy(&folder.trace, &trace).unwrap();
    let csv = folder.path("out.csv");
    let args = ["replay", as_str(&trace), "--policy", "framewright"];
    let (code, out, _) = run(&[&args[..], &["--csv", as_str(&csv)]].concat());
    assert_eq!(code, Some(0));
    assert!(!out.contains('\u{202e}'), "{out}");
    let rows = fs::read_to_string(&csv).unwrap();
    let row = rows.lines().nth(1).unwrap();
    assert!(
        row.starts_with("\"a\\u{202e},\"\"b/imposed/b0\",concentrated,"),
        "{row}"
    );
}

#[test]
fn p6_a_state_of_the_largest_numbers_is_no_panic() {
    let folder = ReplayFolder::new();
    let state = folder.path("pagetypeinfo");
    let most = u64::MAX;
    let row = |kind| {
        format!(
            "Node 0, zone Normal, type {kind} {}\n",
            vec![most.to_string(); 11].join(" ")
        )
    };
    let text = format!(
        "Page block order: 9\n{}{}Number of blocks type Unmovable Movable\nNode 0, zone Normal {most} {most}\n",
        row("Unmovable"),
        row("Movable")
    );
    fs::write(&state, text).unwrap();
    let args = ["--policy", "framewright", "--state", as_str(&state)];
    let (code, _, err) = run(&[&["replay", folder.trace()], &args[..]].concat());
    assert_eq!(code, Some(0), "{err}");
    let text = folder.path("t.txt");
    fs::write(&text, frees_in_chunks(3, 1)).unwrap();
    let (code, _, err) = run(&[&["replay", as_str(&text)], &args[..]].concat());
    assert_eq!(code, Some(2));
    assert!(
        err.contains(" frames, far more than its operations name"),
        "{err}"
    );
}
