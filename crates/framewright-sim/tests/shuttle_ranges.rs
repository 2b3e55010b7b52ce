//! Several CPUs in one window under random interleavings: remote frees, spans that change hands,
//! the purge's generation, drains under work.
//!
//! `RUSTFLAGS="--cfg shuttle" CARGO_TARGET_DIR=target/models cargo test --release -p
//! framewright-sim --test shuttle_ranges`
#![cfg(shuttle)]

use framewright::Page;
use framewright::policy::RangeConfig;
use framewright::vrange::AreaKind::{self, Plain, Ram, Vmalloc};
use framewright::vrange::{Space, SpaceLayout};
use framewright_sim::range::{Hammer, Work};
use framewright_sim::{Paging, SharedPaging};
use shuttle::thread;

fn explore(schedules: usize, test: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(test, schedules);
}

fn hammer(
    pages: u64,
    span_pages: u32,
    cpus: u16,
    config: RangeConfig,
    ops: u32,
    work: &'static Work,
) {
    let layout = SpaceLayout::new(Page(1024), pages)
        .with_span_pages(span_pages)
        .with_cpus(cpus);
    let paging = Paging::new(cpus, layout.start, pages, pages as u32, 256).eager(true);
    let paging: &SharedPaging = Box::leak(Box::new(SharedPaging::new(paging, thread::yield_now)));
    let memory = vec![0; layout.words_needed().unwrap()].leak();
    let space = Box::leak(Box::new(
        Space::new(&layout, &config, memory, paging).unwrap(),
    ));
    let hammer: &Hammer = Box::leak(Box::new(Hammer::new(space, paging, &layout)));
    let threads: Vec<_> = (0..cpus)
        .map(|cpu| thread::spawn(move || hammer.work(cpu, u64::from(cpu) + 11, ops, work)))
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    hammer.end();
}

const fn config(lazy_pages_max: u64, kept_pages_max: u64) -> RangeConfig {
    let mut config = RangeConfig::for_cpus(2);
    config.lazy_pages_max = lazy_pages_max;
    config.kept_pages_max = kept_pages_max;
    config
}

const EVERYTHING: &[AreaKind] = &[Plain, Vmalloc, Ram];

#[test]
fn v3_what_one_cpu_allocates_another_frees() {
    static WORK: Work = Work {
        kinds: EVERYTHING,
        pages_max: 2,
        held_max: 2,
        shared_percent: 80,
        purge_percent: 0,
        must_serve: false,
    };
    explore(300, || hammer(48, 8, 2, config(8, 0), 12, &WORK));
}

#[test]
fn v5_nothing_is_used_again_before_a_flush_that_began_after_its_unmap_has_ended() {
    static WORK: Work = Work {
        kinds: &[Vmalloc, Ram],
        pages_max: 2,
        held_max: 3,
        shared_percent: 20,
        purge_percent: 25,
        must_serve: false,
    };
    explore(300, || hammer(32, 8, 3, config(2, 0), 10, &WORK));
}

#[test]
fn v8_spans_change_hands_before_a_request_fails() {
    // Two who hold at most three areas of one page and a guard page.
    static WORK: Work = Work {
        kinds: &[Plain],
        pages_max: 1,
        held_max: 3,
        shared_percent: 0,
        purge_percent: 0,
        must_serve: true,
    };
    explore(300, || hammer(32, 8, 2, config(8, 0), 16, &WORK));
}

#[test]
fn areas_are_kept_and_drained_under_work() {
    static WORK: Work = Work {
        kinds: &[Vmalloc],
        pages_max: 3,
        held_max: 2,
        shared_percent: 30,
        purge_percent: 10,
        must_serve: false,
    };
    explore(300, || hammer(32, 16, 2, config(4, 8), 12, &WORK));
}

#[test]
fn kept_areas_go_through_the_depot_from_those_who_free_to_those_who_allocate() {
    // Two areas of a length fill a CPU's lists: so each third one moves.
    static WORK: Work = Work {
        kinds: &[Vmalloc],
        pages_max: 2,
        held_max: 3,
        shared_percent: 90,
        purge_percent: 5,
        must_serve: false,
    };
    explore(300, || hammer(64, 16, 3, config(8, 8), 14, &WORK));
}
