//! `framewright sweep`, as a user calls it.

use crate::support::{as_str, framewright, repository, run, tight, write};
use framewright_lab::trace::{OpKind, Trace};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What a sweep prints; it ends well.
fn swept(args: &[&str]) -> (String, String) {
    let (code, out, error) = run(&[&["sweep"], args].concat());
    assert_eq!(code, Some(0), "{args:?}: {error}");
    (out, error)
}

fn refused(args: &[&str], says: &str) {
    let (code, out, error) = run(&[&["sweep"], args].concat());
    assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}: {error}");
    assert!(error.contains(says), "{args:?}: {error}");
}

fn rows(file: &Path) -> Vec<serde_json::Value> {
    let text = fs::read_to_string(file).unwrap();
    assert!(text.ends_with('\n'), "a torn line");
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn all_combinations_have_a_row_each_whose_bytes_no_number_of_jobs_changes() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let a = write(&tight(3000, 1), folder.path(), "a");
    let b = write(&tight(2000, 2), folder.path(), "b");
    let (a, b) = (as_str(&a), as_str(&b));
    let asked = [
        a,
        b,
        "--policy",
        "framewright,linux-4.4,before",
        "--squeeze",
        "0,1MiB",
        "--start",
        "imposed,fresh",
    ];
    let (one, four) = (at("one"), at("four"));
    let (out, _) = swept(&[&asked[..], &["--json", as_str(&one), "--jobs", "1"]].concat());
    assert!(out.contains("16 combinations: 16 replayed, 0 in "), "{out}");
    swept(&[&asked[..], &["--json", as_str(&four), "--jobs", "4"]].concat());
    assert_eq!(fs::read(&one).unwrap(), fs::read(&four).unwrap());
    let found = rows(&one);
    assert_eq!(found.len(), 16);
    // A replay says the same.
    let (code, replayed, _) = run(&[
        "replay",
        a,
        "--policy",
        "linux-4.4",
        "--squeeze",
        "1MiB",
        "--json",
        "-",
    ]);
    assert_eq!(code, Some(0));
    let figure = replayed
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let figure = figure
        .into_iter()
        .find(|row| row["metric"] == "failures_order3" && row["variant"] == "linux-4.4");
    let row = found.iter().find(|row| {
        row["case"] == "a"
            && row["variant"] == "linux-4.4"
            && row["squeeze"] == 256
            && row["start"] == "imposed"
    });
    let row = row.unwrap();
    assert_eq!(row["failures_order3"], figure.unwrap()["value"]);
    assert_eq!(row["memory"], 8192 - 256);
    // Every recording and memory has a front.
    let fronts = out
        .split("--squeeze ")
        .skip(1)
        .filter(|part| part.contains('*'));
    assert_eq!(fronts.count(), 4, "{out}");
}

#[test]
fn other_orders_of_a_recording_have_rows_of_their_own_and_the_table_shows_their_range() {
    let folder = tempfile::tempdir().unwrap();
    let trace = repository("fork-storm.ftrace.gz");
    let file = folder.path().join("rows");
    let file_name = as_str(&file);
    let asked = |orders| {
        let policy = ["--policy", "linux-4.4"];
        let out = ["--interleavings", orders, "--json", file_name];
        [&[trace.as_str()][..], &policy, &out].concat()
    };
    let (out, _) = swept(&asked("1"));
    assert!(out.contains("1 combinations: 1 replayed"), "{out}");
    assert!(!out.contains(" to "), "{out}");
    let recorded = rows(&file);
    let (out, _) = swept(&asked("3"));
    // The recorded order is there.
    assert!(out.contains("3 combinations: 2 replayed, 1 in "), "{out}");
    assert!(out.contains(" to "), "{out}");
    let all = rows(&file);
    assert_eq!(all[0], recorded[0]);
    let orders: Vec<_> = all.iter().map(|row| row["interleaving"].as_u64()).collect();
    assert_eq!(orders, [None, Some(1), Some(2)]);
    // The same work, and another outcome.
    assert!(all.iter().all(|row| row["samples"] == all[0]["samples"]));
    let layout = |row: &serde_json::Value| row["unusable_index_order3"].as_f64();
    assert!(layout(&all[1]) != layout(&all[0]) || layout(&all[2]) != layout(&all[0]));
    refused(&asked("0"), "--interleavings");
}

/// Only a commit tells one build from another: where a build knows none, the rows that it takes are said to be of any.
fn says_only_that_builds_look_alike(file: &Path, error: &str, taken: usize) {
    match rows(file)[0]["commit"] == "unknown" {
        true => {
            assert_eq!(error.lines().count(), 1, "{error}");
            let says = format!("so {taken} rows may be of another one");
            assert!(error.contains(&says), "{error}");
        }
        false => assert_eq!(error, ""),
    }
}

#[test]
fn what_has_a_row_is_not_replayed_again_and_a_torn_line_is() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&tight(2000, 1), folder.path(), "a");
    let file = folder.path().join("rows");
    let (trace, file_name) = (as_str(&trace), as_str(&file));
    let few = [
        trace,
        "--policy",
        "linux-4.4",
        "--squeeze",
        "0,64",
        "--json",
        file_name,
    ];
    swept(&few);
    let whole = fs::read_to_string(&file).unwrap();
    let (out, error) = swept(&few);
    assert!(out.contains("2 combinations: 0 replayed, 2 in "), "{out}");
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    says_only_that_builds_look_alike(&file, &error, 2);
    // A row that is there stands, even with another figure: it was not replayed.
    let marked = whole.replacen("\"samples\":", "\"samples\":9", 1);
    assert_ne!(marked, whole);
    fs::write(&file, &marked[..marked.len() - 40]).unwrap();
    let (out, error) = swept(&few);
    assert!(out.contains("2 combinations: 1 replayed, 1 in "), "{out}");
    assert!(error.contains("rows:2: the last line is torn ("), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), marked);
    // Another option or another file beside the trace is another combination; rows of others stay.
    let (out, _) = swept(&[
        trace,
        "--policy",
        "linux-4.4",
        "--watermarks",
        "on",
        "--json",
        file_name,
    ]);
    assert!(out.contains("1 combinations: 1 replayed"), "{out}");
    let reference = framewright_lab::trace::reduce::ReferenceRow::HEADER;
    fs::write(
        folder.path().join("a.linux_ref.csv"),
        format!("{reference}\n"),
    )
    .unwrap();
    let (out, _) = swept(&few);
    assert!(out.contains("2 combinations: 2 replayed"), "{out}");
    assert_eq!(rows(&file).len(), 5);
}

#[test]
fn memory_that_is_left_is_the_same_as_what_is_held_back() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&tight(2000, 1), folder.path(), "a");
    let at = |name: &str| folder.path().join(name);
    let trace = as_str(&trace);
    let (left, held) = (at("left"), at("held"));
    swept(&[
        trace,
        "--policy",
        "linux-4.4",
        "--memory",
        "31MiB,32MiB",
        "--json",
        as_str(&left),
    ]);
    swept(&[
        trace,
        "--policy",
        "linux-4.4",
        "--squeeze",
        "256,0",
        "--json",
        as_str(&held),
    ]);
    assert_eq!(fs::read(left).unwrap(), fs::read(held).unwrap());
}

#[test]
fn a_share_of_what_is_always_free_is_held_back_of_each_recording() {
    let folder = tempfile::tempdir().unwrap();
    let traces = [(6, 1), (12, 2)].map(|(ops, seed)| tight(ops, seed));
    let files: Vec<_> = traces
        .iter()
        .zip(["a", "b"])
        .map(|(trace, name)| write(trace, folder.path(), name))
        .collect();
    let out = folder.path().join("rows");
    swept(&[
        as_str(&files[0]),
        as_str(&files[1]),
        "--policy",
        "linux-4.4",
        "--squeeze",
        "50,12.5%,12.5%",
        "--json",
        as_str(&out),
    ]);
    let squeezes: Vec<u64> = rows(&out)
        .iter()
        .map(|row| row["squeeze"].as_u64().unwrap())
        .collect();
    let eighth = |trace: &Trace| {
        let mut free = 2048_i64;
        let mut least = free;
        for op in &trace.ops {
            let frames = op.order().frames() as i64;
            free += match op.kind() {
                OpKind::Alloc => -frames,
                OpKind::Free | OpKind::FreePart => frames,
                OpKind::Tick | OpKind::Failed => 0,
            };
            least = least.min(free);
        }
        u64::try_from(least).unwrap() / 8
    };
    let [a, b] = [&traces[0], &traces[1]].map(eighth);
    assert!(a > 50 && b > 50 && a != b, "{a} {b}");
    // Rows are sorted by what is held back.
    assert_eq!(squeezes, [50, a, 50, b]);
    refused(
        &[
            as_str(&files[0]),
            "--squeeze",
            "101%",
            "--json",
            as_str(&out),
        ],
        "from 0% to 100%",
    );
}

#[test]
fn a_page_has_each_table_and_the_choices_by_each_pair_of_costs() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let trace = write(&tight(3000, 1), folder.path(), "a");
    let (rows, page) = (at("rows"), at("page.html"));
    let asked = [
        as_str(&trace),
        "--squeeze",
        "0,100",
        "--interleavings",
        "2",
        "--wide",
    ];
    let args = [
        &asked[..],
        &["--json", as_str(&rows), "--html", as_str(&page)],
    ]
    .concat();
    let (out, _) = swept(&args);
    let text = fs::read_to_string(&page).unwrap();
    let parsed = scraper::Html::parse_document(&text);
    assert!(parsed.errors.is_empty(), "{:?}", parsed.errors);
    let all = |selector: &str| -> Vec<String> {
        let selector = scraper::Selector::parse(selector).unwrap();
        let found = parsed.select(&selector);
        found.map(|one| one.text().collect::<String>()).collect()
    };
    let titles = ["a, --squeeze 0 (0.0 MiB)", "a, --squeeze 100 (0.4 MiB)"];
    assert_eq!(
        all("main > section > h2")
            .into_iter()
            .filter(|h| h.starts_with("a, "))
            .collect::<Vec<_>>(),
        titles
    );
    assert_eq!(all("figure.plot svg[role=img]").len(), 2 * 3);
    // The same stars as in the text.
    let stars = |text: &str| text.matches('*').count();
    let cells: usize = all("td").iter().map(|cell| stars(cell)).sum();
    assert_eq!(cells, stars(&out));
    assert!(cells >= 2, "{out}");
    let summary = all("dl.summary dd").join("\n");
    assert!(
        summary.contains(" of 8 choices are on the front, where no other choice is better: "),
        "{summary}"
    );
    // A page of rows that are there is the same, and takes the other's place.
    swept(&args);
    assert_eq!(fs::read_to_string(&page).unwrap(), text);
    // Hollow answers are said to be hollow, and others are not.
    assert!(!text.contains("Read this first"), "{text}");
    let still = write(&tight(0, 1), folder.path(), "still");
    let rows = at("still-rows");
    let asked = [as_str(&still), "--policy", "framewright"];
    swept(
        &[
            &asked[..],
            &["--json", as_str(&rows), "--html", as_str(&page)],
        ]
        .concat(),
    );
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("Read this first"), "{text}");
}

#[test]
fn wrong_use_is_refused_by_file_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&tight(500, 1), folder.path(), "a");
    let at = |name: &str| folder.path().join(name);
    let (trace, file) = (as_str(&trace), at("rows"));
    let name = as_str(&file);
    refused(
        &[trace, "--json", trace],
        "--json would replace what is read from",
    );
    refused(&[trace, "--json", "-"], "expected a file's name");
    refused(
        &[trace, "--json", name, "--html", "-"],
        "--html - wants standard output",
    );
    refused(
        &[trace, "--json", name, "--html", trace],
        "--html would replace",
    );
    refused(
        &[trace, "--json", name, "--html", name],
        "--html and --json want the same file, expected two",
    );
    refused(&[trace, trace, "--json", name], "is given twice");
    refused(
        &[trace, "--memory", "1GiB", "--json", name],
        "--memory 262144 is more than the recording's machine has",
    );
    refused(
        &[trace, "--squeeze", "1GiB", "--json", name],
        "--squeeze 262144 is more than there is",
    );
    refused(
        &[trace, "--memory", "-5GiB", "--json", name],
        "invalid value '-5GiB' for '--memory <SIZE>': expected a size as 5GiB, 12.7GiB, 512MiB or a number of frames, 40000",
    );
    refused(
        &[trace, "--memory", "1GiB,-5", "--json", name],
        "invalid value '-5' for '--memory <SIZE>': expected a size as 5GiB",
    );
    refused(
        &[trace, "--squeeze", "1", "--memory", "1", "--json", name],
        "cannot be used with",
    );
    refused(&[as_str(&at("none")), "--json", name], "none: ");
    fs::write(&file, "{\"experiment\":\"replay\"}\n").unwrap();
    refused(&[trace, "--json", name], "rows:1: ");
    assert_eq!(fs::read(&file).unwrap(), b"{\"experiment\":\"replay\"}\n");
}

#[test]
fn a_sweep_that_is_interrupted_leaves_whole_rows_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&tight(60_000, 1), folder.path(), "a");
    let file = folder.path().join("rows");
    let squeezes: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    let squeezes = squeezes.join(",");
    let args = [
        "sweep",
        as_str(&trace),
        "--squeeze",
        &squeezes,
        "--jobs",
        "2",
        "--json",
        as_str(&file),
    ];
    let mut sweep = Command::new(env!("CARGO_BIN_EXE_framewright"))
        .args(args)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while fs::read_to_string(&file).map_or(0, |text| text.lines().count()) < 3 {
        assert!(begun.elapsed() < Duration::from_secs(60), "no row");
        std::thread::sleep(Duration::from_millis(2));
    }
    let killed = Command::new("kill")
        .args(["-INT", &sweep.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    assert!(!sweep.wait().unwrap().success());
    let before = rows(&file).len();
    assert!((3..320).contains(&before), "{before}");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        2,
        "nothing else is left"
    );
    let few = [
        "sweep",
        as_str(&trace),
        "--policy",
        "linux-4.4",
        "--squeeze",
        "0,1",
        "--json",
        as_str(&file),
    ];
    assert!(framewright(&few).output().unwrap().status.success());
    assert!(rows(&file).len() >= before);
}

#[test]
fn of3_a_file_of_something_else_stays_as_it_is_with_and_without_a_last_line_end() {
    let folder = tempfile::tempdir().unwrap();
    let trace = write(&tight(2000, 1), folder.path(), "a");
    let file = folder.path().join("notes");
    for (content, place) in [
        ("{\"mine\": 1}", "notes:1: "),
        ("mine\nand more", "notes:1: "),
        ("all that I have", "notes:1: "),
    ] {
        fs::write(&file, content).unwrap();
        let (code, _, error) = run(&["sweep", as_str(&trace), "--json", as_str(&file)]);
        assert_eq!(code, Some(2), "{error}");
        assert!(
            error.contains(place) && error.contains("expected a row of framewright sweep"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&file).unwrap(), content);
    }
}

#[test]
fn rows_that_were_put_together_count_once_and_two_that_differ_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let trace = write(&tight(2000, 1), folder.path(), "a");
    let file = at("rows");
    let few = [
        as_str(&trace),
        "--policy",
        "linux-4.4",
        "--squeeze",
        "0,64",
        "--json",
        as_str(&file),
    ];
    swept(&few);
    let whole = fs::read_to_string(&file).unwrap();
    fs::write(&file, whole.clone() + &whole).unwrap();
    let (out, _) = swept(&few);
    assert!(out.contains("2 combinations: 0 replayed, 2 in "), "{out}");
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
    let other = whole.clone() + &whole.replacen("\"samples\":", "\"samples\":9", 1);
    fs::write(&file, &other).unwrap();
    let (code, _, error) = run(&[&["sweep"], &few[..]].concat());
    assert_eq!(code, Some(2), "{error}");
    let says = "rows:3: a second row of a under linux-4.4, with another samples, expected one row of each combination";
    assert!(error.contains(says), "{error}");
    assert_eq!(fs::read_to_string(&file).unwrap(), other);
    // A machine that went down may leave zeros where a row was to be.
    fs::write(&file, whole.clone() + "{\"exp\0\0\0\0").unwrap();
    let (_, error) = swept(&few);
    assert!(
        error.contains("rows:3: the last line is torn (9 bytes"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), whole);
}

#[test]
fn a_recording_under_two_names_is_said_to_be_one_and_other_files_beside_it_make_it_another() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let a = write(&tight(2000, 1), folder.path(), "a");
    let b = write(&tight(2000, 1), folder.path(), "b");
    let file = at("rows");
    let few = [
        as_str(&a),
        as_str(&b),
        "--policy",
        "linux-4.4",
        "--json",
        as_str(&file),
    ];
    let (out, error) = swept(&few);
    assert!(out.contains("1 combinations: 1 replayed, 0 in "), "{out}");
    let says = "b.pft: the same recording as a, whose rows stand for both";
    assert!(error.contains(says), "{error}");
    let reference = framewright_lab::trace::reduce::ReferenceRow::HEADER;
    fs::write(at("b.linux_ref.csv"), format!("{reference}\n")).unwrap();
    let (out, error) = swept(&few);
    says_only_that_builds_look_alike(&file, &error, 1);
    assert!(out.contains("2 combinations: 1 replayed, 1 in "), "{out}");
    for title in ["\na, --squeeze 0", "\nb, --squeeze 0"] {
        assert!(out.contains(title), "{out}");
    }
}

#[test]
fn what_fails_leaves_no_empty_file_and_a_link_stays_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let trace = write(&tight(500, 1), folder.path(), "a");
    fs::write(at("damaged.pft"), b"PFT2").unwrap();
    refused(
        &[as_str(&at("damaged.pft")), "--json", as_str(&at("rows"))],
        "the header ends after 4 of 24 bytes",
    );
    assert!(!at("rows").exists());
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("kept", at("link")).unwrap();
        let link = at("link");
        let args = [
            as_str(&trace),
            "--policy",
            "linux-4.4,framewright",
            "--json",
            as_str(&link),
        ];
        swept(&args);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(rows(&at("kept")).len(), 2);
    }
}
