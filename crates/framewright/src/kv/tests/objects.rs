//! Objects of each kind through their whole life, and requests that are wrong.

use super::*;
use crate::kv::table::ObjectKind;
use crate::policy::Effort;

#[test]
fn objects_of_all_sizes_come_contiguous_or_mapped_and_all_go_back() {
    let machine = machine(2048);
    let mut seat = machine.seat(0);
    let mut live = Vec::new();
    for (nth, bytes) in [
        1, 8, 64, 100, 2048, 2049, 4096, 5000, 65_536, 300_000, 2_097_152,
    ]
    .into_iter()
    .cycle()
    .enumerate()
    {
        let Ok(addr) = seat.kvmalloc(&KvRequest::new(bytes)) else {
            break;
        };
        let value = nth as u8;
        machine.toy.fill(addr, bytes, value);
        live.push((addr, bytes, value));
    }
    assert!(machine.kv.stats().spills > 0, "memory was full of holes");
    for &(addr, bytes, value) in &live {
        assert!(machine.toy.is_filled(addr, bytes, value), "{addr}");
        assert!(seat.kvsize(addr).unwrap() >= bytes);
    }
    for (addr, bytes, _) in live {
        assert!(seat.kvfree(addr).unwrap() >= bytes);
        assert!(seat.kvfree(addr).is_err(), "twice");
    }
    machine.assert_all_free(seat);
}

#[test]
fn what_is_asked_for_wrongly_is_refused_with_its_number() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let refused = |seat: &mut ToySeat<'static>, request| {
        let error = seat.kvmalloc(&request).unwrap_err();
        std::format!("{error}")
    };
    let message = refused(&mut seat, KvRequest::new(0));
    assert_eq!(message, "0 bytes were asked for");
    let message = refused(&mut seat, KvRequest::new(8).aligned_to(24));
    assert_eq!(message, "alignment 24 is not a power of two");
    for bytes in [1 << 40, u64::MAX] {
        assert!(seat.kvmalloc(&KvRequest::new(bytes)).is_err());
        assert!(seat.kmalloc(&KvRequest::new(bytes)).is_err());
    }
    let product = seat.kvcalloc(1 << 33, 1 << 33, &KvRequest::new(1));
    assert_eq!(
        std::format!("{}", product.unwrap_err()),
        "8589934592 elements of 8589934592 bytes are more than can be counted"
    );
    machine.assert_all_free(seat);
}

#[test]
fn wrong_frees_are_refused_and_change_nothing() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let run = seat.kvmalloc(&KvRequest::new(8192)).unwrap();
    let inside = Addr(run.0 + 4096);
    assert_eq!(seat.kvfree(inside), Err(KvFreeError::NotAllocated(inside)));
    let frames = machine.zone.stats().nr_free_pages;
    let nowhere = Addr(8192);
    assert_eq!(seat.kvfree(nowhere), Err(KvFreeError::Outside(nowhere)));
    assert_eq!(seat.kfree(nowhere), Err(KvFreeError::Outside(nowhere)));
    let area = seat
        .ranges()
        .vmalloc(&crate::vrange::AreaRequest::new(2))
        .unwrap();
    let mapped = Addr(area.0 * Page::BYTES);
    assert_eq!(seat.kfree(mapped), Err(KvFreeError::Mapped(mapped)));
    assert_eq!(machine.zone.stats().nr_free_pages, frames - 2);
    seat.kvfree(mapped).unwrap();
    seat.kfree(run).unwrap();
    assert_eq!(machine.kv.stats().bad_frees, 4);
    machine.assert_all_free(seat);
}

#[test]
fn a_block_from_the_cpus_cache_is_an_object_like_any_other() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    for order in [0, 1, 4] {
        let bytes = Page::BYTES << order;
        let request = KvRequest::new(bytes - 1);
        let first = seat.kvmalloc(&request).unwrap();
        seat.kvfree(first).unwrap();
        let before = machine.kv.stats();
        // The free left the block in the cache. A request that is wrong does not take it from there.
        for (wrong, error) in [
            (request.aligned_to(3), KvError::Align { bytes: 3 }),
            (
                request.must_succeed().within(Context::NOWAIT),
                KvError::MustNotWait,
            ),
        ] {
            assert_eq!(seat.kvmalloc(&wrong), Err(error));
        }
        let again = seat.kvmalloc(&request.zeroed()).unwrap();
        assert_eq!(again, first);
        assert!(machine.toy.is_filled(again, bytes, 0), "the whole block");
        assert_eq!(seat.kvsize(again), Ok(bytes));
        let inside = Addr(again.0 + 16);
        assert_eq!(seat.kvfree(inside), Err(KvFreeError::NotAllocated(inside)));
        assert_eq!(seat.kfree(again), Ok(bytes));
        for addr in [again, inside] {
            assert_eq!(seat.kvfree(addr), Err(KvFreeError::NotAllocated(addr)));
        }
        let after = machine.kv.stats();
        assert_eq!(after.run_allocs - before.run_allocs, 1);
        assert_eq!(after.run_frees - before.run_frees, 1);
        assert_eq!(after.bad_frees - before.bad_frees, 3);
    }
    machine.assert_all_free(seat);
}

#[test]
fn reallocation_keeps_the_bytes_that_both_lengths_have() {
    let machine = machine(1024);
    let mut seat = machine.seat(0);
    let mut at = seat.kvmalloc(&KvRequest::new(100)).unwrap();
    machine.toy.fill(at, 100, 7);
    for bytes in [5000, 70_000, 300_000, 9000, 60] {
        at = seat
            .kvrealloc(at, &KvRequest::new(bytes).with(Effort::MayCompact))
            .unwrap();
        assert!(machine.toy.is_filled(at, bytes.min(60), 7));
    }
    seat.kvfree(at).unwrap();
    machine.assert_all_free(seat);
}

#[test]
fn what_must_be_mapped_is_counted_and_is_no_spill() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let mapped = seat.vmalloc(&KvRequest::new(100).aligned_to(1 << 14));
    let mapped = mapped.unwrap();
    assert!(mapped.0.is_multiple_of(1 << 14));
    assert_eq!(machine.kv.kind(mapped), ObjectKind::Mapped);
    // No block is so long.
    let spilled = seat.kvmalloc(&KvRequest::new(300 * 4096).aligned_to(4 << 20));
    let spilled = spilled.unwrap();
    let stats = machine.kv.stats();
    assert_eq!((stats.mapped_allocs, stats.spills), (2, 1));
    assert_eq!(seat.vmalloc(&KvRequest::new(0)), Err(KvError::Empty));
    let failed = seat.vmalloc(&KvRequest::new(300 * 4096));
    assert!(matches!(failed, Err(KvError::Ranges(_))), "{failed:?}");
    for addr in [mapped, spilled] {
        seat.kvfree(addr).unwrap();
    }
    let stats = machine.kv.stats();
    assert_eq!((stats.mapped_allocs, stats.mapped_frees), (2, 2));
    assert_eq!(
        (stats.run_allocs, stats.slab_allocs, stats.failures),
        (0, 0, 1)
    );
    machine.assert_all_free(seat);
}
