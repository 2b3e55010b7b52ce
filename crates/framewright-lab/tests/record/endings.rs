//! Recordings that are written when they end: how they end, what they leave behind, and what cannot be recorded.

use crate::support::*;
use framewright::Order;
use framewright_lab::record::Instance;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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

    let json = replayed(&["--json", "-"], &trace);
    assert!(json.contains("\"run/imposed/b0\""), "{json}");
}

/// Starts a recording and waits until it records. The test then closes its end of the recorder's
/// standard error: what the recorder says later is lost.
fn start(folder: &Path, rest: &[&str]) -> Child {
    let mut child = of_few_frames()
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
    signal("INT", child.id());
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
    signal("TERM", child.id());
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
                .args(words_of_few_frames(env!("CARGO_BIN_EXE_framewright")))
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
    let output = of_few_frames()
        .args(["record", "--buffer", "16", "--seconds", "0.2", "-o"])
        .arg(folder.path().join("timed.pft.zst"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains(" s as asked"), "{}", text(&output));

    // 1 MiB holds some 25,000 events; a process makes 80 and more, depending on how much is mapped there.
    let done = folder.path().join("done");
    let script = format!(
        "i=0; while [ $i -lt 1200 ]; do /bin/true; i=$((i+1)); done; sleep 1; : > {}",
        done.display()
    );
    let (instance, output) = run_to_end(
        of_few_frames()
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

/// The first CPU that this process may run on.
fn first_cpu() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU)
        .find(|&cpu| allowed.is_set(cpu))
        .unwrap()
}

#[test]
fn a_recording_ends_with_its_time_and_its_command_goes_on() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    for keeps in [["--buffer", "8"], ["--ring", "1MiB"]] {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        // It ends when it is told to, which is long after the recording has.
        let script = format!(
            "while [ ! -e {} ]; do sleep 0.02; done; echo so > {}; exit 3",
            at("go").display(),
            at("ended").display()
        );
        let mut child = framewright()
            .args(["record", "--seconds", "0.3"])
            .args(keeps)
            .arg("-o")
            .arg(at("run.pft.zst"))
            .args(["--", "sh", "-c", &script])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let instance = instance_of(&child);
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = until(
            &mut lines,
            "waiting for the command to end; its recording has ended",
        );
        // The recorder traces nothing now, and the command still runs.
        let own = tracefs.root().join("instances").join(&instance);
        let is_on = || fs::read_to_string(own.join("tracing_on")).unwrap().trim() != "0";
        assert!(!own.exists() || !is_on(), "{said}");
        assert!(
            !at("ended").exists() && !at("run.pft.zst").exists(),
            "{said}"
        );
        assert!(child.try_wait().unwrap().is_none(), "{said}");
        fs::write(at("go"), "").unwrap();
        lines.read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success(), "{said}");
        assert!(at("ended").exists(), "the command was ended: {said}");
        assert!(!tracefs.instances().unwrap().contains(&instance));
        let summary = fs::read_to_string(at("run.summary.txt")).unwrap();
        assert!(summary.contains(" s as asked\n"), "{summary}");
        assert!(read_back(folder.path(), "run") >= 1);
    }
}

#[test]
fn w5_a_ring_keeps_the_newest_events_and_what_memory_was_like_where_they_begin() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // 1 MiB holds some 25,000 events; a process makes 80 and more, depending on how much is mapped there.
    // All of them on one CPU: a kernel stack is four frames from the bulk allocator, which has no event, and a process that
    // ends on another CPU than the next one begins on leaves it none to take over, so that these frees would be of unknown.
    let cpu = first_cpu();
    let script = format!(
        "taskset -cp {cpu} $$ >/dev/null || exit 9; i=0; while [ $i -lt 1200 ]; do /bin/true; i=$((i+1)); done; exit 7"
    );
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
            .args(["--seconds", "60", "--", "sh", "-c", &script]),
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
    let said = replayed(&[], &folder.path().join("ring.pft.zst"));
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
        let output = of_few_frames()
            .args(["record", "--ring", "1MiB", "-o"])
            .arg(gone.join("run.pft.zst"))
            .args(["--", "rmdir"])
            .arg(&gone)
            .env("TMPDIR", &temporary)
            .output()
            .unwrap();
        let said = text(&output);
        // It is not where it was to be.
        let code = if has_temporary { 1 } else { 2 };
        assert_eq!(output.status.code(), Some(code), "{said}");
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
fn a_recorder_says_that_it_records_when_it_does_and_asks_for_a_second_signal_after_a_first() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let instances = tracefs.root().join("instances");
    for (is_interrupted, asks) in [
        (false, "; interrupt to give up"),
        (true, "again to give up"),
    ] {
        for to in ["-o", "--stream"] {
            let folder = tempfile::tempdir().unwrap();
            let mut child = of_few_frames()
                .args(["record", "--buffer", "8", to])
                .arg(folder.path().join("run.pft.zst"))
                .args(["--seconds", if is_interrupted { "60" } else { "1" }])
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let own = instances.join(instance_of(&child));
            let mut lines = BufReader::new(child.stderr.take().unwrap());
            let mut said = until(&mut lines, "MiB of buffers");
            let is_on = fs::read_to_string(own.join("tracing_on")).unwrap();
            assert_eq!(is_on.trim(), "1", "{said}");
            if is_interrupted {
                signal("INT", child.id());
            }
            lines.read_to_string(&mut said).unwrap();
            assert!(child.wait().unwrap().success(), "{said}");
            assert!(to == "--stream" || said.contains(asks), "{said}");
        }
    }
}

/// `/proc` takes no file, from root neither.
#[test]
fn a_place_that_takes_no_file_is_refused_before_anything_is_recorded() {
    let Some((_, _turn)) = tracing() else { return };
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    let output = of_few_frames()
        .args(["record", "-o", "/proc/run.pft.zst", "--", "touch"])
        .arg(&ran)
        .output()
        .unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("/proc/run.pft.zst: "), "{said}");
    assert!(!ran.exists(), "{said}");
}

#[test]
fn what_cannot_be_recorded_leaves_nothing_behind() {
    let Some((tracefs, _turn)) = tracing() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let fails = |arguments: &[&str], file: &str, message: &str| {
        let (instance, output) = run_to_end(
            of_few_frames()
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
