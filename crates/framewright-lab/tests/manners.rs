//! What the command does to its user: the first words, the room it takes, what it leaves behind.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn framewright(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewright"));
    command.args(args);
    command
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn said(args: &[&str]) -> String {
    text(&framewright(args).output().unwrap())
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn alone_it_says_what_it_can_do_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = framewright(&[])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let out = text(&output);
    assert!(out.lines().count() <= 10, "{out}");
    for word in [
        "framewright demo",
        "framewright record",
        "framewright top",
        "framewright replay",
        "framewright lab",
        "--help",
    ] {
        assert!(out.contains(word), "{word}: {out}");
    }
    assert_eq!(names_in(folder.path()), Vec::<String>::new());
}

#[test]
fn the_version_has_the_commit() {
    for args in [&["--version"][..], &["replay", "--version"]] {
        let out = said(args);
        let commit = out
            .split_once(" (commit ")
            .unwrap()
            .1
            .trim_end()
            .strip_suffix(')')
            .unwrap();
        assert!(
            !commit.is_empty() && out.contains(env!("CARGO_PKG_VERSION")),
            "{out}"
        );
    }
}

#[test]
fn completions_and_manual_pages_name_each_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = said(&["completions", shell]);
        assert!(out.contains("replay") && out.contains("squeeze"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(said(&["man", path]), "");
    let names = names_in(folder.path());
    for name in [
        "framewright.1",
        "framewright-replay.1",
        "framewright-record.1",
        "framewright-top.1",
        "framewright-lab-va-fit.1",
    ] {
        assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
    }
    let page = fs::read_to_string(folder.path().join("framewright-replay.1")).unwrap();
    assert!(
        page.starts_with(".ie") && page.contains("squeeze"),
        "{page}"
    );
    assert!(said(&["man"]).contains("framewright"));
    let output = framewright(&["man", &format!("{path}/none")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no such folder"));
}

#[test]
fn tables_fit_80_characters_unless_all_of_them_is_asked_for() {
    let trace = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../traces/fork-storm.ftrace.gz"
    );
    let rows = |out: &str| -> Vec<String> {
        let table = out
            .lines()
            .skip_while(|line| !line.starts_with("--"))
            .skip(1);
        table
            .take_while(|line| line.starts_with(' '))
            .map(|line| line.trim_end().to_owned())
            .collect()
    };
    let narrow = said(&["replay", trace]);
    assert!(rows(&narrow).len() > 5, "{narrow}");
    assert!(
        rows(&narrow).iter().all(|row| row.chars().count() <= 80),
        "{narrow}"
    );
    assert!(narrow.contains("--wide also shows "), "{narrow}");
    let wide = said(&["replay", trace, "--wide"]);
    assert!(!wide.contains("--wide also shows"), "{wide}");
    assert_eq!(rows(&narrow).len(), rows(&wide).len());
    assert!(
        rows(&wide)[0].split_whitespace().count() > rows(&narrow)[0].split_whitespace().count()
    );
    for args in [
        &["replay", "--help"][..],
        &["lab", "gcma", "--help"],
        &["--help"],
    ] {
        let help = said(args);
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{help}"
        );
    }
}

/// A build beside requests, which makes folders in the temporary one and takes long.
fn start(temporary: &Path) -> Child {
    let args = [
        "lab",
        "gcma",
        "--ram",
        "40MiB",
        "--reserve",
        "16MiB",
        "--runs",
        "50",
        "--device",
        "host",
    ];
    let child = framewright(&args)
        .env("TMPDIR", temporary)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while !names_in(temporary).iter().any(|name| name.contains("gcma")) {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "it makes no folder"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

#[test]
fn a_signal_leaves_nothing_in_the_temporary_folder_and_the_next_run_removes_what_a_kill_left() {
    use std::os::unix::process::ExitStatusExt;
    let temporary = tempfile::tempdir().unwrap();
    for (name, number) in [("INT", 2), ("QUIT", 3), ("TERM", 15)] {
        let mut child = start(temporary.path());
        let pid = child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
        assert_eq!(child.wait().unwrap().signal(), Some(number));
        assert_eq!(
            names_in(temporary.path()),
            Vec::<String>::new(),
            "after {name}"
        );
    }
    let mut child = start(temporary.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        !names_in(temporary.path()).is_empty(),
        "there is nothing to remove"
    );
    let mut other = start(temporary.path());
    let args = [
        "lab",
        "gcma",
        "--ram",
        "40MiB",
        "--reserve",
        "16MiB",
        "--idle",
        "--requests",
        "2",
    ];
    let output = framewright(&args)
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(
        other.try_wait().unwrap().is_none(),
        "the folders of one that runs stay"
    );
    other.kill().unwrap();
    other.wait().unwrap();
    let output = framewright(&args)
        .env("TMPDIR", temporary.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(names_in(temporary.path()), Vec::<String>::new());
}
