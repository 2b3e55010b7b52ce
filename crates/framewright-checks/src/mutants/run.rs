//! Builds the checks and runs them.

use super::spec::{Build, Check};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A check that has not failed by then has not noticed. Processor time: what else the machine does is not
/// the check's.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
/// What a check may take that runs to its end, because no rule's keeper is missing.
pub(crate) const PLAIN_LIMIT: Duration = Duration::from_secs(300);
/// How long a run may use next to no processor time: some wait for what never comes.
const IDLE_LIMIT: Duration = Duration::from_secs(120);
/// Less processor time than this in all of [`IDLE_LIMIT`] is next to none.
const NEXT_TO_NONE: Duration = Duration::from_millis(100);
/// Kibibytes of data that a check may have: a mutant must not take the machine with it.
const DATA_KIB: u64 = 6 << 20;

/// The programs of the checks, by build, package and target.
pub(crate) type BuiltChecks = BTreeMap<(Build, String, String), PathBuf>;

impl Build {
    fn flags(self) -> &'static str {
        match self {
            Self::Dev | Self::Release => "",
            Self::Loom => "--cfg loom",
            Self::Shuttle => "--cfg shuttle",
        }
    }

    const fn folder(self) -> &'static str {
        match self {
            Self::Dev | Self::Release => "plain",
            Self::Loom => "loom",
            Self::Shuttle => "shuttle",
        }
    }
}

/// Builds what the checks need, each program once.
///
/// # Errors
/// Cargo's message.
pub(crate) fn build(tree: &Path, targets: &Path, checks: &[&Check]) -> Result<BuiltChecks, String> {
    let mut programs = BuiltChecks::new();
    // One call of cargo for each build and package; examples are built by another one.
    let mut calls: BTreeMap<(Build, &str, bool), Vec<&str>> = BTreeMap::new();
    for check in checks {
        let is_example = check.target.starts_with("example ");
        let call = calls.entry((check.build, &check.package, is_example));
        let wanted = call.or_default();
        if !wanted.contains(&check.target.as_str()) {
            wanted.push(&check.target);
        }
    }
    for ((build, package, is_example), wanted) in calls {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(if is_example {
            &["build"][..]
        } else {
            &["test", "--no-run"]
        });
        if build != Build::Dev {
            cargo.arg("--release");
        }
        cargo.args(["--message-format=json-render-diagnostics", "-p", package]);
        for target in &wanted {
            match target.split_once(' ') {
                Some((kind, name)) => cargo.arg(format!("--{kind}")).arg(name),
                None => cargo.arg("--lib"),
            };
        }
        // Built faster, and anew in parts; what is checked is the same.
        cargo.env("CARGO_INCREMENTAL", "1");
        cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
        cargo.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "256");
        cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "0");
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "0");
        // A question's code may be ugly, so its warnings do not matter.
        cargo.env("RUSTFLAGS", format!("-Awarnings {}", build.flags()));
        cargo.env("CARGO_TARGET_DIR", targets.join(build.folder()));
        cargo.current_dir(tree).stdout(Stdio::piped());
        eprintln!("building {} of {package} ({build:?})", wanted.join(", "));
        let output = cargo.spawn().and_then(|child| child.wait_with_output());
        let output = output.map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            return Err(format!(
                "{package} with the mutants cannot be built ({build:?})"
            ));
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Ok(message) = serde_json::from_str::<serde_json::Value>(line) else {
                continue;
            };
            let Some(program) = message["executable"].as_str() else {
                continue;
            };
            let name = message["target"]["name"].as_str().unwrap_or("");
            let target = match message["target"]["kind"][0].as_str() {
                Some("test") => format!("test {name}"),
                Some("example") => format!("example {name}"),
                _ => "lib".into(),
            };
            programs.insert((build, package.into(), target), program.into());
        }
    }
    Ok(programs)
}

/// How a run of a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckEnded {
    Passed,
    Failed,
    /// It did not end in time.
    Late,
}

/// Runs a check with a mutant, or with none. What it says goes into `log`.
pub(crate) fn run(
    tree: &Path,
    programs: &BuiltChecks,
    check: &Check,
    mutant: Option<u32>,
    limit: Duration,
    log: &Path,
) -> Result<(CheckEnded, Duration), String> {
    let key = (check.build, check.package.clone(), check.target.clone());
    let program = programs.get(&key);
    let program = program.ok_or_else(|| format!("{}: cargo made no program of it", check.name))?;
    let file = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let both = file.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("ulimit -d {DATA_KIB}; exec \"$0\" \"$@\"")])
        .arg(program)
        .args(&check.arguments)
        .current_dir(tree.join("crates").join(&check.package))
        // As many as CI has: a limit of memory is then the same everywhere.
        .env("RUST_TEST_THREADS", "2")
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(both);
    match mutant {
        Some(number) => command.env("FRAMEWRIGHT_MUTANT", number.to_string()),
        None => command.env_remove("FRAMEWRIGHT_MUTANT"),
    };
    let child = command.spawn();
    let mut child = child.map_err(|error| format!("{}: {error}", program.display()))?;
    let mut took = Duration::ZERO;
    let mut at_work = (took, Instant::now());
    loop {
        took = processor_time(child.id()).unwrap_or(took);
        if took >= at_work.0 + NEXT_TO_NONE {
            at_work = (took, Instant::now());
        }
        let status = child.try_wait().map_err(|error| error.to_string())?;
        if let Some(status) = status {
            let ended = if status.success() {
                CheckEnded::Passed
            } else {
                CheckEnded::Failed
            };
            return Ok((ended, took));
        }
        if took > limit || at_work.1.elapsed() > IDLE_LIMIT {
            // The process may have ended just now; then `kill` has no effect.
            _ = child.kill();
            _ = child.wait();
            return Ok((CheckEnded::Late, took));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The processor time that a process has used, until it is waited for: from `/proc/PID/stat`, in
/// hundredths of a second.
fn processor_time(id: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name, in brackets, may have anything in it; user and system time are the 12th and 13th behind it.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields = fields.split_ascii_whitespace().skip(11).take(2);
    let ticks: Option<u64> = fields.map(|field| field.parse::<u64>().ok()).sum();
    Some(Duration::from_millis(ticks? * 10))
}
