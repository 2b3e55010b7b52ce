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

/// How a program is compiled and linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KernelCBuild {
    Plain,
    /// With the sanitizers of addresses and of undefined behaviour.
    Address,
    /// With the thread sanitizer, and the library as a shared one: so the sanitizer can tell apart what is not built with it,
    /// and judges the program and its callbacks alone.
    Thread,
}

impl KernelCBuild {
    /// What the compiler is told.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &[],
            Self::Address => &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
            Self::Thread => &["-fsanitize=thread", "-fno-sanitize-recover=all"],
        }
    }

    /// The library that it is linked with.
    fn library(self, cc: &str) -> &'static Path {
        match self {
            Self::Plain | Self::Address => library(),
            Self::Thread => shared(cc),
        }
    }
}

const ONE_THREAD: [KernelCBuild; 2] = [KernelCBuild::Plain, KernelCBuild::Address];
const ALL: [KernelCBuild; 3] = [
    KernelCBuild::Plain,
    KernelCBuild::Address,
    KernelCBuild::Thread,
];

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

/// All of that library as a shared one, in a folder of its own.
fn shared(cc: &str) -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let folder = scratch().join("shared");
        std::fs::create_dir_all(&folder).unwrap();
        let to = folder.join("libframewright_kernel.so");
        let mut command = Command::new(cc);
        command.args(["-shared", "-Wl,--whole-archive"]);
        command.arg(library()).arg("-Wl,--no-whole-archive");
        let said = command.arg("-o").arg(&to).output().unwrap();
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "no shared library: {errors}");
        to
    };
    BUILT.get_or_init(build)
}

/// Whether the target's core is installed beside the compiler.
fn has_target(target: &str) -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc)
        .args(["--print", "target-libdir", "--target", target])
        .output();
    said.is_ok_and(|said| Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_dir())
}

/// Compiles `sources`, and links them into the program `to`, with the library or without one.
fn compile(
    cc: &str,
    options: &[&str],
    sources: &[&str],
    library: Option<&Path>,
    to: &Path,
) -> Output {
    let mut command = Command::new(cc);
    command.args(STRICT).args(options);
    command.arg("-I").arg(here().join("include"));
    command.args(sources.iter().map(|source| here().join(source)));
    command.args(library).arg("-o").arg(to);
    command.output().expect("the compiler answered before")
}

/// Runs a program to its end, or ends it when it lasts too long.
fn run(program: &Path) -> Result<String, String> {
    let log = program.with_extension("log");
    let file = std::fs::File::create(&log).unwrap();
    let mut command = Command::new(program);
    let options = "halt_on_error=1:ignore_noninstrumented_modules=1";
    command.env("TSAN_OPTIONS", options);
    // What the test runner adds must not stand in for what the program names.
    command.env_remove("LD_LIBRARY_PATH");
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

/// Compiles and links a program, and what is said of that.
fn compile_as(cc: &str, build: KernelCBuild, sources: &[&str], to: &Path) -> Result<(), String> {
    let library = build.library(cc);
    let folder = library.parent().unwrap();
    let path = format!("-Wl,-rpath,{}", folder.display());
    let options = build.options().iter().copied();
    let options: Vec<_> = options.chain(["-lpthread", &path]).collect();
    let said = compile(cc, &options, sources, Some(library), to);
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    said.status.success().then_some(()).ok_or(errors)
}

/// Whether the compiler and the machine run programs built so: asked with a program that has nothing of the library, so
/// that a library which does not link is an error. One answer serves all tests.
fn can_build(cc: &str, build: KernelCBuild) -> Result<(), String> {
    static ADDRESS: OnceLock<Result<(), String>> = OnceLock::new();
    static THREAD: OnceLock<Result<(), String>> = OnceLock::new();
    let answer = match build {
        KernelCBuild::Plain => return Ok(()),
        KernelCBuild::Address => &ADDRESS,
        KernelCBuild::Thread => &THREAD,
    };
    let probe = || {
        let source = scratch().join(format!("kernel-probe-{build:?}.c"));
        let text = "#include <pthread.h>\nstatic void *f(void *a) { return a; }\n\
                    int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0); }\n";
        std::fs::write(&source, text).unwrap();
        let probe = source.with_extension("");
        let options: Vec<_> = build
            .options()
            .iter()
            .copied()
            .chain(["-lpthread"])
            .collect();
        let said = compile(cc, &options, &[source.to_str().unwrap()], None, &probe);
        if !said.status.success() {
            return Err(String::from_utf8_lossy(&said.stderr).into_owned());
        }
        run(&probe).map(|_| ())
    };
    answer.get_or_init(probe).clone()
}

/// Compiles and runs a program each way, or those ways that the machine has. What each said.
fn each_way(name: &str, sources: &[&str], builds: &[KernelCBuild]) -> Vec<String> {
    let Some(cc) = compiler() else {
        skip(name, "there is no C compiler");
        return Vec::new();
    };
    let mut outputs = Vec::new();
    for &build in builds {
        if let Err(why) = can_build(cc, build) {
            let why = why.lines().next().unwrap_or("no reason");
            skip(name, &format!("no {}: {why}", build.options()[0]));
            continue;
        }
        let to = scratch().join(format!("kernel-{name}-{build:?}"));
        let said = compile_as(cc, build, sources, &to).and_then(|()| run(&to));
        outputs.push(said.unwrap_or_else(|why| panic!("{name}, {build:?}: {why}")));
    }
    outputs
}

#[test]
fn each_function_does_what_it_says_with_all_callbacks_and_with_few() {
    each_way("calls", &["tests/c/calls.c"], &ONE_THREAD);
}

#[test]
fn ck1_ck2_ck3_ck4_wrong_calls_are_errors_and_change_nothing() {
    each_way("wrong", &["tests/c/wrong.c"], &ONE_THREAD);
}

#[test]
fn all_cpus_work_at_a_time_and_each_byte_stays() {
    each_way("cpus", &["tests/c/cpus.c"], &ALL);
}

#[test]
fn a_race_is_reported_whatever_is_freed_and_allocated_beside_it() {
    // Without the sanitizer, and without being one of two CPUs, it is a program like any other.
    each_way("race", &["tests/c/race.c"], &ONE_THREAD);
    let Some(cc) = compiler() else { return };
    if let Err(why) = can_build(cc, KernelCBuild::Thread) {
        return skip("race", &format!("no thread sanitizer: {why}"));
    }
    let to = scratch().join("kernel-race-Thread");
    compile_as(cc, KernelCBuild::Thread, &["tests/c/race.c"], &to).unwrap();
    let said = run(&to).expect_err("it has a race");
    for part in ["WARNING: ThreadSanitizer: data race", " reader ", "race.c"] {
        assert!(said.contains(part), "{said}");
    }
}

const KERNEL_SAYS: &str = "all frames are free again\n";

#[test]
fn the_example_runs_in_a_process() {
    let sources = ["examples/c/kernel.c", "tests/c/main.c"];
    for said in each_way("kernel", &sources, &ONE_THREAD) {
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
    let said = compile(cc, &options, &sources, Some(&archive), &program);
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
    assert_eq!(run(&program).as_deref(), Ok(KERNEL_SAYS));
}

/// What the program of the README takes from its kernel.
const READMES_KERNEL: &str = "
int my_map(void *context, void *at, uint64_t first, uint64_t frames, uint32_t flags);
int my_unmap(void *context, void *at, size_t bytes);
void my_flush(void *context);
void my_relax(void *context, uint32_t attempt);
uint32_t this_cpu(void);
int boot(void *metadata)
{
";

#[test]
fn the_program_of_the_readme_is_one() {
    let Some(cc) = compiler() else {
        return skip("the README", "there is no C compiler");
    };
    let readme = std::fs::read_to_string(here().join("README.md")).unwrap();
    let program = readme.split("```c\n").nth(1).unwrap();
    let program = program.split("```").next().unwrap();
    let (includes, body) = program.split_once("\n\n").unwrap();
    let source = scratch().join("readme.c");
    let text =
        format!("{includes}\n{READMES_KERNEL}{body}return stack != NULL && inode != NULL;\n}}\n");
    std::fs::write(&source, text).unwrap();
    let mut command = Command::new(cc);
    command
        .args(STRICT)
        .args(["-ffreestanding", "-fsyntax-only"]);
    command.arg("-I").arg(here().join("include")).arg(&source);
    let said = command.output().unwrap();
    let errors = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{errors}");
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
