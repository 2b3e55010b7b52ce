//! Every seed of `fuzz/seeds`, and each with random changes, through the bodies that the fuzz
//! targets have: with a bound on memory, and without a fuzzer.
//!
//! `FRAMEWRIGHT_FUZZ_CHANGES` says how many changes a seed gets, `FRAMEWRIGHT_FUZZ_SEED` which.

use framewright_lab::fuzzing::{FORMATS, FuzzedFormat, by_name, check, mutate};
use peak_alloc::PeakAlloc;
use std::path::{Path, PathBuf};

framewright_lab::metered_heap!(PeakAlloc);

fn from_env(name: &str, usual: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A format's seeds by name.
fn seeds(format: &FuzzedFormat) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds")
        .join(format.name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let bytes = std::fs::read(&path).unwrap();
        (path, bytes)
    };
    paths.into_iter().map(read).collect()
}

/// One test: what another held at the same time would count as this one's.
#[test]
fn no_seed_and_no_change_of_one_panics_or_costs_more_than_in_proportion() {
    let changes = from_env("FRAMEWRIGHT_FUZZ_CHANGES", 60);
    let first = from_env("FRAMEWRIGHT_FUZZ_SEED", 1);
    for format in FORMATS {
        let seeds = seeds(format);
        assert!(!seeds.is_empty(), "{} has no seeds", format.name);
        for (path, bytes) in &seeds {
            println!("{}", path.display());
            check(format, bytes, &METER);
            for change in first..first + changes {
                let other = &seeds[change as usize % seeds.len()].1;
                let mut changed = bytes.clone();
                mutate(&mut changed, other, change);
                let run = || check(format, &changed, &METER);
                if let Err(panic) = std::panic::catch_unwind(run) {
                    eprintln!(
                        "{} change {change}: {:?}",
                        path.display(),
                        String::from_utf8_lossy(&changed)
                    );
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
    costs_beyond_the_bound_are_seen();
}

fn costs_beyond_the_bound_are_seen() {
    let greedy = FuzzedFormat {
        name: "greedy",
        body: |_| drop(std::hint::black_box(vec![1u8; 8 << 20])),
        base_bytes: 4 << 20,
        bytes_per_byte: 1,
    };
    let seen = std::panic::catch_unwind(|| check(&greedy, b"x", &METER));
    assert!(seen.is_err(), "8 MiB for a byte");
    assert!(by_name("pft").is_some());
}
