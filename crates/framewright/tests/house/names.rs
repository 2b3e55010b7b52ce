//! One name a thing: a type's name stands for one type in the whole project, so that a reader of two files takes
//! neither for the other.

use super::sources::{files, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Where there is Rust.
const FOLDERS: [&str; 6] = ["adapters", "crates", "examples", "fuzz", "kernel", "python"];

/// The name of the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().peekable();
    // `pub(in path)` is two words.
    if words.next_if(|word| word.starts_with("pub")) == Some("pub(in") {
        words.next();
    }
    words.next_if_eq(&"unsafe");
    let kind = words.next()?;
    let is_associated = kind == "type" && line.starts_with(' ');
    let is_type = matches!(kind, "struct" | "enum" | "trait" | "union" | "type");
    let rest = words.next().filter(|_| is_type && !is_associated)?;
    let end = rest
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(rest.len());
    let is_name = rest.starts_with(|c: char| c.is_ascii_uppercase());
    is_name.then_some(&rest[..end])
}

#[test]
fn each_name_of_a_type_stands_for_one_type() {
    let root = root();
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in FOLDERS {
        for file in files(&root.join(folder), "rs") {
            let shown = file.strip_prefix(&root).unwrap().display().to_string();
            for line in fs::read_to_string(&file).unwrap().lines() {
                if let Some(name) = defined(line) {
                    places
                        .entry(name.to_owned())
                        .or_default()
                        .push(shown.clone());
                }
            }
        }
    }
    places.retain(|_, files| files.len() > 1);
    assert!(
        places.is_empty(),
        "qualify these by what they are: {places:#?}"
    );
}

#[test]
fn each_name_of_a_package_stands_for_one_package() {
    let root = root();
    let mut names = BTreeSet::new();
    for folder in FOLDERS {
        for file in files(&root.join(folder), "toml") {
            let text = fs::read_to_string(&file).unwrap();
            let Some((_, package)) = text.split_once("[package]\nname = ") else {
                continue;
            };
            let name = package.lines().next().unwrap().to_owned();
            assert!(names.insert(name), "{} has another's name", file.display());
        }
    }
    assert!(names.len() > 20, "{names:?}");
}

#[test]
fn definitions_are_found() {
    assert_eq!(defined("pub(super) struct Held<'m> {"), Some("Held"));
    assert_eq!(defined("pub(in super::super) enum Held {"), Some("Held"));
    assert_eq!(defined("    type Seat = Other;"), None);
    assert_eq!(defined("pub unsafe trait Memory: Sized {"), Some("Memory"));
    assert_eq!(defined("// a struct Held"), None);
}

/// How many names of types a user of the engine can write: each is one to learn, so the number only falls. A
/// change that removes one lowers it. The lint `unnameable_types` sees to it that these are all types that a user
/// meets; before it, 89 could be written and 25 more were met. Per-CPU objects brought one, that of their counters; access and
/// tables of a mapping two, which the crates of the architectures had before.
const NAMES: usize = 100;

/// The names of types that the text of a module defines or passes on as `pub`, and its public modules.
fn public(text: &str) -> (BTreeSet<String>, Vec<String>) {
    let (mut types, mut modules) = (BTreeSet::new(), Vec::new());
    let mut rest = text;
    while let Some(start) = rest.find("\npub ") {
        rest = &rest[start + 5..];
        let end = rest.find([';', '{', '(', '=']).unwrap_or(rest.len());
        let item = rest.split("::{").next().unwrap_or(rest);
        let mut words = rest[..end].split(|c: char| !c.is_alphanumeric() && c != '_');
        let kind = words.find(|word| *word != "unsafe").unwrap_or("");
        let name = words.next().unwrap_or("").to_owned();
        match kind {
            "mod" => modules.push(name),
            "struct" | "enum" | "union" | "trait" | "type" => {
                types.insert(name);
            }
            "use" => {
                let list = &rest[..rest.find(';').expect("an import has an end")];
                assert!(!list.contains('*'), "all that is public has a name: {list}");
                let inner = list
                    .strip_prefix(item)
                    .map(|list| list.trim_start_matches("::{"));
                let last = || list.rsplit("::").next().unwrap_or("");
                for name in inner
                    .filter(|list| !list.is_empty())
                    .unwrap_or_else(last)
                    .split(',')
                {
                    let name = name
                        .rsplit([' ', ':'])
                        .next()
                        .unwrap_or("")
                        .trim_end_matches('}');
                    let name = name.trim();
                    // Not a constant, nor a function.
                    if name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase) {
                        types.insert(name.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    (types, modules)
}

/// The same of the module in `folder` and of the public ones inside.
fn reachable(folder: &Path, name: &str, found: &mut BTreeSet<String>) {
    let file = folder.join(name);
    let (file, inner) = match file.with_extension("rs") {
        file if file.exists() => (file, folder.to_owned()),
        _ => (file.join("mod.rs"), file),
    };
    let (types, modules) = public(&fs::read_to_string(file).unwrap());
    found.extend(types);
    for module in modules {
        reachable(&inner, &module, found);
    }
}

#[test]
fn a_user_has_no_more_names_to_learn() {
    let mut found = BTreeSet::new();
    reachable(&root().join("crates/framewright/src"), "lib", &mut found);
    assert_eq!(
        found.len(),
        NAMES,
        "names that a user can write: {found:#?}"
    );
}

#[test]
fn public_names_are_found() {
    let text = "
pub mod frame;
mod tree;
pub use tree::{Leaf, LEAVES, leaves,
    Node};
pub use a::b::Branch;
pub(crate) use tree::Root;
pub struct Plant<T> {
    pub inner: Inner,
}
pub unsafe trait Grows: Sized {}
pub const fn new() {}
";
    let (types, modules) = public(text);
    let types: Vec<_> = types.iter().map(String::as_str).collect();
    assert_eq!(types, ["Branch", "Grows", "Leaf", "Node", "Plant"]);
    assert_eq!(modules, ["frame"]);
}
