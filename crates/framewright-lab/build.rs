//! Tells the program the commit it is built from, for the first record of its figures.

use std::env;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A build for tests says no commit: each commit, and each edit of a source, would build the laboratory once more.
    let is_for_tests = env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    let commit = if is_for_tests { None } else { commit() };
    let commit = commit.as_deref().unwrap_or("unknown");
    println!("cargo:rustc-env=FRAMEWRIGHT_COMMIT={commit}");
}

/// The commit, with a mark if something is changed beside it. Cargo asks again when it may be another one.
fn commit() -> Option<String> {
    // `logs/HEAD` changes with each commit and checkout. Sources are named because an edit makes the tree dirty
    // without touching it. Not `index`: asking whether the tree is dirty writes that.
    if let Some(path) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && std::path::Path::new(&path).exists()
    {
        println!("cargo:rerun-if-changed={path}");
    }
    for path in ["src", "../framewright/src"] {
        println!("cargo:rerun-if-changed={path}");
    }
    // Sources that lie inside another project's repository are not of its commit.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let described = git(&[
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]);
    described.filter(|commit| !commit.is_empty())
}
