//! Checks of the checks.
//!
//! - `mutants`: takes each rule's keeper away, one at a time, and says which check fails.
//! - `coverage`: says which branches the models of CI hardly take.
//! - `peer-linux`: compiles Linux's own allocator of address space as a program to be compared with.
//!
//! Neither is part of what the engine's users build.

mod anchor;
mod coverage;
mod mutants;
mod peer;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "usage: framewright-checks mutants [--only NAME] [--by CHECK] [--explore] [--jobs N] [--trust] [--write]\n       \
                     framewright-checks coverage [--again] [--seed N]\n       \
                     framewright-checks peer-linux [--source TARBALL]";

/// The workspace's root.
fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the workspace has a root")
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let done = match arguments.next().as_deref() {
        Some("mutants") => mutants::command(arguments),
        Some("coverage") => coverage::command(arguments),
        Some("peer-linux") => peer::command(arguments),
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
