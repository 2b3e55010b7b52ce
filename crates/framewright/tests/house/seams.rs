//! Files are seams, not pages: a file owns what it writes. Here are counted the files among which the `impl` blocks of
//! one type are spread, folder by folder, and the files of each folder. These counts may only fall. A folder below `crates`
//! may hold twelve files, tests included; four folders of tests hold more, and have a line each.

use super::sources::{files, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// A type may have its `impl` blocks in this many files of a folder without a line below.
const FILES_OF_A_TYPE: usize = 2;

/// The types that are spread wider: the engine's folder, the type, and the files. A change that gives a file a type of its
/// own lowers the number, or takes the line away.
const SPREAD: &[(&str, &str, usize)] = &[
    ("frame", "HeldBlock", 3),
    ("frame", "Seat", 7),
    ("frame", "SeatWords", 5),
    ("frame", "Zone", 14),
    ("kv", "Kv", 4),
    ("kv", "KvSeat", 7),
    ("reclaim", "Reclaim", 10),
    ("reserve", "Guest", 8),
    ("reserve", "MigrateArea", 6),
    ("reserve", "Reserve", 11),
    ("vrange", "Held", 15),
    ("vrange", "RangeSeat", 9),
    ("vrange", "Space", 11),
];

/// A folder of the engine may have this many files of its own without a line below.
const FILES_OF_A_FOLDER: usize = 10;

/// A folder of any crate may have so many; tests count, too.
const FILES_OF_ANY_FOLDER: usize = 12;

/// The engine's folders that have more, and how many they have.
const LONG: &[(&str, usize)] = &[("frame/seat", 11), ("platform", 11), ("policy", 12)];

/// The folders of the crates' own tests that have more: most of their files are a program each, or one format each.
const LONG_TESTS: &[(&str, usize)] = &[
    ("crates/framewright-lab/tests/replay", 15),
    ("crates/framewright-lab/tests/trace", 14),
    ("crates/framewright-linux/tests", 15),
    ("crates/framewright-sim/tests", 19),
];

/// The type that a line begins an `impl` block of, at the margin, where rustfmt leaves it.
fn implemented(header: &str) -> Option<&str> {
    let rest = header.strip_prefix("unsafe ").unwrap_or(header);
    let rest = rest.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(inside) => behind_generics(inside)?,
        None => rest.strip_prefix(' ')?,
    };
    let of_type = rest.split(" where ").next().unwrap_or(rest);
    let of_type = of_type.split_once(" for ").map_or(of_type, |(_, of)| of);
    // Behind a reference and its lifetime.
    let mut words = of_type.split_whitespace();
    let word = words.find(|word| !word.starts_with("&'"))?;
    let path = word.trim_start_matches('&').split(['<', '{', '(']).next()?;
    let name = path.rsplit("::").next()?;
    let is_name = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.len() > 1;
    is_name.then_some(name)
}

/// What follows the `>` that ends generics whose `<` was passed.
fn behind_generics(inside: &str) -> Option<&str> {
    let mut depth = 1;
    let mut before = ' ';
    for (at, c) in inside.char_indices() {
        match c {
            '<' => depth += 1,
            // The arrow of a function's type ends nothing.
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&inside[at + 1..]);
        }
        before = c;
    }
    None
}

/// The types of which a file has `impl` blocks, other than in the tests at its end.
fn implemented_in(text: &str) -> BTreeSet<String> {
    // A file's tests begin behind an attribute, which also stands before other things.
    let is_tests = |at: &usize| {
        let behind = text[*at..].lines().nth(1);
        behind.is_some_and(|line| line.starts_with("mod tests {"))
    };
    let marks = text.match_indices("#[cfg(").map(|(at, _)| at);
    let end = marks.filter(|at| is_tests(at)).min().unwrap_or(text.len());
    let mut found = BTreeSet::new();
    let mut header = String::new();
    for line in text[..end].lines() {
        let begins = line.starts_with("impl") || line.starts_with("unsafe impl");
        if !begins && header.is_empty() {
            continue;
        }
        header.push_str(line.trim());
        header.push(' ');
        if line.contains('{') {
            found.extend(implemented(&header).map(str::to_owned));
            header.clear();
        }
    }
    found
}

/// What is wrong with a count, if anything.
fn judge(what: &str, found: &[String], ceiling: usize) -> Option<String> {
    let count = found.len();
    if count < ceiling {
        return Some(format!(
            "{what}: {count} files of {ceiling}: lower that to {count}"
        ));
    }
    (count > ceiling).then(|| {
        format!(
            "{what}: {count} files, and at most {ceiling} may be: {}",
            found.join(", ")
        )
    })
}

/// Judges each count by its line in `table`, or by `most` where it has none. A line must be above `most`.
fn judge_all<K: Ord + Copy>(
    counts: &BTreeMap<String, Vec<String>>,
    table: &BTreeMap<K, usize>,
    name: fn(K) -> String,
    most: usize,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let listed: BTreeMap<String, usize> = table.iter().map(|(k, n)| (name(*k), *n)).collect();
    for (what, files) in counts {
        match listed.get(what) {
            Some(ceiling) => wrong.extend(judge(what, files, *ceiling)),
            None if files.len() > most => wrong.extend(judge(what, files, most)),
            None => {}
        }
    }
    for (what, ceiling) in &listed {
        if !counts.contains_key(what) || *ceiling <= most {
            wrong.push(format!(
                "{what}: the line says no more than its absence would"
            ));
        }
    }
    wrong
}

/// The files of the engine that are no tests, each with its folder, from `src`.
fn engine_files() -> Vec<(String, String, String)> {
    let src = root().join("crates/framewright/src");
    let mut found = Vec::new();
    for file in files(&src, "rs") {
        let inside = file.strip_prefix(&src).unwrap();
        let is_tests = inside.iter().any(|part| part == "tests") || inside.ends_with("tests.rs");
        if is_tests {
            continue;
        }
        let folder = inside.parent().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&file).unwrap();
        found.push((folder, inside.to_str().unwrap().to_owned(), text));
    }
    found
}

#[test]
fn one_type_is_spread_over_few_files_and_fewer_as_time_goes_on() {
    let mut counts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (folder, file, text) in engine_files() {
        let top = folder.split('/').next().unwrap_or("");
        for name in implemented_in(&text) {
            let of = counts.entry(format!("{top}, {name}")).or_default();
            of.push(file.clone());
        }
    }
    assert!(counts.len() > 100, "the types were not found");
    let table = SPREAD
        .iter()
        .map(|(top, name, files)| ((*top, *name), *files));
    let wrong = judge_all(
        &counts,
        &table.collect(),
        |(top, name)| format!("{top}, {name}"),
        FILES_OF_A_TYPE,
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_folder_has_few_files_and_fewer_as_time_goes_on() {
    let mut counts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (folder, file, _) in engine_files() {
        counts.entry(folder).or_default().push(file);
    }
    let table = LONG.iter().copied().collect();
    let wrong = judge_all(&counts, &table, str::to_owned, FILES_OF_A_FOLDER);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_folder_of_a_crate_is_a_heap() {
    let mut counts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files(&root().join("crates"), "rs") {
        let inside = file.strip_prefix(root()).unwrap();
        let folder = inside.parent().unwrap().display().to_string();
        counts
            .entry(folder)
            .or_default()
            .push(inside.display().to_string());
    }
    assert!(counts.len() > 100, "the folders were not found");
    let wrong = judge_all(
        &counts,
        &LONG_TESTS.iter().copied().collect(),
        str::to_owned,
        FILES_OF_ANY_FOLDER,
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// `docs/kernel-machine.md` says so: what any kernel would repeat belongs to the engine or to the crates of its platform.
#[test]
fn what_a_kernels_author_writes_is_shorter_than_300_lines() {
    let file = root().join("kernel/src/memory.rs");
    let lines = fs::read_to_string(file).unwrap().lines().count();
    assert!((100..300).contains(&lines), "{lines} lines");
}

#[test]
fn the_rules_above_can_fail() {
    let text = "impl<'m, F: Fn(u32) -> Option<u8>> Zone<'m, F> {\nimpl fmt::Debug\n    for units::Order\n{\n\
                unsafe impl<T> Send for &'a Held<T> where T: Sync {}\n    impl Inner {}\nimpl<T> From<T> for u8 {}\n\
                #[cfg(test)]\nuse that;\nimpl Last {}\n#[cfg(test)]\nmod tests {\nimpl Toy {}\n";
    let found: Vec<String> = implemented_in(text).into_iter().collect();
    assert_eq!(found, ["Held", "Last", "Order", "Zone"]);
    let of = |files: usize| BTreeMap::from([("a".to_owned(), vec!["f".to_owned(); files])]);
    let judged = |files, ceilings: &[(&'static str, usize)]| {
        let table = ceilings.iter().copied().collect();
        judge_all(&of(files), &table, str::to_owned, 2)
    };
    assert!(judged(2, &[]).is_empty() && judged(4, &[("a", 4)]).is_empty());
    assert!(judged(3, &[])[0].contains("at most 2"));
    assert!(judged(5, &[("a", 4)])[0].contains("at most 4"));
    assert!(judged(3, &[("a", 4)])[0].contains("lower that to 3"));
    assert!(judged(2, &[("a", 2)])[0].contains("no more than its absence"));
    assert!(judged(2, &[("b", 3)])[0].starts_with("b: "));
}
