//! Streams: written while they are recorded, to a file or through a pipe.

use crate::support::*;
use framewright_lab::trace::STREAM_MAGIC_PAGES;
use std::fs;
use std::io::{BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_stream_goes_through_a_pipe_beside_what_the_command_prints_and_is_replayed() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // A process makes some hundred events, fewer where little is mapped.
    let script = "echo said by the command; echo its nice is $(nice); i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i+1)); done";
    let child = framewright()
        .args([
            "record", "--buffer", "16", "--stream", "-", "--", "sh", "-c", script,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let instance = instance_of(&child);
    let output = child.wait_with_output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("said by the command"), "{said}");
    // The recorder's own priority is not the command's.
    let own = Command::new("nice").output().unwrap().stdout;
    let nice = format!("its nice is {}", String::from_utf8(own).unwrap());
    assert!(said.contains(&nice), "{said}");
    if !said.contains("the recorder runs at nice -10") {
        println!("the recorder may not raise its priority here, or had such a one");
    }
    assert!(
        said.contains("until the command ended: exit status: 0"),
        "{said}"
    );
    assert!(!tracefs.instances().unwrap().contains(&instance));
    assert!(read_stream(output.stdout.clone()) >= 1000);
    let stream = folder.path().join("run.stream.zst");
    fs::write(&stream, &output.stdout).unwrap();
    let json = replayed(&["--watermarks", "on", "--json", "-"], &stream);
    assert!(json.contains("\"run.stream.zst/imposed/b0\""), "{json}");
    // The machine's own layout, what it waited for, and its zones are in the one stream.
    assert!(json.contains("\"variant\":\"linux\""), "{json}");
    // What was written before the recorder was killed is replayed, too, and said to be cut.
    let half = folder.path().join("half.zst");
    fs::write(&half, &output.stdout[..output.stdout.len() - 20]).unwrap();
    let said = replayed(&[], &half);
    assert!(said.contains("the stream has no end"), "{said}");
}

#[test]
fn a_stream_ends_with_its_time_a_signal_and_its_reader_and_leaves_nothing() {
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // By time: the stream ends although the command goes on.
    let timed = folder.path().join("timed.stream");
    let output = of_few_frames()
        .args(["record", "--buffer", "8", "--seconds", "0.2", "--stream"])
        .arg(&timed)
        .args(["--", "sleep", "1"])
        .output()
        .unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" s as asked"), "{said}");
    assert!(said.contains("waiting for the command to end"), "{said}");
    assert!(fs::read(&timed).unwrap().starts_with(STREAM_MAGIC_PAGES));
    read_stream(fs::read(&timed).unwrap());
    // A second one does not write over it, unless it is told to.
    let again = of_few_frames()
        .args(["record", "--seconds", "0.1", "--stream"])
        .arg(&timed)
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(2), "{}", text(&again));
    let refused = "is there already, expected a new name or --force";
    assert!(text(&again).contains(refused), "{}", text(&again));
    assert_eq!(names_in(folder.path()), ["timed.stream"]);

    // By a signal, into a file under its own name.
    let file = folder.path().join("interrupted.stream.zst");
    let (mut child, _said) = begin_stream(&file, &[]);
    let instance = instance_of(&child);
    assert!(
        file.exists(),
        "what is written can be replayed should it be killed"
    );
    assert!(tracefs.instances().unwrap().contains(&instance));
    signal("INT", child.id());
    assert!(child.wait().unwrap().success());
    assert!(!tracefs.instances().unwrap().contains(&instance));
    read_stream(fs::read(&file).unwrap());

    // By its reader, which closes the pipe; the command goes on until a signal ends it.
    let busy = ["--", "sh", "-c", "while :; do /bin/true; done"];
    let (mut child, mut said) = begin_stream(Path::new("-"), &busy);
    let instance = instance_of(&child);
    drop(child.stdout.take());
    let said = until(&mut said, "waiting for the command to end");
    assert!(!tracefs.instances().unwrap().contains(&instance));
    signal("INT", child.id());
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(
        names_in(folder.path()),
        ["interrupted.stream.zst", "timed.stream"]
    );
}

/// Starts a stream and waits until it records; what it writes to standard output up to there is read.
fn begin_stream(output: &Path, rest: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut child = of_few_frames()
        .args(["record", "--buffer", "8", "--stream"])
        .arg(output)
        .args(rest)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let has_begun = Arc::new(AtomicBool::new(false));
    let reads = std::thread::spawn({
        let has_begun = Arc::clone(&has_begun);
        move || {
            let mut piece = vec![0; 1 << 16];
            // What comes after it has begun is events, of which a busy command makes some.
            while !has_begun.load(Ordering::Relaxed) && stdout.read(&mut piece).unwrap() > 0 {}
            stdout
        }
    });
    let mut said = BufReader::new(child.stderr.take().unwrap());
    until(&mut said, "recording through");
    has_begun.store(true, Ordering::Relaxed);
    if output == "-" {
        child.stdout = Some(reads.join().unwrap());
    }
    (child, said)
}

#[test]
#[ignore = "long: .ci/run runs it"]
fn a_stream_whose_disk_fills_up_says_so_and_what_is_there_is_replayed() {
    let Some((_, _turn)) = tracing() else { return };
    let folder = tempfile::tempdir().unwrap();
    let memory: u64 = fs::read_to_string("/proc/meminfo")
        .unwrap()
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    // Not packed: page flags are eight bytes a frame. Room for the beginning and the end, and for some events.
    let flags_kib = memory / 4 * 8 / 1024;
    let mount = |kib: u64| {
        let size = format!("size={kib}k");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(folder.path())
            .status();
        mounted.is_ok_and(|status| status.success())
    };
    // The buffers' text is four times as much as they hold.
    if !mount(3 * (flags_kib + 2048) + 4 * (16 << 10) + 1024) {
        println!("skipped: a file system cannot be mounted here");
        return;
    }
    let script = "i=0; while [ $i -lt 20000 ]; do /bin/true; i=$((i+1)); done";
    let run = |name: &str| {
        let mut command = framewright();
        command
            .args(["record", "--seconds", "60", "--buffer", "16", "--stream"])
            .arg(folder.path().join(name));
        command
    };
    let mut child = run("full.stream")
        .args(["--", "sh", "-c", script])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command need not go on once the recording has ended.
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = until(&mut lines, "waiting for the command");
    signal("INT", child.id());
    lines.read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    let stream = fs::read(folder.path().join("full.stream")).unwrap();
    // Now there is no room to begin another one.
    let refused = run("second.stream").output().unwrap();
    let _ = Command::new("umount").arg("-l").arg(folder.path()).status();
    assert!(status.success(), "{said}");
    assert!(said.contains("until the disk was full"), "{said}");
    assert!(read_stream(stream) >= 1000);
    assert_eq!(refused.status.code(), Some(2));
    let says = "and a stream needs ";
    assert!(text(&refused).contains(says), "{}", text(&refused));
}
