//! The house rules that Cargo cannot enforce: which module may use which, that the engine holds
//! no statics and reads no clock, and that `unsafe` stands only where it may.

use super::sources::{self, root};
use std::fs;
use std::path::{Path, PathBuf};

/// Each module with its layer; a module uses only modules of a lower layer.
const LAYERS: &[(&str, u8)] = &[
    ("units", 0),
    ("sync", 1),
    ("stats", 1),
    ("raw", 2),
    ("platform", 2),
    ("seats", 3),
    ("slots", 4),
    ("policy", 5),
    ("frame", 6),
    ("vrange", 7),
    ("reclaim", 8),
    ("kv", 8),
    ("percpu", 9),
    ("reserve", 9),
    ("engine", 10),
];

/// Folders, from the workspace root, in which `unsafe` may stand.
const MAY_BE_UNSAFE: &[&str] = &[
    "crates/framewright/src/raw",
    "crates/framewright-capi/src/c",
    "crates/framewright-capi-core/src/pointers.rs",
    "crates/framewright-capi-kernel/src/c",
    "crates/framewright-linux/src",
    "crates/framewright-paging/src/cells.rs",
    "crates/framewright-paging/src/direct.rs",
    "crates/framewright-riscv64/src/firmware.rs",
    "crates/framewright-riscv64/src/instructions.rs",
    "crates/framewright-x86_64/src/instructions.rs",
];

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    sources::files(folder, "rs")
}

/// The code of a line: without a `//` comment, and without the contents of string literals.
fn code(line: &str) -> String {
    let mut out = String::new();
    let mut in_string = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if in_string => {
                chars.next();
            }
            '"' => in_string = !in_string,
            '/' if !in_string && chars.peek() == Some(&'/') => break,
            _ if !in_string => out.push(c),
            _ => {}
        }
    }
    out
}

fn layer(module: &str) -> Option<u8> {
    LAYERS
        .iter()
        .find(|(name, _)| *name == module)
        .map(|(_, layer)| *layer)
}

/// The modules that a line of code names behind `crate::`, one or several in braces.
fn modules_named(code: &str) -> Vec<String> {
    let mut names = Vec::new();
    for piece in code.split("crate::").skip(1) {
        let list = match piece.strip_prefix('{') {
            Some(rest) => rest.split('}').next().unwrap_or("").to_owned(),
            None => piece.to_owned(),
        };
        for item in list.split(',') {
            let name: String = item
                .trim()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            names.push(name);
            if !piece.starts_with('{') {
                break;
            }
        }
    }
    names
}

#[test]
fn every_engine_module_uses_only_lower_layers() {
    let src = root().join("crates/framewright/src");
    let mut wrong = Vec::new();
    for file in rust_files(&src) {
        let relative = file.strip_prefix(&src).unwrap();
        let module = relative
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_str()
            .unwrap();
        let module = module.trim_end_matches(".rs");
        if module == "lib" {
            continue;
        }
        let Some(own) = layer(module) else {
            wrong.push(format!(
                "{}: module `{module}` has no layer",
                relative.display()
            ));
            continue;
        };
        for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            for used in modules_named(&code(line)) {
                if used != module && layer(&used).is_some_and(|other| other >= own) {
                    wrong.push(format!(
                        "{}:{}: `{module}` uses `{used}`, which is not to its left",
                        relative.display(),
                        number + 1
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn unsafe_stands_only_where_it_may() {
    let root = root();
    let mut wrong = Vec::new();
    for krate in fs::read_dir(root.join("crates")).unwrap() {
        for file in rust_files(&krate.unwrap().path().join("src")) {
            let relative = file.strip_prefix(&root).unwrap();
            if MAY_BE_UNSAFE
                .iter()
                .any(|folder| relative.starts_with(folder))
            {
                continue;
            }
            for (number, line) in fs::read_to_string(&file).unwrap().lines().enumerate() {
                let code = code(line);
                if code
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .any(|w| w == "unsafe")
                {
                    wrong.push(format!("{}:{}", relative.display(), number + 1));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "`unsafe` outside {MAY_BE_UNSAFE:?}:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn a1_a2_the_engine_has_no_statics_no_floats_and_no_heap() {
    let src = root().join("crates/framewright/src");
    let mut wrong = Vec::new();
    for file in rust_files(&src) {
        // What the tests of a module do is not the engine, nor is what only models are built with.
        let inside = file.strip_prefix(&src).unwrap();
        let is_tests = inside.iter().any(|part| part == "tests");
        if is_tests || file.to_string_lossy().ends_with("tests.rs") {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let text = text.replace("#[cfg(any(test, loom, shuttle))]\nextern crate std;", "");
        let tests = text.find("#[cfg(test)]").or(text.find("#[cfg(all(test"));
        let engine = match tests {
            Some(tests) if !file.ends_with("mod.rs") => &text[..tests],
            _ => &text,
        };
        for (number, line) in engine.lines().enumerate() {
            let code = code(line);
            let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            let is_static = ["static ", "pub static ", "pub(crate) static "]
                .iter()
                .any(|start| code.trim_start().starts_with(start));
            let has_heap = code.contains("extern crate alloc") || code.contains("extern crate std");
            if is_static || has_heap || words.any(|word| matches!(word, "f32" | "f64")) {
                wrong.push(format!("{}:{}", file.display(), number + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_file_says_what_it_is_for() {
    let mut wrong = Vec::new();
    for krate in fs::read_dir(root().join("crates")).unwrap() {
        for file in rust_files(&krate.unwrap().path().join("src")) {
            let text = fs::read_to_string(&file).unwrap();
            // A file with unsafe code names its reason first.
            let mut beginning = text.lines().take(8);
            if !beginning.any(|line| line.starts_with("//! ")) {
                wrong.push(file.display().to_string());
            }
        }
    }
    assert!(wrong.is_empty(), "no header:\n{}", wrong.join("\n"));
}

/// The most lines of a file of the engine: at more there are two things inside.
const LINES: usize = 500;

#[test]
fn no_file_of_the_engine_is_longer_than_a_reader_holds() {
    let src = root().join("crates/framewright/src");
    let mut wrong = Vec::new();
    for file in rust_files(&src) {
        let shown = file.strip_prefix(&src).unwrap().display().to_string();
        let lines = fs::read_to_string(&file).unwrap().lines().count();
        if lines > LINES {
            wrong.push(format!("{shown}: {lines} lines, at most {LINES}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_rules_above_can_fail() {
    assert_eq!(
        modules_named("use crate::{frame::Zone, units};"),
        ["frame", "units"]
    );
    assert_eq!(modules_named("let a = crate::kv::x();"), ["kv"]);
    assert_eq!(code(r#"let s = "unsafe"; // unsafe"#), "let s = ; ");
    assert!(layer("frame") > layer("policy") && layer("policy") > layer("slots"));
}
