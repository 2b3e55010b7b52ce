//! Threads that hammer one window, with every mapping's words checked.

use framewright::Page;
use framewright::policy::RangeConfig;
use framewright::stats::RangeStats;
use framewright::vrange::AreaKind::{self, Plain, Ram, Vmalloc};
use framewright::vrange::{Space, SpaceLayout};
use framewright_sim::range::{Hammer, HammerWork};
use framewright_sim::{Paging, SharedPaging};
use std::sync::mpsc::sync_channel;
use std::thread;

const EVERYTHING: &[AreaKind] = &[Plain, Vmalloc, Ram];

fn in_space(
    layout: SpaceLayout,
    config: RangeConfig,
    run: impl FnOnce(&Hammer<'_, '_>, &[u16]),
) -> RangeStats {
    let paging = Paging::new(layout.cpus, layout.start, layout.pages, 600, 256).eager(true);
    let paging = SharedPaging::new(paging, thread::yield_now);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let space = Space::new(&layout, &config, &mut memory, &paging).unwrap();
    let hammer = Hammer::new(&space, &paging, &layout);
    run(&hammer, &(0..layout.cpus).collect::<Vec<_>>());
    hammer.end()
}

fn hammer(layout: SpaceLayout, config: RangeConfig, ops: u32, work: HammerWork) -> RangeStats {
    in_space(layout, config, |hammer, cpus| {
        thread::scope(|scope| {
            for &cpu in cpus {
                let work = &work;
                scope.spawn(move || hammer.work(cpu, u64::from(cpu) + 1, ops, work));
            }
        });
    })
}

fn layout(pages: u64, span_pages: u32, cpus: u16) -> SpaceLayout {
    SpaceLayout::new(Page(1 << 20), pages)
        .with_span_pages(span_pages)
        .with_cpus(cpus)
}

fn config(lazy_pages_max: u64, kept_pages_max: u64) -> RangeConfig {
    RangeConfig {
        lazy_pages_max,
        kept_pages_max,
        ..RangeConfig::default().kept()
    }
}

/// What threads do that share a window.
const SHARED: HammerWork = HammerWork {
    kinds: EVERYTHING,
    pages_max: 6,
    held_max: 12,
    shared_percent: 30,
    purge_percent: 2,
    defer_percent: 0,
    must_serve: false,
};

#[test]
fn threads_in_one_window_have_each_page_alone() {
    let stats = hammer(layout(512, 32, 4), config(64, 32), 3000, SHARED);
    assert!(
        stats.area_allocs > 1000 && stats.tlb_flushes > 0,
        "{stats:?}"
    );
}

#[test]
fn v12_threads_in_a_strict_window_have_each_page_alone() {
    let strict = RangeConfig {
        strict: true,
        ..config(64, 0)
    };
    let stats = hammer(layout(512, 32, 4), strict, 3000, SHARED);
    assert!(
        stats.unmap_calls > 1000 && stats.tlb_flushes > 0,
        "{stats:?}"
    );
}

#[test]
fn v8_no_request_fails_while_the_window_has_room_wherever_the_areas_lie() {
    // Each of four threads holds at most four areas of one page and a guard page: they can spoil
    // three pages each of 64, with what is freed by others never more than as much again.
    let work = HammerWork {
        kinds: &[Plain],
        pages_max: 1,
        held_max: 4,
        shared_percent: 0,
        purge_percent: 1,
        defer_percent: 0,
        must_serve: true,
    };
    let stats = hammer(layout(64, 8, 4), config(16, 0), 3000, work);
    assert_eq!(stats.failures, 0);
}

#[test]
fn all_areas_are_freed_by_others() {
    let work = HammerWork {
        kinds: EVERYTHING,
        pages_max: 3,
        held_max: 1,
        shared_percent: 100,
        purge_percent: 1,
        defer_percent: 0,
        must_serve: true,
    };
    let stats = in_space(layout(256, 16, 3), config(32, 0), |hammer, cpus| {
        let (mut nexts, received): (Vec<_>, Vec<_>) = cpus.iter().map(|_| sync_channel(4)).unzip();
        nexts.rotate_left(1);
        thread::scope(|scope| {
            for ((&cpu, next), received) in cpus.iter().zip(nexts).zip(received) {
                let work = &work;
                scope.spawn(move || hammer.relay(cpu, 2000, work, &received, next));
            }
        });
    });
    assert_eq!(stats.area_frees + stats.vm_unmap_ram, 6000, "{stats:?}");
    assert!(stats.remote_frees > 3000, "{stats:?}");
}
