//! Tells the program the commit it is built from, for the first record of its figures.

use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn main() {
    // Sources that lie inside another project's repository are not of its commit.
    let is_ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let described = git(&[
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]);
    let commit = described.filter(|commit| is_ours && !commit.is_empty());
    println!(
        "cargo:rustc-env=FRAMEWRIGHT_COMMIT={}",
        commit.as_deref().unwrap_or("unknown")
    );
    // `logs/HEAD` changes with each commit and checkout. Sources are named because an edit makes the tree dirty
    // without touching it. Not `index`: asking whether the tree is dirty writes that.
    if let Some(path) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && std::path::Path::new(&path).exists()
    {
        println!("cargo:rerun-if-changed={path}");
    }
    for path in ["build.rs", "src", "../framewright/src"] {
        println!("cargo:rerun-if-changed={path}");
    }
}
