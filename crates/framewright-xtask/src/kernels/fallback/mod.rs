//! The document's claim on the document's own subject: Linux 6.12 with the fallback of its day and with the proposed one, and as
//! it is, under one scripted load.
//!
//! ```text
//!   mod: boots each kernel by each seed ── table: the page's
//!     │
//!   points: what Linux says on the way      rows: figures of a boot
//!     │
//!   build: three kernels, the load, its disk
//! ```
//!
//! The emulator counts instructions and its time is their number, so a boot's outcome is the same on every machine: the seeds
//! are what differs between boots, and each kernel has each of them.

mod build;
mod points;
mod rows;
mod table;

use super::boot::{BootEnd, BootResult, KernelArch, QemuMachine, qemu_version};
use super::linux;
use super::linux_build::last_lines;
use crate::machine;
use crate::number_in;
use crate::pages;
use crate::results::{ResultFile, ResultRow, RunRecord};
use build::{DISK_KIB, FallbackKernels, FallbackRule};
use points::points;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use table::table;

/// The command's name, and its result file's.
pub(crate) const NAME: &str = "linux-fallback";

/// The longest that a boot may take.
const LONGEST: Duration = Duration::from_secs(600);

/// The machine.
const MEMORY: &str = "432M";
const CPUS: u16 = 2;

/// Seeds, rounds after which Linux is asked, and steps of each user in one, of the figures that stay.
const SEEDS: u64 = 5;
const ROUNDS: u64 = 6;
const STEPS: u64 = 250;

/// Emulators beside each other: each is one thread.
const AT_ONCE: usize = 2;

/// What is asked for.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct AskedFallback {
    /// One boot alone, and its console.
    rule: Option<FallbackRule>,
    seeds: Vec<u64>,
    rounds: u64,
    steps: u64,
    source: Option<PathBuf>,
    is_as_built: bool,
    is_written: bool,
}

impl AskedFallback {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self {
            rule: None,
            seeds: (1..=SEEDS).collect(),
            rounds: ROUNDS,
            steps: STEPS,
            source: None,
            is_as_built: false,
            is_written: false,
        };
        let usual = asked.clone();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word}: a value is missing"));
            let number = |text: &str| number_in(&word, text, 1..=100_000);
            match word.as_str() {
                "--rule" => {
                    let name = value()?;
                    let mut all = FallbackRule::ALL.into_iter();
                    let found = all.find(|rule| rule.variant() == name);
                    let names = FallbackRule::ALL.map(FallbackRule::variant).join(", ");
                    let error = format!("--rule {name}: expected one of {names}");
                    asked.rule = Some(found.ok_or(error)?);
                }
                "--seed" => {
                    let seeds = value()?;
                    let seeds = seeds.split(',').map(number);
                    asked.seeds = seeds.collect::<Result<_, _>>()?;
                }
                "--rounds" => asked.rounds = number(&value()?)?,
                "--steps" => asked.steps = number(&value()?)?,
                "--source" => asked.source = Some(value()?.into()),
                "--as-built" => asked.is_as_built = true,
                "--write" => asked.is_written = true,
                _ => return Err(format!("{NAME}: there is no option `{word}`")),
            }
        }
        let is_usual = Self {
            source: None,
            is_as_built: false,
            is_written: false,
            ..asked.clone()
        } == usual;
        if asked.is_written && !is_usual {
            return Err(
                "--write writes all figures: it goes without --rule, --seed, --rounds, --steps"
                    .to_owned(),
            );
        }
        if asked.is_as_built && asked.source.is_some() {
            return Err("--as-built builds nothing: it goes without --source".to_owned());
        }
        Ok(asked)
    }

    /// What the first process finds on its command line.
    fn words(&self, seed: u64) -> String {
        format!(
            "{} loglevel=4 panic_on_warn=1 ramdisk_size={DISK_KIB} seed={seed} rounds={} steps={}",
            linux::WORDS,
            self.rounds,
            self.steps
        )
    }
}

/// One boot: a kernel, and the load's seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FallbackBoot {
    seed: u64,
    rule: FallbackRule,
}

pub(crate) fn run(asked: &AskedFallback) -> Result<(), String> {
    let qemu = qemu_version(KernelArch::X86_64)?;
    let kernels = match asked.is_as_built {
        true => build::as_built()?,
        false => build::build(asked.source.as_deref())?,
    };
    let with = kernels.of(FallbackRule::Released).with(&qemu);
    println!("{with}");
    if let (Some(rule), Some(seed)) = (asked.rule, asked.seeds.first()) {
        return show(asked, &kernels, FallbackBoot { seed: *seed, rule });
    }
    let start = Instant::now();
    let rows = all_rows(asked, &kernels)?;
    rows::expect_same_demand(&rows)?;
    let file = ResultFile {
        run: RunRecord {
            commands: vec![format!("cargo xtask {NAME} --write")],
            commit: machine::commit(),
            date: machine::date(),
            with,
            runs: asked.seeds.len() as u64,
            is_trial: (asked.rounds, asked.steps) != (ROUNDS, STEPS),
            linux: None,
            beside: None,
        },
        rows: rows::with_sum(rows),
    };
    println!("{}", table(&file, &ResultFile::read("fallback")?));
    println!("{NAME}: {} s", start.elapsed().as_secs());
    if asked.is_written {
        file.write(NAME)?;
        pages::run(false)?;
    }
    Ok(())
}

/// One boot, with all that it says.
fn show(asked: &AskedFallback, kernels: &FallbackKernels, of: FallbackBoot) -> Result<(), String> {
    let start = Instant::now();
    let end = boot(asked, kernels, of)?;
    println!("{}", end.said);
    // All of the console stands above.
    let first_line = |error: String| error.lines().next().unwrap_or_default().to_owned();
    for row in boot_rows(of, &end).map_err(first_line)? {
        println!("{}: {}", row.metric, row.median);
    }
    println!("{NAME}: {} s", start.elapsed().as_secs());
    Ok(())
}

/// Every kernel by every seed, seed by seed.
fn all_rows(asked: &AskedFallback, kernels: &FallbackKernels) -> Result<Vec<ResultRow>, String> {
    let boots = asked
        .seeds
        .iter()
        .flat_map(|seed| FallbackRule::ALL.map(|rule| FallbackBoot { seed: *seed, rule }));
    let boots: Vec<FallbackBoot> = boots.collect();
    let next = Mutex::new(boots.iter().enumerate());
    let ended = Mutex::new(Vec::new());
    let take = || next.lock().map(|mut next| next.next()).unwrap_or(None);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((nth, of)) = take() {
                    let start = Instant::now();
                    let rows = boot(asked, kernels, *of).and_then(|end| boot_rows(*of, &end));
                    let seconds = start.elapsed().as_secs();
                    println!("seed {}, {}: {seconds} s", of.seed, of.rule.variant());
                    let is_failed = rows.is_err();
                    if let Ok(mut ended) = ended.lock() {
                        ended.push((nth, rows));
                    }
                    if is_failed {
                        break;
                    }
                }
            });
        }
    });
    let mut ended = ended.into_inner().unwrap_or_default();
    ended.sort_by_key(|(nth, _)| *nth);
    let mut all = Vec::new();
    for (_, rows) in ended {
        all.extend(rows?);
    }
    Ok(all)
}

fn boot(
    asked: &AskedFallback,
    kernels: &FallbackKernels,
    of: FallbackBoot,
) -> Result<BootEnd, String> {
    let machine = QemuMachine {
        cpus: CPUS,
        memory: MEMORY.to_owned(),
        ..QemuMachine::of(KernelArch::X86_64)
    };
    let mut qemu = linux::command(&machine, &kernels.of(of.rule), &asked.words(of.seed));
    // Without these Linux copies and zeroes by words and not by bytes, each of which the emulator counts.
    qemu.args(["-cpu", "max,-erms,-fsrm"]);
    machine.run(qemu, LONGEST)
}

/// The figures of a boot; why there are none, with the end of its console.
fn boot_rows(of: FallbackBoot, end: &BootEnd) -> Result<Vec<ResultRow>, String> {
    let name = format!("seed {}, {}", of.seed, of.rule.variant());
    let error = |why: String| format!("{name}: {why}\n{}", last_lines(&end.said));
    let late = format!("Linux did not end within {} s", LONGEST.as_secs());
    match (end.end, points(&end.said)) {
        (BootResult::Passed, Ok(points)) => {
            rows::of_boot(&points, of.seed, of.rule.variant()).map_err(error)
        }
        (BootResult::Late, _) => Err(error(late)),
        (_, Err(why)) => Err(error(why)),
        (end, Ok(_)) => Err(error(format!("the emulator ended as {end:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &str) -> Result<AskedFallback, String> {
        AskedFallback::parse(words.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        let usual = asked("").unwrap();
        assert_eq!((usual.seeds.len(), usual.rule), (5, None));
        let one = asked("--rule proposed --seed 7,8 --rounds 1 --steps 9 --as-built").unwrap();
        assert_eq!(one.rule, Some(FallbackRule::Proposed));
        assert_eq!(
            (one.seeds.clone(), one.rounds, one.steps),
            (vec![7, 8], 1, 9)
        );
        assert!(one.words(7).ends_with(" seed=7 rounds=1 steps=9"));
        assert!(asked("--write --as-built").unwrap().is_written);
        let refused = |words: &str| asked(words).err().unwrap_or_default();
        assert!(refused("--rule after").contains("expected one of before, proposed, released"));
        assert!(refused("--seed 1,0").contains("--seed 0: expected 1 to"));
        assert!(refused("--steps").contains("a value is missing"));
        for words in ["--rule before", "--seed 1", "--rounds 1", "--steps 1"] {
            assert!(refused(&format!("--write {words}")).contains("goes without"));
        }
        assert!(refused("--as-built --source a.tar.xz").contains("goes without --source"));
        assert!(refused("--days 3").contains("`--days`"));
    }

    #[test]
    fn an_end_is_told_with_the_end_of_the_console() {
        let of = FallbackBoot {
            seed: 3,
            rule: FallbackRule::Before,
        };
        let said = |end, said: &str| {
            let said = said.to_owned();
            boot_rows(of, &BootEnd { said, end }).unwrap_err()
        };
        let late = said(BootResult::Late, "Linux version 6\nhangs here\n");
        assert!(late.starts_with("seed 3, before: Linux did not end within 600 s\n"));
        assert!(late.ends_with("hangs here"));
        let lost = said(BootResult::Other(Some(0)), "phone: mmap: no memory\n");
        assert!(lost.starts_with("seed 3, before: the load says: mmap: no memory\n"));
        let cut = said(BootResult::Passed, "");
        assert!(cut.contains("it did not come to its end"));
    }
}
