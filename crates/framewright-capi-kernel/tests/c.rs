//! Programs in C over the static library that kernels link: in a process over a memory file, plain and under the sanitizers
//! of the C compiler, and what is linked for a bare machine.

#[path = "../../framewright-capi/tests/shared/programs.rs"]
mod programs;

use programs::{
    CBuild, can_build, command, compile, compiler, each_way, here, is_for_both_languages, program,
    program_of_the_readme, run, scratch, skip,
};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The bare machine, whose programs this processor runs too.
const BARE: &str = "x86_64-unknown-none";

fn static_library(_cc: &str) -> Vec<OsString> {
    vec![library().into()]
}

fn shared_library(cc: &str) -> Vec<OsString> {
    let library = shared(cc);
    let path = format!("-Wl,-rpath,{}", library.parent().unwrap().display());
    vec![library.into(), path.into()]
}

const PLAIN: CBuild = CBuild::plain("plain", static_library);
const ADDRESS: CBuild = CBuild::address(static_library);
const THREAD: CBuild = CBuild::thread(shared_library);

const SEE_NO_RACE: [CBuild; 2] = [PLAIN, ADDRESS];
const ALL: [CBuild; 3] = [PLAIN, ADDRESS, THREAD];

/// The folder of the libraries, which outlive this process: Cargo builds only what changed.
fn libraries() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Builds the static library: for this host with debug assertions, or for a target as kernels link it, but for the
/// optimisation. What that drops of an archive is not missed: a program that is linked without it needs more.
fn build(target: Option<&str>) -> PathBuf {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let folder = libraries().join("library");
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
        let folder = libraries().join("shared");
        fs::create_dir_all(&folder).unwrap();
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

#[test]
fn each_function_does_what_it_says_with_all_callbacks_and_with_few() {
    each_way("calls", &["tests/c/calls.c"], &SEE_NO_RACE);
}

#[test]
fn ck1_ck2_ck3_ck4_wrong_calls_are_errors_and_change_nothing() {
    each_way("wrong", &["tests/c/wrong.c"], &SEE_NO_RACE);
}

#[test]
fn all_cpus_work_at_a_time_and_each_byte_stays() {
    each_way("cpus", &["tests/c/cpus.c"], &ALL);
}

/// Each mistake of `tests/c/race.c`.
const RACES: [&str; 3] = ["elsewhere", "in-its-page", "in-its-line"];

#[test]
fn a_race_is_reported_whatever_is_freed_and_allocated_beside_it() {
    // What does not look for races finds nothing wrong: each read finds the value that was written.
    each_way("race", &["tests/c/race.c"], &SEE_NO_RACE);
    let Some(cc) = compiler() else { return };
    if let Err(why) = can_build(cc, &THREAD) {
        return skip("race", &why);
    }
    let race = program(cc, "race", &["tests/c/race.c"], &THREAD).unwrap();
    for name in RACES {
        let said = run(command(&race).arg(name)).expect_err("it has a race");
        for part in ["WARNING: ThreadSanitizer: data race", " reader ", "race.c"] {
            assert!(said.contains(part), "{name}: {said}");
        }
    }
    fs::remove_file(race).unwrap();
}

const KERNEL_SAYS: &str = "all frames are free again\n";

#[test]
fn the_example_runs_in_a_process() {
    let sources = ["examples/c/kernel.c", "tests/c/main.c"];
    for said in each_way("kernel", &sources, &SEE_NO_RACE) {
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
    let program = scratch("bare");
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
    let rest = [archive.into(), "-o".into(), program.clone().into()];
    compile(cc, &options, &sources, &rest).unwrap();
    assert_eq!(run(&mut command(&program)).as_deref(), Ok(KERNEL_SAYS));
    fs::remove_file(program).unwrap();
}

/// What the program of the README takes from its kernel.
const READMES_KERNEL: &str = "
int my_map(void *context, void *at, uint64_t first, uint64_t frames, uint32_t flags, struct fwk_tables *tables);
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
    let after = "return stack != NULL && inode != NULL;\n}\n";
    let source = program_of_the_readme(READMES_KERNEL, after);
    let sources = [source.to_str().unwrap()];
    compile(cc, &["-ffreestanding", "-fsyntax-only"], &sources, &[]).unwrap();
    fs::remove_file(source).unwrap();
}

#[test]
fn the_header_is_one_for_cpp_and_freestanding_code_too() {
    is_for_both_languages("include/framewright_kernel.h", &["-ffreestanding"]);
}
