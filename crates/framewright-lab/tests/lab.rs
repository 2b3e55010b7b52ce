//! The command `framewright lab`.
#![cfg(target_os = "linux")]

use assert_cmd::Command;
use serde_json::Value;
use std::ffi::OsString;

/// The command: what `FRAMEWRIGHT` names, as for the long tests, or what was built with this test.
fn program() -> OsString {
    std::env::var_os("FRAMEWRIGHT").unwrap_or_else(|| env!("CARGO_BIN_EXE_framewright").into())
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(program())
        .args(["--wide", "lab"])
        .args(args)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

const QUICK: [&str; 6] = ["--mapper", "null", "--loops", "200", "--repeat", "1"];

#[test]
fn both_experiments_print_the_documents_columns_beside_ours() {
    for (experiment, case) in [("vmap-blocks", "exhaust"), ("va-fit", "ne_fit")] {
        let (code, out, error) = run(&[&[experiment, "--case", case][..], &QUICK].concat());
        assert_eq!(code, Some(0), "{error}");
        assert!(out.starts_with(experiment), "{out}");
        let mut lines = out.lines().skip(1);
        let titles = [lines.next().unwrap(), lines.next().unwrap()].join(" ");
        let words: Vec<&str> = titles.split_whitespace().collect();
        for title in ["published", "before", "proposed", "framewright"] {
            assert!(words.contains(&title), "{titles}");
        }
        assert!(out.contains(case), "{out}");
    }
}

#[test]
fn a_reader_of_counts_is_told_of_how_many_operations_they_are() {
    let fewer = "before makes fewer operations";
    let of = |case| run(&[&["va-fit", "--case", case][..], &QUICK].concat()).1;
    assert!(of("random_size_align").contains(fewer));
    assert!(!of("fix_size").contains(fewer));
    let of = |more: &[&str]| run(&[&["vmap-blocks", "--case", "random"][..], more].concat()).1;
    let other = "Not the document's number of iterations";
    assert!(of(&QUICK).contains(other));
    assert!(!of(&["--mapper", "null", "--repeat", "1"]).contains(other));
}

#[test]
fn figures_are_flat_records_behind_one_that_describes_the_run() {
    let args = [
        "va-fit",
        "--case",
        "le_fit,vm_map_ram",
        "--seed",
        "9",
        "--json",
        "-",
    ];
    let (code, out, error) = run(&[&args[..], &QUICK].concat());
    assert_eq!(code, Some(0), "{error}");
    let mut records = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let first = records.next().unwrap();
    assert_eq!(first["experiment"], "va-fit");
    assert_eq!(first["seed"], 9);
    assert_eq!(first["options"]["mapper"], "null");
    assert_eq!(
        first["options"]["case"],
        "le_fit,vm_map_ram/1,vm_map_ram/4,vm_map_ram/16,vm_map_ram/64"
    );
    let mut sources = [0; 3];
    for record in records {
        let keys: Vec<&String> = record.as_object().unwrap().keys().collect();
        assert_eq!(keys.len(), 7, "{record}");
        assert!(record["value"].is_number() && record["unit"].is_string());
        let variant = record["variant"].as_str().unwrap();
        assert!(["before", "proposed", "tree", "framewright", "linux-6.12"].contains(&variant));
        let source = record["source"].as_str().unwrap();
        let nth = ["measured", "simulated", "published"]
            .iter()
            .position(|s| *s == source);
        sources[nth.unwrap()] += 1;
    }
    assert!(sources.iter().all(|&count| count > 0), "{sources:?}");
}

#[test]
fn the_host_mapper_measures_real_mappings() {
    let args = [
        "--mapper", "host", "--loops", "50", "--repeat", "1", "--json", "-",
    ];
    for case in [
        ["vmap-blocks", "--case", "random"],
        ["va-fit", "--case", "churn"],
    ] {
        let (code, out, error) = run(&[&case[..], &args].concat());
        assert_eq!(code, Some(0), "{error}");
        assert!(out.contains(r#""metric":"tlb_flushes""#), "{out}");
        assert!(out.contains(r#""variant":"framewright""#), "{out}");
        // The range over seeds is counted where nothing is mapped, whatever the mapper.
        let over_seeds = ["_least", "_middle", "_most"].map(|end| format!("{end}\",\"value\""));
        let mut simulated = out.lines().filter(|line| {
            let is_of_seeds = over_seeds.iter().any(|end| line.contains(end));
            line.contains(r#""source":"simulated""#) && !is_of_seeds
        });
        assert_eq!(simulated.next(), None);
    }
}

/// 0.02 s each, in little memory.
const SHORT: [&str; 9] = [
    "kvmalloc",
    "--memory",
    "48MiB",
    "--mapper",
    "null",
    "--seconds",
    "0.02",
    "--repeat",
    "1",
];

#[test]
fn kvmalloc_prints_a_table_a_curve_or_records() {
    let (code, out, error) = run(&SHORT);
    assert_eq!(code, Some(0), "{error}");
    assert!(
        out.starts_with("kvmalloc, mapper null: buffers of 65536 bytes"),
        "{out}"
    );
    for row in [
        "threads/2",
        "31.62 %",
        "lock_contended_share.free_vmap_area",
        "kvmalloc_ns_p999",
    ] {
        assert!(out.contains(row), "{row} is missing:\n{out}");
    }
    let args = [
        "--threads",
        "1,2",
        "--object",
        "16KiB",
        "--fragmented",
        "50",
        "--json",
        "-",
    ];
    let (code, out, error) = run(&[&SHORT[..], &args].concat());
    assert_eq!(code, Some(0), "{error}");
    let mut records = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let first = records.next().unwrap();
    assert_eq!(first["experiment"], "kvmalloc");
    assert_eq!(first["options"]["threads"], "1,2");
    assert_eq!(first["options"]["object"], "16384");
    let all: Vec<Value> = records.collect();
    for case in [
        "threads/1/object/16384/fragmented/50",
        "threads/2/object/16384/fragmented/50",
    ] {
        for metric in [
            "commits_per_s",
            "spilled_share",
            "lock_contended_share.zone",
        ] {
            let has = |record: &&Value| record["case"] == case && record["metric"] == metric;
            assert!(all.iter().any(|r| has(&r)), "{case} {metric}");
        }
    }
}

#[test]
fn fallback_prints_a_table_or_records_that_are_the_same_for_a_seed() {
    let short = ["fallback", "--days", "0.001", "--policy", "before,proposed"];
    let (code, out, error) = run(&short);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.starts_with("fallback: a synthetic phone"), "{out}");
    for row in ["seed/1", "blocks_unmovable", "637 608", "mixed_pageblocks"] {
        assert!(out.contains(row), "{row} is missing:\n{out}");
    }
    assert!(out.contains("published: counts of 2.5 days"), "{out}");
    let records = || {
        let args = ["--seed", "7,8", "--jobs", "2", "--json", "-"];
        let (code, out, error) = run(&[&short[..], &args].concat());
        assert_eq!(code, Some(0), "{error}");
        out
    };
    let out = records();
    assert_eq!(out, records(), "the same seeds, the same bytes");
    let first: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!(first["experiment"], "fallback");
    assert_eq!(first["options"]["seeds"], "7,8");
    for case in ["seed/7", "seed/8"] {
        assert!(out.contains(&format!(r#""case":"{case}","variant":"before""#)));
    }
}

#[test]
fn fallback_holds_assertions_and_writes_a_series() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("series.csv");
    let csv = csv.to_str().unwrap();
    let short = ["fallback", "--days", "0.001", "--policy", "before"];
    let series = ["--csv", csv, "--every", "20"];
    let holds = ["--assert", "before.failed==0"];
    let (code, _, error) = run(&[&short[..], &series, &holds].concat());
    assert_eq!(code, Some(0), "{error}");
    let text = std::fs::read_to_string(csv).unwrap();
    assert!(
        text.starts_with("case,variant,awake_s,blocks_unmovable"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 1 + 3, "62 seconds awake");
    let (code, _, error) = run(&[&short[..], &["--assert", "before.requests==0"]].concat());
    assert_eq!(code, Some(1), "{error}");
    assert!(
        error.contains("seed/1: before.requests==0 does not hold"),
        "{error}"
    );
}

#[test]
fn a_fault_in_a_parameter_file_is_said_with_file_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("my.toml");
    let path = file.to_str().unwrap();
    std::fs::write(&file, "[machine]\npageblocks = -1\n").unwrap();
    let (code, out, error) = run(&["fallback", "--params", path]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(error.contains("my.toml:2: "), "{error}");
    let (code, _, error) = run(&["fallback", "--params", "no/such.toml"]);
    assert_eq!(code, Some(2));
    assert!(
        error.contains("no/such.toml: cannot open the file"),
        "{error}"
    );
}

#[test]
fn bad_input_is_exit_code_2_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("out.jsonl");
    let json = json.to_str().unwrap();
    for (args, says) in [
        (
            &["va-fit", "--case", "no_fit"][..],
            "there is no case 'no_fit', expected one of backlog, le_fit",
        ),
        (
            &["vmap-blocks", "--case", "tail"],
            "expected one of exhaust, random, orders",
        ),
        (
            &["va-fit", "--mapper", "disk"],
            "possible values: null, host",
        ),
        (&["va-fit", "--threads", "0"], "0 is not in 1..=64"),
        (&["vmap-blocks", "--threads", "2"], "2 is not in 1..=1"),
        (&["va-fit", "--loops", "0"], "0 is not in 1..=1000000000"),
        (&["va-fit", "--repeat", "many"], "invalid value 'many'"),
        (&["vmap-blocks", "--seed", "one"], "invalid value 'one'"),
        (
            &["kvmalloc", "--object", "0"],
            "a size of 0 bytes is none, expected 1 byte or more",
        ),
        (
            &["kvmalloc", "--object", "64KB"],
            "expected a size as 64KiB, 1MiB or 70000",
        ),
        (
            &["kvmalloc", "--object", "1GiB"],
            "an object of 1073741824 bytes is too large",
        ),
        (
            &["kvmalloc", "--fragmented", "101"],
            "101 is not in 0..=100",
        ),
        (&["kvmalloc", "--threads", "0"], "0 is not in 1..=64"),
        (&["kvmalloc", "--threads", "2,x"], "invalid value 'x'"),
        (&["kvmalloc", "--seconds", "0"], "expected seconds above 0"),
        (
            &["fallback", "--days", "0"],
            "expected days from 0.001 to 100",
        ),
        (
            &["fallback", "--days=-1"],
            "expected days from 0.001 to 100",
        ),
        (
            &["fallback", "--policy", "after"],
            "possible values: before",
        ),
        (&["fallback", "--seeds", "0"], "0 is not in 1..=1000"),
        (
            &["fallback", "--assert", "stalls"],
            "'stalls' has no relation",
        ),
        (&["faster"], "unrecognized subcommand 'faster'"),
    ] {
        let (code, out, error) = run(&[args, &["--json", json][..]].concat());
        assert_eq!((code, out.as_str()), (Some(2), ""), "{error}");
        assert!(error.contains(says), "{args:?}: {error}");
        assert!(!std::path::Path::new(json).exists());
    }
    let nowhere = folder.path().join("no/such/folder.jsonl");
    // Known before the experiment, which would take minutes.
    let args = [
        "va-fit",
        "--loops",
        "1000000000",
        "--json",
        nowhere.to_str().unwrap(),
    ];
    let (code, _, error) = run(&args);
    assert_eq!(code, Some(2));
    assert!(error.contains("folder.jsonl: cannot write: "), "{error}");
    // And before everything else that `all` does, which takes a minute or two.
    let page = folder.path().join("no/such/page.html");
    let page = page.to_str().unwrap();
    for args in [
        &["all", "--html", page][..],
        &["all", "--full", "--html", page],
        &["all", "--no-html", "--json", page],
    ] {
        let (code, out, error) = run(args);
        assert_eq!((code, out.as_str()), (Some(2), ""));
        assert!(error.contains("page.html: cannot write: "), "{error}");
    }
    let same = folder.path().join("same");
    let same = same.to_str().unwrap();
    let (code, out, error) = run(&["all", "--html", same, "--json", same]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        error.contains("want the same file, expected two"),
        "{error}"
    );
}

/// 1, 512, 1024 and 2048 frames, a reservation each.
const GCMA: [&str; 7] = [
    "gcma",
    "--ram",
    "40MiB",
    "--reserve",
    "16MiB",
    "--requests",
    "2",
];

fn records(out: &str) -> impl Iterator<Item = Value> {
    let lines = out.lines().skip(1);
    lines.map(|line| serde_json::from_str::<Value>(line).unwrap())
}

#[test]
fn gcma_takes_contiguous_memory_from_guests() {
    for more in [
        &["--idle"][..],
        &["--background", "none"],
        &["--background", "guest"],
    ] {
        let (code, out, error) = run(&[&GCMA[..], more].concat());
        assert_eq!(code, Some(0), "{error}");
        assert!(out.starts_with("gcma: 2 requests of each size"), "{out}");
        for row in [" 2048 ", "790 727", "latency_us_p50", "pages_discarded"] {
            assert!(out.contains(row), "{row} is missing:\n{out}");
        }
        assert!(!out.contains(" 4096 "), "the area has 4096 frames:\n{out}");
        assert!(!out.contains("elapsed_s"), "there is no build:\n{out}");
    }
    let (_, out, _) = run(&[&GCMA[..], &["--idle", "--json", "-"]].concat());
    let mut cases = 0;
    for record in records(&out).filter(|record| record["source"] == "measured") {
        let variant = record["variant"].as_str().unwrap();
        let frames: u64 = record["case"].as_str().unwrap().parse().unwrap();
        match record["metric"].as_str().unwrap() {
            // Of full memory, exactly what was asked for.
            "pages_discarded" if variant != "cma" => {
                assert_eq!(record["value"], 2 * frames, "{record}");
                cases += 1;
            }
            "failures" => assert_eq!(record["value"], 0, "{record}"),
            _ => {}
        }
    }
    assert_eq!(cases, 3 * 4, "three variants with guests, four sizes");
}

#[test]
#[ignore = "long: .ci/run runs it"]
fn gcma_builds_source_files_beside_the_requests() {
    let tree = tempfile::tempdir().unwrap();
    for nth in 0..300 {
        let folder = tree.path().join(format!("d{}", nth % 3));
        std::fs::create_dir_all(&folder).unwrap();
        let names = (0..1500).map(|at| format!("name_{} ", at * nth % 977));
        let text = format!("#include \"h{}.h\"\n{}", nth % 7, names.collect::<String>());
        std::fs::write(folder.join(format!("f{nth}.c")), text).unwrap();
        std::fs::write(folder.join(format!("h{nth}.h")), "int x;\n".repeat(200)).unwrap();
    }
    let more = [
        "--tree",
        tree.path().to_str().unwrap(),
        "--device",
        "host",
        "--pins",
        "8",
        "--workers",
        "4",
        "--passes",
        "2",
        "--interval",
        "50",
        "--json",
        "-",
    ];
    let (code, out, error) = run(&[&GCMA[..], &more].concat());
    assert_eq!(code, Some(0), "{error}");
    let mut builds = 0;
    for record in records(&out).filter(|record| record["source"] == "measured") {
        let variant = record["variant"].as_str().unwrap();
        let value = record["value"].as_f64().unwrap();
        match record["metric"].as_str().unwrap() {
            "elapsed_s" | "user_s" => {
                assert!(value > 0.0, "{record}");
                builds += 1;
            }
            "failures" => assert!(value == 0.0 || variant == "cma", "{record}"),
            "requests" => assert!(value >= 2.0 && variant != "original", "{record}"),
            "pages_written_twice" => assert_eq!(value, 0.0, "{record}"),
            _ => {}
        }
    }
    assert_eq!(builds, 2 * 5, "two metrics, five variants");
}

#[test]
#[ignore = "long: .ci/run runs it"]
fn gcma_builds_on_a_slow_card_with_each_policy() {
    let tree = tempfile::tempdir().unwrap();
    for nth in 0..24 {
        let text = format!("int name_{nth};\n").repeat(2000 + nth * 100);
        std::fs::write(tree.path().join(format!("f{nth}.c")), text).unwrap();
    }
    for (policy, lengths) in [
        ("write-through", "unknown"),
        ("write-back", "known"),
        ("put-back", "unknown"),
        ("put-back", "known"),
    ] {
        let more = [
            "--tree",
            tree.path().to_str().unwrap(),
            "--device",
            "card",
            "--policy",
            policy,
            "--lengths",
            lengths,
            "--workers",
            "3",
            "--passes",
            "2",
            "--interval",
            "20",
            "--variants",
            "cma,gcma,framewright",
            "--json",
            "-",
        ];
        let (code, out, error) = run(&[&GCMA[..], &more].concat());
        assert_eq!(code, Some(0), "{policy}: {error}");
        let info: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
        assert_eq!(info["options"]["device"], "card");
        assert_eq!(info["options"]["policy"], policy);
        assert_eq!(info["options"]["lengths"], lengths);
        let measured = |metric: &str| {
            records(&out)
                .filter(|r| r["source"] == "measured" && r["metric"] == metric)
                .map(|r| (r["variant"].clone(), r["value"].as_f64().unwrap()))
                .collect::<Vec<_>>()
        };
        // Without a reservation nothing is guaranteed.
        let is_guaranteed = lengths == "known";
        for (variant, failures) in measured("failures").into_iter().filter(|_| is_guaranteed) {
            assert!(failures == 0.0 || variant == "cma", "{variant}: {failures}");
        }
        assert_eq!(
            measured("wait_us").len(),
            3 * 4,
            "three variants, four sizes"
        );
        let twice = measured("pages_written_twice");
        assert!(
            twice.iter().all(|(_, n)| *n == 0.0),
            "{policy}, {lengths}: {twice:?}"
        );
    }
}

#[test]
fn gcma_says_what_it_cannot_do() {
    for (args, what) in [
        (
            &["--ram", "64MiB", "--reserve", "64MiB"][..],
            "a RAM of 64 MiB has no room for a reserve of 64 MiB and 16 MiB besides",
        ),
        (
            &["--reserve", "1MiB"],
            "a reserve of 1 MiB is too small, expected 4 MiB or more",
        ),
        (&["--ram", "1000000GiB"], "are needed"),
        (&["--variants", "buddy"], "possible values: "),
        (&["--requests", "0"], "0 is not in 1.."),
        (
            &["--tree", "/no/such/folder"],
            "/no/such/folder: cannot read: ",
        ),
        (
            &[
                &GCMA[1..],
                &[
                    "--idle",
                    "--variants",
                    "gcma",
                    "--assert",
                    "cma.failures==0",
                ],
            ]
            .concat(),
            "there is no figure cma.failures",
        ),
    ] {
        let (code, out, error) = run(&[&["gcma"][..], args].concat());
        assert_eq!(code, Some(2), "{args:?}: {error}");
        assert!(error.contains(what) && out.is_empty(), "{args:?}: {error}");
    }
}

#[test]
fn gcma_says_how_many_requests_could_not_be_made_beside_builds() {
    let tree = tempfile::tempdir().unwrap();
    std::fs::write(tree.path().join("a.c"), "int main(void) {}\n").unwrap();
    let (ram, tree) = ("--ram=40MiB", tree.path().to_str().unwrap());
    let asked = [
        "--reserve=16MiB",
        "--requests=1000",
        "--interval=10",
        "--workers=1",
    ];
    let on = ["--variants=gcma", "--device=host", "--tree", tree];
    let (code, out, error) = run(&[&["gcma", ram][..], &asked, &on].concat());
    assert_eq!(code, Some(2), "{error}");
    let what = " of 4000 requests were made beside 50 builds";
    assert!(error.contains(what) && out.is_empty(), "{error}");
}
