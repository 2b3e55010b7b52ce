//! The experiment as a whole on 32 MiB: only the document's kernel stalls, and no variant loses a byte.

use super::metrics as m;
use super::*;
use crate::experiment::Mapper;
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};
use std::sync::atomic::AtomicU64;

/// 32 MiB, two threads, a few dozen commits.
fn tiny() -> KvmallocOptions {
    KvmallocOptions {
        mapper: Mapper::Null,
        threads: 2,
        object: ObjectSize::Bytes(16 << 10),
        fragmented: 100,
        seconds: 0.02,
        seed: 1,
        repeat: 1,
        read_in: None,
        memory_bytes: 32 << 20,
        is_short: false,
    }
}

fn figures(options: KvmallocOptions) -> Vec<Figure> {
    let steps = AtomicU64::new(0);
    let figures = run("threads/2", options, Progress::new(&steps))
        .unwrap()
        .figures;
    assert_eq!(steps.into_inner(), super::steps(options));
    figures
}

fn value(figures: &[Figure], variant: &str, metric: Metric) -> f64 {
    let found = figures.iter().find(|figure| {
        figure.variant == variant
            && figure.metric == metric
            && figure.source == FigureSource::Measured
    });
    found
        .unwrap_or_else(|| panic!("{variant} has no {}", metric.name()))
        .value
}

/// That no byte of any buffer or tenant is lost, `run` itself checks.
#[test]
fn the_whole_experiment_runs_and_only_before_stalls() {
    for mapper in [Mapper::Null, Mapper::Host] {
        let figures = figures(KvmallocOptions { mapper, ..tiny() });
        for variant in VARIANTS {
            assert!(value(&figures, variant, m::COMMITS_PER_S) > 0.0);
            assert!(value(&figures, variant, m::KVMALLOC_CPU_NS) > 0.0);
            assert!(value(&figures, variant, m::SPILLED_SHARE) > 0.0);
        }
        for variant in [PROPOSED, FRAMEWRIGHT, FRAMEWRIGHT_KEPT] {
            assert_eq!(value(&figures, variant, m::COMPACT_STALL), 0.0);
            assert_eq!(value(&figures, variant, m::ALLOCSTALL), 0.0);
        }
        assert!(value(&figures, BEFORE, m::COMPACT_STALL) > 0.0);
        assert_eq!(value(&figures, BEFORE, m::COMMITS_VS_BEFORE), 1.0);
        let contended = m::LOCK_CONTENDED_SHARE.named("free_vmap_area");
        assert!((0.0..=1.0).contains(&value(&figures, PROPOSED, contended)));
    }
}

#[test]
fn the_engine_never_stalls_at_any_fragmentation() {
    for fragmented in [0, 50, 90] {
        let figures = figures(KvmallocOptions {
            fragmented,
            ..tiny()
        });
        for metric in [m::COMPACT_STALL, m::ALLOCSTALL] {
            assert_eq!(value(&figures, FRAMEWRIGHT, metric), 0.0, "{fragmented} %");
        }
    }
}

#[test]
fn objects_of_mixed_lengths_keep_their_bytes_and_have_no_published_figures() {
    let mut options = KvmallocOptions {
        object: ObjectSize::Mixed,
        ..tiny()
    };
    options.memory_bytes = 64 << 20;
    let figures = figures(options);
    for variant in VARIANTS {
        assert!(value(&figures, variant, m::COMMITS_PER_S) > 0.0);
    }
    let is_published = |figure: &Figure| figure.source == FigureSource::Published;
    assert!(!figures.iter().any(is_published));
}

/// No thread reclaims ahead, so the allocator or the writer must for the calls, and either is counted.
#[test]
fn what_calls_must_reclaim_is_counted_in_every_variant() {
    // However little of the machine it has, it comes to where memory is short some time.
    let lengths = [0.2, 0.8, 3.2, 12.8].into_iter();
    let mut runs = lengths.map(|seconds| {
        figures(KvmallocOptions {
            is_short: true,
            seconds,
            ..tiny()
        })
    });
    let has_stalls = |figures: &Vec<Figure>| value(figures, FRAMEWRIGHT, m::ALLOCSTALL) > 0.0;
    let figures = runs.find(has_stalls).expect("the engine never stalls");
    for variant in VARIANTS {
        let stalls = value(&figures, variant, m::ALLOCSTALL);
        let reclaimed = value(&figures, variant, m::RECLAIMED);
        assert_eq!(
            stalls > 0.0,
            reclaimed > 0.0,
            "{variant}: {stalls} {reclaimed}"
        );
        assert!(stalls >= value(&figures, variant, m::WAITS));
    }
}

#[test]
fn small_objects_that_begin_inside_of_a_frame_keep_their_bytes() {
    for bytes in [1, 100, 3000, 5000] {
        let figures = figures(KvmallocOptions {
            object: ObjectSize::Bytes(bytes),
            read_in: Some(1),
            fragmented: 50,
            ..tiny()
        });
        assert!(value(&figures, FRAMEWRIGHT, m::COMMITS_PER_S) > 0.0);
    }
}

#[test]
fn without_a_cache_that_turns_over_locks_are_the_buffers_alone() {
    let figures = figures(KvmallocOptions {
        read_in: Some(0),
        ..tiny()
    });
    let of = |lock| value(&figures, PROPOSED, m::LOCK_PER_CALL.named(lock));
    assert!(of("free_vmap_area") > 0.5, "each of them takes it");
    assert!(of("vmap_area") > 0.5);
}

#[test]
fn the_documents_figures_stand_beside_ours() {
    let figures = published::figures("threads/2");
    let of = |variant, metric| {
        let found = figures
            .iter()
            .find(|f| f.variant == variant && f.metric == metric);
        found.unwrap().value
    };
    assert!((of(BEFORE, m::KVMALLOC_SHARE) - 0.3162).abs() < 1e-9);
    assert!((of(PROPOSED, m::KVMALLOC_SHARE) - 0.1417).abs() < 1e-9);
    assert_eq!(of(PROPOSED, m::COMMITS_VS_BEFORE), 2.0);
}

#[test]
fn what_does_not_fit_is_said_with_the_numbers() {
    let refused = |options| {
        let steps = AtomicU64::new(0);
        run("threads/2", options, Progress::new(&steps))
            .unwrap_err()
            .to_string()
    };
    let large = refused(KvmallocOptions {
        object: ObjectSize::Bytes(1 << 30),
        ..tiny()
    });
    assert!(
        large.contains("an object of 1073741824 bytes is too large"),
        "{large}"
    );
    assert!(large.contains("memory of 32 MiB"), "{large}");
    let longest = refused(KvmallocOptions {
        object: ObjectSize::Bytes(u64::MAX),
        ..tiny()
    });
    assert!(longest.contains("too large"), "{longest}");
    let machine = refused(KvmallocOptions {
        memory_bytes: 1 << 40,
        ..tiny()
    });
    assert!(machine.contains("MiB of memory are available"), "{machine}");
    let little = refused(KvmallocOptions {
        memory_bytes: 1,
        ..tiny()
    });
    assert_eq!(little, "memory of 1 bytes is not between 32 MiB and 1 TiB");
}
