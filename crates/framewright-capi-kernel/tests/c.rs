//! Programs in C over the static library that kernels link: in a process over a memory file, plain and under the sanitizers
//! of the C compiler, and what is linked for a bare machine. What the machine lacks is skipped, and said on the standard
//! error, past the test's own.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a program may run. On an idle machine each takes some seconds at most.
const PATIENCE: Duration = Duration::from_secs(240);

/// The bare machine, whose programs this processor runs too.
const BARE: &str = "x86_64-unknown-none";

/// What every program is compiled with.
const STRICT: [&str; 6] = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"];
const SANITIZERS: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

fn skip(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The C compiler of the machine.
fn compiler() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let answers = |cc: &&str| {
            let version = Command::new(cc).arg("--version").output();
            version.is_ok_and(|said| said.status.success())
        };
        ["cc", "gcc", "clang"].into_iter().find(answers)
    })
}

/// Builds the static library: for this host with debug assertions, or for a target as kernels link it, but for the
/// optimisation. What that drops of an archive is not missed: a program that is linked without it needs more.
fn build(target: Option<&str>) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let folder = scratch().join("library");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--locked", "--manifest-path"]);
    command.arg(here().join("library/Cargo.toml"));
    command.arg("--target-dir").arg(&folder);
    let built = match target {
        Some(target) => {
            command.args(["--release", "--target", target]);
            command.env("CARGO_PROFILE_RELEASE_LTO", "off");
            command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0");
            command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
            folder.join(target).join("release")
        }
        None => folder.join("debug"),
    };
    // Flags of the workspace's own build, such as a sanitizer's, are not this library's.
    for flags in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET"] {
        command.env_remove(flags);
    }
    let said = command.output().expect("cargo runs this test");
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "the library was not built: {errors}");
    built.join("libframewright_kernel.a")
}

/// The library for this host, which all tests share.
fn library() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build(None))
}

/// Whether the target's core is installed beside the compiler.
fn has_target(target: &str) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", target])
        .output();
    said.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_dir())
}

/// Compiles and links `sources` into the program `to`.
fn compile(cc: &str, options: &[&str], sources: &[&str], library: &Path, to: &Path) -> Output {
    let mut command = Command::new(cc);
    command.args(STRICT).args(options);
    command.arg("-I").arg(here().join("include"));
    command.args(sources.iter().map(|source| here().join(source)));
    command.arg(library).arg("-o").arg(to);
    command.output().expect("the compiler answered before")
}

/// Runs a program to its end, or ends it when it lasts too long.
fn run(program: &Path) -> Result<String, String> {
    let log = program.with_extension("log");
    let file = std::fs::File::create(&log).unwrap();
    let mut command = Command::new(program);
    command.stdout(file.try_clone().unwrap()).stderr(file);
    let (mut child, begun) = (command.spawn().unwrap(), Instant::now());
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Ok(status);
        }
        if begun.elapsed() > PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            break Err("it did not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let said = String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned();
    match status {
        Ok(status) if status.success() => Ok(said),
        Ok(status) => Err(format!("{status}\n{said}")),
        Err(why) => Err(format!("{why}\n{said}")),
    }
}

/// Whether the compiler and the machine run programs under the sanitizers. One answer serves all tests.
fn can_sanitize(cc: &str) -> Result<(), String> {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    let probe = || {
        let source = scratch().join("kernel-probe-sanitized.c");
        std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let probe = source.with_extension("");
        let sources = [source.to_str().unwrap()];
        let said = compile(cc, &SANITIZERS, &sources, library(), &probe);
        if said.status.success() && run(&probe).is_ok() {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&said.stderr);
        let why = why.lines().next().unwrap_or("a program did not run");
        Err(why.to_owned())
    };
    ANSWER.get_or_init(probe).clone()
}

/// Compiles and runs a program plain and, where the compiler and the machine can, under the sanitizers. What each said.
fn each_way(name: &str, sources: &[&str]) -> Vec<String> {
    let Some(cc) = compiler() else {
        skip(name, "there is no C compiler");
        return Vec::new();
    };
    let mut outputs = Vec::new();
    for (way, options) in [("plain", &[] as &[&str]), ("sanitized", &SANITIZERS)] {
        let program = |name: &str| scratch().join(format!("kernel-{name}-{way}"));
        if !options.is_empty()
            && let Err(why) = can_sanitize(cc)
        {
            skip(name, &format!("no {}: {why}", options[0]));
            continue;
        }
        let to = program(name);
        let options: Vec<_> = options.iter().copied().chain(["-lpthread"]).collect();
        let said = compile(cc, &options, sources, library(), &to);
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{name}, {way}: {errors}");
        match run(&to) {
            Ok(said) => outputs.push(said),
            Err(why) => panic!("{name}, {way}: {why}"),
        }
    }
    outputs
}

#[test]
fn each_function_does_what_it_says_with_all_callbacks_and_with_few() {
    each_way("calls", &["tests/c/calls.c"]);
}

#[test]
fn ck1_ck2_ck3_ck4_wrong_calls_are_errors_and_change_nothing() {
    each_way("wrong", &["tests/c/wrong.c"]);
}

#[test]
fn all_cpus_work_at_a_time_and_each_byte_stays() {
    each_way("cpus", &["tests/c/cpus.c"]);
}

const KERNEL_SAYS: &str = "all frames are free again\n";

#[test]
fn the_example_runs_in_a_process() {
    let sources = ["examples/c/kernel.c", "tests/c/main.c"];
    for said in each_way("kernel", &sources) {
        assert_eq!(said, KERNEL_SAYS);
    }
}

/// The archive that kernels link has all that it needs: the program has no C library, and starts at its first instruction.
#[test]
fn the_example_is_linked_for_a_bare_machine_and_runs() {
    let what = "the example for a bare machine";
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return skip(what, "this processor or system is another one");
    }
    if !has_target(BARE) {
        return skip(what, &format!("rustup target add {BARE}"));
    }
    let Some(cc) = compiler() else {
        return skip(what, "there is no C compiler");
    };
    let archive = build(Some(BARE));
    let program = scratch().join("kernel-bare");
    let options = [
        "-ffreestanding",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-fno-pie",
        "-fno-stack-protector",
        "-mno-red-zone",
    ];
    let sources = ["examples/c/kernel.c", "tests/c/start.c"];
    let said = compile(cc, &options, &sources, &archive, &program);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
    assert_eq!(run(&program).as_deref(), Ok(KERNEL_SAYS));
}

#[test]
fn the_header_is_one_for_cpp_and_freestanding_code_too() {
    let Some(cc) = compiler() else {
        return skip("C++", "there is no compiler");
    };
    let header = here().join("include/framewright_kernel.h");
    let compile = |options: &[&str]| {
        let mut command = Command::new(cc);
        command.args(options);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
        command.arg(&header).output().unwrap()
    };
    let said = compile(&["-x", "c", "-std=c99", "-ffreestanding"]);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
    let said = compile(&["-x", "c++", "-std=c++11"]);
    let errors = String::from_utf8_lossy(&said.stderr);
    if errors.contains("cc1plus") {
        return skip("C++", "the compiler knows only C");
    }
    assert!(said.status.success(), "{errors}");
}
