//! What the loader hands over (PVH): the memory map and the command line.

use core::ffi::{CStr, c_char};
use framewright::{Frame, Run};
use framewright_x86_64::cells::SetOnce;

/// The loader's structure, version 1.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    tables: u64,
    memory_map: u64,
    memory_entries: u32,
}

/// A range of physical addresses.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryRange {
    pub start: u64,
    pub bytes: u64,
    kind: u32,
    reserved: u32,
}

/// The first frame that the boot's page tables do not map: at 4 GiB.
pub const BOOT_MAP_END: Frame = Frame(1 << 20);
/// Below this lie the loader's data, firmware, and the first instructions of other CPUs.
const LOW: u64 = 1 << 20;

impl MemoryRange {
    /// The whole frames of memory in it, from `from` on, and from 1 MiB on in any case.
    pub fn usable_from(&self, from: Frame) -> Option<Run> {
        const MEMORY: u32 = 1;
        let start = self.start.max(LOW).div_ceil(Frame::BYTES).max(from.0);
        let frames = ((self.start + self.bytes) / Frame::BYTES).checked_sub(start)?;
        let run = Run::new(Frame(start), frames)?;
        (self.kind == MEMORY && !run.is_empty()).then_some(run)
    }
}

/// What is left of a run without its first frames.
pub fn behind(run: Run, frames: u64) -> Run {
    let left = run.frames().checked_sub(frames);
    let left = left.and_then(|left| Run::new(Frame(run.start().0 + frames), left));
    left.expect("the run is longer")
}

/// A run without its last frames, and those.
pub fn without_end(run: Run, frames: u64) -> (Run, Run) {
    let end = behind(run, run.frames() - frames);
    (
        Run::new(run.start(), run.frames() - frames).expect("it is shorter"),
        end,
    )
}

static COMMAND_LINE: SetOnce<&'static str> = SetOnce::new();

/// Reads the loader's data, which stay where they are: below 1 MiB.
///
/// # Safety
/// `info` is what the loader handed over.
pub unsafe fn read(info: u64) -> &'static [MemoryRange] {
    const MAGIC: u32 = 0x336e_c578;
    // SAFETY: as the caller owes; the map covers these addresses.
    unsafe {
        let info = &*(info as *const StartInfo);
        assert!(
            info.magic == MAGIC && info.version >= 1,
            "not booted by PVH"
        );
        let line = CStr::from_ptr(info.command_line as *const c_char);
        COMMAND_LINE.set(line.to_str().expect("the command line is text"));
        core::slice::from_raw_parts(
            info.memory_map as *const MemoryRange,
            info.memory_entries as usize,
        )
    }
}

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
