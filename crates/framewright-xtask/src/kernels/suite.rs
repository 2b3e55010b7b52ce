//! The suite: every figure, and every test that only passes or fails.

use super::boot::{Accelerator, BootEnd, BootResult, KernelArch, QemuMachine};
use super::figures::{self, KernelFigure, VfreeMode};
use super::{linux, text};
use crate::pages;
use crate::results::{self, ResultFile, ResultRow};
use std::path::Path;
use std::time::Instant;

/// The tests whose instructions are counted, in the document's order, and in how many modes: those that free no area in
/// one.
const COUNTED: &[(&str, usize)] = &[
    ("fix_size", 2),
    ("full_fit", 2),
    ("long_busy_list", 2),
    ("random_size", 2),
    ("fix_align", 2),
    ("random_size_align", 2),
    ("vm_map_ram_1", 2),
    ("vm_map_ram_4", 2),
    ("vm_map_ram_16", 2),
    ("vm_map_ram_64", 2),
    ("vm_map_ram_16_apart", 2),
    ("vm_map_ram_64_apart", 2),
    ("alloc_pages_0", 1),
    ("alloc_pages_3", 1),
    ("alloc_pages_9", 1),
    ("kmalloc_64", 1),
    ("kvmalloc_4k", 1),
    ("kvmalloc_64k", 1),
    ("kvmalloc_1m", 2),
    ("pcpu", 1),
    ("map_1", 1),
    ("map_64", 1),
    ("longest_random", 2),
    ("longest_16m_zeroed", 2),
    ("longest_drain", 2),
    ("ready_64g", 1),
    ("ready_64g_zeroed", 1),
];

/// Memory and words of a test whose instructions are counted, where they are not the usual ones.
fn words_of(test: &str) -> Option<(&'static str, &'static str)> {
    match test {
        "ready_64g" => Some(("64G", "")),
        "ready_64g_zeroed" => Some(("64G", "zeroed=1")),
        _ => None,
    }
}

/// A lazy bound so small, with nothing kept, that each address is soon used again: what a missing flush shows in.
const SOON_AGAIN: &str = "lazy=16 kept=0";

/// How many seeds a kernel without its flush is tried with, and must be caught with.
const SEEDS: u32 = 20;

/// Tests that pass: the machine, the test, and words for it.
const PASSED: &[(u16, &str, &str, &str, &str)] = &[
    // CPUs, memory, machine, test, words
    (1, "512M", "microvm", "guards", ""),
    (1, "512M", "microvm", "stack", ""),
    (2, "512M", "microvm", "stacks", ""),
    (4, "512M", "microvm", "stacks", "strict=0"),
    (1, "512M", "microvm", "heap", ""),
    (1, "512M", "microvm", "huge", ""),
    (1, "256M", "microvm", "full", "window=1"),
    (1, "128M", "microvm", "reclaim", "window=1"),
    (
        1,
        "128M",
        "microvm",
        "depth",
        "window=1 loops=1500 ordinary=512",
    ),
    (
        1,
        "128M",
        "microvm",
        "depth",
        "window=1 loops=1500 ordinary=512 seed=2",
    ),
    (
        1,
        "128M",
        "microvm",
        "depth",
        "window=1 loops=1500 ordinary=512 seed=3",
    ),
    (2, "512M", "microvm", "reserve", "loops=1500"),
    (1, "512M", "microvm", "nested", "loops=10000"),
    (1, "512M", "microvm", "windows", "loops=200 handlers=1"),
    (
        1,
        "512M",
        "microvm",
        "windows",
        "loops=200 strict=0 handlers=1",
    ),
    (1, "512M", "microvm", "interrupts", "loops=1500 handlers=1"),
    (
        2,
        "512M",
        "microvm",
        "interrupts",
        "loops=600 lazy=16 strict=0 kept=0 handlers=1",
    ),
    (2, "512M", "microvm", "smp", "loops=2000 lazy=16"),
    (2, "512M", "microvm", "smp", "loops=2000 locks=1"),
    (4, "512M", "microvm", "smp", "loops=1000 locks=1"),
    (4, "512M", "microvm", "ticks", "loops=1000 handlers=1"),
    (2, "512M", "microvm", "smp", "loops=600 strict=0"),
    (2, "512M", "microvm", "handover", "loops=400 lazy=16 kept=0"),
    (4, "512M", "microvm", "handover", "loops=200 lazy=16 kept=0"),
    (2, "512M", "microvm", "leaving", "loops=100"),
    (4, "512M", "microvm", "leaving", "loops=50 lazy=16 strict=0"),
    // A hole below 4 GiB, and memory above.
    (2, "5G", "microvm", "smp", "loops=300"),
    (2, "5G", "q35", "smp", "loops=300"),
    (4, "512M", "microvm", "asking", "loops=500"),
    (4, "512M", "microvm", "smp", "loops=400 lazy=16"),
];

/// The same with a thread for each CPU: real races.
const RACES: &[(u16, &str, &str)] = &[
    (2, "smp", "loops=2000 lazy=200"),
    (2, "smp", "loops=1000 lazy=200 strict=0 kept=0"),
    (2, "interrupts", "loops=1000 handlers=1"),
    (2, "smp", "loops=4000 locks=2"),
    (4, "smp", "loops=2000 locks=2"),
    (4, "smp", "loops=1000"),
    (2, "reserve", "loops=3000"),
];

pub(crate) fn run(
    arch: KernelArch,
    kernel: &Path,
    qemu: &str,
    text: Vec<ResultRow>,
    replayed: KernelFigure,
    is_written: bool,
) -> Result<(), String> {
    let start = Instant::now();
    let mut figures = count(arch, kernel)?;
    figures.push(replayed);
    for &(cpus, memory, kind, test, append) in PASSED {
        let mut machine = QemuMachine {
            cpus,
            memory: memory.to_owned(),
            append: append.to_owned(),
            ..QemuMachine::of(arch)
        };
        match arch {
            KernelArch::X86_64 => machine.kind = kind.to_owned(),
            // It has one machine.
            KernelArch::Riscv64 if kind == "q35" => continue,
            KernelArch::Riscv64 => {}
        }
        passes(kernel, &machine, test)?;
    }
    for &(cpus, test, append) in RACES {
        let machine = QemuMachine {
            cpus,
            memory: "512M".to_owned(),
            append: append.to_owned(),
            accelerator: Accelerator::Threads,
            ..QemuMachine::of(arch)
        };
        passes(kernel, &machine, test)?;
    }
    catch(arch, kernel, &without_flush(arch))?;
    catch(arch, kernel, &WITHOUT_ANSWERS)?;
    let kept = compare_or_write(arch, &figures, text, qemu, is_written);
    println!("kernel: {} s", start.elapsed().as_secs());
    kept
}

/// Counts the instructions of each test, in both modes.
fn count(arch: KernelArch, kernel: &Path) -> Result<Vec<KernelFigure>, String> {
    let mut figures = Vec::new();
    for &(test, modes) in COUNTED {
        for mode in VfreeMode::ALL.into_iter().take(modes) {
            let append = match mode {
                VfreeMode::Kept => "strict=0",
                VfreeMode::Strict => "strict=1",
            };
            let mut machine = QemuMachine {
                append: append.to_owned(),
                ..QemuMachine::of(arch)
            };
            if let Some((memory, words)) = words_of(test) {
                (machine.memory, machine.append) = (memory.to_owned(), format!("{append} {words}"));
                machine.is_sparse = true;
            }
            let end = machine.boot(kernel, test)?;
            end.expect_passed(test)?;
            let figure = KernelFigure::read(&end.said, mode)?;
            println!("{test} ({mode:?}): {:.0}", figure.instructions);
            figures.push(figure);
        }
    }
    Ok(figures)
}

fn passes(kernel: &Path, machine: &QemuMachine, test: &str) -> Result<(), String> {
    let start = Instant::now();
    machine.boot(kernel, test)?.expect_passed(test)?;
    let QemuMachine {
        cpus,
        memory,
        append,
        ..
    } = machine;
    let how = machine.accelerator;
    let seconds = start.elapsed().as_secs_f64();
    println!("{test}: passed in {seconds:.1} s ({cpus} CPUs, {memory}, {how:?}, {append})");
    Ok(())
}

/// A kernel that leaves something out, and must be caught with each seed.
struct BrokenKernel {
    what: &'static str,
    /// The word that has it left out.
    word: &'static str,
    cpus: u16,
    test: &'static str,
    words: &'static str,
    seeds: u32,
    /// How it may end.
    ends: &'static [BootResult],
}

/// On RISC-V a hart fences what it maps itself, so a missing flush shows only in what others have mapped.
const fn without_flush(arch: KernelArch) -> BrokenKernel {
    let (test, words) = match arch {
        KernelArch::X86_64 => ("smp", "loops=4000"),
        KernelArch::Riscv64 => ("handover", "loops=400"),
    };
    BrokenKernel {
        what: "flush",
        word: "noflush",
        cpus: 2,
        test,
        words,
        seeds: SEEDS,
        // One that stands still counts as not caught: what it found could be a fault of its waits.
        ends: &[
            BootResult::WrongBytes,
            BootResult::Faulted,
            BootResult::Panicked,
        ],
    }
}

/// The kernel with its answers waits less long than these words allow.
const WITHOUT_ANSWERS: BrokenKernel = BrokenKernel {
    what: "answers",
    word: "noanswer",
    cpus: 4,
    test: "smp",
    words: "loops=6000 patience=200000",
    seeds: 5,
    ends: &[BootResult::Hung],
};

/// Boots a kernel that leaves something out with each seed, and with some of them the one that does not: it passes with the
/// same words, or the catch would say nothing.
fn catch(arch: KernelArch, kernel: &Path, broken: &BrokenKernel) -> Result<(), String> {
    let start = Instant::now();
    let (what, word, words) = (broken.what, broken.word, broken.words);
    for seed in 1..=broken.seeds {
        let whole = (seed % 5 == 1).then_some(0);
        for value in whole.into_iter().chain([1]) {
            let machine = QemuMachine {
                cpus: broken.cpus,
                memory: "256M".to_owned(),
                append: format!("{SOON_AGAIN} window=1 {words} seed={seed} {word}={value}"),
                ..QemuMachine::of(arch)
            };
            let BootEnd { end, said } = machine.boot(kernel, broken.test)?;
            let is_right = match value {
                0 => end == BootResult::Passed,
                _ => broken.ends.contains(&end),
            };
            if !is_right {
                let how = match value {
                    0 => "did not pass",
                    _ => "was not caught",
                };
                return Err(format!(
                    "seed {seed}, {word}={value}: {how} ({end:?})\n{said}"
                ));
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let times = broken.seeds;
    println!("a kernel without its {what}: caught {times} times of {times} in {seconds:.1} s");
    Ok(())
}

/// Compares with the result file, or writes it, and the page that shows it.
fn compare_or_write(
    arch: KernelArch,
    figures: &[KernelFigure],
    text: Vec<ResultRow>,
    qemu: &str,
    is_written: bool,
) -> Result<(), String> {
    let name = arch.results();
    if is_written {
        let mut file = ResultFile {
            run: figures::run_record(arch, qemu),
            rows: figures::rows(figures),
        };
        file.rows.extend(text);
        // A first file has no earlier one.
        if results::path_of(name).exists() {
            linux::keep(&mut file, ResultFile::read(name)?);
        }
        file.write(name)?;
        return pages::run(false);
    }
    let rows = ResultFile::read(name)?.rows;
    let earlier = figures::of_rows(&rows);
    let mut wrong: Vec<String> = figures
        .iter()
        .filter_map(|figure| figure.compare(&earlier))
        .collect();
    wrong.extend(text::compare(&text, &rows));
    if wrong.is_empty() {
        let count = figures.len();
        println!("{count} figures within 15 % of docs/results/{name}.jsonl");
        return Ok(());
    }
    Err(wrong.join("\n"))
}
