use super::body::{BFit, FitBody, LeFit, LongBusyList, NeFit, Replace, Setting};
use super::*;
use crate::before::busy_list::BusyList;
use crate::experiment::engine::{RangeEngine, with_space};
use crate::experiment::null::{Null, NumberFrames};
use crate::experiment::range_metrics as m;
use crate::experiment::{Allocator, BEFORE, Mapper, SubjectCounters};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};
use std::sync::atomic::AtomicU64;

const SETTING: Setting = Setting {
    mapper: Mapper::Null,
    seed: 7,
    thread: 0,
};

/// How the areas of `ops` operations of `B` fitted, and how many busy ones they walked past.
fn fits<B: FitBody>(allocator: &impl Allocator, ops: u64) -> ([u64; 4], u64) {
    let mut seat = allocator.seat(0).unwrap();
    let mut body = B::prepare(&mut seat, SETTING).unwrap();
    let before = allocator.counters();
    for _ in 0..ops {
        body.op(&mut seat).unwrap();
    }
    let after = allocator.counters();
    let (old, new) = (before.fits.unwrap(), after.fits.unwrap());
    let walked = after.areas_walked.unwrap_or(0) - before.areas_walked.unwrap_or(0);
    (std::array::from_fn(|kind| new[kind] - old[kind]), walked)
}

fn busy() -> BusyList<Null> {
    BusyList::new(window(), 2, Null::new().unwrap())
}

/// Works on the arena alone, as `proposed` has it.
fn arena<R>(
    work: impl FnOnce(
        &dyn Fn() -> SubjectCounters,
        &RangeEngine<'_, '_, Null, NumberFrames, false>,
    ) -> R,
) -> R {
    let [(_, config), _] = configs(2);
    with_space(&Null::layout(2), &config, Null::new().unwrap(), |space| {
        let engine = RangeEngine::<_, _, false> {
            space,
            frames: &NumberFrames,
        };
        Ok(work(&|| engine.counters(), &engine))
    })
    .unwrap()
}

#[test]
fn each_operation_of_a_fit_case_is_that_fit() {
    // More than may be lazy, so that purges are among them.
    let ops = 9000;
    assert_eq!(fits::<LeFit>(&busy(), ops).0, [0, ops, 0, 0]);
    assert_eq!(fits::<BFit>(&busy(), ops).0, [ops, 0, 0, 0]);
    assert_eq!(fits::<NeFit>(&busy(), ops).0, [0, 0, 0, ops]);
    arena(|_, engine| assert_eq!(fits::<LeFit>(engine, ops).0, [0, ops, 0, 0]));
    arena(|_, engine| assert_eq!(fits::<BFit>(engine, ops).0, [ops, 0, 0, 0]));
    arena(|_, engine| assert_eq!(fits::<NeFit>(engine, ops).0, [0, 0, 0, ops]));
}

#[test]
fn the_busy_list_is_walked_as_far_as_it_is_long_where_there_are_holes_below() {
    let ops = 300;
    let (_, short) = fits::<LongBusyList<1_000, true>>(&busy(), ops);
    let (_, long) = fits::<LongBusyList<10_000, true>>(&busy(), ops);
    assert!(short > 1_000 * ops && long > 10_000 * ops, "{short} {long}");
    assert!(long > 6 * short);
    let (_, clean) = fits::<LongBusyList<10_000, false>>(&busy(), ops);
    assert!(clean < 1_000, "{clean}");
}

#[test]
fn as_many_areas_stay_live_as_a_case_says() {
    let list = busy();
    let mut seat = list.seat(0).unwrap();
    let mut body = Replace::<50, 16>::prepare(&mut seat, SETTING).unwrap();
    (0..500).for_each(|_| body.op(&mut seat).unwrap());
    assert_eq!(Allocator::counters(&list).area_allocs, 550);
    list.verify().unwrap();
}

fn options(threads: u16) -> SpaceOptions {
    SpaceOptions {
        mapper: Mapper::Null,
        threads,
        loops: Some(1000),
        repeat: 1,
        seed: 3,
    }
}

fn figures(cases: &[FitCase], options: SpaceOptions) -> Vec<Figure> {
    let steps = AtomicU64::new(0);
    run(cases, options, Progress::new(&steps)).unwrap().figures
}

/// The value of a metric, for each variant.
fn values(figures: &[Figure], case: FitCase, metric: Metric) -> Vec<(&'static str, f64)> {
    figures
        .iter()
        .filter(|f| {
            f.case == case.name() && f.metric == metric && f.source != FigureSource::Published
        })
        .map(|f| (f.variant, f.value))
        .collect()
}

#[test]
fn every_timed_case_has_its_figures_for_every_variant() {
    let cases: Vec<FitCase> = FitCase::ALL
        .into_iter()
        .filter(|case| !case.is_limit())
        .collect();
    let figures = figures(&cases, options(1));
    for case in cases {
        let times = values(&figures, case, m::OP_NS_MIN);
        let is_ram = matches!(case, FitCase::VmMapRam(_));
        let variants: &[&str] = if is_ram {
            &[PROPOSED, FRAMEWRIGHT]
        } else {
            &[BEFORE, PROPOSED, FRAMEWRIGHT]
        };
        let named: Vec<&str> = times.iter().map(|(variant, _)| *variant).collect();
        assert_eq!(named, variants, "{case}");
        assert!(times.iter().all(|(_, ns)| *ns > 0.0), "{case}: {times:?}");
    }
    peaks_are_what_they_may_be(&figures);
    // 64 alignments of which the large ones cannot be had, on average as often as the others.
    for (variant, failed) in values(&figures, FitCase::AlignShift, m::FAILED) {
        let ops = if variant == BEFORE {
            1000.0 / 20.0
        } else {
            1000.0
        };
        assert!(
            failed > ops / 3.0 && failed < ops,
            "{variant}: {failed} of {ops}"
        );
    }
}

/// What is lazy at most is shown beside its limit, for each case in which it is counted.
fn peaks_are_what_they_may_be(figures: &[Figure]) {
    let mut checked = 0;
    for case in FitCase::ALL {
        for (variant, peak) in values(figures, case, m::LAZY_PAGES_PEAK) {
            let of = |metric| {
                let all = values(figures, case, metric).into_iter();
                all.filter(|of| of.0 == variant).map(|of| of.1).next()
            };
            let bound = of(m::LAZY_PAGES_BOUND).unwrap();
            match of(m::LAZY_PAGES_MOST) {
                Some(most) => {
                    assert!(peak <= most && bound < most, "{case}, {variant}: {peak}");
                    checked += 1;
                }
                None => assert_eq!(variant, BEFORE, "{case}"),
            }
        }
    }
    assert!(checked >= 2, "nothing was counted");
}

#[test]
fn the_peak_of_two_threads_is_within_the_bound_and_their_batches() {
    // So many operations that the bound is met.
    let options = SpaceOptions {
        loops: Some(4000),
        ..options(2)
    };
    let cases = [
        FitCase::RandomSize,
        FitCase::RemoteFree,
        FitCase::VmMapRam(64),
    ];
    let figures = figures(&cases, options);
    peaks_are_what_they_may_be(&figures);
    for case in [FitCase::RandomSize, FitCase::VmMapRam(64)] {
        let peaks = values(&figures, case, m::LAZY_PAGES_PEAK);
        let (_, peak) = peaks.last().unwrap();
        assert!(*peak > 14_000.0, "{case}: {peak}");
    }
}

#[test]
fn counts_say_of_how_many_operations_they_are() {
    let figures = figures(&[FitCase::FixSize, FitCase::RandomSizeAlign], options(2));
    let fewer = [(BEFORE, 110.0), (PROPOSED, 2200.0), (FRAMEWRIGHT, 2200.0)];
    assert_eq!(values(&figures, FitCase::RandomSizeAlign, m::OPS), fewer);
    let all = values(&figures, FitCase::FixSize, m::OPS);
    assert!(all.iter().all(|(_, ops)| *ops == 2200.0), "{all:?}");
}

#[test]
fn counters_are_the_same_for_the_same_seed() {
    let cases = [
        FitCase::RandomSizeAlign,
        FitCase::Churn,
        FitCase::VmMapRam(4),
    ];
    let untimed = || {
        let mut figures = figures(&cases, options(1));
        figures.retain(|figure| !m::is_timed(figure.metric));
        figures
    };
    let once = untimed();
    assert!(once.len() > 20);
    assert_eq!(once, untimed());
}

#[test]
fn several_threads_have_a_throughput_and_a_speedup() {
    let figures = figures(&[FitCase::FixSize, FitCase::RemoteFree], options(2));
    for metric in [m::OPS_PER_SECOND, m::SPEEDUP, m::SPEEDUP_CPU] {
        let values = values(&figures, FitCase::FixSize, metric);
        assert_eq!(values.len(), 3);
        assert!(values.iter().all(|(_, value)| *value > 0.0), "{values:?}");
    }
    assert_eq!(
        values(&figures, FitCase::RemoteFree, m::REMOTE_VS_LOCAL).len(),
        3
    );
    assert_eq!(values(&figures, FitCase::RemoteFree, m::QUEUE_NS).len(), 3);
}

#[test]
fn the_documents_figures_come_with_their_cases() {
    let figures = figures(&[FitCase::NeFit], options(1));
    let published: Vec<_> = figures
        .iter()
        .filter(|f| f.source == FigureSource::Published)
        .map(|f| f.metric)
        .collect();
    assert_eq!(published.len(), 5);
    assert_eq!(values(&figures, FitCase::NeFit, m::TIME_VS_BEFORE).len(), 2);
}

#[test]
fn every_aligned_hole_serves_a_request_and_blocks_take_live_pages() {
    let figures = figures(&[FitCase::AlignedHoles, FitCase::Occupancy], options(1));
    let served = values(&figures, FitCase::AlignedHoles, m::SERVED);
    assert_eq!(
        served,
        [(BEFORE, 124.0), (PROPOSED, 124.0), (FRAMEWRIGHT, 124.0)]
    );
    for (variant, share) in values(&figures, FitCase::Occupancy, m::OCCUPANCY_WORST) {
        assert!(share > 0.9 && share <= 1.0, "{variant}: {share}");
    }
}

#[test]
fn names_stand_for_cases() {
    assert_eq!(FitCase::named("full_fit"), Ok(vec![FitCase::FullFit]));
    assert_eq!(FitCase::named("vm_map_ram").unwrap().len(), 4);
    assert_eq!(
        FitCase::named("vm_map_ram/16"),
        Ok(vec![FitCase::VmMapRam(16)])
    );
    let error = FitCase::named("no_fit").unwrap_err();
    assert!(error.starts_with("there is no case 'no_fit', expected one of le_fit, b_fit"));
    for case in FitCase::ALL {
        assert_eq!(FitCase::named(case.name()), Ok(vec![case]));
    }
}
