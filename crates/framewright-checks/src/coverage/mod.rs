//! Which branches of purge, drain, release and eviction the models of CI hardly take.
//!
//! The models are built with LLVM's counters and run with a tenth of CI's operations, which count
//! ten times. They must then reach each place often enough, or the place stands in `coverage.toml`
//! with its reason. An excuse that no place needs is as wrong.

mod counts;
mod spec;

use counts::{CountedPlace, PlaceCounts, What};
use spec::{CoverageSpec, ExcuseName};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How many of CI's operations are one here; the models' counts are multiplied by it.
const SCALE: u64 = 10;
/// How often CI must reach each place.
const TIMES: u64 = 1000;

/// What all runs counted, in the folder for it, and which program was run.
const MERGED: &str = "all.profdata";
const PROGRAM: &str = "program";

/// Builds the workspace's crates with counters.
const WRAPPER: &str = "crates/framewright-checks/hook/rustc.sh";

/// The command. Whether every place is reached often enough, or excused.
///
/// # Errors
/// What keeps it from finding out.
pub(crate) fn command(mut arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let (mut seed, mut is_again) = (1, false);
    while let Some(name) = arguments.next() {
        match name.as_str() {
            // Neither builds nor runs again: for an author of excuses.
            "--again" => is_again = true,
            "--seed" => {
                let value = arguments.next().and_then(|value| value.parse().ok());
                seed = value.ok_or("--seed needs a number")?;
            }
            _ => return Err(format!("{name} is not one of --again, --seed")),
        }
    }
    let root = crate::root();
    let spec = CoverageSpec::read(&root)?;
    let tools = tools()?;
    let folder = root.join("target/coverage");
    let start = Instant::now();
    if !is_again {
        let program = build(&root, &folder)?;
        println!("built in {:.0} s", start.elapsed().as_secs_f64());
        let profiles = run_all(&program, &folder, &spec, seed)?;
        println!("run after {:.0} s", start.elapsed().as_secs_f64());
        let mut merge = Command::new(tools.join("llvm-profdata"));
        merge
            .args(["merge", "-sparse", "-o"])
            .arg(folder.join(MERGED));
        output(merge.args(&profiles))?;
        let name = program.to_string_lossy();
        std::fs::write(folder.join(PROGRAM), &*name).map_err(|error| error.to_string())?;
    }
    report(&root, &spec, &counted(&root, &spec, &tools, &folder)?)
}

/// What the last run counted.
fn counted(
    root: &Path,
    spec: &CoverageSpec,
    tools: &Path,
    folder: &Path,
) -> Result<PlaceCounts, String> {
    let program = std::fs::read_to_string(folder.join(PROGRAM));
    let program = program.map_err(|error| format!("there is no run to look at: {error}"))?;
    let mut export = Command::new(tools.join("llvm-cov"));
    export.args(["export", "-format=text"]);
    export.arg(format!("-instr-profile={}", folder.join(MERGED).display()));
    export.arg(program);
    export.args(spec.files.iter().map(|file| root.join(file.path())));
    PlaceCounts::read(&output(&mut export)?, root)
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

/// Builds the models with counters.
fn build(root: &Path, folder: &Path) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    let built = cargo
        .args(["build", "--release", "-p", "framewright-sim"])
        .args(["--example", "model"])
        .arg("--message-format=json-render-diagnostics")
        .env("RUSTFLAGS", "-Awarnings")
        .env("RUSTC_WORKSPACE_WRAPPER", root.join(WRAPPER))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_TARGET_DIR", folder)
        // Build scripts are instrumented, too.
        .env("LLVM_PROFILE_FILE", folder.join("build-%p.profraw"))
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output();
    let built = built.map_err(|error| format!("cargo: {error}"))?;
    if !built.status.success() {
        return Err(format!("cargo build of the models: {}", built.status));
    }
    let lines = String::from_utf8_lossy(&built.stdout).into_owned();
    let messages = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let program = messages
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back();
    program.ok_or_else(|| "cargo made no program of the models".into())
}

/// Runs all, two at a time, and returns the files with their counts, as `llvm-profdata merge` takes them.
fn run_all(
    program: &Path,
    folder: &Path,
    spec: &CoverageSpec,
    seed: u64,
) -> Result<Vec<String>, String> {
    let mut commands = Vec::new();
    for (nth, run) in spec.runs.iter().enumerate() {
        let profile = folder.join(format!("run-{nth}.profraw"));
        let mut command = Command::new(program);
        let ops = (run.ops / SCALE).to_string();
        command
            .args(&run.arguments)
            .args(["--ops", &ops])
            .args(["--seed", &seed.to_string()])
            .env("LLVM_PROFILE_FILE", &profile)
            .stdout(Stdio::null());
        commands.push((
            command,
            format!("--weighted-input={SCALE},{}", profile.display()),
        ));
    }
    let mut profiles = Vec::new();
    for pair in commands.chunks_mut(2) {
        let start = |command: &mut Command| {
            command
                .spawn()
                .map_err(|error| format!("{command:?}: {error}"))
        };
        let children: Vec<_> = pair
            .iter_mut()
            .map(|(command, _)| start(command))
            .collect::<Result<_, _>>()?;
        for (mut child, (command, profile)) in children.into_iter().zip(pair) {
            let status = child.wait().map_err(|error| error.to_string())?;
            if !status.success() {
                return Err(format!("{command:?} failed: {status}"));
            }
            profiles.push(profile.clone());
        }
    }
    Ok(profiles)
}

/// Says what is reached too rarely, and what is excused without need; whether there is neither.
fn report(root: &Path, spec: &CoverageSpec, counts: &PlaceCounts) -> Result<bool, String> {
    let (mut all, mut wrong, mut gaps, mut excused) = (0, 0, 0, 0);
    let mut used: BTreeSet<ExcuseName> = BTreeSet::new();
    for file in &spec.files {
        let path = file.path();
        let text = std::fs::read_to_string(root.join(&path));
        let text = text.map_err(|error| format!("{path}: {error}"))?;
        let parts = file.parts(&text)?;
        let excuses = spec.excuses_of(file, &text)?;
        let sites = counts.of(&path);
        if sites.is_empty() {
            return Err(format!("{path}: nothing of it is in the models"));
        }
        // What follows one another without a place between that is reached often enough is one gap.
        let mut is_open = false;
        for CountedPlace {
            line,
            column,
            what,
            count,
        } in sites
        {
            let at = counts::offset(&text, line, column);
            if !parts.iter().any(|part| part.contains(&at)) {
                continue;
            }
            all += 1;
            if count >= TIMES {
                is_open = false;
                continue;
            }
            if what == What::Reached && text[at..].starts_with('}') {
                // Behind a condition without an else: that was false too rarely, as its branch says.
                continue;
            }
            let holds = excuses.iter().filter(|(range, _)| range.contains(&at));
            let holds: Vec<_> = holds.map(|(_, name)| name).collect();
            if !holds.is_empty() {
                excused += 1;
                used.extend(holds);
                continue;
            }
            wrong += 1;
            if !is_open {
                gaps += 1;
                let source = text.lines().nth(line - 1).unwrap_or("").trim();
                println!("{path}:{line}:{column}: {what} {count} times: {source}");
            }
            is_open = true;
        }
    }
    let mut idle = 0;
    for (name, what) in spec.names() {
        if !used.contains(&name) {
            idle += 1;
            println!("{what} needs no excuse: all of it is reached {TIMES} times");
        }
    }
    println!(
        "{all} places of {} files; fewer than {TIMES} times in CI: {excused} that are excused, \
         {wrong} in {gaps} gaps that are not; {idle} excuses without need",
        spec.files.len()
    );
    Ok(wrong == 0 && idle == 0)
}
