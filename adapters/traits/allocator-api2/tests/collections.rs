//! Collections of other crates in an engine's memory.

mod shared;

use framewright_objects::{EngineObjects, KernelHeap};
use hashbrown::HashMap;
use shared::{DirectBoard, FRAMES, engine, objects};
use std::alloc::{GlobalAlloc, Layout};

/// Everything is back once the caches are.
fn is_whole(
    objects: &EngineObjects<'_, '_, DirectBoard>,
    engine: &framewright::engine::Engine<'_, DirectBoard>,
) {
    objects.with(|seat| seat.drain());
    assert_eq!(engine.frame_stats().nr_free_pages, FRAMES);
    assert_eq!(engine.frame_stats().bad_frees, 0);
    engine.verify().unwrap();
}

#[test]
fn a_map_grows_and_shrinks_in_the_engine() {
    let engine = engine();
    let objects = objects(engine);
    {
        let mut map = HashMap::new_in(&objects);
        for n in 0_u64..20_000 {
            map.insert(n, allocator_api2_02::boxed::Box::new_in(n * n, &objects));
        }
        assert!(engine.frame_stats().nr_free_pages < FRAMES - 20_000 * 8 / 4096);
        map.retain(|n, _| n % 16 == 3);
        map.shrink_to_fit();
        assert_eq!(map.len(), 1250);
        assert!(map.iter().all(|(n, square)| **square == n * n));
    }
    is_whole(&objects, engine);
}

#[test]
fn vectors_keep_their_bytes_where_they_move() {
    let engine = engine();
    let objects = objects(engine);
    {
        let mut all: allocator_api2_02::vec::Vec<_, _> =
            allocator_api2_02::vec::Vec::new_in(&objects);
        let mut empty: allocator_api2_02::vec::Vec<u128, _> =
            allocator_api2_02::vec::Vec::new_in(&objects);
        for n in 0_u32..100_000 {
            all.push(n);
        }
        assert!(all.iter().enumerate().all(|(place, n)| place as u32 == *n));
        all.truncate(10);
        all.shrink_to_fit();
        assert_eq!(all.as_slice(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        empty.shrink_to_fit();
    }
    is_whole(&objects, engine);
}

#[cfg(feature = "v04")]
#[test]
fn the_later_version_of_the_trait_is_the_same() {
    let engine = engine();
    let objects = objects(engine);
    {
        let mut all = allocator_api2_04::vec::Vec::new_in(&objects);
        all.extend((0_u64..5000).map(|n| n * 3));
        assert_eq!(all[4999], 14997);
    }
    is_whole(&objects, engine);
}

#[test]
fn a_request_that_no_memory_serves_is_an_error() {
    use allocator_api2_02::alloc::Allocator;
    let engine = engine();
    let objects = objects(engine);
    let large = Layout::from_size_align(1 << 30, 8).unwrap();
    assert!((&objects).allocate(large).is_err());
    let mut held = allocator_api2_02::vec::Vec::new_in(&objects);
    assert!(held.try_reserve(1_usize << 40).is_err());
    held.push(1_u8);
    drop(held);
    is_whole(&objects, engine);
}

#[test]
fn a_kernels_heap_has_no_memory_before_its_time() {
    static HEAP: KernelHeap<DirectBoard> = KernelHeap::new();
    let layout = Layout::from_size_align(300, 128).unwrap();
    // SAFETY: the layout has bytes; each object is freed once, and as it was allocated.
    unsafe {
        assert!(HEAP.alloc(layout).is_null());
        let engine = engine();
        let objects = HEAP.set_up(objects(engine));
        let object = HEAP.alloc_zeroed(layout);
        assert_eq!(object as usize % 128, 0);
        assert!(
            std::slice::from_raw_parts(object, 300)
                .iter()
                .all(|byte| *byte == 0)
        );
        object.write_bytes(7, 300);
        let longer = HEAP.realloc(object, layout, 50_000);
        assert!(
            std::slice::from_raw_parts(longer, 300)
                .iter()
                .all(|byte| *byte == 7)
        );
        HEAP.dealloc(longer, Layout::from_size_align(50_000, 128).unwrap());
        assert!(
            HEAP.alloc(Layout::from_size_align(1 << 40, 8).unwrap())
                .is_null()
        );
        is_whole(objects, engine);
    }
}

#[test]
fn threads_share_it() {
    let engine = engine();
    let objects = objects(engine);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let objects = &objects;
            scope.spawn(move || {
                let mut map = HashMap::new_in(objects);
                for n in 0..3000 {
                    map.insert(n, n ^ thread);
                }
                assert!(map.iter().all(|(n, value)| *value == n ^ thread));
            });
        }
    });
    is_whole(&objects, engine);
}
