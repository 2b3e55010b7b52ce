//! Linux's own allocator of address space as a variant: a program of its own (`framewright-checks peer-linux` makes
//! it), which is told the operations through a pipe and tells how long they took.
//!
//! A case runs on a [`Recorder`] instead of an allocator. What it asks for becomes a list of operations, the same as
//! the other variants get; the program does them in a loop. Each repetition is a fresh process. It has one thread, so
//! work that Linux puts off to a kernel thread runs between two operations, and its time is in a repetition's.

use super::timing::Rate;
use crate::experiment::timing::{CalibratedClock, Latencies};
use crate::experiment::va_fit::body::{FitBody, Setting};
use crate::experiment::va_fit::variants::LINUX;
use crate::experiment::{Failure, SpaceSubject};
use framewright::Page;
use framewright::vrange::{RangeError, RangeFreeError};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const ALLOC: u8 = 0;
const FREE: u8 = 1;
const MAP_RAM: u8 = 2;
const UNMAP_RAM: u8 = 3;
const PURGE: u8 = 4;

/// Bytes of an operation: slot, pages, alignment, kind.
const OPERATION: usize = 8;

/// The program, and what it has used of CPUs.
#[derive(Debug)]
pub(in crate::experiment::va_fit) struct PeerProgram {
    path: PathBuf,
    /// Linux's version, with the patch level.
    pub(in crate::experiment::va_fit) version: String,
    spent_ns: AtomicU64,
}

impl PeerProgram {
    /// The program beside the folder of this one.
    ///
    /// # Errors
    /// Why it is not there.
    pub(in crate::experiment::va_fit) fn found() -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let target = own.parent().and_then(|profile| profile.parent());
        let path = target
            .map(|target| target.join("peer-linux/linux-vmalloc"))
            .filter(|path| path.exists())
            .ok_or("`cargo run -p framewright-checks -- peer-linux` has not made it")?;
        if !is_own(&path) {
            return Err("it is another user's, or others may write it".into());
        }
        let out = Command::new(&path).arg("--version").output();
        let out = out.map_err(|error| format!("it does not start: {error}"))?;
        let version = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        if version.starts_with("6.12.") {
            let spent_ns = AtomicU64::new(0);
            Ok(Self {
                path,
                version,
                spent_ns,
            })
        } else {
            Err(format!("it calls itself version '{version}'"))
        }
    }

    /// CPU time that it had for all operations so far.
    pub(in crate::experiment::va_fit) fn spent(&self) -> Duration {
        Duration::from_nanos(self.spent_ns.load(Ordering::Relaxed))
    }

    /// A fresh process with this many CPUs.
    pub(super) fn start(&self, cpus: u16) -> Result<Peer<'_>, Failure> {
        let child = Command::new(&self.path)
            .arg(cpus.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Ok(Peer {
            child: child.map_err(Failure::new)?,
            program: self,
        })
    }
}

/// Whether only this user, or root, can have put the program there: a folder of its name may lie where every user writes.
fn is_own(program: &Path) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let is_own = |path: &Path| {
        fs::symlink_metadata(path)
            .is_ok_and(|at| (at.uid() == user || at.uid() == 0) && at.mode() & 0o002 == 0)
    };
    program.parent().is_some_and(is_own) && is_own(program)
}

/// One process of the program.
pub(super) struct Peer<'p> {
    child: Child,
    program: &'p PeerProgram,
}

/// What it says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PeerCounters {
    pub(super) lazy_pages_bound: u64,
    pub(super) lazy_pages_peak: u64,
    pub(super) tlb_flushes: u64,
    /// The longest that work took which Linux puts off.
    pub(super) longest_work_ns: u64,
}

impl Peer<'_> {
    fn ask(&mut self, kind: u8, operations: &[u8], answers: usize) -> Result<Vec<u64>, Failure> {
        let (input, output) = (self.child.stdin.as_mut(), self.child.stdout.as_mut());
        let (Some(input), Some(output)) = (input, output) else {
            return Err(Failure::new("the program has no pipes"));
        };
        let count = u32::try_from(operations.len() / OPERATION).map_err(Failure::new)?;
        let header = [u32::from(kind).to_le_bytes(), count.to_le_bytes()].concat();
        input.write_all(&header).map_err(Failure::new)?;
        input.write_all(operations).map_err(Failure::new)?;
        input.flush().map_err(Failure::new)?;
        let mut bytes = vec![0; answers * size_of::<u64>()];
        output.read_exact(&mut bytes).map_err(Failure::new)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().copied().map(u64::from_le_bytes).collect())
    }

    /// Does them all: CPU time in nanoseconds, and requests that failed.
    pub(super) fn run(&mut self, operations: &[u8]) -> Result<(u64, u64), Failure> {
        let answer = self.ask(b'R', operations, 2)?;
        self.program
            .spent_ns
            .fetch_add(answer[0], Ordering::Relaxed);
        Ok((answer[0], answer[1]))
    }

    /// Does them one by one: nanoseconds of each, the clock's own included.
    pub(super) fn timed(&mut self, operations: &[u8]) -> Result<Vec<u64>, Failure> {
        let each = self.ask(b'T', operations, operations.len() / OPERATION)?;
        let all = each.iter().sum();
        self.program.spent_ns.fetch_add(all, Ordering::Relaxed);
        Ok(each)
    }

    /// What it counted.
    pub(super) fn counters(&mut self) -> Result<PeerCounters, Failure> {
        let answer = self.ask(b'C', &[], 4)?;
        Ok(PeerCounters {
            lazy_pages_bound: answer[0],
            lazy_pages_peak: answer[1],
            tlb_flushes: answer[2],
            longest_work_ns: answer[3],
        })
    }
}

impl Drop for Peer<'_> {
    fn drop(&mut self) {
        // The end of its input ends it.
        self.child.stdin = None;
        let _ = self.child.wait();
    }
}

/// Writes operations down instead of doing them. Pages are numbers of slots.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    operations: Vec<u8>,
    slots: u64,
    unused: Vec<u64>,
}

impl Recorder {
    fn push(&mut self, slot: u64, pages: u64, align_bytes: u64, kind: u8) {
        let slot = u32::try_from(slot).expect("a case has at most 2^32 areas");
        let pages = u16::try_from(pages).expect("no timed case asks for so many pages");
        self.operations.extend(slot.to_le_bytes());
        self.operations.extend(pages.to_le_bytes());
        let shift = align_bytes.trailing_zeros() as u8;
        self.operations.extend([shift, kind]);
    }

    fn made(&mut self, pages: u64, align_bytes: u64, kind: u8) -> Page {
        let slot = self.unused.pop().unwrap_or(self.slots);
        self.slots = self.slots.max(slot + 1);
        self.push(slot, pages, align_bytes, kind);
        Page(slot)
    }

    fn gone(&mut self, page: Page, pages: u64, kind: u8) {
        self.push(page.0, pages, Page::BYTES, kind);
        self.unused.push(page.0);
    }

    /// What was written down, which is forgotten.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.operations)
    }
}

impl SpaceSubject for Recorder {
    fn alloc(&mut self, pages: u64, align_bytes: u64) -> Result<Page, RangeError> {
        Ok(self.made(pages, align_bytes, ALLOC))
    }

    fn free(&mut self, page: Page) -> Result<(), RangeFreeError> {
        self.gone(page, 0, FREE);
        Ok(())
    }

    fn map_ram(&mut self, pages: u64) -> Result<Page, RangeError> {
        Ok(self.made(pages, Page::BYTES, MAP_RAM))
    }

    fn unmap_ram(&mut self, page: Page, pages: u64) -> Result<(), RangeFreeError> {
        self.gone(page, pages, UNMAP_RAM);
        Ok(())
    }

    fn purge(&mut self) {
        self.push(0, 0, Page::BYTES, PURGE);
    }

    fn drain(&mut self) {
        self.purge();
    }
}

/// A body that is written down.
pub(super) trait RecordedWork {
    /// So many operations more.
    fn operations(&mut self, ops: u64) -> Result<Vec<u8>, Failure>;
}

struct RecordedBody<B> {
    recorder: Recorder,
    body: B,
}

/// The body `B`, and what it does before its first operation written down.
pub(super) fn recorded<B: FitBody + 'static>(
    setting: Setting,
) -> Result<Box<dyn RecordedWork>, Failure> {
    let mut recorder = Recorder::default();
    let body = B::prepare(&mut recorder, setting)?;
    Ok(Box::new(RecordedBody { recorder, body }))
}

impl<B: FitBody> RecordedWork for RecordedBody<B> {
    fn operations(&mut self, ops: u64) -> Result<Vec<u8>, Failure> {
        for _ in 0..ops {
            self.body.op(&mut self.recorder)?;
        }
        Ok(self.recorder.take())
    }
}

/// A case in a process of its own, prepared and warm.
pub(super) struct PeerCase<'p> {
    peer: Peer<'p>,
    work: Box<dyn RecordedWork>,
    loops: u64,
}

impl<'p> PeerCase<'p> {
    pub(super) fn prepare(
        program: &'p PeerProgram,
        cpus: u16,
        loops: u64,
        mut work: Box<dyn RecordedWork>,
    ) -> Result<Self, Failure> {
        let warm = work.operations(loops / 10)?;
        let mut peer = program.start(cpus)?;
        peer.run(&warm)?;
        Ok(Self { peer, work, loops })
    }

    /// A repetition.
    pub(super) fn repetition(&mut self) -> Result<Rate, Failure> {
        let operations = self.work.operations(self.loops)?;
        let (ns, _) = self.peer.run(&operations)?;
        let op_ns = ns.max(1) as f64 / self.loops as f64;
        Ok(Rate {
            op_ns,
            cpu_ns: op_ns,
            ops_per_second: 1e9 / op_ns,
        })
    }

    /// How long each allocation and each free of a repetition took, and the counters behind it.
    pub(super) fn watched(
        &mut self,
        clock: CalibratedClock,
    ) -> Result<(Latencies, Latencies, PeerCounters), Failure> {
        let operations = self.work.operations(self.loops)?;
        let (mut allocs, mut frees) = (Latencies::new(), Latencies::new());
        let each = self.peer.timed(&operations)?;
        for (operation, ns) in operations.chunks(OPERATION).zip(each) {
            let ns = ns.saturating_sub(clock.own_ns);
            match operation[OPERATION - 1] {
                ALLOC | MAP_RAM => allocs.record(ns),
                _ => frees.record(ns),
            }
        }
        Ok((allocs, frees, self.peer.counters()?))
    }
}

/// What a table says of the column, or of its absence.
pub(in crate::experiment::va_fit) fn told() -> String {
    match PeerProgram::found() {
        Ok(program) => format!(
            "{LINUX} is Linux {}: its own mm/vmalloc.c, unchanged, in a program of its own, on one thread and with \
             nothing mapped; what it puts off to a kernel thread runs between two operations and is in its times.",
            program.version
        ),
        Err(why) => format!("{LINUX} skipped: {why}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Mapper;
    use crate::experiment::va_fit::body::{LeFit, Replace};

    const SETTING: Setting = Setting {
        mapper: Mapper::Null,
        seed: 7,
        thread: 0,
    };

    #[test]
    fn a_program_that_others_may_have_put_there_is_not_started() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("peer-linux");
        let program = folder.join("linux-vmalloc");
        fs::create_dir(&folder).unwrap();
        fs::write(&program, b"").unwrap();
        let allow = |path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        assert!(is_own(&program));
        for (path, usual) in [(&program, 0o755), (&folder, 0o755)] {
            allow(path, 0o777);
            assert!(!is_own(&program), "{}", path.display());
            allow(path, usual);
        }
        assert!(is_own(&program));
        fs::remove_file(&program).unwrap();
        std::os::unix::fs::symlink("/nowhere", &program).unwrap();
        assert!(!is_own(&program), "any user may write a link");
    }

    #[test]
    fn operations_are_written_as_the_program_reads_them() {
        let mut recorder = Recorder::default();
        let first = recorder.alloc(0x1234, 1 << 15).unwrap();
        let second = recorder.map_ram(16).unwrap();
        recorder.free(first).unwrap();
        recorder.unmap_ram(second, 16).unwrap();
        assert_eq!(recorder.alloc(1, 4096), Ok(second), "a slot is used again");
        recorder.drain();
        let expected: [[u8; OPERATION]; 6] = [
            [0, 0, 0, 0, 0x34, 0x12, 15, ALLOC],
            [1, 0, 0, 0, 16, 0, 12, MAP_RAM],
            [0, 0, 0, 0, 0, 0, 12, FREE],
            [1, 0, 0, 0, 16, 0, 12, UNMAP_RAM],
            [1, 0, 0, 0, 1, 0, 12, ALLOC],
            [0, 0, 0, 0, 0, 0, 12, PURGE],
        ];
        assert_eq!(recorder.take(), expected.concat());
        assert!(recorder.take().is_empty());
    }

    /// A case frees what it has, whether or not an allocator stands behind it.
    #[test]
    fn a_recorded_case_frees_what_it_made() {
        let mut recorder = Recorder::default();
        let mut body = Replace::<50, 16>::prepare(&mut recorder, SETTING).unwrap();
        (0..500).for_each(|_| body.op(&mut recorder).unwrap());
        let mut live = std::collections::BTreeSet::new();
        for operation in recorder.take().chunks(OPERATION) {
            let slot = u32::from_le_bytes(operation[..4].try_into().unwrap());
            match operation[OPERATION - 1] {
                ALLOC => assert!(live.insert(slot), "slot {slot} has an area"),
                _ => assert!(live.remove(&slot), "slot {slot} has none"),
            }
        }
        assert_eq!(live.len(), 50);
    }

    #[test]
    fn the_program_does_a_case_where_it_is() {
        // Tests lie a folder deeper.
        let own = std::env::current_exe().unwrap();
        let path = own.ancestors().nth(3).unwrap();
        let path = path.join("peer-linux/linux-vmalloc");
        if !path.exists() {
            eprintln!("skipped: {} is not there", path.display());
            return;
        }
        let program = PeerProgram {
            path,
            version: String::new(),
            spent_ns: AtomicU64::new(0),
        };
        let work = recorded::<LeFit>(SETTING).unwrap();
        let mut case = PeerCase::prepare(&program, 2, 1000, work).unwrap();
        assert!(case.repetition().unwrap().op_ns > 0.0);
        let clock = CalibratedClock { own_ns: 0 };
        let (allocs, frees, counters) = case.watched(clock).unwrap();
        assert!(!allocs.is_empty() && !frees.is_empty());
        assert_eq!(counters.lazy_pages_bound, 16_384);
        assert!(counters.lazy_pages_peak > 0 && program.spent() > Duration::ZERO);
        let mut peer = program.start(64).unwrap();
        assert_eq!(peer.counters().unwrap().lazy_pages_bound, 57_344);
        let mut wrong = Recorder::default();
        wrong.alloc(1, 1 << 40).unwrap();
        assert_eq!(peer.run(&wrong.take()).unwrap().1, 1, "no such alignment");
    }
}
