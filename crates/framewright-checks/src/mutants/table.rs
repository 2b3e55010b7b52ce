//! `docs/mutations.md`: which check notices which missing keeper.

use super::run::LIMIT;
use super::spec::Mutant;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

pub(crate) const PATH: &str = "docs/mutations.md";
pub(crate) const COMMAND: &str = "cargo run --release -p framewright-checks -- mutants --write";

/// What came of a mutant.
#[derive(Clone, Debug)]
pub(crate) struct MutantRow {
    mutant: Mutant,
    /// The check that noticed it, and when; without a time, the check did not end.
    caught: Option<(String, Option<Duration>)>,
}

/// What is written in two columns of the table: the check, and when it failed.
type Said = (String, String);

/// What a table says of each mutant.
pub(crate) fn said(text: &str) -> BTreeMap<String, Said> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `"));
    let columns = rows.map(|row| row.split(" | ").collect::<Vec<_>>());
    let rows = columns.filter_map(|columns| match columns[..] {
        [name, _, _, check, within] => {
            let within = within.trim_end_matches(" |").to_owned();
            Some((
                name.trim_end_matches('`').to_owned(),
                (check.to_owned(), within),
            ))
        }
        _ => None,
    });
    rows.collect()
}

impl MutantRow {
    pub(crate) fn new(mutant: &Mutant, caught: Option<(String, Option<Duration>)>) -> Self {
        Self {
            mutant: mutant.clone(),
            caught,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.mutant.name
    }

    pub(crate) const fn is_as_expected(&self) -> bool {
        self.caught.is_some() != self.mutant.escapes.is_some()
    }

    fn within(&self) -> &'static str {
        match &self.caught {
            Some((_, Some(took))) if *took < Duration::from_secs(1) => "1 s",
            Some((_, Some(took))) if *took < Duration::from_secs(10) => "10 s",
            Some((_, Some(_))) => "60 s",
            Some((_, None)) => "never ends",
            None => "ESCAPED",
        }
    }
}

impl fmt::Display for MutantRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mutant { name, rule, .. } = &self.mutant;
        match &self.caught {
            Some((check, Some(took))) => {
                write!(
                    f,
                    "{name:>44} {rule:>4}: {check}, {:.1} s",
                    took.as_secs_f64()
                )
            }
            Some((check, None)) => write!(f, "{name:>44} {rule:>4}: {check} does not end"),
            None => write!(f, "{name:>44} {rule:>4}: ESCAPED"),
        }
    }
}

/// The document. For mutants that did not run, it keeps what it said before. It names a mutant as
/// escaped only where the run had all of its checks.
pub(crate) fn text(
    mutants: &[Mutant],
    rows: &[MutantRow],
    before: &BTreeMap<String, Said>,
    is_whole: bool,
) -> String {
    let seconds = LIMIT.as_secs();
    let said = |mutant: &Mutant| {
        let row = rows.iter().find(|row| row.mutant.name == mutant.name);
        match (row, before.get(&mutant.name)) {
            (Some(row), None) if row.caught.is_none() && is_whole => {
                ("none".into(), "ESCAPED".into())
            }
            (Some(row), _) if row.caught.is_some() => {
                let check = row.caught.as_ref().map_or("", |(check, _)| check);
                (check.into(), row.within().into())
            }
            (_, Some(before)) => before.clone(),
            (_, None) => ("".into(), "not run".into()),
        }
    };
    let all: Vec<(&Mutant, Said)> = mutants
        .iter()
        .map(|mutant| (mutant, said(mutant)))
        .collect();
    let is_caught = |within: &str| !matches!(within, "ESCAPED" | "not run");
    let caught = all
        .iter()
        .filter(|(_, (_, within))| is_caught(within))
        .count();
    let mut out = format!(
        "# Mutation of rules\n\n\
         Each invariant's keeper is taken away, one at a time: a flush, a wait, a second look, a memory\n\
         order. Some check must fail within {seconds} seconds that passes when the keeper is there. Made by\n\n\
         ```sh\n{COMMAND}\n```\n\n\
         The mutants are in `crates/framewright-checks/mutants`; a test says when one no longer fits its\n\
         source. A check is a test binary with a filter, a model with a number of operations, or loom's or\n\
         shuttle's run of a test. *never ends*: the check hangs, where it otherwise takes seconds.\n\n\
         {caught} of {} mutants are caught.\n",
        all.len()
    );
    let mut subsystem = "";
    for (mutant, (check, within)) in &all {
        let Mutant {
            name,
            rule,
            keeper,
            file,
            ..
        } = mutant;
        // A module of the engine is one part, whatever folders it has.
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let inner = folder.match_indices('/').nth(3).map(|(end, _)| end);
        let of = &folder[..inner.unwrap_or(folder.len())];
        if of != subsystem {
            subsystem = of;
            let columns =
                "| mutant | rule | keeper | check that fails | within |\n|---|---|---|---|---|";
            _ = write!(out, "\n## {of}\n\n{columns}\n");
        }
        _ = writeln!(out, "| `{name}` | {rule} | {keeper} | {check} | {within} |");
    }
    let escaped = mutants
        .iter()
        .filter_map(|m| Some((&m.name, m.escapes.as_ref()?)));
    let mut escaped = escaped.peekable();
    if escaped.peek().is_some() {
        out.push_str("\n## What no check sees, and why\n\n");
        for (name, why) in escaped {
            _ = writeln!(out, "- `{name}`: {why}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let text = "| mutant | rule |\n| `a-b` | V5 | the flush | model of ranges | 1 s |\n";
        let said = said(text);
        let expected = ("model of ranges".to_owned(), "1 s".to_owned());
        assert_eq!(
            said.into_iter().collect::<Vec<_>>(),
            [("a-b".to_owned(), expected)]
        );
    }
}
