//! The live view: what it prints, how it ends, and what it leaves behind.

use crate::support::*;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long the machine may take for what comes at once.
const PATIENCE: Duration = Duration::from_secs(120);

/// Has the kernel allocate a block of order 4, or of order 0 where there is none, for an attribute that no file system
/// takes.
fn ask_for_a_block(folder: &Path) {
    let value = [0; 60_000];
    let flags = rustix::fs::XattrFlags::empty();
    let _ = rustix::fs::setxattr(folder, "user.framewright", &value, flags);
}

fn objects(out: &str) -> Vec<Value> {
    out.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn view(args: &[&str]) -> Child {
    framewright()
        .arg("top")
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn intervals_are_json_objects_with_all_fields_and_no_instance_stays() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let child = view(&["--json", "--count", "2", "--every", "100ms"]);
    let instance = instance_of(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let objects = objects(&String::from_utf8(output.stdout).unwrap());
    assert_eq!(objects.len(), 2);
    for object in objects {
        for field in [
            "verdict",
            "orders",
            "zones",
            "pageblocks",
            "fallbacks",
            "failures",
            "events",
            "events_lost",
            "own_cpu_percent",
        ] {
            assert!(!object[field].is_null(), "{field} in {object}");
        }
        assert!(object["interval_seconds"].as_f64() >= Some(0.1), "{object}");
        let contents = &object["pageblocks"]["contents"];
        let blocks = ["free", "movable", "unmovable", "mixed"].map(|of| contents[of].as_u64());
        assert!(blocks.iter().flatten().sum::<u64>() > 0, "{object}");
    }
    let left = tracefs.instances().unwrap();
    assert!(
        !left.iter().any(|name| name.starts_with(&instance)),
        "{left:?}"
    );
}

#[test]
fn a_request_that_was_made_is_seen() {
    let Some((_tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut child = view(&["--json", "--every", "100ms"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let begun = Instant::now();
    // Each object tells of what came before it, so that sooner or later one has a request.
    loop {
        ask_for_a_block(folder.path());
        let object: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let seen = &object["orders"][4];
        let requests = seen["requests"]["total"].as_u64().unwrap();
        if requests + seen["failures"].as_u64().unwrap() > 0 {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{object}");
    }
    // The reader goes, and the view with it.
    drop(lines);
    assert!(child.wait().unwrap().success());
}

#[test]
fn tp2_a_view_that_is_interrupted_leaves_nothing_and_one_that_was_killed_is_cleaned_up_by_the_next()
{
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    let there = |instance: &str| {
        let names = tracefs.instances().unwrap();
        names.iter().any(|name| {
            let rest = name.strip_prefix(instance);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    };
    for name in ["INT", "TERM", "HUP", "KILL"] {
        let mut child = view(&["--json", "--every", "100ms"]);
        let instance = instance_of(&child);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.next().unwrap().unwrap();
        assert!(there(&instance), "it is there while the view goes on");
        signal(name, child.id());
        let status = child.wait().unwrap();
        assert_eq!(status.success(), name != "KILL", "{name}: {status}");
        assert_eq!(there(&instance), name == "KILL", "{name}");
        if name == "KILL" {
            let next = view(&["--once", "--every", "100ms"]);
            let output = next.wait_with_output().unwrap();
            let said = text(&output);
            assert!(said.contains(&format!("removed {instance}")), "{said}");
            assert!(!there(&instance), "{said}");
        }
    }
}

#[test]
fn what_proc_says_is_shown_without_tracing_and_the_rest_is_said_to_be_missing() {
    if fs::read("/proc/buddyinfo").is_err() || fs::read("/proc/zoneinfo").is_err() {
        println!("skipped: no /proc/buddyinfo or /proc/zoneinfo");
        return;
    }
    let child = view(&["--no-events", "--every", "100ms"]);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let out = String::from_utf8(output.stdout).unwrap();
    for words in ["order ", "zone ", "(--no-events)"] {
        assert!(out.contains(words), "{words} in {out}");
    }
    for (args, words) in [
        (&["--every", "1d"][..], "expected a time from 100ms to 1h"),
        (&["--count", "2"], "--json"),
        (&["--order", "11"], "11 is not in 0..=10"),
        (&["--buffer", "2GiB"], "more than a view needs"),
    ] {
        let output = view(args).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = text(&output);
        assert!(said.contains(words), "{words} in {said}");
    }
}

/// Runs a view on a terminal, does something to it when it is drawn, and returns what it wrote and how it ended.
fn on_a_terminal(end: impl FnOnce(&mut dyn Write, u32)) -> Option<(String, Option<i32>)> {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let command = format!(
        "stty rows 24 cols 80; echo $$ > {}; exec {} top --no-events --every 100ms",
        pid.display(),
        env!("CARGO_BIN_EXE_framewright")
    );
    let child = Command::new("script")
        .args(["-q", "-e", "-c", &command, "/dev/null"])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: no script, which makes terminals");
        return None;
    };
    let mut out = child.stdout.take().unwrap();
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    let mut read = |all: &mut Vec<u8>| {
        let got = out.read(&mut piece).unwrap_or(0);
        all.extend_from_slice(&piece[..got]);
        got > 0
    };
    let has = |all: &[u8], words: &str| String::from_utf8_lossy(all).contains(words);
    while !has(&all, "quit") {
        assert!(read(&mut all), "{}", String::from_utf8_lossy(&all));
    }
    let number = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    let mut keys = child.stdin.take().unwrap();
    end(&mut keys, number);
    while read(&mut all) {}
    drop(keys);
    let status = child.wait().unwrap();
    Some((String::from_utf8_lossy(&all).into_owned(), status.code()))
}

#[test]
fn tp2_the_terminal_is_given_back_after_a_key_and_after_a_signal() {
    if fs::read("/proc/zoneinfo").is_err() {
        println!("skipped: no /proc/zoneinfo");
        return;
    }
    for name in ["q", "\u{3}", "TERM"] {
        let ended = on_a_terminal(|keys, pid| match name {
            "TERM" => signal(name, pid),
            key => {
                keys.write_all(key.as_bytes()).unwrap();
                keys.flush().unwrap();
            }
        });
        let Some((out, code)) = ended else {
            return;
        };
        assert_eq!(code, Some(0), "{name:?}: {out}");
        let (taken, given) = (out.find("\u{1b}[?1049h"), out.rfind("\u{1b}[?1049l"));
        assert!(taken.is_some() && taken < given, "{name:?}: {out:?}");
        assert!(out.contains("framewright top"), "{out:?}");
    }
}
