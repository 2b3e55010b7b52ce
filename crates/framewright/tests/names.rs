//! One name a thing: a type's name stands for one type in the whole project, so that a reader of two files takes
//! neither for the other.

mod sources;

use sources::{files, root};
use std::collections::BTreeMap;
use std::fs;

/// The names of several types that are left. A change that removes one removes its line.
const LEFT: &[&str] = &[
    // What each kind of seat, and of metadata, has of its own.
    "Count",
    "Held",
    "Map",
    "SeatWords",
    "Shape",
    // `framewright_linux`'s, and what is meant for single places of `raw`.
    "Contiguous",
    "Heap",
    "Paged",
    "Place",
];

/// The name of the type that a line defines.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().peekable();
    words.next_if(|word| word.starts_with("pub"));
    // `pub(in path)`
    words.next_if(|word| word.ends_with(')'));
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
    for folder in ["crates", "examples", "kernel"] {
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
    places.retain(|name, files| files.len() > 1 && !LEFT.contains(&name.as_str()));
    assert!(
        places.is_empty(),
        "qualify these by what they are: {places:#?}"
    );
}

#[test]
fn definitions_are_found() {
    assert_eq!(defined("pub(super) struct Held<'m> {"), Some("Held"));
    assert_eq!(defined("    type Seat = Other;"), None);
    assert_eq!(defined("pub unsafe trait Memory: Sized {"), Some("Memory"));
    assert_eq!(defined("// a struct Held"), None);
}
