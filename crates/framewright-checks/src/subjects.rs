//! Linux's own `lib/test_vmalloc.c` as programs: over Linux's `mm/vmalloc.c`, and over both libraries for C.
//!
//! All have the same object file of the test, unchanged, and the same worker threads, clock and chance (`peer/module.c`).
//! Linux and the library for kernels write the same page tables in memory (`peer/tables.h`); the library for processes
//! has real memory, which the operating system maps. Code under the kernel's licence stays in `target/test-vmalloc`.
//!
//! `cargo xtask test-vmalloc` runs the programs.

use crate::peer::{self, PeerTree, done, made, shim};
use std::path::{Path, PathBuf};
use std::process::Command;

const TEST: &str = "lib/test_vmalloc.c";

/// What our own files are compiled with.
const OURS: [&str; 7] = [
    "-O2",
    "-std=gnu11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-pie",
    "-pthread",
];

/// `test-vmalloc [--source TARBALL]`.
pub(crate) fn command(arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let Some(tree) = PeerTree::unpacked("test-vmalloc", arguments, &[TEST])? else {
        return Ok(true);
    };
    let test = test(&tree)?;
    over_linux(&tree, &test)?;
    let root = crate::root();
    let kernel = built(
        &root.join("crates/framewright-capi-kernel/library/Cargo.toml"),
        "capi-kernel",
        "libframewright_kernel.a",
    )?;
    let process = built(
        &root.join("crates/framewright-capi/Cargo.toml"),
        "",
        "libframewright_capi.a",
    )?;
    over_library(&tree, &test, "kernel", "framewright-capi-kernel", &kernel)?;
    over_library(&tree, &test, "process", "framewright-capi", &process)?;
    peer::written(&tree.place.join("version"), &tree.version)?;
    println!("Linux {}, lib/test_vmalloc.c unchanged", tree.version);
    Ok(true)
}

/// The test, compiled once, and what starts it.
fn test(tree: &PeerTree) -> Result<[PathBuf; 2], String> {
    let source = tree.place.join("source/test_vmalloc.c");
    let empty = tree.place.join("empty");
    made(&empty)?;
    let asked: Vec<String> = peer::included(&peer::read(&source)?)
        .map(str::to_owned)
        .collect();
    peer::emptied(&empty, &asked)?;
    let test = tree.place.join("test.o");
    let mut compiler = crate::compiler();
    compiler.args(peer::FLAGS).arg("-I").arg(&empty);
    compiler
        .arg("-I")
        .arg(shim())
        .args(["-include", "module.h"]);
    done(
        compiler
            .args(["-pthread", "-c"])
            .arg(&source)
            .arg("-o")
            .arg(&test),
    )?;
    let module = tree.place.join("module.o");
    let mut compiler = crate::compiler();
    compiler.args(OURS).arg("-I").arg(shim()).arg("-c");
    done(compiler.arg(shim().join("module.c")).arg("-o").arg(&module))?;
    Ok([test, module])
}

fn over_linux(tree: &PeerTree, test: &[PathBuf; 2]) -> Result<(), String> {
    let mut compiler = tree.compiler();
    compiler.args(["-DPEER_THREADS", "-pthread", "-o"]);
    compiler.arg(tree.place.join("linux"));
    compiler.arg(shim().join("subject_linux.c"));
    done(compiler.args(tree.foundation()).args(test))
}

fn over_library(
    tree: &PeerTree,
    test: &[PathBuf; 2],
    name: &str,
    package: &str,
    library: &Path,
) -> Result<(), String> {
    let mut compiler = crate::compiler();
    compiler.args(OURS).arg("-no-pie").arg("-I").arg(shim());
    let header = crate::root().join("crates").join(package).join("include");
    compiler.arg("-I").arg(header);
    compiler.arg(shim().join(format!("subject_{name}.c")));
    compiler.args(test).arg(library).args(["-lm", "-ldl", "-o"]);
    done(compiler.arg(tree.place.join(name)))
}

/// Builds a static library in a folder of `target`, as it is released.
fn built(manifest: &Path, folder: &str, name: &str) -> Result<PathBuf, String> {
    let folder = crate::target().join(folder);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(cargo);
    cargo.args([
        "build",
        "--release",
        "--quiet",
        "--locked",
        "--manifest-path",
    ]);
    done(cargo.arg(manifest).arg("--target-dir").arg(&folder))?;
    Ok(folder.join("release").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn without_the_package_the_command_says_so_and_is_no_failure() {
        let arguments = ["--source", "/nowhere/linux.tar.xz"].map(str::to_owned);
        assert_eq!(command(arguments.into_iter()), Ok(true));
        let wrong = ["--loops".to_owned()];
        assert!(command(wrong.into_iter()).is_err());
    }

    /// The test over Linux's own allocator passes in our shim, by two workers; the libraries are for
    /// `cargo xtask test-vmalloc`, which builds them.
    #[test]
    fn linux_passes_its_own_test_here() {
        let unpacked = PeerTree::unpacked("test-vmalloc-tried", std::iter::empty(), &[TEST]);
        let skipped = match (unpacked, crate::compiler().arg("--version").output()) {
            (Ok(Some(tree)), Ok(_)) => return passes(&tree),
            (Ok(None), _) => "there is no linux-source-6.12",
            (Ok(_), Err(_)) => "there is no C compiler",
            (Err(error), _) => panic!("{error}"),
        };
        let _ = writeln!(std::io::stderr(), "skipped: Linux's own test: {skipped}");
    }

    fn passes(tree: &PeerTree) {
        let test = test(tree).unwrap();
        over_linux(tree, &test).unwrap();
        let run = |mask: &str| {
            let mut program = Command::new(tree.place.join("linux"));
            program.args(["nr_threads=2", "test_loop_count=300", mask]);
            let said = program.output().unwrap();
            let errors = String::from_utf8_lossy(&said.stderr);
            assert!(said.status.success(), "{}: {errors}", said.status);
            String::from_utf8_lossy(&said.stdout).into_owned()
        };
        // All but that of per-CPU memory and the one that must fail: nine tests, two workers, two runs.
        let said = run("run_test_mask=1855");
        assert_eq!(said.matches("passed: 1 failed: 0").count(), 36, "{said}");
        assert_eq!(said.matches("refused 0").count(), 2, "{said}");
        let said = run("run_test_mask=64");
        assert_eq!(said.matches("passed: 0 failed: 1").count(), 4, "{said}");
        assert!(said.contains("refused 2"), "{said}");
    }
}
