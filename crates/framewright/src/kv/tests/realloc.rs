//! Objects that change their length: where they stay, what is kept, what is zero, what comes back.

use super::watch::FullSource;
use super::*;
use crate::kv::table::ObjectKind;
use crate::platform::bare::BarePlatform;
use crate::policy::Effort::MustSucceed;

const K: u64 = 1024;

fn kind(machine: &ToyMachine, addr: Addr) -> ObjectKind {
    machine.kv.kind(addr)
}

/// An area of `bytes` bytes, whatever blocks there are.
fn mapped(seat: &mut ToySeat<'static>, bytes: u64) -> Addr {
    let area = crate::vrange::AreaRequest::new(bytes / Page::BYTES);
    Addr(seat.ranges().vmalloc(&area).unwrap().0 * Page::BYTES)
}

#[test]
fn what_fits_where_it_is_stays_there() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let run = seat.kvmalloc(&KvRequest::new(33 * K)).unwrap();
    let area = mapped(&mut seat, 64 * K);
    for at in [run, area] {
        machine.toy.fill(at, 33 * K, 9);
        for bytes in [64 * K, 40 * K, 33 * K, 64 * K] {
            assert_eq!(seat.kvrealloc(at, &KvRequest::new(bytes)), Ok(at));
            assert!(machine.toy.is_filled(at, 33 * K, 9));
        }
        seat.kvfree(at).unwrap();
    }
    machine.assert_all_free(seat);
}

#[test]
fn a_block_that_becomes_shorter_is_cut_where_it_lies() {
    let machine = machine(2048);
    let mut seat = machine.seat(0);
    let free = |machine: &ToyMachine| machine.zone.stats().nr_free_pages;
    let run = seat.kvmalloc(&KvRequest::new(2048 * K)).unwrap();
    machine.toy.fill(run, 2048 * K, 5);
    assert_eq!(free(&machine), 2048 - 512);
    for (bytes, frames) in [(1025 * K, 512), (1024 * K, 256), (100 * K, 32), (5 * K, 2)] {
        assert_eq!(seat.kvrealloc(run, &KvRequest::new(bytes)), Ok(run));
        assert_eq!(free(&machine), 2048 - frames, "{bytes}");
        assert_eq!(seat.kvsize(run), Ok(frames * Page::BYTES));
        assert!(machine.toy.is_filled(run, bytes, 5));
        machine.zone.verify().unwrap();
    }
    let inside = Addr(run.0 + 64 * K);
    assert_eq!(seat.kvfree(inside), Err(KvFreeError::NotAllocated(inside)));
    seat.kvfree(run).unwrap();
    machine.assert_all_free(seat);
}

#[test]
fn mapped_pages_move_to_something_four_times_smaller() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let area = mapped(&mut seat, 256 * K);
    machine.toy.fill(area, 64 * K, 4);
    let stays = seat.kvrealloc(area, &KvRequest::new(65 * K));
    assert_eq!(stays, Ok(area));
    let moved = seat.kvrealloc(area, &KvRequest::new(64 * K)).unwrap();
    assert_eq!(kind(&machine, moved), ObjectKind::Run);
    assert!(machine.toy.is_filled(moved, 64 * K, 4));
    assert_eq!(seat.kvfree(area), Err(KvFreeError::AlreadyFree(area)));
    seat.kvfree(moved).unwrap();
    machine.assert_all_free(seat);
}

#[test]
fn what_becomes_shorter_never_fails() {
    let mut full = FullSource::new(512, 4096);
    full.free((0..64).step_by(2));
    let area = full.seat.kvmalloc(&KvRequest::new(128 * K)).unwrap();
    full.machine.toy.fill(area, 128 * K, 8);
    for bytes in [100 * K, 16 * K, 16, 1] {
        let request = KvRequest::new(bytes).with(MustSucceed);
        assert_eq!(full.seat.kvrealloc(area, &request), Ok(area));
        assert!(full.machine.toy.is_filled(area, bytes, 8));
    }
    assert_eq!(full.log.relief(), (0, 0));
    assert_eq!(full.machine.kv.stats().failures, 0);
    full.seat.kvfree(area).unwrap();
    assert_eq!(full.free_frames(), 32);
}

#[test]
fn the_alignment_asked_for_is_had_and_moves_the_object_if_it_must() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let first = seat.kvmalloc(&KvRequest::new(4 * K)).unwrap();
    let second = seat.kvmalloc(&KvRequest::new(4 * K)).unwrap();
    machine.toy.fill(first, 4 * K, 1);
    machine.toy.fill(second, 4 * K, 2);
    let aligned = KvRequest::new(3 * K).aligned_to(64 * K);
    for (at, value) in [(first, 1), (second, 2)] {
        let now = seat.kvrealloc(at, &aligned).unwrap();
        assert!(now.0.is_multiple_of(64 * K));
        assert!(machine.toy.is_filled(now, 3 * K, value));
        seat.kvfree(now).unwrap();
    }
    machine.assert_all_free(seat);
}

#[test]
fn the_bytes_behind_the_old_length_are_zero_if_all_requests_said_so() {
    let machine = machine(1024);
    let mut seat = machine.seat(0);
    // Memory holds noise, and so does what was freed.
    let noise = seat.kvmalloc(&KvRequest::new(512 * K)).unwrap();
    machine.toy.fill(noise, 512 * K, 0xee);
    seat.kvfree(noise).unwrap();
    let request = |bytes| KvRequest::new(bytes).zeroed();
    let mut at = seat.kvmalloc(&request(5 * K)).unwrap();
    assert!(machine.toy.is_filled(at, 5 * K, 0));
    let mut had = 5 * K;
    for bytes in [7 * K, 20 * K, 300 * K, 11 * K, 64 * K, 2 * K, 3 * K, 70 * K] {
        machine.toy.fill(at, had, 0x11);
        at = seat.kvrealloc(at, &request(bytes)).unwrap();
        let kept = had.min(bytes);
        assert!(machine.toy.is_filled(at, kept, 0x11), "{bytes}");
        let behind = Addr(at.0 + kept);
        assert!(machine.toy.is_filled(behind, bytes - kept, 0), "{bytes}");
        had = bytes;
    }
    seat.kvfree(at).unwrap();
    let area = mapped(&mut seat, 64 * K);
    machine.toy.fill(area, 64 * K, 0x22);
    assert_eq!(seat.kvrealloc(area, &request(30 * K)), Ok(area));
    assert_eq!(seat.kvrealloc(area, &request(64 * K)), Ok(area));
    assert!(machine.toy.is_filled(area, 30 * K, 0x22));
    assert!(machine.toy.is_filled(Addr(area.0 + 30 * K), 34 * K, 0));
    seat.kvfree(area).unwrap();
    machine.assert_all_free(seat);
}

#[test]
fn on_error_the_object_is_as_it_was() {
    let mut full = FullSource::new(512, 4096);
    full.free(0..4);
    let at = full.seat.kvmalloc(&KvRequest::new(10 * K)).unwrap();
    full.machine.toy.fill(at, 10 * K, 6);
    let had = full.seat.kvsize(at).unwrap();
    for request in [
        KvRequest::new(0),
        KvRequest::new(10 * K).aligned_to(3),
        KvRequest::new(u64::MAX),
        KvRequest::new(500 * K),
        KvRequest::new(500 * K).with(MustSucceed),
    ] {
        assert!(full.seat.kvrealloc(at, &request).is_err(), "{request:?}");
        assert_eq!(full.seat.kvsize(at), Ok(had));
        assert!(full.machine.toy.is_filled(at, 10 * K, 6));
    }
    full.seat.kvfree(at).unwrap();
    let gone = full.seat.kvrealloc(at, &KvRequest::new(10));
    let message = std::format!("{}", gone.unwrap_err());
    assert!(
        message.starts_with("the object cannot change its size: "),
        "{message}"
    );
    assert_eq!(full.free_frames(), 4);
}

#[test]
fn k8_mapped_pages_do_not_move_for_a_caller_that_may_not_wait() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let area = mapped(&mut seat, 64 * K);
    machine.toy.fill(area, 64 * K, 3);
    let request = |bytes| KvRequest::new(bytes).within(Context::NOWAIT);
    assert_eq!(seat.kvrealloc(area, &request(64)), Ok(area));
    let error = seat.kvrealloc(area, &request(65 * K)).unwrap_err();
    assert_eq!(error, KvError::MustNotFree(area));
    assert_eq!(
        std::format!("{error}"),
        std::format!(
            "the object at {area} is mapped pages, which a caller that may not wait cannot free"
        )
    );
    assert!(machine.toy.is_filled(area, 64 * K, 3));
    seat.kvfree(area).unwrap();
    machine.assert_all_free(seat);
}

#[test]
fn a_direct_map_starts_at_a_page() {
    let layout = KvLayout::new(Frame(0), 16);
    let mut memory = vec![0; layout.words_needed().unwrap()];
    let error = Kv::new(&layout, &mut memory, BarePlatform((), Addr(0x1010))).unwrap_err();
    assert_eq!(
        std::format!("{error}"),
        "the direct map's base 0x1010 is no multiple of 4096"
    );
}

#[test]
fn what_another_cpu_frees_while_it_moves_is_an_error_and_leaves_nothing_behind() {
    let machine = ToyMachine::new(512, 2, 4096);
    let mut seat = machine.seat(0);
    for (bytes, longer) in [(64, 5 * K), (8 * K, 100 * K), (100 * K, 300 * K)] {
        let at = seat.kvmalloc(&KvRequest::new(bytes)).unwrap();
        let mut other = machine.seat(1);
        let frees = move |from| {
            assert!(other.kvfree(from).is_ok());
        };
        *machine.toy.while_copied.borrow_mut() = Some(Box::new(frees));
        let gone = seat.kvrealloc(at, &KvRequest::new(longer));
        // The object is gone, and the rest of its slab or area says so.
        let Err(KvError::Free(KvFreeError::AlreadyFree(_) | KvFreeError::NotAllocated(_))) = gone
        else {
            panic!("{gone:?}");
        };
    }
    assert_eq!(machine.kv.stats().bad_frees, 3);
    machine.assert_all_free(seat);
}

#[test]
fn what_fits_stays_though_there_could_be_no_other_object_like_it() {
    // A window shorter than the object, and no block that is aligned as its address happens to be.
    let machine = ToyMachine::new(4096, 1, 64);
    let mut seat = machine.seat(0);
    let longest = Page::BYTES << machine.zone.max_order().get();
    let run = seat.kvmalloc(&KvRequest::new(longest)).unwrap();
    machine.toy.fill(run, longest, 7);
    let align = 1 << run.0.trailing_zeros();
    assert!(align > longest);
    for bytes in [longest, longest - 1] {
        let request = KvRequest::new(bytes).aligned_to(align);
        assert_eq!(seat.kvmalloc(&request), Err(KvError::TooLong { bytes }));
        assert_eq!(seat.kvrealloc(run, &request), Ok(run));
    }
    assert!(machine.toy.is_filled(run, longest, 7));
    seat.kvfree(run).unwrap();
    machine.assert_all_free(seat);
}

#[test]
fn no_cpu_is_stopped_for_something_smaller_where_the_object_may_stay() {
    let mut full = FullSource::new(512, 4096);
    full.free((0..64).step_by(2));
    let area = full.seat.kvmalloc(&KvRequest::new(128 * K)).unwrap();
    full.machine.toy.fill(area, 128 * K, 8);
    let stops = |full: &FullSource| {
        let of = full.machine.space.stats();
        let zone = full.machine.zone.stats().drains;
        (of.drains, of.claims, of.purges, of.tlb_flushes, zone)
    };
    let before = stops(&full);
    for bytes in [32 * K, 20 * K, 16] {
        let stays = full.seat.kvrealloc(area, &KvRequest::new(bytes));
        assert_eq!((stays, stops(&full)), (Ok(area), before), "{bytes}");
    }
    assert!(full.machine.toy.is_filled(area, 16, 8));
    full.seat.kvfree(area).unwrap();
    assert_eq!(full.free_frames(), 32);
}
