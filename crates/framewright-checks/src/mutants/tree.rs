//! A copy of the workspace with all mutants in it, each behind a question that is asked at run time:
//! so it is built once, not once for each.

use super::spec::Mutant;
use crate::anchor;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// What is added to the copied engine.
const HOOK: &str = include_str!("../../hook/mutants.rs");
const HOOK_AT: &str = "crates/framewright/src/mutants_hook.rs";
const LIB: &str = "crates/framewright/src/lib.rs";
const LIB_END: &str = "\n#[allow(unsafe_code)]\n#[doc(hidden)]\npub mod mutants_hook;\npub use mutants_hook::mutant;\n";

/// A mutant's place in its file.
#[derive(Debug)]
struct MutantSite<'s> {
    range: Range<usize>,
    mutant: &'s Mutant,
}

/// A file with its mutants in it.
///
/// # Errors
/// Which mutant does not fit.
pub(crate) fn mutate(path: &str, text: &str, mutants: &[&Mutant]) -> Result<String, String> {
    let (mut sites, mut wrong) = (Vec::new(), Vec::new());
    for mutant in mutants {
        match anchor::find(text, &mutant.at, mutant.inside.as_deref()) {
            Ok(range) => sites.push(MutantSite { range, mutant }),
            Err(error) => wrong.push(format!("{}: {path}: {error}", mutant.name)),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong.join("\n"));
    }
    // Outer ones first; of two at the same place the first is the outer one.
    sites.sort_by_key(|site| (site.range.start, usize::MAX - site.range.end));
    let hook = match path.starts_with("crates/framewright/src/") {
        true => "crate::mutant",
        false => "framewright::mutant",
    };
    render(text, 0..text.len(), &sites, hook)
        .map_err(|name| format!("{path}: {name} cuts another one"))
}

fn render(
    text: &str,
    range: Range<usize>,
    mut sites: &[MutantSite<'_>],
    hook: &str,
) -> Result<String, String> {
    let mut out = String::new();
    let mut at = range.start;
    while let Some((site, rest)) = sites.split_first() {
        let here = site.range.clone();
        let inner = rest.iter().take_while(|other| other.range.start < here.end);
        let (inner, rest) = rest.split_at(inner.count());
        if here.end > range.end {
            return Err(site.mutant.name.clone());
        }
        out.push_str(&text[at..here.start]);
        let old = render(text, here.clone(), inner, hook)?;
        let (number, new) = (site.mutant.number(), &site.mutant.new);
        let chosen = format!("if {hook}({number}) {{ {new} }} else {{ {old} }}");
        // A statement stands by itself; an expression in another one.
        if text[here.clone()].ends_with([';', '}']) {
            out.push_str(&chosen);
        } else {
            out.push_str(&format!("({chosen})"));
        }
        at = here.end;
        sites = rest;
    }
    out.push_str(&text[at..range.end]);
    Ok(out)
}

/// Every file with mutants, with them in it.
///
/// # Errors
/// All mutants that do not fit.
pub(crate) fn mutated(root: &Path, mutants: &[Mutant]) -> Result<BTreeMap<String, String>, String> {
    let mut files: BTreeMap<&str, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        files.entry(&mutant.file).or_default().push(mutant);
    }
    let (mut changed, mut wrong) = (BTreeMap::new(), Vec::new());
    for (path, mutants) in files {
        let text = fs::read_to_string(root.join(path));
        let text = text.map_err(|error| format!("{path}: {error}"));
        match text.and_then(|text| mutate(path, &text, &mutants)) {
            Ok(text) => _ = changed.insert(path.to_owned(), text),
            Err(error) => wrong.push(error),
        }
    }
    match wrong.is_empty() {
        true => Ok(changed),
        false => Err(wrong.join("\n")),
    }
}

/// Brings the copy up to date. What has not changed is not touched, so that it is not built again.
///
/// # Errors
/// What could not be read or written, or which mutant does not fit.
pub(crate) fn prepare(root: &Path, tree: &Path, mutants: &[Mutant]) -> Result<(), String> {
    let mut changed = mutated(root, mutants)?;
    let lib = match changed.remove(LIB) {
        Some(lib) => lib,
        None => fs::read_to_string(root.join(LIB)).map_err(|error| format!("{LIB}: {error}"))?,
    };
    changed.insert(LIB.into(), lib + LIB_END);
    changed.insert(HOOK_AT.into(), HOOK.into());
    let mut files = tracked(root).map_err(|error| format!("git ls-files: {error}"))?;
    for path in &files {
        let bytes = match changed.get(path) {
            Some(text) => text.clone().into_bytes(),
            None => fs::read(root.join(path)).map_err(|error| format!("{path}: {error}"))?,
        };
        write(&tree.join(path), &bytes).map_err(|error| format!("{path}: {error}"))?;
    }
    write(&tree.join(HOOK_AT), HOOK.as_bytes()).map_err(|error| format!("{HOOK_AT}: {error}"))?;
    files.insert(HOOK_AT.into());
    sweep(tree, tree, &files).map_err(|error| format!("{}: {error}", tree.display()))
}

/// The files of the working tree that git knows, or would add.
fn tracked(root: &Path) -> io::Result<BTreeSet<String>> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()?;
    if !listed.status.success() {
        return Err(io::Error::other(
            String::from_utf8_lossy(&listed.stderr).trim().to_owned(),
        ));
    }
    let paths = String::from_utf8_lossy(&listed.stdout);
    let paths = paths.split('\0').filter(|path| !path.is_empty());
    Ok(paths
        .filter(|path| root.join(path).is_file())
        .map(str::to_owned)
        .collect())
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|there| there == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// Removes files that the workspace no longer has.
fn sweep(tree: &Path, folder: &Path, files: &BTreeSet<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sweep(tree, &path, files)?;
            continue;
        }
        let inside = path.strip_prefix(tree).expect("it lies in the tree");
        if !files.contains(&*inside.to_string_lossy()) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(at: &str, new: &str) -> Mutant {
        Mutant {
            name: at.into(),
            rule: String::new(),
            keeper: String::new(),
            file: String::new(),
            at: at.into(),
            inside: None,
            new: new.into(),
            checks: Vec::new(),
            escapes: None,
        }
    }

    fn mutated(path: &str, text: &str, all: &[Mutant]) -> Result<String, String> {
        mutate(path, text, &all.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_mutant_stands_behind_a_question_and_may_lie_in_another() {
        let all = [
            mutant("a.b(«c»)", "d"),
            mutant("a.b(c);", ""),
            mutant("e", "f"),
        ];
        let text = mutated("crates/framewright/src/x.rs", "a.b(c); g(e)", &all).unwrap();
        let [c, b, e] = all.map(|mutant| mutant.number());
        let inner = format!("a.b((if crate::mutant({c}) {{ d }} else {{ c }}));");
        let first = format!("if crate::mutant({b}) {{  }} else {{ {inner} }}");
        let second = format!(" g((if crate::mutant({e}) {{ f }} else {{ e }}))");
        assert_eq!(text, first + &second);
    }

    #[test]
    fn mutants_that_cut_each_other_or_do_not_fit_are_errors() {
        let all = [mutant("a b", ""), mutant("b c", "")];
        let error = mutated("x", "a b c", &all).unwrap_err();
        assert_eq!(error, "x: b c cuts another one");
        let error = mutated("x", "a c", &all).unwrap_err();
        assert_eq!(
            error,
            "a b: x: `a b` is not there\nb c: x: `b c` is not there"
        );
    }
}
