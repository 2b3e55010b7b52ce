//! Programs in C over the libraries that Cargo built: plain, with the static library and with the shared one, and under the
//! sanitizers of the C compiler.

#[path = "shared/programs.rs"]
mod programs;

use programs::{CBuild, each_way, here, is_for_both_languages, program_of_the_readme, run, skip};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The folder in which Cargo put the libraries: that of this test.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

fn static_library(_cc: &str) -> Vec<OsString> {
    let mut rest = vec![libraries().join("libframewright_capi.a").into()];
    rest.extend(["-lgcc_s", "-lutil", "-lrt", "-lm", "-ldl", "-lc"].map(OsString::from));
    rest
}

fn shared_library(_cc: &str) -> Vec<OsString> {
    let libraries = libraries();
    let path = format!("-Wl,-rpath,{}", libraries.display());
    vec![
        "-L".into(),
        libraries.into(),
        "-lframewright_capi".into(),
        path.into(),
    ]
}

const STATIC: CBuild = CBuild::plain("static", static_library);
const SHARED: CBuild = CBuild::plain("shared", shared_library);
const ADDRESS: CBuild = CBuild::address(static_library);
const THREAD: CBuild = CBuild::thread(shared_library);

const PLAIN: [CBuild; 2] = [STATIC, SHARED];
const NO_THREADS: [CBuild; 3] = [STATIC, SHARED, ADDRESS];
const ALL: [CBuild; 4] = [STATIC, SHARED, ADDRESS, THREAD];

#[test]
fn each_function_does_what_it_says() {
    each_way("calls", &["tests/c/calls.c"], &NO_THREADS);
}

#[test]
fn ca4_wrong_calls_are_errors_and_change_nothing() {
    each_way("wrong", &["tests/c/wrong.c"], &NO_THREADS);
}

#[test]
fn ca1_threads_come_and_go_in_every_way() {
    each_way("threads", &["tests/c/threads.c"], &ALL);
}

#[test]
fn ca2_a_nested_call_is_refused() {
    each_way("signals", &["tests/c/signals.c"], &NO_THREADS);
}

#[test]
fn ca5_children_have_nothing_of_their_parents() {
    each_way("forks", &["tests/c/forks.c"], &PLAIN);
}

#[test]
fn the_examples_run() {
    each_way("hypervisor", &["examples/c/hypervisor.c"], &NO_THREADS);
    each_way("storage", &["examples/c/storage.c"], &ALL);
}

#[test]
fn the_program_of_the_readme_runs() {
    let before = "#include <stdio.h>\nint main(void)\n{\n";
    let source = program_of_the_readme(before, "return 0;\n}\n");
    each_way("readme", &[source.to_str().unwrap()], &PLAIN);
    std::fs::remove_file(source).unwrap();
}

#[test]
fn the_header_is_one_for_cpp_too() {
    is_for_both_languages("include/framewright.h", &[]);
}

#[test]
fn python_calls_the_shared_library() {
    let python = "python3";
    let has_ctypes = Command::new(python).args(["-c", "import ctypes"]).output();
    if !has_ctypes.is_ok_and(|said| said.status.success()) {
        return skip("Python", "there is no python3 with ctypes");
    }
    let mut command = Command::new(python);
    command.arg(here().join("tests/c/smoke.py"));
    command.arg(libraries().join("libframewright_capi.so"));
    if let Err(why) = run(&mut command) {
        panic!("{why}");
    }
}
