//! `framewright ab`: its stages as a user runs them. A run for real where there are root, tracefs and memory, and skipped
//! aloud elsewhere; settings are those of a folder that stands in for `/proc/sys`.
#![cfg(target_os = "linux")]

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn ab(stage: &str, folder: &Path, root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_framewright"));
    command.args(["ab", stage]).arg(folder);
    if stage != "compare" {
        command.arg("--sysctl-root").arg(root);
    }
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn refused(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    said(&output)
}

/// A folder in place of `/proc/sys`.
fn fake_root(folder: &Path) -> PathBuf {
    let root = folder.join("sys");
    fs::create_dir_all(root.join("vm")).unwrap();
    for (name, value) in [
        ("defrag_mode", "0"),
        ("watermark_boost_factor", "15000"),
        ("min_free_kbytes", "67584"),
    ] {
        fs::write(root.join("vm").join(name), value).unwrap();
    }
    root
}

fn setting(root: &Path, name: &str) -> String {
    let text = fs::read_to_string(root.join("vm").join(name)).unwrap();
    text.trim().to_owned()
}

/// A plan that needs the shell alone, or `None` said aloud.
fn planned(folder: &Path, root: &Path, free: &str) -> Option<PathBuf> {
    let run = folder.join("run");
    let output = ab("plan", &run, root)
        .args([
            "--load",
            "database",
            "--b",
            "vm.defrag_mode=1",
            "--free",
            free,
        ])
        .args([
            "--seconds",
            "1",
            "--repeat",
            "1",
            "--record",
            "1",
            "--buffer",
            "16MiB",
        ])
        .output()
        .unwrap();
    let said = said(&output);
    if said.contains("needs python3") || said.contains("at most the machine's") {
        println!("skipped: {said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(run)
}

#[test]
fn a_plan_names_what_is_wrong_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = fake_root(folder.path());
    let run = folder.path().join("run");
    for (arguments, says) in [
        (
            ["--load", "phone", "--b", "vm.defrag_mode=1"],
            "there is no load 'phone'",
        ),
        (
            ["--load", "files", "--b", "vm.swappiness=1"],
            "--b 'vm.swappiness', expected one of",
        ),
        (
            ["--load", "files", "--b", "vm.extfrag_threshold=1"],
            "this kernel has no such setting",
        ),
        (
            ["--load", "files", "--b", "vm.defrag_mode=0"],
            "changes nothing",
        ),
    ] {
        let error = refused(ab("plan", &run, &root).args(arguments));
        assert!(error.contains(says), "{error}");
    }
    let little = [
        "--load",
        "files",
        "--b",
        "vm.defrag_mode=1",
        "--free",
        "1GiB",
    ];
    let error = refused(ab("plan", &run, &root).args(little));
    assert!(error.contains("expected at least 2048 MiB"), "{error}");
    assert!(!run.exists());
}

#[test]
fn no_prediction_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let root = fake_root(folder.path());
    let error = refused(&mut ab("run", folder.path(), &root));
    assert!(error.contains("framewright ab plan makes one"), "{error}");
    let Some(run) = planned(folder.path(), &root, "2GiB") else {
        return;
    };
    let error = refused(&mut ab("run", &run, &root));
    assert!(error.contains("no prediction stands"), "{error}");
    let error = refused(&mut ab("predict", &run, &root));
    assert!(error.contains("recorded.jsonl"), "{error}");
    // One that was written by hand has no digest, or another one.
    fs::write(run.join("prediction.json"), "{}\n").unwrap();
    let error = refused(&mut ab("run", &run, &root));
    assert!(error.contains("prediction.sha256"), "{error}");
    fs::write(run.join("prediction.sha256"), "00  prediction.json\n").unwrap();
    let error = refused(&mut ab("run", &run, &root));
    assert!(error.contains("it was changed afterwards"), "{error}");
    assert!(!run.join("runs.jsonl").exists());
    assert_eq!(setting(&root, "defrag_mode"), "0");
}

#[test]
fn what_a_killed_run_has_left_changed_is_put_back_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let root = fake_root(folder.path());
    let run = folder.path().join("killed");
    fs::create_dir(&run).unwrap();
    // As a run leaves it that was killed under B: its folder in the lock's file, and what to put back in the folder.
    let state = "{\"vm.defrag_mode\":0,\"vm.watermark_boost_factor\":15000}";
    fs::write(run.join("restore.json"), state).unwrap();
    fs::write(root.join("framewright-ab.lock"), run.display().to_string()).unwrap();
    fs::write(root.join("vm/defrag_mode"), "1\n").unwrap();
    fs::write(root.join("vm/watermark_boost_factor"), "0\n").unwrap();
    let other = folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let output = ab("restore", &other, &root).output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("vm.defrag_mode=0"),
        "{}",
        said(&output)
    );
    assert_eq!(setting(&root, "defrag_mode"), "0");
    assert_eq!(setting(&root, "watermark_boost_factor"), "15000");
    assert!(!run.join("restore.json").exists());
    let output = ab("restore", &other, &root).output().unwrap();
    assert!(said(&output).contains("no run has left settings changed"));
    // A name that is written wrong is no answer to what the run has left.
    let wrong = folder.path().join("kiled");
    let output = ab("restore", &wrong, &root).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(said(&output).contains("there is no such folder"));
}

/// A command that finds the page flags of the machine's first frames alone, where a namespace of mounts can be had: those of
/// a large machine take seconds in every stage.
fn with_few_flags(folder: &Path, command: &Command) -> Command {
    let script = "mount --bind \"$1\" /proc/kpageflags && shift && exec \"$@\"";
    let mut flags = Vec::new();
    let read = fs::File::open("/proc/kpageflags")
        .and_then(|all| all.take(8 << 16).read_to_end(&mut flags));
    let few = folder.join("few-kpageflags");
    read.unwrap();
    fs::write(&few, flags).unwrap();
    let mut words = Command::new("unshare");
    words.args(["--mount", "sh", "-c", script, "sh"]).arg(few);
    words.arg(command.get_program()).args(command.get_args());
    words
}

/// All but half a GiB stays with the machine, so that the process beside the load has little to lock.
#[test]
fn every_stage_runs_and_every_setting_is_as_before() {
    if fs::File::open("/proc/kpageflags").is_err() {
        println!("skipped: no page flags: not root, or a kernel without CONFIG_PROC_PAGE_MONITOR");
        return;
    }
    if let Err(why) = framewright_lab::record::Tracefs::open() {
        println!("skipped: {why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = fake_root(folder.path());
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let line = memory
        .lines()
        .find(|line| line.starts_with("MemAvailable:"));
    let kib: u64 = line
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let free = format!("{}MiB", (kib >> 10).saturating_sub(512).max(2048));
    let Some(run) = planned(folder.path(), &root, &free) else {
        return;
    };
    let mut tries = with_few_flags(folder.path(), &Command::new("true"));
    if !tries.status().is_ok_and(|status| status.success()) {
        println!(
            "skipped: nothing can be mounted here, and page flags of the whole machine take too long"
        );
        return;
    }
    let output = with_few_flags(folder.path(), &ab("all", &run, &root))
        .output()
        .unwrap();
    let error = said(&output);
    let lacks = ["cannot record", "are available, expected", "holds memory"];
    if lacks.iter().any(|why| error.contains(why)) {
        println!("skipped: {error}");
        return;
    }
    assert!(output.status.success(), "{error}");
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        shown.contains("1 pairs: the effect was as predicted"),
        "{shown}"
    );
    assert_eq!(setting(&root, "defrag_mode"), "0");
    assert!(!run.join("restore.json").exists());
    let runs = fs::read_to_string(run.join("runs.jsonl")).unwrap();
    assert_eq!(runs.lines().count(), 2);
    let digest = fs::read_to_string(run.join("prediction.sha256")).unwrap();
    let digest = digest.split_whitespace().next().unwrap();
    assert!(runs.lines().all(|line| line.contains(digest)), "{runs}");
    // A row that was made before any prediction has no score.
    fs::write(run.join("runs.jsonl"), runs.replace(digest, "0")).unwrap();
    let error = refused(&mut ab("compare", &run, &root));
    assert!(error.contains("another prediction"), "{error}");
}
