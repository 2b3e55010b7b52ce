//! Which branches of purge, drain, release and eviction CI hardly takes.
//!
//! The models are built with LLVM's counters and run with a tenth of CI's operations, which count
//! ten times. So are the tests with schedules and failures that the models do not have. These runs
//! must then reach each place often enough. A place that they do not reach stands in
//! `coverage.toml` with its reason, or the command fails.

mod counts;
mod spec;

use counts::{Counts, Site, What};
use spec::Spec;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// How many of CI's operations are one here; the models' counts are multiplied by it.
const SCALE: u64 = 10;
/// How often CI must reach each place.
const TIMES: u64 = 1000;

/// What all runs counted, in the folder for it, and which programs were run.
const MERGED: &str = "all.profdata";
const PROGRAMS: &str = "programs";

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
    let spec = Spec::read(&root)?;
    let tools = tools()?;
    let folder = root.join("target/coverage");
    let start = Instant::now();
    if !is_again {
        let programs = build(&root, &folder, &spec)?;
        println!("built in {:.0} s", start.elapsed().as_secs_f64());
        let profiles = run_all(&programs, &root, &folder, &spec, seed)?;
        println!("run after {:.0} s", start.elapsed().as_secs_f64());
        let mut merge = Command::new(tools.join("llvm-profdata"));
        merge
            .args(["merge", "-sparse", "-o"])
            .arg(folder.join(MERGED));
        output(merge.args(&profiles))?;
        let names: BTreeSet<_> = programs.iter().map(|path| path.to_string_lossy()).collect();
        let names = names.into_iter().collect::<Vec<_>>().join("\n");
        std::fs::write(folder.join(PROGRAMS), names).map_err(|error| error.to_string())?;
    }
    report(&root, &spec, &counted(&root, &spec, &tools, &folder)?)
}

/// What the last run counted.
fn counted(root: &Path, spec: &Spec, tools: &Path, folder: &Path) -> Result<Counts, String> {
    let programs = std::fs::read_to_string(folder.join(PROGRAMS));
    let programs = programs.map_err(|error| format!("there is no run to look at: {error}"))?;
    let mut export = Command::new(tools.join("llvm-cov"));
    export.args(["export", "-format=text"]);
    export.arg(format!("-instr-profile={}", folder.join(MERGED).display()));
    for (nth, program) in programs.lines().enumerate() {
        if nth != 0 {
            export.arg("-object");
        }
        export.arg(program);
    }
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

/// The program of each run, and then of each test.
fn build(root: &Path, folder: &Path, spec: &Spec) -> Result<Vec<PathBuf>, String> {
    let model = cargo(
        root,
        folder,
        false,
        "build",
        "framewright-sim",
        "example model",
    )?;
    let mut programs = vec![model; spec.runs.len()];
    for test in &spec.tests {
        programs.push(cargo(
            root,
            folder,
            test.is_shuttle,
            "test",
            &test.package,
            &test.target,
        )?);
    }
    Ok(programs)
}

/// Builds a program with counters.
fn cargo(
    root: &Path,
    folder: &Path,
    is_shuttle: bool,
    verb: &str,
    package: &str,
    target: &str,
) -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args([
        verb,
        "--release",
        "--message-format=json-render-diagnostics",
    ]);
    cargo.args((verb == "test").then_some("--no-run"));
    cargo.args(["-p", package]);
    match target.split_once(' ') {
        Some((kind, name)) => cargo.arg(format!("--{kind}")).arg(name),
        None => cargo.arg("--lib"),
    };
    let (flags, part) = match is_shuttle {
        true => ("-Awarnings --cfg shuttle", "shuttle"),
        false => ("-Awarnings", "plain"),
    };
    let built = cargo
        .env("RUSTFLAGS", flags)
        .env("RUSTC_WORKSPACE_WRAPPER", root.join(WRAPPER))
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_TARGET_DIR", folder.join(part))
        // Build scripts are instrumented, too.
        .env("LLVM_PROFILE_FILE", folder.join("build-%p.profraw"))
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output();
    let built = built.map_err(|error| format!("cargo: {error}"))?;
    if !built.status.success() {
        return Err(format!("cargo {verb} of {target}: {}", built.status));
    }
    let lines = String::from_utf8_lossy(&built.stdout).into_owned();
    let messages = lines
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let program = messages
        .filter_map(|message| message["executable"].as_str().map(PathBuf::from))
        .next_back();
    program.ok_or_else(|| format!("cargo made no program of {target}"))
}

/// Runs all, two at a time, and returns the files with their counts, as `llvm-profdata merge` takes them.
fn run_all(
    programs: &[PathBuf],
    root: &Path,
    folder: &Path,
    spec: &Spec,
    seed: u64,
) -> Result<Vec<String>, String> {
    let mut commands = Vec::new();
    for (nth, program) in programs.iter().enumerate() {
        let profile = folder.join(format!("run-{nth}.profraw"));
        let mut command = Command::new(program);
        let (weight, package) = match spec.tests.get(nth.wrapping_sub(spec.runs.len())) {
            Some(test) => {
                command.args(&test.arguments);
                (1, &*test.package)
            }
            None => {
                let run = &spec.runs[nth];
                let ops = (run.ops / SCALE).to_string();
                command.args(&run.arguments).args(["--ops", &ops]);
                command.args(["--seed", &seed.to_string()]);
                (SCALE, "framewright-sim")
            }
        };
        command
            .env("LLVM_PROFILE_FILE", &profile)
            .env("RUST_TEST_THREADS", "1")
            .current_dir(root.join("crates").join(package))
            .stdout(Stdio::null());
        commands.push((
            command,
            format!("--weighted-input={weight},{}", profile.display()),
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

/// Says what is reached too rarely; whether all of that is excused.
fn report(root: &Path, spec: &Spec, counts: &Counts) -> Result<bool, String> {
    let (mut all, mut wrong, mut gaps, mut excused) = (0, 0, 0, 0);
    let mut used = BTreeSet::new();
    for file in &spec.files {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
        let excuses = spec.excuses_of(file, &text)?;
        let everywhere = spec.everywhere(&text);
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
            if count >= TIMES {
                is_open = false;
                continue;
            }
            let at = counts::offset(&text, line, column);
            if what == What::Reached && text[at..].starts_with('}') {
                // Behind a condition without an else: that was false too rarely, as its branch says.
                continue;
            }
            if everywhere.iter().any(|range| range.contains(&at)) {
                excused += 1;
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
                "{}: `{}` no longer needs its excuse",
                excuse.file,
                excuse.at.trim()
            );
        }
    }
    println!(
        "{all} places of {} files; fewer than {TIMES} times in CI: \
         {excused} that are excused, {wrong} in {gaps} gaps that are not",
        spec.files.len()
    );
    Ok(wrong == 0)
}
