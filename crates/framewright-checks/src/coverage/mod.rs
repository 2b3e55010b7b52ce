//! Which branches of purge, drain, release and eviction the models of CI hardly take.
//!
//! The models are built with LLVM's counters and run with a tenth of CI's operations; a place must
//! then be reached a tenth as often. What is not stands in `coverage.toml` with its reason, or the
//! command fails.

mod counts;
mod spec;

use counts::{Counts, Site, What};
use spec::{Run, Spec};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How many of CI's operations are one here, and how many times a place must be reached there.
const SCALE: u64 = 10;
const TIMES: u64 = 1000;

/// What is built, and what all runs counted, in the folder for it.
const PROGRAM: &str = "release/examples/model";
const MERGED: &str = "all.profdata";

/// Branches are counted by an option of the compiler that the stable one has, but calls unstable.
const FLAGS: &str = "-Awarnings -Cinstrument-coverage -Zcoverage-options=branch";

/// The command. Whether every place is reached often enough, or excused.
///
/// # Errors
/// What keeps it from finding out.
pub(crate) fn command(mut arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let (mut seed, mut is_again) = (1, false);
    while let Some(name) = arguments.next() {
        match name.as_str() {
            // Not built and run again: for whoever writes excuses.
            "--again" => is_again = true,
            "--seed" => {
                let value = arguments.next().and_then(|value| value.parse().ok());
                seed = value.ok_or("--seed needs a number")?;
            }
            _ => return Err(format!("{name} is not one of --again, --seed")),
        }
    }
    let root = crate::root();
    let spec = Spec::read(&root)?;
    let tools = tools()?;
    let folder = root.join("target/coverage");
    let start = Instant::now();
    if is_again {
        return report(&root, &spec, &counted(&root, &spec, &tools, &folder)?);
    }
    let program = build(&root, &folder)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f64());
    let profiles = run_all(&program, &folder, &spec.runs, seed)?;
    println!("run after {:.0} s", start.elapsed().as_secs_f64());
    let mut merge = Command::new(tools.join("llvm-profdata"));
    merge
        .args(["merge", "-sparse", "-o"])
        .arg(folder.join(MERGED));
    output(merge.args(&profiles))?;
    report(&root, &spec, &counted(&root, &spec, &tools, &folder)?)
}

/// What the last run counted.
fn counted(root: &Path, spec: &Spec, tools: &Path, folder: &Path) -> Result<Counts, String> {
    let mut export = Command::new(tools.join("llvm-cov"));
    export
        .args(["export", "-format=text"])
        .arg(folder.join(PROGRAM));
    export.arg(format!("-instr-profile={}", folder.join(MERGED).display()));
    export.args(spec.files.iter().map(|file| root.join(file)));
    Counts::read(&output(&mut export)?, root)
}

/// Where LLVM's tools of the compiler's version are.
fn tools() -> Result<PathBuf, String> {
    let libraries = output(Command::new("rustc").args(["--print", "target-libdir"]))?;
    let libraries = String::from_utf8_lossy(&libraries).trim().to_owned();
    let tools = Path::new(&libraries).join("../bin");
    match tools.join("llvm-cov").is_file() && tools.join("llvm-profdata").is_file() {
        true => Ok(tools),
        false => Err("no llvm-cov of this compiler's: rustup component add llvm-tools".into()),
    }
}

fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("{name}: {error}"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{name}: {}", output.status)),
    }
}

fn build(root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--release",
            "-p",
            "framewright-sim",
            "--example",
            "model",
        ])
        .env("RUSTFLAGS", FLAGS)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_TARGET_DIR", folder)
        // Build scripts are instrumented, too.
        .env("LLVM_PROFILE_FILE", folder.join("build-%p.profraw"))
        .current_dir(root)
        .status();
    match built {
        Ok(status) if status.success() => Ok(folder.join(PROGRAM)),
        Ok(status) => Err(format!("cargo build: {status}")),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// Runs the models, two at a time, and returns the files with their counts.
fn run_all(program: &Path, folder: &Path, runs: &[Run], seed: u64) -> Result<Vec<PathBuf>, String> {
    let start = |nth: usize, run: &Run| {
        let profile = folder.join(format!("model-{nth}.profraw"));
        let ops = run.ops / SCALE;
        let child = Command::new(program)
            .args(&run.arguments)
            .args(["--ops", &ops.to_string(), "--seed", &seed.to_string()])
            .env("LLVM_PROFILE_FILE", &profile)
            .stdout(Stdio::null())
            .spawn();
        child
            .map(|child| (child, profile))
            .map_err(|error| format!("{}: {error}", program.display()))
    };
    let mut profiles = Vec::new();
    for (nth, pair) in runs.chunks(2).enumerate() {
        let children: Vec<_> = pair
            .iter()
            .enumerate()
            .map(|(at, run)| start(2 * nth + at, run))
            .collect::<Result<_, _>>()?;
        for (mut child, profile) in children {
            let status = child.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("a model failed: {status}"));
            }
            profiles.push(profile);
        }
    }
    Ok(profiles)
}

/// Says what is reached too rarely; whether all of that is excused.
fn report(root: &Path, spec: &Spec, counts: &Counts) -> Result<bool, String> {
    let least = TIMES / SCALE;
    let (mut all, mut wrong, mut gaps, mut excused) = (0, 0, 0, 0);
    let mut used = BTreeSet::new();
    for file in &spec.files {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
        let excuses = spec.excuses_of(file, &text)?;
        let sites = counts.of(file);
        if sites.is_empty() {
            return Err(format!("{file}: nothing of it is in the models"));
        }
        all += sites.len();
        // What follows one another without a place between that is reached often enough is one gap.
        let mut is_open = false;
        for Site {
            line,
            column,
            what,
            count,
        } in sites
        {
            if count >= least {
                is_open = false;
                continue;
            }
            let at = counts::offset(&text, line, column);
            if what == What::Reached && text[at..].starts_with('}') {
                // Behind a condition without an else: that was false too rarely, as its branch says.
                continue;
            }
            if let Some((_, nth)) = excuses.iter().find(|(range, _)| range.contains(&at)) {
                excused += 1;
                used.insert(*nth);
                continue;
            }
            wrong += 1;
            if !is_open {
                gaps += 1;
                let source = text.lines().nth(line - 1).unwrap_or("").trim();
                println!("{file}:{line}:{column}: {what} {count} times: {source}");
            }
            is_open = true;
        }
    }
    for (nth, excuse) in spec.excuses.iter().enumerate() {
        if !used.contains(&nth) {
            println!(
                "{}: `{}` needs no excuse any more",
                excuse.file,
                excuse.at.trim()
            );
        }
    }
    println!(
        "{all} places of {} files; fewer than {least} times in 1/{SCALE} of CI's operations: \
         {excused} that are excused, {wrong} in {gaps} gaps that are not",
        spec.files.len()
    );
    Ok(wrong == 0)
}
