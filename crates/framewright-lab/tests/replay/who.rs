//! The askers: the tables, the answer and the records, on a trace that can be counted by hand.

use crate::support::{as_str, repository, run, tight};
use framewright::{Frame, Mobility, Order};
use framewright_lab::trace::{
    Askers, InitClass, InitObject, Trace, TraceDigest, TraceOp, write_frames, write_frames_digest,
    write_pft2,
};
use std::path::{Path, PathBuf};

/// Where the recording kernel put each allocation of [`trace`].
const CHOSEN: [u32; 5] = [2, 1, 4, 600, 601];

/// Two blocks of 512 frames. `cc1` is two tasks; the name of the third one is an order to terminals.
fn trace() -> Trace {
    let order = |n| Order::new(n).unwrap();
    let (movable, fixed) = (Mobility::Movable, Mobility::Unmovable);
    let alloc = |failed, n, mobility, pid| TraceOp::alloc(failed, order(n), mobility, 0, 0, pid);
    let mut askers = Askers::default();
    for name in [&b"cc1"[..], b"a\x1b[2J", b"cc1"] {
        askers.comms.push(name);
    }
    for name in [
        &b"__alloc_pages_noprof"[..],
        b"skb_page_frag_refill",
        b"tcp_sendmsg",
    ] {
        askers.chains.functions.push(name);
    }
    askers.chains.push(&[0, 1, 2]);
    askers.chain_of = vec![
        0,
        Askers::NO_CHAIN,
        0,
        0,
        Askers::NO_CHAIN,
        Askers::NO_CHAIN,
    ];
    Trace {
        nframes: 1024,
        init: vec![InitObject {
            frame: Frame(0),
            class: InitClass::Movable,
        }],
        gfp: vec![0xcc0],
        ops: vec![
            alloc(false, 1, fixed, 0),
            alloc(false, 0, movable, 1),
            alloc(false, 2, fixed, 2),
            alloc(true, 3, fixed, 1),
            alloc(false, 0, movable, 1),
            TraceOp::free_part(3, 2, order(1), 0),
            alloc(false, 0, fixed, 1),
            TraceOp::free(5, order(0), 0),
            TraceOp::tick(5),
        ],
        askers,
        ..Trace::default()
    }
}

/// Writes the trace, and the frames beside it.
fn write(trace: &Trace, folder: &Path, frames: Option<&[u32]>) -> PathBuf {
    let mut bytes = Vec::new();
    write_pft2(trace, &mut bytes).unwrap();
    let path = folder.join("t.pft");
    std::fs::write(&path, &bytes).unwrap();
    if let Some(frames) = frames {
        let mut beside = Vec::new();
        write_frames_digest(TraceDigest::of(&bytes), &mut beside).unwrap();
        write_frames(frames, &mut beside).unwrap();
        std::fs::write(folder.join("t.pfn.zst"), beside).unwrap();
    }
    path
}

/// The rows of the table by that, as words.
fn table(out: &str, by: &str, layout: &str) -> Vec<String> {
    let title = format!("t/imposed/b0: who, by {by}, in the layout of {layout}\n");
    let (_, rest) = out
        .split_once(&title)
        .unwrap_or_else(|| panic!("{title}{out}"));
    let lines = rest
        .lines()
        .skip_while(|line| !line.trim_start().starts_with("--"))
        .skip(1);
    let rows = lines.take_while(|line| line.starts_with(' '));
    rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

/// Fixed and movable frames in mixed blocks, blocks made mixed, failures, requests.
const BY_REQUEST: [&str; 5] = [
    "order 1, may reclaim, reported 2 0 1 0 1",
    "order 2, may reclaim, reported 2 0 0 0 1",
    "order 0, may reclaim, reported 0 1 1 0 3",
    "order 3, may reclaim, reported 0 0 0 1 1",
    "(before the recording) 0 1 0 0 0",
];

#[test]
fn the_table_says_who_asked_and_who_holds_what_is_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&trace(), folder.path(), Some(&CHOSEN));
    let (code, out, error) = run(&["replay", as_str(&path), "--policy", "framewright"]);
    assert_eq!(code, Some(0), "{error}");
    // Fixed and movable frames in mixed blocks, blocks made mixed, failures, requests.
    let by_command = [
        "cc1 4 0 1 0 2",
        "a\\u{1b}[2J 0 1 1 1 4",
        "(before the recording) 0 1 0 0 0",
    ];
    assert_eq!(
        table(&out, "command", "the recorded kernel"),
        by_command,
        "{out}"
    );
    let by_caller = [
        "skb_page_frag_refill 4 0 1 1 3",
        "(no call chain) 0 1 1 0 3",
        "(before the recording) 0 1 0 0 0",
    ];
    assert_eq!(
        table(&out, "caller", "the recorded kernel"),
        by_caller,
        "{out}"
    );
    assert_eq!(
        table(&out, "request", "the recorded kernel"),
        BY_REQUEST,
        "{out}"
    );
    let says = "t the end 4 frames that cannot move share pageblocks with movable ones: 0 of them were held \
                before the recording, and of those whose asker has a name cc1 holds the most: 4 frames.";
    assert!(out.contains(says), "{out}");
    assert!(!out.contains('\x1b'));
    let (_, json, _) = run(&["replay", as_str(&path), "--json", "-"]);
    let records = json
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let cc1: Vec<_> = records
        .filter(|record| record["by"] == "command" && record["who"] == "cc1")
        .map(|record| {
            assert_eq!(
                (&record["variant"], &record["source"]),
                (&"linux".into(), &"measured".into())
            );
            (
                record["metric"].as_str().unwrap().to_owned(),
                record["value"].as_u64().unwrap(),
            )
        })
        .collect();
    let expected = [
        ("who_requests", 2),
        ("who_failures_reported", 0),
        ("who_blocks_made_mixed", 1),
        ("who_fixed_frames_in_mixed", 4),
        ("who_movable_frames_in_mixed", 0),
    ];
    let expected: Vec<(String, u64)> = expected
        .map(|(name, value)| (name.to_owned(), value))
        .to_vec();
    assert_eq!(cc1, expected);
    let (code, said, _) = run(&["explain", "who_blocks_made_mixed"]);
    assert_eq!(code, Some(0));
    assert!(said.contains("made a 2 MiB block mixed"), "{said}");
}

#[test]
fn without_the_kernels_frames_the_layout_is_that_of_its_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&trace(), folder.path(), None);
    // The same, whether these rules are a column or not.
    for policy in ["framewright", "linux-6.12,framewright"] {
        let (code, out, error) = run(&["replay", as_str(&path), "--policy", policy]);
        assert_eq!(code, Some(0), "{error}");
        let rows = table(&out, "command", "linux-6.12");
        assert!(
            rows.iter()
                .any(|row| row.starts_with("cc1 ") && row.ends_with(" 0 2")),
            "{out}"
        );
        assert!(
            rows.iter()
                .any(|row| row.starts_with("a\\u{1b}[2J ") && row.ends_with(" 1 4")),
            "{out}"
        );
    }
    // With less memory than it needs, failures are the replay's.
    let args = [
        "replay",
        as_str(&path),
        "--policy",
        "linux-6.12",
        "--squeeze",
        "1023",
    ];
    let (code, out, error) = run(&args);
    assert_eq!(code, Some(0), "{error}");
    let row = out
        .lines()
        .find(|line| line.trim_start().starts_with("cc1 "));
    let row = row.unwrap_or_else(|| panic!("{out}"));
    let words: Vec<&str> = row.split_whitespace().collect();
    // Fixed and movable frames in mixed blocks, blocks made mixed, fallbacks, failures, requests.
    assert_eq!(words[1..5], ["0"; 4], "{out}");
    assert_eq!(words[5..7], ["2", "2"], "both of its requests fail: {out}");
}

#[test]
fn a_recording_without_names_says_so() {
    let (code, out, error) = run(&[
        "replay",
        &repository("sample.pft.zst"),
        "--policy",
        "linux-6.12",
    ]);
    assert_eq!(code, Some(0), "{error}");
    assert!(!out.contains("who, by"), "{out}");
    let says =
        "he recording does not say who holds the frames in the way, because it has no names.";
    assert!(out.contains(says), "{out}");
}

#[test]
fn a_timed_replay_counts_by_no_asker_so_each_policy_does_the_same_work() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&trace(), folder.path(), None);
    let asked = [
        "replay",
        as_str(&path),
        "--policy",
        "linux-6.12,framewright",
    ];
    let (_, out, _) = run(&asked);
    assert!(out.contains(": who, by command"), "{out}");
    let (code, out, error) = run(&[&asked[..], &["--time"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(!out.contains(": who, by command"), "{out}");
}

#[test]
fn stacks_are_written_as_flame_graphs_are_drawn_from_and_by_the_rules_of_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&trace(), folder.path(), Some(&CHOSEN));
    let (trace, file) = (as_str(&path), folder.path().join("stacks"));
    let asked = |file: &Path, more: &[&str]| {
        let args = [
            "replay",
            trace,
            "--policy",
            "linux-6.12",
            "--stacks",
            as_str(file),
        ];
        run(&[&args[..], more].concat())
    };
    let (code, out, error) = asked(&file, &[]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(out.contains("who, by caller"), "{out}");
    let held = "cc1;tcp_sendmsg;skb_page_frag_refill;__alloc_pages 4\n";
    assert_eq!(std::fs::read_to_string(&file).unwrap(), held);
    let (code, out, _) = asked("-".as_ref(), &["--stacks-by", "mixed"]);
    let mixed =
        "a\\u{1b}[2J;(no call chain) 1\ncc1;tcp_sendmsg;skb_page_frag_refill;__alloc_pages 1\n";
    assert_eq!((code, out.as_str()), (Some(0), mixed));
    let (code, _, error) = asked(&path, &[]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("--stacks would replace what is read from"),
        "{error}"
    );
    let (code, _, error) = asked(&file, &["--json", as_str(&file)]);
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("--stacks"), "{error}");
    for more in [&["--json", "-"][..], &["--format", "buddyinfo"]] {
        let (code, out, error) = asked("-".as_ref(), more);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), held, "as before");
    // One that names nothing has no stacks.
    let sample = repository("sample.pft.zst");
    let (code, _, error) = run(&["replay", &sample, "--stacks", as_str(&file)]);
    assert_eq!(code, Some(2));
    let says =
        "--stacks: sample does not name the askers, expected a recording with the names of tasks";
    assert!(error.contains(says), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), held, "as before");
}

#[test]
fn a_flame_graph_has_who_holds_and_who_mixed_and_follows_the_rules_of_outputs() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&trace(), folder.path(), Some(&CHOSEN));
    let (trace, file) = (as_str(&path), folder.path().join("flame.svg"));
    let asked = |traces: &[&str], file: &Path| {
        let args = ["--policy", "linux-6.12", "--flame", as_str(file)];
        run(&[&["replay"], traces, &args].concat())
    };
    let (code, _, error) = asked(&[trace], &file);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let svg = std::fs::read_to_string(&file).unwrap();
    for says in [
        "<title>skb_page_frag_refill: 4 frames (100.0 %)</title>",
        "held in mixed pageblocks at the end: 4 frames</text>",
        "times that a pageblock was made mixed: 2 times</text>",
        "<title>a\\u{1b}[2J: 1 times (50.0 %)</title>",
    ] {
        assert!(svg.contains(says), "{says}\nis not in\n{svg}");
    }
    assert!(!svg.contains('\u{1b}'), "{svg}");
    asked(&[trace], &file);
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        svg,
        "the same bytes"
    );
    for (bad, says) in [
        (&path, "--flame would replace what is read from"),
        (&"-".into(), "--flame - wants standard output"),
    ] {
        let (code, _, error) = asked(&[trace], bad);
        assert_eq!(code, Some(2));
        assert!(error.contains(says), "{error}");
    }
    let (code, _, error) = asked(&[&repository("sample.pft.zst")], &file);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("--flame: sample does not name the askers"),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), svg, "as before");
}

#[test]
fn a_dump_of_page_owner_stands_beside_a_recording_that_names_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = crate::support::write(&tight(300, 1), folder.path(), "t");
    let dump = folder.path().join("owners");
    let block = |pfn: u64, mobility: &str, function: &str| {
        format!(
            "Page allocated via order 3, mask 0xcc0(GFP_KERNEL), pid 1, tgid 1 (a\u{1b}[2J), ts 1 ns\n\
             PFN 0x{pfn:x} type {mobility} Block {} type Movable Flags 0x0()\n \
             post_alloc_hook+0x1f3/0x230\n get_page_from_freelist+0x12b1/0x1430\n \
             alloc_pages_noprof+0x1/0x2\n {function}+0x1/0x2 [a_module]\n\n",
            pfn >> 9
        )
    };
    let text = block(0, "Movable", "do_anonymous_page")
        + &block(8, "Unmovable", "__alloc_skb")
        + &block(1024, "Unmovable", "new_inode");
    std::fs::write(&dump, &text).unwrap();
    let asked = |traces: &[&str], more: &[&str]| {
        let args = ["--policy", "linux-6.12", "--page-owner", as_str(&dump)];
        run(&[&["replay"], traces, &args, more].concat())
    };
    let (code, out, error) = asked(&[as_str(&path)], &[]);
    assert_eq!((code, error.as_str()), (Some(0), ""));
    let says = "by page_owner __alloc_skb is the caller that holds the most of what is in the way in mixed pageblocks: 8 of 8 frames.";
    assert!(out.contains(says), "{out}");
    assert!(
        out.contains("t/imposed/b0: frames held, by caller, as page_owner has them"),
        "{out}"
    );
    assert!(
        out.contains("a\\u{1b}[2J") && !out.contains('\u{1b}'),
        "{out}"
    );
    let (_, json, _) = asked(&[as_str(&path)], &["--json", "-"]);
    let rows: Vec<&str> = json
        .lines()
        .filter(|line| line.contains(r#""variant":"page_owner""#))
        .collect();
    assert_eq!(rows.len(), 4, "{json}");
    assert!(
        rows[0].contains(r#""value":8"#) && rows[0].contains(r#""who":"__alloc_skb""#),
        "{rows:?}"
    );
    assert!(json.contains(r#""page_owner":"given""#), "{json}");
    let page = folder.path().join("page.html");
    let (code, _, _) = asked(&[as_str(&path)], &["--html", as_str(&page)]);
    assert_eq!(code, Some(0));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("frames held, by caller, as page_owner has them"));
    // Standard input is read once.
    let (code, _, error) = run(&["replay", "-", "--page-owner", "-"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("two inputs are both -"), "{error}");
    // It is an input, of one machine, and is looked at before the work.
    let (code, _, error) = asked(&[as_str(&path)], &["--json", as_str(&dump)]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("--json would replace what is read from"),
        "{error}"
    );
    let sample = repository("sample.pft.zst");
    let (code, _, error) = asked(&[as_str(&path), &sample], &[]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("--page-owner: a dump is of one machine, expected one trace"),
        "{error}"
    );
    std::fs::write(&dump, "hello\n").unwrap();
    let (code, _, error) = asked(&[as_str(&path)], &[]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("owners:1: 'hello', expected 'Page allocated via order"),
        "{error}"
    );
}

#[test]
fn with_reclaim_the_askers_are_those_of_the_kernel_that_reclaims() {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&trace(), folder.path(), Some(&CHOSEN));
    let (code, out, error) = run(&["replay", as_str(&path), "--reclaim"]);
    assert_eq!(code, Some(0), "{error}");
    let rows = table(&out, "command", "linux-4.4");
    assert!(
        rows.iter()
            .any(|row| row.ends_with(" 0 2") && row.starts_with("cc1 ")),
        "{out}"
    );
    // Fallbacks stand only where a policy says so.
    assert!(!out.contains("fall-"), "{out}");
    let (_, out, _) = run(&["replay", as_str(&path), "--squeeze", "1"]);
    assert!(out.contains("fall-"), "{out}");
}

/// The task list of a stream is from before its first event.
#[test]
fn a_task_that_became_another_program_before_tracing_began_is_called_as_its_events_call_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("board.stream");
    let mut stream =
        "#framewright stream 1\n#section tasks 10\n4774 bash\n# tracer: nop\n".to_owned();
    for nth in 0..512 {
        stream += &format!(
            "         python3-4774    [000] ..... {}.{nth:06}: mm_page_alloc: page=0000000000000000 pfn={:#x} order=0 \
             migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE\n",
            100 + nth / 64,
            0x400 + nth
        );
    }
    std::fs::write(&path, stream).unwrap();
    let (code, out, err) = run(&["replay", "--policy", "linux-4.4", as_str(&path)]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("python3") && !out.contains("bash"), "{out}");
}
