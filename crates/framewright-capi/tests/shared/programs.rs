//! Programs in C over a library: how the tests of both C libraries compile, link and run them. What the machine lacks is
//! skipped, and said on the standard error, past the test's own.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long a program may run. On an idle machine each takes some seconds at most.
const PATIENCE: Duration = Duration::from_secs(240);

/// What every program is compiled with.
const STRICT: [&str; 6] = ["-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror"];

/// A way to compile and link a program.
pub(crate) struct CBuild {
    /// Its name, which no other way of the crate has.
    pub(crate) name: &'static str,
    /// The sanitizer, as the compiler knows it.
    pub(crate) sanitizer: Option<&'static str>,
    /// By the compiler, what links the library.
    pub(crate) library: fn(&str) -> Vec<OsString>,
}

impl CBuild {
    pub(crate) const fn plain(name: &'static str, library: fn(&str) -> Vec<OsString>) -> Self {
        Self {
            name,
            sanitizer: None,
            library,
        }
    }

    /// With the sanitizers of addresses and of undefined behaviour.
    pub(crate) const fn address(library: fn(&str) -> Vec<OsString>) -> Self {
        Self {
            name: "address",
            sanitizer: Some("address,undefined"),
            library,
        }
    }

    /// With the thread sanitizer, and the library as a shared one: so the sanitizer can tell apart what is not built with
    /// it, and judges the program and its callbacks alone.
    pub(crate) const fn thread(shared_library: fn(&str) -> Vec<OsString>) -> Self {
        Self {
            name: "thread",
            sanitizer: Some("thread"),
            library: shared_library,
        }
    }
}

pub(crate) fn skip(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}

/// The crate's folder.
pub(crate) fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A name in the folder for what tests make, of this process alone: several may run at a time.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let krate = env!("CARGO_PKG_NAME");
    let name = format!("{krate}-{name}-{}", process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The C compiler of the machine.
pub(crate) fn compiler() -> Option<&'static str> {
    static FOUND: OnceLock<Option<&str>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let answers = |cc: &&str| {
            let version = Command::new(cc).arg("--version").output();
            version.is_ok_and(|said| said.status.success())
        };
        ["cc", "gcc", "clang"].into_iter().find(answers)
    })
}

/// Compiles and links `sources`, which lie in the crate's folder or have whole paths. The error is what the compiler says.
pub(crate) fn compile(
    cc: &str,
    options: &[&str],
    sources: &[&str],
    rest: &[OsString],
) -> Result<(), String> {
    let mut command = Command::new(cc);
    command.args(STRICT).args(options);
    command.arg("-I").arg(here().join("include"));
    command.args(sources.iter().map(|source| here().join(source)));
    let said = command.args(rest).output().expect("it answered before");
    let errors = String::from_utf8_lossy(&said.stderr).into_owned();
    said.status.success().then_some(()).ok_or(errors)
}

/// The command for a program.
pub(crate) fn command(program: &Path) -> Command {
    let mut command = Command::new(program);
    // What the test runner adds must not stand in for what the program names.
    command.env_remove("LD_LIBRARY_PATH");
    let options = "halt_on_error=1:ignore_noninstrumented_modules=1";
    command.env("TSAN_OPTIONS", options);
    command
}

/// Runs a command to its end, or ends it when it lasts too long. What it said.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let log = scratch(&format!("run-{}", COUNT.fetch_add(1, Relaxed)));
    let file = fs::File::create(&log).unwrap();
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
    let said = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    fs::remove_file(log).unwrap();
    match status {
        Ok(status) if status.success() => Ok(said),
        Ok(status) => Err(format!("{status}\n{said}")),
        Err(why) => Err(format!("{why}\n{said}")),
    }
}

/// Compiles and links the program `name`, with `library` or, if there is none, without.
fn link(
    cc: &str,
    name: &str,
    sources: &[&str],
    sanitizer: Option<&str>,
    library: &[OsString],
) -> Result<PathBuf, String> {
    let to = scratch(name);
    let option = sanitizer.map(|sanitizer| format!("-fsanitize={sanitizer}"));
    let options = match &option {
        Some(option) => &[option.as_str(), "-fno-sanitize-recover=all"][..],
        None => &[],
    };
    let mut rest = library.to_vec();
    rest.extend(["-lpthread".into(), "-o".into(), to.clone().into()]);
    compile(cc, options, sources, &rest).map(|()| to)
}

/// Builds a program that way.
pub(crate) fn program(
    cc: &str,
    name: &str,
    sources: &[&str],
    build: &CBuild,
) -> Result<PathBuf, String> {
    let library = (build.library)(cc);
    let name = format!("{name}-{}", build.name);
    link(cc, &name, sources, build.sanitizer, &library)
}

/// Whether the compiler and the machine run programs built so; if not, why. One answer serves all tests.
pub(crate) fn can_build(cc: &str, build: &CBuild) -> Result<(), String> {
    static ANSWERS: Mutex<BTreeMap<&str, Result<(), String>>> = Mutex::new(BTreeMap::new());
    let Some(sanitizer) = build.sanitizer else {
        return Ok(());
    };
    let mut answers = ANSWERS.lock().unwrap();
    let answer = answers.entry(sanitizer);
    answer.or_insert_with(|| probe(cc, sanitizer)).clone()
}

/// Builds and runs a program of two threads, and without the library: one that does not link is an error, and skips nothing.
fn probe(cc: &str, sanitizer: &str) -> Result<(), String> {
    let source = scratch(&format!("probe-{sanitizer}")).with_extension("c");
    let text = "#include <pthread.h>\nstatic void *f(void *a) { return a; }\n\
                int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0); }\n";
    fs::write(&source, text).unwrap();
    let sources = [source.to_str().unwrap()];
    let linked = link(
        cc,
        &format!("probe-{sanitizer}"),
        &sources,
        Some(sanitizer),
        &[],
    );
    let ran = linked.and_then(|program| {
        let ran = run(&mut command(&program));
        fs::remove_file(program).unwrap();
        ran
    });
    fs::remove_file(source).unwrap();
    ran.map(|_| ()).map_err(|why| {
        let why = why.lines().next().unwrap_or("no reason");
        format!("no -fsanitize={sanitizer}: {why}")
    })
}

/// Compiles and runs a program each way, or those ways that the machine has. What each said.
pub(crate) fn each_way(name: &str, sources: &[&str], builds: &[CBuild]) -> Vec<String> {
    let Some(cc) = compiler() else {
        skip(name, "there is no C compiler");
        return Vec::new();
    };
    let mut outputs = Vec::new();
    for build in builds {
        if let Err(why) = can_build(cc, build) {
            skip(name, &why);
            continue;
        }
        let said = program(cc, name, sources, build).and_then(|program| {
            let said = run(&mut command(&program))?;
            fs::remove_file(program).unwrap();
            Ok(said)
        });
        outputs.push(said.unwrap_or_else(|why| panic!("{name}, {}: {why}", build.name)));
    }
    outputs
}

/// The program of the crate's README, in a file: what it includes, `before`, the rest, `after`.
pub(crate) fn program_of_the_readme(before: &str, after: &str) -> PathBuf {
    let readme = fs::read_to_string(here().join("README.md")).unwrap();
    let program = readme.split("```c\n").nth(1).unwrap();
    let program = program.split("```").next().unwrap();
    let (includes, body) = program.split_once("\n\n").unwrap();
    let source = scratch("readme").with_extension("c");
    fs::write(&source, format!("{includes}\n{before}{body}{after}")).unwrap();
    source
}

/// Panics unless the header is one for C++, and with `options` for C.
pub(crate) fn is_for_both_languages(header: &str, options: &[&str]) {
    let Some(cc) = compiler() else {
        return skip("C++", "there is no compiler");
    };
    let compile = |language: [&str; 3], options: &[&str]| {
        let mut command = Command::new(cc);
        command.args(language).args(options);
        command.args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]);
        let said = command.arg(here().join(header)).output().unwrap();
        let errors = String::from_utf8_lossy(&said.stderr).into_owned();
        said.status.success().then_some(()).ok_or(errors)
    };
    compile(["-x", "c", "-std=c99"], options).unwrap();
    match compile(["-x", "c++", "-std=c++11"], &[]) {
        Err(errors) if errors.contains("cc1plus") => skip("C++", "the compiler knows only C"),
        said => said.unwrap(),
    }
}
