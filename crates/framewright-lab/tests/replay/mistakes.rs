//! What a user gets wrong, and must not pay for.

use crate::support::{as_str, run, tight, write};
use framewright_lab::trace::reduce::ReferenceRow;
use framewright_lab::trace::{TraceDigest, write_frames, write_frames_digest};
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Refused with that message, and everything is as it was.
fn refused(args: &[&str], says: &str) {
    let (code, out, error) = run(&[&["replay", "--policy", "linux-4.4"], args].concat());
    assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}: {error}");
    assert!(error.contains(says), "{args:?}: {error}");
}

fn replayed(args: &[&str]) -> String {
    let (code, out, error) = run(&[&["replay", "--policy", "linux-4.4"], args].concat());
    assert_eq!(code, Some(0), "{args:?}: {error}");
    out
}

#[test]
fn of1_a_recording_is_not_replaced_by_an_output_whatever_it_is_called() {
    let folder = folder();
    let trace = write(&tight(300, 1), folder.path(), "t");
    let bytes = fs::read(&trace).unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::hard_link(&trace, at("hard")).unwrap();
    std::os::unix::fs::symlink(&trace, at("soft")).unwrap();
    for name in ["t.pft", "hard", "soft"] {
        for option in ["--html", "--json", "--csv", "--perfetto"] {
            let says = format!("{option} would replace what is read from");
            refused(&[as_str(&trace), option, as_str(&at(name))], &says);
        }
    }
    // What lies beside it is read too, and so is what an option names.
    fs::write(at("t.linux_ref.csv"), ReferenceRow::HEADER).unwrap();
    let beside = at("t.linux_ref.csv");
    refused(&[as_str(&trace), "--csv", as_str(&beside)], "would replace");
    fs::write(at("state"), "Page block order: 9\n").unwrap();
    let state = at("state");
    let (trace, state) = (as_str(&trace), as_str(&state));
    refused(&[trace, "--state", state, "--json", state], "would replace");
    assert_eq!(fs::read(trace).unwrap(), bytes);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
}

#[test]
fn of1_another_recording_is_not_replaced_by_an_output() {
    let folder = folder();
    let trace = write(&tight(300, 1), folder.path(), "t");
    let other = write(&tight(300, 2), folder.path(), "other");
    let bytes = fs::read(&other).unwrap();
    for option in ["--html", "--json", "--csv", "--perfetto", "--stacks"] {
        let says = format!("{option} would replace a recording, expected another name");
        refused(&[as_str(&trace), option, as_str(&other)], &says);
    }
    assert_eq!(fs::read(other).unwrap(), bytes);
}

#[test]
fn what_lies_beside_a_recording_is_told_from_it() {
    let folder = folder();
    let path = folder.path().join("t.pfn.zst");
    let mut bytes = Vec::new();
    write_frames_digest(TraceDigest::of(b""), &mut bytes).unwrap();
    write_frames(&[1, 2], &mut bytes).unwrap();
    fs::write(&path, bytes).unwrap();
    refused(
        &[as_str(&path)],
        "t.pfn.zst: this is what a recording has beside it (NAME.pfn.zst), expected the recording itself, NAME.pft.zst",
    );
}

#[test]
fn of1_two_outputs_want_two_files() {
    let folder = folder();
    let trace = write(&tight(300, 1), folder.path(), "t");
    let new = folder.path().join("new");
    let detour = folder
        .path()
        .join("../")
        .join(folder.path().file_name().unwrap());
    let again = detour.join("new");
    let args = [
        as_str(&trace),
        "--html",
        as_str(&new),
        "--json",
        as_str(&again),
    ];
    refused(&args, "want the same file, expected two");
    assert!(!new.exists());
}

fn reference(first: &str, free_frames: u64) -> String {
    let header = ReferenceRow::HEADER;
    format!("{first}{header}\n0,200,{free_frames},0,0,0.5,1.0,4,4,100,0\n")
}

#[test]
fn only_a_recording_s_ending_is_left_out_when_files_beside_it_are_looked_for() {
    let folder = folder();
    let trace = write(&tight(300, 1), folder.path(), "t");
    for (name, free) in [("run.1", 4321), ("run.2", 1234)] {
        let at = |ending: &str| folder.path().join(format!("{name}{ending}"));
        fs::copy(&trace, at(".pft")).unwrap();
        fs::write(at(".linux_ref.csv"), reference("", free)).unwrap();
    }
    let linux = |name: &str| {
        let path = folder.path().join(name);
        let out = replayed(&[as_str(&path), "--json", "-"]);
        let of = |line: &&str| line.contains(r#""variant":"linux","metric":"free_frames""#);
        out.lines().find(of).unwrap().to_owned()
    };
    assert!(linux("run.1.pft").contains(r#""value":4321.0"#));
    assert!(linux("run.2.pft").contains(r#""value":1234.0"#));
}

/// Two traces, and the digest of each.
fn two(folder: &Path) -> [(PathBuf, TraceDigest); 2] {
    [("a", 1), ("b", 2)].map(|(name, seed)| {
        let path = write(&tight(300, seed), folder, name);
        let digest = TraceDigest::of(&fs::read(&path).unwrap());
        (path, digest)
    })
}

#[test]
fn a_reference_of_another_trace_is_refused_and_one_of_an_earlier_version_is_noted() {
    let folder = folder();
    let [(a, of_a), (_, of_b)] = two(folder.path());
    let beside = folder.path().join("a.linux_ref.csv");
    fs::write(&beside, reference(&of_b.line(), 2000)).unwrap();
    let says = format!("(sha256 {of_b}, expected {of_a}): rename it or remove it");
    refused(&[as_str(&a)], &says);
    refused(
        &[as_str(&a)],
        "a.linux_ref.csv: belongs to another trace than ",
    );
    fs::write(&beside, reference("# trace sha256 123\n", 2000)).unwrap();
    refused(&[as_str(&a)], "a.linux_ref.csv:1: the digest is damaged");
    let noted = "a.linux_ref.csv does not say which trace it belongs to";
    fs::write(&beside, reference(&of_a.line(), 2000)).unwrap();
    assert!(!replayed(&[as_str(&a)]).contains(noted));
    fs::write(&beside, reference("", 2000)).unwrap();
    assert!(replayed(&[as_str(&a)]).contains(noted));
}

#[test]
fn frames_of_another_trace_are_refused_and_those_of_an_earlier_version_are_noted() {
    let folder = folder();
    let [(a, of_a), (_, of_b)] = two(folder.path());
    let beside = folder.path().join("a.pfn.zst");
    let allocs = tight(300, 1)
        .ops
        .iter()
        .filter(|op| op.kind() == framewright_lab::trace::OpKind::Alloc)
        .count();
    let frames = |digest: Option<TraceDigest>| {
        let mut bytes = Vec::new();
        if let Some(digest) = digest {
            write_frames_digest(digest, &mut bytes).unwrap();
        }
        write_frames(&vec![0; allocs], &mut bytes).unwrap();
        fs::write(&beside, bytes).unwrap();
    };
    frames(Some(of_b));
    refused(&[as_str(&a)], "a.pfn.zst: belongs to another trace than ");
    let noted = "a.pfn.zst does not say which trace it belongs to";
    for (digest, is_noted) in [(Some(of_a), false), (None, true)] {
        frames(digest);
        let out = replayed(&[as_str(&a)]);
        assert_eq!(out.contains(noted), is_noted, "{out}");
        assert!(
            out.contains("the recorded kernel: memory as that kernel laid it out"),
            "{out}"
        );
    }
    fs::write(&beside, b"\x7fPFN1cut").unwrap();
    refused(
        &[as_str(&a)],
        "a.pfn.zst: the input ends in its trace's digest",
    );
}

#[test]
fn a_state_of_another_trace_is_refused() {
    let folder = folder();
    let [(a, of_a), (_, of_b)] = two(folder.path());
    let state = folder.path().join("before.pagetypeinfo");
    let row = |kind| format!("Node 0, zone Normal, type {kind} {}\n", ["1"; 11].join(" "));
    let text = format!(
        "Page block order: 9\n{}{}Number of blocks type Unmovable Movable\nNode 0, zone Normal 1 1\n",
        row("Unmovable"),
        row("Movable")
    );
    let with = |first: &str| fs::write(&state, format!("{first}{text}")).unwrap();
    with(&of_b.line());
    let args = [as_str(&a), "--state", as_str(&state)];
    refused(&args, "before.pagetypeinfo: belongs to another trace than ");
    with(&of_a.line());
    replayed(&args);
    with("");
    assert!(replayed(&args).contains("before.pagetypeinfo does not say which trace"));
}

#[test]
fn each_case_in_json_is_there_once() {
    let folder = folder();
    let mut paths = Vec::new();
    for (name, seed) in [("x", 1), ("y", 2)] {
        let below = folder.path().join(name);
        fs::create_dir(&below).unwrap();
        paths.push(write(&tight(300, seed), &below, "run"));
    }
    let both = [as_str(&paths[0]), as_str(&paths[1])];
    let out = replayed(&[&both[..], &["--json", "-"]].concat());
    let of = |case: &str| {
        let is_of = |line: &&str| line.contains(case) && line.contains(r#""metric":"free_frames""#);
        out.lines().filter(is_of).count()
    };
    assert_eq!(
        (
            of(r#""case":"x/run/imposed/b0""#),
            of(r#""case":"y/run/imposed/b0""#)
        ),
        (1, 1)
    );
    refused(
        &[both[0], both[0]],
        "is given twice, expected each trace once",
    );
}

/// A name that a terminal would obey and reorder, of a trace whose task has one too.
const NASTY: &str = "a\u{202e}\u{1b}[2J\u{200b}b.txt";

#[test]
fn p7_no_output_has_a_control_character_of_a_name() {
    let folder = folder();
    let nasty = folder.path().join(NASTY);
    fs::create_dir(&nasty).unwrap();
    let trace = nasty.join(NASTY);
    let text = "# tracer: nop\n#\n a\u{1b}[2J\u{202e}b-1 [000] ...2. 1.000001: mm_page_free: page=x pfn=9 order=0\n";
    fs::write(&trace, text).unwrap();
    let same = folder.path().join(NASTY);
    fs::create_dir_all(same.join("sub")).unwrap();
    let second = same.join("sub").join(NASTY);
    fs::write(&second, text).unwrap();
    let at = |name: &str| nasty.join(name);
    let (html, json, csv) = (at("p.html"), at("p.json"), at("p.csv"));
    let out = replayed(&[
        as_str(&trace),
        as_str(&second),
        "--html",
        as_str(&html),
        "--json",
        as_str(&json),
        "--csv",
        as_str(&csv),
    ]);
    let mut outputs = vec![out];
    outputs.extend([html, json, csv].map(|path| fs::read_to_string(path).unwrap()));
    // And what is refused, for each file that is read.
    let bad = [
        vec![as_str(&nasty)],
        vec![as_str(&trace), "--state", as_str(&trace)],
        vec![as_str(&trace), "--json", as_str(&trace)],
        vec![as_str(&trace), as_str(&trace)],
    ];
    for args in bad {
        let (code, out, error) = run(&[&["replay"], &args[..]].concat());
        assert_eq!((code, out.as_str()), (Some(2), ""), "{error:?}");
        assert!(error.contains("\\u{202e}"), "{error:?}");
        outputs.push(error);
    }
    for output in outputs {
        let is_hidden =
            |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
        assert!(!output.contains(is_hidden), "{output:?}");
    }
}

#[test]
fn sizes_take_units_and_plain_numbers_keep_their_meaning() {
    let folder = folder();
    let trace = write(&tight(300, 1), folder.path(), "t");
    for (size, frames) in [("1MiB", 256), ("4K", 1), ("9", 9), ("0.5MiB", 128)] {
        let out = replayed(&[as_str(&trace), "--squeeze", size, "--memory-limit", "1GiB"]);
        let case = format!("\nt/imposed/b{frames}: ");
        assert!(out.contains(&case), "{size}:\n{out}");
    }
    refused(
        &[as_str(&trace), "--squeeze", "5GB"],
        "units are binary, 5GiB",
    );
    refused(
        &[as_str(&trace), "--squeeze", "much"],
        "a number of frames, 40000",
    );
    // Not clap's advice, which is about something else.
    for negative in ["-5", "-5GiB"] {
        refused(
            &[as_str(&trace), "--squeeze", negative],
            "a number of frames, 40000",
        );
    }
    refused(
        &[as_str(&trace), "--memory-limit", "0"],
        "0 MiB is not in 1..=",
    );
    let (code, _, error) = run(&["record", "-o", "x", "--buffer", "64MB"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("units are binary, 64MiB"), "{error}");
}

#[test]
fn where_nothing_fails_squeezes_are_named_at_which_something_does() {
    let folder = folder();
    let mut trace = tight(3_000, 1);
    trace.nframes = 65_536;
    trace
        .ops
        .retain(|op| op.kind() != framewright_lab::trace::OpKind::Failed);
    let trace = write(&trace, folder.path(), "roomy");
    let out = replayed(&[as_str(&trace)]);
    let told = out
        .lines()
        .find(|line| line.starts_with("no request fails; "))
        .unwrap();
    let frames: Vec<&str> = told
        .split("--squeeze ")
        .skip(1)
        .filter_map(|rest| rest.split_whitespace().next())
        .collect();
    assert!(!frames.is_empty(), "{told}");
    for squeeze in frames {
        let out = replayed(&[as_str(&trace), "--squeeze", squeeze, "--json", "-"]);
        let fails = |line: &&str| {
            line.contains(r#""metric":"failures_order"#) && !line.contains(r#""value":0,"#)
        };
        assert!(out.lines().any(|line| fails(&line)), "{squeeze}: {told}");
        let out = replayed(&[as_str(&trace), "--squeeze", squeeze]);
        assert!(!out.contains("no request fails"), "{out}");
    }
}

#[test]
fn the_same_input_gives_the_same_bytes_whatever_the_clock_says() {
    let folder = folder();
    let trace = write(&tight(3_000, 1), folder.path(), "t");
    let outputs = |name: &str, more: &[&str]| {
        let at = |ending: &str| folder.path().join(format!("{name}.{ending}"));
        let (json, csv, html) = (at("json"), at("csv"), at("html"));
        let args = [
            &[
                as_str(&trace),
                "--json",
                as_str(&json),
                "--csv",
                as_str(&csv),
            ][..],
            &["--html", as_str(&html)],
            more,
        ];
        let out = replayed(&args.concat());
        let read = |path| fs::read_to_string(path).unwrap();
        [out, read(json), read(csv), read(html)]
    };
    assert_eq!(outputs("a", &[]), outputs("b", &[]));
    for output in outputs("c", &[]) {
        assert!(!output.contains(r#""metric":"replay_ns_per_op""#));
    }
    let [_, timed, ..] = outputs("d", &["--time"]);
    assert!(timed.contains(r#""metric":"replay_ns_per_op""#));
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    let folder = folder();
    let trace = write(&tight(300, 1), folder.path(), "t");
    let trace = as_str(&trace);
    for option in ["--json", "--csv"] {
        let args = [trace, "--format", "buddyinfo", option, "-"];
        refused(&args, "both want that, expected one of them");
    }
    refused(&[trace, "--every", "2"], "--csv <FILE>");
}

#[test]
fn text_without_an_event_of_the_page_allocator_says_what_it_lacks() {
    let folder = folder();
    let path = folder.path().join("t.txt");
    let head = "# tracer: nop\n#\n";
    for event in [
        "sched_switch: prev_comm=a",
        "mm_page_alloc: page=(null) pfn=0 order=3 migratetype=0 gfp_flags=GFP_ATOMIC",
    ] {
        fs::write(&path, format!("{head} a-1 [000] ...2. 1.000001: {event}\n")).unwrap();
        refused(
            &[as_str(&path)],
            "t.txt: no event names a frame, expected events `mm_page_alloc`",
        );
    }
}

#[test]
fn pageblocks_that_no_kernel_has_are_refused() {
    let folder = folder();
    let trace = write(&tight(300, 1), folder.path(), "t");
    let state = folder.path().join("state");
    fs::write(&state, "Page block order: 21\n").unwrap();
    let args = [as_str(&trace), "--state", as_str(&state)];
    refused(&args, "state:1: pageblock order 21 is above the maximum 20");
}

#[test]
fn a_recording_does_not_go_to_standard_output() {
    let (code, out, error) = run(&["record", "-o", "-", "--seconds", "1"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(error.contains("-: a recording is several files"), "{error}");
    assert!(!Path::new("-").exists());
}
