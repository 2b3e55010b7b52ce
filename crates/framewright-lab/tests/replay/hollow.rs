//! Answers that say less than they seem to: said before the first figure, in every form.

use crate::support::{as_str, repository, run, tight, write};
use framewright_lab::trace::reduce::ReferenceRow;
use framewright_lab::trace::{STREAM_MAGIC, Trace, TraceOp, section_line};
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

/// A stream as a board's recorder makes it: with pageblocks of that order, a contiguous area of two of them, blocks up to
/// `order_max`, and pages of that many KiB. Its zone has 65,536 frames, and 61,440 of them are the allocator's.
fn board(block_order: u32, order_max: usize, page_kib: u64) -> Vec<u8> {
    let row = |kind: &str, last: u64| {
        let zeros = "0 ".repeat(order_max);
        format!("Node    0, zone   Normal, type {kind:>12} {zeros}{last}\n")
    };
    let types = format!(
        "Page block order: {block_order}\nPages per block:  {}\n\nFree pages count per migrate type at order\n{}{}{}{}\n\
         Number of blocks type    Unmovable      Movable          CMA      Isolate\n\
         Node 0, zone   Normal           20           90            2            0\n",
        1 << block_order,
        row("Unmovable", 1),
        row("Movable", 2),
        row("CMA", 3),
        row("Isolate", 0),
    );
    let free = 6_u64 << order_max;
    let zones = format!(
        "Node 0, zone   Normal\n  pages free     {free}\n        boost    0\n        min      100\n        low      125\n        \
         high     150\n        spanned  65536\n        present  65536\n        managed  61440\n        cma      1024\n        \
         protection: (0, 0)\n      nr_free_pages {free}\n      nr_free_cma  7\n  pagesets\n    cpu: 0\n              \
         count: 0\n              high:  14\n              batch: 3\n  start_pfn:           0\n"
    );
    let memory = format!("MemTotal:       {} kB\nMemFree: 1 kB\n", 61_440 * page_kib);
    let line = |nth: usize, event: &str| {
        format!("             cat-7    [000] ..... 100.{nth:06}: {event}\n")
    };
    let mut events = "# tracer: nop\n".to_owned();
    for nth in 0..64 {
        events += &line(
            nth,
            &format!(
                "mm_page_alloc: page=0000000000000000 pfn={:#x} order=0 migratetype=1 gfp_flags=GFP_KERNEL",
                0x400 + nth
            ),
        );
    }
    events += &line(
        70,
        &format!(
            "mm_page_alloc_extfrag: page=a pfn=0x500 alloc_order=0 fallback_order={order_max} pageblock_order={block_order} \
             alloc_migratetype=0 fallback_migratetype=1 fragmenting=0 change_ownership=0"
        ),
    );
    let section = |name: &str, text: &str| [section_line(name, text.len()), text.into()].concat();
    [
        STREAM_MAGIC.to_vec(),
        section("before.pagetypeinfo", &types),
        section("before.zoneinfo", &zones),
        section("before.meminfo", &memory),
        section("kernel", "6.12.0"),
        events.into_bytes(),
        section("end", "as asked\n"),
    ]
    .concat()
}

#[test]
fn a_board_s_pageblocks_contiguous_areas_and_pages_are_told_and_its_memory_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.stream");
    for (block_order, order_max, page_kib, kinds) in [
        (9, 10, 4, &["contiguous_areas"][..]),
        (5, 10, 4, &["pageblock_order", "contiguous_areas"]),
        (8, 10, 4, &["pageblock_order", "contiguous_areas"]),
        (10, 10, 4, &["pageblock_order", "contiguous_areas"]),
        (9, 12, 4, &["contiguous_areas"]),
        (
            11,
            11,
            16,
            &["pageblock_order", "contiguous_areas", "page_size"],
        ),
    ] {
        fs::write(&path, board(block_order, order_max, page_kib)).unwrap();
        let of = format!("pageblocks of order {block_order}, blocks up to {order_max}");
        let mut expected = kinds.to_vec();
        expected.push("short_trace");
        for watermarks in ["auto", "on", "off"] {
            let args = ["--watermarks", watermarks];
            assert_eq!(hollow(as_str(&path), &args), expected, "{of}");
        }
        let (code, out, error) = run(&["replay", as_str(&path), "--policy", "linux-6.12"]);
        assert_eq!(code, Some(0), "{error}");
        let area = (2_u64 << block_order) * page_kib / 1024;
        let says = format!(" had {area} MiB in contiguous areas (CMA)");
        assert!(out.contains(&says), "{of}: {out}");
        // All that was free is free here, a contiguous area and blocks above order 10 among it, but what the requests took.
        let (code, out, error) = run(&[
            "replay",
            as_str(&path),
            "--policy",
            "linux-6.12",
            "--format",
            "buddyinfo",
        ]);
        assert_eq!(code, Some(0), "{error}");
        let row = out.lines().find(|line| line.starts_with("Node")).unwrap();
        let blocks = row
            .split_whitespace()
            .skip(4)
            .map(|n| n.parse::<u64>().unwrap());
        let free: u64 = (0..).zip(blocks).map(|(order, n)| n << order).sum();
        // Some lie on a CPU's lists.
        let cached = ((6 << order_max) - 64_u64).checked_sub(free);
        assert!(cached.is_some_and(|frames| frames < 64), "{of}: {row}");
    }
}

#[test]
fn text_tells_the_order_of_pageblocks_by_its_fallbacks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.txt");
    for (order, is_told) in [("9", false), ("7", true), ("70", false), ("x", false)] {
        let event = "mm_page_alloc: page=0000000000000000 pfn=0x400 order=0 migratetype=1 gfp_flags=GFP_KERNEL";
        let text = format!(
            "             cat-7    [000] ..... 100.000001: {event}\n             cat-7    [000] ..... 100.000002: \
             mm_page_alloc_extfrag: page=a pfn=0x500 alloc_order=0 fallback_order=10 pageblock_order={order} \
             alloc_migratetype=0 fallback_migratetype=1 fragmenting=0 change_ownership=0\n"
        );
        fs::write(&path, text).unwrap();
        let kinds = hollow(as_str(&path), &[]);
        let told = kinds.iter().any(|kind| kind == "pageblock_order");
        assert_eq!(told, is_told, "{order}: {kinds:?}");
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
