//! The stream: its header, its parts, and what a word of each means. The laboratory's `flat.rs` has the same form, from the
//! other side.

use super::TRIED;
use crate::boot;
use crate::memory::DIRECT;
use framewright::policy::Fallback;
use framewright::{Frame, Mobility, Order};

/// How a stream begins: `FWREPLAY`, little-endian.
const MAGIC: u64 = u64::from_le_bytes(*b"FWREPLAY");
/// Words of its header.
const HEADER: usize = 16;
/// What the digest is of: all words from here on.
const DIGESTED: usize = 3;

/// Of a word with a frame: the bits of its number; those above are its mobility.
const FRAME_BITS: u32 = 30;

/// FNV-1a, by words in place of bytes.
#[derive(Clone, Copy)]
pub struct StreamDigest(pub u64);

impl StreamDigest {
    pub const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub fn add(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x100_0000_01b3);
    }
}

/// The recording.
pub struct ReplayStream {
    pub frames: u64,
    pub cpus: u16,
    pub fallback: Fallback,
    pub squeeze: u64,
    /// Whether what was in use before lies where it was, in pageblocks with these labels.
    pub labels: Option<&'static [u64]>,
    label_count: u64,
    pub present: &'static [u64],
    init: &'static [u64],
    pub init_count: u64,
    pub allocs: u64,
    pub ops: &'static [u64],
}

impl ReplayStream {
    /// Reads the header, and checks length and digest.
    pub fn read() -> Self {
        let module = boot::MODULE
            .get()
            .expect("a stream beside the kernel: cargo xtask kernel --replay");
        assert!(
            module.start.is_multiple_of(8),
            "the stream lies at {:#x}: its words cannot be read there",
            module.start
        );
        let at = DIRECT.addr(Frame(0)).0 + module.start;
        // SAFETY: the direct map has the module, which is nothing else's and is never written.
        let words =
            unsafe { core::slice::from_raw_parts(at as *const u64, (module.bytes / 8) as usize) };
        assert!(
            words.len() > HEADER && words[0] == MAGIC,
            "the file beside the kernel is no stream"
        );
        assert!(
            words[1] == words.len() as u64 && module.bytes.is_multiple_of(8),
            "the stream has {} bytes, and should have {} words",
            module.bytes,
            words[1]
        );
        let mut digest = StreamDigest::new();
        words[DIGESTED..].iter().for_each(|&word| digest.add(word));
        assert_eq!(digest.0, words[2], "the stream is damaged: its digest");
        let header: [u64; HEADER] = words[..HEADER].try_into().expect("it has so many");
        let [
            _,
            _,
            _,
            frames,
            cpus,
            fallback,
            start,
            squeeze,
            present,
            labels,
            init,
            allocs,
            ops,
            ..,
        ] = header;
        let mut rest = &words[HEADER..];
        let mut part = |words: u64| {
            let words = usize::try_from(words).ok();
            let parts = words.and_then(|words| rest.split_at_checked(words));
            let (part, behind) = parts.expect("the stream is as long as its header says");
            rest = behind;
            part
        };
        let present = present.checked_mul(2).expect("a number of runs");
        let (present, label_words) = (part(present), part(labels.div_ceil(8)));
        // Objects are counted in 32 bits, and the last numbers are no object's.
        let objects = init.checked_add(allocs);
        assert!(
            objects.is_some_and(|objects| objects < u64::from(TRIED)),
            "{init} and {allocs} objects"
        );
        assert!(
            frames > 0 && frames <= 1 << FRAME_BITS,
            "{frames} frames: their numbers have {FRAME_BITS} bits"
        );
        let stream = Self {
            frames,
            cpus: u16::try_from(cpus).expect("a number of CPUs"),
            fallback: usize::try_from(fallback)
                .ok()
                .and_then(|index| Fallback::ALL.get(index).copied())
                .expect("a rule of fallback"),
            squeeze,
            labels: (start == 0).then_some(label_words),
            label_count: labels,
            present,
            init: part(init.div_ceil(2)),
            init_count: init,
            allocs,
            ops: part(ops),
        };
        assert!(rest.is_empty(), "the stream is longer than it says");
        stream
    }

    /// The objects that were there before.
    pub fn init(&self) -> impl Iterator<Item = (u64, Mobility)> {
        let halves = self
            .init
            .iter()
            .flat_map(|&word| [word as u32, (word >> 32) as u32]);
        halves.take(self.init_count as usize).map(unpacked)
    }

    pub fn labels(&self) -> impl Iterator<Item = Mobility> {
        let words = self.labels.unwrap_or(&[]).iter();
        let bytes = words.flat_map(|word| word.to_le_bytes());
        bytes
            .take(self.label_count as usize)
            .map(|byte| mobility(u64::from(byte)))
    }
}

fn mobility(index: u64) -> Mobility {
    Mobility::from_index(index as usize).expect("one of three")
}

/// A frame by its number in the recording's machine, and the mobility of what lies there, in a word.
pub fn packed(frame: u64, mobility: Mobility) -> u32 {
    frame as u32 | (mobility as u32) << FRAME_BITS
}

pub fn unpacked(word: u32) -> (u64, Mobility) {
    let frame = word & ((1 << FRAME_BITS) - 1);
    (u64::from(frame), mobility(u64::from(word >> FRAME_BITS)))
}

/// An operation: its kind in 3 bits, mobility in 2, order in 5, CPU in 7, offset in 15, and in the upper half the object or
/// the milliseconds.
pub struct Operation {
    pub kind: u64,
    pub mobility: Mobility,
    pub order: Order,
    pub cpu: u16,
    pub offset: u64,
    pub value: u32,
}

pub const ALLOC: u64 = 0;
pub const FREE: u64 = 1;
pub const FREE_PART: u64 = 2;
pub const TICK: u64 = 3;
pub const FAILED: u64 = 4;

impl Operation {
    pub fn of(word: u64) -> Self {
        Self {
            kind: word & 7,
            mobility: mobility(word >> 3 & 3),
            order: Order::new((word >> 5 & 31) as u8).expect("an order"),
            cpu: (word >> 10 & 127) as u16,
            offset: word >> 17 & 0x7fff,
            value: (word >> 32) as u32,
        }
    }
}
