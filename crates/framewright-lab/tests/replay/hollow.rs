//! Answers that say less than they seem to: said before the first figure, in every form.

use crate::support::{as_str, repository, run, tight, write};
use framewright_lab::trace::reduce::ReferenceRow;
use framewright_lab::trace::{Trace, TraceOp};
use std::fs;
use std::path::Path;

const FIRST: &str = "Read this first: hollow answers\n";

/// The kinds of what is hollow, which stand in the first record, and first on the terminal and in the page too.
fn hollow(trace: &str, more: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let args = [&["replay", "--policy", "linux-4.4", trace][..], more].concat();
    let (code, out, error) = run(&[&args[..], &["--html", as_str(&page)]].concat());
    assert_eq!(code, Some(0), "{error}");
    let (_, json, _) = run(&[&args[..], &["--json", "-"]].concat());
    let info: serde_json::Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
    let found = info
        .get("hollow")
        .and_then(|found| found.as_array().cloned())
        .unwrap_or_default();
    let page = fs::read_to_string(page).unwrap();
    let page = scraper::Html::parse_document(&page);
    let items = scraper::Selector::parse("main > section:first-child.hollow li").unwrap();
    let in_page: Vec<String> = page
        .select(&items)
        .map(|item| item.text().collect())
        .collect();
    let lines: Vec<&str> = match out.strip_prefix(FIRST) {
        Some(rest) => rest.lines().take_while(|line| !line.is_empty()).collect(),
        None => Vec::new(),
    };
    assert_eq!(
        (lines.len(), in_page.len()),
        (found.len(), found.len()),
        "{out}"
    );
    for ((one, line), item) in found.iter().zip(lines).zip(in_page) {
        let says = one["says"].as_str().unwrap();
        assert!(line.starts_with("  ") && line.ends_with(says), "{line}");
        assert!(item.ends_with(says), "{item}");
    }
    found
        .iter()
        .map(|one| one["kind"].as_str().unwrap().to_owned())
        .collect()
}

fn pagetypeinfo(path: &Path, free: u64) {
    blocks_of(path, 9, free);
}

fn blocks_of(path: &Path, block_order: u32, free: u64) {
    let row = |kind, n: u64| format!("Node 0, zone Normal, type {kind} {n} 0 0 0 0 0 0 0 0 0 0\n");
    let text = format!(
        "Page block order: {block_order}\n{}{}Number of blocks type Unmovable Movable\nNode 0, zone Normal 1 1\n",
        row("Unmovable", 0),
        row("Movable", free)
    );
    fs::write(path, text).unwrap();
}

#[test]
fn text_without_a_state_has_its_free_memory_invented() {
    let trace = repository("fork-storm.ftrace.gz");
    assert_eq!(hollow(&trace, &[]), ["no_state", "short_trace"]);
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("pagetypeinfo");
    pagetypeinfo(&state, 20_000);
    assert_eq!(
        hollow(&trace, &["--state", as_str(&state)]),
        ["short_trace"]
    );
}

#[test]
fn a_trace_without_events_or_too_short_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Trace {
        nframes: 1024,
        ops: vec![TraceOp::tick(1000); 20],
        ..Trace::default()
    };
    let path = write(&trace, folder.path(), "empty");
    assert_eq!(hollow(as_str(&path), &[]), ["no_events"]);
    trace = tight(300, 1);
    let path = write(&trace, folder.path(), "short");
    assert_eq!(hollow(as_str(&path), &[]), ["short_trace"]);
    let path = write(&tight(6_000, 1), folder.path(), "long");
    assert_eq!(
        hollow(as_str(&path), &[]),
        [""; 0],
        "nothing is said where nothing is hollow"
    );
}

#[test]
fn a_start_that_does_not_fit_its_machine_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&tight(6_000, 1), folder.path(), "run");
    let beside = folder.path().join("state/run");
    fs::create_dir_all(&beside).unwrap();
    let state = beside.join("before.pagetypeinfo");
    // A quarter of 8192 frames is free.
    pagetypeinfo(&state, 2_048);
    assert_eq!(hollow(as_str(&path), &[]), [""; 0]);
    pagetypeinfo(&state, 20_480);
    assert_eq!(hollow(as_str(&path), &[]), ["inconsistent_start"]);
    // What lay on CPUs' lists is free, too.
    let trace = framewright_lab::trace::Trace {
        nframes: 32_768,
        ..tight(6_000, 1)
    };
    let path = write(&trace, folder.path(), "run");
    pagetypeinfo(&state, 2_048);
    assert_eq!(hollow(as_str(&path), &[]), ["inconsistent_start"]);
    let zone = |cached: u64| {
        format!(
            "Node 0, zone Normal\n pages free 2048\n min 1\n low 2\n high 3\n spanned 32768\n present 32768\n managed 32768\n \
             cpu: 0\n count: {cached}\n high: 0\n batch: 1\n start_pfn: 0\n"
        )
    };
    for (cached, kinds) in [(24_576, &[][..]), (9_000, &["inconsistent_start"])] {
        fs::write(beside.join("before.zoneinfo"), zone(cached)).unwrap();
        assert_eq!(hollow(as_str(&path), &[]), kinds, "{cached}");
    }
}

#[test]
fn an_error_of_zero_where_nothing_happened_is_no_error_bar() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = tight(6_000, 1);
    // Nothing failed on the machine, and without a squeeze there is room for everything.
    let is_failed = |op: &TraceOp| op.kind() == framewright_lab::trace::OpKind::Failed;
    trace.ops.retain(|op| !is_failed(op));
    trace.nframes = 65_536;
    let path = write(&trace, folder.path(), "run");
    let header = ReferenceRow::HEADER;
    let rows: String = (1..31)
        .map(|n| format!("0,{},2000,0,0,0.5,1.0,4,4,100,0\n", n * 200))
        .collect();
    fs::write(
        folder.path().join("run.linux_ref.csv"),
        format!("{header}\n{rows}"),
    )
    .unwrap();
    assert_eq!(
        hollow(as_str(&path), &["--start", "fresh"]),
        [""; 0],
        "nothing fails"
    );
    let squeezed = ["--start", "fresh", "--squeeze", "58000"];
    assert_eq!(hollow(as_str(&path), &squeezed), ["zero_error"]);
    let args = [
        "replay",
        as_str(&path),
        "--policy",
        "linux-4.4,concentrated",
    ];
    let (_, out, _) = run(&[&args[..], &squeezed].concat());
    let row = out
        .lines()
        .find(|line| line.trim_start().starts_with("failures_order3 "))
        .unwrap();
    assert!(row.trim_end().ends_with("none"), "{row}");
    let verdict = out
        .lines()
        .find(|line| line.trim_start().starts_with("failures_order3 ") && line.contains("against"));
    assert!(
        !verdict.unwrap().contains("the model's error"),
        "{verdict:?}"
    );
}

#[test]
fn pageblocks_of_another_size_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&tight(3_000, 1), folder.path(), "t");
    let state = folder.path().join("state");
    for (order, is_told) in [(9, false), (4, true)] {
        blocks_of(&state, order, 2_048);
        let kinds = hollow(as_str(&trace), &["--state", as_str(&state)]);
        let told = kinds.iter().any(|kind| kind == "pageblock_order");
        assert_eq!(told, is_told, "{kinds:?}");
    }
}

#[test]
fn a_stream_without_its_end_and_lost_events_are_said_above_the_first_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.stream");
    let mut stream = "#framewright stream 1\n# tracer: nop\n".to_owned();
    for nth in 0..64 {
        stream += &format!(
            "             cat-7    [000] ..... 100.{nth:06}: mm_page_alloc: page=0000000000000000 pfn={:#x} order=0 \
             migratetype=1 gfp_flags=GFP_KERNEL\n",
            0x400 + nth
        );
    }
    stream += "CPU:0 [LOST 12 EVENTS]\n";
    std::fs::write(&path, stream).unwrap();
    let (code, out, err) = run(&["replay", "--policy", "linux-4.4", as_str(&path)]);
    assert_eq!(code, Some(0), "{err}");
    let first = out.split(FIRST).nth(1).expect("it is said first");
    let first = first.split("\n\n").next().unwrap();
    assert!(first.contains("the stream has no end: "), "{out}");
    assert!(first.contains("12 events were lost: "), "{out}");
    assert_eq!(out.matches("the stream has no end").count(), 1, "{out}");
}
