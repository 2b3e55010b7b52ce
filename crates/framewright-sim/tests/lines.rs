//! How many cache lines CPUs take from one another, counted by which of the engine's atomics each
//! reads and writes: `RUSTFLAGS='--cfg lines' cargo test -p framewright-sim --test lines`.
//! In a normal build this file is empty.
//!
//! In a window in which all CPUs take turns, a line is shared if one of them writes it, and another
//! reads or writes it. Each write of such a line, and each read by another CPU than the last
//! writer, costs a real machine a fetch of the line from another CPU.
#![cfg(lines)]

use framewright::frame::{Seat, Zone, ZoneLayout};
use framewright::kv::{Kv, KvLayout, KvRequest, KvSeat};
use framewright::platform::{FramePlatform, MapError, ObjectPlatform, RangePlatform, TableSource};
use framewright::policy::{Config, RangeConfig};
use framewright::vrange::{Space, SpaceLayout};
use framewright::{Addr, CpuId, Frame, Mobility, Order, Page, PageAccess, PageRange, Run};
use framewright_lines::{Access, AtomicU64, Ordering::Relaxed, record};
use std::collections::BTreeMap;

/// One thread plays all CPUs; but the engine does what it does for several.
#[derive(Clone, Copy, Debug)]
struct LinesPlatform;

impl FramePlatform for LinesPlatform {
    const ASYMMETRIC: bool = true;

    fn relax(&self, _attempt: u32) {
        panic!("no other CPU runs: it would wait for ever");
    }

    fn barrier_all(&self) {}
}

impl RangePlatform for LinesPlatform {
    fn map(
        &self,
        _at: Page,
        _frames: Run,
        _access: PageAccess,
        _tables: &mut impl TableSource,
    ) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _range: PageRange) -> Result<(), MapError> {
        Ok(())
    }

    fn flush_all(&self) {}

    fn zero(&self, _frames: Run) {}
}

impl ObjectPlatform for LinesPlatform {
    fn direct_base(&self) -> Addr {
        Addr(0x1_0000_0000)
    }

    fn zero_bytes(&self, _at: Addr, _bytes: u64) {}

    fn copy_bytes(&self, _from: Addr, _to: Addr, _bytes: u64) {}
}

type LinesSeat =
    KvSeat<'static, 'static, 'static, LinesPlatform, Seat<'static, 'static, LinesPlatform>>;

struct LinesMachine {
    zone: &'static Zone<'static, LinesPlatform>,
    seats: Vec<LinesSeat>,
    /// The metadata of each part: its first byte and the byte behind its last.
    parts: [(&'static str, usize, usize); 3],
}

/// Metadata, and where it lies.
fn metadata(words: usize) -> (&'static mut [u64], (usize, usize)) {
    let memory = vec![0; words].leak();
    let start = memory.as_ptr().addr();
    (memory, (start, start + words * 8))
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// 65536 frames, which are 256 MiB, and a window of 32768 pages for each CPU.
fn machine(cpus: u16) -> LinesMachine {
    let frames = u64::from(cpus) * 65_536;
    let layout = ZoneLayout::new(Frame(0), frames).with_cpus(cpus);
    let (memory, of_zone) = metadata(layout.words_needed().unwrap());
    let zone = leak(Zone::new(&layout, &Config::default(), memory, LinesPlatform).unwrap());
    zone.add(Run::new(Frame(0), frames).unwrap()).unwrap();
    let layout = SpaceLayout::new(Page(1 << 30), u64::from(cpus) << 15).with_cpus(cpus);
    let (memory, of_space) = metadata(layout.words_needed().unwrap());
    let config = RangeConfig::for_cpus(cpus).kept();
    let space = leak(Space::new(&layout, &config, memory, LinesPlatform).unwrap());
    let layout = KvLayout::new(Frame(0), frames).with_cpus(cpus);
    let (memory, of_kv) = metadata(layout.words_needed().unwrap());
    let kv = leak(Kv::new(&layout, memory, LinesPlatform).unwrap());
    let seat = |cpu| {
        let frames = zone.seat(CpuId(cpu)).unwrap();
        kv.seat(space.seat(CpuId(cpu), frames).unwrap()).unwrap()
    };
    LinesMachine {
        zone,
        seats: (0..cpus).map(seat).collect(),
        parts: [
            ("frames", of_zone),
            ("ranges", of_space),
            ("objects", of_kv),
        ]
        .map(|(name, (start, end))| (name, start, end)),
    }
}

/// What was found in a window.
#[derive(Clone, Debug)]
struct CacheLines {
    /// Pairs of an allocation and a free.
    operations: u64,
    /// Lines that one wrote, and another read or wrote.
    shared_lines: usize,
    /// Accesses that had to fetch a line which another CPU had written, or take it from others.
    transfers: u64,
    /// The first of these lines: the part that it belongs to, and its byte there.
    places: Vec<(&'static str, usize)>,
}

/// The lines that CPUs share in a window of accesses, in the order in which they were made.
fn count(machine: &LinesMachine, operations: u64, accesses: &[(u16, Access)]) -> CacheLines {
    // For each line its writers, and the CPUs that have it, as bits.
    let mut lines: BTreeMap<usize, (u64, u64, u64)> = BTreeMap::new();
    for &(cpu, access) in accesses {
        let (writers, users, transfers) = lines.entry(access.line()).or_default();
        let me = 1 << cpu;
        let have_others = *users & !me != 0;
        // Written by another since this one last had it; or to be taken from others.
        let must_fetch = *writers & !me != 0 && *users & me == 0;
        *transfers += u64::from(must_fetch || access.is_write && have_others);
        if access.is_write {
            (*writers, *users) = (*writers | me, me);
        } else {
            *users |= me;
        }
    }
    // Lines that are only read cost nothing.
    lines.retain(|_, (writers, _, transfers)| *writers != 0 && *transfers != 0);
    let place = |line: usize| {
        let at = line * 64;
        let part = machine
            .parts
            .iter()
            .find(|(_, start, end)| (start - 63..*end).contains(&at));
        part.map_or(("elsewhere", at), |(name, start, _)| {
            (*name, at.saturating_sub(*start))
        })
    };
    CacheLines {
        operations,
        shared_lines: lines.len(),
        transfers: lines.values().map(|(_, _, transfers)| transfers).sum(),
        places: lines.keys().take(8).map(|line| place(*line)).collect(),
    }
}

/// All CPUs take turns, each with a batch of allocations and then their frees; after some rounds
/// that warm up, a window of rounds is counted.
fn steady(
    machine: &mut LinesMachine,
    batch: usize,
    mut alloc: impl FnMut(&mut LinesSeat) -> Addr,
    mut free: impl FnMut(&mut LinesSeat, Addr),
) -> CacheLines {
    let (warm, rounds) = (40, 50);
    let mut window = Vec::new();
    let mut operations = 0;
    for round in 0..warm + rounds {
        // Interleaved within the batch: each CPU one step at a time.
        let mut held: Vec<Vec<Addr>> = machine.seats.iter().map(|_| Vec::new()).collect();
        for step in 0..2 * batch {
            for (cpu, seat) in machine.seats.iter_mut().enumerate() {
                let ((), accesses) = record(|| {
                    if step < batch {
                        held[cpu].push(alloc(seat));
                    } else if let Some(addr) = held[cpu].pop() {
                        free(seat, addr);
                    }
                });
                if round >= warm {
                    window.extend(accesses.into_iter().map(|access| (cpu as u16, access)));
                    operations += u64::from(step < batch);
                }
            }
        }
    }
    assert!(
        window.len() as u64 > operations,
        "it is the build that tells"
    );
    count(machine, operations, &window)
}

fn say(what: &str, cpus: u16, count: CacheLines) -> CacheLines {
    let each = count.transfers as f64 / count.operations as f64;
    println!(
        "{what:>28}, {cpus:>2} CPUs: {each:.3} shared lines per operation ({} lines, {} transfers, \
         {} operations){}",
        count.shared_lines,
        count.transfers,
        count.operations,
        match count.places.is_empty() {
            true => String::new(),
            false => format!(" at {:?}", count.places),
        }
    );
    count
}

fn kmalloc(bytes: u64) -> impl FnMut(&mut LinesSeat) -> Addr {
    move |seat| seat.kmalloc(&KvRequest::new(bytes)).unwrap()
}

fn kvmalloc(bytes: u64, is_mapped: bool) -> impl FnMut(&mut LinesSeat) -> Addr {
    move |seat| {
        let addr = seat.kvmalloc(&KvRequest::new(bytes)).unwrap();
        assert_eq!(seat.kv().is_mapped(addr), is_mapped);
        assert!(!seat.kv().is_in_slab(addr));
        addr
    }
}

fn kfree(seat: &mut LinesSeat, addr: Addr) {
    seat.kfree(addr).unwrap();
}

fn kvfree(seat: &mut LinesSeat, addr: Addr) {
    seat.kvfree(addr).unwrap();
}

#[test]
fn kmalloc_shares_no_line_in_the_steady_state() {
    for cpus in [2, 16] {
        for bytes in [64, 2048, 4096, 32_768] {
            let count = steady(&mut machine(cpus), 8, kmalloc(bytes), kfree);
            let count = say(&format!("kmalloc of {bytes}"), cpus, count);
            assert_eq!(count.transfers, 0);
        }
    }
}

#[test]
fn kvmalloc_shares_no_line_in_the_steady_state() {
    for cpus in [2, 16] {
        for (bytes, batch) in [(16_384, 8), (65_536, 1), (65_536, 3)] {
            let alloc = kvmalloc(bytes, false);
            let count = steady(&mut machine(cpus), batch, alloc, kvfree);
            let count = say(&format!("kvmalloc of {bytes}, {batch} held"), cpus, count);
            assert_eq!(count.transfers, 0);
        }
    }
}

#[test]
fn lengths_in_turn_share_no_line_in_the_steady_state() {
    for cpus in [2, 16] {
        let mut machine = machine(cpus);
        let mut turn = 0;
        let alloc = |seat: &mut LinesSeat| {
            turn = (turn + 1) % 4;
            let bytes = [64, 1000, 4096, 40_000][turn];
            seat.kvmalloc(&KvRequest::new(bytes)).unwrap()
        };
        let count = steady(&mut machine, 4, alloc, kvfree);
        assert_eq!(say("kvmalloc of four lengths", cpus, count).transfers, 0);
    }
}

#[test]
fn blocks_beyond_what_a_cache_holds_cost_some_lines_each() {
    // What goes back to the pageblocks and comes from there touches bitmap, tags and index, which
    // are all CPUs'; a batch of the cache's pays for it at once.
    for cpus in [2, 16] {
        let alloc = kvmalloc(65_536, false);
        let count = steady(&mut machine(cpus), 64, alloc, kvfree);
        let count = say("kvmalloc of 65536, 64 held", cpus, count);
        assert!(count.transfers < 40 * count.operations, "{count:?}");
    }
}

#[test]
fn a_spill_shares_no_line_in_the_steady_state() {
    for cpus in [2, 16] {
        // Of each two frames one is taken: no two are free side by side.
        let mut machine = machine(cpus);
        let mut taken = Vec::new();
        let frames = machine.seats[0].ranges().frames();
        while let Ok(frame) = frames.alloc(Order::ZERO, Mobility::Unmovable) {
            taken.push(frame);
        }
        for frame in taken.into_iter().filter(|frame| frame.0 % 2 == 0) {
            frames.free(frame, Order::ZERO).unwrap();
        }
        machine.zone.drain();
        let alloc = kvmalloc(65_536, true);
        let count = steady(&mut machine, 4, alloc, kvfree);
        let count = say("spilled kvmalloc of 65536", cpus, count);
        assert_eq!(count.transfers, 0);
    }
}

#[test]
fn a_counter_that_all_share_is_found() {
    let shared = AtomicU64::new(0);
    let mut alloc = kmalloc(64);
    let counted = |seat: &mut LinesSeat| {
        shared.fetch_add(1, Relaxed);
        alloc(seat)
    };
    let count = steady(&mut machine(2), 8, counted, kfree);
    assert_eq!(count.shared_lines, 1, "{count:?}");
    assert!(count.transfers > count.operations / 2, "{count:?}");
}

#[test]
fn frees_by_another_cpu_are_counted() {
    // Not the steady state of a CPU alone: what one allocates, another frees.
    let mut machine = machine(2);
    let mut window = Vec::new();
    for round in 0..200 {
        let [first, second] = &mut machine.seats[..] else {
            unreachable!("two CPUs");
        };
        let (addr, of_first) = record(|| first.kmalloc(&KvRequest::new(64)).unwrap());
        let ((), of_second) = record(|| kfree(second, addr));
        if round >= 100 {
            window.extend(of_first.into_iter().map(|access| (0, access)));
            window.extend(of_second.into_iter().map(|access| (1, access)));
        }
    }
    let count = say(
        "kmalloc of 64, freed remotely",
        2,
        count(&machine, 100, &window),
    );
    assert!(count.transfers > 0);
}
