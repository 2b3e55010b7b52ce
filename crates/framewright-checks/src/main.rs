//! Checks of the checks.
//!
//! - `mutants`: takes each rule's keeper away, one at a time, and says which check fails.
//! - `coverage`: says which branches the models of CI hardly take.
//! - `peer-linux`: compiles Linux's own allocator of address space as a program to be compared with.
//! - `test-vmalloc`: compiles Linux's own test of that allocator over it, and over the libraries for C.
//!
//! Neither is part of what the engine's users build.

mod anchor;
mod coverage;
mod mutants;
mod peer;
mod subjects;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "usage: framewright-checks mutants [--only NAME] [--by CHECK] [--explore] [--jobs N] [--trust] [--write]\n       \
                     framewright-checks coverage [--again] [--seed N]\n       \
                     framewright-checks peer-linux [--source TARBALL]\n       \
                     framewright-checks test-vmalloc [--source TARBALL]";

/// The workspace's root.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace has a root")
}

/// The folder that holds what is built.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The C compiler.
fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or("cc".into()))
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let done = match arguments.next().as_deref() {
        Some("mutants") => mutants::command(arguments),
        Some("coverage") => coverage::command(arguments),
        Some("peer-linux") => peer::command(arguments),
        Some("test-vmalloc") => subjects::command(arguments),
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("framewright-checks: {message}");
            ExitCode::from(2)
        }
    }
}
