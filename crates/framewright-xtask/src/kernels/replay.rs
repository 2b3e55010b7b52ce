//! A recording, replayed by the kernel on real frames and by the laboratory on numbers: both must say the same.
//!
//! The laboratory's example `kernel_replay` reads the recording, replays it on the engine, and writes the stream that QEMU puts
//! beside the kernel. What the kernel then says is compared line by line: failures by order, fallbacks, pageblocks, free
//! blocks, and a digest of every answer.

use super::boot::{self, BootEnd, KernelArch, QemuMachine};
use super::figures::{KernelFigure, VfreeMode};
use serde_json::Value;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the kernel is built with.
const FEATURE: &str = "replay";
/// The program that makes the stream.
const MAKER: &str = "kernel_replay";
/// Names that program where it is built already: cargo, asked for it, waits for each build that works in the same folder.
const MAKER_AT: &str = "FRAMEWRIGHT_KERNEL_REPLAY";
/// How a line of the kernel's begins that the laboratory has, too.
const SHARED: &str = "replayed ";
/// What is said of a kernel that decides otherwise.
const OTHER: &str = "the kernel's replay is another than the laboratory's";
/// How the line on the digest of all answers begins.
const ANSWERS: &str = "answers ";
/// The longest that a boot may take: the sample takes seconds, and recordings are up to minutes long.
const LONGEST: Duration = Duration::from_secs(1800);

/// A recording, and what `framewright replay` would be told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AskedReplay {
    pub(crate) file: PathBuf,
    /// Options, which the program that makes the stream reads.
    pub(crate) options: Vec<String>,
    /// The machine's memory, as QEMU has it; none: what the recording asks for.
    pub(crate) memory: Option<String>,
}

impl AskedReplay {
    /// The options that belong to a replay.
    pub(crate) const OPTIONS: [&str; 4] = ["--policy", "--start", "--squeeze", "--ops"];

    /// The sample with so much memory held back that requests fail: what the suite boots, and the third case of the main job.
    pub(crate) fn sample() -> Self {
        Self::sample_with("--start fresh --squeeze 40000")
    }

    fn sample_with(options: &str) -> Self {
        Self {
            file: boot::root().join("traces/sample.pft.zst"),
            options: options.split(' ').map(str::to_owned).collect(),
            memory: None,
        }
    }
}

/// The beginning of the sample, on the recording's own layout: labels, and what was in use, each where it was.
const IMPOSED: &str = "--start imposed --squeeze 160MiB --ops 20000";
/// The same with an engine that decides otherwise.
const OTHER_POLICY: &str = "--policy largest-first";

/// The stream of a recording, and what its replay comes to in the laboratory.
struct MadeStream {
    file: StreamFile,
    frames: u64,
    bytes: u64,
    lines: Vec<String>,
}

/// A file that goes with its last owner: the stream is of use to one boot alone.
struct StreamFile(PathBuf);

impl Drop for StreamFile {
    fn drop(&mut self) {
        // Where it was not written, none is there.
        let _ = fs::remove_file(&self.0);
    }
}

/// Builds the program that makes streams; where cargo says that it is. One that is named is not built.
fn maker() -> Result<PathBuf, String> {
    if let Some(built) = std::env::var_os(MAKER_AT) {
        return Ok(built.into());
    }
    // With the features that the workspace's tests have, so that what they have built is built.
    let built = boot::cargo()
        .args(["build", "--quiet", "--workspace", "--example", MAKER])
        .arg("--message-format=json-render-diagnostics")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.status.success() {
        return Err(format!("the laboratory's {MAKER} was not built"));
    }
    program_in(&String::from_utf8_lossy(&built.stdout))
}

/// The program among the messages of a build.
fn program_in(messages: &str) -> Result<PathBuf, String> {
    let messages = messages.lines().rev();
    let mut programs = messages.filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_it = message["target"]["name"] == MAKER;
        let program = message["executable"].as_str().filter(|_| is_it)?;
        Some(PathBuf::from(program))
    });
    let program = programs.next();
    program.ok_or_else(|| format!("cargo does not say where {MAKER} is"))
}

/// Has the program make the stream.
fn make(asked: &AskedReplay) -> Result<MadeStream, String> {
    let maker = maker()?;
    // Where the kernel lies, which is built.
    let name = format!("target/kernel/kernel-{}.replay", std::process::id());
    let file = StreamFile(boot::root().join(name));
    let made = Command::new(&maker)
        .arg(&asked.file)
        .arg(&file.0)
        .args(&asked.options)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", maker.display()))?;
    if !made.status.success() {
        return Err(String::from_utf8_lossy(&made.stderr).trim_end().to_owned());
    }
    let lines = String::from_utf8_lossy(&made.stdout);
    let (frames, bytes) = size_of(&file.0)?;
    Ok(MadeStream {
        frames,
        bytes,
        lines: lines.lines().map(str::to_owned).collect(),
        file,
    })
}

/// The frames of the recording's machine, from the stream's header, and the stream's length.
fn size_of(stream: &Path) -> Result<(u64, u64), String> {
    let told = |error| format!("{}: {error}", stream.display());
    let mut file = File::open(stream).map_err(told)?;
    let mut header = [0; 32];
    file.read_exact(&mut header).map_err(told)?;
    let bytes = file.metadata().map_err(told)?.len();
    let word = header[24..].try_into().expect("eight bytes");
    Ok((u64::from_le_bytes(word), bytes))
}

/// GiB for a kernel that has as many frames side by side: on x86-64 they lie above 4 GiB, behind 3 GiB; on RISC-V above the
/// stream. One more is for the kernel itself, and the stream counts twice: for the tables of its objects, too.
fn gibibytes(arch: KernelArch, frames: u64, bytes: u64) -> u64 {
    let beside = match arch {
        KernelArch::X86_64 => 3,
        KernelArch::Riscv64 => 1,
    };
    let with_stream = (u128::from(frames) << 12) + 2 * u128::from(bytes);
    // Of a number of 64 bits this many are left.
    with_stream.div_ceil(1 << 30) as u64 + beside + 1
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
    let end = boot_with(machine, asked, &kernel, &stream)?;
    same(end, &stream.lines)
}

/// Boots that kernel with the stream.
fn boot_with(
    machine: &QemuMachine,
    asked: &AskedReplay,
    kernel: &Path,
    stream: &MadeStream,
) -> Result<BootEnd, String> {
    let mut machine = machine.clone();
    machine.memory = asked.memory.clone().unwrap_or_else(|| {
        let gibibytes = gibibytes(machine.arch, stream.frames, stream.bytes);
        format!("{gibibytes}G")
    });
    // The host has what is written to: metadata, and the frames of what the recording allocates.
    machine.is_sparse = true;
    machine.module = Some(stream.file.0.clone());
    let end = machine.boot_within(kernel, "replay", LONGEST)?;
    end.expect_passed("replay")?;
    Ok(end)
}

/// A boot that passed, if it said what the laboratory says.
fn same(end: BootEnd, laboratory: &[String]) -> Result<BootEnd, String> {
    let unlike = unlike(&end.said, laboratory);
    match unlike.is_empty() {
        true => Ok(end),
        false => Err(format!("{OTHER}:\n{}", unlike.join("\n"))),
    }
}

/// Boots that the suite only passes: a start on the recording's layout, and an engine that decides otherwise than the
/// laboratory's, which must be caught.
pub(crate) fn pass(arch: KernelArch) -> Result<(), String> {
    let start = Instant::now();
    let (machine, imposed) = (QemuMachine::of(arch), AskedReplay::sample_with(IMPOSED));
    let kernel = boot::build_with(arch, Some(FEATURE))?;
    let stream = make(&imposed)?;
    let end = boot_with(&machine, &imposed, &kernel, &stream)?;
    let lines = stream.lines;
    same(end, &lines)?;
    // Of the same name as the first one, which is gone.
    drop(stream.file);
    let other = AskedReplay::sample_with(&format!("{IMPOSED} {OTHER_POLICY}"));
    let end = boot_with(&machine, &other, &kernel, &make(&other)?)?;
    match same(end, &lines) {
        Err(error) if error.starts_with(OTHER) && error.contains(ANSWERS) => {}
        Err(error) => return Err(error),
        Ok(_) => return Err(format!("replay, {OTHER_POLICY}: it was not caught")),
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("replay, imposed: passes, and another policy is caught, in {seconds:.1} s");
    Ok(())
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
        assert_eq!(gibibytes(KernelArch::X86_64, sample, 1 << 24), 10);
        assert_eq!(gibibytes(KernelArch::Riscv64, sample, 1 << 24), 8);
        assert_eq!(gibibytes(KernelArch::Riscv64, 1, 1000), 3);
        // A long recording of a small machine.
        assert_eq!(gibibytes(KernelArch::Riscv64, 1, 3 << 30), 9);
    }

    #[test]
    fn the_program_is_where_cargo_says() {
        let said = r#"{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/a/other"}
{"reason":"compiler-artifact","target":{"name":"kernel_replay"},"executable":"/a/kernel_replay"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(program_in(said), Ok("/a/kernel_replay".into()));
        assert!(program_in(r#"{"reason":"build-finished"}"#).is_err());
    }

    #[test]
    fn a_streams_header_is_read_and_the_file_goes_with_its_owner() {
        let path = std::env::temp_dir().join(format!("framewright-{}.replay", std::process::id()));
        let file = StreamFile(path.clone());
        let words = [1u64, 2, 3, 77, 5];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        fs::write(&path, &bytes).unwrap();
        assert_eq!(size_of(&path), Ok((77, 40)));
        fs::write(&path, &bytes[..31]).unwrap();
        assert!(size_of(&path).is_err());
        drop(file);
        assert!(!path.exists());
    }
}
