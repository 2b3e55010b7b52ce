//! What is looked at, and what is excused: `coverage.toml`.

use crate::anchor;
use serde::Deserialize;
use std::ops::Range;
use std::path::Path;

const PATH: &str = "crates/framewright-checks/coverage.toml";

/// A run of the models as CI has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
    /// How many operations CI runs.
    pub(crate) ops: u64,
}

/// A test that CI runs, all of it or those that its arguments name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Test {
    pub(crate) package: String,
    pub(crate) target: String,
    /// Built for shuttle's schedules.
    #[serde(default)]
    pub(crate) is_shuttle: bool,
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
}

/// Code that may be reached rarely wherever it stands, as far as its brackets go.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Everywhere {
    begins: String,
    reason: String,
}

/// A place that may be reached rarely; one that ends with an opening bracket goes on to the closing one.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Excuse {
    pub(crate) file: String,
    /// See [`crate::anchor`].
    pub(crate) at: String,
    inside: Option<String>,
    reason: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    files: Vec<String>,
    run: Vec<Run>,
    #[serde(default)]
    test: Vec<Test>,
    #[serde(default)]
    everywhere: Vec<Everywhere>,
    #[serde(default)]
    excuse: Vec<Excuse>,
}

#[derive(Clone, Debug)]
pub(crate) struct Spec {
    pub(crate) files: Vec<String>,
    pub(crate) runs: Vec<Run>,
    pub(crate) tests: Vec<Test>,
    everywhere: Vec<String>,
    pub(crate) excuses: Vec<Excuse>,
}

impl Spec {
    /// Reads it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(root.join(PATH));
        let text = text.map_err(|error| format!("{PATH}: {error}"))?;
        let file: File = toml::from_str(&text).map_err(|error| format!("{PATH}: {error}"))?;
        for excuse in &file.excuse {
            if !file.files.contains(&excuse.file) || excuse.reason.is_empty() {
                let at = excuse.at.trim();
                return Err(format!(
                    "{PATH}: `{at}`: no reason, or not a file that is looked at"
                ));
            }
        }
        if let Some(Everywhere { begins, .. }) =
            file.everywhere.iter().find(|e| e.reason.is_empty())
        {
            return Err(format!("{PATH}: `{begins}`: no reason"));
        }
        Ok(Self {
            files: file.files,
            runs: file.run,
            tests: file.test,
            everywhere: file.everywhere.into_iter().map(|e| e.begins).collect(),
            excuses: file.excuse,
        })
    }

    /// The places of a file that are excused because of what they are.
    pub(crate) fn everywhere(&self, text: &str) -> Vec<Range<usize>> {
        let begins = self.everywhere.iter();
        let places = begins.flat_map(|begins| text.match_indices(begins));
        places
            .map(|(at, begins)| with_body(text, at..at + begins.len()))
            .collect()
    }

    /// The places of a file that are excused, with the numbers of their excuses.
    ///
    /// # Errors
    /// The excuse whose place is not there.
    pub(crate) fn excuses_of(
        &self,
        file: &str,
        text: &str,
    ) -> Result<Vec<(Range<usize>, usize)>, String> {
        let excuses = self.excuses.iter().enumerate();
        let excuses = excuses.filter(|(_, excuse)| excuse.file == file);
        excuses
            .map(|(nth, excuse)| {
                let range = anchor::find(text, &excuse.at, excuse.inside.as_deref());
                range
                    .map(|range| (with_body(text, range), nth))
                    .map_err(|error| format!("{PATH}: {file}: {error}"))
            })
            .collect()
    }
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
        let spec = Spec::read(&root).unwrap();
        for file in &spec.files {
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            spec.excuses_of(file, &text).unwrap();
        }
    }

    #[test]
    fn the_operations_are_those_of_ci() {
        let root = crate::root();
        let ci = std::fs::read_to_string(root.join(".ci/run")).unwrap();
        for run in Spec::read(&root).unwrap().runs {
            let ops = format!("_OPS:-{}}}", run.ops);
            assert!(ci.contains(&ops), "{:?} {ops}", run.arguments);
        }
    }
}
