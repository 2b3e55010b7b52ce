//! Builds the kernel and boots it: one boot, its text and its end.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How the message of a machine without QEMU begins.
pub(crate) const NO_QEMU: &str = "there is no qemu-system-";

/// For which CPUs the kernel is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum KernelArch {
    X86_64,
    Riscv64,
}

impl KernelArch {
    pub(crate) const ALL: [Self; 2] = [Self::X86_64, Self::Riscv64];

    /// As `--arch` has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Riscv64 => "riscv64",
        }
    }

    /// The name of its figures' file in docs/results, without the ending.
    pub(crate) const fn results(self) -> &'static str {
        match self {
            Self::X86_64 => "kernel",
            Self::Riscv64 => "kernel-riscv64",
        }
    }

    /// The machine that is booted if none is named.
    const fn machine(self) -> &'static str {
        match self {
            Self::X86_64 => "microvm",
            Self::Riscv64 => "virt",
        }
    }

    const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-none",
            Self::Riscv64 => "riscv64gc-unknown-none-elf",
        }
    }

    /// Debian's package with its emulator and firmware.
    const fn package(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86",
            Self::Riscv64 => "qemu-system-misc opensbi",
        }
    }

    fn qemu(self) -> String {
        format!("qemu-system-{}", self.name())
    }

    fn no_qemu(self, error: &io::Error) -> String {
        let (name, package) = (self.name(), self.package());
        format!("{NO_QEMU}{name}: {error}\non Debian: apt-get install {package}")
    }
}

/// The longest that a boot may take: the longest test takes a tenth on an idle machine.
const LONGEST: Duration = Duration::from_secs(180);

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// QEMU's version, such as `7.2.22`.
pub(crate) fn qemu_version(arch: KernelArch) -> Result<String, String> {
    let qemu = arch.qemu();
    let said = Command::new(&qemu).arg("--version").output();
    let said = said.map_err(|error| arch.no_qemu(&error))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said
        .split_whitespace()
        .skip_while(|word| *word != "version");
    let version = version.clone().nth(1);
    version.map_or(Err(format!("{qemu} --version says {said:?}")), |version| {
        Ok(version.to_owned())
    })
}

/// Builds the kernel; where it is.
pub(crate) fn build(arch: KernelArch) -> Result<PathBuf, String> {
    build_with(arch, None)
}

/// The cargo that runs this program, in the repository's root.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// The same, to build and run a program of that package.
pub(crate) fn cargo_run(package: &str) -> Command {
    let mut cargo = cargo();
    cargo.args(["run", "--release", "--quiet", "-p", package]);
    cargo
}

/// Builds the kernel with its tests, or with these features in their place, and says where it is. The next build overwrites it.
pub(crate) fn build_with(arch: KernelArch, features: Option<&str>) -> Result<PathBuf, String> {
    let (root, triple) = (root(), arch.target());
    let target = root.join("target/kernel");
    let built = cargo()
        .args([
            "build",
            "--release",
            "--quiet",
            "--target",
            triple,
            "--manifest-path",
        ])
        .arg(root.join("kernel/Cargo.toml"))
        .args(
            features
                .iter()
                .flat_map(|features| ["--no-default-features", "--features", *features]),
        )
        .env("CARGO_TARGET_DIR", &target)
        // The kernel is one for all: flags of the caller's workspace are not its.
        .env_remove("RUSTFLAGS")
        .status()
        .map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err(format!(
            "the kernel was not built; if the target is missing: rustup target add {triple}"
        ));
    }
    Ok(target.join(triple).join("release/framewright-kernel"))
}

/// How QEMU executes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Accelerator {
    /// CPUs take turns in one thread, and time is the count of instructions: each run is the same.
    Counting,
    /// Each CPU is a thread: real races.
    Threads,
}

/// A machine to boot.
#[derive(Clone, Debug)]
pub(crate) struct QemuMachine {
    pub(crate) arch: KernelArch,
    pub(crate) cpus: u16,
    pub(crate) memory: String,
    pub(crate) append: String,
    pub(crate) kind: String,
    pub(crate) accelerator: Accelerator,
    /// It may have more memory than the host: only what the kernel touches is there.
    pub(crate) is_sparse: bool,
    /// A file that the loader puts beside the kernel.
    pub(crate) module: Option<PathBuf>,
}

impl Default for QemuMachine {
    fn default() -> Self {
        Self::of(KernelArch::X86_64)
    }
}

impl QemuMachine {
    /// One CPU and 2 GiB.
    pub(crate) fn of(arch: KernelArch) -> Self {
        Self {
            arch,
            cpus: 1,
            memory: "2G".to_owned(),
            append: String::new(),
            kind: arch.machine().to_owned(),
            accelerator: Accelerator::Counting,
            is_sparse: false,
            module: None,
        }
    }
}

/// How a boot ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BootResult {
    Passed,
    Panicked,
    Faulted,
    WrongBytes,
    /// One of its CPUs waits for ever, and it said so.
    Hung,
    /// It did not end.
    Late,
    /// QEMU ended for a reason of its own.
    Other(Option<i32>),
}

impl BootResult {
    /// QEMU's exit code is twice the kernel's number, plus one.
    fn of(code: Option<i32>) -> Self {
        match code {
            Some(0x21) => Self::Passed,
            Some(0x23) => Self::Panicked,
            Some(0x25) => Self::Faulted,
            Some(0x27) => Self::WrongBytes,
            Some(0x29) => Self::Hung,
            other => Self::Other(other),
        }
    }
}

/// What a boot said, and how it ended.
#[derive(Debug)]
pub(crate) struct BootEnd {
    pub(crate) said: String,
    pub(crate) end: BootResult,
}

impl BootEnd {
    pub(crate) fn expect_passed(&self, test: &str) -> Result<(), String> {
        match self.end {
            BootResult::Passed => Ok(()),
            end => Err(format!("{test} ended as {end:?}:\n{}", self.said)),
        }
    }
}

impl QemuMachine {
    /// Boots the kernel with one test.
    pub(crate) fn boot(&self, kernel: &Path, test: &str) -> Result<BootEnd, String> {
        self.boot_within(kernel, test, LONGEST)
    }

    /// The same, for so long at most.
    pub(crate) fn boot_within(
        &self,
        kernel: &Path,
        test: &str,
        longest: Duration,
    ) -> Result<BootEnd, String> {
        let words = format!("cpus={} test={test} {}", self.cpus, self.append);
        let mut qemu = self.command();
        qemu.arg("-kernel")
            .arg(kernel)
            .args(["-append", words.trim()]);
        if let Some(module) = &self.module {
            qemu.arg("-initrd").arg(module);
        }
        self.run(qemu, longest)
    }

    /// The emulator with this machine, which waits for a kernel.
    pub(crate) fn command(&self) -> Command {
        let accelerator: &[&str] = match self.accelerator {
            Accelerator::Counting => &[
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off,align=off",
            ],
            Accelerator::Threads => &["-accel", "tcg,thread=multi"],
        };
        let (cpus, mut kind) = (self.cpus.to_string(), self.kind.clone());
        let mut qemu = Command::new(self.arch.qemu());
        if self.is_sparse {
            kind += ",memory-backend=ram";
            let size = &self.memory;
            // QEMU asks the host for pages of 2 MiB, and a recording's frames lie apart: a file in memory has 4 KiB a page.
            let backend = match cfg!(target_os = "linux") && self.module.is_some() {
                true => "memfd,share=on",
                false => "ram",
            };
            qemu.arg("-object").arg(format!(
                "memory-backend-{backend},id=ram,size={size},reserve=off"
            ));
        }
        qemu.args(accelerator)
            .args(["-machine", &kind, "-smp", &cpus, "-m", &self.memory])
            .args(["-display", "none", "-serial", "stdio"])
            .args(["-no-reboot", "-nodefaults"]);
        if self.arch == KernelArch::X86_64 {
            qemu.args(["-cpu", "max", "-device"])
                .arg("isa-debug-exit,iobase=0xf4,iosize=4");
        }
        qemu
    }

    /// Runs the emulator, for so long at most.
    pub(crate) fn run(&self, mut qemu: Command, longest: Duration) -> Result<BootEnd, String> {
        qemu.stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut qemu = qemu.spawn().map_err(|error| self.arch.no_qemu(&error))?;
        let out = qemu.stdout.take().map(reader);
        let errors = qemu.stderr.take().map(reader);
        let start = Instant::now();
        let end = loop {
            let ended = qemu
                .try_wait()
                .map_err(|error| format!("{}: {error}", self.arch.qemu()))?;
            if let Some(status) = ended {
                break BootResult::of(status.code());
            }
            if start.elapsed() > longest {
                // It may have ended in this moment.
                let _ = qemu.kill();
                let _ = qemu.wait();
                break BootResult::Late;
            }
            thread::sleep(Duration::from_millis(5));
        };
        let texts = [out, errors].into_iter().flatten();
        let texts = texts.map(|reader| reader.join().unwrap_or_default());
        let said = texts.collect::<String>().replace('\r', "");
        Ok(BootEnd { said, end })
    }
}

/// Reads to the end in a thread of its own, so that QEMU never waits for a reader.
fn reader(mut from: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What came before an error is all that there is.
        let _ = from.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Writes a file of the repository's.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), String> {
    let write = || -> io::Result<()> { File::create(path)?.write_all(text.as_bytes()) };
    write().map_err(|error| format!("{}: {error}", path.display()))
}
