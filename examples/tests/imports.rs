//! Counts the names of Framewright that the examples of common things import. A program of a few lines that needs
//! many names has a front door that is too narrow.

use std::collections::BTreeSet;

/// An example, its text, and how many names it may import at most. These numbers may only fall: a change that makes
/// do with fewer names lowers the number. None may be above [`MOST`].
const CEILINGS: [(&str, &str, usize); 3] = [
    ("a zone", include_str!("../zone.rs"), 8),
    (
        "kvmalloc with reclaim",
        include_str!("../kvmalloc_reclaim.rs"),
        8,
    ),
    ("a reserve with guests", include_str!("../reserve.rs"), 4),
];

/// What a common thing may need at most.
const MOST: usize = 8;

/// The names that `text` imports from Framewright's crates.
fn imported(text: &str) -> BTreeSet<&str> {
    let code: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let begins = |line: &str| line.starts_with("use framewright");
    let mut names = BTreeSet::new();
    let mut is_import = false;
    for line in code {
        is_import |= begins(line);
        if !is_import {
            assert!(
                !line.contains("framewright::") && !line.contains("framewright_linux::"),
                "not imported at the top: {line}"
            );
            continue;
        }
        // What is followed by `::` is a module on the way to a name.
        for (nth, part) in line.split("::").enumerate() {
            let is_last = nth + 1 == line.split("::").count();
            let words = part.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '*');
            let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
            let all = words.len() - usize::from(!is_last);
            names.extend(&words[..all]);
        }
        is_import = !line.contains(';');
    }
    names.remove("use");
    assert!(!names.contains("*"), "an import of all names counts none");
    assert!(!names.contains("as"), "a name under another is two");
    names
}

#[test]
fn common_things_need_few_imported_names_and_fewer_as_time_goes_on() {
    for (what, text, ceiling) in CEILINGS {
        assert!(ceiling <= MOST, "{what}: {ceiling} names are above {MOST}");
        let names = imported(text);
        assert!(
            names.len() <= ceiling,
            "{what} needs {} names, and may need {ceiling}: {names:?}",
            names.len()
        );
        assert!(
            names.len() == ceiling,
            "{what} needs {} names: lower its number to that",
            names.len()
        );
    }
}

#[test]
fn names_are_counted_wherever_they_stand_in_an_import() {
    let text = "// use framewright::Comment;\nuse framewright::Frame;\n\
                use framewright::kv::{KvRequest, slab::Slab};\n\
                use framewright_linux::{\n    Host,\n    Options,\n};\nuse std::fmt;\n";
    let names: Vec<_> = imported(text).into_iter().collect();
    assert_eq!(names, ["Frame", "Host", "KvRequest", "Options", "Slab"]);
}
