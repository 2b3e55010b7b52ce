//! What the mutants and the checks are: `mutants/*.toml`.

use serde::Deserialize;
use std::path::Path;

/// One rule's keeper, and what is left when it is gone.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutant {
    pub(crate) name: String,
    /// The letter of the invariant that it keeps.
    pub(crate) rule: String,
    /// What keeps it, in words.
    pub(crate) keeper: String,
    pub(crate) file: String,
    /// Where in the file: see [`crate::anchor`].
    pub(crate) at: String,
    pub(crate) inside: Option<String>,
    /// What stands there instead.
    pub(crate) new: String,
    /// Those that are tried, the quickest first, until one fails.
    pub(crate) checks: Vec<String>,
    /// Why no check can fail, if it is known that none does.
    pub(crate) escapes: Option<String>,
}

impl Mutant {
    /// What it is asked for at run time: by its name alone, so that a further mutant changes no other file
    /// of the copy (FNV-1a).
    pub(crate) fn number(&self) -> u32 {
        let bytes = self.name.bytes();
        bytes.fold(0x811c_9dc5, |hash: u32, byte| {
            (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
        })
    }
}

/// With what a check is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Build {
    /// As `cargo test` builds it, with assertions.
    Dev,
    /// Optimised, without them.
    Release,
    Loom,
    Shuttle,
}

/// A program that fails when it sees a broken rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    pub(crate) name: String,
    pub(crate) build: Build,
    pub(crate) package: String,
    /// `lib`, `test NAME` or `example NAME`.
    pub(crate) target: String,
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
}

/// A subsystem's mutants.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MutantFile {
    #[serde(default)]
    mutant: Vec<Mutant>,
    #[serde(default)]
    check: Vec<Check>,
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct MutantSpec {
    pub(crate) mutants: Vec<Mutant>,
    pub(crate) checks: Vec<Check>,
}

impl MutantSpec {
    /// Reads all files of the folder, in the order of their names.
    ///
    /// # Errors
    /// The file, and what is wrong with it.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        let entries =
            std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let mut spec = Self::default();
        for path in paths {
            let wrong = |error: String| format!("{}: {error}", path.display());
            let text = std::fs::read_to_string(&path).map_err(|e| wrong(e.to_string()))?;
            let file: MutantFile = toml::from_str(&text).map_err(|e| wrong(e.to_string()))?;
            spec.mutants.extend(file.mutant);
            spec.checks.extend(file.check);
        }
        spec.look_at_names()?;
        Ok(spec)
    }

    fn look_at_names(&self) -> Result<(), String> {
        for (nth, mutant) in self.mutants.iter().enumerate() {
            let name = &mutant.name;
            if self.mutants[..nth].iter().any(|other| other.name == *name) {
                return Err(format!("two mutants are called {name}"));
            }
            if self.mutants[..nth]
                .iter()
                .any(|other| other.number() == mutant.number())
            {
                return Err(format!(
                    "{name} has another one's number: call it otherwise"
                ));
            }
            if mutant.checks.is_empty() {
                return Err(format!("{name} has no check"));
            }
            for check in &mutant.checks {
                if self.check(check).is_none() {
                    return Err(format!("{name}: there is no check {check}"));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }
}
