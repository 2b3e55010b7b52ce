//! The command that is recorded, with all that it starts: it ends with the recorder (W3), and no other process
//! group is ever signalled (G1).

use super::{LOOK, RecordError, RecordingEnded};
use crate::printable;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a command may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(5);

/// A command and all that it has started, in a process group of its own.
///
/// Dropping it ends the group (W3): the recorder drops it on every error. A command that has ended by
/// itself leaves behind what it wants to.
///
/// # Invariants
/// - **G1** A signal goes to the group only while its leader has not been waited for: until then no
///   other group has its number.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    group: Option<Pid>,
    status: Option<ExitStatus>,
}

impl Running {
    /// Starts the command, if there is one. It is no longer in the terminal's foreground, so it may
    /// not read from there: where standard input is a terminal, it gets none.
    /// Where standard output is a stream's, what the command prints goes to standard error.
    pub(super) fn spawn(
        command: &[OsString],
        stdout_is_taken: bool,
    ) -> Result<Option<Self>, RecordError> {
        let Some((program, arguments)) = command.split_first() else {
            return Ok(None);
        };
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        if stdout_is_taken {
            let stderr = io::stderr().as_fd().try_clone_to_owned();
            command.stdout(stderr.map_or_else(|_| Stdio::null(), Stdio::from));
        }
        let child = command.spawn().map_err(|error| {
            RecordError::Options(format!(
                "{}: cannot be run: {error}",
                printable::path(Path::new(program))
            ))
        })?;
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Ok(Some(Self {
            child,
            group,
            status: None,
        }))
    }

    /// How it ended, if it has.
    pub(super) fn try_wait(&mut self) -> Result<Option<ExitStatus>, RecordError> {
        if self.status.is_none() {
            let status = self.child.try_wait();
            self.status = status.map_err(|e| RecordError::File(format!("the command: {e}")))?;
        }
        Ok(self.status)
    }

    /// As [`Self::finish`], and says what is waited for where the recording has ended before the command.
    pub(super) fn finish_after(
        &mut self,
        ended: RecordingEnded,
        interrupted: &AtomicBool,
        say: &mut impl FnMut(&str),
    ) -> Result<(), RecordError> {
        let is_over_with_it = matches!(
            ended,
            RecordingEnded::Command(_) | RecordingEnded::Interrupted
        );
        if !is_over_with_it {
            say("waiting for the command to end; its recording has ended");
        }
        self.finish(interrupted, say)
    }

    /// Lets the command end, or ends its group if the recording was or is interrupted.
    pub(super) fn finish(
        &mut self,
        interrupted: &AtomicBool,
        say: &mut impl FnMut(&str),
    ) -> Result<(), RecordError> {
        while self.try_wait()?.is_none() {
            if interrupted.load(Ordering::Relaxed) {
                if !self.end() {
                    say("the command does not end when asked to: killed");
                }
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Ends the group: asks it to, and kills what is left of it. Whether the command ended when asked.
    fn end(&mut self) -> bool {
        if self.status.is_some() {
            return true;
        }
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while !self.has_ended() && begun.elapsed() < GRACE {
            std::thread::sleep(LOOK.min(Duration::from_millis(10)));
        }
        let in_time = self.has_ended();
        // Also those that the command has left, and before it is waited for (G1).
        self.signal(Signal::KILL);
        self.status = self.child.wait().ok();
        in_time
    }

    /// Whether the leader has ended; it can still be waited for.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let look = |pid| waitid(WaitId::Pid(pid), options);
        self.group.is_none_or(|pid| !matches!(look(pid), Ok(None)))
    }

    fn signal(&self, signal: Signal) {
        if let (Some(group), None) = (self.group, self.status) {
            // If all of it has just ended, there is nothing to end.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Starts a shell that starts another process, which ignores what it can, and waits for both.
    fn two_processes(folder: &Path) -> (Running, u32) {
        let file = folder.join("pid");
        let script = format!(
            "sh -c 'trap \"\" TERM; echo $$ > {0}.part; mv {0}.part {0}; while :; do sleep 0.1; done' & wait",
            file.display()
        );
        let words = ["sh", "-c", &script].map(OsString::from);
        let running = Running::spawn(&words, false).unwrap().unwrap();
        let begun = Instant::now();
        loop {
            if let Ok(text) = fs::read_to_string(&file) {
                return (running, text.trim().parse().unwrap());
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "it never ran");
            std::thread::sleep(LOOK);
        }
    }

    fn is_running(pid: u32) -> bool {
        // A zombie that its new parent has not waited for has ended.
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next().unwrap_or_default();
        !state.is_empty() && !state.starts_with(['Z', 'X'])
    }

    #[test]
    fn w3_a_command_and_what_it_started_end_with_the_recorder() {
        let folder = tempfile::tempdir().unwrap();
        let (running, grandchild) = two_processes(folder.path());
        let leader = running.child.id();
        assert!(is_running(leader) && is_running(grandchild));
        drop(running);
        let begun = Instant::now();
        while is_running(leader) || is_running(grandchild) {
            assert!(begun.elapsed() < Duration::from_secs(20), "it still runs");
            std::thread::sleep(LOOK);
        }
    }

    #[test]
    fn a_command_that_ends_by_itself_says_how() {
        let words = ["sh", "-c", "exit 3"].map(OsString::from);
        let mut running = Running::spawn(&words, false).unwrap().unwrap();
        let interrupted = AtomicBool::new(false);
        running.finish(&interrupted, &mut |_: &str| {}).unwrap();
        assert_eq!(running.try_wait().unwrap().unwrap().code(), Some(3));
        assert!(Running::spawn(&[], false).unwrap().is_none());
        let error = Running::spawn(&["/no/such\u{202e}".into()], false).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("/no/such\\u{202e}: cannot be run: ")
        );
    }
}
