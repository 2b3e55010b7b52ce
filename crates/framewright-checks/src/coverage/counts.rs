//! What `llvm-cov export` says.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Line, column, line and column behind, counts, and numbers that say what it is.
type CoverageNumbers = Vec<i64>;

#[derive(Deserialize)]
struct Export {
    data: Vec<ExportData>,
}

#[derive(Deserialize)]
struct ExportData {
    functions: Vec<Function>,
}

#[derive(Deserialize)]
struct Function {
    filenames: Vec<String>,
    regions: Vec<CoverageNumbers>,
    #[serde(default)]
    branches: Vec<CoverageNumbers>,
}

/// What a place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Reached,
    True,
    False,
}

impl std::fmt::Display for What {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reached => "reached",
            Self::True => "true",
            Self::False => "false",
        })
    }
}

/// A place in a file, and how often it was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CountedPlace {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) what: What,
    pub(crate) count: u64,
}

/// Of all files, how often each place was reached, in all copies of a generic function together.
pub(crate) struct PlaceCounts(BTreeMap<(String, CoverageNumbers, What), u64>);

/// The kind of a region that is code.
const CODE: i64 = 0;

impl PlaceCounts {
    /// Reads what was exported of files below `root`.
    ///
    /// # Errors
    /// It is not what is expected.
    pub(crate) fn read(json: &[u8], root: &Path) -> Result<Self, String> {
        let export: Export =
            serde_json::from_slice(json).map_err(|error| format!("llvm-cov export: {error}"))?;
        let mut counts = BTreeMap::new();
        let mut add =
            |function: &Function, numbers: &CoverageNumbers, file: usize, what, count: i64| {
                let Some(path) = numbers
                    .get(file)
                    .and_then(|file| function.filenames.get(*file as usize))
                else {
                    return;
                };
                let path = Path::new(path);
                let Ok(path) = path.strip_prefix(root) else {
                    return;
                };
                let key = (
                    path.to_string_lossy().into_owned(),
                    numbers[..4].to_vec(),
                    what,
                );
                *counts.entry(key).or_insert(0) += count as u64;
            };
        for function in export.data.iter().flat_map(|data| &data.functions) {
            for region in &function.regions {
                if region.len() == 8 && region[7] == CODE {
                    add(function, region, 5, What::Reached, region[4]);
                }
            }
            for branch in &function.branches {
                if branch.len() == 9 {
                    add(function, branch, 6, What::True, branch[4]);
                    add(function, branch, 6, What::False, branch[5]);
                }
            }
        }
        match counts.keys().any(|(_, _, what)| *what == What::False) {
            true => Ok(Self(counts)),
            false => Err("llvm-cov export: there are no branches in it".into()),
        }
    }

    /// The places of a file.
    pub(crate) fn of(&self, file: &str) -> Vec<CountedPlace> {
        let all = self.0.iter().filter(|((path, ..), _)| path == file);
        all.map(|((_, numbers, what), &count)| CountedPlace {
            line: numbers[0] as usize,
            column: numbers[1] as usize,
            what: *what,
            count,
        })
        .collect()
    }
}

/// The byte at which a line and a column are, both from 1.
pub(crate) fn offset(text: &str, line: usize, column: usize) -> usize {
    let start: usize = text
        .split_inclusive('\n')
        .take(line - 1)
        .map(str::len)
        .sum();
    start + column - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_function_are_counted_together() {
        let function = r#"{"filenames":["/r/a.rs"],"regions":[[1,2,3,4,7,0,0,0],[9,9,9,9,1,0,0,3]],
            "branches":[[5,6,5,8,2,3,0,0,4]]}"#;
        let json = format!(r#"{{"data":[{{"functions":[{function},{function}]}}]}}"#);
        let counts = PlaceCounts::read(json.as_bytes(), Path::new("/r")).unwrap();
        let sites = counts.of("a.rs");
        let seen: Vec<_> = sites.iter().map(|s| (s.line, s.what, s.count)).collect();
        let expected = [
            (1, What::Reached, 14),
            (5, What::True, 4),
            (5, What::False, 6),
        ];
        assert_eq!(seen, expected);
        assert_eq!(offset("ab\ncde\n", 2, 3), 5);
    }
}
