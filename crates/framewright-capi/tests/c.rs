//! Programs in C over the libraries that Cargo built: plain, with the static library and with the shared one, and under the
//! sanitizers of the C compiler. What the machine lacks is skipped, and said on the standard error, past the test's own.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a program may run. On an idle machine each takes some seconds at most.
const PATIENCE: Duration = Duration::from_secs(240);

/// How a program is compiled and linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CBuild {
    Static,
    Shared,
    /// With the sanitizers of addresses and of undefined behaviour, and the static library.
    Address,
    /// With the thread sanitizer, and the shared library: so the sanitizer can tell apart what is not built with it, and
    /// judges the program alone.
    Thread,
}

impl CBuild {
    /// The sanitizer, as the compiler knows it.
    const fn sanitizer(self) -> Option<&'static str> {
        match self {
            Self::Static | Self::Shared => None,
            Self::Address => Some("address,undefined"),
            Self::Thread => Some("thread"),
        }
    }
}

fn skip(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder in which Cargo put the libraries: that of this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
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

/// Compiles `source` into the program `to`.
fn compile(cc: &str, source: &Path, to: &Path, build: CBuild) -> Output {
    let mut command = Command::new(cc);
    command.args(["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"]);
    command.arg("-I").arg(here().join("include"));
    if let Some(sanitizer) = build.sanitizer() {
        command.arg(format!("-fsanitize={sanitizer}"));
        command.arg("-fno-sanitize-recover=all");
    }
    command.arg(source).arg("-o").arg(to);
    let libraries = libraries();
    match build {
        CBuild::Shared | CBuild::Thread => {
            command.arg("-L").arg(&libraries).arg("-lframewright_capi");
            command.arg(format!("-Wl,-rpath,{}", libraries.display()));
        }
        CBuild::Static | CBuild::Address => {
            command.arg(libraries.join("libframewright_capi.a"));
            command.args(["-lgcc_s", "-lutil", "-lrt", "-lm", "-ldl", "-lc"]);
        }
    }
    command
        .arg("-lpthread")
        .output()
        .expect("the compiler answered before")
}

/// Runs a command to its end, or ends it when it lasts too long. Its two outputs go to `log`.
fn run(command: &mut Command, log: &Path) -> Result<(), String> {
    let file = std::fs::File::create(log).unwrap();
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
    let said = String::from_utf8_lossy(&std::fs::read(log).unwrap()).into_owned();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{status}\n{said}")),
        Err(why) => Err(format!("{why}\n{said}")),
    }
}

/// The command for a program.
fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    // What the test runner adds must not stand in for what the program names.
    command.env_remove("LD_LIBRARY_PATH");
    let options = "halt_on_error=1:ignore_noninstrumented_modules=1";
    command.env("TSAN_OPTIONS", options);
    command
}

/// Whether the compiler and the machine run programs built so. One answer serves all tests.
fn can_sanitize(cc: &str, build: CBuild) -> Result<(), String> {
    static ADDRESS: OnceLock<Result<(), String>> = OnceLock::new();
    static THREAD: OnceLock<Result<(), String>> = OnceLock::new();
    let answer = match build {
        CBuild::Static | CBuild::Shared => return Ok(()),
        CBuild::Address => &ADDRESS,
        CBuild::Thread => &THREAD,
    };
    answer.get_or_init(|| probe(cc, build)).clone()
}

/// Builds and runs a program of two threads.
fn probe(cc: &str, build: CBuild) -> Result<(), String> {
    let probe = format!("probe-{build:?}-{}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(&probe).with_extension("c");
    let text = "#include <pthread.h>\nstatic void *f(void *a) { return a; }\n\
                int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0); }\n";
    std::fs::write(&source, text).unwrap();
    let program = folder.join(probe);
    let said = compile(cc, &source, &program, build);
    let ran = match said.status.success() {
        true => run(&mut command(&program), &program.with_extension("log")),
        false => Err(String::from_utf8_lossy(&said.stderr).into_owned()),
    };
    for file in [&source, &program, &program.with_extension("log")] {
        // What did not come about is not there.
        let _ = std::fs::remove_file(file);
    }
    ran
}

/// Compiles and runs a program each way, or those ways that the machine has.
fn each_way(name: &str, folder: &str, builds: &[CBuild]) {
    let Some(cc) = compiler() else {
        return skip(name, "there is no C compiler");
    };
    for build in builds {
        if let Some(sanitizer) = build.sanitizer()
            && let Err(why) = can_sanitize(cc, *build)
        {
            let why = why.lines().next().unwrap_or("no reason");
            skip(name, &format!("no -fsanitize={sanitizer}: {why}"));
            continue;
        }
        let source = here().join(folder).join(format!("{name}.c"));
        // Of this process alone: several may run at a time.
        let id = std::process::id();
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{build:?}-{id}"));
        let said = compile(cc, &source, &program, *build);
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "{name}, {build:?}: {errors}");
        let log = program.with_extension("log");
        if let Err(why) = run(&mut command(&program), &log) {
            panic!("{name}, {build:?}: {why}");
        }
        for file in [log, program] {
            std::fs::remove_file(file).unwrap();
        }
    }
}

const PLAIN: [CBuild; 2] = [CBuild::Static, CBuild::Shared];
const NO_THREADS: [CBuild; 3] = [CBuild::Static, CBuild::Shared, CBuild::Address];
const ALL: [CBuild; 4] = [
    CBuild::Static,
    CBuild::Shared,
    CBuild::Address,
    CBuild::Thread,
];

#[test]
fn each_function_does_what_it_says() {
    each_way("calls", "tests/c", &NO_THREADS);
}

#[test]
fn ca4_wrong_calls_are_errors_and_change_nothing() {
    each_way("wrong", "tests/c", &NO_THREADS);
}

#[test]
fn ca1_threads_come_and_go_in_every_way() {
    each_way("threads", "tests/c", &ALL);
}

#[test]
fn ca2_a_nested_call_is_refused() {
    each_way("signals", "tests/c", &NO_THREADS);
}

#[test]
fn ca5_children_have_nothing_of_their_parents() {
    each_way("forks", "tests/c", &PLAIN);
}

#[test]
fn the_examples_run() {
    each_way("hypervisor", "examples/c", &NO_THREADS);
    each_way("storage", "examples/c", &ALL);
}

#[test]
fn the_program_of_the_readme_runs() {
    let readme = std::fs::read_to_string(here().join("README.md")).unwrap();
    let program = readme.split("```c\n").nth(1).unwrap();
    let program = program.split("```").next().unwrap();
    let (includes, body) = program.split_once("\n\n").unwrap();
    // Of this process alone: several may run at a time.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let folder = folder.join(format!("readme-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = format!("{includes}\n#include <stdio.h>\nint main(void)\n{{\n{body}return 0;\n}}\n");
    std::fs::write(folder.join("readme.c"), text).unwrap();
    each_way("readme", folder.to_str().unwrap(), &PLAIN);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_header_is_one_for_cpp_too() {
    let Some(cc) = compiler() else {
        return skip("C++", "there is no compiler");
    };
    let header = here().join("include/framewright.h");
    let compile = |options: &[&str]| {
        let mut command = Command::new(cc);
        command
            .args(options)
            .args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
        command.arg(&header).output().unwrap()
    };
    let said = compile(&["-x", "c", "-std=c99"]);
    assert!(
        said.status.success(),
        "{}",
        String::from_utf8_lossy(&said.stderr)
    );
    let said = compile(&["-x", "c++", "-std=c++11"]);
    let errors = String::from_utf8_lossy(&said.stderr);
    if errors.contains("cc1plus") {
        return skip("C++", "the compiler knows only C");
    }
    assert!(said.status.success(), "{errors}");
}

#[test]
fn python_calls_the_shared_library() {
    let python = "python3";
    let has_ctypes = Command::new(python).args(["-c", "import ctypes"]).output();
    if !has_ctypes.is_ok_and(|said| said.status.success()) {
        return skip("Python", "there is no python3 with ctypes");
    }
    let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("smoke.log");
    let mut command = Command::new(python);
    command.arg(here().join("tests/c/smoke.py"));
    command.arg(libraries().join("libframewright_capi.so"));
    if let Err(why) = run(&mut command, &log) {
        panic!("{why}");
    }
}
