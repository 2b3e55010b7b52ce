//! The stress for long: ten million operations with every byte checked, while each CPU's timer ticks.
//!
//! On one, two and four CPUs, each by instructions, which is the same on every machine, and with a thread for each CPU, which
//! races. It takes longer than the whole suite, so it is no part of that: `cargo xtask kernel --long` runs it.

use super::boot::{Accelerator, KernelArch, QemuMachine};
use std::path::Path;
use std::time::{Duration, Instant};

const OPERATIONS: u64 = 10_000_000;
const CPUS: [u16; 3] = [1, 2, 4];
/// The longest that a boot may take.
const LONGEST: Duration = Duration::from_secs(3600);

/// What a boot counted, which it says as `row NAME NUMBER`.
fn counted(said: &str) -> String {
    let lines = said.lines().filter_map(|line| line.strip_prefix("row "));
    let shown = lines.map(|line| match line.split_once(' ') {
        Some((name, number)) => format!("{number} {name}"),
        None => line.to_owned(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

pub(crate) fn run(arch: KernelArch, kernel: &Path) -> Result<(), String> {
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
            let (shown, seconds) = (counted(&end.said), start.elapsed().as_secs_f64());
            println!("{cpus} CPUs, {how}: {shown} in {seconds:.0} s");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_boot_counted_is_shown() {
        let said = "ready\nrow operations 10000000\nrow ticks 77\npassed\n";
        assert_eq!(counted(said), "10000000 operations, 77 ticks");
        assert_eq!(counted("row ticks"), "ticks");
        assert_eq!(counted("ready"), "");
    }
}
