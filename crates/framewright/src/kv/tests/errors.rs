//! Each error is met, and says what is wrong with its number.

use super::*;
use crate::policy::Effort::MayCompact;
use crate::units::SetupError;
use crate::vrange::AreaRequest;
use std::string::{String, ToString};

const K: u64 = 1024;

fn said<T>(result: Result<T, impl ToString>) -> String {
    match result {
        Ok(_) => "no error".to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_request_that_is_refused_says_why() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let request = KvRequest::new;
    for (refused, why) in [
        (seat.kmalloc(&request(0)), "0 bytes were asked for"),
        (seat.kvmalloc(&request(0)), "0 bytes were asked for"),
        (
            seat.kmalloc(&request(8).aligned_to(24)),
            "alignment 24 is not a power of two",
        ),
        (
            seat.kvmalloc(&request(8).aligned_to(0)),
            "alignment 0 is not a power of two",
        ),
        (
            seat.kvmalloc(&request(2048 * K + 1)),
            "2097153 bytes are more than an object can have",
        ),
        (
            seat.kmalloc(&request(u64::MAX)),
            "18446744073709551615 bytes are more than an object can have",
        ),
        (
            seat.kvcalloc(1 << 40, 1 << 40, &request(1)),
            "1099511627776 elements of 1099511627776 bytes are more than can be counted",
        ),
        (seat.kvcalloc(0, 8, &request(1)), "0 bytes were asked for"),
        (
            seat.kvrealloc(Addr(DIRECT + 4096), &request(8)),
            "the object cannot change its size: no object starts at 0x40001000",
        ),
    ] {
        assert_eq!(said(refused), why);
    }
    let overflow = KvRequest::array(u64::MAX, 2);
    assert_eq!(
        said(overflow),
        "18446744073709551615 elements of 2 bytes are more than can be counted"
    );
    assert_eq!(machine.kv.stats().failures, 0, "none of them was tried");
    machine.assert_all_free(seat);
}

#[test]
fn a_request_that_fails_says_what_was_missing() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let all: Vec<Addr> = (0..4)
        .map(|_| seat.kmalloc(&KvRequest::new(512 * K)).unwrap())
        .collect();
    let request = KvRequest::new(8 * K);
    let failed = [
        (
            seat.kmalloc(&request),
            "8192 contiguous bytes were not there at once",
        ),
        (
            seat.kmalloc(&request.with(MayCompact)),
            "no frames for the object: fewer frames are free than asked for",
        ),
        (
            seat.kvmalloc(&request),
            "no pages for the object: no frames for the area: fewer frames are free than asked for",
        ),
    ];
    for (failed, why) in failed {
        assert_eq!(said(failed), why);
    }
    assert_eq!(machine.kv.stats().failures, 3);
    for addr in all {
        seat.kfree(addr).unwrap();
    }
    machine.assert_all_free(seat);
}

#[test]
fn a_wrong_free_says_what_is_there() {
    let machine = machine(512);
    let mut seat = machine.seat(0);
    let run = seat.kmalloc(&KvRequest::new(8 * K)).unwrap();
    let slot = seat.kmalloc(&KvRequest::new(64)).unwrap();
    let page = seat.ranges().vmalloc(&AreaRequest::new(2)).unwrap();
    let plain = seat.ranges().alloc_area(&AreaRequest::new(1)).unwrap();
    let mapped = Addr(page.0 * Page::BYTES);
    let inside = |addr: Addr, offset| Addr(addr.0 + offset);
    let (of_run, of_slot, of_page) = (inside(run, 4096), inside(slot, 8), inside(mapped, 4097));
    assert_eq!(
        said(seat.kfree(of_run)),
        std::format!("no object starts at {of_run}")
    );
    assert_eq!(
        said(seat.kvfree(of_slot)),
        std::format!("address {of_slot} is inside the object at {slot}")
    );
    assert_eq!(
        said(seat.kvfree(of_page)),
        std::format!("address {of_page} is inside the object at {mapped}")
    );
    assert_eq!(
        said(seat.kfree(mapped)),
        std::format!("the object at {mapped} is mapped pages: kvfree frees it")
    );
    assert_eq!(
        said(seat.kvfree(Addr(plain.0 * Page::BYTES))),
        std::format!("the area at page {plain} was not made by the call's counterpart")
    );
    assert_eq!(
        said(seat.kvfree(Addr(16))),
        "address 0x10 is in no frame and in no page of the space"
    );
    for addr in [slot, mapped] {
        seat.kvfree(addr).unwrap();
        let twice = std::format!("the object at {addr} is free already");
        assert_eq!(said(seat.kvfree(addr)), twice);
        assert_eq!(said(seat.kvsize(addr)), twice);
    }
    assert_eq!(machine.kv.stats().bad_frees, 8);
    seat.kfree(run).unwrap();
    seat.ranges().free_area(plain).unwrap();
    machine.assert_all_free(seat);
}

#[test]
fn a_layout_that_cannot_be_says_why() {
    let words = |layout: KvLayout| said(layout.words_needed());
    let layout = KvLayout::new(Frame(0), 64);
    assert_eq!(
        words(KvLayout::new(Frame(5), 0)),
        "number of frames 0 is below the minimum 1"
    );
    assert!(words(KvLayout::new(Frame(u64::MAX), 2)).contains("past the number range"));
    assert_eq!(
        words(layout.with_cpus(0)),
        "number of CPUs 0 is below the minimum 1"
    );
    assert_eq!(
        words(layout.with_slabs_max(65)),
        "slabs_max 65 is above the maximum 64"
    );
    let needed = layout.words_needed().unwrap();
    let mut short = vec![0; needed - 1];
    let toy: &'static KvToy = leak(KvToy::new(1));
    assert_eq!(
        said(Kv::new(&layout, &mut short, toy)),
        std::format!("{} words of metadata, {needed} are needed", needed - 1)
    );
}

#[test]
fn a_seat_that_cannot_be_had_says_why() {
    let machine = ToyMachine::new(512, 2, 64);
    let taken = machine.seat(0);
    let layout = SpaceLayout::new(WINDOW, 64).with_cpus(3).with_span_pages(8);
    let memory = leak(vec![0; layout.words_needed().unwrap()]);
    let config = RangeConfig::for_cpus(3);
    let other = leak(Space::new(&layout, &config, memory, machine.toy).unwrap());
    let zone = ZoneLayout::new(Frame(0), 512).with_cpus(3);
    let memory = leak(vec![0; zone.words_needed().unwrap()]);
    let config = Config::default();
    let zone = leak(Zone::new(&zone, &config, memory, machine.toy).unwrap());
    let mut refused = [0, 2].map(|cpu| {
        let frames = zone.seat(CpuId(cpu)).unwrap();
        said(machine.kv.seat(other.seat(CpuId(cpu), frames).unwrap()))
    });
    refused.sort();
    assert_eq!(
        refused,
        ["the seat of cpu 0 is taken", "there is no seat for cpu 2"]
    );
    drop(taken);
}

#[test]
fn a_window_in_the_direct_map_is_refused() {
    let machine = ToyMachine::new(512, 1, 64);
    let direct = DIRECT / Page::BYTES;
    let seat = |start: u64| {
        let layout = SpaceLayout::new(Page(start), 64).with_span_pages(8);
        let memory = leak(vec![0; layout.words_needed().unwrap()]);
        let config = RangeConfig::for_cpus(1);
        let space = leak(Space::new(&layout, &config, memory, machine.toy).unwrap());
        let layout = KvLayout::new(Frame(0), 512);
        let memory = leak(vec![0; layout.words_needed().unwrap()]);
        let kv = leak(Kv::new(&layout, memory, machine.toy).unwrap());
        let frames = machine.zone.seat(CpuId(0)).unwrap();
        kv.seat(space.seat(CpuId(0), frames).unwrap())
    };
    for start in [direct - 56, direct, direct + 96, direct + 504] {
        let window = Addr(start * Page::BYTES);
        let refused = seat(start).map(drop);
        let direct = Addr(DIRECT);
        assert_eq!(refused, Err(SetupError::Overlap { window, direct }));
        let why =
            "the space's window at 0x40060000 overlaps the frames at 0x40000000 in the direct map";
        assert_eq!(said(refused) == why, start == direct.page().0 + 96);
    }
    for start in [direct - 64, direct + 512] {
        assert!(seat(start).is_ok(), "they touch, and no more");
    }
}

#[test]
fn a_block_of_the_zones_in_which_no_object_can_lie_is_named() {
    let machine = machine(512);
    let layout = KvLayout::new(Frame(0), 16);
    let memory = leak(vec![0; layout.words_needed().unwrap()]);
    let kv = leak(Kv::new(&layout, memory, machine.toy).unwrap());
    let frames = machine.zone.seat(CpuId(0)).unwrap();
    let mut seat = kv
        .seat(machine.space.seat(CpuId(0), frames).unwrap())
        .unwrap();
    let request = KvRequest::new(8 * K).with(MayCompact);
    let mut own = vec![];
    let refused = loop {
        match seat.kmalloc(&request) {
            Ok(addr) => own.push(addr),
            Err(error) => break error,
        }
    };
    let KvError::Outside(frame) = refused else {
        panic!("{refused:?}");
    };
    assert!(frame.0 >= 16);
    assert_eq!(
        said::<()>(Err(refused)),
        std::format!("the block at frame {frame} is not in the frames that objects can lie in")
    );
    machine.zone.drain();
    assert_eq!(machine.zone.recount().free, 512 - 2 * own.len() as u64);
    for addr in own {
        seat.kfree(addr).unwrap();
    }
}

#[test]
fn k11_a_seat_in_another_space_is_refused() {
    let (one, other) = (ToyMachine::new(512, 2, 4096), ToyMachine::new(512, 2, 4096));
    let mut seat = one.seat(0);
    let addr = seat.kmalloc(&KvRequest::new(4096)).unwrap();
    // The same frames by number, and the same addresses: of both zones the first block would be one object.
    let ranges = |machine: &ToyMachine, cpu| {
        let frames = machine.zone.seat(CpuId(cpu)).unwrap();
        machine.space.seat(CpuId(cpu), frames).unwrap()
    };
    let refused = one.kv.seat(ranges(&other, 1)).map(drop).unwrap_err();
    assert_eq!(refused, SetupError::OtherSpace(CpuId(1)), "K11");
    let message = "the seat of cpu 1 is in another space than the object allocator's other seats";
    assert_eq!(std::format!("{refused}"), message);
    // Nor when the first one has gone. Its own space is the right one.
    seat.kfree(addr).unwrap();
    drop(seat);
    assert!(one.kv.seat(ranges(&other, 0)).is_err());
    one.kv.seat(ranges(&one, 1)).unwrap();
    one.kv.seat(ranges(&one, 0)).unwrap();
}
