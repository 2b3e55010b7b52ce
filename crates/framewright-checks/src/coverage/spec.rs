//! What is looked at, and what is excused: `coverage.toml`.

use crate::anchor;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

const PATH: &str = "crates/framewright-checks/coverage.toml";
const ENGINE: &str = "crates/framewright/src";

/// A run of the models as CI has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelRun {
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
    /// How many operations CI runs.
    pub(crate) ops: u64,
}

/// A file of the engine's that is looked at, all of it or some of its functions.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LookedAt {
    file: String,
    #[serde(default)]
    only: Vec<String>,
}

/// Code that may be reached rarely wherever it stands, as far as its brackets go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Everywhere {
    text: String,
    because: String,
}

/// Places of a function, or all of it, that may be reached rarely.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Excuse {
    file: String,
    /// The function, by a part of its text that the file has once.
    inside: String,
    /// See [`crate::anchor`]; a place that ends with an opening bracket goes on to the closing one. All of the
    /// function if there is none.
    #[serde(default)]
    at: Vec<String>,
    because: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CoverageFile {
    /// The reasons, by the names under which excuses give them.
    reasons: BTreeMap<String, String>,
    looked: Vec<LookedAt>,
    run: Vec<ModelRun>,
    #[serde(default)]
    everywhere: Vec<Everywhere>,
    #[serde(default)]
    excuse: Vec<Excuse>,
}

/// Which excuse: of those that hold everywhere, or of the others and there which place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum ExcuseName {
    Everywhere(usize),
    At(usize, usize),
}

#[derive(Clone, Debug)]
pub(crate) struct CoverageSpec {
    pub(crate) files: Vec<LookedAt>,
    pub(crate) runs: Vec<ModelRun>,
    everywhere: Vec<Everywhere>,
    excuses: Vec<Excuse>,
}

impl LookedAt {
    /// From the root.
    pub(crate) fn path(&self) -> String {
        format!("{ENGINE}/{}", self.file)
    }

    /// What of its text is looked at.
    ///
    /// # Errors
    /// The function that is not there.
    pub(crate) fn parts(&self, text: &str) -> Result<Vec<Range<usize>>, String> {
        if self.only.is_empty() {
            return Ok(std::iter::once(0..text.len()).collect());
        }
        let part = |inside: &String| function(text, inside).map_err(|error| self.failed(&error));
        self.only.iter().map(part).collect()
    }

    fn failed(&self, error: &str) -> String {
        format!("{PATH}: {}: {error}", self.file)
    }
}

impl CoverageSpec {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(root.join(PATH));
        let text = text.map_err(|error| format!("{PATH}: {error}"))?;
        let file: CoverageFile =
            toml::from_str(&text).map_err(|error| format!("{PATH}: {error}"))?;
        let given = file.excuse.iter().map(|excuse| &excuse.because);
        let given = given.chain(file.everywhere.iter().map(|excuse| &excuse.because));
        let given: BTreeSet<_> = given.collect();
        let known: BTreeSet<_> = file.reasons.keys().collect();
        if let Some(name) = given.symmetric_difference(&known).next() {
            return Err(format!(
                "{PATH}: `{name}` is no reason, or no excuse has it"
            ));
        }
        let is_looked_at = |excuse: &&Excuse| !file.looked.iter().any(|f| f.file == excuse.file);
        if let Some(Excuse { file, inside, .. }) = file.excuse.iter().find(is_looked_at) {
            return Err(format!(
                "{PATH}: `{inside}`: {file} is no file that is looked at"
            ));
        }
        Ok(Self {
            files: file.looked,
            runs: file.run,
            everywhere: file.everywhere,
            excuses: file.excuse,
        })
    }

    /// The places of a file that are excused, with the names of their excuses.
    ///
    /// # Errors
    /// The excuse whose place is not there.
    pub(crate) fn excuses_of(
        &self,
        file: &LookedAt,
        text: &str,
    ) -> Result<Vec<(Range<usize>, ExcuseName)>, String> {
        let mut ranges = Vec::new();
        for (nth, everywhere) in self.everywhere.iter().enumerate() {
            let places = text.match_indices(&everywhere.text);
            let places = places.map(|(at, found)| with_body(text, at..at + found.len()));
            ranges.extend(places.map(|range| (range, ExcuseName::Everywhere(nth))));
        }
        for (nth, excuse) in self.excuses.iter().enumerate() {
            if excuse.file != file.file {
                continue;
            }
            let failed = |error: String| file.failed(&error);
            if excuse.at.is_empty() {
                let all = function(text, &excuse.inside).map_err(failed)?;
                ranges.push((all, ExcuseName::At(nth, 0)));
            }
            for (place, at) in excuse.at.iter().enumerate() {
                let range = anchor::find(text, at, Some(&excuse.inside)).map_err(failed)?;
                ranges.push((with_body(text, range), ExcuseName::At(nth, place)));
            }
        }
        Ok(ranges)
    }

    /// All excuses, with what they excuse in words.
    pub(crate) fn names(&self) -> impl Iterator<Item = (ExcuseName, String)> + '_ {
        let everywhere = self.everywhere.iter().enumerate();
        let everywhere = everywhere.map(|(nth, e)| {
            (
                ExcuseName::Everywhere(nth),
                format!("everywhere: `{}`", e.text),
            )
        });
        let excuses = self.excuses.iter().enumerate();
        everywhere.chain(excuses.flat_map(|(nth, excuse)| {
            let (file, inside) = (&excuse.file, &excuse.inside);
            let all = excuse.at.is_empty().then(|| format!("{file}: `{inside}`"));
            let places = excuse.at.iter();
            let places = places.map(move |at| format!("{file}: `{inside}`: `{}`", at.trim()));
            let names = all.into_iter().chain(places).enumerate();
            names.map(move |(place, what)| (ExcuseName::At(nth, place), what))
        }))
    }
}

/// A function, from a part of its text on.
fn function(text: &str, inside: &str) -> Result<Range<usize>, String> {
    let range = anchor::find(text, inside, None)?;
    // As there, not a brace of a pattern's.
    let from = range.end - 1;
    let open = text[from..].find('{').ok_or("has no body")?;
    Ok(range.start..with_body(text, from..from + open + 1).end)
}

/// A range, and what is in the brackets that it ends with.
fn with_body(text: &str, range: Range<usize>) -> Range<usize> {
    let (open, close) = match text.as_bytes()[range.end - 1] {
        b'{' => (b'{', b'}'),
        b'(' => (b'(', b')'),
        _ => return range,
    };
    let mut depth = 1;
    let closes = |(_, byte): &(usize, u8)| {
        depth += i32::from(*byte == open) - i32::from(*byte == close);
        depth == 0
    };
    let end = text.bytes().enumerate().skip(range.end).find(closes);
    range.start..end.map_or(text.len(), |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_excused_place_still_fits_its_source() {
        let root = crate::root();
        let spec = CoverageSpec::read(&root).unwrap();
        let mut named = BTreeSet::new();
        for file in &spec.files {
            let text = std::fs::read_to_string(root.join(file.path())).unwrap();
            let parts = file.parts(&text).unwrap();
            for (range, name) in spec.excuses_of(file, &text).unwrap() {
                let is_inside = parts.iter().any(|part| part.contains(&range.start));
                named.extend(is_inside.then_some(name));
            }
        }
        for (name, what) in spec.names() {
            assert!(named.contains(&name), "{what}: nowhere where it is looked");
        }
    }

    #[test]
    fn a_function_ends_with_its_body() {
        let text = "fn a(b: u8) {\n    if b { c() }\n}\nfn d() {}\n";
        let found = |inside| function(text, inside).map(|range| &text[range]);
        assert_eq!(found("fn a("), Ok(&text[..text.find("\nfn d").unwrap()]));
        assert_eq!(found("fn d("), Ok("fn d() {}"));
        assert!(found("fn e(").is_err());
    }

    #[test]
    fn the_operations_are_those_of_ci() {
        let root = crate::root();
        let ci = std::fs::read_to_string(root.join(".ci/run")).unwrap();
        for run in CoverageSpec::read(&root).unwrap().runs {
            let ops = format!("_OPS:-{}}}", run.ops);
            assert!(ci.contains(&ops), "{:?} {ops}", run.arguments);
        }
    }
}
