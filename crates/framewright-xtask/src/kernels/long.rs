//! The stress for long: ten million operations with every byte checked, while each CPU's timer ticks.
//!
//! On one, two and four CPUs, each by instructions, which is the same on every machine, and with a thread for each CPU, which
//! races. It takes a quarter of an hour and more, so it is no part of the suite: `cargo xtask kernel --long` runs it, and with
//! `--write` keeps what it says.

use super::boot::{Accelerator, KernelArch, QemuMachine};
use super::figures;
use crate::pages;
use crate::results::{ResultFile, ResultRow, RowSource};
use std::path::Path;
use std::time::{Duration, Instant};

const OPERATIONS: u64 = 10_000_000;
const CPUS: [u16; 3] = [1, 2, 4];
/// The longest that a boot may take.
const LONGEST: Duration = Duration::from_secs(3600);

/// The name of the result file.
const fn results(arch: KernelArch) -> &'static str {
    match arch {
        KernelArch::X86_64 => "kernel-long",
        KernelArch::Riscv64 => "kernel-long-riscv64",
    }
}

/// What a boot says as `row NAME NUMBER`.
fn rows(said: &str, case: &str, variant: &str) -> Result<Vec<ResultRow>, String> {
    let row = |line: &str| {
        let (metric, number) = line.split_once(' ').ok_or(format!("no row: {line}"))?;
        let parsed = number.parse::<f64>();
        let number = parsed.map_err(|error| format!("{number} in `row {line}`: {error}"))?;
        Ok(ResultRow {
            case: case.to_owned(),
            variant: variant.to_owned(),
            metric: metric.to_owned(),
            unit: metric.to_owned(),
            source: RowSource::Simulated,
            median: number,
            min: number,
            max: number,
            n: 1,
        })
    };
    let lines = said.lines().filter_map(|line| line.strip_prefix("row "));
    lines.map(row).collect()
}

pub(crate) fn run(
    arch: KernelArch,
    kernel: &Path,
    qemu: &str,
    is_written: bool,
) -> Result<(), String> {
    let mut all = Vec::new();
    for (how, accelerator) in [
        ("counted", Accelerator::Counting),
        ("threads", Accelerator::Threads),
    ] {
        for cpus in CPUS {
            let start = Instant::now();
            let loops = OPERATIONS / u64::from(cpus);
            let machine = QemuMachine {
                cpus,
                memory: "512M".to_owned(),
                append: format!("loops={loops} short=1 handlers=1 tick=50000"),
                accelerator,
                ..QemuMachine::of(arch)
            };
            let end = machine.boot_within(kernel, "ticks", LONGEST)?;
            end.expect_passed("ticks")?;
            let case = format!("{cpus} CPUs");
            let found = rows(&end.said, &case, how)?;
            let shown = found
                .iter()
                .map(|row| format!("{} {}", row.median, row.metric));
            let (shown, seconds) = (shown.collect::<Vec<_>>(), start.elapsed().as_secs_f64());
            println!("{case}, {how}: {} in {seconds:.0} s", shown.join(", "));
            all.extend(found);
        }
    }
    if !is_written {
        return Ok(());
    }
    let mut record = figures::run_record(arch, qemu);
    let arch_words = match arch {
        KernelArch::X86_64 => String::new(),
        KernelArch::Riscv64 => "--arch riscv64 ".to_owned(),
    };
    record.commands = vec![format!("cargo xtask kernel {arch_words}--long --write")];
    let file = ResultFile {
        run: record,
        rows: all,
    };
    file.write(results(arch))?;
    pages::run(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_boot_says_becomes_rows() {
        let said = "ready\nrow operations 10000000\nrow ticks 77\npassed\n";
        let found = rows(said, "2 CPUs", "counted").unwrap();
        let metrics = found.iter().map(|row| (row.metric.as_str(), row.median));
        assert_eq!(
            metrics.collect::<Vec<_>>(),
            [("operations", 10_000_000.0), ("ticks", 77.0)]
        );
        assert!(rows("row ticks many", "", "").unwrap_err().contains("many"));
        assert!(rows("row ticks", "", "").unwrap_err().contains("no row"));
    }
}
