//! `framewright record`, for real where there are root and tracefs, and skipped aloud elsewhere.
#![cfg(target_os = "linux")]

use framewright::Order;
use framewright_lab::record::{Instance, Tracefs};
use framewright_lab::trace::{
    Input, Recording, STREAM_MAGIC, TraceDigest, read_frames, read_frames_digest, read_pft,
};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

fn framewright() -> Command {
    Command::new(env!("CARGO_BIN_EXE_framewright"))
}

/// Every recorder removes the instances that it takes for left ones, so a test that looks at one that is not held, or
/// at the name of a new one, runs alone.
static RECORDERS: RwLock<()> = RwLock::new(());

/// The machine's tracing beside other tests' recorders, or `None` said aloud.
fn tracing() -> Option<(Tracefs, RwLockReadGuard<'static, ()>)> {
    let tracefs = tracefs()?;
    Some((
        tracefs,
        RECORDERS.read().unwrap_or_else(PoisonError::into_inner),
    ))
}

/// The machine's tracing without other tests' recorders, or `None` said aloud.
fn tracing_alone() -> Option<(Tracefs, RwLockWriteGuard<'static, ()>)> {
    let tracefs = tracefs()?;
    Some((
        tracefs,
        RECORDERS.write().unwrap_or_else(PoisonError::into_inner),
    ))
}

fn tracefs() -> Option<Tracefs> {
    if fs::File::open("/proc/kpageflags").is_err() {
        println!("skipped: no page flags: not root, or a kernel without CONFIG_PROC_PAGE_MONITOR");
        return None;
    }
    match Tracefs::open() {
        Ok(tracefs) => Some(tracefs),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

fn instance_of(child: &Child) -> String {
    format!("{}{}", Instance::PREFIX, child.id())
}

/// Runs a recorder to its end: the name of its instance, and what it said.
fn run_to_end(command: &mut Command) -> (String, Output) {
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let instance = instance_of(&child);
    (instance, child.wait_with_output().unwrap())
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Reads the trace back and checks that it is one; returns its operations.
fn read_back(folder: &Path, name: &str) -> usize {
    let open = |ending| Input::open(&folder.join(format!("{name}.{ending}"))).unwrap();
    let trace = read_pft(open("pft.zst")).unwrap();
    // All that lies beside it says that it belongs to it.
    let mut bytes = Vec::new();
    open("pft.zst").read_up_to(u64::MAX, &mut bytes).unwrap();
    let digest = TraceDigest::of(&bytes);
    let said = read_frames_digest(&mut open("pfn.zst")).unwrap();
    assert_eq!(said, Some(digest));
    for file in [
        format!("{name}.linux_ref.csv"),
        format!("state/{name}/before.zoneinfo"),
        format!("state/{name}/after.pagetypeinfo"),
    ] {
        let text = fs::read_to_string(folder.join(&file)).unwrap();
        assert_eq!(TraceDigest::of_text(&text), Ok(Some(digest)), "{file}");
    }
    read_frames(open("pfn.zst"), &trace).unwrap();
    assert!(!trace.init.is_empty(), "memory was in use when it began");
    // What this kernel has the events for, it is known to have done or not.
    let summary = fs::read_to_string(folder.join(format!("{name}.summary.txt"))).unwrap();
    let missing = summary
        .lines()
        .find(|line| line.starts_with("not traced by this kernel"));
    let has = |event: &str| missing.is_none_or(|missing| !missing.contains(event));
    let traced = trace.work.traced;
    assert_eq!(traced.background, has("mm_vmscan_kswapd"), "{summary}");
    assert_eq!(traced.reclaim, has("mm_vmscan_direct_reclaim"), "{summary}");
    assert_eq!(traced.compaction, has("mm_compaction_"), "{summary}");
    trace.ops.len()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_command_is_recorded_and_can_be_replayed_and_nothing_stays_behind() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("run.pft.zst");
    let big = folder.path().join("big");
    // A file of 32 MiB is written, read and removed, in frames or in larger pieces.
    let script = format!(
        "head -c 33554432 /dev/zero > {0} && cat {0} > /dev/null; rm {0}; for i in 1 2 3 4 5 6; do /bin/true; done",
        big.display()
    );
    let (instance, output) = run_to_end(
        framewright()
            .args(["record", "--buffer", "32", "-o"])
            .arg(&trace)
            .args(["--", "sh", "-c", &script]),
    );
    assert!(output.status.success(), "{}", text(&output));
    assert!(!tracefs.instances().unwrap().contains(&instance));
    assert_eq!(
        names_in(folder.path()),
        [
            "run.linux_ref.csv",
            "run.pfn.zst",
            "run.pft.zst",
            "run.summary.txt",
            "state"
        ]
    );
    // Six processes alone are thousands of operations.
    assert!(read_back(folder.path(), "run") >= 1000);
    for when in ["before", "after"] {
        let state = folder.path().join(format!("state/run/{when}.pagetypeinfo"));
        let text = fs::read_to_string(&state).unwrap();
        framewright_lab::trace::state::read_pagetypeinfo("state", &text).unwrap();
        let state = folder.path().join(format!("state/run/{when}.zoneinfo"));
        let text = fs::read_to_string(&state).unwrap();
        framewright_lab::trace::state::read_zoneinfo("state", &text).unwrap();
    }
    let summary = fs::read_to_string(folder.path().join("run.summary.txt")).unwrap();
    let ended = "until the command ended: exit status: 0";
    assert!(summary.contains(ended), "{summary}");
    let checked = "frames at the end beside the second snapshot";
    assert!(summary.contains(checked), "{summary}");

    // A second one does not write over it.
    let again = framewright()
        .args(["record", "-o"])
        .arg(&trace)
        .output()
        .unwrap();
    assert_eq!(again.status.code(), Some(2));
    let refused = "is there already, expected a new name or --force";
    assert!(text(&again).contains(refused), "{}", text(&again));

    let replay = framewright()
        .args(["replay", "--policy", "linux-6.12", "--json", "-"])
        .arg(&trace)
        .output()
        .unwrap();
    assert!(replay.status.success(), "{}", text(&replay));
    let json = String::from_utf8_lossy(&replay.stdout);
    assert!(json.contains("\"run/imposed/b0\""), "{json}");
}

/// Starts a recording and waits until it records. The test then closes its end of the recorder's
/// standard error: what the recorder says later is lost.
fn start(folder: &Path, rest: &[&str]) -> Child {
    let mut child = framewright()
        .args(["record", "--buffer", "16", "-o"])
        .arg(folder.join("run.pft.zst"))
        .args(rest)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        said.push(line.unwrap());
        if said.last().unwrap().starts_with("recording into") {
            return child;
        }
    }
    let status = child.wait();
    panic!("it never recorded: {status:?}, {said:?}");
}

fn signal(name: &str, child: &Child) {
    let status = Command::new("kill")
        .args(["-s", name, &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn an_interrupted_recording_is_written_and_its_instance_is_gone() {
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path(), &[]);
    let instance = instance_of(&child);
    let has = |name| tracefs.instances().unwrap().contains(name);
    assert!(has(&instance), "it is there while it records");
    std::thread::sleep(Duration::from_millis(200));
    signal("INT", &child);
    assert!(child.wait().unwrap().success());
    assert!(!has(&instance));
    read_back(folder.path(), "run");
    let summary = fs::read_to_string(folder.path().join("run.summary.txt")).unwrap();
    assert!(summary.contains("until interrupted"), "{summary}");
}

#[test]
fn an_interrupted_command_is_ended_too() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let mut child = start(folder.path(), &["--", "sleep", "600"]);
    let instance = instance_of(&child);
    std::thread::sleep(Duration::from_millis(200));
    signal("TERM", &child);
    assert!(child.wait().unwrap().success());
    let waited = begin.elapsed();
    assert!(
        waited < Duration::from_secs(120),
        "for the command: {waited:?}"
    );
    assert!(!tracefs.instances().unwrap().contains(&instance));
}

#[test]
fn a_recording_that_was_killed_is_cleaned_up_by_the_next_and_a_running_one_is_held() {
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(folder.path(), &[]);
    let instance = instance_of(&child);
    let path = tracefs.root().join("instances").join(&instance);
    let busy = fs::remove_dir(&path).unwrap_err();
    assert_eq!(busy.kind(), std::io::ErrorKind::ResourceBusy);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(
        names_in(folder.path()),
        Vec::<String>::new(),
        "nothing half-written"
    );
    Instance::remove_stale(&tracefs);
    assert!(!path.exists());
}

/// A container's recorders have small numbers, again and again, and other containers' recorders have the same.
#[test]
fn w4_an_instance_with_the_recorders_own_number_is_left_or_another_recorders_and_never_in_the_way()
{
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // As the recorder reaches it, which has this process's folder nowhere else.
    let root = tracefs.root().to_string_lossy().into_owned();
    let root = root.replace("/proc/self/", &format!("/proc/{}/", std::process::id()));
    for (name, script) in [
        ("left", "mkdir $0"),
        ("held", "mkdir $0 && exec 9> $0/tracing_on"),
    ] {
        let script = format!(
            "set -- {root}/instances/framewright-$$ \"$@\"; at=$1; shift; {}; exec \"$@\"",
            script.replace("$0", "$at")
        );
        let (instance, output) = run_to_end(
            Command::new("sh")
                .args(["-c", &script, "sh"])
                .arg(env!("CARGO_BIN_EXE_framewright"))
                .args(["record", "--buffer", "8", "-o"])
                .arg(folder.path().join(format!("{name}.pft.zst")))
                .args(["--", "true"]),
        );
        let said = text(&output);
        assert!(output.status.success(), "{name}: {said}");
        assert_eq!(
            said.contains("removed framewright-"),
            name == "left",
            "{said}"
        );
        read_back(folder.path(), name);
        let left = tracefs.instances().unwrap();
        let own = |other: &&String| other.starts_with(&instance);
        let left: Vec<&String> = left.iter().filter(own).collect();
        // The one that was held is held no longer.
        assert_eq!(left.len(), usize::from(name == "held"), "{left:?}");
        Instance::remove_stale(&tracefs);
        assert!(!tracefs.instances().unwrap().contains(&instance));
    }
    let mine = tracefs.root().join("instances/framewright-of-another");
    fs::create_dir(&mine).unwrap();
    Instance::remove_stale(&tracefs);
    let stays = mine.exists();
    fs::remove_dir(&mine).unwrap();
    assert!(stays, "it is no recorder's");
}

#[test]
fn a_recording_ends_when_its_time_is_up_or_its_buffers_are_full() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let output = framewright()
        .args(["record", "--buffer", "16", "--seconds", "0.2", "-o"])
        .arg(folder.path().join("timed.pft.zst"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains(" s as asked"), "{}", text(&output));

    // 1 MiB holds some 20,000 events; 300 processes make ten times as many.
    let done = folder.path().join("done");
    let script = format!(
        "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; sleep 1; : > {}",
        done.display()
    );
    let (instance, output) = run_to_end(
        framewright()
            .args(["record", "--buffer", "1", "-o"])
            .arg(folder.path().join("full.pft.zst"))
            .args(["--", "sh", "-c", &script]),
    );
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("the buffers are full after"), "{said}");
    assert!(done.exists(), "the command went on to its end");
    read_back(folder.path(), "full");
    assert!(!tracefs.instances().unwrap().contains(&instance));
}

/// The number behind a word of a summary, which leaves out anomalies that did not occur.
fn number(summary: &str, word: &str) -> u64 {
    let mut words = summary.split([' ', '\n']).skip_while(|w| *w != word);
    words.nth(1).map_or(0, |number| number.parse().unwrap())
}

#[test]
fn w5_a_ring_keeps_the_newest_events_and_what_memory_was_like_where_they_begin() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // 1 MiB holds some 20,000 events; 300 processes make ten times as many.
    let script = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done; exit 7";
    let (instance, output) = run_to_end(
        framewright()
            .args([
                "record",
                "--ring",
                "1MiB",
                "--until-failure",
                "reported",
                "-o",
            ])
            .arg(folder.path().join("ring.pft.zst"))
            .args(["--seconds", "60", "--", "sh", "-c", script]),
    );
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    let begun =
        "1 MiB of buffers, the newest events, until a request fails that the kernel reports";
    assert!(said.contains(begun), "{said}");
    assert!(said.contains("older events were overwritten"), "{said}");
    assert!(
        said.contains("until the command ended: exit status: 7"),
        "{said}"
    );
    // Neither the buffers nor the instance that looks for failures stay.
    let left = tracefs.instances().unwrap();
    assert!(
        !left.iter().any(|name| name.starts_with(&instance)),
        "{left:?}"
    );
    assert!(read_back(folder.path(), "ring") >= 1000);
    // What memory was like at the beginning is worked out so that the events fit: no more is inferred than from a
    // snapshot taken then, but for what compaction does meanwhile.
    let summary = fs::read_to_string(folder.path().join("ring.summary.txt")).unwrap();
    let frees = number(&summary, "free");
    assert!(frees >= 1000, "{summary}");
    assert_eq!(number(&summary, "initial_inferred"), 0, "{summary}");
    for kind in ["percpu_at_start", "missed_frees", "frees_of_unknown"] {
        assert!(number(&summary, kind) * 20 <= frees, "{kind}: {summary}");
    }
    // The files of /proc say that they are from before that, and no replay measures the beginning by them.
    for (when, has_lead) in [("before", true), ("after", false)] {
        let text = fs::read_to_string(folder.path().join(format!("state/ring/{when}.vmstat")));
        let text = text.unwrap();
        let second = text.lines().nth(1).unwrap();
        assert_eq!(
            second.ends_with(" s before the trace begins"),
            has_lead,
            "{second}"
        );
    }
    let replay = framewright()
        .args(["replay", "--policy", "linux-6.12"])
        .arg(folder.path().join("ring.pft.zst"))
        .output()
        .unwrap();
    assert!(replay.status.success(), "{}", text(&replay));
    let said = String::from_utf8_lossy(&replay.stdout).into_owned() + &text(&replay);
    assert!(
        said.contains("the trace begins where a flight recorder's events begin"),
        "{said}"
    );
    assert!(!said.contains("do not belong together"), "{said}");
}

#[test]
fn what_looks_for_failures_waits_for_the_recording_and_sees_one_order() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    for (order, filter) in [(Order::new(3), " && order == 3"), (None, "pfn == ")] {
        let instance = Instance::make_for_failures(&tracefs, order).unwrap();
        let at = tracefs.root().join("instances").join(instance.name());
        // The kernel gives a filter to the first read alone.
        let read = |file: &str| {
            let mut text = [0; 4096];
            let read = fs::File::open(at.join(file)).unwrap().read(&mut text);
            String::from_utf8_lossy(&text[..read.unwrap()]).into_owned()
        };
        let says = read("events/kmem/mm_page_alloc/filter");
        assert!(says.contains(filter), "{says}");
        assert_eq!(read("events/kmem/mm_page_alloc/enable").trim(), "1");
        assert_eq!(
            read("tracing_on").trim(),
            "0",
            "a failure before the recording ends none"
        );
    }
}

#[test]
fn a_recording_whose_folder_goes_meanwhile_lies_in_the_temporary_one_and_else_both_are_named() {
    let Some((_, _turn)) = tracing() else { return };
    for has_temporary in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (gone, temporary) = (folder.path().join("gone"), folder.path().join("tmp"));
        fs::create_dir(&gone).unwrap();
        if has_temporary {
            fs::create_dir(&temporary).unwrap();
        }
        let output = framewright()
            .args(["record", "--ring", "1MiB", "-o"])
            .arg(gone.join("run.pft.zst"))
            .args(["--", "rmdir"])
            .arg(&gone)
            .env("TMPDIR", &temporary)
            .output()
            .unwrap();
        let said = text(&output);
        assert_eq!(output.status.success(), has_temporary, "{said}");
        assert!(said.contains("gone/"), "{said}");
        if has_temporary {
            let kept = names_in(&temporary);
            assert_eq!(kept.len(), 1, "{kept:?}");
            read_back(&temporary.join(&kept[0]), "run");
        } else {
            assert!(said.contains("; nor in the temporary folder: "), "{said}");
        }
    }
}

#[test]
fn what_cannot_be_recorded_leaves_nothing_behind() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str], file: &str, message: &str| {
        let (instance, output) = run_to_end(
            framewright()
                .args(["record", "-o"])
                .arg(folder.path().join(file))
                .args(arguments),
        );
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(message), "{}", text(&output));
        assert!(!tracefs.instances().unwrap().contains(&instance));
        assert_eq!(names_in(folder.path()), Vec::<String>::new());
    };
    let command = ["--buffer", "8", "--", "/no/such/command"];
    fails(&command, "run.pft.zst", "/no/such/command: cannot be run: ");
    let large = ["--buffer", "99999999"];
    fails(&large, "run.pft.zst", "--buffer 99999999: expected 1 to ");
    let order = ["--until-failure", "20"];
    fails(
        &order,
        "run.pft.zst",
        "--until-failure 20: this kernel has orders 0 to ",
    );
    fails(&[], "none/run.pft.zst", "there is no folder ");
    fails(&[], "state", "the folder of the state files has this name");
    fails(&[], "..", "not a file's name, expected one as run.pft.zst");
}

#[test]
fn without_rights_it_says_what_is_missing_and_how_to_get_it() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    // Another user must be able to reach the program and to write here.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = folder.path().join("framewright");
    fs::copy(env!("CARGO_BIN_EXE_framewright"), &program).unwrap();
    let record = |mut command: Command| {
        let trace = folder.path().join("run.pft.zst");
        command.args(["record", "-o"]).arg(trace).output()
    };
    let output = if fs::File::open("/proc/kpageflags").is_err() {
        record(Command::new(&program)).unwrap()
    } else {
        let mut unprivileged = Command::new("setpriv");
        unprivileged.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"]);
        unprivileged.arg(&program);
        match record(unprivileged) {
            Ok(output) if !text(&output).starts_with("setpriv:") => output,
            _ => {
                println!("skipped: root, and no setpriv to become another user");
                return;
            }
        }
    };
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("cannot record: "), "{said}");
    let remedy = "needs root (CAP_SYS_ADMIN): run it with sudo";
    assert!(said.contains(remedy), "{said}");
    assert_eq!(names_in(folder.path()), ["framewright"]);
}

/// Reads a stream back and checks that it is whole; returns its events.
fn read_stream(bytes: Vec<u8>) -> u64 {
    let input = Input::from_reader("stream", std::io::Cursor::new(bytes)).unwrap();
    let Recording::Stream(mut stream) = Recording::from_input(input).unwrap() else {
        panic!("no stream")
    };
    let before = stream.take_parts().unwrap();
    assert!(before.first.is_some() && before.files.contains_key("before.zoneinfo"));
    let (mut reader, rest) = stream.into_events().unwrap();
    while reader.next_event().unwrap().is_some() {}
    let after = rest.finish().unwrap();
    assert!(after.is_whole() && after.last.is_some());
    assert!(after.files.contains_key("after.vmstat"));
    reader.counts().events()
}

#[test]
fn a_stream_goes_through_a_pipe_beside_what_the_command_prints_and_is_replayed() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let script = "echo said by the command; for i in 1 2 3 4 5 6; do /bin/true; done";
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
    assert!(
        said.contains("until the command ended: exit status: 0"),
        "{said}"
    );
    assert!(!tracefs.instances().unwrap().contains(&instance));
    assert!(read_stream(output.stdout.clone()) >= 1000);
    let stream = folder.path().join("run.stream.zst");
    fs::write(&stream, &output.stdout).unwrap();
    let replay = framewright()
        .args([
            "replay",
            "--policy",
            "linux-6.12",
            "--watermarks",
            "on",
            "--json",
            "-",
        ])
        .arg(&stream)
        .output()
        .unwrap();
    assert!(replay.status.success(), "{}", text(&replay));
    let json = String::from_utf8_lossy(&replay.stdout);
    assert!(json.contains("\"run.stream.zst/imposed/b0\""), "{json}");
    // The machine's own layout, what it waited for, and its zones are in the one stream.
    assert!(json.contains("\"variant\":\"linux\""), "{json}");
    // What was written before the recorder was killed is replayed, too, and said to be cut.
    let half = folder.path().join("half.zst");
    fs::write(&half, &output.stdout[..output.stdout.len() - 20]).unwrap();
    let replay = framewright()
        .args(["replay", "--policy", "linux-6.12"])
        .arg(&half)
        .output()
        .unwrap();
    assert!(replay.status.success(), "{}", text(&replay));
    let said = String::from_utf8_lossy(&replay.stdout).into_owned() + &text(&replay);
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
    let output = framewright()
        .args(["record", "--buffer", "8", "--seconds", "0.2", "--stream"])
        .arg(&timed)
        .args(["--", "sleep", "1"])
        .output()
        .unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains(" s as asked"), "{said}");
    assert!(said.contains("waiting for the command to end"), "{said}");
    assert!(fs::read(&timed).unwrap().starts_with(STREAM_MAGIC));
    read_stream(fs::read(&timed).unwrap());
    // A second one does not write over it, unless it is told to.
    let again = framewright()
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
    signal("INT", &child);
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
    signal("INT", &child);
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(
        names_in(folder.path()),
        ["interrupted.stream.zst", "timed.stream"]
    );
}

/// Starts a stream and waits until it records; what it writes to standard output up to there is read.
fn begin_stream(output: &Path, rest: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut child = framewright()
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

/// What a recorder says up to a line with these words.
fn until(said: &mut impl BufRead, words: &str) -> String {
    let mut lines = String::new();
    while !lines.contains(words) {
        assert!(said.read_line(&mut lines).unwrap() > 0, "{lines}");
    }
    lines
}

#[test]
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
    signal("INT", &child);
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

#[test]
fn a_board_without_the_program_is_recorded_by_a_shell() {
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("board/record.sh");
    let was_mounted = Path::new("/sys/kernel/tracing/instances").is_dir();
    for shell in [&["sh"][..], &["busybox", "sh"]] {
        let mut runs = Command::new(shell[0]);
        let runs = runs.args(&shell[1..]).args(["-c", "exit 0"]).status();
        if !runs.is_ok_and(|status| status.success()) {
            println!("skipped: there is no {}", shell[0]);
            continue;
        }
        // A signal ends it as the time does, which the other shell waits for.
        let is_signalled = shell.len() == 1;
        let seconds = if is_signalled { "600" } else { "1" };
        let mut child = Command::new(shell[0])
            .args(&shell[1..])
            .arg(&script)
            .args([seconds, "2048"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let instance = instance_of(&child);
        let mut stdout = child.stdout.take().unwrap();
        let reads = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let mut said = BufReader::new(child.stderr.take().unwrap());
        until(&mut said, "record.sh: recording for ");
        if is_signalled {
            // To all of them, as HUP comes where a connection ends. SIGINT may be ignored where tests run.
            let group = format!("-{}", child.id());
            let sent = Command::new("kill")
                .args(["-s", "TERM", "--", &group])
                .status();
            assert!(sent.unwrap().success());
        }
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        assert!(child.wait().unwrap().success(), "{shell:?}: {rest}");
        assert!(rest.contains("record.sh: recorded "), "{shell:?}: {rest}");
        assert!(read_stream(reads.join().unwrap()) >= 1, "{shell:?}");
        assert!(!tracefs.instances().unwrap().contains(&instance));
        let is_mounted = Path::new("/sys/kernel/tracing/instances").is_dir();
        assert!(is_mounted == was_mounted, "{shell:?} left tracefs mounted");
    }
}
