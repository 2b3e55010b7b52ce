//! A recording, replayed by the kernel on real frames and by the laboratory on numbers: both must say the same.
//!
//! The laboratory's example `kernel_replay` reads the recording, replays it on the engine, and writes the stream that QEMU puts
//! beside the kernel. What the kernel then says is compared line by line: failures by order, fallbacks, pageblocks, free
//! blocks, and a digest of every answer.

use super::boot::{self, BootEnd, KernelArch, QemuMachine};
use super::figures::{KernelFigure, VfreeMode};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the kernel is built with.
const FEATURE: &str = "replay";
/// The program that makes the stream.
const MAKER: &str = "kernel_replay";
/// How a line of the kernel's begins that the laboratory has, too.
const SHARED: &str = "replayed ";
/// The longest that a boot may take: the sample takes seconds, and recordings are up to minutes long.
const LONGEST: Duration = Duration::from_secs(1800);

/// A recording, and what `framewright replay` would be told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AskedReplay {
    pub(crate) file: PathBuf,
    /// Options, which the program that makes the stream reads.
    pub(crate) options: Vec<String>,
}

impl AskedReplay {
    /// The options that belong to a replay.
    pub(crate) const OPTIONS: [&str; 4] = ["--policy", "--start", "--squeeze", "--ops"];

    /// The sample with so much memory held back that requests fail: what the suite boots, and the third case of the main job.
    pub(crate) fn sample() -> Self {
        let options = "--start fresh --squeeze 40000";
        Self {
            file: boot::root().join("traces/sample.pft.zst"),
            options: options.split(' ').map(str::to_owned).collect(),
        }
    }
}

/// The stream of a recording, and what its replay comes to in the laboratory.
struct MadeStream {
    file: PathBuf,
    frames: u64,
    lines: Vec<String>,
}

/// Builds the program and has it make the stream.
fn make(asked: &AskedReplay) -> Result<MadeStream, String> {
    let root = boot::root();
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // With the features that the workspace's tests have, so that what they have built is built.
    let built = Command::new(cargo)
        .current_dir(&root)
        .args(["build", "--quiet", "--workspace", "--example", MAKER])
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err(format!("the laboratory's {MAKER} was not built"));
    }
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let file = target.join(format!("kernel-{}.replay", std::process::id()));
    let made = Command::new(target.join("debug/examples").join(MAKER))
        .arg(&asked.file)
        .arg(&file)
        .args(&asked.options)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{MAKER}: {error}"))?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).trim_end().to_owned());
    }
    let lines = String::from_utf8_lossy(&made.stdout);
    Ok(MadeStream {
        frames: frames_of(&file)?,
        lines: lines.lines().map(str::to_owned).collect(),
        file,
    })
}

/// The frames of the recording's machine, from the stream's header.
fn frames_of(stream: &Path) -> Result<u64, String> {
    let at = stream.display();
    let bytes = fs::read(stream).map_err(|error| format!("{at}: {error}"))?;
    let word = bytes.get(24..32).and_then(|word| word.try_into().ok());
    let word = word.ok_or_else(|| format!("{at}: no header"))?;
    Ok(u64::from_le_bytes(word))
}

/// GiB for a kernel that has as many frames side by side: on x86-64 they lie above 4 GiB, behind 3 GiB; on RISC-V above the
/// stream. One more is for the kernel itself.
fn gibibytes(arch: KernelArch, frames: u64) -> u64 {
    let beside = match arch {
        KernelArch::X86_64 => 3,
        KernelArch::Riscv64 => 1,
    };
    frames.div_ceil(1 << 18) + beside + 1
}

/// The lines of the laboratory that the kernel has not, beside the kernel's; none if all are the same.
fn unlike(kernel: &str, laboratory: &[String]) -> Vec<String> {
    let said: Vec<&str> = kernel
        .lines()
        .filter_map(|line| line.strip_prefix(SHARED))
        .collect();
    if said.len() != laboratory.len() {
        let (said, expected) = (said.len(), laboratory.len());
        return vec![format!("{said} lines, and {expected} in the laboratory")];
    }
    let pairs = said.iter().zip(laboratory);
    let others = pairs.filter(|(said, expected)| *said != expected);
    others
        .map(|(said, expected)| format!("{said}, and in the laboratory {expected}"))
        .collect()
}

/// Builds the kernel that replays, and boots it with the recording; what it said, if that is what the laboratory says. The next
/// build of a kernel overwrites this one.
pub(crate) fn replay(machine: &QemuMachine, asked: &AskedReplay) -> Result<BootEnd, String> {
    let kernel = boot::build_with(machine.arch, Some(FEATURE))?;
    let stream = make(asked)?;
    let mut machine = machine.clone();
    if machine.memory == QemuMachine::of(machine.arch).memory {
        machine.memory = format!("{}G", gibibytes(machine.arch, stream.frames));
    }
    // The host has what is written to: metadata, and the frames of what the recording allocates.
    machine.is_sparse = true;
    machine.module = Some(stream.file.clone());
    let end = machine.boot_within(&kernel, "replay", LONGEST);
    // The stream is of use to this boot alone.
    let _ = fs::remove_file(&stream.file);
    let end = end?;
    end.expect_passed("replay")?;
    let unlike = unlike(&end.said, &stream.lines);
    match unlike.is_empty() {
        true => Ok(end),
        false => Err(format!(
            "the kernel's replay is another than the laboratory's:\n{}",
            unlike.join("\n")
        )),
    }
}

/// The same of the sample: what a request or a free costs.
pub(crate) fn count(arch: KernelArch) -> Result<KernelFigure, String> {
    let start = Instant::now();
    let end = replay(&QemuMachine::of(arch), &AskedReplay::sample())?;
    let (figure, seconds) = (
        KernelFigure::read(&end.said, VfreeMode::Kept)?,
        start.elapsed().as_secs_f64(),
    );
    println!(
        "{}: {:.0}, every answer as in the laboratory, in {seconds:.1} s",
        figure.test, figure.instructions
    );
    Ok(figure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_differs_or_is_missing_is_told() {
        let laboratory = ["answers 7", "failures_order3 12"].map(str::to_owned);
        let told = |said: &str| unlike(said, &laboratory).join("; ");
        let same = "ready\nreplayed answers 7\nreplayed failures_order3 12\nfigure replay 1 1\n";
        assert_eq!(told(same), "");
        assert_eq!(
            told(&same.replace("12", "13")),
            "failures_order3 13, and in the laboratory failures_order3 12"
        );
        let less = same.replace("replayed answers 7\n", "");
        assert_eq!(told(&less), "1 lines, and 2 in the laboratory");
    }

    #[test]
    fn a_machine_has_room_for_the_recordings_frames() {
        let sample = 1_544_192;
        assert_eq!(gibibytes(KernelArch::X86_64, sample), 10);
        assert_eq!(gibibytes(KernelArch::Riscv64, sample), 8);
        assert_eq!(gibibytes(KernelArch::Riscv64, 1), 3);
    }
}
