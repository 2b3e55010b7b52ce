//! `cargo xtask measure`: runs the commands whose figures README and book quote, and writes the result files.

use crate::kernels::boot;
use crate::machine::{self, ForeignLoad, ForeignWatch};
use crate::results::{self, ResultFile, ResultRow, RunRecord, Surroundings};
use std::env;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A result file, and what makes it.
pub(crate) struct Measurement {
    name: &'static str,
    /// As a reader types them. All commands run once, then all again.
    commands: &'static [&'static str],
    /// The same in a small size, to try that all works: once each. The same commands where there are none.
    quick: &'static [&'static str],
    runs: u64,
    /// The longest that one command may take, in seconds: several times what it needs on an idle machine.
    limit_s: u64,
    /// The metrics that are kept; all where none is named.
    keeps: &'static [&'static str],
    is_default: bool,
}

/// The metrics by which a policy is judged, and its false failures.
const JUDGED: &[&str] = &[
    "contaminated_blocks",
    "mixed_blocks",
    "unusable_index_order3",
    "unusable_index_order9",
    "free_2m_blocks",
    "failures_order2",
    "failures_order3",
    "failures_order4",
    "false_failures",
];

/// On two idle CPUs everything by default takes some twelve minutes, and `gcma-build` some fifteen more: three for each
/// variant. The time to build the programs is not in it.
const ALL: &[Measurement] = &[
    Measurement {
        keeps: JUDGED,
        ..of(
            "replay",
            &[
                "framewright replay traces/sample.pft.zst --start fresh --squeeze 40000",
                "framewright replay traces/sample.pft.zst --squeeze 40000",
            ],
            1,
            120,
        )
    },
    Measurement {
        quick: &[
            "framewright replay smokeA.pft.zst --squeeze 40000",
            "framewright replay smokeC.pft.zst --squeeze 40000",
        ],
        keeps: JUDGED,
        ..of(
            "recordings",
            &[
                "framewright replay fileA.pft.zst",
                "framewright replay fileA.pft.zst --squeeze 40000",
                "framewright replay fileA.pft.zst --start fresh",
                "framewright replay fileA.pft.zst --start fresh --squeeze 40000",
                "framewright replay mixC.pft.zst",
                "framewright replay mixC.pft.zst --squeeze 40000",
                "framewright replay mixC.pft.zst --start fresh",
                "framewright replay mixC.pft.zst --start fresh --squeeze 40000",
            ],
            1,
            900,
        )
    },
    of(
        "vmap-blocks",
        &["framewright lab vmap-blocks --mapper null --repeat 1"],
        1,
        300,
    ),
    Measurement {
        quick: &["framewright lab va-fit --mapper null --loops 1000 --repeat 1"],
        keeps: &[
            "op_ns_median",
            "time_vs_before",
            "time_vs_before_hikey960",
            "test_us_i5_3320m",
            "test_us_hikey960",
            "cost_growth",
            "occupancy",
            "live_mappings",
            "lazy_areas",
            "purge_ns",
            "free_ns_p50",
            "free_ns_worst",
        ],
        ..of(
            "va-fit",
            &["framewright lab va-fit --mapper null --repeat 1"],
            3,
            400,
        )
    },
    Measurement {
        quick: &[
            "framewright lab va-fit --case le_fit,b_fit,ne_fit,long_busy_list,random_size --loops 500 --repeat 1",
        ],
        keeps: &[
            "op_ns_median",
            "time_vs_before",
            "time_vs_before_hikey960",
            "alloc_ns_p50",
            "free_ns_p50",
        ],
        ..of(
            "va-fit-host",
            &[
                "framewright lab va-fit --case le_fit,b_fit,ne_fit,long_busy_list,random_size --repeat 1",
            ],
            3,
            200,
        )
    },
    Measurement {
        quick: &[
            "framewright lab kvmalloc --mapper null --fragmented 0,50,90,99 --seconds 0.2 --repeat 1",
        ],
        ..of(
            "kvmalloc",
            &[
                "framewright lab kvmalloc --mapper null --fragmented 0,50,90,99 --seconds 0.5 --repeat 1",
            ],
            3,
            200,
        )
    },
    Measurement {
        quick: &["framewright lab kvmalloc --mapper null --object mixed --seconds 0.2 --repeat 1"],
        ..of(
            "kvmalloc-mixed",
            &["framewright lab kvmalloc --mapper null --object mixed --seconds 0.5 --repeat 1"],
            3,
            100,
        )
    },
    Measurement {
        quick: &["framewright lab kvmalloc --mapper null --short --seconds 0.2 --repeat 1"],
        ..of(
            "kvmalloc-short",
            &["framewright lab kvmalloc --mapper null --short --seconds 0.5 --repeat 1"],
            3,
            100,
        )
    },
    Measurement {
        quick: &["framewright lab kvmalloc --fragmented 0,50,90,99 --seconds 0.2 --repeat 1"],
        ..of(
            "kvmalloc-host",
            &["framewright lab kvmalloc --fragmented 0,50,90,99 --seconds 0.5 --repeat 1"],
            3,
            200,
        )
    },
    Measurement {
        quick: &["framewright lab fallback --days 0.05"],
        keeps: &[
            "allocstall",
            "allocstall_order_0",
            "allocstall_order_1",
            "allocstall_order_2",
            "allocstall_order_3",
            "blocks_movable",
            "blocks_unmovable",
            "mixed_pageblocks",
            "mixed_pageblocks_mean",
            "compact_stall",
            "compact_free_scanned",
            "compact_migrate_scanned",
            "pgmigrate_success",
            "pgsteal_direct",
            "pgsteal_kswapd",
            "oom_kills",
            "requests",
        ],
        ..of("fallback", &["framewright lab fallback"], 1, 900)
    },
    Measurement {
        quick: &[
            "framewright lab gcma --idle --lengths known --policy write-back --requests 2 --ram 256MiB --reserve 128MiB",
        ],
        ..of(
            "gcma-idle",
            &["framewright lab gcma --idle --lengths known --policy write-back --requests 12"],
            3,
            400,
        )
    },
    Measurement {
        quick: &[
            "framewright lab gcma --ram 192MiB --reserve 64MiB --tree-size 8MiB --requests 4 --interval 200",
        ],
        ..of(
            "gcma-build",
            &["framewright lab gcma --ram 384MiB --reserve 128MiB"],
            1,
            3600,
        )
    },
    Measurement {
        quick: &["cargo bench -p framewright-linux --bench frames -- --quick"],
        ..of(
            "frames",
            &["cargo bench -p framewright-linux --bench frames"],
            1,
            400,
        )
    },
    Measurement {
        quick: &["cargo bench -p framewright-linux --bench kv -- --quick"],
        ..of(
            "objects",
            &["cargo bench -p framewright-linux --bench kv"],
            1,
            500,
        )
    },
    Measurement {
        quick: &["cargo bench -p framewright-linux --bench ranges -- --quick"],
        ..of(
            "ranges",
            &["cargo bench -p framewright-linux --bench ranges"],
            1,
            200,
        )
    },
    Measurement {
        quick: &["cargo bench -p framewright-linux --bench reserve -- --quick"],
        ..of(
            "reserve",
            &["cargo bench -p framewright-linux --bench reserve"],
            3,
            200,
        )
    },
    on_request(
        "compact",
        &["cargo bench -p framewright-linux --bench compact"],
    ),
    on_request(
        "contiguous",
        &["cargo bench -p framewright-linux --bench contiguous"],
    ),
    on_request("files", &["cargo bench -p framewright-linux --bench files"]),
    on_request("moves", &["cargo bench -p framewright-linux --bench moves"]),
    on_request("paged", &["cargo bench -p framewright-linux --bench paged"]),
    on_request(
        "prices",
        &["cargo bench -p framewright-linux --bench prices"],
    ),
];

const fn of(
    name: &'static str,
    commands: &'static [&'static str],
    runs: u64,
    limit_s: u64,
) -> Measurement {
    Measurement {
        name,
        commands,
        quick: &[],
        runs,
        limit_s,
        keeps: &[],
        is_default: true,
    }
}

/// What only the decisions quote, with the state of the code that they were taken at.
const fn on_request(name: &'static str, commands: &'static [&'static str]) -> Measurement {
    Measurement {
        is_default: false,
        ..of(name, commands, 1, 400)
    }
}

/// The names, for the usage.
pub(crate) fn names(is_default: bool) -> Vec<&'static str> {
    let of = ALL.iter().filter(|one| one.is_default == is_default);
    of.map(|one| one.name).collect()
}

/// Measures what is named, or everything, with the programs as they are built or built anew. A measurement that fails
/// leaves its file as it was, and the others go on.
pub(crate) fn run(asked: &[String], is_as_built: bool, is_quick: bool) -> Result<(), String> {
    if let Some(name) = asked
        .iter()
        .find(|name| ALL.iter().all(|one| one.name != **name))
    {
        return Err(format!("there is nothing to measure called `{name}`"));
    }
    let is_chosen = |one: &&Measurement| {
        if asked.is_empty() {
            one.is_default
        } else {
            asked.iter().any(|name| name == one.name)
        }
    };
    let chosen: Vec<&Measurement> = ALL.iter().filter(is_chosen).collect();
    let start = Instant::now();
    if !is_as_built {
        build(&chosen)?;
        println!("built in {} s", start.elapsed().as_secs());
    }
    let mut failed = Vec::new();
    for one in &chosen {
        let started = Instant::now();
        let taken = one.take(is_quick);
        match taken.and_then(|file| file.write(one.name).map(|()| file)) {
            Ok(file) => println!("{}: {}", one.name, said(&file)),
            Err(error) => {
                let seconds = started.elapsed().as_secs();
                println!("{}: NOT MEASURED after {seconds} s: {error}", one.name);
                failed.push(one.name);
            }
        }
    }
    println!("{} s in all", start.elapsed().as_secs());
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "not measured, their files are as they were: {}",
        failed.join(", ")
    ))
}

fn said(file: &ResultFile) -> String {
    let (figures, runs) = (file.rows.len(), file.run.runs);
    let mark = if file.is_marked() { ", marked" } else { "" };
    file.run.beside.as_ref().map_or_else(String::new, |beside| {
        format!(
            "{figures} figures of {runs} runs in {:.0} s, load {} before, others had {:.2} CPUs (steal {:.2}){mark}",
            beside.seconds, beside.load_before, beside.foreign, beside.steal
        )
    })
}

/// Builds all first: nothing is compiled while something is measured.
fn build(chosen: &[&Measurement]) -> Result<(), String> {
    let build = |words: &[&str]| {
        let status = boot::cargo().args(words).status();
        let status = status.map_err(|error| format!("cargo: {error}"))?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("cargo {}: {status}", words.join(" ")))
        }
    };
    // An older program would be measured in the place of one that cannot be built.
    build(&["build", "--release", "--quiet", "-p", "framewright-lab"])?;
    for line in chosen.iter().flat_map(|one| one.commands) {
        let mut words: Vec<&str> = line.split(' ').collect();
        if words.remove(0) == "cargo" {
            words.push("--no-run");
            if let Err(error) = build(&words) {
                println!("{error}");
            }
        }
    }
    // Without it, tables lack the column of Linux's own allocator.
    let peer = "run --release --quiet -p framewright-checks -- peer-linux";
    if let Err(error) = build(&peer.split(' ').collect::<Vec<_>>()) {
        println!("Linux's own allocator of address space is not compared: {error}");
    }
    Ok(())
}

/// The laboratory's program. Cargo does not run it, because it would build it anew after a commit.
fn laboratory() -> Command {
    let beside = || boot::root().join("target");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(beside, PathBuf::from);
    let mut command = Command::new(target.join("release/framewright"));
    command.current_dir(boot::root());
    command
}

impl Measurement {
    fn take(&self, is_quick: bool) -> Result<ResultFile, String> {
        let (commands, times) = match (is_quick, self.quick) {
            (false, _) => (self.commands, self.runs),
            (true, []) => (self.commands, 1),
            (true, quick) => (quick, 1),
        };
        let folder = boot::root().join("target/measure");
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (commit, date) = (machine::commit(), machine::date());
        let load_before = machine::load_average();
        let start = Instant::now();
        let mut worst = ForeignLoad::default();
        let mut runs = Vec::new();
        for nth in 0..times {
            for (place, line) in commands.iter().enumerate() {
                let out = folder.join(format!("{}.{nth}.{place}.jsonl", self.name));
                // One of an earlier measurement may be there.
                let _ = fs::remove_file(&out);
                let watch = ForeignWatch::begin();
                self.run_once(line, &out)
                    .map_err(|error| format!("{line}: {error}"))?;
                let load = watch.end();
                if load.foreign > worst.foreign {
                    worst = load;
                }
                let text = fs::read_to_string(&out).map_err(|error| format!("{line}: {error}"))?;
                let rows = results::rows_in(&text).map_err(|error| format!("{line}: {error}"))?;
                runs.push(self.kept(rows));
            }
        }
        let rows = results::gather(&runs);
        if rows.is_empty() {
            return Err("no figure came of it".to_owned());
        }
        let run = RunRecord {
            commands: commands.iter().map(|&line| line.to_owned()).collect(),
            commit,
            date,
            with: String::new(),
            runs: times,
            is_trial: commands != self.commands || times != self.runs,
            linux: None,
            beside: Some(Surroundings::since(start, load_before, worst)),
        };
        Ok(ResultFile { run, rows })
    }

    fn kept(&self, rows: Vec<ResultRow>) -> Vec<ResultRow> {
        let is_kept = |row: &ResultRow| {
            let metric = row.metric.strip_prefix("error_").unwrap_or(&row.metric);
            self.keeps.is_empty() || self.keeps.contains(&metric)
        };
        rows.into_iter().filter(is_kept).collect()
    }

    /// Runs a command whose figures go to `out`.
    fn run_once(&self, line: &str, out: &Path) -> Result<(), String> {
        let words: Vec<String> = line.split(' ').map(recording).collect::<Result<_, _>>()?;
        let mut to_run = if words[0] == "framewright" {
            laboratory()
        } else {
            boot::cargo()
        };
        to_run.args(&words[1..]);
        if words[0] == "cargo" && !words.iter().any(|word| word == "--") {
            to_run.arg("--");
        }
        let log = out.with_extension("log");
        let said = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;
        let errors = said
            .try_clone()
            .map_err(|error| format!("{}: {error}", log.display()))?;
        let child = to_run
            .arg("--json")
            .arg(out)
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(errors)
            .process_group(0)
            .spawn();
        let mut child = child.map_err(|error| error.to_string())?;
        let limit = Duration::from_secs(self.limit_s);
        let end = wait(&mut child, limit);
        if end.is_ok() {
            return end;
        }
        let text = fs::read_to_string(&log).unwrap_or_default();
        let mut last: Vec<&str> = text.lines().rev().take(5).collect();
        last.reverse();
        end.map_err(|error| format!("{error}\n{}", last.join("\n")))
    }
}

/// Waits until the child ends well, for so long at most.
fn wait(child: &mut Child, limit: Duration) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let ended = child.try_wait().map_err(|error| error.to_string())?;
        match ended {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(status.to_string()),
            None if start.elapsed() > limit => {
                // The child's group: what cargo has started too.
                let group = format!("-{}", child.id());
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
                let _ = child.wait();
                return Err(format!("ended after {} s", limit.as_secs()));
            }
            None => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// A word of a command; a recording that lies beside the repository by its path.
fn recording(word: &str) -> Result<String, String> {
    if !word.ends_with(".pft.zst") || word.contains('/') {
        return Ok(word.to_owned());
    }
    let beside = || boot::root().join("../shared");
    let shared = env::var_os("FRAMEWRIGHT_SHARED").map_or_else(beside, PathBuf::from);
    let path = shared.join("traces").join(word);
    if path.is_file() {
        Ok(path.display().to_string())
    } else {
        Err(format!("{} is not there", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_and_each_has_one_file() {
        let all: Vec<&str> = ALL.iter().map(|one| one.name).collect();
        for (nth, name) in all.iter().enumerate() {
            assert!(!all[..nth].contains(name), "{name}");
        }
        let refused = run(&["no-such".to_owned()], true, true).unwrap_err();
        assert!(refused.contains("`no-such`"), "{refused}");
        assert_eq!(names(true).len() + names(false).len(), all.len());
    }

    #[test]
    fn result_files_are_of_the_commands_that_stand_here() {
        for one in ALL {
            let Ok(file) = ResultFile::read(one.name) else {
                assert!(!one.is_default, "{} is not measured", one.name);
                continue;
            };
            let (is_trial, quick) = (file.run.is_trial, one.quick);
            let expected = if is_trial && !quick.is_empty() {
                quick
            } else {
                one.commands
            };
            assert_eq!(
                file.run.commands, expected,
                "{}: `cargo xtask measure {}` brings it up to date",
                one.name, one.name
            );
        }
    }

    #[test]
    fn only_named_metrics_are_kept() {
        let rows = results::rows_in(
            "{\"case\":\"c\",\"variant\":\"v\",\"metric\":\"mixed_blocks\",\"value\":1,\"unit\":\"\",\
             \"source\":\"simulated\"}\n{\"case\":\"c\",\"variant\":\"v\",\"metric\":\"samples\",\"value\":1,\
             \"unit\":\"\",\"source\":\"simulated\"}\n",
        );
        let recordings = ALL.iter().find(|one| one.name == "recordings").unwrap();
        let kept = recordings.kept(rows.unwrap());
        assert_eq!(kept.len(), 1);
        assert_eq!(kept[0].metric, "mixed_blocks");
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let child = Command::new("sleep").arg("60").process_group(0).spawn();
        let ended = wait(&mut child.unwrap(), Duration::from_millis(100));
        assert_eq!(ended.unwrap_err(), "ended after 0 s");
        let mut failing = Command::new("false").process_group(0).spawn().unwrap();
        assert!(wait(&mut failing, Duration::from_secs(60)).is_err());
    }
}
