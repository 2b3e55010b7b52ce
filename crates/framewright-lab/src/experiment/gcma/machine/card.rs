//! An emulated memory card: its delays, in front of a device or file without them.
//!
//! ```text
//!   Frontswap ──▶ OnCard<SwapFile>  ─┐ turn     ┌───────────────────────────┐
//!   FileCache ──▶ OnCard<DirectFile> ┴────────▶ │ Card: one queue, one rate │
//!                        │                      └───────────────────────────┘
//!                        └──▶ the host's device: what is really transferred
//! ```
//!
//! It changes no contents, and not where they lie. A transfer takes its turn behind all that came
//! before it, with a latency and its bytes over a rate; the thread that asked sleeps until then. So
//! all share the bandwidth as on one card, and a write takes as long as it would there.
//!
//! # What is not here
//! A card's own cache and its pauses for wear levelling; requests that the kernel would have
//! merged. A transfer that is faster on the host than on the card waits; one that is slower on the
//! host stays as slow as it is.
//!
//! # Sources
//! Rates: [`CardTimes::CLASS_10`] names them.

use framewright_linux::file_cache::{Medium, Stamp};
use framewright_linux::ram::FRAME_BYTES;
use framewright_linux::swap::{DeviceUse, SwapDevice};
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use std::time::{Duration, Instant};

/// The most bytes that one command carries: as many as [`SwapFile`](framewright_linux::SwapFile) and a file
/// cache send at once.
const COMMAND_BYTES: u64 = 128 << 10;

/// The times that a card takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CardTimes {
    /// Nanoseconds until the first byte of a read.
    pub read_ns: u64,
    /// Bytes read in a second from there on.
    pub read_bytes_per_s: NonZeroU64,
    /// Nanoseconds that a write takes besides its bytes.
    pub write_ns: u64,
    /// Bytes written in a second.
    pub write_bytes_per_s: NonZeroU64,
}

impl CardTimes {
    /// A class 10 microSD card of 2012 to 2018. The class promises 10 MB/s written in sequence (SD
    /// Association); 20 MB/s read is what remains of the 25 MB/s of the bus. At random, reviews of
    /// cards of that class measure 0.85 ms until a read begins, and 4 KiB written at 2.2 MB/s, 1.9
    /// ms each, of which the bytes are 0.4.
    pub const CLASS_10: Self = Self {
        read_ns: 850_000,
        read_bytes_per_s: NonZeroU64::new(20_000_000).unwrap(),
        write_ns: 1_500_000,
        write_bytes_per_s: NonZeroU64::new(10_000_000).unwrap(),
    };

    const fn read(&self, bytes: u64) -> u64 {
        of(bytes, self.read_ns, self.read_bytes_per_s)
    }

    const fn write(&self, bytes: u64) -> u64 {
        of(bytes, self.write_ns, self.write_bytes_per_s)
    }
}

/// The time of a transfer: a latency for each command, and its bytes.
const fn of(bytes: u64, latency_ns: u64, bytes_per_s: NonZeroU64) -> u64 {
    let commands = if bytes == 0 {
        1
    } else {
        bytes.div_ceil(COMMAND_BYTES)
    };
    commands.saturating_mul(latency_ns)
        + (bytes as u128 * 1_000_000_000 / bytes_per_s.get() as u128) as u64
}

/// One card's queue, shared by all devices and files on it.
#[derive(Debug)]
pub struct Card {
    times: CardTimes,
    begun: Instant,
    /// When it will have done all that was asked of it, in nanoseconds since it began.
    free_at: AtomicU64,
    is_slow: AtomicBool,
    busy_ns: AtomicU64,
}

impl Card {
    /// An idle card.
    #[must_use]
    pub fn new(times: CardTimes) -> Self {
        Self {
            times,
            begun: Instant::now(),
            free_at: AtomicU64::new(0),
            is_slow: AtomicBool::new(true),
            busy_ns: AtomicU64::new(0),
        }
    }

    /// Sets whether transfers take the card's time from now on, as they do at first, or only the
    /// host's, for preparations that are not measured.
    pub fn set_slow(&self, is_slow: bool) {
        self.is_slow.store(is_slow, Relaxed);
    }

    /// How long it has been at work, including the work that it has still to do.
    #[must_use]
    pub fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.load(Relaxed))
    }

    /// Takes a turn of `ns` behind all others, from `now_ns` at the earliest. Returns when the turn
    /// is over.
    fn turn(&self, now_ns: u64, ns: u64) -> u64 {
        self.busy_ns.fetch_add(ns, Relaxed);
        let end = |free_at: u64| free_at.max(now_ns).saturating_add(ns);
        let before = self
            .free_at
            .fetch_update(AcqRel, Relaxed, |free_at| Some(end(free_at)));
        // The closure always has a value.
        before.map_or(now_ns, end)
    }

    /// Runs `work`, and returns when the card is done with it, too.
    fn transfer<R>(&self, ns: u64, work: impl FnOnce() -> R) -> R {
        if !self.is_slow.load(Relaxed) {
            return work();
        }
        let now = self.begun.elapsed().as_nanos() as u64;
        let end = self.begun + Duration::from_nanos(self.turn(now, ns));
        let result = work();
        // Sleeping for no time gives the CPU away, as waiting for a device does.
        std::thread::sleep(end.saturating_duration_since(Instant::now()));
        result
    }
}

/// A swap device, or the file behind a cache, on a card.
///
/// ```
/// use framewright_lab::experiment::gcma::card::{Card, CardTimes, OnCard};
/// use framewright_linux::swap::{SwapDevice, Zram};
/// use std::sync::Arc;
///
/// let card = Arc::new(Card::new(CardTimes::CLASS_10));
/// let device = OnCard::new(Zram::new(16, 1 << 20), Arc::clone(&card));
/// device.write(3, &[1; 512])?;
/// // 1.5 ms, and 4096 bytes at 10 MB/s.
/// assert_eq!(card.busy().as_micros(), 1909);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct OnCard<D> {
    beneath: D,
    card: Arc<Card>,
}

impl<D> OnCard<D> {
    /// `beneath`, as slow as if it lay on `card`.
    pub const fn new(beneath: D, card: Arc<Card>) -> Self {
        Self { beneath, card }
    }

    /// The device or file without the card's time.
    pub const fn beneath(&self) -> &D {
        &self.beneath
    }

    fn reading<R>(&self, bytes: u64, work: impl FnOnce(&D) -> R) -> R {
        let ns = self.card.times.read(bytes);
        self.card.transfer(ns, || work(&self.beneath))
    }

    fn writing<R>(&self, bytes: u64, work: impl FnOnce(&D) -> R) -> R {
        let ns = self.card.times.write(bytes);
        self.card.transfer(ns, || work(&self.beneath))
    }
}

impl<D: SwapDevice> SwapDevice for OnCard<D> {
    fn slots(&self) -> u64 {
        self.beneath.slots()
    }

    fn write(&self, slot: u64, page: &[u64; 512]) -> io::Result<()> {
        self.writing(FRAME_BYTES as u64, |device| device.write(slot, page))
    }

    fn write_run(&self, first: u64, pages: &[[u64; 512]]) -> io::Result<()> {
        let bytes = size_of_val(pages) as u64;
        self.writing(bytes, |device| device.write_run(first, pages))
    }

    fn read(&self, slot: u64, page: &mut [u64; 512]) -> io::Result<()> {
        self.reading(FRAME_BYTES as u64, |device| device.read(slot, page))
    }

    fn read_run(&self, first: u64, pages: &mut [[u64; 512]]) -> io::Result<()> {
        let bytes = size_of_val(pages) as u64;
        self.reading(bytes, |device| device.read_run(first, pages))
    }

    fn discard(&self, slot: u64) {
        self.beneath.discard(slot);
    }

    /// A command without bytes.
    fn sync(&self) -> io::Result<()> {
        self.writing(0, SwapDevice::sync)
    }

    fn bytes_written(&self) -> u64 {
        self.beneath.bytes_written()
    }

    fn in_use(&self) -> &DeviceUse {
        self.beneath.in_use()
    }
}

impl<M: Medium> Medium for OnCard<M> {
    /// A request past the end costs as if the bytes existed: at most a part of one command.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        self.reading(into.len() as u64, |file| file.read_at(into, offset))
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<usize> {
        // A card writes whole pages.
        let bytes = from.len().next_multiple_of(FRAME_BYTES) as u64;
        self.writing(bytes, |file| file.write_at(from, offset))
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.beneath.len_bytes()
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        self.beneath.set_len(len_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.writing(0, Medium::sync)
    }

    fn stamp(&self) -> io::Result<Option<Stamp>> {
        self.beneath.stamp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framewright_linux::swap::{Faulty, SwapOp, Zram};

    const ROUND: CardTimes = CardTimes {
        read_ns: 10,
        read_bytes_per_s: NonZeroU64::new(1_000_000_000).unwrap(),
        write_ns: 1000,
        write_bytes_per_s: NonZeroU64::new(500_000_000).unwrap(),
    };

    #[test]
    fn a_transfer_takes_a_latency_for_each_command_and_its_bytes() {
        assert_eq!(ROUND.read(4096), 10 + 4096);
        assert_eq!(ROUND.write(4096), 1000 + 2 * 4096);
        assert_eq!(ROUND.write(0), 1000);
        assert_eq!(ROUND.read(COMMAND_BYTES), 10 + COMMAND_BYTES);
        assert_eq!(ROUND.read(COMMAND_BYTES + 1), 20 + COMMAND_BYTES + 1);
        // The figures in the card's documentation.
        let card = CardTimes::CLASS_10;
        assert_eq!(card.read(4096), 1_054_800);
        assert_eq!(card.write(4096), 1_909_600);
        assert_eq!(card.write(1 << 20), 8 * 1_500_000 + 104_857_600);
    }

    #[test]
    fn turns_follow_one_another_and_idle_time_is_in_no_turn() {
        let card = Card::new(ROUND);
        assert_eq!(card.turn(100, 50), 150);
        // Three at a time share the card: the last waits for all.
        assert_eq!(card.turn(110, 30), 180);
        assert_eq!(card.turn(110, 30), 210);
        assert_eq!(card.turn(1000, 5), 1005);
        assert_eq!(card.busy(), Duration::from_nanos(115));
    }

    #[test]
    fn what_is_on_a_card_is_what_is_beneath_with_its_errors() {
        let card = Arc::new(Card::new(ROUND));
        let device = OnCard::new(Faulty::new(Zram::new(8, 1 << 20)), Arc::clone(&card));
        device.beneath().fail(SwapOp::Read, 1, 1);
        device.write_run(2, &[[5; 512], [6; 512]]).unwrap();
        let mut page = [0; 512];
        device.read(3, &mut page).unwrap();
        assert_eq!((page, device.slots()), ([6; 512], 8));
        assert!(device.read(2, &mut page).is_err());
        SwapDevice::sync(&device).unwrap();
        device.read_run(2, &mut [[0; 512]; 2]).unwrap();
        let expected =
            ROUND.write(2 * 4096) + 2 * ROUND.read(4096) + ROUND.write(0) + ROUND.read(2 * 4096);
        assert_eq!(card.busy(), Duration::from_nanos(expected));
        card.set_slow(false);
        device.read(3, &mut page).unwrap();
        assert_eq!(
            card.busy(),
            Duration::from_nanos(expected),
            "not the card's"
        );
    }

    #[test]
    fn a_caller_has_the_result_when_the_card_is_done() {
        let card = Arc::new(Card::new(CardTimes::CLASS_10));
        let device = OnCard::new(Zram::new(8, 1 << 20), Arc::clone(&card));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for slot in 0..3 {
                let device = &device;
                scope.spawn(move || device.write(slot, &[slot; 512]).unwrap());
            }
        });
        // A sleep is never shorter than asked for.
        assert!(begun.elapsed() >= card.busy());
    }

    #[test]
    fn a_file_on_a_card_is_written_in_whole_pages() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let plain = std::fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        let card = Arc::new(Card::new(ROUND));
        let file = OnCard::new(plain, Arc::clone(&card));
        assert_eq!(file.write_at(&[7; 100], 0).unwrap(), 100);
        assert_eq!(card.busy(), Duration::from_nanos(ROUND.write(4096)));
        let mut bytes = [0; 200];
        assert_eq!(Medium::read_at(&file, &mut bytes, 0).unwrap(), 100);
        assert_eq!(file.len_bytes().unwrap(), 100);
        Medium::set_len(&file, 10).unwrap();
        assert_eq!(file.stamp().unwrap().unwrap().len_bytes, 10);
        Medium::sync(&file).unwrap();
    }
}
