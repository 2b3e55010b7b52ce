//! Linux in the emulator of the kernel in `kernel/`, with the same tests: the column *Linux 6.12* of its table.
//!
//! Linux's own `test_vmalloc` does what it has, unmodified; `linux/pairs.c` does the rest. Each test has a boot of its own,
//! with one CPU and 2 GiB. The emulator's clocks and its chance are the same in each run.

use super::boot::{BootEnd, BootResult, KernelArch, QemuMachine, qemu_version};
use super::linux_build::{self, BuiltLinux, last_lines};
use crate::machine;
use crate::pages;
use crate::results::{ResultFile, ResultRow, RowSource, RunRecord};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// The variant in the kernel's result file.
pub(crate) const VARIANT: &str = "linux";
/// Instructions a loop, net of zeroing.
pub(crate) const INSTRUCTIONS: &str = "instructions";
/// What was taken off for that.
const ZEROING: &str = "zeroing";

/// The longest that a boot may take.
const LONGEST: Duration = Duration::from_secs(300);

/// What every boot has on its command line. The clock is known, and the timer is the oldest: so the kernel does not wait to
/// measure one by another, which takes the emulator half a minute. A panic ends the emulator.
pub(super) const WORDS: &str =
    "console=ttyS0 tsc_early_khz=1000000 tsc=reliable lpj=4000000 nolapic_timer panic=-1 reboot=t";

/// As often as the kernel's suite does each test.
const LOOPS: u64 = 20_000;
/// Objects of the test of per-CPU memory, which takes no number of loops.
const PERCPU_OBJECTS: u64 = 35_000;

/// A part of a figure that changes neither way by more, or the run fails.
const MARGIN: f64 = 0.15;
/// Two runs for the result file agree so far.
const AGREEMENT: f64 = 0.01;

/// What a loop zeroes. An emulated `rep stosb` counts each of its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LoopZeroing {
    Nothing,
    /// As many pages as Linux gave out.
    Pages,
    /// An object of up to 1 KiB.
    Object,
}

/// Which module does a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LinuxModule {
    /// Linux's own, by its test's bit and name; pages, if the test takes a number of them.
    TestVmalloc(u32, &'static str, u32),
    /// Ours.
    Pairs,
}
use LinuxModule::{Pairs, TestVmalloc};

/// A test, as the kernel's result file calls it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct LinuxTest {
    name: &'static str,
    module: LinuxModule,
    zeroing: LoopZeroing,
}

const fn own(name: &'static str, bit: u32, test: &'static str, pages: u32) -> LinuxTest {
    zeroing(name, bit, test, pages, LoopZeroing::Nothing)
}

const fn zeroing(
    name: &'static str,
    bit: u32,
    test: &'static str,
    pages: u32,
    zeroing: LoopZeroing,
) -> LinuxTest {
    LinuxTest {
        name,
        module: TestVmalloc(bit, test, pages),
        zeroing,
    }
}

const fn pair(name: &'static str) -> LinuxTest {
    LinuxTest {
        name,
        module: Pairs,
        zeroing: LoopZeroing::Nothing,
    }
}

/// What the others are judged by: whether the clock counts instructions, and what zeroing costs.
const CLOCK: LinuxTest = pair("two_instructions");
const ZERO_PAGE: LinuxTest = pair("zero_page");
const ZERO_OBJECT: LinuxTest = pair("zero_object");

const TESTS: &[LinuxTest] = &[
    CLOCK,
    ZERO_PAGE,
    ZERO_OBJECT,
    own("fix_size", 0, "fix_size_alloc_test", 1),
    own("full_fit", 1, "full_fit_alloc_test", 0),
    own("long_busy_list", 2, "long_busy_list_alloc_test", 0),
    own("random_size", 3, "random_size_alloc_test", 0),
    zeroing(
        "fix_align",
        4,
        "fix_align_alloc_test",
        0,
        LoopZeroing::Pages,
    ),
    zeroing(
        "random_size_align",
        5,
        "random_size_align_alloc_test",
        0,
        LoopZeroing::Pages,
    ),
    own("vm_map_ram_1", 10, "vm_map_ram_test", 1),
    own("vm_map_ram_4", 10, "vm_map_ram_test", 4),
    own("vm_map_ram_16", 10, "vm_map_ram_test", 16),
    own("vm_map_ram_64", 10, "vm_map_ram_test", 64),
    pair("vm_map_ram_16_apart"),
    pair("vm_map_ram_64_apart"),
    pair("alloc_pages_0"),
    pair("alloc_pages_3"),
    pair("alloc_pages_9"),
    pair("kmalloc_64"),
    pair("kvmalloc_4k"),
    pair("kvmalloc_64k"),
    pair("kvmalloc_1m"),
    zeroing("pcpu", 7, "pcpu_alloc_test", 0, LoopZeroing::Object),
];

impl LinuxTest {
    /// How often it does what is counted.
    fn loops(&self) -> u64 {
        match self.name {
            "pcpu" => PERCPU_OBJECTS,
            _ => LOOPS,
        }
    }

    /// The kernel's command line.
    fn words(&self) -> String {
        let (module, parameters) = match self.module {
            TestVmalloc(bit, _, pages) => (
                "test_vmalloc",
                format!(
                    "run_test_mask={},nr_threads=1,test_loop_count={LOOPS},nr_pages={pages}",
                    1 << bit
                ),
            ),
            Pairs => ("pairs", format!("test={},loops={LOOPS}", self.name)),
        };
        format!("{WORDS} module={module} parameters={parameters}")
    }
}

/// What a boot said of its test.
#[derive(Clone, Copy, PartialEq, Debug)]
struct LinuxSaid {
    /// Of all loops.
    instructions: u64,
    /// That Linux gave out meanwhile.
    pages: u64,
}

impl LinuxSaid {
    fn parse(console: &str, test: &LinuxTest) -> Result<Self, String> {
        let lines = || console.lines().map(without_time);
        let starting = |begin: &str| lines().find_map(|line| line.strip_prefix(begin));
        let number = |text: &str| {
            let word = text.split([' ', ',']).next().unwrap_or_default();
            let parsed = word.parse::<u64>();
            parsed.map_err(|error| format!("`{word}` in `{text}`: {error}"))
        };
        if let Some(why) = lines().find(|line| is_wrong(line)) {
            return Err(format!("Linux says: {why}"));
        }
        let instructions = match test.module {
            TestVmalloc(_, name, _) => {
                let summary = starting(&format!("Summary: {name} "));
                let summary = summary.ok_or(format!("it has no summary of {name}"))?;
                if !summary.starts_with("passed: 1 failed: 0 ") {
                    return Err(format!("{name} did not pass: {summary}"));
                }
                let cycles = starting("All test took worker0=");
                number(cycles.ok_or("it does not say what its worker took")?)?
            }
            Pairs => {
                let figure = starting(&format!("figure {} ", test.name));
                let figure = figure.ok_or(format!("it has no figure of {}", test.name))?;
                if figure.rsplit_once(" loops ") != Some((&number(figure)?.to_string(), "20000")) {
                    return Err(format!(
                        "expected `figure {} N loops {LOOPS}`, not `{figure}`",
                        test.name
                    ));
                }
                number(figure)?
            }
        };
        let pages = starting("init: pages ").ok_or("it does not say how many pages it gave out")?;
        let pages = number(pages)?;
        match lines().any(|line| line == "init: passed") {
            true => Ok(Self {
                instructions,
                pages,
            }),
            false => Err("it did not come to its end".to_owned()),
        }
    }
}

/// A line of the console without the time in brackets that a kernel may put in front.
pub(super) fn without_time(line: &str) -> &str {
    let inside = line
        .strip_prefix('[')
        .and_then(|rest| rest.split_once("] "));
    match inside {
        Some((time, rest)) if time.trim().parse::<f64>().is_ok() => rest,
        _ => line,
    }
}

/// Whether Linux complains in that line, or the first process.
fn is_wrong(line: &str) -> bool {
    is_complaint(line)
        || (line.starts_with("init: ")
            && line != "init: passed"
            && !line.starts_with("init: pages "))
}

/// Whether Linux complains in that line.
pub(super) fn is_complaint(line: &str) -> bool {
    let begins = [
        "Kernel panic",
        "BUG: ",
        "kernel BUG at ",
        "WARNING: CPU",
        "Oops",
        "general protection fault",
        "rcu: INFO:",
    ];
    begins.iter().any(|begin| line.starts_with(begin))
}

/// What is asked for.
#[derive(PartialEq, Debug, Default)]
pub(crate) struct AskedLinux {
    test: Option<LinuxTest>,
    source: Option<PathBuf>,
    is_as_built: bool,
    is_written: bool,
}

impl AskedLinux {
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut asked = Self::default();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word}: a value is missing"));
            match word.as_str() {
                "--test" => {
                    let name = value()?;
                    let found = TESTS.iter().find(|test| test.name == name);
                    let names: Vec<&str> = TESTS.iter().map(|test| test.name).collect();
                    let names = names.join(", ");
                    let error = format!("--test {name}: expected one of {names}");
                    asked.test = Some(*found.ok_or(error)?);
                }
                "--source" => asked.source = Some(value()?.into()),
                "--as-built" => asked.is_as_built = true,
                "--write" => asked.is_written = true,
                _ => return Err(format!("linux: there is no option `{word}`")),
            }
        }
        match asked {
            Self {
                is_written: true,
                test: Some(_),
                ..
            } => Err("--write writes all figures: it goes without --test".to_owned()),
            Self {
                is_as_built: true,
                source: Some(_),
                ..
            } => Err("--as-built builds nothing: it goes without --source".to_owned()),
            asked => Ok(asked),
        }
    }
}

pub(crate) fn run(asked: &AskedLinux) -> Result<(), String> {
    let qemu = qemu_version(KernelArch::X86_64)?;
    let linux = match asked.is_as_built {
        true => linux_build::as_built()?,
        false => linux_build::build(asked.source.as_deref())?,
    };
    let with = linux.with(&qemu);
    println!("{with}");
    if let Some(test) = &asked.test {
        let end = boot(&linux, test)?;
        println!("{}", end.said);
        // All of the console stands above.
        let said = said(&end, test).map(drop);
        return said.map_err(|error| error.lines().next().unwrap_or_default().to_owned());
    }
    let start = Instant::now();
    let rows = round(&linux)?;
    let done = if asked.is_written {
        write(rows, &round(&linux)?, with)
    } else {
        let name = KernelArch::X86_64.results();
        compare(&rows, &ResultFile::read(name)?)
    };
    println!("linux: {} s", start.elapsed().as_secs());
    done
}

fn boot(linux: &BuiltLinux, test: &LinuxTest) -> Result<BootEnd, String> {
    let machine = QemuMachine::of(KernelArch::X86_64);
    machine.run(command(&machine, linux, &test.words()), LONGEST)
}

/// The emulator with Linux in it, and these words for it.
pub(super) fn command(machine: &QemuMachine, linux: &BuiltLinux, words: &str) -> Command {
    let mut qemu = machine.command();
    qemu.arg("-kernel")
        .arg(&linux.kernel)
        .arg("-initrd")
        .arg(&linux.files)
        .args(["-append", words])
        // Neither the day nor the host's chance is in a figure.
        .args(["-rtc", "base=2026-01-01,clock=vm", "-seed", "1"]);
    qemu
}

/// What a boot said; why it did not, with the end of its console.
fn said(end: &BootEnd, test: &LinuxTest) -> Result<LinuxSaid, String> {
    let name = test.name;
    let error = |why: String| format!("{name}: {why}\n{}", last_lines(&end.said));
    let late = format!("Linux did not end within {} s", LONGEST.as_secs());
    match (end.end, LinuxSaid::parse(&end.said, test)) {
        (BootResult::Passed, Ok(said)) => Ok(said),
        (BootResult::Late, _) => Err(error(late)),
        (BootResult::Other(Some(code)), Err(why)) if code != 0 => {
            Err(error(format!("the emulator ended with {code}: {why}")))
        }
        (_, Err(why)) => Err(error(why)),
        (end, Ok(_)) => Err(error(format!("the emulator ended as {end:?}"))),
    }
}

/// Boots every test.
fn round(linux: &BuiltLinux) -> Result<Vec<ResultRow>, String> {
    let mut all = Vec::new();
    for test in TESTS {
        let start = Instant::now();
        let said = said(&boot(linux, test)?, test)?;
        let each = said.instructions as f64 / test.loops() as f64;
        let seconds = start.elapsed().as_secs_f64();
        println!("{}: {each:.2} with zeroing, in {seconds:.1} s", test.name);
        all.push((*test, said));
    }
    rows(&all)
}

/// The lines of the result file.
fn rows(all: &[(LinuxTest, LinuxSaid)]) -> Result<Vec<ResultRow>, String> {
    let each = |of: LinuxTest| {
        let found = all.iter().find(|(test, _)| *test == of);
        let of_all = found.map(|(_, said)| said.instructions as f64);
        of_all.map_or(0.0, |of_all| of_all / of.loops() as f64)
    };
    let (clock, page, object) = (each(CLOCK), each(ZERO_PAGE), each(ZERO_OBJECT));
    if !(2.0..2.05).contains(&clock) {
        return Err(format!(
            "the clock does not count instructions: two of them took {clock:.3}"
        ));
    }
    let mut rows = Vec::new();
    for (test, said) in all {
        let loops = test.loops();
        let zeroing = match test.zeroing {
            LoopZeroing::Nothing => 0.0,
            LoopZeroing::Pages => said.pages as f64 / loops as f64 * page,
            LoopZeroing::Object => object,
        };
        let mut add = |metric: &str, value: f64| {
            let value = (value * 100.0).round() / 100.0;
            let names = [test.name, VARIANT, metric];
            rows.push(ResultRow {
                n: loops,
                ..ResultRow::one(names, INSTRUCTIONS, RowSource::Simulated, value)
            });
        };
        add(INSTRUCTIONS, each(*test) - zeroing);
        if test.zeroing != LoopZeroing::Nothing {
            add(ZEROING, zeroing);
        }
    }
    Ok(rows)
}

/// What differs by more than a part of it.
fn differences(now: &[ResultRow], before: &[ResultRow], part: f64) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in now {
        let (case, metric) = (&row.case, &row.metric);
        let is_same = |other: &&ResultRow| {
            (&other.case, &other.variant, &other.metric) == (case, &row.variant, metric)
        };
        match before.iter().find(is_same) {
            None => wrong.push(format!("{case}, {metric}: no earlier figure")),
            Some(other) if (row.median - other.median).abs() > other.median * part => {
                let (now, before) = (row.median, other.median);
                wrong.push(format!("{case}, {metric}: {now}, {before} before"));
            }
            Some(_) => {}
        }
    }
    wrong
}

fn compare(now: &[ResultRow], file: &ResultFile) -> Result<(), String> {
    let wrong = differences(now, &file.rows, MARGIN);
    if wrong.is_empty() {
        let count = now.len();
        println!("{count} figures of Linux within 15 % of docs/results/kernel.jsonl");
        return Ok(());
    }
    let before = file.run.linux.as_ref();
    let before = before.map_or("nothing", |run| run.with.as_str());
    Err(format!(
        "{}\nbefore: {before}\n`cargo xtask linux --write` makes new figures",
        wrong.join("\n")
    ))
}

fn write(rows: Vec<ResultRow>, again: &[ResultRow], with: String) -> Result<(), String> {
    let wrong = differences(&rows, again, AGREEMENT);
    if !wrong.is_empty() {
        let wrong = wrong.join("\n");
        return Err(format!(
            "two runs differ by more than 1 %, and nothing is written:\n{wrong}"
        ));
    }
    let name = KernelArch::X86_64.results();
    let mut file = ResultFile::read(name)?;
    file.run.linux = Some(Box::new(RunRecord {
        commands: vec!["cargo xtask linux --write".to_owned()],
        commit: machine::commit(),
        date: machine::date(),
        with,
        runs: 2,
        is_trial: false,
        linux: None,
        beside: None,
    }));
    file.rows.retain(|row| row.variant != VARIANT);
    file.rows.extend(rows);
    file.write(name)?;
    pages::run(false)
}

/// Linux's figures of an earlier result file, which a new one of the kernel's keeps.
pub(crate) fn keep(file: &mut ResultFile, earlier: ResultFile) {
    file.run.linux = earlier.run.linux;
    let rows = earlier.rows.into_iter();
    file.rows.extend(rows.filter(|row| row.variant == VARIANT));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::tests::run_record;
    use std::fs;

    fn asked(words: &str) -> Result<AskedLinux, String> {
        AskedLinux::parse(words.split_whitespace().map(str::to_owned))
    }

    fn test(name: &str) -> LinuxTest {
        *TESTS.iter().find(|test| test.name == name).unwrap()
    }

    /// The ends of two consoles, as recorded.
    const OWN: &str = include_str!("../../linux/test_vmalloc.console");
    const OURS: &str = include_str!("../../linux/pairs.console");

    #[test]
    fn options_are_read_and_wrong_ones_refused() {
        assert_eq!(asked(""), Ok(AskedLinux::default()));
        let one = asked("--test kmalloc_64 --as-built").unwrap();
        assert_eq!(
            (one.test, one.is_as_built),
            (Some(test("kmalloc_64")), true)
        );
        let refused = |words| asked(words).err().unwrap_or_default();
        assert!(refused("--test kmalloc_65").contains("expected one of two_instructions, "));
        assert!(refused("--test").contains("a value is missing"));
        assert!(refused("--write --test pcpu").contains("goes without"));
        assert!(refused("--as-built --source a.tar.xz").contains("goes without"));
        assert!(refused("--loops 3").contains("`--loops`"));
    }

    #[test]
    fn every_test_of_linuxs_module_is_named_as_the_kernels() {
        let file = ResultFile::read("kernel").unwrap();
        let helpers = [CLOCK, ZERO_PAGE, ZERO_OBJECT];
        for test in TESTS.iter().filter(|test| !helpers.contains(test)) {
            assert!(
                file.find(test.name, "kept", INSTRUCTIONS).is_some(),
                "{}",
                test.name
            );
        }
    }

    #[test]
    fn a_recorded_console_is_read() {
        let said = LinuxSaid::parse(OWN, &test("fix_align"));
        assert_eq!(
            said,
            Ok(LinuxSaid {
                instructions: 539_641_393,
                pages: 100_647
            })
        );
        let said = LinuxSaid::parse(OURS, &test("kmalloc_64"));
        assert_eq!(
            said,
            Ok(LinuxSaid {
                instructions: 2_560_007,
                pages: 16
            })
        );
        // A kernel that writes the time says the same.
        let timed: String = OWN
            .lines()
            .map(|line| format!("[    1.234567] {line}\n"))
            .collect();
        assert!(LinuxSaid::parse(&timed, &test("fix_align")).is_ok());
        let other = LinuxSaid::parse(OWN, &test("fix_size")).unwrap_err();
        assert_eq!(other, "it has no summary of fix_size_alloc_test");
        let other = LinuxSaid::parse(OURS, &test("kvmalloc_4k")).unwrap_err();
        assert_eq!(other, "it has no figure of kvmalloc_4k");
    }

    /// Wherever a console is cut off, it is no figure; only the last line may lack its end.
    #[test]
    fn a_console_that_is_cut_off_is_refused() {
        for (console, test) in [(OWN, test("fix_align")), (OURS, test("kmalloc_64"))] {
            let end = console.find("init: passed").unwrap() + "init: passed".len();
            for cut in (0..end).filter(|cut| console.is_char_boundary(*cut)) {
                assert!(
                    LinuxSaid::parse(&console[..cut], &test).is_err(),
                    "cut at {cut}"
                );
            }
        }
    }

    #[test]
    fn what_linux_complains_of_is_said() {
        let with = |line: &str| {
            let text = format!("[    0.5] {line}\n{OWN}");
            LinuxSaid::parse(&text, &test("fix_align")).unwrap_err()
        };
        let panic = "Kernel panic - not syncing: VFS: Unable to mount root fs";
        assert_eq!(with(panic), format!("Linux says: {panic}"));
        assert!(with("BUG: unable to handle page fault").starts_with("Linux says: BUG"));
        assert!(with("init: /pairs.ko: Exec format error").contains("Exec format"));
        let failed = OWN.replace("passed: 1 failed: 0", "passed: 0 failed: 1");
        let failed = LinuxSaid::parse(&failed, &test("fix_align")).unwrap_err();
        assert!(failed.contains("did not pass"), "{failed}");
        let fewer = OURS.replace("loops 20000", "loops 2000");
        let fewer = LinuxSaid::parse(&fewer, &test("kmalloc_64")).unwrap_err();
        assert!(fewer.contains("expected `figure kmalloc_64 N loops 20000`"));
    }

    #[test]
    fn an_end_is_told_with_the_end_of_the_console() {
        let end = |end, text: &str| {
            let said = text.to_owned();
            said_of(&BootEnd { said, end })
        };
        fn said_of(end: &BootEnd) -> String {
            said(end, &test("fix_align")).err().unwrap_or_default()
        }
        assert_eq!(end(BootResult::Passed, OWN), "");
        let late = end(BootResult::Late, "Linux version 6\nhangs here\n");
        assert!(late.starts_with("fix_align: Linux did not end within 300 s\n"));
        assert!(late.ends_with("hangs here"));
        let gone = end(BootResult::Other(Some(0)), OWN);
        assert!(gone.starts_with("fix_align: the emulator ended as Other(Some(0))"));
    }

    /// Tests of so many instructions a loop, and pages.
    fn all(clock: f64, of_test: u64, pages: u64) -> Vec<(LinuxTest, LinuxSaid)> {
        let said = |instructions| LinuxSaid {
            instructions,
            pages,
        };
        vec![
            (CLOCK, said((clock * LOOPS as f64) as u64)),
            (ZERO_PAGE, said(4100 * LOOPS)),
            (ZERO_OBJECT, said(100 * LOOPS)),
            (test("fix_align"), said(of_test * LOOPS)),
            (test("pcpu"), said(of_test * PERCPU_OBJECTS)),
        ]
    }

    #[test]
    fn zeroing_is_taken_off_and_kept_beside() {
        let rows = rows(&all(2.01, 26_500, 5 * LOOPS)).unwrap();
        let file = ResultFile {
            run: run_record(0.0),
            rows,
        };
        let of = |case, metric| file.find(case, VARIANT, metric).map(|row| row.median);
        assert_eq!(of("fix_align", INSTRUCTIONS), Some(6000.0));
        assert_eq!(of("fix_align", ZEROING), Some(20_500.0));
        assert_eq!(of("pcpu", INSTRUCTIONS), Some(26_400.0));
        assert_eq!(of("zero_page", INSTRUCTIONS), Some(4100.0));
        assert_eq!(of("zero_page", ZEROING), None);
    }

    #[test]
    fn a_clock_that_counts_no_instructions_is_refused() {
        for clock in [1.9, 2.06, 0.0, 700.0] {
            let refused = rows(&all(clock, 26_500, 5 * LOOPS)).unwrap_err();
            assert!(refused.contains("does not count instructions"), "{refused}");
        }
    }

    #[test]
    fn a_change_of_more_than_the_margin_is_told_with_what_was_before() {
        let now = rows(&all(2.01, 26_500, 0)).unwrap();
        let mut file = ResultFile {
            run: run_record(0.0),
            rows: rows(&all(2.01, 26_510, 0)).unwrap(),
        };
        assert_eq!(compare(&now, &file), Ok(()));
        assert!(differences(&now, &file.rows, AGREEMENT).is_empty());
        file.rows = rows(&all(2.01, 20_000, 0)).unwrap();
        file.run.linux = Some(Box::new(RunRecord {
            with: "Linux 6.12.1".to_owned(),
            ..run_record(0.0)
        }));
        let wrong = compare(&now, &file).unwrap_err();
        assert!(
            wrong.contains("fix_align, instructions: 26500, 20000 before"),
            "{wrong}"
        );
        assert!(wrong.contains("before: Linux 6.12.1\n"), "{wrong}");
        let few = rows(&all(2.01, 26_500, 0)[..3]).unwrap();
        file.rows = few;
        assert!(
            compare(&now, &file)
                .unwrap_err()
                .contains("no earlier figure")
        );
    }

    #[test]
    fn two_runs_that_differ_write_nothing() {
        let before = fs::read(crate::results::path_of("kernel")).unwrap();
        let round = |of_test| rows(&all(2.01, of_test, 0)).unwrap();
        let refused = write(round(26_500), &round(26_900), String::new()).unwrap_err();
        assert!(refused.contains("nothing is written"), "{refused}");
        let after = fs::read(crate::results::path_of("kernel")).unwrap();
        assert!(before == after);
    }

    #[test]
    fn a_new_file_of_the_kernels_keeps_linux() {
        let rows = rows(&all(2.01, 26_500, 0)).unwrap();
        let mut kernels = rows[0].clone();
        "kept".clone_into(&mut kernels.variant);
        let mut earlier = ResultFile {
            run: run_record(0.0),
            rows: [rows.clone(), vec![kernels.clone()]].concat(),
        };
        earlier.run.linux = Some(Box::new(run_record(0.0)));
        let mut file = ResultFile {
            run: run_record(0.0),
            rows: vec![kernels.clone()],
        };
        keep(&mut file, earlier.clone());
        assert_eq!(file.run, earlier.run);
        assert_eq!(file.rows, [vec![kernels], rows].concat());
    }
}
