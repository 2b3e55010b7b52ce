//! Mutation of rules: each invariant's keeper is taken away, one at a time, and some check must fail
//! within a minute.
//!
//! The mutants are in `mutants/*.toml`. All of them are put into a copy of the workspace, each behind
//! a question that is asked at run time, so that each check is built once. A check must pass without
//! any of them: else it says nothing.

mod run;
mod spec;
mod table;
mod tree;

use run::{BuiltChecks, CheckEnded, LIMIT, PLAIN_LIMIT};
use spec::{Check, Mutant, MutantSpec};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use table::MutantRow;

/// Where the mutants are.
fn folder(root: &Path) -> PathBuf {
    root.join("crates/framewright-checks/mutants")
}

struct MutantOptions {
    /// Names, or beginnings of names; all mutants if there is none.
    only: Vec<String>,
    /// Only checks whose names have one of these in them; all if there is none.
    by: Vec<String>,
    /// Try every check of a mutant, also after one has failed.
    explore: bool,
    jobs: usize,
    write: bool,
    /// Believe that the checks pass without mutants, and soon.
    trust: bool,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<MutantOptions, String> {
    let mut options = MutantOptions {
        only: Vec::new(),
        by: Vec::new(),
        explore: false,
        jobs: 1,
        write: false,
        trust: false,
    };
    while let Some(name) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{name} needs a value"));
        match name.as_str() {
            "--only" => options.only.push(value()?),
            "--by" => options.by.push(value()?),
            "--jobs" => {
                let value = value()?;
                let jobs = value.parse().ok().filter(|jobs| *jobs > 0);
                options.jobs = jobs.ok_or(format!("--jobs {value} is not a number above 0"))?;
            }
            "--explore" => options.explore = true,
            "--write" => options.write = true,
            "--trust" => options.trust = true,
            _ => {
                return Err(format!(
                    "{name} is not one of --only, --by, --explore, --jobs, --trust, --write"
                ));
            }
        }
    }
    Ok(options)
}

/// The command. Whether every mutant was caught that should be.
///
/// # Errors
/// What keeps it from finding out.
pub(crate) fn command(arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let options = options(arguments)?;
    let root = crate::root();
    let mut spec = MutantSpec::read(&folder(&root))?;
    let base = root.join("target/mutants");
    let (tree, logs) = (base.join("tree"), base.join("logs"));
    std::fs::create_dir_all(&logs).map_err(|error| format!("{}: {error}", logs.display()))?;
    std::fs::create_dir_all(&tree).map_err(|error| format!("{}: {error}", tree.display()))?;
    tree::prepare(&root, &tree, &spec.mutants)?;
    let (only, by) = (&options.only, &options.by);
    for mutant in &mut spec.mutants {
        let is_chosen =
            |check: &String| by.is_empty() || by.iter().any(|part| check.contains(part));
        mutant.checks.retain(is_chosen);
    }
    let is_chosen = |mutant: &&Mutant| {
        let is_named = |name: &String| mutant.name.starts_with(name.as_str());
        !mutant.checks.is_empty() && (only.is_empty() || only.iter().any(is_named))
    };
    let chosen: Vec<&Mutant> = spec.mutants.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err("no mutant and no check has such a name".into());
    }
    let names: BTreeSet<&str> = chosen
        .iter()
        .flat_map(|mutant| mutant.checks.iter().map(String::as_str))
        .collect();
    let checks: Vec<&Check> = names.iter().filter_map(|name| spec.check(name)).collect();
    let programs = run::build(&tree, &base, &checks)?;
    let bench = MutantBench {
        spec: &spec,
        tree: &tree,
        logs: &logs,
        programs: &programs,
    };
    let plain = match options.trust {
        true => BTreeMap::new(),
        false => bench.without_mutants(&checks, options.jobs)?,
    };
    let rows = side_by_side(options.jobs, &chosen, |mutant| {
        let row = bench.one(mutant, options.explore, &plain)?;
        println!("{row}");
        Ok(row)
    })?;
    let wrong = rows.iter().filter(|row| !row.is_as_expected()).count();
    println!("{} mutants, {wrong} not as expected", rows.len());
    if options.write {
        let path = root.join(table::PATH);
        // What was not run stays as it was; nor is a mutant said to escape by some of its checks.
        let before = std::fs::read_to_string(&path).unwrap_or_default();
        let mut before = table::said(&before);
        if by.is_empty() {
            before.retain(|name, _| !rows.iter().any(|row| row.name() == name));
        }
        let all = MutantSpec::read(&folder(&root))?.mutants;
        let text = table::text(&all, &rows, &before, by.is_empty());
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(wrong == 0)
}

/// The results of `work` for all items, in their order. As many at once as there are jobs.
fn side_by_side<T: Sync, R: Send>(
    jobs: usize,
    items: &[T],
    work: impl Fn(&T) -> Result<R, String> + Sync,
) -> Result<Vec<R>, String> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let worker = || -> Result<(), String> {
        loop {
            let nth = next.fetch_add(1, Relaxed);
            let Some(item) = items.get(nth) else {
                return Ok(());
            };
            let result = work(item)?;
            let mut results = results.lock().expect("no worker panics");
            results.insert(nth, result);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    let results = results.into_inner().expect("no worker panics");
    Ok(results.into_values().collect())
}

/// Whether a check's output says that it ran no test. Programs that are no tests say nothing of the kind.
fn runs_no_test(log: &Path) -> bool {
    let said = std::fs::read_to_string(log).unwrap_or_default();
    said.lines().any(|line| line == "running 0 tests")
}

/// What a run of the checks needs.
struct MutantBench<'b> {
    spec: &'b MutantSpec,
    tree: &'b Path,
    logs: &'b Path,
    programs: &'b BuiltChecks,
}

impl MutantBench<'_> {
    /// How long each check takes, if it passes.
    fn without_mutants(
        &self,
        checks: &[&Check],
        jobs: usize,
    ) -> Result<BTreeMap<String, Duration>, String> {
        let times = side_by_side(jobs, checks, |check| {
            let (ended, took) = self.run(check, None)?;
            let (name, log) = (&check.name, self.log(check, None));
            println!("{name:>44}: {:.1} s without mutants", took.as_secs_f64());
            match ended {
                CheckEnded::Passed if runs_no_test(&log) => Err(format!(
                    "{name} runs no test, so it catches nothing: no test's name has one of {:?}",
                    check.arguments
                )),
                CheckEnded::Passed => Ok((name.clone(), took)),
                CheckEnded::Failed => Err(format!(
                    "{name} fails without any mutant: {}",
                    log.display()
                )),
                CheckEnded::Late => Err(format!("{name} takes longer than {PLAIN_LIMIT:?}")),
            }
        })?;
        Ok(times.into_iter().collect())
    }

    fn log(&self, check: &Check, mutant: Option<&Mutant>) -> PathBuf {
        let mutant = mutant.map_or("none", |mutant| &mutant.name);
        let name = format!("{mutant} by {}.log", check.name);
        self.logs.join(name.replace([' ', ',', ':'], "_"))
    }

    fn run(
        &self,
        check: &Check,
        mutant: Option<&Mutant>,
    ) -> Result<(CheckEnded, Duration), String> {
        let number = mutant.map(Mutant::number);
        let limit = mutant.map_or(PLAIN_LIMIT, |_| LIMIT);
        run::run(
            self.tree,
            self.programs,
            check,
            number,
            limit,
            &self.log(check, mutant),
        )
    }

    fn one(
        &self,
        mutant: &Mutant,
        explore: bool,
        plain: &BTreeMap<String, Duration>,
    ) -> Result<MutantRow, String> {
        let mut caught = None;
        // The quickest first: what a test sees in a second needs no minute of interleavings.
        let mut checks: Vec<&String> = mutant.checks.iter().collect();
        checks.sort_by_key(|name| plain.get(*name));
        for name in checks {
            let check = self.spec.check(name).expect("names were looked at");
            let (ended, took) = self.run(check, Some(mutant))?;
            if explore {
                println!(
                    "    {}: {name}: {ended:?}, {:.1} s",
                    mutant.name,
                    took.as_secs_f64()
                );
            }
            // A check that ends for itself and does not end with the mutant has noticed, in its way.
            let is_short = plain.get(name).is_some_and(|took| *took < LIMIT / 4);
            let hangs = ended == CheckEnded::Late && is_short;
            if caught.is_none() && (ended == CheckEnded::Failed || hangs) {
                caught = Some((name.clone(), (!hangs).then_some(took)));
                if !explore {
                    break;
                }
            }
        }
        Ok(MutantRow::new(mutant, caught))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> MutantSpec {
        MutantSpec::read(&folder(&crate::root())).unwrap()
    }

    #[test]
    fn every_mutant_still_fits_its_source() {
        if let Err(wrong) = tree::mutated(&crate::root(), &spec().mutants) {
            panic!("these keepers have moved; say where they are now:\n{wrong}");
        }
    }

    #[test]
    fn the_table_is_of_these_mutants_and_each_is_caught() {
        let text = std::fs::read_to_string(crate::root().join(table::PATH)).unwrap();
        let said = table::said(&text);
        let command = format!("{}: {}", table::PATH, table::COMMAND);
        assert_eq!(said.len(), spec().mutants.len(), "{command}");
        for Mutant { name, escapes, .. } in spec().mutants {
            let (_, within) = said.get(&name).expect(&command);
            assert_eq!(within == "ESCAPED", escapes.is_some(), "{name}, {command}");
        }
    }
}
