//! Memory pressure from outside of the load: a process of its own, so that what it locks is gone with it, however
//! its starter ends. It is fitted to what is available, not to what was asked for, because each run must begin with
//! the same amount of free memory.

use super::AbError;
use super::machine::available_mib;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Memory is taken in pieces of that many MiB.
const PIECE_MIB: u64 = 64;
/// How often a hog is fitted before what is available is as near as it gets.
const FITS: u32 = 12;

/// A process that locks memory, so that the rest of the machine has less. It ends with its starter: its commands come
/// through a pipe, and a pipe that is closed ends it.
#[derive(Debug)]
pub(super) struct Hog {
    child: Child,
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    held_mib: u64,
}

impl Hog {
    pub(super) fn start() -> Result<Self, AbError> {
        let program = std::env::current_exe().map_err(AbError::new)?;
        let mut child = Command::new(program)
            .args(["ab", "hog"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| AbError::new(format!("no process can hold memory: {e}")))?;
        let (Some(commands), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(AbError::new("no pipe to the process that holds memory"));
        };
        Ok(Self {
            child,
            commands: Some(commands),
            answers: BufReader::new(answers),
            held_mib: 0,
        })
    }

    /// Has it hold so much, no more and no less.
    fn hold(&mut self, mib: u64) -> Result<(), AbError> {
        let gone = |what: &dyn std::fmt::Display| {
            AbError::new(format!(
                "the process that holds memory is gone ({what}): the kernel kills it first where memory runs out"
            ))
        };
        let commands = self.commands.as_mut().ok_or_else(|| gone(&"ended"))?;
        writeln!(commands, "{mib}").map_err(|e| gone(&e))?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(|e| gone(&e))?;
        match answer.trim().parse::<u64>() {
            Ok(held) if held == mib => {
                self.held_mib = mib;
                Ok(())
            }
            _ if answer.is_empty() => Err(gone(&"no answer")),
            _ => Err(AbError::new(answer.trim())),
        }
    }

    /// Leaves so much available, as near as pieces go.
    pub(super) fn leave(&mut self, mib: u64) -> Result<(), AbError> {
        for _ in 0..FITS {
            let available = available_mib()?;
            if available.abs_diff(mib) <= PIECE_MIB {
                return Ok(());
            }
            let all = self.held_mib + available;
            let wanted = all.saturating_sub(mib) / PIECE_MIB * PIECE_MIB;
            if wanted == self.held_mib {
                break;
            }
            self.hold(wanted)?;
        }
        let available = available_mib()?;
        match available + 2 * PIECE_MIB < mib {
            true => Err(AbError::new(format!(
                "{available} MiB are available, expected {mib}: the machine has no more"
            ))),
            false => Ok(()),
        }
    }

    /// Lets go of so much, if it holds that.
    pub(super) fn give_up(&mut self, mib: u64) -> Result<(), AbError> {
        let wanted = self.held_mib.saturating_sub(mib) / PIECE_MIB * PIECE_MIB;
        self.hold(wanted)
    }

    pub(super) const fn held_mib(&self) -> u64 {
        self.held_mib
    }

    /// Whether it lives.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The process itself: a number of MiB a line, and the same number as the answer when it holds them.
///
/// # Errors
/// If memory cannot be locked, or the answers are not read.
pub fn serve_hog() -> io::Result<()> {
    // Where memory runs out it goes first, and not what others do on the machine.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT | rustix::mm::MlockAllFlags::FUTURE)?;
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    for line in io::stdin().lock().lines() {
        let mib: u64 = line?.trim().parse().map_err(io::Error::other)?;
        let wanted = usize::try_from(mib / PIECE_MIB).map_err(io::Error::other)?;
        pieces.truncate(wanted);
        while pieces.len() < wanted {
            let mut piece = Vec::new();
            let bytes = (PIECE_MIB as usize) << 20;
            piece.try_reserve_exact(bytes).map_err(io::Error::other)?;
            piece.resize(bytes, 1);
            pieces.push(piece);
        }
        writeln!(io::stdout(), "{mib}")?;
        io::stdout().flush()?;
    }
    Ok(())
}
