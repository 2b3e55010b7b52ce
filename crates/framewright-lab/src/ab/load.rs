//! The loads that a comparison runs are scripts inside the program: a run names one, and its digest says which text
//! that was. Here they are unpacked, run in a process group of their own, and asked how many rounds they did. A
//! load that lacks a program or fails makes no run.

use super::AbError;
use crate::printable;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A load: a script of this repository, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbLoad {
    /// The name in plans.
    pub name: &'static str,
    script: &'static str,
}

macro_rules! loads {
    ($($name:literal),* $(,)?) => {
        [$(AbLoad { name: $name, script: include_str!(concat!("../../loads/", $name, ".sh")) }),*]
    };
}

/// All of them.
pub const LOADS: [AbLoad; 5] = loads!["files", "database", "files-sockets", "compile", "huge"];

/// What a script ends with that lacks a program.
const LACKS: i32 = 77;
/// How much longer than it was told a load may take.
const GRACE: Duration = Duration::from_secs(60);

impl AbLoad {
    /// The load of that name.
    ///
    /// # Errors
    /// If there is none; the message lists those there are.
    pub fn named(name: &str) -> Result<Self, AbError> {
        let found = LOADS.into_iter().find(|load| load.name == name);
        found.ok_or_else(|| {
            let names = LOADS.map(|load| load.name).join(", ");
            AbError::new(format!(
                "there is no load '{}', expected one of {names}",
                printable::text(name)
            ))
        })
    }

    /// What tells its script, and those that it calls, from every other.
    #[must_use]
    pub fn digest(&self) -> String {
        // Scripts call one another, so that all of them are what a load is.
        let all: String = LOADS.iter().map(|load| load.script).collect();
        crate::trace::TraceDigest::of(format!("{}\n{all}", self.name).as_bytes()).to_string()
    }

    /// Writes all scripts into a folder; the path of this one.
    fn unpack(&self, folder: &Path) -> Result<PathBuf, AbError> {
        fs::create_dir_all(folder).map_err(|e| AbError::file(folder, e))?;
        for load in LOADS {
            let path = folder.join(load.name).with_extension("sh");
            fs::write(&path, load.script).map_err(|e| AbError::file(&path, e))?;
        }
        Ok(folder.join(self.name).with_extension("sh"))
    }

    /// What it needs and this machine lacks.
    ///
    /// # Errors
    /// If the script cannot be run.
    pub fn lacks(&self, folder: &Path) -> Result<Option<String>, AbError> {
        let script = self.unpack(folder)?;
        let output = Command::new("sh").arg(&script).arg("check").output();
        let output = output.map_err(|e| AbError::file(&script, e))?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        match output.status.code() {
            Some(0) => Ok(None),
            Some(LACKS) => Ok(Some(printable::text(&said))),
            _ => Err(AbError::file(&script, format!("check: {}", output.status))),
        }
    }

    /// The words that run it.
    pub(super) fn command(
        &self,
        scripts: &Path,
        seed: u64,
        seconds: u64,
        work: &Path,
        free_mib: u64,
    ) -> Result<Vec<std::ffi::OsString>, AbError> {
        let script = self.unpack(scripts)?;
        Ok(vec![
            "sh".into(),
            script.into_os_string(),
            seed.to_string().into(),
            seconds.to_string().into(),
            work.as_os_str().to_owned(),
            free_mib.to_string().into(),
        ])
    }
}

/// Runs words in a process group of their own to their end, with what they print into a file; what they printed.
pub(super) fn run_words(
    words: &[std::ffi::OsString],
    printed: &Path,
    seconds: u64,
    interrupted: &AtomicBool,
) -> Result<String, AbError> {
    let file = fs::File::create(printed).map_err(|e| AbError::file(printed, e))?;
    let (program, arguments) = words.split_first().ok_or_else(|| AbError::new("no load"))?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(file);
    let child = command.stderr(Stdio::null()).spawn();
    let mut group =
        LoadGroup(child.map_err(|e| AbError::new(format!("the load cannot be run: {e}")))?);
    let begun = Instant::now();
    let most = Duration::from_secs(seconds) + GRACE;
    let status = loop {
        if let Some(status) = group.0.try_wait().map_err(AbError::new)? {
            break status;
        }
        if interrupted.load(Ordering::Relaxed) {
            return Err(AbError::new("interrupted; the settings are put back"));
        }
        if begun.elapsed() > most {
            return Err(AbError::new(format!(
                "the load did not end within {most:?}"
            )));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    drop(group);
    if !status.success() {
        return Err(AbError::new(format!("the load failed: {status}")));
    }
    fs::read_to_string(printed).map_err(|e| AbError::file(printed, e))
}

/// Rounds of work in what a load printed.
pub(super) fn work_of(printed: &str) -> Result<f64, AbError> {
    let last = printed
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("work "));
    let work = last.and_then(|number| number.trim().parse().ok());
    work.ok_or_else(|| AbError::new("the load printed no line `work N`"))
}

/// A load and all that it has started; dropping it ends them.
struct LoadGroup(Child);

impl Drop for LoadGroup {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id())
            .ok()
            .and_then(rustix::process::Pid::from_raw);
        if let Some(group) = group {
            // Its leader may be gone, and what it has started is not.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_named_and_what_is_none_is_refused_with_those_there_are() {
        assert_eq!(AbLoad::named("files").unwrap().name, "files");
        let error = AbLoad::named("phone").unwrap_err().to_string();
        assert_eq!(
            error,
            "there is no load 'phone', expected one of files, database, files-sockets, compile, huge"
        );
        let digests = LOADS.map(|load| load.digest());
        assert!((1..5).all(|nth| digests[nth] != digests[0]));
    }

    #[test]
    fn what_a_load_did_stands_in_its_last_such_line() {
        assert_eq!(work_of("x\nwork 3\nwork 17\n").unwrap(), 17.0);
        let error = work_of("working\n").unwrap_err().to_string();
        assert!(error.contains("no line `work N`"), "{error}");
    }

    #[test]
    fn a_load_that_fails_or_is_interrupted_is_no_run() {
        let folder = tempfile::tempdir().unwrap();
        let printed = folder.path().join("printed");
        let words = |script: &str| ["sh", "-c", script].map(std::ffi::OsString::from);
        let run = |script: &str, is_set: bool| {
            run_words(&words(script), &printed, 1, &AtomicBool::new(is_set))
        };
        assert_eq!(run("echo work 2", false).unwrap(), "work 2\n");
        assert!(
            run("exit 3", false)
                .unwrap_err()
                .to_string()
                .contains("the load failed")
        );
        assert!(
            run("sleep 100", true)
                .unwrap_err()
                .to_string()
                .contains("interrupted")
        );
    }
}
