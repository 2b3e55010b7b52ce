//! What a loader hands over: the memory and the command line.

use crate::arch::cpu::cells::SetOnce;
use crate::arch::cpu::tables::TableSource;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use framewright::{Context, Frame, Run};

/// A range of physical addresses.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "replay", repr(C))]
pub struct MemoryRange {
    pub start: u64,
    pub bytes: u64,
}

/// No machine here has more ranges of memory.
const RANGES_MAX: usize = 32;
static MEMORY: SetOnce<([MemoryRange; RANGES_MAX], usize)> = SetOnce::new();

/// Keeps what a loader said: the command line, and the ranges that are memory and free.
pub fn found(line: &'static str, memory: impl Iterator<Item = MemoryRange>) {
    COMMAND_LINE.set(line);
    let mut ranges = [MemoryRange { start: 0, bytes: 0 }; RANGES_MAX];
    let mut count = 0;
    for range in memory {
        let place = ranges.get_mut(count);
        *place.expect("at most 32 ranges of memory") = range;
        count += 1;
    }
    MEMORY.set((ranges, count));
}

/// The ranges of memory.
pub fn memory() -> &'static [MemoryRange] {
    MEMORY
        .get()
        .map_or(&[], |(ranges, count)| &ranges[..*count])
}

/// Where the file lies that the loader put beside the kernel (QEMU's `-initrd`), which no range of memory has. Only the kernel
/// that replays looks for one, because each line that others have besides moves what the compiler inlines, and their figures.
#[cfg(feature = "replay")]
pub static MODULE: SetOnce<MemoryRange> = SetOnce::new();

/// The next page that is free, while there is no engine.
pub static NEXT: AtomicU64 = AtomicU64::new(0);

/// The frames for page tables while there is no engine: those behind the image. None goes back, because one CPU maps then.
pub struct BootTables;

impl TableSource for BootTables {
    fn context(&self) -> Context {
        Context::ANY
    }

    fn take_table(&mut self) -> Option<Frame> {
        let next = NEXT.fetch_add(Frame::BYTES, Relaxed);
        Some(Frame(next / Frame::BYTES))
    }

    fn give_back(&mut self, _frame: Frame) {}
}

/// The first frame that the boot's page tables do not map: at 4 GiB.
pub const BOOT_MAP_END: Frame = Frame(1 << 20);

impl MemoryRange {
    /// The whole frames of memory in it, from `from` on.
    pub fn usable_from(&self, from: Frame) -> Option<Run> {
        let start = self.start.div_ceil(Frame::BYTES).max(from.0);
        let frames = ((self.start + self.bytes) / Frame::BYTES).checked_sub(start)?;
        let run = Run::new(Frame(start), frames)?;
        (!run.is_empty()).then_some(run)
    }
}

static COMMAND_LINE: SetOnce<&'static str> = SetOnce::new();

/// The word behind `name=` on the command line.
pub fn word(name: &str) -> Option<&'static str> {
    let mut words = COMMAND_LINE.get()?.split(' ');
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The number behind `name=` on the command line.
pub fn number(name: &str) -> Option<u64> {
    let word = word(name)?;
    let number = word.parse();
    Some(number.unwrap_or_else(|_| panic!("{name}={word}: expected a number")))
}

unsafe extern "C" {
    static boot_root: u8;
    static image_end: u8;
}

/// The root of the page table.
pub fn root() -> Frame {
    Frame((&raw const boot_root) as u64 / Frame::BYTES)
}

/// The first address behind the kernel's image, a page's.
pub fn end_of_image() -> u64 {
    (&raw const image_end) as u64
}
