//! What a recording costs the machine that is recorded: the same compilation alone, beside a flight recorder and beside a
//! stream, by turns, and then one long recording.
//!
//! The recorder runs before a round begins and ends behind it, so that what is timed is what a program feels. Beside the
//! time stand the CPU seconds of the compilation and of the recorder together, which other work on the machine changes less:
//! beside the compilation, and with all that the recorder does until it has ended. A recorder that lags is cheap in the first
//! and not in the second; what it had not read when the compilation ended is counted.

use crate::kernels::boot;
use crate::machine::{self, ForeignWatch};
use crate::number_in;
use crate::pages::number;
use crate::results::{self, ResultFile, ResultRow, RowSource, RunRecord, Surroundings};
use crate::vmalloc_test::target;
use std::fmt::Write;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The result file, and the table.
pub(crate) const NAME: &str = "recording-cost";

/// The result file of rounds of a stream alone, where these were taken later than the others.
pub(crate) const STREAM_NAME: &str = "recording-cost-stream";

/// How an error begins where something is not there that the measurement needs.
pub(crate) const NO_PARTS: &str = "what a recording costs was not measured: ";

/// The compilation: 48 files, each by a shell, a compiler, an assembler and a copy.
const LOAD: &str = "crates/framewright-lab/loads/compile.sh";
/// All files so often are a round, tens of seconds.
const REPEATS: u32 = 6;
/// Between the recorder's first words, or its end, and the work.
const SETTLE: Duration = Duration::from_secs(1);
/// Until a recorder says that it records.
const READY_MAX: Duration = Duration::from_secs(60);
/// A recorder ends by itself after so many seconds, so that none stays behind an interrupted measurement.
const LONGEST: &str = "7200";
/// The buffers of a stream.
const BUFFERS_MIB: u64 = 256;
/// Where the kernel has a recorder's buffers.
const INSTANCES: &str = "/sys/kernel/tracing/instances";

/// How the machine is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CostlyWay {
    Ring,
    Stream,
}

impl CostlyWay {
    const ALL: [Self; 2] = [Self::Ring, Self::Stream];

    const fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::Stream => "stream",
        }
    }

    fn arguments(self, folder: &Path) -> [String; 4] {
        let file = |name: &str| folder.join(name).display().to_string();
        let words = |a: &str, b: String, c: &str, d: String| [a.to_owned(), b, c.to_owned(), d];
        let buffers = format!("{BUFFERS_MIB}MiB");
        match self {
            Self::Ring => words("--ring", "64MiB".into(), "-o", file("cost.pft.zst")),
            Self::Stream => words("--stream", file("cost.stream.zst"), "--buffer", buffers),
        }
    }
}

pub(crate) struct AskedCost {
    rounds: u64,
    minutes: u64,
    /// Beside a stream and alone, and nothing else.
    is_stream: bool,
    is_written: bool,
}

impl AskedCost {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            rounds: 18,
            minutes: 60,
            is_stream: false,
            is_written: false,
        };
        let mut is_default = true;
        let mut has_minutes = false;
        while let Some(word) = words.next() {
            let mut count = || {
                is_default = false;
                number_in(&word, &words.next().unwrap_or_default(), 0..=1000)
            };
            match word.as_str() {
                "--rounds" => asked.rounds = count()?,
                "--minutes" => {
                    asked.minutes = count()?;
                    has_minutes = true;
                }
                "--stream" => asked.is_stream = true,
                "--write" => asked.is_written = true,
                _ => return Err(format!("{NAME}: there is no option `{word}`")),
            }
        }
        if asked.is_written && !is_default {
            let why =
                "--write writes figures of the usual size: it goes without --rounds and --minutes";
            return Err(why.to_owned());
        }
        if asked.is_stream && !has_minutes {
            asked.minutes = 0;
        }
        Ok(asked)
    }
}

/// A recorder that runs.
struct RunningRecorder {
    child: Child,
    log: PathBuf,
}

impl RunningRecorder {
    fn start(way: CostlyWay, folder: &Path) -> Result<Self, String> {
        let log = folder.join("recorder.log");
        let said = File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut command = Command::new(boot::root().join("target/release/framewright"));
        command.arg("record").args(way.arguments(folder));
        command.args(["--force", "--seconds", LONGEST]);
        command.stdin(Stdio::null());
        let both = said.try_clone().map_err(|error| error.to_string())?;
        command.stdout(both).stderr(said);
        let child = command.spawn().map_err(|error| {
            format!(
                "{NO_PARTS}target/release/framewright: {error}; cargo build --release builds it"
            )
        })?;
        let mut recorder = Self { child, log };
        let start = Instant::now();
        while !recorder.is_recording() {
            let is_over = !matches!(recorder.child.try_wait(), Ok(None));
            if is_over || start.elapsed() > READY_MAX {
                let said = recorder.said();
                return Err(
                    match [
                        "needs root",
                        "tracefs is not mounted",
                        "/proc is not mounted",
                    ]
                    .iter()
                    .any(|missing| said.contains(missing))
                    {
                        true => format!("{NO_PARTS}{said}"),
                        false => format!("the recorder does not record:\n{said}"),
                    },
                );
            }
            thread::sleep(Duration::from_millis(50));
        }
        thread::sleep(SETTLE);
        Ok(recorder)
    }

    /// Whether it has said that its events are on.
    fn is_recording(&self) -> bool {
        self.said()
            .lines()
            .any(|line| line.starts_with("recording "))
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// CPU seconds so far.
    fn cpu(&self) -> Result<f64, String> {
        cpu_seconds(&format!("/proc/{}/stat", self.child.id()))
    }

    /// The most memory that the process has had, in MiB; the buffers are the kernel's.
    fn peak_mib(&self) -> Result<f64, String> {
        let path = format!("/proc/{}/status", self.child.id());
        let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.map(|kib| kib / 1024.0)
            .ok_or_else(|| format!("{path} has no VmHWM"))
    }

    /// Ends it as Ctrl-C does. What it said.
    fn end(mut self) -> Result<String, String> {
        let pid = self.child.id().to_string();
        let killed = Command::new("kill").args(["-INT", &pid]).status();
        killed.map_err(|error| format!("kill: {error}"))?;
        self.child.wait().map_err(|error| error.to_string())?;
        let said = self.said();
        match said.contains("until interrupted") {
            true => Ok(said),
            false => Err(format!("the recorder ended otherwise:\n{said}")),
        }
    }
}

impl Drop for RunningRecorder {
    fn drop(&mut self) {
        // It has ended, or something else failed: it removes its buffers itself on this signal.
        if let Ok(None) = self.child.try_wait() {
            let pid = self.child.id().to_string();
            let _ = Command::new("kill").args(["-INT", &pid]).status();
            let _ = self.child.wait();
        }
    }
}

/// What a recorder said at its end: `N events, lost N`.
fn events_and_lost(said: &str) -> Option<(f64, f64)> {
    let line = said.lines().find(|line| line.contains(" events, lost "))?;
    let (events, lost) = line.rsplit_once(" events, lost ")?;
    let events = events.rsplit(' ').next()?.parse().ok()?;
    Some((events, lost.trim().parse().ok()?))
}

/// CPU seconds of a process, and of the children that it has waited for.
fn cpu_seconds(stat: &str) -> Result<f64, String> {
    let text = fs::read_to_string(stat).map_err(|error| format!("{stat}: {error}"))?;
    Ok(machine::own_ticks(&text) / machine::TICKS)
}

/// Events that wait in the buffers of a process's recorder, of the number that its folder's name has.
fn unread_events(instances: &Path, process: u32) -> Option<f64> {
    let of_process = format!("framewright-{process}");
    let folders = fs::read_dir(instances).ok()?.flatten();
    let is_its = |name: &str| {
        let rest = name.strip_prefix(&of_process);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut its = folders.filter(|folder| folder.file_name().to_str().is_some_and(is_its));
    let cpus = fs::read_dir(its.next()?.path().join("per_cpu")).ok()?;
    let mut events = 0.0;
    for cpu in cpus.flatten() {
        let stats = fs::read_to_string(cpu.path().join("stats")).ok()?;
        let mut lines = stats.lines();
        let entries = lines.find_map(|line| line.strip_prefix("entries:"))?;
        events += entries.trim().parse::<f64>().ok()?;
    }
    Some(events)
}

/// The commit that the program was built from.
fn program_commit() -> Result<String, String> {
    let program = boot::root().join("target/release/framewright");
    let said = Command::new(program).arg("--version").output();
    let said = said.map_err(|error| {
        format!("{NO_PARTS}target/release/framewright: {error}; cargo build --release builds it")
    })?;
    let said = String::from_utf8_lossy(&said.stdout);
    let commit = said
        .split_once("(commit ")
        .and_then(|(_, rest)| rest.split_once(')'));
    let (commit, _) = commit.ok_or_else(|| format!("no commit in `{}`", said.trim()))?;
    Ok(commit.to_owned())
}

/// Seconds by the clock, and of CPUs.
#[derive(Clone, Copy, Default)]
struct Spent {
    wall: f64,
    cpu: f64,
}

/// Compiles all files so often.
fn compile(folder: &Path, repeats: u32) -> Result<Spent, String> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let (start, before) = (Instant::now(), cpu_seconds("/proc/self/stat")?);
    for _ in 0..repeats {
        let mut make = Command::new("make");
        make.args(["-s", "-B", "-j", &cpus.to_string(), "all", "-C"])
            .arg(folder);
        let end = make.stdout(Stdio::null()).status();
        let end = end.map_err(|error| format!("{NO_PARTS}make: {error}"))?;
        if !end.success() {
            return Err(format!("make: {end}"));
        }
    }
    Ok(Spent {
        wall: start.elapsed().as_secs_f64(),
        cpu: cpu_seconds("/proc/self/stat")? - before,
    })
}

/// A folder with the files to compile.
fn prepare() -> Result<PathBuf, String> {
    let folder = target().join(NAME);
    let load = boot::root().join(LOAD);
    let ready = Command::new("sh").arg(&load).arg("check").output();
    let ready = ready.map_err(|error| format!("{NO_PARTS}sh: {error}"))?;
    if !ready.status.success() {
        let missing = String::from_utf8_lossy(&ready.stdout);
        return Err(format!("{NO_PARTS}{}", missing.trim()));
    }
    let shown = folder.display();
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(|error| format!("{shown}: {error}"))?;
    }
    let made = Command::new("sh")
        .arg(&load)
        .args(["1", "1"])
        .arg(&folder)
        .arg("16")
        .output();
    match made {
        Ok(made) if made.status.success() => Ok(folder),
        Ok(made) => Err(format!("{LOAD}: {}", String::from_utf8_lossy(&made.stderr))),
        Err(error) => Err(format!("{LOAD}: {error}")),
    }
}

/// All orders of the compilation beside each recorder (0, 1) and alone (2): what one leaves to write back falls on each.
const ORDERS: [[usize; 3]; 6] = [
    [2, 0, 1],
    [1, 0, 2],
    [0, 1, 2],
    [2, 1, 0],
    [1, 2, 0],
    [0, 2, 1],
];

/// The compilation alone and beside each of these recorders: ratios to the first.
fn round(nth: u64, ways: &[CostlyWay], folder: &Path) -> Result<Vec<ResultRow>, String> {
    let mut alone = Spent::default();
    let mut beside = [MeasuredBeside::default(); CostlyWay::ALL.len()];
    for which in ORDERS[nth as usize % ORDERS.len()] {
        let way = CostlyWay::ALL.get(which);
        if way.is_some_and(|way| !ways.contains(way)) {
            continue;
        }
        let synced = Command::new("sync").status();
        synced.map_err(|error| format!("sync: {error}"))?;
        let Some(&way) = way else {
            thread::sleep(SETTLE);
            alone = compile(folder, REPEATS)?;
            continue;
        };
        let recorder = RunningRecorder::start(way, folder)?;
        let before = recorder.cpu()?;
        let spent = compile(folder, REPEATS)?;
        let cpu = spent.cpu + recorder.cpu()? - before;
        let unread = match way {
            // Its buffers are the recording.
            CostlyWay::Ring => None,
            CostlyWay::Stream => unread_events(Path::new(INSTANCES), recorder.child.id()),
        };
        // What a process had is added to its parent's once that has waited for it.
        let own = cpu_seconds("/proc/self/stat")?;
        let said = recorder.end()?;
        let whole = cpu_seconds("/proc/self/stat")? - own;
        let (_, lost) = events_and_lost(&said).ok_or(format!("no count of events:\n{said}"))?;
        beside[which] = MeasuredBeside {
            wall: spent.wall,
            cpu,
            cpu_to_end: spent.cpu + whole - before,
            lost,
            unread,
        };
    }
    let mut rows = vec![row("round", "alone", "time", "s", alone.wall)];
    let measured = CostlyWay::ALL.into_iter().zip(beside);
    for (way, beside) in measured.filter(|(way, _)| ways.contains(way)) {
        rows.extend(beside.rows(way, alone));
    }
    Ok(rows)
}

/// The compilation beside a recorder.
#[derive(Clone, Copy, Default)]
struct MeasuredBeside {
    wall: f64,
    /// Of both, while the compilation ran.
    cpu: f64,
    /// Of both, until the recorder had ended.
    cpu_to_end: f64,
    lost: f64,
    /// Events that were not read when the compilation ended, where that can be known.
    unread: Option<f64>,
}

impl MeasuredBeside {
    fn rows(self, way: CostlyWay, alone: Spent) -> Vec<ResultRow> {
        let of = |metric, unit, value| row("round", way.name(), metric, unit, value);
        let mut rows = vec![
            of("time", "ratio", self.wall / alone.wall),
            of("cpu", "ratio", self.cpu / alone.cpu),
            of("cpu_to_end", "ratio", self.cpu_to_end / alone.cpu),
            // A recorder that loses events has less to do.
            of("lost", "count", self.lost),
        ];
        rows.extend(self.unread.map(|unread| of("unread", "count", unread)));
        rows
    }
}

/// One stream beside the compilation for so many minutes.
fn long(minutes: u64, folder: &Path) -> Result<Vec<ResultRow>, String> {
    let way = CostlyWay::Stream;
    let recorder = RunningRecorder::start(way, folder)?;
    let (start, watch) = (Instant::now(), ForeignWatch::begin());
    let mut rounds = 0.0;
    while start.elapsed().as_secs() < 60 * minutes {
        compile(folder, 1)?;
        rounds += 1.0;
    }
    let seconds = start.elapsed().as_secs_f64();
    let (cpu, peak) = (recorder.cpu()?, recorder.peak_mib()?);
    let said = recorder.end()?;
    let foreign = watch.end().foreign;
    let (events, lost) = events_and_lost(&said).ok_or(format!("no count of events:\n{said}"))?;
    let file = folder.join("cost.stream.zst");
    let bytes = fs::metadata(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let of = |metric, unit, value| row("long", way.name(), metric, unit, value);
    Ok(vec![
        of("minutes", "minutes", seconds / 60.0),
        of("compilations", "count", rounds),
        of("events", "count", events),
        of("lost", "count", lost),
        of("size", "bytes", bytes.len() as f64),
        of("memory", "MiB", peak),
        of("buffers", "MiB", BUFFERS_MIB as f64),
        of("cpu_share", "ratio", cpu / seconds),
        of("foreign", "CPUs", foreign),
        // Of what form it is: recordings before this row are text.
        of("pages", "count", 1.0),
    ])
}

fn row(case: &str, variant: &str, metric: &str, unit: &str, value: f64) -> ResultRow {
    let names = [case, variant, metric];
    ResultRow::one(names, unit, RowSource::Measured, value)
}

/// Removes the folder of the measurement, whatever came of it.
struct CostFolder(PathBuf);

impl Drop for CostFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn run(asked: &AskedCost) -> Result<(), String> {
    let (commit, date) = (program_commit()?, machine::date());
    let head = machine::commit();
    // A changed tree has a mark behind a hyphen, in the program's commit and in this one.
    let is_of_head = commit.starts_with(&head) && !commit.contains('-');
    if asked.is_written && !is_of_head {
        return Err(format!(
            "target/release/framewright is of {commit}, expected {head}: cargo build --release builds it"
        ));
    }
    let folder = CostFolder(prepare()?);
    let folder = &folder.0;
    // The first compilation of all reads the compiler from the disk.
    compile(folder, 1)?;
    let (load_before, start) = (machine::load_average(), Instant::now());
    let watch = ForeignWatch::begin();
    let mut rounds = Vec::new();
    let ways = match asked.is_stream {
        true => &[CostlyWay::Stream][..],
        false => &CostlyWay::ALL,
    };
    for nth in 0..asked.rounds {
        rounds.push(round(nth, ways, folder)?);
        let seconds = start.elapsed().as_secs();
        println!("round {} of {}: {seconds} s", nth + 1, asked.rounds);
    }
    // Of the rounds, which are compared; other work beside the long recording only gives it more to record.
    let beside = Surroundings::since(start, load_before, watch.end());
    if asked.minutes > 0 {
        rounds.push(long(asked.minutes, folder)?);
    }
    let file = ResultFile {
        run: RunRecord {
            commands: vec![match asked.is_stream {
                true => format!("cargo xtask {NAME} --stream --write"),
                false => format!("cargo xtask {NAME} --write"),
            }],
            commit,
            date,
            with: String::new(),
            runs: asked.rounds,
            is_trial: false,
            linux: None,
            beside: Some(beside),
        },
        rows: results::gather(&rounds),
    };
    println!("{}", table(&file, None));
    match (asked.is_written, asked.is_stream) {
        (false, _) => Ok(()),
        (true, true) => file.write(STREAM_NAME),
        (true, false) => {
            file.write(NAME)?;
            // Of an earlier recorder: all ways were measured anew.
            let earlier = results::path_of(STREAM_NAME);
            match fs::remove_file(&earlier) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    Err(format!("{}: {error}", earlier.display()))
                }
                _ => Ok(()),
            }
        }
    }
}

/// The table of the page; with the rounds of a stream that were taken later, if there are any.
pub(crate) fn table(file: &ResultFile, later: Option<&ResultFile>) -> String {
    let mut out =
        "| recorder | time of the work | CPU time of work and recorder | the same until the recorder has ended | not read when the work ended | events lost |\n|---|---|---|---|---|---|\n"
            .to_owned();
    let of = |way: &str, metric: &str| {
        let later = later.and_then(|later| later.find("round", way, metric));
        later.or_else(|| file.find("round", way, metric))
    };
    let shown = |way: &str, metric: &str| match of(way, metric) {
        Some(row) => format!("{:.3} ({:.3} to {:.3})", row.median, row.min, row.max),
        None => "-".to_owned(),
    };
    let most =
        |way: &str, metric: &str| of(way, metric).map_or("-".to_owned(), |row| number(row.max));
    for way in CostlyWay::ALL.map(CostlyWay::name) {
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| `--{way}` | {} | {} | {} | {} | {} |",
            shown(way, "time"),
            shown(way, "cpu"),
            shown(way, "cpu_to_end"),
            most(way, "unread"),
            most(way, "lost"),
        );
    }
    let long = |metric: &str| {
        let way = CostlyWay::Stream.name();
        file.find("long", way, metric).map_or(0.0, |row| row.median)
    };
    if long("minutes") > 0.0 {
        let _ = writeln!(
            out,
            "\nOne stream of {} minutes{}: {} events, {} lost, {} MiB written ({} an hour), at most {} MiB of memory and {} MiB of buffers, {:.1} % of a CPU.{}",
            long("minutes").round(),
            match file.find("long", CostlyWay::Stream.name(), "pages") {
                Some(_) => "",
                None => ", of the earlier recorder, which wrote text",
            },
            number(long("events")),
            number(long("lost")),
            number((long("size") / MIB).round()),
            number((long("size") / MIB * 60.0 / long("minutes")).round()),
            number(long("memory").round()),
            number(long("buffers")),
            long("cpu_share") * 100.0,
            match file.find("long", CostlyWay::Stream.name(), "foreign") {
                Some(row) => format!(
                    " Other work than the compilation had {:.1} CPUs.",
                    row.median
                ),
                None => String::new(),
            },
        );
    }
    out
}

const MIB: f64 = (1 << 20) as f64;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<AskedCost, String> {
        AskedCost::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let usual = asked("").ok().unwrap();
        assert_eq!(
            (usual.rounds, usual.minutes, usual.is_written),
            (18, 60, false)
        );
        let few = asked("--rounds 2 --minutes 0").ok().unwrap();
        assert_eq!((few.rounds, few.minutes), (2, 0));
        assert!(asked("--write").is_ok_and(|asked| asked.is_written));
        let stream = asked("--stream --write").ok().unwrap();
        assert!(stream.is_stream && stream.is_written);
        assert_eq!((stream.rounds, stream.minutes), (18, 0));
        let long = asked("--minutes 5 --stream --rounds 0").ok().unwrap();
        assert_eq!((long.rounds, long.minutes), (0, 5));
        let refused = |words| asked(words).err().unwrap_or_default();
        assert!(refused("--rounds -1").contains("expected 0 to 1000"));
        assert!(refused("--minutes").contains("expected 0 to 1000"));
        assert!(refused("--write --rounds 1").contains("goes without"));
        assert!(refused("--lops 1").contains("`--lops`"));
    }

    #[test]
    fn a_recorder_s_last_words_are_read() {
        let said = "recorded 3.1 s until interrupted\nbuffers 64 MiB, 43209 events, lost 12\n9 bytes written\n";
        assert_eq!(events_and_lost(said), Some((43_209.0, 12.0)));
        assert_eq!(events_and_lost("recorded nothing"), None);
    }

    #[test]
    fn the_table_has_a_line_for_each_way_and_the_long_recording() {
        let run = crate::results::tests::run_record(0.0);
        let mut file = ResultFile {
            run,
            rows: vec![
                row("round", "ring", "time", "ratio", 1.01),
                row("round", "ring", "cpu", "ratio", 1.02),
            ],
        };
        let shown = table(&file, None);
        assert!(
            shown.contains(
                "| `--ring` | 1.010 (1.010 to 1.010) | 1.020 (1.020 to 1.020) | - | - | - |"
            ),
            "{shown}"
        );
        assert!(
            shown.contains("| `--stream` | - | - | - | - | - |"),
            "{shown}"
        );
        assert!(!shown.contains("One stream"), "{shown}");
        let long = [
            ("minutes", 30.0),
            ("events", 1e6),
            ("lost", 0.0),
            ("size", 64.0 * MIB),
            ("buffers", 256.0),
            ("cpu_share", 0.015),
            ("foreign", 0.5),
        ];
        let long = long.map(|(metric, value)| row("long", "stream", metric, "x", value));
        file.rows.extend(long);
        let shown = table(&file, None);
        let says = "One stream of 30 minutes, of the earlier recorder, which wrote text: 1,000,000 events, 0 lost, 64 MiB written (128 an hour), at most 0 MiB of memory and 256 MiB of buffers, 1.5 % of a CPU. Other work than the compilation had 0.5 CPUs.";
        assert!(shown.contains(says), "{shown}");
        // What was measured of a stream later stands in the place of what was before, and the rest stays.
        let later = ResultFile {
            run: file.run.clone(),
            rows: vec![
                row("round", "alone", "time", "s", 15.0),
                row("round", "stream", "time", "ratio", 1.004),
                row("round", "stream", "cpu", "ratio", 1.005),
                row("round", "stream", "lost", "count", 3.0),
            ],
        };
        let shown = table(&file, Some(&later));
        assert!(shown.contains("| `--ring` | 1.010 "), "{shown}");
        let stream = "| `--stream` | 1.004 (1.004 to 1.004) | 1.005 (1.005 to 1.005) | - | - | 3 |";
        assert!(shown.contains(stream) && shown.contains(says), "{shown}");
        // A stream of pages says that it is one.
        file.rows.push(row("long", "stream", "pages", "count", 1.0));
        let shown = table(&file, Some(&later));
        assert!(
            shown.contains("One stream of 30 minutes: 1,000,000"),
            "{shown}"
        );
    }

    /// What a recorder does behind the work is its cost as much as what it does beside it.
    #[test]
    fn a_recorder_that_lags_is_not_shown_as_free() {
        let alone = Spent {
            wall: 10.0,
            cpu: 20.0,
        };
        let lagging = MeasuredBeside {
            wall: 10.0,
            cpu: 20.0,
            cpu_to_end: 25.0,
            lost: 0.0,
            unread: Some(1e6),
        };
        let run = crate::results::tests::run_record(0.0);
        let rows = lagging.rows(CostlyWay::Stream, alone);
        let shown = table(&ResultFile { run, rows }, None);
        let says = "| `--stream` | 1.000 (1.000 to 1.000) | 1.000 (1.000 to 1.000) | 1.250 (1.250 to 1.250) | 1,000,000 | 0 |";
        assert!(shown.contains(says), "{shown}");
    }

    #[test]
    fn events_that_wait_in_a_recorder_s_buffers_are_counted() {
        let root = std::env::temp_dir().join(format!("recording-cost-{}", std::process::id()));
        for (folder, entries) in [
            ("framewright-12/per_cpu/cpu0", 5),
            ("framewright-12/per_cpu/cpu1", 7),
            ("framewright-123/per_cpu/cpu0", 100),
        ] {
            fs::create_dir_all(root.join(folder)).unwrap();
            let stats = format!("entries: {entries}\noverrun: 3\n");
            fs::write(root.join(folder).join("stats"), stats).unwrap();
        }
        let found = [12, 123, 1].map(|process| unread_events(&root, process));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [Some(12.0), Some(100.0), None]);
    }
}
