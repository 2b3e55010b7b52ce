//! Each link of a document leads somewhere: to a file of the repository and, where it names a
//! heading, to a heading of that file. Each page of `docs/` stands in the book once.

use super::sources::{files, root};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// README and its like, those of the crates, and the pages of `docs/`.
fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.extension().is_some_and(|e| e == "md"))
        .collect();
    found.extend(files(&root().join("docs"), "md"));
    let readmes = packages().into_iter().map(|(folder, _)| folder);
    found.extend(
        readmes
            .map(|folder| folder.join("README.md"))
            .filter(|path| path.exists()),
    );
    found.sort();
    found
}

/// The packages that others may use, in `crates` and `adapters`: their folders, and what Cargo is told of them.
fn packages() -> Vec<(PathBuf, String)> {
    ["crates", "adapters"]
        .iter()
        .flat_map(|folder| files(&root().join(folder), "toml"))
        .filter(|path| path.ends_with("Cargo.toml"))
        .map(|path| {
            let text = fs::read_to_string(&path).unwrap();
            (path.parent().unwrap().to_owned(), text)
        })
        .filter(|(_, text)| text.contains("[package]") && !text.contains("publish = false"))
        .collect()
}

/// The lines outside of programs and outputs.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((at + 1, line))
    })
}

/// The name by which a link knows a heading.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>()
        .trim()
        .to_lowercase()
        .replace(' ', "-")
}

fn anchors(text: &str) -> Vec<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    headings
        .map(|(_, line)| {
            let name = anchor(line.trim_start_matches('#'));
            let before = times.entry(name.clone()).or_default();
            *before += 1;
            match *before {
                1 => name,
                n => format!("{name}-{}", n - 1),
            }
        })
        .collect()
}

/// The targets of the links in a text, with their lines.
fn targets(text: &str) -> Vec<(usize, String)> {
    prose(text)
        .flat_map(|(at, line)| {
            line.match_indices("](").filter_map(move |(start, _)| {
                let rest = &line[start + 2..];
                let end = rest.find(')')?;
                Some((at, rest[..end].to_owned()))
            })
        })
        .collect()
}

/// What is wrong with the links of a document at `path`.
fn broken(path: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (line, target) in targets(text) {
        if target.contains("://") {
            continue;
        }
        let (file, heading) = target.split_once('#').unwrap_or((&target, ""));
        let to = if file.is_empty() {
            path.to_owned()
        } else {
            path.parent().unwrap().join(file)
        };
        let what = if !to.exists() {
            "no such file"
        } else if !heading.is_empty()
            && !anchors(&fs::read_to_string(&to).unwrap()).contains(&heading.to_owned())
        {
            "no such heading"
        } else {
            continue;
        };
        found.push(format!("{}:{line}: {target}: {what}", path.display()));
    }
    found
}

#[test]
fn every_link_leads_somewhere() {
    let found: Vec<String> = documents()
        .iter()
        .flat_map(|path| broken(path, &fs::read_to_string(path).unwrap()))
        .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn a_newcomer_reads_the_readme_to_its_end() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    assert!(
        readme.lines().count() <= 150,
        "README.md is for a first reading: what is more belongs into docs"
    );
}

/// The crates whose README's program is no doctest, and why.
const PROGRAMS_ELSEWHERE: &[(&str, &str)] = &[
    (
        "crates/framewright-capi",
        "it is in C: `tests/c.rs` runs it",
    ),
    (
        "crates/framewright-capi-kernel",
        "it is in C: `tests/c.rs` compiles it",
    ),
    (
        OSTDS,
        "it takes OSTD's own flags: `adapters/ostd/kernel` has the same lines",
    ),
];

const OSTDS: &str = "adapters/ostd/framewright-ostd";

/// What stands behind the fences with which a text begins programs and outputs.
fn fences(text: &str) -> Vec<&str> {
    let fences = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("```"));
    fences.step_by(2).collect()
}

/// What is wrong with the fences of a README that is compiled: one of Rust is compiled, whole, and there is one.
fn uncompiled(readme: &str) -> Vec<String> {
    let is_rust = |fence: &&str| matches!(*fence, "rust" | "rust,no_run");
    let (programs, others): (Vec<&str>, Vec<&str>) = fences(readme).into_iter().partition(is_rust);
    let others = others.into_iter().filter(|fence| *fence != "sh");
    let mut wrong: Vec<_> = others
        .map(|fence| format!("nothing compiles what follows ```{fence}"))
        .collect();
    if programs.is_empty() {
        wrong.push("no program for the compiler".to_owned());
    }
    wrong
}

/// The lines without the blanks before and behind them.
fn trimmed(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

#[test]
fn ostds_kernel_has_the_program_of_the_readme() {
    let ostd = root().join(OSTDS);
    let readme = fs::read_to_string(ostd.join("README.md")).unwrap();
    let program = readme.split("```rust,ignore\n").nth(1).unwrap();
    let program = trimmed(program.split("```").next().unwrap());
    let kernel = fs::read_to_string(ostd.join("../kernel/src/choice.rs")).unwrap();
    let is_there = trimmed(&kernel)
        .windows(program.len())
        .any(|lines| lines == program);
    assert!(program.len() > 5 && is_there, "{program:#?}");
}

#[test]
fn each_published_crate_says_what_it_is() {
    let packages = packages();
    assert!(packages.len() > 15, "the crates and the adapters");
    let mut wrong = Vec::new();
    for (folder, text) in packages {
        let readme = fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        let shown = folder.strip_prefix(root()).unwrap().display();
        let lines = readme.lines().count();
        if !(25..=60).contains(&lines) {
            wrong.push(format!("{shown}: a README of {lines} lines"));
        }
        for part in ["\n```", "Licence: MIT OR Apache-2.0"] {
            if !readme.contains(part) {
                wrong.push(format!("{shown}: its README has no {}", part.trim()));
            }
        }
        let library = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
        let is_compiled = library.contains(r#"include_str!("../README.md")"#);
        let is_elsewhere = PROGRAMS_ELSEWHERE
            .iter()
            .any(|(other, _)| folder == root().join(other));
        if is_compiled == is_elsewhere {
            wrong.push(format!("{shown}: its README's program is no doctest"));
        }
        if !is_elsewhere {
            let uncompiled = uncompiled(&readme).into_iter();
            wrong.extend(uncompiled.map(|what| format!("{shown}: its README: {what}")));
        }
        // Which targets docs.rs shows; adapters are not there.
        if folder.starts_with(root().join("crates")) && !text.contains("[package.metadata.docs.rs]")
        {
            wrong.push(format!("{shown}: docs.rs is told nothing"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_page_of_the_documents_stands_in_the_book_once() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let mut listed: Vec<PathBuf> = targets(&fs::read_to_string(&summary).unwrap())
        .into_iter()
        .map(|(_, target)| docs.join(target))
        .collect();
    listed.sort();
    let mut pages = files(&docs, "md");
    pages.retain(|page| *page != summary);
    pages.sort();
    assert_eq!(listed, pages);
}

#[test]
fn a_program_that_nothing_compiles_is_found() {
    let readme = |fence| format!("a\n```{fence}\nb();\n```\n```sh\nc\n```\n");
    for fence in ["rust", "rust,no_run"] {
        assert_eq!(uncompiled(&readme(fence)), [""; 0]);
    }
    for fence in ["text", "rust,ignore", "ignore", "rust, no_run", ""] {
        let nothing = format!("nothing compiles what follows ```{fence}");
        let wanted = [&nothing, "no program for the compiler"];
        assert_eq!(uncompiled(&readme(fence)), wanted);
    }
    let beside = format!("{}```rust,ignore\n```\n", readme("rust"));
    assert_eq!(uncompiled(&beside).len(), 1);
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let here = root().join("README.md");
    let said = broken(
        &here,
        "a [b](docs/nothing.md)\n```\n[c](none)\n```\n[d](#no-such)",
    );
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].ends_with("README.md:1: docs/nothing.md: no such file"));
    assert!(said[1].ends_with("README.md:5: #no-such: no such heading"));
    assert!(broken(&here, "[e](#two-commands) [f](https://example.org/x)").is_empty());
    assert_eq!(anchors("# A `b`: c\n# A `b`: c"), ["a-b-c", "a-b-c-1"]);
}
