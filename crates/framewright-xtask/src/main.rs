//! The repository's own commands: `cargo xtask kernel` builds the kernel and boots it in QEMU, `measure` takes the
//! figures that the documents quote, and `docs` fills the documents with them.

mod board;
mod browser;
mod cinstall;
mod heldout;
mod kernels;
mod machine;
mod many_cpus;
mod measure;
mod pages;
mod recording_cost;
mod replay_error;
mod results;
mod rivals;
mod vmalloc_test;

use kernels::boot::{self, Accelerator, KernelArch, QemuMachine};
use kernels::replay::{self, AskedReplay};
use kernels::{fallback, linux, linux_build, long, ostd, suite, text};
use std::env;
use std::ops::RangeInclusive;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask kernel [options]
       cargo xtask linux [--test NAME] [--source TARBALL] [--as-built] [--write]
       cargo xtask linux-fallback [--rule before|proposed|released] [--seed N,...] [--rounds N] [--steps N]
                                  [--source TARBALL] [--as-built] [--write]
       cargo xtask ostd [--only speed|frag|smp] [--write]
       cargo xtask test-vmalloc [--loops N] [--rounds N] [--as-built] [--write]
       cargo xtask measure [--as-built] [--quick] [NAME...]
       cargo xtask held-out FOLDER
       cargo xtask replay-error FOLDER
       cargo xtask recording-cost [--stream] [--rounds N] [--minutes N] [--write]
       cargo xtask many-cpus [--only LOAD] [--write]
       cargo xtask rivals [--only PATTERN] [--write]
       cargo xtask docs [--check]
       cargo xtask board [--target T]
       cargo xtask browser [--axe FILE] PAGE...
       cargo xtask cinstall

kernel builds kernel/ for a bare machine and boots it in QEMU.

  --arch NAME      x86_64 or riscv64 (default: x86_64)
  --test NAME      one test, and what it says (default: boot)
  --cpus N         CPUs, 1 to 8 (default: 1)
  --memory SIZE    memory, as QEMU takes it (default: 2G)
  --append WORDS   more for the kernel's command line, such as 'loops=1000 strict=0 lazy=16 seed=3'
  --machine NAME   microvm, q35 or pc (default: microvm); on riscv64 virt
  --threads        a thread for each CPU, which races; without it instructions are counted
  --replay FILE    replays a recording on real frames, and in the laboratory: both must say the same. With it the options
                   of framewright replay: --policy NAME of the engine's, --start imposed|fresh, --squeeze SIZE;
                   --ops N replays the first N operations
  --suite          every test; figures are compared with docs/results/kernel.jsonl (riscv64:
                   kernel-riscv64.jsonl), 15 % either way
  --long           ten million operations with every byte checked, on 1, 2 and 4 CPUs, counted and with threads
  --write          as --suite, and writes the figures there and docs/kernel-machine.md

linux builds Linux 6.12 from Debian's linux-source-6.12 (--source: from another archive of it), small, below target/linux,
boots it in the same emulator with one test after the other, and compares instructions a loop with docs/results/kernel.jsonl,
15 % either way. The first build takes some minutes and 2 GB. --test boots one test and shows its console; --as-built builds
nothing; --write boots everything twice, and writes the figures there and docs/kernel-machine.md if both agree to 1 %.

linux-fallback builds three kernels of the same source that differ in one function, what a request takes from other mobilities'
lists: `before` as Linux up to 4.11, `proposed` by document 2, `released` unchanged. It boots each by each seed under a scripted
load in a machine of 432 MiB and prints one table. --rule boots one, by the first seed, and shows its console; --write writes
docs/results/linux-fallback.jsonl and docs/lab/linux-fallback.md.

ostd builds a kernel on OSTD with this engine as its frame allocator, and one with OSTD's own, boots both in QEMU and
prints one table. Figures are compared with docs/results/ostd.jsonl, 15 % either way; --write writes them there, and
docs/ostd.md.

test-vmalloc runs Linux's own lib/test_vmalloc.c over Linux's mm/vmalloc.c and over the libraries for C, by one worker and
two, and prints one table; a test that does not end as it must is an error. Without Debian's linux-source-6.12 it says so
and passes. --write takes rows beside much other work again, and writes docs/results/test-vmalloc.jsonl and the page.

measure builds, runs the commands whose figures README and docs quote, and writes docs/results/NAME.jsonl. What fails is
said and leaves its file as it was. With --as-built it builds nothing. With --quick each command runs once in a
small size: to try them, and for no figure that is to stay.

held-out replays the recordings in FOLDER, which traces/held-out.sh makes, under each policy by the program in
target/release, and writes docs/results/held-out.jsonl.

replay-error replays the recordings in FOLDER by the recording kernel's own rules, with less and with more of what they say of the
machine, and writes docs/results/replay-error.jsonl: how far each replay is from the machine.

recording-cost compiles the same files alone, beside `framewright record --ring` and beside `--stream`, by turns, then records one
hour of it, by the program in target/release: what a recording costs. It needs root, gcc, make and python3. --write writes
docs/results/recording-cost.jsonl. With --stream only the rounds alone and beside a stream are taken, in some twelve minutes, and
written to docs/results/recording-cost-stream.jsonl, whose rows the page shows in the place of the others'.

rivals counts the instructions of the engine and of each rival in the benchmarks' patterns of one thread, by valgrind, and splits
the engine's by its parts. --only counts the patterns that begin so. Without valgrind it says so and passes. --write writes
docs/results/rivals.jsonl and docs/rivals.md. It takes some minutes; other work does not change the counts.

many-cpus runs the engine's loads on a simulated machine of 1, 2, 16, 64 and 256 CPUs, with the prices in docs/results/prices.jsonl,
and says where throughput falls and why. --only simulates the loads that begin so. --write writes docs/results/many-cpus.jsonl and
docs/many-cpus.md. It takes some minutes; other work does not change the figures.

docs fills the marked regions of README and docs from these files; with --check it changes nothing, and fails where a
page says something else.

cinstall installs the library for C by cargo-c below target/cinstall, compiles the examples against it by pkg-config, shared and
static, and the README's lines for meson and cmake, and runs what came of it. What is not installed is skipped aloud.

board builds framewright for boards (x86_64, aarch64 and armv7 with musl, armv7 with glibc, or --target), static and stripped,
checks that it is smaller than 8 MiB, and replays the sample with it, here or in qemu-user: all must say the same. A target
that lacks something is skipped aloud.

browser shows each PAGE of the laboratory in a headless Chromium at three widths, light and dark: nothing is wider than the
window, text and lines of plots stand out, and the accessibility checker axe finds nothing. Where axe is not in
target/axe (npm pack axe-core, and tar), it is skipped aloud; --axe says where else.

Exit code: 0 passed, 1 failed, 2 wrong use, or QEMU, a target, packages or crates are missing.";

/// What the command line asks for.
enum Asked {
    Kernel(AskedBoot),
    Linux(linux::AskedLinux),
    Fallback(fallback::AskedFallback),
    Ostd(ostd::AskedOstd),
    VmallocTest(vmalloc_test::AskedVmallocTest),
    Measure {
        names: Vec<String>,
        is_as_built: bool,
        is_quick: bool,
    },
    HeldOut(String),
    ReplayError(String),
    Cost(recording_cost::AskedCost),
    Rivals(rivals::AskedRivals),
    ManyCpus(many_cpus::AskedManyCpus),
    Docs {
        is_check: bool,
    },
    Board(Vec<&'static str>),
    Pages(browser::AskedPages),
    InstallForC,
}

/// What is to be booted.
struct AskedBoot {
    machine: QemuMachine,
    test: String,
    is_suite: bool,
    is_long: bool,
    is_written: bool,
    replay: Option<AskedReplay>,
}

/// The number behind a word of the command line.
fn number_in(word: &str, text: &str, range: RangeInclusive<u64>) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| range.contains(number));
    let (least, most) = range.into_inner();
    number.ok_or_else(|| format!("{word} {text}: expected {least} to {most}"))
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Asked, String> {
    let command = words.next().ok_or("a command is missing")?;
    match command.as_str() {
        "kernel" => parse_kernel(words).map(Asked::Kernel),
        "linux" => linux::AskedLinux::parse(words).map(Asked::Linux),
        fallback::NAME => fallback::AskedFallback::parse(words).map(Asked::Fallback),
        "board" => board::targets(words).map(Asked::Board),
        "browser" => browser::AskedPages::parse(words).map(Asked::Pages),
        "cinstall" => match words.next() {
            None => Ok(Asked::InstallForC),
            Some(word) => Err(format!("cinstall: there is no option `{word}`")),
        },
        "ostd" => parse_ostd(words).map(Asked::Ostd),
        vmalloc_test::NAME => vmalloc_test::AskedVmallocTest::parse(words).map(Asked::VmallocTest),
        "measure" => {
            let (options, names): (Vec<_>, Vec<_>) = words.partition(|word| word.starts_with('-'));
            let has = |option: &str| options.iter().any(|other| other == option);
            let is_known = |option: &String| ["--as-built", "--quick"].contains(&option.as_str());
            match options.iter().find(|option| !is_known(option)) {
                Some(word) => Err(format!("measure: there is no option `{word}`")),
                None => Ok(Asked::Measure {
                    names,
                    is_as_built: has("--as-built"),
                    is_quick: has("--quick"),
                }),
            }
        }
        recording_cost::NAME => recording_cost::AskedCost::parse(words).map(Asked::Cost),
        rivals::NAME => rivals::AskedRivals::parse(words).map(Asked::Rivals),
        many_cpus::NAME => many_cpus::AskedManyCpus::parse(words).map(Asked::ManyCpus),
        replay_error::NAME => match (words.next(), words.next()) {
            (Some(folder), None) => Ok(Asked::ReplayError(folder)),
            _ => Err("replay-error: expected one folder with recordings".to_owned()),
        },
        heldout::NAME => match (words.next(), words.next()) {
            (Some(folder), None) => Ok(Asked::HeldOut(folder)),
            _ => Err("held-out: expected one folder with recordings".to_owned()),
        },
        "docs" => match (words.next().as_deref(), words.next()) {
            (None, _) => Ok(Asked::Docs { is_check: false }),
            (Some("--check"), None) => Ok(Asked::Docs { is_check: true }),
            (Some(word), _) => Err(format!("docs: there is no option `{word}`")),
        },
        _ => Err(format!("there is no command `{command}`")),
    }
}

fn parse_kernel(words: impl Iterator<Item = String>) -> Result<AskedBoot, String> {
    let words: Vec<String> = words.collect();
    let named = words.iter().position(|word| word == "--arch");
    let arch = match named.map(|at| words.get(at + 1)) {
        None => KernelArch::X86_64,
        Some(name) => {
            let name = name.ok_or("--arch: a value is missing")?;
            let mut all = KernelArch::ALL.into_iter();
            let found = all.find(|arch| arch.name() == name);
            found.ok_or(format!("--arch {name}: expected x86_64 or riscv64"))?
        }
    };
    let mut words = words.into_iter();
    let mut asked = AskedBoot {
        machine: QemuMachine::of(arch),
        test: "boot".to_owned(),
        is_suite: false,
        is_long: false,
        is_written: false,
        replay: None,
    };
    let (mut of_replay, mut memory) = (Vec::new(), None);
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word}: a value is missing"));
        match word.as_str() {
            "--arch" => drop(value()?), // read above, because the machine depends on it
            "--test" => asked.test = value()?,
            "--cpus" => {
                asked.machine.cpus = number_in(&word, &value()?, 1..=8)? as u16;
            }
            "--memory" => memory = Some(value()?),
            "--append" => asked.machine.append = value()?,
            "--machine" => asked.machine.kind = value()?,
            "--threads" => asked.machine.accelerator = Accelerator::Threads,
            "--suite" => asked.is_suite = true,
            "--long" => asked.is_long = true,
            "--write" => asked.is_written = true,
            "--replay" => {
                asked.replay = Some(AskedReplay {
                    file: value()?.into(),
                    options: Vec::new(),
                    memory: None,
                });
            }
            option if AskedReplay::OPTIONS.contains(&option) => {
                of_replay.extend([word.clone(), value()?]);
            }
            _ => return Err(format!("there is no option `{word}`")),
        }
    }
    asked.is_suite |= asked.is_written;
    let is_other = asked.is_suite || asked.test != "boot" || asked.machine.cpus != 1;
    if asked.is_long && is_other {
        let says =
            "--long is a test of its own: it goes without --suite, --write, --test and --cpus";
        return Err(says.to_owned());
    }
    if let Some(memory) = &memory {
        asked.machine.memory.clone_from(memory);
    }
    let is_threads = asked.machine.accelerator == Accelerator::Threads;
    match &mut asked.replay {
        Some(_) if is_other || is_threads || asked.is_long => {
            let says = "--replay is a test of its own: it goes without --suite, --long, --write, --test, --cpus and --threads";
            return Err(says.to_owned());
        }
        Some(replay) => {
            replay.options = of_replay;
            replay.memory = memory;
        }
        None => {
            if let Some(option) = of_replay.first() {
                return Err(format!("{option} goes with --replay"));
            }
        }
    }
    Ok(asked)
}

fn parse_ostd(mut words: impl Iterator<Item = String>) -> Result<ostd::AskedOstd, String> {
    let (mut only, mut is_written) = (None, false);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--only" => {
                let test = words.next().unwrap_or_default();
                if !["speed", "frag", "smp"].contains(&test.as_str()) {
                    return Err(format!("--only {test}: expected speed, frag or smp"));
                }
                only = Some(test);
            }
            "--write" => is_written = true,
            _ => return Err(format!("ostd: there is no option `{word}`")),
        }
    }
    if is_written && only.is_some() {
        return Err("--write writes all figures: it goes without --only".to_owned());
    }
    Ok(ostd::AskedOstd { only, is_written })
}

fn run(asked: &Asked) -> Result<(), String> {
    match asked {
        Asked::Kernel(asked) => run_kernel(asked),
        Asked::Linux(asked) => linux::run(asked),
        Asked::Fallback(asked) => fallback::run(asked),
        Asked::Ostd(asked) => ostd::run(asked),
        Asked::VmallocTest(asked) => vmalloc_test::run(asked),
        Asked::Measure {
            names,
            is_as_built,
            is_quick,
        } => measure::run(names, *is_as_built, *is_quick),
        Asked::Cost(asked) => recording_cost::run(asked),
        Asked::Rivals(asked) => rivals::run(asked),
        Asked::ManyCpus(asked) => many_cpus::run(asked),
        Asked::ReplayError(folder) => replay_error::take(folder.as_ref()),
        Asked::HeldOut(folder) => heldout::take(folder.as_ref()),
        Asked::Docs { is_check } => pages::run(*is_check),
        Asked::Board(targets) => board::run(targets),
        Asked::Pages(asked) => browser::run(asked),
        Asked::InstallForC => cinstall::run(),
    }
}

fn run_kernel(asked: &AskedBoot) -> Result<(), String> {
    let arch = asked.machine.arch;
    let qemu = boot::qemu_version(arch)?;
    // Before the kernel with its tests, because each of them lies where that will.
    let text = match arch {
        KernelArch::X86_64 if asked.is_suite => text::measure(arch, asked.is_written)?,
        KernelArch::X86_64 | KernelArch::Riscv64 => Vec::new(),
    };
    if let Some(replay) = &asked.replay {
        let end = replay::replay(&asked.machine, replay)?;
        println!(
            "{}\nevery line of the replay as in the laboratory",
            end.said
        );
        return Ok(());
    }
    // As above.
    let replayed = asked.is_suite.then(|| replay::count(arch)).transpose()?;
    if asked.is_suite {
        replay::pass(arch)?;
    }
    let kernel = boot::build(arch)?;
    if let Some(replayed) = replayed {
        return suite::run(arch, &kernel, &qemu, text, replayed, asked.is_written);
    }
    if asked.is_long {
        return long::run(arch, &kernel);
    }
    let end = asked.machine.boot(&kernel, &asked.test)?;
    println!("{}", end.said);
    end.expect_passed(&asked.test)
}

fn main() -> ExitCode {
    let asked = match parse(env::args().skip(1)) {
        Ok(asked) => asked,
        Err(error) => {
            let (all, others) = (measure::names(true), measure::names(false));
            eprintln!("{error}\n\n{USAGE}");
            eprintln!("\nmeasured by default: {}", all.join(", "));
            eprintln!("on request: {}", others.join(", "));
            return ExitCode::from(2);
        }
    };
    match run(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            let is_missing = [
                boot::NO_QEMU,
                linux_build::NO_LINUX,
                ostd::NO_PARTS,
                browser::NO_BROWSER,
                recording_cost::NO_PARTS,
            ];
            let is_missing = is_missing.iter().any(|begin| error.starts_with(begin));
            ExitCode::from(if is_missing { 2 } else { 1 })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<AskedBoot, String> {
        match parse(words.split(' ').map(str::to_owned))? {
            Asked::Kernel(asked) => Ok(asked),
            _ => Err("not a boot".to_owned()),
        }
    }

    #[test]
    fn figures_are_measured_and_documents_filled() {
        let asked = |words: &str| parse(words.split(' ').map(str::to_owned));
        assert!(matches!(asked("docs"), Ok(Asked::Docs { is_check: false })));
        assert!(matches!(
            asked("docs --check"),
            Ok(Asked::Docs { is_check: true })
        ));
        assert!(asked("docs --chek").is_err_and(|error| error.contains("`--chek`")));
        let measured = asked("measure frames --as-built objects");
        assert!(matches!(
            measured,
            Ok(Asked::Measure { names, is_as_built: true, is_quick: false }) if names == ["frames", "objects"]
        ));
        assert!(asked("measure --rounds 3").is_err_and(|error| error.contains("`--rounds`")));
    }

    #[test]
    fn a_kernel_on_ostd_is_asked_for() {
        let asked = |words: &str| match parse(words.split(' ').map(str::to_owned)) {
            Ok(Asked::Ostd(asked)) => Ok((asked.only, asked.is_written)),
            Ok(_) => Err("not that".to_owned()),
            Err(error) => Err(error),
        };
        assert_eq!(
            asked("ostd --only frag"),
            Ok((Some("frag".to_owned()), false))
        );
        assert_eq!(asked("ostd --write"), Ok((None, true)));
        let refused = |words| asked(words).err().unwrap_or_default();
        assert!(refused("ostd --only kernel").contains("expected speed, frag or smp"));
        assert!(refused("ostd --write --only smp").contains("goes without"));
        assert!(refused("ostd --fast").contains("`--fast`"));
    }

    #[test]
    fn options_reach_the_machine() {
        let words = "kernel --cpus 4 --memory 512M --test smp --threads";
        let asked = parsed(words).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((asked.machine.cpus, asked.test.as_str()), (4, "smp"));
        assert_eq!(asked.machine.memory, "512M");
        assert_eq!(asked.machine.accelerator, Accelerator::Threads);
        assert!(!asked.is_suite && !asked.is_written);
        assert_eq!(asked.machine.arch, KernelArch::X86_64);
        for words in [
            "kernel --arch riscv64 --cpus 2",
            "kernel --cpus 2 --arch riscv64",
        ] {
            let machine = parsed(words)
                .unwrap_or_else(|error| panic!("{error}"))
                .machine;
            assert_eq!((machine.arch, machine.cpus), (KernelArch::Riscv64, 2));
            assert_eq!(machine.kind, "virt");
        }
        assert!(parsed("kernel --write").is_ok_and(|asked| asked.is_suite && asked.is_written));
        let long = parsed("kernel --long --arch riscv64");
        assert!(long.is_ok_and(|asked| asked.is_long && !asked.is_suite));
        for other in ["--suite", "--write", "--test smp", "--cpus 2"] {
            let refused = parsed(&format!("kernel --long {other}")).err();
            assert!(
                refused.is_some_and(|error| error.contains("a test of its own")),
                "{other}"
            );
        }
    }

    #[test]
    fn a_replay_hands_its_options_on_and_goes_alone() {
        let asked = parsed("kernel --replay a.pft --arch riscv64 --squeeze 5MiB --ops 9");
        let asked = asked.unwrap_or_else(|error| panic!("{error}"));
        let options = ["--squeeze", "5MiB", "--ops", "9"].map(str::to_owned);
        let replay = AskedReplay {
            file: "a.pft".into(),
            options: options.into(),
            memory: None,
        };
        assert_eq!(asked.replay, Some(replay));
        assert_eq!(asked.machine.arch, KernelArch::Riscv64);
        let refused = |words: &str| parsed(words).err().unwrap_or_default();
        // The machine of other tests has 2G: here it is what was asked for.
        let small = parsed("kernel --replay a.pft --memory 2G");
        let small = small.unwrap_or_else(|error| panic!("{error}")).replay;
        assert_eq!(
            small.and_then(|replay| replay.memory).as_deref(),
            Some("2G")
        );
        for other in [
            "--suite",
            "--long",
            "--write",
            "--test smp",
            "--cpus 2",
            "--threads",
        ] {
            let refused = refused(&format!("kernel --replay a.pft {other}"));
            assert!(refused.contains("a test of its own"), "{other}");
        }
        assert!(refused("kernel --squeeze 7").contains("--squeeze goes with --replay"));
        assert!(refused("kernel --replay").contains("a value is missing"));
    }

    #[test]
    fn wrong_words_are_refused_with_the_word() {
        let refused = |words| parsed(words).err().unwrap_or_default();
        assert!(refused("linus").contains("`linus`"));
        assert!(refused("kernel --cpus 9").contains("expected 1 to 8"));
        assert!(refused("kernel --cpus").contains("a value is missing"));
        assert!(refused("kernel --cups 1").contains("`--cups`"));
        assert!(refused("kernel --arch riscv").contains("expected x86_64 or riscv64"));
        assert!(refused("kernel --arch").contains("a value is missing"));
    }
}
