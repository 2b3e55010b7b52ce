//! A filter of tests that matches none runs none, and is green. Each one in `.ci/run` that chooses among unit tests matches
//! the path of one, as its test program says it; under Miri, of one that is compiled there.

use super::sources::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A word by which `.ci/run` chooses among unit tests.
#[derive(Debug, PartialEq, Eq)]
struct UnitFilter {
    /// Of which package; without one, of them all.
    package: String,
    word: String,
    under_miri: bool,
}

/// A unit test.
#[derive(Debug, PartialEq, Eq)]
struct UnitTest {
    path: String,
    under_miri: bool,
}

fn filters(script: &str) -> Vec<UnitFilter> {
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
        found.extend(words.flat_map(braces).map(|word| UnitFilter {
            package: package.to_owned(),
            word,
            under_miri: before.contains(" miri "),
        }));
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

/// The tests in the text of a module.
fn tests_in(module: &str, text: &str, is_outside: bool) -> Vec<UnitTest> {
    // Modules inside one another, and whether Miri leaves each out.
    let mut inner: Vec<(&str, bool)> = Vec::new();
    // What the attributes say that stand before the next item.
    let (mut is_test, mut is_apart) = (false, false);
    let mut found = Vec::new();
    for line in text.lines() {
        let code = line.trim_start();
        let depth = (line.len() - code.len()) / 4;
        let begun = module_name(code).and_then(|rest| rest.strip_suffix(" {"));
        if let Some(name) = begun {
            inner.truncate(depth);
            inner.push((name, is_apart));
            (is_test, is_apart) = (false, false);
        } else if code == "#[test]" {
            is_test = true;
        } else if is_not_for_miri(code) {
            is_apart = true;
        } else if let Some(rest) = code.strip_prefix("fn ").filter(|_| is_test) {
            inner.truncate(depth);
            let under_miri =
                !is_outside && !is_apart && inner.iter().all(|(_, is_apart)| !is_apart);
            (is_test, is_apart) = (false, false);
            let name = rest.split('(').next().unwrap_or(rest);
            let names = inner.iter().map(|(name, _)| *name);
            let path = [module].into_iter().chain(names);
            let path: Vec<&str> = path.chain([name]).filter(|part| !part.is_empty()).collect();
            found.push(UnitTest {
                path: path.join("::"),
                under_miri,
            });
        } else if code.ends_with([';', '{']) {
            (is_test, is_apart) = (false, false);
        }
    }
    found
}

/// What follows `mod` in a line of code.
fn module_name(code: &str) -> Option<&str> {
    let code = match code.strip_prefix("pub") {
        Some(rest) => rest.trim_start_matches(|c| c != ' ').trim_start(),
        None => code,
    };
    code.strip_prefix("mod ")
}

fn is_not_for_miri(code: &str) -> bool {
    let ignored = code.starts_with("#[cfg_attr(miri") && code.contains("ignore");
    code.starts_with("#[cfg(") && code.contains("not(") && code.contains("miri") || ignored
}

/// The files of the modules that `text` declares, a file's whose submodules lie in `below`, with their names, and
/// whether they are left out under Miri. `#[path]` is relative to the folder of the file itself.
fn declared(file: &Path, below: &Path, text: &str) -> Vec<(PathBuf, String, bool)> {
    let (mut found, mut place, mut is_outside) = (Vec::new(), None, false);
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("#[path = \"") {
            place = rest.strip_suffix("\"]");
        } else if is_not_for_miri(line) {
            is_outside = true;
        } else if let Some(name) = module_name(line).and_then(|rest| rest.strip_suffix(';')) {
            let path = match place {
                Some(place) => file.with_file_name(place),
                None => Some(below.join(format!("{name}.rs")))
                    .filter(|path| path.is_file())
                    .unwrap_or_else(|| below.join(name).join("mod.rs")),
            };
            found.push((path, name.to_owned(), is_outside));
            (place, is_outside) = (None, false);
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            (place, is_outside) = (None, false);
        }
    }
    found
}

/// The tests of the module in `file` and of those below it.
fn tests_of(file: &Path, module: &str, is_outside: bool, found: &mut Vec<UnitTest>) {
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    found.extend(tests_in(module, &text, is_outside));
    let is_root = ["lib.rs", "main.rs", "mod.rs"]
        .iter()
        .any(|name| file.ends_with(name));
    let below = match is_root {
        true => file.parent().unwrap().to_owned(),
        false => file.with_extension(""),
    };
    for (path, name, outside) in declared(file, &below, &text) {
        let path_of = match module {
            "" => name,
            module => format!("{module}::{name}"),
        };
        tests_of(&path, &path_of, is_outside || outside, found);
    }
}

/// The unit tests of each package.
fn unit_tests() -> BTreeMap<String, Vec<UnitTest>> {
    let mut found: BTreeMap<String, Vec<UnitTest>> = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let package = folder.file_name().unwrap().to_str().unwrap().to_owned();
        for name in ["lib.rs", "main.rs"] {
            let file = folder.join("src").join(name);
            if file.is_file() {
                let tests = found.entry(package.clone()).or_default();
                tests_of(&file, "", false, tests);
            }
        }
    }
    found
}

#[test]
fn each_filter_of_unit_tests_matches_one() {
    let found = filters(&fs::read_to_string(root().join(".ci/run")).unwrap());
    assert!(found.len() > 15, "the steps of Miri and loom: {found:?}");
    let tests = unit_tests();
    let is_idle = |filter: &&UnitFilter| {
        let mut of = tests
            .iter()
            .filter(|(name, _)| filter.package.is_empty() || **name == filter.package)
            .flat_map(|(_, tests)| tests);
        !of.any(|test| test.path.contains(&filter.word) && (test.under_miri || !filter.under_miri))
    };
    let idle: Vec<_> = found.iter().filter(is_idle).collect();
    assert!(idle.is_empty(), "these run nothing: {idle:?}");
}

#[test]
fn a_test_has_the_path_that_its_program_says() {
    let tests = &unit_tests()["framewright"];
    let of = |path: &str| tests.iter().find(|test| test.path == path);
    let index = "frame::pageblock::index::tests::";
    assert!(
        tests.iter().any(|test| test.path.starts_with(index)),
        "its file lies elsewhere"
    );
    assert!(of("raw::carve::tests::memory_that_holds_nothing_becomes_zeroes").is_some());
    let below_ram = |test: &&UnitTest| test.path.starts_with("vrange::tests::ram::");
    let ram: Vec<_> = tests.iter().filter(below_ram).collect();
    assert!(!ram.is_empty() && ram.iter().all(|test| !test.under_miri));
}

#[test]
fn filters_and_tests_are_found() {
    let script = "cargo test -p a --lib -- \\\n  x::{y,z}:: w\nmodel loom -p b --lib models\n\
                  cargo miri test --lib v\n";
    let words: Vec<String> = filters(script)
        .into_iter()
        .map(|found| format!("{} {} {}", found.package, found.word, found.under_miri))
        .collect();
    let expected = [
        "a x::y:: false",
        "a x::z:: false",
        "a w false",
        "b models false",
        " v true",
    ];
    assert_eq!(words, expected);
    let text = "#[test]\nfn a() {}\nfn b() {}\nmod tests {\n    #[test]\n    #[cfg(not(miri))]\n    fn c() {}\n}\n\
                #[cfg(not(miri))]\nuse x;\n#[cfg(not(miri))]\n#[test]\nfn d() {}\n#[cfg(not(miri))]\nmod e {\n    #[test]\n    fn f() {}\n}\n\
                #[test]\nfn g() {}\n";
    let found = tests_in("m::n", text, false);
    let found: Vec<_> = found
        .iter()
        .map(|test| (&*test.path, test.under_miri))
        .collect();
    let expected = [
        ("m::n::a", true),
        ("m::n::tests::c", false),
        ("m::n::d", false),
        ("m::n::e::f", false),
        ("m::n::g", true),
    ];
    assert_eq!(found, expected);
    let text = "#[cfg(not(miri))]\n#[path = \"x/y.rs\"]\nmod p;\nuse q;\npub(crate) mod r;\n";
    let found = declared(Path::new("s/t.rs"), Path::new("s/t"), text);
    let expected = [
        (PathBuf::from("s/x/y.rs"), "p".to_owned(), true),
        (PathBuf::from("s/t/r/mod.rs"), "r".to_owned(), false),
    ];
    assert_eq!(found, expected);
}
