//! Each case does what its name says in every variant, and areas are unmapped before a free returns, except where
//! the variant keeps them by name.

use super::body::{BFit, FitBody, LeFit, LongBusyList, NeFit, Replace, Setting};
use super::plan::window;
use super::variants::{FitVariant, TREE, VariantWork};
use super::*;
use crate::before::vmalloc::{BusyList, FreeList};
use crate::experiment::FRAMEWRIGHT_KEPT;
use crate::experiment::range_metrics as m;
use crate::experiment::ranges::Null;
use crate::experiment::{Allocator, BEFORE, FRAMEWRIGHT, Mapper, PROPOSED, SpaceSubject};
use crate::measure::Metric;
use crate::report::{Figure, FigureSource};
use framewright::Page;
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

fn free_list() -> FreeList<Null> {
    FreeList::new(window(), 2, Null::new().unwrap())
}

/// How `ops` operations of `B` fitted in the engine's arena alone.
fn arena_fits<B: FitBody>(ops: u64) -> [u64; 4] {
    struct Fits<B>(u64, std::marker::PhantomData<fn() -> B>);
    impl<B: FitBody> VariantWork for Fits<B> {
        type Out = [u64; 4];

        fn with<A: Allocator>(self, _: &'static str, allocator: &A) -> Result<[u64; 4], Failure> {
            Ok(fits::<B>(allocator, self.0).0)
        }
    }
    let work = Fits::<B>(ops, std::marker::PhantomData);
    FitVariant::Tree.run(Mapper::Null, 2, work).unwrap()
}

#[test]
fn each_operation_of_a_fit_case_is_that_fit() {
    // More than may be lazy, so that purges are among them.
    let ops = 9000;
    assert_eq!(fits::<LeFit>(&busy(), ops).0, [0, ops, 0, 0]);
    assert_eq!(fits::<BFit>(&busy(), ops).0, [ops, 0, 0, 0]);
    assert_eq!(fits::<NeFit>(&busy(), ops).0, [0, 0, 0, ops]);
    assert_eq!(fits::<LeFit>(&free_list(), ops).0, [0, ops, 0, 0]);
    assert_eq!(fits::<BFit>(&free_list(), ops).0, [ops, 0, 0, 0]);
    assert_eq!(fits::<NeFit>(&free_list(), ops).0, [0, 0, 0, ops]);
    assert_eq!(arena_fits::<LeFit>(ops), [0, ops, 0, 0]);
    assert_eq!(arena_fits::<BFit>(ops), [ops, 0, 0, 0]);
    assert_eq!(arena_fits::<NeFit>(ops), [0, 0, 0, ops]);
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
fn the_proposal_steps_over_each_hole_that_is_too_short_and_over_no_busy_area() {
    let ops = 300;
    let (_, short) = fits::<LongBusyList<1_000, true>>(&free_list(), ops);
    let (_, long) = fits::<LongBusyList<10_000, true>>(&free_list(), ops);
    assert_eq!(short, long, "busy areas are no steps");
    // 512 freed stacks lie below the 100 pages; the page goes into the first of them.
    assert!((500 * ops..700 * ops).contains(&long), "{long}");
    let (_, clean) = fits::<LongBusyList<10_000, false>>(&free_list(), ops);
    assert!(clean < 1_000, "{clean}");
}

/// Whether an area that was freed can still be read on the host.
fn stays_mapped(variant: FitVariant) -> bool {
    struct Reads;
    impl VariantWork for Reads {
        type Out = u64;

        fn with<A: Allocator>(self, _: &'static str, allocator: &A) -> Result<u64, Failure> {
            let mut seat = allocator.seat(0)?;
            let pages: Vec<Page> = (0..8)
                .map(|_| seat.alloc(4, Page::BYTES))
                .collect::<Result<_, _>>()?;
            let mut readable = 0;
            for page in pages {
                let address = (page.0 * Page::BYTES) as usize;
                assert!(is_mapped(address), "a live area is mapped");
                seat.free(page)?;
                readable += u64::from(is_mapped(address));
            }
            Ok(readable)
        }
    }
    match variant.run(Mapper::Host, 2, Reads).unwrap() {
        0 => false,
        8 => true,
        some => panic!("{some} of 8 areas stay mapped"),
    }
}

/// `/proc/self/maps` is asked, so that a page without access counts as unmapped.
fn is_mapped(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let found = maps.lines().find_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|text| usize::from_str_radix(text, 16).unwrap());
        (start..end).contains(&address).then_some(rest)
    });
    found.is_some_and(|rest| rest.starts_with('r'))
}

#[test]
fn every_variant_on_the_host_unmaps_before_a_free_returns_but_the_one_that_is_named_kept() {
    let kept: Vec<&str> = FitVariant::all(Mapper::Host)
        .iter()
        .filter(|&&variant| stays_mapped(variant))
        .map(|variant| variant.name())
        .collect();
    assert_eq!(kept, [FRAMEWRIGHT_KEPT]);
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
            &[TREE, FRAMEWRIGHT]
        } else {
            &[BEFORE, PROPOSED, TREE, FRAMEWRIGHT]
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
                None => assert!([BEFORE, PROPOSED].contains(&variant), "{case}: {variant}"),
            }
        }
    }
    assert!(checked >= 2, "nothing was counted");
}

#[test]
fn the_peak_of_two_threads_is_within_the_bound_and_their_batches() {
    // Enough operations to meet the bound.
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
    let all = [PROPOSED, TREE, FRAMEWRIGHT].map(|variant| (variant, 2200.0));
    let fewer = [&[(BEFORE, 110.0)], &all[..]].concat();
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
        assert_eq!(values.len(), 4);
        assert!(values.iter().all(|(_, value)| *value > 0.0), "{values:?}");
    }
    assert_eq!(
        values(&figures, FitCase::RemoteFree, m::REMOTE_VS_LOCAL).len(),
        4
    );
    assert_eq!(values(&figures, FitCase::RemoteFree, m::QUEUE_NS).len(), 4);
}

#[test]
fn the_documents_figures_come_with_their_cases() {
    let figures = figures(&[FitCase::NeFit], options(1));
    let published: Vec<_> = figures
        .iter()
        .filter(|f| f.source == FigureSource::Published)
        .map(|f| f.metric)
        .collect();
    assert_eq!(published.len(), 8);
    assert_eq!(values(&figures, FitCase::NeFit, m::TIME_VS_BEFORE).len(), 3);
}

#[test]
fn every_aligned_hole_serves_a_request_and_blocks_take_live_pages() {
    let figures = figures(&[FitCase::AlignedHoles, FitCase::Occupancy], options(1));
    let served = values(&figures, FitCase::AlignedHoles, m::SERVED);
    assert_eq!(
        served,
        [BEFORE, PROPOSED, TREE, FRAMEWRIGHT].map(|variant| (variant, 124.0))
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
    assert!(error.starts_with("there is no case 'no_fit', expected one of backlog, le_fit, b_fit"));
    for case in FitCase::ALL {
        assert_eq!(FitCase::named(case.name()), Ok(vec![case]));
    }
}
