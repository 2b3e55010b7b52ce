//! The large recordings, where they lie beside the repository: every policy from every start.
//!
//! Eight replays of 8 and 20 million operations under nine policies: too slow without
//! optimisation, so a debug build says so and leaves it to `.ci/run`.

use crate::support::recorded;
use framewright_lab::replay::{
    ReplayJob, ReplayOptions, ReplayPolicy, SAMPLE_MS, Start, TraceMemory, read_reference,
    replay_all,
};
use framewright_lab::report::calibrate;
use framewright_lab::trace::{Recording, Trace};
use std::path::Path;
use std::sync::atomic::AtomicU64;

fn load(path: &Path) -> Trace {
    match Recording::open(path).unwrap() {
        Recording::Columns(trace) => *trace,
        Recording::Text(_) | Recording::Stream(_) => {
            panic!("{} was taken for text", path.display())
        }
    }
}

fn every_policy_from_every_start(name: &str) {
    let Some(path) = recorded(&format!("{name}.pft.zst")) else {
        return;
    };
    if cfg!(debug_assertions) {
        println!("skipped: {name} takes minutes without optimisation");
        return;
    }
    let trace = load(&path);
    let memory = TraceMemory::new(&trace).unwrap();
    let mut jobs = Vec::new();
    for start in [Start::Imposed, Start::Fresh] {
        for squeeze in [0, 40_000] {
            let every_ms = Some(SAMPLE_MS);
            let options = ReplayOptions {
                squeeze,
                every_ms,
                ..ReplayOptions::new(start)
            };
            let job = |policy| ReplayJob {
                policy,
                memory: &memory,
                options,
            };
            jobs.extend(ReplayPolicy::ALL.map(job));
        }
    }
    let outcomes = replay_all(&jobs, 2, &AtomicU64::new(0)).unwrap();
    let mut failed = 0;
    for (job, outcome) in jobs.iter().zip(&outcomes) {
        let at = format!("{name} {:?} {}", job.options, outcome.policy);
        assert_eq!(outcome.false_failures, 0, "{at}");
        assert_eq!(outcome.unplaced, 0, "{at}");
        failed += outcome.failures.iter().sum::<u64>();
    }
    assert!(failed > 0, "the policies are put under pressure");

    // The samples are those of the reference, so that it compares what belongs together.
    let csv = path.with_file_name(format!("{name}.linux_ref.csv"));
    let csv = std::fs::read_to_string(csv).unwrap();
    let reference = read_reference(&csv, trace.present_frames()).unwrap();
    let model = jobs
        .iter()
        .position(|job| job.policy == ReplayPolicy::ASSUMED_KERNEL)
        .unwrap();
    let calibration = calibrate(&trace, &reference, &outcomes[model]).unwrap();
    assert_eq!(calibration.samples, outcomes[model].means.samples());
    assert!(reference.len() as u64 - calibration.samples <= 1);
}

#[test]
fn recorded_files_and_slabs_under_every_policy_from_every_start() {
    every_policy_from_every_start("fileA");
}

#[test]
fn recorded_mixture_under_every_policy_from_every_start() {
    every_policy_from_every_start("mixC");
}
