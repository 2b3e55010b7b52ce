//! Threads on a host: every frame that a thread gets is its alone, whatever the others do.
//!
//! Each frame carries its owner's pattern, written through the direct map. A block goes from the
//! thread that allocated it to the next one, which checks the pattern and frees the block: so every
//! free is a foreign one. A table of owned frames is the second witness.

use framewright::frame::{AllocError, Seat, ZoneLayout};
use framewright::platform::FramePlatform;
use framewright::policy::Config;
use framewright::{CpuId, Frame, Mobility, Order};
use framewright_linux::platform::NoSlot;
use framewright_linux::ram::FRAME_BYTES;
use framewright_linux::{Host, HostError, Linux, Options, Ram, RamPages, SlotError};
use framewright_sim::Random;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// 64 MiB, not starting at a pageblock.
const START: u64 = 1000;
const FRAMES: u64 = 16384;

fn options(cpus: u16) -> Options {
    Options::new(ZoneLayout::new(Frame(START), FRAMES).with_cpus(cpus))
}

/// The host, or a line that says why not.
fn host(cpus: u16) -> Option<Host> {
    match Host::new(&options(cpus)) {
        Err(HostError::NoMembarrier) => {
            eprintln!("skipped: {}", HostError::NoMembarrier);
            None
        }
        host => Some(host.unwrap()),
    }
}

fn order(order: u64) -> Order {
    Order::new(order as u8).unwrap()
}

/// A block on its way to the thread that frees it.
struct SentBlock {
    frame: Frame,
    order: Order,
    key: u64,
}

/// What all threads know.
struct OwnershipOracle<'h> {
    ram: &'h Ram,
    owned: Vec<AtomicBool>,
    checked: AtomicU64,
    /// Requests that failed although they may stop the other threads for what these have cached.
    failed: AtomicU64,
}

impl<'h> OwnershipOracle<'h> {
    fn new(ram: &'h Ram) -> Self {
        Self {
            ram,
            owned: (0..FRAMES).map(|_| AtomicBool::new(false)).collect(),
            checked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    fn frames(parcel: &SentBlock) -> impl Iterator<Item = Frame> + use<> {
        let first = parcel.frame.0;
        (first..first + parcel.order.frames()).map(Frame)
    }

    fn is_owned(&self, frame: Frame) -> &AtomicBool {
        &self.owned[(frame.0 - START) as usize]
    }

    /// A pattern that depends on the frame and on its owner, and differs from word to word.
    fn pattern(frame: Frame, key: u64) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        let mut word = frame.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key;
        for to in bytes.chunks_exact_mut(8) {
            word = word.rotate_left(7).wrapping_add(key);
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn fill(&self, parcel: &SentBlock) {
        for frame in Self::frames(parcel) {
            let twice = self.is_owned(frame).swap(true, Relaxed);
            assert!(!twice, "frame {frame} was handed out twice");
            let pattern = Self::pattern(frame, parcel.key);
            self.ram.write(frame, &pattern).unwrap();
        }
    }

    fn check_and_free<B: FramePlatform>(
        &self,
        seat: &mut Seat<'_, '_, Linux<B>>,
        parcel: &SentBlock,
    ) {
        let mut found = [0; FRAME_BYTES];
        for frame in Self::frames(parcel) {
            self.ram.read(frame, &mut found).unwrap();
            let expected = Self::pattern(frame, parcel.key);
            assert!(found == expected, "frame {frame} was overwritten");
            assert!(self.is_owned(frame).swap(false, Relaxed));
            self.checked.fetch_add(1, Relaxed);
        }
        seat.free(parcel.frame, parcel.order).unwrap();
    }
}

/// One thread's part: allocates until it has had its share, hands on, frees what comes.
fn work<B: FramePlatform + Clone>(
    host: &Host<B>,
    oracle: &OwnershipOracle<'_>,
    (seed, share): (u64, u64),
    next: Sender<SentBlock>,
    from_before: &Receiver<SentBlock>,
) {
    let mut seat = host.seat().unwrap();
    let mut random = Random::new(seed);
    let mut had = 0;
    while had < share {
        let order = order(match random.remainder(64) {
            0 => 9,
            1 => 5,
            n => n % 4,
        });
        let mobility = Mobility::ALL[random.remainder(3) as usize];
        match seat.alloc(order, mobility) {
            Ok(frame) => {
                let key = random.remainder(u64::MAX);
                let parcel = SentBlock { frame, order, key };
                oracle.fill(&parcel);
                had += order.frames();
                next.send(parcel).unwrap();
            }
            // A costly order fails without a stop, and long before memory is full.
            Err(AllocError::Exhausted | AllocError::Fragmented)
                if order > Config::default().stop_order_max => {}
            Err(AllocError::Exhausted | AllocError::Fragmented) => {
                oracle.failed.fetch_add(1, Relaxed);
                // Memory is with the others: make room, or wait until there is some to make.
                match from_before.try_recv() {
                    Ok(parcel) => oracle.check_and_free(&mut seat, &parcel),
                    Err(_) => thread::yield_now(),
                }
            }
            Err(error) => panic!("{error}"),
        }
        // No block comes back before memory was full once, whichever threads run; then often enough
        // that it is not always full.
        if oracle.failed.load(Relaxed) > 0
            && random.remainder(16) == 0
            && let Ok(parcel) = from_before.try_recv()
        {
            oracle.check_and_free(&mut seat, &parcel);
        }
    }
    drop(next);
    // All shares together are more than there is, so some thread finds memory full.
    while oracle.failed.load(Relaxed) == 0 {
        thread::yield_now();
    }
    while let Ok(parcel) = from_before.recv() {
        oracle.check_and_free(&mut seat, &parcel);
    }
}

fn hand_round<B: FramePlatform + Clone + Send + Sync>(host: &Host<B>, threads: usize, share: u64) {
    assert!(threads as u64 * share > FRAMES, "memory becomes full");
    let oracle = OwnershipOracle::new(host.ram());
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..threads).map(|_| channel()).unzip();
    thread::scope(|scope| {
        for (thread, receiver) in receivers.into_iter().enumerate() {
            let next = senders[(thread + 1) % threads].clone();
            let oracle = &oracle;
            scope.spawn(move || work(host, oracle, (thread as u64, share), next, &receiver));
        }
        drop(senders);
    });
    let stats = host.zone().stats();
    assert!(
        oracle.failed.load(Relaxed) > 0,
        "memory must have been full"
    );
    assert!(oracle.checked.load(Relaxed) >= threads as u64 * share);
    assert_eq!(stats.bad_frees, 0);
    assert_eq!(
        stats.pgalloc.iter().sum::<u64>(),
        oracle.checked.load(Relaxed)
    );
    assert!(
        stats.drains > 0,
        "the others' caches must have been drained"
    );
    host.zone().verify().unwrap();
    host.zone().drain();
    assert_eq!(host.zone().recount().free, FRAMES);
}

#[test]
fn no_thread_finds_its_frames_overwritten_with_membarrier() {
    for (threads, share) in [(2, 10_000), (4, 6_000)] {
        let Some(host) = host(threads) else { return };
        hand_round(&host, usize::from(threads), share);
    }
}

#[test]
fn no_thread_finds_its_frames_overwritten_with_fences() {
    let host: Host<()> = Host::fenced(&options(3)).unwrap();
    hand_round(&host, 3, 7_000);
}

#[test]
fn a_starving_thread_gets_what_the_others_have_cached() {
    let Some(host) = host(3) else { return };
    let zero = Order::ZERO;
    let cached = thread::scope(|scope| {
        // One thread that has ended, and one that is there and idle, with full caches.
        let fill_cache = || {
            let mut seat = host.seat().unwrap();
            let mut frames = [Frame(0); 64];
            seat.alloc_bulk(zero, Mobility::Unmovable, &mut frames)
                .unwrap();
            seat.free_bulk(zero, &frames).unwrap();
            host.zone().recount().cached
        };
        scope.spawn(fill_cache).join().unwrap();
        let (idle, idles) = channel();
        let (stop, stopped) = channel::<()>();
        scope.spawn(move || {
            idle.send(fill_cache()).unwrap();
            stopped.recv().unwrap_err();
        });
        let cached = idles.recv().unwrap();
        let mut seat = host.seat().unwrap();
        let mut got = 0;
        while seat.alloc(zero, Mobility::Movable).is_ok() {
            got += 1;
        }
        assert_eq!(got, FRAMES, "nothing may stay behind in a cache");
        drop(stop);
        cached
    });
    assert!(cached > 0);
    host.zone().verify().unwrap();
}

#[test]
fn a_thread_has_one_seat_and_there_are_as_many_seats_as_slots() {
    let Some(host) = host(2) else { return };
    let seat = host.seat().unwrap();
    let again = host.seat().unwrap_err();
    assert_eq!(again, SlotError::SeatTaken(CpuId(0)));
    assert_eq!(again.to_string(), "the seat of cpu 0 is in use");
    drop(seat);
    let seat = host.seat().unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| {
            let seat = host.seat().unwrap();
            let third = scope.spawn(|| host.seat().map(drop)).join().unwrap();
            let refused = third.unwrap_err();
            assert_eq!(refused, SlotError::NoSlot(NoSlot::AllTaken(2)));
            assert_eq!(refused.to_string(), "all 2 CPU slots are other threads'");
            seat.cpu()
        });
        assert_eq!(second.join().unwrap(), CpuId(1));
        // The second one has ended: its slot is the next one's.
        let next = scope.spawn(|| host.seat().unwrap().cpu()).join().unwrap();
        assert_eq!(next, CpuId(1));
    });
    assert_eq!(seat.cpu(), CpuId(0));
}

#[test]
fn a_host_that_cannot_be_had_says_why() {
    let with = |layout| Host::fenced(&Options::new(layout)).unwrap_err().to_string();
    let good = ZoneLayout::new(Frame(0), 4096);
    assert_eq!(
        with(good.with_cpus(0)),
        "zone 0: number of CPUs 0 is below the minimum 1"
    );
    let empty = with(ZoneLayout::new(Frame(0), 0));
    assert_eq!(empty, "zone 0: number of frames 0 is below the minimum 1");
    assert_eq!(
        HostError::Metadata(12).to_string(),
        "no memory for metadata: Cannot allocate memory (os error 12)"
    );
}

#[test]
fn huge_pages_are_had_or_their_lack_is_reported() {
    let mut options = options(1);
    options.pages = RamPages::Huge;
    let host = Host::fenced(&options).unwrap();
    let report = host.ram().report();
    eprintln!("{report}");
    assert_eq!(report.len_bytes, FRAMES * FRAME_BYTES as u64);
    assert!(report.huge_bytes <= report.len_bytes);
    let text = report.to_string();
    assert!(text.starts_with("64 MiB in a memfd"), "{text}");
    let mut seat = host.seat().unwrap();
    let frame = seat.alloc(order(9), Mobility::Movable).unwrap();
    host.ram().write(frame, &[1; FRAME_BYTES]).unwrap();
    seat.free(frame, order(9)).unwrap();
}
