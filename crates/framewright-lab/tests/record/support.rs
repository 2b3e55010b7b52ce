//! The machine's tracing, recorders that run, and what they wrote.

use framewright_lab::record::{Instance, Tracefs};
use framewright_lab::trace::state::{BOOT_WORDS, read_settings};
use framewright_lab::trace::{
    Input, Recording, TraceDigest, read_frames, read_frames_digest, read_pft,
};
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The command: what `FRAMEWRIGHT` names, as for the long tests, or what was built with this test.
fn program() -> OsString {
    std::env::var_os("FRAMEWRIGHT").unwrap_or_else(|| env!("CARGO_BIN_EXE_framewright").into())
}

pub(crate) fn framewright() -> Command {
    Command::new(program())
}

/// A recorder that finds the page flags of the machine's first frames alone. The kernel takes most of a second for those
/// of a large machine, twice a recording, and how a recording ends does not depend on them.
pub(crate) fn of_few_frames() -> Command {
    command_of(&words_of_few_frames(program()))
}

pub(crate) fn command_of(words: &[OsString]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// What runs a program so: under the number that it is started with, in a mount namespace of its own where it can have
/// one.
pub(crate) fn words_of_few_frames(program: impl Into<OsString>) -> Vec<OsString> {
    static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();
    let mut words = WORDS.get_or_init(mounting_few_flags).clone();
    words.push(program.into());
    words
}

fn mounting_few_flags() -> Vec<OsString> {
    let script = "mount --bind \"$1\" /proc/kpageflags && shift && exec \"$@\"";
    let Some(flags) = few_flags() else {
        return Vec::new();
    };
    let mut words = Vec::from(["unshare", "--mount", "sh", "-c", script, "sh"].map(OsString::from));
    words.push(flags.into_os_string());
    let tries = command_of(&words)
        .arg("true")
        .stderr(Stdio::null())
        .status();
    if !tries.is_ok_and(|status| status.success()) {
        println!("nothing can be mounted here: recorders read all page flags");
        words.clear();
    }
    words
}

/// A file with the flags of 65,536 frames.
fn few_flags() -> Option<PathBuf> {
    let mut flags = Vec::new();
    let all = fs::File::open("/proc/kpageflags").ok()?;
    all.take(8 << 16).read_to_end(&mut flags).ok()?;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("few-kpageflags");
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).ok()?;
    file.write_all(&flags).ok()?;
    file.persist(&path).ok()?;
    Some(path)
}

/// Every recorder removes the instances that it takes for left ones, so a test that looks at one that is not held, or
/// at the name of a new one, runs alone.
pub(crate) static RECORDERS: RwLock<()> = RwLock::new(());

/// The machine's tracing beside other tests' recorders, or `None` said aloud.
pub(crate) fn tracing() -> Option<(Tracefs, RwLockReadGuard<'static, ()>)> {
    let tracefs = tracefs()?;
    Some((
        tracefs,
        RECORDERS.read().unwrap_or_else(PoisonError::into_inner),
    ))
}

/// The machine's tracing without other tests' recorders, or `None` said aloud.
pub(crate) fn tracing_alone() -> Option<(Tracefs, RwLockWriteGuard<'static, ()>)> {
    let tracefs = tracefs()?;
    Some((
        tracefs,
        RECORDERS.write().unwrap_or_else(PoisonError::into_inner),
    ))
}

pub(crate) fn tracefs() -> Option<Tracefs> {
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

pub(crate) fn instance_of(child: &Child) -> String {
    format!("{}{}", Instance::PREFIX, child.id())
}

/// Runs a recorder to its end: the name of its instance, and what it said.
pub(crate) fn run_to_end(command: &mut Command) -> (String, Output) {
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let instance = instance_of(&child);
    (instance, child.wait_with_output().unwrap())
}

pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Reads the trace back and checks that it is one; returns its operations.
pub(crate) fn read_back(folder: &Path, name: &str) -> usize {
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
        format!("state/{name}/before.settings"),
        format!("state/{name}/after.pagetypeinfo"),
    ] {
        let text = fs::read_to_string(folder.join(&file)).unwrap();
        assert_eq!(TraceDigest::of_text(&text), Ok(Some(digest)), "{file}");
    }
    let settings = folder.join(format!("state/{name}/before.settings"));
    has_settings(&fs::read_to_string(settings).unwrap());
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

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Sends a signal to a process, or to all of a group whose number is negative.
pub(crate) fn signal(name: &str, target: impl Into<i64>) {
    let status = Command::new("kill")
        .args(["-s", name, "--", &target.into().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

/// What a replay with these arguments writes to standard output and then says.
pub(crate) fn replayed(arguments: &[&str], trace: &Path) -> String {
    let output = framewright()
        .args(["replay", "--policy", "linux-6.12"])
        .args(arguments)
        .arg(trace)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8_lossy(&output.stdout).into_owned() + &text(&output)
}

/// This machine's settings are there, and of its command line no word that is not about memory.
fn has_settings(text: &str) {
    let settings = read_settings("settings", text).unwrap();
    let own = fs::read_to_string("/proc/sys/vm/min_free_kbytes").unwrap();
    let said = settings.number("vm.min_free_kbytes");
    assert_eq!(said, own.trim().parse().ok(), "{text}");
    let cmdline = fs::read_to_string("/proc/cmdline").unwrap();
    for word in text.lines().filter_map(|line| line.strip_prefix("boot ")) {
        let name = word.split('=').next().unwrap_or_default();
        assert!(BOOT_WORDS.contains(&name), "{word}");
        assert!(cmdline.split_whitespace().any(|own| own == word), "{word}");
    }
}

/// Reads a stream back and checks that it is whole; returns its events.
pub(crate) fn read_stream(bytes: Vec<u8>) -> u64 {
    let input = Input::from_reader("stream", std::io::Cursor::new(bytes)).unwrap();
    let Recording::Stream(mut stream) = Recording::from_input(input).unwrap() else {
        panic!("no stream")
    };
    let before = stream.take_parts().unwrap();
    assert!(before.first.is_some() && before.files.contains_key("before.zoneinfo"));
    has_settings(before.text("before.settings").unwrap().unwrap());
    // The tasks are listed a second time once tracing is on: a task that took another name in between is in the second list.
    let first = before.tasks().filter(|(task, _)| *task == 1);
    let lists = first.count();
    assert!(lists == 2 || before.tasks().count() == 0, "{lists} lists");
    let (mut reader, rest) = stream.into_events().unwrap();
    while reader.next_event().unwrap().is_some() {}
    let after = rest.finish().unwrap();
    assert!(after.is_whole() && after.last.is_some());
    assert!(after.files.contains_key("after.vmstat"));
    reader.counts().events()
}

/// What a recorder says up to a line with these words.
pub(crate) fn until(said: &mut impl BufRead, words: &str) -> String {
    let mut lines = String::new();
    while !lines.contains(words) {
        assert!(said.read_line(&mut lines).unwrap() > 0, "{lines}");
    }
    lines
}
