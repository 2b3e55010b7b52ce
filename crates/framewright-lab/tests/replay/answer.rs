//! The answer stands before every table, in each form, and the book's worked example is what the command says.

use crate::support::{as_str, repository, run, tight, write};
use framewright_lab::trace::TraceDigest;
use std::fs;
use std::path::PathBuf;

const ANSWER: &str = "The answer for ";

/// The sentences above the first table.
fn answer(out: &str) -> Vec<&str> {
    let (_, rest) = out.split_once(ANSWER).unwrap_or_else(|| panic!("{out}"));
    let lines = rest.lines().skip(1).take_while(|line| !line.is_empty());
    lines.map(|line| line.strip_prefix("  ").unwrap()).collect()
}

#[test]
fn text_page_and_json_begin_with_the_same_sentences() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&tight(3_000, 1), folder.path(), "t");
    let page = folder.path().join("page.html");
    let trace = as_str(&trace);
    // The recording kernel's rules are compared with, also where they are not asked for.
    for squeeze in ["0", "100"] {
        let args = [
            "replay",
            trace,
            "--squeeze",
            squeeze,
            "--policy",
            "framewright",
        ];
        let (code, out, error) = run(&[&args[..], &["--html", as_str(&page)]].concat());
        assert_eq!(code, Some(0), "{error}");
        let says = answer(&out);
        assert!((2..=5).contains(&says.len()), "{out}");
        assert!(
            says[1..].iter().any(|one| one.contains("linux-6.12")),
            "{says:?}"
        );
        let case = format!("\nt/imposed/b{squeeze}: 3");
        assert!(
            out.find(ANSWER).unwrap() < out.find(&case).unwrap(),
            "{out}"
        );
        let (_, json, _) = run(&[&args[..], &["--json", "-"]].concat());
        let second: serde_json::Value = serde_json::from_str(json.lines().nth(1).unwrap()).unwrap();
        let told: Vec<&str> = second["says"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one.as_str().unwrap())
            .collect();
        assert_eq!(
            (told, second["value"].as_u64()),
            (says.clone(), Some(says.len() as u64))
        );
        assert!(
            !json.contains(r#""variant":"linux-6.12""#),
            "not a column that was asked for"
        );
        let page = scraper::Html::parse_document(&fs::read_to_string(&page).unwrap());
        // Cards have the first sentences, and what has none stands below.
        let items = ".card > p:not(.headline), main > section dl.summary dd";
        let items = scraper::Selector::parse(items).unwrap();
        let in_page: Vec<String> = page
            .select(&items)
            .map(|item| item.text().collect())
            .collect();
        assert_eq!(in_page, says);
    }
}

#[test]
fn the_recorded_kernel_s_rules_are_what_is_compared_with() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&tight(3_000, 1), folder.path(), "t");
    let digest = TraceDigest::of(&fs::read(&trace).unwrap()).line();
    let summary = folder.path().join("t.summary.txt");
    let other = TraceDigest::of(b"another trace").line();
    let assumed = "its rules are taken for those of linux-6.12";
    for (kernel, digest, rules, note) in [
        ("5.15.0-91-generic", &digest, "linux-4.13", None),
        ("4.4.302", &digest, "linux-4.4", None),
        ("6.18.44", &digest, "linux-6.12", None),
        (
            "a-board",
            &digest,
            "linux-6.12",
            Some("the recorded kernel calls itself a-board"),
        ),
        (
            "4.4.302",
            &String::new(),
            "linux-6.12",
            Some("nothing says which kernel was recorded"),
        ),
    ] {
        fs::write(
            &summary,
            format!("kernel {kernel}\nrecorded 1 s as asked\n{digest}"),
        )
        .unwrap();
        let args = [
            "replay",
            as_str(&trace),
            "--squeeze",
            "100",
            "--policy",
            "framewright",
        ];
        let (code, out, error) = run(&args);
        assert_eq!(code, Some(0), "{error}");
        let says = answer(&out).join("\n");
        assert!(
            says.contains(&format!("under the rules of {rules} (")),
            "{kernel}: {says}"
        );
        assert_eq!(out.contains(assumed), note.is_some(), "{kernel}: {out}");
        assert!(
            note.is_none_or(|note| out.contains(note)),
            "{kernel}: {out}"
        );
        let (code, out, error) =
            run(&["compare", as_str(&trace), as_str(&trace), "--window", "0.2"]);
        assert_eq!(code, Some(0), "{error}");
        assert!(
            out.contains(&format!("\n{rules} (a replay of both)\n")),
            "{kernel}: {out}"
        );
    }
    // No model is exactly that kernel.
    fs::write(&summary, format!("kernel 6.12.48\n{digest}")).unwrap();
    let args = ["replay", as_str(&trace), "--policy", "framewright"];
    let (code, out, error) = run(&args);
    assert_eq!(code, Some(0), "{error}");
    let near = "no model has exactly the rules of the recorded kernel, 6.12.48: those of linux-6.12 are taken for them";
    assert!(out.contains(near), "{out}");
    // With reclaim the rules are those of linux-4.4 whatever was recorded.
    let (code, out, error) = run(&[&args[..], &["--reclaim"]].concat());
    assert_eq!(code, Some(0), "{error}");
    assert!(!out.contains("no model has exactly"), "{out}");
    // A summary without a digest is named, and another trace's is refused.
    fs::write(&summary, "kernel 4.4.302\n").unwrap();
    let (code, out, error) = run(&args);
    assert_eq!(code, Some(0), "{error}");
    let says = "t.summary.txt does not say which trace it belongs to, so the kernel that it names is not taken";
    assert!(out.contains(says), "{out}");
    fs::write(&summary, format!("kernel 4.4.302\n{other}")).unwrap();
    let (code, _, error) = run(&args);
    assert_eq!(code, Some(2));
    assert!(error.contains("belongs to another trace"), "{error}");
    // A damaged one is named by its own line.
    fs::write(&summary, "kernel 4.4.302\nx\n# trace sha256 123\n").unwrap();
    let (code, _, error) = run(&args);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("t.summary.txt:3: the digest is damaged"),
        "{error}"
    );
}

#[test]
fn a_machine_that_defragments_is_compared_with_the_rules_of_that_setting() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&tight(3_000, 1), folder.path(), "t");
    let digest = TraceDigest::of(&fs::read(&trace).unwrap()).line();
    let state = folder.path().join("state/t");
    fs::create_dir_all(&state).unwrap();
    let args = [
        "replay",
        as_str(&trace),
        "--squeeze",
        "100",
        "--policy",
        "framewright",
    ];
    for (mode, rules) in [(0, "linux-6.12"), (1, "linux-6.18-defrag")] {
        let settings = format!("{digest}vm.compaction_proactiveness 20\nvm.defrag_mode {mode}\n");
        fs::write(state.join("before.settings"), settings).unwrap();
        let (code, out, error) = run(&args);
        assert_eq!(code, Some(0), "{error}");
        let says = answer(&out).join("\n");
        assert!(
            says.contains(&format!("under the rules of {rules} (")),
            "{says}"
        );
    }
    let other = TraceDigest::of(b"another trace").line();
    fs::write(state.join("before.settings"), other).unwrap();
    let (code, _, error) = run(&args);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("before.settings: belongs to another trace than"),
        "{error}"
    );
    fs::write(
        state.join("before.settings"),
        format!("{digest}vm.defrag_mode on\n"),
    )
    .unwrap();
    let (code, _, error) = run(&args);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("before.settings:2: 'on' is not a whole number"),
        "{error}"
    );
}

#[test]
fn a_recording_without_an_event_answers_that_it_cannot_say() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = tight(100, 1);
    trace.ops.clear();
    let trace = write(&trace, folder.path(), "t");
    let (_, out, _) = run(&["replay", as_str(&trace), "--policy", "linux-4.4"]);
    let says = answer(&out);
    assert_eq!(says.len(), 1, "{out}");
    assert!(
        says[0].starts_with("This recording cannot say, because there is no allocation"),
        "{out}"
    );
}

#[test]
fn failures_stand_beside_how_many_requests_could_have_failed_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = tight(3_000, 1);
    // GFP_ATOMIC: printed, and may not wait.
    trace.gfp = vec![0x820];
    let trace = write(&trace, folder.path(), "t");
    let (_, out, _) = run(&["replay", as_str(&trace), "--policy", "linux-4.4"]);
    let cells = |row: &str| -> Vec<String> {
        let line = out.lines().find(|line| line.trim_start().starts_with(row));
        let line = line.unwrap_or_else(|| panic!("{row} is not in\n{out}"));
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    };
    let failed = cells("failures_order3 ");
    for row in ["failures_reported_order3", "failures_no_reclaim_order3"] {
        let said = cells(row);
        assert_eq!((&said[0], said[1].as_str()), (&failed[0], "of"), "{out}");
        assert_ne!(said[2], "0");
    }
    assert_eq!(cells("failures_optional_order3")[..3], ["0", "of", "0"]);
}

#[test]
fn a_metric_is_explained_and_an_unknown_one_is_refused_with_near_names() {
    let (code, out, _) = run(&["explain", "unusable_index_order3"]);
    assert_eq!(code, Some(0));
    assert!(
        out.contains("(F - S_K 2^K) / F") && out.contains("lower is better"),
        "{out}"
    );
    let (code, out, error) = run(&["explain", "unusable_index_3"]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(error.contains("such as unusable_index_order3"), "{error}");
}

/// The page of the book with what the command that stands above its `nth` answer says in the place of that.
fn with_answer(page: &str, nth: usize) -> String {
    const BEGIN: &str = "```text\nThe answer for ";
    let (at, _) = page.match_indices(BEGIN).nth(nth).unwrap();
    let (head, rest) = page.split_at(at);
    let (_, tail) = rest.split_once("\n```\n").unwrap();
    let (before, _) = head.rsplit_once("\n```").unwrap();
    let command = before.lines().last().unwrap();
    let words = command.split_whitespace().skip(1);
    let args: Vec<String> = words
        .map(|word| match word.strip_prefix("traces/") {
            Some(file) => repository(file),
            None => word.to_owned(),
        })
        .collect();
    // In release mode, where it is there.
    let program = std::env::var_os("FRAMEWRIGHT");
    let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_framewright").into());
    let output = std::process::Command::new(program).args(args).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    let out = String::from_utf8(output.stdout).unwrap();
    let (_, case) = out.split_once(ANSWER).unwrap();
    let case = case.lines().next().unwrap();
    let says = answer(&out).join("\n");
    format!("{head}{BEGIN}{case}\n{says}\n```\n{tail}")
}

/// `FRAMEWRIGHT_BLESS=1` writes it anew.
fn is_what_the_command_says(nth: usize) {
    let path = PathBuf::from(repository("../docs/start/engineer.md"));
    let page = fs::read_to_string(&path).unwrap();
    let made = with_answer(&page, nth);
    if std::env::var_os("FRAMEWRIGHT_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
        return;
    }
    assert!(
        page == made,
        "FRAMEWRIGHT_BLESS=1 writes the example anew:\n{made}"
    );
}

#[test]
fn the_worked_example_of_the_book_is_what_the_command_says() {
    is_what_the_command_says(0);
}

#[test]
#[ignore = "long: .ci/run runs it"]
fn the_worked_example_with_settings_is_what_the_command_says() {
    is_what_the_command_says(1);
}
