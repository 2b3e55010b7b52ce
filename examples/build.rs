//! Puts the programs that stand in README.md and in `docs` where the tests compile and run them, so that they say what
//! is so.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

/// Each file with programs, its name in a test's name, and how many programs it has, so that none
/// drops out unseen.
const FILES: [(&str, &str, usize); 4] = [
    ("README.md", "the_readme", 1),
    ("crates/framewright/README.md", "the_engines_readme", 1),
    ("docs/library.md", "the_library_page", 3),
    ("docs/kernel.md", "the_kernel_page", 1),
];

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut tests = String::new();
    for (file, name, expected) in FILES {
        let path = root.join(file);
        println!("cargo::rerun-if-changed={}", path.display());
        let text = fs::read_to_string(path)?;
        // Behind each opening mark a program up to the closing one.
        let programs: Vec<_> = text.split("\n```rust\n").skip(1).collect();
        assert_eq!(programs.len(), expected, "programs in {file}");
        for (nth, rest) in programs.iter().enumerate() {
            let program = rest.split("\n```").next().unwrap_or_default();
            // A whole program is run by its name, a part of one as it stands.
            let end = if program.contains("\nfn main()") {
                "main()"
            } else {
                "Ok(())"
            };
            let _ = write!(
                tests,
                "#[test]\nfn program_{}_of_{name}_runs() -> Result<(), Box<dyn std::error::Error>> {{\n\
                 {program}\n{end}\n}}\n\n",
                nth + 1
            );
        }
    }
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    fs::write(Path::new(&out).join("programs.rs"), tests)
}
