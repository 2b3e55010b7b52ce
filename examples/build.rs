//! Puts the programs that stand in the README where the tests compile and run them, so that they say what is so.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    println!("cargo::rerun-if-changed={}", readme.display());
    let text = fs::read_to_string(readme)?;
    let mut tests = String::new();
    // Behind each opening mark a program up to the closing one.
    for (nth, rest) in text.split("\n```rust\n").skip(1).enumerate() {
        let program = rest.split("\n```").next().unwrap_or_default();
        let _ = write!(
            tests,
            "#[test]\nfn program_{}_of_the_readme_runs() -> Result<(), Box<dyn std::error::Error>> {{\n\
             {program}\nOk(())\n}}\n\n",
            nth + 1
        );
    }
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&out).join("readme.rs"), tests)
}
