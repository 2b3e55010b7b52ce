//! The shell that records on a board without the program.

use crate::support::*;
use framewright_lab::record::Tracefs;
use std::fs;
use std::io::{BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[test]
#[ignore = "long: .ci/run runs it"]
fn a_board_without_the_program_is_recorded_by_a_shell() {
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    let was_mounted = Path::new("/sys/kernel/tracing/instances").is_dir();
    for shell in shells() {
        // A signal ends it as the time does, which the other shell waits for.
        let is_signalled = shell.len() == 1;
        let seconds = if is_signalled { "600" } else { "1" };
        // The first reads all page flags.
        let command = match is_signalled {
            true => Command::new(shell[0]),
            false => command_of(&words_of_few_frames(shell[0])),
        };
        let child = running_record_sh(command, shell, &[seconds, "2048"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let recording = RunningShell::of(child);
        if is_signalled {
            // To all of them, as HUP comes where a connection ends. SIGINT may be ignored where tests run.
            signal("TERM", -i64::from(recording.child.id()));
        }
        recording.ends_well(shell, &tracefs);
        let is_mounted = Path::new("/sys/kernel/tracing/instances").is_dir();
        assert!(is_mounted == was_mounted, "{shell:?} left tracefs mounted");
    }
}

/// A person sees one process, and sends it the signal.
#[test]
fn a_signal_to_the_script_alone_ends_its_recording_well() {
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    for shell in shells() {
        // SIGINT may be ignored where tests run.
        let child = record_sh(shell, &["600", "2048"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let recording = RunningShell::of(child);
        let begun = Instant::now();
        signal("TERM", recording.child.id());
        recording.ends_well(shell, &tracefs);
        assert!(begun.elapsed() < Duration::from_secs(60), "{shell:?}");
    }
}

/// The script while it records.
struct RunningShell {
    child: Child,
    instance: String,
    stream: JoinHandle<Vec<u8>>,
    said: BufReader<ChildStderr>,
}

impl RunningShell {
    /// Waits until it records.
    fn of(mut child: Child) -> Self {
        let instance = instance_of(&child);
        let mut stdout = child.stdout.take().unwrap();
        let stream = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            stdout.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let mut said = BufReader::new(child.stderr.take().unwrap());
        until(&mut said, "record.sh: recording for ");
        Self {
            child,
            instance,
            stream,
            said,
        }
    }

    /// Waits for its end. The stream is whole, and nothing is left behind.
    fn ends_well(mut self, shell: &[&str], tracefs: &Tracefs) {
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{shell:?}: {rest}");
        assert!(rest.contains("record.sh: recorded "), "{shell:?}: {rest}");
        assert!(read_stream(self.stream.join().unwrap()) >= 1, "{shell:?}");
        assert!(!tracefs.instances().unwrap().contains(&self.instance));
    }
}

/// The shells that there are.
fn shells() -> Vec<&'static [&'static str]> {
    let all = [&["sh"][..], &["busybox", "sh"]];
    let is_there = |shell: &&[&str]| {
        let mut runs = Command::new(shell[0]);
        let runs = runs.args(&shell[1..]).args(["-c", "exit 0"]).status();
        let is_there = runs.is_ok_and(|status| status.success());
        if !is_there {
            println!("skipped: there is no {}", shell[0]);
        }
        is_there
    };
    all.into_iter().filter(is_there).collect()
}

/// The script, run by a shell that finds the page flags of few frames.
fn record_sh(shell: &[&str], arguments: &[&str]) -> Command {
    let command = command_of(&words_of_few_frames(shell[0]));
    running_record_sh(command, shell, arguments)
}

fn running_record_sh(mut command: Command, shell: &[&str], arguments: &[&str]) -> Command {
    command
        .args(&shell[1..])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("board/record.sh"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    command
}

#[test]
fn a_shell_that_cannot_record_says_so_with_its_status() {
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    for shell in shells() {
        let fails = |mut command: Command, says: &str| {
            let (instance, output) = run_to_end(&mut command);
            let said = text(&output);
            assert!(!tracefs.instances().unwrap().contains(&instance));
            assert_eq!(output.status.code(), Some(2), "{shell:?}: {said}");
            assert!(said.contains(says), "{shell:?}: {said}");
        };
        // These numbers are octal to some shells, or none.
        for number in ["08", "1x", "99999999999999999999"] {
            let says =
                format!("record.sh: {number}: expected a whole number of at most nine digits");
            fails(record_sh(shell, &[number, "2048"]), &says);
        }
        let says = "no buffers of 999999999 KiB a CPU: give fewer";
        fails(record_sh(shell, &["1", "999999999"]), says);
        // A disk that is full when the last of it is written.
        let full = fs::File::options().write(true).open("/dev/full");
        let mut command = record_sh(shell, &["1", "2048"]);
        command.stdout(full.unwrap());
        fails(command, "No space left on device");
    }
}

/// The machine's own tracing under other settings, and its own ones again afterwards.
struct OtherSettings(Vec<(PathBuf, String)>);

impl OtherSettings {
    fn of(options: &Path, settings: &[(&str, &str)]) -> Self {
        let mut had = Self(Vec::new());
        for (option, value) in settings {
            let path = options.join(option);
            let Ok(own) = fs::read_to_string(&path) else {
                continue;
            };
            had.0.push((path.clone(), own));
            fs::write(path, value).unwrap();
        }
        had
    }
}

impl Drop for OtherSettings {
    fn drop(&mut self) {
        for (path, value) in &self.0 {
            let _ = fs::write(path, value.trim());
        }
    }
}

#[test]
#[ignore = "long: .ci/run runs it"]
fn a_machine_whose_tracing_prints_otherwise_is_recorded_all_the_same() {
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    let options = tracefs.root().join("options");
    for settings in [
        &[
            ("markers", "0"),
            ("context-info", "0"),
            ("irq-info", "0"),
            ("record-cmd", "0"),
        ][..],
        &[
            ("latency-format", "1"),
            ("record-tgid", "1"),
            ("fields", "1"),
        ],
        &[("hex", "1")],
    ] {
        let _other = OtherSettings::of(&options, settings);
        let mut command = of_few_frames();
        command.args(["record", "--buffer", "8", "--stream", "-", "--", "true"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{settings:?}: {}", text(&output));
        assert!(read_stream(output.stdout) >= 1, "{settings:?}");
        let output = record_sh(&["sh"], &["1", "2048"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert!(output.status.success(), "{settings:?}: {}", text(&output));
        assert!(read_stream(output.stdout) >= 1, "{settings:?}");
    }
}

/// The parent of what reads events for a script that leads this group, once that runs.
fn parent_of_sed(group: u32) -> Option<u32> {
    let find = |process: fs::DirEntry| {
        let words = fs::read(process.path().join("cmdline")).ok()?;
        let mark = b"tracing_mark_write: framewright ends";
        let stat = fs::read_to_string(process.path().join("stat")).ok()?;
        let mut numbers = stat.rsplit_once(") ")?.1.split(' ').skip(1);
        let parent = numbers.next()?.parse().ok()?;
        let is_it = words.windows(mark.len()).any(|at| at == mark);
        (is_it && numbers.next()?.parse() == Ok(group)).then_some(parent)
    };
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        let found = fs::read_dir("/proc").unwrap().flatten().find_map(find);
        if found.is_some() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

#[test]
fn a_shell_whose_messages_are_not_read_ends_what_reads_events() {
    let Some((tracefs, _turn)) = tracing_alone() else {
        return;
    };
    for shell in shells() {
        let mut child = record_sh(shell, &["600", "2048"])
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        until(&mut said, "record.sh: recording for ");
        let script = parent_of_sed(child.id()).expect("nothing reads events");
        signal("PIPE", script);
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{shell:?} waits");
            std::thread::sleep(Duration::from_millis(50));
        };
        assert_eq!(status.code(), Some(2), "{shell:?}");
        assert!(!tracefs.instances().unwrap().contains(&instance_of(&child)));
    }
}
