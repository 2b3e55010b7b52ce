//! Which files of the engine, and of the laboratory, import one another in a circle: none of these can be understood,
//! moved or tested before the others.

use super::sources::{files, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// How many circles each crate has, and how many files are in them. A change that opens one lowers these.
const CIRCLES: &[(&str, (usize, usize))] = &[("framewright", (1, 5)), ("framewright-lab", (2, 12))];

/// A module, as the names from the crate's root down.
type ModulePath = Vec<String>;

/// The text without comments, and without the tests at a file's end.
fn code(text: &str) -> String {
    let cut = text
        .find("#[cfg(all(test, not(any(loom, shuttle))))]\nmod tests {")
        .or_else(|| text.find("#[cfg(test)]\nmod tests {"))
        .unwrap_or(text.len());
    let lines = text[..cut].lines();
    lines
        .map(|line| line.split("//").next().unwrap_or(""))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The paths that a tree of imports names: `a::{b, c::d}` names `a::b` and `a::c::d`.
fn paths(tree: &str, found: &mut Vec<String>) {
    let tree = tree.trim();
    let Some((before, list)) = tree.split_once('{') else {
        found.push(tree.split(" as ").next().unwrap_or(tree).trim().to_owned());
        return;
    };
    let list = list.trim_end().strip_suffix('}').unwrap_or(list);
    let (mut depth, mut start) = (0, 0);
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = list[start..at].trim();
                if !part.is_empty() {
                    paths(&format!("{before}{part}"), found);
                }
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// The imports of a text, each with whether it is passed on, and what is left of the text.
fn imports(text: &str) -> (Vec<(bool, String)>, String) {
    let (mut found, mut rest) = (Vec::new(), String::new());
    let mut is_import = false;
    let mut statement = String::new();
    for line in text.lines() {
        let line = line.trim();
        let starts = line.starts_with("use ") || line.starts_with("pub") && line.contains(" use ");
        if starts || is_import {
            statement.push_str(line);
            statement.push(' ');
            is_import = !line.ends_with(';');
            if !is_import {
                let (before, tree) = statement.split_once("use ").expect("an import");
                let mut names = Vec::new();
                paths(tree.trim().trim_end_matches(';'), &mut names);
                let passed_on = before.starts_with("pub");
                found.extend(names.into_iter().map(|name| (passed_on, name)));
                statement.clear();
            }
        } else {
            rest.push_str(line);
            rest.push('\n');
        }
    }
    (found, rest)
}

/// The paths of a text, other than in imports and in visibilities, that begin at the crate or at a parent. A file that says
/// where it may be seen needs nothing from there.
fn inline_paths(text: &str) -> Vec<String> {
    let seen = |part: &str| part.split_once(')').map(|(_, rest)| rest.to_owned());
    let mut parts = text.split("pub(in ");
    let first = parts.next().unwrap_or("").to_owned();
    let rest: String = parts.filter_map(seen).collect();
    [first, rest]
        .concat()
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .filter(|word| word.starts_with("crate::") || word.starts_with("super::"))
        .map(|word| word.trim_end_matches(':').to_owned())
        .collect()
}

/// The files of a crate, by module, and what each passes on.
struct FileTree {
    texts: BTreeMap<ModulePath, String>,
    passed_on: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
}

impl FileTree {
    fn new(texts: BTreeMap<ModulePath, String>) -> Self {
        let passed_on = BTreeMap::new();
        let mut tree = Self { texts, passed_on };
        for (module, text) in &tree.texts {
            let mut names = BTreeMap::new();
            for (_, path) in imports(text).0.into_iter().filter(|(passed, _)| *passed) {
                if let Some(path) = tree.absolute(module, &path) {
                    names.insert(path[path.len() - 1].clone(), path);
                }
            }
            tree.passed_on.insert(module.clone(), names);
        }
        tree
    }

    /// The path from the root of what a module names; `None` if it is no file's of the crate.
    fn absolute(&self, module: &ModulePath, path: &str) -> Option<ModulePath> {
        let mut base = module.clone();
        let mut parts = path.split("::").peekable();
        match parts.next()? {
            "crate" => base.clear(),
            "self" => {}
            "super" => {
                base.pop();
                while parts.next_if_eq(&"super").is_some() {
                    base.pop();
                }
            }
            child => {
                base.push(child.to_owned());
                if !self.texts.contains_key(&base) {
                    return None;
                }
            }
        }
        base.extend(parts.map(str::to_owned));
        Some(base)
    }

    /// The module in which a path ends, and the names that are passed on followed to where they are from.
    fn home(&self, mut path: ModulePath) -> Option<ModulePath> {
        // No name is passed on more often.
        for _ in 0..8 {
            let len = (0..=path.len())
                .rev()
                .find(|&len| self.texts.contains_key(&path[..len]))?;
            let (module, rest) = (path[..len].to_vec(), &path[len..]);
            let next = rest
                .first()
                .and_then(|name| self.passed_on[&module].get(name));
            match next {
                Some(next) if *next != path => path = [next.clone(), rest[1..].to_vec()].concat(),
                _ => return Some(module),
            }
        }
        None
    }

    /// The files that each file needs, each with what is named of it.
    fn needs(&self) -> BTreeMap<&ModulePath, BTreeMap<ModulePath, BTreeSet<String>>> {
        let needs = self.texts.iter().map(|(module, text)| {
            let (imports, rest) = imports(text);
            let imported = imports.into_iter().filter(|(passed_on, _)| !passed_on);
            let named = imported.map(|(_, path)| path).chain(inline_paths(&rest));
            let mut homes: BTreeMap<ModulePath, BTreeSet<String>> = BTreeMap::new();
            for path in named.filter_map(|path| self.absolute(module, &path)) {
                let name = path.last().cloned().unwrap_or_default();
                let home = self.home(path);
                if let Some(home) = home.filter(|home| home != module && !home.is_empty()) {
                    homes.entry(home).or_default().insert(name);
                }
            }
            (module, homes)
        });
        needs.collect()
    }

    /// The arrows between the files of a circle, a line each: which file names what of which other one.
    fn arrows(&self, circle: &BTreeSet<String>) -> String {
        let mut lines = Vec::new();
        for (from, homes) in self.needs() {
            for (to, names) in homes {
                let (from, to) = (from.join("/"), to.join("/"));
                if circle.contains(&from) && circle.contains(&to) {
                    lines.push(format!("  {from} -> {to}: {names:?}"));
                }
            }
        }
        lines.join("\n")
    }

    /// The sets of files of which each needs each other one.
    fn circles(&self) -> BTreeSet<BTreeSet<String>> {
        let needs = self.needs();
        let reached = |from| {
            let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
            while let Some(module) = left.pop() {
                for next in needs[module].keys() {
                    if reached.insert(next) {
                        left.push(next);
                    }
                }
            }
            reached
        };
        let reached: BTreeMap<_, BTreeSet<_>> =
            needs.keys().map(|&from| (from, reached(from))).collect();
        let circle = |from: &ModulePath| -> BTreeSet<String> {
            let others = reached[from].iter();
            let both = others.filter(|to| reached[*to].contains(from));
            both.map(|module| module.join("/")).collect()
        };
        let circles = needs.keys().map(|&from| circle(from));
        circles.filter(|circle| !circle.is_empty()).collect()
    }
}

/// Whether a file of that name is for tests alone.
fn is_for_tests(part: &str) -> bool {
    part == "tests" || part.ends_with("_tests") || part.starts_with("test_")
}

/// The files of a crate, tests left out.
fn tree_of(krate: &str) -> FileTree {
    let src = root().join("crates").join(krate).join("src");
    let mut texts = BTreeMap::new();
    for file in files(&src, "rs") {
        let inside = file.strip_prefix(&src).unwrap().with_extension("");
        let mut module: ModulePath = inside
            .iter()
            .map(|part| part.to_str().unwrap().to_owned())
            .collect();
        if module.iter().any(|part| is_for_tests(part)) {
            continue;
        }
        if module
            .last()
            .is_some_and(|last| last == "mod" || last == "lib")
        {
            module.pop();
        }
        texts.insert(module, code(&fs::read_to_string(&file).unwrap()));
    }
    FileTree::new(texts)
}

#[test]
fn few_files_import_in_circles() {
    let mut wrong = Vec::new();
    for (krate, ceilings) in CIRCLES {
        let tree = tree_of(krate);
        let circles = tree.circles();
        let files: usize = circles.iter().map(BTreeSet::len).sum();
        let found = (circles.len(), files);
        if found.0 > ceilings.0 || found.1 > ceilings.1 {
            let arrows: Vec<String> = circles.iter().map(|circle| tree.arrows(circle)).collect();
            wrong.push(format!(
                "{krate}: more files import one another in circles, {found:?}:\n{}",
                arrows.join("\n\n")
            ));
        } else if found != *ceilings {
            wrong.push(format!("{krate}: fewer do: lower the numbers to {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_circle_is_found_through_what_a_folder_passes_on() {
    let texts = [
        ("", "mod a;\nmod b;"),
        ("a", "mod x;\npub(crate) use x::Thing;"),
        (
            "a/x",
            "use crate::b::{\n    Other,\n    deep::Kind as Named,\n};",
        ),
        ("b", "fn of(thing: crate::a::Thing) {}"),
        ("c", "use super::{a::Thing, b};"),
        ("d", "mod x;\nuse x::Inner;"),
        ("d/x", "pub(in crate::d) struct Inner;"),
    ];
    let texts = texts.map(|(module, text)| {
        let module = module.split('/').filter(|part| !part.is_empty());
        (module.map(str::to_owned).collect(), code(text))
    });
    let found = FileTree::new(texts.into()).circles();
    let circle = BTreeSet::from(["a/x".to_owned(), "b".to_owned()]);
    assert_eq!(found, BTreeSet::from([circle]));
}
