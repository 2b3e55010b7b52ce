//! An invariant's letters mean one thing in the whole project: each is stated in one place, a letter belongs to
//! one subsystem, and what names an invariant names one that is stated. `docs/invariants.md` lists them all:
//! `FRAMEWRIGHT_BLESS=1 cargo test -p framewright --test house invariants` writes it.

use super::sources::{files, root};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// What looks like an invariant's name and is none: quantiles, formats, licences, a path's first step.
const NO_INVARIANTS: &[&str] = &["P50", "P99", "LZ4", "CC0", "M0"];

/// The types of Rust that begin a function's name as a test's letter would.
const TYPES: &[&str] = &[
    "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64",
];

struct Invariant {
    name: String,
    statement: String,
    /// From the workspace's root.
    file: PathBuf,
}

/// The letters and the number of an invariant's name.
fn parts(name: &str) -> Option<(&str, u32)> {
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let digits = &name[letters.len()..];
    let is_name = (1..=2).contains(&letters.len())
        && (1..=2).contains(&digits.len())
        && letters.chars().all(|c| c.is_ascii_uppercase());
    is_name.then(|| (letters, digits.parse().unwrap()))
}

/// The text of a line of a `//!` or `///` comment, or of a document.
fn text(line: &str, is_rust: bool) -> Option<&str> {
    let line = line.trim();
    if !is_rust {
        return Some(line);
    }
    let text = line.strip_prefix("//!").or(line.strip_prefix("///"))?;
    Some(text.trim())
}

/// A statement without the addresses of its links.
fn unlinked(statement: &str) -> String {
    let mut out = String::new();
    let mut rest = statement;
    while let Some(open) = rest.find('[') {
        let Some(close) = rest[open..].find(']').map(|at| open + at) else {
            break;
        };
        out.push_str(&rest[..open]);
        out.push_str(&rest[open + 1..close]);
        rest = &rest[close + 1..];
        if let Some(address) = rest.strip_prefix('(') {
            rest = address.split_once(')').map_or("", |(_, after)| after);
        }
    }
    out.push_str(rest);
    out
}

/// How far the text of a comment's line, or of a document's, stands to the right of its margin.
fn indent(line: &str, is_rust: bool) -> usize {
    let inside = match is_rust {
        true => line.trim_start().get(4..).unwrap_or(""),
        false => line,
    };
    inside.len() - inside.trim_start().len()
}

/// The invariants that a file states: list items that begin with a name in bold, with the list inside of each.
fn stated(source: &str, file: &Path) -> Vec<Invariant> {
    let is_rust = file.extension().is_some_and(|e| e == "rs");
    let mut found: Vec<Invariant> = Vec::new();
    let mut is_inside = false;
    for line in source.lines() {
        let text = text(line, is_rust).unwrap_or("");
        let item = text
            .strip_prefix("- **")
            .and_then(|item| item.split_once("** "));
        if let Some((name, statement)) = item.filter(|(name, _)| parts(name).is_some()) {
            is_inside = true;
            found.push(Invariant {
                name: name.to_owned(),
                statement: statement.to_owned(),
                file: file.to_owned(),
            });
        } else if is_inside && text.starts_with("- ") && indent(line, is_rust) > 0 {
            let last = found.last_mut().expect("one is begun");
            last.statement.push_str("\n  ");
            last.statement.push_str(text);
        } else if text.is_empty() || text.starts_with("- ") || text.starts_with('#') {
            is_inside = false;
        } else if is_inside && let Some(last) = found.last_mut() {
            last.statement.push(' ');
            last.statement.push_str(text);
        }
    }
    for invariant in &mut found {
        invariant.statement = unlinked(&invariant.statement);
    }
    found
}

/// The invariants that a line names: in words, and at the beginning of a test's name.
fn named(line: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = line.split(|c| !is_part(c));
    let mut found: Vec<String> = words
        .filter(|word| parts(word).is_some() && !NO_INVARIANTS.contains(word))
        .map(str::to_owned)
        .collect();
    if let Some((_, rest)) = line.split_once("fn ") {
        let pieces = rest.split(|c| !is_part(c)).next().unwrap_or("").split('_');
        for piece in pieces {
            let is_lower = !piece.chars().any(|c| c.is_ascii_uppercase());
            let name = piece.to_ascii_uppercase();
            if is_lower && parts(&name).is_some() && !TYPES.contains(&piece) {
                found.push(name);
            } else if piece != "to" {
                break;
            }
        }
    }
    found
}

/// All files that may name an invariant, from the workspace's root.
fn sources_and_documents() -> Vec<PathBuf> {
    let root = root();
    let mut all = Vec::new();
    for folder in ["crates", "examples", "fuzz"] {
        for extension in ["rs", "toml", "md"] {
            all.extend(files(&root.join(folder), extension));
        }
    }
    all.extend(files(&root.join("docs"), "md"));
    for document in [
        "ARCHITECTURE.md",
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    ] {
        all.push(root.join(document));
    }
    let page = root.join(PAGE);
    all.retain(|file| *file != page && !file.ends_with(file!().rsplit('/').next().unwrap()));
    for file in &mut all {
        *file = file.strip_prefix(&root).unwrap().to_owned();
    }
    all
}

fn all_stated() -> Vec<Invariant> {
    let mut all = Vec::new();
    for file in sources_and_documents() {
        all.extend(stated(
            &fs::read_to_string(root().join(&file)).unwrap(),
            &file,
        ));
    }
    all
}

#[test]
fn each_invariant_is_stated_once_and_its_letters_belong_to_one_subsystem() {
    let mut places: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut folders: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut wrong = Vec::new();
    let mut all = all_stated();
    // A folder's header before those of the folders in it.
    all.sort_by_key(|invariant| invariant.file.components().count());
    for Invariant { name, file, .. } in all {
        let folder = file.parent().unwrap().to_owned();
        let first = folders
            .entry(parts(&name).unwrap().0.to_owned())
            .or_insert(folder.clone());
        if !folder.starts_with(&*first) {
            wrong.push(format!(
                "{name} of {} has a letter of {}",
                file.display(),
                first.display()
            ));
        }
        if let Some(other) = places.insert(name.clone(), file.clone()) {
            wrong.push(format!(
                "{name} is stated in {} and {}",
                other.display(),
                file.display()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_name_of_an_invariant_is_one_that_is_stated() {
    let all: Vec<String> = all_stated().into_iter().map(|i| i.name).collect();
    let mut wrong = Vec::new();
    for file in sources_and_documents() {
        let source = fs::read_to_string(root().join(&file)).unwrap();
        for (number, line) in source.lines().enumerate() {
            for name in named(line).iter().filter(|name| !all.contains(name)) {
                wrong.push(format!("{}:{}: {name}", file.display(), number + 1));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "not stated anywhere:\n{}",
        wrong.join("\n")
    );
}

/// What names an invariant besides its statement.
#[derive(Clone, Copy, Default)]
struct NamedBy {
    /// A text in code: what `verify()` answers, or what an assertion says.
    assertion: bool,
    test: bool,
    mutant: bool,
}

impl NamedBy {
    fn is_by_none(self) -> bool {
        !self.assertion && !self.test && !self.mutant
    }

    /// As the page says it.
    fn shown(self) -> String {
        let all = [
            (self.assertion, "assertions"),
            (self.test, "tests"),
            (self.mutant, "mutants"),
        ];
        let there: Vec<&str> = all
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, by)| *by)
            .collect();
        match there.is_empty() {
            true => "Named by no check.".to_owned(),
            false => format!("Named by {}.", there.join(", ")),
        }
    }
}

/// The texts in a line of code.
fn literals(line: &str) -> impl Iterator<Item = &str> {
    let code = if line.trim_start().starts_with("//") {
        ""
    } else {
        line
    };
    code.split('"').skip(1).step_by(2)
}

/// The names of invariants in a text.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| parts(word).is_some())
}

/// By name of an invariant: what names it.
fn all_named() -> BTreeMap<String, NamedBy> {
    let mut by: BTreeMap<String, NamedBy> = BTreeMap::new();
    for file in sources_and_documents() {
        let source = fs::read_to_string(root().join(&file)).unwrap();
        let is_rust = file.extension().is_some_and(|e| e == "rs");
        let is_mutants = file.starts_with("crates/framewright-checks/mutants");
        for line in source.lines() {
            if is_rust {
                for name in literals(line).flat_map(names_in) {
                    by.entry(name.to_owned()).or_default().assertion = true;
                }
                if let Some((_, rest)) = line.split_once("fn ") {
                    let name = rest.split('(').next().unwrap_or("");
                    for piece in name.split('_').filter(|piece| !TYPES.contains(piece)) {
                        let name = piece.to_ascii_uppercase();
                        if piece != name && parts(&name).is_some() {
                            by.entry(name).or_default().test = true;
                        }
                    }
                }
            } else if is_mutants && let Some(rule) = line.strip_prefix("rule = ") {
                for name in names_in(rule) {
                    by.entry(name.to_owned()).or_default().mutant = true;
                }
            }
        }
    }
    by
}

/// How many invariants no assertion, test or mutant names. A change that names one lowers this.
const NAMED_BY_NONE: usize = 33;

#[test]
fn few_invariants_are_named_by_no_check_and_fewer_as_time_goes_on() {
    let by = all_named();
    let of = |name: &str| by.get(name).copied().unwrap_or_default();
    let none: Vec<String> = all_stated()
        .into_iter()
        .map(|invariant| invariant.name)
        .filter(|name| of(name).is_by_none())
        .collect();
    assert_eq!(
        none.len(),
        NAMED_BY_NONE,
        "more may not be; of fewer lower the number: {none:?}"
    );
}

const PAGE: &str = "docs/invariants.md";

const INTRODUCTION: &str = "# Invariants

Each is stated in the header of the module that keeps it, and here from there. The last words of each say what names it
in the code: *assertions* (what `verify()` answers, or an assertion in a test says, has its name), *tests* (a test's name
has it; the models of loom and shuttle are tests), *mutants* ([mutations.md](mutations.md) says which check notices when
its keeper is missing). `verify()` asserts what can be seen while all is at rest; tests and models hold the others. Where
no check has the name, the code may hold the invariant by its types, or a test may hold it under another name: a test
counts these, and their number only falls. Made by

```sh
FRAMEWRIGHT_BLESS=1 cargo test -p framewright --test house invariants
```
";

fn page() -> String {
    // A crate's together, and of a folder the header first.
    let mut by_file: BTreeMap<_, Vec<Invariant>> = BTreeMap::new();
    for invariant in all_stated() {
        let rank = [
            "ARCHITECTURE.md",
            "crates/framewright/",
            "crates/framewright-linux/",
        ]
        .iter()
        .position(|start| invariant.file.to_str().unwrap().starts_with(start))
        .unwrap_or(usize::MAX);
        let folder = invariant.file.parent().unwrap().to_owned();
        let is_part = !invariant.file.ends_with("mod.rs");
        let section = by_file
            .entry((rank, folder, is_part, invariant.file.clone()))
            .or_default();
        section.push(invariant);
    }
    let mut page = INTRODUCTION.to_owned();
    let by = all_named();
    for ((.., file), mut section) in by_file {
        section.sort_by_key(|invariant| parts(&invariant.name).unwrap().1);
        write!(page, "\n## `{}`\n\n", file.display()).unwrap();
        for Invariant {
            name, statement, ..
        } in section
        {
            let by = by.get(&name).copied().unwrap_or_default().shown();
            let gap = if statement.contains('\n') {
                "\n\n  "
            } else {
                " "
            };
            writeln!(page, "- **{name}** {statement}{gap}*{by}*").unwrap();
        }
    }
    page
}

#[test]
fn the_page_of_invariants_is_made_from_the_headers() {
    let path = root().join(PAGE);
    let made = page();
    if std::env::var_os("FRAMEWRIGHT_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        there == made,
        "{PAGE} is not made from the headers; its own first lines say how to"
    );
}

#[test]
fn the_rules_above_can_fail() {
    let header = "//! - **F1** Of [`Seat`](crate::Seat)\n//!   one.\n//!\n//! - **bold** F2";
    let found = stated(header, Path::new("a.rs"));
    assert_eq!((found.len(), &*found[0].statement), (1, "Of `Seat` one."));
    let listed = "//! - **F1** Of:\n//!   - one;\n//!   - two.\n//! - other\n//!   - three";
    let found = stated(listed, Path::new("a.rs"));
    assert_eq!(found[0].statement, "Of:\n  - one;\n  - two.");
    assert_eq!(
        names_in("F1 to K10, a.B2").collect::<Vec<_>>(),
        ["F1", "K10", "B2"]
    );
    assert_eq!(literals("// \"F1\"").count(), 0);
    assert_eq!(
        literals("a(\"F1\", b, \"c\")").collect::<Vec<_>>(),
        ["F1", "c"]
    );
    assert!(NamedBy::default().is_by_none());
    assert_eq!(
        named("fn f1_to_f3_and_f4() { \"V5: no\" }"),
        ["V5", "F1", "F3"]
    );
    assert!(named("let P50 = u32_at(F1a, u8); fn u32_at()").is_empty());
}
