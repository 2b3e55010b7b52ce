//! Tests of what a host adds to an engine: one seat a thread in all parts, and metadata that costs nothing until it
//! is used.

use super::*;
use framewright::engine::EngineError;
use framewright::frame::ZoneLayout;
use framewright::kv::KvRequest;
use framewright::policy::RangeConfig;
use framewright::vrange::AreaRequest;
use framewright::{Addr, Frame, Run, SetupError};

fn space(cpus: u16, ranges: &RangeOptions) -> Result<HostSpace<()>, HostError> {
    let layout = ZoneLayout::new(Frame(0), 2048).with_cpus(cpus);
    HostSpace::fenced(&Options::new(layout).with_ranges(*ranges))
}

#[test]
fn a_thread_has_one_range_seat_and_its_seat_in_the_zone_goes_with_it() {
    let host = space(2, &RangeOptions::new(4096)).unwrap();
    let seat = host.cpu().unwrap();
    let cpu = seat.id();
    assert_eq!(host.cpu().unwrap_err(), SlotError::SeatTaken(cpu));
    assert_eq!(host.seat().unwrap_err(), SlotError::SeatTaken(cpu));
    drop(seat);
    let frames = host.seat().unwrap();
    assert_eq!(host.cpu().unwrap_err(), SlotError::SeatTaken(cpu));
    drop(frames);
    let other = std::thread::scope(|scope| {
        let _mine = host.cpu().unwrap();
        scope.spawn(|| host.cpu().unwrap().id()).join()
    });
    assert_ne!(other.unwrap(), cpu);
}

#[test]
fn the_space_is_that_of_the_window_with_as_many_cpus_as_the_zone() {
    let host = space(3, &RangeOptions::new(5000)).unwrap();
    let (space, window) = (host.space(), host.window().range());
    assert_eq!((space.start(), space.pages()), (window.start(), 5000));
    assert_eq!(space.cpus(), 3);
    let expected = RangeConfig {
        lazy_pages_max: host.ram().frames().frames() / 32,
        ..RangeConfig::for_cpus(3)
    };
    assert_eq!(*space.config(), expected);
    space.verify().unwrap();
    assert_eq!(host.window().ram().frames(), host.ram().frames());
}

/// Bytes of the space's metadata, from byte `offset` of the host's on, that have memory of their own, by
/// /proc/self/smaps: parts that were only read are the kernel's one page of zeroes.
fn space_bytes(host: &HostSpace<()>, offset: usize) -> usize {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let start = format!("{:x}-", host._metadata.start().addr().get() + offset);
    let entry = smaps.lines().skip_while(|line| !line.starts_with(&start));
    let sizes = entry.skip(1).take_while(|line| !line.contains('-'));
    let kib = |line: &str| line.split_whitespace().nth(1)?.parse::<usize>().ok();
    let sizes: Vec<usize> = sizes
        .filter(|line| line.starts_with("Private_Dirty:") || line.starts_with("Swap:"))
        .filter_map(kib)
        .collect();
    assert_eq!(sizes.len(), 2, "no entry for {start}");
    sizes.iter().sum::<usize>() * 1024
}

#[test]
fn what_is_not_used_of_a_large_window_costs_nothing() {
    // 64 GiB of window over 16 MiB of frames.
    const FRAMES: u64 = 4096;
    let options = Options::new(ZoneLayout::new(Frame(0), FRAMES));
    let ranges = RangeOptions::new(1 << 24);
    let host = HostSpace::fenced(&options.with_ranges(ranges)).unwrap();
    let layout = ranges.engine(&options, host.window());
    let others = layout.words_needed().unwrap() - layout.window_words().unwrap();
    let offset = others * 8 / 4096 * 4096;
    let all = host._metadata.len_bytes() - offset;
    assert!(all > 1 << 28);
    let empty = space_bytes(&host, offset);
    let mut seat = host.cpu().unwrap();
    let mut areas = Vec::new();
    let (mut mapped, mut length) = (0, 1);
    while mapped + length <= FRAMES {
        areas.push(seat.vmalloc(&AreaRequest::new(length)).unwrap());
        mapped += length;
        length = length % 90 + 7;
    }
    let full = space_bytes(&host, offset);
    let mapped_bytes = (mapped * 4096) as usize;
    println!("{all} bytes: {empty} at first, {full} with {mapped_bytes} mapped");
    assert!(empty <= 6 * 4096, "{empty} bytes of an empty space");
    assert!(mapped > FRAMES - 100);
    assert!(
        full * 100 <= mapped_bytes,
        "{full} bytes for {mapped_bytes}"
    );
    for at in areas {
        seat.vfree(at).unwrap();
    }
    seat.ranges().drain();
    let after = space_bytes(&host, offset);
    assert!(
        after <= full + 2 * 4096,
        "{full} bytes, {after} after all frees"
    );
}

#[test]
fn what_cannot_be_had_is_said() {
    let refused = |ranges: &RangeOptions| space(1, ranges).unwrap_err();
    let error = refused(&RangeOptions::new(0));
    assert_eq!(
        error.to_string(),
        "a window of 0 pages is not between 1 and 2^30"
    );
    let mut ranges = RangeOptions::new(4096);
    ranges.span_pages = 3;
    assert_eq!(
        refused(&ranges),
        HostError::Setup(EngineError::Ranges(SetupError::Limit {
            what: "span_pages",
            found: 3,
            min: 4,
            max: 1024
        }))
    );
}

const FIRST: u64 = 512;

fn host(frames: u64, cpus: u16) -> HostKv<()> {
    let layout = ZoneLayout::new(Frame(FIRST), frames).with_cpus(cpus);
    HostKv::fenced(&Options::new(layout).with_window(8192)).unwrap()
}

/// The bytes of an object, wherever it lies.
fn bytes(host: &HostKv<()>, at: Addr, len: usize) -> Vec<u8> {
    let mut bytes = vec![0xee; len];
    if host.kv().is_mapped(at) {
        host.window().read(at.page(), 0, &mut bytes).unwrap();
        return bytes;
    }
    for (nth, piece) in bytes.chunks_mut(4096).enumerate() {
        let frame = host.ram().frame_at(at.0 as usize as *const u8);
        let mut whole = [0; 4096];
        let frame = Frame(frame.unwrap().0 + nth as u64);
        host.ram().read(frame, &mut whole).unwrap();
        piece.copy_from_slice(&whole[..piece.len()]);
    }
    bytes
}

#[test]
fn a_thread_has_one_seat_and_all_others_go_with_it() {
    let host = host(2048, 2);
    let mut seat = host.cpu().unwrap();
    let cpu = seat.id();
    assert_eq!(host.cpu().unwrap_err(), SlotError::SeatTaken(cpu));
    assert_eq!(host.seat().unwrap_err(), SlotError::SeatTaken(cpu));
    let other = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let mut seat = host.cpu().unwrap();
                (seat.id(), seat.kmalloc(&KvRequest::new(4096)).unwrap())
            })
            .join()
            .unwrap()
    });
    assert_ne!(other.0, cpu);
    assert_eq!(seat.objects().kfree(other.1), Ok(4096));
    drop(seat);
    assert_eq!(host.cpu().unwrap().id(), cpu);
}

#[test]
fn objects_keep_their_bytes_from_the_direct_map_into_the_window_and_back() {
    let host = host(4096, 1);
    let mut seat = host.cpu().unwrap();
    let small = seat.kvmalloc(&KvRequest::new(64 << 10).zeroed()).unwrap();
    assert!(!host.kv().is_mapped(small));
    assert_eq!(bytes(&host, small, 64 << 10), vec![0; 64 << 10]);
    let frame = host.ram().frame_at(small.0 as usize as *const u8);
    let last = Frame(frame.unwrap().0 + 15);
    host.ram().write(last, &[9; 4096]).unwrap();
    // Longer than the longest block.
    let large = seat
        .objects()
        .kvrealloc(small, &KvRequest::new(6 << 20))
        .unwrap();
    assert!(host.kv().is_mapped(large));
    let mut expected = vec![0; 15 * 4096];
    expected.extend([9; 4096]);
    assert_eq!(bytes(&host, large, 64 << 10), expected);
    let again = seat
        .objects()
        .kvrealloc(large, &KvRequest::new(64 << 10))
        .unwrap();
    assert_eq!(bytes(&host, again, 64 << 10), expected);
    seat.kvfree(again).unwrap();
    seat.ranges().drain();
    drop(seat);
    host.space().verify().unwrap();
    host.zone().drain();
    host.zone().verify().unwrap();
    assert_eq!(host.zone().recount().free, 4096);
}

#[test]
fn a_reserve_lies_behind_the_zone_and_a_hosts_cpu_is_its_guest() {
    use framewright::reserve::{Key, PoolConfig};
    let options = Options::of_frames(1024).with_reserve(600).with_threads(2);
    let host = HostSpace::fenced(&options).unwrap();
    let reserve = host.reserve().unwrap();
    assert_eq!(reserve.run(), Run::new(Frame(1024), 600).unwrap());
    assert_eq!(host.zone().present_frames(), 1024);
    assert_eq!(host.ram().frames(), Run::new(Frame(0), 1624).unwrap());
    // EN4: its frames are no zone's.
    assert!(host.engine().add(reserve.run()).is_err());
    let pool = reserve.open_pool(&PoolConfig::CLEAN).unwrap();
    let key = |index| Key {
        pool,
        object: 1,
        index,
    };
    let mut cpu = host.cpu().unwrap();
    let page = |index: u64| std::array::from_fn(|word| index << 32 | word as u64);
    for index in 0..600 {
        cpu.put(key(index), &page(index)).unwrap();
    }
    let mut out = [0; 512];
    // A get takes a clean page away; the first one stays for later.
    for index in 1..600 {
        assert!(cpu.get(key(index), &mut out), "page {index}");
        assert_eq!(out, page(index));
    }
    // Zone and window beside it: areas take none of its frames.
    let area = cpu.vmalloc(&AreaRequest::new(900)).unwrap();
    host.window().write(area, 0, &[7; 4096]).unwrap();
    assert!(cpu.get(key(0), &mut out) && out == page(0));
    cpu.vfree(area).unwrap();
    drop(cpu);
    host.engine().verify().unwrap();
}

#[test]
fn a_host_of_frames_alone_has_no_reserve_and_none_ends_past_all_numbers() {
    let options = Options::of_frames(1024).with_reserve(600);
    let refused = Host::fenced(&options).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "a reserve of 600 frames: expected a host with a window, and numbers for so many frames"
    );
    let refused = HostSpace::fenced(&options.with_reserve(u64::MAX)).unwrap_err();
    assert_eq!(refused, HostError::Reserve { frames: u64::MAX });
    let without = HostSpace::fenced(&Options::of_frames(1024)).unwrap();
    assert!(without.reserve().is_none());
}
