//! A filter of tests that matches none runs none, and is green: each one in `.ci/run` matches the path of a test.

use super::sources::{files, root};
use std::collections::BTreeMap;
use std::fs;

/// The words by which `.ci/run` chooses among the unit tests of a package, with the package; without one, of them all.
fn filters(script: &str) -> Vec<(String, String)> {
    let script = script.replace("\\\n", " ");
    let mut found = Vec::new();
    for line in script.lines() {
        let Some((before, chosen)) = line.split_once(" --lib ") else {
            continue;
        };
        let package = before
            .rsplit_once("-p ")
            .map_or("", |(_, name)| name.trim());
        let words = chosen
            .split_whitespace()
            .filter(|word| !word.starts_with('-'));
        let words = words
            .flat_map(braces)
            .map(|word| (package.to_owned(), word));
        found.extend(words);
    }
    found
}

/// What the shell makes of a word with `{a,b}` in it.
fn braces(word: &str) -> Vec<String> {
    let parts = word
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (inside, after))) = parts else {
        return vec![word.to_owned()];
    };
    let each = inside.split(',');
    each.map(|part| format!("{before}{part}{after}")).collect()
}

/// The paths of the tests in the text of a module.
fn tests_in(module: &str, text: &str) -> Vec<String> {
    let (mut inner, mut is_test, mut found) = (Vec::new(), false, Vec::new());
    for line in text.lines() {
        let code = line.trim_start();
        let depth = (line.len() - code.len()) / 4;
        let begun = code
            .trim_start_matches("pub(crate) ")
            .strip_prefix("mod ")
            .and_then(|rest| rest.strip_suffix(" {"));
        if let Some(name) = begun {
            inner.truncate(depth);
            inner.push(name);
        } else if code == "#[test]" {
            is_test = true;
        } else if let Some(rest) = code.strip_prefix("fn ").filter(|_| is_test) {
            is_test = false;
            inner.truncate(depth);
            let name = rest.split('(').next().unwrap_or(rest);
            let path = [module].into_iter().chain(inner.iter().copied());
            let path: Vec<&str> = path.chain([name]).filter(|part| !part.is_empty()).collect();
            found.push(path.join("::"));
        }
    }
    found
}

/// The paths of the unit tests of each package, as its test program says them.
fn unit_tests() -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let crates = root().join("crates");
    for file in files(&crates, "rs") {
        let path = file.strip_prefix(&crates).unwrap().with_extension("");
        let path = path.to_str().unwrap().replace('/', "::");
        let Some((package, module)) = path.split_once("::src::") else {
            continue;
        };
        let module = module.trim_end_matches("mod").trim_end_matches("::");
        let module = if module == "lib" { "" } else { module };
        let tests = tests_in(module, &fs::read_to_string(&file).unwrap());
        found.entry(package.to_owned()).or_default().extend(tests);
    }
    found
}

#[test]
fn each_filter_of_tests_matches_one() {
    let found = filters(&fs::read_to_string(root().join(".ci/run")).unwrap());
    assert!(found.len() > 15, "the steps of Miri and loom: {found:?}");
    let tests = unit_tests();
    let is_idle = |(package, word): &&(String, String)| {
        let mut of = tests
            .iter()
            .filter(|(name, _)| package.is_empty() || *name == package);
        !of.any(|(_, paths)| paths.iter().any(|path| path.contains(word)))
    };
    let idle: Vec<_> = found.iter().filter(is_idle).collect();
    assert!(idle.is_empty(), "these run nothing: {idle:?}");
}

#[test]
fn filters_and_tests_are_found() {
    let script =
        "cargo test -p a --lib -- \\\n  x::{y,z}:: w\nmodel loom -p b --lib models\ntest --lib v\n";
    let words: Vec<String> = filters(script)
        .into_iter()
        .map(|(package, word)| format!("{package} {word}"))
        .collect();
    assert_eq!(words, ["a x::y::", "a x::z::", "a w", "b models", " v"]);
    let text = "#[test]\nfn a() {}\nfn b() {}\nmod tests {\n    #[test]\n    #[cfg(x)]\n    fn c() {}\n}\n";
    assert_eq!(tests_in("m::n", text), ["m::n::a", "m::n::tests::c"]);
}
