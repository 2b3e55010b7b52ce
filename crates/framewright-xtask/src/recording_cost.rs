//! What a recording costs the machine that is recorded: the same compilation alone, beside a flight recorder and beside a
//! stream, by turns, and then one long recording.
//!
//! The recorder runs before a round begins and ends behind it, so that what is timed is what a program feels. Beside the
//! time stand the CPU seconds of the compilation and of the recorder together, which other work on the machine changes less.

use crate::kernels::boot;
use crate::machine::{self, ForeignWatch, MachineWords};
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

/// How an error begins where something is not there that the measurement needs.
pub(crate) const NO_PARTS: &str = "what a recording costs was not measured: ";

/// The compilation: 48 files, each by a shell, a compiler, an assembler and a copy.
const LOAD: &str = "crates/framewright-lab/loads/compile.sh";
/// All files so often are a round, tens of seconds.
const REPEATS: u32 = 6;
/// A recorder has all of its events on before this is over.
const SETTLE: Duration = Duration::from_secs(2);

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
        match self {
            Self::Ring => words("--ring", "64MiB".into(), "-o", file("cost.pft.zst")),
            Self::Stream => words(
                "--stream",
                file("cost.stream.zst"),
                "--buffer",
                "256MiB".into(),
            ),
        }
    }
}

pub(crate) struct AskedCost {
    rounds: u64,
    minutes: u64,
    is_written: bool,
}

impl AskedCost {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            rounds: 20,
            minutes: 60,
            is_written: false,
        };
        let mut is_default = true;
        while let Some(word) = words.next() {
            let mut count = || {
                is_default = false;
                let value = words.next().unwrap_or_default();
                let count = value.parse().ok().filter(|count| *count <= 1000);
                count.ok_or_else(|| format!("{word} {value}: expected 0 to 1000"))
            };
            match word.as_str() {
                "--rounds" => asked.rounds = count()?,
                "--minutes" => asked.minutes = count()?,
                "--write" => asked.is_written = true,
                _ => return Err(format!("{NAME}: there is no option `{word}`")),
            }
        }
        if asked.is_written && !is_default {
            let why =
                "--write writes figures of the usual size: it goes without --rounds and --minutes";
            return Err(why.to_owned());
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
        command
            .arg("record")
            .args(way.arguments(folder))
            .arg("--force");
        command.stdin(Stdio::null());
        let both = said.try_clone().map_err(|error| error.to_string())?;
        command.stdout(both).stderr(said);
        let child = command.spawn().map_err(|error| {
            format!(
                "{NO_PARTS}target/release/framewright: {error}; cargo build --release builds it"
            )
        })?;
        let mut recorder = Self { child, log };
        thread::sleep(SETTLE);
        match recorder.child.try_wait() {
            Ok(None) => Ok(recorder),
            _ => Err(format!("{NO_PARTS}{}", recorder.said())),
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// CPU seconds so far.
    fn cpu(&self) -> f64 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()));
        machine::own_ticks(&stat.unwrap_or_default()) / machine::TICKS
    }

    /// The most memory that it has had, in MiB.
    fn peak_mib(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.unwrap_or(0.0) / 1024.0
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

/// Seconds by the clock, and of CPUs.
#[derive(Clone, Copy, Default)]
struct Spent {
    wall: f64,
    cpu: f64,
}

/// Compiles all files so often.
fn compile(folder: &Path, repeats: u32) -> Result<Spent, String> {
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    let ticks = || machine::own_ticks(&fs::read_to_string("/proc/self/stat").unwrap_or_default());
    let (start, before) = (Instant::now(), ticks());
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
        cpu: (ticks() - before) / machine::TICKS,
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

/// The compilation alone and beside each recorder, in an order that turns with the rounds: ratios to the first.
fn round(nth: u64, folder: &Path) -> Result<Vec<ResultRow>, String> {
    let mut alone = Spent::default();
    let mut beside = [Spent::default(); CostlyWay::ALL.len()];
    let ways = CostlyWay::ALL.len() + 1;
    for place in 0..ways {
        let which = (place + nth as usize) % ways;
        let Some(&way) = CostlyWay::ALL.get(which) else {
            thread::sleep(SETTLE);
            alone = compile(folder, REPEATS)?;
            continue;
        };
        let recorder = RunningRecorder::start(way, folder)?;
        let before = recorder.cpu();
        let spent = compile(folder, REPEATS)?;
        let own = recorder.cpu() - before;
        recorder.end()?;
        beside[which] = Spent {
            cpu: spent.cpu + own,
            ..spent
        };
    }
    let mut rows = vec![row("round", "alone", "time", "s", alone.wall)];
    for (way, spent) in CostlyWay::ALL.into_iter().zip(beside) {
        let ratio = |metric, value| row("round", way.name(), metric, "ratio", value);
        rows.push(ratio("time", spent.wall / alone.wall));
        rows.push(ratio("cpu", spent.cpu / alone.cpu));
    }
    Ok(rows)
}

/// One stream beside the compilation for so many minutes.
fn long(minutes: u64, folder: &Path) -> Result<Vec<ResultRow>, String> {
    let way = CostlyWay::Stream;
    let recorder = RunningRecorder::start(way, folder)?;
    let start = Instant::now();
    let mut rounds = 0.0;
    while start.elapsed().as_secs() < 60 * minutes {
        compile(folder, 1)?;
        rounds += 1.0;
    }
    let seconds = start.elapsed().as_secs_f64();
    let (cpu, peak) = (recorder.cpu(), recorder.peak_mib());
    let said = recorder.end()?;
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
        of("cpu_share", "ratio", cpu / seconds),
    ])
}

fn row(case: &str, variant: &str, metric: &str, unit: &str, value: f64) -> ResultRow {
    ResultRow {
        case: case.to_owned(),
        variant: variant.to_owned(),
        metric: metric.to_owned(),
        unit: unit.to_owned(),
        source: RowSource::Measured,
        median: value,
        min: value,
        max: value,
        n: 1,
    }
}

pub(crate) fn run(asked: &AskedCost) -> Result<(), String> {
    let folder = prepare()?;
    let (commit, date) = (machine::commit(), machine::date());
    let (load_before, start) = (machine::load_average(), Instant::now());
    let watch = ForeignWatch::begin();
    let mut rounds = Vec::new();
    for nth in 0..asked.rounds {
        rounds.push(round(nth, &folder)?);
        let seconds = start.elapsed().as_secs();
        println!("round {} of {}: {seconds} s", nth + 1, asked.rounds);
    }
    if asked.minutes > 0 {
        rounds.push(long(asked.minutes, &folder)?);
    }
    let load = watch.end();
    let rounded = |value: f64| (value * 100.0).round() / 100.0;
    let file = ResultFile {
        run: RunRecord {
            commands: vec![format!("cargo xtask {NAME} --write")],
            commit,
            date,
            with: String::new(),
            runs: asked.rounds,
            is_trial: false,
            linux: None,
            beside: Some(Surroundings {
                machine: MachineWords::this(),
                seconds: start.elapsed().as_secs_f64().round(),
                load_before,
                load_after: machine::load_average(),
                foreign: rounded(load.foreign),
                steal: rounded(load.steal),
            }),
        },
        rows: results::gather(&rounds),
    };
    println!("{}", table(&file));
    if asked.is_written {
        file.write(NAME)?;
    }
    fs::remove_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// The table of the page.
pub(crate) fn table(file: &ResultFile) -> String {
    let mut out =
        "| recorder | time of the work | CPU time of work and recorder |\n|---|---|---|\n"
            .to_owned();
    let shown = |way: &str, metric: &str| match file.find("round", way, metric) {
        Some(row) => format!("{:.3} ({:.3} to {:.3})", row.median, row.min, row.max),
        None => "-".to_owned(),
    };
    for way in CostlyWay::ALL.map(CostlyWay::name) {
        // Writing into a string cannot fail.
        let _ = writeln!(
            out,
            "| `--{way}` | {} | {} |",
            shown(way, "time"),
            shown(way, "cpu")
        );
    }
    let long = |metric: &str| {
        let way = CostlyWay::Stream.name();
        file.find("long", way, metric).map_or(0.0, |row| row.median)
    };
    if long("minutes") > 0.0 {
        let _ = writeln!(
            out,
            "\nOne stream of {} minutes: {} events, {} lost, {} MiB written ({} an hour), at most {} MiB of memory, {:.1} % of a CPU.",
            long("minutes").round(),
            number(long("events")),
            number(long("lost")),
            number((long("size") / MIB).round()),
            number((long("size") / MIB * 60.0 / long("minutes")).round()),
            number(long("memory").round()),
            long("cpu_share") * 100.0,
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
            (20, 60, false)
        );
        let few = asked("--rounds 2 --minutes 0").ok().unwrap();
        assert_eq!((few.rounds, few.minutes), (2, 0));
        assert!(asked("--write").is_ok_and(|asked| asked.is_written));
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
        let shown = table(&file);
        assert!(
            shown.contains("| `--ring` | 1.010 (1.010 to 1.010) | 1.020 (1.020 to 1.020) |"),
            "{shown}"
        );
        assert!(shown.contains("| `--stream` | - | - |"), "{shown}");
        assert!(!shown.contains("One stream"), "{shown}");
        let long = [
            ("minutes", 30.0),
            ("events", 1e6),
            ("lost", 0.0),
            ("size", 64.0 * MIB),
            ("cpu_share", 0.015),
        ];
        let long = long.map(|(metric, value)| row("long", "stream", metric, "x", value));
        file.rows.extend(long);
        let shown = table(&file);
        let says = "One stream of 30 minutes: 1,000,000 events, 0 lost, 64 MiB written (128 an hour), at most 0 MiB of memory, 1.5 % of a CPU.";
        assert!(shown.contains(says), "{shown}");
    }
}
