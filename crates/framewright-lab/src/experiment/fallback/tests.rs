//! A phone of an eighth of the size: its life depends on the seed alone, its demand not on the kernel, and its
//! frames add up.

use super::metrics as m;
use super::test_kernel::PlainKernel;
use super::*;
use crate::measure::Metric;
use std::sync::atomic::AtomicU64;

/// A phone of an eighth of the size, so that minutes of it are short of memory.
fn small() -> Params {
    let mut params = Params::default();
    let machine = &mut params.machine;
    machine.pageblocks = 90;
    machine.mem_total_kib = 90 * 4096 - 128 * 4;
    machine.reserved = vec![[512, 128]];
    machine.cma = [60, 14];
    machine.min_free_kib = 800;
    machine.extra_free_kib = 3000;
    for limit in &mut params.killer.minfree_frames {
        *limit /= 8;
    }
    params.system.anon_frames /= 8;
    params.system.threads /= 8;
    params.system.slab_frames /= 8;
    params.system.graphics_frames /= 8;
    let apps = &mut params.applications;
    for span in [
        &mut apps.anon_frames,
        &mut apps.slab_frames,
        &mut apps.file_frames,
        &mut apps.texture_frames,
    ] {
        *span = span.map(|frames| frames / 8);
    }
    apps.surface_frames /= 8;
    params.check_for_test();
    params
}

fn lived(params: &Params, seed: u64, days_milli: u64) -> LifeOutcome {
    on(
        &mut PlainKernel::new(&params.machine),
        params,
        seed,
        days_milli,
    )
}

fn on(kernel: &mut PlainKernel, params: &Params, seed: u64, days_milli: u64) -> LifeOutcome {
    let steps = AtomicU64::new(0);
    let span = LifeSpan {
        days_milli,
        every_s: Some(60),
    };
    let outcome = live(params, kernel, seed, span, Progress::new(&steps));
    assert_eq!(steps.into_inner(), span.steps(params), "simulated seconds");
    let points = outcome.points.len() as u64;
    assert_eq!(points, (span.steps(params) - 1) / 60, "one a minute");
    outcome
}

fn frames(blocks: &[[u64; 11]]) -> u64 {
    let of = |(order, blocks): (usize, &u64)| blocks << order;
    let lists = blocks
        .iter()
        .map(|list| list.iter().enumerate().map(of).sum::<u64>());
    lists.sum()
}

#[test]
fn the_same_seed_is_the_same_life_and_another_one_is_not() {
    let params = small();
    let one = lived(&params, 1, 3);
    assert_eq!(one, lived(&params, 1, 3));
    assert_ne!(one.lived, lived(&params, 2, 3).lived);
}

#[test]
fn frames_held_and_frames_free_are_all_there_are() {
    let params = small();
    for days_milli in [1, 3] {
        let outcome = lived(&params, 3, days_milli);
        let held = outcome.lived.frames_held;
        assert_eq!(
            held + frames(&outcome.free_blocks),
            params.machine.present()
        );
        let kinds = outcome.lived;
        let sum = kinds.file_frames
            + kinds.anon_frames
            + kinds.unmovable_frames
            + kinds.reclaimable_frames;
        assert_eq!(sum, held);
    }
}

#[test]
fn a_phone_under_pressure_reads_reclaims_and_kills() {
    let outcome = lived(&small(), 1, 8);
    let lived = outcome.lived;
    assert!(lived.kills > 0 && lived.starts > lived.kills, "{lived:?}");
    assert!(lived.pages_missed > 0 && lived.pages_missed < lived.pages_read);
    assert!(outcome.stats.pgsteal_kswapd > 0);
    assert!(outcome.stats.pgsteal_kswapd <= outcome.stats.pgscan_kswapd);
    assert!(lived.mixed_pageblocks > 0);
    assert!(lived.mixed_pageblocks <= lived.contaminated_pageblocks);
}

fn value(outcome: &LifeOutcome, metric: Metric) -> u64 {
    let values = outcome.values();
    values.iter().find(|(named, _)| *named == metric).unwrap().1
}

#[test]
fn mixed_pageblocks_on_average_and_at_most_are_those_of_looks_every_ten_seconds_and_of_the_end() {
    let params = small();
    let mut kernel = PlainKernel::new(&params.machine);
    let span = LifeSpan {
        days_milli: 5,
        every_s: Some(10),
    };
    let outcome = live(
        &params,
        &mut kernel,
        1,
        span,
        Progress::new(&AtomicU64::new(0)),
    );
    let points = outcome.points.iter().map(|point| &point.lived);
    let mut mixed: Vec<u64> = points.map(|lived| lived.mixed_pageblocks).collect();
    mixed.push(value(&outcome, m::MIXED_PAGEBLOCKS));
    assert!(
        mixed.len() > 20 && mixed.iter().any(|&m| m != mixed[0]),
        "{mixed:?}"
    );
    let mean = mixed.iter().sum::<u64>() / mixed.len() as u64;
    assert_eq!(value(&outcome, m::MIXED_PAGEBLOCKS_MEAN), mean);
    let most = mixed.iter().copied().max();
    assert_eq!(Some(value(&outcome, m::MIXED_PAGEBLOCKS_MAX)), most);
    let points = outcome.points.iter().map(|point| &point.lived);
    let last = outcome.lived.contaminated_pageblocks;
    let sum: u64 = points.map(|lived| lived.contaminated_pageblocks).sum();
    let mean = (sum + last) / mixed.len() as u64;
    assert_eq!(value(&outcome, m::CONTAMINATED_PAGEBLOCKS_MEAN), mean);
}

/// What a kernel does about a request is not what is asked for.
#[test]
fn the_demand_is_the_same_whatever_the_kernel_evicts() {
    let params = Params::default();
    let of = |high: u64| {
        let mut kernel = PlainKernel::new(&params.machine);
        kernel.set_marks(high - 1, high);
        on(&mut kernel, &params, 1, 2).lived
    };
    let (easy, tight) = (of(20_000), of(690_000));
    assert_eq!(
        easy.starts, tight.starts,
        "no application is killed so early"
    );
    assert_eq!(easy.pages_read, tight.pages_read);
    assert!(easy.pages_missed < tight.pages_missed);
}

#[test]
fn memory_squeezed_to_nothing_ends_in_failures_and_not_in_a_hang() {
    let mut params = small();
    params.machine.pageblocks = 20;
    params.machine.mem_total_kib = 20 * 4096 - 128 * 4;
    params.machine.cma = [10, 4];
    params.check_for_test();
    let outcome = lived(&params, 1, 1);
    assert!(outcome.lived.failed > 0, "{:?}", outcome.lived);
    let held = outcome.lived.frames_held;
    assert_eq!(
        held + frames(&outcome.free_blocks),
        params.machine.present()
    );
}

#[test]
fn awake_time_is_a_share_of_the_days() {
    let mut params = Params::default();
    params.time.awake_permille = 500;
    let span = LifeSpan {
        days_milli: 2500,
        every_s: None,
    };
    assert_eq!(span.steps(&params), 108_000);
}
