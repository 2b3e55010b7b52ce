//! What a put and a get cost, and the copies in them alone.

use super::{FRAMES, fill, histogram, key, line, machine, ns, page};
use framewright::platform::ReservePlatform;
use framewright::reserve::{Guest, PoolId};
use framewright::{Frame, Run};
use framewright_linux::platform::Slots;
use framewright_linux::{Linux, Ram, RamPages, Stored};
use hdrhistogram::Histogram;
use std::sync::Arc;
use std::time::Instant;

/// The guest's own pages: 64 MiB.
const OWN: usize = 16_384;
/// Rounds in which guests' calls and copies alone take turns, so that both see the same machine.
const ROUNDS: u64 = 10;

/// Random numbers, always the same (Knuth's MMIX).
struct KnuthNumbers(u64);

impl KnuthNumbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1);
        self.0
    }
}

/// Where the guest's own pages lie.
#[derive(Clone, Copy)]
enum GuestPlace {
    /// At page boundaries, as the frames of a file cache or of a process do.
    Pages,
    /// 16 bytes behind, as an allocator of objects hands out large memory.
    Objects,
}

/// The guest's own pages.
struct OwnPages {
    words: Vec<u64>,
    first: usize,
}

impl OwnPages {
    fn new(place: GuestPlace) -> Self {
        let mut words = vec![0; (OWN + 2) * 512];
        let to_page = words.as_ptr().align_offset(4096);
        let first = match place {
            GuestPlace::Pages => to_page,
            GuestPlace::Objects => to_page + 2,
        };
        for (nth, chunk) in words[first..].chunks_exact_mut(512).enumerate() {
            chunk.copy_from_slice(&page(nth as u64));
        }
        Self { words, first }
    }

    fn get(&mut self, nth: usize) -> &mut [u64; 512] {
        let words = &mut self.words[self.first + nth * 512..];
        words.first_chunk_mut().expect("as many pages")
    }
}

struct GuestTimes {
    gets: Histogram<u64>,
    puts: Histogram<u64>,
    out: Histogram<u64>,
    into: Histogram<u64>,
}

/// Prints what `calls` gets and puts cost.
pub(super) fn measure(guest: &mut Guest<'_, '_, Stored>, pools: [PoolId; 2], calls: u64) {
    let run = Run::new(Frame(0), FRAMES).expect("a run");
    let ram = Arc::new(Ram::new(run, RamPages::Huge).expect("256 MiB"));
    let linux = Linux::new(Slots::new(1)).expect("membarrier");
    let other = Stored::new(linux, ram);
    for frame in 0..FRAMES {
        other.store(Frame(frame), &page(frame));
    }
    println!(
        "\nguests, cold pages at random (reading the clock twice: {} ns)",
        machine::clock_ns()
    );
    for (place, name) in [
        (GuestPlace::Pages, "page-aligned buffers"),
        (
            GuestPlace::Objects,
            "buffers 16 bytes behind a page boundary",
        ),
    ] {
        for (pool, gone) in pools.into_iter().zip([false, true]) {
            fill(guest, pool);
            let mut times = GuestTimes {
                gets: histogram(),
                puts: histogram(),
                out: histogram(),
                into: histogram(),
            };
            let mut own = OwnPages::new(place);
            let mut random = KnuthNumbers(1);
            for _ in 0..ROUNDS {
                calls_of(
                    guest,
                    (pool, gone),
                    calls / ROUNDS,
                    &mut own,
                    &mut random,
                    &mut times,
                );
                copies(
                    &other,
                    calls / ROUNDS / 4,
                    &mut own,
                    &mut random,
                    &mut times,
                );
            }
            let what = if gone { "takes it away" } else { "leaves it" };
            let kind = match (place, gone) {
                (GuestPlace::Pages, false) => "aligned stays",
                (GuestPlace::Pages, true) => "aligned goes",
                (GuestPlace::Objects, false) => "unaligned stays",
                (GuestPlace::Objects, true) => "unaligned goes",
            };
            println!("{name}, a get {what}: {} hits", times.gets.len());
            line(kind, "get", &times.gets, "target 1.0, p99 1.5");
            line(kind, "  the copy out of a frame, alone", &times.out, "");
            line(kind, "put", &times.puts, "target 0.8, p99 1.5");
            line(kind, "  the copy into a frame, alone", &times.into, "");
        }
    }
}

fn calls_of(
    guest: &mut Guest<'_, '_, Stored>,
    (pool, gone): (PoolId, bool),
    calls: u64,
    own: &mut OwnPages,
    random: &mut KnuthNumbers,
    times: &mut GuestTimes,
) {
    for _ in 0..calls {
        let n = random.next();
        let index = n >> 33 & 0xffff;
        let mine = own.get((n >> 13) as usize % OWN);
        let start = Instant::now();
        let hit = guest.get(key(pool, index), mine);
        if hit {
            times.gets.record(ns(start)).expect("in range");
        }
        mine[0] = index;
        let start = Instant::now();
        // Without other guests no put is refused; if one is, it counts as well.
        let _ = guest.put(key(pool, FRAMES + (n >> 20 & 0xff_ffff)), mine);
        times.puts.record(ns(start)).expect("in range");
        if !hit || gone {
            let _ = guest.put(key(pool, index), mine);
        }
    }
}

fn copies(
    other: &Stored,
    calls: u64,
    own: &mut OwnPages,
    random: &mut KnuthNumbers,
    times: &mut GuestTimes,
) {
    for _ in 0..calls {
        let n = random.next();
        let mine = own.get((n >> 13) as usize % OWN);
        let start = Instant::now();
        other.load(Frame(n >> 33 & 0xffff), mine);
        times.out.record(ns(start)).expect("in range");
        let n = random.next();
        let start = Instant::now();
        other.store(Frame(n >> 33 & 0xffff), mine);
        times.into.record(ns(start)).expect("in range");
    }
}
