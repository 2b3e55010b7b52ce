//! The historical baselines with and without their per-CPU lists, which the command line always
//! gives them: what the lists alone change.
//!
//! `cargo run --release -p framewright-lab --example historical_baselines -- [TRACE...]`; without
//! a trace, the repository's sample.

use framewright_lab::before::buddy::{LinuxBuddy, LinuxBuddyConfig, LinuxPolicy};
use framewright_lab::replay::{ReplayOptions, ReplayOutcome, Start, TraceMemory, replay};
use framewright_lab::trace::{Input, read_pft};
use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if paths.is_empty() {
        let crate_root = Path::new(env!("CARGO_MANIFEST_DIR"));
        paths.push(crate_root.join("../../traces/sample.pft.zst"));
    }
    println!(
        "{:<8} {:<6} {:<22} {:>7} {:>5} {:>5} {:>7} {:>7} {:>6} {:>6} {:>5} {:>5} {:>5} {:>9}",
        "start",
        "lists",
        "policy",
        "free 2M",
        "U_3",
        "U_9",
        "contam.",
        "mixed",
        "f3",
        "f4",
        "f8",
        "f9",
        "false",
        "fallbacks",
    );
    for path in paths {
        println!("{}", path.file_name().unwrap_or_default().display());
        let trace = read_pft(Input::open(&path)?)?;
        let memory = TraceMemory::new(&trace)?;
        for start in [Start::Imposed, Start::Fresh] {
            for per_cpu_lists in [true, false] {
                for policy in LinuxPolicy::ALL {
                    let config = LinuxBuddyConfig {
                        absent: &trace.absent,
                        cpus: memory.cpus,
                        per_cpu_lists,
                        ..LinuxBuddyConfig::new(policy, trace.nframes)
                    };
                    let mut buddy = LinuxBuddy::new(&config)?;
                    let outcome =
                        replay(&mut buddy, &memory, ReplayOptions::new(start), &0.into())?;
                    buddy.verify()?;
                    print_row(start, per_cpu_lists, policy, &outcome);
                }
            }
        }
    }
    Ok(())
}

fn print_row(start: Start, per_cpu_lists: bool, policy: LinuxPolicy, outcome: &ReplayOutcome) {
    let (means, failures) = (&outcome.means, &outcome.failures);
    println!(
        "{:<8} {:<6} {:<22} {:>7.1} {:>5.3} {:>5.3} {:>7.1} {:>7.1} {:>6} {:>6} {:>5} {:>5} {:>5} {:>9}",
        start.name(),
        if per_cpu_lists { "yes" } else { "no" },
        policy.name(),
        means.free_2m_blocks(),
        means.unusable_index(3),
        means.unusable_index(9),
        means.contaminated_blocks(),
        means.mixed_blocks(),
        failures[3],
        failures[4],
        failures[8],
        failures[9],
        outcome.false_failures,
        outcome.fallbacks.iter().flatten().sum::<u64>(),
    );
}
