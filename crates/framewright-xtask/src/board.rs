//! `framewright` for boards: static, stripped, small, without the published experiments; built for each target that is installed, and run where it can be.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What a board has room for.
const BYTES_MAX: u64 = 8 << 20;

/// What records on a board of another kind.
const RECIPE: &str = "crates/framewright-lab/board/record.sh";

/// Targets, and for each the C compilers that may build what zstd is written in, and the program that runs it elsewhere.
const BOARDS: [BoardTarget; 4] = [
    BoardTarget {
        target: "x86_64-unknown-linux-musl",
        compilers: &["x86_64-linux-musl-gcc", "musl-gcc"],
        runner: "qemu-x86_64",
        packages: "musl-tools",
    },
    BoardTarget {
        target: "aarch64-unknown-linux-musl",
        compilers: &["aarch64-linux-musl-gcc", "aarch64-linux-gnu-gcc"],
        runner: "qemu-aarch64",
        packages: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user",
    },
    BoardTarget {
        target: "armv7-unknown-linux-musleabihf",
        compilers: &["arm-linux-musleabihf-gcc", "arm-linux-gnueabihf-gcc"],
        runner: "qemu-arm",
        packages: "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user",
    },
    // The same board, for a toolchain that has no musl for it: as static, with glibc in it.
    BoardTarget {
        target: "armv7-unknown-linux-gnueabihf",
        compilers: &["arm-linux-gnueabihf-gcc"],
        runner: "qemu-arm",
        packages: "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross qemu-user",
    },
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BoardTarget {
    target: &'static str,
    compilers: &'static [&'static str],
    runner: &'static str,
    /// What Debian calls what it needs.
    packages: &'static str,
}

impl BoardTarget {
    fn of(target: &str) -> Option<Self> {
        let mut all = BOARDS.iter();
        all.find(|board| board.target == target).copied()
    }

    /// As variables of cargo and of C's build have it.
    fn in_variables(self) -> String {
        self.target.replace('-', "_")
    }

    /// Whether this machine runs it without help.
    fn is_native(self) -> bool {
        cfg!(target_os = "linux") && self.target.split('-').next() == Some(env::consts::ARCH)
    }
}

/// The targets that a command line names; all boards where it names none.
pub(crate) fn targets(
    mut words: impl Iterator<Item = String>,
) -> Result<Vec<&'static str>, String> {
    let mut targets = Vec::new();
    while let Some(word) = words.next() {
        if word != "--target" {
            return Err(format!("board: there is no option `{word}`"));
        }
        let target = words.next().ok_or("--target: a value is missing")?;
        let board = BoardTarget::of(&target).ok_or_else(|| {
            let known = BOARDS.map(|board| board.target);
            format!(
                "--target {target}: expected {}; {RECIPE} records on other boards",
                known.join(" or ")
            )
        })?;
        targets.push(board.target);
    }
    if targets.is_empty() {
        targets.extend(BOARDS.map(|board| board.target));
    }
    Ok(targets)
}

/// Builds and tries each target; one that lacks something is skipped aloud.
pub(crate) fn run(targets: &[&str]) -> Result<(), String> {
    let boards = targets.iter().filter_map(|target| BoardTarget::of(target));
    let mut failed = Vec::new();
    let mut replays = Vec::new();
    for board in boards {
        let target = board.target;
        match missing(board) {
            Some(why) => println!("{target}: SKIPPED: {why}"),
            None => match build(board).and_then(|program| check(board, &program)) {
                Ok((said, replay)) => {
                    println!("{target}: {said}");
                    replays.extend(replay.map(|replay| (target, replay)));
                }
                Err(why) => failed.push(format!("{target}: {why}")),
            },
        }
    }
    failed.extend(unlike(&replays));
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n")),
    }
}

fn missing(board: BoardTarget) -> Option<String> {
    let target = board.target;
    let mut rustc = Command::new("rustc");
    let printed = rustc.args(["--print", "target-libdir", "--target", target]);
    let printed = printed.output().ok()?;
    let folder = String::from_utf8_lossy(&printed.stdout).trim().to_owned();
    if !Path::new(&folder).is_dir() {
        return Some(format!(
            "its standard library is not installed: rustup target add {target}"
        ));
    }
    compiler(board).is_none().then(|| {
        format!(
            "there is no C compiler for it, expected {} (Debian: {}), or CC_{}",
            board.compilers.join(" or "),
            board.packages,
            board.in_variables()
        )
    })
}

fn compiler(board: BoardTarget) -> Option<String> {
    let asked = env::var(format!("CC_{}", board.in_variables())).ok();
    let found = board.compilers.iter().find(|name| is_there(name));
    asked.or_else(|| found.map(|name| (*name).to_owned()))
}

fn is_there(program: &str) -> bool {
    let mut asked = Command::new(program);
    let asked = asked.arg("--version").stdout(Stdio::null());
    asked.stderr(Stdio::null()).status().is_ok()
}

fn build(board: BoardTarget) -> Result<PathBuf, String> {
    let compiler = compiler(board).ok_or("there is no C compiler for it")?;
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(root())
        .args(["build", "--locked", "--profile", "board", "--target"])
        .arg(board.target)
        .args([
            "--package",
            "framewright-lab",
            "--bin",
            "framewright",
            "--no-default-features",
        ])
        .env(format!("CC_{}", board.in_variables()), &compiler);
    let variable = |of: &str| format!("CARGO_TARGET_{}_{of}", board.in_variables().to_uppercase());
    // Rust brings musl and its start with it, and any linker for that processor does; this machine's own knows its own.
    if !board.is_native() && env::var_os(variable("LINKER")).is_none() {
        cargo.env(variable("LINKER"), &compiler);
    }
    // Where flags for all targets are set, cargo does not look at those for one.
    let flags =
        ["RUSTFLAGS", &variable("RUSTFLAGS")].map(|name| env::var(name).unwrap_or_default());
    cargo.env_remove("RUSTFLAGS");
    cargo.env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.env(
        variable("RUSTFLAGS"),
        format!("{} -Ctarget-feature=+crt-static", flags.join(" ")),
    );
    let status = cargo.status().map_err(|e| format!("cargo: {e}"))?;
    if !status.success() {
        return Err("it cannot be built".into());
    }
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join(board.target).join("board/framewright"))
}

/// The targets whose replay has another figure than the first target's.
fn unlike(replays: &[(&str, String)]) -> Vec<String> {
    let Some((first, expected)) = replays.first() else {
        return Vec::new();
    };
    let others = replays.iter().filter(|(_, replay)| replay != expected);
    others
        .map(|(target, replay)| {
            let mut lines = expected.lines().zip(replay.lines());
            let line = lines.find(|(expected, found)| expected != found);
            let (wanted, found) = line.unwrap_or(("another number of rows", ""));
            format!(
                "{target}: its replay of the sample is not {first}'s: {found}, expected {wanted}"
            )
        })
        .collect()
}

/// Its size, and whether it runs: it replays the sample. What the replay says is the second, but for the first row, which has
/// the machine.
fn check(board: BoardTarget, program: &Path) -> Result<(String, Option<String>), String> {
    let file = std::fs::read(program).map_err(|e| format!("{}: {e}", program.display()))?;
    if !is_static(&file) {
        return Err("it asks for a loader, expected a static program".into());
    }
    let bytes = file.len() as u64;
    let mib = bytes as f64 / f64::from(1 << 20);
    if bytes > BYTES_MAX {
        return Err(format!(
            "{mib:.1} MiB, expected at most {}",
            BYTES_MAX >> 20
        ));
    }
    let size = format!("{mib:.1} MiB, {}", program.display());
    let (mut command, how) = if board.is_native() {
        (Command::new(program), "runs here")
    } else if let Some(runner) = runner(board) {
        let mut command = Command::new(runner);
        command.arg(program);
        (command, "runs in the emulator")
    } else {
        let runner = board.runner;
        let said = format!("{size}; not run: SKIPPED: there is no {runner}");
        return Ok((said, None));
    };
    let sample = root().join("traces/sample.pft.zst");
    let ran = command
        .arg("replay")
        .arg(sample)
        .args([
            "--policy",
            "linux-6.12,framewright",
            "--squeeze",
            "40000",
            "--json",
            "-",
        ])
        .output()
        .map_err(|e| format!("it does not run: {e}"))?;
    let said = String::from_utf8_lossy(&ran.stdout);
    // As docs/start/engineer.md has it for this squeeze.
    let expected = "\"metric\":\"failures_order4\",\"value\":122,";
    let compact: String = said.split_whitespace().collect();
    if !ran.status.success() || !compact.contains(expected) {
        let why = String::from_utf8_lossy(&ran.stderr);
        return Err(format!(
            "its replay of the sample is another: {}: {why}",
            ran.status
        ));
    }
    let rows = said.split_once('\n').map(|(_, rows)| rows.to_owned());
    Ok((format!("{size}; {how}"), rows))
}

/// Whether an ELF file, of 32 or 64 bits and with the low byte first, names no loader (`PT_INTERP`).
fn is_static(file: &[u8]) -> bool {
    let is_wide = file.get(4) == Some(&2);
    let number = |at: usize, bytes: usize| {
        let field = file.get(at..at.checked_add(bytes)?)?;
        let value = field
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte));
        usize::try_from(value).ok()
    };
    let (table, each, count) = match is_wide {
        true => (number(0x20, 8), number(0x36, 2), number(0x38, 2)),
        false => (number(0x1c, 4), number(0x2a, 2), number(0x2c, 2)),
    };
    let (Some(table), Some(each), Some(count)) = (table, each, count) else {
        return false;
    };
    let kinds = (0..count).map(|nth| number(table.saturating_add(nth * each), 4));
    file.starts_with(b"\x7fELF")
        && kinds
            .into_iter()
            .all(|kind| kind.is_some_and(|kind| kind != 3))
}

/// The emulator, by its name in either of Debian's packages.
fn runner(board: BoardTarget) -> Option<String> {
    let names = [board.runner.to_owned(), format!("{}-static", board.runner)];
    names.into_iter().find(|name| is_there(name))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_the_boards_or_those_that_are_named() {
        let asked = |words: &str| targets(words.split_whitespace().map(str::to_owned));
        assert_eq!(asked("").map(|all| all.len()), Ok(4));
        let one = asked("--target aarch64-unknown-linux-musl");
        assert_eq!(one, Ok(vec!["aarch64-unknown-linux-musl"]));
        let one = asked("--target armv7-unknown-linux-musleabihf");
        assert_eq!(one, Ok(vec!["armv7-unknown-linux-musleabihf"]));
        let other = asked("--target mips-unknown-linux-musl");
        assert!(other.is_err_and(|e| e.contains("expected x86_64-") && e.contains(RECIPE)));
        assert!(root().join(RECIPE).is_file());
        assert!(asked("--target").is_err_and(|e| e.contains("a value is missing")));
        assert!(asked("--fast").is_err_and(|e| e.contains("`--fast`")));
    }

    #[test]
    fn a_program_that_asks_for_a_loader_is_not_static() {
        // The fields that count: the width, where the table is, how long an entry is, how many there are; and two entries.
        let file = |is_wide: bool, last: u8| {
            let mut file = vec![0; 0x100];
            file[..5].copy_from_slice(b"\x7fELF\x01");
            file[4] += u8::from(is_wide);
            let fields = match is_wide {
                true => [(0x20, 0x80), (0x36, 56), (0x38, 2), (0x80 + 56, last)],
                false => [(0x1c, 0x80), (0x2a, 32), (0x2c, 2), (0x80 + 32, last)],
            };
            fields.into_iter().for_each(|(at, value)| file[at] = value);
            file
        };
        for is_wide in [false, true] {
            assert!(is_static(&file(is_wide, 1)));
            assert!(!is_static(&file(is_wide, 3)));
            assert!(!is_static(&file(is_wide, 1)[..0x80]));
        }
        assert!(!is_static(b""));
        // This test's own program has a loader.
        let own = std::fs::read(env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&own));
    }

    #[test]
    fn a_board_on_which_a_figure_differs_is_named_with_it() {
        let of = |target, value| (target, format!("same\nvalue {value}\n"));
        assert!(unlike(&[]).is_empty());
        assert!(unlike(&[of("a", 1), of("b", 1)]).is_empty());
        let said = unlike(&[of("a", 1), of("b", 2), of("c", 1)]);
        assert_eq!(
            said,
            ["b: its replay of the sample is not a's: value 2, expected value 1"]
        );
    }

    #[test]
    fn what_a_board_lacks_is_named_with_how_to_get_it() {
        let board = BoardTarget {
            target: "x86_64-unknown-none-such",
            ..BOARDS[0]
        };
        let says = missing(board).unwrap_or_default();
        assert!(
            says.contains("rustup target add x86_64-unknown-none-such"),
            "{says}"
        );
        assert!(!is_there("no-such-compiler-at-all"));
    }
}
